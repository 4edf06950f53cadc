//! What can go wrong when something is recorded.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parquet::errors::ParquetError;
use thiserror::Error;
use waycairn_durable::{CommitError, LockError, VersionError};

use crate::field::{FieldNameError, MAX_TEXT_BYTES, TagError};
use crate::query::QueryError;

/// Why a record was not accepted. A refused record queues nothing, and the store goes on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A name cannot be recorded under.
    #[error(transparent)]
    Name(#[from] FieldNameError),
    /// A value has a type that no cell holds.
    #[error(
        "the field `{key}` is {kind}, which cannot be recorded: a value is a bool, a 64-bit integer, a float or a string"
    )]
    Value {
        /// The field.
        key: String,
        /// What the value was, with its article.
        kind: &'static str,
    },
    /// A text is longer than [`MAX_TEXT_BYTES`].
    #[error(
        "the field `{key}` is a string of {bytes} bytes; at most {MAX_TEXT_BYTES} are allowed: attach it as an artifact"
    )]
    Text {
        /// The field.
        key: String,
        /// Its length.
        bytes: usize,
    },
    /// One call gave two values to one field.
    #[error("the field `{key}` is given twice in one record")]
    Duplicate {
        /// The field.
        key: String,
    },
    /// The queue had no room within the limit.
    #[error(
        "the queue of the store is full: {records} records wait, and the writer made no room within {waited:?}; record less often, or choose to drop records when it is full"
    )]
    Full {
        /// How long the call waited.
        waited: Duration,
        /// How many records were queued.
        records: u64,
    },
    /// The store was closed before.
    #[error("the store is closed; open it again to record more")]
    Closed,
    /// The writer failed earlier; it stays failed until the store is opened again.
    #[error("{}", failed(*unwritten, *journaled))]
    Failed {
        /// The accepted records that are in no part.
        unwritten: u64,
        /// Those among them that the journal holds: they are recovered when the root is opened again.
        journaled: u64,
        /// The failure.
        source: Arc<StoreError>,
    },
}

/// Why the store could not do what was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The root cannot be used, or is of another format.
    #[error(transparent)]
    Format(#[from] VersionError),
    /// A file or a folder could not be made durable.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A folder of the root is a symbolic link that leads out of it, where readers do not follow.
    #[error(
        "`{}` is a symbolic link that leads out of the root, to `{}`, and what is recorded there could not be read again; replace the link by a folder, or keep the whole root there",
        path.display(),
        target.display()
    )]
    Outside {
        /// The link.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// Records that are to go stand in a part that another program wrote.
    #[error(
        "the part `{part}` of another program holds records of `{run}`, and cannot be written anew without them; move it out of `objects/values`"
    )]
    Foreign {
        /// The name of the part.
        part: String,
        /// The name of the run.
        run: String,
    },
    /// A run that is to go is being recorded.
    #[error("the run `{run}` is being recorded by a writer that is running; end that first")]
    Recording {
        /// The name of the run.
        run: String,
    },
    /// Another operation on a file failed.
    #[error("could not {operation} `{}`", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A part could not be written or, in compaction, read.
    #[error("could not {operation} the part `{}`", path.display())]
    Part {
        /// What was tried.
        operation: &'static str,
        /// Which part.
        path: PathBuf,
        /// The cause.
        source: ParquetError,
    },
    /// A record was not accepted.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The records of the root could not be read.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The records of a launch cannot be marked so.
    #[error(transparent)]
    Tag(#[from] TagError),
    /// A name cannot stand in a node's blob folder.
    #[error("the {what} `{name}` {reason}")]
    EntryName {
        /// What it names: an entry, a suffix or a file.
        what: &'static str,
        /// The name.
        name: String,
        /// What is wrong with it, and what is allowed.
        reason: String,
    },
    /// The entry is there already; it is not replaced.
    #[error("`{}` exists already and is kept; compare it with yours, or remove it first", path.display())]
    EntryExists {
        /// The entry.
        path: PathBuf,
    },
    /// A payload could not be turned into MessagePack.
    #[error("the artifact `{suffix}` could not be serialized")]
    Payload {
        /// The suffix of the artifact.
        suffix: String,
        /// The cause.
        source: rmp_serde::encode::Error,
    },
    /// An artifact that was accepted earlier could not be written.
    #[error("{failed} artifacts could not be written, first `{suffix}` of {node}")]
    Artifacts {
        /// How many.
        failed: u64,
        /// The first of them.
        suffix: String,
        /// Its node, for people.
        node: String,
        /// Why the first failed.
        source: Arc<StoreError>,
    },
    /// The artifact thread cannot keep up.
    #[error(
        "{bytes} bytes of artifacts wait to be written, and no room came within {waited:?}; attach less often"
    )]
    Behind {
        /// What waits.
        bytes: usize,
        /// How long the call waited.
        waited: Duration,
    },
    /// The operating system gave no thread.
    #[error("could not start the {thread} thread of the store")]
    Spawn {
        /// Which one.
        thread: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// A background thread ended without a result.
    #[error("the {thread} thread of the store ended unexpectedly; this is a defect of the program")]
    Thread {
        /// Which one.
        thread: &'static str,
    },
    /// Records could not be turned into a frame of the journal.
    #[error("records could not be written down for the journal; this is a defect of the program")]
    Journal {
        /// The cause.
        source: rmp_serde::encode::Error,
    },
    /// The repairs that were asked for are not those that are due.
    #[error("the plan `{given}` is not what a check finds now{}", plan(found.as_deref()))]
    Plan {
        /// What was given.
        given: String,
        /// What stands for the repairs that are due.
        found: Option<String>,
    },
    /// A compaction would have taken longer than it may.
    #[error("the compaction would take too long; the parts stay as they are")]
    Late,
    /// A lock is somebody else's, or could not be taken.
    #[error(transparent)]
    Lock(#[from] Box<LockError>),
    /// The disk is full, or a quota used up. Nothing is lost so far: the records wait, and are written when there is room.
    #[error(
        "the disk is full, and {records} record{} for room; make some, and what waits is written",
        if *records == 1 { " waits" } else { "s wait" }
    )]
    Full {
        /// How many.
        records: u64,
        /// What the disk said.
        source: Arc<StoreError>,
    },
    /// The store was closed before.
    #[error("the store is closed; open it again to write more")]
    Closed,
    /// The writer failed; it stays failed until the store is opened again.
    #[error("{}", failed(*unwritten, *journaled))]
    Failed {
        /// The accepted records that are in no part.
        unwritten: u64,
        /// Those among them that the journal holds: they are recovered when the root is opened again.
        journaled: u64,
        /// The failure.
        source: Arc<StoreError>,
    },
}

impl RecordError {
    /// Whether no record will be accepted any more, because of the store and not of this record.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, RecordError::Closed | RecordError::Failed { .. })
    }
}

impl StoreError {
    /// The error of the operating system that is behind this one, if one is.
    pub(crate) fn io_cause(&self) -> Option<&io::Error> {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            if let Some(io) = error.downcast_ref::<io::Error>() {
                return Some(io);
            }
            cause = error.source();
        }
        None
    }
}

fn plan(found: Option<&str>) -> String {
    match found {
        Some(found) => format!(": that is `{found}`; look at it before you give it"),
        None => ": there is nothing to repair".to_owned(),
    }
}

fn failed(unwritten: u64, journaled: u64) -> String {
    let lost = unwritten.saturating_sub(journaled);
    let kept = match (journaled, lost) {
        (0, _) => String::new(),
        (_, 0) => {
            "; the journal holds all of them, and they come back when the root is opened again".to_owned()
        }
        _ => format!(
            "; the journal holds {journaled} of them, and those come back when the root is opened again"
        ),
    };
    let were = if unwritten == 1 { "record was" } else { "records were" };
    format!("the store failed and {unwritten} {were} not written{kept}; open it again when the cause is gone")
}
