//! The estimates that metrics are of, out of the products.

use serde::Deserialize;
use waycairn_analysis_api::{AnalysisError, Context, Needs, ProductView};
use waycairn_gaussian::Summaries;
use waycairn_gaussian::metrics::Estimates;
use waycairn_gaussian::settings::{Target, check_targets};

use crate::targets::name;

/// What the builder of `inference` says about it, as far as metrics need it.
#[derive(Debug, Deserialize)]
struct Said {
    levels: Vec<f64>,
    targets: Vec<Target>,
    candidate_count: usize,
    base_measure: String,
}

/// An inference with its truths.
#[derive(Debug)]
pub(crate) struct Inferred<'a> {
    inference: ProductView<'a>,
    said: Said,
    truth: &'a [f32],
    parameters: usize,
}

/// What such a metric needs.
pub(crate) fn needs() -> Needs {
    Needs::default().product("inference").product("observations")
}

impl<'a> Inferred<'a> {
    pub(crate) fn read(context: &'a Context<'_>) -> Result<Self, AnalysisError> {
        let (inference, observations) = (context.product("inference")?, context.product("observations")?);
        let said = Said::deserialize(inference.metadata())
            .map_err(|error| AnalysisError::new(format!("what `inference` says about itself: {error}")))?;
        let parameters = observations.shape("truth")?.last().copied().unwrap_or_default();
        Ok(Self { said, truth: observations.array::<f32>("truth")?, parameters, inference })
    }

    /// The summaries of a target, where it is one.
    pub(crate) fn summaries(&self, target: Target) -> Result<Option<Summaries>, AnalysisError> {
        if !self.said.targets.contains(&target) {
            return Ok(None);
        }
        let name = name(target);
        let values = |what: &str| {
            Ok::<_, AnalysisError>(self.inference.array::<f64>(&format!("{name}_{what}"))?.to_vec())
        };
        Ok(Some(Summaries {
            mode: values("mode")?,
            lower: values("lower")?,
            upper: values("upper")?,
            threshold: values("threshold")?,
            enclosed_mass: values("enclosed_mass")?,
            ess: values("ess")?,
            log_normalizer: values("log_normalizer")?,
            joint_contains_truth: values("joint_contains_truth")?,
        }))
    }

    /// The summaries of the ratio, for a metric of it: refused where that is no target.
    pub(crate) fn ratio(&self, metric: &str) -> Result<Summaries, AnalysisError> {
        check_targets(&self.said.targets, &[metric.to_owned()], &[])?;
        self.summaries(Target::Ratio)?.ok_or_else(|| {
            AnalysisError::new(format!("`{metric}` is of the ratio; add `ratio` to `inference.targets`"))
        })
    }

    pub(crate) fn estimates<'s>(&'s self, summaries: &'s Summaries) -> Estimates<'s> {
        Estimates { summaries, truth: self.truth, levels: &self.said.levels, parameters: self.parameters }
    }

    pub(crate) fn candidate_count(&self) -> usize {
        self.said.candidate_count
    }

    pub(crate) fn base_measure(&self) -> &str {
        &self.said.base_measure
    }
}
