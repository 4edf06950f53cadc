//! A published part: what is known of it without reading its rows.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use arrow::datatypes::{DataType, Field, Fields};
use bytes::Bytes;
use parquet::bloom_filter::Sbbf;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::statistics::Statistics;
use parquet::schema::types::{SchemaDescriptor, TypePtr};
use waycairn_durable::open_file;

use crate::part::{RunRange, retired_name};
use crate::presence::Sparse;
use crate::query::QueryError;
use crate::schema::{ARTIFACT, BLOB, NAME, NONCE, PARENT, RESERVED_PREFIX, SEQ, ValueType};

/// A larger bloom filter costs more than what it may spare.
const MAX_FILTER_BYTES: u64 = 1 << 20;

/// The identity of a run, as the merge orders it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunKey {
    pub(crate) name: Arc<str>,
    pub(crate) nonce: Arc<str>,
}

/// A column of a part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// Its place among the root fields of the schema.
    pub(crate) root: usize,
    /// Its place among the column chunks of a row group.
    pub(crate) leaf: usize,
    /// What its values are.
    pub(crate) value_type: ValueType,
    /// Whether the decoded array must be cast to the type that our own parts have.
    pub(crate) cast: bool,
}

/// The columns of a part. Parts with equal columns share one.
#[derive(Debug)]
pub(crate) struct PartSchema {
    /// Among the schemas of a folder.
    pub(crate) id: usize,
    /// The root fields, with the Arrow types that the file has.
    pub(crate) fields: Fields,
    pub(crate) descriptor: Arc<SchemaDescriptor>,
    /// All columns that hold values, reserved ones included.
    pub(crate) columns: HashMap<Box<str>, Column>,
    /// Fields of the caller whose type is none of ours: name and type.
    pub(crate) unreadable: Vec<(String, String)>,
}

impl PartSchema {
    pub(crate) fn column(&self, name: &str) -> Option<Column> {
        self.columns.get(name).copied()
    }

    /// The Parquet type of a column.
    pub(crate) fn parquet_type(&self, column: Column) -> TypePtr {
        self.descriptor.column(column.leaf).self_type_ptr()
    }

    /// The Arrow field that a column is decoded as, before a cast.
    pub(crate) fn decoded(&self, column: Column) -> Field {
        let field = &self.fields[column.root];
        let data_type = if column.cast {
            field.data_type().clone()
        } else {
            decoded_type(field.name(), column.value_type)
        };
        Field::new(field.name(), data_type, field.is_nullable())
    }
}

/// What is known of a row group without reading it.
#[derive(Debug)]
pub(crate) struct Group {
    /// Its place in the file.
    pub(crate) index: usize,
    pub(crate) rows: usize,
    /// The smallest and the largest name, where the statistics tell.
    pub(crate) names: (Option<Arc<str>>, Option<Arc<str>>),
    /// The one run of all rows, where that is known.
    pub(crate) run: Option<Arc<RunKey>>,
    /// The smallest and the largest position, whatever the run.
    pub(crate) seqs: Option<(i64, i64)>,
}

/// Where the bytes of a part are.
#[derive(Debug)]
pub(crate) enum PartBytes {
    File(File),
    /// Those of a part that was made of a journal, and that no file has.
    Memory(Bytes),
}

impl PartBytes {
    /// Some of the bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] when there are fewer, and what the file says.
    pub(crate) fn read(&self, start: u64, bytes: u64) -> io::Result<Bytes> {
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        match self {
            PartBytes::File(file) => {
                let mut buffer = vec![0; length];
                file.read_exact_at(&mut buffer, start)?;
                Ok(Bytes::from(buffer))
            }
            PartBytes::Memory(all) => {
                let start = usize::try_from(start).unwrap_or(usize::MAX);
                let end = start.checked_add(length).filter(|end| *end <= all.len());
                end.map(|end| all.slice(start..end)).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
            }
        }
    }
}

/// A published part, or one that was made of a journal.
#[derive(Debug)]
pub(crate) struct Part {
    /// The file's name, which also decides between records without stamps.
    pub(crate) name: Arc<str>,
    /// The file; that of the journal where the bytes are in memory.
    pub(crate) path: PathBuf,
    /// All bytes, of a part that was made of a journal.
    pub(crate) memory: Option<Bytes>,
    pub(crate) schema: Arc<PartSchema>,
    pub(crate) metadata: Arc<ParquetMetaData>,
    pub(crate) groups: Vec<Group>,
    /// All runs in it, where the footer says so.
    pub(crate) runs: Option<Vec<RunRange>>,
    /// Where all recorded parents lie, where the footer says so.
    pub(crate) parents: Option<Vec<RunRange>>,
    /// Which columns are not in every row group, where the footer says so.
    pub(crate) sparse: Sparse,
    /// Whether a program of ours wrote it.
    pub(crate) ours: bool,
    /// The writer of all rows, where the footer says so.
    pub(crate) writer: Option<Arc<str>>,
    pub(crate) length: u64,
    pub(crate) modified: Option<SystemTime>,
    /// Set when rows were found out of the order of their identities.
    pub(crate) unsorted: AtomicBool,
}

impl Part {
    /// Whether its rows were found out of order; they are sorted before they are merged.
    pub(crate) fn is_unsorted(&self) -> bool {
        self.unsorted.load(Ordering::Relaxed)
    }

    pub(crate) fn mark_unsorted(&self) {
        self.unsorted.store(true, Ordering::Relaxed);
    }

    /// Whether one of its row groups may hold a value of a column.
    pub(crate) fn may_hold(&self, column: &str, group: &Group) -> bool {
        let held = self.sparse.get(column);
        self.schema.column(column).is_some()
            && held.is_none_or(|groups| groups.binary_search(&group.index).is_ok())
    }

    /// Whether a row group may hold a row of one of these nonces, by its bloom filter. True where it has none, and where it
    /// cannot be read: whoever reads the rows says why.
    pub(crate) fn may_hold_nonce(&self, group: &Group, nonces: &[&str]) -> bool {
        let filter = || {
            let leaf = self.schema.column(NONCE)?.leaf;
            let column = self.metadata.row_groups().get(group.index)?.columns().get(leaf)?;
            let start = u64::try_from(column.bloom_filter_offset()?).ok()?;
            let length = u64::try_from(column.bloom_filter_length()?).ok()?;
            let inside = start.checked_add(length)? <= self.length && length <= MAX_FILTER_BYTES;
            let bytes = self.open().ok().filter(|_| inside)?.read(start, length).ok()?;
            let filter = Sbbf::from_bytes(&bytes).ok()?;
            Some(nonces.iter().any(|nonce| filter.check(*nonce)))
        };
        // A decoder that meets bytes it did not foresee may panic.
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(filter));
        told.ok().flatten().unwrap_or(true)
    }

    /// Opens the part, to read its bytes.
    ///
    /// # Errors
    /// As [`open_file`](Part::open_file).
    pub(crate) fn open(&self) -> Result<PartBytes, OpenFault> {
        match &self.memory {
            Some(bytes) => Ok(PartBytes::Memory(bytes.clone())),
            None => self.open_file().map(PartBytes::File),
        }
    }

    /// Opens the file of a published part, under its hidden name when a compaction has replaced it since it was listed.
    ///
    /// # Errors
    /// [`OpenFault::Stale`] when there is no such file any more, or another one.
    pub(crate) fn open_file(&self) -> Result<File, OpenFault> {
        let hidden = self.path.with_file_name(retired_name(&self.name));
        // A compaction sets the time of what it hides, so there the length has to be enough.
        for (path, modified) in [(&self.path, self.modified), (&hidden, None)] {
            match open_file(path) {
                Ok(file) => {
                    let metadata =
                        file.metadata().map_err(|source| OpenFault::Io { path: path.clone(), source })?;
                    let same = metadata.len() == self.length
                        && (modified.is_none() || metadata.modified().ok() == modified);
                    return if same { Ok(file) } else { Err(OpenFault::Stale) };
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(OpenFault::Io { path: path.clone(), source }),
            }
        }
        Err(OpenFault::Stale)
    }

    pub(crate) fn damaged(&self, what: impl Into<String>) -> QueryError {
        QueryError::Damaged { path: self.path.clone(), what: what.into(), source: None }
    }

    pub(crate) fn damaged_by(&self, what: impl Into<String>, source: ParquetError) -> QueryError {
        QueryError::Damaged { path: self.path.clone(), what: what.into(), source: Some(Box::new(source)) }
    }
}

/// Why a listed part cannot be opened.
#[derive(Debug)]
pub(crate) enum OpenFault {
    /// It is gone or was replaced: the folder must be listed again.
    Stale,
    Io {
        path: PathBuf,
        source: io::Error,
    },
}

impl Group {
    pub(crate) fn new(
        index: usize,
        group: &RowGroupMetaData,
        schema: &PartSchema,
        run: Option<Arc<RunKey>>,
    ) -> Group {
        let statistics = |name: &str| {
            let column = schema.column(name)?;
            let statistics = group.columns().get(column.leaf)?.statistics()?;
            (!statistics.is_min_max_deprecated()).then_some((statistics, column))
        };
        let texts = |name: &str| match statistics(name) {
            Some((Statistics::ByteArray(bounds), _)) => {
                let text = |bound: &ByteArray| bound.as_utf8().ok().map(Arc::<str>::from);
                let nulls = bounds.null_count_opt().unwrap_or(1);
                (bounds.min_opt().and_then(text), bounds.max_opt().and_then(text), nulls)
            }
            _ => (None, None, 1),
        };
        // A shortened bound is below or above the value, never equal on both sides, so equal bounds without
        // nulls mean one value.
        let single = |(first, last, nulls): &(Option<Arc<str>>, Option<Arc<str>>, u64)| match (first, last) {
            (Some(first), Some(last)) if first == last && *nulls == 0 => Some(Arc::clone(first)),
            _ => None,
        };
        let (names, nonces) = (texts(NAME), texts(NONCE));
        let run = run.or_else(|| Some(Arc::new(RunKey { name: single(&names)?, nonce: single(&nonces)? })));
        let names = match &run {
            Some(run) => (Some(Arc::clone(&run.name)), Some(Arc::clone(&run.name))),
            None => (names.0, names.1),
        };
        let seqs = match statistics(SEQ) {
            Some((Statistics::Int64(bounds), Column { cast: false, .. })) => {
                bounds.min_opt().copied().zip(bounds.max_opt().copied())
            }
            _ => None,
        };
        Group { index, rows: usize::try_from(group.num_rows()).unwrap_or(0), names, run, seqs }
    }
}

/// The type that a column of this Arrow type is read as, and whether a cast is needed for it.
pub(crate) fn readable(data_type: &DataType) -> Option<(ValueType, bool)> {
    if let Some(value_type) = ValueType::of_arrow(data_type) {
        return Some((value_type, *data_type != value_type.arrow()));
    }
    match data_type {
        DataType::Int8 | DataType::Int16 | DataType::Int32 => Some((ValueType::Int, true)),
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
            Some((ValueType::Int, true))
        }
        DataType::Float16 | DataType::Float32 => Some((ValueType::Float, true)),
        _ => None,
    }
}

/// Text columns whose values repeat are decoded as dictionaries.
fn decoded_type(name: &str, value_type: ValueType) -> DataType {
    let repeats = name.starts_with(RESERVED_PREFIX) && ![PARENT, BLOB, ARTIFACT].contains(&name);
    match value_type {
        ValueType::Text if repeats => dictionary(),
        value_type => value_type.arrow(),
    }
}

/// The type of a decoded reserved text column.
pub(crate) fn dictionary() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}
