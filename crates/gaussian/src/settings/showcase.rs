//! The section `showcase`: one fixed pair of parameter points, with many samples.

use serde::{Deserialize, Serialize};

use super::section::{Check, POSITIVE, Section};

/// Where the pair lies in the box, and how finely it is drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowcaseSettings {
    /// Where the source lies on each axis: 0 is its low end.
    pub source_fraction: f64,
    /// Where the target lies on each axis.
    pub target_fraction: f64,
    /// Samples of each.
    pub samples: u64,
    /// Bins of the histograms.
    pub bins: u64,
}

impl Default for ShowcaseSettings {
    fn default() -> Self {
        Self { source_fraction: 0.3, target_fraction: 0.7, samples: 1_000_000, bins: 1_000 }
    }
}

impl Section for ShowcaseSettings {
    const PATH: &'static str = "showcase";
    const FIELDS: &'static [(&'static str, &'static str)] = &[
        ("source_fraction", "a number of 0 to 1"),
        ("target_fraction", "a number of 0 to 1"),
        ("samples", POSITIVE),
        ("bins", "a whole number of 1 to 1000000"),
    ];

    fn check(&self, check: &mut Check) {
        check.number("source_fraction", self.source_fraction, (0.0..=1.0).contains(&self.source_fraction));
        check.number("target_fraction", self.target_fraction, (0.0..=1.0).contains(&self.target_fraction));
        check.field("bins", (1..=1_000_000).contains(&self.bins));
    }
}
