//! The metrics `posterior` and `exact_reference`: what other targets say of the same cases.

use serde::{Deserialize, Serialize};

use super::coverage::{Coverage, Width};
use super::error::{Bias, Estimates, mean};
use crate::error::GaussianError;

/// The metrics of the posterior, where that is a target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Posterior {
    /// Whether it is a target.
    pub enabled: bool,
    /// Errors of its modes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bias: Option<Bias>,
    /// How often its sets hold the truth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Coverage>,
    /// How wide they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<Width>,
}

impl Posterior {
    /// Measures the posterior's estimates; nothing where it is off.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] where lengths do not fit, and for no case.
    pub fn new(estimates: Option<&Estimates<'_>>) -> Result<Self, GaussianError> {
        Ok(Self {
            enabled: estimates.is_some(),
            bias: estimates.map(Bias::new).transpose()?,
            coverage: estimates.map(Coverage::new).transpose()?,
            width: estimates.map(Width::new).transpose()?,
        })
    }
}

/// The metrics of the exact target, where that is one, and how far the network's modes are from its.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExactReference {
    /// What is there of the target.
    #[serde(flatten)]
    pub target: Posterior,
    /// Root of the mean squared distance between the modes of ratio and exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learned_vs_exact_mode_rmse: Option<f64>,
    /// What to keep in mind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
}

const CAVEAT: &str = "the exact target is the likelihood on the same candidates, without a prior and with their \
resolution: it is what the ratio target would be for a perfect network, and no posterior.";

impl ExactReference {
    /// Measures the exact estimates beside those of the ratio; nothing where the exact target is off.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] where lengths do not fit, and for no case.
    pub fn new(exact: Option<&Estimates<'_>>, ratio: &Estimates<'_>) -> Result<Self, GaussianError> {
        Ok(Self {
            target: Posterior::new(exact)?,
            learned_vs_exact_mode_rmse: exact.map(|exact| mode_rmse(ratio, exact)).transpose()?,
            caveat: exact.map(|_| CAVEAT.to_owned()),
        })
    }
}

/// Root of the mean squared distance between the modes of two targets.
///
/// # Errors
///
/// [`GaussianError`] where lengths do not fit, and for no case.
pub fn mode_rmse(a: &Estimates<'_>, b: &Estimates<'_>) -> Result<f64, GaussianError> {
    GaussianError::length("mode", a.cases()?, b.cases()?)?;
    let pairs = a.summaries.mode.iter().zip(&b.summaries.mode);
    Ok(libm::sqrt(mean(pairs.map(|(a, b)| (a - b) * (a - b)))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::density::Summaries;

    fn summaries(mode: f64) -> Summaries {
        Summaries {
            mode: vec![mode; 2],
            lower: vec![0.0; 2],
            upper: vec![1.0; 2],
            enclosed_mass: vec![0.7; 2],
            ess: vec![90.0; 2],
            joint_contains_truth: vec![1.0; 2],
            ..Summaries::default()
        }
    }

    #[test]
    fn a_target_that_is_off_says_so_and_nothing_else() {
        let (ratio, exact) = (summaries(1.0), summaries(1.5));
        let of = |summaries| Estimates { summaries, truth: &[1.0; 2], levels: &[0.68], parameters: 1 };
        let off = serde_json::to_value(Posterior::new(None).unwrap()).unwrap();
        assert_eq!(off, json!({"enabled": false}));
        let off = serde_json::to_value(ExactReference::new(None, &of(&ratio)).unwrap()).unwrap();
        assert_eq!(off, json!({"enabled": false}));

        let found = ExactReference::new(Some(&of(&exact)), &of(&ratio)).unwrap();
        assert_eq!(found.learned_vs_exact_mode_rmse, Some(0.5));
        let text = serde_json::to_value(&found).unwrap();
        let mut names: Vec<&str> = text.as_object().unwrap().keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["bias", "caveat", "coverage", "enabled", "learned_vs_exact_mode_rmse", "width"]);
        assert_eq!(text["bias"]["mean_signed"], 0.5);
        assert_eq!(ExactReference::deserialize(text).unwrap(), found);
    }
}
