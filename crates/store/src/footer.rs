//! The footer of a part: read once, checked before anything is believed.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use arrow::datatypes::Fields;
use bytes::Bytes;
use parquet::arrow::parquet_to_arrow_schema;
use parquet::errors::ParquetError;
use parquet::file::FOOTER_SIZE;
use parquet::file::metadata::{
    FooterTail, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy,
    RowGroupMetaData,
};
use waycairn_durable::{is_dangling, is_irregular, open_file};

use crate::part::{FactsError, PartFacts, retired_name};
use crate::presence::Sparse;
use crate::published::{Column, Group, Part, PartBytes, PartSchema, RunKey, readable};
use crate::schema::{IDENTITY, RESERVED, RESERVED_PREFIX, TEXT_SUFFIX, ValueType};

/// The end of a file that is read at once to find the footer.
const TAIL_BYTES: u64 = 64 * 1024;

/// A thread more for each so many footers.
const PARALLEL_FOOTERS: usize = 16;

/// A decoded footer, before its schema is shared.
pub(crate) struct Footer {
    metadata: Arc<ParquetMetaData>,
    /// The Arrow types as the file has them.
    pub(crate) fields: Fields,
    facts: Option<PartFacts>,
    sparse: Sparse,
    length: u64,
    modified: Option<SystemTime>,
}

/// Why a footer was not read.
pub(crate) enum FooterFault {
    Gone,
    Io(io::Error),
    Damaged(String, Option<ParquetError>),
}

impl FooterFault {
    /// It as a cause, of a part that is no file.
    pub(crate) fn cause(self) -> Box<dyn std::error::Error + Send + Sync> {
        match self {
            FooterFault::Gone => io::Error::from(io::ErrorKind::NotFound).into(),
            FooterFault::Io(source) => source.into(),
            FooterFault::Damaged(what, None) => what.into(),
            FooterFault::Damaged(_, Some(source)) => source.into(),
        }
    }
}

/// Reads the footers of some parts, each under its hidden name if it was retired since it was listed.
pub(crate) fn read_footers(path: &Path, names: &[Arc<str>]) -> Vec<Result<Footer, FooterFault>> {
    let threads = crate::query::threads().min(names.len() / PARALLEL_FOOTERS).max(1);
    let read = |names: &[Arc<str>]| names.iter().map(|name| read_footer(path, name)).collect::<Vec<_>>();
    if threads == 1 {
        return read(names);
    }
    std::thread::scope(|scope| {
        let shares = names.chunks(names.len().div_ceil(threads));
        let workers: Vec<_> = shares.map(|share| (share, scope.spawn(move || read(share)))).collect();
        let joined = workers.into_iter().map(|(share, worker)| worker.join().unwrap_or_else(|_| read(share)));
        joined.flatten().collect()
    })
}

fn read_footer(folder: &Path, name: &str) -> Result<Footer, FooterFault> {
    let file = match open_file(&folder.join(name)) {
        Err(error) if is_dangling(&error) => return Err(FooterFault::Damaged(error.to_string(), None)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => open_file(&folder.join(retired_name(name))),
        file => file,
    };
    let file = match file {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(FooterFault::Gone),
        Err(error) if is_irregular(&error) => return Err(FooterFault::Damaged(error.to_string(), None)),
        file => file.map_err(FooterFault::Io)?,
    };
    let metadata = file.metadata().map_err(FooterFault::Io)?;
    // A decoder that meets bytes it did not foresee may panic; that is damage, not a defect of the caller.
    let decode = || decode_footer(&PartBytes::File(file), metadata.len(), metadata.modified().ok());
    let decoded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(decode));
    decoded.unwrap_or_else(|_| Err(FooterFault::Damaged("its footer cannot be decoded".to_owned(), None)))
}

/// The footer of a part in memory.
pub(crate) fn footer_of(bytes: &Bytes) -> Result<Footer, FooterFault> {
    decode_footer(&PartBytes::Memory(bytes.clone()), bytes.len() as u64, None)
}

fn decode_footer(file: &PartBytes, length: u64, modified: Option<SystemTime>) -> Result<Footer, FooterFault> {
    let damaged = |what: &str| FooterFault::Damaged(what.to_owned(), None);
    let tail_bytes = length.min(TAIL_BYTES);
    let mut tail = file.read(length - tail_bytes, tail_bytes).map_err(FooterFault::Io)?;
    let Some(end) = tail.last_chunk::<FOOTER_SIZE>() else {
        return Err(FooterFault::Damaged(format!("it has only {length} bytes"), None));
    };
    let cut = |error| {
        FooterFault::Damaged(
            "it has no Parquet footer, so it was cut off or overwritten".to_owned(),
            Some(error),
        )
    };
    let footer_bytes = FooterTail::try_new(end).map_err(cut)?.metadata_length() as u64 + FOOTER_SIZE as u64;
    if footer_bytes > length {
        return Err(damaged("its footer claims to be longer than the file"));
    }
    if footer_bytes > tail_bytes {
        tail = file.read(length - footer_bytes, footer_bytes).map_err(FooterFault::Io)?;
    }
    let footer = tail.get(tail.len() - footer_bytes as usize..tail.len() - FOOTER_SIZE).unwrap_or_default();
    let options = ParquetMetaDataOptions::new()
        .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll)
        .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll);
    let decoded = ParquetMetaDataReader::decode_metadata_with_options(footer, Some(&options))
        .map_err(|error| FooterFault::Damaged("its footer cannot be decoded".to_owned(), Some(error)))?;
    check_ranges(&decoded, length)?;
    let file_metadata = decoded.file_metadata();
    let schema = parquet_to_arrow_schema(file_metadata.schema_descr(), None)
        .map_err(|error| FooterFault::Damaged("its schema cannot be read".to_owned(), Some(error)))?;
    let pairs = file_metadata.key_value_metadata().map(Vec::as_slice);
    let wrong = |error: FactsError| FooterFault::Damaged(error.to_string(), None);
    let facts = PartFacts::from_key_values(pairs).map_err(wrong)?;
    // Only of a part of ours can it be believed.
    let sparse = if facts.is_some() { PartFacts::sparse(pairs).map_err(wrong)? } else { Sparse::default() };
    if facts.as_ref().is_some_and(|facts| i64::try_from(facts.rows) != Ok(file_metadata.num_rows())) {
        return Err(damaged("its footer tells two numbers of rows"));
    }
    let footer =
        Footer { fields: schema.fields, facts, sparse, length, modified, metadata: Arc::new(decoded) };
    footer.check_identity()?;
    Ok(footer)
}

/// Refuses a footer that points outside of the file, before anything is allocated for it.
fn check_ranges(metadata: &ParquetMetaData, length: u64) -> Result<(), FooterFault> {
    let columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    for column in columns {
        let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let end = start.checked_add(column.compressed_size());
        let fits = start >= 4 && column.compressed_size() >= 0;
        if !fits || end.and_then(|end| u64::try_from(end).ok()).is_none_or(|end| end > length) {
            let what = "its footer points outside of the file, so it was cut off or overwritten";
            return Err(FooterFault::Damaged(what.to_owned(), None));
        }
    }
    if metadata.row_groups().iter().any(|group| group.num_rows() < 0) {
        return Err(FooterFault::Damaged("its footer has a negative number of rows".to_owned(), None));
    }
    Ok(())
}

/// The type of a reserved column, or `None` for a name that we do not know.
fn reserved_type(name: &str) -> Option<ValueType> {
    RESERVED.iter().find(|column| column.name == name).map(|column| column.value_type)
}

impl Footer {
    /// The three columns of the identity must be there, and every reserved column must have its type.
    fn check_identity(&self) -> Result<(), FooterFault> {
        let damaged = |what| Err(FooterFault::Damaged(what, None));
        for name in IDENTITY {
            if self.fields.find(name).is_none() {
                return damaged(format!("it has no column `{name}`"));
            }
        }
        for field in &self.fields {
            let found = readable(field.data_type()).map(|(value_type, _)| value_type);
            if let Some(expected) = reserved_type(field.name())
                && found != Some(expected)
            {
                return damaged(format!("its column `{}` has the type {}", field.name(), field.data_type()));
            }
        }
        let distinct: HashSet<&str> = self.fields.iter().map(|field| field.name().as_str()).collect();
        if distinct.len() != self.fields.len() {
            return damaged("two of its columns have one name".to_owned());
        }
        Ok(())
    }

    /// What the columns are, under a number among the schemas of the folder.
    pub(crate) fn schema(&self, id: usize) -> PartSchema {
        let descriptor = self.metadata.file_metadata().schema_descr_ptr();
        let mut first_leaf = HashMap::new();
        for leaf in 0..descriptor.num_columns() {
            first_leaf.entry(descriptor.get_column_root_idx(leaf)).or_insert(leaf);
        }
        let mut columns = HashMap::new();
        let mut unreadable = Vec::new();
        for (root, field) in self.fields.iter().enumerate() {
            let name = field.name().as_str();
            let unknown_reserved = name.starts_with(RESERVED_PREFIX) && reserved_type(name).is_none();
            match readable(field.data_type()).zip(first_leaf.get(&root).copied()) {
                Some(((value_type, cast), leaf)) if !unknown_reserved && !name.ends_with(TEXT_SUFFIX) => {
                    columns.insert(Box::from(name), Column { root, leaf, value_type, cast });
                }
                None if !name.starts_with(RESERVED_PREFIX) => {
                    unreadable.push((name.to_owned(), field.data_type().to_string()));
                }
                _ => {}
            }
        }
        PartSchema { id, fields: self.fields.clone(), descriptor, columns, unreadable }
    }

    pub(crate) fn into_part(self, folder: &Path, name: &Arc<str>, schema: Arc<PartSchema>) -> Part {
        let runs = self.facts.as_ref().and_then(|facts| facts.runs.clone());
        let only_run = match runs.as_deref() {
            Some([run]) => Some(RunKey { name: Arc::from(&*run.name), nonce: Arc::from(&*run.nonce) }),
            _ => None,
        };
        let only_run = only_run.map(Arc::new);
        let mut groups: Vec<Group> = Vec::new();
        for (index, group) in self.metadata.row_groups().iter().enumerate() {
            let mut group = Group::new(index, group, &schema, only_run.clone());
            // Neighbours of one run share its text.
            if let (Some(run), Some(before)) =
                (&group.run, groups.last().and_then(|group| group.run.as_ref()))
                && run == before
            {
                group.run = Some(Arc::clone(before));
            }
            groups.push(group);
        }
        Part {
            name: Arc::clone(name),
            path: folder.join(&**name),
            memory: None,
            schema,
            metadata: self.metadata,
            groups,
            runs,
            parents: self.facts.as_ref().and_then(|facts| facts.parents.clone()),
            sparse: self.sparse,
            ours: self.facts.is_some(),
            writer: self.facts.and_then(|facts| facts.writer).map(Arc::from),
            length: self.length,
            modified: self.modified,
            unsorted: AtomicBool::new(false),
        }
    }
}
