//! The writer thread: takes batches from the queue and publishes them as parts.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use parquet::errors::{ParquetError, Result as ParquetResult};
use waycairn_durable::{Durability, StagedFile, fault};

use crate::batch::{Batch, Launch, Table};
use crate::error::StoreError;
use crate::part::{PartWriter, new_part_name};
use crate::queue::Queue;
use crate::retry::{Failed, RetryPolicy, retry};
use crate::row::Rows;

/// The names of the parts that one store object has published.
pub(crate) type OwnParts = Arc<Mutex<Vec<String>>>;

/// The state of the writer thread.
pub(crate) struct Writer {
    pub(crate) queue: Arc<Queue>,
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
        let mut guard = Guard { queue: &self.queue, unwritten: 0, ended: false };
        while let Some(rows) = self.queue.next_batch() {
            guard.unwritten = rows.len() as u64;
            if let Err(error) = self.write(&rows, &mut guard.unwritten) {
                tracing::error!(
                    error = %error,
                    records = guard.unwritten,
                    "the store failed; what it has queued is lost"
                );
                self.queue.fail(error, guard.unwritten);
                break;
            }
            self.queue.written(rows);
        }
        guard.ended = true;
    }

    /// Publishes one batch; `unwritten` is what is still in no part.
    fn write(&self, rows: &Rows, unwritten: &mut u64) -> Result<(), StoreError> {
        let batch = Batch::new(rows, &self.launch);
        for table in batch.tables() {
            let start = Instant::now();
            let name = new_part_name();
            let path = self.values.join(&name);
            let bytes = encode(&table).map_err(|source| StoreError::Part {
                operation: "encode",
                path: path.clone(),
                source,
            })?;
            retry(&self.retry, thread::sleep, || publish(&path, &bytes))?;
            let records = table.facts().rows;
            *unwritten = unwritten.saturating_sub(records);
            tracing::info!(
                part = name,
                rows = records,
                bytes = bytes.len(),
                elapsed_ms = start.elapsed().as_millis(),
                "part published"
            );
            self.parts.lock().unwrap_or_else(PoisonError::into_inner).push(name);
        }
        Ok(())
    }
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
fn encode(table: &Table<'_>) -> ParquetResult<Vec<u8>> {
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
    unwritten: u64,
    ended: bool,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.queue.fail(StoreError::Thread { thread: "writer" }, self.unwritten);
        }
    }
}
