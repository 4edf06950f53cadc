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
        write!(f, "`{}` is {}; allowed is {}", self.path, self.value, self.allowed)
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

/// A value as JSON; what JSON has no number for, as a text.
pub(crate) fn json(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_else(|error| Value::String(error.to_string()))
}

/// A number as JSON, also one that is not finite.
pub(crate) fn number(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or_else(|| Value::String(value.to_string()), Value::Number)
}
