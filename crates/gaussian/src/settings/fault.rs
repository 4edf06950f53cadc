//! What is wrong with settings.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// One value that is not allowed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fault {
    /// Where it stands: `problem.dimension`.
    pub path: String,
    /// What stands there.
    pub value: Value,
    /// What may stand there.
    pub allowed: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is ", self.path)?;
        write_value(f, &self.value)?;
        write!(f, "; allowed is {}", self.allowed)
    }
}

/// JSON, but for numbers that it has no word for.
fn write_value(f: &mut fmt::Formatter<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::String(text)
            if text == NO_NUMBER || text.parse().is_ok_and(|number: f64| !number.is_finite()) =>
        {
            f.write_str(text)
        }
        Value::Array(values) => {
            f.write_str("[")?;
            for (index, value) in values.iter().enumerate() {
                f.write_str(if index == 0 { "" } else { "," })?;
                write_value(f, value)?;
            }
            f.write_str("]")
        }
        Value::Object(fields) => {
            f.write_str("{")?;
            for (index, (name, value)) in fields.iter().enumerate() {
                write!(f, "{}{name:?}:", if index == 0 { "" } else { "," })?;
                write_value(f, value)?;
            }
            f.write_str("}")
        }
        other => write!(f, "{other}"),
    }
}

/// All values that are not allowed: at least one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// Each of them, in the order of the sections' fields.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.0.iter()
    }

    /// Takes what was found: an error where that is something.
    pub(crate) fn none_of(faults: Vec<Fault>) -> Result<(), Self> {
        if faults.is_empty() { Ok(()) } else { Err(Self(faults)) }
    }

    pub(crate) fn one(path: impl Into<String>, value: impl Serialize, allowed: impl Into<String>) -> Self {
        Self(vec![Fault { path: path.into(), value: json(value), allowed: allowed.into() }])
    }
}

/// One a line.
impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            write!(f, "{}{fault}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

/// A value as JSON. A number that is not finite becomes null: where one may be, see [`number`].
pub(crate) fn json(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_else(|error| Value::String(error.to_string()))
}

/// What null stands for in a section: a settings file has no null, and a NaN or an infinity of one has become null in JSON.
const NO_NUMBER: &str = "NaN or infinite";

/// A value that was given as JSON, for a fault: with a word for what was no number any more.
pub(crate) fn given(value: &Value) -> Value {
    match value {
        Value::Null => Value::String(NO_NUMBER.to_owned()),
        Value::Array(values) => values.iter().map(given).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), given(value))).collect(),
        other => other.clone(),
    }
}

/// A number as JSON; one that is not finite as a text.
pub(crate) fn number(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or_else(|| Value::String(value.to_string()), Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_that_json_has_not_are_told_as_they_are() {
        let told = |value: Value| Faults::one("a", value, "b").to_string();
        for (value, text) in [(f64::NAN, "NaN"), (f64::NEG_INFINITY, "-inf"), (0.5, "0.5")] {
            assert_eq!(told(number(value)), format!("`a` is {text}; allowed is b"));
        }
        assert_eq!(told(given(&json!([0.5, null]))), "`a` is [0.5,NaN or infinite]; allowed is b");
        let table = given(&json!({"mean:0": null, "mean:1": 2}));
        assert_eq!(told(table), "`a` is {\"mean:0\":NaN or infinite,\"mean:1\":2}; allowed is b");
        assert_eq!(told(json!(["ratio", "1"])), "`a` is [\"ratio\",\"1\"]; allowed is b");
    }
}
