//! The object store: what a run records goes through here.

use std::collections::HashSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;
use waycairn_dag::Node;
use waycairn_durable::{self as durable, Durability, StagedFile, ensure_format, fault, read_format, time};

use crate::batch::Launch;
use crate::blob::{Blobs, CHECKPOINT_ENTRY, StagedEntry, blobs_folder, check_inside, check_name};
use crate::compact::{CLOSE_LIMIT, CompactReport, TEMPORARY_AGE, compact};
use crate::error::{RecordError, StoreError};
use crate::field::{Scalar, check_tag};
use crate::journal::{Journal, JournalPolicy};
use crate::part::{new_part_name, values_folder};
use crate::queue::{Limits, MAX_BATCH_ROWS, Origin, Queue, WhenFull};
use crate::record::{Artifacts, Attachment, Job};
use crate::recover::recover_each;
use crate::retry::RetryPolicy;
use crate::row::Marks;
use crate::writer::{OwnParts, Writer};

/// How a store records. The default suits a training run.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Index of this process among those that record the same nodes; process 0 wins conflicts and writes
    /// artifacts.
    pub process: i64,
    /// Random id of this launch of the process.
    pub execution: Option<String>,
    /// The user's tag; see [`check_tag`].
    pub tag: Option<String>,
    /// The experiment and its version, `<experiment>@<version>`.
    pub job: Option<String>,
    /// A batch goes out at this many records; at most [`MAX_BATCH_ROWS`] count.
    pub batch_rows: usize,
    /// A batch goes out this long after its first record.
    pub batch_deadline: Duration,
    /// Most records that wait for the writer; at most [`MAX_BATCH_ROWS`] count.
    pub queue_rows: usize,
    /// What a record does that finds the queue full.
    pub when_full: WhenFull,
    /// When accepted records go to the journal.
    pub journal: JournalPolicy,
    /// Whether what is in the journal survives a loss of power too: each write of it waits for the disk, in a thread of
    /// its own. Without it the journal survives the end of the process.
    pub journal_sync: bool,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            process: 0,
            execution: None,
            tag: None,
            job: None,
            batch_rows: 4096,
            batch_deadline: Duration::from_secs(30),
            queue_rows: MAX_BATCH_ROWS,
            when_full: WhenFull::default(),
            journal: JournalPolicy::default(),
            journal_sync: false,
        }
    }
}

/// What a flush made sure of, in numbers since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlushReport {
    /// Records that are durable and visible.
    pub records: u64,
    /// Parts that hold them.
    pub parts: u64,
    /// Records that were dropped because the queue was full.
    pub dropped: u64,
}

/// What a store did in its life.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CloseReport {
    /// Records that are durable and visible.
    pub records: u64,
    /// Parts that were published, before they were compacted.
    pub parts: u64,
    /// Records that were dropped because the queue was full.
    pub dropped: u64,
    /// What became of the parts at the end.
    pub compaction: CompactReport,
}

/// What a close does with the parts of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AtClose {
    Compact,
    Leave,
}

/// Records into the objects of one output root; see the crate's documentation.
///
/// All methods take `&self` and may be called from many threads; share it behind an `Arc`. Any number of
/// stores, in any number of processes, may write to one root at once.
///
/// Dropping it drains as [`ObjectStore::close_uncompacted`] does, but a failure is only logged.
#[derive(Debug)]
pub struct ObjectStore {
    root: PathBuf,
    process: i64,
    queue: Arc<Queue>,
    journal: Arc<Journal>,
    blobs: Arc<Blobs>,
    artifacts: Artifacts,
    parts: OwnParts,
    /// The writer, and the journal.
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Taken for the whole of a close, so that two of them do not compact at once.
    closed: Mutex<Option<CloseReport>>,
}

impl ObjectStore {
    /// Opens the objects under an output root, and makes them if they are missing.
    ///
    /// # Errors
    /// [`StoreError::Tag`] for a tag that [`check_tag`] refuses;
    /// [`StoreError::Format`] when the root is no folder, is of a newer format or cannot hold a store;
    /// [`StoreError::Outside`] when `objects` or `objects/blobs` is a link that leads out of the root;
    /// [`StoreError::Commit`] when its folders cannot be made. Nothing was made then.
    pub fn open(root: &Path, options: StoreOptions) -> Result<ObjectStore, StoreError> {
        ObjectStore::open_with(root, options, RetryPolicy::default())
    }

    pub(crate) fn open_with(
        root: &Path,
        options: StoreOptions,
        retry: RetryPolicy,
    ) -> Result<ObjectStore, StoreError> {
        options.tag.as_deref().map_or(Ok(()), check_tag)?;
        read_format(root)?;
        check_inside(root)?;
        ensure_format(root)?;
        let values = values_folder(root);
        durable::create_dir_all(&values)?;
        durable::create_dir_all(&blobs_folder(root))?;
        // What it finds stays where it cannot be published now: it is tried again by whoever opens the root next.
        if let Err(error) = recover_each(root) {
            tracing::warn!(%error, "the journals of dead writers could not be looked for");
        }
        let StoreOptions {
            process,
            execution,
            tag,
            job,
            batch_rows,
            batch_deadline,
            queue_rows,
            when_full,
            ..
        } = options;
        let limits = Limits { batch_rows, batch_deadline, queue_rows, when_full };
        let queue = Arc::new(Queue::new(limits, options.journal == JournalPolicy::EachRecord));
        let blobs = Arc::new(Blobs::new(blobs_folder(root), process));
        let parts = OwnParts::default();
        let launch = Launch { writer: Uuid::new_v4().to_string(), process, execution, tag, job };
        let journal = Arc::new(Journal::new(&values, &launch, options.journal, options.journal_sync)?);
        let writer = Writer {
            queue: Arc::clone(&queue),
            journal: Arc::clone(&journal),
            values,
            launch,
            retry: retry.clone(),
            parts: Arc::clone(&parts),
        };
        let mut threads = vec![spawn("writer", move || writer.run())?];
        let (journal_of_thread, queue_of_thread) = (Arc::clone(&journal), Arc::clone(&queue));
        match spawn("journal", move || journal_of_thread.run(&queue_of_thread)) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                queue.end();
                return Err(error);
            }
        }
        Ok(ObjectStore {
            root: root.to_owned(),
            process,
            artifacts: Artifacts::new(Arc::clone(&blobs), Arc::clone(&queue), retry),
            queue,
            journal,
            blobs,
            parts,
            threads: Mutex::new(threads),
            closed: Mutex::new(None),
        })
    }

    /// Looks whether a part could be written under a root now, once and without patience, as whoever waits for a disk to
    /// be well again asks before [`ObjectStore::open`]: a small file is written beside the parts and removed. Where there is
    /// room for no more than that, it does not notice.
    ///
    /// # Errors
    /// [`StoreError::Commit`], [`StoreError::Io`].
    pub fn probe(root: &Path) -> Result<(), StoreError> {
        let mut staged = StagedFile::create(&values_folder(root).join(new_part_name()), Durability::State)?;
        let written = staged.write_all(&[0]).and_then(|()| staged.file().sync_all());
        let path = || staged.path().to_owned();
        written.map_err(|source| StoreError::Io { operation: "write", path: path(), source })
    }

    /// The output root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    #[cfg(test)]
    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// The parts that it published and nobody has hidden since.
    pub(crate) fn own_parts(&self) -> &OwnParts {
        &self.parts
    }

    /// The process index that this object writes as.
    #[must_use]
    pub fn process(&self) -> i64 {
        self.process
    }

    /// Records fields of a node.
    ///
    /// The node, its parent and the fields are copied now, so a later tick does not relabel them. No fields
    /// are valid: the record says that the node exists, and which parent it has. A [`Scalar::Null`] is as
    /// good as absent.
    ///
    /// It does no I/O, and costs a fraction of a microsecond while the queue has room.
    ///
    /// # Errors
    /// [`RecordError`]; nothing was queued then, and the store goes on. One key given twice is an error: to
    /// keep either value would be to lose the other in silence.
    ///
    /// # Durability
    /// On return the record is in memory. After [`JournalPolicy`]'s interval it survives the end of the process, and a loss of
    /// power too with [`StoreOptions::journal_sync`]. It is durable and visible to all after its batch was published, and
    /// after [`ObjectStore::flush`] at the latest.
    #[inline]
    pub fn value(&self, node: &Node, fields: &[(&str, Scalar)]) -> Result<(), RecordError> {
        self.queue.push(node, fields, None, Origin::Value)
    }

    /// Records the fields of a JSON map; see [`ObjectStore::value`].
    ///
    /// # Errors
    /// As [`ObjectStore::value`], and [`RecordError::Value`] for an array, a map or a number beyond 64 signed
    /// bits.
    ///
    /// # Durability
    /// As [`ObjectStore::value`].
    pub fn value_json(&self, node: &Node, fields: &Map<String, Value>) -> Result<(), RecordError> {
        let scalar = |(key, value): (&'_ String, &Value)| match Scalar::try_from(value) {
            Ok(scalar) => Ok(scalar),
            Err(error) => Err(RecordError::Value { key: key.clone(), kind: error.kind }),
        };
        let mut converted: Vec<(&str, Scalar)> = Vec::with_capacity(fields.len());
        for field in fields {
            converted.push((field.0, scalar(field)?));
        }
        self.value(node, &converted)
    }

    /// Whether this store object accepted a record of the node; a tick asks it.
    #[must_use]
    pub fn has_recorded(&self, node: &Node) -> bool {
        self.queue.has_recorded(node)
    }

    /// Records that the node's run ended as planned.
    ///
    /// # Errors
    /// As [`ObjectStore::value`].
    ///
    /// # Durability
    /// As [`ObjectStore::value`]; a full queue never drops it.
    pub fn finish(&self, node: &Node) -> Result<(), RecordError> {
        let marks = Marks { finished: Some(true), ..Marks::default() };
        self.queue.push(node, &[], Some(Box::new(marks)), Origin::Marker)
    }

    /// Stages a folder of the node's blob, to be filled and committed.
    ///
    /// # Errors
    /// [`StoreError::EntryName`] for a name that is no plain file name, [`StoreError::Closed`],
    /// [`StoreError::Failed`], [`StoreError::Commit`].
    ///
    /// # Durability
    /// Nothing of it is visible, or survives a loss of power, before it is committed.
    pub fn stage_folder(&self, node: &Node, entry: &str) -> Result<StagedEntry, StoreError> {
        StagedEntry::new(node, entry, &self.blobs, &self.queue)
    }

    /// Removes what a process that died left of a checkpoint of the node: one that was renamed but never
    /// marked, and folders that were being filled. Says whether an unmarked checkpoint was there. One that a
    /// record marks stays.
    ///
    /// Only the holder of the run's lock may call it, and not while it stages a folder of this node: to
    /// anybody else a checkpoint whose marker is on its way looks the same.
    ///
    /// # Errors
    /// [`StoreError::Query`] when the records cannot be read; the checkpoint stays. [`StoreError::Closed`],
    /// [`StoreError::Failed`], [`StoreError::Full`], [`StoreError::Commit`].
    ///
    /// # Durability
    /// On return it does not come back after a loss of power.
    pub fn remove_unmarked_checkpoint(&self, node: &Node) -> Result<bool, StoreError> {
        self.queue.check_open()?;
        self.blobs.remove_half_staged(node)?;
        let path = self.blobs.node_folder(node).join(CHECKPOINT_ENTRY);
        if !path.exists() {
            return Ok(false);
        }
        // A marker that this store has queued is a marker.
        self.queue.flush()?;
        if self.live_reader().query().node(node).checkpoint().count()?.value > 0 {
            return Ok(false);
        }
        fault::point("store.blob.remove");
        durable::remove_dir_all(&path)?;
        tracing::warn!(node = %node, entry = %path.display(), "removed a checkpoint that no record marks");
        Ok(true)
    }

    /// Removes what processes that died left of checkpoints of a run, at any of its nodes; says at how many
    /// nodes an unmarked checkpoint was there. Half-written files of its blob folders go when they are a day old:
    /// younger ones may belong to a process that attaches something at this moment. See [`ObjectStore::remove_unmarked_checkpoint`] for who may call
    /// it.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the blobs cannot be listed; otherwise as
    /// [`ObjectStore::remove_unmarked_checkpoint`].
    ///
    /// # Durability
    /// As there.
    pub fn remove_unmarked_checkpoints(&self, name: &str, nonce: &str) -> Result<u64, StoreError> {
        let marked: HashSet<Node> = self
            .live_reader()
            .query()
            .name(name)
            .nonce(nonce)
            .checkpoint()
            .all()?
            .value
            .into_iter()
            .collect();
        let mut removed = 0;
        for node in self.blobs.nodes()? {
            if node.name() != name || node.nonce() != nonce {
                continue;
            }
            if !marked.contains(&node) {
                removed += u64::from(self.remove_unmarked_checkpoint(&node)?);
            }
            let now = time::to_system(time::now_nanos());
            for path in durable::reap(&self.blobs.node_folder(&node), TEMPORARY_AGE, now)? {
                tracing::debug!(path = %path.display(), "removed what a dead process left");
            }
        }
        Ok(removed)
    }

    /// Gives checkpoints up: first their markers are taken back, durably, and then their files are removed. Says
    /// how many of the nodes had a marked checkpoint. The nodes keep everything else, and the record that takes
    /// a marker back is no writing that would make its node the latest.
    ///
    /// Calling it again, also after a crash in between, completes it: a checkpoint without a marker does not
    /// count, and [`ObjectStore::remove_unmarked_checkpoints`] removes what is left of it. A reader that has the
    /// files open keeps them.
    ///
    /// Only the holder of the run's lock may call it; see [`ObjectStore::remove_unmarked_checkpoint`].
    ///
    /// # Errors
    /// [`StoreError::Query`] when the records cannot be read, [`StoreError::Outside`] when the folder of a node
    /// leads out of the root; nothing was changed then. [`StoreError::Record`],
    /// [`StoreError::Closed`], [`StoreError::Failed`], [`StoreError::Full`], [`StoreError::Commit`].
    ///
    /// # Durability
    /// On return neither marker nor files come back after a loss of power.
    pub fn withdraw_checkpoints(&self, nodes: &[Node]) -> Result<u64, StoreError> {
        self.queue.flush()?;
        let folders = nodes.iter().map(|node| self.blobs.own_folder(node)).collect::<Result<Vec<_>, _>>()?;
        let reader = self.live_reader();
        let mut marked = Vec::new();
        for node in nodes {
            if reader.query().node(node).checkpoint().count()?.value > 0 {
                marked.push(node);
            }
        }
        for node in &marked {
            let marks = Marks { checkpoint: Some(false), ..Marks::default() };
            self.queue.push(node, &[], Some(Box::new(marks)), Origin::Marker)?;
        }
        // The marker before the bytes: a marked checkpoint is whole.
        self.queue.flush()?;
        for folder in folders {
            fault::point("store.blob.withdraw");
            durable::remove_dir_all(&folder.join(CHECKPOINT_ENTRY))?;
        }
        for node in &marked {
            tracing::info!(node = %node, "checkpoint withdrawn");
        }
        Ok(marked.len() as u64)
    }

    /// Attaches a payload to a node under a suffix, with fields that describe it.
    ///
    /// The payload is serialized now, as MessagePack with named fields, and written by a thread of the
    /// store: `<suffix>.msgpack` first, then the record. The same suffix at the same node replaces the
    /// payload; the fields of earlier records stay. The fields are recorded as `<suffix>/<key>`.
    ///
    /// Process 0 writes alone; in the others the call checks its arguments and does nothing.
    ///
    /// # Errors
    /// [`StoreError::EntryName`], [`StoreError::Record`], [`StoreError::Payload`] for what is wrong with the
    /// call; [`StoreError::Behind`] when the thread cannot keep up. A payload that cannot be written surfaces
    /// as [`StoreError::Artifacts`] at the next flush and at close.
    ///
    /// # Durability
    /// After [`ObjectStore::flush`].
    pub fn artifact(
        &self,
        node: &Node,
        suffix: &str,
        description: &[(&str, Scalar)],
        payload: &impl Serialize,
    ) -> Result<(), StoreError> {
        check_name("suffix", suffix)?;
        let fields: Vec<(String, Scalar)> =
            description.iter().map(|(key, value)| (format!("{suffix}/{key}"), value.clone())).collect();
        let mut attachment = Attachment { fields, ..Attachment::default() };
        if self.process != 0 {
            return Job::new(node, attachment).map(|_| ());
        }
        self.queue.check_open()?;
        let bytes = rmp_serde::to_vec_named(payload)
            .map_err(|source| StoreError::Payload { suffix: suffix.to_owned(), source })?;
        attachment.artifacts.push((suffix.to_owned(), bytes));
        self.artifacts.submit(Job::new(node, attachment)?)
    }

    /// Attaches everything that an analysis made of a node: all its files are committed, and then one record
    /// announces them. It waits until that record is queued.
    ///
    /// Process 0 writes alone; in the others the call checks its arguments and does nothing.
    ///
    /// # Errors
    /// [`StoreError::EntryName`] and [`StoreError::Record`] for what is wrong with the attachment; anything
    /// else when it could not be written. Nothing is announced then. On a disk that is full it waits for five seconds.
    ///
    /// # Durability
    /// On return the files survive a loss of power; after [`ObjectStore::flush`] their record does too.
    pub fn attach(&self, node: &Node, attachment: Attachment) -> Result<(), StoreError> {
        let job = Job::new(node, attachment)?;
        if self.process != 0 {
            return Ok(());
        }
        self.queue.check_open()?;
        self.artifacts.submit_and_wait(job)
    }

    /// How many records it has dropped because the queue was full, also of a store that failed.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.queue.dropped()
    }

    /// Whether it accepts records: it was not closed, and has not failed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.queue.check_open().is_ok()
    }

    /// Waits until everything accepted before, artifacts included, is durable and visible to readers.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the writer failed; [`StoreError::Full`] when the disk is full and was so for five seconds:
    /// the records wait, and a later flush may find room; [`StoreError::Artifacts`] when artifacts could not be
    /// written since the last flush, in which case the records are durable nevertheless.
    ///
    /// # Durability
    /// On return all of it survives a loss of power.
    pub fn flush(&self) -> Result<FlushReport, StoreError> {
        let artifacts = self.artifacts.flush();
        let totals = self.queue.flush()?;
        artifacts?;
        Ok(FlushReport { records: totals.published, parts: self.published_parts(), dropped: totals.dropped })
    }

    /// Writes what is queued, compacts the parts that this object wrote, and ends its threads. Calling it
    /// again returns the same report.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when records are in no part, which says how many of them are in the journal,
    /// [`StoreError::Artifacts`] when artifacts were lost; at every call. On a disk that is full it waits for five seconds.
    /// A compaction that fails loses nothing and is in the report.
    ///
    /// # Durability
    /// On return all that was accepted survives a loss of power.
    pub fn close(&self) -> Result<CloseReport, StoreError> {
        self.end(AtClose::Compact)
    }

    /// Closes without a compaction, for a program that was told to stop and may be killed soon. The parts stay
    /// as they were published; no answer depends on it.
    ///
    /// # Errors
    /// As [`ObjectStore::close`].
    ///
    /// # Durability
    /// As [`ObjectStore::close`].
    pub fn close_uncompacted(&self) -> Result<CloseReport, StoreError> {
        self.end(AtClose::Leave)
    }

    fn end(&self, parts: AtClose) -> Result<CloseReport, StoreError> {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        let report = match &*closed {
            Some(report) => report.clone(),
            None => {
                let report = self.shut_down(parts);
                closed.insert(report).clone()
            }
        };
        self.queue.totals()?;
        self.artifacts.outcome()?;
        Ok(report)
    }

    fn shut_down(&self, at_close: AtClose) -> CloseReport {
        // Artifacts end in records, so their thread goes first and the writer second.
        self.queue.drain();
        self.artifacts.end();
        self.queue.end();
        // The journal is written until the last batch is published.
        for thread in std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner)) {
            if thread.join().is_err() {
                tracing::error!("a thread of the store ended unexpectedly");
            }
            self.queue.end_journal();
        }
        let mut report = CloseReport { parts: self.published_parts(), ..CloseReport::default() };
        if let Ok(totals) = self.queue.totals() {
            report.records = totals.published;
            report.dropped = totals.dropped;
            if totals.dropped > 0 {
                tracing::warn!(records = totals.dropped, "records were dropped because the queue was full");
            }
            if at_close == AtClose::Compact {
                let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner).clone();
                report.compaction = compact(&values_folder(&self.root), &parts, CLOSE_LIMIT);
            }
        }
        // From here on others may compact its parts.
        self.journal.close();
        report
    }

    fn published_parts(&self) -> u64 {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }
}

fn spawn(thread: &'static str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    let named = thread::Builder::new().name(format!("waycairn-{thread}"));
    named.spawn(body).map_err(|source| StoreError::Spawn { thread, source })
}

impl Drop for ObjectStore {
    fn drop(&mut self) {
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if closed {
            return;
        }
        match self.close_uncompacted() {
            Ok(report) => tracing::debug!(records = report.records, "a store was dropped and drained"),
            Err(error) => {
                tracing::error!(error = %error, cause = ?error, "a store was dropped and could not be drained");
            }
        }
    }
}

#[cfg(test)]
mod tests;
