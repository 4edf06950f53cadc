//! The product `normalization_predictions`: log ratios whose means should be 1.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use waycairn_analysis_api::{
    AnalysisError, BuildContext, Product, ProductDeclaration, ProductNeeds, Sources, Study,
};
use waycairn_gaussian::settings::VerificationSettings;

use super::step::{axes, product_of, read, saved_within, selected, steps};
use crate::model::Evaluation;
use crate::sources::sources_of;
use crate::study::section;

const SOURCES: Sources = sources_of!(
    [
        "src/products/normalization_predictions.rs",
        "src/products/step.rs",
        "src/model.rs",
        "src/sources.rs",
        "src/study.rs",
    ],
    [NETWORK]
);

/// Logits of every sample of the evidence at every point of the check.
#[derive(Debug)]
pub struct NormalizationPredictions;

#[derive(Serialize, Deserialize)]
struct Selected {
    evaluation: Evaluation,
    /// Rows of the network, which the observations say too.
    model_evaluations: u64,
}

impl Product for NormalizationPredictions {
    fn declare() -> ProductDeclaration {
        let what = "log ratios of every sample of the evidence at every point of the normalisation check";
        let needs = ProductNeeds::default().product("normalization_observations").model().backend();
        ProductDeclaration::new("normalization_predictions", 1, what).needs(needs).sources(SOURCES)
    }

    fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
        let settings: VerificationSettings = section(study)?;
        let settings = selected(&Selected {
            evaluation: Evaluation::read(study)?,
            model_evaluations: product_of(&[settings.marginal_samples, settings.normalization_thetas]),
        })?;
        saved_within(
            study,
            &["verification.marginal_samples", "verification.normalization_thetas"],
            settings,
            Self::estimate,
        )
    }

    fn estimate(selected: &Value) -> Result<Value, AnalysisError> {
        let rows = read::<Selected>(selected)?.model_evaluations;
        Ok(json!({"model_evaluations": rows, "bytes": product_of(&[rows, 8])}))
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        let Selected { evaluation, .. } = context.settings_as()?;
        let observations = context.product("normalization_observations")?;
        let ([samples, d], [count, p]) =
            (axes("x", observations.shape("x")?)?, axes("theta", observations.shape("theta")?)?);
        let (x, theta) = (observations.array::<f32>("x")?, observations.array::<f32>("theta")?);
        let network = evaluation.architecture.network(&context.weights()?, d, p)?;
        let ratios = context.array::<f64>("log_ratio", &[count, samples])?.into_values();
        let points = ratios.chunks_mut(samples.max(1)).zip(theta.chunks(p));
        for (index, (ratios, theta)) in points.enumerate() {
            let what = format!("samples at point {} of {count}", index + 1);
            steps(context, samples, evaluation.at_once(1), &what, |rows| {
                let found = network.logits(&x[rows.start * d..rows.end * d], theta)?;
                ratios[rows].copy_from_slice(&found);
                Ok(())
            })?;
        }
        context.metadata("expected_ratio_mean", &1.0)?;
        context.metadata("samples", &samples)?;
        context.metadata("theta_count", &count)?;
        Ok(())
    }
}
