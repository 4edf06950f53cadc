//! The section `data`: how many pairs a network learns from.

use serde::{Deserialize, Serialize};

use super::section::{Check, Section};
use crate::training::SplitSizes;

/// Sizes of the three splits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSettings {
    /// Pairs that are learned from.
    pub train_size: u64,
    /// Pairs that each epoch is measured on.
    pub validation_size: u64,
    /// Pairs for the classification metric.
    pub test_size: u64,
}

impl Default for DataSettings {
    fn default() -> Self {
        Self { train_size: 70_000, validation_size: 15_000, test_size: 15_000 }
    }
}

const EVEN: &str = "an even whole number of at least 2: half of the pairs are of each class";

impl Section for DataSettings {
    const PATH: &'static str = "data";
    const FIELDS: &'static [(&'static str, &'static str)] =
        &[("train_size", EVEN), ("validation_size", EVEN), ("test_size", EVEN)];

    fn check(&self, check: &mut Check) {
        let sizes = [self.train_size, self.validation_size, self.test_size];
        for ((name, _), size) in Self::FIELDS.iter().zip(sizes) {
            check.field(name, size >= 2 && size % 2 == 0);
        }
    }
}

impl From<&DataSettings> for SplitSizes {
    fn from(settings: &DataSettings) -> Self {
        let of = |size| usize::try_from(size).unwrap_or(usize::MAX);
        Self {
            train: of(settings.train_size),
            validation: of(settings.validation_size),
            test: of(settings.test_size),
        }
    }
}
