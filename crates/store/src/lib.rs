//! What was recorded at each node: sparse records in immutable Parquet parts, folded when they are asked for.
//!
//! The crate owns everything under `objects/` of an output root: scalar records, the folders of large objects
//! beside each node, and the questions that are asked about both. It knows nothing of training, models or
//! plugins: a blob is files that someone else wrote through its stager, and an artifact is a payload that
//! someone else chose. It never interpolates, averages, or inherits from parents: a question returns recorded
//! values.
//!
//! ```text
//!  value() -> queue -> writer thread: rows -> sorted Arrow -> Parquet -> rename      objects/values/part-*.parquet
//!    |         (bounded, in memory)                                                        |
//!    |  no I/O, nothing waits   \-> journal thread: frames    one listing per question |
//!    v                                                                                     v
//!  stage_folder() -> files, sync, rename -> marker record     scope -> fold (merge of sorted parts) -> predicates
//!  artifact()     -> files, sync, rename -> one record        objects/blobs/<address>/...        -> sort, select
//! ```
//!
//! Several records may describe one node, from several processes and at several times. They stay apart in the
//! parts; the fold resolves them field by field when a question is asked. So a part is never rewritten, the
//! folder is the list of parts, and writers need no lock.
//!
//! # Invariants
//!
//! - `STORE-1`: identity, parent and place in the order of writes are fixed at the call; a value that cannot be
//!   recorded is refused there and queues nothing; reserved names cannot be built.
//! - `STORE-2`: the queue is bounded and keeps its order; what it drops by policy is counted; a failure surfaces at
//!   the next call and at every close, with its cause and the number of records that were not written.
//! - `STORE-3`: a part is complete under a hidden name before one rename makes it visible, and is immutable then;
//!   every accepted record is in the parts once, and a compaction keeps every row.
//! - `STORE-4`: for every field of a node the non-null value with the highest priority wins: lower process, later
//!   write, writer id. Order of arrival, boundaries of parts, duplicates and compaction cannot change an answer.
//! - `STORE-5`: what restricts records comes before the fold, predicates see folded values, one question uses one
//!   listing, and nothing is interpolated.
//! - `STORE-6`: an artifact is one file per suffix and node, replaced whole; the fields of earlier records stay; an
//!   attachment is announced whole or not at all, one that fails changes nothing, and a result file that no record
//!   announces is shown to nobody.
//! - `STORE-7`: a marker record is queued only after the bytes that it marks are durable; recorded paths are
//!   relative, so a copied root resolves; an entry is never replaced; a marker is taken back, durably, before its
//!   bytes go.
//! - `STORE-8`: a run that was removed is in no answer, its records gone before its files, and no answer about another
//!   run changes; a removal that was interrupted leaves a run that is not whole, and is completed by another one.
//! - `STORE-9`: what was accepted is in the journal within its interval, or in a part, until it is in a part: the journal
//!   of a writer that lives is nobody else's, that of a dead one is published whole frame by whole frame, and no record
//!   that a fresh reader has seen is missed by it later.
//!
//! # Example
//!
//! ```
//! use waycairn_dag::Node;
//! use waycairn_store::{Expr, ObjectStore, StoreOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let root = tempfile::tempdir()?;
//! let store = ObjectStore::open(root.path(), StoreOptions::default())?;
//! let node = Node::new("first-run", "0123456789abcdef", 0)?;
//! store.value(&node, &[("train/loss", 2.4.into()), ("phase", "warm-up".into())])?;
//! store.value(&node, &[("train/loss", 2.1.into())])?;
//! store.flush()?;
//!
//! let rows = store.reader().query().expression(Expr::parse("train/loss < 2.2")?).select(&["phase"])?;
//! assert_eq!(rows.value[0].node, node);
//! assert_eq!(rows.value[0].fields["phase"], "warm-up".into());
//! store.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! Every byte on disk, and every state that a crash can leave: `docs/format.md`.

mod batch;
mod blob;
mod compact;
mod error;
mod export;
mod field;
mod fold;
mod footer;
mod frame;
mod fsck;
mod journal;
mod listing;
mod merge;
mod ndarray;
mod part;
mod presence;
mod published;
mod query;
mod queue;
mod reader;
mod record;
mod recorded;
mod recover;
mod removal;
mod resolve;
mod retry;
mod row;
mod run;
mod schema;
mod stamp;
mod store;
#[cfg(test)]
mod testkit;
mod tiers;
mod view;
mod writer;

pub use blob::{Marker, StagedEntry};
pub use compact::CompactReport;
pub use error::{RecordError, StoreError};
pub use export::{ColumnValues, Table};
pub use field::{
    FieldName, FieldNameError, MAX_FIELD_NAME_BYTES, MAX_TAG_BYTES, MAX_TEXT_BYTES, Scalar, ScalarError,
    TagError, check_tag,
};
pub use fold::{PhysicalRecord, fold};
pub use fsck::{FsckReport, Problem, ProblemKind, Repair, fsck, fsck_repair};
pub use journal::JournalPolicy;
pub use listing::Freshness;
pub use ndarray::{NdArray, NdArrayError};
pub use query::{
    Answer, BatchStream, Comparison, Diagnostic, Explanation, Expr, FieldFilter, NodeRow, Order, ParseError,
    Query, QueryError, SavedQuery, SortKey,
};
pub use queue::{MAX_BATCH_ROWS, WhenFull};
pub use reader::{KeyInfo, ObjectReader};
pub use record::Attachment;
pub use recover::{RecoverReport, recover};
pub use removal::Removal;
pub use resolve::ResolveError;
pub use run::RunSummary;
pub use store::{CloseReport, FlushReport, ObjectStore, StoreOptions};
pub use tiers::{CompactGroup, CompactPlan, compact_root, plan_compaction};
pub use view::{Artifact, ArtifactInfo, CheckpointInfo, NodeView};

/// The example of the project's README, which is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
