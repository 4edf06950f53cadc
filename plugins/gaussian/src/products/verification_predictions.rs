//! The product `verification_predictions`: what a network says of the pairs, beside the truth.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use waycairn_analysis_api::{
    AnalysisError, BuildContext, Product, ProductDeclaration, ProductNeeds, Sources, Study,
};
use waycairn_gaussian::settings::VerificationSettings;
use waycairn_gaussian::{Problem, ThetaPairs};

use super::step::{axes, product_of, read, saved_within, selected, steps};
use crate::model::Evaluation;
use crate::ratio::{ORIENTATION, ends, log_ratio};
use crate::sources::sources_of;
use crate::study::{Posed, section};

const SOURCES: Sources = sources_of!(
    [
        "src/products/verification_predictions.rs",
        "src/products/step.rs",
        "src/model.rs",
        "src/ratio.rs",
        "src/sources.rs",
        "src/study.rs",
    ],
    [VERIFICATION, NETWORK]
);

/// What a network says of the same pairs.
#[derive(Debug)]
pub struct VerificationPredictions;

#[derive(Serialize, Deserialize)]
struct Selected {
    problem: Problem,
    evaluation: Evaluation,
    /// Rows of the network, which the observations say too.
    model_evaluations: u64,
}

impl Product for VerificationPredictions {
    fn declare() -> ProductDeclaration {
        let what = "learned and exact log ratios of the verification pairs, on probes and source samples";
        let needs = ProductNeeds::default().product("verification_observations").model().backend();
        ProductDeclaration::new("verification_predictions", 1, what).needs(needs).sources(SOURCES)
    }

    fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
        let settings: VerificationSettings = section(study)?;
        let rows = settings.samples_per_endpoint.saturating_mul(2).saturating_add(settings.source_samples);
        let settings = selected(&Selected {
            problem: Posed::read(study)?.problem,
            evaluation: Evaluation::read(study)?,
            model_evaluations: product_of(&[settings.pairs, rows, 2]),
        })?;
        saved_within(
            study,
            &["verification.pairs", "verification.samples_per_endpoint", "verification.source_samples"],
            settings,
            Self::estimate,
        )
    }

    fn estimate(selected: &Value) -> Result<Value, AnalysisError> {
        let rows = read::<Selected>(selected)?.model_evaluations;
        // Of each row and its partner a learned and an exact ratio.
        Ok(json!({"model_evaluations": rows, "bytes": product_of(&[rows, 8])}))
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        let Selected { problem, evaluation, .. } = context.settings_as()?;
        let observations = context.product("verification_observations")?;
        let [count, probes, d] = axes("probe_x", observations.shape("probe_x")?)?;
        let [_, sources, _] = axes("source_x", observations.shape("source_x")?)?;
        let p = problem.parameters().len();
        let network = evaluation.architecture.network(&context.weights()?, d, p)?;
        let pairs = observations.array::<f64>("pairs")?;
        let (probe_x, source_x) =
            (observations.array::<f32>("probe_x")?, observations.array::<f32>("source_x")?);
        let probe = context.array::<f64>("probe_log_ratio", &[count, probes])?.into_values();
        let source = context.array::<f64>("source_log_ratio", &[count, sources])?.into_values();
        let probe_exact = context.array::<f64>("probe_exact_log_ratio", &[count, probes])?.into_values();
        probe_exact.copy_from_slice(observations.array::<f64>("exact_probe_log_ratio")?);
        let source_exact = context.array::<f64>("source_exact_log_ratio", &[count, sources])?.into_values();

        let at_once =
            evaluation.at_once((probes + sources).saturating_mul(2)).max(rayon::current_num_threads());
        steps(context, count, at_once, "pairs", |range| {
            let of = |width: usize| range.start * width..range.end * width;
            let learned =
                probe[of(probes)].par_chunks_mut(probes).zip(source[of(sources)].par_chunks_mut(sources));
            let exact = source_exact[of(sources)].par_chunks_mut(sources);
            let x = probe_x[of(probes * d)]
                .par_chunks(probes * d)
                .zip(source_x[of(sources * d)].par_chunks(sources * d));
            let all = learned.zip(exact).zip(x).zip(pairs[of(2 * p)].par_chunks(2 * p));
            all.try_for_each(|((((probe, source), exact), (probe_x, source_x)), pair)| {
                let one = ThetaPairs::from_values(pair.to_vec(), p)?;
                let ends = ends(&one);
                probe.copy_from_slice(&log_ratio(&network, probe_x, &ends)?);
                source.copy_from_slice(&log_ratio(&network, source_x, &ends)?);
                exact.copy_from_slice(&one.exact_log_ratio(&problem, source_x)?);
                Ok::<_, AnalysisError>(())
            })
        })?;
        context.metadata("pairs", &count)?;
        context.metadata("ratio_orientation", &ORIENTATION)?;
        Ok(())
    }
}
