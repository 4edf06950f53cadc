#![allow(clippy::unwrap_used, reason = "tests")]

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::reader::{FileReader, SerializedFileReader};
use proptest::prelude::*;

use super::*;
use crate::field::Scalar;
use crate::part::values_folder;
use crate::query::tests::kit::{Root, Style, node, record};
use crate::store::{ObjectStore, StoreOptions};

/// Whether a chunk of these values is found to hold one, page by page.
fn found(values: &[Option<String>], nullable: bool, version: WriterVersion, wanted: &str) -> Option<bool> {
    let array: ArrayRef = if nullable {
        Arc::new(StringArray::from_iter(values.iter().map(Option::as_deref)))
    } else {
        Arc::new(StringArray::from_iter_values(values.iter().flatten()))
    };
    let schema = Arc::new(Schema::new(vec![Field::new("p", DataType::Utf8, nullable)]));
    let properties = WriterProperties::builder()
        .set_writer_version(version)
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::DELTA_BYTE_ARRAY)
        .set_data_page_row_count_limit(50)
        .set_write_batch_size(10)
        .set_statistics_enabled(EnabledStatistics::None)
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, Arc::clone(&schema), Some(properties)).unwrap();
    writer.write(&RecordBatch::try_new(schema, vec![array]).unwrap()).unwrap();
    writer.close().unwrap();
    let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
    let mut any = false;
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).unwrap();
        for page in group.get_column_page_reader(0).unwrap() {
            any |= page_holds(&page.unwrap(), nullable, wanted.as_bytes())?;
        }
    }
    Some(any)
}

fn texts() -> impl Strategy<Value = Vec<Option<String>>> {
    // Few letters, so that much is shared and one text is often the beginning of another.
    prop::collection::vec(prop::option::weighted(0.8, "[ab]{0,7}"), 0..300)
}

proptest! {
    #[test]
    fn the_walk_finds_what_is_there_and_nothing_else(
        values in texts(),
        nullable in any::<bool>(),
        second in any::<bool>(),
        wanted in "[ab]{0,7}",
    ) {
        let version = if second { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 };
        let there = values.iter().flatten().any(|value| *value == wanted);
        prop_assert_eq!(found(&values, nullable, version, &wanted), Some(there));
    }

    #[test]
    fn bytes_of_any_kind_are_told_to_be_malformed_or_not(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = holds(&bytes, b"wanted", 1_000);
    }
}

#[test]
fn addresses_of_a_long_run_are_walked() {
    let of = |seq: u64| node("r", seq).address().to_string();
    let values: Vec<Option<String>> = (0..5_000).map(|seq| Some(of(seq))).collect();
    for (seq, there) in [(0, true), (49, true), (50, true), (4_999, true), (5_000, false), (12_345, false)] {
        let answer = found(&values, true, WriterVersion::PARQUET_1_0, &of(seq));
        assert_eq!(answer, Some(there), "{seq}");
    }
}

fn children_of(root: &Root, parent: &Node) -> Vec<String> {
    let view = root.reader().node(parent).unwrap().unwrap();
    view.children.iter().map(ToString::to_string).collect()
}

#[test]
fn children_are_found_wherever_they_were_recorded() {
    let parent = node("r", 1);
    let edge = || (PARENT, Scalar::from(parent.address().as_str()));
    let other = || (PARENT, Scalar::from(node("r", 7).address().as_str()));
    let mut root = Root::new();
    // Any edge counts: not only the next position and first nodes, and in whatever order a part is.
    let styles = [
        Style::default(),
        Style { sorted: false, declared: false, group_rows: 2, statistics: false },
        Style { statistics: false, ..Style::default() },
    ];
    for (number, style) in styles.into_iter().enumerate() {
        let name = format!("s{number}");
        let records = [
            record(&name, 9, 1, &[edge()]),
            record("r", 1, 2, &[]),
            record(&name, 3, 3, &[other()]),
            record(&name, 3, 4, &[edge()]),
            record("r", 2, 5, &[edge()]),
            record("r", 0, 6, &[edge()]),
        ];
        root.part(&format!("part-{number}.parquet"), &records, style);
    }
    // And in parts of our own.
    let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
    for seq in [0, 4, 6] {
        let parents = [parent.address(), node("r", 7).address(), parent.address()];
        let child = Node::new("ours", "m", seq).unwrap();
        store.value(&child.with_parent(Some(parents[seq as usize % 3].clone())), &[]).unwrap();
    }
    store.close().unwrap();
    let mut expected: Vec<Node> = vec![node("r", 0), node("r", 2)];
    expected.extend((0..3).flat_map(|number| [3, 9].map(|seq| node(&format!("s{number}"), seq))));
    expected.extend([0, 6].map(|seq| Node::new("ours", "m", seq).unwrap()));
    expected.sort_by_key(Node::address);
    let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
    assert_eq!(children_of(&root, &parent), expected);
    assert!(children_of(&root, &node("r", 2)).is_empty());
}

#[test]
fn children_of_other_layouts_are_found() {
    let parent = node("r", 1).address().to_string();
    let root = Root::of(&[record("r", 1, 1, &[])]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("_x_name", Arc::new(StringArray::from(vec!["a", "b", "c"]))),
        ("_x_nonce", Arc::new(StringArray::from(vec!["n", "n", "n"]))),
        ("_x_seq", Arc::new(Int64Array::from(vec![4, 5, 6]))),
        (
            PARENT,
            Arc::new(arrow::array::LargeStringArray::from(vec![Some(parent.as_str()), None, Some("zz")])),
        ),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    crate::query::tests::kit::write_batch(
        &values_folder(root.path()).join("part-large.parquet"),
        &batch,
        Style::default(),
    );
    assert_eq!(children_of(&root, &node("r", 1)), ["a@n:4"]);
}
