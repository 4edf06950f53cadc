#![allow(clippy::unwrap_used, reason = "tests")]

use std::thread;

use super::*;

fn queue(batch_rows: usize, queue_rows: usize, when_full: WhenFull) -> Queue {
    Queue::new(Limits { batch_rows, batch_deadline: Duration::from_secs(3600), queue_rows, when_full }, false)
}

fn node(seq: u64) -> Node {
    Node::new("run", "nonce", seq).unwrap()
}

fn push(queue: &Queue, seq: u64, origin: Origin) -> Result<(), RecordError> {
    queue.push(&node(seq), &[("a", 1.0.into())], None, origin)
}

fn seqs(batch: &QueuedBatch) -> Vec<u64> {
    batch.rows.rows().iter().map(|row| row.node.seq()).collect()
}

#[test]
fn store_2_a_batch_goes_out_whole_and_in_order() {
    let queue = queue(2, 10, WhenFull::Drop);
    for seq in 0..5 {
        push(&queue, seq, Origin::Value).unwrap();
    }
    let batch = queue.next_batch().unwrap();
    assert_eq!(seqs(&batch), [0, 1, 2, 3, 4], "all that is queued, not only the batch size");
    let writes: Vec<i64> = batch.rows.rows().iter().map(|row| row.write).collect();
    assert!(writes.windows(2).all(|pair| pair[0] < pair[1]));
    queue.written(batch);
    push(&queue, 5, Origin::Value).unwrap();
    queue.end();
    assert_eq!(seqs(&queue.next_batch().unwrap()), [5], "what is left goes out at the end");
    assert!(queue.next_batch().is_none());
}

#[test]
fn store_2_a_full_queue_drops_and_counts_values_but_never_markers() {
    let queue = queue(1, 2, WhenFull::Drop);
    for seq in 0..5 {
        push(&queue, seq, Origin::Value).unwrap();
    }
    assert_eq!(queue.totals().unwrap().dropped, 3);
    assert!(queue.has_recorded(&node(1)));
    assert!(!queue.has_recorded(&node(2)), "a dropped record is no record");
    thread::scope(|scope| {
        let marker = scope.spawn(|| push(&queue, 9, Origin::Marker));
        let batch = queue.next_batch().unwrap();
        marker.join().unwrap().unwrap();
        queue.written(batch);
    });
    assert_eq!(seqs(&queue.next_batch().unwrap()), [9]);
}

#[test]
fn store_2_a_full_queue_blocks_within_the_limit() {
    let queue = queue(1, 1, WhenFull::Block(Duration::from_millis(20)));
    push(&queue, 0, Origin::Value).unwrap();
    let error = push(&queue, 1, Origin::Value).unwrap_err();
    assert!(matches!(error, RecordError::Full { records: 1, .. }));
    let queue = self::queue(1, 1, WhenFull::default());
    push(&queue, 0, Origin::Value).unwrap();
    thread::scope(|scope| {
        let blocked = scope.spawn(|| push(&queue, 1, Origin::Value));
        assert_eq!(seqs(&queue.next_batch().unwrap()), [0]);
        blocked.join().unwrap().unwrap();
    });
    assert_eq!(seqs(&queue.next_batch().unwrap()), [1]);
}

#[test]
fn store_2_the_deadline_of_the_first_record_sends_a_batch() {
    let limits = Limits {
        batch_rows: 100,
        batch_deadline: Duration::from_millis(5),
        queue_rows: 100,
        when_full: WhenFull::Drop,
    };
    let queue = Queue::new(limits, false);
    push(&queue, 0, Origin::Value).unwrap();
    assert_eq!(seqs(&queue.next_batch().unwrap()), [0]);
}

#[test]
fn store_2_flush_returns_when_what_came_before_is_written() {
    let queue = queue(100, 100, WhenFull::Drop);
    assert_eq!(queue.flush().unwrap().published, 0);
    push(&queue, 0, Origin::Value).unwrap();
    thread::scope(|scope| {
        let flush = scope.spawn(|| queue.flush());
        let batch = queue.next_batch().unwrap();
        push(&queue, 1, Origin::Value).unwrap();
        queue.written(batch);
        assert_eq!(flush.join().unwrap().unwrap().published, 1, "the later record is not waited for");
    });
}

#[test]
fn store_2_a_failure_surfaces_everywhere_with_the_number_of_lost_records() {
    let queue = queue(2, 100, WhenFull::Drop);
    for seq in 0..2 {
        push(&queue, seq, Origin::Value).unwrap();
    }
    let batch = queue.next_batch().unwrap();
    push(&queue, 2, Origin::Value).unwrap();
    queue.fail(StoreError::Thread { thread: "writer" }, batch.rows.len() as u64);
    for _ in 0..2 {
        let error = push(&queue, 3, Origin::Marker).unwrap_err();
        assert!(matches!(error, RecordError::Failed { unwritten: 3, .. }), "{error}");
        assert!(matches!(queue.flush().unwrap_err(), StoreError::Failed { unwritten: 3, .. }));
        assert!(matches!(queue.totals().unwrap_err(), StoreError::Failed { unwritten: 3, .. }));
        assert!(matches!(queue.check_open().unwrap_err(), StoreError::Failed { .. }));
    }
    queue.end();
    assert!(queue.next_batch().is_none());
}

#[test]
fn store_2_a_closing_queue_takes_only_what_the_artifact_thread_brings() {
    let queue = queue(2, 100, WhenFull::Drop);
    queue.drain();
    assert!(matches!(push(&queue, 0, Origin::Value).unwrap_err(), RecordError::Closed));
    assert!(matches!(push(&queue, 0, Origin::Marker).unwrap_err(), RecordError::Closed));
    assert!(matches!(queue.check_open().unwrap_err(), StoreError::Closed));
    push(&queue, 1, Origin::Artifact).unwrap();
    queue.end();
    assert!(matches!(push(&queue, 2, Origin::Artifact).unwrap_err(), RecordError::Closed));
    assert_eq!(seqs(&queue.next_batch().unwrap()), [1]);
}
