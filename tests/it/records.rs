//! What people of this field have run into with the recording of others; each test carries the number of its case.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::Barrier,
    time::Duration,
};

use waycairn_dag::{Clock, Node};
use waycairn_store::{
    Expr, Freshness, ObjectReader, ObjectStore, Order, RecordError, Scalar, StoreOptions, compact_root,
};

const NONCE: &str = "0123456789abcdef";

fn node(name: &str, seq: u64) -> Node {
    Node::new(name, NONCE, seq).expect("a node")
}

fn open(root: &Path, process: i64) -> ObjectStore {
    ObjectStore::open(root, StoreOptions { process, ..StoreOptions::default() }).expect("a root")
}

fn values(root: &Path) -> PathBuf {
    root.join("objects/values")
}

fn parts(root: &Path) -> BTreeSet<PathBuf> {
    let entries =
        fs::read_dir(values(root)).expect("the values").map(|entry| entry.expect("an entry").path());
    entries
        .filter(|path| path.extension().is_some_and(|ending| ending == "parquet") && !hidden(path))
        .collect()
}

fn hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

#[test]
fn f01_a_write_to_an_older_node_is_folded_or_refused_and_never_dropped() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), 0);
    for seq in [5, 9, 2, 5] {
        store.value(&node("r", seq), &[("loss", Scalar::Int(seq.cast_signed()))]).expect("any order");
    }
    store.value(&node("r", 5), &[("loss", 55.into())]).expect("again");
    store.flush().expect("a flush");
    let rows = store.reader().query().select(&["loss"]).expect("rows").value;
    let found: Vec<(u64, Scalar)> =
        rows.iter().map(|row| (row.node.seq(), row.fields["loss"].clone())).collect();
    assert_eq!(found, [(2, 2.into()), (5, 55.into()), (9, 9.into())]);
    let refused = store.value(&node("r", 5), &[("loss", 1.into()), ("loss", 2.into())]);
    assert!(
        matches!(refused, Err(RecordError::Duplicate { .. })),
        "what is not folded is an error of its own type"
    );
    assert_eq!(store.close().expect("closed").dropped, 0);
}

#[test]
fn f02_a_metric_and_an_artifact_of_an_old_node_stand_there_and_the_clock_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), 0);
    let mut clock = Clock::new(node("r", 0));
    for _ in 0..20 {
        store.value(&clock.node(), &[("loss", 1.into())]).expect("a record");
        clock.tick().expect("a tick");
    }
    let old = node("r", 7);
    store.value(&old, &[("eval/accuracy", 0.9.into())]).expect("a record");
    store.artifact(&old, "summary", &[("size", 3.into())], &[1, 2, 3]).expect("an artifact");
    store.flush().expect("a flush");
    assert_eq!(clock.node().seq(), 20, "the live node is where it was");
    let view = store.reader().node(&old).expect("an answer").expect("the node");
    assert_eq!((&view.fields["eval/accuracy"], view.artifacts.len()), (&Scalar::Float(0.9), 1));
    let found = store.reader().query().has("eval/accuracy").all().expect("nodes").value;
    assert_eq!(found, [old]);
    store.close().expect("closed");
}

#[test]
fn f03_a_branch_keeps_its_base_over_a_close_and_a_resume() {
    let folder = tempfile::tempdir().expect("a folder");
    let base = node("base", 7);
    let branch = base.branch("fork", &waycairn_dag::Nonce::from_random([7; 8])).expect("a branch");
    let store = open(folder.path(), 0);
    store.value(&base, &[("a", 1.into())]).expect("a record");
    store.value(&branch, &[("a", 2.into())]).expect("a record");
    store.close().expect("closed");
    // Resumed, the run records its first node again, now without knowing where it came from.
    let store = open(folder.path(), 0);
    store.value(&branch.clone().with_parent(None), &[("a", 3.into())]).expect("a record");
    store.close().expect("closed");
    compact_root(folder.path()).expect("compacted");
    let reader = ObjectReader::open(folder.path()).expect("a reader");
    assert_eq!(reader.parents(&branch).expect("parents"), [base]);
}

#[test]
fn f04_trainer_and_evaluator_record_the_same_nodes_and_both_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let (trainer, evaluator) = (open(folder.path(), 0), open(folder.path(), 1));
    for seq in 0..30 {
        trainer.value(&node("r", seq), &[("train/loss", 1.into()), ("step", 0.into())]).expect("a record");
        if seq >= 10 {
            evaluator
                .value(&node("r", seq), &[("eval/loss", 2.into()), ("step", 9.into())])
                .expect("a record");
        }
    }
    for store in [evaluator, trainer] {
        store.close().expect("closed");
    }
    let reader = ObjectReader::open(folder.path()).expect("a reader");
    let both = Expr::parse("has train/loss and has eval/loss and step = 0").expect("an expression");
    assert_eq!(reader.query().expression(both).count().expect("a count").value, 20);
    assert_eq!(reader.query().has("train/loss").count().expect("a count").value, 30);
}

#[test]
fn f05_a_run_that_is_still_running_is_read_by_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = StoreOptions { batch_deadline: Duration::from_millis(200), ..StoreOptions::default() };
    let store = ObjectStore::open(folder.path(), options).expect("a root");
    store.value(&node("r", 0), &[("a", 1.into())]).expect("a record");
    let seen = |freshness| {
        let reader = ObjectReader::open(folder.path()).expect("a reader").with_freshness(freshness);
        let begin = std::time::Instant::now();
        while reader.query().count().expect("a count").value < 1 {
            assert!(begin.elapsed() < Duration::from_secs(60), "{freshness:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    // In the journal at once, in a part when the deadline of its batch is over; nobody flushed.
    seen(Freshness::Live);
    seen(Freshness::Published);
    store.close().expect("closed");
}

#[test]
fn f06_a_key_in_26_rows_of_a_large_run_reads_what_holds_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = StoreOptions { batch_rows: 65_536, ..StoreOptions::default() };
    let store = ObjectStore::open(folder.path(), options).expect("a root");
    for seq in 0..260_000_u64 {
        store.value(&node("r", seq), &[("loss", Scalar::Int(1))]).expect("a record");
        if seq % 10_000 == 77 && seq < 130_000 {
            store
                .value(&node("r", seq), &[("rare", Scalar::Int(2)), ("rare/2", Scalar::Int(3))])
                .expect("a record");
        }
        if seq % 20_000 == 19_999 {
            store.flush().expect("a flush");
        }
    }
    store.close_uncompacted().expect("closed");
    let reader = ObjectReader::open(folder.path()).expect("a reader");
    assert_eq!(reader.query().has("rare").count().expect("a count").value, 13);
    let read = reader.query().has("rare").explain(&["rare"]).expect("a plan").value;
    assert!(read.rows_read <= 140_100, "{read:?}");
    assert!(read.columns == ["rare"], "{read:?}");
    // In one large part the row groups tell the same.
    compact_root(folder.path()).expect("compacted");
    let read = reader.query().has("rare").explain(&["rare"]).expect("a plan").value;
    assert!(read.parts < 3 && read.rows_read <= 150_000, "{read:?}");
    assert_eq!(reader.query().has("rare").count().expect("a count").value, 13);
}

#[test]
fn f08_a_thousand_single_values_are_one_part() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), 0);
    for seq in 0..1_000 {
        store.value(&node("r", seq), &[("a", 1.into())]).expect("a record");
    }
    let flushed = store.flush().expect("a flush");
    assert_eq!((flushed.records, flushed.parts), (1_000, 1));
    assert_eq!(parts(folder.path()).len(), 1, "a call is no file");
    let closed = store.close().expect("closed");
    assert_eq!((closed.parts, closed.compaction.sources), (1, 0), "nothing was to be merged");
    let left = fs::read_dir(values(folder.path())).expect("the values").count();
    assert_eq!(left, 1, "no call left anything else");
}

/// Changes the bytes of the metric columns of a part, which stand between those of the identity and the footer.
fn damage_metrics(path: &Path) {
    let mut bytes = fs::read(path).expect("a part");
    let length = bytes.len();
    let tail: [u8; 4] = bytes[length - 8..length - 4].try_into().expect("four bytes");
    let footer = u32::from_le_bytes(tail) as usize + 8;
    let end = length - footer;
    // The columns stand in the order of the schema, so the last ones are the caller's.
    for byte in &mut bytes[end - 2_000..end - 10] {
        *byte ^= 0x55;
    }
    fs::write(path, bytes).expect("a part");
}

#[test]
fn f09_f14_runs_and_keys_are_listed_without_a_look_at_metrics() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), 0);
    let mut state = 1_u64;
    for seq in 0..2_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let noise = Scalar::Float((state >> 11) as f64);
        store
            .value(&node("r", seq), &[("z/1", noise.clone()), ("z/2", noise.clone()), ("z/3", noise)])
            .expect("a record");
    }
    store.close().expect("closed");
    damage_metrics(parts(folder.path()).first().expect("a part"));
    let reader = ObjectReader::open(folder.path()).expect("a reader");
    assert!(reader.query().select_all().is_err(), "the metrics cannot be read");
    let runs = reader.runs().expect("the runs can");
    assert_eq!((runs.len(), runs[0].nodes), (1, 2_000));
    let keys: Vec<String> =
        reader.schema().expect("and so can the keys").into_iter().map(|info| info.key).collect();
    assert_eq!(keys, ["z/1", "z/2", "z/3"]);
}

#[test]
fn f10_one_run_of_many_costs_what_it_has() {
    let folder = tempfile::tempdir().expect("a folder");
    for run in 0..100 {
        let store = open(folder.path(), 0);
        for seq in 0..50 {
            let key = format!("m/{}", seq % 10);
            store.value(&node(&format!("r-{run:03}"), seq), &[(key.as_str(), 1.into())]).expect("a record");
        }
        store.close().expect("closed");
    }
    let reader = ObjectReader::open(folder.path()).expect("a reader");
    let asked = |reader: &ObjectReader| {
        let read = reader.query().name("r-042").explain(&["m/3"]).expect("a plan").value;
        let rows =
            reader.query().name("r-042").sort("m/3", Order::Ascending).select(&["m/3"]).expect("rows").value;
        (read, rows)
    };
    let (read, before) = asked(&reader);
    assert_eq!((read.parts, read.parts_read, before.len()), (100, 1, 50));
    compact_root(folder.path()).expect("compacted");
    let (read, after) = asked(&reader);
    assert_eq!((read.parts, after), (1, before));
    assert_eq!(reader.query().count().expect("a count").value, 5_000);
}

#[test]
fn f11_fifty_writers_that_close_together_all_close() {
    const WRITERS: i64 = 50;
    let folder = tempfile::tempdir().expect("a folder");
    let barrier = Barrier::new(WRITERS as usize);
    std::thread::scope(|scope| {
        for process in 0..WRITERS {
            let (barrier, root) = (&barrier, folder.path());
            scope.spawn(move || {
                let store = open(root, process);
                for seq in 0..20 {
                    let key = format!("only/{process}");
                    store.value(&node("r", seq), &[(key.as_str(), Scalar::Int(process))]).expect("a record");
                    if seq % 7 == 0 {
                        store.flush().expect("a flush");
                    }
                }
                barrier.wait();
                let report = store.close().expect("closed");
                assert_eq!((report.records, report.compaction.errors.len()), (20, 0));
            });
        }
    });
    let reader = ObjectReader::open(folder.path()).expect("a reader");
    let row = reader.query().node(&node("r", 13)).select_all().expect("rows").value.remove(0);
    assert_eq!(row.fields.len(), 50, "every process is in every node");
    let left: Vec<PathBuf> = fs::read_dir(values(folder.path()))
        .expect("the values")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".journal")))
        .collect();
    assert_eq!(left, Vec::<PathBuf>::new());
}

#[test]
fn f11_fifty_processes_that_close_together_all_close() {
    let root = waycairn_tests::Root::new(crate::program());
    let mut children: Vec<Child> = (0..50)
        .map(|process| {
            let mut command = root.command(["record"]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().expect("a process");
            let input = child.stdin.as_mut().expect("its input");
            for seq in 0..20 {
                let line = format!(
                    r#"{{"name":"r","nonce":"{NONCE}","seq":{seq},"process":{process},"fields":{{"only/{process}":{seq}}}}}"#
                );
                writeln!(input, "{line}").expect("it reads");
            }
            writeln!(input, r#"{{"flush":true}}"#).expect("it reads");
            child
        })
        .collect();
    // All of them have published, and live; their inputs end at the same moment.
    for child in &mut children {
        let mut answer = [0; 14];
        child.stdout.as_mut().expect("its output").read_exact(&mut answer).expect("an answer");
        assert_eq!(answer, *br#"{"durable":20}"#);
    }
    children.iter_mut().for_each(|child| drop(child.stdin.take()));
    for child in children {
        let ended = child.wait_with_output().expect("its end");
        let told = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && !told.to_lowercase().contains("warn"), "{told}");
    }
    let reader = ObjectReader::open(&root.path()).expect("a reader");
    let row = reader.query().node(&node("r", 13)).select_all().expect("rows").value.remove(0);
    assert_eq!(row.fields.len(), 50, "every process is in every node");
    let left =
        fs::read_dir(values(&root.path())).expect("the values").map(|entry| entry.expect("an entry").path());
    let left: Vec<PathBuf> =
        left.filter(|path| hidden(path) && !path.display().to_string().contains("/.old-")).collect();
    assert_eq!(left, Vec::<PathBuf>::new(), "no journal, and no sign of a writer");
}

#[test]
fn f12_a_published_file_never_changes_and_a_reader_survives_its_replacement() {
    let folder = tempfile::tempdir().expect("a folder");
    for run in 0..5 {
        let store = open(folder.path(), 0);
        store.value(&node(&format!("r-{run}"), 0), &[("a", Scalar::Int(run))]).expect("a record");
        store.close().expect("closed");
    }
    let before: Vec<(PathBuf, Vec<u8>)> = parts(folder.path())
        .into_iter()
        .map(|path| (path.clone(), fs::read(&path).expect("a part")))
        .collect();
    let reader = ObjectReader::open(folder.path()).expect("a reader");
    let answer = reader.query().select_all().expect("rows").value;
    compact_root(folder.path()).expect("compacted");
    for (path, bytes) in before {
        let old =
            path.with_file_name(format!(".old-{}", path.file_name().expect("a name").to_string_lossy()));
        assert_eq!(fs::read(old).expect("it is kept under its hidden name"), bytes, "and never cut");
    }
    assert_eq!(reader.query().select_all().expect("rows").value, answer);
}

#[test]
fn f35_ten_thousand_parts_are_asked_and_their_compaction_is_offered() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), 0);
    store.value(&node("r-0", 0), &[("a", 1.into())]).expect("a record");
    store.close().expect("closed");
    let one = parts(folder.path()).first().expect("a part").clone();
    // The same rows again and again, as many files: what is to be seen is that none of them is opened for another run.
    for copy in 1..10_000 {
        let path = one.with_file_name(format!("part-{copy:05}.parquet"));
        if fs::hard_link(&one, &path).is_err() {
            fs::copy(&one, &path).expect("a copy");
        }
    }
    let store = open(folder.path(), 0);
    store.value(&node("r-1", 0), &[("b", 2.into())]).expect("a record");
    store.close().expect("closed");
    let reader = ObjectReader::open(folder.path()).expect("a reader");
    let read = reader.query().name("r-1").explain(&["b"]).expect("a plan").value;
    assert_eq!((read.parts, read.parts_read, read.rows_read), (10_001, 1, 1));
    assert_eq!(reader.query().count().expect("a count").value, 2, "duplicates are one record");
    // A footer is read once in a process: what becomes of those of the others costs the next question nothing.
    let bytes = fs::read(&one).expect("a part");
    fs::write(&one, vec![0; bytes.len()]).expect("no part");
    assert_eq!(reader.query().name("r-1").count().expect("a count").value, 1);
    fs::write(&one, bytes).expect("a part");
    let root = waycairn_tests::Run::of(
        std::process::Command::new(crate::program()).args(["nodes", "--root"]).arg(folder.path()),
    );
    assert!(root.status == Some(0) && root.err.contains("`waycairn compact`"), "{root}");
}

#[test]
fn f36_a_key_of_the_last_part_is_there_whatever_the_order_of_the_parts() {
    let folder = tempfile::tempdir().expect("a folder");
    for run in 0..12 {
        let store = open(folder.path(), 0);
        let key = format!("key/{run}");
        store
            .value(&node("r", 0), &[(key.as_str(), Scalar::Int(run)), ("same", Scalar::Int(run))])
            .expect("a record");
        store.close().expect("closed");
    }
    let answer =
        |root: &Path| ObjectReader::open(root).expect("a reader").query().select_all().expect("rows").value;
    let before = answer(folder.path());
    assert_eq!(before[0].fields.len(), 13);
    assert_eq!(before[0].fields["same"], Scalar::Int(11));
    // The same parts under names in the opposite order.
    let all: Vec<PathBuf> = parts(folder.path()).into_iter().collect();
    for (place, path) in all.iter().rev().enumerate() {
        fs::rename(path, path.with_file_name(format!("part-{place:03}.parquet"))).expect("another name");
    }
    assert_eq!(answer(folder.path()), before);
}

#[test]
fn f37_a_compaction_of_own_parts_goes_on_while_others_append() {
    let folder = tempfile::tempdir().expect("a folder");
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let appending = scope.spawn(|| {
            let store = open(folder.path(), 1);
            let mut seq = 0;
            while !done.load(std::sync::atomic::Ordering::SeqCst) {
                store.value(&node("other", seq), &[("a", 1.into())]).expect("a record");
                store.flush().expect("a flush");
                seq += 1;
            }
            store.close().expect("closed");
            seq
        });
        for round in 0..15 {
            let store = open(folder.path(), 0);
            for seq in 0..5 {
                store.value(&node(&format!("own-{round}"), seq), &[("a", 1.into())]).expect("a record");
                store.flush().expect("a flush");
            }
            let report = store.close().expect("closed");
            assert_eq!((report.compaction.sources, report.compaction.errors.len()), (5, 0));
        }
        done.store(true, std::sync::atomic::Ordering::SeqCst);
        let appended = appending.join().expect("a writer");
        let reader = ObjectReader::open(folder.path()).expect("a reader");
        assert_eq!(reader.query().count().expect("a count").value, 15 * 5 + appended);
    });
}
