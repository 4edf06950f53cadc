//! The product `showcase_predictions`: learned log ratios of the showcase.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use waycairn_analysis_api::{
    AnalysisError, BuildContext, Product, ProductDeclaration, ProductNeeds, Sources, Study,
};
use waycairn_gaussian::ThetaPairs;
use waycairn_gaussian::settings::ShowcaseSettings;

use super::step::{axes, product_of, read, saved_within, selected, steps};
use crate::model::Evaluation;
use crate::ratio::{ends, log_ratio};
use crate::sources::sources_of;
use crate::study::section;

const SOURCES: Sources = sources_of!(
    [
        "src/products/showcase_predictions.rs",
        "src/products/step.rs",
        "src/model.rs",
        "src/ratio.rs",
        "src/sources.rs",
        "src/study.rs",
    ],
    [NETWORK]
);

/// Learned log ratios of the target over the source, on the source samples.
#[derive(Debug)]
pub struct ShowcasePredictions;

#[derive(Serialize, Deserialize)]
struct Selected {
    evaluation: Evaluation,
    /// Rows of the network, which the observations say too.
    model_evaluations: u64,
}

impl Product for ShowcasePredictions {
    fn declare() -> ProductDeclaration {
        let needs = ProductNeeds::default().product("showcase_observations").model().backend();
        ProductDeclaration::new(
            "showcase_predictions",
            1,
            "learned log ratios on the showcase's source samples",
        )
        .needs(needs)
        .sources(SOURCES)
    }

    fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
        let settings: ShowcaseSettings = section(study)?;
        let settings = selected(&Selected {
            evaluation: Evaluation::read(study)?,
            model_evaluations: product_of(&[settings.samples, 2]),
        })?;
        saved_within(study, &["showcase.samples"], settings, Self::estimate)
    }

    fn estimate(selected: &Value) -> Result<Value, AnalysisError> {
        let rows = read::<Selected>(selected)?.model_evaluations;
        Ok(json!({"model_evaluations": rows, "bytes": product_of(&[rows, 4])}))
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        let Selected { evaluation, .. } = context.settings_as()?;
        let observations = context.product("showcase_observations")?;
        let ([samples, d], [_, p]) =
            (axes("source", observations.shape("source")?)?, axes("theta", observations.shape("theta")?)?);
        let x = observations.array::<f32>("source")?;
        let ends = ends(&ThetaPairs::from_values(observations.array::<f64>("theta")?.to_vec(), p)?);
        let network = evaluation.architecture.network(&context.weights()?, d, p)?;
        let ratios = context.array::<f64>("log_ratio", &[samples])?.into_values();
        steps(context, samples, evaluation.at_once(2), "samples", |rows| {
            let found = log_ratio(&network, &x[rows.start * d..rows.end * d], &ends)?;
            ratios[rows].copy_from_slice(&found);
            Ok(())
        })?;
        context.metadata("source_samples", &samples)?;
        Ok(())
    }
}
