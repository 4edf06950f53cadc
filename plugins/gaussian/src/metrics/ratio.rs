//! The metrics of the learned ratio: `bias`, `coverage`, `width`, `resolution`, `median_absolute_bias`.

use serde::Serialize;
use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration, Sources};
use waycairn_gaussian::GaussianError;
use waycairn_gaussian::metrics::{Bias, Coverage, Estimates, MedianAbsoluteBias, Resolution, Width};

use super::estimates::{Inferred, needs};
use crate::sources::sources_of;

const SOURCES: Sources = sources_of!(
    ["src/metrics/ratio.rs", "src/metrics/estimates.rs", "src/scores.rs", "src/sources.rs", "src/targets.rs"],
    [METRICS]
);

fn declaration(name: &str, what: &str) -> Declaration {
    Declaration::new(name, env!("CARGO_PKG_VERSION"), what).metric().needs(needs()).sources(SOURCES)
}

/// Answers with what is measured of the ratio's estimates.
fn answer<M: Serialize>(
    context: &Context<'_>,
    name: &str,
    measure: impl FnOnce(&Inferred<'_>, &Estimates<'_>) -> Result<M, GaussianError>,
) -> Result<(), AnalysisError> {
    let inferred = Inferred::read(context)?;
    let summaries = inferred.ratio(name)?;
    let measured = measure(&inferred, &inferred.estimates(&summaries))?;
    Ok(context.emit_metric(&measured)?)
}

/// Errors of the modes.
#[derive(Debug, Default)]
pub struct BiasMetric;

impl Analysis for BiasMetric {
    fn declare() -> Declaration {
        declaration("bias", "errors of the ratio's modes")
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        answer(context, "bias", |_, estimates| Bias::new(estimates))
    }
}

/// How often sets hold the truth.
#[derive(Debug, Default)]
pub struct CoverageMetric;

impl Analysis for CoverageMetric {
    fn declare() -> Declaration {
        declaration("coverage", "how often the ratio's sets hold the true parameter")
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        answer(context, "coverage", |_, estimates| Coverage::new(estimates))
    }
}

/// How wide sets are.
#[derive(Debug, Default)]
pub struct WidthMetric;

impl Analysis for WidthMetric {
    fn declare() -> Declaration {
        declaration("width", "how wide the ratio's sets are")
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        answer(context, "width", |_, estimates| Width::new(estimates))
    }
}

/// Whether candidates are dense enough.
#[derive(Debug, Default)]
pub struct ResolutionMetric;

impl Analysis for ResolutionMetric {
    fn declare() -> Declaration {
        declaration("resolution", "how many candidates carry the ratio's densities")
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        answer(context, "resolution", |inferred, estimates| {
            Resolution::new(estimates, inferred.candidate_count(), inferred.base_measure())
        })
    }
}

/// The median size of the modes' errors.
#[derive(Debug, Default)]
pub struct MedianAbsoluteBiasMetric;

impl Analysis for MedianAbsoluteBiasMetric {
    fn declare() -> Declaration {
        declaration("median_absolute_bias", "the median size of the errors of the ratio's modes")
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        answer(context, "median_absolute_bias", |_, estimates| MedianAbsoluteBias::new(estimates))
    }
}
