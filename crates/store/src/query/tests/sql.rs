//! The tables of SQL.

use super::kit::{Root, Style, record};
use crate::field::Scalar;
use crate::query::QueryError;

fn root() -> Root {
    let mut root = Root::new();
    let float = Scalar::Float;
    root.part(
        "part-a.parquet",
        &[
            record("r", 0, 1, &[("x", float(1.0))]),
            record("r", 1, 2, &[("x", float(2.0)), ("y", "t".into())]),
        ],
        Style::default(),
    );
    root.part(
        "part-b.parquet",
        &[record("r", 0, 3, &[("x", float(5.0))]), record("s", 0, 4, &[("x", Scalar::Float(f64::NAN))])],
        Style::default(),
    );
    root
}

fn rows(root: &Root, text: &str) -> Vec<String> {
    let table = root.reader().sql(text).unwrap();
    table.rows().map(|row| row.iter().map(ToString::to_string).collect::<Vec<_>>().join("|")).collect()
}

#[test]
fn nodes_are_folded_and_records_are_not() {
    let root = root();
    assert_eq!(
        rows(&root, "select name, seq, x from nodes order by name, nonce, seq"),
        ["r|0|5", "r|1|2", "s|0|NaN"]
    );
    assert_eq!(
        rows(&root, "select _x_seq, x, _x_write from records where _x_name = 'r' order by _x_write"),
        ["0|1|1", "1|2|2", "0|5|3"]
    );
    assert_eq!(rows(&root, "select count(*), count(x), count(\"y::text\") from nodes"), ["3|3|1"]);
    assert_eq!(
        rows(&root, "select name, count(*) as n, max(seq) from nodes group by name having count(*) > 1"),
        ["r|2|1"]
    );
    assert_eq!(
        rows(&root, "select n.x from nodes n join nodes m on n.name = m.name and n.seq = m.seq + 1"),
        ["2"]
    );
    assert_eq!(rows(&root, "select x from nodes where seq = 0 and name in ('r') limit 1"), ["5"]);
    assert_eq!(rows(&root, "select upper(name) || '!' from nodes where seq between 1 and 7"), ["R!"]);
    assert_eq!(
        rows(&root, "select node, written, checkpoint from nodes where name = 's'"),
        [format!("{}|1970-01-01T00:00:00.000000Z|false", super::kit::node("s", 0).address())]
    );
    assert_eq!(rows(&root, "select x from nodes where seq > 0 or name = 's' order by x"), ["2", "NaN"]);
}

#[test]
fn identity_and_projection_reach_the_fold() {
    let root = root();
    let plan = |text: &str| rows(&root, &format!("explain {text}")).join("\n");
    let scoped = plan("select x from nodes where name = 's' and seq = 0");
    assert!(scoped.contains("FoldExec: parts=1"), "{scoped}");
    assert!(scoped.contains("columns=[x], condition="), "{scoped}");
    let ordered = plan("select name, nonce, seq from nodes order by name, nonce, seq");
    assert!(!ordered.contains("SortExec"), "{ordered}");
    let records = plan("select x from records where _x_name = 's'");
    assert!(records.contains("RecordsExec: parts=1"), "{records}");
}

#[test]
fn conditions_reach_the_fold_and_mean_what_they_mean_above_it() {
    let mut root = root();
    root.part("part-c.parquet", &[record("t", 0, 5, &[("z", 1.into()), ("x", 3.into())])], Style::default());
    let plan = |text: &str| rows(&root, &format!("explain {text}")).join("\n");
    let compared = plan("select name from nodes where x > 2.5 and seq = 0");
    assert!(!compared.contains("FilterExec"), "{compared}");
    assert!(compared.contains("columns=[name], condition=") && compared.contains("x@"), "{compared}");
    // Only what has the field is read.
    for text in ["z > 0", "z is not null", "z in (1, 2)", "z between 0 and 2", "z = 1 and x < 9"] {
        let scan = plan(&format!("select name from nodes where {text}"));
        assert!(scan.contains("FoldExec: parts=1"), "{text}: {scan}");
        assert_eq!(rows(&root, &format!("select name from nodes where {text}")), ["t"], "{text}");
    }
    for text in ["z is null", "z = 1 or x > 0", "not (z is not null)", "z is distinct from 1"] {
        let scan = plan(&format!("select name from nodes where {text}"));
        assert!(scan.contains("FoldExec: parts=3"), "{text}: {scan}");
    }
    // A barrier that the optimizer does not look through: there the plan above looks at every row.
    let above = "(select name, seq, x, z, \"y::text\", written from nodes order by name, seq limit 100) as n";
    for text in [
        "x > 2",
        "x >= 5",
        "x < 'NaN'::double",
        "x = 'NaN'::double",
        "x <> 5",
        "not x > 2",
        "x is null",
        "x > 1 and x < 5",
        "x > 4 or name = 's'",
        "z is null and x < 3",
        "coalesce(z, 7) = 7",
        "\"y::text\" like 't%'",
        "\"y::text\" <> 'u'",
        "abs(x - 3) < 2.5",
        "case when name = 'r' then x > 1 else true end",
        "x > seq",
        "x = (select max(seq) + 4 from nodes)",
        "x in (select x from records where _x_seq = 1)",
        "written > '1970-01-01T00:00:00.000000002Z'",
        "false",
        "null",
    ] {
        let ask = |from: &str| {
            rows(&root, &format!("select name, seq, x from {from} where {text} order by name, seq"))
        };
        assert_eq!(ask("nodes"), ask(above), "{text}");
        let count = rows(&root, &format!("select count(*) from nodes where {text}"));
        assert_eq!(count, [ask(above).len().to_string()], "{text}");
    }
    assert_eq!(rows(&root, "select name from nodes where x = 3 limit 1"), ["t"]);
    let error = root.reader().sql("select name from nodes where 1 / seq > 0").unwrap_err().to_string();
    assert!(error.to_lowercase().contains("divide by zero"), "{error}");
}

#[test]
fn sql_asks_and_never_changes() {
    let root = root();
    let refused = |text: &str| match root.reader().sql(text).unwrap_err() {
        QueryError::Sql { what, .. } => what,
        error => panic!("{error}"),
    };
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("copied");
    let copy = format!("copy nodes to '{}'", target.display());
    for text in [
        "create table t as select 1",
        "drop table nodes",
        "insert into nodes values (1)",
        "set x = 1",
        copy.as_str(),
    ] {
        refused(text);
    }
    assert!(!target.exists());
    assert!(refused("select zzz from nodes").contains("zzz"));
    assert!(refused("selec").to_lowercase().contains("sql"));
}

#[test]
fn sql_works_on_a_thread_of_another_runtime() {
    let root = root();
    let reader = root.reader();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let counted =
        runtime.block_on(async { reader.sql("select count(*) from nodes").unwrap().rows().next().unwrap() });
    assert_eq!(counted, [Scalar::Int(3)]);
    let current = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let counted = current.block_on(async { reader.query().count().unwrap().value });
    assert_eq!(counted, 3);
}

#[test]
fn an_untyped_null_is_missing_and_no_empty_text() {
    let table = root().reader().sql("select null as a, cast(null as int) as b").unwrap();
    let row = table.rows().next().unwrap();
    assert!(row.iter().all(Scalar::is_null), "{row:?}");
}

#[test]
fn a_deep_statement_has_an_answer_or_an_error_and_never_ends_the_process() {
    let root = root();
    let terms = |count: usize, term: &dyn Fn(usize) -> String, with: &str| {
        (0..count).map(term).collect::<Vec<_>>().join(with)
    };
    let seqs = |count| {
        let any = terms(count, &|seq| format!("seq={seq}"), " or ");
        format!("select count(*) from nodes where {any}")
    };
    let sum = |count| format!("select {} as x", terms(count, &|_| "1".to_owned(), "+"));
    assert_eq!(rows(&root, &seqs(200)), ["3"]);
    // Deep enough for the deep stack; the time grows with the square.
    assert_eq!(rows(&root, &seqs(400)), ["3"]);
    assert_eq!(rows(&root, &sum(600)), ["600"]);
    let long = format!("select {}", terms(200_000, &|n| format!("{n:06}"), ","));
    for text in [seqs(20_000), sum(30_000), long] {
        let error = root.reader().sql(&text).unwrap_err().to_string();
        assert!(error.contains("at most"), "{}", error.chars().take(200).collect::<String>());
    }
    let many = terms(20_000, &|seq| seq.to_string(), ",");
    assert_eq!(rows(&root, &format!("select count(*) from nodes where seq in ({many})")), ["3"]);
}

#[test]
fn a_field_with_a_slash_that_is_not_quoted_is_told_to_be() {
    let root = Root::of(&[record(
        "r",
        0,
        1,
        &[
            ("val/loss", Scalar::Float(1.0)),
            ("val/loss/ema-9", Scalar::Float(2.0)),
            ("m/000", Scalar::Float(3.0)),
            ("Head/Max", Scalar::Float(4.0)),
            ("note/text", "x".into()),
            ("val", Scalar::Float(5.0)),
        ],
    )]);
    let refused = |text: &str| root.reader().sql(text).unwrap_err().to_string();
    let told = |text: &str, quoted: &str| {
        let error = refused(text);
        let advice = format!("put it in double quotes: \"{quoted}\"");
        assert!(error.ends_with(&advice), "{text}: {error}");
        assert_eq!(root.reader().sql(&format!("select \"{quoted}\" from nodes")).unwrap().num_rows(), 1);
    };
    told("select val/loss from nodes", "val/loss");
    told("select name, 2*val/loss+1 from nodes", "val/loss");
    told("select min(n.m/000) from nodes n", "m/000");
    told("select val/loss/ema-9 from nodes", "val/loss/ema-9");
    told("select * from nodes where val/loss < 2 order by seq", "val/loss");
    told("select * from nodes order by Head/Max", "Head/Max");
    told("select note/text from nodes", "note/text::text");
    told("select m/000 from records", "m/000");
    // Only where such a field exists.
    for text in ["select val/los from nodes", "select zzz from nodes", "select train/loss from nodes"] {
        assert!(!refused(text).contains("double quotes"), "{text}: {}", refused(text));
    }
    let divided = root.reader().sql("select val/\"val/loss\" from nodes").unwrap();
    assert_eq!(divided.rows().next().unwrap(), [Scalar::Float(5.0)]);
}
