//! Ends a launch at the steps that it does to the disk in turn, and looks at what the next launch makes of it.
#![allow(clippy::disallowed_methods, clippy::panic, clippy::unwrap_used, reason = "a test")]

mod kit;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kit::{Work, copy, differences, folder, launch, said};
use waycairn_dag::Node;
use waycairn_store::{NodeRow, ObjectReader, ObjectStore, StoreOptions};
use waycairn_study::{RecordedRun, StudyError, plan_removal, remove, verify};

/// A root with three studies behind it: a fourth one expires the first.
fn prepare() -> tempfile::TempDir {
    let root = folder();
    for rate in ["0.1", "0.2", "0.3"] {
        launch(root.path(), Work::new("run", rate, "1")).unwrap();
    }
    root
}

fn run(root: &Path, work: Work<'_>, variable: &str, value: &str) -> bool {
    child_with(root, &[("STUDY_CRASH_WORK", &work.text()), (variable, value)])
}

fn child_with(root: &Path, variables: &[(&str, &str)]) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--ignored", "--quiet"]).env("STUDY_CRASH_ROOT", root);
    command.envs(variables.iter().copied()).output().unwrap().status.success()
}

#[test]
#[ignore = "the work of the other tests, in a process that may abort"]
fn child() {
    if let Some(root) = std::env::var_os("STUDY_CRASH_ROOT") {
        let root = PathBuf::from(root);
        match std::env::var("STUDY_CRASH_REMOVES") {
            Ok(run) => drop(remove(&root, &run).unwrap()),
            Err(_) => {
                let work = std::env::var("STUDY_CRASH_WORK").unwrap();
                launch(&root, Work::read(&work)).unwrap();
            }
        }
    }
}

/// What a step does, and to what: numbers and names that are drawn at random aside.
fn kind(line: &str, root: &Path) -> String {
    let text = line.split_once(' ').unwrap().1.replace(&root.display().to_string(), "");
    let words = text.split_inclusive(|character: char| !character.is_ascii_alphanumeric());
    let plain = words.map(|word| {
        let number = word.len() > 1 && word.bytes().any(|byte| byte.is_ascii_digit());
        if number { "#" } else { word }
    });
    plain.collect()
}

/// Ends `work` at its steps: at each of those that are the first of their kind, and every `stride`-th besides.
fn sweep(work: Work<'_>, stride: usize, those: impl Fn(&str) -> bool) {
    let prepared = prepare();
    let undisturbed = folder();
    copy(prepared.path(), undisturbed.path());
    let trace = prepared.path().join("trace");
    assert!(run(undisturbed.path(), work, "WAYCAIRN_FAULT_TRACE", trace.to_str().unwrap()));
    let lines = fs::read_to_string(&trace).unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    fs::remove_file(&trace).unwrap();
    let (before, expected) = (said(prepared.path()), said(undisturbed.path()));
    assert!(!differences(&before, &expected).is_empty(), "{work:?} does something");

    let mut kinds = BTreeSet::new();
    let mut crashed = 0;
    for (index, line) in lines.iter().enumerate() {
        let first = kinds.insert(kind(line, undisturbed.path())) && those(line);
        if !first && index % stride > 0 {
            continue;
        }
        let number = index + 1;
        let root = folder();
        let root = root.path();
        copy(prepared.path(), root);
        // The threads of a launch take turns, so the last points may not be reached.
        if run(root, work, "WAYCAIRN_FAULT_ABORT", &number.to_string()) {
            assert!(number + 8 > lines.len(), "nothing crashed at {number}");
            continue;
        }
        crashed += 1;
        let at = format!("at {number} of {}, `{line}`", lines.len());
        left(root, &before, &expected, &at);
        launch(root, work).unwrap_or_else(|error| panic!("{at}: {error}"));
        let differences = differences(&said(root), &expected);
        assert!(differences.is_empty(), "{at}: {differences:#?}");
        if crashed % 8 > 0 {
            continue;
        }
        let found = verify(root, false, |_| ()).unwrap();
        assert!(found.damaged.is_empty(), "{at}: {:?}", found.damaged);
        let again = launch(root, work).unwrap();
        assert!(again.products.iter().all(|product| product.status == "hit"), "{at}");
        assert_eq!(again.removed, Vec::<String>::new(), "{at}");
    }
    assert!(crashed > 50, "{crashed} of {}", lines.len());
}

/// What a launch that died has left: all that was there, and no entry that is not whole.
fn left(root: &Path, before: &BTreeMap<String, String>, expected: &BTreeMap<String, String>, at: &str) {
    let found = verify(root, false, |_| ()).unwrap();
    let hurt: Vec<_> = found.damaged.iter().filter(|one| one.path.starts_with("cache/")).collect();
    assert!(hurt.is_empty(), "{at}: {hurt:?}");
    let now = said(root);
    // What is settled is what the next launch would find: until then nothing goes.
    let settles = now.get("history.json") != before.get("history.json");
    for (name, old) in before {
        let new = expected.get(name);
        // A run that is trained or analyzed anew says so, and the history what is collected next.
        let states = name.starts_with("runs/") && name.ends_with(".json") && !name.contains("/metrics");
        let states = states || name == "history.json";
        match now.get(name) {
            Some(now) => assert!(now == old || Some(now) == new || states, "{at}: {name} is {now}"),
            None => assert!(settles && new.is_none(), "{at}: {name} is gone"),
        }
    }
}

#[test]
fn study_1_a_training_that_dies_at_any_step_deletes_nothing_and_the_next_one_completes_it() {
    sweep(Work::new("train", "0.4", "1"), 97, |_| true);
}

#[test]
fn study_1_an_analysis_that_dies_at_any_step_deletes_nothing_and_the_next_one_completes_it() {
    sweep(Work::new("analyze", "0.3", "2"), 11, |_| true);
}

#[test]
fn study_1_a_launch_of_both_that_dies_at_any_step_deletes_nothing_and_the_next_one_completes_it() {
    // The test above ends what a training alone does.
    let after = |line: &str| !line.contains("/objects/") && !line.contains("/cache/model");
    sweep(Work::new("run", "0.4", "2"), 41, after);
}

/// What is recorded of all runs but one.
fn others(root: &Path, run: &Node) -> Vec<NodeRow> {
    let rows = ObjectReader::open(root).unwrap().query().select_all().unwrap().value;
    rows.into_iter().filter(|row| !row.node.same_run(run)).collect()
}

#[test]
fn store_8_a_removal_that_dies_at_any_step_is_completed_by_the_next() {
    let before = folder();
    launch(before.path(), Work::new("train", "0.1", "1")).unwrap();
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
    let place = recorded[0].folder.to_string_lossy().into_owned();

    // By the folder and by the name: both words find what a removal has left.
    for word in [place.as_str(), run.name()] {
        let undisturbed = folder();
        copy(before.path(), undisturbed.path());
        let trace = before.path().join("trace");
        let traced = [("STUDY_CRASH_REMOVES", word), ("WAYCAIRN_FAULT_TRACE", trace.to_str().unwrap())];
        assert!(child_with(undisturbed.path(), &traced));
        let steps = fs::read_to_string(&trace).unwrap().lines().count();
        fs::remove_file(&trace).unwrap();
        assert!(steps > 20, "{steps}");
        for number in (1..=steps).step_by(if word == place { 1 } else { 3 }) {
            let copied = folder();
            let root = copied.path();
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
