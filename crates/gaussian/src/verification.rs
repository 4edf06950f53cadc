//! Data to check log ratios with: pairs of parameter points, and observations at both.

use rand_core::Rng;

use crate::error::GaussianError;
use crate::lattice::Lattice;
use crate::problem::Problem;
use crate::random::{standard_normal, uniform};
use crate::settings::{PairDesign, ShowcaseSettings};
use crate::sobol::{self, Sobol};

/// Pairs of parameter points \[pairs, 2, p\]: theta 0, then theta 1.
#[derive(Clone, Debug, PartialEq)]
pub struct ThetaPairs {
    theta: Vec<f64>,
    parameters: usize,
}

/// Which end of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Theta 0, where source samples come from.
    Source,
    /// Theta 1, where target samples come from.
    Target,
}

impl ThetaPairs {
    /// Chooses pairs over the whole box. On lattices both points of a pair may be the same.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] for a parameter without a lattice, or more pairs than a sequence has.
    pub fn new(
        problem: &Problem,
        design: PairDesign,
        count: usize,
        rng: &mut impl Rng,
    ) -> Result<Self, GaussianError> {
        let parameters = problem.parameters();
        let p = parameters.len();
        let theta = match design {
            PairDesign::Grid => {
                let lattices = parameters.iter().map(Lattice::of).collect::<Result<Vec<_>, _>>()?;
                (0..2 * count * p).map(|index| lattices[index % p].pick(uniform(rng))).collect()
            }
            PairDesign::Uniform => (0..2 * count * p)
                .map(|index| parameters[index % p].low + uniform(rng) * parameters[index % p].width())
                .collect(),
            PairDesign::Sobol => {
                Self::check(count as u64, p)?;
                let mut unit = Sobol::new(rng).points(2 * count as u64, p)?;
                for (index, value) in unit.iter_mut().enumerate() {
                    *value = parameters[index % p].low + *value * parameters[index % p].width();
                }
                unit
            }
        };
        Ok(Self { theta, parameters: p })
    }

    /// Refuses more pairs than a Sobol sequence has, while a study is planned.
    ///
    /// # Errors
    ///
    /// [`GaussianError::Value`] with the setting.
    pub fn check(count: u64, parameters: usize) -> Result<(), GaussianError> {
        sobol::check(count.saturating_mul(2), parameters).map_err(|error| {
            let why = format!(
                "is {count}, two points each: {error}; lower it or take `verification.pair_design` = \"uniform\""
            );
            GaussianError::value("verification.pairs", why)
        })
    }

    /// Takes pairs \[pairs, 2, p\] that were chosen before.
    ///
    /// # Errors
    ///
    /// [`GaussianError::Shape`] where a pair is not whole.
    pub fn from_values(theta: Vec<f64>, parameters: usize) -> Result<Self, GaussianError> {
        let one = (2 * parameters).max(1);
        GaussianError::length("pairs", theta.len(), theta.len() / one * one)?;
        Ok(Self { theta, parameters })
    }

    /// How many pairs.
    #[must_use]
    pub fn count(&self) -> usize {
        self.theta.len() / (2 * self.parameters)
    }

    /// All values \[pairs, 2, p\].
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.theta
    }

    /// One end of one pair.
    #[must_use]
    pub fn point(&self, pair: usize, end: Endpoint) -> &[f64] {
        let index = 2 * pair + usize::from(end == Endpoint::Target);
        &self.theta[index * self.parameters..][..self.parameters]
    }

    /// The Euclidean distance of each pair, in the units of the parameters.
    #[must_use]
    pub fn distances(&self) -> Vec<f64> {
        let of = |pair| {
            let ends = self.point(pair, Endpoint::Source).iter().zip(self.point(pair, Endpoint::Target));
            libm::sqrt(ends.map(|(a, b)| (a - b) * (a - b)).sum::<f64>())
        };
        (0..self.count()).map(of).collect()
    }

    /// Draws `count` observations at one end of each pair \[pairs, count, d\].
    ///
    /// # Errors
    ///
    /// [`GaussianError`] for values that are not finite.
    pub fn observe(
        &self,
        problem: &Problem,
        end: Endpoint,
        count: usize,
        rng: &mut impl Rng,
    ) -> Result<Vec<f32>, GaussianError> {
        let mut out = Vec::new();
        for pair in 0..self.count() {
            problem.simulate(self.point(pair, end), count, rng, &mut out)?;
        }
        Ok(out)
    }

    /// Draws the probes \[pairs, 2 count, d\]: of each pair `count` at its first end, then as many at its second.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] for values that are not finite.
    pub fn probes(
        &self,
        problem: &Problem,
        count: usize,
        rng: &mut impl Rng,
    ) -> Result<Vec<f32>, GaussianError> {
        let mut out = Vec::new();
        for pair in 0..self.count() {
            for end in [Endpoint::Source, Endpoint::Target] {
                problem.simulate(self.point(pair, end), count, rng, &mut out)?;
            }
        }
        Ok(out)
    }

    /// The exact log ratio of theta 1 over theta 0 at each of as many observations of every pair \[pairs, n, d\].
    ///
    /// # Errors
    ///
    /// [`GaussianError`] where lengths do not fit.
    pub fn exact_log_ratio(&self, problem: &Problem, x: &[f32]) -> Result<Vec<f64>, GaussianError> {
        let d = problem.dimension();
        let each = x.len() / self.count().max(1) / d * d;
        GaussianError::length("x", x.len(), each * self.count())?;
        let mut out = Vec::with_capacity(x.len() / d);
        for (pair, x) in x.chunks_exact(each.max(1)).enumerate() {
            let source = problem.likelihood(self.point(pair, Endpoint::Source))?;
            let target = problem.likelihood(self.point(pair, Endpoint::Target))?;
            out.extend(x.chunks_exact(d).map(|x| target.of(x) - source.of(x)));
        }
        Ok(out)
    }
}

/// Draws directions \[count, d\] of length 1, uniform over the sphere.
pub fn directions(dimension: usize, count: usize, rng: &mut impl Rng) -> Vec<f64> {
    let mut out = Vec::with_capacity(count * dimension);
    for _ in 0..count {
        loop {
            let direction: Vec<f64> = (0..dimension).map(|_| standard_normal(rng)).collect();
            let length = libm::sqrt(direction.iter().map(|value| value * value).sum::<f64>());
            if length > 1e-150 {
                out.extend(direction.iter().map(|value| value / length));
                break;
            }
        }
    }
    out
}

/// The fixed pair of the showcase: at the same fraction of every axis.
#[must_use]
pub fn showcase_pair(problem: &Problem, settings: &ShowcaseSettings) -> ThetaPairs {
    let parameters = problem.parameters();
    let at = |fraction: f64| parameters.iter().map(move |one| one.low + fraction * one.width());
    ThetaPairs {
        theta: at(settings.source_fraction).chain(at(settings.target_fraction)).collect(),
        parameters: parameters.len(),
    }
}

#[cfg(test)]
mod tests {
    use waycairn_analysis_api::stream;

    use super::*;
    use crate::settings::{ParametersSettings, ProblemSettings};

    fn problem(dimension: u64) -> Problem {
        let settings = ProblemSettings { dimension, ..ProblemSettings::default() };
        Problem::resolve(&settings, &ParametersSettings::default()).unwrap()
    }

    #[test]
    fn pairs_of_every_design_lie_in_the_box() {
        let problem = problem(2);
        for design in [PairDesign::Grid, PairDesign::Uniform, PairDesign::Sobol] {
            let pairs = ThetaPairs::new(&problem, design, 256, &mut stream(2027, "verification-pairs", None))
                .unwrap();
            assert_eq!((pairs.count(), pairs.values().len()), (256, 1_024));
            assert!(pairs.values().iter().all(|theta| (0.0..=10.0).contains(theta)));
            let lattice = Lattice::of(&problem.parameters()[0]).unwrap();
            let on = pairs.values().iter().filter(|theta| lattice.contains(**theta)).count();
            assert!(if design == PairDesign::Grid { on == 1_024 } else { on < 50 }, "{design:?}: {on}");
            let mean = pairs.values().iter().sum::<f64>() / 1_024.0;
            assert!((mean - 5.0).abs() < 0.4, "{design:?}: {mean}");
            assert_eq!(ThetaPairs::from_values(pairs.values().to_vec(), 2).unwrap(), pairs);
        }
        assert!(ThetaPairs::from_values(vec![1.0; 5], 2).is_err());
    }

    #[test]
    fn gaussian_case_31_pairs_that_no_sequence_gives_are_refused_with_the_setting() {
        let refused = ThetaPairs::check(32_769, 1).unwrap_err().to_string();
        assert!(refused.contains("verification.pairs") && refused.contains("65538"), "{refused}");
        assert!(ThetaPairs::check(32_768, 1).is_ok());
    }

    #[test]
    fn observations_come_from_their_ends() {
        let problem = problem(1);
        let pairs = ThetaPairs::from_values(vec![2.0, 8.0, 5.0, 5.0], 1).unwrap();
        assert_eq!(pairs.distances(), [6.0, 0.0]);
        let mean = |x: &[f32]| x.iter().map(|x| f64::from(*x)).sum::<f64>() / x.len() as f64;
        let probes = pairs.probes(&problem, 4_000, &mut stream(1, "verification-probes", None)).unwrap();
        assert_eq!(probes.len(), 16_000);
        assert!(
            (mean(&probes[..4_000]) - 2.0).abs() < 0.15 && (mean(&probes[4_000..8_000]) - 8.0).abs() < 0.15
        );
        let source = pairs
            .observe(&problem, Endpoint::Source, 4_000, &mut stream(1, "verification-source", None))
            .unwrap();
        assert!((mean(&source[..4_000]) - 2.0).abs() < 0.15);
        let ratio = pairs.exact_log_ratio(&problem, &probes).unwrap();
        // ((x - 2)^2 - (x - 8)^2) / 8
        for (x, ratio) in probes[..8_000].iter().zip(&ratio) {
            let x = f64::from(*x);
            assert!((ratio - ((x - 2.0).powi(2) - (x - 8.0).powi(2)) / 8.0).abs() < 1e-9);
        }
        assert!(ratio[8_000..].iter().all(|ratio| *ratio == 0.0));
    }

    #[test]
    fn directions_have_length_one_and_no_side() {
        let all = directions(3, 2_000, &mut stream(1, "verification-directions", None));
        for direction in all.chunks_exact(3) {
            assert!((direction.iter().map(|v| v * v).sum::<f64>() - 1.0).abs() < 1e-12);
        }
        for axis in 0..3 {
            let mean = all.iter().skip(axis).step_by(3).sum::<f64>() / 2e3;
            assert!(mean.abs() < 0.06, "{mean}");
        }
        assert!(
            directions(1, 9, &mut stream(1, "verification-directions", None)).iter().all(|v| v.abs() == 1.0)
        );
    }

    #[test]
    fn the_showcase_goes_from_3_to_7() {
        let pair = showcase_pair(&problem(2), &ShowcaseSettings::default());
        assert_eq!(pair.point(0, Endpoint::Source), [3.0, 3.0]);
        assert_eq!(pair.point(0, Endpoint::Target), [7.0, 7.0]);
    }
}
