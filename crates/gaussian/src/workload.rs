//! What inference will cost for one model, known while a study is planned.

use serde::Serialize;

use crate::candidates::{CandidateKind, CandidatePlan};
use crate::settings::{InferenceSettings, Retain, Target, TruthDesign};
use crate::truth::TruthPlan;

/// The shape of a problem and its prior, as far as the cost depends on it.
#[derive(Clone, Debug)]
pub struct WorkloadInput<'a> {
    /// The settings of the inference.
    pub settings: &'a InferenceSettings,
    /// Coordinates of an observation.
    pub dimension: usize,
    /// For each inferred parameter, how many points the prior's lattice has, where it has one.
    pub lattices: Vec<Option<u64>>,
}

/// The estimate for one model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Workload {
    /// What truths will be: `sobol` or `grid`.
    pub truth_design: TruthDesign,
    /// Truths times repeats.
    pub inference_cases: u64,
    /// What candidates will be.
    pub candidate_design: CandidateKind,
    /// How many there are at most.
    pub candidate_count_upper_bound: u64,
    /// Rows that the network is evaluated at.
    pub inference_model_evaluations: u64,
    /// Bytes of what inference saves, without the ensemble scores.
    pub estimated_inference_bytes: u64,
    /// Bytes of the product `ensemble_scores`.
    pub ensemble_score_bytes: u64,
    /// Whether these are kept, or computed again where they are needed.
    pub ensemble_scores_kept: bool,
    /// Why this cannot be done: each with the settings to change.
    pub errors: Vec<String>,
    /// What should be known about it.
    pub warnings: Vec<String>,
}

impl Workload {
    /// Estimates the cost of inference. Numbers beyond 2^64 are that.
    #[must_use]
    pub fn new(input: &WorkloadInput<'_>) -> Self {
        let settings = input.settings;
        let p = input.lattices.len();
        let native = settings.native_grid_prior;
        let support: Vec<Option<u64>> =
            input.lattices.iter().map(|points| points.filter(|_| native)).collect();
        let truths = TruthPlan::new(settings, p);
        let candidates = CandidatePlan::new(settings, &support);
        let (cases, count) = (u128::from(truths.cases), u128::from(candidates.count));
        let (observations, d, p_wide) =
            (u128::from(settings.observations), input.dimension as u128, p as u128);
        let targets = settings.targets.len() as u128;
        let levels = settings.levels.len() as u128;

        let learned = settings.targets.iter().any(|target| *target != Target::Exact);
        let each = if learned { count + 1 } else { 0 };
        let evaluations = saturated(&[each, cases, observations]);
        let retained = match settings.retain {
            Retain::Full => cases,
            Retain::Diagnostic => cases.min(u128::from(settings.diagnostic_cases)),
        };
        let summaries = product(&[cases, p_wide + levels * (2 * p_wide + 3) + 2, 8]);
        let scores = product(&[retained, count, 8]);
        let bytes = product(&[targets, summaries.saturating_add(scores)])
            .saturating_add(product(&[cases, p_wide.saturating_add(observations.saturating_mul(d)), 4]))
            .saturating_add(product(&[count, 4 * p_wide + 8]));
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let ensemble = saturated(&[each, cases, 8]);

        let mut workload = Self {
            truth_design: truths.actual,
            inference_cases: truths.cases,
            candidate_design: candidates.design,
            candidate_count_upper_bound: candidates.count,
            inference_model_evaluations: evaluations,
            estimated_inference_bytes: bytes,
            ensemble_score_bytes: ensemble,
            ensemble_scores_kept: learned && ensemble <= settings.max_score_bytes,
            errors: Vec::new(),
            warnings: Vec::new(),
        };
        let designs = [candidates.check(settings, p), truths.check(p)];
        workload.errors =
            designs.into_iter().filter_map(Result::err).map(|error| error.to_string()).collect();
        workload.errors.extend(workload.exceeded(input));
        workload.warnings = truths.warnings(settings, p);
        workload.warnings.extend(candidates.warnings(p));
        workload
    }

    /// Why the inference itself cannot be done: the errors without those that truths and candidates have by themselves.
    #[must_use]
    pub fn exceeded(&self, input: &WorkloadInput<'_>) -> Vec<String> {
        let settings = input.settings;
        let mut errors = Vec::new();
        if self.inference_model_evaluations > settings.max_model_evaluations {
            errors.push(format!(
                "inference would evaluate the model at {} rows, and `inference.max_model_evaluations` is {}; lower \
                 `inference.candidate_count`, `inference.observations`, `inference.repeats` or the number of truths",
                self.inference_model_evaluations, settings.max_model_evaluations
            ));
        }
        if self.estimated_inference_bytes > settings.max_saved_bytes {
            errors.push(format!(
                "inference would save {} bytes, and `inference.max_saved_bytes` is {}; lower `inference.repeats`, the \
                 number of truths or `inference.diagnostic_cases`, or take `inference.retain` = \"diagnostic\"",
                self.estimated_inference_bytes, settings.max_saved_bytes
            ));
        }
        let discrete = input.lattices.iter().any(Option::is_some);
        if discrete && !settings.native_grid_prior && settings.targets.contains(&Target::Posterior) {
            errors.push(
                "the prior is discrete, its posterior needs candidates on its lattice, and \
                 `inference.native_grid_prior` is off; turn it on, or take `posterior` out of `inference.targets`"
                    .to_owned(),
            );
        }
        errors
    }
}

fn product(factors: &[u128]) -> u128 {
    factors.iter().fold(1, |product, factor| product.saturating_mul(*factor))
}

fn saturated(factors: &[u128]) -> u64 {
    u64::try_from(product(factors)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::settings::Section as _;

    fn estimate(settings: &Value, p: usize, lattice: bool) -> Workload {
        let settings = InferenceSettings::read(settings).unwrap();
        let lattices = vec![lattice.then_some(51); p];
        Workload::new(&WorkloadInput { settings: &settings, dimension: p, lattices })
    }

    #[test]
    fn gaussian_case_29_the_table_of_the_specification() {
        let default = json!({});
        let paper = json!({
            "truth_design": "size_adaptive", "truth_margin_fraction": 0.0, "align_truths_to_grid": false,
            "native_grid_prior": false, "targets": ["ratio", "exact"],
        });
        let smoke = json!({
            "truth_design": "grid", "truth_points_per_axis": 7, "candidate_count": 256, "diagnostic_cases": 2,
        });
        for (settings, p, lattice, cases, candidates, evaluations, bytes) in [
            (&default, 1, false, 1_024, 16_384, 251_673_600, 1_761_280),
            (&default, 1, true, 1_024, 51, 798_720, 389_308),
            (&default, 2, false, 2_048, 16_384, 503_347_200, 2_588_672),
            (&default, 2, true, 2_048, 2_601, 79_933_440, 1_375_768),
            (&paper, 1, false, 25, 16_384, 6_144_375, 989_840),
            (&paper, 1, true, 25, 16_384, 6_144_375, 989_840),
            (&paper, 2, false, 625, 16_384, 153_609_375, 1_308_576),
            (&paper, 2, true, 625, 16_384, 153_609_375, 1_308_576),
            (&smoke, 1, false, 7, 256, 26_985, 17_992),
            (&smoke, 1, true, 7, 51, 5_460, 5_692),
        ] {
            let found = estimate(settings, p, lattice);
            assert_eq!(
                (
                    found.inference_cases,
                    found.candidate_count_upper_bound,
                    found.inference_model_evaluations,
                    found.estimated_inference_bytes,
                ),
                (cases, candidates, evaluations, bytes),
                "{settings} {p} {lattice}"
            );
            assert_eq!(found.errors, Vec::<String>::new());
        }
        let one = estimate(&default, 1, false);
        assert_eq!((one.ensemble_score_bytes, one.ensemble_scores_kept), (16_385 * 1_024 * 8, true));
        let exact = estimate(&json!({"targets": ["exact"]}), 1, false);
        assert_eq!((exact.inference_model_evaluations, exact.ensemble_score_bytes), (0, 0));
    }

    #[test]
    fn gaussian_case_29_a_limit_that_is_exceeded_names_setting_and_value() {
        let error = |settings: Value, p, lattice| {
            let found = estimate(&settings, p, lattice).errors;
            assert_eq!(found.len(), 1, "{found:?}");
            found.into_iter().next().unwrap_or_default()
        };
        let found = error(json!({"max_model_evaluations": 1_000_000}), 1, false);
        assert!(
            found.contains("251673600") && found.contains("`inference.max_model_evaluations` is 1000000")
        );
        let found = error(json!({"max_saved_bytes": 1_000_000}), 1, false);
        assert!(
            found.contains("1761280") && found.contains("`inference.max_saved_bytes` is 1000000"),
            "{found}"
        );
        let found = error(json!({"max_candidate_points": 1_000}), 1, false);
        assert!(found.contains("`inference.max_candidate_points`") && found.contains("16384"), "{found}");
        let found = error(json!({"native_grid_prior": false}), 1, true);
        assert!(found.contains("inference.native_grid_prior"), "{found}");
        // Beyond what a sequence gives, and beyond all numbers.
        let found = error(json!({"candidate_count": 65_537}), 1, false);
        assert!(found.contains("inference.candidate_count"), "{found}");
        assert!(!estimate(&json!({"truth_design": "grid"}), 60, false).errors.is_empty());
    }

    #[test]
    fn what_should_be_known_is_said() {
        let paper = json!({"truth_design": "size_adaptive", "align_truths_to_grid": false});
        let five = estimate(&paper, 5, false);
        assert_eq!(five.truth_design, TruthDesign::Sobol);
        assert_eq!(five.warnings.len(), 2, "{:?}", five.warnings);
        assert_eq!(estimate(&paper, 4, false).truth_design, TruthDesign::Grid);
        let one = estimate(&json!({}), 1, false).warnings;
        assert!(one.len() == 1 && one[0].contains("lattices"), "{one:?}");
    }

    #[test]
    fn scores_that_do_not_fit_are_not_kept() {
        let found = estimate(&json!({"max_score_bytes": 1_000}), 1, false);
        assert!(!found.ensemble_scores_kept && found.errors.is_empty());
    }
}
