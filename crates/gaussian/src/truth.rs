//! True parameters, and the ensembles that are observed at them.

use std::collections::BTreeSet;

use rand_core::Rng;
use serde::Serialize;

use crate::error::GaussianError;
use crate::lattice::{Lattice, spaced};
use crate::problem::{Parameter, Problem};
use crate::settings::{InferenceSettings, TruthDesign};
use crate::sobol::{self, Sobol};

/// Cases whose observations are drawn, and so held, together.
pub const OBSERVED_TOGETHER: usize = 1_024;

/// Values of all truths, at most: 4 GiB as they are kept.
const MAX_VALUES: u64 = 1 << 30;

/// True parameters, each as often as it is repeated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Truths {
    /// \[cases, p\], in f32 as all later steps see them.
    #[serde(skip)]
    pub theta: Vec<f32>,
    /// What was made: `sobol` or `grid`.
    pub actual: TruthDesign,
    /// How many there are before repeats.
    pub before_repeats: usize,
    /// How many of these differ: alignment can make some equal.
    pub unique: usize,
    /// Cases: truths times repeats.
    pub cases: usize,
}

/// What a design will be: known without drawing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TruthPlan {
    /// `sobol` or `grid`.
    pub actual: TruthDesign,
    /// Truths before repeats; the most that a u64 says where there are more.
    pub truths: u64,
    /// Truths times repeats.
    pub cases: u64,
}

impl TruthPlan {
    /// Counts a design of so many parameters.
    #[must_use]
    pub fn new(settings: &InferenceSettings, parameters: usize) -> Self {
        let power = u32::try_from(parameters).unwrap_or(u32::MAX);
        let grid = settings.truth_points_per_axis.checked_pow(power);
        let sobol = 2_u64
            .checked_pow(power.saturating_sub(1))
            .and_then(|many| many.checked_mul(settings.sobol_truths));
        let fits = grid.is_some_and(|points| points <= settings.max_grid_truths);
        let (actual, truths) = match settings.truth_design {
            TruthDesign::Grid => (TruthDesign::Grid, grid),
            TruthDesign::SizeAdaptive if fits => (TruthDesign::Grid, grid),
            TruthDesign::Sobol | TruthDesign::SizeAdaptive => (TruthDesign::Sobol, sobol),
        };
        let truths = truths.unwrap_or(u64::MAX);
        Self { actual, truths, cases: truths.saturating_mul(settings.repeats) }
    }

    /// Refuses a design with more values than can be meant, and a Sobol design with more points than the sequence has,
    /// naming the settings. Nothing is allocated before.
    ///
    /// # Errors
    ///
    /// [`GaussianError::Value`].
    pub fn check(&self, parameters: usize) -> Result<(), GaussianError> {
        if self.cases.saturating_mul(parameters as u64) > MAX_VALUES {
            let why = format!(
                "= \"{}\" makes {} cases of {parameters} parameters, more than {MAX_VALUES} values; lower \
                 `inference.truth_points_per_axis`, `inference.sobol_truths` or `inference.repeats`",
                if self.actual == TruthDesign::Grid { "grid" } else { "sobol" },
                self.cases
            );
            return Err(GaussianError::value("inference.truth_design", why));
        }
        if self.actual != TruthDesign::Sobol {
            return Ok(());
        }
        sobol::check(self.truths, parameters).map_err(|error| {
            let why = format!(
                "asks for {} truths at {parameters} parameters: {error}; lower `inference.sobol_truths` or take \
                 `inference.truth_design` = \"grid\"",
                self.truths
            );
            GaussianError::value("inference.sobol_truths", why)
        })
    }

    /// What should be known of the truths of so many parameters.
    #[must_use]
    pub fn warnings(&self, settings: &InferenceSettings, parameters: usize) -> Vec<String> {
        let mut warnings = Vec::new();
        if settings.truth_design == TruthDesign::SizeAdaptive && self.actual == TruthDesign::Sobol {
            warnings.push(format!(
                "a grid of {}^{parameters} truths is more than `inference.max_grid_truths` = {}: truths are a Sobol sequence",
                settings.truth_points_per_axis, settings.max_grid_truths
            ));
        }
        if settings.align_truths_to_grid {
            warnings.push("truths are moved to the nearest point of the parameters' lattices, whatever the priors; `inference.align_truths_to_grid` = false leaves them where they are".to_owned());
        }
        warnings
    }
}

impl Truths {
    /// Makes the truths of a problem. A grid draws nothing; Sobol takes the seed of its scramble.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] for a margin that leaves nothing, a parameter without a lattice point inside it, more points than a
    /// sequence has.
    pub fn new(
        problem: &Problem,
        settings: &InferenceSettings,
        rng: &mut impl Rng,
    ) -> Result<Self, GaussianError> {
        Self::check(problem, settings)?;
        let p = problem.parameters().len();
        let plan = TruthPlan::new(settings, p);
        let boxes = boxes(problem, settings);
        let mut points = match plan.actual {
            TruthDesign::Grid => grid(&boxes, settings.truth_points_per_axis as usize, plan.truths as usize),
            TruthDesign::Sobol | TruthDesign::SizeAdaptive => {
                let mut unit = Sobol::new(rng).points(plan.truths, p)?;
                for point in unit.chunks_exact_mut(p) {
                    for (value, (low, high)) in point.iter_mut().zip(&boxes) {
                        *value = low + *value * (high - low);
                    }
                }
                unit
            }
        };
        if settings.align_truths_to_grid {
            for (axis, (parameter, (low, high))) in problem.parameters().iter().zip(&boxes).enumerate() {
                let lattice = Lattice::of(parameter)?;
                for value in points.iter_mut().skip(axis).step_by(p) {
                    *value = aligned(&lattice, parameter, *value, *low, *high)?;
                }
            }
        }
        let points: Vec<f32> = points.into_iter().map(|value| value as f32).collect();
        let different: BTreeSet<Vec<u32>> =
            points.chunks_exact(p).map(|point| point.iter().map(|value| value.to_bits()).collect()).collect();
        let repeats = settings.repeats as usize;
        let repeated = points.chunks_exact(p).flat_map(|point| std::iter::repeat_n(point, repeats).flatten());
        Ok(Self {
            theta: repeated.copied().collect(),
            actual: plan.actual,
            before_repeats: plan.truths as usize,
            unique: different.len(),
            cases: plan.cases as usize,
        })
    }

    /// Refuses truths that cannot be made, while a study is planned: nothing is drawn.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn check(problem: &Problem, settings: &InferenceSettings) -> Result<(), GaussianError> {
        let p = problem.parameters().len();
        let plan = TruthPlan::new(settings, p);
        plan.check(p)?;
        let (margin, boxes) = (settings.truth_margin_fraction, boxes(problem, settings));
        if boxes.iter().any(|(low, high)| low > high) || (margin >= 0.5 && plan.truths > 1) {
            let why = format!("is {margin}, which leaves no room for {} truths; lower it", plan.truths);
            return Err(GaussianError::value("inference.truth_margin_fraction", why));
        }
        if settings.align_truths_to_grid {
            for (parameter, (low, high)) in problem.parameters().iter().zip(boxes) {
                aligned(&Lattice::of(parameter)?, parameter, low, low, high)?;
            }
        }
        Ok(())
    }

    /// Draws the ensembles \[cases, count, d\]: for each case `count` observations at its truth, one after the other from one
    /// stream.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] for values that are not finite.
    pub fn observe(
        &self,
        problem: &Problem,
        count: usize,
        rng: &mut impl Rng,
    ) -> Result<Vec<f32>, GaussianError> {
        let mut all = Vec::new();
        observe(problem, &self.theta, count, rng, |block| {
            all.extend_from_slice(block);
            Ok::<_, GaussianError>(())
        })?;
        Ok(all)
    }
}

/// Draws ensembles as [`Truths::observe`] does, at any points \[cases, p\], and hands them over in blocks of whole cases, in
/// order: so that what holds all of them need not be memory.
///
/// # Errors
///
/// [`GaussianError`] for values that are not finite, and what `take` raises.
pub fn observe<E: From<GaussianError>>(
    problem: &Problem,
    theta: &[f32],
    count: usize,
    rng: &mut impl Rng,
    mut take: impl FnMut(&[f32]) -> Result<(), E>,
) -> Result<(), E> {
    let (d, p) = (problem.dimension(), problem.parameters().len());
    let mut block = Vec::new();
    for cases in theta.chunks(OBSERVED_TOGETHER * p) {
        block.clear();
        block.reserve(cases.len() / p * count * d);
        for point in cases.chunks_exact(p) {
            problem.simulate(point, count, rng, &mut block)?;
        }
        take(&block)?;
    }
    Ok(())
}

/// Where truths may lie: the box of each parameter, without its margin.
fn boxes(problem: &Problem, settings: &InferenceSettings) -> Vec<(f64, f64)> {
    let margin = settings.truth_margin_fraction;
    let inner = |one: &Parameter| (one.low + margin * one.width(), one.high - margin * one.width());
    problem.parameters().iter().map(inner).collect()
}

/// The lattice point that a truth is moved to.
fn aligned(
    lattice: &Lattice,
    parameter: &Parameter,
    value: f64,
    low: f64,
    high: f64,
) -> Result<f64, GaussianError> {
    lattice.nearest_within(value, low, high).ok_or_else(|| {
        let why = format!(
            "is on, and the lattice of `{}` has no point in {low} to {high}; turn it off, or lower `grid_step` or \
             `inference.truth_margin_fraction`",
            parameter.name
        );
        GaussianError::value("inference.align_truths_to_grid", why)
    })
}

/// Equally spaced points with both ends of each axis, the first axis slowest; of one point the middle.
fn grid(boxes: &[(f64, f64)], per_axis: usize, count: usize) -> Vec<f64> {
    let mut out = Vec::with_capacity(count * boxes.len());
    for index in 0..count {
        for (axis, (low, high)) in boxes.iter().enumerate() {
            let slower = per_axis.pow((boxes.len() - 1 - axis) as u32);
            out.push(spaced(*low, *high, per_axis, index / slower % per_axis));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use waycairn_analysis_api::stream;

    use super::*;
    use crate::settings::{ParametersSettings, ProblemSettings, Section as _};

    fn problem(dimension: u64) -> Problem {
        let settings = ProblemSettings { dimension, ..ProblemSettings::default() };
        Problem::resolve(&settings, &ParametersSettings::default()).unwrap()
    }

    fn truths(dimension: u64, settings: serde_json::Value) -> Result<Truths, GaussianError> {
        let settings = InferenceSettings::read(&settings).unwrap();
        Truths::new(&problem(dimension), &settings, &mut stream(settings.seed, "truth-design", None))
    }

    fn close(found: &[f32], expected: &[f64]) {
        let near = |(found, expected): (&f32, &f64)| (f64::from(*found) - expected).abs() < 1e-6;
        assert!(found.len() == expected.len() && found.iter().zip(expected).all(near), "{found:?}");
    }

    #[test]
    fn truths_of_the_profiles() {
        let smoke = truths(1, json!({"truth_design": "grid", "truth_points_per_axis": 7})).unwrap();
        close(&smoke.theta, &[1.0, 2.4, 3.6, 5.0, 6.4, 7.6, 9.0]);
        let default = truths(1, json!({})).unwrap();
        assert_eq!((default.before_repeats, default.cases, default.unique), (1_024, 1_024, 41));
        assert_eq!(default.actual, TruthDesign::Sobol);
        assert!(default.theta.iter().all(|theta| (0.999_999..=9.000_001).contains(theta)));
        let free = truths(1, json!({"align_truths_to_grid": false})).unwrap();
        assert!(free.unique > 1_000);
        let two = truths(2, json!({})).unwrap();
        assert_eq!((two.cases, two.theta.len()), (2_048, 4_096));
    }

    #[test]
    fn a_grid_is_a_full_product_with_the_first_axis_slowest() {
        let settings = json!({
            "truth_design": "grid", "truth_points_per_axis": 2, "repeats": 2, "truth_margin_fraction": 0.0,
            "align_truths_to_grid": false,
        });
        let made = truths(2, settings).unwrap();
        close(
            &made.theta,
            &[0.0, 0.0, 0.0, 0.0, 0.0, 10.0, 0.0, 10.0, 10.0, 0.0, 10.0, 0.0, 10.0, 10.0, 10.0, 10.0],
        );
        assert_eq!((made.before_repeats, made.cases, made.unique), (4, 8, 4));
    }

    #[test]
    fn a_design_adapts_to_its_size() {
        let at = |dimension, limit| {
            let settings = json!({"truth_design": "size_adaptive", "max_grid_truths": limit});
            TruthPlan::new(&InferenceSettings::read(&settings).unwrap(), dimension)
        };
        let plan = |actual, truths| TruthPlan { actual, truths, cases: truths };
        assert_eq!(at(2, 625), plan(TruthDesign::Grid, 625));
        assert_eq!(at(2, 624), plan(TruthDesign::Sobol, 2_048));
        assert_eq!(at(40, 624).truths, 1_024 << 39);
        assert_eq!(at(300, 624).truths, u64::MAX);
    }

    #[test]
    fn gaussian_case_31_truths_that_no_sequence_gives_are_refused_with_the_setting() {
        let plan = TruthPlan::new(&InferenceSettings::default(), 8);
        let refused = plan.check(8).unwrap_err().to_string();
        assert!(refused.contains("inference.sobol_truths") && refused.contains("131072"), "{refused}");
        assert!(TruthPlan::new(&InferenceSettings::default(), 7).check(7).is_ok());
        assert!(truths(8, json!({})).is_err());
    }

    #[test]
    fn what_leaves_no_truth_is_refused() {
        // Neither may be tried.
        let many = truths(9, json!({"truth_design": "grid"})).unwrap_err().to_string();
        assert!(many.contains("inference.truth_points_per_axis"), "{many}");
        assert!(truths(1, json!({"repeats": u64::MAX})).is_err());
        assert!(truths(1, json!({"truth_margin_fraction": 0.5})).is_err());
        let middle =
            json!({"truth_margin_fraction": 0.5, "truth_design": "grid", "truth_points_per_axis": 1});
        close(&truths(1, middle).unwrap().theta, &[5.0]);
    }

    #[test]
    fn truths_that_cannot_be_made_are_refused_before_any_is() {
        let check = |settings| {
            Truths::check(&problem(1), &InferenceSettings::read(&settings).unwrap()).unwrap_err().to_string()
        };
        let margin = check(json!({"truth_margin_fraction": 0.5}));
        assert!(margin.contains("inference.truth_margin_fraction") && margin.contains("0.5"), "{margin}");
        let parameters = ParametersSettings::read(&json!({"mean": {"grid_step": 20.0}})).unwrap();
        let coarse = Problem::resolve(&ProblemSettings::default(), &parameters).unwrap();
        let refused = Truths::check(&coarse, &InferenceSettings::default()).unwrap_err().to_string();
        assert!(refused.contains("`mean:0` has no point in 1 to 9"), "{refused}");
        assert!(Truths::check(&problem(2), &InferenceSettings::default()).is_ok());
    }

    #[test]
    fn ensembles_come_in_blocks_as_they_come_at_once() {
        let (problem, made) = (problem(1), truths(1, json!({"repeats": 3, "sobol_truths": 512})).unwrap());
        let whole = made.observe(&problem, 2, &mut stream(1, "inference-observations", None)).unwrap();
        let mut sizes = Vec::new();
        let mut parts = Vec::new();
        let taken =
            observe(&problem, &made.theta, 2, &mut stream(1, "inference-observations", None), |block| {
                sizes.push(block.len());
                parts.extend_from_slice(block);
                Ok::<_, GaussianError>(())
            });
        assert_eq!((taken, sizes, parts), (Ok(()), vec![2_048, 1_024], whole));
    }

    #[test]
    fn ensembles_are_observed_at_their_truths() {
        let (problem, made) = (problem(2), truths(2, json!({})).unwrap());
        let x = made.observe(&problem, 15, &mut stream(2026, "inference-observations", None)).unwrap();
        assert_eq!(x.len(), 2_048 * 15 * 2);
        let apart: Vec<f64> = x
            .chunks_exact(30)
            .zip(made.theta.chunks_exact(2))
            .flat_map(|(x, theta)| x.iter().enumerate().map(|(i, x)| f64::from(*x) - f64::from(theta[i % 2])))
            .collect();
        let mean = apart.iter().sum::<f64>() / apart.len() as f64;
        let spread = (apart.iter().map(|e| e * e).sum::<f64>() / apart.len() as f64).sqrt();
        assert!(mean.abs() < 0.04 && (spread - 2.0).abs() < 0.03, "{mean} {spread}");
    }
}
