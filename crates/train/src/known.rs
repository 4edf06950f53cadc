//! Reads from the store what runs of a name there are.

use waycairn_dag::Node;
use waycairn_store::{NodeRow, ObjectReader, QueryError, Scalar};

use crate::identity::{BASE_FIELD, Known, MODEL_FIELD, RunKey, SETTINGS_FIELD};

/// Lists the runs of a name, newest first.
///
/// Damaged data in a part of other names does not matter. A part whose footer cannot be read may hold records of
/// this name, and stays an error: with the finish marker of this very command it would begin anew, and with the marker
/// of a checkpoint that checkpoint would be taken for a leftover and removed. Whoever moves such a part away has decided
/// that its records are lost; the error says so.
pub(crate) fn known_runs(reader: &ObjectReader, name: &str) -> Result<Vec<Known>, QueryError> {
    let rows = reader.query().name(name).seq(0).select(&[SETTINGS_FIELD, BASE_FIELD])?.value;
    // Asked on its own: a key that no part knows leaves no rows, and only runs of studies have this one.
    let models = reader.query().name(name).seq(0).has(MODEL_FIELD).select(&[MODEL_FIELD])?.value;
    let mut known = Vec::new();
    for run in reader.runs_of(name)? {
        let text = |rows: &[NodeRow], key: &str| {
            let row = rows.iter().find(|row| row.node.same_run(&run.last))?;
            match row.fields.get(key) {
                Some(Scalar::Text(text)) => Some(text.clone()),
                _ => None,
            }
        };
        let key = match (text(&rows, SETTINGS_FIELD), text(&rows, BASE_FIELD)) {
            (Some(settings), Some(base)) => settings.parse().ok().map(|settings_sha256| RunKey {
                name: name.to_owned(),
                base,
                settings_sha256,
                model_key: text(&models, MODEL_FIELD),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fs;
    use std::io::{Seek as _, SeekFrom, Write as _};
    use std::path::{Path, PathBuf};

    use waycairn_store::{ObjectStore, StoreOptions};

    use super::*;

    /// Records two nodes of a run and returns their part.
    fn record(root: &Path, name: &str) -> PathBuf {
        let parts = || -> Vec<PathBuf> {
            let entries = fs::read_dir(root.join("objects/values")).into_iter().flatten();
            entries.map(|entry| entry.unwrap().path()).collect()
        };
        let before = parts();
        let store = ObjectStore::open(root, StoreOptions::default()).unwrap();
        for seq in 0..2 {
            store.value(&Node::new(name, "949e88", seq).unwrap(), &[("x", 1.0.into())]).unwrap();
        }
        store.close().unwrap();
        parts().into_iter().find(|part| !before.contains(part)).unwrap()
    }

    fn overwrite(path: &Path, place: SeekFrom, bytes: &[u8]) {
        let mut file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.seek(place).unwrap();
        file.write_all(bytes).unwrap();
    }

    #[test]
    fn damaged_data_of_other_runs_does_not_matter_and_an_unreadable_footer_does() {
        let root = tempfile::tempdir().unwrap();
        record(root.path(), "ours");
        let theirs = record(root.path(), "theirs");
        // All of the data: what stands before the footer, whose length stands before the last four bytes.
        let bytes = fs::read(&theirs).unwrap();
        let length = *bytes[bytes.len() - 8..].first_chunk().unwrap();
        let footer = u32::from_le_bytes(length) as usize + 8;
        overwrite(&theirs, SeekFrom::Start(4), &vec![0xff; bytes.len() - footer - 4]);
        let reader = ObjectReader::open(root.path()).unwrap();
        assert!(reader.runs().is_err());
        let known = known_runs(&reader, "ours").unwrap();
        assert_eq!((known.len(), known[0].last), (1, 1));
        assert!(known_runs(&reader, "theirs").is_err());
        // Under another name, so that it is not taken for the part that was read before.
        let copy = theirs.with_file_name("part-copy.parquet");
        fs::copy(&theirs, &copy).unwrap();
        fs::remove_file(&theirs).unwrap();
        overwrite(&copy, SeekFrom::End(-4), b"????");
        let error = known_runs(&reader, "ours").unwrap_err().to_string();
        assert!(
            error.contains("part-copy.parquet") && error.contains("move it out of the folder"),
            "{error}"
        );
        fs::remove_file(&copy).unwrap();
        assert_eq!(known_runs(&reader, "ours").unwrap(), known);
    }
}
