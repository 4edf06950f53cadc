//! Reads from the store what runs of a name there are.

use waycairn_dag::Node;
use waycairn_store::{ObjectReader, QueryError, Scalar};

use crate::identity::{BASE_FIELD, Known, RunKey, SETTINGS_FIELD};

/// Lists the runs of a name, newest first.
pub(crate) fn known_runs(reader: &ObjectReader, name: &str) -> Result<Vec<Known>, QueryError> {
    let rows = reader.query().name(name).seq(0).select(&[SETTINGS_FIELD, BASE_FIELD])?.value;
    let mut known = Vec::new();
    for run in reader.runs()?.into_iter().filter(|run| run.name == name) {
        let fields = rows.iter().find(|row| row.node.same_run(&run.last)).map(|row| &row.fields);
        let text = |key: &str| match fields.and_then(|fields| fields.get(key)) {
            Some(Scalar::Text(text)) => Some(text.clone()),
            _ => None,
        };
        let key = match (text(SETTINGS_FIELD), text(BASE_FIELD)) {
            (Some(settings), Some(base)) => settings.parse().ok().map(|settings_sha256| RunKey {
                name: name.to_owned(),
                base,
                settings_sha256,
            }),
            _ => None,
        };
        let mut checkpoints = run.checkpoints;
        // A marker whose folder is gone does not count; only the newest is of interest.
        while let Some(newest) = checkpoints.last() {
            if reader.checkpoint(&at(&run.last, *newest))?.is_some() {
                break;
            }
            checkpoints.pop();
        }
        known.push(Known {
            nonce: run.nonce,
            key,
            last: run.last.seq(),
            checkpoints,
            finished: run.finished,
        });
    }
    Ok(known)
}

/// The node of a run at a recorded position.
fn at(node: &Node, seq: u64) -> Node {
    // A recorded position is within limits.
    node.at(seq).unwrap_or_else(|_| node.clone())
}
