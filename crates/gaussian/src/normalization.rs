//! The normalisation check: under the evidence the mean of a ratio is 1 at every parameter point.

use rand_core::Rng;

use crate::error::GaussianError;
use crate::lattice::{Lattice, spaced};
use crate::prior::Prior;
use crate::problem::Problem;
use crate::settings::NormalizationDesign;

/// Chooses the points \[count, p\] of the check: along the diagonal of the box, evenly spaced on each axis and on its lattice
/// where that is asked for, or drawn from the prior.
///
/// # Errors
///
/// [`GaussianError`] for a parameter without a lattice.
pub fn normalization_points(
    problem: &Problem,
    prior: &Prior,
    design: NormalizationDesign,
    on_grid: bool,
    count: usize,
    rng: &mut impl Rng,
) -> Result<Vec<f32>, GaussianError> {
    let parameters = problem.parameters();
    match design {
        NormalizationDesign::Prior => prior.sample(count, rng),
        NormalizationDesign::Diagonal => {
            let mut out = vec![0.0; count * parameters.len()];
            for (column, parameter) in parameters.iter().enumerate() {
                let lattice = if on_grid { Some(Lattice::of(parameter)?) } else { None };
                for (index, row) in out.chunks_exact_mut(parameters.len()).enumerate() {
                    row[column] = match lattice {
                        Some(lattice) => {
                            let last = (lattice.count() - 1) as f64;
                            lattice.point(spaced(0.0, last, count, index).round_ties_even() as usize)
                        }
                        None => spaced(parameter.low, parameter.high, count, index),
                    } as f32;
                }
            }
            Ok(out)
        }
    }
}

#[cfg(test)]
mod tests {
    use waycairn_analysis_api::stream;

    use super::*;
    use crate::ideal::{Evidence, evidence_samples};
    use crate::metrics::log_mean_ratios;
    use crate::settings::{Family, ParametersSettings, PriorDefinition, ProblemSettings};

    fn parts() -> (Problem, Prior) {
        let (problem, parameters) = (ProblemSettings::default(), ParametersSettings::default());
        let resolved = Problem::resolve(&problem, &parameters).unwrap();
        let definition = PriorDefinition::new(Family::Normal);
        let prior = Prior::resolve("normal", &definition, &problem, &parameters, &resolved).unwrap();
        (resolved, prior)
    }

    fn points(on_grid: bool, design: NormalizationDesign, count: usize) -> Vec<f32> {
        let (problem, prior) = parts();
        let mut rng = stream(2027, "normalization", Some("normal"));
        normalization_points(&problem, &prior, design, on_grid, count, &mut rng).unwrap()
    }

    #[test]
    fn points_on_the_diagonal_are_rounded_half_to_even_on_the_lattice() {
        let expected = [0.0_f32, 2.4, 5.0, 7.6, 10.0];
        let five = points(true, NormalizationDesign::Diagonal, 5);
        assert!(five.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{five:?}");
        let four: Vec<usize> = points(true, NormalizationDesign::Diagonal, 4)
            .iter()
            .map(|x| (x / 0.2).round() as usize)
            .collect();
        assert_eq!(four, [0, 17, 33, 50]);
        assert_eq!(points(false, NormalizationDesign::Diagonal, 5), [0.0, 2.5, 5.0, 7.5, 10.0]);
        assert_eq!(points(true, NormalizationDesign::Prior, 7).len(), 7);
    }

    #[test]
    fn the_ideal_ratio_is_normalised() {
        let (problem, prior) = parts();
        let evidence = Evidence::new(&problem, &prior).unwrap();
        let mut rng = stream(2027, "normalization", Some("normal"));
        let x = evidence_samples(&problem, &prior, 4_000, &mut rng).unwrap();
        let logs: Vec<f64> = x.iter().map(|x| evidence.log(&[f64::from(*x)])).collect();
        let ratios: Vec<f64> = [2.4, 5.0, 7.6]
            .iter()
            .flat_map(|theta| {
                let likelihood = problem.likelihood(&[*theta]).unwrap();
                x.iter().zip(&logs).map(move |(x, log)| likelihood.of(&[*x]) - log)
            })
            .collect();
        let means = log_mean_ratios(&ratios, 3).unwrap();
        // Four standard errors of 4,000 samples, whose relative deviation is about 1.
        assert!(means.iter().all(|mean| mean.abs() < 0.065), "{means:?}");
        assert!(log_mean_ratios(&[0.0; 5], 2).is_err() && log_mean_ratios(&[], 2).is_err());
        assert!(log_mean_ratios(&[f64::NAN, 0.0], 1).is_err());
        let large = log_mean_ratios(&[1_000.0, 1_000.0], 1).unwrap()[0];
        assert!((large - 1_000.0).abs() < 1e-9);
    }
}
