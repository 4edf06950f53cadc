#![allow(clippy::unwrap_used, reason = "tests")]

mod disk;

use std::fs::{self, File};

use tempfile::TempDir;

use super::*;
use crate::field::Scalar;
use crate::part::values_folder;
use crate::schema::{NAME, NONCE, SEQ, WRITE};
use crate::store::{ObjectStore, StoreOptions};
use crate::testkit;

fn source(first: u64, last: u64, rows: u64, columns: &Arc<Vec<(String, ValueType)>>) -> Source {
    let node = |seq| Node::new("r", "n", seq).unwrap();
    let (first_node, last_node) = (node(first), node(last));
    let mut facts = PartFacts::of_rows([(&first_node, 1), (&last_node, 2)], "w").unwrap();
    facts.rows = rows;
    Source { path: format!("part-{first}.parquet").into(), facts, columns: Arc::clone(columns) }
}

fn columns(fields: &[(&str, ValueType)]) -> Arc<Vec<(String, ValueType)>> {
    let reserved = [(NAME, ValueType::Text), (NONCE, ValueType::Text), (SEQ, ValueType::Int)];
    Arc::new(reserved.iter().chain(fields).map(|(name, of)| ((*name).to_owned(), *of)).collect())
}

fn firsts(groups: &[Vec<Source>]) -> Vec<Vec<u64>> {
    groups.iter().map(|group| group.iter().map(|source| source.facts.first.seq()).collect()).collect()
}

#[test]
fn parts_that_differ_in_a_type_are_not_merged() {
    let (int, float) = (columns(&[("a", ValueType::Int)]), columns(&[("a", ValueType::Float)]));
    let other = columns(&[("b", ValueType::Text)]);
    let sources = vec![
        source(3, 3, 1, &float),
        source(0, 0, 1, &int),
        source(1, 1, 1, &float),
        source(2, 2, 1, &int),
        source(4, 4, 1, &other),
    ];
    assert_eq!(firsts(&plan(sources)), [vec![0, 2, 4], vec![1, 3]]);
    assert!(plan(vec![source(0, 0, 1, &int), source(1, 1, 1, &float)]).is_empty(), "nothing to gain");
}

#[test]
fn a_group_is_bounded_in_rows_and_in_sources_that_overlap() {
    let list = columns(&[]);
    let large = MAX_MERGED_ROWS / 2;
    let groups = plan((0..5).map(|i| source(i, i, large, &list)).collect());
    assert_eq!(firsts(&groups), [vec![0, 1], vec![2, 3]], "the fifth stays alone");
    let overlapping = MAX_OPEN as u64 + 4;
    let groups = plan((0..overlapping).map(|i| source(i, 1000, 2, &list)).collect());
    assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [MAX_OPEN, 4]);
    let groups = plan((0..500).map(|i| source(i * 2, i * 2 + 1, 2, &list)).collect());
    assert_eq!(groups.len(), 1, "parts in a row do not overlap");
    let many = MAX_SOURCES as u64 + 2;
    let groups = plan((0..many).map(|i| source(i, i, 1, &list)).collect());
    assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [MAX_SOURCES, 2], "a footer names them all");
}

/// A store with one part for each list of positions; it is not closed.
fn store(root: &TempDir, parts: &[&[u64]]) -> ObjectStore {
    // Only the flushes below end a batch.
    let options = StoreOptions { batch_rows: 60_000, ..StoreOptions::default() };
    let store = ObjectStore::open(root.path(), options).unwrap();
    for (part, seqs) in parts.iter().enumerate() {
        for seq in *seqs {
            let node = Node::new("r", "n", *seq).unwrap();
            let key = format!("k{}", part % 3);
            store.value(&node, &[(key.as_str(), Scalar::Int(part as i64)), ("all", 1.into())]).unwrap();
        }
        store.flush().unwrap();
    }
    store
}

fn contents(root: &TempDir) -> Vec<String> {
    let mut rows: Vec<String> =
        testkit::rows(root.path()).iter().map(|row| format!("{:?}", row.cells)).collect();
    rows.sort();
    rows
}

/// Field case F12: the sources stay for readers, whole, under hidden names.
#[test]
fn store_3_compaction_keeps_every_row_and_hides_its_sources() {
    let root = TempDir::new().unwrap();
    let long: Vec<u64> = (0..5000).collect();
    let store = store(&root, &[&long, &[4999, 7, 7], &[10_000, 10_001], &[0], &long, &[3]]);
    let before = contents(&root);
    let sources = testkit::parts(root.path());
    let report = store.close().unwrap().compaction;
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    assert_eq!((report.sources, report.parts, report.rows), (6, 1, before.len() as u64));
    assert_eq!(contents(&root), before);
    for source in sources {
        let hidden = retired_name(source.file_name().unwrap().to_str().unwrap());
        assert!(source.with_file_name(hidden).exists(), "a reader that listed it can still open it");
    }
    let writes: Vec<i64> =
        testkit::rows(root.path()).iter().filter(|row| row.int(SEQ) == 7).map(|row| row.int(WRITE)).collect();
    assert_eq!(writes.len(), 4);
    assert!(writes.windows(2).all(|pair| pair[0] > pair[1]), "the latest first");
}

#[test]
fn store_3_old_sources_go_with_a_later_compaction() {
    let root = TempDir::new().unwrap();
    store(&root, &[&[0], &[1]]).close().unwrap();
    let values = values_folder(root.path());
    let hidden: Vec<PathBuf> = testkit::strays(root.path()).iter().map(|name| values.join(name)).collect();
    assert_eq!(hidden.len(), 2);
    let modified = hidden.iter().map(|path| fs::metadata(path).unwrap().modified().unwrap()).min().unwrap();
    let mut report = CompactReport::default();
    delete_retired(&values, modified + RETIRED_GRACE, &mut report);
    assert_eq!((report.deleted, hidden[0].exists()), (0, true));
    delete_retired(&values, modified + RETIRED_GRACE * 2, &mut report);
    assert_eq!((report.deleted, report.errors.len()), (2, 0));
    assert!(testkit::strays(root.path()).is_empty());
    assert_eq!(testkit::rows(root.path()).len(), 2);
}

#[test]
fn store_3_the_grace_counts_from_the_compaction() {
    let root = TempDir::new().unwrap();
    let store = store(&root, &[&[0], &[1]]);
    let old = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for part in testkit::parts(root.path()) {
        File::open(part).unwrap().set_modified(old).unwrap();
    }
    assert_eq!(store.close().unwrap().compaction.deleted, 0);
    assert_eq!(testkit::strays(root.path()).len(), 2);
}

#[test]
fn store_3_other_writers_parts_are_left_alone() {
    let root = TempDir::new().unwrap();
    let (one, other) = (store(&root, &[&[0], &[1]]), store(&root, &[&[0]]));
    let theirs: Vec<PathBuf> = testkit::parts(root.path());
    one.close().unwrap();
    assert_eq!(testkit::parts(root.path()).iter().filter(|part| theirs.contains(part)).count(), 1);
    other.close().unwrap();
    assert_eq!(testkit::rows(root.path()).len(), 3);
}

#[test]
fn store_3_a_damaged_source_is_kept_and_named() {
    let root = TempDir::new().unwrap();
    let store = store(&root, &[&[0], &[1], &[2]]);
    let damaged = testkit::parts(root.path()).remove(1);
    let bytes = fs::read(&damaged).unwrap();
    let mut file = fs::OpenOptions::new().write(true).truncate(true).open(&damaged).unwrap();
    std::io::Write::write_all(&mut file, &bytes[..bytes.len() / 2]).unwrap();
    let report = store.close().unwrap().compaction;
    assert_eq!((report.sources, report.errors.len()), (2, 1));
    let name = damaged.file_name().unwrap().to_str().unwrap();
    assert!(report.errors[0].to_string().contains(name), "{}", report.errors[0]);
    assert!(damaged.exists());
}

#[test]
fn store_3_many_small_parts_become_one() {
    let root = TempDir::new().unwrap();
    let parts: Vec<Vec<u64>> = (0..60).map(|part| vec![part, part + 1, part / 2]).collect();
    let slices: Vec<&[u64]> = parts.iter().map(Vec::as_slice).collect();
    let store = store(&root, &slices);
    let before = contents(&root);
    let report = store.close().unwrap().compaction;
    assert!(report.errors.is_empty());
    assert_eq!(report.sources, 60);
    assert!(report.parts <= 4, "{report:?}");
    assert_eq!(contents(&root), before);
}

/// A long run between rows of another source ends the batches that rows were picked from: what follows must not be picked
/// from those that come next in their places.
#[test]
fn store_3_a_long_run_between_picked_rows_mixes_no_rows() {
    let long: Vec<u64> = (0..8_000).collect();
    // Long enough that rows of the wrong batch would be there, too.
    let gaps: Vec<u64> = (0..8_000).filter(|seq| !(1_500..4_000).contains(seq) && seq % 3 != 0).collect();
    let few = [5, 20, 3_000, 3_005, 3_010, 6_000, 6_003];
    for parts in [
        &[&long[..], &few][..],
        &[&few, &long[..]],
        &[&long[..], &gaps[..]],
        &[&gaps[..], &few, &long[..]],
        &[&long[..], &gaps[..], &few, &gaps[2_000..]],
    ] {
        let root = TempDir::new().unwrap();
        let store = store(&root, parts);
        let before = contents(&root);
        let report = store.close().unwrap().compaction;
        assert!(report.errors.is_empty(), "{:?}", report.errors);
        assert_eq!((report.parts, report.rows), (1, before.len() as u64));
        assert!(contents(&root) == before, "of {} parts", parts.len());
    }
}
