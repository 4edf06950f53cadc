//! The section `calibration`: whether posteriors are as wide as they say, over draws of the prior.

use serde::{Deserialize, Serialize};

use super::section::{Check, POSITIVE, Section, distinct};

/// How many draws of the prior are inferred again, and how the answer is judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrationSettings {
    /// Of the draws.
    pub seed: u64,
    /// Draws of the prior, each with an ensemble of `inference.observations`.
    pub cases: u64,
    /// The probability with which an accurate posterior stays inside of a band.
    pub band_probability: f64,
    /// Credibility levels at which the expected coverage is told.
    pub levels: Vec<f64>,
}

impl Default for CalibrationSettings {
    fn default() -> Self {
        let levels = vec![0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
        Self { seed: 2028, cases: 1024, band_probability: 0.95, levels }
    }
}

impl Section for CalibrationSettings {
    const PATH: &'static str = "calibration";
    const FIELDS: &'static [(&'static str, &'static str)] = &[
        ("seed", "a whole number of at least 0"),
        ("cases", POSITIVE),
        ("band_probability", "a number above 0 and below 1"),
        ("levels", "a list of different numbers above 0 and up to 1, at least one"),
    ];

    fn check(&self, check: &mut Check) {
        check.field("band_probability", self.band_probability > 0.0 && self.band_probability < 1.0);
        let level = |level: &f64| *level > 0.0 && *level <= 1.0;
        let levels = !self.levels.is_empty() && self.levels.iter().all(level) && distinct(&self.levels);
        check.field("levels", levels);
    }
}
