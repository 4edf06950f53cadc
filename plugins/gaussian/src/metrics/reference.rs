//! The metrics `posterior` and `exact_reference`: what other targets say of the same cases.

use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration, Sources};
use waycairn_gaussian::metrics::{ExactReference, Posterior};
use waycairn_gaussian::settings::Target;

use super::estimates::{Inferred, needs};
use crate::sources::sources_of;

const SOURCES: Sources = sources_of!(
    [
        "src/metrics/reference.rs",
        "src/metrics/estimates.rs",
        "src/scores.rs",
        "src/sources.rs",
        "src/targets.rs"
    ],
    [METRICS]
);

/// Bias, coverage and width of the posterior.
#[derive(Debug, Default)]
pub struct PosteriorMetric;

impl Analysis for PosteriorMetric {
    fn declare() -> Declaration {
        Declaration::new("posterior", env!("CARGO_PKG_VERSION"), "bias, coverage and width of the posterior")
            .metric()
            .needs(needs())
            .sources(SOURCES)
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let inferred = Inferred::read(context)?;
        let summaries = inferred.summaries(Target::Posterior)?;
        let estimates = summaries.as_ref().map(|summaries| inferred.estimates(summaries));
        Ok(context.emit_metric(&Posterior::new(estimates.as_ref())?)?)
    }
}

/// Bias, coverage and width of the exact target, and how far the learned modes are from its.
#[derive(Debug, Default)]
pub struct ExactReferenceMetric;

impl Analysis for ExactReferenceMetric {
    fn declare() -> Declaration {
        let what =
            "bias, coverage and width of the exact likelihood, and how far the ratio's modes are from its";
        Declaration::new("exact_reference", env!("CARGO_PKG_VERSION"), what)
            .metric()
            .needs(needs())
            .sources(SOURCES)
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let inferred = Inferred::read(context)?;
        let ratio = inferred.ratio("exact_reference")?;
        let exact = inferred.summaries(Target::Exact)?;
        let estimates = exact.as_ref().map(|summaries| inferred.estimates(summaries));
        let found = ExactReference::new(estimates.as_ref(), &inferred.estimates(&ratio))?;
        Ok(context.emit_metric(&found)?)
    }
}
