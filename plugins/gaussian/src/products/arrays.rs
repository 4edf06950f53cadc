//! The arrays of one target in the product `inference`.

use waycairn_analysis_api::{AnalysisError, BuildContext};
use waycairn_gaussian::Summaries;
use waycairn_gaussian::settings::Target;

use crate::targets::name;

/// How long the arrays of a target are.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) cases: usize,
    pub(crate) parameters: usize,
    pub(crate) levels: usize,
    pub(crate) retained: usize,
    pub(crate) candidates: usize,
}

/// The arrays of one target.
#[derive(Debug)]
pub(crate) struct Arrays<'a> {
    mode: &'a mut [f64],
    lower: &'a mut [f64],
    upper: &'a mut [f64],
    threshold: &'a mut [f64],
    enclosed_mass: &'a mut [f64],
    ess: &'a mut [f64],
    log_normalizer: &'a mut [f64],
    joint_contains_truth: &'a mut [f64],
    pub(crate) log_score: &'a mut [f64],
}

impl<'a> Arrays<'a> {
    pub(crate) fn new(
        context: &'a BuildContext<'_>,
        target: Target,
        shape: &Shape,
    ) -> Result<Self, AnalysisError> {
        let Shape { cases, parameters, levels, retained, candidates } = *shape;
        let name = name(target);
        let array = |what: &str, shape: &[usize]| {
            Ok::<_, AnalysisError>(context.array::<f64>(&format!("{name}_{what}"), shape)?.into_values())
        };
        Ok(Self {
            mode: array("mode", &[cases, parameters])?,
            lower: array("lower", &[cases, levels, parameters])?,
            upper: array("upper", &[cases, levels, parameters])?,
            threshold: array("threshold", &[cases, levels])?,
            enclosed_mass: array("enclosed_mass", &[cases, levels])?,
            ess: array("ess", &[cases])?,
            log_normalizer: array("log_normalizer", &[cases])?,
            joint_contains_truth: array("joint_contains_truth", &[cases, levels])?,
            log_score: array("log_score", &[retained, candidates])?,
        })
    }

    /// Puts the summaries of some cases in their place.
    pub(crate) fn put(&mut self, start: usize, found: &Summaries, shape: &Shape) {
        let put = |into: &mut [f64], values: &[f64], width: usize| {
            into[start * width..][..values.len()].copy_from_slice(values);
        };
        let (p, levels) = (shape.parameters, shape.levels);
        put(self.mode, &found.mode, p);
        put(self.lower, &found.lower, levels * p);
        put(self.upper, &found.upper, levels * p);
        put(self.threshold, &found.threshold, levels);
        put(self.enclosed_mass, &found.enclosed_mass, levels);
        put(self.ess, &found.ess, 1);
        put(self.log_normalizer, &found.log_normalizer, 1);
        put(self.joint_contains_truth, &found.joint_contains_truth, levels);
    }
}
