//! Parts of other programs.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float32Array, Int32Array, LargeStringArray, ListArray, RecordBatch, StringArray,
    StringViewArray, UInt64Array,
};
use arrow::datatypes::Int64Type;
use parquet::arrow::ArrowWriter;
use waycairn_dag::Node;

use super::kit::{Root, Style, node, record};
use crate::field::Scalar;
use crate::part::values_folder;
use crate::query::{Diagnostic, QueryError};
use crate::store::{ObjectStore, StoreOptions};
use crate::{compact_root, plan_compaction};

pub(super) fn write_plain(path: &Path, batch: &RecordBatch) {
    let file = OpenOptions::new().write(true).create_new(true).open(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

fn root_with(columns: Vec<(&str, ArrayRef)>) -> Root {
    let root = Root::new();
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    write_plain(&values_folder(root.path()).join("part-foreign.parquet"), &batch);
    root
}

#[test]
fn other_widths_and_string_types_are_read() {
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1)]), None]);
    let root = root_with(vec![
        ("_x_name", Arc::new(LargeStringArray::from(vec!["r", "r"])) as ArrayRef),
        ("_x_nonce", Arc::new(StringViewArray::from(vec!["n", "n"])) as ArrayRef),
        ("_x_seq", Arc::new(Int32Array::from(vec![1, 0])) as ArrayRef),
        ("_x_unknown", Arc::new(Int32Array::from(vec![1, 0])) as ArrayRef),
        ("small", Arc::new(Int32Array::from(vec![Some(-7), None])) as ArrayRef),
        ("half", Arc::new(Float32Array::from(vec![0.5, 1.5])) as ArrayRef),
        ("big", Arc::new(UInt64Array::from(vec![3, 4])) as ArrayRef),
        ("long", Arc::new(LargeStringArray::from(vec!["x", "y"])) as ArrayRef),
        ("list", Arc::new(lists) as ArrayRef),
        ("odd::text", Arc::new(StringArray::from(vec!["x", "y"])) as ArrayRef),
    ]);
    let reader = root.reader();
    let rows = reader.query().select_all().unwrap().value;
    assert_eq!(rows[0].node, node("r", 0));
    let fields: Vec<(String, Scalar)> = rows[1].fields.clone().into_iter().collect();
    let expected = [
        ("big", Scalar::Int(3)),
        ("half", Scalar::Float(0.5)),
        ("long", "x".into()),
        ("small", Scalar::Int(-7)),
    ];
    assert_eq!(fields, expected.map(|(key, value)| (key.to_owned(), value)));
    let answer = reader.query().select(&["list"]).unwrap();
    assert!(answer.value.is_empty());
    assert!(matches!(&answer.diagnostics[0], Diagnostic::UnreadableField { key, .. } if key == "list"));
    let table =
        reader.sql("select small, half, big, \"long::text\", _x_seq from records order by _x_seq").unwrap();
    assert_eq!(
        table.rows().nth(1).unwrap(),
        [Scalar::Int(-7), Scalar::Float(0.5), Scalar::Int(3), "x".into(), Scalar::Int(1)]
    );
}

#[test]
fn an_integer_that_no_cell_holds_is_damage() {
    let root = root_with(vec![
        ("_x_name", Arc::new(StringArray::from(vec!["r"])) as ArrayRef),
        ("_x_nonce", Arc::new(StringArray::from(vec!["n"])) as ArrayRef),
        ("_x_seq", Arc::new(Int32Array::from(vec![1])) as ArrayRef),
        ("big", Arc::new(UInt64Array::from(vec![u64::MAX])) as ArrayRef),
    ]);
    let error = root.reader().query().select_all().unwrap_err();
    assert!(matches!(error, QueryError::Damaged { .. }), "{error:?}");
}

#[test]
fn rows_without_stamps_and_order_fold_by_part_and_row() {
    let mut root = Root::new();
    let bare = |seq, value: f64| {
        let mut record = record("r", seq, 0, &[("x", Scalar::Float(value))]);
        (record.process, record.write, record.writer) = (None, None, None);
        record
    };
    let unsorted = Style { sorted: false, declared: false, group_rows: 2, ..Style::default() };
    root.part(
        "part-a.parquet",
        &[bare(5, 1.0), bare(2, 2.0), bare(5, 3.0), bare(0, 4.0), bare(2, 5.0)],
        unsorted,
    );
    root.part("part-b.parquet", &[bare(2, 6.0), bare(1, 7.0)], unsorted);
    root.part("part-0.parquet", &[bare(0, 8.0)], Style::default());
    let rows = root.reader().query().select(&["x"]).unwrap().value;
    let values: Vec<(u64, String)> =
        rows.iter().map(|row| (row.node.seq(), row.fields["x"].to_string())).collect();
    let expected = [(0, "4"), (1, "7"), (2, "6"), (5, "3")].map(|(seq, value)| (seq, value.to_owned()));
    assert_eq!(values, expected);
    assert!(rows.iter().all(|row| row.written.is_none()));
}

#[test]
fn a_part_that_only_says_it_is_sorted_is_folded_all_the_same() {
    let mut root = Root::new();
    let records: Vec<_> = (0..50)
        .map(|seq| record("r", seq * 7 % 50, 1, &[("x", Scalar::Int(i64::try_from(seq).unwrap()))]))
        .collect();
    root.part(
        "part-a.parquet",
        &records,
        Style { sorted: false, declared: true, group_rows: 5, ..Style::default() },
    );
    let nodes = root.reader().query().all().unwrap().value;
    assert_eq!(nodes, (0..50).map(|seq| Node::new("r", "n", seq).unwrap()).collect::<Vec<_>>());
}

#[test]
fn a_compaction_leaves_parts_of_other_programs_alone_and_their_answers_too() {
    let mut root = Root::new();
    // No stamps: the name of the part and the place in it decide, so in another part they would not mean the same.
    root.part(
        "part-foreign.parquet",
        &[record("r", 0, 1, &[("x", Scalar::Int(7)), ("y", Scalar::Int(8))])],
        Style::default(),
    );
    for seq in 0..8 {
        let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
        store.value(&node("r", seq), &[("x", Scalar::Int(seq as i64))]).unwrap();
        store.close().unwrap();
    }
    let path = values_folder(root.path()).join("part-foreign.parquet");
    let (bytes, before) = (std::fs::read(&path).unwrap(), root.reader().query().select_all().unwrap().value);
    let plan = plan_compaction(root.path()).unwrap();
    assert_eq!((plan.parts, plan.foreign), (9, 1), "{plan:?}");
    let report = compact_root(root.path()).unwrap();
    assert_eq!((report.sources, report.errors.len()), (8, 0));
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    assert_eq!(root.reader().query().select_all().unwrap().value, before);
}
