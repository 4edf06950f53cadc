//! The section `calibration`: whether posteriors are as wide as they say, over draws of the prior.

use serde::{Deserialize, Serialize};

use super::section::{Check, POSITIVE, Section, distinct};
use crate::sobol::MAX_SOBOL_POINTS;

/// How many draws of the prior are inferred again, and how the answer is judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrationSettings {
    /// Of the draws.
    pub seed: u64,
    /// Draws of the prior, each with an ensemble of `inference.observations`.
    pub cases: u64,
    /// Sobol candidates of a posterior of one parameter; of more, see [`candidates`](Self::candidates).
    pub candidate_count: u64,
    /// The probability with which an accurate posterior stays inside of a band.
    pub band_probability: f64,
    /// Credibility levels at which the expected coverage is told.
    pub levels: Vec<f64>,
}

impl Default for CalibrationSettings {
    fn default() -> Self {
        let levels = vec![0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
        Self { seed: 2028, cases: 1024, candidate_count: 2048, band_probability: 0.95, levels }
    }
}

impl CalibrationSettings {
    /// How many Sobol candidates posteriors of so many parameters rest on, where the inference takes `most`.
    ///
    /// A rank is a sum over the posterior's mass, and smooths what a mode or an edge of a set is as coarse as: so fewer do. They
    /// are four times as many for each further parameter, and never more than `most`: a posterior has about a fifth of the box
    /// on each axis, and keeps about as many candidates within.
    #[must_use]
    pub fn candidates(&self, parameters: usize, most: u64) -> u64 {
        let further = u32::try_from(parameters.saturating_sub(1)).unwrap_or(u32::MAX);
        let times = 4_u64.checked_pow(further).unwrap_or(u64::MAX);
        self.candidate_count.saturating_mul(times).min(most)
    }
}

impl Section for CalibrationSettings {
    const PATH: &'static str = "calibration";
    const FIELDS: &'static [(&'static str, &'static str)] = &[
        ("seed", "a whole number of at least 0"),
        ("cases", POSITIVE),
        ("candidate_count", "a whole number of 1 to 65536"),
        ("band_probability", "a number above 0 and below 1"),
        ("levels", "a list of different numbers above 0 and up to 1, at least one"),
    ];

    fn check(&self, check: &mut Check) {
        check.field("candidate_count", (1..=MAX_SOBOL_POINTS).contains(&self.candidate_count));
        check.number(
            "band_probability",
            self.band_probability,
            self.band_probability > 0.0 && self.band_probability < 1.0,
        );
        let level = |level: &f64| *level > 0.0 && *level <= 1.0;
        let levels = !self.levels.is_empty() && self.levels.iter().all(level) && distinct(&self.levels);
        check.numbers("levels", &self.levels, levels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_grow_with_the_parameters_up_to_those_of_the_inference() {
        let count = |parameters, most| CalibrationSettings::default().candidates(parameters, most);
        assert_eq!([1, 2, 3, 6].map(|p| count(p, 16_384)), [2_048, 8_192, 16_384, 16_384]);
        assert_eq!((count(1, 256), count(1, 65_536), count(60, u64::MAX)), (256, 2_048, u64::MAX));
    }
}
