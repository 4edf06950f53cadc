//! Acceptance cases of the specification.

use super::kit::{Record, Root, Style, node, record};
use crate::field::Scalar;
use crate::query::{Comparison, Diagnostic, Expr, Order, QueryError};
use crate::schema::{ARTIFACT, BLOB, CHECKPOINT, EXECUTION, JOB, PARENT, TAG};

fn float(value: f64) -> Scalar {
    Scalar::Float(value)
}

#[test]
fn identity_case_07_process_zero_wins_and_a_predicate_sees_only_the_winner() {
    let mut root = Root::new();
    let first =
        [record("r", 0, 1, &[("train/loss", float(2.4))]), record("r", 0, 5, &[("train/loss", float(2.1))])];
    let second = [record("r", 0, 9, &[("train/loss", float(9.0)), ("eval/accuracy", float(0.6))]).process(1)];
    root.part("part-a.parquet", &second, Style::default());
    root.part("part-b.parquet", &first, Style::default());
    let reader = root.reader();
    let row = reader.query().select_all().unwrap().value.remove(0);
    assert_eq!(row.fields["train/loss"], float(2.1));
    assert_eq!(row.fields["eval/accuracy"], float(0.6));
    assert_eq!(row.written, Some(9));
    let above = |bound: f64| {
        reader.query().field("train/loss").compare(Comparison::Greater, bound).count().unwrap().value
    };
    assert_eq!((above(2.0), above(2.2)), (1, 0));
}

#[test]
fn identity_case_08_names_and_keys_of_any_text_are_exact() {
    let names =
        ["it's \"quoted\"; drop table nodes --", "a:b:c", "\u{4e2d}\u{6587} \u{1f980}", "' or '1' = '1"];
    let keys = ["back`tick", "back\\slash", "\u{4e2d}/\u{6587}", "a \"b\" 'c'"];
    let records: Vec<Record> = names
        .iter()
        .enumerate()
        .map(|(place, name)| record(name, 0, 1, &[(keys[place], "it's; --".into())]))
        .collect();
    let root = Root::of(&records);
    let reader = root.reader();
    for (name, key) in names.iter().zip(keys) {
        assert_eq!(reader.query().name(name).all().unwrap().value, [node(name, 0)]);
        let quoted = format!("\"{}\" = 'it''s; --'", key.replace('"', "\"\""));
        let found = reader.query().expression(Expr::parse(&quoted).unwrap()).select(&[key]).unwrap().value;
        assert_eq!(found[0].node, node(name, 0));
        assert_eq!(found[0].fields[key], Scalar::from("it's; --"));
        let column = format!("{key}::text").replace('"', "\"\"");
        let literal = name.replace('\'', "''");
        let table = reader.sql(&format!("select \"{column}\" from nodes where name = '{literal}'")).unwrap();
        assert_eq!(table.rows().collect::<Vec<_>>(), [vec![Scalar::from("it's; --")]]);
    }
}

#[test]
fn identity_case_09_two_parents_and_duplicates_give_each_node_once() {
    let parents = [node("base", 7), node("a-base", 3)];
    let with_parent = |seq, write, parent: &str| record("r", seq, write, &[(PARENT, parent.into())]);
    let records = [
        with_parent(0, 1, parents[0].address().as_str()),
        with_parent(0, 2, parents[1].address().as_str()),
        with_parent(0, 3, parents[0].address().as_str()),
        with_parent(1, 4, node("r", 0).address().as_str()),
        with_parent(1, 4, node("r", 0).address().as_str()),
        with_parent(2, 5, "no address"),
    ];
    let mut root = Root::new();
    root.part("part-a.parquet", &records[..3], Style::default());
    root.part("part-b.parquet", &records, Style { sorted: true, declared: false, ..Style::default() });
    let reader = root.reader();
    assert_eq!(reader.query().all().unwrap().value, [node("r", 0), node("r", 1), node("r", 2)]);
    let mut expected = parents.to_vec();
    expected.sort_by_key(waycairn_dag::Node::address);
    assert_eq!(reader.parents(&node("r", 0)).unwrap(), expected);
    assert_eq!(reader.parents(&node("r", 1)).unwrap(), [node("r", 0)]);
    assert!(reader.parents(&node("r", 2)).unwrap().is_empty());
    assert!(reader.parents(&node("unknown", 0)).unwrap().is_empty());
    assert_eq!(reader.edges().unwrap().len(), 3);
    let view = reader.node(&node("r", 0)).unwrap().unwrap();
    assert_eq!((view.parents, view.children), (expected, vec![node("r", 1)]));
}

#[test]
fn identity_case_10_each_winner_shows_its_own_type() {
    let big = (1 << 53) + 1;
    let mut root = Root::new();
    root.part(
        "part-a.parquet",
        &[record("r", 0, 1, &[("a", Scalar::Int(big)), ("b", Scalar::Bool(true)), ("i", Scalar::Int(1))])],
        Style::default(),
    );
    root.part(
        "part-b.parquet",
        &[record("r", 1, 2, &[("a", float(0.5)), ("b", Scalar::Bool(false)), ("i", Scalar::Int(2))])],
        Style::default(),
    );
    root.part(
        "part-c.parquet",
        &[record("r", 2, 3, &[("a", "oops".into()), ("t", "x".into())])],
        Style::default(),
    );
    let reader = root.reader();
    let rows = reader.query().select(&["a"]).unwrap().value;
    let values: Vec<Scalar> = rows.iter().map(|row| row.fields["a"].clone()).collect();
    assert_eq!(values, [Scalar::Int(big), float(0.5), "oops".into()]);
    // One string written in one run does not break a number for the others.
    let few = reader.query().expression(Expr::parse("a < 2.5").unwrap()).all().unwrap().value;
    assert_eq!(few, [node("r", 1)]);
    let exact =
        |value: i64| reader.query().field("a").compare(Comparison::Equal, value).count().unwrap().value;
    assert_eq!((exact(big), exact(big - 1)), (1, 0));
    let texts = |key: &str| reader.query().field(key).compare(Comparison::Equal, "oops").all().unwrap().value;
    assert_eq!((texts("a"), texts("a::text")), (vec![node("r", 2)], vec![node("r", 2)]));

    let table = reader.query().batches(&["a", "b", "i", "t"]).unwrap();
    let columns = ["node", "name", "nonce", "seq", "a", "a::text", "b", "i", "t::text"];
    assert_eq!(table.columns(), columns);
    let shown: Vec<Vec<Scalar>> = table.rows().map(|row| row[4..].to_vec()).collect();
    let null = || Scalar::Null;
    assert_eq!(
        shown[0],
        [float(9_007_199_254_740_992.0), null(), Scalar::Bool(true), Scalar::Int(1), null()]
    );
    assert_eq!(shown[1], [float(0.5), null(), Scalar::Bool(false), Scalar::Int(2), null()]);
    assert_eq!(shown[2], [null(), "oops".into(), null(), null(), "x".into()]);
    assert_eq!(table.diagnostics, [Diagnostic::InexactInteger { key: "a".into(), value: big }]);
    let sql = reader.sql("select a, \"a::text\" from nodes order by seq").unwrap();
    assert_eq!(sql.rows().collect::<Vec<_>>(), shown.iter().map(|row| row[..2].to_vec()).collect::<Vec<_>>());
    assert_eq!(sql.diagnostics, table.diagnostics);
    let kinds = reader.schema().unwrap();
    assert_eq!(kinds.iter().map(|info| info.key.as_str()).collect::<Vec<_>>(), ["a", "b", "i", "t"]);
    assert!(kinds[0].ints && kinds[0].floats && kinds[0].texts && !kinds[0].bools);
}

#[test]
fn identity_case_10_text_is_not_compared_with_numbers() {
    let root = Root::of(&[record("r", 0, 1, &[("t", "1".into()), ("x", Scalar::Int(1))])]);
    let reader = root.reader();
    let error = reader.query().field("t").compare(Comparison::Less, 2).all().unwrap_err();
    assert!(matches!(error, QueryError::TextOnly { .. }));
    assert_eq!(
        error.to_string(),
        "the field `t` holds only text, and an integer `2` is compared with it; put the value in quotes"
    );
    // Wherever it stands.
    assert!(reader.query().expression(Expr::parse("has x or not t = 2").unwrap()).all().is_err());
    let answer = reader.query().field("x").compare(Comparison::NotEqual, "1").all().unwrap();
    assert!(answer.value.is_empty());
    assert_eq!(answer.diagnostics, [Diagnostic::NoText { key: "x".into() }]);
}

#[test]
fn identity_case_13_many_long_names_project_and_sort() {
    let key = |number: usize| format!("metrics/{}/{number:04}", "long-".repeat(20));
    let mut root = Root::new();
    for process in 0..2 {
        let records: Vec<Record> = (0..30_u32)
            .map(|seq| {
                let own = (0..1500).filter(|number| number % 30 == seq as usize).map(key);
                let value = f64::from(seq) + f64::from(u32::try_from(process).unwrap()) * 0.25;
                let mut fields: Vec<(String, Scalar)> = own.map(|key| (key, float(value))).collect();
                fields.push((key(7), float(value)));
                let mut record = record("r", u64::from(seq), i64::from(seq), &[]).process(process);
                record.fields = fields;
                record
            })
            .collect();
        root.part(&format!("part-{process}.parquet"), &records, Style::default());
    }
    let reader = root.reader();
    assert_eq!(reader.schema().unwrap().len(), 1500);
    let rows = reader.query().sort(key(7).as_str(), Order::Descending).select(&[&key(7)]).unwrap().value;
    let seqs: Vec<u64> = rows.iter().map(|row| row.node.seq()).collect();
    assert_eq!(seqs, (0..30).rev().collect::<Vec<u64>>());
    assert!(rows.iter().all(|row| row.fields.len() == 1));
    let all = reader.query().select_all().unwrap().value;
    assert_eq!(all.iter().map(|row| row.fields.len()).sum::<usize>(), 30 * 51 - 1);
    assert!(all.iter().all(|row| {
        row.fields.values().all(|value| *value == float(f64::from(u32::try_from(row.node.seq()).unwrap())))
    }));
}

#[test]
fn identity_case_14_only_the_folded_value_passes() {
    let root = Root::of(&[
        record("r", 0, 1, &[("eval/accuracy", float(0.95))]),
        record("r", 0, 2, &[("eval/accuracy", float(0.1))]),
        record("r", 1, 3, &[("eval/accuracy", float(0.97))]),
        record("r", 2, 4, &[("other", float(1.0))]),
    ]);
    let mut query = root.reader().query();
    let passed =
        query.has("eval/accuracy").field("eval/accuracy").compare(Comparison::Greater, 0.9).all().unwrap();
    assert_eq!(passed.value, [node("r", 1)]);
    assert!(passed.diagnostics.is_empty());
}

#[test]
fn identity_case_16_an_executed_builder_asks_for_everything() {
    let root = Root::of(&[record("a", 0, 1, &[("x", float(1.0))]), record("b", 0, 2, &[("x", float(2.0))])]);
    let mut query = root.reader().query();
    query.name("a").field("x").compare(Comparison::Less, 1.5).limit(1).sort("x", Order::Descending);
    assert_eq!(query.all().unwrap().value, [node("a", 0)]);
    assert_eq!(query.all().unwrap().value, [node("a", 0), node("b", 0)]);
    assert_eq!(query.name("b").count().unwrap().value, 1);
    assert_eq!(query.count().unwrap().value, 2);
    assert!(query.execution("nobody").select_all().unwrap().value.is_empty());
    assert_eq!(query.select_all().unwrap().value.len(), 2);
    // A question that failed is spent too.
    assert!(query.expression(!Expr::tag("t")).all().is_err());
    assert_eq!(query.batches(&[]).unwrap().num_rows(), 2);
}

#[test]
fn store_7_identity_case_17_a_copied_tree_resolves_its_blobs_there() {
    let root = Root::new();
    let (checkpointed, failed) = (node("r", 5), node("r", 6));
    let store = crate::ObjectStore::open(root.path(), crate::StoreOptions::default()).unwrap();
    let staged = store.stage_folder(&checkpointed, "checkpoint").unwrap();
    waycairn_durable::write_file(
        &staged.path().join("weights"),
        b"12345",
        waycairn_durable::Durability::Regenerable,
    )
    .unwrap();
    waycairn_durable::write_file(
        &staged.path().join("manifest.json"),
        b"{}",
        waycairn_durable::Durability::Regenerable,
    )
    .unwrap();
    staged.commit(crate::Marker::Checkpoint, &[("size", 5_i64.into())]).unwrap();
    // A body that fails drops its stage.
    drop(store.stage_folder(&failed, "checkpoint").unwrap());
    store.close().unwrap();

    let copy = tempfile::tempdir().unwrap();
    let moved = copy.path().join("moved");
    copy_tree(root.path(), &moved);
    for root in [root.path(), &moved] {
        let reader = crate::ObjectReader::open(root).unwrap();
        assert_eq!(reader.query().all().unwrap().value, std::slice::from_ref(&checkpointed));
        assert!(reader.node(&failed).unwrap().is_none());
        assert!(reader.parents(&failed).unwrap().is_empty());
        let folder = reader.checkpoint(&checkpointed).unwrap().unwrap();
        assert!(folder.starts_with(root) && folder.join("weights").is_file());
        assert!(reader.checkpoint(&failed).unwrap().is_none());
        let view = reader.node(&checkpointed).unwrap().unwrap();
        let info = view.checkpoint.unwrap();
        assert!(info.complete);
        assert_eq!(info.bytes, 7);
        assert_eq!(info.files, [("manifest.json".to_owned(), 2), ("weights".to_owned(), 5)]);
        assert_eq!(view.blob, folder.parent().map(std::path::Path::to_owned));
        assert_eq!(view.files, []);
        assert_eq!(view.fields["size"], Scalar::Int(5));
    }
    // Parts alone, mirrored elsewhere, still find the blobs of the root.
    let mirror = tempfile::tempdir().unwrap();
    copy_tree(&root.path().join("objects/values"), mirror.path());
    let reader = crate::ObjectReader::with_values(root.path(), mirror.path()).unwrap();
    assert!(reader.checkpoint(&checkpointed).unwrap().unwrap().starts_with(root.path()));
}

fn copy_tree(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn identity_case_18_the_latest_is_the_node_that_was_written_last() {
    let root = Root::of(&[
        record("r", 0, 1, &[(CHECKPOINT, Scalar::Bool(true))]),
        record("r", 1, 5, &[]),
        record("r", 2, 7, &[]),
        record(
            "r",
            0,
            9,
            &[(ARTIFACT, "summary/attention".into()), (BLOB, node("r", 0).address().as_str().into())],
        ),
    ]);
    let reader = root.reader();
    assert_eq!(reader.query().latest().first().unwrap().value, Some(node("r", 0)));
    assert_eq!(reader.query().latest().all().unwrap().value, [node("r", 0)]);
    assert_eq!(reader.query().latest().count().unwrap().value, 1);
    assert_eq!(
        reader.query().seq_range(1..=2).latest().batches(&[]).unwrap().rows().next().unwrap()[3],
        Scalar::Int(2)
    );
    assert_eq!(reader.query().artifact_named("attention").all().unwrap().value, [node("r", 0)]);
    assert!(reader.query().artifact_named("atten").all().unwrap().value.is_empty());
    assert_eq!(reader.query().checkpoint().artifact().count().unwrap().value, 1);
    // The position decides between equal writes.
    let root = Root::of(&[record("r", 3, 4, &[]), record("r", 5, 4, &[]), record("q", 5, 4, &[])]);
    assert_eq!(root.reader().query().latest().first().unwrap().value, Some(node("q", 5)));
}

#[test]
fn an_unknown_field_gives_no_rows_and_says_what_is_near() {
    let root = Root::of(&[record("r", 0, 1, &[("train/loss", float(1.0)), ("val/loss", float(1.0))])]);
    let reader = root.reader();
    let unknown = |key: &str, nearest: &[&str]| Diagnostic::UnknownField {
        key: key.into(),
        nearest: nearest.iter().map(|name| (*name).to_owned()).collect(),
    };
    let answer = reader.query().select(&["train/los"]).unwrap();
    assert!(answer.value.is_empty());
    assert_eq!(answer.diagnostics, [unknown("train/los", &["train/loss"])]);
    let answer = reader.query().expression(Expr::parse("has zzz and seq = 0").unwrap()).all().unwrap();
    assert!(answer.value.is_empty());
    assert_eq!(answer.diagnostics, [unknown("zzz", &[])]);
    let table = reader.query().batches(&["train/loss", "vall/loss"]).unwrap();
    assert_eq!((table.num_rows(), table.columns().len()), (0, 6));
    assert_eq!(table.diagnostics.len(), 1);
    // Inside of `or` and `not` it is simply missing.
    let answer = reader.query().expression(Expr::parse("zzz = 1 or not zzz = 1").unwrap()).all().unwrap();
    assert_eq!((answer.value.len(), answer.diagnostics.len()), (1, 0));
    let answer = reader.query().missing("zzz").all().unwrap();
    assert_eq!((answer.value.len(), answer.diagnostics.len()), (1, 0));
}

#[test]
fn reserved_columns_need_raw() {
    let root = Root::of(&[record(
        "r",
        0,
        1,
        &[("a", float(1.0)), (TAG, "t".into()), (JOB, "gpt@1".into()), (EXECUTION, "e".into())],
    )]);
    let reader = root.reader();
    let error = reader.query().select(&["_x_tag"]).unwrap_err();
    assert!(matches!(error, QueryError::Reserved { ref key } if key == "_x_tag"));
    let row = reader.query().raw().select(&["_x_tag", "_x_prc_idx"]).unwrap().value.remove(0);
    assert_eq!(row.fields.len(), 2);
    assert_eq!(row.fields["_x_tag"], Scalar::from("t"));
    assert_eq!(reader.query().select_all().unwrap().value[0].fields.len(), 1);
    let all = reader.query().raw().select_all().unwrap().value.remove(0).fields;
    assert_eq!(all["_x_write"], Scalar::Int(1));
    assert_eq!(all.len(), 1 + 9);
    assert_eq!(reader.query().job("gpt@1").count().unwrap().value, 1);
    assert_eq!(reader.query().job("gpt").count().unwrap().value, 0);
}

#[test]
fn a_blob_that_leads_out_of_the_root_is_refused() {
    for path in ["/etc", "../x", "a/../../b", ""] {
        let root = Root::of(&[record("r", 0, 1, &[(BLOB, path.into()), ("a", float(1.0))])]);
        let reader = root.reader();
        let error = reader.query().select(&["blob"]).unwrap_err();
        assert!(matches!(error, QueryError::UnsafePath { .. }), "{path}: {error}");
        assert!(matches!(reader.node(&node("r", 0)).unwrap_err(), QueryError::UnsafePath { .. }));
        assert_eq!(reader.query().select(&["a"]).unwrap().value.len(), 1);
    }
    // A link inside of the root that leads out of it.
    let outside = tempfile::tempdir().unwrap();
    std::fs::create_dir(outside.path().join("checkpoint")).unwrap();
    let address = node("r", 0).address();
    let root =
        Root::of(&[record("r", 0, 1, &[(BLOB, address.as_str().into()), (CHECKPOINT, Scalar::Bool(true))])]);
    let blobs = root.path().join("objects/blobs");
    std::fs::create_dir_all(&blobs).unwrap();
    std::os::unix::fs::symlink(outside.path(), blobs.join(address.as_str())).unwrap();
    assert!(matches!(root.reader().checkpoint(&node("r", 0)).unwrap_err(), QueryError::UnsafePath { .. }));
    assert!(matches!(root.reader().node(&node("r", 0)).unwrap_err(), QueryError::UnsafePath { .. }));
}

#[test]
fn a_field_called_like_a_fixed_column_keeps_its_values() {
    let root =
        Root::of(&[record("r", 3, 1, &[("seq", float(0.5)), ("blob", "user".into()), ("tag", float(7.0))])]);
    let reader = root.reader();
    let row = reader.query().select(&["field:seq", "field:blob", "field:tag"]).unwrap().value.remove(0);
    assert_eq!((row.fields["seq"].clone(), row.fields["blob"].clone()), (float(0.5), "user".into()));
    let table = reader.query().batches(&["field:seq", "field:blob"]).unwrap();
    assert_eq!(table.columns(), ["node", "name", "nonce", "seq", "field:seq", "blob::text"]);
    let sql = reader.sql("select seq, \"field:seq\" from nodes").unwrap();
    assert_eq!(sql.rows().next().unwrap(), [Scalar::Int(3), float(0.5)]);
    assert_eq!(
        reader
            .query()
            .expression(Expr::parse("field:seq = 0.5 and field:tag = 7 and seq = 3").unwrap())
            .count()
            .unwrap()
            .value,
        1
    );
}
