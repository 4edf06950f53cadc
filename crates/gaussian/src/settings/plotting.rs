//! The section `plotting`, and the names of what a study can show.

use serde::{Deserialize, Serialize};

use super::fault::{Fault, Faults, json};
use super::section::{Check, Section};

/// The metrics of the study, in the order of its reference.
pub const METRICS: &[&str] = &[
    "classification",
    "bias",
    "coverage",
    "width",
    "resolution",
    "posterior",
    "exact_reference",
    "pairwise",
    "reweighting",
    "normalization",
];

/// The plots of the study.
pub const PLOTS: &[&str] = &["training", "prior", "inference", "pairwise", "reweighting", "showcase"];

/// How figures are drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlottingSettings {
    /// Dots per inch of a bitmap.
    pub dpi: u64,
    /// Bins of histograms.
    pub bins: u64,
    /// Samples of the plot of a prior.
    pub prior_points: u64,
    /// Cases of the plot of estimates, at most.
    pub max_inference_cases: u64,
}

impl Default for PlottingSettings {
    fn default() -> Self {
        Self { dpi: 140, bins: 100, prior_points: 200_000, max_inference_cases: 200 }
    }
}

const POSITIVE: &str = "a whole number of at least 1";

impl Section for PlottingSettings {
    const PATH: &'static str = "plotting";
    const FIELDS: &'static [(&'static str, &'static str)] = &[
        ("dpi", POSITIVE),
        ("bins", POSITIVE),
        ("prior_points", POSITIVE),
        ("max_inference_cases", POSITIVE),
    ];

    fn check(&self, check: &mut Check) {
        let values = [self.dpi, self.bins, self.prior_points, self.max_inference_cases];
        for ((name, _), value) in Self::FIELDS.iter().zip(values) {
            check.field(name, value >= 1);
        }
    }
}

/// Refuses a list of names (`metrics`, `plots`) with one that is not known or comes twice.
///
/// # Errors
///
/// [`Faults`] with each of them.
pub fn check_names(path: &str, names: &[String], known: &[&str]) -> Result<(), Faults> {
    let mut faults = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let allowed = if !known.contains(&name.as_str()) {
            format!("one of {}", known.join(", "))
        } else if names[..index].contains(name) {
            "each name once".to_owned()
        } else {
            continue;
        };
        faults.push(Fault { path: format!("{path}[{index}]"), value: json(name), allowed });
    }
    Faults::none_of(faults)
}
