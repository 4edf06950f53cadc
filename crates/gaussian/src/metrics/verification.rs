//! The metrics `pairwise`, `reweighting` and `normalization`: log ratios against the exact ones, and what they do.

use serde::{Deserialize, Serialize};

use super::error::mean;
use crate::error::GaussianError;
use crate::normal::log_sum_exp;
use crate::rank::{median, spearman};
use crate::reweighting::Reweighted;

/// Errors of learned log ratios on probes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pairwise {
    /// Root of the mean squared error over all probes.
    pub rmse_pooled: f64,
    /// Mean size of the error over all probes.
    pub mae_pooled: f64,
    /// The largest size of an error.
    pub max_absolute: f64,
    /// Root of the mean squared error of each pair.
    pub per_pair_rmse: Vec<f64>,
    /// The median of these.
    pub median_pair_rmse: f64,
    /// The largest of these.
    pub worst_pair_rmse: f64,
    /// Rank correlation of distance and error over pairs; null for fewer than three, or where one does not vary.
    pub spearman_distance_rmse: Option<f64>,
    /// What distance is.
    pub distance_definition: String,
}

impl Pairwise {
    /// Measures learned log ratios \[P, n\] against exact ones; `distances` \[P\] are those of the pairs.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] where lengths do not fit, for no probe, and for a ratio that is not finite.
    pub fn new(learned: &[f64], exact: &[f64], distances: &[f64]) -> Result<Self, GaussianError> {
        let pairs = distances.len();
        let each = learned.len() / pairs.max(1);
        if each == 0 {
            return Err(GaussianError::value("probe_log_ratio", "holds nothing"));
        }
        GaussianError::length("probe_log_ratio", learned.len(), each * pairs)?;
        GaussianError::length("probe_exact_log_ratio", exact.len(), learned.len())?;
        let errors: Vec<f64> = learned.iter().zip(exact).map(|(learned, exact)| learned - exact).collect();
        if errors.iter().any(|error| !error.is_finite()) {
            return Err(GaussianError::value(
                "probe_log_ratio",
                "or the exact one holds a value that is not finite",
            ));
        }
        let rmse = |errors: &[f64]| libm::sqrt(mean(errors.iter().map(|error| error * error)));
        let per_pair: Vec<f64> = errors.chunks_exact(each).map(rmse).collect();
        Ok(Self {
            rmse_pooled: rmse(&errors),
            mae_pooled: mean(errors.iter().map(|error| error.abs())),
            max_absolute: errors.iter().fold(0.0, |largest, error| error.abs().max(largest)),
            median_pair_rmse: median(&per_pair).unwrap_or_default(),
            worst_pair_rmse: per_pair.iter().copied().fold(0.0, f64::max),
            spearman_distance_rmse: spearman(distances, &per_pair),
            per_pair_rmse: per_pair,
            distance_definition: "Euclidean distance of theta 0 and theta 1 in the parameters' own units"
                .to_owned(),
        })
    }
}

/// How near reweighted samples come to their targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each name is what, of which weights: the reference defines both")]
pub struct Reweighting {
    pub median_sliced_w1: f64,
    pub worst_sliced_w1: f64,
    pub median_exact_sliced_w1: f64,
    pub median_unweighted_sliced_w1: f64,
    pub median_ess: f64,
    pub median_ess_fraction: f64,
    pub spearman_distance_w1: Option<f64>,
}

impl Reweighting {
    /// Summarises the distances of pairs, each of so many source samples; `distances` \[P\] are those of theta.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] where lengths do not fit, and for no pair.
    pub fn new(found: &Reweighted, source_samples: usize, distances: &[f64]) -> Result<Self, GaussianError> {
        let pairs = found.learned_w1.len();
        GaussianError::length("distances", distances.len(), pairs)?;
        GaussianError::length("ess", found.ess.len(), pairs)?;
        let of = |values: &[f64]| {
            median(values).ok_or_else(|| GaussianError::value("learned_w1", "holds no pair"))
        };
        let ess = of(&found.ess)?;
        Ok(Self {
            median_sliced_w1: of(&found.learned_w1)?,
            worst_sliced_w1: found.learned_w1.iter().copied().fold(0.0, f64::max),
            median_exact_sliced_w1: of(&found.exact_w1)?,
            median_unweighted_sliced_w1: of(&found.unweighted_w1)?,
            median_ess: ess,
            median_ess_fraction: ess / source_samples.max(1) as f64,
            spearman_distance_w1: spearman(distances, &found.learned_w1),
        })
    }
}

/// Whether ratios are normalised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Normalization {
    /// Of each parameter point: log of the mean ratio.
    pub log_mean_ratio_per_theta: Vec<f64>,
    /// What it would be.
    pub expected_log_mean: f64,
    /// Mean size of the difference.
    pub mean_absolute_log_error: f64,
    /// What to keep in mind.
    pub caveat: String,
}

impl Normalization {
    /// Measures log ratios \[points, samples\].
    ///
    /// # Errors
    ///
    /// [`GaussianError`] where lengths do not fit, and for nothing.
    pub fn new(log_ratio: &[f64], points: usize) -> Result<Self, GaussianError> {
        let means = log_mean_ratios(log_ratio, points)?;
        Ok(Self {
            expected_log_mean: 0.0,
            mean_absolute_log_error: mean(means.iter().map(|mean| mean.abs())),
            log_mean_ratio_per_theta: means,
            caveat: "a mean over samples of the evidence: where the likelihood is much narrower than the evidence few \
                     samples carry it, and it is noisy; that it is 1 is necessary for a ratio and not sufficient."
                .to_owned(),
        })
    }
}

/// The log of the mean ratio at each point, from log ratios \[points, samples\]: 0 where the network is normalised.
///
/// # Errors
///
/// [`GaussianError`] where lengths do not fit, or a mean is not finite.
pub fn log_mean_ratios(log_ratio: &[f64], points: usize) -> Result<Vec<f64>, GaussianError> {
    let samples = log_ratio.len() / points.max(1);
    GaussianError::length("log_ratio", log_ratio.len(), samples * points)?;
    if samples == 0 {
        return Err(GaussianError::value("log_ratio", "holds nothing"));
    }
    let count = libm::log(samples as f64);
    let means: Vec<f64> =
        log_ratio.chunks_exact(samples).map(|one| log_sum_exp(one.iter().copied()) - count).collect();
    match means.iter().find(|mean| !mean.is_finite()) {
        None => Ok(means),
        Some(mean) => Err(GaussianError::value("log_ratio", format!("has the log mean {mean}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_pairs_are_pooled_and_single() {
        let found =
            Pairwise::new(&[1.0, 2.0, 0.0, 0.0, 3.0, 0.0], &[0.0, 2.0, 0.0, 0.0, 0.0, 4.0], &[1.0, 0.0, 2.0]);
        let found = found.unwrap();
        assert_eq!((found.mae_pooled, found.max_absolute), (8.0 / 6.0, 4.0));
        assert!((found.rmse_pooled - (26.0_f64 / 6.0).sqrt()).abs() < 1e-12);
        assert_eq!(found.per_pair_rmse, [0.5_f64.sqrt(), 0.0, 12.5_f64.sqrt()]);
        assert_eq!((found.median_pair_rmse, found.worst_pair_rmse), (0.5_f64.sqrt(), 12.5_f64.sqrt()));
        assert_eq!(found.spearman_distance_rmse, Some(1.0));
        assert_eq!(
            Pairwise::new(&[1.0, 2.0], &[0.0, 0.0], &[1.0, 2.0]).unwrap().spearman_distance_rmse,
            None
        );
        assert!(Pairwise::new(&[1.0, f64::NAN], &[0.0, 0.0], &[1.0]).is_err());
        assert!(Pairwise::new(&[], &[], &[]).is_err());
    }

    #[test]
    fn medians_and_the_worst_of_distances() {
        let found = Reweighted {
            learned_w1: vec![0.3, 0.1, 0.2],
            exact_w1: vec![0.1, 0.2, 0.3],
            unweighted_w1: vec![3.0, 1.0, 2.0],
            ess: vec![10.0, 50.0, 30.0],
            exact_ess: vec![1.0; 3],
        };
        let metric = Reweighting::new(&found, 60, &[5.0, 1.0, 3.0]).unwrap();
        assert_eq!((metric.median_sliced_w1, metric.worst_sliced_w1), (0.2, 0.3));
        assert_eq!((metric.median_exact_sliced_w1, metric.median_unweighted_sliced_w1), (0.2, 2.0));
        assert_eq!((metric.median_ess, metric.median_ess_fraction), (30.0, 0.5));
        assert_eq!(metric.spearman_distance_w1, Some(1.0));
        assert!(Reweighting::new(&Reweighted::default(), 60, &[]).is_err());
    }

    #[test]
    fn means_of_ratios_are_compared_with_one() {
        let found = Normalization::new(&[0.0, 0.0, 1.0, 1.0], 2).unwrap();
        assert_eq!(
            (&found.log_mean_ratio_per_theta[..], found.mean_absolute_log_error),
            (&[0.0, 1.0][..], 0.5)
        );
    }
}
