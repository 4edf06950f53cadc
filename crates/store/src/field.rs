//! The names and values that a caller may record.

use std::fmt;

use serde_json::Value;
use thiserror::Error;

use crate::schema::{RESERVED_PREFIX, TEXT_SUFFIX};

/// Longest field name, in bytes of UTF-8.
pub const MAX_FIELD_NAME_BYTES: usize = 1024;

/// Longest text value, in bytes of UTF-8. A larger object belongs in an artifact or a blob.
pub const MAX_TEXT_BYTES: usize = 64 * 1024 * 1024;

/// Longest tag, in bytes of UTF-8: it stands in every record of a launch.
pub const MAX_TAG_BYTES: usize = 200;

/// Checks what a user wants the records of a launch to be marked with.
///
/// # Errors
/// [`TagError`] for an empty tag, a control character, and more than [`MAX_TAG_BYTES`].
pub fn check_tag(tag: &str) -> Result<(), TagError> {
    if tag.is_empty() {
        return Err(TagError::Empty);
    }
    if tag.len() > MAX_TAG_BYTES {
        return Err(TagError::TooLong { bytes: tag.len() });
    }
    match tag.chars().find(|c| c.is_control()) {
        Some(character) => Err(TagError::ControlCharacter { character }),
        None => Ok(()),
    }
}

/// Why a text is no tag.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TagError {
    /// There is nothing in it.
    #[error("a tag is empty; give it a word, or leave it out")]
    Empty,
    /// It is longer than [`MAX_TAG_BYTES`].
    #[error("a tag of {bytes} bytes is too long: at most {MAX_TAG_BYTES} are allowed; choose a shorter one")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// It holds a control character, such as a line break.
    #[error("a tag holds the control character U+{:04X}; leave it out", u32::from(*character))]
    ControlCharacter {
        /// The first of them.
        character: char,
    },
}

/// One value of a field: what a cell of a part can hold.
///
/// `Null` means "absent": it is accepted, recorded as nothing, and never overrides a value, so a field
/// cannot be unset. NaN and the infinities are data.
///
/// `==` compares as the variants stand (an `Int` is no `Float`, NaN is not itself); [`Scalar::same`]
/// compares by value, as answers are compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Scalar {
    /// No value.
    #[default]
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(String),
}

impl Scalar {
    /// Takes an unsigned number, which must fit an `i64`.
    ///
    /// # Errors
    /// [`ScalarError`] above `i64::MAX`.
    pub fn try_from_u64(number: u64) -> Result<Scalar, ScalarError> {
        i64::try_from(number).map(Scalar::Int).map_err(|_| ScalarError { kind: UNSIGNED })
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Scalar::Null)
    }

    /// Whether both hold the same value: 3 and 3.0 do, NaN and NaN do, 2^53 + 1 and its nearest float do
    /// not, and neither do a truth value and a number.
    #[must_use]
    pub fn same(&self, other: &Scalar) -> bool {
        match (self, other) {
            (Scalar::Float(a), Scalar::Float(b)) => a == b || (a.is_nan() && b.is_nan()),
            (Scalar::Int(int), Scalar::Float(float)) | (Scalar::Float(float), Scalar::Int(int)) => {
                int_as_float(*int) == Some(*float)
            }
            _ => self == other,
        }
    }

    /// The word for the type, as error texts use it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Scalar::Null => "null",
            Scalar::Bool(_) => "a bool",
            Scalar::Int(_) => "an integer",
            Scalar::Float(_) => "a float",
            Scalar::Text(_) => "a string",
        }
    }
}

/// The float that equals `int`, if there is one.
pub(crate) fn int_as_float(int: i64) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "the loss is what is looked for")]
    let float = int as f64;
    // In i128 both conversions are exact, so i64::MAX and the float above it stay apart.
    #[expect(clippy::cast_possible_truncation, reason = "the float came from an i64")]
    let back = float as i128;
    (back == i128::from(int)).then_some(float)
}

/// Shows the bare value: 3.0 as `3` (as JSON output does), text without quotes, very large and very small
/// floats with an exponent.
impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Null => f.write_str("null"),
            Scalar::Bool(value) => value.fmt(f),
            Scalar::Int(value) => value.fmt(f),
            Scalar::Float(value) => {
                let size = value.abs();
                if size != 0.0 && size.is_finite() && !(1e-5..1e16).contains(&size) {
                    write!(f, "{value:e}")
                } else {
                    value.fmt(f)
                }
            }
            Scalar::Text(value) => f.write_str(value),
        }
    }
}

macro_rules! scalar_from {
    ($($from:ty => $variant:ident),* $(,)?) => {$(
        impl From<$from> for Scalar {
            fn from(value: $from) -> Scalar {
                Scalar::$variant(value.into())
            }
        }
    )*};
}

scalar_from!(bool => Bool, i64 => Int, i32 => Int, u32 => Int, f64 => Float, f32 => Float, &str => Text, String => Text);

impl TryFrom<&Value> for Scalar {
    type Error = ScalarError;

    fn try_from(value: &Value) -> Result<Scalar, ScalarError> {
        match value {
            Value::Null => Ok(Scalar::Null),
            Value::Bool(value) => Ok(Scalar::Bool(*value)),
            Value::Number(number) => number
                .as_i64()
                .map(Scalar::Int)
                .or_else(|| (!number.is_u64()).then(|| number.as_f64().map(Scalar::Float))?)
                .ok_or(ScalarError { kind: UNSIGNED }),
            Value::String(text) => Ok(Scalar::Text(text.clone())),
            Value::Array(_) => Err(ScalarError { kind: "an array" }),
            Value::Object(_) => Err(ScalarError { kind: "a map" }),
        }
    }
}

const UNSIGNED: &str = "an unsigned integer above 9223372036854775807";

/// A value that no cell can hold.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{kind} cannot be recorded: a value is a bool, a 64-bit integer, a float or a string")]
pub struct ScalarError {
    /// What it was, with its article.
    pub kind: &'static str,
}

/// A name that a caller may record under: the reserved names cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldName<'a>(&'a str);

impl<'a> FieldName<'a> {
    /// Checks a name.
    ///
    /// # Errors
    /// [`FieldNameError`] when it is empty, longer than [`MAX_FIELD_NAME_BYTES`], begins with `_x_`, or
    /// ends in `::text`.
    pub fn new(name: &'a str) -> Result<FieldName<'a>, FieldNameError> {
        if name.is_empty() {
            Err(FieldNameError::Empty)
        } else if name.len() > MAX_FIELD_NAME_BYTES {
            let start = name.chars().take(40).collect();
            Err(FieldNameError::Long { start, bytes: name.len() })
        } else if name.starts_with(RESERVED_PREFIX) {
            Err(FieldNameError::Reserved { name: name.to_owned() })
        } else if name.ends_with(TEXT_SUFFIX) {
            Err(FieldNameError::TextSuffix { name: name.to_owned() })
        } else {
            Ok(FieldName(name))
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(self) -> &'a str {
        self.0
    }
}

/// Why a text is no field name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldNameError {
    /// It has no character.
    #[error("a field name is empty")]
    Empty,
    /// It is longer than [`MAX_FIELD_NAME_BYTES`].
    #[error("the field name `{start}...` has {bytes} bytes; at most {MAX_FIELD_NAME_BYTES} are allowed")]
    Long {
        /// Its first characters.
        start: String,
        /// Its length.
        bytes: usize,
    },
    /// It begins with `_x_`.
    #[error(
        "the field name `{name}` is reserved: names that begin with `_x_` are written by the store itself"
    )]
    Reserved {
        /// The name.
        name: String,
    },
    /// It ends in `::text`.
    #[error("the field name `{name}` ends in `::text`, which queries use for the text side of a field")]
    TextSuffix {
        /// The name.
        name: String,
    },
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn identity_case_06_json_that_no_cell_holds_is_refused_by_kind() {
        let kind = |value: Value| Scalar::try_from(&value).unwrap_err().kind;
        assert_eq!(kind(json!([1, 2])), "an array");
        assert_eq!(kind(json!({"a": 1})), "a map");
        assert_eq!(kind(json!(u64::MAX)), UNSIGNED);
        assert_eq!(Scalar::try_from_u64(1 << 63).unwrap_err().kind, UNSIGNED);
        assert_eq!(Scalar::try_from(&json!(i64::MAX)).unwrap(), Scalar::Int(i64::MAX));
        assert_eq!(Scalar::try_from(&json!(1.5e300)).unwrap(), Scalar::Float(1.5e300));
        assert_eq!(Scalar::try_from(&json!(null)).unwrap(), Scalar::Null);
    }

    #[test]
    fn store_1_reserved_names_cannot_be_built() {
        let long = "k".repeat(MAX_FIELD_NAME_BYTES);
        for good in
            ["a", "train/loss", "it's \"quoted\"; drop table", "`\\\u{4e2d}\u{6587}", "x_x_", long.as_str()]
        {
            assert_eq!(FieldName::new(good).unwrap().as_str(), good);
        }
        assert_eq!(FieldName::new(""), Err(FieldNameError::Empty));
        assert!(matches!(FieldName::new("_x_name"), Err(FieldNameError::Reserved { .. })));
        assert!(matches!(FieldName::new("a::text"), Err(FieldNameError::TextSuffix { .. })));
        assert!(matches!(FieldName::new(&format!("{long}k")), Err(FieldNameError::Long { bytes: 1025, .. })));
    }

    #[test]
    fn values_compare_exactly_and_show_as_json_does() {
        assert!(Scalar::Int(3).same(&Scalar::Float(3.0)));
        assert!(Scalar::Float(f64::NAN).same(&Scalar::Float(f64::NAN)));
        assert!(!Scalar::Int((1 << 53) + 1).same(&Scalar::Float(9_007_199_254_740_992.0)));
        assert!(!Scalar::Int(i64::MAX).same(&Scalar::Float(9_223_372_036_854_775_808.0)));
        assert!(!Scalar::Bool(true).same(&Scalar::Int(1)));
        assert_eq!(int_as_float(i64::MIN), Some(-9_223_372_036_854_775_808.0));
        for (value, shown) in [(3.0, "3"), (-0.5, "-0.5"), (1e300, "1e300"), (0.0, "0"), (1.5e-9, "1.5e-9")] {
            assert_eq!(Scalar::Float(value).to_string(), shown);
        }
    }
}
