//! Recorded scalars as an Arrow C stream.

use std::fmt;

use crate::abi::arrow::{self, ArrowArrayStream};
use crate::error::ContextError;

/// A stream of Arrow record batches over the Arrow C stream interface.
///
/// There are two ways to read it. [`ArrowStream::columns`] copies it into plain vectors and needs no other crate.
/// An Arrow library takes it without a copy through [`ArrowStream::as_mut_ptr`]; with the `arrow` crate:
///
/// ```ignore
/// let mut stream = context.scalars("train/loss < 2.0", &["train/loss"])?;
/// // SAFETY: the pointer is to a live stream; `from_raw` moves it out and leaves a released one behind.
/// let reader = unsafe { ArrowArrayStreamReader::from_raw(stream.as_mut_ptr().cast()) }?;
/// ```
///
/// It owns what it holds: it may outlive the call, and dropping it releases it through the host's own callback.
pub struct ArrowStream {
    raw: ArrowArrayStream,
}

impl ArrowStream {
    pub(crate) fn new(raw: ArrowArrayStream) -> Self {
        Self { raw }
    }

    pub(crate) fn into_raw(self) -> ArrowArrayStream {
        self.raw
    }

    /// The address of the C struct `ArrowArrayStream`, for a library that moves the stream out of it.
    pub fn as_mut_ptr(&mut self) -> *mut ArrowArrayStream {
        &raw mut self.raw
    }

    /// Reads all batches into vectors, one for each column.
    ///
    /// Booleans, integers, times (as integers of their unit), floats and text are read.
    ///
    /// # Errors
    /// `Failed` if the host's query fails on the way; `Invalid` for a column of another type, named with its Arrow
    /// format.
    ///
    /// # Memory
    /// All rows at once.
    pub fn columns(mut self) -> Result<Vec<Column>, ContextError> {
        arrow::read_columns(&mut self.raw)
    }
}

impl fmt::Debug for ArrowStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ArrowStream")
    }
}

/// One column of recorded values; a row that has no value is `None`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Column {
    /// The key, or the name of a column that identifies the row.
    pub name: String,
    /// The values.
    pub values: ColumnValues,
}

/// The values of one column, all of one type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ColumnValues {
    /// Booleans.
    Bool(Vec<Option<bool>>),
    /// Integers, and times in their unit.
    Int(Vec<Option<i64>>),
    /// Floats. A column without any value reads as floats, too.
    Float(Vec<Option<f64>>),
    /// Text.
    Text(Vec<Option<String>>),
}

impl Column {
    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.values {
            ColumnValues::Bool(values) => values.len(),
            ColumnValues::Int(values) => values.len(),
            ColumnValues::Float(values) => values.len(),
            ColumnValues::Text(values) => values.len(),
        }
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values as floats, booleans as 0 and 1; text is `None`.
    #[must_use]
    pub fn to_f64(&self) -> Vec<Option<f64>> {
        match &self.values {
            ColumnValues::Bool(values) => values.iter().map(|v| v.map(|v| f64::from(u8::from(v)))).collect(),
            ColumnValues::Int(values) => values.iter().map(|v| v.map(|v| v as f64)).collect(),
            ColumnValues::Float(values) => values.clone(),
            ColumnValues::Text(values) => vec![None; values.len()],
        }
    }
}
