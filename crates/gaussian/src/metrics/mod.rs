//! The ten metrics of the study, and four more, from arrays to what is written: the names of fields are interface.

mod calibration;
mod coverage;
mod error;
mod extension;
mod reference;
mod resolution;
mod verification;

pub use calibration::{Calibration, ExpectedCoverage};
pub use coverage::{Coverage, Width};
pub use error::{Bias, Estimates};
pub use extension::{MedianAbsoluteBias, ParameterCount};
pub use reference::{ExactReference, Posterior, mode_rmse};
pub use resolution::Resolution;
pub use verification::{Normalization, Pairwise, Reweighting, log_mean_ratios};
