//! The metric `bias`: how far modes lie from the truth.

use serde::{Deserialize, Serialize};

use crate::density::Summaries;
use crate::error::GaussianError;

/// The summaries of a target with the truths of its cases.
#[derive(Clone, Copy, Debug)]
pub struct Estimates<'a> {
    /// Of N cases.
    pub summaries: &'a Summaries,
    /// \[N, p\].
    pub truth: &'a [f32],
    /// L of them.
    pub levels: &'a [f64],
    /// p.
    pub parameters: usize,
}

impl Estimates<'_> {
    /// How many cases there are, if all arrays have the lengths for it.
    pub(crate) fn cases(&self) -> Result<usize, GaussianError> {
        let (p, levels) = (self.parameters.max(1), self.levels.len());
        let cases = self.truth.len() / p;
        if cases == 0 {
            return Err(GaussianError::value("truth", "holds no case"));
        }
        GaussianError::length("truth", self.truth.len(), cases * p)?;
        let summaries = self.summaries;
        GaussianError::length("mode", summaries.mode.len(), cases * p)?;
        GaussianError::length("lower", summaries.lower.len(), cases * levels * p)?;
        GaussianError::length("upper", summaries.upper.len(), cases * levels * p)?;
        GaussianError::length("enclosed_mass", summaries.enclosed_mass.len(), cases * levels)?;
        GaussianError::length("ess", summaries.ess.len(), cases)?;
        GaussianError::length("joint_contains_truth", summaries.joint_contains_truth.len(), cases * levels)?;
        Ok(cases)
    }

    /// Mode less truth \[N, p\].
    pub(crate) fn errors(&self) -> impl Iterator<Item = f64> + Clone {
        self.summaries.mode.iter().zip(self.truth).map(|(mode, truth)| mode - f64::from(*truth))
    }
}

/// The means of rows \[n, width\], column by column.
pub(crate) fn column_means(values: impl Iterator<Item = f64>, width: usize) -> Vec<f64> {
    let (mut sums, mut count) = (vec![0.0; width], 0_usize);
    for (index, value) in values.enumerate() {
        sums[index % width] += value;
        count = index / width + 1;
    }
    sums.iter().map(|sum| sum / count.max(1) as f64).collect()
}

pub(crate) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_usize), |(sum, count), value| (sum + value, count + 1));
    sum / count.max(1) as f64
}

/// Errors of modes over all cases and parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bias {
    /// Mean error.
    pub mean_signed: f64,
    /// Mean size of the error.
    pub mean_absolute: f64,
    /// Root of the mean squared error.
    pub rmse: f64,
    /// Mean error of each parameter.
    pub per_axis_signed: Vec<f64>,
    /// Mean size of the error of each parameter.
    pub per_axis_absolute: Vec<f64>,
}

impl Bias {
    /// Measures estimates.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] where lengths do not fit, and for no case.
    pub fn new(estimates: &Estimates<'_>) -> Result<Self, GaussianError> {
        estimates.cases()?;
        let errors = estimates.errors();
        Ok(Self {
            mean_signed: mean(errors.clone()),
            mean_absolute: mean(errors.clone().map(f64::abs)),
            rmse: libm::sqrt(mean(errors.clone().map(|error| error * error))),
            per_axis_signed: column_means(errors.clone(), estimates.parameters),
            per_axis_absolute: column_means(errors.map(f64::abs), estimates.parameters),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_axis_and_in_all() {
        let summaries = Summaries {
            mode: vec![1.0, 5.0, 4.0, 5.0],
            lower: vec![0.0; 4],
            upper: vec![0.0; 4],
            enclosed_mass: vec![0.7; 2],
            ess: vec![9.0; 2],
            joint_contains_truth: vec![1.0; 2],
            ..Summaries::default()
        };
        let truth = [2.0, 5.0, 2.0, 8.0];
        let estimates = Estimates { summaries: &summaries, truth: &truth, levels: &[0.68], parameters: 2 };
        let bias = Bias::new(&estimates).unwrap();
        assert_eq!((bias.mean_signed, bias.mean_absolute), (-0.5, 1.5));
        assert!((bias.rmse - 3.5_f64.sqrt()).abs() < 1e-12);
        assert_eq!((bias.per_axis_signed, bias.per_axis_absolute), (vec![0.5, -1.5], vec![1.5, 1.5]));
        assert!(Bias::new(&Estimates { truth: &truth[..3], ..estimates }).is_err());
        assert!(Bias::new(&Estimates { truth: &[], ..estimates }).is_err());
    }
}
