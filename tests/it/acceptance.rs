//! Acceptance cases of the specification that need the program, or several stores on one root; the others stand
//! in the crates that they are about.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use waycairn_dag::Node;
use waycairn_store::{Expr, ObjectReader, ObjectStore, Scalar, StoreOptions};
use waycairn_tests::{Root, plugin, text};

use crate::program;

/// A root with a finished run `small` that has a checkpoint at each of its three nodes.
fn small() -> Root {
    let root = Root::new(program());
    let file = root.file("input.txt", text(20_000));
    let words = ["train", "--text", &file, "--name", "small", "--preset", "tiny", "--steps", "3"];
    root.json(&with(&words, &["--set", "checkpoint_every=1", "--set", "eval_every=off"]));
    root
}

fn with<'a>(words: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [words, more].concat()
}

fn node(name: &str, seq: u64) -> Node {
    Node::new(name, "0123456789abcdef", seq).expect("a node")
}

fn store(root: &Path, process: i64) -> ObjectStore {
    ObjectStore::open(root, StoreOptions { process, ..StoreOptions::default() }).expect("a store")
}

fn rows(value: &Value) -> &[Value] {
    value.as_array().expect("an array")
}

/// How many records there are, of any node.
fn records(root: &Root) -> u64 {
    root.json(&["sql", "SELECT count(*) AS n FROM records"])[0]["n"].as_u64().expect("a count")
}

/// seq -> how many records the node has.
fn records_by_seq(root: &Root) -> BTreeMap<u64, u64> {
    let counts = root.json(&["sql", "SELECT _x_seq AS seq, count(*) AS n FROM records GROUP BY _x_seq"]);
    let pair = |row: &Value| (row["seq"].as_u64().expect("a seq"), row["n"].as_u64().expect("a count"));
    rows(&counts).iter().map(pair).collect()
}

/// seq -> the values of these keys, as their exact text.
fn values(root: &Root, keys: &[&str]) -> BTreeMap<u64, Vec<String>> {
    let found = root.json(&["query", "--keys", &keys.join(",")]);
    let texts = |row: &Value| keys.iter().map(|key| row[*key].to_string()).collect::<Vec<String>>();
    rows(&found).iter().map(|row| (row["seq"].as_u64().expect("a seq"), texts(row))).collect()
}

fn seqs_with(root: &Root, key: &str) -> Vec<u64> {
    let found = root.json(&["query", &format!("has {key}"), "--keys", key]);
    rows(&found).iter().map(|row| row["seq"].as_u64().expect("a seq")).collect()
}

#[test]
fn identity_case_01_a_tick_records_an_empty_row_where_nothing_was_recorded() {
    let root = Root::new(program());
    let file = root.file("input.txt", text(20_000));
    let words = ["train", "--text", &file, "--name", "quiet", "--preset", "tiny", "--steps", "4"];
    let rare = ["--set", "report_every=4", "--set", "eval_every=off", "--set", "checkpoint_every=off"];
    root.json(&with(&words, &rare));
    let counts = records_by_seq(&root);
    // The first node says which run it is; the two after it have nothing to say.
    for seq in [0_u64, 1, 2] {
        assert_eq!(counts[&seq], 1, "seq {seq}: {counts:?}");
    }
    for seq in [1_u64, 2] {
        let shown = root.json(&["show", &format!("quiet:{seq}")]);
        let before = root.json(&["show", &format!("quiet:{}", seq - 1)]);
        assert_eq!(shown["fields"], json!({}), "it says that the node exists, and nothing else");
        assert_eq!(shown["parents"], json!([before["node"]]), "and where it came from");
    }

    // What was recorded already is not recorded once more.
    let root = Root::new(program());
    let often = ["--set", "report_every=1", "--set", "eval_every=off", "--set", "checkpoint_every=off"];
    root.json(&with(&words, &often));
    let counts = records_by_seq(&root);
    for seq in [1_u64, 2] {
        assert_eq!(counts[&seq], 1, "seq {seq}: {counts:?}");
        let shown = root.json(&["show", &format!("quiet:{seq}")]);
        assert_eq!(shown["fields"]["train/step"], json!(seq + 1));
    }
}

#[test]
fn identity_case_07_two_processes_write_one_node_and_process_zero_wins() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    let (zero, one) = (store(&root, 0), store(&root, 1));
    let shared = node("shared", 0);
    zero.value(&shared, &[("train/loss", Scalar::Float(2.4))]).expect("a record");
    let later = [("train/loss", Scalar::Float(9.0)), ("eval/accuracy", Scalar::Float(0.6))];
    one.value(&shared, &later).expect("a record");
    zero.value(&shared, &[("train/loss", Scalar::Float(2.1))]).expect("a record");
    one.flush().expect("a flush");
    zero.flush().expect("a flush");

    let names = std::fs::read_dir(root.join("objects/values")).expect("the parts");
    let names = names.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    assert_eq!(names.filter(|name| name.starts_with("part-")).count(), 2, "each has a part of its own");

    let reader = ObjectReader::open(&root).expect("a reader");
    let check = |when: &str| {
        let view = reader.node(&shared).expect("an answer").expect("the node");
        assert!(view.fields["train/loss"].same(&Scalar::Float(2.1)), "{when}: {:?}", view.fields);
        assert!(view.fields["eval/accuracy"].same(&Scalar::Float(0.6)), "{when}: {:?}", view.fields);
        for (expression, nodes) in
            [("train/loss > 2.2", 0), ("train/loss = 2.1", 1), ("eval/accuracy > 0.5", 1)]
        {
            let expr = Expr::parse(expression).expect("an expression");
            let found = reader.query().expression(expr).count().expect("an answer").value;
            assert_eq!(found, nodes, "{when}: {expression}");
        }
    };
    check("with both stores open");
    one.close().expect("a close");
    zero.close().expect("a close");
    check("after both were closed");
}

#[test]
fn identity_case_10_types_may_change_within_a_batch_between_batches_and_between_writers() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    let first = [("a", Scalar::Int(3)), ("b", Scalar::Float(1.5)), ("c", Scalar::Null)];
    let second = [("a", Scalar::Float(0.5)), ("b", Scalar::Text("oops".to_owned())), ("c", Scalar::Int(7))];

    let (one, other) = (store(&root, 0), store(&root, 0));
    one.value(&node("batch", 0), &first).expect("a record");
    one.value(&node("batch", 1), &second).expect("a record");
    one.flush().expect("a flush");
    one.value(&node("batches", 0), &first).expect("a record");
    one.flush().expect("a flush");
    one.value(&node("batches", 1), &second).expect("a record");
    one.value(&node("writers", 0), &first).expect("a record");
    other.value(&node("writers", 1), &second).expect("a record");
    one.flush().expect("a flush");
    other.flush().expect("a flush");

    let reader = ObjectReader::open(&root).expect("a reader");
    let check = |when: &str| {
        for name in ["batch", "batches", "writers"] {
            let found = reader.query().name(name).select(&["a", "b", "c"]).expect("an answer").value;
            assert_eq!(found.len(), 2, "{when}, {name}: {found:?}");
            for (row, given) in found.iter().zip([&first, &second]) {
                let given = given.iter().filter(|(_, value)| !value.is_null());
                let mut count = 0;
                for (key, value) in given {
                    assert!(row.fields[*key].same(value), "{when}, {name}, {key}: {row:?}");
                    count += 1;
                }
                assert_eq!(row.fields.len(), count, "{when}, {name}: null is absent: {row:?}");
            }
            // One string never breaks a comparison with a number for the other nodes.
            let expr = Expr::parse("b < 2.5").expect("an expression");
            let few = reader.query().name(name).expression(expr).all().expect("an answer").value;
            assert_eq!(few, [node(name, 0)], "{when}");
        }
        let table = reader.query().batches(&["a", "b", "c"]).expect("an answer");
        assert_eq!(table.columns(), ["node", "name", "nonce", "seq", "a", "b", "b::text", "c"], "{when}");
        for row in table.rows() {
            let begins = row[3].same(&Scalar::Int(0));
            // A mix of integers and floats shows as floats, a column of integers alone as integers.
            let numbers = if begins { Scalar::Float(3.0) } else { Scalar::Float(0.5) };
            assert_eq!(row[4], numbers, "{when}: {row:?}");
            let texts = if begins { Scalar::Null } else { Scalar::Text("oops".to_owned()) };
            assert_eq!(row[6], texts, "{when}: {row:?}");
            let whole = if begins { Scalar::Null } else { Scalar::Int(7) };
            assert_eq!(row[7], whole, "{when}: {row:?}");
        }
    };
    check("before compaction");
    one.close().expect("a close");
    other.close().expect("a close");
    check("after compaction");
}

/// Six steps with all that has a step number of its own.
fn six(file: &str) -> Vec<&str> {
    let words =
        ["train", "--text", file, "--name", "six", "--preset", "tiny", "--steps", "6", "--threads", "1"];
    let sets = ["--set", "checkpoint_every=2", "--set", "eval_every=3", "--set", "model.dropout=0.2"];
    with(&words, &sets)
}

/// Launches it with no time left: it does one step, and stops in good order.
fn one_step(root: &Root, words: &[&str]) -> Value {
    let run = root.run(&with(words, &["--max-time", "0", "--format", "json"]));
    assert_eq!(run.status, Some(4), "{run}");
    let report = run.json();
    assert_eq!(report["status"], "stopped", "{report}");
    report
}

#[test]
fn training_case_02_of_six_steps_none_two_or_all_are_done() {
    const COMPUTED: [&str; 5] = ["train/loss", "train/grad_norm", "train/step", "train/tokens", "val/loss"];
    let whole = Root::new(program());
    let file = whole.file("input.txt", text(20_000));
    let words = six(&file);
    let report = whole.json(&words);
    assert_eq!((&report["status"], &report["steps"]), (&json!("finished"), &json!(6)), "{report}");
    assert_eq!(report["resumed_from"], Value::Null);
    let expected = values(&whole, &COMPUTED);
    assert_eq!(expected.len(), 6, "six updates at six nodes: five ticks");
    assert_eq!(seqs_with(&whole, "val/loss"), [2, 5]);
    assert_eq!(whole.json(&["nodes"])[0]["checkpoints"], json!([1, 3, 5]));

    let parts = Root::new(program());
    one_step(&parts, &words);
    let stopped = one_step(&parts, &words);
    assert_eq!(stopped["steps"], json!(2));
    let report = parts.json(&words);
    assert_eq!((&report["status"], &report["steps"]), (&json!("finished"), &json!(6)), "{report}");
    assert_eq!(report["resumed_from"], stopped["node"], "four are left to do");
    assert_eq!(values(&parts, &COMPUTED), expected);
    assert_eq!(seqs_with(&parts, "val/loss"), [2, 5]);
    // Those of the stops, and those that the step numbers ask for.
    assert_eq!(parts.json(&["nodes"])[0]["checkpoints"], json!([0, 1, 3, 5]));
    for seq in 1..6 {
        let parents = parts.json(&["show", &format!("six:{seq}")])["parents"].clone();
        let before = parts.json(&["show", &format!("six:{}", seq - 1)])["node"].clone();
        assert_eq!(parents, json!([before]), "seq {seq}: one tick led here, in whichever launch");
    }
    let weights = |root: &Root| root.json(&["show", "six:5"])["fields"]["model/sha256"].clone();
    assert_eq!(weights(&parts), weights(&whole));

    // With all of them done there is nothing to do, and nothing is recorded.
    let before = records(&parts);
    let again = parts.json(&words);
    assert_eq!((&again["status"], &again["node"]), (&json!("skipped"), &report["node"]), "{again}");
    assert_eq!(records(&parts), before);
}

#[test]
fn training_case_05_the_successor_of_every_checkpoint_gets_the_batch_that_it_would_have_had() {
    const COMPUTED: [&str; 2] = ["data/batch_sha256", "val/loss"];
    let whole = Root::new(program());
    let file = whole.file("input.txt", text(20_000));
    let words = ["train", "--text", &file, "--name", "batches", "--preset", "tiny", "--steps", "5"];
    let words = with(&words, &["--threads", "1", "--set", "checkpoint_every=1", "--set", "eval_every=1"]);
    whole.json(&words);
    let expected = values(&whole, &COMPUTED);
    let distinct: BTreeSet<&String> = expected.values().map(|row| &row[0]).collect();
    assert_eq!(distinct.len(), 5, "each node has another batch: {expected:?}");

    // One launch a step: every batch but the first is the one that follows a checkpoint, from a loader made anew;
    // and a validation between any two of them has not moved either stream.
    let single = Root::new(program());
    for done in 1..5 {
        assert_eq!(one_step(&single, &words)["steps"], json!(done));
    }
    assert_eq!(single.json(&words)["status"], "finished");
    assert_eq!(values(&single, &COMPUTED), expected);
}

#[test]
fn plugins_case_01_a_library_that_is_dropped_into_the_folder_is_found() {
    let root = small();
    let built = plugin("summary");
    let folder = root.path().join("plugins");
    std::fs::create_dir_all(&folder).expect("the folder of plugins");
    let dropped = folder.join(built.file_name().expect("a name"));
    std::fs::copy(&built, &dropped).expect("a copy");
    let listed = root.json(&["plugins"]);
    let ours = rows(&listed).iter().find(|row| row["name"] == "summary").expect("it is listed");
    assert_eq!(ours["status"], "loaded", "{ours}");
    assert_eq!(ours["file"], json!(dropped.display().to_string()));
    let attached = root.json(&["analyze", "--analysis", "summary", "--at", "small:1"]);
    assert_eq!(attached[0]["status"], "attached", "{attached}");
}

#[test]
fn a_plugin_in_its_place_can_be_picked_although_another_one_is_named() {
    let root = small();
    let folder = root.path().join("plugins");
    std::fs::create_dir_all(&folder).expect("the folder of plugins");
    std::fs::copy(plugin("hostile"), folder.join("hostile.so")).expect("a copy");
    let library = plugin("summary").display().to_string();
    let words = ["analyze", "--plugin", &library, "--at", "small:1"];
    let ran = root.json(&words);
    assert_eq!(ran.as_array().map(Vec::len), Some(1), "only what was named: {ran}");
    assert_eq!(ran[0]["analysis"], "summary");
    let mut picked = words.to_vec();
    picked.extend(["--analysis", "healthy"]);
    assert_eq!(root.json(&picked)[0]["analysis"], "healthy");
}

/// A dynamic library of the toolchain: it is whole, and no plugin.
fn foreign_library() -> PathBuf {
    let rustc = Path::new(env!("CARGO")).with_file_name("rustc");
    let output = Command::new(rustc).args(["--print", "target-libdir"]).output().expect("rustc runs");
    let folder = PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim());
    let prefix = format!("{}std-", std::env::consts::DLL_PREFIX);
    let is_library = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with(&prefix) && name.ends_with(std::env::consts::DLL_SUFFIX)
    };
    let files = std::fs::read_dir(&folder).expect("the libraries of the toolchain");
    files.map(|entry| entry.expect("an entry").path()).find(is_library).expect("the standard library")
}

#[test]
fn plugins_case_03_four_files_that_are_no_plugins_are_four_clear_errors() {
    let root = small();
    let whole = std::fs::read(plugin("summary")).expect("the plugin");
    let text_file = root.file("text.so", "just text");
    let truncated = root.file("cut.so", &whole[..whole.len() / 2]);
    let bare = foreign_library().display().to_string();
    let folder = root.folder().display().to_string();
    let cases = [
        (&text_file, "a text file"),
        (&truncated, "truncated or damaged"),
        (&bare, "a library without analyses"),
        (&folder, "is a folder"),
    ];
    for (file, what) in cases {
        let before = records(&root);
        root.run(&["analyze", "--plugin", file, "--at", "small:1"]).fails_with(1, &[file, what]);
        assert_eq!(records(&root), before, "{what}: nothing is attached");
        let listed = root.json(&["plugins", "--plugin", file]);
        assert_eq!(listed[0]["status"], "refused", "{listed}");
        assert!(listed[0]["reason"].as_str().is_some_and(|reason| reason.contains(what)), "{listed}");
    }
}

/// Every file of a checkpoint, by name.
fn checkpoint_bytes(shown: &Value) -> BTreeMap<String, Vec<u8>> {
    let folder = Path::new(shown["blob"].as_str().expect("a blob")).join("checkpoint");
    let read = |name: &Value| {
        let name = name.as_str().expect("a name").to_owned();
        let bytes = std::fs::read(folder.join(&name)).expect("a file of the checkpoint");
        (name, bytes)
    };
    rows(&shown["checkpoint"]["files"]).iter().map(read).collect()
}

#[test]
fn plugins_case_04_a_panic_in_analyze_is_an_error_and_the_next_analysis_runs() {
    let root = small();
    let library = plugin("hostile").display().to_string();
    let words = ["analyze", "--plugin", &library, "--at", "small:1"];
    let shown = root.json(&["show", "small:1"]);
    let before = records(&root);
    for (mode, message) in [
        ("panic", "analyze panics at 1"),
        ("panic-in-drop", "drop panics"),
        // plugins case 7: what was emitted before the failure leaves nothing.
        ("emit-then-fail", "after emitting"),
    ] {
        let mode = format!("mode={mode}");
        let more = ["--analysis", "hostile", "--set", mode.as_str()];
        root.run(&with(&words, &more)).fails_with(1, &[message, "hostile"]);
        let run = root.run(&with(&with(&words, &more), &["--format", "json"]));
        let outcome: Value = serde_json::from_str(&run.out).expect("rows on standard output");
        assert_eq!(outcome[0]["status"], "failed", "{run}");
        assert!(outcome[0]["error"].as_str().is_some_and(|error| error.contains(message)), "{run}");
        assert_eq!(root.json(&["show", "small:1"]), shown, "{mode}: nothing is attached");
        assert_eq!(records(&root), before, "{mode}: no record either");
    }
    let next = root.json(&with(&words, &["--analysis", "healthy"]));
    assert_eq!(next[0]["status"], "attached", "{next}");
}

#[test]
fn what_an_analysis_logs_is_shown_at_its_level() {
    let root = small();
    let library = plugin("hostile").display().to_string();
    let words = ["analyze", "--plugin", &library, "--analysis", "healthy", "--at", "small:1", "--force"];
    let address = root.json(&["show", "small:1"])["node"].as_str().expect("an address").to_owned();
    let line = format!("at {address}");
    let quiet = root.run(&words);
    assert!(quiet.status == Some(0) && !quiet.err.contains(&line), "{quiet}");
    let said = root.run(&with(&words, &["-v"]));
    assert!(said.status == Some(0) && said.err.contains(&line), "{said}");
}

#[test]
fn plugins_case_05_a_past_analysis_changes_no_byte_of_the_checkpoint_and_no_clock() {
    let root = small();
    let library = plugin("hostile").display().to_string();
    let before = root.json(&["show", "small:1"]);
    let bytes = checkpoint_bytes(&before);
    assert_eq!(bytes.len(), 8, "{:?}", bytes.keys());
    // It asks for everything: weights, batch, the model itself, and recorded scalars.
    let words = ["analyze", "--plugin", &library, "--analysis", "healthy", "--at", "small:1"];
    let attached = root.json(&words);
    assert_eq!(attached[0]["artifacts"], json!(["healthy"]), "{attached}");
    let after = root.json(&["show", "small:1"]);
    assert_eq!(checkpoint_bytes(&after), bytes);
    assert_eq!(after["files"], json!(["healthy.figure.svg", "healthy.report.json"]));
    let provenance = ["plugin", "plugin_version", "plugin_sha256", "settings_sha256"];
    for key in provenance {
        assert!(after["fields"][format!("healthy/{key}")].is_string(), "{key}: {after}");
    }
    assert_eq!(root.json(&["show", "small"])["seq"], 2, "the newest by sequence is as before");
    assert_eq!(root.json(&["show", "latest"])["seq"], 1);
    assert_eq!(root.json(&["nodes"])[0]["nodes"], 3, "nothing ticked");
}
