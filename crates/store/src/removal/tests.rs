#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::blob::Marker;
use crate::field::Scalar;
use crate::journal::JournalPolicy;
use crate::query::NodeRow;
use crate::record::Attachment;
use crate::schema::MAX_FOOTER_RUNS;
use crate::store::StoreOptions;
use crate::testkit;

fn node(name: &str, seq: u64) -> Node {
    Node::new(name, "0123456789abcdef", seq).unwrap()
}

/// Three runs: in parts of their own and in shared ones, with checkpoints, files, marks, and a field that only `a` has.
fn root() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for turn in 0..3_u64 {
        let store = ObjectStore::open(folder.path(), StoreOptions::default()).unwrap();
        for (at, name) in ["a", "b", "c"].into_iter().enumerate() {
            for seq in turn * 10..turn * 10 + 10 {
                store.value(&node(name, seq), &[("loss", (seq as f64).into())]).unwrap();
                if name == "a" {
                    store.value(&node(name, seq), &[("of a", 1.into())]).unwrap();
                }
            }
            // The first launch writes a part a run, the others one for all.
            if turn == 0 {
                store.flush().unwrap();
            }
            let last = node(name, turn * 10 + 9);
            let staged = store.stage_folder(&last, "checkpoint").unwrap();
            waycairn_durable::write_file(&staged.path().join("m"), &[at as u8; 100], Durability::Regenerable)
                .unwrap();
            staged.commit(Marker::Checkpoint, &[]).unwrap();
            let files = vec![("curve.svg".to_owned(), vec![7; 50])];
            store.attach(&last, Attachment { files, ..Attachment::default() }).unwrap();
            if turn == 2 {
                store.finish(&last).unwrap();
            }
        }
        store.close_uncompacted().unwrap();
    }
    folder
}

/// What is recorded of all runs but one.
fn others(root: &TempDir, run: &Node) -> BTreeMap<Node, NodeRow> {
    let reader = ObjectReader::open(root.path()).unwrap();
    let rows = reader.query().select_all().unwrap().value;
    let rows = rows.into_iter().filter(|row| !row.node.same_run(run));
    rows.map(|row| (row.node.clone(), row)).collect()
}

fn remove(root: &TempDir, run: &Node) -> Removal {
    let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
    let removal = store.remove_run(run).unwrap();
    let report = store.close().unwrap();
    assert!(report.compaction.errors.is_empty(), "{report:?}");
    removal
}

#[test]
fn store_8_a_removed_run_is_gone_and_no_other_answer_changes() {
    let root = root();
    let a = node("a", 0);
    let reader = ObjectReader::open(root.path()).unwrap();
    let told = reader.removal(&a).unwrap();
    assert_eq!((told.nodes, told.checkpoints), (3, Size { files: 3, bytes: 300 }));
    assert!(told.parts.files > 0 && told.shared.files > 0 && told.rows >= 60, "{told:?}");
    let (before, rows) = (others(&root, &a), testkit::rows(root.path()).len() as u64);
    assert_eq!(remove(&root, &a), told);

    assert_eq!(others(&root, &a), before);
    assert_eq!(testkit::rows(root.path()).len() as u64, rows - told.rows, "each row of others is there once");
    let names: Vec<String> = reader.runs().unwrap().into_iter().map(|run| run.name).collect();
    assert!(names.len() == 2 && !names.contains(&"a".to_owned()), "{names:?}");
    let keys: Vec<String> = reader.schema().unwrap().into_iter().map(|key| key.key).collect();
    assert!(!keys.contains(&"of a".to_owned()), "no part has a column without a value: {keys:?}");
    assert!(reader.removal(&a).unwrap().is_empty());
    assert!(reader.nodes_with_folders().unwrap().iter().all(|node| !node.same_run(&a)));
    for run in ["b", "c"] {
        let view = reader.node(&node(run, 29)).unwrap().unwrap();
        assert!(view.finished && view.checkpoint.is_some() && view.files.len() == 1, "{view:?}");
    }
    // Again there is nothing, and nothing is done.
    let parts = testkit::parts(root.path());
    assert_eq!(remove(&root, &a), Removal::default());
    assert_eq!(testkit::parts(root.path()), parts);
}

#[test]
fn store_8_a_run_among_more_than_a_footer_lists_is_removed() {
    let root = tempfile::tempdir().unwrap();
    let options = StoreOptions { batch_rows: 60_000, ..StoreOptions::default() };
    let store = ObjectStore::open(root.path(), options).unwrap();
    let runs = MAX_FOOTER_RUNS as u64 + 5;
    for run in 0..runs {
        store.value(&node(&format!("r{run:05}"), 3), &[("x", Scalar::Int(1))]).unwrap();
    }
    store.close().unwrap();
    let gone = node("r00003", 0);
    assert_eq!(remove(&root, &gone).rows, 1);
    let reader = ObjectReader::open(root.path()).unwrap();
    assert_eq!(reader.query().count().unwrap().value as u64, runs - 1);
    assert_eq!(reader.query().name("r00003").count().unwrap().value, 0);
}

#[test]
fn store_8_a_removal_that_has_only_begun_leaves_a_run_that_is_not_whole() {
    let root = root();
    let a = node("a", 0);
    let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
    store.take_back(&a).unwrap();
    store.close().unwrap();
    let reader = ObjectReader::open(root.path()).unwrap();
    let run = reader.runs_of("a").unwrap().remove(0);
    assert!(!run.finished && run.checkpoints.is_empty() && run.nodes == 30, "{run:?}");
    assert_eq!(reader.checkpoint(&node("a", 29)).unwrap(), None);
    let before = others(&root, &a);
    remove(&root, &a);
    assert!(reader.removal(&a).unwrap().is_empty());
    assert_eq!(others(&root, &a), before);
}

#[test]
fn store_8_readers_beside_a_removal_never_fail() {
    let root = root();
    let a = node("a", 0);
    let expected = others(&root, &a);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for name in ["a", "b"] {
                remove(&root, &node(name, 0));
            }
        });
        let reader = ObjectReader::open(root.path()).unwrap();
        let mut turns = 0;
        while !writer.is_finished() || turns < 3 {
            let rows = reader.query().name("c").select_all().unwrap().value;
            assert_eq!(rows.len(), 30);
            assert!(rows.iter().all(|row| expected.get(&row.node) == Some(row)));
            reader.runs().unwrap();
            reader.node(&node("a", 9)).unwrap();
            reader.sql("SELECT count(*) FROM records").unwrap();
            turns += 1;
        }
    });
}

#[test]
fn store_8_rows_in_the_part_of_another_program_refuse_the_removal() {
    use arrow::array::{ArrayRef, Int64Array, StringArray};

    let root = root();
    let column = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
    let seq: ArrayRef = Arc::new(Int64Array::from(vec![77]));
    let batch = RecordBatch::try_from_iter([
        (NAME, column("a")),
        (NONCE, column("0123456789abcdef")),
        (SEQ, seq),
        ("note", column("theirs")),
    ])
    .unwrap();
    let mut bytes = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let path = values_folder(root.path()).join("part-theirs.parquet");
    waycairn_durable::write_file(&path, &bytes, Durability::Regenerable).unwrap();
    let reader = ObjectReader::open(root.path()).unwrap();
    assert_eq!(reader.removal(&node("a", 0)).unwrap().foreign, ["part-theirs.parquet"]);
    let nodes = || reader.query().count().unwrap().value;
    let before = nodes();
    let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
    let error = store.remove_run(&node("a", 0)).unwrap_err().to_string();
    assert!(error.contains("`part-theirs.parquet` of another program"), "{error}");
    store.remove_run(&node("b", 0)).unwrap();
    store.close().unwrap();
    assert_eq!((nodes(), reader.query().name("a").count().unwrap().value), (before - 30, 31));
}

/// A part that somebody has moved to another disk, with a link in its place.
#[cfg(unix)]
#[test]
fn store_3_what_a_linked_part_leads_to_is_never_changed() {
    let root = root();
    let elsewhere = tempfile::tempdir().unwrap();
    let target = |path: &Path| elsewhere.path().join(path.file_name().unwrap());
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let moved = testkit::parts(root.path());
    for part in &moved {
        fs::copy(part, target(part)).unwrap();
        fs::File::open(target(part)).unwrap().set_modified(old).unwrap();
        fs::remove_file(part).unwrap();
        std::os::unix::fs::symlink(target(part), part).unwrap();
    }
    let bytes: Vec<Vec<u8>> = moved.iter().map(|part| fs::read(target(part)).unwrap()).collect();
    let untouched = || {
        moved.iter().zip(&bytes).all(|(part, bytes)| {
            fs::read(target(part)).unwrap() == *bytes
                && fs::metadata(target(part)).unwrap().modified().unwrap() == old
        })
    };
    let rows = testkit::rows(root.path()).len() as u64;

    let plan = crate::tiers::plan_compaction(root.path()).unwrap();
    assert_eq!((plan.foreign, plan.groups.len()), (moved.len() as u64, 0));
    assert_eq!(crate::tiers::compact_root(root.path()).unwrap().sources, 0);
    assert!(moved.iter().all(|part| part.is_symlink()) && untouched());

    let a = node("a", 0);
    let before = others(&root, &a);
    let removal = remove(&root, &a);
    assert!(removal.rows > 0 && removal.rows < rows, "{removal:?}");
    assert_eq!(others(&root, &a), before);
    assert!(moved.iter().any(|part| !part.is_symlink()) && untouched());
    // The hidden links go, and nothing else.
    crate::tiers::compact_root(root.path()).unwrap();
    assert!(untouched());
    assert!(ObjectReader::open(root.path()).unwrap().removal(&a).unwrap().is_empty());
}

#[test]
fn store_8_what_a_journal_holds_of_a_run_is_told_and_never_brings_it_back() {
    let root = root();
    let run = node("b", 0);
    let kept = others(&root, &run);
    let options = StoreOptions {
        journal: JournalPolicy::Interval(Duration::from_millis(1)),
        ..StoreOptions::default()
    };
    let dying = ObjectStore::open(root.path(), options).unwrap();
    for name in ["a", "b"] {
        dying.value(&node(name, 29), &[("late", 1.into())]).unwrap();
    }
    while dying.queue().unjournaled() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let published = ObjectReader::open(root.path()).unwrap().removal(&run).unwrap();
    let told = ObjectReader::open_live(root.path()).unwrap().removal(&run).unwrap();
    assert_eq!(told, Removal { rows: published.rows + 1, ..published });
    let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
    let error = store.remove_run(&run).unwrap_err();
    assert!(matches!(error, StoreError::Recording { .. }), "{error:?}");
    dying.journal().release();
    std::mem::forget(dying);
    // Its journal cannot be published just now.
    let values = values_folder(root.path());
    let broken = waycairn_durable::fault::refuse("file.write", &values, 13, u64::MAX);
    let error = store.remove_run(&run).unwrap_err();
    assert!(!matches!(error, StoreError::Recording { .. }), "{error:?}");
    drop(broken);
    let removed = store.remove_run(&run).unwrap();
    assert_eq!(removed.rows, told.rows);
    store.close().unwrap();
    drop(ObjectStore::open(root.path(), StoreOptions::default()).unwrap());
    let left = ObjectReader::open_live(root.path()).unwrap().query().select_all().unwrap().value;
    assert!(left.iter().all(|row| !row.node.same_run(&run)));
    assert_eq!(left.len(), kept.len());
    assert_eq!(left.iter().find(|row| row.node == node("a", 29)).unwrap().fields["late"], 1.into());
}
