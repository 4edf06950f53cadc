//! The section `plotting`, and what metrics and plots need as a target.

use serde::{Deserialize, Serialize};

use super::fault::Faults;
use super::inference::Target;
use super::section::{Check, Section};

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

impl Section for PlottingSettings {
    const PATH: &'static str = "plotting";
    const FIELDS: &'static [(&'static str, &'static str)] = &[
        ("dpi", "a whole number of 10 to 2400"),
        ("bins", "a whole number of 1 to 100000"),
        ("prior_points", "a whole number of 1 to 100000000"),
        ("max_inference_cases", "a whole number of 1 to 100000"),
    ];

    fn check(&self, check: &mut Check) {
        check.field("dpi", (10..=2_400).contains(&self.dpi));
        check.field("bins", (1..=100_000).contains(&self.bins));
        check.field("prior_points", (1..=100_000_000).contains(&self.prior_points));
        check.field("max_inference_cases", (1..=100_000).contains(&self.max_inference_cases));
    }
}

/// What takes the summaries of the ratio, and so needs it as a target.
const OF_THE_RATIO: &[&str] =
    &["bias", "coverage", "width", "resolution", "exact_reference", "median_absolute_bias", "inference"];

/// Refuses targets without the ratio where a metric or a plot is of it.
///
/// # Errors
///
/// [`Faults`] that name the metrics and plots.
pub fn check_targets(targets: &[Target], metrics: &[String], plots: &[String]) -> Result<(), Faults> {
    let of_the_ratio = metrics.iter().chain(plots).filter(|name| OF_THE_RATIO.contains(&name.as_str()));
    let names: Vec<&str> = of_the_ratio.map(String::as_str).collect();
    if names.is_empty() || targets.contains(&Target::Ratio) {
        return Ok(());
    }
    let allowed = format!("a list with `ratio`, which {} need; add it or take them out", names.join(", "));
    Err(Faults::one("inference.targets", targets, allowed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::fault::json;

    fn names(of: &[&str]) -> Vec<String> {
        of.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn gaussian_1_the_ratio_is_a_target_where_something_is_of_it() {
        let exact = [Target::Exact];
        let faults =
            check_targets(&exact, &names(&["bias", "pairwise"]), &names(&["inference"])).unwrap_err();
        assert!(faults.to_string().contains("bias, inference need"), "{faults}");
        assert!(check_targets(&exact, &names(&["pairwise", "posterior"]), &names(&["prior"])).is_ok());
        assert!(check_targets(&[Target::Ratio], &names(&["bias"]), &names(&["inference"])).is_ok());
    }

    #[test]
    fn gaussian_1_every_section_reads_its_defaults_and_tells_all_of_its_faults() {
        fn each<S: Section + PartialEq + std::fmt::Debug>(given: serde_json::Value, faults: usize) {
            let defaults = S::default();
            assert_eq!(S::read(&serde_json::Value::Null).unwrap(), defaults);
            let text = json(&defaults);
            assert_eq!(S::read(&text).unwrap(), defaults);
            let mut names: Vec<&str> = S::FIELDS.iter().map(|(name, _)| *name).collect();
            names.sort_unstable();
            let mut fields: Vec<&String> = text.as_object().unwrap().keys().collect();
            fields.sort_unstable();
            assert_eq!(fields, names, "every field says what is allowed");
            let found = S::read(&given).unwrap_err();
            assert_eq!(found.iter().count(), faults, "{found}");
            assert!(found.iter().all(|fault| fault.path.starts_with(S::PATH) && !fault.allowed.is_empty()));
        }
        use crate::settings::{
            CalibrationSettings, DataSettings, InferenceSettings, ShowcaseSettings, VerificationSettings,
        };
        each::<PlottingSettings>(serde_json::json!({"dpi": 0, "bins": "many"}), 2);
        each::<DataSettings>(serde_json::json!({"train_size": 7, "test_size": 0, "validation_size": 2.5}), 3);
        each::<ShowcaseSettings>(serde_json::json!({"source_fraction": -0.1, "samples": 0}), 2);
        each::<VerificationSettings>(serde_json::json!({"pairs": 0, "pair_design": "odd", "sead": 1}), 3);
        each::<CalibrationSettings>(
            serde_json::json!({"cases": 0, "candidate_count": 65_537, "band_probability": 1.0, "levels": []}),
            4,
        );
        let odd = serde_json::json!({
            "levels": [0.68, 0.68], "targets": [], "observations": 0, "truth_margin_fraction": 0.6, "retain": "all",
            "candidate_points_per_axis": 1, "native_grid_prior": 1,
        });
        each::<InferenceSettings>(odd, 7);
    }

    #[test]
    fn gaussian_1_a_number_that_is_none_is_told_as_it_is() {
        // It was told as null, which no settings file has.
        use crate::settings::{CalibrationSettings, InferenceSettings, ShowcaseSettings};
        let inference = InferenceSettings {
            truth_margin_fraction: f64::NAN,
            levels: vec![0.5, f64::NAN],
            ..Default::default()
        };
        let faults = inference.validate().unwrap_err().to_string();
        let margin = "`inference.truth_margin_fraction` is NaN; allowed is a number of 0 to 0.5";
        assert!(
            faults.contains(margin) && faults.contains("`inference.levels` is [0.5,NaN]; allowed"),
            "{faults}"
        );
        let calibration = CalibrationSettings { band_probability: f64::INFINITY, ..Default::default() };
        let faults = calibration.validate().unwrap_err().to_string();
        assert_eq!(faults, "`calibration.band_probability` is inf; allowed is a number above 0 and below 1");
        let showcase = ShowcaseSettings { source_fraction: f64::NEG_INFINITY, ..Default::default() };
        assert!(showcase.validate().unwrap_err().to_string().contains("`showcase.source_fraction` is -inf;"));
        // As JSON has it.
        let faults =
            CalibrationSettings::read(&serde_json::json!({"levels": [null]})).unwrap_err().to_string();
        assert!(
            faults.starts_with("`calibration.levels` is [NaN or infinite]; allowed is a list"),
            "{faults}"
        );
    }
}
