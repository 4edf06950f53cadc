//! The rule for the best checkpoints: how many, by which field, and which end of it.

use crate::schema::Value;

/// The field that `keep_best` ranks by when it is given a number alone.
pub(crate) const DEFAULT_METRIC: &str = "val/loss";

/// The best checkpoints by one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Best {
    pub(crate) count: u64,
    pub(crate) metric: String,
    pub(crate) highest: bool,
}

impl Best {
    /// Reads what [`Best::normal`] made.
    pub(crate) fn of(value: &Value) -> Option<Best> {
        match value {
            Value::Integer(count) if *count > 0 => {
                Some(Best { count: *count, metric: DEFAULT_METRIC.to_owned(), highest: false })
            }
            Value::Text(text) => {
                let (count, rest) = text.trim().split_once(char::is_whitespace)?;
                let (metric, order) = rest.trim().rsplit_once(char::is_whitespace)?;
                let count = count.parse().ok().filter(|count| *count > 0)?;
                let highest = match order {
                    "min" => false,
                    "max" => true,
                    _ => return None,
                };
                let metric = metric.trim();
                (!metric.is_empty()).then(|| Best { count, metric: metric.to_owned(), highest })
            }
            _ => None,
        }
    }

    /// The one way to write a rule, so that two that mean the same are the same setting; `None` for what is no
    /// rule.
    pub(crate) fn normal(value: &Value) -> Option<Value> {
        let Best { count, metric, highest } = Best::of(value)?;
        Some(if metric == DEFAULT_METRIC && !highest {
            Value::Integer(count)
        } else {
            Value::Text(format!("{count} {metric} {}", if highest { "max" } else { "min" }))
        })
    }
}
