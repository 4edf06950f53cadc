//! A root whose records have ten thousand keys between them.

use std::collections::BTreeMap;

use waycairn_dag::Node;

use crate::ObjectReader;
use crate::field::Scalar;
use crate::query::Expr;
use crate::store::{ObjectStore, StoreOptions};

const KEYS: usize = 10_000;
const RECORDS: u64 = 250;
const PARTS: u64 = 5;

fn key(number: usize) -> String {
    format!("layer/{:03}/metric/{number:05}", number % 400)
}

/// Of every kind some, by the number of the key.
fn value(number: usize, seq: u64) -> Scalar {
    match number % 4 {
        0 => Scalar::Int(seq.cast_signed()),
        1 => Scalar::Float(seq as f64 + 0.5),
        2 => Scalar::Bool(seq.is_multiple_of(2)),
        _ => format!("text {seq}").as_str().into(),
    }
}

/// Forty keys of its own, and a few that others have as well.
fn fields(seq: u64) -> BTreeMap<String, Scalar> {
    let own = (seq as usize..KEYS).step_by(RECORDS as usize);
    let shared = [0, 1, 2, 3].into_iter().filter(|number| seq.is_multiple_of(3 + *number as u64));
    own.chain(shared).map(|number| (key(number), value(number, seq))).collect()
}

#[test]
fn ten_thousand_keys_are_recorded_compacted_listed_and_asked_for() {
    let root = tempfile::tempdir().unwrap();
    let node = |seq| Node::new("wide", "0123456789abcdef", seq).unwrap();
    let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
    let expected: BTreeMap<u64, BTreeMap<String, Scalar>> =
        (0..RECORDS).map(|seq| (seq, fields(seq))).collect();
    for (seq, fields) in &expected {
        let fields: Vec<(&str, Scalar)> =
            fields.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
        store.value(&node(*seq), &fields).unwrap();
        if (seq + 1) % (RECORDS / PARTS) == 0 {
            store.flush().unwrap();
        }
    }
    let report = store.close().unwrap();
    assert_eq!((report.parts, report.compaction.sources, report.compaction.parts), (PARTS, PARTS, 1));
    assert!(report.compaction.errors.is_empty());

    let reader = ObjectReader::open(root.path()).unwrap();
    let listed: Vec<String> = reader.schema().unwrap().iter().map(|info| info.key.clone()).collect();
    let mut keys: Vec<String> = (0..KEYS).map(key).collect();
    keys.sort_unstable();
    assert_eq!(listed, keys);

    let chosen = [key(0), key(1), key(7_777), key(9_998)];
    let chosen: Vec<&str> = chosen.iter().map(String::as_str).collect();
    let rows = reader.query().select(&chosen).unwrap().value;
    let found: BTreeMap<u64, BTreeMap<String, Scalar>> =
        rows.into_iter().map(|row| (row.node.seq(), row.fields.into_iter().collect())).collect();
    assert_eq!(found, of(&expected, |_| true, &chosen));

    let text = format!("\"{}\" >= 100", key(1));
    let rows = reader.query().expression(Expr::parse(&text).unwrap()).select(&chosen).unwrap().value;
    let found: BTreeMap<u64, BTreeMap<String, Scalar>> =
        rows.into_iter().map(|row| (row.node.seq(), row.fields.into_iter().collect())).collect();
    let passes = |fields: &BTreeMap<String, Scalar>| matches!(fields.get(&key(1)), Some(Scalar::Float(value)) if *value >= 100.0);
    assert!(!found.is_empty());
    assert_eq!(found, of(&expected, passes, &chosen));

    let all = reader.query().select_all().unwrap().value;
    assert_eq!(all.len() as u64, RECORDS);
    for row in all {
        let fields: BTreeMap<String, Scalar> = row.fields.into_iter().collect();
        assert_eq!(fields, expected[&row.node.seq()]);
    }
}

/// What an answer with some keys says of the nodes that pass.
fn of(
    expected: &BTreeMap<u64, BTreeMap<String, Scalar>>,
    passes: impl Fn(&BTreeMap<String, Scalar>) -> bool,
    keys: &[&str],
) -> BTreeMap<u64, BTreeMap<String, Scalar>> {
    let chosen = |fields: &BTreeMap<String, Scalar>| -> BTreeMap<String, Scalar> {
        let named = fields.iter().filter(|(key, _)| keys.contains(&key.as_str()));
        named.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    expected.iter().filter(|(_, fields)| passes(fields)).map(|(seq, fields)| (*seq, chosen(fields))).collect()
}
