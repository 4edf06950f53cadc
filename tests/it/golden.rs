//! Roots that earlier programs wrote, read by the program of today: `tests/golden` says what they are.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use parquet::file::reader::{FileReader as _, SerializedFileReader};
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

/// The keys of a footer that are ours, with their texts.
fn footer(path: &Path) -> BTreeMap<String, String> {
    let file = fs::File::open(path).expect("a part");
    let reader = SerializedFileReader::new(file).expect("a footer");
    let pairs = reader.metadata().file_metadata().key_value_metadata().expect("keys").clone();
    let ours = pairs.into_iter().filter(|pair| pair.key.starts_with("waycairn."));
    ours.map(|pair| (pair.key, pair.value.expect("a text"))).collect()
}

#[test]
fn the_footers_of_an_earlier_root_say_what_they_said() {
    let expected = [
        (
            "part-0d39a6f1-a4d4-456a-a3cd-eaecd2f71ed3.parquet",
            vec![
                ("waycairn.first", r#"["long","94ac",0]"#),
                ("waycairn.format", "1.0"),
                ("waycairn.last", r#"["long","94ac",65999]"#),
                ("waycairn.parents", "[]"),
                ("waycairn.rest_of", "part-75085ada-615d-4867-bec4-3182f3424a75.parquet"),
                ("waycairn.rows", "66000"),
                ("waycairn.runs", r#"[["long","94ac",0,65999]]"#),
                ("waycairn.sparse", r#"{"rare":[1]}"#),
                ("waycairn.writer", "feefd6dc-0b94-46a9-887c-c1cf893db440"),
                ("waycairn.writes", "[1796088826868025929,1796088826962281712]"),
            ],
        ),
        (
            "part-c6c083ae-e669-4c8b-a7ca-b4ea7386e0dc.parquet",
            vec![
                ("waycairn.first", r#"["branch","4ad8678425bc834f",0]"#),
                ("waycairn.format", "1.0"),
                ("waycairn.last", r#"["second","16598aa3ff1450b7",0]"#),
                (
                    "waycairn.parents",
                    r#"[["branch","4ad8678425bc834f",0,0],["first","7d0e6d33e78ca383",0,2]]"#,
                ),
                (
                    "waycairn.replaces",
                    concat!(
                        r#"["part-59aa23a7-6f21-4644-9ccb-1c2c16d495d3.parquet","#,
                        r#""part-470d10f6-e5be-4d38-b81d-4f4636c48786.parquet","#,
                        r#""part-2e44f283-4e3f-4f5e-9612-6f8d29e56002.parquet","#,
                        r#""part-03cb7c52-e5cb-4857-9012-7caa3e59f564.parquet","#,
                        r#""part-5c358ba5-ac8c-41d6-96e8-2a28490cef46.parquet"]"#,
                    ),
                ),
                ("waycairn.rows", "26"),
                (
                    "waycairn.runs",
                    concat!(
                        r#"[["branch","4ad8678425bc834f",0,1],["first","7d0e6d33e78ca383",0,3],"#,
                        r#"["second","16598aa3ff1450b7",0,0]]"#,
                    ),
                ),
                ("waycairn.writes", "[1796088826729957852,1796088826844429102]"),
            ],
        ),
    ];
    let values = folder().join("v2/root/objects/values");
    let mut keys = BTreeSet::new();
    for (name, footer_then) in expected {
        let now = footer(&values.join(name));
        let now: Vec<(&str, &str)> = now.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect();
        assert_eq!(now, footer_then, "{name}");
        keys.extend(footer_then.iter().map(|(key, _)| format!("`{key}`")));
    }
    let page = fs::read_to_string(folder().join("../../docs/format.md")).expect("the page");
    let table =
        page.split("### Footer keys").nth(1).and_then(|rest| rest.split("\n#").next()).expect("the table");
    let rows: String = table.lines().filter_map(|line| line.split('|').nth(1)).collect();
    let told: BTreeSet<String> =
        rows.split([',', ' ']).filter(|word| word.starts_with("`waycairn.")).map(str::to_owned).collect();
    assert_eq!(keys, told, "each key of the page stands in a part of the sample");
}

#[test]
fn the_runs_in_the_footers_of_an_earlier_root_say_which_parts_a_question_passes_over() {
    let (_, root) = samples().into_iter().find(|(sample, _)| sample.ends_with("v2")).expect("the sample");
    let read = |question: &str| {
        let explained = root.json(&["query", question, "--explain"]);
        let counts = ["parts_read", "parts_pruned", "rows_read"];
        counts.map(|key| explained[key].as_u64().expect("a count"))
    };
    // The journal of the sample is a part of its own, and of a run of its own.
    assert_eq!(read("name = 'first'"), [1, 2, 26]);
    assert_eq!(read("name = 'long'"), [1, 2, 66_000]);
    assert_eq!(read("name = 'long' and nonce = '94ac'"), [1, 2, 66_000]);
    // Between `branch` and `second` in the order of names, so that first and last do not tell.
    assert_eq!(read("name = 'other'"), [0, 3, 0]);
    assert_eq!(read("name = 'first' and nonce = '0000000000000000'"), [0, 3, 0]);
    assert_eq!(read("name = 'first' and seq > 3"), [0, 3, 0], "the positions of each run stand there too");
    assert_eq!(read("name = 'second' and seq > 0"), [0, 3, 0]);
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
