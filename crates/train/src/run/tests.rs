#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "test files need no durability")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use waycairn_store::{ObjectReader, Scalar};

use super::*;
use crate::error::TrainError;
use crate::{Base, Gpt, SettingsError};

mod checkpoints;
mod exact;
mod faults;
mod given_up;
mod identity;
mod killed;
mod order;
mod retention;
mod rows;

/// A root with a text in it, and a request for a tiny model that uses everything that could break
/// exactness: dropout, shuffling, a schedule, accumulation, clipping.
struct Rig {
    folder: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text: String =
            (0..400).map(|index| format!("line {} of {}\n", index * 7919 % 1000, index)).collect();
        std::fs::write(folder.path().join("text.txt"), text).unwrap();
        Self { folder }
    }

    fn root(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn request(&self, root: &str, sets: &[(&str, &str)]) -> TrainRequest {
        let mut request = TrainRequest::new(self.root(root));
        request.name = Some("run".to_owned());
        request.text = Some(self.folder.path().join("text.txt"));
        let mut all: BTreeMap<&str, &str> = [
            ("steps", "6"),
            ("model.width", "16"),
            ("model.layers", "1"),
            ("model.dropout", "0.3"),
            ("data.context", "8"),
            ("batch_size", "2"),
            ("accumulate", "2"),
            ("eval_every", "4"),
            ("eval_batches", "2"),
            ("checkpoint_every", "2"),
            ("warmup", "2"),
            ("clip", "0.5"),
            ("report_every", "1"),
        ]
        .into();
        all.extend(sets.iter().copied());
        request.sets = all.into_iter().map(|(path, value)| (path.to_owned(), value.to_owned())).collect();
        request
    }
}

fn run(request: &TrainRequest) -> TrainReport {
    train(&crate::experiments![Gpt], request, &Stop::new(), &mut ()).unwrap()
}

fn fail(request: &TrainRequest) -> TrainError {
    train(&crate::experiments![Gpt], request, &Stop::new(), &mut ()).unwrap_err()
}

/// Trains until after step `step`, then stops in good order.
fn run_until(request: &TrainRequest, step: u64) -> TrainReport {
    let stop = Stop::new();
    let asked = stop.clone();
    let mut progress = move |event: &Event<'_>| {
        if matches!(event, Event::Step { step: now, .. } if *now == step) {
            asked.request();
        }
    };
    train(&crate::experiments![Gpt], request, &stop, &mut progress).unwrap()
}

/// Everything that was computed, by seq: the fields whose values are a function of the state.
fn computed(root: &Path, name: &str) -> BTreeMap<u64, BTreeMap<String, String>> {
    let reader = ObjectReader::open(root).unwrap();
    let rows = reader.query().name(name).select_all().unwrap().value;
    rows.into_iter()
        .map(|row| {
            let fields = row.fields.into_iter().filter(|(key, _)| {
                let exact = [
                    "train/loss",
                    "train/grad_norm",
                    "train/learning_rate",
                    "train/step",
                    "train/tokens",
                    "val/loss",
                ];
                exact.contains(&key.as_str())
            });
            let bits = |value: Scalar| match value {
                Scalar::Float(value) => format!("{:016x}", value.to_bits()),
                other => other.to_string(),
            };
            (row.node.seq(), fields.map(|(key, value)| (key, bits(value))).collect())
        })
        .collect()
}

fn field(root: &Path, node: &Node, key: &str) -> Option<Scalar> {
    let reader = ObjectReader::open(root).unwrap();
    reader.node(node).unwrap().unwrap().fields.remove(key)
}

fn final_weights(root: &Path, report: &TrainReport) -> Scalar {
    field(root, &report.node, "model/sha256").unwrap()
}

fn checkpoints(root: &Path, report: &TrainReport) -> Vec<u64> {
    let reader = ObjectReader::open(root).unwrap();
    let run = reader.runs().unwrap().into_iter().find(|run| run.last.same_run(&report.node)).unwrap();
    run.checkpoints
}

/// Copies a folder as a download would: without modification times.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::write(&target, std::fs::read(entry.path()).unwrap()).unwrap();
            let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
            std::fs::File::open(&target).unwrap().set_modified(old).unwrap();
        }
    }
}
