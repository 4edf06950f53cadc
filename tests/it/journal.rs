//! Writers that are killed, and the doors of other programs: what was acknowledged is there, and nobody who reads is
//! disturbed.

#![cfg(unix)]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use waycairn_dag::Node;
use waycairn_store::{Freshness, ObjectReader, ObjectStore, Scalar, StoreOptions, recover};
use waycairn_tests::{Root, Run, clean};

use crate::program;

/// Rounds of writers that are killed.
const ROUNDS: u64 = 200;
/// Tells a child that it is a writer: `<records a batch>:<run>:<root>`.
const WRITER: &str = "WAYCAIRN_TEST_JOURNAL_WRITER";

/// Says what is random here: no two rounds are alike, and a failure can be repeated.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn node(run: &str, seq: u64) -> Node {
    Node::new(run, "0123456789abcdef", seq).expect("a node")
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what} does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The body of a child process; without the variable it is not one, and there is nothing to do.
#[test]
fn child_journal_writer() {
    let Ok(order) = std::env::var(WRITER) else { return };
    let [batch, run, root] = order.splitn(3, ':').collect::<Vec<_>>()[..] else { panic!("{order}") };
    let batch_rows = batch.parse().expect("a number");
    let options = StoreOptions { batch_rows, ..StoreOptions::default() };
    let mut store = ObjectStore::open(Path::new(root), options.clone()).expect("the store opens");
    let mut state = batch_rows as u64;
    let mut say = std::io::stdout();
    for seq in 0.. {
        store
            .value(&node(run, seq), &[("a", Scalar::Int(seq.cast_signed())), ("b", "text".into())])
            .expect("a record");
        match random(&mut state) % 400 {
            0..10 => {
                store.flush().expect("a flush");
                writeln!(say, "\nflushed {}", seq + 1).expect("a reader");
            }
            // Closed, it compacts: a place to be killed at as well.
            10 => {
                store.close().expect("a close");
                writeln!(say, "\nflushed {}", seq + 1).expect("a reader");
                store = ObjectStore::open(Path::new(root), options.clone()).expect("the store opens");
            }
            11..50 => std::thread::sleep(Duration::from_micros(random(&mut state) % 3000)),
            _ => {}
        }
    }
}

/// A child that records until it is killed, and the lines that it says.
struct Writer {
    run: String,
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Writer {
    fn new(root: &Path, run: String, batch: u64) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "journal::child_journal_writer", "--nocapture"])
            .env(WRITER, format!("{batch}:{run}:{}", root.display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a child");
        let lines = BufReader::new(child.stdout.take().expect("its output"));
        Self { run, child, lines }
    }

    /// Waits until it has flushed once.
    fn begin(&mut self) -> u64 {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.lines.read_line(&mut line).expect("a line") > 0, "the writer ended");
            if let Some(flushed) = line.trim().strip_prefix("flushed ") {
                return flushed.parse().expect("a number");
            }
        }
    }

    /// Kills it, and says how many records it was told are safe.
    fn kill(mut self, mut flushed: u64) -> (String, u64) {
        self.child.kill().expect("a signal");
        self.child.wait().expect("its end");
        for line in self.lines.lines().map_while(Result::ok) {
            if let Some(more) = line.strip_prefix("flushed ").and_then(|text| text.parse::<u64>().ok()) {
                flushed = flushed.max(more);
            }
        }
        (self.run, flushed)
    }
}

/// The positions of a run that readers see.
fn seqs(reader: &ObjectReader, run: &str) -> Vec<u64> {
    reader.query().name(run).all().expect("an answer").value.iter().map(Node::seq).collect()
}

#[test]
fn store_9_identity_case_19_writers_that_are_killed_lose_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    ObjectStore::open(&root, StoreOptions::default()).expect("a root").close().expect("closed");
    let reader = ObjectReader::open(&root).expect("a reader");
    let live = reader.with_freshness(Freshness::Live);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let polling = scope.spawn(|| {
            let mut seen = 0;
            while !done.load(Ordering::SeqCst) {
                let now = live.query().count().expect("the reader never fails").value;
                assert!(now >= seen, "{now} nodes after {seen}");
                seen = now;
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let mut state = 7;
        for round in 0..ROUNDS {
            let batches = [1 + random(&mut state) % 8, 50 + random(&mut state) % 4000];
            let mut writers: Vec<(Writer, u64)> = (0..)
                .zip(batches)
                .map(|(number, batch)| (Writer::new(&root, format!("w-{round}-{number}"), batch), 0))
                .collect();
            // Of every other pair one is killed whenever it is, before its first flush too.
            let waited_for = if round % 2 == 0 { 2 } else { 1 };
            for (writer, flushed) in &mut writers[..waited_for] {
                *flushed = writer.begin();
            }
            std::thread::sleep(Duration::from_micros(random(&mut state) % 60_000));
            let killed: Vec<_> = writers.into_iter().map(|(writer, flushed)| writer.kill(flushed)).collect();
            // Without a recovery what was flushed is there; with it, nothing is in between that is not.
            for (run, flushed) in &killed {
                let published = seqs(&reader, run);
                assert!(published.len() as u64 >= *flushed, "{run}: {} of {flushed}", published.len());
            }
            let seen: Vec<_> = killed.iter().map(|(run, _)| seqs(&live, run)).collect();
            let report = recover(&root).expect("a recovery");
            assert_eq!((report.damaged.len(), report.live), (0, 0), "round {round}");
            for ((run, _), seen) in killed.iter().zip(seen) {
                let recovered = seqs(&reader, run);
                assert_eq!(recovered, (0..recovered.len() as u64).collect::<Vec<_>>(), "{run} has a gap");
                assert_eq!(recovered, seen, "what a fresh reader saw is what is recovered");
            }
            if polling.is_finished() {
                break;
            }
        }
        done.store(true, Ordering::SeqCst);
        polling.join().expect("the reader never fails");
    });
}

#[test]
fn store_9_what_is_older_than_the_interval_survives_a_kill() {
    let root = Root::new(program());
    let mut session = Session::new(&root);
    for seq in 0..500 {
        session.say(&json!({"name": "sim", "nonce": "94ab", "seq": seq, "fields": {"energy": -1.5}}));
    }
    // Thirty times the interval of a tenth of a second.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(root.json(&["nodes"])[0]["nodes"], 500);
    assert_eq!(root.json(&["query", "--explain"])["parts"], 1, "nothing was published: that is the journal");
    session.child.kill().expect("a signal");
    session.child.wait().expect("its end");
    let report = root.json(&["recover"]);
    assert_eq!((&report["segments"], &report["records"]), (&json!(1), &json!(500)), "{report}");
    assert_eq!(root.json(&["query", "energy < 0", "--keys", "energy"]).as_array().expect("rows").len(), 500);
    let again = root.run(&["recover"]);
    assert_eq!((again.status, again.out.as_str()), (Some(0), "nothing to recover\n"));
}

/// `waycairn record` with its input open.
struct Session {
    child: Child,
    input: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

impl Session {
    fn new(root: &Root) -> Self {
        let mut command = root.command(["record"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let input = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, input, lines }
    }

    fn say(&mut self, line: &Value) {
        self.say_text(&line.to_string());
    }

    fn say_text(&mut self, line: &str) {
        writeln!(self.input.as_mut().expect("its input"), "{line}").expect("it listens");
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("an answer");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Ends the input; the exit status and what was said on standard error.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        let output = self.child.wait_with_output().expect("its end");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

#[test]
fn a_program_in_any_language_records_by_lines_of_json() {
    let root = Root::new(program());
    let mut session = Session::new(&root);
    let parent = node("sim", 0).address().to_string();
    session.say(&json!({"name": "sim", "nonce": "94ab", "seq": 0, "fields": {"a": 1, "b": 2.5, "c": "x", "d": true, "e": null}}));
    session.say(&json!({"name": "sim", "nonce": "94ab", "seq": 1, "parent": parent, "tag": "t", "fields": {"b": {"$float": "NaN"}}}));
    session.say(
        &json!({"name": "sim", "nonce": "94ab", "seq": 0, "process": 1, "fields": {"a": 7, "late": -1}}),
    );
    session.say_text("");
    session.say(&json!({"flush": true}));
    assert_eq!(session.answer(), json!({"durable": 3}));
    // While it runs, others see what was flushed.
    let rows = root.json(&["query", "--keys", "a,b,c,d,late"]);
    assert_eq!(rows[0]["a"], 1, "process 0 wins: {rows}");
    assert_eq!((&rows[0]["c"], &rows[0]["d"], &rows[0]["late"]), (&json!("x"), &json!(true), &json!(-1)));
    assert_eq!(rows[1]["b"], json!({"$float": "NaN"}));
    assert_eq!(root.json(&["show", "sim:1"])["parents"], json!([parent]));
    let tagged = root.json(&["sql", "SELECT _x_seq FROM records WHERE _x_tag = 't'"]);
    assert_eq!(tagged, json!([{"_x_seq": 1}]));

    // A line that is wrong is told, and harms no other.
    for wrong in
        ["{", "[]", "{\"name\": \"sim\"}", "{\"name\": \"sim\", \"seq\": 2, \"fields\": {\"a\": [1]}}"]
    {
        session.say_text(wrong);
    }
    session.say(&json!({"name": "", "seq": 3}));
    session.say(&json!({"name": "sim", "nonce": "94ab", "seq": 2, "fields": {"_x_seq": 1}}));
    session.say(&json!({"name": "sim", "nonce": "94ab", "seq": 2, "tag": "\u{1}", "fields": {}}));
    session
        .say_text("{\"name\": \"sim\", \"nonce\": \"94ab\", \"seq\": 2, \"fields\": {\"a\": 1, \"a\": 2}}");
    session.say_text(
        "{\"name\": \"sim\", \"nonce\": \"94ab\", \"seq\": 2, \"fields\": {\"a\": 99999999999999999999}}",
    );
    session.say(&json!({"name": "other", "seq": 4}));
    session.say(&json!({"flush": true}));
    assert_eq!(session.answer(), json!({"durable": 4, "refused": 9}));
    session.say(&json!({"name": "other", "seq": 5}));
    session.say(&json!({"close": true}));
    let (status, said) = session.end();
    assert_eq!(status, Some(1), "{said}");
    for fragment in [
        "line 6: no JSON",
        "line 8: missing field `seq`",
        "`a`: an array",
        "_x_seq",
        "99999999999999999999 cannot be recorded",
        "9 lines not recorded",
        "new run other@",
    ] {
        assert!(said.contains(fragment), "no `{fragment}` in\n{said}");
    }
    let runs = root.json(&["nodes"]);
    assert_eq!((&runs[0]["name"], &runs[0]["nodes"]), (&json!("other"), &json!(2)), "one nonce for one name");
    assert_eq!(runs[0]["nonce"].as_str().expect("a nonce").len(), 16);
}

#[test]
fn a_tail_shows_what_a_running_writer_records_and_ends_with_the_run() {
    let root = Root::new(program());
    let store = ObjectStore::open(&root.path(), StoreOptions::default()).expect("a root");
    for seq in 0..20_u32 {
        store
            .value(&node("sim", seq.into()), &[("loss", Scalar::Float(f64::from(20 - seq)))])
            .expect("a record");
    }
    store.flush().expect("a flush");
    let once = root.run(&["tail", "sim", "--once", "--nodes", "2"]);
    assert_eq!((once.status, once.out.as_str()), (Some(0), "    18  loss 2\n    19  loss 1\n"), "{once}");

    let mut command = root.command(["tail", "sim", "--nodes", "1", "--format", "jsonl"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut next =
        || -> Value { serde_json::from_str(&lines.next().expect("a line").expect("text")).expect("JSON") };
    assert_eq!((&next()["seq"], 1), (&json!(19), 1));
    // Not flushed: it comes from the journal. And what is said of an old node comes too.
    store.value(&node("sim", 20), &[("loss", 0.5.into())]).expect("a record");
    let line = next();
    assert_eq!((&line["seq"], &line["loss"]), (&json!(20), &json!(0.5)));
    store.value(&node("sim", 3), &[("eval", "late".into())]).expect("a record");
    let line = next();
    assert_eq!((&line["seq"], &line["eval"], &line["loss"]), (&json!(3), &json!("late"), &Value::Null));
    store.finish(&node("sim", 20)).expect("a record");
    let ended = child.wait_with_output().expect("its end");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    store.close().expect("closed");
}

#[test]
fn cli_4_a_recorder_that_is_stopped_ends_with_4_and_has_recorded_what_it_read() {
    for signal in ["TERM", "INT"] {
        let root = Root::new(program());
        let mut session = Session::new(&root);
        for seq in 0..2 {
            session.say(&json!({"name": "sim", "nonce": "94ab", "seq": seq}));
        }
        session.say(&json!({"flush": true}));
        assert_eq!(session.answer(), json!({"durable": 2}));
        session.say(&json!({"name": "sim", "nonce": "94ab", "seq": 1, "fields": {"again": true}}));
        session.say(&json!({"flush": true}));
        assert_eq!(session.answer(), json!({"durable": 3}));
        session.say(&json!({"name": "sim", "nonce": "94ab", "seq": 2}));
        until("the journal", || root.json(&["nodes"])[0]["nodes"] == 3);
        // The input stays open, in the middle of a line.
        write!(session.input.as_mut().expect("its input"), "{{\"name\": \"sim\"").expect("it listens");
        let kill = Command::new("kill").args(["-s", signal, &session.child.id().to_string()]).status();
        assert!(kill.expect("kill runs").success());
        assert_eq!(session.answer(), json!({"durable": 4}), "{signal}");
        let (status, said) = session.end();
        assert_eq!(status, Some(4), "{signal}: {said}");
        assert_eq!(root.json(&["nodes"])[0]["nodes"], 3);
        assert_eq!(root.json(&["recover"])["segments"], 0, "it has published all");
        assert_eq!(
            root.json(&["query", "--explain"])["parts"],
            3,
            "and merged nothing: whoever stops it may kill it soon"
        );
    }
}

#[test]
fn a_tail_ends_when_nobody_reads_it_any_more() {
    let root = Root::new(program());
    let store = ObjectStore::open(&root.path(), StoreOptions::default()).expect("a root");
    store.value(&node("sim", 0), &[("loss", 1.into())]).expect("a record");
    store.flush().expect("a flush");
    let mut command = root.command(["tail", "sim"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut out = BufReader::new(child.stdout.take().expect("its output"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    assert_eq!(line, "     0  loss 1\n");
    assert!(child.try_wait().expect("a look").is_none(), "it waits for more");
    drop(out);
    until("the end", || child.try_wait().expect("a look").is_some());
    let ended = child.wait_with_output().expect("its end");
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
    store.close().expect("closed");
}

/// A root with the parts of six writers that are gone.
fn of_six_writers() -> Root {
    let root = Root::new(program());
    for process in 0..6 {
        let options = StoreOptions { process, ..StoreOptions::default() };
        let store = ObjectStore::open(&root.path(), options).expect("a root");
        for seq in 0..50 {
            let key = format!("k{process}");
            let parent = (seq > 0).then(|| node("sim", seq - 1).address());
            store
                .value(&node("sim", seq).with_parent(parent), &[(key.as_str(), Scalar::Int(process))])
                .expect("a record");
        }
        store.close().expect("closed");
    }
    root
}

#[test]
fn a_root_is_compacted_beside_readers_and_answers_as_before() {
    let root = of_six_writers();
    let before = root.json(&["query"]);
    let plan = root.json(&["compact", "--dry-run"]);
    assert_eq!(
        (&plan["parts"], &plan["groups"][0]["parts"], &plan["groups"][0]["rows"]),
        (&json!(6), &json!(6), &json!(300))
    );
    let explained = root.json(&["query", "k3 = 3", "--keys", "k3", "--explain"]);
    assert_eq!((&explained["parts"], &explained["columns"]), (&json!(6), &json!(["k3"])), "{explained}");
    let done = root.json(&["compact"]);
    assert_eq!((&done["sources"], &done["parts"], &done["errors"]), (&json!(6), &json!(1), &json!([])));
    assert_eq!(root.json(&["query"]), before);
    assert_eq!(root.json(&["query", "--explain"])["parts"], 1);
    let again = root.run(&["compact"]);
    assert_eq!((again.status, again.out.as_str()), (Some(0), "nothing to merge\n"), "{again}");
    let strict = root.run(&["query", "k9 = 1", "--strict"]);
    strict.fails_with(1, &["no node has a field `k9`"]);
    let sorted = root.json(&["query", "--keys", "k1", "--sort", "k1:desc,seq:desc", "--limit", "2"]);
    assert_eq!((&sorted[0]["seq"], &sorted[1]["seq"]), (&json!(49), &json!(48)));
    let edges = root.json(&["sql", "SELECT count(*) AS n FROM edges"]);
    assert_eq!(edges[0]["n"], 49, "six times the same edge is one");
    for (relation, count) in [("--parents", 1), ("--children", 1), ("--ancestors", 7), ("--descendants", 42)]
    {
        let nodes = root.json(&["lineage", "sim:7", relation]);
        assert_eq!(nodes.as_array().map(Vec::len), Some(count), "{relation} {nodes}");
    }
    let common = root.json(&["lineage", "sim:7", "--common", "sim:3"]);
    assert!(common.as_array().expect("nodes").iter().any(|node| node["seq"] == 2), "{common}");
}

#[test]
fn a_root_is_checked_and_repaired_by_the_plan_that_the_check_told() {
    let root = of_six_writers();
    let well = root.json(&["fsck"]);
    assert_eq!(
        (&well["parts"], &well["rows"], &well["problems"], &well["plan"]),
        (&json!(6), &json!(300), &json!([]), &Value::Null)
    );
    let values = root.path().join("objects/values");
    let part = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("an entry").path();
        (path.extension().is_some_and(|ending| ending == "parquet")).then_some(path)
    };
    let path = std::fs::read_dir(&values).expect("parts").find_map(part).expect("a part");
    let whole = std::fs::read(&path).expect("a part");
    std::fs::write(&path, &whole[..whole.len() - 9]).expect("a part");
    root.run(&["query"]).fails_with(1, &["is damaged"]);
    let found = root.run(&["fsck", "--format", "json"]);
    assert_eq!(found.status, Some(3), "{found}");
    let report = found.json();
    assert_eq!(
        (&report["problems"][0]["kind"], &report["problems"][0]["repair"]),
        (&json!("unreadable_part"), &json!("set_aside"))
    );
    let plan = report["plan"].as_str().expect("a plan").to_owned();
    root.run(&["fsck", "--repair", "nonsense"]).fails_with(1, &["the plan `nonsense`", &plan]);
    root.run(&["query"]).fails_with(1, &["is damaged"]);
    let repaired = root.run(&["fsck", "--repair", &plan]);
    assert!(repaired.status == Some(0) && repaired.out.contains("repaired 1 problem"), "{repaired}");
    assert_eq!(root.run(&["fsck"]).status, Some(0));
    let fields = root.json(&["query", "--limit", "1"]);
    assert_eq!(fields[0].as_object().expect("a row").keys().filter(|key| key.starts_with('k')).count(), 5);
}

#[test]
fn what_a_running_writer_has_not_published_is_the_same_to_every_question() {
    let root = Root::new(program());
    let mut session = Session::new(&root);
    for seq in 0..5 {
        session.say(&json!({"name": "sim", "nonce": "94ab", "seq": seq, "fields": {"energy": seq}}));
    }
    until("the journal", || {
        root.json(&["nodes"]).as_array().is_some_and(|runs| runs.len() == 1 && runs[0]["nodes"] == 5)
    });
    let node = root.json(&["nodes"])[0]["node"].as_str().expect("a node").to_owned();
    for what in ["sim", "latest", &node] {
        assert_eq!(root.json(&["show", what])["seq"], 4, "{what}");
    }
    assert_eq!(root.json(&["query", "energy >= 3", "--keys", "energy"]).as_array().map(Vec::len), Some(2));
    assert_eq!(root.json(&["query", "--explain"])["journals"], 1);
    assert_eq!(root.json(&["sql", "SELECT count(*) AS n FROM nodes"])[0]["n"], 5);
    session.say(&json!({"flush": true}));
    assert_eq!(session.answer(), json!({"durable": 5}));
    // A run that is being recorded is not removed.
    session.say(&json!({"name": "sim", "nonce": "94ab", "seq": 5}));
    until("the journal", || root.json(&["nodes"])[0]["nodes"] == 6);
    root.run(&["rm", "sim", "--yes"]).fails_with(1, &["is being recorded"]);
    assert_eq!(root.json(&["nodes"])[0]["nodes"], 6, "nothing of it went");
    assert_eq!(session.end().0, Some(0));
    assert_eq!(root.run(&["rm", "sim", "--yes"]).status, Some(0));
    assert_eq!(root.json(&["nodes"]), json!([]));
}

#[test]
fn answers_that_nobody_reads_keep_nobody_from_recording() {
    let root = Root::new(program());
    let mut session = Session::new(&root);
    let first = json!({"name": "sim", "nonce": "94ab", "seq": 0});
    session.say(&first);
    session.say(&json!({"flush": true}));
    assert_eq!(session.answer(), json!({"durable": 1}));
    let Session { mut child, input, lines } = session;
    drop(lines);
    let mut input = input.expect("its input");
    for seq in 1..4 {
        writeln!(
            input,
            "{}\n{}",
            json!({"name": "sim", "nonce": "94ab", "seq": seq}),
            json!({"flush": true})
        )
        .expect("it listens");
    }
    drop(input);
    assert_eq!(child.wait().expect("its end").code(), Some(1));
    assert_eq!(root.json(&["nodes"])[0]["nodes"], 4);
}

#[test]
fn a_journal_that_cannot_be_read_keeps_nobody_from_an_answer() {
    let root = of_six_writers();
    let values = root.path().join("objects/values");
    std::fs::create_dir(values.join(".journal-folder-0")).expect("a folder");
    std::fs::write(values.join(".journal-strange-0"), b"something else").expect("a file");
    for words in [&["nodes"][..], &["tail", "sim", "--once"], &["query", "--limit", "1"], &["show", "sim"]] {
        let run = root.run(words);
        assert_eq!(run.status, Some(0), "{words:?}\n{run}");
    }
    let found = root.run(&["fsck", "--format", "json"]);
    assert_eq!(found.status, Some(3), "{found}");
    let kinds: Vec<Value> = found.json()["problems"]
        .as_array()
        .expect("problems")
        .iter()
        .map(|one| one["kind"].clone())
        .collect();
    assert_eq!(kinds, [json!("foreign_segment"), json!("foreign_segment")]);
}

#[test]
fn a_journal_that_cannot_be_recovered_is_told_once_by_a_program() {
    let root = of_six_writers();
    let values = root.path().join("objects/values");
    for name in [".journal-strange-0", ".journal-stranger-0"] {
        std::fs::write(values.join(name), b"something else").expect("a file");
    }
    let mut session = Session::new(&root);
    // Each tag and each process has a store of its own, and each of those looks for journals.
    for process in 0..3 {
        session.say(&json!({"name": "new", "nonce": "94ab", "seq": process, "process": process, "tag": "t"}));
    }
    let (status, said) = session.end();
    assert_eq!(status, Some(0), "{said}");
    for name in [".journal-strange-0", ".journal-stranger-0"] {
        let told = said.lines().filter(|line| line.contains(name)).collect::<Vec<_>>();
        assert!(matches!(told[..], [line] if line.contains("no segment of a journal")), "{said}");
    }
}

/// Runs a script in a fresh folder that is a small disk, `disk`, with the program as `$WAYCAIRN`; `None` where this machine lets nobody mount.
fn on_a_small_disk(root: &Root, script: &str) -> Option<Run> {
    let mount = "mkdir disk && mount -t tmpfs -o size=1m none disk || exit 99";
    let mut command = Command::new("unshare");
    clean(&mut command, root.folder());
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]).arg(format!("{mount}\n{script}"));
    let run = Run::of(command.env("WAYCAIRN", program()).current_dir(root.folder()));
    let refused = run.status == Some(99) || run.err.contains("unshare");
    if refused {
        eprintln!("SKIPPED: nothing can be mounted here\n{run}");
    }
    (!refused).then_some(run)
}

#[test]
fn cli_4_a_recorder_whose_input_ends_on_a_full_disk_waits_for_room_or_says_what_a_stop_leaves() {
    let root = Root::new(program());
    let mut state = 7;
    let lines: String = (0..2000)
        .map(|seq| {
            let text: String = (0..4).map(|_| format!("{:08x}", random(&mut state))).collect();
            json!({"name": "sim", "nonce": "94ab", "seq": seq, "fields": {"text": text}}).to_string() + "\n"
        })
        .collect();
    let _ = root.file("lines", lines);
    // Room for a few of the records in the journal, and not for the part with all of them.
    let full = r#"
        cd disk
        echo '{"name":"sim","nonce":"94ab","seq":5000}' | "$WAYCAIRN" record --root . || exit 1
        dd if=/dev/zero of=pad bs=16k count=1 2> ../dd
        dd if=/dev/zero of=fill bs=4k 2> ../dd
        rm pad
        "$WAYCAIRN" record --root . < ../lines 2> ../said &
        until grep -q 'wait until there is room' ../said; do sleep 0.1; done
    "#;
    let waits = format!("{full} rm fill; wait $! || exit 2; \"$WAYCAIRN\" nodes --root . --format json");
    let Some(waited) = on_a_small_disk(&root, &waits) else { return };
    assert_eq!(waited.status, Some(0), "{waited}\n{}", said(&root));
    assert_eq!(waited.json()[0]["nodes"], 2001, "{waited}");

    let root_of_stop = Root::new(program());
    std::fs::copy(root.folder().join("lines"), root_of_stop.folder().join("lines")).expect("the lines");
    let stop = format!(
        "{full} kill -TERM $!; wait $!; [ $? = 1 ] || exit 2; rm fill; \"$WAYCAIRN\" recover --root . --format json"
    );
    let Some(stopped) = on_a_small_disk(&root_of_stop, &stop) else { return };
    let said = said(&root_of_stop);
    assert_eq!(stopped.status, Some(0), "{stopped}\n{said}");
    let recovered = stopped.json()["records"].as_u64().expect("a count");
    assert!((1..2000).contains(&recovered), "{stopped}\n{said}");
    let words = format!("2000 records were not written; the journal holds {recovered} of them");
    assert!(said.contains(&words), "no `{words}` in\n{said}");
}

#[test]
fn cli_4_a_stop_on_a_full_disk_ends_a_recorder_that_has_more_to_read() {
    // More lines than wait in memory, and more tags than stores are open.
    let tag = |seq: u64| json!(format!("tag {}", seq % 100));
    for (lines, tags) in [(75_000, false), (3_000, true)] {
        let root = Root::new(program());
        let lines: String = (0..lines)
            .map(|seq| {
                let mut line = json!({"name": "sim", "nonce": "94ab", "seq": seq});
                if tags {
                    line["tag"] = tag(seq);
                }
                line.to_string() + "\n"
            })
            .collect();
        let _ = root.file("lines", lines);
        let script = r#"
            cd disk
            echo '{"name":"sim","nonce":"94ab","seq":0}' | "$WAYCAIRN" record --root . || exit 1
            dd if=/dev/zero of=fill bs=4k 2> ../dd
            "$WAYCAIRN" record --root . < ../lines 2> ../said &
            until grep -q 'until there is room' ../said; do sleep 0.1; done
            kill -TERM $!
            for second in $(seq 60); do kill -0 $! 2> ../gone || break; sleep 1; done
            kill -9 $! 2> ../gone && exit 3
            wait $!
            [ $? = 1 ]
        "#;
        let Some(run) = on_a_small_disk(&root, script) else { return };
        let said = said(&root);
        assert_eq!(run.status, Some(0), "{run}\n{said}");
        assert!(said.contains("not written"), "{said}");
        assert!(!said.contains("make some, and"), "nothing waits any more\n{said}");
    }
}

fn said(root: &Root) -> String {
    std::fs::read_to_string(root.folder().join("said")).expect("what it said")
}

#[test]
fn a_recorder_takes_any_number_of_tags_with_few_files_open() {
    let root = Root::new(program());
    let lines: String = (0..300)
        .map(|seq| {
            // The first one comes again and again.
            let tag = if seq % 3 == 0 { "often".to_owned() } else { format!("tag {seq}") };
            json!({"name": "sim", "nonce": "94ab", "seq": seq, "tag": tag}).to_string() + "\n"
        })
        .chain([json!({"flush": true}).to_string() + "\n"])
        .collect();
    let lines = root.file("lines", lines);
    let mut command = Command::new("sh");
    clean(&mut command, root.folder());
    let limited = "ulimit -n 300; exec \"$0\" record --root \"$1\" < \"$2\"";
    let run = Run::of(command.args(["-c", limited, program()]).arg(root.path()).arg(lines));
    assert_eq!((run.status, run.out.as_str()), (Some(0), "{\"durable\":300}\n"), "{run}");
    let tags = root.json(&["sql", "SELECT count(*) AS n, count(DISTINCT _x_tag) AS tags FROM records"]);
    assert_eq!((&tags[0]["n"], &tags[0]["tags"]), (&json!(300), &json!(201)));
}
