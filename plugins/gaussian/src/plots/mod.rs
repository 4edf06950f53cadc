//! The plots of the study. Each is a thin analysis over functions of slices; every figure is a PNG and an SVG of one drawing.
//!
//! | file | what |
//! | --- | --- |
//! | `figure`, `axis`, `layers` | how all are drawn with `plotters`, which makes the SVG |
//! | `bitmap` | the PNG of that SVG |
//! | `histogram` | bins |
//! | `input`, `words` | what of products and settings plots read, and how they say it |
//! | the others | one plot each |

mod axis;
mod bitmap;
mod figure;
mod histogram;
mod input;
mod layers;
mod words;

mod calibration;
mod inference;
mod observations;
mod pairwise;
mod prior;
mod reweighting;
mod showcase;
mod tarp;
mod training;

#[cfg(test)]
mod tests;

pub use calibration::SimulationBasedCalibrationPlot;
pub use inference::InferencePlot;
pub use observations::ObservationHistogramPlot;
pub use pairwise::PairwisePlot;
pub use prior::PriorPlot;
pub use reweighting::ReweightingPlot;
pub use showcase::ShowcasePlot;
pub use tarp::TarpPlot;
pub use training::TrainingPlot;
