#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::{BTreeMap, HashSet};
use std::error::Error as _;
use std::fs;

use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::blob::Marker;
use crate::ndarray::NdArray;
use crate::schema::{
    ARTIFACT, BLOB, CHECKPOINT, EXECUTION, FINISHED, JOB, NAME, PARENT, PROCESS, RECORD, SEQ, TAG, WRITE,
    WRITER,
};
use crate::testkit::{self, Physical};

fn open(root: &TempDir, options: StoreOptions) -> ObjectStore {
    ObjectStore::open(root.path(), options).unwrap()
}

fn node(seq: u64) -> Node {
    Node::new("a.b.run", "0123456789abcdef", seq).unwrap()
}

/// The segments of journals in a values folder.
fn journals(values: &Path) -> Vec<String> {
    names(values).into_iter().filter(|name| crate::journal::is_segment_name(name)).collect()
}

fn folder(root: &TempDir, node: &Node) -> PathBuf {
    blobs_folder(root.path()).join(node.address().as_str())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).map(|entries| entries.map(|entry| entry.unwrap().file_name()));
    let mut names: Vec<String> =
        entries.into_iter().flatten().map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn identity_case_04_a_full_batch_is_a_part_before_close() {
    let root = TempDir::new().unwrap();
    let store = open(&root, StoreOptions { batch_rows: 2, ..StoreOptions::default() });
    let map = json!({"a": 1.5, "b": null}).as_object().unwrap().clone();
    let before = map.clone();
    store.value_json(&node(0), &map).unwrap();
    store.value(&node(1), &[("c", "x".into())]).unwrap();
    assert_eq!(map, before);
    let start = std::time::Instant::now();
    while testkit::parts(root.path()).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(60));
        thread::yield_now();
    }
    let rows = testkit::rows(root.path());
    assert_eq!(rows.len(), 2);
    assert!(rows[0].int(WRITE) < rows[1].int(WRITE));
    assert_eq!(rows[0].fields(), BTreeMap::from([("a".to_owned(), Scalar::Float(1.5))]));
    assert_eq!(rows[1].fields(), BTreeMap::from([("c".to_owned(), Scalar::Text("x".to_owned()))]));
    let report = store.close().unwrap();
    assert_eq!((report.records, report.parts), (2, 1));
}

#[test]
fn store_1_identity_and_stamp_are_fixed_at_the_call() {
    let root = TempDir::new().unwrap();
    let options = StoreOptions {
        process: 3,
        execution: Some("e".into()),
        tag: Some("t".into()),
        job: Some("gpt@1".into()),
        ..StoreOptions::default()
    };
    let store = open(&root, options);
    let clock = waycairn_dag::Clock::new(node(4));
    store.value(&clock.node(), &[("loss", 1.0.into())]).unwrap();
    store.finish(&clock.node().next().unwrap()).unwrap();
    assert!(store.has_recorded(&node(4)) && !store.has_recorded(&node(6)));
    store.flush().unwrap();
    let rows = testkit::rows(root.path());
    let first = &rows[0];
    assert_eq!((first.text(NAME), first.int(SEQ), first.int(PROCESS)), ("a.b.run", 4, 3));
    assert_eq!((first.text(EXECUTION), first.text(TAG), first.text(JOB)), ("e", "t", "gpt@1"));
    assert!(!first.cells.contains_key(PARENT) && !first.cells.contains_key(FINISHED));
    assert_eq!(rows[1].text(PARENT), node(4).address().as_str());
    assert_eq!(rows[1].cells[FINISHED], Scalar::Bool(true));
}

#[test]
fn identity_case_03_a_tick_does_not_relabel_what_is_queued() {
    let root = TempDir::new().unwrap();
    let store = open(&root, StoreOptions::default());
    let mut clock = waycairn_dag::Clock::new(node(0));
    store.value(&clock.node(), &[("loss", 1.0.into())]).unwrap();
    store.artifact(&clock.node(), "summary", &[("size", 3.into())], &json!({"a": 1})).unwrap();
    clock.tick().unwrap();
    store.flush().unwrap();
    let rows = testkit::rows(root.path());
    assert_eq!(rows.iter().map(|row| row.int(SEQ)).collect::<Vec<_>>(), [0, 0]);
    let record = rows.iter().find(|row| row.cells.contains_key(RECORD)).unwrap();
    assert_eq!((record.text(ARTIFACT), record.text(BLOB)), ("summary", node(0).address().as_str()));
    assert_eq!(record.fields(), BTreeMap::from([("summary/size".to_owned(), Scalar::Int(3))]));
    assert_eq!(names(&folder(&root, &node(0))), ["nodespec.json", "summary.msgpack"]);
    assert!(!folder(&root, &node(1)).exists());
}

#[test]
fn identity_case_05_a_failing_disk_surfaces_at_every_call() {
    let root = TempDir::new().unwrap();
    let store = open(&root, StoreOptions { batch_rows: 2, ..StoreOptions::default() });
    fs::remove_dir(values_folder(root.path())).unwrap();
    store.value(&node(0), &[("a", 1.into())]).unwrap();
    store.value(&node(1), &[("a", 1.into())]).unwrap();
    let error = store.flush().unwrap_err();
    let StoreError::Failed { unwritten: 2, journaled: 0, source } = &error else { panic!("{error:?}") };
    assert!(source.io_cause().is_some(), "the cause is told: {source:?}");
    let refused = store.value(&node(2), &[]).unwrap_err();
    assert!(refused.to_string().contains("2 records were not written") && refused.source().is_some());
    assert!(matches!(store.stage_folder(&node(2), "checkpoint"), Err(StoreError::Failed { .. })));
    for _ in 0..2 {
        assert!(matches!(store.close(), Err(StoreError::Failed { unwritten: 2, .. })));
    }
}

/// Names the root to the child of the test below.
#[cfg(unix)]
const LIMITED: &str = "WAYCAIRN_TEST_LIMITED";

/// The disk takes the name of a part and then not its bytes. A limit on the length of files does that, and it is
/// a process's own: the test starts itself under one.
#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "the test tells its own child process what to do")]
#[test]
fn identity_case_05_a_disk_that_fails_within_a_part_leaves_no_temporary_file() {
    let Some(root) = std::env::var_os(LIMITED) else {
        let root = TempDir::new().unwrap();
        let limited = "trap '' XFSZ && ulimit -f 1 && exec \"$0\" \"$@\"";
        let name = "store::tests::identity_case_05_a_disk_that_fails_within_a_part_leaves_no_temporary_file";
        let child = std::process::Command::new("sh")
            .args(["-c", limited])
            .arg(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture", "--test-threads=1"])
            .env(LIMITED, root.path())
            .output()
            .unwrap();
        let text =
            format!("{}{}", String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
        assert!(child.status.success() && text.contains("1 passed"), "{text}");
        // Nor did the child's end leave one: what it recorded is in the journal, and arrives.
        assert_eq!(journals(&values_folder(root.path())).len(), 1);
        open(&root, StoreOptions::default()).close().unwrap();
        assert_eq!(testkit::rows(root.path()).len(), 2);
        assert_eq!(journals(&values_folder(root.path())), [""; 0]);
        return;
    };
    let options = StoreOptions { batch_rows: 2, ..StoreOptions::default() };
    let store = ObjectStore::open(Path::new(&root), options).unwrap();
    let values = values_folder(Path::new(&root));
    store.value(&node(0), &[("a", 1.into())]).unwrap();
    store.value(&node(1), &[("a", 1.into())]).unwrap();
    let error = store.flush().unwrap_err();
    let StoreError::Failed { unwritten: 2, journaled: 2, source } = &error else { panic!("{error:?}") };
    // The file was there, since writing to it is what failed.
    let StoreError::Io { operation: "write", path, source } = &**source else { panic!("{source:?}") };
    assert_eq!(source.kind(), std::io::ErrorKind::FileTooLarge);
    assert_eq!(path.parent(), Some(values.as_path()));
    assert!(waycairn_durable::is_temporary(path.file_name().unwrap()), "{}", path.display());
    let left = || -> Vec<String> {
        names(&values).into_iter().filter(|name| !name.starts_with(".writer-")).collect()
    };
    assert_eq!(left(), journals(&values), "no file is left under any other name");
    let error = store.close().unwrap_err().to_string();
    assert!(error.contains("the journal holds all of them"), "{error}");
    assert_eq!(names(&values), journals(&values), "and it lives no more");
}

#[test]
fn identity_case_06_a_refused_value_names_key_and_type_and_harms_nothing() {
    let root = TempDir::new().unwrap();
    let store = open(&root, StoreOptions::default());
    let refused = |value: Value| {
        let fields = json!({"ok": 1, "bad key": value}).as_object().unwrap().clone();
        store.value_json(&node(0), &fields).unwrap_err().to_string()
    };
    for (value, kind) in [(json!([1]), "an array"), (json!({}), "a map"), (json!(u64::MAX), "unsigned")] {
        let text = refused(value);
        assert!(text.contains("`bad key`") && text.contains(kind), "{text}");
    }
    assert!(matches!(store.value(&node(0), &[("_x_seq", 1.into())]), Err(RecordError::Name(_))));
    assert!(!store.has_recorded(&node(0)));
    store.value(&node(0), &[("ok", 2.into())]).unwrap();
    assert_eq!(store.close().unwrap().records, 1);
    assert_eq!(testkit::rows(root.path()).len(), 1);
}

#[test]
fn identity_case_11_strays_in_the_folder_change_nothing() {
    let root = TempDir::new().unwrap();
    let store = open(&root, StoreOptions { batch_rows: 1, ..StoreOptions::default() });
    let values = values_folder(root.path());
    for stray in [".tmp-1-abc", "notes.txt", ".part-1.parquet", "x.parquet.tmp"] {
        fs::copy(file!().replace("crates/store/", ""), values.join(stray)).unwrap();
    }
    for seq in 0..3 {
        store.value(&node(seq), &[]).unwrap();
        store.flush().unwrap();
    }
    let report = store.close().unwrap();
    assert!(report.compaction.errors.is_empty(), "{:?}", report.compaction.errors);
    assert_eq!(testkit::rows(root.path()).len(), 3);
    for stray in [".tmp-1-abc", "notes.txt", ".part-1.parquet", "x.parquet.tmp"] {
        assert!(values.join(stray).exists(), "{stray}");
    }
}

#[test]
fn identity_case_17_a_blob_that_fails_leaves_no_marker_and_no_node() {
    let root = TempDir::new().unwrap();
    let store = open(&root, StoreOptions::default());
    let staged = store.stage_folder(&node(7), "checkpoint").unwrap();
    fs::copy("Cargo.toml", staged.path().join("half")).unwrap();
    drop(staged);
    let staged = store.stage_folder(&node(7), "checkpoint").unwrap();
    let refused = staged.commit(Marker::Checkpoint, &[("_x_blob", "x".into())]).unwrap_err();
    assert!(matches!(refused, StoreError::Record(RecordError::Name(_))));
    store.close().unwrap();
    assert!(names(&blobs_folder(root.path())).is_empty());
    assert!(testkit::parts(root.path()).is_empty());
}

#[test]
fn store_7_a_marker_follows_durable_bytes() {
    let root = TempDir::new().unwrap();
    let store = open(&root, StoreOptions::default());
    let parent = node(8);
    let node = parent.next().unwrap();
    let staged = store.stage_folder(&node, "checkpoint").unwrap();
    fs::copy("Cargo.toml", staged.path().join("state")).unwrap();
    assert!(!folder(&root, &node).join("checkpoint").exists(), "hidden until it is committed");
    staged.commit(Marker::Checkpoint, &[("loss", 0.5.into())]).unwrap();
    assert!(folder(&root, &node).join("checkpoint/state").is_file());
    store.flush().unwrap();
    let rows = testkit::rows(root.path());
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].cells[CHECKPOINT], Scalar::Bool(true));
    assert_eq!(rows[0].text(BLOB), node.address().as_str(), "relative, so a copied root resolves");
    assert_eq!(rows[0].fields(), BTreeMap::from([("loss".to_owned(), Scalar::Float(0.5))]));
    let spec: Value =
        serde_json::from_slice(&fs::read(folder(&root, &node).join("nodespec.json")).unwrap()).unwrap();
    let expected = json!({
        "name": "a.b.run", "nonce": "0123456789abcdef", "seq": 9, "parent": parent.address().as_str(),
    });
    assert_eq!(spec, expected);
    // What is there is never replaced.
    let again = store.stage_folder(&node, "checkpoint").unwrap();
    let refused = again.commit(Marker::Checkpoint, &[]).unwrap_err();
    assert!(matches!(refused, StoreError::EntryExists { .. }));
    assert_eq!(names(&folder(&root, &node)), ["checkpoint", "nodespec.json"]);
    assert_eq!(store.close().unwrap().records, 1);
}

#[test]
fn a_store_is_not_opened_where_two_names_could_mean_one_file() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("root");
    let folds = waycairn_durable::fault::refuse("case", &root, 0, u64::MAX);
    let error = ObjectStore::open(&root, StoreOptions::default()).unwrap_err();
    assert!(matches!(&error, StoreError::Format { .. }), "{error:?}");
    let text = std::error::Error::source(&error).map_or(error.to_string(), ToString::to_string);
    assert!(text.contains("does not tell upper case from lower case"), "{text}");
    assert_eq!(names(&root), [""; 0], "nothing was made");
    drop(folds);
    ObjectStore::open(&root, StoreOptions::default()).unwrap().close().unwrap();
}

#[test]
fn store_7_only_an_unmarked_checkpoint_is_removed() {
    let root = TempDir::new().unwrap();
    let store = open(&root, StoreOptions::default());
    let checkpoint = folder(&root, &node(0)).join("checkpoint");
    assert!(!store.remove_unmarked_checkpoint(&node(0)).unwrap());
    // What a killed process leaves: bytes without a marker, and a folder that was being filled.
    fs::create_dir_all(checkpoint.join("state")).unwrap();
    fs::create_dir_all(folder(&root, &node(0)).join(".tmp-1-x/state")).unwrap();
    fs::copy("Cargo.toml", folder(&root, &node(0)).join(".tmp-1-y")).unwrap();
    assert!(store.remove_unmarked_checkpoint(&node(0)).unwrap());
    assert_eq!(names(&folder(&root, &node(0))), [".tmp-1-y"], "a file is another process's payload");
    let staged = store.stage_folder(&node(0), "checkpoint").unwrap();
    fs::copy("Cargo.toml", staged.path().join("state")).unwrap();
    staged.commit(Marker::Checkpoint, &[]).unwrap();
    assert!(!store.remove_unmarked_checkpoint(&node(0)).unwrap(), "its marker may still be queued");
    assert!(checkpoint.join("state").is_file());
    assert!(store.reader().checkpoint(&node(0)).unwrap().is_some());
}

#[test]
fn store_7_leftovers_of_a_run_are_removed_wherever_they_stand() {
    let root = TempDir::new().unwrap();
    let store = open(&root, StoreOptions::default());
    let other = Node::new("another", "0123456789abcdef", 3).unwrap();
    for node in [node(3), node(40), other.clone()] {
        fs::create_dir_all(folder(&root, &node).join("checkpoint")).unwrap();
    }
    fs::create_dir_all(root.path().join("objects/blobs/no address")).unwrap();
    let staged = store.stage_folder(&node(5), "checkpoint").unwrap();
    staged.commit(Marker::Checkpoint, &[]).unwrap();
    assert_eq!(store.remove_unmarked_checkpoints("a.b.run", "0123456789abcdef").unwrap(), 2);
    assert!(!folder(&root, &node(40)).join("checkpoint").exists());
    assert!(folder(&root, &other).join("checkpoint").exists(), "another run has its own lock");
    assert!(store.reader().checkpoint(&node(5)).unwrap().is_some());
}

#[test]
fn store_7_a_withdrawn_checkpoint_goes_and_its_node_stays() {
    let root = TempDir::new().unwrap();
    let store = open(&root, StoreOptions::default());
    let save = |at: u64, fields: &[(&str, Scalar)]| {
        let staged = store.stage_folder(&node(at), "checkpoint").unwrap();
        fs::copy("Cargo.toml", staged.path().join("state")).unwrap();
        staged.commit(Marker::Checkpoint, fields).unwrap();
    };
    save(0, &[("model/sha256", "a".into())]);
    save(5, &[]);
    store.artifact(&node(0), "summary", &[], &1).unwrap();
    store.flush().unwrap();
    store.value(&node(6), &[]).unwrap();
    store.flush().unwrap();
    let reader = store.reader();
    let before = reader.runs().unwrap();
    assert_eq!(before[0].checkpoints, [0, 5]);

    // One without a checkpoint, and one twice, are no trouble.
    assert_eq!(store.withdraw_checkpoints(&[node(0), node(6), node(0)]).unwrap(), 2);
    assert_eq!(store.withdraw_checkpoints(&[node(0)]).unwrap(), 0, "it was withdrawn before");
    assert_eq!(names(&folder(&root, &node(0))), ["nodespec.json", "summary.msgpack"]);
    for closed in [false, true] {
        let runs = reader.runs().unwrap();
        assert_eq!((&runs[0].checkpoints, runs[0].written), (&vec![5], before[0].written), "{closed}");
        assert!(reader.checkpoint(&node(0)).unwrap().is_none());
        assert_eq!(reader.query().checkpoint().all().unwrap().value, [node(5)]);
        assert_eq!(reader.resolve("latest").unwrap(), node(6), "the latest node is where it was");
        let view = reader.node(&node(0)).unwrap().unwrap();
        assert!(view.checkpoint.is_none() && view.checkpoint_withdrawn && view.artifacts.len() == 1);
        assert!(!reader.node(&node(6)).unwrap().unwrap().checkpoint_withdrawn, "it never had one");
        assert_eq!(view.fields["model/sha256"], "a".into());
        let sql = reader.sql("select checkpoint from nodes where seq = 0").unwrap();
        assert_eq!(sql.rows().next().unwrap(), [Scalar::Bool(false)]);
        if !closed {
            store.close().unwrap();
        }
    }

    // Saved again, it counts again.
    let store = open(&root, StoreOptions::default());
    let staged = store.stage_folder(&node(0), "checkpoint").unwrap();
    staged.commit(Marker::Checkpoint, &[]).unwrap();
    store.flush().unwrap();
    assert!(reader.checkpoint(&node(0)).unwrap().is_some());
    assert_eq!(reader.runs().unwrap()[0].checkpoints, [0, 5]);
}

#[test]
fn store_7_a_withdrawal_that_was_interrupted_is_completed() {
    let root = TempDir::new().unwrap();
    let checkpoint = folder(&root, &node(0)).join("checkpoint");
    {
        let store = open(&root, StoreOptions::default());
        let staged = store.stage_folder(&node(0), "checkpoint").unwrap();
        fs::copy("Cargo.toml", staged.path().join("state")).unwrap();
        staged.commit(Marker::Checkpoint, &[]).unwrap();
        store.withdraw_checkpoints(&[node(0)]).unwrap();
    }
    // It died when the marker was gone and the files were not.
    fs::create_dir(&checkpoint).unwrap();
    fs::copy("Cargo.toml", checkpoint.join("state")).unwrap();
    let store = open(&root, StoreOptions::default());
    assert!(store.reader().checkpoint(&node(0)).unwrap().is_none(), "it does not count");
    assert_eq!(store.remove_unmarked_checkpoints("a.b.run", "0123456789abcdef").unwrap(), 1);
    assert!(!checkpoint.exists());
}

#[test]
fn store_6_one_file_per_suffix_is_replaced_and_history_stays() {
    let root = TempDir::new().unwrap();
    let store = open(&root, StoreOptions::default());
    let array = NdArray::from_f32(vec![2], &[1.0, 2.0]).unwrap();
    store.artifact(&node(0), "w.1", &[("n", 1.into())], &json!({"v": 1})).unwrap();
    store.artifact(&node(0), "w.1", &[("n", 2.into())], &BTreeMap::from([("v", array.clone())])).unwrap();
    store.flush().unwrap();
    let bytes = fs::read(folder(&root, &node(0)).join("w.1.msgpack")).unwrap();
    let back: BTreeMap<String, NdArray> = rmp_serde::from_slice(&bytes).unwrap();
    assert_eq!(back["v"], array);
    let history: HashSet<i64> = testkit::rows(root.path()).iter().map(|row| row.int("w.1/n")).collect();
    assert_eq!(history, HashSet::from([1, 2]));
    assert_eq!(names(&folder(&root, &node(0))), ["nodespec.json", "w.1.msgpack"]);
}

#[test]
fn store_6_an_attachment_is_all_or_none() {
    let root = TempDir::new().unwrap();
    let store = open(&root, StoreOptions::default());
    let good = Attachment {
        artifacts: vec![("a".into(), vec![0xc0]), ("b".into(), vec![0xc3])],
        files: vec![("x.plot.svg".into(), b"<svg/>".to_vec())],
        fields: vec![("x/score".into(), 0.5.into())],
    };
    let bad_name = Attachment { files: vec![("../x".into(), vec![])], ..good.clone() };
    let twice =
        Attachment { artifacts: vec![("a".into(), vec![]), ("a".into(), vec![])], ..Attachment::default() };
    let bad_field = Attachment { fields: vec![("_x_seq".into(), 1.into())], ..good.clone() };
    for attachment in [bad_name, twice, bad_field] {
        store.attach(&node(0), attachment).unwrap_err();
    }
    // A folder in the way of the second payload: its rename fails, and nothing is announced.
    let blocked = folder(&root, &node(1));
    fs::create_dir_all(blocked.join("b.msgpack/x")).unwrap();
    store.attach(&node(1), good.clone()).unwrap_err();
    store.attach(&node(2), good).unwrap();
    assert_eq!(names(&folder(&root, &node(2))), ["a.msgpack", "b.msgpack", "nodespec.json", "x.plot.svg"]);
    let report = store.close().unwrap();
    assert_eq!(report.records, 1);
    let rows = testkit::rows(root.path());
    assert_eq!((rows[0].int(SEQ), rows[0].text(ARTIFACT)), (2, "a/b"));
    assert!(!folder(&root, &node(0)).exists());
    assert!(names(&blocked).iter().all(|name| !name.starts_with(".tmp-")), "{:?}", names(&blocked));
}

#[test]
fn an_artifact_that_cannot_be_written_surfaces_at_flush_and_close() {
    let root = TempDir::new().unwrap();
    let store = open(&root, StoreOptions::default());
    fs::create_dir_all(folder(&root, &node(0)).join("a.msgpack/x")).unwrap();
    store.artifact(&node(0), "a", &[], &1).unwrap();
    store.value(&node(0), &[]).unwrap();
    let error = store.flush().unwrap_err();
    assert!(matches!(&error, StoreError::Artifacts { failed: 1, suffix, .. } if suffix == "a"), "{error:?}");
    store.flush().unwrap();
    assert_eq!(testkit::rows(root.path()).len(), 1, "the records are not held up");
    assert!(matches!(store.close(), Err(StoreError::Artifacts { failed: 1, .. })));
    assert!(matches!(store.close(), Err(StoreError::Artifacts { failed: 1, .. })));
}

#[test]
fn other_processes_check_artifacts_and_write_none() {
    let root = TempDir::new().unwrap();
    let store = open(&root, StoreOptions { process: 1, ..StoreOptions::default() });
    store.artifact(&node(0), "a", &[("k", 1.into())], &1).unwrap();
    store.attach(&node(0), Attachment::default()).unwrap();
    assert!(store.artifact(&node(0), "a/b", &[], &1).is_err());
    assert!(store.artifact(&node(0), "a", &[("k", 1.into()), ("k", 2.into())], &1).is_err());
    assert_eq!(store.close().unwrap().records, 0);
    assert!(names(&blobs_folder(root.path())).is_empty());
}

#[test]
fn close_can_be_repeated_and_refuses_what_comes_later() {
    let root = TempDir::new().unwrap();
    let store = open(&root, StoreOptions { batch_rows: 1, ..StoreOptions::default() });
    for seq in 0..4 {
        store.value(&node(seq), &[("a", 1.into())]).unwrap();
        store.flush().unwrap();
    }
    let report = store.close().unwrap();
    assert_eq!((report.records, report.parts), (4, 4));
    assert_eq!((report.compaction.sources, report.compaction.parts, report.compaction.rows), (4, 1, 4));
    let again = store.close().unwrap();
    assert_eq!((again.records, again.compaction.parts), (4, 1));
    assert_eq!(testkit::parts(root.path()).len(), 1);
    assert!(matches!(store.value(&node(9), &[]), Err(RecordError::Closed)));
    assert!(matches!(store.artifact(&node(9), "a", &[], &1), Err(StoreError::Closed)));
    assert!(matches!(store.attach(&node(9), Attachment::default()), Err(StoreError::Closed)));
    assert!(matches!(store.stage_folder(&node(9), "checkpoint"), Err(StoreError::Closed)));
    assert_eq!(store.flush().unwrap().records, 4);
}

#[test]
fn a_store_is_shared_between_threads() {
    fn check<T: Send + Sync>() {}
    check::<ObjectStore>();
    check::<crate::blob::StagedEntry>();
}

#[test]
fn store_2_dropping_a_store_drains_it() {
    let root = TempDir::new().unwrap();
    let store = open(&root, StoreOptions::default());
    store.value(&node(0), &[("a", 1.into())]).unwrap();
    store.artifact(&node(0), "a", &[], &1).unwrap();
    drop(store);
    assert_eq!(testkit::rows(root.path()).len(), 2);
}

#[test]
fn store_2_many_threads_record_each_record_once() {
    let root = TempDir::new().unwrap();
    let store = open(&root, StoreOptions { batch_rows: 7, queue_rows: 16, ..StoreOptions::default() });
    thread::scope(|scope| {
        for thread in 0..4_u32 {
            let store = &store;
            scope.spawn(move || {
                for i in 0..200_u32 {
                    store.value(&node(u64::from(i)), &[("thread", thread.into()), ("i", i.into())]).unwrap();
                }
            });
        }
        for _ in 0..10 {
            store.flush().unwrap();
        }
    });
    assert_eq!(store.close().unwrap().records, 800);
    let rows = testkit::rows(root.path());
    let keys: HashSet<_> = rows.iter().map(Physical::key).collect();
    let values: HashSet<_> = rows.iter().map(|row| (row.int("thread"), row.int("i"))).collect();
    assert_eq!((rows.len(), keys.len(), values.len()), (800, 800, 800));
}

fn scalar() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        1 => Just(Scalar::Null),
        1 => any::<bool>().prop_map(Scalar::Bool),
        2 => (-3_i64..4).prop_map(Scalar::Int),
        1 => any::<i64>().prop_map(Scalar::Int),
        3 => any::<f64>().prop_map(Scalar::Float),
        1 => ".{0,6}".prop_map(Scalar::Text),
    ]
}

type Recorded = (u8, u64, BTreeMap<u8, Scalar>);

fn records() -> impl Strategy<Value = Vec<Recorded>> {
    let fields = prop::collection::btree_map(0_u8..5, scalar(), 0..5);
    prop::collection::vec((0_u8..3, 0_u64..12, fields), 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Any mix of types, in batches of any size, before and after compaction.
    #[test]
    fn store_3_every_accepted_record_is_in_the_parts_exactly_once(
        records in records(),
        batch_rows in 1_usize..40,
        flush_every in 1_usize..30,
    ) {
        let root = TempDir::new().unwrap();
        let store = open(&root, StoreOptions { batch_rows, ..StoreOptions::default() });
        let keys = ["train/loss", "k", "\u{4e2d} `q` \\", "eval/x", "zz"];
        for (index, (run, seq, fields)) in records.iter().enumerate() {
            let node = Node::new(&format!("run-{run}"), "n", *seq).unwrap();
            let fields: Vec<(&str, Scalar)> =
                fields.iter().map(|(key, value)| (keys[usize::from(*key)], value.clone())).collect();
            store.value(&node, &fields).unwrap();
            if index % flush_every == 0 {
                store.flush().unwrap();
            }
        }
        store.flush().unwrap();
        check(&root, &records, &keys)?;
        let report = store.close().unwrap();
        prop_assert!(report.compaction.errors.is_empty(), "{:?}", report.compaction.errors);
        prop_assert_eq!(report.records, records.len() as u64);
        check(&root, &records, &keys)?;
    }
}

/// One writer's writes rise in the order of its calls, so sorting by write restores that order.
fn check(root: &TempDir, records: &[Recorded], keys: &[&str]) -> Result<(), TestCaseError> {
    let mut rows = testkit::rows(root.path());
    rows.sort_by_key(|row| row.int(WRITE));
    prop_assert_eq!(rows.len(), records.len());
    prop_assert_eq!(rows.iter().map(Physical::key).collect::<HashSet<_>>().len(), records.len());
    for (row, (run, seq, fields)) in rows.iter().zip(records) {
        prop_assert_eq!(row.text(NAME), format!("run-{run}"));
        prop_assert_eq!(row.int(SEQ), i64::try_from(*seq).unwrap());
        let expected: BTreeMap<&str, &Scalar> = fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (keys[usize::from(*key)], value))
            .collect();
        let found = row.fields();
        prop_assert_eq!(expected.len(), found.len());
        for (key, value) in expected {
            prop_assert!(found[key].same(value), "{} is {:?}, not {:?}", key, found[key], value);
        }
        prop_assert!(row.cells.contains_key(WRITER));
    }
    Ok(())
}

#[cfg(unix)]
#[test]
fn store_7_a_root_whose_folders_lie_outside_is_refused_before_anything_is_made() {
    use std::os::unix::fs::symlink;
    for name in ["objects", "objects/blobs", "objects/values"] {
        for there in [true, false] {
            let (root, outside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
            let target = outside.path().join("moved");
            if there {
                fs::create_dir(&target).unwrap();
            }
            let link = root.path().join(name);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(&target, &link).unwrap();
            let error = ObjectStore::open(root.path(), StoreOptions::default()).unwrap_err();
            assert!(matches!(error, StoreError::Outside { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.contains(&format!("{name}` is a symbolic link")), "{text}");
            assert!(text.contains("; replace the link by a folder"), "{text}");
            assert!(!root.path().join("FORMAT").exists());
            assert!(!target.exists() || fs::read_dir(&target).unwrap().next().is_none());
        }
    }
    // A link within the root, or a root that is itself reached by a link, is fine.
    let (root, outside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::create_dir(root.path().join("large")).unwrap();
    fs::create_dir(root.path().join("objects")).unwrap();
    symlink("../large", root.path().join("objects/blobs")).unwrap();
    let link = outside.path().join("root");
    symlink(root.path(), &link).unwrap();
    let store = ObjectStore::open(&link, StoreOptions::default()).unwrap();
    let staged = store.stage_folder(&node(1), "checkpoint").unwrap();
    staged.commit(Marker::Checkpoint, &[]).unwrap();
    store.flush().unwrap();
    assert!(store.reader().checkpoint(&node(1)).unwrap().is_some());
}

#[test]
fn store_7_old_half_written_files_of_a_run_are_removed() {
    let root = TempDir::new().unwrap();
    let store = open(&root, StoreOptions::default());
    store.stage_folder(&node(5), "checkpoint").unwrap().commit(Marker::Checkpoint, &[]).unwrap();
    let folder = folder(&root, &node(5));
    for (name, age) in [(".tmp-1-old", 25), (".tmp-1-young", 1)] {
        let file = fs::OpenOptions::new().write(true).create_new(true).open(folder.join(name)).unwrap();
        file.set_modified(time::to_system(time::now_nanos()) - Duration::from_secs(age * 3600)).unwrap();
    }
    store.remove_unmarked_checkpoints("a.b.run", "0123456789abcdef").unwrap();
    assert_eq!(names(&folder), [".tmp-1-young", "checkpoint", "nodespec.json"]);
}

#[test]
fn a_tag_that_could_not_be_asked_for_is_refused_by_every_door() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("root");
    let open = |tag: &str| {
        let options = StoreOptions { tag: Some(tag.to_owned()), ..StoreOptions::default() };
        ObjectStore::open(&place, options)
    };
    for bad in ["", "two\nlines", "\u{7f}", &"x".repeat(201)] {
        assert!(matches!(open(bad), Err(StoreError::Tag(_))), "{bad}");
    }
    assert!(!place.exists(), "nothing was made");
    for good in ["sweep 3/a", "\u{4e2d}", &"x".repeat(200)] {
        open(good).unwrap().close().unwrap();
    }
}

/// What the page about the store promises to those who set nothing.
#[test]
fn the_limits_are_those_that_are_promised() {
    let seconds = Duration::from_secs;
    let options = StoreOptions::default();
    assert_eq!((options.batch_rows, options.batch_deadline), (4_096, seconds(30)));
    assert_eq!((options.queue_rows, MAX_BATCH_ROWS), (65_536, 65_536));
    assert_eq!(options.when_full, WhenFull::Block(seconds(10)));
    assert_eq!(options.journal, JournalPolicy::Interval(Duration::from_millis(100)));
    assert!(!options.journal_sync);
    let retry = RetryPolicy::default();
    assert_eq!(retry.claim, [1, 2, 4, 8].map(seconds));
    assert_eq!(retry.transient, [250, 500, 1_000].map(Duration::from_millis));
    assert_eq!(retry.full, seconds(5));
    assert_eq!((CLOSE_LIMIT, crate::compact::RETIRED_GRACE), (seconds(10), seconds(600)));
}
