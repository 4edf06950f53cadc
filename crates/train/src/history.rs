//! What a run recorded on its way, as `history.json` of its model holds it.

use serde_json::{Value, json};
use waycairn_dag::Node;
use waycairn_store::{NodeRow, ObjectReader, Order, Scalar, SortKey};

use crate::error::TrainError;

/// The field of the validation loss.
pub(crate) const VALIDATION: &str = "val/loss";

/// The field of the training loss.
pub(crate) const LOSS: &str = "train/loss";

/// The values of a field at the nodes of a run, by step, rising.
pub(crate) fn recorded(reader: &ObjectReader, node: &Node, key: &str) -> Result<Vec<(u64, f64)>, TrainError> {
    let mut query = reader.query();
    query.name(node.name()).nonce(node.nonce()).has(key).sort(SortKey::Seq, Order::Ascending);
    let value = |row: &NodeRow| {
        let value = match row.fields.get(key) {
            Some(Scalar::Float(value)) => *value,
            _ => f64::NAN,
        };
        (row.node.seq(), value)
    };
    Ok(query.select(&[key])?.value.iter().map(value).collect())
}

/// The training loss at each report, and each validation.
pub(crate) fn of_steps(reader: &ObjectReader, node: &Node) -> Result<Value, TrainError> {
    let losses = |key: &str| -> Result<Vec<Value>, TrainError> {
        let loss = |(seq, loss): (u64, f64)| json!({ "step": seq + 1, "loss": finite(loss) });
        Ok(recorded(reader, node, key)?.into_iter().map(loss).collect())
    };
    Ok(json!({ "train": losses(LOSS)?, "validation": losses(VALIDATION)?, "world_size": 1 }))
}

/// A number of JSON, which knows none that are not finite.
pub(crate) fn finite(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { Value::Null }
}

/// The position of the lowest of recorded values, the earliest of equals.
pub(crate) fn lowest(values: &[(u64, f64)]) -> Option<u64> {
    let finite = values.iter().filter(|(_, value)| value.is_finite());
    finite.min_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(seq, _)| *seq)
}
