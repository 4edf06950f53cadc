#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;
use waycairn_dag::Node;

use super::*;
use crate::field::Scalar;
use crate::query::NodeRow;
use crate::reader::ObjectReader;
use crate::store::{ObjectStore, StoreOptions};
use crate::testkit;

fn node(run: u64, seq: u64) -> Node {
    Node::new(&format!("run-{run}"), "0123456789abcdef", seq).unwrap()
}

/// Writers that are gone, each with a part of its own.
fn writers(root: &TempDir, runs: std::ops::Range<u64>, rows: u64) {
    for run in runs {
        let process = i64::try_from(run % 3).unwrap();
        let store =
            ObjectStore::open(root.path(), StoreOptions { process, ..StoreOptions::default() }).unwrap();
        for seq in 0..rows {
            let key = format!("k{}", run % 4);
            // Runs share nodes, so that parts overlap and the fold has something to decide.
            store
                .value(
                    &node(run / 3, seq),
                    &[(key.as_str(), Scalar::Int(run.cast_signed())), ("all", 0.5.into())],
                )
                .unwrap();
        }
        store.close().unwrap();
    }
}

fn answer(root: &TempDir) -> Vec<NodeRow> {
    ObjectReader::open(root.path()).unwrap().query().select_all().unwrap().value
}

fn records(root: &TempDir) -> Vec<String> {
    let mut rows: Vec<String> =
        testkit::rows(root.path()).iter().map(|row| format!("{:?}", row.cells)).collect();
    rows.sort();
    rows
}

#[test]
fn store_3_the_parts_of_writers_that_are_gone_become_few_and_no_answer_changes() {
    let root = TempDir::new().unwrap();
    writers(&root, 0..30, 20);
    let (before, rows) = (answer(&root), records(&root));
    let plan = plan_compaction(root.path()).unwrap();
    assert_eq!((plan.parts, plan.live, plan.foreign), (30, 0, 0));
    assert_eq!(plan.groups.iter().map(|group| (group.parts, group.rows)).collect::<Vec<_>>(), [(30, 600)]);
    assert!(plan.groups[0].bytes > 0);
    assert_eq!(testkit::parts(root.path()).len(), 30, "a plan changes nothing");

    let report = compact_root(root.path()).unwrap();
    assert_eq!((report.sources, report.parts, report.rows, report.errors.len()), (30, 1, 600, 0));
    assert_eq!(testkit::parts(root.path()).len(), 1);
    assert_eq!((answer(&root), records(&root)), (before.clone(), rows));
    let again = compact_root(root.path()).unwrap();
    assert_eq!((again.sources, again.parts), (0, 0), "there is nothing left to do");

    // A later run finds the merged part among others.
    writers(&root, 30..33, 20);
    assert_eq!(compact_root(root.path()).unwrap().sources, 4);
    let after = answer(&root);
    assert!(before.iter().all(|row| after.contains(row)) && after.len() == before.len() + 20);
}

#[test]
fn store_3_the_parts_of_a_writer_that_lives_are_its_own() {
    let root = TempDir::new().unwrap();
    writers(&root, 0..6, 5);
    let living = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
    for seq in 0..6 {
        living.value(&node(9, seq), &[("a", 1.into())]).unwrap();
        living.flush().unwrap();
    }
    assert_eq!(plan_compaction(root.path()).unwrap().live, 6);
    let report = compact_root(root.path()).unwrap();
    assert_eq!((report.sources, report.parts), (6, 1));
    assert_eq!(testkit::parts(root.path()).len(), 7);
    let closed = living.close().unwrap();
    assert_eq!(closed.compaction.sources, 6, "its close finds them all");

    // One that died says so by itself.
    let dead = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
    for seq in 0..4 {
        dead.value(&node(10, seq), &[("a", 1.into())]).unwrap();
        dead.flush().unwrap();
    }
    dead.journal().die();
    std::mem::forget(dead);
    let report = compact_root(root.path()).unwrap();
    assert_eq!((report.sources, report.errors.len()), (6, 0));
    let hidden: Vec<String> =
        testkit::strays(root.path()).into_iter().filter(|name| name.starts_with(".writer-")).collect();
    assert_eq!(hidden, [""; 0]);
}

#[test]
fn store_3_parts_are_merged_with_those_of_their_size() {
    assert_eq!([0, 1, 4_095, 4_096, 32_767, 32_768, 1 << 20].map(tier), [0, 0, 0, 1, 1, 2, 3]);
    let root = TempDir::new().unwrap();
    writers(&root, 0..1, 5_000);
    writers(&root, 1..6, 10);
    let plan = plan_compaction(root.path()).unwrap();
    assert_eq!(
        plan.groups.iter().map(|group| group.parts).collect::<Vec<_>>(),
        [5],
        "the large one is not copied"
    );
    assert_eq!(compact_root(root.path()).unwrap().rows, 50);
    assert_eq!(testkit::parts(root.path()).len(), 2);
}

#[test]
fn store_3_of_two_compactions_one_is_refused_and_a_removal_waits_for_neither() {
    let root = TempDir::new().unwrap();
    writers(&root, 0..5, 5);
    let held = lock(&values_folder(root.path())).unwrap();
    assert!(matches!(compact_root(root.path()), Err(StoreError::Lock(_))));
    let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
    assert!(matches!(store.remove_run(&node(0, 0)), Err(StoreError::Lock(_))));
    assert_eq!(answer(&root).len(), 10, "nothing was removed");
    drop(held);
    store.remove_run(&node(0, 0)).unwrap();
    assert_eq!(answer(&root).len(), 5);
    let nowhere = root.path().join("nowhere");
    assert_eq!(compact_root(&nowhere).unwrap().sources, 0);
    assert!(!nowhere.exists(), "it makes no root");
}

#[test]
fn store_3_readers_and_writers_beside_a_compaction_see_every_record() {
    let root = TempDir::new().unwrap();
    writers(&root, 0..12, 30);
    let reader = ObjectReader::open(root.path()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let polling = scope.spawn(|| {
            let mut seen = 0;
            while !done.load(Ordering::SeqCst) {
                let now = reader.query().count().unwrap().value;
                assert!(now >= seen, "{now} after {seen}");
                seen = now;
            }
        });
        let writing = scope.spawn(|| writers(&root, 12..40, 30));
        while !writing.is_finished() {
            let report = compact_root(root.path()).unwrap();
            assert_eq!(report.errors.len(), 0, "{:?}", report.errors);
        }
        done.store(true, Ordering::SeqCst);
        polling.join().unwrap();
    });
    compact_root(root.path()).unwrap();
    assert_eq!(records(&root).len(), 40 * 30);
    assert_eq!(reader.query().count().unwrap().value, 14 * 30);
}

#[test]
fn store_3_a_close_that_would_take_too_long_leaves_its_parts() {
    let root = TempDir::new().unwrap();
    let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
    for seq in 0..3 {
        store.value(&node(0, seq), &[("a", 1.into())]).unwrap();
        store.flush().unwrap();
    }
    let names: Vec<String> = testkit::parts(root.path())
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    let values = values_folder(root.path());
    let report = crate::compact::compact(&values, &names, std::time::Duration::ZERO);
    assert_eq!((report.left, report.parts, report.sources, report.errors.len()), (3, 0, 0, 0));
    let mut lists = HashSet::new();
    let sources: Vec<Source> =
        testkit::parts(root.path()).iter().map(|path| open(path, &mut lists).unwrap().unwrap()).collect();
    let late = merge(&values, &sources, Some(std::time::Instant::now()));
    assert!(matches!(late, Err(StoreError::Late)), "within a part too");
    assert_eq!(testkit::strays(root.path()).iter().filter(|name| name.starts_with(".tmp")).count(), 0);
    assert_eq!(store.close().unwrap().compaction.sources, 3);
}

/// A replacement that was published beside its sources takes their place only as long as it holds what its footer says.
#[test]
fn store_3_what_is_there_twice_goes_when_its_replacement_is_whole() {
    let root = TempDir::new().unwrap();
    writers(&root, 0..5, 20);
    let (before, rows) = (answer(&root), records(&root));
    let values = values_folder(root.path());
    let sources = finish_root(&values, &mut CompactReport::default()).unwrap();
    let replacement = merge(&values, &plan(sources)[0], None).unwrap();
    assert_eq!(records(&root).len(), 2 * rows.len());
    let plan = plan_compaction(root.path()).unwrap();
    assert_eq!((plan.parts, plan.groups.len()), (6, 0), "none of them is to be merged");

    // A page that cannot be decoded, under a footer that can be read.
    let whole = std::fs::read(&replacement).unwrap();
    let mut damaged = whole.clone();
    damaged[4..200].fill(0xff);
    testkit::put(&replacement, &damaged);
    let report = compact_root(root.path()).unwrap();
    assert_eq!((report.sources, report.parts, report.errors.len()), (0, 0, 1), "{report:?}");
    assert_eq!(testkit::parts(root.path()).len(), 6, "nothing is hidden");

    testkit::put(&replacement, &whole);
    let report = compact_root(root.path()).unwrap();
    assert_eq!((report.sources, report.parts, report.errors.len()), (5, 0, 0), "{report:?}");
    assert_eq!(
        (testkit::parts(root.path()), answer(&root), records(&root)),
        (vec![replacement], before, rows)
    );
    // What has the name of no source stays.
    writers(&root, 5..6, 20);
    assert_eq!(compact_root(root.path()).unwrap().sources, 0);
    assert_eq!(testkit::parts(root.path()).len(), 2);
}

#[test]
fn a_compaction_and_a_check_beside_writers_that_close_find_nothing_wrong() {
    let root = TempDir::new().unwrap();
    let writing = std::sync::atomic::AtomicUsize::new(2);
    std::thread::scope(|scope| {
        for process in 0..2 {
            let (root, writing) = (root.path(), &writing);
            scope.spawn(move || {
                for round in 0..25 {
                    let options = StoreOptions { process, ..StoreOptions::default() };
                    let store = ObjectStore::open(root, options).unwrap();
                    for seq in 0..4 {
                        let node = Node::new("run", "0123456789abcdef", round * 4 + seq).unwrap();
                        store.value(&node, &[("a", 1.into())]).unwrap();
                        store.flush().unwrap();
                    }
                    store.close().unwrap();
                }
                writing.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
            });
        }
        while writing.load(std::sync::atomic::Ordering::SeqCst) > 0 {
            let report = compact_root(root.path()).unwrap();
            assert!(report.errors.is_empty(), "{:?}", report.errors);
            let checked = crate::fsck(root.path()).unwrap();
            assert!(checked.problems.is_empty(), "{:?}", checked.problems);
        }
    });
    compact_root(root.path()).unwrap();
    let rows = ObjectReader::open(root.path()).unwrap().sql("select * from records").unwrap().num_rows();
    assert_eq!(rows, 200);
}
