//! The ideal classifier of a problem with one parameter: what a network can reach at best.

use rand_core::Rng;

use crate::error::GaussianError;
use crate::normal::log_sum_exp;
use crate::prior::Prior;
use crate::problem::{Likelihood, Problem};

/// Intervals of the quadrature: of a likelihood that is a 50th of the box as wide, the error is rounding.
const INTERVALS: usize = 2_000;

/// The evidence of a problem with one parameter under a prior, by quadrature over the box, or by the sum over a lattice.
#[derive(Debug)]
pub struct Evidence {
    /// The points, and the log of prior times weight at each.
    points: Vec<(Likelihood, f64)>,
}

impl Evidence {
    /// Prepares the quadrature.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] for a problem of more than one parameter.
    pub fn new(problem: &Problem, prior: &Prior) -> Result<Self, GaussianError> {
        let [parameter] = problem.parameters() else {
            return Err(GaussianError::value(
                "parameters",
                "are more than one: the evidence is computed for one",
            ));
        };
        let weighted: Vec<(f64, f64)> = match prior.support_axes().pop().flatten() {
            Some(points) => points.into_iter().map(|point| (point, 1.0)).collect(),
            None => {
                // Simpson's rule.
                let step = parameter.width() / INTERVALS as f64;
                let weight = |index: usize| match index {
                    0 | INTERVALS => step / 3.0,
                    _ => step / 3.0 * (2 + 2 * (index % 2)) as f64,
                };
                (0..=INTERVALS).map(|index| (parameter.low + step * index as f64, weight(index))).collect()
            }
        };
        let points = weighted.into_iter().map(|(point, weight)| {
            let prior = prior.log_density(&[point])?;
            Ok((problem.likelihood(&[point])?, prior + libm::log(weight)))
        });
        Ok(Self { points: points.collect::<Result<_, GaussianError>>()? })
    }

    /// The log evidence of an observation.
    #[must_use]
    pub fn log(&self, x: &[f64]) -> f64 {
        let terms: Vec<f64> =
            self.points.iter().map(|(likelihood, weight)| likelihood.of(x) + weight).collect();
        log_sum_exp(terms.into_iter())
    }
}

/// Draws observations \[size, d\] of the evidence: each at its own point of the prior.
///
/// # Errors
///
/// [`GaussianError`] for values that are not finite.
pub fn evidence_samples(
    problem: &Problem,
    prior: &Prior,
    size: usize,
    rng: &mut impl Rng,
) -> Result<Vec<f32>, GaussianError> {
    let points = prior.sample(size, rng)?;
    let mut x = Vec::new();
    for point in points.chunks_exact(problem.parameters().len()) {
        problem.simulate(point, 1, rng, &mut x)?;
    }
    Ok(x)
}

#[cfg(test)]
mod tests {
    use waycairn_analysis_api::stream;

    use super::*;
    use crate::classification::Classification;
    use crate::pairs::Pairs;
    use crate::settings::{Family, ParametersSettings, PriorDefinition, ProblemSettings};

    fn parts(family: Family) -> (Problem, Prior) {
        let (problem, parameters) = (ProblemSettings::default(), ParametersSettings::default());
        let resolved = Problem::resolve(&problem, &parameters).unwrap();
        let prior =
            Prior::resolve("x", &PriorDefinition::new(family), &problem, &parameters, &resolved).unwrap();
        (resolved, prior)
    }

    #[test]
    fn the_bayes_optimum_is_that_of_the_specification() {
        // By the midpoint rule over (theta, x): theta in [0, 10], x in [-8, 18].
        for (family, expected) in [
            (Family::Uniform, [0.54022, 0.71337, 0.77517, 0.55176]),
            (Family::Normal, [0.55957, 0.69605, 0.75920, 0.48907]),
        ] {
            let (problem, prior) = parts(family);
            let evidence = Evidence::new(&problem, &prior).unwrap();
            let (points, places) = (250, 650);
            let (dt, dx) = (10.0 / f64::from(points), 26.0 / f64::from(places));
            let logs: Vec<f64> =
                (0..places).map(|j| evidence.log(&[-8.0 + (f64::from(j) + 0.5) * dx])).collect();
            // The logit of each cell, and its mass under either class.
            let mut cells = Vec::new();
            for i in 0..points {
                let theta = (f64::from(i) + 0.5) * dt;
                let likelihood = problem.likelihood(&[theta]).unwrap();
                let density = prior.log_density(&[theta]).unwrap().exp() * dt;
                for (j, log) in logs.iter().enumerate() {
                    let joint = likelihood.of(&[-8.0 + (j as f64 + 0.5) * dx]);
                    cells.push((joint - log, density * joint.exp() * dx, density * log.exp() * dx));
                }
            }
            cells.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            let (mut bce, mut accuracy, mut auc, mut information, mut below) = (0.0, 0.0, 0.0, 0.0, 0.0);
            for (logit, joint, apart) in cells {
                bce += 0.5 * (joint * crate::softplus(-logit) + apart * crate::softplus(logit));
                accuracy += 0.5 * if logit >= 0.0 { joint } else { apart };
                auc += joint * (below + 0.5 * apart);
                below += apart;
                information += joint * logit;
            }
            for (found, expected) in [bce, accuracy, auc, information].into_iter().zip(expected) {
                assert!((found - expected).abs() < 1.5e-4, "{family:?}: {found}, not {expected}");
            }
        }
    }

    #[test]
    fn pairs_are_classified_as_well_as_the_optimum_says() {
        for (family, bce) in [(Family::Uniform, 0.54022), (Family::Normal, 0.55957)] {
            let (problem, prior) = parts(family);
            let evidence = Evidence::new(&problem, &prior).unwrap();
            let pairs = Pairs::draw(&problem, &prior, 15_000, &mut stream(0, "training-test", None)).unwrap();
            let logits: Vec<f64> = pairs
                .x
                .iter()
                .zip(&pairs.theta)
                .map(|(x, theta)| {
                    problem.log_likelihood(&[*x], &[*theta]).unwrap() - evidence.log(&[f64::from(*x)])
                })
                .collect();
            let found = Classification::new(&logits, &pairs.label).unwrap().bce;
            // Four standard errors: the loss of a row has a deviation of about 0.43.
            assert!((found - bce).abs() < 0.014, "{family:?}: {found}");
        }
    }

    #[test]
    fn a_lattice_is_summed() {
        let (problem, prior) = parts(Family::Grid);
        let evidence = Evidence::new(&problem, &prior).unwrap();
        let by_hand: f64 = (0..51)
            .map(|i| problem.log_likelihood(&[4.0], &[0.2 * f64::from(i)]).unwrap().exp() / 51.0)
            .sum();
        assert!((evidence.log(&[4.0]) - by_hand.ln()).abs() < 1e-12);
        let samples =
            evidence_samples(&problem, &prior, 2_000, &mut stream(0, "normalization", None)).unwrap();
        let mean = samples.iter().map(|x| f64::from(*x)).sum::<f64>() / 2e3;
        assert!((mean - 5.0).abs() < 0.35, "{mean}");
    }
}
