//! Terms about several values and about patterns of names, where the records of a node disagree.

use super::kit::{Record, Root, Style, node, record};
use crate::field::Scalar;
use crate::query::{Comparison, Expr};

fn named(root: &Root, expr: Expr) -> String {
    let nodes = root.reader().query().expression(expr).all().unwrap().value;
    nodes.iter().map(|node| format!("{}:{}", node.name(), node.seq())).collect::<Vec<_>>().join(" ")
}

/// Nodes of which each has a value that won and one that lost, in one part or in two.
fn disagreeing() -> Vec<Root> {
    let kind = |value: &str| ("kind", Scalar::from(value));
    let count = |value: i64| ("count", Scalar::Int(value));
    let lost = [
        record("r", 0, 1, &[kind("b"), count(2)]),
        record("r", 1, 1, &[kind("a"), count(1)]),
        record("r", 2, 9, &[kind("a"), ("count", Scalar::Float(1.5))]).process(1),
        record("r", 3, 1, &[kind("c")]),
        record("r", 4, 1, &[("other", Scalar::Bool(true))]),
    ];
    let won = [
        record("r", 0, 2, &[kind("a"), count(1)]),
        record("r", 1, 2, &[kind("b"), ("count", Scalar::Float(2.0))]),
        record("r", 2, 1, &[kind("c"), count(3)]),
        record("r", 3, 2, &[("count", "two".into())]),
    ];
    let both: Vec<Record> = lost.iter().chain(&won).cloned().collect();
    let mut two = Root::new();
    two.part("part-a.parquet", &lost, Style::default());
    // A key has one type in a part.
    for (number, record) in won.iter().enumerate() {
        two.part(&format!("part-b{number}.parquet"), std::slice::from_ref(record), Style::default());
    }
    let mut one = Root::new();
    for (number, record) in both.iter().enumerate() {
        one.part(&format!("part-{number}.parquet"), std::slice::from_ref(record), Style::default());
    }
    vec![two, one]
}

#[test]
fn any_of_asks_the_value_that_won() {
    let kinds = |values: &[&str]| Expr::any_of("kind", values.iter().copied());
    let first = || Expr::seq(Comparison::Less, 1);
    for root in disagreeing() {
        assert_eq!(named(&root, kinds(&["a"])), "r:0");
        assert_eq!(named(&root, kinds(&["b", "c"])), "r:1 r:2 r:3");
        assert_eq!(named(&root, kinds(&["nobody", "a", "a"])), "r:0");
        assert_eq!(named(&root, kinds(&[])), "");
        // A node without the field has none of the values.
        assert_eq!(named(&root, !kinds(&["a"])), "r:1 r:2 r:3 r:4");
        assert_eq!(named(&root, !kinds(&["a", "b", "c"])), "r:4");
        assert_eq!(named(&root, kinds(&["b"]).or(first())), "r:0 r:1");
        assert_eq!(named(&root, !(kinds(&["b"]).or(first()))), "r:2 r:3 r:4");
        assert_eq!(named(&root, kinds(&["a", "b"]).and(!kinds(&["b"]))), "r:0");
        assert_eq!(named(&root, kinds(&["c"]).and(Expr::missing("count"))), "");
        // Numbers are equal by value, whatever their types; a text is another value.
        let counts = |values: &[Scalar]| Expr::any_of("count", values.iter().cloned());
        assert_eq!(named(&root, counts(&[Scalar::Float(1.0), Scalar::Int(2)])), "r:0 r:1");
        assert_eq!(named(&root, counts(&[Scalar::Float(1.5)])), "");
        assert_eq!(named(&root, counts(&["two".into(), 3.into()])), "r:2 r:3");
        assert_eq!(named(&root, !counts(&["two".into(), 3.into()])), "r:0 r:1 r:4");
        let asked = root.reader().query().field("kind").any_of(["a", "c"]).select(&["kind"]).unwrap().value;
        let shown: Vec<_> = asked.iter().map(|row| (row.node.seq(), row.fields["kind"].clone())).collect();
        assert_eq!(shown, [(0, "a".into()), (2, "c".into()), (3, "c".into())]);
    }
}

#[test]
fn a_pattern_of_names_scopes_nodes_whose_records_disagree() {
    let loss = |value: f64| ("loss", Scalar::Float(value));
    let names = ["p.g.one", "p.g.two", "p.h.one", "q.g.one", "p.g", "p.g.one.more", "p..one"];
    let records: Vec<Record> = names
        .iter()
        .zip(0_u32..)
        .flat_map(|(name, number)| {
            let value = f64::from(number);
            [record(name, 0, 5, &[loss(value)]), record(name, 0, 7, &[loss(-1.0)]).process(1)]
        })
        .collect();
    let root = Root::of(&records);
    let of = |expr| named(&root, expr).replace(":0", "");
    let project = Expr::project;
    assert_eq!(of(project(Some("p"), None, None)), "p..one p.g.one p.g.two p.h.one");
    assert_eq!(of(project(None, Some("g"), None)), "p.g.one p.g.two q.g.one");
    assert_eq!(of(project(None, None, Some("one"))), "p..one p.g.one p.h.one q.g.one");
    assert_eq!(of(project(Some("p"), Some("g"), Some("one"))), "p.g.one");
    assert_eq!(of(project(None, None, None)), "p..one p.g.one p.g.two p.h.one q.g.one");
    assert_eq!(of(project(Some("P"), None, None)), "");
    assert_eq!(of(!project(Some("p"), None, None)), "p.g p.g.one.more q.g.one");
    assert_eq!(of(project(Some("q"), None, None).or(project(None, Some("h"), None))), "p.h.one q.g.one");
    assert_eq!(
        of(!(project(None, Some("g"), None).or(project(None, Some("h"), None)))),
        "p..one p.g p.g.one.more"
    );
    // The folded value decides among those in scope; the loss of the other process is no node's.
    let below = |bound: f64| Expr::compare("loss", Comparison::Less, bound);
    assert_eq!(of(project(Some("p"), Some("g"), None).and(below(0.5))), "p.g.one");
    assert_eq!(of(project(Some("p"), Some("g"), None).and(below(0.0))), "");
    assert_eq!(of(project(Some("q"), None, None).or(below(0.5))), "p.g.one q.g.one");
    assert_eq!(of((!project(Some("p"), None, None)).and(below(4.5))), "p.g q.g.one");
    let mut query = root.reader().query();
    let nodes = query.project(Some("p"), None, Some("one")).field("loss").any_of([0, 2]).all().unwrap().value;
    assert_eq!(nodes, [node("p.g.one", 0), node("p.h.one", 0)]);
}
