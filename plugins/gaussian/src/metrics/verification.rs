//! The metrics `pairwise`, `reweighting` and `normalization`: log ratios against the truth, and what they do.

use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration, Needs, ProductView, Sources};
use waycairn_gaussian::metrics::{Normalization, Pairwise, Reweighting};
use waycairn_gaussian::{Reweighted, ThetaPairs};

use crate::sources::sources_of;

const SOURCES: Sources =
    sources_of!(["src/metrics/verification.rs", "src/sources.rs"], [METRICS, VERIFICATION]);

fn declaration(name: &str, what: &str, needs: Needs) -> Declaration {
    Declaration::new(name, env!("CARGO_PKG_VERSION"), what).metric().needs(needs).sources(SOURCES)
}

/// How far apart the points of each pair are.
fn distances(observations: &ProductView<'_>) -> Result<Vec<f64>, AnalysisError> {
    let parameters = observations.shape("pairs")?.last().copied().unwrap_or_default();
    Ok(ThetaPairs::from_values(observations.array::<f64>("pairs")?.to_vec(), parameters)?.distances())
}

/// Errors of learned log ratios.
#[derive(Debug, Default)]
pub struct PairwiseMetric;

impl Analysis for PairwiseMetric {
    fn declare() -> Declaration {
        let needs = Needs::default().product("verification_observations").product("verification_predictions");
        declaration("pairwise", "errors of learned log ratios of pairs of parameter points", needs)
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let distances = distances(&context.product("verification_observations")?)?;
        let predictions = context.product("verification_predictions")?;
        let learned = predictions.array::<f64>("probe_log_ratio")?;
        let exact = predictions.array::<f64>("probe_exact_log_ratio")?;
        Ok(context.emit_metric(&Pairwise::new(learned, exact, &distances)?)?)
    }
}

/// How near reweighted samples come to their targets.
#[derive(Debug, Default)]
pub struct ReweightingMetric;

impl Analysis for ReweightingMetric {
    fn declare() -> Declaration {
        let needs = Needs::default().product("verification_observations").product("reweighting_distances");
        declaration("reweighting", "distances of reweighted samples to their targets", needs)
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let observations = context.product("verification_observations")?;
        let distances = distances(&observations)?;
        let samples = observations.shape("source_x")?.get(1).copied().unwrap_or_default();
        let found = context.product("reweighting_distances")?;
        let values = |name: &str| Ok::<_, AnalysisError>(found.array::<f64>(name)?.to_vec());
        let found = Reweighted {
            learned_w1: values("learned_w1")?,
            exact_w1: values("exact_w1")?,
            unweighted_w1: values("unweighted_w1")?,
            ess: values("ess")?,
            exact_ess: values("exact_ess")?,
        };
        Ok(context.emit_metric(&Reweighting::new(&found, samples, &distances)?)?)
    }
}

/// Whether ratios are normalised.
#[derive(Debug, Default)]
pub struct NormalizationMetric;

impl Analysis for NormalizationMetric {
    fn declare() -> Declaration {
        let needs = Needs::default().product("normalization_predictions");
        declaration("normalization", "the mean ratio under the evidence, which is 1 for the ideal one", needs)
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let predictions = context.product("normalization_predictions")?;
        let points = predictions.shape("log_ratio")?.first().copied().unwrap_or_default();
        let found = Normalization::new(predictions.array::<f64>("log_ratio")?, points)?;
        Ok(context.emit_metric(&found)?)
    }
}
