//! The engine against the pure fold, on random records in random parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use waycairn_dag::Node;

use super::kit::{Record, Root, Style, type_of};
use crate::field::Scalar;
use crate::fold::{PhysicalRecord, fold};
use crate::listing;
use crate::part::values_folder;
use crate::published::RunKey;
use crate::query::expression::{Comparison, Expr};
use crate::query::plan::Key;
use crate::query::predicate::Number;
use crate::query::{Fault, FoldPlan, FoldSpec, IdentityScope, NodeRow, RecordScope, Threads, fold_ranges};
use crate::schema::{NAME, NONCE, PROCESS, SEQ, WRITE, WRITER};
use crate::testkit;

type Folded = BTreeMap<Node, BTreeMap<String, Scalar>>;

const KEYS: [&str; 5] = ["a", "b", "b/c", "\u{4e2d}", "blob"];

fn value() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        Just(Scalar::Null),
        any::<bool>().prop_map(Scalar::Bool),
        prop_oneof![-2_i64..3, Just(i64::MAX), Just((1 << 53) + 1)].prop_map(Scalar::Int),
        prop_oneof![
            Just(0.5),
            Just(2.0),
            Just(f64::NAN),
            Just(f64::INFINITY),
            Just(9_007_199_254_740_992.0),
            Just(-0.0)
        ]
        .prop_map(Scalar::Float),
        prop_oneof![Just(""), Just("x"), Just("it's")].prop_map(Scalar::from),
    ]
}

fn a_record() -> impl Strategy<Value = Record> {
    let node = (prop_oneof![Just("r"), Just("r:s"), Just("q")], prop_oneof![Just("n"), Just("m")], 0_u64..40);
    let stamp = (option::weighted(0.8, 0_i64..3), option::weighted(0.8, 0_i64..6));
    let writer = option::weighted(0.8, prop_oneof![Just("u"), Just("v")]);
    let fields = vec((prop::sample::select(&KEYS[..]), value()), 0..4);
    (node, stamp, writer, fields).prop_map(|((name, nonce, seq), (process, write), writer, fields)| {
        let fields: BTreeMap<String, Scalar> =
            fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Record {
            node: Node::new(name, nonce, seq).unwrap(),
            process,
            write,
            writer: writer.map(str::to_owned),
            fields: fields.into_iter().collect(),
        }
    })
}

fn style() -> impl Strategy<Value = Style> {
    (prop::bool::weighted(0.8), any::<bool>(), 1_usize..9, any::<bool>()).prop_map(
        |(sorted, declared, group_rows, statistics)| Style {
            sorted,
            declared: sorted && declared,
            group_rows,
            statistics,
        },
    )
}

/// Lays records into parts so that each key of a part has one type.
fn lay_out(records: &[(Record, usize)], styles: &[Style]) -> Root {
    let mut root = Root::new();
    let mut parts: Vec<Vec<Record>> = vec![Vec::new(); styles.len()];
    let mut number = 0;
    for (record, part) in records {
        let part = part % styles.len();
        let conflicts = parts[part].iter().flat_map(|other| &other.fields).any(|(key, value)| {
            let ours =
                record.fields.iter().find(|(other, _)| other == key).and_then(|(_, value)| type_of(value));
            ours.is_some() && type_of(value).is_some() && ours != type_of(value)
        });
        if conflicts {
            root.part(&format!("part-{number:04}-{part}.parquet"), &parts[part], styles[part]);
            parts[part].clear();
            number += 1;
        }
        parts[part].push(record.clone());
    }
    for (part, records) in parts.iter().enumerate().filter(|(_, records)| !records.is_empty()) {
        root.part(&format!("part-{number:04}-{part}.parquet"), records, styles[part]);
        number += 1;
    }
    root
}

fn as_folded(rows: Vec<NodeRow>) -> Folded {
    rows.into_iter().map(|row| (row.node, row.fields)).collect()
}

/// Folds with the engine in as small steps as possible.
fn in_small_steps(root: &Root, batch_rows: usize, cuts: &[Node]) -> Folded {
    loop {
        let set = listing::list(&values_folder(root.path()), listing::Freshness::Published).unwrap();
        let mut spec = FoldSpec::default();
        let keys: Vec<Arc<str>> = set.fields.types.keys().cloned().collect();
        for key in &keys {
            spec.column(key);
        }
        let mut plan =
            FoldPlan::new(&set, spec, IdentityScope::default(), RecordScope::default(), 1).unwrap();
        plan.batch_rows = batch_rows;
        plan.block_slots = 1;
        let key = |node: &Node| Key {
            run: Arc::new(RunKey { name: node.name().into(), nonce: node.nonce().into() }),
            seq: i64::try_from(node.seq()).unwrap(),
        };
        plan.cuts = cuts.iter().map(key).collect();
        plan.cuts.sort();
        plan.cuts.dedup();
        let folded = fold_ranges(&Arc::new(plan), Threads(2), None, |block, folded: &mut Vec<_>| {
            for (run, slots) in block.runs() {
                for slot in slots {
                    let node = Node::new(&run.name, &run.nonce, block.seqs()[slot].cast_unsigned()).unwrap();
                    let fields = keys.iter().enumerate().filter_map(|(index, key)| {
                        let column = block.column(index, set.fields.get(key));
                        Some((key.to_string(), column.get(slot)?.to_scalar()))
                    });
                    folded.push((node, fields.collect()));
                }
            }
            Ok(0)
        });
        match folded {
            Ok(folded) => {
                let nodes: Vec<(Node, BTreeMap<String, Scalar>)> = folded.into_iter().flatten().collect();
                assert!(nodes.windows(2).all(|pair| pair[0].0 < pair[1].0), "each node once, in order");
                return nodes.into_iter().collect();
            }
            Err(Fault::Unsorted(part)) => part.mark_unsorted(),
            Err(fault) => panic!("{fault}"),
        }
    }
}

fn assert_same(found: &Folded, expected: &Folded) {
    let same = found.len() == expected.len()
        && found.iter().zip(expected).all(|((node, fields), (other, others))| {
            node == other
                && fields.len() == others.len()
                && fields.iter().zip(others).all(|((key, value), (other, expected))| {
                    key == other && value.same(expected) && value.kind() == expected.kind()
                })
        });
    assert!(same, "found {found:#?}\nexpected {expected:#?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn store_4_the_engine_gives_the_answer_of_the_pure_fold(
        records in vec((a_record(), 0_usize..7), 0..60),
        styles in vec(style(), 1..6),
        batch_rows in 1_usize..6,
        cuts in vec(a_record(), 0..3),
    ) {
        let root = lay_out(&records, &styles);
        let expected = fold(root.physical.clone());
        let cuts: Vec<Node> = cuts.into_iter().map(|record| record.node).collect();
        assert_same(&in_small_steps(&root, batch_rows, &cuts), &expected);
        assert_same(&as_folded(root.reader().query().select_all().unwrap().value), &expected);
        prop_assert_eq!(root.reader().query().count().unwrap().value, expected.len() as u64);
    }

    #[test]
    fn store_4_order_split_and_duplicates_change_no_answer(
        records in vec(a_record(), 0..40),
        places in vec(0_usize..5, 80),
        one in vec(style(), 1..4),
        other in vec(style(), 1..6),
    ) {
        // Records of ours have stamps, and no two of one writer the same write.
        let mut records = records;
        for (write, record) in (0..).zip(&mut records) {
            record.process.get_or_insert(1);
            record.write = Some(write);
            record.writer.get_or_insert_with(|| "u".to_owned());
        }
        let placed = |records: &[Record], shift: usize| -> Vec<(Record, usize)> {
            records.iter().cloned().zip(places.iter().copied().cycle().skip(shift)).collect()
        };
        let first = lay_out(&placed(&records, 0), &one);
        let mut shuffled = records.clone();
        shuffled.reverse();
        shuffled.extend(records.iter().step_by(2).cloned());
        let second = lay_out(&placed(&shuffled, 7), &other);
        let answer = |root: &Root| as_folded(root.reader().query().select_all().unwrap().value);
        assert_same(&answer(&second), &answer(&first));
    }

    #[test]
    fn store_5_predicates_see_folded_values(
        records in vec((a_record(), 0_usize..4), 0..50),
        styles in vec(style(), 1..4),
        key in prop::sample::select(&KEYS[..]),
        comparison in prop::sample::select(&COMPARISONS[..]),
        wanted in value(),
        negated in any::<bool>(),
        seq in 0_u64..40,
    ) {
        let root = lay_out(&records, &styles);
        Asked { key, comparison, wanted, negated, seq }.assert_agrees(&root, &root.physical);
    }
}

/// A condition on a field, or that it does not hold, from a position on.
#[derive(Clone, Debug)]
struct Asked {
    key: &'static str,
    comparison: Comparison,
    wanted: Scalar,
    negated: bool,
    seq: u64,
}

impl Asked {
    /// The engine finds in the root what the pure fold of its rows says.
    fn assert_agrees(&self, root: &Root, physical: &[PhysicalRecord]) {
        let Asked { key, comparison, wanted, negated, seq } = self;
        let folded = fold(physical.to_vec());
        let holds = |node: &Node, fields: &BTreeMap<String, Scalar>| {
            let found = fields.get(*key).is_some_and(|value| compares(value, *comparison, wanted));
            found != *negated && node.seq() >= *seq
        };
        let expected: Vec<&Node> =
            folded.iter().filter(|(node, fields)| holds(node, fields)).map(|(node, _)| node).collect();
        let term = Expr::compare(key, *comparison, wanted.clone());
        let term = if *negated { !term } else { term };
        let expr = term.and(Expr::seq(Comparison::GreaterOrEqual, *seq));
        match root.reader().query().expression(expr).all() {
            Ok(answer) => assert_eq!(answer.value.iter().collect::<Vec<_>>(), expected),
            // Text against a number, where the field has only text.
            Err(crate::QueryError::TextOnly { .. }) => {
                let fields = physical.iter().flat_map(|record| &record.fields);
                let only_text = fields
                    .filter(|(other, value)| other == key && !value.is_null())
                    .all(|(_, value)| matches!(value, Scalar::Text(_)));
                assert!(only_text && !matches!(wanted, Scalar::Text(_)));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

pub(in crate::query) const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];

/// The rule of comparisons, without columns.
fn compares(found: &Scalar, comparison: Comparison, wanted: &Scalar) -> bool {
    match (found, wanted) {
        (_, Scalar::Null) => false,
        (Scalar::Text(found), Scalar::Text(wanted)) => comparison.holds(Some(found.cmp(wanted))),
        _ => match (Number::of_scalar(found), Number::of_scalar(wanted)) {
            (Some(found), Some(wanted)) => comparison.holds(found.partial_cmp(&wanted)),
            _ => false,
        },
    }
}

#[test]
fn store_4_what_a_store_wrote_folds_alike_before_and_after_compaction() {
    let root = Root::new();
    let values = [Scalar::Int(1), Scalar::Float(0.5), "text".into(), Scalar::Bool(true), Scalar::Null];
    let store = |process| {
        let options = crate::StoreOptions { process, batch_rows: 16, ..crate::StoreOptions::default() };
        crate::ObjectStore::open(root.path(), options).unwrap()
    };
    let stores = [store(0), store(1)];
    for round in 0..150_u64 {
        for (process, store) in (0_u64..).zip(&stores) {
            let node = Node::new("r", "n", round % 60).unwrap();
            let pick =
                |offset: u64| values[usize::try_from((round * 3 + process + offset) % 5).unwrap()].clone();
            store
                .value(
                    &node,
                    &[
                        ("a", pick(0)),
                        ("b", pick(1)),
                        ("c", Scalar::Float(f64::from(u8::try_from(round).unwrap()))),
                    ],
                )
                .unwrap();
        }
        if round % 40 == 7 {
            stores[0].flush().unwrap();
            stores[1].flush().unwrap();
        }
    }
    for store in &stores {
        store.flush().unwrap();
    }
    let answer = || as_folded(root.reader().query().select_all().unwrap().value);
    let before = answer();
    assert_eq!(before.len(), 60);
    for store in stores {
        store.close().unwrap();
    }
    assert_same(&answer(), &before);
}

/// What happens to a root with several writers.
#[derive(Clone, Debug)]
enum Act {
    Value { writer: usize, node: Node, fields: Vec<(&'static str, Scalar)> },
    Flush(usize),
    Read,
}

fn act() -> impl Strategy<Value = Act> {
    let node = (prop_oneof![Just("r"), Just("r:s")], prop_oneof![Just("n"), Just("m")], 0_u64..12)
        .prop_map(|(name, nonce, seq)| Node::new(name, nonce, seq).unwrap());
    let fields = prop::collection::btree_map(prop::sample::select(&KEYS[..]), value(), 0..4);
    prop_oneof![
        12 => (0_usize..3, node, fields).prop_map(|(writer, node, fields)| {
            Act::Value { writer, node, fields: fields.into_iter().collect() }
        }),
        1 => (0_usize..3).prop_map(Act::Flush),
        1 => Just(Act::Read),
    ]
}

/// The rows that stores of ours have written, as the pure fold takes them.
fn written(root: &Root) -> Vec<PhysicalRecord> {
    let mut records = Vec::new();
    for path in testkit::parts(root.path()) {
        let part = path.file_name().unwrap().to_str().unwrap();
        for (row, physical) in (0..).zip(testkit::part_rows(&path)) {
            let seq = u64::try_from(physical.int(SEQ)).unwrap();
            records.push(PhysicalRecord {
                node: Node::new(physical.text(NAME), physical.text(NONCE), seq).unwrap(),
                process: Some(physical.int(PROCESS)),
                write: Some(physical.int(WRITE)),
                writer: Some(physical.text(WRITER).to_owned()),
                part: part.to_owned(),
                row,
                fields: physical.fields().into_iter().collect(),
            });
        }
    }
    records
}

fn assert_agrees(root: &Root, physical: &[PhysicalRecord], asked: &Asked) {
    let expected = fold(physical.to_vec());
    assert_same(&as_folded(root.reader().query().select_all().unwrap().value), &expected);
    assert_eq!(root.reader().query().count().unwrap().value, expected.len() as u64);
    asked.assert_agrees(root, physical);
}

proptest! {
    // Each flush waits for the disk.
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn store_4_what_stores_wrote_is_what_the_pure_fold_says_before_and_after_compaction(
        acts in vec(act(), 0..60),
        writers in vec((0_i64..3, 1_usize..9), 2..4),
        foreign in vec(a_record(), 1..12),
        style in style(),
        key in prop::sample::select(&KEYS[..]),
        comparison in prop::sample::select(&COMPARISONS[..]),
        wanted in value(),
        negated in any::<bool>(),
        seq in 0_u64..12,
    ) {
        let mut root = Root::new();
        let asked = Asked { key, comparison, wanted, negated, seq };
        let open = |&(process, batch_rows): &(i64, usize)| {
            let options = crate::StoreOptions { process, batch_rows, ..crate::StoreOptions::default() };
            crate::ObjectStore::open(root.path(), options).unwrap()
        };
        let stores: Vec<crate::ObjectStore> = writers.iter().map(open).collect();
        let mut accepted = 0;
        for act in &acts {
            match act {
                Act::Value { writer, node, fields } => {
                    stores[writer % stores.len()].value(node, fields).unwrap();
                    accepted += 1;
                }
                Act::Flush(writer) => drop(stores[writer % stores.len()].flush().unwrap()),
                Act::Read => {
                    let before = testkit::parts(root.path());
                    let found = as_folded(root.reader().query().select_all().unwrap().value);
                    let physical = written(&root);
                    // Batches are published meanwhile; then the rows are not those of the answer.
                    if testkit::parts(root.path()) == before {
                        assert_same(&found, &fold(physical));
                    }
                }
            }
        }
        for store in &stores {
            store.flush().unwrap();
        }
        let before = written(&root);
        prop_assert_eq!(before.len(), accepted);
        assert_agrees(&root, &before, &asked);
        for store in stores {
            store.close().unwrap();
        }
        let mut after = written(&root);
        assert_same(&fold(after.clone()), &fold(before));
        assert_agrees(&root, &after, &asked);

        // A part of another program beside them; each of its fields has one type.
        let mut foreign = foreign;
        let mut types = BTreeMap::new();
        for record in &mut foreign {
            record.fields.retain(|(key, value)| {
                type_of(value).is_none_or(|of| *types.entry(key.clone()).or_insert(of) == of)
            });
        }
        root.part("part-foreign.parquet", &foreign, style);
        after.extend(root.physical.iter().cloned());
        assert_agrees(&root, &after, &asked);
    }
}
