#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "test files need no durability")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use waycairn_store::Scalar;

use super::*;
use crate::checkpoint::{CheckpointError, MODEL, OPTIMIZER, STATE};
use crate::data::{Reading, Source, TextData};
use crate::error::TrainError;
use crate::origin::base_settings;
use crate::{Base, Gpt, SettingsError};

mod given_up;

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

#[test]
fn a_fresh_run_records_what_the_names_promise() {
    let rig = Rig::new();
    let report = run(&rig.request("a", &[]));
    assert_eq!((report.status, report.steps), (Status::Finished, 6));
    assert_eq!((report.updates, report.ticks), (6, 5));
    assert_eq!(report.node.seq(), 5);
    assert_eq!(report.checkpoint.as_ref(), Some(&report.node));
    let root = rig.root("a");
    let reader = ObjectReader::open(&root).unwrap();
    let view = reader.node(&report.node).unwrap().unwrap();
    for key in [
        "train/loss",
        "train/learning_rate",
        "train/grad_norm",
        "train/step",
        "train/tokens",
        "train/rate",
        "time/data",
        "time/compute",
        "time/update",
        "time/record",
        "data/batch_sha256",
        "model/sha256",
    ] {
        assert!(view.fields.contains_key(key), "{key}");
    }
    assert!(view.finished);
    assert_eq!(view.fields["train/tokens"], Scalar::Int(6 * 4 * 8));
    let checkpoint = view.checkpoint.unwrap();
    assert!(checkpoint.complete);
    let names: Vec<&str> = checkpoint.files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "config.toml",
            "job.json",
            "manifest.json",
            "model.safetensors",
            "optimizer.safetensors",
            "rng.npy",
            "state.json",
            "tokenizer.json"
        ]
    );
    let first = report.node.at(0).unwrap();
    assert!(
        matches!(field(&root, &first, "job/settings_sha256"), Some(Scalar::Text(text)) if text.len() == 64)
    );
    assert_eq!(field(&root, &first, "job/base"), Some(Scalar::Text("none".to_owned())));
    assert_eq!(reader.runs().unwrap()[0].job.as_deref(), Some("gpt@1"));
}

#[test]
fn training_case_02_what_is_done_is_not_done_again() {
    let rig = Rig::new();
    let whole = run(&rig.request("whole", &[]));
    let expected = computed(&rig.root("whole"), "run");
    assert_eq!(checkpoints(&rig.root("whole"), &whole), [1, 3, 5]);

    // 2 of 6 steps are done, then 6 of 6.
    let request = rig.request("parts", &[]);
    let begun = run_until(&request, 2);
    assert_eq!((begun.status, begun.steps, begun.updates, begun.ticks), (Status::Stopped, 2, 2, 1));
    let rest = run(&request);
    assert_eq!((rest.status, rest.steps, rest.updates, rest.ticks), (Status::Finished, 6, 4, 4));
    assert_eq!(rest.resumed_from.as_ref(), Some(&begun.node));
    assert!(rest.node.same_run(&begun.node));
    assert_eq!(computed(&rig.root("parts"), "run"), expected);
    assert_eq!(checkpoints(&rig.root("parts"), &rest), [1, 3, 5]);
    assert_eq!(final_weights(&rig.root("parts"), &rest), final_weights(&rig.root("whole"), &whole));

    let again = run(&request);
    assert_eq!((again.status, again.updates, again.ticks), (Status::Skipped, 0, 0));
    assert_eq!(again.node, rest.node);
    assert_eq!(computed(&rig.root("parts"), "run"), expected);
}

#[test]
fn training_case_03_a_branch_has_its_base_as_parent_and_begins_at_zero() {
    let rig = Rig::new();
    let request = rig.request("a", &[("steps", "2"), ("checkpoint_every", "1")]);
    let report = run(&request);
    assert_eq!(checkpoints(&rig.root("a"), &report), [0, 1]);
    let mut branch = TrainRequest::new(rig.root("a"));
    branch.base = Base::Branch(report.node.clone());
    branch.name = Some("warmer".to_owned());
    branch.sets = vec![("steps".to_owned(), "3".to_owned()), ("learning_rate".to_owned(), "3e-3".to_owned())];
    let branched = run(&branch);
    assert_eq!((branched.node.name(), branched.node.seq()), ("warmer", 0));
    assert_eq!((branched.steps, branched.updates, branched.ticks), (3, 1, 0));
    let reader = ObjectReader::open(&rig.root("a")).unwrap();
    assert_eq!(reader.parents(&branched.node).unwrap().first(), Some(&report.node));
    assert_eq!(field(&rig.root("a"), &branched.node, "train/step"), Some(Scalar::Int(3)));
    let base = Scalar::Text(report.node.address().to_string());
    assert_eq!(field(&rig.root("a"), &branched.node, "job/base"), Some(base));
    // The same command again is the same run.
    let again = run(&branch);
    assert_eq!((again.status, again.node), (Status::Skipped, branched.node));
}

#[test]
fn training_case_04_checkpoint_and_validation_on_one_step_make_one_checkpoint() {
    let rig = Rig::new();
    let report = run(&rig.request("a", &[("eval_every", "2"), ("checkpoint_every", "2"), ("steps", "4")]));
    assert_eq!(checkpoints(&rig.root("a"), &report), [1, 3]);
    let reader = ObjectReader::open(&rig.root("a")).unwrap();
    let records = reader.sql("select count(*) from records where \"_x_checkpoint\"").unwrap();
    assert_eq!(records.rows().next().unwrap()[0], Scalar::Int(2));
}

#[test]
fn training_case_05_the_batch_of_every_checkpoint_can_be_had_again() {
    let rig = Rig::new();
    let request = rig.request("a", &[("checkpoint_every", "1"), ("eval_every", "1"), ("steps", "4")]);
    let report = run(&request);
    let root = rig.root("a");
    let reader = ObjectReader::open(&root).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for seq in 0..4 {
        let node = report.node.at(seq).unwrap();
        let checkpoint = restore::open(&reader, &node, Depth::Whole).unwrap();
        let loader = &checkpoint.state().loader;
        assert_eq!((loader.offset, loader.position), (0, seq));
        let settings = base_settings(&checkpoint, &crate::experiment::shared(Gpt)).unwrap();
        let source = Source::parse(settings.text("data.source").unwrap());
        let reading = Reading::Given(checkpoint.vocabulary().clone());
        let data = Arc::new(TextData::open(&source, reading, 0.9).unwrap());
        let clock = waycairn_dag::Clock::new(node.clone());
        let again = crate::data::Loader::new(data, &loader.fingerprint, loader.offset, clock.view());
        let batch = again.batch();
        assert!(Arc::ptr_eq(&batch, &again.batch()));
        let text = batch.sha256().to_string();
        assert_eq!(field(&root, &node, "data/batch_sha256"), Some(Scalar::Text(text.clone())));
        seen.insert(text);
    }
    assert_eq!(seen.len(), 4);

    // Validation is the same however far training has gone: evaluate once, or at every step.
    let seldom = run(&rig.request("b", &[("checkpoint_every", "1"), ("eval_every", "4"), ("steps", "4")]));
    let value = |root: &str, node: &Node| field(&rig.root(root), node, "val/loss").unwrap();
    assert_eq!(value("b", &seldom.node), value("a", &report.node));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    /// TRAIN-1 and exact resume: however often and wherever a run is stopped, its numbers are those
    /// of an undisturbed run.
    #[test]
    fn train_1_a_run_that_is_stopped_anywhere_has_equal_bits(stops in proptest::collection::btree_set(1_u64..9, 1..4), order in prop_oneof![Just("shuffled"), Just("random")]) {
        let rig = Rig::new();
        let sets = [("steps", "9"), ("data.order", order), ("checkpoint_every", "4")];
        let whole = run(&rig.request("whole", &sets));
        let request = rig.request("parts", &sets);
        for step in &stops {
            let report = run_until(&request, *step);
            prop_assert_eq!((report.status, report.steps), (Status::Stopped, *step));
        }
        let rest = run(&request);
        prop_assert_eq!(rest.status, Status::Finished);
        prop_assert_eq!(computed(&rig.root("parts"), "run"), computed(&rig.root("whole"), "run"));
        prop_assert_eq!(final_weights(&rig.root("parts"), &rest), final_weights(&rig.root("whole"), &whole));
    }
}

#[test]
fn training_case_10_a_copied_root_goes_on() {
    let rig = Rig::new();
    let request = rig.request("here", &[]);
    run_until(&request, 3);
    copy(&rig.root("here"), &rig.root("there"));
    let mut there = request.clone();
    there.root = rig.root("there");
    let whole = run(&rig.request("whole", &[]));
    let rest = run(&there);
    assert_eq!((rest.status, rest.updates), (Status::Finished, 3));
    assert_eq!(final_weights(&rig.root("there"), &rest), final_weights(&rig.root("whole"), &whole));
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

#[test]
fn training_case_11_a_damaged_checkpoint_is_named_and_an_older_one_suggested() {
    let rig = Rig::new();
    let request = rig.request("a", &[]);
    let stopped = run_until(&request, 4);
    let reader = ObjectReader::open(&rig.root("a")).unwrap();
    let folder = reader.checkpoint(&stopped.node).unwrap().unwrap();
    let older = stopped.node.at(1).unwrap();
    let check = |damage: &dyn Fn(&Path), expected: &str| {
        let file = folder.join(MODEL);
        let before = std::fs::read(&file).unwrap();
        damage(&folder);
        let error = fail(&request);
        assert_eq!(error.code(), "corrupt");
        let TrainError::Checkpoint { node, older: suggested, source, .. } = &error else {
            panic!("{error:?}");
        };
        assert_eq!((node, suggested.as_deref()), (&stopped.node, Some(&older)));
        assert!(source.to_string().contains(expected), "{source}");
        let command = format!("--branch {older} --name run --steps 6 --text ");
        assert!(error.next().unwrap().contains(&command), "{:?}", error.next());
        assert!(error.next().unwrap().contains(" --set clip=0.5"), "{:?}", error.next());
        std::fs::write(&file, before).unwrap();
    };
    for at in [0, 9, 200, 10_000] {
        let flip = move |folder: &Path| {
            let file = folder.join(MODEL);
            let mut bytes = std::fs::read(&file).unwrap();
            let at = at.min(bytes.len() - 1);
            bytes[at] ^= 1;
            std::fs::write(file, bytes).unwrap();
        };
        check(&flip, "model.safetensors` is damaged");
    }
    check(&|folder| std::fs::remove_file(folder.join(MODEL)).unwrap(), "model.safetensors` is missing");
    let cut = |folder: &Path| {
        let file = folder.join(MODEL);
        let bytes = std::fs::read(&file).unwrap();
        std::fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
    };
    check(&cut, "bytes, and its manifest says");

    // Every other file is guarded as well, the manifest by being the list.
    for name in [OPTIMIZER, STATE, "config.toml", "job.json", "rng.npy", "tokenizer.json", "manifest.json"] {
        let file = folder.join(name);
        let bytes = std::fs::read(&file).unwrap();
        let mut flipped = bytes.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 1;
        std::fs::write(&file, flipped).unwrap();
        let error = fail(&request);
        assert!(matches!(error, TrainError::Checkpoint { .. }), "{name}: {error:?}");
        std::fs::write(&file, bytes).unwrap();
    }
    assert_eq!(run(&request).status, Status::Finished);
}

#[test]
fn a_checkpoint_of_another_node_is_refused() {
    let rig = Rig::new();
    let request = rig.request("a", &[]);
    let stopped = run_until(&request, 4);
    let reader = ObjectReader::open(&rig.root("a")).unwrap();
    let folder = reader.checkpoint(&stopped.node).unwrap().unwrap();
    let other = reader.checkpoint(&stopped.node.at(1).unwrap()).unwrap().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    copy(&other, &folder);
    let error = fail(&request);
    assert!(
        matches!(&error, TrainError::Checkpoint { source, .. } if matches!(**source, CheckpointError::Malformed { .. }))
    );
}

#[test]
fn resume_is_refused_where_it_would_mix_histories() {
    let rig = Rig::new();
    let request = rig.request("a", &[("checkpoint_every", "1")]);
    let stopped = run_until(&request, 3);
    let mut resume = TrainRequest::new(rig.root("a"));
    resume.base = Base::Resume(stopped.node.at(1).unwrap());
    let error = fail(&resume);
    let root = rig.root("a");
    let expected = format!(
        "begin a branch there: `waycairn train --root {} --branch {}`",
        root.display(),
        stopped.node.at(1).unwrap()
    );
    assert_eq!(error.next().unwrap(), expected);
    assert!(error.to_string().contains("newer checkpoint at seq 2"), "{error}");

    resume.base = Base::Resume(stopped.node.clone());
    resume.sets = vec![("learning_rate".to_owned(), "1.0".to_owned())];
    let error = fail(&resume);
    assert!(error.to_string().contains("other settings"));
    assert!(error.next().unwrap().ends_with(" --set learning_rate=1.0`"), "{:?}", error.next());

    resume.sets.clear();
    let rest = run(&resume);
    assert_eq!((rest.status, rest.updates, rest.ticks), (Status::Finished, 3, 3));
    resume.base = Base::Resume(rest.node.clone());
    let error = fail(&resume);
    assert!(error.to_string().contains("its run is finished"), "{error}");
    assert!(
        error.next().unwrap().ends_with(&format!("--branch {} --steps 12`", rest.node)),
        "{:?}",
        error.next()
    );
}

#[test]
fn a_run_without_a_checkpoint_begins_again_under_its_own_nonce() {
    let rig = Rig::new();
    let request = rig.request("a", &[]);
    let report = run_until(&request, 1);
    let reader = ObjectReader::open(&rig.root("a")).unwrap();
    std::fs::remove_dir_all(reader.checkpoint(&report.node).unwrap().unwrap()).unwrap();
    let again = run(&request);
    assert!(again.node.same_run(&report.node));
    assert_eq!((again.status, again.updates, again.resumed_from), (Status::Finished, 6, None));
}

#[test]
fn other_settings_and_fresh_make_new_runs_and_say_so() {
    let rig = Rig::new();
    let first = run(&rig.request("a", &[]));
    let mut notices = Vec::new();
    let other = rig.request("a", &[("learning_rate", "0.01")]);
    let mut progress = |event: &Event<'_>| {
        if let Event::Notice(text) = event {
            notices.push((*text).to_owned());
        }
    };
    let second = train(&crate::experiments![Gpt], &other, &Stop::new(), &mut progress).unwrap();
    assert!(!second.node.same_run(&first.node));
    assert_eq!(notices.len(), 1);
    assert!(notices[0].contains("learning_rate was 0.002, is 0.01"), "{notices:?}");
    let mut fresh = rig.request("a", &[]);
    fresh.fresh = true;
    let third = run(&fresh);
    assert!(!third.node.same_run(&first.node));
    // The newest run of equal settings is meant from now on.
    assert_eq!(run(&rig.request("a", &[])).node, third.node);
}

#[test]
fn a_second_launch_of_a_running_run_names_the_first() {
    let rig = Rig::new();
    let request = rig.request("a", &[]);
    let mut refusals = Vec::new();
    let second = request.clone();
    let mut progress = |event: &Event<'_>| {
        if matches!(event, Event::Step { step: 2, .. }) {
            refusals.push(fail(&second));
        }
    };
    train(&crate::experiments![Gpt], &request, &Stop::new(), &mut progress).unwrap();
    let text = refusals[0].to_string();
    assert!(text.contains("the run `run` is being trained by process"), "{text}");
    assert!(text.contains(&std::process::id().to_string()), "{text}");
    assert_eq!(refusals[0].code(), "busy");
}

#[test]
fn changed_data_is_refused_unless_allowed_and_then_recorded() {
    let rig = Rig::new();
    let request = rig.request("a", &[]);
    run_until(&request, 2);
    let text = rig.folder.path().join("text.txt");
    let mut content = std::fs::read_to_string(&text).unwrap();
    content.replace_range(0..1, "L");
    content.replace_range(0..1, "l");
    content.push_str("line 1 of 2\n");
    std::fs::write(&text, &content).unwrap();
    let error = fail(&request);
    assert_eq!(error.code(), "data");
    assert!(error.to_string().contains("the text's size was"), "{error}");
    let mut allowed = request.clone();
    allowed.allow_changed_data = true;
    let report = run(&allowed);
    let node = report.node.at(2).unwrap();
    assert_eq!(field(&rig.root("a"), &node, "job/changed_data"), Some(Scalar::Bool(true)));
}

#[test]
fn a_branch_continues_the_data_stream_or_restarts_it() {
    let rig = Rig::new();
    let base = run(&rig.request("a", &[("steps", "2")]));
    let position = |data: &str, batch: &str| {
        let mut branch = TrainRequest::new(rig.root("a"));
        branch.base = Base::Branch(base.node.clone());
        branch.name = Some(format!("{data}-{batch}"));
        branch.sets = [("steps", "3"), ("branch_data", data), ("batch_size", batch)]
            .map(|(path, value)| (path.to_owned(), value.to_owned()))
            .to_vec();
        let report = run(&branch);
        let reader = ObjectReader::open(&rig.root("a")).unwrap();
        restore::open(&reader, &report.node, Depth::Whole).unwrap().state().loader.position
    };
    assert_eq!(position("continue", "2"), 2);
    assert_eq!(position("restart", "2"), 0);
    // Two batches of 4 examples are the first and a part of the second batch of 6.
    assert_eq!(position("continue", "3"), 2);
}

#[test]
fn a_branch_without_steps_left_says_what_to_do() {
    let rig = Rig::new();
    let report = run(&rig.request("a", &[("steps", "2")]));
    let mut branch = TrainRequest::new(rig.root("a"));
    branch.base = Base::Branch(report.node);
    let error = fail(&branch);
    assert!(error.to_string().ends_with("has done 2 steps, and `steps` is 2"), "{error}");
    assert_eq!(error.next().unwrap(), "ask for more than 2 with `--steps`");
}

#[test]
fn a_node_without_a_checkpoint_names_the_nearest() {
    let rig = Rig::new();
    let report = run(&rig.request("a", &[]));
    let mut branch = TrainRequest::new(rig.root("a"));
    branch.base = Base::Branch(report.node.at(4).unwrap());
    let error = fail(&branch);
    assert!(error.to_string().ends_with(":4` has no checkpoint"), "{error}");
    let nearest = report.node.at(3).unwrap();
    assert!(error.next().unwrap().starts_with(&format!("the nearest with one: `{nearest}`")));
}

#[test]
fn partial_takes_what_fits() {
    let rig = Rig::new();
    let report = run(&rig.request("a", &[("steps", "2")]));
    let mut branch = TrainRequest::new(rig.root("a"));
    branch.base = Base::Branch(report.node);
    branch.sets = vec![("steps".to_owned(), "3".to_owned()), ("model.layers".to_owned(), "2".to_owned())];
    let error = fail(&branch);
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("blocks.1.attention.qkv.weight"), "{source}");
    assert!(error.next().unwrap().contains("--partial"));
    branch.partial = true;
    let mut notices = String::new();
    let mut progress = |event: &Event<'_>| {
        if let Event::Notice(text) = event {
            notices.push_str(text);
        }
    };
    train(&crate::experiments![Gpt], &branch, &Stop::new(), &mut progress).unwrap();
    assert!(notices.contains("restored in part; not in the checkpoint: blocks.1."), "{notices}");
}

#[test]
fn a_loss_that_is_not_finite_stops_at_its_node_or_is_skipped() {
    let rig = Rig::new();
    let wild = [
        ("learning_rate", "1e38"),
        ("min_learning_rate", "1e38"),
        ("clip", "off"),
        ("warmup", "0"),
        ("steps", "20"),
    ];
    let error = fail(&rig.request("a", &wild));
    let TrainError::NotFinite { node, step, loss, norm } = &error else { panic!("{error:?}") };
    assert!(!(loss.is_finite() && norm.is_finite()));
    assert_eq!(node.seq(), step - 1);
    assert!(field(&rig.root("a"), node, "train/loss").is_some());

    let mut skip = wild.to_vec();
    skip.push(("on_nonfinite", "skip"));
    let report = run(&rig.request("b", &skip));
    assert_eq!(report.status, Status::Finished);
    assert!(report.skipped > 0, "{report:?}");
    let reader = ObjectReader::open(&rig.root("b")).unwrap();
    assert!(reader.query().has("train/skipped").count().unwrap().value > 0);
}

#[test]
fn weights_that_are_not_finite_are_named_when_sampled() {
    let rig = Rig::new();
    let wild = [("learning_rate", "1e38"), ("min_learning_rate", "1e38"), ("clip", "off"), ("warmup", "0")];
    // The loss of the only step is finite; what its update leaves is not.
    let report = run(&rig.request("a", &[&wild[..], &[("steps", "1"), ("eval_every", "off")]].concat()));
    let options = crate::SampleOptions { tokens: 4, ..crate::SampleOptions::default() };
    let error = crate::sample(&crate::experiments![Gpt], &rig.root("a"), &report.node, &options).unwrap_err();
    assert!(matches!(&error, TrainError::NotFiniteWeights { .. }), "{error:?}");
    assert!(error.to_string().contains("NaN or infinity"), "{error}");
}

#[test]
fn max_time_stops_in_good_order() {
    let rig = Rig::new();
    let mut request = rig.request("a", &[("accumulate", "1")]);
    request.max_time = Some(std::time::Duration::ZERO);
    let report = run(&request);
    assert_eq!((report.status, report.steps), (Status::Stopped, 1));
    assert_eq!(report.checkpoint, Some(report.node));
}

#[test]
fn bad_arguments_say_what_to_do() {
    let rig = Rig::new();
    let bad = |change: &dyn Fn(&mut TrainRequest)| {
        let mut request = rig.request("a", &[]);
        change(&mut request);
        let error = fail(&request);
        (error.to_string(), error.next().unwrap_or_default(), error.code())
    };
    let (what, next, code) = bad(&|request| request.preset = Some("tin".to_owned()));
    assert_eq!((what.as_str(), code), ("no preset is called `tin`", "usage"));
    assert!(next.contains("tiny, nanogpt-cpu, baby-gpt"));
    let (what, _, code) = bad(&|request| request.text = Some("/none.txt".into()));
    assert_eq!((what.as_str(), code), ("cannot open the text `/none.txt`", "data"));
    let (_, next, _) = bad(&|request| request.sets.push(("batchsize".to_owned(), "1".to_owned())));
    assert_eq!(next, "did you mean `batch_size`?");
    let (what, _, _) = bad(&|request| request.sets.push(("model.heads".to_owned(), "3".to_owned())));
    assert!(what.contains("`model.heads` = 3 does not divide"), "{what}");
    let (what, _, _) = bad(&|request| request.sets.push(("data.context".to_owned(), "100000".to_owned())));
    assert!(what.contains("one example needs 100001"), "{what}");
    let (_, _, code) = bad(&|request| request.device = "cuda".to_owned());
    assert_eq!(code, "device");
    let (_, _, code) = bad(&|request| request.name = Some("x".repeat(300)));
    assert_eq!(code, "usage");
    let (_, _, code) = bad(&|request| request.name = Some(String::new()));
    assert_eq!(code, "usage");
    let (what, next, code) = bad(&|request| request.threads = Some(1_000_000));
    assert_eq!((what.as_str(), code), ("1000000 threads are too many", "usage"));
    assert!(next.contains("at most"), "{next}");
    for (path, value) in [("model.width", "1000000"), ("batch_size", "9007199254740991")] {
        let (what, next, code) = bad(&|request| request.sets.push((path.to_owned(), value.to_owned())));
        assert_eq!(code, "memory", "{what}");
        assert!(what.contains(&format!("`{path}` = {value}")) && next.contains("--set"), "{what}");
    }
    let (_, _, code) = bad(&|request| request.experiment = Some("nre".to_owned()));
    assert_eq!(code, "usage");
    let file = rig.folder.path().join("text.txt");
    let (_, _, code) = bad(&|request| request.root = file.clone());
    assert!(["root", "store"].contains(&code), "{code}");
    // Nothing was made by any of these.
    assert!(
        !rig.root("a")
            .join("objects")
            .join("values")
            .read_dir()
            .is_ok_and(|mut files| files.next().is_some())
    );
}

/// The state that a kill between rename and marker leaves, made by hand.
#[test]
fn train_3_a_folder_without_a_marker_is_removed_and_made_again() {
    let rig = Rig::new();
    let request = rig.request("a", &[]);
    let stopped = run_until(&request, 2);
    let node = stopped.node.at(3).unwrap();
    let blobs = rig.root("a").join("objects").join("blobs");
    let stale = blobs.join(node.address().as_str()).join("checkpoint");
    copy(&blobs.join(stopped.node.address().as_str()).join("checkpoint"), &stale);
    std::fs::write(stale.join("leftover"), "x").unwrap();
    // It does not count: the run goes on at the marked one.
    let rest = run(&request);
    assert_eq!((rest.status, rest.resumed_from.as_ref()), (Status::Finished, Some(&stopped.node)));
    assert!(!stale.join("leftover").exists());
    let reader = ObjectReader::open(&rig.root("a")).unwrap();
    assert!(restore::open(&reader, &node, Depth::Whole).is_ok());
    let whole = run(&rig.request("whole", &[]));
    assert_eq!(final_weights(&rig.root("a"), &rest), final_weights(&rig.root("whole"), &whole));
}

#[test]
fn allowed_data_is_read_with_the_vocabulary_of_the_checkpoint() {
    let rig = Rig::new();
    let mut request = rig.request("a", &[]);
    run_until(&request, 2);
    let text = rig.folder.path().join("text.txt");
    let content = std::fs::read_to_string(&text).unwrap();
    std::fs::write(&text, format!("{content}Z")).unwrap();
    request.allow_changed_data = true;
    let error = fail(&request);
    assert!(error.to_string().contains("holds the character 'Z'"), "{error}");
    // Fewer characters are no reason to refuse: the model has them all.
    std::fs::write(&text, content.replace('7', "8")).unwrap();
    assert_eq!(run(&request).status, Status::Finished);
}

#[test]
fn a_store_that_fails_ends_the_run_with_its_cause() {
    let rig = Rig::new();
    let request = rig.request("a", &[("steps", "40")]);
    let values = rig.root("a").join("objects").join("values");
    let mut progress = |event: &Event<'_>| {
        if matches!(event, Event::Step { step: 3, .. }) {
            std::fs::remove_dir_all(&values).unwrap();
            std::fs::write(&values, "").unwrap();
        }
    };
    let error = train(&crate::experiments![Gpt], &request, &Stop::new(), &mut progress).unwrap_err();
    assert_eq!(error.code(), "store");
    let mut text = String::new();
    let mut cause: Option<&dyn std::error::Error> = Some(&error);
    while let Some(error) = cause {
        text.push_str(&format!("{error}\n"));
        cause = error.source();
    }
    assert!(text.contains("objects/values"), "{text}");
}

/// What a child process is told: by these variables, since its arguments belong to the test harness.
const CHILD_ROOT: &str = "WAYCAIRN_TEST_CHILD_ROOT";
const CHILD_TEXT: &str = "WAYCAIRN_TEST_CHILD_TEXT";
const CHILD_PAUSE: &str = "WAYCAIRN_TEST_CHILD_PAUSE";

const CHILD_SETS: [(&str, &str); 5] = [
    ("steps", "240"),
    ("checkpoint_every", "7"),
    ("eval_every", "10"),
    ("data.order", "shuffled"),
    ("model.layers", "2"),
];

/// The program that the tests below start; it does nothing without the variables.
#[test]
fn child() {
    let (Ok(root), Ok(text)) = (std::env::var(CHILD_ROOT), std::env::var(CHILD_TEXT)) else {
        return;
    };
    let rig = Rig { folder: tempfile::tempdir().unwrap() };
    let mut request = rig.request("unused", &CHILD_SETS);
    request.root = root.clone().into();
    request.text = Some(text.into());
    let pause: Option<u64> = std::env::var(CHILD_PAUSE).ok().and_then(|step| step.parse().ok());
    let mut progress = |event: &Event<'_>| {
        if matches!(event, Event::Step { step, .. } if Some(*step) == pause) {
            std::fs::write(Path::new(&root).join("paused"), "").unwrap();
            loop {
                std::thread::park();
            }
        }
    };
    let stop = Stop::on_signals().unwrap();
    let report = train(&crate::experiments![Gpt], &request, &stop, &mut progress).unwrap();
    std::process::exit(if report.status == Status::Stopped { 4 } else { 0 });
}

fn spawn(rig: &Rig, root: &Path, pause: Option<u64>) -> std::process::Child {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command
        .args(["run::tests::child", "--exact", "--test-threads=1"])
        .env(CHILD_ROOT, root)
        .env(CHILD_TEXT, rig.folder.path().join("text.txt"))
        .stdout(std::process::Stdio::null());
    if let Some(step) = pause {
        command.env(CHILD_PAUSE, step.to_string());
    }
    command.spawn().unwrap()
}

fn signal(child: &std::process::Child, name: &str) {
    let kill = format!("kill -{name} {}", child.id());
    assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

fn wait_for(path: &Path) {
    let begin = Instant::now();
    while !path.exists() {
        assert!(begin.elapsed() < std::time::Duration::from_secs(60), "`{}` never came", path.display());
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

#[test]
fn training_case_08_kill_nine_twenty_times() {
    let rig = Rig::new();
    let root = rig.root("killed");
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..20 {
        let mut child = spawn(&rig, &root, None);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(std::time::Duration::from_millis(20 + random % 400));
        // It may have finished before.
        let _ = child.kill();
        child.wait().unwrap();
    }
    let mut request = rig.request("killed", &CHILD_SETS);
    let rest = run(&request);
    request.root = rig.root("whole");
    let whole = run(&request);
    assert!(rest.steps == whole.steps && rest.node.seq() == whole.node.seq());
    let (ours, theirs) = (computed(&root, "run"), computed(&rig.root("whole"), "run"));
    assert_eq!(ours.len(), 240);
    assert_eq!(ours, theirs);
    assert_eq!(final_weights(&root, &rest), final_weights(&rig.root("whole"), &whole));
    let reader = ObjectReader::open(&root).unwrap();
    assert_eq!(reader.runs().unwrap().len(), 1, "every launch went on with the same run");
}

#[test]
fn a_termination_stops_in_good_order() {
    let rig = Rig::new();
    for name in ["TERM", "HUP", "INT", "USR1"] {
        let root = rig.root(name);
        let mut child = spawn(&rig, &root, None);
        // From the first checkpoint on there is one to stop at.
        wait_for(&root.join("objects").join("blobs"));
        let begun = || std::fs::read_dir(root.join("objects").join("blobs")).unwrap().next().is_some();
        let begin = Instant::now();
        while !begun() {
            assert!(begin.elapsed() < std::time::Duration::from_secs(60), "it saves nothing");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        signal(&child, name);
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(4), "{name}");
        let reader = ObjectReader::open(&root).unwrap();
        let last = reader.runs().unwrap()[0].last.clone();
        assert!(reader.checkpoint(&last).unwrap().is_some(), "{name}: the last node has a checkpoint");
    }
}

#[test]
fn a_second_interrupt_stops_at_once_and_keeps_what_was_recorded() {
    let rig = Rig::new();
    let root = rig.root("interrupted");
    let mut child = spawn(&rig, &root, Some(5));
    wait_for(&root.join("paused"));
    signal(&child, "INT");
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(child.try_wait().unwrap().is_none(), "the first only asks");
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let recorded = computed(&root, "run");
    assert_eq!(recorded.len(), 5);
    assert!(recorded[&4].contains_key("train/loss"));
}

#[path = "tests/retention.rs"]
mod retention;
