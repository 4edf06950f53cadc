//! Payloads and result files on a disk that loses its power, refuses or is broken.

use waycairn_durable::fault::{record, refuse};

use super::*;
use crate::queue::{Limits, WhenFull};

const EIO: i32 = 5;
const EACCES: i32 = 13;

#[test]
fn every_file_of_an_attachment_is_synced_before_it_is_named() {
    let root = TempDir::new().unwrap();
    let limits = Limits {
        batch_rows: 10,
        batch_deadline: Duration::from_secs(1),
        queue_rows: 10,
        when_full: WhenFull::Drop,
    };
    let blobs = Arc::new(Blobs::new(blobs_folder(root.path()), 0));
    let artifacts = Artifacts::new(blobs, Arc::new(Queue::new(limits, false)), RetryPolicy::default());
    // The second time they replace those of the first.
    for payload in 1..=2 {
        let job = Job::new(&node(0), attachment(0.1, payload, &["x.plot.svg"])).unwrap();
        let (written, steps) = record(|| artifacts.shared.write(&job, true));
        written.unwrap();
        let folder = folder(&root, &node(0));
        for name in ["a.msgpack", "b.msgpack", "x.plot.svg"] {
            testkit::assert_file_synced(&steps, &folder.join(name));
        }
        if payload == 1 {
            testkit::assert_file_synced(&steps, &folder.join(crate::blob::NODESPEC));
        }
        assert!(testkit::temporaries(&folder).is_empty());
    }
}

/// The store, a node that has an attachment and one that has none.
fn attached(root: &TempDir) -> ObjectStore {
    let store = ObjectStore::open_with(root.path(), StoreOptions::default(), testkit::impatient()).unwrap();
    store.attach(&node(0), attachment(0.1, 1, &["x.plot.svg"])).unwrap();
    store.flush().unwrap();
    store
}

/// What of a step can be refused so often that the writer gives it up, and how often it tries before.
fn patience(step: &str, errno: i32) -> u64 {
    match (step, errno) {
        ("folder.create" | "file.create", EACCES) => 4,
        (_, EIO) => 3,
        _ => 0,
    }
}

const STEPS: [&str; 5] = ["file.create", "file.write", "file.sync", "folder.sync", "rename"];

#[test]
fn an_attachment_on_a_disk_that_refuses_is_tried_again_and_is_whole_or_changes_nothing() {
    for errno in [EACCES, EIO] {
        for step in STEPS {
            let root = TempDir::new().unwrap();
            let store = attached(&root);
            let blobs = folder(&root, &node(0));
            let (before, seen) = (content(&blobs), store.reader().node(&node(0)).unwrap());
            let new = attachment(0.2, 2, &["x.new.svg", "x.plot.svg"]);
            for seq in 0..2 {
                let broken = refuse(step, &blobs_folder(root.path()), errno, u64::MAX);
                let error = store.attach(&node(seq), new.clone()).unwrap_err();
                assert_eq!(error.io_cause().unwrap().raw_os_error(), Some(errno), "{step}: {error}");
                drop(broken);
            }
            store.flush().unwrap();
            assert_eq!(content(&blobs), before, "{step} {errno}");
            assert_eq!(store.reader().node(&node(0)).unwrap(), seen, "{step} {errno}");
            assert!(store.reader().node(&node(1)).unwrap().is_none(), "{step} {errno}");
            assert!(testkit::temporaries(root.path()).is_empty(), "{step} {errno}");
            assert_eq!(testkit::rows(root.path()).len(), 1, "no record");

            let short = refuse(step, &blobs_folder(root.path()), errno, patience(step, errno));
            for seq in 0..2 {
                store.attach(&node(seq), new.clone()).unwrap();
            }
            drop(short);
            store.flush().unwrap();
            for seq in 0..2 {
                let view = store.reader().node(&node(seq)).unwrap().unwrap();
                assert_eq!(files(&view), ["x.new.svg", "x.plot.svg"], "{step} {errno}");
                assert_eq!(store.reader().artifact(&node(seq), "b").unwrap().bytes(), [2]);
            }
            assert!(testkit::temporaries(root.path()).is_empty(), "{step} {errno}");
            store.close().unwrap();
        }
    }
}

#[test]
fn an_artifact_that_cannot_be_written_is_told_by_the_flush_and_the_next_one_is_written() {
    for errno in [EACCES, EIO] {
        for step in STEPS {
            let root = TempDir::new().unwrap();
            let store = attached(&root);
            store.artifact(&node(2), "s", &[("size", 1.into())], &"old").unwrap();
            store.flush().unwrap();
            let before = content(&folder(&root, &node(2)));
            let broken = refuse(step, &blobs_folder(root.path()), errno, u64::MAX);
            for seq in 2..4 {
                store.artifact(&node(seq), "s", &[("size", 2.into())], &"new").unwrap();
            }
            let error = store.flush().unwrap_err();
            drop(broken);
            assert!(matches!(error, StoreError::Artifacts { failed: 2, .. }), "{step} {errno}: {error:?}");
            assert_eq!(content(&folder(&root, &node(2))), before, "{step} {errno}");
            assert_eq!(store.reader().node(&node(2)).unwrap().unwrap().fields["s/size"], 1.into());
            assert!(store.reader().node(&node(3)).unwrap().is_none(), "{step} {errno}");
            assert!(testkit::temporaries(root.path()).is_empty(), "{step} {errno}");

            let short = refuse(step, &blobs_folder(root.path()), errno, patience(step, errno));
            for seq in 2..4 {
                store.artifact(&node(seq), "s", &[("size", 3.into())], &"newer").unwrap();
            }
            store.flush().unwrap();
            drop(short);
            for seq in 2..4 {
                let payload: String = store.reader().artifact(&node(seq), "s").unwrap().decode().unwrap();
                assert_eq!(payload, "newer", "{step} {errno}");
                assert_eq!(store.reader().node(&node(seq)).unwrap().unwrap().fields["s/size"], 3.into());
            }
            assert!(
                matches!(store.close(), Err(StoreError::Artifacts { failed: 2, .. })),
                "at the close too"
            );
        }
    }
}
