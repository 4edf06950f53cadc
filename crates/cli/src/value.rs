//! The values that leave the program as JSON: ordered, and exact about what is not a finite number.

use std::borrow::Cow;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use waycairn_durable::time::rfc3339_micros;
use waycairn_store::Scalar;

/// Integers of a float column are written without a fraction up to this magnitude; every one below it is exact.
const EXACT_FLOAT: f64 = 9_007_199_254_740_992.0;

/// One value of an answer. Objects keep the order in which their fields were given.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Count(u64),
    Float(f64),
    /// A moment in nanoseconds since 1970, written as RFC 3339 in UTC with microseconds.
    Time(i64),
    Text(String),
    List(Vec<Value>),
    Object(Fields),
}

/// The fields of an object, in order.
pub(crate) type Fields = Vec<(Cow<'static, str>, Value)>;

impl Value {
    /// A moment, or null.
    pub(crate) fn time(nanos: Option<i64>) -> Self {
        nanos.map_or(Self::Null, Self::Time)
    }

    /// Text, or null.
    pub(crate) fn text(text: Option<impl Into<String>>) -> Self {
        text.map_or(Self::Null, |text| Self::Text(text.into()))
    }

    /// A list.
    pub(crate) fn list<T: Into<Self>>(values: impl IntoIterator<Item = T>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

impl From<&Scalar> for Value {
    fn from(scalar: &Scalar) -> Self {
        match scalar {
            Scalar::Null => Self::Null,
            Scalar::Bool(value) => Self::Bool(*value),
            Scalar::Int(value) => Self::Int(*value),
            Scalar::Float(value) => Self::Float(*value),
            Scalar::Text(value) => Self::Text(value.clone()),
        }
    }
}

impl From<serde_json::Value> for Value {
    /// Keys come sorted.
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(value),
            serde_json::Value::String(text) => Self::Text(text),
            serde_json::Value::Array(items) => Self::list(items),
            serde_json::Value::Object(fields) => {
                Self::Object(fields.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
            }
            serde_json::Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(count), _) => Self::Count(count),
                (None, Some(int)) => Self::Int(int),
                // A number of JSON is one of these three.
                (None, None) => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Count(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Count(value) => serializer.serialize_u64(*value),
            Self::Float(value) => serialize_float(*value, serializer),
            Self::Time(nanos) => serializer.serialize_str(&rfc3339_micros(*nanos)),
            Self::Text(value) => serializer.serialize_str(value),
            Self::List(values) => {
                let mut list = serializer.serialize_seq(Some(values.len()))?;
                for value in values {
                    list.serialize_element(value)?;
                }
                list.end()
            }
            Self::Object(fields) => serialize_fields(fields, serializer),
        }
    }
}

/// Columns that a list or an object of a laid-out value may take before it gets lines of its own.
const LINE: usize = 100;

impl Value {
    /// The JSON text over several lines, with every part that fits on a line on one: a row of an array, a small
    /// object.
    pub(crate) fn laid_out(&self) -> String {
        let mut text = String::new();
        self.lay_out(0, 0, &mut text);
        text.push('\n');
        text
    }

    /// Adds the text of this value, which stands behind `before` characters of a line that is indented by `indent`.
    fn lay_out(&self, indent: usize, before: usize, text: &mut String) {
        let line = serde_json::to_string(self).unwrap_or_default();
        let empty = matches!(line.as_str(), "[]" | "{}");
        match self {
            Self::List(values) if !empty && indent + before + line.len() > LINE => {
                let numbers = values.iter().all(|value| !matches!(value, Self::List(_) | Self::Object(_)));
                text.push('[');
                for (index, value) in values.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    let filled = text.len() - text.rfind('\n').map_or(0, |end| end + 1);
                    // A long row of plain values fills its lines; anything else has one line each.
                    if numbers && index > 0 && filled < LINE - 20 {
                        text.push_str(", ");
                    } else {
                        text.push_str(&format!("{comma}\n{:width$}", "", width = indent + 2));
                    }
                    value.lay_out(indent + 2, 0, text);
                }
                text.push_str(&format!("\n{:indent$}]", ""));
            }
            Self::Object(fields) if !empty && (indent == 0 || indent + before + line.len() > LINE) => {
                text.push('{');
                for (index, (key, value)) in fields.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    let key = serde_json::to_string(key.as_ref()).unwrap_or_default();
                    text.push_str(&format!("{comma}\n{:width$}{key}: ", "", width = indent + 2));
                    value.lay_out(indent + 2, key.len() + 2, text);
                }
                text.push_str(&format!("\n{:indent$}}}", ""));
            }
            _ => text.push_str(&line),
        }
    }
}

/// Writes the fields of one object in their order.
fn serialize_fields<S: Serializer>(fields: &Fields, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(fields.len()))?;
    for (key, value) in fields {
        map.serialize_entry(key.as_ref(), value)?;
    }
    map.end()
}

/// A float that is an integer is written as one, so that a key has one look whatever type a part gave it;
/// what is not finite, which JSON cannot say, is an object with one reserved key.
fn serialize_float<S: Serializer>(value: f64, serializer: S) -> Result<S::Ok, S::Error> {
    if !value.is_finite() {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("$float", non_finite(value))?;
        return map.end();
    }
    match whole(value) {
        Some(integer) => serializer.serialize_i64(integer),
        None => serializer.serialize_f64(value),
    }
}

/// The integer that a float is exactly; minus zero is not one, since an integer has no sign for it.
pub(crate) fn whole(value: f64) -> Option<i64> {
    let integral = value.fract() == 0.0 && value.abs() <= EXACT_FLOAT;
    if !integral || (value == 0.0 && value.is_sign_negative()) {
        return None;
    }
    // Within the exact range the conversion neither rounds nor saturates.
    Some(value as i64)
}

/// The word for a float that is not finite.
pub(crate) fn non_finite(value: f64) -> &'static str {
    if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(value: &Value) -> String {
        serde_json::to_string(value).unwrap()
    }

    #[test]
    fn cli_1_what_is_not_finite_is_an_object() {
        assert_eq!(json(&Value::Float(f64::NAN)), r#"{"$float":"NaN"}"#);
        assert_eq!(json(&Value::Float(f64::INFINITY)), r#"{"$float":"Infinity"}"#);
        assert_eq!(json(&Value::Float(f64::NEG_INFINITY)), r#"{"$float":"-Infinity"}"#);
    }

    #[test]
    fn a_whole_float_looks_like_an_integer() {
        assert_eq!(json(&Value::Float(3.0)), "3");
        assert_eq!(json(&Value::Int(3)), "3");
        assert_eq!(json(&Value::Float(-0.0)), "-0.0");
        assert_eq!(json(&Value::Float(2.5)), "2.5");
        assert_eq!(json(&Value::Float(1e300)), "1e+300");
        assert_eq!(json(&Value::Float(0.1 + 0.2)), "0.30000000000000004");
        assert_eq!(json(&Value::Count(u64::MAX)), "18446744073709551615");
    }

    #[test]
    fn objects_keep_their_order() {
        let value = Value::Object(vec![("z".into(), Value::Int(1)), ("a".into(), Value::Null)]);
        assert_eq!(json(&value), r#"{"z":1,"a":null}"#);
    }

    #[test]
    fn what_fits_on_a_line_stands_on_one() {
        let row = Value::list((0..40).map(f64::from));
        let value = Value::Object(vec![
            ("small".into(), Value::list([1_i64, 2])),
            ("none".into(), Value::List(Vec::new())),
            ("matrix".into(), Value::List(vec![row.clone(), row])),
        ]);
        let text = value.laid_out();
        assert!(
            text.starts_with(
                "{\n  \"small\": [1,2],\n  \"none\": [],\n  \"matrix\": [\n    [\n      0, 1, 2, "
            )
        );
        assert!(text.ends_with(", 39\n    ]\n  ]\n}\n"), "{text}");
        assert!(text.lines().all(|line| line.len() <= LINE), "{text}");
        let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed, serde_json::to_value(&value).unwrap());
    }

    #[test]
    fn cli_1_times_are_rfc_3339_with_microseconds() {
        assert_eq!(json(&Value::time(Some(1_000))), r#""1970-01-01T00:00:00.000001Z""#);
        assert_eq!(json(&Value::time(None)), "null");
    }
}
