//! The order of an answer.

use std::cmp::Ordering;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::query::grammar::FIELD_PREFIX;
use crate::query::predicate::Number;
use crate::query::slots::Value;

/// What an answer is sorted by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
pub enum SortKey {
    /// The name, then the rest of the identity.
    Name,
    /// The nonce.
    Nonce,
    /// The position.
    Seq,
    /// The last write among the records of the node.
    Written,
    /// A folded field: numbers, then NaN, then texts, then nodes without a value, in either order.
    Field(String),
}

/// Takes `name`, `nonce`, `seq` and `written` as the words they are in expressions, and anything else, or what
/// follows `field:`, as a field.
impl From<&str> for SortKey {
    fn from(text: &str) -> SortKey {
        match text {
            "name" => SortKey::Name,
            "nonce" => SortKey::Nonce,
            "seq" => SortKey::Seq,
            "written" => SortKey::Written,
            text => SortKey::Field(text.strip_prefix(FIELD_PREFIX).unwrap_or(text).to_owned()),
        }
    }
}

impl From<String> for SortKey {
    fn from(text: String) -> SortKey {
        SortKey::from(text.as_str())
    }
}

/// The text that is read as this key.
impl From<SortKey> for String {
    fn from(key: SortKey) -> String {
        match key {
            SortKey::Name => "name".to_owned(),
            SortKey::Nonce => "nonce".to_owned(),
            SortKey::Seq => "seq".to_owned(),
            SortKey::Written => "written".to_owned(),
            SortKey::Field(key) => match SortKey::from(key.as_str()) {
                SortKey::Field(read) if read == key => key,
                // A field that is called like one of these words.
                _ => format!("{FIELD_PREFIX}{key}"),
            },
        }
    }
}

/// Smallest or largest first. What has no value stands last both ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Smallest first.
    #[default]
    Ascending,
    /// Largest first.
    Descending,
}

/// A value to sort by, apart from its block.
#[derive(Clone, Debug)]
pub(crate) enum SortValue {
    Number(Number),
    Nan,
    Text(Arc<str>),
    Missing,
}

impl SortValue {
    pub(crate) fn of(value: Option<Value<'_>>) -> SortValue {
        match value {
            None => SortValue::Missing,
            Some(Value::Text(text)) => SortValue::Text(text.into()),
            Some(value) => match Number::of(value) {
                Some(number) if !number.is_nan() => SortValue::Number(number),
                _ => SortValue::Nan,
            },
        }
    }

    fn class(&self) -> u8 {
        match self {
            SortValue::Number(_) => 0,
            SortValue::Nan => 1,
            SortValue::Text(_) => 2,
            SortValue::Missing => 3,
        }
    }

    pub(crate) fn compare(&self, other: &SortValue, order: Order) -> Ordering {
        let inside = match (self, other) {
            (SortValue::Number(one), SortValue::Number(other)) => {
                one.partial_cmp(other).unwrap_or(Ordering::Equal)
            }
            (SortValue::Text(one), SortValue::Text(other)) => one.cmp(other),
            _ => return self.class().cmp(&other.class()),
        };
        match order {
            Order::Ascending => inside,
            Order::Descending => inside.reverse(),
        }
    }
}
