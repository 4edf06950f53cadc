//! Answers batch by batch.

use std::fs;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::Int64Type;
use waycairn_dag::Node;

use super::kit::{Record, Root, Style, record};
use super::scope::overwrite;
use crate::compact_root;
use crate::field::Scalar;
use crate::part::values_folder;
use crate::query::{BatchStream, Expr, Order, Query, QueryError};
use crate::reader::ObjectReader;
use crate::store::{ObjectStore, StoreOptions};

const NODES: u64 = 40_000;

/// Four stores after one another, each with a quarter of a run.
fn root() -> Root {
    let root = Root::new();
    for part in 0..4 {
        let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
        for seq in part * NODES / 4..(part + 1) * NODES / 4 {
            let node = Node::new("r", "n", seq).unwrap();
            let fields = [
                ("x", Scalar::Int(seq as i64)),
                ("t", if seq % 3 == 0 { "three".into() } else { Scalar::Null }),
            ];
            store.value(&node, &fields).unwrap();
        }
        store.close().unwrap();
    }
    root
}

fn whole(stream: BatchStream) -> RecordBatch {
    let schema = stream.schema();
    let batches: Vec<RecordBatch> = stream.map(Result::unwrap).collect();
    assert!(batches.iter().all(|batch| batch.num_rows() > 0));
    concat_batches(&schema, &batches).unwrap()
}

#[test]
fn a_stream_gives_what_the_batches_give() {
    let root = root();
    let reader = root.reader();
    let condition = || Expr::parse("x >= 10000 and (has t or seq > 39000)").unwrap();
    let questions: [(&dyn Fn() -> Query, &[&str]); 6] = [
        (&|| reader.query(), &["x", "t"]),
        (&|| reader.query(), &[]),
        (&|| reader.query().expression(condition()).clone(), &["x"]),
        (&|| reader.query().expression(condition()).limit(9_000).offset(1_234).clone(), &["x"]),
        (&|| reader.query().sort("x", Order::Descending).limit(20_000).offset(3).clone(), &["x"]),
        (&|| reader.query().latest().clone(), &["x"]),
    ];
    for (number, (question, keys)) in questions.iter().enumerate() {
        let table = question().batches(keys).unwrap();
        let expected = concat_batches(&table.schema, &table.batches).unwrap();
        let stream = question().stream(keys).unwrap();
        assert_eq!(stream.schema(), table.schema, "{number}");
        assert_eq!(whole(stream), expected, "{number}");
    }
    assert!(reader.query().limit(0).stream(&["x"]).unwrap().next().is_none());
    let mut unknown = reader.query().stream(&["loss"]).unwrap();
    assert_eq!((unknown.diagnostics().len(), unknown.next().is_none()), (1, true));
    assert!(reader.query().strict().stream(&["loss"]).is_err());
    assert!(reader.query().stream(&["x"]).unwrap().count() > 1, "it comes in pieces");
}

#[test]
fn a_stream_goes_on_where_a_compaction_has_taken_its_parts_away() {
    let root = root();
    let reader = root.reader();
    let mut stream = reader.query().stream(&["x"]).unwrap();
    let first = stream.next().unwrap().unwrap();
    compact_root(root.path()).unwrap();
    for entry in fs::read_dir(values_folder(root.path())).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with(".old-") {
            fs::remove_file(path).unwrap();
        }
    }
    let schema = stream.schema();
    let rest: Vec<RecordBatch> = stream.map(Result::unwrap).collect();
    let all = concat_batches(&schema, [&first].into_iter().chain(&rest)).unwrap();
    let seqs = all["seq"].as_primitive::<Int64Type>().values().to_vec();
    assert_eq!(seqs, (0..NODES as i64).collect::<Vec<_>>(), "every node once");
}

/// A part of ours and one of another program, whose rows are out of order where no look at its beginning tells.
fn unsorted() -> Root {
    let mut root = Root::new();
    let of = |seqs: &[u64], name: &str| -> Vec<Record> {
        seqs.iter().map(|seq| record(name, *seq, 1, &[("x", Scalar::Int(*seq as i64))])).collect()
    };
    root.part("part-a.parquet", &of(&(0..9_000).collect::<Vec<_>>(), "a"), Style::default());
    let mut seqs: Vec<u64> = (0..9_000).collect();
    seqs.swap(8_990, 8_999);
    let style = Style { sorted: false, declared: false, group_rows: 100_000, ..Style::default() };
    root.part("part-b.parquet", &of(&seqs, "b"), style);
    root
}

#[test]
fn a_stream_sorts_what_it_finds_unsorted_on_the_way() {
    let root = unsorted();
    let stream = root.reader().query().stream(&["x"]).unwrap();
    let all = whole(stream);
    let seqs = all["seq"].as_primitive::<Int64Type>().values().to_vec();
    assert_eq!(seqs, (0..9_000).chain(0..9_000).collect::<Vec<_>>());
}

#[test]
fn a_stream_that_meets_damage_ends_with_an_error_or_leaves_the_part_out() {
    let root = unsorted();
    let path = values_folder(root.path()).join("part-b.parquet");
    let mut bytes = fs::read(&path).unwrap();
    // Its pages, and not its footer.
    bytes[100..20_000].iter_mut().for_each(|byte| *byte ^= 0x55);
    overwrite(&path, &bytes);
    let (mut rows, mut failed) = (0, 0);
    for batch in ObjectReader::open(root.path()).unwrap().query().stream(&["x"]).unwrap() {
        match batch {
            Ok(batch) => rows += batch.num_rows(),
            Err(error) => {
                assert!(matches!(error, QueryError::Damaged { .. }), "{error:?}");
                failed += 1;
            }
        }
    }
    assert_eq!(failed, 1, "and it is the last item");
    assert!(rows <= 9_000);
    let mut stream =
        ObjectReader::open(root.path()).unwrap().skipping_damaged().query().stream(&["x"]).unwrap();
    let seqs: Vec<i64> = stream
        .by_ref()
        .map(Result::unwrap)
        .flat_map(|batch| batch["seq"].as_primitive::<Int64Type>().values().to_vec())
        .collect();
    assert_eq!(seqs, (0..9_000).collect::<Vec<_>>());
    assert_eq!(stream.diagnostics().len(), 1, "{:?}", stream.diagnostics());
}
