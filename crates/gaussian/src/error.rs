//! What can be wrong with arrays.

use thiserror::Error;

/// Says why a computation was refused.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum GaussianError {
    /// An array does not have the length that the other arrays ask for.
    #[error("`{array}` has {found} values, not {expected}")]
    Shape {
        /// The array.
        array: &'static str,
        /// Its length if it fitted the others.
        expected: usize,
        /// Its length.
        found: usize,
    },
    /// An array has the right length and holds what cannot be used.
    #[error("`{array}` {why}")]
    Value {
        /// The array, or the number.
        array: &'static str,
        /// What is wrong with it, as the rest of the sentence.
        why: String,
    },
}

impl GaussianError {
    pub(crate) fn value(array: &'static str, why: impl Into<String>) -> Self {
        Self::Value { array, why: why.into() }
    }

    /// Refuses an array of another length than expected.
    pub(crate) fn length(array: &'static str, found: usize, expected: usize) -> Result<(), Self> {
        if found == expected { Ok(()) } else { Err(Self::Shape { array, expected, found }) }
    }
}
