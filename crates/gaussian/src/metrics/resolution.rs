//! The metric `resolution`: whether candidates are dense enough for the densities that they resolve.

use serde::{Deserialize, Serialize};

use super::error::{Estimates, column_means};
use crate::error::GaussianError;
use crate::rank::median;

/// Below this many effective candidates, bounds are as coarse as the candidates.
const FEW: f64 = 50.0;

/// How many candidates carry a density.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resolution {
    /// How many candidates there are.
    pub candidate_count: usize,
    /// The least effective number of candidates of a case.
    pub candidate_ess_min: f64,
    /// The median one.
    pub candidate_ess_median: f64,
    /// The median one as a share of all.
    pub candidate_ess_fraction_median: f64,
    /// For each level, the mean mass of the sets: above the level by what the candidates are coarse.
    pub mean_enclosed_mass: Vec<f64>,
    /// `Lebesgue`, `counting` or `mixed`.
    pub base_measure: String,
    /// Said where candidates are few; else null.
    pub warning: Option<String>,
}

impl Resolution {
    /// Measures estimates over so many candidates of that measure.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] where lengths do not fit, and for no case.
    pub fn new(
        estimates: &Estimates<'_>,
        candidates: usize,
        base_measure: &str,
    ) -> Result<Self, GaussianError> {
        estimates.cases()?;
        let ess = &estimates.summaries.ess;
        let least = ess.iter().copied().fold(f64::INFINITY, f64::min);
        let middle = median(ess).unwrap_or(f64::NAN);
        let masses = column_means(estimates.summaries.enclosed_mass.iter().copied(), estimates.levels.len());
        // A lattice is what it is: its points are the whole support.
        let few = least < FEW && base_measure != "counting";
        Ok(Self {
            candidate_count: candidates,
            candidate_ess_min: least,
            candidate_ess_median: middle,
            candidate_ess_fraction_median: middle / candidates.max(1) as f64,
            mean_enclosed_mass: masses,
            base_measure: base_measure.to_owned(),
            warning: few.then(|| {
                format!(
                    "the density of one case rests on {least:.1} effective candidates: bounds and modes are as coarse as \
                     they are; raise `inference.candidate_count`"
                )
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::density::Summaries;

    #[test]
    fn effective_candidates_are_counted_and_few_are_warned_of() {
        let summaries = Summaries {
            mode: vec![0.0; 3],
            lower: vec![0.0; 3],
            upper: vec![0.0; 3],
            enclosed_mass: vec![0.7, 0.8, 0.9],
            ess: vec![90.0, 30.0, 60.0],
            joint_contains_truth: vec![1.0; 3],
            ..Summaries::default()
        };
        let estimates = Estimates { summaries: &summaries, truth: &[0.0; 3], levels: &[0.68], parameters: 1 };
        let found = Resolution::new(&estimates, 120, "Lebesgue").unwrap();
        assert_eq!((found.candidate_ess_min, found.candidate_ess_median), (30.0, 60.0));
        assert_eq!(found.candidate_ess_fraction_median, 0.5);
        assert!((found.mean_enclosed_mass[0] - 0.8).abs() < 1e-12);
        assert!(found.warning.is_some_and(|warning| warning.contains("30.0")));
        assert_eq!(Resolution::new(&estimates, 51, "counting").unwrap().warning, None);
    }
}
