//! The plots of the study. Each is a thin analysis over functions of slices; every figure is a PNG and an SVG of one drawing.
//!
//! | file | what |
//! | --- | --- |
//! | `canvas`, `font` | shapes in points of 1/72 inch, and the font that is embedded |
//! | `raster`, `vector` | the formats |
//! | `axis`, `figure`, `histogram` | ticks, layout, layers, legends, bins |
//! | `input` | what of products and settings plots read |
//! | the others | one plot each |

mod axis;
mod canvas;
mod figure;
mod font;
mod histogram;
mod input;
mod raster;
mod vector;

mod calibration;
mod cohort;
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
pub use cohort::{CohortSeries, cohort_figure};
pub use inference::InferencePlot;
pub use observations::ObservationHistogramPlot;
pub use pairwise::PairwisePlot;
pub use prior::PriorPlot;
pub use reweighting::ReweightingPlot;
pub use showcase::ShowcasePlot;
pub use tarp::TarpPlot;
pub use training::TrainingPlot;
