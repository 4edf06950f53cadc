//! Roots that earlier programs wrote, read by the program of today: `tests/golden` says what they are.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use waycairn_durable::Digest;
use waycairn_store::ObjectReader;
use waycairn_tests::Root;

use crate::program;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

/// Every sample there is, copied to a root of its own; the samples themselves are never written to.
fn samples() -> Vec<(PathBuf, Root)> {
    let entries = fs::read_dir(folder()).expect("the samples").map(|entry| entry.expect("an entry").path());
    let mut samples: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    samples.sort();
    assert!(samples.contains(&folder().join("v1")), "the first sample is kept for ever: {samples:?}");
    let copied = |sample: PathBuf| {
        let root = Root::new(program());
        copy(&sample.join("root"), &root.path());
        (sample, root)
    };
    samples.into_iter().map(copied).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for path in files(from) {
        let target = to.join(path.strip_prefix(from).expect("a path below"));
        fs::create_dir_all(target.parent().expect("a folder")).expect("a folder");
        fs::copy(&path, &target).expect("a copy");
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()));
        } else {
            found.push(path);
        }
    }
    found
}

/// Asserts that an answer says all that it said then. It may say more; the place of a blob is where the copy is.
fn says(now: &Value, then: &Value, at: &str) {
    match (now, then) {
        (Value::Object(now), Value::Object(then)) => {
            for (key, value) in then.iter().filter(|(key, _)| *key != "blob") {
                let there = now.get(key).unwrap_or_else(|| panic!("{at}.{key} is no longer said"));
                says(there, value, &format!("{at}.{key}"));
            }
        }
        (Value::Array(now), Value::Array(then)) => {
            assert_eq!(now.len(), then.len(), "{at}: {now:?}");
            for (index, (now, then)) in now.iter().zip(then).enumerate() {
                says(now, then, &format!("{at}[{index}]"));
            }
        }
        _ => assert_eq!(now, then, "{at}"),
    }
}

/// Asks everything that was asked of a sample then.
fn ask(sample: &Path, root: &Root) {
    let questions = fs::read_to_string(folder().join("questions")).expect("the questions");
    let mut asked = 0;
    for (name, words) in questions.lines().filter_map(|line| line.split_once(' ')) {
        // A question that is newer than the sample has no answer in it.
        let Ok(then) = fs::read(sample.join(format!("{name}.json"))) else { continue };
        let now = root.json(&words.split_whitespace().collect::<Vec<_>>());
        let then = serde_json::from_slice(&then).expect("an answer");
        says(&now, &then, &format!("{} {name}", sample.display()));
        asked += 1;
    }
    assert_eq!(asked, fs::read_dir(sample).expect("the sample").count() - 1, "all answers were compared");
    assert!(asked >= 5);
}

#[test]
fn every_question_about_an_earlier_root_has_the_answer_that_it_had() {
    samples().iter().for_each(|(sample, root)| ask(sample, root));
}

#[test]
fn an_earlier_root_is_recovered_and_compacted_and_answers_as_before() {
    for (sample, root) in samples() {
        let journaled = files(&root.path()).iter().filter(|path| is_journal(path)).count();
        assert_eq!(journaled, usize::from(!sample.ends_with("v1")), "{}", sample.display());
        for command in ["recover", "compact", "fsck"] {
            let run = root.run(&[command]);
            assert_eq!(run.status, Some(0), "{run}");
        }
        assert!(!files(&root.path()).iter().any(|path| is_journal(path)), "it was published");
        ask(&sample, &root);
    }
}

fn is_journal(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".journal-"))
}

#[test]
fn the_checkpoints_of_an_earlier_root_are_whole_and_can_be_used() {
    for (sample, root) in samples() {
        let mut manifests = 0;
        for path in files(&root.path()).iter().filter(|path| path.ends_with("checkpoint/manifest.json")) {
            let manifest: Value = serde_json::from_slice(&fs::read(path).expect("a manifest")).expect("JSON");
            let listed = manifest["files"].as_object().expect("files");
            for (name, entry) in listed {
                let bytes = fs::read(path.with_file_name(name)).expect("a file of the checkpoint");
                assert_eq!(entry["bytes"], bytes.len(), "{name} in {}", sample.display());
                assert_eq!(entry["sha256"], Digest::of(&bytes).to_string(), "{name} in {}", sample.display());
            }
            manifests += 1;
        }
        let reader = ObjectReader::open(&root.path()).expect("a reader");
        let runs = reader.runs().expect("the runs");
        let checkpoints = runs.iter().map(|run| (run.name.as_str(), run.checkpoints.as_slice()));
        let checkpoints: BTreeMap<&str, &[u64]> = checkpoints.filter(|(_, seqs)| !seqs.is_empty()).collect();
        assert_eq!(manifests, checkpoints.values().map(|seqs| seqs.len()).sum::<usize>());
        assert_eq!(checkpoints, [("branch", &[1][..]), ("first", &[2, 3]), ("second", &[0])].into());
        for node in ["first:2", "first:3", "branch", "second:0"] {
            let run = root.run(&["sample", node, "--prompt", "stone ", "--tokens", "8"]);
            assert!(run.status == Some(0) && run.out.contains("stone "), "{run}");
        }
        // One was withdrawn by `keep_last`.
        root.run(&["sample", "first:1"]).fails_with(1, &["has no checkpoint", "first@"]);
    }
}

#[test]
fn an_earlier_run_goes_on_and_an_earlier_node_has_a_branch() {
    let text = folder().join("text.txt").display().to_string();
    for (_, root) in samples() {
        let stopped = root.json(&["show", "second"]);
        // The text lies elsewhere now; everything else that makes a command the same again has to be as it was.
        let report = root.json(&["train", "--resume", "second", "--text", &text, "--threads", "1"]);
        assert_eq!(
            (&report["status"], &report["resumed_from"]),
            (&"finished".into(), &stopped["node"]),
            "{report}"
        );
        let runs = root.json(&["nodes"]);
        let second =
            runs.as_array().expect("runs").iter().find(|run| run["name"] == "second").expect("the run");
        assert_eq!((&second["nodes"], &second["finished"]), (&6.into(), &true.into()), "{runs}");

        let words = ["train", "--branch", "first:3", "--name", "later", "--text", &text, "--steps", "6"];
        assert_eq!(root.json(&words)["status"], "finished");
        assert_eq!(root.json(&["show", "later:0"])["parents"][0], root.json(&["show", "first:3"])["node"]);
    }
}
