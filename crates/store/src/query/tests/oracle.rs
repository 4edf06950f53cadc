//! The engine against the pure fold, on random records in random parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use waycairn_dag::Node;

use super::kit::{Record, Root, Style, type_of};
use crate::field::Scalar;
use crate::fold::fold;
use crate::listing;
use crate::part::values_folder;
use crate::published::RunKey;
use crate::query::expression::{Comparison, Expr};
use crate::query::plan::Key;
use crate::query::predicate::Number;
use crate::query::{Fault, FoldPlan, FoldSpec, IdentityScope, NodeRow, RecordScope, Threads, fold_ranges};

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
        let set = listing::list(&values_folder(root.path())).unwrap();
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
        let folded = fold(root.physical.clone());
        let holds = |node: &Node, fields: &BTreeMap<String, Scalar>| {
            let found = fields.get(key).is_some_and(|value| compares(value, comparison, &wanted));
            found != negated && node.seq() >= seq
        };
        let expected: Vec<&Node> =
            folded.iter().filter(|(node, fields)| holds(node, fields)).map(|(node, _)| node).collect();
        let term = Expr::compare(key, comparison, wanted.clone());
        let term = if negated { !term } else { term };
        let expr = term.and(Expr::seq(Comparison::GreaterOrEqual, seq));
        match root.reader().query().expression(expr).all() {
            Ok(answer) => prop_assert_eq!(answer.value.iter().collect::<Vec<_>>(), expected),
            // Text against a number, where the field has only text.
            Err(crate::QueryError::TextOnly { .. }) => {
                let only_text = root.physical.iter().flat_map(|record| &record.fields)
                    .filter(|(other, value)| other == key && !value.is_null())
                    .all(|(_, value)| matches!(value, Scalar::Text(_)));
                prop_assert!(only_text && !matches!(wanted, Scalar::Text(_)));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

const COMPARISONS: [Comparison; 6] = [
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
