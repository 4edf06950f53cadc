//! The metrics `coverage` and `width`: how often sets hold the truth, and how wide they are.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::error::{Estimates, column_means};
use crate::error::GaussianError;

/// How often the sets of each level hold the true parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// The levels.
    pub levels: Vec<f64>,
    /// For each, the share of cases and parameters whose truth lies between the bounds of the set.
    pub projected_mean: Vec<f64>,
    /// The same for each parameter \[levels\]\[p\].
    pub projected_per_axis: Vec<Vec<f64>>,
    /// For each level, the share of cases whose truth lies in the joint set.
    pub joint_density: Vec<f64>,
    /// The binomial standard error of each share in `joint_density`: of the share and not of the level, as simulation studies
    /// give it (Morris, White and Crowther 2019), so that shares of two networks can be compared that are both far from the
    /// level. Where all cases or none are inside it is that of a share half a case away, and not 0.
    pub joint_density_standard_error: Vec<f64>,
    /// How many cases there are.
    pub cases: usize,
    /// How many different truths they have: aligned truths repeat, and cases of one truth say less than as many of others.
    pub unique_truths: usize,
    /// What the shares say.
    pub interpretation: String,
}

const INTERPRETATION: &str = "coverage of the true parameter by highest-density sets, over a design of truths and not over \
draws of the prior: a set of level q of an exact posterior holds q of the prior's draws, and of a design only nearly. \
projected_* ask whether the truth lies between the bounds of the joint set on each axis, which is wider than the set; \
joint_density asks whether the density at the truth is at least that of the set's edge; its standard error is binomial, at \
the share that was found.";

impl Coverage {
    /// Measures estimates.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] where lengths do not fit, and for no case.
    pub fn new(estimates: &Estimates<'_>) -> Result<Self, GaussianError> {
        let cases = estimates.cases()?;
        let (p, levels) = (estimates.parameters, estimates.levels.len());
        let summaries = estimates.summaries;
        let inside =
            summaries.lower.iter().zip(&summaries.upper).enumerate().map(|(index, (lower, upper))| {
                let truth = f64::from(estimates.truth[index / (levels * p) * p + index % p]);
                f64::from(u8::from(*lower <= truth && truth <= *upper))
            });
        let per_axis = column_means(inside, levels * p);
        let projected_per_axis: Vec<Vec<f64>> = per_axis.chunks_exact(p).map(<[f64]>::to_vec).collect();
        let joint_density = column_means(summaries.joint_contains_truth.iter().copied(), levels);
        let error = |share: &f64| {
            let half = 0.5 / cases as f64;
            let share = share.clamp(half, 1.0 - half);
            libm::sqrt(share * (1.0 - share) / cases as f64)
        };
        let truths: BTreeSet<Vec<u32>> = estimates
            .truth
            .chunks_exact(p)
            .map(|truth| truth.iter().map(|value| value.to_bits()).collect())
            .collect();
        Ok(Self {
            levels: estimates.levels.to_vec(),
            projected_mean: projected_per_axis
                .iter()
                .map(|axes| axes.iter().sum::<f64>() / p as f64)
                .collect(),
            projected_per_axis,
            joint_density_standard_error: joint_density.iter().map(error).collect(),
            joint_density,
            cases,
            unique_truths: truths.len(),
            interpretation: INTERPRETATION.to_owned(),
        })
    }
}

/// How wide the sets of each level are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Width {
    /// The levels.
    pub levels: Vec<f64>,
    /// For each, the mean distance of the bounds over cases and parameters.
    pub mean: Vec<f64>,
    /// The same for each parameter \[levels\]\[p\].
    pub per_axis: Vec<Vec<f64>>,
}

impl Width {
    /// Measures estimates.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] where lengths do not fit, and for no case.
    pub fn new(estimates: &Estimates<'_>) -> Result<Self, GaussianError> {
        estimates.cases()?;
        let (p, levels, summaries) = (estimates.parameters, estimates.levels.len(), estimates.summaries);
        let widths = summaries.upper.iter().zip(&summaries.lower).map(|(upper, lower)| upper - lower);
        let per_axis: Vec<Vec<f64>> =
            column_means(widths, levels * p).chunks_exact(p).map(<[f64]>::to_vec).collect();
        Ok(Self {
            levels: estimates.levels.to_vec(),
            mean: per_axis.iter().map(|axes| axes.iter().sum::<f64>() / p as f64).collect(),
            per_axis,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::density::Summaries;

    #[test]
    fn shares_and_widths_by_level_and_axis() {
        // Two cases, two levels, two axes.
        let summaries = Summaries {
            mode: vec![0.0; 4],
            lower: vec![0.0, 0.0, -1.0, -1.0, 5.0, 5.0, 4.0, 4.0],
            upper: vec![1.0, 2.0, 3.0, 4.0, 6.0, 6.0, 7.0, 7.0],
            enclosed_mass: vec![0.7; 4],
            ess: vec![9.0; 2],
            joint_contains_truth: vec![0.0, 1.0, 1.0, 1.0],
            ..Summaries::default()
        };
        let (truth, levels) = ([1.0, 3.0, 5.5, 9.0], [0.68, 0.95]);
        let estimates = Estimates { summaries: &summaries, truth: &truth, levels: &levels, parameters: 2 };
        let coverage = Coverage::new(&estimates).unwrap();
        assert_eq!(coverage.projected_per_axis, [[1.0, 0.0], [1.0, 0.5]]);
        assert_eq!(coverage.projected_mean, [0.5, 0.75]);
        assert_eq!(coverage.joint_density, [0.5, 1.0]);
        assert_eq!((coverage.cases, coverage.unique_truths), (2, 2));
        // Of the share 1/2; of 2 of 2 as of 1.5, where it were 0, and no network is that sure after two cases.
        let errors = [(0.25_f64 / 2.0).sqrt(), (0.75_f64 * 0.25 / 2.0).sqrt()];
        for (found, expected) in coverage.joint_density_standard_error.iter().zip(errors) {
            assert!((found - expected).abs() < 1e-12, "{found}, not {expected}");
        }
        let width = Width::new(&estimates).unwrap();
        assert_eq!(width.per_axis, [[1.0, 1.5], [3.5, 4.0]]);
        assert_eq!(width.mean, [1.25, 3.75]);
    }
}
