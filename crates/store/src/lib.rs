//! What was recorded at each node: sparse records in immutable Parquet parts, folded when they are asked for.
//!
//! The crate knows nothing of training, models or plugins: a blob is files that someone else wrote through
//! its stager, an artifact is a payload that someone else chose.

mod field;
mod schema;
// The read half adds its modules below this line.

pub use field::{FieldName, FieldNameError, MAX_FIELD_NAME_BYTES, MAX_TEXT_BYTES, Scalar, ScalarError};
// The read half adds its names below this line.
