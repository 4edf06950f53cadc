//! The journal: what was accepted and is in no part yet, on disk.
//!
//! Every interval the records that wait are appended to a hidden file beside the parts, `.journal-<writer>-<n>`: one
//! such *segment* for each batch, removed when the batch is published. A process that is killed loses what is younger
//! than the interval; the rest is published by whoever opens the root next ([`recover`](crate::ObjectStore::recover)),
//! or read from the segment itself while its writer runs ([`Freshness::Live`](crate::Freshness)).
//!
//! Beside the segments stands one more file as long as the writer lives and has published something, `.writer-<writer>`:
//! its parts are its own to compact until that is gone.
//!
//! A thread of its own writes it, so a batch that takes long to publish keeps nothing out of the journal. A segment is
//! owned as [`OwnedFile`] says, so nobody takes it from a writer that lives.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use waycairn_durable::{HEARTBEAT, OwnedFile, fault};

use crate::batch::Launch;
use crate::error::StoreError;
use crate::frame::write_launch;
use crate::queue::Queue;
use crate::retry::is_full;

/// What the names of segments begin with.
const PREFIX: &str = ".journal-";

/// What the names of segments begin with that are kept because frames in them are damaged.
const DAMAGED_PREFIX: &str = ".damaged-journal-";

/// What the names of the files begin with that say that a writer lives.
const WRITER_PREFIX: &str = ".writer-";

/// A frame of this size is written before another one begins.
const FRAME_BYTES: usize = 1 << 20;

/// On a full disk frames are smaller: nothing of one is written that does not fit whole.
const LEAST_FRAME_BYTES: usize = 1 << 12;

/// How long a journal that could not be written waits before it is tried again.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// When accepted records go to the journal.
///
/// It decides what a process that is killed can lose. Records that were flushed are in parts, and in no danger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalPolicy {
    /// At most this long after they were accepted.
    Interval(Duration),
    /// As soon as they are accepted. The call does not wait for it, so a process that is killed may lose the last ones,
    /// as many as were recorded in the time of one write.
    EachRecord,
}

impl Default for JournalPolicy {
    fn default() -> JournalPolicy {
        JournalPolicy::Interval(Duration::from_millis(100))
    }
}

impl JournalPolicy {
    /// How long records may wait.
    pub(crate) fn interval(self) -> Duration {
        match self {
            JournalPolicy::Interval(interval) => interval,
            JournalPolicy::EachRecord => Duration::ZERO,
        }
    }
}

/// The name of a segment of a writer.
fn segment_name(writer: &str, number: u64) -> String {
    format!("{PREFIX}{writer}-{number}")
}

/// Whether a file of the values folder is a segment.
pub(crate) fn is_segment_name(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|rest| !rest.is_empty())
}

/// The segments in a values folder, sorted; none where there is no folder. A symbolic link is none: no writer makes one, and
/// what it leads to is somebody else's.
pub(crate) fn segments(values: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(values) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_str().is_some_and(is_segment_name) && !entry.file_type()?.is_symlink() {
            paths.push(values.join(name));
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

/// Whether the log has not told yet that a segment cannot be read. Whoever asks tells it: once in a process is enough.
pub(crate) fn is_news(segment: &Path) -> bool {
    static TOLD: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);
    // The same folder under two names is told once.
    let folder = segment.parent().and_then(|folder| folder.canonicalize().ok());
    let path = folder.zip(segment.file_name()).map(|(folder, name)| folder.join(name));
    TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(path.unwrap_or_else(|| segment.to_owned()))
}

/// Whether a file of the values folder is a segment that was kept because it is damaged.
pub(crate) fn is_damaged_segment_name(name: &str) -> bool {
    name.starts_with(DAMAGED_PREFIX)
}

/// Whether a file of the values folder says that a writer lives.
pub(crate) fn is_writer_name(name: &str) -> bool {
    name.starts_with(WRITER_PREFIX)
}

/// The name that a segment with damaged frames is kept under.
pub(crate) fn damaged_name(segment: &str) -> String {
    format!("{DAMAGED_PREFIX}{}", segment.strip_prefix(PREFIX).unwrap_or(segment))
}

/// Whether the writer of a part lives.
///
/// # Errors
/// [`StoreError::Lock`].
pub(crate) fn lives(values: &Path, writer: &str) -> Result<bool, StoreError> {
    let path = values.join(format!("{WRITER_PREFIX}{writer}"));
    Ok(OwnedFile::is_owned(&path).map_err(Box::new)?)
}

/// Removes what dead writers left to say that they live; says of how many.
///
/// # Errors
/// [`StoreError::Io`], [`StoreError::Commit`].
pub(crate) fn sweep_writers(values: &Path) -> Result<u64, StoreError> {
    let failed = |source| StoreError::Io { operation: "list", path: values.to_owned(), source };
    let mut removed = 0;
    for entry in fs::read_dir(values).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if name.to_str().is_some_and(is_writer_name)
            && let Some(dead) = take_dead(&values.join(name))
        {
            dead.remove()?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Takes what says that a writer lives, if he does not. What cannot be taken is in nobody's way: a check tells of it.
fn take_dead(path: &Path) -> Option<OwnedFile> {
    OwnedFile::take(path).unwrap_or_else(|error| {
        tracing::debug!(path = %path.display(), %error, "what says that a writer lives cannot be looked at");
        None
    })
}

/// The segments of one store object.
#[derive(Debug)]
pub(crate) struct Journal {
    values: PathBuf,
    writer: String,
    /// The first bytes of every segment.
    head: Vec<u8>,
    sync: bool,
    policy: JournalPolicy,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    segments: BTreeMap<u64, OwnedFile>,
    /// Says that the writer lives; there from its first part on.
    alive: Option<OwnedFile>,
    /// The batches of all segments below this are published.
    published: u64,
    /// The last write failed, and that was said.
    failing: bool,
    /// No more is written: the store failed, or was closed.
    released: bool,
    beat: Option<Instant>,
}

impl Journal {
    /// A journal in a values folder; nothing is made before something is appended.
    ///
    /// # Errors
    /// [`StoreError::Journal`] when the launch cannot be written down.
    pub(crate) fn new(
        values: &Path,
        launch: &Launch,
        policy: JournalPolicy,
        sync: bool,
    ) -> Result<Journal, StoreError> {
        let head = write_launch(launch).map_err(|source| StoreError::Journal { source })?;
        let (values, writer) = (values.to_owned(), launch.writer.clone());
        Ok(Journal { values, writer, head, sync, policy, open: Mutex::default() })
    }

    /// The thread: writes what waits, every interval, until the queue ends.
    pub(crate) fn run(&self, queue: &Queue) {
        let mut patience = self.policy.interval();
        while queue.wait_for_records(patience, HEARTBEAT) {
            patience = match self.write(queue) {
                Ok(()) => self.policy.interval(),
                Err(_) => self.policy.interval().max(PAUSE_AFTER_FAILURE),
            };
            self.beat();
        }
    }

    /// Appends all records that wait and are in no segment yet.
    ///
    /// # Errors
    /// What the disk says, also in the log, once for each time that it begins to fail. The records stay in the queue
    /// and are tried again.
    pub(crate) fn write(&self, queue: &Queue) -> Result<(), StoreError> {
        let mut buffer = Vec::new();
        let mut enough = FRAME_BYTES;
        while let Some(next) = queue.not_journaled(&mut buffer, enough)? {
            let appended = self.append(next.segment, &buffer);
            if enough > LEAST_FRAME_BYTES && appended.as_ref().is_err_and(is_full) {
                // Some of it may have room.
                enough /= 4;
                continue;
            }
            let mut open = self.lock();
            match appended {
                Ok(()) => open.failing = false,
                Err(error @ StoreError::Closed) => return Err(error),
                Err(error) => {
                    if !std::mem::replace(&mut open.failing, true) {
                        tracing::warn!(
                            error = %error,
                            "the journal cannot be written; until it can, a process that is killed loses what it has queued"
                        );
                    }
                    return Err(error);
                }
            }
            drop(open);
            queue.journaled(next.until);
        }
        Ok(())
    }

    fn append(&self, number: u64, frames: &[u8]) -> Result<(), StoreError> {
        let mut open = self.lock();
        if number < open.published {
            return Ok(());
        }
        if open.released {
            return Err(StoreError::Closed);
        }
        let path = self.values.join(segment_name(&self.writer, number));
        let failed = |source| StoreError::Io { operation: "append to", path: path.clone(), source };
        let segment = match open.segments.get_mut(&number) {
            Some(segment) => segment,
            None => {
                let mut segment = OwnedFile::create(&path)?;
                segment.append(&self.head).map_err(failed)?;
                open.segments.entry(number).or_insert(segment)
            }
        };
        fault::point("store.journal.append");
        segment.append(frames).map_err(failed)?;
        if self.sync {
            segment.sync()?;
        }
        Ok(())
    }

    /// Says from now on that the writer lives; called before each part.
    ///
    /// # Errors
    /// [`StoreError::Commit`].
    pub(crate) fn announce(&self) -> Result<(), StoreError> {
        let mut open = self.lock();
        if open.alive.is_none() {
            let path = self.values.join(format!("{WRITER_PREFIX}{}", self.writer));
            open.alive = Some(OwnedFile::create(&path)?);
        }
        Ok(())
    }

    /// Removes the segment of a batch that is published.
    pub(crate) fn published(&self, number: u64) {
        let mut open = self.lock();
        open.published = open.published.max(number + 1);
        let later = open.segments.split_off(&(number + 1));
        let done = std::mem::replace(&mut open.segments, later);
        fault::point("store.journal.remove");
        for segment in done.into_values() {
            // Its records are in parts: read once more they change no answer.
            if let Err(error) = segment.remove() {
                tracing::warn!(error = %error, "a segment of the journal stays until the root is opened again");
            }
        }
    }

    /// Says that the writer lives, where only the time of its files can.
    fn beat(&self) {
        let mut open = self.lock();
        if open.beat.is_some_and(|beat| beat.elapsed() < HEARTBEAT) {
            return;
        }
        for segment in open.segments.values().chain(&open.alive).filter(|file| file.needs_heartbeat()) {
            if let Err(error) = segment.beat() {
                tracing::warn!(error = %error, "a segment of the journal may be taken for that of a dead process");
            }
        }
        open.beat = Some(Instant::now());
    }

    /// Writes no more, and says that the writer is gone. What is left of its segments is recovered by others.
    pub(crate) fn close(&self) {
        self.release();
        if let Some(alive) = self.lock().alive.take()
            && let Err(error) = alive.remove()
        {
            tracing::debug!(error = %error, "a file that says that a writer lives stays, and nobody owns it");
        }
    }

    /// Lets go of everything, as the end of the process does.
    #[cfg(test)]
    pub(crate) fn die(&self) {
        self.release();
        drop(self.lock().alive.take());
    }

    /// Writes no more, and lets go of the segments that are left: whoever opens the root next recovers them.
    pub(crate) fn release(&self) {
        let mut open = self.lock();
        open.released = true;
        open.segments.clear();
    }

    /// A panic under this lock leaves a segment whose end is cut by the next append.
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
