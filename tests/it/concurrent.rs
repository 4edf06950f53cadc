//! Several processes on one root.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use waycairn_dag::Node;
use waycairn_store::{Expr, ObjectReader, ObjectStore, Scalar, StoreOptions};
use waycairn_tests::Root;

use crate::program;

const BATCHES: u64 = 6;
const RECORDS: u64 = 50;
/// Tells a child that it is a writer: `<process index>:<root>`.
const WRITER: &str = "WAYCAIRN_TEST_WRITER";

fn node(name: &str, seq: u64) -> Node {
    Node::new(name, "0123456789abcdef", seq).expect("a node")
}

/// The body of a child process; without the variable it is not one, and there is nothing to do.
#[test]
fn child_writer() {
    let Ok(order) = std::env::var(WRITER) else { return };
    let (process, root) = order.split_once(':').expect("an order");
    let process: i64 = process.parse().expect("a process index");
    let options = StoreOptions { process, ..StoreOptions::default() };
    let store = ObjectStore::open(Path::new(root), options).expect("the store opens");
    for batch in 0..BATCHES {
        for record in 0..RECORDS {
            let seq = batch * RECORDS + record;
            let own = format!("only/{process}");
            let fields = [("shared", Scalar::Int(process)), (own.as_str(), Scalar::Float(seq as f64))];
            store.value(&node("shared-run", seq), &fields).expect("a record");
        }
        store.flush().expect("a flush");
    }
    store.close().expect("a close");
}

fn writer(process: i64, root: &Path) -> Child {
    Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "concurrent::child_writer", "--nocapture"])
        .env(WRITER, format!("{process}:{}", root.display()))
        .stdout(Stdio::null())
        .spawn()
        .expect("a child")
}

/// (writer, write) of every physical record.
fn records(reader: &ObjectReader) -> Vec<(String, i64)> {
    let table = reader.sql("SELECT _x_writer, _x_write FROM records").expect("records");
    table
        .rows()
        .map(|row| match (&row[0], &row[1]) {
            (Scalar::Text(writer), Scalar::Int(write)) => (writer.clone(), *write),
            other => panic!("a record without its own identity: {other:?}"),
        })
        .collect()
}

#[test]
fn identity_case_12_three_processes_publish_while_a_reader_polls() {
    let folder = tempfile::tempdir().expect("a folder");
    let root: PathBuf = folder.path().join("root");
    ObjectStore::open(&root, StoreOptions::default()).expect("a root").close().expect("closed");
    let reader = ObjectReader::open(&root).expect("a reader");
    let mut children: Vec<Child> = (0..3).map(|process| writer(process, &root)).collect();
    let mut seen = 0;
    loop {
        let done = children.iter_mut().all(|child| child.try_wait().expect("wait").is_some());
        let rows = reader.query().count().expect("the reader never fails").value;
        assert!(rows >= seen, "{rows} nodes after {seen}");
        seen = rows;
        if done {
            break;
        }
    }
    for mut child in children {
        assert!(child.wait().expect("wait").success(), "a writer failed");
    }
    let found = records(&reader);
    let distinct: BTreeSet<&(String, i64)> = found.iter().collect();
    assert_eq!(distinct.len() as u64, 3 * BATCHES * RECORDS, "all arrive");
    assert_eq!(found.len(), distinct.len(), "exactly once");

    // identity case 7 in the same root: fields merge, process 0 wins the shared key.
    let row = reader.node(&node("shared-run", 17)).expect("an answer").expect("the node");
    for process in 0..3 {
        assert!(row.fields.contains_key(&format!("only/{process}")), "{:?}", row.fields);
    }
    assert!(row.fields["shared"].same(&Scalar::Int(0)), "{:?}", row.fields);
    let losers = reader.query().expression(Expr::parse("shared = 1").expect("an expression")).count();
    assert_eq!(losers.expect("an answer").value, 0, "a predicate sees only the winner");
}

#[test]
fn two_copies_of_a_root_merge_by_copying_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    for (process, root) in [(0, &one), (1, &two)] {
        assert!(writer(process, root).wait().expect("wait").success());
    }
    for entry in std::fs::read_dir(two.join("objects/values")).expect("parts") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), one.join("objects/values").join(entry.file_name())).expect("a copy");
    }
    let reader = ObjectReader::open(&one).expect("a reader");
    let row = reader.node(&node("shared-run", 3)).expect("an answer").expect("the node");
    assert!(row.fields.contains_key("only/0") && row.fields.contains_key("only/1"), "{:?}", row.fields);
    assert_eq!(records(&reader).len() as u64, 2 * BATCHES * RECORDS);
}

#[test]
fn branches_keep_their_bases_while_the_run_withdraws() {
    const BRANCHES: usize = 6;
    let root = Root::new(program());
    let small = ["--threads", "1", "--set", "model.width=16", "--set", "eval_every=off"];
    let trunk = ["train", "--name", "trunk", "--steps", "100000", "--set", "checkpoint_every=1"];
    let words = [&trunk[..], &small[..], &["--set", "keep_last=1"]].concat();
    let quiet = |command: &mut Command| command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut trainer = quiet(&mut root.command(&words)).expect("a launch");
    let reader = ObjectReader::open(&root.path()).expect("a reader");
    let newest = || {
        let run = reader.runs_of("trunk").ok()?.into_iter().next()?;
        run.last.at(*run.checkpoints.last()?).ok()
    };
    let mut bases = Vec::new();
    for attempt in 0..60 {
        if bases.len() == BRANCHES {
            break;
        }
        let Some(base) = newest() else {
            std::thread::sleep(std::time::Duration::from_millis(50));
            continue;
        };
        let (name, steps) = (format!("branch-{attempt}"), (base.seq() + 2).to_string());
        let base_text = base.to_string();
        let branch = ["train", "--branch", &base_text, "--name", &name, "--steps", &steps];
        let run = root.run(&[&branch[..], &["--threads", "1", "--set", "keep_last=off"]].concat());
        match run.status {
            Some(0) => bases.push(base),
            // It went before it was opened, and that is what is said.
            _ => run.fails_with(1, &["checkpoint", "the nearest with one"]),
        }
    }
    trainer.kill().expect("kill -9");
    trainer.wait().expect("wait");
    assert!(bases.len() >= 2, "{} branches began", bases.len());
    for base in bases {
        assert!(reader.checkpoint(&base).expect("an answer").is_some(), "{base} lost its checkpoint");
    }
}
