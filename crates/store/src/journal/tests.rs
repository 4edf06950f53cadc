#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod without_locks;

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tempfile::TempDir;
use waycairn_dag::Node;
use waycairn_durable::fault::refuse;

use super::*;
use crate::field::Scalar;
use crate::part::values_folder;
use crate::store::{ObjectStore, StoreOptions};
use crate::testkit;
use crate::{Freshness, RecordError, WhenFull, recover};

const EIO: i32 = 5;
const EACCES: i32 = 13;
const EDQUOT: i32 = 122;
const ETIMEDOUT: i32 = 110;
const ESTALE: i32 = 116;
const ENOSPC: i32 = 28;

fn node(seq: u64) -> Node {
    Node::new("run", "0123456789abcdef", seq).unwrap()
}

fn quick() -> StoreOptions {
    StoreOptions { journal: JournalPolicy::Interval(Duration::from_millis(1)), ..StoreOptions::default() }
}

fn segments(root: &TempDir) -> Vec<PathBuf> {
    super::segments(&values_folder(root.path())).unwrap()
}

fn record(store: &ObjectStore, seq: u64) {
    store.value(&node(seq), &[("a", Scalar::Int(seq.cast_signed()))]).unwrap();
}

fn until(mut what: impl FnMut() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < Duration::from_secs(60), "it does not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What a reader sees of it now.
fn seen(store: &ObjectStore, freshness: Freshness) -> Vec<u64> {
    let reader = store.reader().with_freshness(freshness);
    reader.query().all().unwrap().value.iter().map(Node::seq).collect()
}

/// Ends a store as a killed process would: nothing more is published, and its locks are free.
fn kill(store: ObjectStore) {
    store.journal().release();
    std::mem::forget(store);
}

#[test]
fn store_9_what_waits_is_in_the_journal_and_a_fresh_reader_sees_it() {
    let root = TempDir::new().unwrap();
    let store = ObjectStore::open(root.path(), quick()).unwrap();
    record(&store, 0);
    until(|| seen(&store, Freshness::Live) == [0]);
    assert_eq!(seen(&store, Freshness::Published), [0_u64; 0]);
    assert_eq!(segments(&root).len(), 1);
    record(&store, 1);
    until(|| seen(&store, Freshness::Live) == [0, 1]);
    assert_eq!(store.reader().schema().unwrap().len(), 0, "no part has the field");
    assert_eq!(store.reader().with_freshness(Freshness::Live).schema().unwrap().len(), 1);
    store.flush().unwrap();
    assert_eq!(segments(&root), Vec::<PathBuf>::new(), "the batch is published, so its segment is gone");
    assert_eq!(seen(&store, Freshness::Live), [0, 1]);
    store.close().unwrap();
    assert_eq!(testkit::strays(root.path()).iter().filter(|name| is_segment_name(name)).count(), 0);
}

#[test]
fn store_9_what_a_dead_writer_had_journaled_arrives_once() {
    let root = TempDir::new().unwrap();
    let store = ObjectStore::open(root.path(), quick()).unwrap();
    for seq in 0..50 {
        record(&store, seq);
    }
    store.finish(&node(49)).unwrap();
    until(|| store.queue().unjournaled() == 0);
    let living = recover(root.path()).unwrap();
    assert_eq!((living.live, living.segments, living.records), (1, 0, 0), "its writer lives");
    let before = store.reader().with_freshness(Freshness::Live).query().select_all().unwrap().value;
    kill(store);
    let report = recover(root.path()).unwrap();
    assert_eq!((report.segments, report.records, report.torn_bytes), (1, 51, 0));
    assert_eq!(segments(&root), Vec::<PathBuf>::new());
    let store = ObjectStore::open(root.path(), quick()).unwrap();
    assert_eq!(store.reader().query().select_all().unwrap().value, before);
    assert!(store.reader().runs().unwrap()[0].finished);
    assert_eq!(testkit::rows(root.path()).len(), 51, "once");
    assert_eq!(recover(root.path()).unwrap(), crate::RecoverReport::default());
}

#[test]
fn store_9_a_recovery_that_died_between_publication_and_removal_changes_no_answer() {
    let root = TempDir::new().unwrap();
    let store = ObjectStore::open(root.path(), quick()).unwrap();
    record(&store, 3);
    until(|| store.queue().unjournaled() == 0);
    kill(store);
    let path = segments(&root).remove(0);
    let bytes = fs::read(&path).unwrap();
    recover(root.path()).unwrap();
    testkit::put(&path, &bytes);
    recover(root.path()).unwrap();
    let store = ObjectStore::open(root.path(), quick()).unwrap();
    assert_eq!(testkit::rows(root.path()).len(), 2);
    assert_eq!(seen(&store, Freshness::Live), [3]);
    let runs = store.reader().runs().unwrap();
    assert_eq!((runs.len(), runs[0].nodes), (1, 1));
}

#[test]
fn store_9_a_torn_end_is_cut_and_a_damaged_segment_is_kept() {
    let root = TempDir::new().unwrap();
    let store = ObjectStore::open(root.path(), quick()).unwrap();
    for seq in 0..3 {
        record(&store, seq);
        until(|| store.queue().unjournaled() == 0);
    }
    kill(store);
    let path = segments(&root).remove(0);
    let bytes = fs::read(&path).unwrap();
    let torn = path.with_file_name(segment_name("torn", 0));
    testkit::put(&torn, &bytes[..bytes.len() - 1]);
    // Written whole, and then other bytes: nobody knows what they were, so they are kept.
    let flipped = path.with_file_name(segment_name("flipped", 0));
    let mut bytes_of_last = bytes.clone();
    *bytes_of_last.last_mut().unwrap() ^= 1;
    testkit::put(&flipped, &bytes_of_last);
    let empty = path.with_file_name(segment_name("empty", 0));
    testkit::put(&empty, b"");
    // The second record's frame, whatever its length.
    let mut damaged = bytes.clone();
    let place = damaged.len() - (damaged.len() - frame_of(&bytes)) / 2 - 4;
    damaged[place] ^= 1;
    testkit::put(&path, &damaged);

    let report = recover(root.path()).unwrap();
    assert_eq!((report.segments, report.damaged.len()), (4, 2));
    assert!(report.torn_bytes > 0);
    let name = path.file_name().unwrap().to_str().unwrap();
    let kept =
        [path.with_file_name(damaged_name(name)), path.with_file_name(damaged_name(".journal-flipped-0"))];
    assert_eq!(report.damaged.iter().collect::<std::collections::BTreeSet<_>>(), kept.iter().collect());
    assert_eq!(fs::read(&kept[0]).unwrap(), damaged, "nobody throws away what he cannot read");
    let store = ObjectStore::open(root.path(), quick()).unwrap();
    assert_eq!(
        seen(&store, Freshness::Live),
        [0, 1, 2],
        "the torn copy had the first two, the damaged one the last"
    );
}

/// Where the frames of records begin.
fn frame_of(bytes: &[u8]) -> usize {
    let mut length = [0; 4];
    length.copy_from_slice(&bytes[8..12]);
    8 + 8 + u32::from_le_bytes(length) as usize
}

#[test]
fn store_9_a_segment_of_another_version_is_left_alone() {
    let root = TempDir::new().unwrap();
    ObjectStore::open(root.path(), quick()).unwrap().close().unwrap();
    let path = values_folder(root.path()).join(segment_name("new", 0));
    testkit::put(&path, b"WCJRNL\x00\x02 whatever");
    let error = recover(root.path()).unwrap_err();
    assert!(error.io_cause().unwrap().to_string().contains("no segment"), "{error}");
    assert!(path.exists());
    let store = ObjectStore::open(root.path(), quick()).unwrap();
    record(&store, 0);
    assert_eq!(store.close().unwrap().records, 1, "and nobody is kept from recording");
    assert_eq!(seen(&store, Freshness::Live), [0]);
}

#[test]
fn store_9_a_journal_that_cannot_be_written_costs_no_record() {
    let root = TempDir::new().unwrap();
    let store = ObjectStore::open(root.path(), quick()).unwrap();
    record(&store, 0);
    until(|| store.queue().unjournaled() == 0);
    let full = refuse("file.append", root.path(), ENOSPC, u64::MAX);
    record(&store, 1);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(store.queue().unjournaled(), 1);
    drop(full);
    until(|| store.queue().unjournaled() == 0);
    kill(store);
    let report = recover(root.path()).unwrap();
    assert_eq!((report.records, report.damaged.len(), report.torn_bytes), (2, 0, 0));
}

#[test]
fn identity_case_05_a_disk_that_fails_leaves_the_records_in_the_journal() {
    let root = TempDir::new().unwrap();
    let store =
        ObjectStore::open(root.path(), StoreOptions { batch_rows: 4, ..StoreOptions::default() }).unwrap();
    let broken = refuse("file.sync", root.path(), 13, u64::MAX);
    for seq in 0..4 {
        record(&store, seq);
    }
    let error = store.flush().unwrap_err();
    assert!(matches!(error, StoreError::Failed { unwritten: 4, journaled: 4, .. }), "{error:?}");
    assert!(error.to_string().contains("come back when the root is opened again"), "{error}");
    drop(broken);
    let again = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
    assert_eq!(seen(&again, Freshness::Published), [0, 1, 2, 3]);
    assert!(matches!(store.close(), Err(StoreError::Failed { unwritten: 4, .. })));
}

#[test]
fn store_9_a_batch_that_takes_long_to_publish_is_journaled_meanwhile() {
    let root = TempDir::new().unwrap();
    let store = ObjectStore::open(root.path(), StoreOptions { batch_rows: 2, ..quick() }).unwrap();
    // Each try of the writer waits and is refused; a disk that answers late does the same.
    let slow = refuse("file.sync", root.path(), EIO, 1);
    record(&store, 0);
    record(&store, 1);
    record(&store, 2);
    until(|| store.queue().unjournaled() == 0);
    assert_eq!(testkit::parts(root.path()).len(), 0, "the writer waits before its second try");
    assert_eq!(seen(&store, Freshness::Live), [0, 1, 2]);
    store.flush().unwrap();
    drop(slow);
    assert_eq!(seen(&store, Freshness::Published), [0, 1, 2]);
}

/// Writers publish as often as they can; whatever a reader has seen it sees again.
#[test]
fn store_9_a_record_that_moves_from_journal_to_part_is_never_missed() {
    let root = TempDir::new().unwrap();
    let options =
        StoreOptions { batch_rows: 3, journal: JournalPolicy::EachRecord, ..StoreOptions::default() };
    let store = ObjectStore::open(root.path(), options).unwrap();
    let reader = store.reader().with_freshness(Freshness::Live);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for seq in 0..400 {
                record(&store, seq);
                if seq % 7 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            done.store(true, Ordering::SeqCst);
        });
        let mut last = 0;
        while !done.load(Ordering::SeqCst) {
            let now = reader.query().count().unwrap().value;
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
    });
    store.close().unwrap();
    assert_eq!(reader.query().count().unwrap().value, 400);
}

/// A full disk stops nobody: records wait, a flush says so in time, and they are written when there is room.
#[test]
fn store_2_a_full_disk_makes_records_wait_and_loses_none() {
    let root = TempDir::new().unwrap();
    let retry = crate::retry::RetryPolicy { full: Duration::from_millis(20), ..Default::default() };
    let store =
        ObjectStore::open_with(root.path(), StoreOptions { batch_rows: 2, ..quick() }, retry).unwrap();
    let mut total = 0;
    let steps =
        [("file.write", ENOSPC), ("file.create", EDQUOT), ("file.sync", ENOSPC), ("folder.sync", ENOSPC)];
    for (full, errno) in steps {
        let disk = refuse(full, &values_folder(root.path()), errno, u64::MAX);
        for seq in 0..5 {
            record(&store, seq);
        }
        let error = store.flush().unwrap_err();
        assert!(matches!(error, StoreError::Full { records: 5, .. }), "{full}: {error:?}");
        assert!(error.to_string().contains("5 records wait for room"), "{error}");
        record(&store, 5);
        drop(disk);
        total += 6;
        assert_eq!(store.flush().unwrap().records, total, "{full}");
    }
    assert_eq!(store.close().unwrap().dropped, 0);
    assert_eq!(twice(&store), 0);
}

#[test]
fn store_2_a_close_does_not_wait_for_ever_and_the_journal_keeps_what_it_can() {
    let root = TempDir::new().unwrap();
    let retry = crate::retry::RetryPolicy { full: Duration::from_millis(20), ..Default::default() };
    let store = ObjectStore::open_with(root.path(), quick(), retry).unwrap();
    record(&store, 0);
    until(|| store.queue().unjournaled() == 0);
    let disk = refuse("file.create", &values_folder(root.path()), ENOSPC, u64::MAX);
    let error = store.close().unwrap_err();
    assert!(matches!(error, StoreError::Failed { unwritten: 1, journaled: 1, .. }), "{error:?}");
    assert!(matches!(store.close(), Err(StoreError::Failed { .. })), "at every close");
    drop(disk);
    assert_eq!(recover(root.path()).unwrap().records, 1);
}

/// As records do, while nobody waits for them.
#[test]
fn store_2_a_full_disk_makes_artifacts_wait_and_loses_none() {
    let root = TempDir::new().unwrap();
    let retry = crate::retry::RetryPolicy { full: Duration::from_millis(20), ..Default::default() };
    let store = ObjectStore::open_with(root.path(), quick(), retry).unwrap();
    let blobs = crate::blob::blobs_folder(root.path());
    let disk = refuse("file.write", &blobs, ENOSPC, u64::MAX);
    store.artifact(&node(0), "summary", &[("mean", 1.into())], &[1, 2, 3]).unwrap();
    let error = store.flush().unwrap_err();
    assert!(matches!(error, StoreError::Full { records: 1, .. }), "{error:?}");
    drop(disk);
    store.flush().unwrap();
    let there = store.reader().node(&node(0)).unwrap().unwrap();
    assert_eq!((there.artifacts.len(), &there.fields["summary/mean"]), (1, &Scalar::Int(1)));

    let disk = refuse("file.write", &blobs, EDQUOT, u64::MAX);
    let files = vec![("curve.svg".to_owned(), vec![7; 50])];
    let attachment = crate::record::Attachment { files, ..Default::default() };
    let error = store.attach(&node(0), attachment.clone()).unwrap_err();
    assert!(crate::retry::is_full(&error), "who waits is told after a while: {error:?}");
    assert!(store.reader().node(&node(0)).unwrap().unwrap().files.is_empty());
    store.artifact(&node(1), "summary", &[], &[1]).unwrap();
    let closed = store.close().unwrap_err();
    assert!(
        matches!(closed, StoreError::Artifacts { failed: 1, .. }),
        "a close does not wait for ever: {closed:?}"
    );
    drop(disk);
    let again = ObjectStore::open(root.path(), quick()).unwrap();
    again.attach(&node(0), attachment).unwrap();
    again.flush().unwrap();
    assert_eq!(again.reader().node(&node(0)).unwrap().unwrap().files.len(), 1);
}

/// How many records are there twice.
fn twice(store: &ObjectStore) -> usize {
    let text = "select _x_write from records group by _x_writer, _x_write having count(*) > 1";
    store.reader().sql(text).unwrap().num_rows()
}

#[test]
fn store_2_a_part_that_may_not_be_made_for_a_while_is_made_then() {
    let root = TempDir::new().unwrap();
    let values = values_folder(root.path());
    let store = ObjectStore::open_with(root.path(), quick(), testkit::impatient()).unwrap();
    record(&store, 0);
    // From here on the journal makes no file, so all that is refused is the claim of the part.
    until(|| store.queue().unjournaled() == 0);
    let refused = refuse("file.create", &values, EACCES, 3);
    store.flush().unwrap();
    drop(refused);
    assert_eq!(seen(&store, Freshness::Published), [0]);
    record(&store, 1);
    until(|| store.queue().unjournaled() == 0);
    let refused = refuse("file.create", &values, EACCES, u64::MAX);
    let error = store.flush().unwrap_err();
    assert!(matches!(error, StoreError::Failed { unwritten: 1, journaled: 1, .. }), "{error:?}");
    let cause = std::error::Error::source(&error).unwrap();
    assert!(cause.to_string().contains(&values.display().to_string()), "it names the place: {cause}");
    assert!(!store.is_open());
    drop(refused);
    assert_eq!(recover(root.path()).unwrap().records, 1);
}

#[test]
fn store_2_a_disk_that_is_broken_to_the_end_fails_the_store_and_keeps_the_journal() {
    for (step, errno) in
        [("file.write", EIO), ("rename", ESTALE), ("file.sync", ETIMEDOUT), ("folder.sync", EIO)]
    {
        let root = TempDir::new().unwrap();
        let store = ObjectStore::open_with(root.path(), quick(), testkit::impatient()).unwrap();
        record(&store, 0);
        store.flush().unwrap();
        record(&store, 1);
        until(|| store.queue().unjournaled() == 0);
        // Three tries more are made, and the third of them is the last.
        let short = refuse(step, &values_folder(root.path()), errno, 3);
        store.flush().unwrap();
        drop(short);
        record(&store, 2);
        until(|| store.queue().unjournaled() == 0);
        let broken = refuse(step, &values_folder(root.path()), errno, u64::MAX);
        let error = store.flush().unwrap_err();
        assert!(matches!(error, StoreError::Failed { unwritten: 1, journaled: 1, .. }), "{step}: {error:?}");
        assert!(matches!(store.close(), Err(StoreError::Failed { .. })), "{step}");
        drop(broken);
        recover(root.path()).unwrap();
        let reader = store.reader();
        assert_eq!(reader.query().all().unwrap().value.len(), 3, "{step}");
        // Where the name could not be synced the part is there all the same, and the journal is kept.
        let expected = if step == "folder.sync" { 1 } else { 0 };
        assert_eq!(twice(&store), expected, "{step}");
    }
}

#[test]
fn store_9_a_journal_that_is_synced_survives_a_power_loss_with_its_name() {
    let root = TempDir::new().unwrap();
    let values = values_folder(root.path());
    let options = StoreOptions { journal: JournalPolicy::Interval(Duration::from_secs(3_600)), ..quick() };
    for sync in [true, false] {
        let store =
            ObjectStore::open(root.path(), StoreOptions { journal_sync: sync, ..options.clone() }).unwrap();
        let steps = |seq| {
            record(&store, seq);
            let (written, steps) = waycairn_durable::fault::record(|| store.journal().write(store.queue()));
            written.unwrap();
            let below = |step: &waycairn_durable::fault::Step| {
                step.path.as_ref().is_some_and(|at| at.starts_with(&values))
            };
            steps.into_iter().filter(below).map(|step| step.name).collect::<Vec<_>>()
        };
        let first = steps(0);
        let place = |name| first.iter().rposition(|step| *step == name);
        assert_eq!(place("file.sync") > place("file.append"), sync, "{first:?}");
        assert_eq!(place("folder.sync") > place("rename"), sync, "{first:?}");
        let next = steps(1);
        assert_eq!(next.first(), Some(&"file.append"), "{next:?}");
        assert_eq!(next.contains(&"file.sync"), sync, "{next:?}");
        store.close().unwrap();
    }
}

#[test]
fn store_2_on_a_full_disk_a_full_queue_drops_and_counts_or_waits_as_long_as_it_may() {
    for when_full in [WhenFull::Drop, WhenFull::Block(Duration::from_millis(30))] {
        let root = TempDir::new().unwrap();
        let options = StoreOptions { batch_rows: 2, queue_rows: 4, when_full, ..quick() };
        let store = ObjectStore::open_with(root.path(), options, testkit::impatient()).unwrap();
        let disk = refuse("file.write", &values_folder(root.path()), ENOSPC, u64::MAX);
        let (mut accepted, mut refused) = (0, 0);
        for seq in 0..12 {
            match store.value(&node(seq), &[("a", Scalar::Int(1))]) {
                Ok(()) => accepted += 1,
                Err(RecordError::Full { waited, records }) => {
                    assert_eq!((waited, records), (Duration::from_millis(30), 4));
                    refused += 1;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        drop(disk);
        let report = store.close().unwrap();
        // A batch, of all that waited, may be under way beside the four that wait.
        let kept = report.records;
        assert!((4..=8).contains(&kept), "{when_full:?}: {kept}");
        let lost = if when_full == WhenFull::Drop { report.dropped } else { refused };
        assert_eq!((kept + lost, accepted + refused), (12, 12), "{when_full:?}");
    }
}
