//! Sorting, limits, offsets.

use super::kit::{Root, node, record};
use crate::field::Scalar;
use crate::query::{Diagnostic, Order, SortKey};

fn root() -> Root {
    let values = [
        ("a", Some(Scalar::Float(2.0))),
        ("b", None),
        ("c", Some(Scalar::Float(f64::NAN))),
        ("d", Some(Scalar::Float(1.0))),
        ("e", Some("text".into())),
        ("f", Some(Scalar::Float(1.0))),
        ("g", Some("a text".into())),
        ("h", Some(Scalar::Int(1))),
    ];
    let mut root = Root::new();
    for (place, (name, value)) in values.iter().enumerate() {
        let fields: Vec<(&str, Scalar)> = value.iter().map(|value| ("x", value.clone())).collect();
        let write = 100 - i64::try_from(place).unwrap();
        root.part(
            &format!("part-{place}.parquet"),
            &[record(name, 0, write, &fields)],
            super::kit::Style::default(),
        );
    }
    root
}

fn names(root: &Root, key: &str, order: Order) -> String {
    let sorted = root.reader().query().sort(key, order).all().unwrap().value;
    let table = root.reader().query().sort(key, order).batches(&[]).unwrap();
    let names: Vec<&str> = sorted.iter().map(waycairn_dag::Node::name).collect();
    let shown: Vec<String> = table.rows().map(|row| row[1].to_string()).collect();
    assert_eq!(names, shown);
    names.concat()
}

#[test]
fn identity_case_15_missing_stands_last_both_ways() {
    let root = root();
    assert_eq!(names(&root, "x", Order::Ascending), "dfhacgeb");
    assert_eq!(names(&root, "x", Order::Descending), "adfhcegb");
    assert_eq!(names(&root, "written", Order::Ascending), "hgfedcba");
    assert_eq!(names(&root, "name", Order::Descending), "hgfedcba");
    assert_eq!(names(&root, "seq", Order::Descending), "abcdefgh");
    assert_eq!(names(&root, "x::text", Order::Ascending), "geabcdfh");
}

#[test]
fn identity_case_15_an_unknown_sort_key_leaves_the_order_of_identities() {
    let root = root();
    let answer = root.reader().query().sort("y", Order::Descending).limit(2).all().unwrap();
    assert_eq!(answer.value, [node("a", 0), node("b", 0)]);
    assert_eq!(answer.diagnostics, [Diagnostic::UnknownSortKey { key: "y".into(), nearest: vec![] }]);
    let sorted =
        root.reader().query().sort(SortKey::Field("field:x".into()), Order::Ascending).all().unwrap();
    assert_eq!(sorted.diagnostics.len(), 1);
}

#[test]
fn limit_and_offset_cut_what_is_sorted() {
    let root = root();
    let reader = root.reader();
    let cut = |offset, limit| {
        let all = reader.query().offset(offset).limit(limit).all().unwrap().value;
        let table = reader.query().offset(offset).limit(limit).batches(&["x"]).unwrap();
        assert_eq!(table.num_rows(), all.len());
        assert_eq!(reader.query().offset(offset).limit(limit).count().unwrap().value, all.len() as u64);
        all.iter().map(|node| node.name().to_owned()).collect::<String>()
    };
    assert_eq!(cut(0, 3), "abc");
    assert_eq!(cut(2, 3), "cde");
    assert_eq!(cut(7, 3), "h");
    assert_eq!(cut(9, 3), "");
    assert_eq!(cut(0, 0), "");
    let mut query = reader.query();
    let sorted = query.sort("x", Order::Ascending).offset(1).limit(2).select(&["x"]).unwrap().value;
    assert_eq!(sorted.iter().map(|row| row.node.name()).collect::<String>(), "fh");
    assert_eq!(reader.query().first().unwrap().value, Some(node("a", 0)));
    assert_eq!(reader.query().sort("x", Order::Descending).first().unwrap().value, Some(node("a", 0)));
    assert_eq!(reader.query().name("nobody").first().unwrap().value, None);
}

#[test]
fn a_long_sorted_answer_is_trimmed_without_losing_its_head() {
    let records: Vec<_> = (0..40_000_u32)
        .map(|seq| {
            record(
                "r",
                u64::from(seq),
                i64::from(seq),
                &[("x", Scalar::Float(f64::from(seq * 7919 % 40_009)))],
            )
        })
        .collect();
    let root = Root::of(&records);
    let reader = root.reader();
    let all = reader.query().sort("x", Order::Ascending).all().unwrap().value;
    let head = reader.query().sort("x", Order::Ascending).limit(10).offset(5).all().unwrap().value;
    assert_eq!(head, all[5..15]);
    let ties = reader.query().sort("name", Order::Descending).limit(3).all().unwrap().value;
    assert_eq!(ties, [node("r", 0), node("r", 1), node("r", 2)]);
    assert_eq!(reader.query().latest().first().unwrap().value, Some(node("r", 39_999)));
}
