#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod disk;

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;
use crate::blob::blobs_folder;
use crate::store::{ObjectStore, StoreOptions};
use crate::testkit;
use crate::view::NodeView;

fn open(root: &TempDir) -> ObjectStore {
    ObjectStore::open(root.path(), StoreOptions::default()).unwrap()
}

fn node(seq: u64) -> Node {
    Node::new("a.b.run", "0123456789abcdef", seq).unwrap()
}

fn folder(root: &TempDir, node: &Node) -> PathBuf {
    blobs_folder(root.path()).join(node.address().as_str())
}

/// Everything in a folder, hidden names included: names and bytes, by name.
fn content(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.path().is_file());
    let mut files: Vec<(String, Vec<u8>)> = files
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

fn files(view: &NodeView) -> Vec<&str> {
    view.files.iter().map(|(name, _)| name.as_str()).collect()
}

fn attachment(score: f64, payload: u8, files: &[&str]) -> Attachment {
    Attachment {
        artifacts: vec![("a".into(), vec![payload]), ("b".into(), vec![payload])],
        files: files.iter().map(|name| ((*name).into(), vec![b'0' + payload])).collect(),
        fields: vec![("x/plugin".into(), "p".into()), ("x/score".into(), score.into())],
    }
}

#[test]
fn store_6_an_attachment_that_fails_among_its_renames_changes_nothing() {
    let root = TempDir::new().unwrap();
    let store = open(&root);
    store.attach(&node(0), attachment(0.1, 1, &["x.plot.svg"])).unwrap();
    store.flush().unwrap();
    let blobs = folder(&root, &node(0));
    let before = content(&blobs);
    let seen = store.reader().node(&node(0)).unwrap().unwrap();
    assert_eq!(files(&seen), ["x.plot.svg"]);

    // A folder in the way of the last rename: both payloads and two files had their new bytes by then.
    let blocked = blobs.join("x.zz.json");
    fs::create_dir_all(blocked.join("inside")).unwrap();
    let new = attachment(0.2, 2, &["x.new.svg", "x.plot.svg", "x.zz.json"]);
    store.attach(&node(0), new.clone()).unwrap_err();
    store.flush().unwrap();
    assert_eq!(content(&blobs), before, "payloads as before, nothing new, and nothing hidden is left");
    assert_eq!(store.reader().node(&node(0)).unwrap().unwrap(), seen);
    assert_eq!(testkit::rows(root.path()).len(), 1, "no record");

    fs::remove_dir_all(&blocked).unwrap();
    store.attach(&node(0), new).unwrap();
    store.flush().unwrap();
    let view = store.reader().node(&node(0)).unwrap().unwrap();
    assert_eq!(files(&view), ["x.new.svg", "x.plot.svg", "x.zz.json"]);
    assert_eq!(view.fields["x/score"], 0.2.into());
    assert_eq!(store.reader().artifact(&node(0), "b").unwrap().bytes(), [2]);
    assert!(content(&blobs).iter().all(|(name, _)| !name.starts_with('.')), "nothing hidden is left");
    store.close().unwrap();
}

#[test]
fn store_6_an_attachment_whose_record_is_refused_changes_nothing() {
    let root = TempDir::new().unwrap();
    let queue = Arc::new(Queue::new(
        crate::queue::Limits {
            batch_rows: 1,
            batch_deadline: Duration::from_secs(1),
            queue_rows: 1,
            when_full: crate::queue::WhenFull::Drop,
        },
        false,
    ));
    let blobs = Arc::new(Blobs::new(blobs_folder(root.path()), 0));
    let artifacts = Artifacts::new(blobs, Arc::clone(&queue), RetryPolicy::default());
    let earlier = folder(&root, &node(0));
    durable_write(&earlier, "a.msgpack", b"old");
    queue.end();
    let job = Job::new(&node(0), attachment(0.1, 1, &["x.plot.svg"])).unwrap();
    artifacts.submit_and_wait(job).unwrap_err();
    artifacts.end();
    let names: Vec<(String, Vec<u8>)> = content(&earlier);
    assert_eq!(names[0], ("a.msgpack".to_owned(), b"old".to_vec()));
    assert_eq!(names.len(), 2, "and `nodespec.json`: {names:?}");
}

fn durable_write(folder: &Path, name: &str, bytes: &[u8]) {
    fs::create_dir_all(folder).unwrap();
    waycairn_durable::write_file(&folder.join(name), bytes, Durability::Regenerable).unwrap();
}

#[test]
fn store_6_a_file_that_no_record_announces_is_listed_nowhere() {
    let root = TempDir::new().unwrap();
    let store = open(&root);
    store.attach(&node(0), attachment(0.1, 1, &["x.plot.svg"])).unwrap();
    store.attach(&node(1), attachment(0.1, 1, &[])).unwrap();
    store.artifact(&node(2), "w", &[], &1).unwrap();
    store.flush().unwrap();
    // What a process leaves that dies among the renames of another attachment, by the same plugin or another.
    for seq in 0..3 {
        for name in ["x.more.svg", "y.plot.svg", "w.json", "z"] {
            durable_write(&folder(&root, &node(seq)), name, b"unannounced");
        }
        let view = store.reader().node(&node(seq)).unwrap().unwrap();
        assert_eq!(files(&view), if seq == 0 { vec!["x.plot.svg"] } else { vec![] }, "{seq}");
    }
    // Announced when its record comes; what an earlier record announced stays.
    let later = Attachment { files: vec![("y.plot.svg".into(), vec![])], ..Attachment::default() };
    store.attach(&node(0), later).unwrap();
    store.flush().unwrap();
    let view = store.reader().node(&node(0)).unwrap().unwrap();
    assert_eq!(files(&view), ["x.plot.svg", "y.plot.svg"]);
    assert_eq!(view.fields["y/result_files"], "y.plot.svg".into());
}

#[test]
fn the_field_that_names_the_files_is_the_stores() {
    let root = TempDir::new().unwrap();
    let store = open(&root);
    let mut taken = attachment(0.1, 1, &["x.b.svg", "x.a.svg", "y.a.svg"]);
    taken.fields.push(("x/result_files".into(), 3.into()));
    let error = store.attach(&node(0), taken.clone()).unwrap_err();
    assert!(error.to_string().contains("`x/result_files` is given twice"), "{error}");
    taken.fields.pop();
    store.attach(&node(0), taken).unwrap();
    store.close().unwrap();
    let fields = testkit::rows(root.path())[0].fields();
    assert_eq!(fields["x/result_files"], "x.a.svg/x.b.svg".into());
    assert_eq!(fields["y/result_files"], "y.a.svg".into());
}

#[cfg(unix)]
#[test]
fn a_pipe_in_place_of_a_payload_is_an_error_and_never_makes_a_reader_wait() {
    let root = TempDir::new().unwrap();
    let store = open(&root);
    store.artifact(&node(0), "a", &[], &1).unwrap();
    store.close().unwrap();
    let payload = folder(&root, &node(0)).join("a.msgpack");
    fs::remove_file(&payload).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&payload).status().unwrap().success());
    let error = store.reader().artifact(&node(0), "a").unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "it is not a regular file but a pipe");
    assert!(store.reader().node(&node(0)).unwrap().unwrap().artifacts.is_empty());
}
