//! The section `inference`: truths, candidates, summaries, and their limits.

use serde::{Deserialize, Serialize};

use super::section::{Check, POSITIVE, Section, distinct};

/// How true parameters are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TruthDesign {
    /// A scrambled Sobol sequence.
    Sobol,
    /// The full product of equally spaced points.
    Grid,
    /// The grid where it has at most `max_grid_truths` points, else Sobol.
    SizeAdaptive,
}

/// How candidate parameters are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CandidateDesign {
    /// A scrambled Sobol sequence, or all points of a discrete prior where they are few enough.
    Sobol,
    /// The full product of equally spaced points and of lattices.
    Grid,
}

/// Whose density is summarised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// The summed log ratios.
    Ratio,
    /// The ratios with the log prior, once.
    Posterior,
    /// The likelihood itself.
    Exact,
}

/// Whose scores are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Retain {
    /// `diagnostic_cases` of the cases.
    Diagnostic,
    /// All cases.
    Full,
}

/// What is inferred from how much, and at which cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names are those of the settings, which the reference describes")]
pub struct InferenceSettings {
    pub seed: u64,
    pub observations: u64,
    pub repeats: u64,
    pub truth_design: TruthDesign,
    pub sobol_truths: u64,
    pub truth_points_per_axis: u64,
    pub max_grid_truths: u64,
    pub truth_margin_fraction: f64,
    pub align_truths_to_grid: bool,
    pub candidate_design: CandidateDesign,
    pub candidate_count: u64,
    pub candidate_points_per_axis: u64,
    pub native_grid_prior: bool,
    pub levels: Vec<f64>,
    pub targets: Vec<Target>,
    pub retain: Retain,
    pub diagnostic_cases: u64,
    pub max_model_evaluations: u64,
    pub max_saved_bytes: u64,
    pub max_score_bytes: u64,
    pub max_candidate_points: u64,
}

impl Default for InferenceSettings {
    fn default() -> Self {
        Self {
            seed: 2026,
            observations: 15,
            repeats: 1,
            truth_design: TruthDesign::Sobol,
            sobol_truths: 1024,
            truth_points_per_axis: 25,
            max_grid_truths: 1_000_000,
            truth_margin_fraction: 0.1,
            align_truths_to_grid: true,
            candidate_design: CandidateDesign::Sobol,
            candidate_count: 16_384,
            candidate_points_per_axis: 200,
            native_grid_prior: true,
            levels: vec![0.68, 0.95],
            targets: vec![Target::Ratio, Target::Posterior, Target::Exact],
            retain: Retain::Diagnostic,
            diagnostic_cases: 3,
            max_model_evaluations: 2_000_000_000_000,
            max_saved_bytes: 8_000_000_000,
            max_score_bytes: 1_000_000_000,
            max_candidate_points: 2_000_000,
        }
    }
}

const SWITCH: &str = "true or false";

impl Section for InferenceSettings {
    const PATH: &'static str = "inference";
    const FIELDS: &'static [(&'static str, &'static str)] = &[
        ("seed", "a whole number of at least 0"),
        ("observations", POSITIVE),
        ("repeats", POSITIVE),
        ("truth_design", "`sobol`, `grid` or `size_adaptive`"),
        ("sobol_truths", POSITIVE),
        ("truth_points_per_axis", POSITIVE),
        ("max_grid_truths", POSITIVE),
        ("truth_margin_fraction", "a number of 0 to 0.5, and below 0.5 for more than one truth"),
        ("align_truths_to_grid", SWITCH),
        ("candidate_design", "`sobol` or `grid`"),
        ("candidate_count", POSITIVE),
        ("candidate_points_per_axis", "a whole number of at least 2"),
        ("native_grid_prior", SWITCH),
        ("levels", "a list of different numbers above 0 and up to 1, at least one"),
        ("targets", "a list of different ones of `ratio`, `posterior`, `exact`, at least one"),
        ("retain", "`diagnostic` or `full`"),
        ("diagnostic_cases", "a whole number of at least 0"),
        ("max_model_evaluations", POSITIVE),
        ("max_saved_bytes", POSITIVE),
        ("max_score_bytes", "a whole number of at least 0"),
        ("max_candidate_points", POSITIVE),
    ];

    fn check(&self, check: &mut Check) {
        check.number(
            "truth_margin_fraction",
            self.truth_margin_fraction,
            (0.0..=0.5).contains(&self.truth_margin_fraction),
        );
        check.field("candidate_points_per_axis", self.candidate_points_per_axis >= 2);
        let level = |level: &f64| *level > 0.0 && *level <= 1.0;
        let levels = !self.levels.is_empty() && self.levels.iter().all(level) && distinct(&self.levels);
        check.numbers("levels", &self.levels, levels);
        check.field("targets", !self.targets.is_empty() && distinct(&self.targets));
    }
}
