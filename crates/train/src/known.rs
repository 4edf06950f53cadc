//! Reads from the store what runs of a name there are.

use std::path::{Path, PathBuf};

use waycairn_dag::Node;
use waycairn_durable::read_file;
use waycairn_store::{NodeRow, ObjectReader, QueryError, RunSummary, Scalar};

use crate::any_experiment::Experiments;
use crate::checkpoint::{CONFIG, JOB, JobFile};
use crate::course::Selection;
use crate::error::TrainError;
use crate::history;
use crate::identity::{BASE_FIELD, Known, MODEL_FIELD, RunKey, SETTINGS_FIELD};
use crate::settings::Settings;

/// How often something is looked for anew where the checkpoint that it is in was withdrawn meanwhile. Each time means
/// that a newer one was saved, so more is no hope.
const TRIES: usize = 16;

/// Finds the settings file of a node's checkpoint, or that of the newest one of its run that is there: the path and the
/// text. `None` where the run has none that can be read.
///
/// Beside a process that trains the run and withdraws checkpoints, it is asked again as long as others are listed.
#[must_use]
pub fn recorded_config(reader: &ObjectReader, node: &Node) -> Option<(PathBuf, String)> {
    let config = |node: &Node| {
        let path = reader.checkpoint(node).ok()??.join(CONFIG);
        let text = String::from_utf8(read_file(&path).ok()?).ok()?;
        Some((path, text))
    };
    config(node).or_else(|| {
        let listed = || {
            let runs = reader.runs_of(node.name()).ok()?;
            Some(runs.into_iter().find(|run| run.last.same_run(node))?.checkpoints)
        };
        again(listed, |checkpoints| {
            checkpoints.iter().rev().take(TRIES).find_map(|seq| config(&at(node, *seq)))
        })
    })
}

/// Finds the name of the experiment that a node's run is of, as a checkpoint of the run has it; `None` as
/// [`recorded_config`] does.
#[must_use]
pub fn recorded_experiment(reader: &ObjectReader, node: &Node) -> Option<String> {
    let (config, _) = recorded_config(reader, node)?;
    let job = read_file(&config.with_file_name(JOB)).ok()?;
    Some(serde_json::from_slice::<JobFile>(&job).ok()?.experiment)
}

/// Returns the node that the model of a run is taken from, as a study takes it: the last one, or where the settings of
/// the run choose by validation the one with the lowest loss. `last` is the last node of the run; of a run whose
/// settings cannot be read, or whose experiment is not known, it is the answer.
///
/// # Errors
///
/// [`TrainError::Query`] for validations that cannot be read.
pub fn model_node(experiments: &Experiments, reader: &ObjectReader, last: &Node) -> Result<Node, TrainError> {
    let recorded = || {
        let (_, text) = recorded_config(reader, last)?;
        let experiment = experiments.find(Some(&recorded_experiment(reader, last)?)).ok()?;
        let settings = Settings::defaults(experiment.schema()).with_toml(&text, "its settings").ok()?;
        Some(experiment.course(&settings).ok()?.selection)
    };
    selected(reader, recorded().unwrap_or(Selection::Last), last)
}

/// The same for a selection that is known.
pub(crate) fn selected(reader: &ObjectReader, selection: Selection, last: &Node) -> Result<Node, TrainError> {
    match selection {
        Selection::Last => Ok(last.clone()),
        Selection::Best => {
            let validated = history::recorded(reader, last, history::VALIDATION)?;
            Ok(history::lowest(&validated).map_or_else(|| Ok(last.clone()), |seq| last.at(seq))?)
        }
    }
}

/// Returns what the run of a node recorded on its way, as `history.json` of its model holds it.
///
/// # Errors
///
/// [`TrainError`] for an experiment that is not known, and for records that cannot be read.
pub fn model_history(
    experiments: &Experiments,
    root: &Path,
    node: &Node,
    experiment: &str,
    settings: &Settings,
) -> Result<serde_json::Value, TrainError> {
    let experiment = experiments.find(Some(experiment))?;
    experiment.history(&ObjectReader::open_live(root)?, node, settings)
}

/// Lists something and looks for what is wanted in it, and does both again while it is not found and the list changes.
fn again<L: PartialEq, T>(
    mut list: impl FnMut() -> Option<L>,
    mut find: impl FnMut(&L) -> Option<T>,
) -> Option<T> {
    let mut before = None;
    for _ in 0..TRIES {
        let listed = list()?;
        let found = find(&listed);
        if found.is_some() || before.as_ref() == Some(&listed) {
            return found;
        }
        before = Some(listed);
    }
    None
}

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
    let mut runs = reader.runs_of(name)?;
    let mut newest = checkpoints_that_are_there(reader, &runs)?;
    for _ in 0..TRIES {
        if runs.iter().map(|run| &run.checkpoints).eq(&newest) {
            break;
        }
        // Gone, or withdrawn between the two looks, and then another list says what replaced it.
        let listed = reader.runs_of(name)?;
        if listed == runs {
            break;
        }
        newest = checkpoints_that_are_there(reader, &listed)?;
        runs = listed;
    }
    let mut known = Vec::new();
    for (run, checkpoints) in runs.into_iter().zip(newest) {
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

/// The checkpoints of each run. A marker whose folder is gone does not count; only the newest is of interest.
fn checkpoints_that_are_there(
    reader: &ObjectReader,
    runs: &[RunSummary],
) -> Result<Vec<Vec<u64>>, QueryError> {
    let mut there = Vec::with_capacity(runs.len());
    for run in runs {
        let mut checkpoints = run.checkpoints.clone();
        while let Some(newest) = checkpoints.last() {
            if reader.checkpoint(&at(&run.last, *newest))?.is_some() {
                break;
            }
            checkpoints.pop();
        }
        there.push(checkpoints);
    }
    Ok(there)
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

    use waycairn_store::{Marker, ObjectStore, StoreOptions};

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
    fn settings_are_found_while_checkpoints_are_withdrawn() {
        let root = tempfile::tempdir().unwrap();
        let node = |seq| Node::new("run", "0123456789abcdef", seq).unwrap();
        let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
        let save = |seq| {
            let staged = store.stage_folder(&node(seq), "checkpoint").unwrap();
            let config = staged.path().join(CONFIG);
            waycairn_durable::write_file(&config, b"steps = 1\n", waycairn_durable::Durability::Regenerable)
                .unwrap();
            staged.commit(Marker::Checkpoint, &[]).unwrap();
            store.flush().unwrap();
        };
        save(0);
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for seq in 1..60 {
                    save(seq);
                    store.withdraw_checkpoints(&[node(seq - 1)]).unwrap();
                }
                done.store(true, std::sync::atomic::Ordering::SeqCst);
            });
            let reader = ObjectReader::open(root.path()).unwrap();
            while !done.load(std::sync::atomic::Ordering::SeqCst) {
                let (_, text) = recorded_config(&reader, &node(0)).unwrap();
                assert_eq!(text, "steps = 1\n");
                let known = known_runs(&reader, "run").unwrap();
                assert!(!known[0].checkpoints.is_empty());
            }
        });
        store.close().unwrap();
    }

    #[test]
    fn what_is_gone_for_good_is_looked_for_twice() {
        let mut tries = 0;
        let found = again(
            || Some(1),
            |_| -> Option<()> {
                tries += 1;
                None
            },
        );
        assert_eq!((found, tries), (None, 2));
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
