//! How a question is put: several keys to sort by, strictness, what it would read, and questions as data.

use waycairn_dag::Node;

use super::kit::{Record, Root, Style, node, record};
use crate::field::Scalar;
use crate::query::{Diagnostic, Expr, Order, QueryError, SavedQuery};
use crate::reader::ObjectReader;
use crate::schema::{ARTIFACT, BLOB, CHECKPOINT, PARENT};
use crate::store::{ObjectStore, StoreOptions};

fn seqs(answer: Vec<Node>) -> Vec<u64> {
    answer.iter().map(Node::seq).collect()
}

/// Nodes 0 to 5 of two groups with a value each, of which some tie and some are missing.
fn ties() -> Root {
    let values = [
        (0, "b", Some(2.0)),
        (1, "a", Some(1.0)),
        (2, "b", Some(1.0)),
        (3, "a", None),
        (4, "b", None),
        (5, "a", Some(1.0)),
    ];
    let records: Vec<Record> = values
        .iter()
        .map(|(seq, group, value)| {
            let mut fields = vec![("group", Scalar::from(*group))];
            fields.extend(value.map(|value| ("loss", Scalar::Float(value))));
            record("r", *seq, 100 - *seq as i64, &fields)
        })
        .collect();
    Root::of(&records)
}

#[test]
fn several_keys_sort_what_ties_in_the_ones_before() {
    let root = ties();
    let reader = root.reader();
    let sorted = |keys: &[(&str, Order)]| {
        let mut query = reader.query();
        for (key, order) in keys {
            query.sort(*key, *order);
        }
        seqs(query.all().unwrap().value)
    };
    use Order::{Ascending, Descending};
    assert_eq!(
        sorted(&[("group", Ascending)]),
        [1, 3, 5, 0, 2, 4],
        "what ties keeps the order of the identities"
    );
    assert_eq!(
        sorted(&[("group", Ascending), ("loss", Descending)]),
        [1, 5, 3, 0, 2, 4],
        "missing last both ways"
    );
    assert_eq!(sorted(&[("group", Ascending), ("loss", Ascending), ("seq", Descending)]), [5, 1, 3, 2, 0, 4]);
    assert_eq!(
        sorted(&[("loss", Ascending), ("group", Descending), ("written", Ascending)]),
        [2, 5, 1, 0, 4, 3]
    );
    assert_eq!(
        sorted(&[("name", Descending), ("nonce", Ascending), ("seq", Descending)]),
        [5, 4, 3, 2, 1, 0]
    );
    // An unknown key is told and passed over; the next one sorts.
    let mut query = reader.query();
    let answer = query.sort("los", Ascending).sort("seq", Descending).limit(2).all().unwrap();
    assert_eq!(seqs(answer.value), [5, 4]);
    assert!(
        matches!(&answer.diagnostics[..], [Diagnostic::UnknownSortKey { nearest, .. }] if nearest[0] == "loss")
    );
    // The same order in a table, and cut.
    let table = reader
        .query()
        .sort("group", Ascending)
        .sort("seq", Descending)
        .offset(1)
        .limit(3)
        .batches(&["group"])
        .unwrap();
    let column = table.columns().iter().position(|column| *column == "seq").unwrap();
    assert_eq!(table.rows().map(|row| row[column].clone()).collect::<Vec<_>>(), [3, 1, 4].map(Scalar::Int));
}

#[test]
fn a_sort_by_several_keys_is_that_of_the_plain_rows() {
    let mut state = 5_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let records: Vec<Record> = (0..20_000)
        .map(|seq| {
            let (a, b) = (random(7), random(5));
            record("r", seq, 1, &[("a", Scalar::Int(a as i64)), ("b", Scalar::Float(b as f64))])
        })
        .collect();
    let root = Root::of(&records);
    let reader = root.reader();
    let rows = reader.query().select(&["a", "b"]).unwrap().value;
    let mut expected: Vec<(f64, i64, i64)> = rows
        .iter()
        .map(|row| match (&row.fields["a"], &row.fields["b"]) {
            (Scalar::Int(a), Scalar::Float(b)) => (-b, *a, -(row.node.seq() as i64)),
            other => panic!("{other:?}"),
        })
        .collect();
    expected.sort_by(|one, other| one.partial_cmp(other).unwrap());
    // A limit that is small enough for rows to be left out on the way.
    let mut query = reader.query();
    query.sort("b", Order::Descending).sort("a", Order::Ascending).sort("seq", Order::Descending);
    let found = seqs(query.limit(50).all().unwrap().value);
    assert_eq!(found, expected[..50].iter().map(|(_, _, seq)| (-seq) as u64).collect::<Vec<_>>());
}

#[test]
fn a_strict_question_refuses_what_is_unknown() {
    let root = ties();
    let reader = root.reader();
    let below = Expr::parse("loss < 3 and los < 3").unwrap();
    let either = Expr::parse("loss < 3 or los < 3").unwrap();
    assert_eq!(reader.query().expression(below.clone()).count().unwrap().value, 0);
    let refused = |result: Result<u64, QueryError>| result.unwrap_err().to_string();
    for expr in [below, either] {
        let text = refused(reader.query().expression(expr).strict().count().map(|answer| answer.value));
        assert!(text.contains("no node has a field `los`") && text.contains("loss"), "{text}");
    }
    assert!(matches!(reader.query().strict().select(&["los"]), Err(QueryError::Unknown { .. })));
    assert!(matches!(
        reader.query().sort("los", Order::Ascending).strict().all(),
        Err(QueryError::Unknown { .. })
    ));
    assert_eq!(
        reader.query().expression(Expr::parse("loss < 3").unwrap()).strict().count().unwrap().value,
        4
    );
}

#[test]
fn an_explanation_says_what_is_pruned() {
    let mut root = Root::new();
    for run in 0..4 {
        let name = format!("run-{run}");
        let records =
            [record(&name, 0, 1, &[("a", Scalar::Int(1)), ("b", Scalar::Int(2))]), record(&name, 9, 2, &[])];
        root.part(&format!("part-{run}.parquet"), &records, Style::default());
    }
    let reader = root.reader();
    let all = reader.query().explain(&["a"]).unwrap().value;
    assert_eq!(
        (all.parts, all.parts_read, all.row_groups, all.row_groups_read, all.rows_read),
        (4, 4, 4, 4, 8)
    );
    assert_eq!((all.columns, all.journals), (vec!["a".to_owned()], 0));
    let one = reader.query().name("run-2").has("b").explain(&["a"]).unwrap().value;
    assert_eq!((one.parts, one.parts_read, one.row_groups_read, one.rows_read), (4, 1, 1, 2));
    assert_eq!((one.parts_pruned, one.row_groups_pruned), (3, 3));
    assert_eq!(one.columns, ["b", "a"]);
    let marked = reader.query().checkpoint().explain(&["a"]).unwrap().value;
    assert_eq!((marked.parts_read, marked.columns), (0, vec!["a".to_owned(), CHECKPOINT.to_owned()]));
    let none = reader.query().name("run-2").seq_range(3..=7).explain(&[]).unwrap().value;
    assert_eq!(none.rows_read, 2, "the statistics of a group are a range");
    assert_eq!(reader.query().name("run-9").explain(&["a"]).unwrap().value.parts_read, 0);
    let unknown = reader.query().explain(&["c"]).unwrap();
    assert_eq!((unknown.value.parts, unknown.value.parts_read, unknown.diagnostics.len()), (4, 0, 1));
}

#[test]
fn a_saved_question_gives_the_same_answer() {
    let root = ties();
    let reader = root.reader();
    let mut query = reader.query();
    query.expression(Expr::parse("has loss and (seq > 0 or group = 'a')").unwrap());
    query
        .sort("group", Order::Descending)
        .sort("field:name", Order::Ascending)
        .sort("seq", Order::Descending);
    query.limit(4).offset(1).raw();
    let saved = query.saved();
    let text = serde_json::to_string(&saved).unwrap();
    let again: SavedQuery = serde_json::from_str(&text).unwrap();
    assert_eq!(again, saved, "{text}");
    let answer = query.all().unwrap();
    assert_eq!(reader.ask_again(&again).all().unwrap().value, answer.value);
    assert_eq!(seqs(answer.value), [5, 1]);
    assert_eq!(serde_json::to_string(&reader.query().saved()).unwrap(), "{}");
    let wrong = serde_json::from_str::<SavedQuery>(r#"{"were": "a < 1"}"#).unwrap_err().to_string();
    assert!(wrong.contains("unknown field `were`"), "{wrong}");
}

fn sql(reader: &ObjectReader, text: &str) -> Vec<Vec<Scalar>> {
    reader.sql(text).unwrap().rows().collect()
}

#[test]
fn edges_and_blobs_are_tables() {
    let parent = node("base", 7).address().to_string();
    let folder = node("r", 1).address().to_string();
    let root = Root::of(&[
        record("r", 0, 1, &[(PARENT, parent.as_str().into())]),
        record("r", 1, 2, &[(BLOB, folder.as_str().into()), (CHECKPOINT, true.into())]),
        record("r", 1, 3, &[(BLOB, folder.as_str().into()), (ARTIFACT, "summary/plot".into())]),
        record("r", 2, 4, &[("a", Scalar::Int(1))]),
    ]);
    let reader = root.reader();
    assert_eq!(
        sql(&reader, "select node, seq, parent, parent_name, parent_seq from EDGES"),
        [vec![
            node("r", 0).address().to_string().into(),
            0.into(),
            parent.as_str().into(),
            "base".into(),
            7.into()
        ]]
    );
    let blobs = sql(&reader, "select seq, path, checkpoint, artifacts from blobs");
    assert_eq!(blobs[0][..3], [1.into(), folder.as_str().into(), true.into()]);
    let Scalar::Text(artifacts) = &blobs[0][3] else { panic!("{blobs:?}") };
    let mut artifacts: Vec<&str> = artifacts.split('/').collect();
    artifacts.sort_unstable();
    assert_eq!(artifacts, ["plot", "summary"]);
    // They join with the others.
    let joined = "select n.a from nodes n join edges e on e.name = n.name where n.seq = 2";
    assert_eq!(sql(&reader, joined), [[Scalar::Int(1)]]);
    let empty = Root::of(&[record("r", 0, 1, &[])]);
    assert_eq!(sql(&empty.reader(), "select count(*) from edges, blobs"), [[Scalar::Int(0)]]);
}

#[test]
fn a_key_that_few_records_have_costs_what_those_cost() {
    let mut root = Root::new();
    // Ten parts of one run, of which the sixth alone has the key; a part of another process overlaps it.
    for part in 0..10_u64 {
        let records: Vec<Record> = (0..20)
            .map(|place| {
                let seq = part * 20 + place;
                let mut fields = vec![("common", Scalar::Int(seq as i64))];
                fields.extend((seq == 107).then_some(("rare", Scalar::Int(1))));
                record("r", seq, 1, &fields)
            })
            .collect();
        root.part(&format!("part-{part}.parquet"), &records, Style::default());
    }
    let others: Vec<Record> =
        (105..110).map(|seq| record("r", seq, 9, &[("rare", Scalar::Int(0))]).process(1)).collect();
    root.part("part-other.parquet", &others, Style::default());
    root.part("part-far.parquet", &[record("s", 0, 1, &[("common", Scalar::Int(0))])], Style::default());
    let reader = root.reader();
    let rare = Expr::parse("rare = 1").unwrap();
    let read = reader.query().expression(rare.clone()).explain(&["common"]).unwrap().value;
    assert_eq!((read.parts, read.parts_read, read.rows_read), (12, 2, 25));
    let rows = reader.query().expression(rare).select(&["common", "rare"]).unwrap().value;
    assert_eq!(rows.len(), 1, "process 0 wins, and the others are 0");
    assert_eq!((rows[0].node.seq(), rows[0].fields["common"].clone()), (107, Scalar::Int(107)));
    assert_eq!(reader.query().has("rare").artifact().explain(&[]).unwrap().value.parts_read, 0);
    // Without the key there is nothing to leave out by.
    for text in ["missing rare", "rare = 1 or common = 3", "not has rare"] {
        let expr = Expr::parse(text).unwrap();
        assert_eq!(
            reader.query().expression(expr).explain(&["common"]).unwrap().value.parts_read,
            12,
            "{text}"
        );
    }
}

#[test]
fn f06_a_key_that_few_records_of_a_large_part_have_costs_their_row_groups() {
    let root = Root::new();
    // Three row groups of 65,536 rows and less, as a compaction leaves them; of one run, and of many.
    for run in ["r", "s"] {
        let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
        let names: Vec<String> =
            (0..50).map(|number| if run == "r" { "r".to_owned() } else { format!("s{number:02}") }).collect();
        for place in 0..150_000_u64 {
            let node = Node::new(&names[place as usize / 3_000], "n", place).unwrap();
            let common = ("common", Scalar::Int(place as i64));
            match place {
                70_000 => store.value(&node, &[common, ("rare", Scalar::Int(1))]).unwrap(),
                _ => store.value(&node, &[common]).unwrap(),
            }
        }
        store.close().unwrap();
    }
    let reader = root.reader();
    for text in ["has rare", "rare = 1", "rare = 1 and common > 5"] {
        let expr = Expr::parse(text).unwrap();
        let read = reader.query().expression(expr.clone()).explain(&["common"]).unwrap().value;
        // A run that ends where a row group does is in two, of which either may hold its nodes.
        assert_eq!((read.parts, read.row_groups, read.row_groups_read), (2, 6, 1 + 3), "{text}");
        let nodes = reader.query().expression(expr).all().unwrap().value;
        let found: Vec<(&str, u64)> = nodes.iter().map(|node| (node.name(), node.seq())).collect();
        assert_eq!(found, [("r", 70_000), ("s23", 70_000)], "{text}");
    }
    let all = reader.query().expression(Expr::parse("missing rare").unwrap()).explain(&[]).unwrap().value;
    assert_eq!(all.row_groups_read, 6);
    let table = root.reader().sql("explain select common from nodes where rare is not null and name = 'r'");
    let plan = format!("{:?}", table.unwrap().rows().collect::<Vec<_>>());
    assert!(plan.contains("FoldExec: parts=1"), "{plan}");
}

#[test]
fn a_nonce_among_many_runs_is_looked_for_where_the_filters_of_the_parts_let_it_be() {
    let root = Root::new();
    // Four parts of 300 runs, which is more than a footer lists; the names of all parts are the same.
    let node =
        |part: u64, run: u64| Node::new(&format!("run-{run}"), &format!("{part:04x}{run:012x}"), 0).unwrap();
    for part in 0..4 {
        let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
        (0..300).for_each(|run| store.value(&node(part, run), &[("x", (run as i64).into())]).unwrap());
        store.close().unwrap();
    }
    let reader = root.reader();
    let one = node(2, 120);
    for expr in [Expr::nonce(one.nonce()), Expr::node(&one)] {
        let read = reader.query().expression(expr.clone()).explain(&["x"]).unwrap().value;
        assert_eq!((read.parts, read.parts_read), (4, 1), "{expr}");
        assert_eq!(reader.query().expression(expr).all().unwrap().value, std::slice::from_ref(&one));
    }
    assert_eq!(reader.query().name("run-120").explain(&["x"]).unwrap().value.parts_read, 4);
    assert_eq!(reader.query().nonce("0".repeat(16).as_str()).all().unwrap().value, [node(0, 0)]);
    assert!(reader.query().nonce("absent").all().unwrap().value.is_empty());
}
