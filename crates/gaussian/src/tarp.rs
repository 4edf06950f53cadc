//! Expected coverage by distances to random points (TARP).
//!
//! For each case a reference point is drawn, and the share of the posterior's mass that lies nearer to it than the truth does
//! is f. For an accurate posterior the share of cases with f below c is c at every credibility level c, however reference
//! points are drawn; and a posterior for which that holds with every way to draw them from the observations is accurate
//! (Lemos, Coogan, Hezaveh and Perreault-Levasseur, *Sampling-Based Accuracy Testing of Posterior Estimators for General
//! Inference*, 2023: their algorithm 2, with masses in place of samples). As with ranks, the truths are to be draws of the
//! prior.

use crate::error::GaussianError;

/// The mass nearer to a reference point than the truth, with the mass that is as near split by a uniform number.
///
/// `theta` \[candidates, p\] with masses; distances are Euclidean in units of `scale` \[p\], the widths of the box.
///
/// # Errors
///
/// [`GaussianError::Shape`] where lengths do not fit.
pub fn nearer_mass(
    theta: &[f32],
    mass: &[f64],
    truth: &[f32],
    reference: &[f64],
    scale: &[f64],
    split: f64,
) -> Result<f64, GaussianError> {
    let p = truth.len();
    GaussianError::length("theta", theta.len(), p * mass.len())?;
    GaussianError::length("reference", reference.len(), p)?;
    GaussianError::length("scale", scale.len(), p)?;
    let distance = |point: &[f32]| -> f64 {
        let axes = point.iter().zip(reference.iter().zip(scale));
        axes.map(|(value, (reference, scale))| ((f64::from(*value) - reference) / scale).powi(2)).sum()
    };
    let limit = distance(truth);
    let (mut nearer, mut as_near) = (0.0, 0.0);
    for (point, mass) in theta.chunks_exact(p.max(1)).zip(mass) {
        let found = distance(point);
        if found < limit {
            nearer += mass;
        } else if found == limit {
            as_near += mass;
        }
    }
    Ok((nearer + split * as_near).clamp(0.0, 1.0))
}

/// The expected coverage at each credibility level: the share of cases whose mass is below it.
#[must_use]
pub fn expected_coverage(nearer: &[f64], levels: &[f64]) -> Vec<f64> {
    let mut sorted = nearer.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    levels
        .iter()
        .map(|level| sorted.partition_point(|mass| mass < level) as f64 / sorted.len().max(1) as f64)
        .collect()
}

#[cfg(test)]
mod tests {
    use waycairn_analysis_api::stream;

    use super::*;
    use crate::calibration::EcdfDifference;
    use crate::density::normalized_mass;
    use crate::random::{standard_normal, uniform};

    #[test]
    fn mass_is_counted_by_distance() {
        let (theta, mass) = ([0.0_f32, 1.0, 2.0, 4.0], [0.1, 0.2, 0.3, 0.4]);
        let of = |truth: f32, reference, split| {
            nearer_mass(&theta, &mass, &[truth], &[reference], &[10.0], split).unwrap()
        };
        assert!((of(4.0, 0.0, 0.0) - 0.6).abs() < 1e-12);
        assert!((of(2.0, 4.0, 0.5) - 0.55).abs() < 1e-12, "the truth is a candidate");
        // 0 and 2 are as near to 1 as the truth is.
        assert!((of(2.0, 1.0, 0.5) - 0.4).abs() < 1e-12);
        assert_eq!(expected_coverage(&[0.1, 0.5, 0.7, 0.2], &[0.0, 0.5, 1.0]), [0.0, 0.5, 1.0]);
        assert!(nearer_mass(&theta, &mass, &[1.0, 1.0], &[0.0; 2], &[1.0; 2], 0.5).is_err());
        // The second axis is ten times as wide.
        let two =
            nearer_mass(&[1.0, 0.0, 0.0, 5.0], &[0.5; 2], &[0.0, 9.0], &[0.0; 2], &[1.0, 10.0], 0.5).unwrap();
        assert_eq!(two, 0.5);
    }

    /// Truths of N(0, 1) seen with unit noise: the posterior is N(x / 2, 1 / 2), claimed with another width.
    fn claimed(width: f64) -> EcdfDifference {
        let mut rng = stream(0, "test", None);
        let theta: Vec<f32> = (-400..=400).map(|i| i as f32 * 0.0125).collect();
        let measure = vec![0.0; theta.len()];
        let shares: Vec<f64> = (0..600)
            .map(|_| {
                let truth = standard_normal(&mut rng);
                let x = truth + standard_normal(&mut rng);
                let variance = 0.5 * width * width;
                let scores: Vec<f64> =
                    theta.iter().map(|t| -(f64::from(*t) - x / 2.0).powi(2) / (2.0 * variance)).collect();
                let mass = normalized_mass(&scores, &measure).unwrap().mass;
                let reference = [-5.0 + 10.0 * uniform(&mut rng)];
                nearer_mass(&theta, &mass, &[truth as f32], &reference, &[1.0], uniform(&mut rng)).unwrap()
            })
            .collect();
        EcdfDifference::new(&shares, 0.99).unwrap()
    }

    #[test]
    fn an_accurate_posterior_is_covered_and_a_narrow_one_is_not() {
        assert!(claimed(1.0).inside);
        assert!(!claimed(0.5).inside);
        assert!(!claimed(2.0).inside);
    }
}
