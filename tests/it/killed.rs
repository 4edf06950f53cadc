//! What a writer has told that it recorded, and what is there after it was killed some time later.

#![cfg(unix)]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use waycairn_dag::Node;
use waycairn_store::{Freshness, ObjectReader, ObjectStore, Scalar, StoreOptions, recover};

/// Tells a child that it is a writer: `<records a batch>:<run>:<root>`.
const WRITER: &str = "WAYCAIRN_TEST_TELLING_WRITER";

/// What was told longer ago than this must be there: thirty times the interval of a journal, on a machine that has
/// other things to do.
const OLD: Duration = Duration::from_secs(3);

fn node(run: &str, seq: u64) -> Node {
    Node::new(run, "0123456789abcdef", seq).expect("a node")
}

/// The body of a child process; without the variable it is not one, and there is nothing to do.
#[test]
fn child_telling_writer() {
    let Ok(order) = std::env::var(WRITER) else { return };
    let [batch, run, root] = order.splitn(3, ':').collect::<Vec<_>>()[..] else { panic!("{order}") };
    // Nothing but a full batch publishes.
    let options = StoreOptions {
        batch_rows: batch.parse().expect("a number"),
        batch_deadline: Duration::from_secs(3_600),
        ..StoreOptions::default()
    };
    let store = ObjectStore::open(Path::new(root), options).expect("the store opens");
    let mut say = std::io::stdout();
    for seq in 0_u64.. {
        let fields = [("a", Scalar::Int(seq.cast_signed())), ("b", "text".into())];
        store.value(&node(run, seq), &fields).expect("a record");
        if seq % 10 == 9 {
            writeln!(say, "\nrecorded {}", seq + 1).expect("a reader");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A child that records until it is killed, and what it tells, with the time when it was heard.
struct Writer {
    run: String,
    child: Child,
    told: Receiver<(Instant, u64)>,
}

impl Writer {
    fn new(root: &Path, run: String, batch: u64) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "killed::child_telling_writer", "--nocapture"])
            .env(WRITER, format!("{batch}:{run}:{}", root.display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a child");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let (heard, told) = channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some(recorded) = line.strip_prefix("recorded ") {
                    let _ = heard.send((Instant::now(), recorded.parse().expect("a number")));
                }
            }
        });
        Self { run, child, told }
    }

    /// Kills it, and says how many records it had told of long before.
    fn kill(mut self) -> (String, u64) {
        let now = Instant::now();
        self.child.kill().expect("a signal");
        self.child.wait().expect("its end");
        let old = self.told.iter().filter(|(heard, _)| now.duration_since(*heard) >= OLD);
        (self.run, old.map(|(_, recorded)| recorded).max().unwrap_or(0))
    }
}

fn seqs(reader: &ObjectReader, run: &str) -> Vec<u64> {
    reader.query().name(run).all().expect("an answer").value.iter().map(Node::seq).collect()
}

#[test]
fn store_9_identity_case_19_nothing_that_is_older_than_the_interval_is_lost_by_a_kill_under_load() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    ObjectStore::open(&root, StoreOptions::default()).expect("a root").close().expect("closed");
    let reader = ObjectReader::open(&root).expect("a reader");
    let live = reader.with_freshness(Freshness::Live);
    for round in 0..2 {
        // The journal alone keeps what the first two record; the others publish all the time.
        let writers: Vec<Writer> = [60_000, 60_000, 500, 20]
            .into_iter()
            .zip(0..)
            .map(|(batch, number)| Writer::new(&root, format!("w-{round}-{number}"), batch))
            .collect();
        for writer in &writers {
            writer.told.recv_timeout(Duration::from_secs(120)).expect("it records");
        }
        let end = Instant::now() + OLD + Duration::from_millis(1_500 + 700 * round);
        while Instant::now() < end {
            live.query().count().expect("the reader never fails");
            thread::sleep(Duration::from_millis(50));
        }
        let killed: Vec<_> = writers.into_iter().map(Writer::kill).collect();
        assert!(published(&reader, &killed[0].0) == 0 && published(&reader, &killed[3].0) > 0);
        let seen: Vec<_> = killed.iter().map(|(run, _)| seqs(&live, run)).collect();
        let report = recover(&root).expect("a recovery");
        assert_eq!((report.damaged.len(), report.live), (0, 0), "round {round}");
        for ((run, old), seen) in killed.iter().zip(seen) {
            let recovered = seqs(&reader, run);
            assert!(*old > 0, "{run} told nothing in time");
            assert!(recovered.len() as u64 >= *old, "{run}: {} of {old}", recovered.len());
            assert_eq!(recovered, (0..recovered.len() as u64).collect::<Vec<_>>(), "{run} has a gap");
            assert_eq!(recovered, seen, "what a fresh reader saw is what is recovered");
        }
    }
}

fn published(reader: &ObjectReader, run: &str) -> usize {
    seqs(reader, run).len()
}
