#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::blob::Marker;
use crate::field::Scalar;
use crate::journal::JournalPolicy;
use crate::record::Attachment;
use crate::store::{ObjectStore, StoreOptions};
use crate::testkit;

fn node(seq: u64) -> Node {
    Node::new("run", "0123456789abcdef", seq).unwrap()
}

fn options() -> StoreOptions {
    StoreOptions { journal: JournalPolicy::EachRecord, ..StoreOptions::default() }
}

/// A root with records, a checkpoint and an artifact.
fn root() -> (TempDir, ObjectStore) {
    let root = TempDir::new().unwrap();
    let store = ObjectStore::open(root.path(), options()).unwrap();
    store.value(&node(0), &[("a", 1.into())]).unwrap();
    let entry = store.stage_folder(&node(1), "checkpoint").unwrap();
    testkit::put(&entry.path().join("weights"), b"1 2 3");
    entry.commit(Marker::Checkpoint, &[]).unwrap();
    store.artifact(&node(2), "summary", &[], &json!({"a": 1})).unwrap();
    // As an analysis attaches it that made no files.
    let fields = vec![
        ("mean".to_owned(), Scalar::Float(1.0)),
        ("scores/plugin".to_owned(), Scalar::Text("p".to_owned())),
    ];
    store.attach(&node(3), Attachment { fields, ..Attachment::default() }).unwrap();
    store.flush().unwrap();
    (root, store)
}

fn found(root: &TempDir) -> Vec<(ProblemKind, Option<Repair>)> {
    fsck(root.path()).unwrap().problems.into_iter().map(|problem| (problem.kind, problem.repair)).collect()
}

#[test]
fn a_root_that_is_well_has_no_problem_and_nothing_is_made() {
    let (root, store) = root();
    let report = fsck(root.path()).unwrap();
    assert_eq!((report.problems.len(), report.parts, report.rows, report.nodes), (0, 1, 4, 2), "{report:?}");
    store.close().unwrap();
    assert_eq!((found(&root).len(), fsck(root.path()).unwrap().plan), (0, None));
    let nowhere = root.path().join("nowhere");
    assert_eq!(fsck(&nowhere).unwrap(), FsckReport::default());
    assert!(!nowhere.exists());
}

#[test]
fn files_and_records_that_do_not_fit_are_told_both_ways() {
    let (root, store) = root();
    let reader = store.reader();
    let folder = |seq| reader.node_folder(&node(seq));
    durable::rename(&folder(1).join("checkpoint"), &folder(2).join("checkpoint")).unwrap();
    testkit::put(&folder(2).join("summary.msgpack"), b"\x82\xa1a");
    testkit::put(&folder(2).join("strange.json"), b"{}");
    let report = fsck(root.path()).unwrap();
    let told: Vec<(ProblemKind, String)> =
        report.problems.iter().map(|problem| (problem.kind, problem.path.clone().unwrap())).collect();
    let path = |seq: u64, name: &str| format!("objects/blobs/{}/{name}", node(seq).address());
    assert_eq!(
        told,
        [
            (ProblemKind::DanglingBlob, path(1, "checkpoint")),
            (ProblemKind::BlobWithoutMarker, path(2, "checkpoint")),
            (ProblemKind::BlobWithoutMarker, path(2, "strange.json")),
            (ProblemKind::DamagedArtifact, path(2, "summary.msgpack")),
        ]
    );
    assert_eq!(report.plan, None, "what to do about them only a person can know");
    store.close().unwrap();
}

#[test]
fn a_cycle_is_told_with_its_nodes() {
    let (root, store) = root();
    for (child, parent) in [(5, 6), (6, 5)] {
        store.value(&node(child).with_parent(Some(node(parent).address())), &[]).unwrap();
    }
    store.flush().unwrap();
    let report = fsck(root.path()).unwrap();
    assert_eq!(report.problems.len(), 1);
    assert!(report.problems[0].what.contains(":5") && report.problems[0].what.contains(":6"), "{report:?}");
    store.close().unwrap();
}

#[test]
fn a_repair_does_what_the_check_before_it_told_and_nothing_else() {
    let (root, store) = root();
    store.close().unwrap();
    // A part that is cut, one whose data are changed, the journal of a writer that died, and what it left.
    let whole = fs::read(&testkit::parts(root.path())[0]).unwrap();
    let values = values_folder(root.path());
    testkit::put(&values.join("part-cut.parquet"), &whole[..whole.len() / 2]);
    let dead = ObjectStore::open(root.path(), options()).unwrap();
    dead.value(&node(7), &[("a", 7.into())]).unwrap();
    dead.flush().unwrap();
    dead.value(&node(8), &[("a", 8.into())]).unwrap();
    while dead.queue().unjournaled() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(found(&root).len(), 1, "it lives");
    dead.journal().die();
    std::mem::forget(dead);
    let old = values.join(".tmp-1-old");
    testkit::put(&old, b"half");
    let long_ago = time::to_system(time::now_nanos()) - TEMPORARY_AGE - Duration::from_secs(60);
    fs::File::options().append(true).open(&old).unwrap().set_modified(long_ago).unwrap();
    testkit::put(&values.join(".tmp-1-young"), b"half");

    let report = fsck(root.path()).unwrap();
    let due: Vec<_> = report.problems.iter().map(|problem| (problem.kind, problem.repair)).collect();
    assert_eq!(
        due,
        [
            (ProblemKind::UnreadablePart, Some(Repair::SetAside)),
            (ProblemKind::OrphanSegment, Some(Repair::Recover)),
            (ProblemKind::Leftover, Some(Repair::Delete)),
            (ProblemKind::Leftover, Some(Repair::Delete)),
        ]
    );
    let plan = report.plan.clone().unwrap();
    assert!(
        matches!(fsck_repair(root.path(), "0123"), Err(StoreError::Plan { found: Some(found), .. }) if found == plan)
    );
    assert_eq!(fsck(root.path()).unwrap(), report, "another plan changes nothing");

    assert_eq!(fsck_repair(root.path(), &plan).unwrap().len(), 4);
    let after = fsck(root.path()).unwrap();
    assert_eq!((after.problems.len(), after.plan), (0, None));
    assert!(values.join(".damaged-part-cut.parquet").exists() && values.join(".tmp-1-young").exists());
    let reader = ObjectReader::open(root.path()).unwrap();
    assert_eq!(reader.query().has("a").count().unwrap().value, 3, "nothing that could be read is lost");
    assert!(matches!(fsck_repair(root.path(), &plan), Err(StoreError::Plan { found: None, .. })));
}

#[test]
fn what_no_repair_can_know_is_told_and_keeps_nobody_from_the_others() {
    let (root, store) = root();
    let reader = store.reader();
    store.close().unwrap();
    let values = values_folder(root.path());
    testkit::put(&values.join(".journal-new-0"), b"WCJRNL\x00\x02 of a newer program");
    fs::create_dir(values.join(".writer-none")).unwrap();
    let outside = TempDir::new().unwrap();
    fs::remove_dir_all(reader.node_folder(&node(2))).unwrap();
    std::os::unix::fs::symlink(outside.path(), reader.node_folder(&node(2))).unwrap();
    testkit::put(&values.join("part-none.parquet"), b"");
    let report = fsck(root.path()).unwrap();
    let kinds: Vec<_> = report.problems.iter().map(|problem| (problem.kind, problem.repair)).collect();
    assert_eq!(
        kinds,
        [
            (ProblemKind::UnreadablePart, Some(Repair::SetAside)),
            (ProblemKind::ForeignSegment, None),
            (ProblemKind::UnsafePath, None),
            (ProblemKind::Leftover, None),
        ],
        "{report:?}"
    );
    assert_eq!(fsck_repair(root.path(), &report.plan.unwrap()).unwrap().len(), 1);
    let after = fsck(root.path()).unwrap();
    assert_eq!((after.problems.len(), after.plan), (3, None));
    assert!(values.join(".journal-new-0").exists());
}

#[test]
fn a_footer_that_tells_a_wrong_place_of_a_column_is_found() {
    let root = TempDir::new().unwrap();
    let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
    // Two row groups, of which the second alone has the key.
    for seq in 0..70_000 {
        let node = node(seq);
        let common = ("common", Scalar::Int(1));
        match seq {
            69_000 => store.value(&node, &[common, ("rare", 1.into())]).unwrap(),
            _ => store.value(&node, &[common]).unwrap(),
        }
    }
    store.close().unwrap();
    assert_eq!(fsck(root.path()).unwrap().problems, []);
    let part = testkit::parts(root.path()).pop().unwrap();
    let mut bytes = fs::read(&part).unwrap();
    let told = br#"{"rare":[1]}"#;
    let place = bytes.windows(told.len()).rposition(|window| window == told).unwrap();
    bytes[place..place + told.len()].copy_from_slice(br#"{"rare":[0]}"#);
    testkit::put(&part, &bytes);
    let problems = fsck(root.path()).unwrap().problems;
    assert_eq!(problems.len(), 1);
    assert!(problems[0].what.contains("waycairn.sparse"), "{problems:?}");
}

#[test]
fn a_link_that_is_called_as_a_segment_is_read_by_nobody_and_told() {
    let (root, store) = root();
    store.close().unwrap();
    let elsewhere = TempDir::new().unwrap();
    let other = ObjectStore::open(elsewhere.path(), options()).unwrap();
    other.value(&node(70), &[("a", 1.into())]).unwrap();
    while other.queue().unjournaled() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    other.journal().release();
    std::mem::forget(other);
    let segment = crate::journal::segments(&values_folder(elsewhere.path())).unwrap().remove(0);
    let values = values_folder(root.path());
    std::os::unix::fs::symlink(&segment, values.join(".journal-linked-0")).unwrap();
    std::os::unix::fs::symlink("nothing", values.join(".journal-none-0")).unwrap();
    let live = ObjectReader::open_live(root.path()).unwrap();
    assert!(live.node(&node(70)).unwrap().is_none());
    assert_eq!(crate::recover(root.path()).unwrap(), crate::RecoverReport::default());
    assert_eq!(found(&root), [(ProblemKind::ForeignSegment, None), (ProblemKind::ForeignSegment, None)]);
    assert!(segment.exists());
}

#[test]
fn a_repair_that_cannot_recover_says_so_and_does_the_others() {
    let (root, store) = root();
    store.value(&node(9), &[("a", 1.into())]).unwrap();
    while store.queue().unjournaled() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    store.journal().release();
    std::mem::forget(store);
    let values = values_folder(root.path());
    testkit::put(&values.join("part-none.parquet"), b"");
    let plan = fsck(root.path()).unwrap().plan.unwrap();
    let disk = waycairn_durable::fault::refuse("file.write", &values, 13, u64::MAX);
    let error = fsck_repair(root.path(), &plan).unwrap_err();
    assert!(error.to_string().contains("write"), "{error}");
    drop(disk);
    let left = fsck(root.path()).unwrap();
    assert_eq!(found(&root), [(ProblemKind::OrphanSegment, Some(Repair::Recover))]);
    assert_eq!(fsck_repair(root.path(), &left.plan.unwrap()).unwrap().len(), 1);
    assert!(found(&root).is_empty());
}
