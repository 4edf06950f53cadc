//! A checkpoint on a disk that loses its power, refuses or is broken.

use tempfile::TempDir;
use waycairn_durable::fault::{record, refuse};

use super::*;
use crate::store::{ObjectStore, StoreOptions};
use crate::testkit;

const EIO: i32 = 5;
const EACCES: i32 = 13;

fn node(seq: u64) -> Node {
    Node::new("a.b.run", "0123456789abcdef", seq).unwrap()
}

fn staged(store: &ObjectStore, node: &Node) -> StagedEntry {
    let staged = store.stage_folder(node, CHECKPOINT_ENTRY).unwrap();
    for name in ["weights", "state.json"] {
        durable::write_file(&staged.path().join(name), name.as_bytes(), Durability::Regenerable).unwrap();
    }
    staged
}

#[test]
fn a_checkpoint_and_the_description_of_its_node_are_synced_before_they_are_named() {
    let root = TempDir::new().unwrap();
    let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
    let staged = staged(&store, &node(0));
    let temporary = staged.path().to_owned();
    let (committed, steps) = record(|| staged.commit(Marker::Checkpoint, &[]));
    committed.unwrap();
    let folder = blobs_folder(root.path()).join(node(0).address().as_str());
    testkit::assert_folder_synced(&steps, &temporary, &folder.join(CHECKPOINT_ENTRY));
    testkit::assert_file_synced(&steps, &folder.join(NODESPEC));
    store.close().unwrap();
}

#[test]
fn a_checkpoint_that_cannot_be_staged_or_committed_does_not_count_and_the_next_try_does() {
    for errno in [EACCES, EIO] {
        let root = TempDir::new().unwrap();
        let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
        let blobs = blobs_folder(root.path());
        let refused = refuse("folder.create", &blobs, errno, 1);
        let error = store.stage_folder(&node(0), CHECKPOINT_ENTRY).unwrap_err();
        assert_eq!(error.io_cause().unwrap().raw_os_error(), Some(errno));
        drop(refused);
        // The first commit at a node writes its description, too, so that a step of either may fail.
        for (seq, step) in (0..).zip(["file.create", "file.write", "file.sync", "folder.sync", "rename"]) {
            for place in ["description", "entry"] {
                let node = node(if place == "entry" { seq } else { 10 + seq });
                let folder = blobs.join(node.address().as_str());
                let staged = staged(&store, &node);
                let below = match (place, step) {
                    ("description", _) => folder.clone(),
                    (_, "rename") => folder.join(CHECKPOINT_ENTRY),
                    _ => staged.path().to_owned(),
                };
                let refused = refuse(step, &below, errno, 1);
                let committed = staged.commit(Marker::Checkpoint, &[]);
                drop(refused);
                // Nothing is written into an entry when it is committed.
                if place == "entry" && ["file.create", "file.write"].contains(&step) {
                    committed.unwrap();
                    continue;
                }
                let error = committed.unwrap_err();
                assert_eq!(error.io_cause().unwrap().raw_os_error(), Some(errno), "{place} {step}");
                assert!(error.to_string().contains(node.address().as_str()), "it names the place: {error}");
                does_not_count(&store, &node);
                assert!(!store.remove_unmarked_checkpoint(&node).unwrap());
                counts(&store, &node);
            }
        }
        store.close().unwrap();
    }
}

fn does_not_count(store: &ObjectStore, node: &Node) {
    store.flush().unwrap();
    assert!(store.reader().node(node).unwrap().is_none());
    assert!(store.reader().checkpoint(node).unwrap().is_none());
    let folder = blobs_folder(store.root()).join(node.address().as_str());
    assert!(testkit::temporaries(&folder).is_empty() && !folder.join(CHECKPOINT_ENTRY).exists());
}

fn counts(store: &ObjectStore, node: &Node) {
    staged(store, node).commit(Marker::Checkpoint, &[]).unwrap();
    store.flush().unwrap();
    let folder = store.reader().checkpoint(node).unwrap().unwrap();
    assert_eq!(fs::read(folder.join("weights")).unwrap(), b"weights");
    assert!(folder.with_file_name(NODESPEC).is_file());
}
