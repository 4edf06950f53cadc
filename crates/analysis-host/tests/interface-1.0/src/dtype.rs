//! Element types of tensors, under the names that NumPy and Flax use.

use std::fmt;
use std::str::FromStr;

use crate::error::ContextError;

/// The type of one element of a tensor.
///
/// It crosses the boundary as text, so a host may hand out a type that this version of the interface does not
/// know: that one reads as [`DType::Other`], and [`crate::TensorView::dtype_name`] still tells its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DType {
    /// One byte, 0 or 1.
    Bool,
    /// Unsigned, 1 byte.
    U8,
    /// Unsigned, 2 bytes.
    U16,
    /// Unsigned, 4 bytes.
    U32,
    /// Unsigned, 8 bytes.
    U64,
    /// Signed, 1 byte.
    I8,
    /// Signed, 2 bytes.
    I16,
    /// Signed, 4 bytes.
    I32,
    /// Signed, 8 bytes.
    I64,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of a binary32.
    BF16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// A type that this version of the interface does not know. Its size is unknown.
    Other,
}

const NAMES: [(DType, &str, usize); 13] = [
    (DType::Bool, "bool", 1),
    (DType::U8, "uint8", 1),
    (DType::U16, "uint16", 2),
    (DType::U32, "uint32", 4),
    (DType::U64, "uint64", 8),
    (DType::I8, "int8", 1),
    (DType::I16, "int16", 2),
    (DType::I32, "int32", 4),
    (DType::I64, "int64", 8),
    (DType::F16, "float16", 2),
    (DType::BF16, "bfloat16", 2),
    (DType::F32, "float32", 4),
    (DType::F64, "float64", 8),
];

impl DType {
    /// NumPy's name, e.g. `float32`; `other` for [`DType::Other`].
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(dtype, ..)| *dtype == self).map_or("other", |(_, name, _)| name)
    }

    /// Bytes of one element; `None` for [`DType::Other`].
    #[must_use]
    pub fn size(self) -> Option<usize> {
        NAMES.iter().find(|(dtype, ..)| *dtype == self).map(|(.., size)| *size)
    }

    /// Whether the values are floating-point numbers.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }

    /// The type of this name; [`DType::Other`] for an unknown one.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        NAMES.iter().find(|(_, known, _)| *known == name).map_or(DType::Other, |(dtype, ..)| *dtype)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DType {
    type Err = ContextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match Self::from_name(text) {
            DType::Other => {
                let known = NAMES.map(|(_, name, _)| name).join(", ");
                Err(ContextError::invalid(format!("unknown element type `{text}`; known are {known}")))
            }
            dtype => Ok(dtype),
        }
    }
}
