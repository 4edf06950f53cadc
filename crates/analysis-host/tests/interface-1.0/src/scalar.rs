//! One recorded value.

/// One scalar that an analysis emits, or that describes an artifact.
///
/// Floats may be NaN or infinite: they are recorded as they are.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// True or false.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// A float, finite or not.
    Float(f64),
    /// Text.
    Text(String),
}

macro_rules! from {
    ($($source:ty => $variant:ident),* $(,)?) => {$(
        impl From<$source> for Scalar {
            fn from(value: $source) -> Self {
                Scalar::$variant(value.into())
            }
        }
    )*};
}

from! {
    bool => Bool,
    i8 => Int, i16 => Int, i32 => Int, i64 => Int, u8 => Int, u16 => Int, u32 => Int,
    f32 => Float, f64 => Float,
    &str => Text, String => Text,
}

/// Counts above `i64::MAX`, which no memory holds, saturate.
impl From<usize> for Scalar {
    fn from(value: usize) -> Self {
        Scalar::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

/// Counts above `i64::MAX` saturate.
impl From<u64> for Scalar {
    fn from(value: u64) -> Self {
        Scalar::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}
