//! Ends a process at every fault point of publication, journal, artifact, checkpoint, compaction and recovery in turn, and
//! looks at what is left: nothing that was acknowledged is lost, readers have answers, and the next process goes on.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use waycairn_dag::Node;
use waycairn_store::{
    Freshness, JournalPolicy, Marker, ObjectReader, ObjectStore, ProblemKind, Scalar, StoreOptions,
    compact_root, fsck, recover,
};

const NONCE: &str = "0123456789abcdef";

fn node(name: &str, seq: u64) -> Node {
    Node::new(name, NONCE, seq).unwrap()
}

/// Says beside the root what was acknowledged: `records RUN N`, `artifact RUN`, `checkpoint RUN`.
fn acknowledge(root: &Path, what: &str) {
    let path = root.with_file_name("acknowledged");
    let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(format!("{what}\n").as_bytes()).unwrap();
}

fn options() -> StoreOptions {
    StoreOptions { journal: JournalPolicy::EachRecord, ..StoreOptions::default() }
}

fn record(store: &ObjectStore, name: &str, seq: u64) {
    store.value(&node(name, seq), &[("a", Scalar::Int(seq.cast_signed()))]).unwrap();
}

/// All that the store commits, in one order.
fn work(root: &Path, attempt: usize) {
    let run = format!("run-{attempt}");
    let store = ObjectStore::open(root, options()).unwrap();
    record(&store, &run, 0);
    // Into the journal, before it is published.
    let live = store.reader().with_freshness(Freshness::Live);
    let begin = Instant::now();
    while live.query().name(&run).count().unwrap().value == 0 {
        assert!(begin.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(1));
    }
    record(&store, &run, 1);
    store.flush().unwrap();
    acknowledge(root, &format!("records {run} 2"));
    store.artifact(&node(&run, 0), "summary", &[("n", 1.into())], &[1, 2, 3]).unwrap();
    store.flush().unwrap();
    acknowledge(root, &format!("artifact {run}"));
    let entry = store.stage_folder(&node(&run, 1), "checkpoint").unwrap();
    fs::write(entry.path().join("weights"), b"1 2 3").unwrap();
    entry.commit(Marker::Checkpoint, &[]).unwrap();
    store.flush().unwrap();
    acknowledge(root, &format!("checkpoint {run}"));
    record(&store, &run, 2);
    store.flush().unwrap();
    acknowledge(root, &format!("records {run} 3"));
    // It compacts its own parts.
    store.close().unwrap();
    for other in 0..3 {
        let name = format!("{run}-{other}");
        let store = ObjectStore::open(root, options()).unwrap();
        record(&store, &name, 0);
        store.close().unwrap();
        acknowledge(root, &format!("records {name} 1"));
    }
    compact_root(root).unwrap();
    recover(root).unwrap();
}

/// Writers that are gone, each with one part of two runs, and some that a compaction has hidden already.
fn writers(root: &Path) {
    for writer in 0..6 {
        // Nothing of them is in a journal: what is recovered may be there twice.
        let journal = JournalPolicy::Interval(Duration::from_secs(3_600));
        let store = ObjectStore::open(root, StoreOptions { journal, ..StoreOptions::default() }).unwrap();
        for run in ["kept", "removed"] {
            record(&store, run, writer);
        }
        store.flush().unwrap();
        record(&store, "kept", writer + 10);
        store.close().unwrap();
    }
}

/// Rows of the writers.
const ROWS: u64 = 18;

/// What may end anywhere.
fn act(root: &Path, what: &str) {
    match what {
        "compact" => drop(compact_root(root).unwrap()),
        "remove" => {
            let store = ObjectStore::open(root, StoreOptions::default()).unwrap();
            store.remove_run(&node("removed", 0)).unwrap();
            store.close().unwrap();
        }
        "close" => writers(root),
        "recover" => drop(recover(root).unwrap()),
        "orphan" => {
            let store = ObjectStore::open(root, options()).unwrap();
            (0..3).for_each(|seq| record(&store, "orphan", seq));
            let live = store.reader().with_freshness(Freshness::Live);
            let begin = Instant::now();
            while live.query().name("orphan").count().unwrap().value < 3 {
                assert!(begin.elapsed() < Duration::from_secs(60));
                std::thread::sleep(Duration::from_millis(1));
            }
            std::process::abort();
        }
        what => work(root, what.parse().unwrap()),
    }
}

/// Does something in a child process; says whether it came to its end.
fn run(root: &Path, what: &str, abort: u64) -> bool {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--quiet"])
        .env("STORE_CRASH_ROOT", root)
        .env("STORE_CRASH_WORK", what)
        .env("WAYCAIRN_FAULT_ABORT", abort.to_string())
        .output()
        .unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || !text.contains("panicked"), "at {abort}: {text}");
    output.status.success()
}

#[test]
#[ignore = "the work of the other tests, in a process that may abort"]
fn child() {
    if let Some(root) = std::env::var_os("STORE_CRASH_ROOT") {
        act(&PathBuf::from(root), &std::env::var("STORE_CRASH_WORK").unwrap());
    }
}

/// Everything that was acknowledged is there, and no reader has an error.
fn check(root: &Path, at: u64) {
    let acknowledged = fs::read_to_string(root.with_file_name("acknowledged")).unwrap_or_default();
    for freshness in [Freshness::Published, Freshness::Live] {
        let reader = ObjectReader::open(root).unwrap().with_freshness(freshness);
        for line in acknowledged.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["records", run, count] => {
                    let seqs: Vec<u64> = reader
                        .query()
                        .name(run)
                        .has("a")
                        .all()
                        .unwrap()
                        .value
                        .iter()
                        .map(Node::seq)
                        .collect();
                    let count: u64 = count.parse().unwrap();
                    assert!(seqs.len() as u64 >= count, "at {at}: {run} has {seqs:?} of {count}");
                    assert!(
                        seqs.iter().copied().eq(0..seqs.len() as u64),
                        "at {at}: {run} has a gap: {seqs:?}"
                    );
                }
                ["artifact", run] => {
                    let artifact = reader.artifact(&node(run, 0), "summary").unwrap();
                    assert_eq!(artifact.decode::<Vec<i64>>().unwrap(), [1, 2, 3], "at {at}");
                }
                ["checkpoint", run] => {
                    let folder = reader.checkpoint(&node(run, 1)).unwrap().unwrap();
                    assert_eq!(fs::read(folder.join("weights")).unwrap(), b"1 2 3", "at {at}");
                }
                _ => panic!("{line}"),
            }
        }
        // What a record marks is whole, acknowledged or not.
        for marked in reader.query().checkpoint().all().unwrap().value {
            assert!(reader.checkpoint_folder(&marked).join("weights").exists(), "at {at}: {marked}");
        }
        reader.runs().unwrap();
        reader.edges().unwrap();
    }
    let known = [ProblemKind::OrphanSegment, ProblemKind::Leftover, ProblemKind::BlobWithoutMarker];
    let problems = fsck(root).unwrap().problems;
    assert!(problems.iter().all(|problem| known.contains(&problem.kind)), "at {at}: {problems:?}");
}

#[test]
fn store_3_a_crash_at_any_step_loses_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut points = 0;
    for number in 1_u64.. {
        assert!(number < 3_000, "it never comes to its end");
        let root = folder.path().join(number.to_string()).join("root");
        fs::create_dir_all(root.parent().unwrap()).unwrap();
        let ended = run(&root, "0", number);
        check(&root, number);
        // The next process goes on over what is left, and then all is well.
        work(&root, 1);
        check(&root, number);
        let problems = fsck(&root).unwrap().problems;
        let unmarked = |kind| kind == ProblemKind::BlobWithoutMarker;
        assert!(problems.iter().all(|problem| unmarked(problem.kind)), "at {number}: {problems:?}");
        fs::remove_dir_all(root.parent().unwrap()).unwrap();
        if ended {
            break;
        }
        points = number;
    }
    assert!(points > 100, "{points} points");
}

/// All that is recorded, in the order of the nodes.
fn answer(root: &Path) -> Vec<(Node, Scalar)> {
    let rows = ObjectReader::open(root).unwrap().query().select_all().unwrap().value;
    rows.into_iter().map(|row| (row.node.clone(), row.fields["a"].clone())).collect()
}

/// Ends a process at every point of something in turn, and does it again.
fn at_each_point(what: &str, check: impl Fn(&Path, u64)) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    for number in 1_u64.. {
        assert!(number < 1_000, "it never comes to its end");
        let root = folder.path().join(number.to_string());
        fs::create_dir(&root).unwrap();
        if what != "close" {
            writers(&root);
        }
        if what == "recover" {
            assert!(!run(&root, "orphan", 0), "it dies, and leaves its journal");
        }
        let ended = run(&root, what, number);
        check(&root, number);
        fs::remove_dir_all(&root).unwrap();
        if ended {
            return number;
        }
    }
    0
}

#[test]
fn store_3_after_a_compaction_that_died_the_next_one_leaves_no_row_twice() {
    let points = at_each_point("compact", |root, at| {
        let before = answer(root);
        assert_eq!(before.len() as u64, ROWS, "at {at}");
        let report = compact_root(root).unwrap();
        assert!(report.errors.is_empty(), "at {at}: {report:?}");
        let found = fsck(root).unwrap();
        assert_eq!((found.rows, answer(root) == before), (ROWS, true), "at {at}: {found:?}");
    });
    assert!(points > 20, "{points} points");
}

#[test]
fn store_9_a_recovery_that_dies_at_any_step_is_done_by_the_next() {
    let points = at_each_point("recover", |root, at| {
        let live = ObjectReader::open(root).unwrap().with_freshness(Freshness::Live);
        assert_eq!(live.query().count().unwrap().value, ROWS + 3, "at {at}: what is in the journal is seen");
        let report = recover(root).unwrap();
        assert_eq!((report.damaged.len(), report.live), (0, 0), "at {at}: {report:?}");
        assert_eq!(answer(root).len() as u64, ROWS + 3, "at {at}");
        let problems = fsck(root).unwrap().problems;
        assert!(
            problems.iter().all(|problem| problem.kind == ProblemKind::Leftover),
            "at {at}: {problems:?}"
        );
    });
    assert!(points > 5, "{points} points");
}

#[test]
fn store_3_after_a_close_that_died_a_compaction_leaves_no_row_twice() {
    let points = at_each_point("close", |root, at| {
        let before = if root.join("objects/values").exists() { answer(root) } else { Vec::new() };
        // Both runs at the first positions, and then `kept` alone: every node has one record.
        compact_root(root).unwrap();
        let found = fsck(root).unwrap();
        assert_eq!(found.rows, before.len() as u64, "at {at}: {found:?}");
        assert!(before.is_empty() || answer(root) == before, "at {at}");
    });
    assert!(points > 20, "{points} points");
}

#[test]
fn store_8_after_a_removal_that_died_the_next_one_leaves_no_row_twice() {
    let points = at_each_point("remove", |root, at| {
        let kept = |root: &Path| -> Vec<_> {
            answer(root).into_iter().filter(|(node, _)| node.name() == "kept").collect()
        };
        let before = kept(root);
        assert_eq!(before.len() as u64, ROWS - 6, "at {at}");
        // A compaction between the two takes nothing away that a removal is to take.
        if at % 2 == 0 {
            let report = compact_root(root).unwrap();
            assert!(report.errors.is_empty(), "at {at}: {report:?}");
            assert!(kept(root) == before, "at {at}");
        }
        act(root, "remove");
        let found = fsck(root).unwrap();
        assert_eq!((found.rows, answer(root) == before), (ROWS - 6, true), "at {at}: {found:?}");
    });
    assert!(points > 20, "{points} points");
}
