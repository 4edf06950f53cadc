#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::time::Duration;

use tempfile::TempDir;
use waycairn_dag::Node;
use waycairn_durable::fault::{Step, record};

use super::*;
use crate::field::Scalar;
use crate::journal::JournalPolicy;
use crate::part::values_folder;
use crate::queue::{Limits, Origin, WhenFull};
use crate::testkit;

/// How often each step was done.
fn counts(steps: &[Step]) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    steps.iter().for_each(|step| *counts.entry(step.name).or_default() += 1);
    counts
}

/// What some calls, the journal and the writer do to the disk, one after the other in this thread.
fn steps_of(calls: u64) -> [BTreeMap<&'static str, u64>; 3] {
    let root = TempDir::new().unwrap();
    let values = values_folder(root.path());
    waycairn_durable::create_dir_all(&values).unwrap();
    let limits = Limits {
        batch_rows: 4_096,
        batch_deadline: Duration::from_secs(30),
        queue_rows: 65_536,
        when_full: WhenFull::Drop,
    };
    let queue = Arc::new(Queue::new(limits, false));
    let launch = Launch { writer: "w".to_owned(), process: 0, execution: None, tag: None, job: None };
    let journal = Arc::new(Journal::new(&values, &launch, JournalPolicy::default(), false).unwrap());
    let writer = Writer {
        queue: Arc::clone(&queue),
        journal: Arc::clone(&journal),
        values,
        launch,
        retry: RetryPolicy::default(),
        parts: OwnParts::default(),
    };
    let (_, called) = record(|| {
        for seq in 0..calls {
            let node = Node::new("r", "n", seq).unwrap();
            queue.push(&node, &[("a", Scalar::Int(1))], None, Origin::Value).unwrap();
        }
    });
    let (_, journaled) = record(|| journal.write(&queue).unwrap());
    queue.end();
    let (_, published) = record(|| writer.run());
    assert_eq!(testkit::rows(root.path()).len() as u64, calls);
    [called, journaled, published].map(|steps| counts(&steps))
}

#[test]
fn f08_a_thousand_single_values_cost_the_steps_of_one() {
    let one = steps_of(1);
    let [called, journaled, published] = &one;
    assert!(called.is_empty(), "a call does nothing to the disk: {called:?}");
    assert_eq!((journaled["store.journal.append"], published["store.part.publish"]), (1, 1));
    assert_eq!(steps_of(1_000), one);
}
