//! Readers beside writers.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use waycairn_dag::Node;

use super::kit::Root;
use crate::field::Scalar;
use crate::{ObjectStore, StoreOptions};

#[test]
fn identity_case_12_counts_never_shrink_while_parts_are_published_and_compacted() {
    let root = Root::new();
    let (writers, batches, rows) = (3_i64, 6_u64, 20_u64);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let publish = |process: i64| {
            let options = StoreOptions { process, ..StoreOptions::default() };
            let store = ObjectStore::open(root.path(), options).unwrap();
            for batch in 0..batches {
                for row in 0..rows {
                    let node = Node::new(&format!("run-{process}"), "n", batch * rows + row).unwrap();
                    store.value(&node, &[("x", Scalar::Int(process))]).unwrap();
                }
                store.flush().unwrap();
            }
            // Compaction happens under the reader's eyes too.
            store.close().unwrap();
        };
        let poll = || {
            let reader = root.reader();
            let mut last = 0;
            while !done.load(Ordering::Relaxed) {
                let count = reader.query().count().unwrap().value;
                assert!(count >= last, "{count} after {last}");
                last = count;
                let sum: u64 = reader.runs().unwrap().iter().map(|run| run.nodes).sum();
                assert!(sum >= last);
                let sql = reader.sql("select count(*) from nodes").unwrap();
                assert!(
                    matches!(sql.rows().next().unwrap()[0], Scalar::Int(count) if count >= i64::try_from(last).unwrap())
                );
            }
        };
        let pollers = [scope.spawn(poll), scope.spawn(poll)];
        let publishers: Vec<_> = (0..writers).map(|process| scope.spawn(move || publish(process))).collect();
        for publisher in publishers {
            publisher.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        for poller in pollers {
            poller.join().unwrap();
        }
    });
    let total = u64::try_from(writers).unwrap() * batches * rows;
    assert_eq!(root.reader().query().count().unwrap().value, total);
    // Each record exactly once.
    let records = root.reader().sql("select _x_writer, _x_write from records").unwrap();
    let distinct: HashSet<String> = records.rows().map(|row| format!("{row:?}")).collect();
    assert_eq!((records.num_rows() as u64, distinct.len() as u64), (total, total));
}

#[test]
fn a_part_that_was_retired_after_the_listing_is_opened_under_its_hidden_name() {
    use super::kit::{Style, record};
    let mut root = Root::new();
    root.part("part-a.parquet", &[record("r", 0, 1, &[("x", Scalar::Int(1))])], Style::default());
    let values = crate::part::values_folder(root.path());
    let set = crate::listing::list(&values, crate::listing::Freshness::Published).unwrap();
    let hidden = values.join(crate::part::retired_name("part-a.parquet"));
    waycairn_durable::rename(&values.join("part-a.parquet"), &hidden).unwrap();
    std::fs::OpenOptions::new()
        .append(true)
        .open(&hidden)
        .unwrap()
        .set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    assert!(set.parts[0].open().is_ok());
    assert_eq!(root.reader().query().count().unwrap().value, 0);
    waycairn_durable::remove_file(&hidden).unwrap();
    assert!(matches!(set.parts[0].open(), Err(crate::published::OpenFault::Stale)));
}
