//! The whole shapes of answers in JSON: every key there is, and what kind of value stands under it.

use std::process::Command;

use serde_json::{Map, Value, json};
use waycairn_dag::Node;
use waycairn_store::{Attachment, ObjectStore, Scalar, StoreOptions};
use waycairn_tests::Root;

use crate::program;

fn node(seq: u64) -> Node {
    Node::new("sim", "94ab", seq).expect("a node")
}

/// A root with the parts of four writers that are gone, and two nodes with a parent each.
fn root() -> Root {
    let root = Root::new(program());
    for process in 0..4 {
        let options = StoreOptions { process, ..StoreOptions::default() };
        let store = ObjectStore::open(&root.path(), options).expect("a root");
        for seq in 0..3_u64 {
            let parent = seq.checked_sub(1).map(|seq| node(seq).address());
            let fields = [("k", Scalar::Int(process)), ("odd", (seq % 2 == 1).into())];
            store.value(&node(seq).with_parent(parent), &fields).expect("a record");
        }
        store.close().expect("closed");
    }
    root
}

/// What kind of value it is; of a list the kinds of what is in it, each once.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::Number(number) if number.is_u64() => "count".into(),
        Value::Number(_) => "number".into(),
        Value::String(_) => "text".into(),
        Value::Array(values) => {
            let mut shapes: Vec<Value> = values.iter().map(shape).collect();
            shapes.dedup();
            shapes.into()
        }
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), shape(value))).collect::<Map<_, _>>().into()
        }
    }
}

fn parts(root: &Root) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(root.path().join("objects/values")).expect("the values");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|ending| ending == "parquet")).collect()
}

#[test]
fn what_a_recovery_did_has_one_shape() {
    let root = root();
    let whole = json!({"segments": "count", "records": "count", "parts": "count", "torn_bytes": "count",
        "damaged": [], "live": "count"});
    let nothing = root.json(&["recover"]);
    assert_eq!(shape(&nothing), whole);
    assert!(nothing.as_object().expect("an object").values().all(|value| value == 0 || value == &json!([])));
    // A journal of this version that says neither whose it is nor anything else whole.
    let values = root.path().join("objects/values");
    std::fs::write(values.join(".journal-torn-0"), b"").expect("a journal");
    let store = ObjectStore::open(&root.path(), StoreOptions::default()).expect("a root");
    std::fs::write(values.join(".journal-torn-1"), b"").expect("a journal");
    store.value(&node(9), &[("k", 1.into())]).expect("a record");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while root.json(&["query", "--explain"])["journals"] != 1 {
        assert!(std::time::Instant::now() < deadline, "it is not journaled");
    }
    let recovered = root.json(&["recover"]);
    assert_eq!(shape(&recovered), whole);
    assert_eq!((&recovered["segments"], &recovered["live"]), (&json!(1), &json!(1)));
    store.close().expect("closed");
}

#[test]
fn what_a_check_found_has_one_shape() {
    let root = root();
    let mut whole =
        json!({"parts": "count", "rows": "count", "nodes": "count", "plan": "null", "problems": []});
    let well = root.json(&["fsck"]);
    assert_eq!(shape(&well), whole);
    assert_eq!(well, json!({"parts": 4, "rows": 12, "nodes": 0, "plan": null, "problems": []}));
    let path = parts(&root).remove(0);
    let bytes = std::fs::read(&path).expect("a part");
    std::fs::write(&path, &bytes[..bytes.len() - 9]).expect("a part");
    let found = root.run(&["fsck", "--format", "json"]);
    assert_eq!(found.status, Some(3), "{found}");
    let found = found.json();
    let problem = json!({"kind": "text", "path": "text", "node": "null", "what": "text", "repair": "text"});
    whole["plan"] = "text".into();
    whole["problems"] = json!([problem]);
    assert_eq!(shape(&found), whole);
    let plan = found["plan"].as_str().expect("a plan");
    let repaired = root.json(&["fsck", "--repair", plan]);
    assert_eq!(shape(&repaired), json!([problem]), "the list of what was repaired alone");
    assert_eq!(repaired, found["problems"]);
}

#[test]
fn the_plan_of_a_compaction_has_one_shape() {
    let root = root();
    let plan = root.json(&["compact", "--dry-run"]);
    let group = json!({"parts": "count", "rows": "count", "bytes": "count"});
    assert_eq!(
        shape(&plan),
        json!({"parts": "count", "groups": [group], "live": "count", "foreign": "count"})
    );
    assert_eq!((&plan["parts"], &plan["live"], &plan["foreign"]), (&json!(4), &json!(0), &json!(0)));
    let bytes: u64 = parts(&root).iter().map(|path| path.metadata().expect("a part").len()).sum();
    assert_eq!(plan["groups"], json!([{"parts": 4, "rows": 12, "bytes": bytes}]));
    let done = root.json(&["compact"]);
    let counts = ["deleted", "parts", "rows", "sources"];
    let mut whole: Map<String, Value> =
        counts.map(|key| (key.to_owned(), "count".into())).into_iter().collect();
    whole.insert("errors".to_owned(), json!([]));
    assert_eq!(shape(&done), Value::from(whole));
}

#[test]
fn the_explanation_of_a_question_has_one_shape() {
    let root = root();
    let explained = root.json(&["query", "odd = true and k = 0", "--keys", "k", "--explain"]);
    let counts = [
        "journals",
        "parts",
        "parts_pruned",
        "parts_read",
        "ranges",
        "row_groups",
        "row_groups_pruned",
        "row_groups_read",
        "rows_read",
        "threads",
    ];
    let mut whole: Map<String, Value> =
        counts.map(|key| (key.to_owned(), "count".into())).into_iter().collect();
    whole.insert("columns".to_owned(), json!(["text"]));
    assert_eq!(shape(&explained), Value::from(whole));
    assert_eq!(explained["columns"], json!(["odd", "k"]));
    assert_eq!((&explained["parts"], &explained["rows_read"]), (&json!(4), &json!(12)));
}

#[test]
fn the_parents_of_a_node_have_one_shape() {
    let root = root();
    let parent = node(1);
    let expected = json!([{"node": parent.address().to_string(), "name": "sim", "nonce": "94ab", "seq": 1}]);
    assert_eq!(root.json(&["lineage", "sim:2", "--parents"]), expected);
    assert_eq!(root.json(&["lineage", "sim:0", "--parents"]), json!([]));
}

#[test]
fn an_artifact_as_it_is_stored_is_its_bytes() {
    let root = root();
    // A map of an array of every byte there is, which is no text.
    let mut payload = vec![0x81, 0xa1, b'a', 0xc5, 1, 0];
    payload.extend(0..=u8::MAX);
    let store = ObjectStore::open(&root.path(), StoreOptions::default()).expect("a root");
    let attachment =
        Attachment { artifacts: vec![("summary".to_owned(), payload.clone())], ..Attachment::default() };
    store.attach(&node(1), attachment).expect("attached");
    store.close().expect("closed");
    let out = |command: &mut Command| {
        let out = command.output().expect("the program starts");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        out.stdout
    };
    let words = ["artifact", "sim:1", "summary", "--format", "msgpack"];
    assert_eq!(out(&mut root.command(words)), payload);
    for file in ["a.msgpack", "b.mp"] {
        assert_eq!(out(&mut root.command(["artifact", "sim:1", "summary", "-o", file])), b"");
        assert_eq!(std::fs::read(root.folder().join(file)).expect("a file"), payload, "{file}");
    }
}
