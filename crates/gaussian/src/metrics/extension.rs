//! Two metrics that show how a study is extended.

use serde::{Deserialize, Serialize};

use super::error::Estimates;
use crate::error::GaussianError;
use crate::network::Network;
use crate::rank::median;

/// The metric `median_absolute_bias`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MedianAbsoluteBias {
    /// The median size of the error of a mode, over cases and parameters.
    pub median_absolute: f64,
}

impl MedianAbsoluteBias {
    /// Measures estimates.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] where lengths do not fit, and for no case.
    pub fn new(estimates: &Estimates<'_>) -> Result<Self, GaussianError> {
        estimates.cases()?;
        let sizes: Vec<f64> = estimates.errors().map(f64::abs).collect();
        Ok(Self { median_absolute: median(&sizes).unwrap_or_default() })
    }
}

/// The metric `parameter_count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterCount {
    /// How many numbers a model learned.
    pub trainable_parameters: usize,
}

impl From<&Network> for ParameterCount {
    fn from(network: &Network) -> Self {
        Self { trainable_parameters: network.trainable_parameters() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::density::Summaries;

    #[test]
    fn the_median_is_over_cases_and_parameters() {
        let summaries =
            Summaries { mode: vec![1.0, 2.0, 3.0, 10.0], ess: vec![1.0; 2], ..Summaries::default() };
        let estimates = Estimates { summaries: &summaries, truth: &[0.0; 4], levels: &[], parameters: 2 };
        assert_eq!(MedianAbsoluteBias::new(&estimates).unwrap().median_absolute, 2.5);
    }
}
