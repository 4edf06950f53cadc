//! One setting: its path, what it accepts, its default.
//!
//! Settings are a flat map from dotted paths to values, checked against a list of [`Key`]s. The
//! trainer's own list is fixed; an [`Experiment`](crate::Experiment) adds its `model.*` keys. A
//! flat list (rather than a derived struct) lets an unknown path name its nearest neighbour, lets
//! a bad value say what would be accepted, and lets a user's own experiment extend the schema.

use std::fmt;

use serde::ser::{Serialize, SerializeSeq, Serializer};

use crate::best::Best;

/// The largest integer that RFC 8785 text keeps exactly (2^53 - 1).
pub const LARGEST_INTEGER: u64 = (1 << 53) - 1;

/// The text that stands for "not used": TOML has no null.
pub const OFF: &str = "off";

/// The value of one setting.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number of at most 2^53 - 1.
    Integer(u64),
    /// A finite number.
    Number(f64),
    /// A switch.
    Switch(bool),
    /// A text.
    Text(String),
    /// Two finite numbers.
    Pair([f64; 2]),
    /// A list, or a table of settings that an experiment reads itself.
    Json(serde_json::Value),
    /// The text `"off"`.
    Off,
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Switch(value)
    }
}

impl From<[f64; 2]> for Value {
    fn from(value: [f64; 2]) -> Self {
        Self::Pair(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        if value == OFF { Self::Off } else { Self::Text(value.to_owned()) }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value:?}"),
            Self::Switch(value) => write!(f, "{value}"),
            Self::Text(value) => write!(f, "{value:?}"),
            Self::Pair([first, second]) => write!(f, "[{first:?}, {second:?}]"),
            // As TOML writes it on one line; JSON's null has no place in settings.
            Self::Json(value) => match toml::Value::try_from(value) {
                Ok(value) => write!(f, "{value}"),
                Err(_) => write!(f, "{value}"),
            },
            Self::Off => write!(f, "\"{OFF}\""),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(value) => serializer.serialize_u64(*value),
            Self::Number(value) => serializer.serialize_f64(*value),
            Self::Switch(value) => serializer.serialize_bool(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::Pair(pair) => {
                let mut sequence = serializer.serialize_seq(Some(pair.len()))?;
                for value in pair {
                    sequence.serialize_element(value)?;
                }
                sequence.end()
            }
            Self::Json(value) => value.serialize(serializer),
            Self::Off => serializer.serialize_str(OFF),
        }
    }
}

/// Reads a table of settings, laid over its defaults where it is not whole: the whole of it, or what is wrong.
pub type ReadSection = fn(&serde_json::Value) -> Result<serde_json::Value, Vec<SectionFault>>;

/// A value in a section that is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionFault {
    /// Its dotted path, the section's name first.
    pub path: String,
    /// The value as given.
    pub given: String,
    /// What is accepted, in words.
    pub accepted: String,
}

/// What a setting accepts.
#[derive(Clone, Debug)]
enum Kind {
    Integer { least: u64 },
    Number { least: f64, most: f64 },
    Switch,
    Choice(&'static [&'static str]),
    Text,
    Pair { least: f64, below: f64 },
    Sizes,
    Section(ReadSection),
    Best,
}

/// One setting of the schema.
///
/// ```
/// use waycairn_train::Key;
///
/// let width = Key::integer("model.width", 64).at_least(1).help("channels of the residual stream");
/// assert_eq!(width.path(), "model.width");
/// ```
#[derive(Clone, Debug)]
pub struct Key {
    path: &'static str,
    kind: Kind,
    may_be_off: bool,
    default: Value,
    help: &'static str,
}

impl Key {
    /// Declares a whole number.
    #[must_use]
    pub fn integer(path: &'static str, default: u64) -> Self {
        Self::new(path, Kind::Integer { least: 0 }, default.into())
    }

    /// Declares a finite number; a whole number is accepted as well.
    #[must_use]
    pub fn number(path: &'static str, default: f64) -> Self {
        let kind = Kind::Number { least: f64::MIN, most: f64::MAX };
        Self::new(path, kind, default.into())
    }

    /// Declares a switch.
    #[must_use]
    pub fn switch(path: &'static str, default: bool) -> Self {
        Self::new(path, Kind::Switch, default.into())
    }

    /// Declares one text out of a list.
    #[must_use]
    pub fn choice(path: &'static str, default: &str, accepted: &'static [&'static str]) -> Self {
        Self::new(path, Kind::Choice(accepted), default.into())
    }

    /// Declares a free text.
    #[must_use]
    pub fn text(path: &'static str, default: &str) -> Self {
        Self::new(path, Kind::Text, Value::Text(default.to_owned()))
    }

    /// Declares two numbers in `0 <= x < 1`.
    #[must_use]
    pub fn pair(path: &'static str, default: [f64; 2]) -> Self {
        let kind = Kind::Pair { least: 0.0, below: 1.0 };
        Self::new(path, kind, default.into())
    }

    /// Declares a list of whole numbers from 1.
    #[must_use]
    pub fn sizes(path: &'static str, default: &[u64]) -> Self {
        Self::new(path, Kind::Sizes, Value::Json(default.into()))
    }

    /// Declares a whole table of settings, which the experiment reads itself: names, defaults and checks are its own.
    #[must_use]
    pub fn section(path: &'static str, read: ReadSection) -> Self {
        // The defaults of an experiment are what it accepts.
        let default = read(&serde_json::Value::Null).unwrap_or_default();
        Self::new(path, Kind::Section(read), Value::Json(default))
    }

    /// Reads the whole of a section; `None` for a key that is none.
    pub(crate) fn read_section(
        &self,
        whole: &serde_json::Value,
    ) -> Option<Result<serde_json::Value, Vec<SectionFault>>> {
        match self.kind {
            Kind::Section(read) => Some(read(whole)),
            _ => None,
        }
    }

    /// Whether it is a whole table.
    pub(crate) fn is_section(&self) -> bool {
        matches!(self.kind, Kind::Section(_))
    }

    /// Declares a rule for the best checkpoints: how many, by which field, and which end of it; a whole number
    /// alone means the lowest validation loss.
    pub(crate) fn best(path: &'static str) -> Self {
        Self::new(path, Kind::Best, Value::Off).or_off()
    }

    fn new(path: &'static str, kind: Kind, default: Value) -> Self {
        Self { path, kind, may_be_off: false, default, help: "" }
    }

    /// Sets the least integer that is accepted.
    #[must_use]
    pub fn at_least(mut self, bound: u64) -> Self {
        if let Kind::Integer { least } = &mut self.kind {
            *least = bound;
        }
        self
    }

    /// Sets the range of numbers that are accepted, both ends included.
    #[must_use]
    pub fn between(mut self, low: f64, high: f64) -> Self {
        if let Kind::Number { least, most } = &mut self.kind {
            *least = low;
            *most = high;
        }
        self
    }

    /// Lets the setting be `"off"`, and makes that the default.
    #[must_use]
    pub fn off(mut self) -> Self {
        self.default = Value::Off;
        self.or_off()
    }

    /// Lets the setting be `"off"`.
    #[must_use]
    pub fn or_off(mut self) -> Self {
        self.may_be_off = true;
        self
    }

    /// Says in one line what the setting does.
    #[must_use]
    pub fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    /// Returns the dotted path.
    #[must_use]
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// Returns the default.
    #[must_use]
    pub fn default_value(&self) -> &Value {
        &self.default
    }

    /// Returns the one-line description.
    #[must_use]
    pub fn description(&self) -> &'static str {
        self.help
    }

    /// Says in words what is accepted.
    #[must_use]
    pub fn accepted(&self) -> String {
        let mut text = match &self.kind {
            Kind::Integer { least } => format!("a whole number from {least} to 2^53 - 1"),
            Kind::Number { least, most } if *least == f64::MIN && *most == f64::MAX => {
                "a finite number".to_owned()
            }
            Kind::Number { least, most } if *least == f64::MIN_POSITIVE && *most == f64::MAX => {
                "a number above 0".to_owned()
            }
            Kind::Number { least, most } if *most == f64::MAX => {
                format!("a number of at least {least}")
            }
            Kind::Number { least, most } => format!("a number from {least} to {most}"),
            Kind::Switch => "true or false".to_owned(),
            Kind::Choice(accepted) => {
                let quoted: Vec<String> = accepted.iter().map(|text| format!("\"{text}\"")).collect();
                quoted.join(" or ")
            }
            Kind::Text => "a text".to_owned(),
            Kind::Pair { least, below } => {
                format!("two numbers, each at least {least} and below {below}")
            }
            Kind::Sizes => "a list of whole numbers from 1".to_owned(),
            Kind::Section(_) => "a table".to_owned(),
            Kind::Best => {
                "a whole number from 1 (the lowest val/loss), or \"COUNT FIELD min\" or \"COUNT FIELD max\""
                    .to_owned()
            }
        };
        if self.may_be_off {
            text.push_str(if text.is_empty() { "\"off\" alone" } else { ", or \"off\"" });
        }
        text
    }

    /// Reads a value of a TOML file; `None` when it is not accepted.
    pub(crate) fn read_toml(&self, value: &toml::Value) -> Option<Value> {
        let value = match (&self.kind, value) {
            (_, toml::Value::String(text)) if self.may_be_off && text == OFF => Value::Off,
            (Kind::Integer { .. } | Kind::Best, toml::Value::Integer(value)) => {
                Value::Integer(u64::try_from(*value).ok()?)
            }
            (Kind::Number { .. }, toml::Value::Integer(value)) => Value::Number(*value as f64),
            (Kind::Number { .. }, toml::Value::Float(value)) => Value::Number(*value),
            (Kind::Switch, toml::Value::Boolean(value)) => Value::Switch(*value),
            (Kind::Choice(_) | Kind::Text | Kind::Best, toml::Value::String(text)) => {
                Value::Text(text.clone())
            }
            (Kind::Pair { .. }, toml::Value::Array(items)) => {
                let numbers: Vec<f64> = items
                    .iter()
                    .map(|item| match item {
                        toml::Value::Integer(value) => Some(*value as f64),
                        toml::Value::Float(value) => Some(*value),
                        _ => None,
                    })
                    .collect::<Option<_>>()?;
                Value::Pair(numbers.try_into().ok()?)
            }
            (Kind::Sizes, list) => Value::Json(serde_json::to_value(list).ok()?),
            _ => return None,
        };
        self.check(value)
    }

    /// Reads the text after `--set PATH=`; `None` when it is not accepted.
    pub(crate) fn read_text(&self, text: &str) -> Option<Value> {
        let bare = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
        let value = match &self.kind {
            _ if self.may_be_off && bare == OFF => Value::Off,
            Kind::Integer { .. } => Value::Integer(text.replace('_', "").parse().ok()?),
            Kind::Number { .. } => Value::Number(text.replace('_', "").parse().ok()?),
            Kind::Switch => Value::Switch(text.parse().ok()?),
            Kind::Choice(_) | Kind::Text => Value::Text(bare.to_owned()),
            Kind::Best => match bare.trim().parse() {
                Ok(count) => Value::Integer(count),
                Err(_) => Value::Text(bare.to_owned()),
            },
            Kind::Pair { .. } => {
                let inner = text.trim().trim_start_matches('[').trim_end_matches(']');
                let numbers: Vec<f64> =
                    inner.split(',').map(|item| item.trim().parse().ok()).collect::<Option<_>>()?;
                Value::Pair(numbers.try_into().ok()?)
            }
            Kind::Sizes => Value::Json(serde_json::from_str(text).ok()?),
            Kind::Section(_) => return None,
        };
        self.check(value)
    }

    /// Returns the value when it is in range.
    pub(crate) fn check(&self, value: Value) -> Option<Value> {
        // A negative zero is the same setting as zero, and must not be another run.
        let value = match value {
            Value::Number(number) => Value::Number(number + 0.0),
            Value::Pair(pair) => Value::Pair(pair.map(|number| number + 0.0)),
            rule if matches!(self.kind, Kind::Best) && rule != Value::Off => Best::normal(&rule)?,
            other => other,
        };
        let accepted = match (&self.kind, &value) {
            (_, Value::Off) => self.may_be_off,
            (Kind::Integer { least }, Value::Integer(value)) => value >= least && *value <= LARGEST_INTEGER,
            (Kind::Number { least, most }, Value::Number(value)) => {
                value.is_finite() && value >= least && value <= most
            }
            (Kind::Switch, Value::Switch(_))
            | (Kind::Text, Value::Text(_))
            | (Kind::Best, Value::Text(_)) => true,
            (Kind::Best, Value::Integer(count)) => *count <= LARGEST_INTEGER,
            (Kind::Choice(accepted), Value::Text(text)) => accepted.contains(&text.as_str()),
            (Kind::Pair { least, below }, Value::Pair(pair)) => {
                pair.iter().all(|value| value >= least && value < below)
            }
            (Kind::Sizes, Value::Json(serde_json::Value::Array(sizes))) => {
                let size = |size: &serde_json::Value| {
                    size.as_u64().is_some_and(|size| (1..=LARGEST_INTEGER).contains(&size))
                };
                !sizes.is_empty() && sizes.iter().all(size)
            }
            _ => false,
        };
        accepted.then_some(value)
    }
}
