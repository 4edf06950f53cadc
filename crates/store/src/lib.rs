//! What was recorded at each node: sparse records in immutable Parquet parts, folded when they are asked for.
//!
//! The crate knows nothing of training, models or plugins: a blob is files that someone else wrote through
//! its stager, an artifact is a payload that someone else chose.

mod batch;
mod blob;
mod compact;
mod error;
mod field;
mod merge;
mod ndarray;
mod part;
mod queue;
mod record;
mod recorded;
mod retry;
mod row;
mod schema;
mod stamp;
mod store;
#[cfg(test)]
mod testkit;
mod writer;
// The read half adds its modules below this line.
mod export;
mod fold;
mod listing;
mod query;
mod reader;
mod resolve;
mod run;
mod view;

pub use blob::{Marker, StagedEntry};
pub use compact::CompactReport;
pub use error::{RecordError, StoreError};
pub use field::{FieldName, FieldNameError, MAX_FIELD_NAME_BYTES, MAX_TEXT_BYTES, Scalar, ScalarError};
pub use ndarray::{NdArray, NdArrayError};
pub use queue::{MAX_BATCH_ROWS, WhenFull};
pub use record::Attachment;
pub use store::{CloseReport, FlushReport, ObjectStore, StoreOptions};
// The read half adds its names below this line.
pub use export::Table;
pub use fold::{PhysicalRecord, fold};
pub use query::{
    Answer, Comparison, Diagnostic, Expr, FieldFilter, NodeRow, Order, ParseError, Query, QueryError, SortKey,
};
pub use reader::{KeyInfo, ObjectReader};
pub use resolve::ResolveError;
pub use run::RunSummary;
pub use view::{Artifact, ArtifactInfo, CheckpointInfo, NodeView};
