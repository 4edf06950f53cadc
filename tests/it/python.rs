//! What Python reads of our files. A test here needs packages of Python, and says on standard error that it is skipped
//! where they are missing: the interpreter is `WAYCAIRN_BENCH_PYTHON`, else `python3`.

use std::{collections::BTreeMap, io::Write, path::Path, process::Command, sync::Arc};

use arrow::{
    array::{ArrayRef, Float64Array, Int64Array, StringArray},
    record_batch::RecordBatch,
};
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};
use waycairn_dag::Node;
use waycairn_store::{NdArray, ObjectStore, Scalar, StoreOptions};
use waycairn_tests::{Root, Run};

use crate::{program, trained};

/// Runs a program in a folder and returns the JSON that it printed; `None` where Python or a package is missing.
fn python(test: &str, packages: &[&str], program: &str, folder: &Path) -> Option<Value> {
    let interpreter = std::env::var("WAYCAIRN_BENCH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let python =
        |program: &str| Command::new(&interpreter).args(["-c", program]).current_dir(folder).output();
    let imports = format!("import {}", packages.join(", "));
    let missing = match python(&imports) {
        Err(error) => Some(error.to_string()),
        Ok(output) if !output.status.success() => Some(Run::from(output).err),
        Ok(_) => None,
    };
    if let Some(why) = missing {
        let why = why.trim_end().lines().last().unwrap_or_default();
        // Not by a macro, whose output a test that succeeds keeps for itself.
        let line = format!("SKIPPED {test}: `{interpreter}` cannot `{imports}`: {why}\n");
        std::io::stderr().write_all(line.as_bytes()).expect("standard error");
        return None;
    }
    let run = Run::from(python(program).expect("Python starts"));
    assert_eq!(run.status, Some(0), "{program}\n{run}");
    Some(run.json())
}

#[test]
fn python_opens_the_weights_of_a_checkpoint_and_an_export() {
    let root = trained();
    let blob = root.json(&["show", "shakespeare:19"])["blob"].as_str().map(std::path::PathBuf::from);
    let stored = blob.expect("a blob").join("checkpoint/model.safetensors");
    let exported = root.folder().join("python.safetensors");
    let words = ["export", "shakespeare:19", "--format", "nanogpt", "-o", &exported.display().to_string()];
    assert_eq!(root.run(&words).status, Some(0));
    for (file, tied) in [(stored, 0), (exported, 1)] {
        let program = format!(
            "import json\nfrom safetensors.numpy import load_file\nfile = load_file({:?})\n\
             print(json.dumps({{name: [list(t.shape), str(t.dtype), float(t.astype('f8').sum())] for name, t in \
             file.items()}}))",
            file.display().to_string()
        );
        let test = "python_opens_the_weights_of_a_checkpoint_and_an_export";
        let Some(read) = python(test, &["numpy", "safetensors"], &program, root.folder()) else { return };
        let bytes = std::fs::read(&file).expect("the weights");
        let tensors = safetensors::SafeTensors::deserialize(&bytes).expect("tensors");
        assert_eq!(read.as_object().map(serde_json::Map::len), Some(tensors.len()));
        assert_eq!(tensors.len(), 2 + 2 * 6 + 1 + tied);
        for (name, view) in tensors.iter() {
            assert_eq!(read[name][0], serde_json::json!(view.shape()), "{name}");
            assert_eq!(read[name][1], "float32", "{name}");
            let values = view.data().chunks_exact(4).map(|bytes| bytes.try_into().expect("four bytes"));
            let sum: f64 = values.map(|bytes| f64::from(f32::from_le_bytes(bytes))).sum();
            let theirs = read[name][2].as_f64().expect("a sum");
            assert!(
                (sum - theirs).abs() < 1e-9 * (1.0 + view.data().len() as f64),
                "{name}: {sum}, {theirs}"
            );
        }
    }
}

/// The one block of a language in the page about the format.
fn example(language: &str) -> &'static str {
    let page = include_str!("../../docs/format.md");
    let fence = format!("```{language}\n");
    let mut blocks = page.split(&fence).skip(1);
    let block = blocks.next().and_then(|block| block.split_once("```")).expect("an example").0;
    assert!(blocks.next().is_none(), "one example in {language}");
    block
}

fn node(seq: u64) -> Node {
    Node::new("fold", "0123456789abcdef", seq).expect("a node")
}

#[test]
fn duckdb_folds_a_field_with_the_statement_of_the_page_about_the_format() {
    let (root, ours) = folded();
    let statement = statement("sql", &root);
    let program = format!("import duckdb, json\nprint(json.dumps(duckdb.sql({statement:?}).fetchall()))");
    let test = "duckdb_folds_a_field_with_the_statement_of_the_page_about_the_format";
    let Some(found) = python(test, &["duckdb"], &program, root.folder()) else { return };
    assert_eq!(found, ours);
}

#[test]
fn clickhouse_folds_a_field_with_the_statement_of_the_page_about_the_format() {
    let (root, ours) = folded();
    let statement = statement("clickhouse", &root);
    let program = format!(
        "import chdb, json\nrows = json.loads(str(chdb.query({statement:?}, 'JSONCompact')))['data']\n\
         print(json.dumps([[name, nonce, int(seq), loss if loss is None else float(loss)] for name, nonce, seq, loss in rows]))"
    );
    let test = "clickhouse_folds_a_field_with_the_statement_of_the_page_about_the_format";
    let Some(found) = python(test, &["chdb"], &program, root.folder()) else { return };
    assert_eq!(found, ours);
}

#[test]
fn polars_reads_parts_of_different_columns_as_the_page_about_the_format_says() {
    let (root, _) = folded();
    let page = include_str!("../../docs/format.md");
    let call = page.split('`').find(|code| code.starts_with("pl.concat(")).expect("the call");
    let parts = root.path().join("objects/values/part-*.parquet").display().to_string();
    let program = format!(
        "import glob, json, polars as pl\npaths = glob.glob({parts:?})\n\
         frame = {call}.collect()\nprint(json.dumps([frame.height, frame['train/loss'].count()]))"
    );
    let test = "polars_reads_parts_of_different_columns_as_the_page_about_the_format_says";
    let Some(found) = python(test, &["polars"], &program, root.folder()) else { return };
    assert_eq!(found, json!([10, 8]));
}

/// The statement of the page about the format in one language, for this root.
fn statement(language: &str, root: &Root) -> String {
    let folder = root.path().display().to_string();
    let statement = example(language).replace("outputs/default", &folder);
    assert!(statement.contains(&folder));
    statement
}

/// A root of several parts with several records of one node, of several types, and one of another program, and the numbers
/// in it as the program folds them.
fn folded() -> (Root, Value) {
    let root = Root::new(program());
    let open = |process| {
        ObjectStore::open(&root.path(), StoreOptions { process, ..StoreOptions::default() }).expect("a store")
    };
    let (zero, one) = (open(0), open(1));
    let record = |store: &ObjectStore, seq, loss: f64| {
        store.value(&node(seq), &[("train/loss", Scalar::Float(loss))]).expect("a record");
        store.flush().expect("a flush");
    };
    record(&zero, 0, 2.4);
    record(&zero, 0, 2.1);
    record(&one, 0, 9.0);
    record(&one, 1, 8.5);
    record(&zero, 2, 1.5);
    zero.value(&node(2), &[("note", "later, and without a loss".into())]).expect("a record");
    zero.value(&node(3), &[("note", "no loss at all".into())]).expect("a record");
    zero.flush().expect("a flush");
    zero.value(&node(4), &[("train/loss", Scalar::Int(3))]).expect("a record");
    zero.flush().expect("a flush");
    zero.value(&node(5), &[("train/loss", "diverged".into())]).expect("a record");
    zero.flush().expect("a flush");
    foreign(&root);
    let ours = root.json(&["query", "--keys", "train/loss"]);
    let ours = ours.as_array().expect("rows").iter();
    let ours: Vec<Value> =
        ours.map(|row| json!([row["name"], row["nonce"], row["seq"], row["train/loss"].as_f64()])).collect();
    assert_eq!((ours[0][3].as_f64(), ours.len()), (Some(2.1), 6));
    (root, Value::Array(ours))
}

/// A part of another program: a loss of the first node, without a stamp.
fn foreign(root: &Root) {
    let columns: [(&str, ArrayRef); 4] = [
        ("_x_name", Arc::new(StringArray::from(vec!["fold"]))),
        ("_x_nonce", Arc::new(StringArray::from(vec!["0123456789abcdef"]))),
        ("_x_seq", Arc::new(Int64Array::from(vec![0]))),
        ("train/loss", Arc::new(Float64Array::from(vec![77.0]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    let path = root.path().join("objects/values/part-foreign.parquet");
    let file = std::fs::File::create(path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("rows");
    writer.close().expect("a footer");
}

#[test]
fn python_reads_arrays_with_the_hook_of_the_page_about_the_format() {
    let root = Root::new(program());
    let store = ObjectStore::open(&root.path(), StoreOptions::default()).expect("a store");
    let bytes = [1.0_f32, 2.0, 3.0, 4.0, 5.0, -0.5].iter().flat_map(|value| value.to_le_bytes()).collect();
    let array = NdArray::new(vec![2, 3], "float32", bytes).expect("an array");
    store.artifact(&node(0), "summary", &[], &BTreeMap::from([("x", array)])).expect("an artifact");
    store.close().expect("a close");
    let view = store.reader().node(&node(0)).expect("an answer").expect("the node");
    let program = format!(
        "{}\nimport json\nx = payload['x']\nprint(json.dumps([x.shape, str(x.dtype), x.tolist()]))",
        example("python")
    );
    let test = "python_reads_arrays_with_the_hook_of_the_page_about_the_format";
    let folder = view.blob.expect("a blob");
    let Some(read) = python(test, &["msgpack", "numpy"], &program, &folder) else { return };
    assert_eq!(read, json!([[2, 3], "float32", [[1.0, 2.0, 3.0], [4.0, 5.0, -0.5]]]));
}
