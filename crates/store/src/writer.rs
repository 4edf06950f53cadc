//! The writer thread: takes batches from the queue and publishes them as parts. It alone ends a store that failed: what
//! waits then goes to the journal.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use parquet::errors::{ParquetError, Result as ParquetResult};
use waycairn_durable::{Durability, StagedFile, fault};

use crate::batch::{Batch, Launch, Table};
use crate::error::StoreError;
use crate::journal::Journal;
use crate::part::{PartWriter, new_part_name};
use crate::queue::Queue;
use crate::retry::{Failed, RetryPolicy, is_full, retry};
use crate::row::Rows;

/// The names of the parts that one store object has published.
pub(crate) type OwnParts = Arc<Mutex<Vec<String>>>;

/// The state of the writer thread.
pub(crate) struct Writer {
    pub(crate) queue: Arc<Queue>,
    pub(crate) journal: Arc<Journal>,
    /// Where the parts go.
    pub(crate) values: PathBuf,
    pub(crate) launch: Launch,
    pub(crate) retry: RetryPolicy,
    pub(crate) parts: OwnParts,
}

impl Writer {
    /// Publishes batches until the queue ends or a write fails for good; then it leaves the failure in the
    /// queue, where callers find it.
    pub(crate) fn run(self) {
        let mut guard = Guard { queue: &self.queue, journal: &self.journal, unwritten: 0, ended: false };
        while let Some(batch) = self.queue.next_batch() {
            guard.unwritten = batch.rows.len() as u64;
            if let Err(error) = self.write(&batch.rows, &mut guard.unwritten) {
                tracing::error!(error = %error, records = guard.unwritten, "the store failed");
                guard.fail(error);
                break;
            }
            self.journal.published(batch.segment);
            self.queue.written(batch);
        }
        guard.ended = true;
    }

    /// Publishes one batch; `unwritten` is what is still in no part.
    fn write(&self, rows: &Rows, unwritten: &mut u64) -> Result<(), StoreError> {
        self.with_room(|| {
            retry(&self.retry, thread::sleep, || self.journal.announce().map_err(Failed::claim))
        })?;
        let batch = Batch::new(rows, &self.launch);
        for table in batch.tables() {
            // One name for all tries: what was named and could not be synced is not named once more.
            let name = new_part_name();
            self.with_room(|| publish_table(&self.values, &name, &table, &self.retry))?;
            *unwritten = unwritten.saturating_sub(table.facts().rows);
            self.parts.lock().unwrap_or_else(PoisonError::into_inner).push(name);
        }
        Ok(())
    }
}

impl Writer {
    /// Tries again for as long as the disk is full and the store is not closing.
    fn with_room<T>(&self, attempt: impl Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
        loop {
            match attempt() {
                Err(error) if is_full(&error) => self.queue.stall(error, self.retry.full)?,
                result => return result,
            }
        }
    }
}

/// Publishes the rows of a table as one part of this name.
pub(crate) fn publish_table(
    values: &Path,
    name: &str,
    table: &Table<'_>,
    policy: &RetryPolicy,
) -> Result<(), StoreError> {
    let start = Instant::now();
    let path = values.join(name);
    let encoded = encode(table);
    let bytes =
        encoded.map_err(|source| StoreError::Part { operation: "encode", path: path.clone(), source })?;
    retry(policy, thread::sleep, || publish(&path, &bytes))?;
    tracing::info!(
        part = name,
        rows = table.facts().rows,
        bytes = bytes.len(),
        elapsed_ms = start.elapsed().as_millis(),
        "part published"
    );
    Ok(())
}

/// Makes the bytes of a part durable under a hidden name and then visible by one rename.
///
/// A process that dies before the rename leaves a temporary file, which no reader takes for a part; after
/// it, the part is complete. A second try uses the same name, so a rename whose folder sync failed is not
/// repeated as a second part.
fn publish(path: &Path, bytes: &[u8]) -> Result<(), Failed> {
    let mut staged = StagedFile::create(path, Durability::State).map_err(Failed::claim)?;
    staged.write_all(bytes).map_err(|source| {
        let path = staged.path().to_owned();
        Failed::write(StoreError::Io { operation: "write", path, source })
    })?;
    fault::point("store.part.publish");
    staged.commit().map_err(Failed::write)
}

/// The bytes of a part. A batch is bounded, so its encoded form is held whole: a retry writes it again
/// without encoding it again.
pub(crate) fn encode(table: &Table<'_>) -> ParquetResult<Vec<u8>> {
    let many_runs = table.facts().runs.is_none();
    let mut writer = PartWriter::new(Vec::new(), Arc::clone(table.schema()), many_runs)?;
    for slice in table.slices() {
        writer.write(&slice.map_err(ParquetError::from)?)?;
    }
    writer.finish(table.facts())
}

/// Turns a panic of the writer into a failure of the store, so that nobody waits for ever.
struct Guard<'a> {
    queue: &'a Queue,
    journal: &'a Journal,
    unwritten: u64,
    ended: bool,
}

impl Guard<'_> {
    /// Ends the store; what is in no part goes to the journal first, as far as that can be written.
    fn fail(&self, error: StoreError) {
        // The journal has said why it cannot.
        let _ = self.journal.write(self.queue);
        // Before anybody hears of the failure: what he then opens recovers the records.
        self.journal.release();
        self.queue.fail(error, self.unwritten);
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.fail(StoreError::Thread { thread: "writer" });
        }
    }
}

#[cfg(test)]
mod tests;
