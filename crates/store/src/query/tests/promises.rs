//! Clauses of the invariants that no other test of the store carries.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::kit::{Root, Style, node, record};
use crate::field::Scalar;
use crate::query::IdentityScope;
use crate::run::runs;
use crate::schema::PARENT;
use crate::{ObjectStore, StoreOptions, testkit};

#[test]
fn store_3_a_part_that_is_seen_is_whole_and_never_changes() {
    let root = Root::new();
    let done = AtomicBool::new(false);
    let watch = || {
        let mut seen: HashMap<PathBuf, Vec<u8>> = HashMap::new();
        loop {
            let last = done.load(Ordering::Acquire);
            for path in testkit::parts(root.path()) {
                // One that a compaction has hidden since the listing is no longer a part.
                let Ok(bytes) = fs::read(&path) else { continue };
                let known = seen.entry(path).or_insert_with(|| bytes.clone());
                assert!(*known == bytes, "a part changed");
                let part = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
                assert!(part.metadata().file_metadata().num_rows() > 0);
            }
            if last {
                return seen.len();
            }
        }
    };
    std::thread::scope(|scope| {
        let watcher = scope.spawn(watch);
        for round in 0..3 {
            let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
            for seq in 0..10 {
                store.value(&node(&format!("r{round}"), seq), &[("x", Scalar::Int(1))]).unwrap();
                store.flush().unwrap();
            }
            store.close().unwrap();
        }
        done.store(true, Ordering::Release);
        assert!(watcher.join().unwrap() >= 3);
    });
}

#[test]
fn store_5_one_question_uses_one_listing() {
    let root = Root::of(&[record("a", 0, 1, &[])]);
    let reader = root.reader();
    let mut number = 0;
    let answer = reader.ask(|set, _| {
        let before = runs(set, &IdentityScope::default())?;
        // Published while the question is answered.
        number += 1;
        let mut other = Root { folder: tempfile::tempdir().unwrap(), physical: Vec::new() };
        fs::create_dir_all(crate::part::values_folder(other.path())).unwrap();
        let name = format!("part-late-{number}.parquet");
        other.part(&name, &[record("b", number, 2, &[])], Style::default());
        let values = crate::part::values_folder;
        fs::copy(values(other.path()).join(&name), values(root.path()).join(&name)).unwrap();
        Ok((before, runs(set, &IdentityScope::default())?))
    });
    let (before, after) = answer.unwrap().value;
    assert_eq!(before, after);
    assert_eq!((before.len(), number), (1, 1));
    assert_eq!(reader.runs().unwrap().len(), 2);
}

#[test]
fn store_5_nothing_is_interpolated_or_inherited() {
    let x = |value| ("x", Scalar::Float(value));
    let base = (PARENT, Scalar::from(node("r", 10).address().as_str()));
    let root = Root::of(&[
        record("r", 0, 1, &[x(0.0)]),
        record("r", 5, 2, &[("y", Scalar::Int(1))]),
        record("r", 10, 3, &[x(10.0)]),
        record("branch", 0, 4, &[base, ("y", Scalar::Int(2))]),
    ]);
    let reader = root.reader();
    let rows = reader.query().select(&["x"]).unwrap().value;
    let shown: Vec<(String, Option<&Scalar>)> =
        rows.iter().map(|row| (row.node.to_string(), row.fields.get("x"))).collect();
    // Positions that nobody recorded are no nodes, and neither neighbours nor a parent lend a value.
    assert_eq!(
        shown,
        [
            ("branch@n:0".to_owned(), None),
            ("r@n:0".to_owned(), Some(&Scalar::Float(0.0))),
            ("r@n:5".to_owned(), None),
            ("r@n:10".to_owned(), Some(&Scalar::Float(10.0))),
        ]
    );
    assert!(!reader.node(&node("branch", 0)).unwrap().unwrap().fields.contains_key("x"));
    assert_eq!(reader.sql("select x from nodes where x is not null").unwrap().num_rows(), 2);
}
