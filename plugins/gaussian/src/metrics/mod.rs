//! The metrics of the study: each reads products, and the mathematics makes its answer.

mod calibration;
mod classification;
mod estimates;
mod parameter_count;
mod ratio;
mod reference;
mod verification;

pub use calibration::{SimulationBasedCalibration, Tarp};
pub use classification::ClassificationMetric;
pub use parameter_count::ParameterCountMetric;
pub use ratio::{BiasMetric, CoverageMetric, MedianAbsoluteBiasMetric, ResolutionMetric, WidthMetric};
pub use reference::{ExactReferenceMetric, PosteriorMetric};
pub use verification::{NormalizationMetric, PairwiseMetric, ReweightingMetric};
