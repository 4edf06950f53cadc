//! Candidate parameters, and the measure that each stands for.

use std::collections::BTreeMap;

use rand_core::Rng;
use serde::{Deserialize, Serialize};

use crate::error::GaussianError;
use crate::lattice::{Lattice, spaced};
use crate::normal::log_add;
use crate::prior::Measure;
use crate::problem::Problem;
use crate::settings::{CandidateDesign, InferenceSettings};
use crate::sobol::{self, Sobol};

/// How candidates were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CandidateKind {
    /// The full product of equally spaced points and lattices.
    Grid,
    /// All points of a discrete prior.
    NativeExact,
    /// A scrambled Sobol sequence.
    Sobol,
}

/// Candidates with the logs of their measures: a density at a candidate times its measure is a mass.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidates {
    /// \[count, p\].
    #[serde(skip)]
    pub theta: Vec<f32>,
    /// \[count\].
    #[serde(skip)]
    pub log_measure: Vec<f64>,
    /// How they were made.
    pub design: CandidateKind,
    /// How many were asked for.
    pub requested_count: u64,
    /// How many different ones there are.
    pub actual_count: usize,
    /// `Lebesgue`, `counting` or `mixed`.
    pub base_measure: &'static str,
    /// For each axis whether it is a lattice.
    pub native_discrete_support: Vec<bool>,
}

/// What a design will be: known without drawing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CandidatePlan {
    /// How they will be made.
    pub design: CandidateKind,
    /// How many, at most: points that coincide become one.
    pub count: u64,
}

impl CandidatePlan {
    /// Counts a design over axes, each continuous or with so many points.
    #[must_use]
    pub fn new(settings: &InferenceSettings, support: &[Option<u64>]) -> Self {
        let product =
            |counts: Vec<u64>| counts.into_iter().try_fold(1_u64, u64::checked_mul).unwrap_or(u64::MAX);
        let (design, count) = match settings.candidate_design {
            CandidateDesign::Grid => {
                let axis = |axis: &Option<u64>| axis.unwrap_or(settings.candidate_points_per_axis);
                (CandidateKind::Grid, product(support.iter().map(axis).collect()))
            }
            CandidateDesign::Sobol => {
                let all: Option<Vec<u64>> = support.iter().copied().collect();
                match all.map(product) {
                    Some(points) if points <= settings.candidate_count => {
                        (CandidateKind::NativeExact, points)
                    }
                    _ => (CandidateKind::Sobol, settings.candidate_count),
                }
            }
        };
        Self { design, count }
    }

    /// Refuses more candidates than the limit or than the sequence has, naming the settings.
    ///
    /// # Errors
    ///
    /// [`GaussianError::Value`].
    pub fn check(&self, settings: &InferenceSettings, axes: usize) -> Result<(), GaussianError> {
        if self.count > settings.max_candidate_points {
            let why = format!(
                "is {}, and there would be {} candidates; lower `inference.candidate_count` or \
                 `inference.candidate_points_per_axis`",
                settings.max_candidate_points, self.count
            );
            return Err(GaussianError::value("inference.max_candidate_points", why));
        }
        if self.design != CandidateKind::Sobol {
            return Ok(());
        }
        sobol::check(self.count, axes).map_err(|error| {
            let why = format!(
                "is {}: {error}; lower it or take `inference.candidate_design` = \"grid\"",
                settings.candidate_count
            );
            GaussianError::value("inference.candidate_count", why)
        })
    }

    /// What should be known of so many candidates over `axes` axes.
    #[must_use]
    pub fn warnings(&self, axes: usize) -> Vec<String> {
        let wished = 100_u64.checked_pow(u32::try_from(axes).unwrap_or(u32::MAX)).unwrap_or(u64::MAX);
        if self.design == CandidateKind::NativeExact || self.count >= wished {
            return Vec::new();
        }
        vec![format!(
            "{} candidates are fewer than 100^{axes}: sets are coarse; see the metric `resolution`",
            self.count
        )]
    }
}

impl Candidates {
    /// Makes candidates over the box of a problem. `support` has for each axis the lattice of a prior that is discrete
    /// there, and nothing where it is continuous or `native_grid_prior` is off: see [`support`](Self::support).
    ///
    /// A grid draws nothing; Sobol takes the seed of its scramble.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] for more candidates than the limit or than a sequence has.
    pub fn new(
        problem: &Problem,
        support: &[Option<Lattice>],
        settings: &InferenceSettings,
        rng: &mut impl Rng,
    ) -> Result<Self, GaussianError> {
        let parameters = problem.parameters();
        let p = parameters.len();
        GaussianError::length("support", support.len(), p)?;
        let counts: Vec<Option<u64>> =
            support.iter().map(|axis| axis.map(|lattice| lattice.count() as u64)).collect();
        let plan = CandidatePlan::new(settings, &counts);
        plan.check(settings, p)?;
        let (points, log_measure) = match plan.design {
            CandidateKind::Sobol => {
                let mut points = Sobol::new(rng).points(plan.count, p)?;
                for point in points.chunks_exact_mut(p) {
                    for (value, (parameter, axis)) in point.iter_mut().zip(parameters.iter().zip(support)) {
                        *value = match axis {
                            Some(lattice) => lattice.pick(*value),
                            None => parameter.low + *value * parameter.width(),
                        };
                    }
                }
                let size = |(parameter, axis): (&crate::Parameter, &Option<Lattice>)| {
                    libm::log(axis.map_or(parameter.width(), |lattice| lattice.count() as f64))
                };
                let all: f64 = parameters.iter().zip(support).map(size).sum();
                (points, vec![all - libm::log(plan.count as f64); plan.count as usize])
            }
            CandidateKind::Grid | CandidateKind::NativeExact => {
                let per_axis = settings.candidate_points_per_axis as usize;
                let axes: Vec<Vec<(f64, f64)>> = parameters
                    .iter()
                    .zip(support)
                    .map(|(parameter, axis)| match axis {
                        Some(lattice) => lattice.points().into_iter().map(|point| (point, 0.0)).collect(),
                        None => trapezoid(parameter.low, parameter.high, per_axis),
                    })
                    .collect();
                product(&axes, plan.count as usize)
            }
        };
        let theta: Vec<f32> = points.into_iter().map(|value| value as f32).collect();
        let (theta, log_measure) = merge(theta, log_measure, p);
        Ok(Self {
            actual_count: log_measure.len(),
            theta,
            log_measure,
            design: plan.design,
            requested_count: plan.count,
            base_measure: Measure::of(support.iter().map(Option::is_some)).base(),
            native_discrete_support: support.iter().map(Option::is_some).collect(),
        })
    }

    /// The axes that candidates take from a prior: its lattices where `native_grid_prior` is on, none else.
    #[must_use]
    pub fn support(prior: &crate::Prior, settings: &InferenceSettings) -> Vec<Option<Lattice>> {
        let lattices = prior.lattices();
        if settings.native_grid_prior { lattices } else { vec![None; lattices.len()] }
    }

    /// The index of a point that is a candidate, for each of many points \[points, p\].
    #[must_use]
    pub fn indices(&self, points: &[f32]) -> Vec<Option<usize>> {
        candidate_indices(&self.theta, self.native_discrete_support.len(), points)
    }
}

/// The index among candidates \[candidates, p\] of each of many points \[points, p\]: nothing for one that is none.
#[must_use]
pub fn candidate_indices(theta: &[f32], parameters: usize, points: &[f32]) -> Vec<Option<usize>> {
    let p = parameters.max(1);
    let index: BTreeMap<Vec<u32>, usize> =
        theta.chunks_exact(p).enumerate().map(|(index, point)| (bits(point), index)).collect();
    points.chunks_exact(p).map(|point| index.get(&bits(point)).copied()).collect()
}

/// The points of a continuous axis, with the logs of the weights of the trapezoid rule.
fn trapezoid(low: f64, high: f64, count: usize) -> Vec<(f64, f64)> {
    let spacing = (high - low) / (count.max(2) - 1) as f64;
    let weight =
        |index: usize| libm::log(if index == 0 || index + 1 == count { spacing / 2.0 } else { spacing });
    (0..count).map(|index| (spaced(low, high, count, index), weight(index))).collect()
}

/// The full product of axes, the first one slowest; logs of weights add up.
fn product(axes: &[Vec<(f64, f64)>], count: usize) -> (Vec<f64>, Vec<f64>) {
    let mut points = Vec::with_capacity(count * axes.len());
    let mut weights = Vec::with_capacity(count);
    for index in 0..count {
        let mut slower = count;
        let mut weight = 0.0;
        for axis in axes {
            slower /= axis.len();
            let (point, log) = axis[index / slower % axis.len()];
            points.push(point);
            weight += log;
        }
        weights.push(weight);
    }
    (points, weights)
}

/// A value as a key: 0 and -0 are the same.
fn bits(point: &[f32]) -> Vec<u32> {
    point.iter().map(|value| (value + 0.0).to_bits()).collect()
}

/// Makes points that coincide one, which has the sum of their measures; only then the points are sorted.
fn merge(theta: Vec<f32>, log_measure: Vec<f64>, p: usize) -> (Vec<f32>, Vec<f64>) {
    let point = |index: &usize| &theta[index * p..(index + 1) * p];
    let compare =
        |a: &usize, b: &usize| point(a).iter().zip(point(b)).map(|(a, b)| a.total_cmp(b)).find(|o| o.is_ne());
    let mut order: Vec<usize> = (0..log_measure.len()).collect();
    // The index decides between equal points, so that their measures add up in one order.
    order.sort_unstable_by(|a, b| compare(a, b).unwrap_or_else(|| a.cmp(b)));
    if order.windows(2).all(|two| point(&two[0]) != point(&two[1])) {
        return (theta, log_measure);
    }
    let (mut points, mut measures) = (Vec::<f32>::new(), Vec::<f64>::new());
    let mut last: Option<usize> = None;
    for index in order {
        match (last, measures.last_mut()) {
            (Some(before), Some(measure)) if point(&before) == point(&index) => {
                *measure = log_add(*measure, log_measure[index]);
            }
            _ => {
                points.extend_from_slice(point(&index));
                measures.push(log_measure[index]);
            }
        }
        last = Some(index);
    }
    (points, measures)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use waycairn_analysis_api::stream;

    use super::*;
    use crate::normal::log_sum_exp;
    use crate::settings::{ParametersSettings, ProblemSettings, Section as _};

    fn candidates(dimension: u64, discrete: &[bool], settings: Value) -> Result<Candidates, GaussianError> {
        let problem = ProblemSettings { dimension, ..ProblemSettings::default() };
        let problem = Problem::resolve(&problem, &ParametersSettings::default()).unwrap();
        let lattice = Lattice::of(&problem.parameters()[0]).unwrap();
        let support: Vec<Option<Lattice>> =
            discrete.iter().map(|discrete| discrete.then_some(lattice)).collect();
        let settings = InferenceSettings::read(&settings).unwrap();
        Candidates::new(&problem, &support, &settings, &mut stream(settings.seed, "candidate-design", None))
    }

    fn total(candidates: &Candidates) -> f64 {
        log_sum_exp(candidates.log_measure.iter().copied()).exp()
    }

    #[test]
    fn a_grid_has_trapezoid_weights_on_continuous_axes() {
        let settings = json!({"candidate_design": "grid", "candidate_points_per_axis": 5});
        let one = candidates(1, &[false], settings.clone()).unwrap();
        assert_eq!(one.theta, [0.0, 2.5, 5.0, 7.5, 10.0]);
        for (found, expected) in one.log_measure.iter().zip([0.2231, 0.9163, 0.9163, 0.9163, 0.2231]) {
            assert!((found - expected).abs() < 1e-4, "calculated for the specification: {found}");
        }
        assert_eq!((one.design, one.base_measure, one.actual_count), (CandidateKind::Grid, "Lebesgue", 5));

        let mixed = candidates(2, &[false, true], settings).unwrap();
        assert_eq!((mixed.actual_count, mixed.base_measure), (5 * 51, "mixed"));
        assert_eq!(mixed.theta[..4], [0.0, 0.0, 0.0, 0.2], "the first axis is the slowest");
        assert!((total(&mixed) - 510.0).abs() < 1e-9);
    }

    #[test]
    fn all_points_of_a_discrete_prior_where_they_are_few() {
        let one = candidates(1, &[true], json!({})).unwrap();
        assert_eq!(
            (one.design, one.actual_count, one.base_measure),
            (CandidateKind::NativeExact, 51, "counting")
        );
        assert!(one.log_measure.iter().all(|measure| *measure == 0.0));
        let two = candidates(2, &[true, true], json!({})).unwrap();
        assert_eq!((two.actual_count, two.requested_count), (2_601, 2_601));
    }

    #[test]
    fn sobol_covers_the_box_and_merges_what_coincides() {
        let one = candidates(1, &[false], json!({})).unwrap();
        assert_eq!((one.design, one.actual_count), (CandidateKind::Sobol, 16_384));
        assert!((total(&one) - 10.0).abs() < 1e-9);
        let sorted = one.theta.windows(2).all(|two| two[0] <= two[1]);
        assert!(!sorted, "the order of the sequence stays where nothing coincides");

        // 51^2 = 2,601 points do not fit 1,000, so some are drawn, and some of these twice.
        let few = candidates(2, &[true, true], json!({"candidate_count": 1000})).unwrap();
        assert_eq!((few.design, few.requested_count), (CandidateKind::Sobol, 1_000));
        assert!(few.actual_count < 1_000 && few.actual_count > 700, "{}", few.actual_count);
        assert!((total(&few) - 2_601.0).abs() < 1e-6);
        let rows: Vec<&[f32]> = few.theta.chunks_exact(2).collect();
        assert!(rows.windows(2).all(|two| two[0] < two[1]), "sorted, and each once");
    }

    #[test]
    fn gaussian_case_31_candidates_that_no_sequence_gives_are_refused_with_the_setting() {
        let refused = candidates(1, &[false], json!({"candidate_count": 65_537})).unwrap_err().to_string();
        assert!(refused.contains("inference.candidate_count") && refused.contains("65536"), "{refused}");
        assert!(candidates(1, &[false], json!({"candidate_count": 65_536})).is_ok());
        let limit = json!({"max_candidate_points": 100});
        let refused = candidates(1, &[false], limit).unwrap_err().to_string();
        assert!(refused.contains("inference.max_candidate_points") && refused.contains("16384"), "{refused}");
    }

    #[test]
    fn a_truth_that_is_a_candidate_is_found() {
        let one = candidates(1, &[true], json!({})).unwrap();
        assert_eq!(one.indices(&[0.0, 0.1, 0.2, 10.0]), [Some(0), None, Some(1), Some(50)]);
        assert_eq!(one.indices(&[-0.0]), [Some(0)]);
    }
}
