//! The section `verification`: what a network is checked with beside its inferences.

use serde::{Deserialize, Serialize};

use super::section::{POSITIVE, Section};

/// How pairs of parameter points are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PairDesign {
    /// Uniform among the points of the parameters' lattices.
    Grid,
    /// Uniform over the box.
    Uniform,
    /// A scrambled Sobol sequence, paired up.
    Sobol,
}

/// How the points of the normalisation check are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NormalizationDesign {
    /// Along the diagonal of the box.
    Diagonal,
    /// Draws of the prior.
    Prior,
}

/// Sizes and designs of the verification sets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names are those of the settings, which the reference describes")]
pub struct VerificationSettings {
    pub seed: u64,
    pub pairs: u64,
    pub pair_design: PairDesign,
    pub samples_per_endpoint: u64,
    pub source_samples: u64,
    pub target_samples: u64,
    pub directions: u64,
    pub marginal_samples: u64,
    pub normalization_thetas: u64,
    pub normalization_design: NormalizationDesign,
    pub normalization_on_grid: bool,
}

impl Default for VerificationSettings {
    fn default() -> Self {
        Self {
            seed: 2027,
            pairs: 256,
            pair_design: PairDesign::Grid,
            samples_per_endpoint: 512,
            source_samples: 2048,
            target_samples: 2048,
            directions: 32,
            marginal_samples: 1000,
            normalization_thetas: 5,
            normalization_design: NormalizationDesign::Diagonal,
            normalization_on_grid: true,
        }
    }
}

impl Section for VerificationSettings {
    const PATH: &'static str = "verification";
    const FIELDS: &'static [(&'static str, &'static str)] = &[
        ("seed", "a whole number of at least 0"),
        ("pairs", POSITIVE),
        ("pair_design", "`grid`, `uniform` or `sobol`"),
        ("samples_per_endpoint", POSITIVE),
        ("source_samples", POSITIVE),
        ("target_samples", POSITIVE),
        ("directions", POSITIVE),
        ("marginal_samples", POSITIVE),
        ("normalization_thetas", POSITIVE),
        ("normalization_design", "`diagonal` or `prior`"),
        ("normalization_on_grid", "true or false"),
    ];
}
