//! Ends a launch at every step that it does to the disk in turn, and looks at what the next launch makes of it.
#![allow(clippy::disallowed_methods, clippy::panic, clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use waycairn_dag::Node;
use waycairn_durable::Digest;
use waycairn_store::{NodeRow, ObjectReader, ObjectStore, StoreOptions};
use waycairn_study::{
    LaunchOptions, LaunchReport, RecordedRun, Stages, StudyError, TRAINING_FILE, Training, plan_removal,
    remove, verify,
};
use waycairn_train::{Gpt, Stop, experiments};

/// A study of two runs, each of one step and one checkpoint.
fn settings(rate: &str) -> String {
    format!(
        "[base]\nsteps = 1\nbatch_size = 1\nwarmup = 1\neval_every = \"off\"\ncheckpoint_every = \"off\"\n\
         data = {{ context = 4 }}\nmodel = {{ layers = 1, heads = 1, width = 4 }}\n\
         learning_rate = {rate}\ncohort = {{ replicas = 2 }}\n"
    )
}

fn launch(root: &Path, rate: &str) -> Result<LaunchReport, StudyError> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(TRAINING_FILE), settings(rate)).unwrap();
    let experiments = experiments![Gpt];
    let training = Training::read(&experiments, folder.path(), None)?.with_output(root.to_owned());
    waycairn_study::launch(
        &experiments,
        &training,
        Stages::Train,
        &LaunchOptions::default(),
        &Stop::new(),
        &mut |_| (),
    )
}

/// A root with three trainings behind it: a fourth one expires the first.
fn prepare() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for rate in ["0.1", "0.2", "0.3"] {
        launch(folder.path(), rate).unwrap();
    }
    folder
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn run(root: &Path, variable: &str, value: &str) -> bool {
    child_with(root, &[(variable, value)])
}

fn child_with(root: &Path, variables: &[(&str, &str)]) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--ignored", "--quiet"]).env("STUDY_CRASH_ROOT", root);
    command.envs(variables.iter().copied()).output().unwrap().status.success()
}

#[test]
#[ignore = "the work of the other test, in a process that may abort"]
fn child() {
    if let Some(root) = std::env::var_os("STUDY_CRASH_ROOT") {
        let root = PathBuf::from(root);
        match std::env::var("STUDY_CRASH_REMOVES") {
            Ok(run) => drop(remove(&root, &run).unwrap()),
            Err(_) => drop(launch(&root, "0.4").unwrap()),
        }
    }
}

/// The digest of the weights of each model, by key.
fn weights(root: &Path) -> BTreeMap<String, Digest> {
    let entries = fs::read_dir(root.join("cache/model")).unwrap();
    let entries = entries.map(|entry| entry.unwrap()).filter(|entry| {
        // A hidden name is an entry in the making, or on its way out.
        !entry.file_name().to_string_lossy().starts_with('.')
    });
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, Digest::of_file(&entry.path().join("weights.safetensors")).unwrap())
        })
        .collect()
}

#[test]
fn study_1_a_launch_that_dies_at_any_step_deletes_nothing_and_the_next_one_completes_it() {
    let before = prepare();
    let undisturbed = tempfile::tempdir().unwrap();
    copy(before.path(), undisturbed.path());
    let old = weights(before.path());
    let trace = before.path().join("trace");
    assert!(run(undisturbed.path(), "WAYCAIRN_FAULT_TRACE", trace.to_str().unwrap()));
    let lines = fs::read_to_string(&trace).unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    fs::remove_file(&trace).unwrap();
    let expected = weights(undisturbed.path());
    let ids = |root: &Path| -> Vec<String> {
        RecordedRun::list(root).unwrap().into_iter().map(|run| run.run.id).collect()
    };
    let kept: Vec<&String> = old.keys().filter(|key| expected.contains_key(*key)).collect();
    assert_eq!((expected.len(), kept.len(), old.len()), (6, 4, 6), "the fourth expires the first");

    for (index, line) in lines.iter().enumerate() {
        // Each launch waits for the disk some hundred times, and the store and the cache have tests of their own.
        let theirs = line.contains("/objects/") || line.contains("/cache/") || line.contains(" cache.");
        if index % if theirs { 23 } else { 5 } != 0 {
            continue;
        }
        let number = index + 1;
        let root = tempfile::tempdir().unwrap();
        copy(before.path(), root.path());
        // The threads of a launch take turns, so the last points may not be reached.
        if run(root.path(), "WAYCAIRN_FAULT_ABORT", &number.to_string()) {
            assert!(number + 8 > lines.len(), "nothing crashed at {number}");
            continue;
        }
        let found = verify(root.path(), false, |_| ()).unwrap();
        let hurt: Vec<_> = found.damaged.iter().filter(|one| one.path.starts_with("cache/")).collect();
        assert!(hurt.is_empty(), "at {number}: {hurt:?}");
        let there = weights(root.path());
        for key in &kept {
            assert_eq!(there.get(*key), old.get(*key), "at {number}");
        }
        launch(root.path(), "0.4").unwrap_or_else(|error| panic!("at {number}: {error}"));
        assert_eq!(weights(root.path()), expected, "at {number}");
        assert_eq!(ids(root.path()), ids(undisturbed.path()), "at {number}");
        let found = verify(root.path(), false, |_| ()).unwrap();
        assert!(found.damaged.is_empty(), "at {number}: {:?}", found.damaged);
        let again = launch(root.path(), "0.4").unwrap();
        assert!(again.products.iter().all(|product| product.status == "hit"), "at {number}");
        assert_eq!(again.removed, Vec::<String>::new(), "at {number}");
    }
}

/// What is recorded of all runs but one.
fn others(root: &Path, run: &Node) -> Vec<NodeRow> {
    let rows = ObjectReader::open(root).unwrap().query().select_all().unwrap().value;
    rows.into_iter().filter(|row| !row.node.same_run(run)).collect()
}

#[test]
fn store_8_a_removal_that_dies_at_any_step_is_completed_by_the_next() {
    let before = tempfile::tempdir().unwrap();
    launch(before.path(), "0.1").unwrap();
    let recorded = RecordedRun::list(before.path()).unwrap();
    let run = ObjectReader::open(before.path()).unwrap().resolve(&recorded[0].run.name).unwrap();
    let other = ObjectReader::open(before.path()).unwrap().resolve(&recorded[1].run.name).unwrap();
    // A part that both have rows in.
    let store = ObjectStore::open(before.path(), StoreOptions::default()).unwrap();
    for node in [&run, &other] {
        store.value(node, &[("note", "shared".into())]).unwrap();
    }
    store.close().unwrap();
    let expected = others(before.path(), &run);
    let folder = recorded[0].folder.to_string_lossy().into_owned();

    // By the folder and by the name: both words find what a removal has left.
    for word in [folder.as_str(), run.name()] {
        let undisturbed = tempfile::tempdir().unwrap();
        copy(before.path(), undisturbed.path());
        let trace = before.path().join("trace");
        let traced = [("STUDY_CRASH_REMOVES", word), ("WAYCAIRN_FAULT_TRACE", trace.to_str().unwrap())];
        assert!(child_with(undisturbed.path(), &traced));
        let steps = fs::read_to_string(&trace).unwrap().lines().count();
        fs::remove_file(&trace).unwrap();
        assert!(steps > 20, "{steps}");
        for number in (1..=steps).step_by(if word == folder { 1 } else { 3 }) {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path();
            copy(before.path(), root);
            let number = number.to_string();
            let variables = [("STUDY_CRASH_REMOVES", word), ("WAYCAIRN_FAULT_ABORT", number.as_str())];
            if child_with(root, &variables) {
                // The threads of a store take turns, so the last points may not be reached.
                continue;
            }
            let reader = ObjectReader::open(root).unwrap();
            assert_eq!(others(root, &run), expected, "at {number}");
            let left = reader.runs_of(run.name()).unwrap();
            let whole = left.iter().any(|left| left.finished && left.checkpoints.contains(&run.seq()));
            if whole {
                let checkpoint = reader.checkpoint(&run).unwrap().expect("a marked checkpoint is there");
                assert!(checkpoint.join("manifest.json").is_file(), "at {number}");
                assert_eq!(left[0].nodes, 1, "at {number}");
            } else if let Some(left) = left.first() {
                assert!(!left.finished || left.checkpoints.is_empty(), "at {number}");
            }
            match remove(root, word) {
                Ok(done) => assert!(done.removed),
                // It had come to its end.
                Err(StudyError::NotFound { .. }) => {}
                Err(error) => panic!("at {number}: {error}"),
            }
            assert!(matches!(plan_removal(root, word), Err(StudyError::NotFound { .. })), "at {number}");
            assert!(!root.join(&recorded[0].folder).exists(), "at {number}");
            assert!(reader.removal(&run).unwrap().is_empty(), "at {number}");
            assert_eq!(others(root, &run), expected, "at {number}");
            let hidden = fs::read_dir(root.join("objects/blobs")).unwrap();
            let hidden =
                hidden.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
            assert_eq!(hidden.count(), 0, "at {number}");
        }
    }
}
