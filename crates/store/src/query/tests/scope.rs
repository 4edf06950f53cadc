//! Scopes: what is read, what is folded.

use std::sync::Arc;

use super::kit::{Record, Root, Style, node, record};
use crate::field::Scalar;
use crate::listing;
use crate::part::values_folder;
use crate::query::{Comparison, Expr, FoldPlan, FoldSpec, IdentityScope, QueryError, RecordScope};
use crate::schema::{EXECUTION, FINISHED, TAG};

fn two_executions() -> Root {
    Root::of(&[
        record("r", 0, 1, &[("loss", Scalar::Float(3.0)), (EXECUTION, "e1".into()), (TAG, "t".into())]),
        record("r", 0, 5, &[("loss", Scalar::Float(2.0)), (EXECUTION, "e2".into())]),
        record("r", 1, 6, &[("loss", Scalar::Float(1.0)), (EXECUTION, "e2".into())]).process(1),
    ])
}

#[test]
fn store_5_scopes_by_record_restrict_what_is_folded() {
    let root = two_executions();
    let reader = root.reader();
    let losses = |expr: Expr| {
        let rows = reader.query().expression(expr).select(&["loss"]).unwrap().value;
        rows.iter().map(|row| (row.node.seq(), row.fields["loss"].to_string())).collect::<Vec<_>>()
    };
    assert_eq!(losses(Expr::execution("e1")), [(0, "3".to_owned())]);
    assert_eq!(losses(Expr::execution("e2")), [(0, "2".to_owned()), (1, "1".to_owned())]);
    assert_eq!(losses(Expr::tag("t")), [(0, "3".to_owned())]);
    assert_eq!(losses(Expr::process(1)), [(1, "1".to_owned())]);
    assert_eq!(losses(Expr::written_between(1, 5)), [(0, "3".to_owned())]);
    assert_eq!(losses(Expr::written_between(2, 7)), [(0, "2".to_owned()), (1, "1".to_owned())]);
    assert_eq!(losses(Expr::execution("e1").and(Expr::execution("e2"))), []);
    assert_eq!(losses(Expr::execution("nobody")), []);
    let old = Expr::compare("loss", Comparison::Greater, 2.5);
    assert_eq!(losses(old.clone()), []);
    assert_eq!(losses(old.and(Expr::execution("e1"))), [(0, "3".to_owned())]);
}

#[test]
fn scopes_by_record_mean_nothing_elsewhere() {
    let root = two_executions();
    for text in ["tag = 't' or seq = 0", "not execution = 'e1'", "seq = 0 and (process = 0 or written > 5)"] {
        let error = root.reader().query().expression(Expr::parse(text).unwrap()).all().unwrap_err();
        assert!(matches!(error, QueryError::RecordScope { .. }), "{text}: {error}");
    }
}

#[test]
fn finished_is_about_the_run() {
    let finished = |name: &str, seq, execution: &str| {
        record(name, seq, 9, &[(FINISHED, Scalar::Bool(true)), (EXECUTION, execution.into())])
    };
    let root = Root::of(&[
        record("a", 0, 1, &[(EXECUTION, "e1".into())]),
        finished("a", 4, "e2"),
        record("b", 0, 1, &[(EXECUTION, "e1".into())]),
        record("c", 0, 1, &[]),
        record("c", 0, 2, &[(FINISHED, Scalar::Bool(true))]).nonce("other"),
    ]);
    let reader = root.reader();
    let named = |expr: Expr| {
        let nodes = reader.query().expression(expr).all().unwrap().value;
        nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(named(Expr::finished(true)), "a@n:0 a@n:4 c@other:0");
    assert_eq!(named(Expr::finished(false)), "b@n:0 c@n:0");
    // The marker was written elsewhere in the run, by another execution.
    assert_eq!(named(Expr::finished(true).and(Expr::seq(Comparison::Equal, 0))), "a@n:0 c@other:0");
    assert_eq!(named(Expr::finished(true).and(Expr::execution("e1"))), "a@n:0");
    assert_eq!(named(Expr::finished(true).or(Expr::name("b"))), "a@n:0 a@n:4 b@n:0 c@other:0");
    assert_eq!(named(Expr::finished(true).and(Expr::node(&node("a", 0)))), "a@n:0");
}

#[test]
fn row_groups_outside_of_the_scope_are_not_read() {
    let records: Vec<Record> = (0..100).map(|seq| record("r", seq, 1, &[("x", Scalar::Int(1))])).collect();
    let mut root = Root::new();
    root.part("part-a.parquet", &records, Style { group_rows: 10, ..Style::default() });
    root.part("part-b.parquet", &[record("s", 5, 1, &[])], Style::default());
    root.part("part-c.parquet", &[record("t", 5, 1, &[]), record("u", 900, 1, &[])], Style::default());
    let set = listing::list(&values_folder(root.path()), listing::Freshness::Published).unwrap();
    let groups = |text: &str| {
        let terms = Expr::parse(text).unwrap().term.into_conjuncts();
        let mut spec = FoldSpec::default();
        spec.column("x");
        let plan = FoldPlan::new(&set, spec, IdentityScope::of(&terms), RecordScope::default(), 2).unwrap();
        plan.parts().iter().map(|part| part.groups.len()).collect::<Vec<_>>()
    };
    assert_eq!(groups("seq >= 0"), [10, 1, 1]);
    assert_eq!(groups("name = 'r' and seq >= 15 and seq < 31"), [3]);
    assert_eq!(groups("name = 's'"), [1]);
    assert_eq!(groups("name in ('s', 'v')"), [1]);
    assert_eq!(groups("node = 'r@n:99'"), [1]);
    assert_eq!(groups("seq > 1000"), Vec::<usize>::new());
    assert_eq!(groups("name = 'nobody'"), Vec::<usize>::new());
    // A damaged row group that is out of scope is never opened.
    let path = values_folder(root.path()).join("part-b.parquet");
    let bytes = std::fs::read(&path).unwrap();
    let mut broken = bytes.clone();
    broken[super::damage::column_bytes(&bytes, "_x_seq")].fill(0xff);
    overwrite(&path, &broken);
    let reader = root.reader();
    assert_eq!(reader.query().name("r").seq_range(20..=29).all().unwrap().value.len(), 10);
    assert!(reader.query().all().is_err());
    overwrite(&path, &bytes);
}

/// Changes a file in place, as only damage does.
pub(super) fn overwrite(path: &std::path::Path, bytes: &[u8]) {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new().write(true).truncate(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

#[test]
fn a_wide_range_is_cut_at_row_groups_and_gives_the_same_answer() {
    let records: Vec<Record> = (0..60_000)
        .map(|seq| {
            record(
                if seq < 20_000 { "q" } else { "r" },
                seq,
                1,
                &[("x", Scalar::Int(i64::try_from(seq).unwrap()))],
            )
        })
        .collect();
    let mut root = Root::new();
    root.part("part-a.parquet", &records[..40_000], Style { group_rows: 3_000, ..Style::default() });
    root.part(
        "part-b.parquet",
        &records[35_000..],
        Style { group_rows: 5_000, declared: false, ..Style::default() },
    );
    let set = listing::list(&values_folder(root.path()), listing::Freshness::Published).unwrap();
    let mut spec = FoldSpec::default();
    spec.column("x");
    let plan = |threads| {
        FoldPlan::new(&set, spec.clone(), IdentityScope::default(), RecordScope::default(), threads).unwrap()
    };
    assert_eq!(plan(1).ranges(), 1);
    assert!(Arc::new(plan(4)).ranges() > 1);
    let rows = root.reader().query().select(&["x"]).unwrap().value;
    assert_eq!(rows.len(), 60_000);
    assert!(rows.iter().all(|row| row.fields["x"] == Scalar::Int(i64::try_from(row.node.seq()).unwrap())));
    let table = root.reader().sql("select count(*), sum(x), min(seq), max(seq) from nodes").unwrap();
    assert_eq!(table.rows().next().unwrap()[..2], [Scalar::Int(60_000), Scalar::Int(60_000 * 59_999 / 2)]);
}
