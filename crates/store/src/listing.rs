//! The list of parts and what their footers say.
//!
//! The folder is the list: one question uses one listing of `part-*.parquet`, and every other name is ignored.
//! Footers and schemas are read once per process and part, since a part never changes; a file that did change
//! (a root restored in place) is noticed when it is opened, by its length and time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use arrow::datatypes::{DataType, Field, Fields};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::FOOTER_SIZE;
use parquet::file::metadata::{
    FooterTail, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy,
    RowGroupMetaData,
};
use parquet::file::statistics::Statistics;
use parquet::schema::types::{SchemaDescriptor, TypePtr};

use crate::part::{PartFacts, RunRange, is_part_name, retired_name};
use crate::query::QueryError;
use crate::schema::{
    ARTIFACT, BLOB, IDENTITY, NAME, NONCE, PARENT, RESERVED_PREFIX, SEQ, TEXT_SUFFIX, ValueType,
};

/// The end of a file that is read at once to find the footer.
const TAIL_BYTES: u64 = 64 * 1024;

/// A thread more for each so many footers.
const PARALLEL_FOOTERS: usize = 16;

/// How often a folder is listed again because a part vanished in between.
pub(crate) const MAX_LISTINGS: usize = 8;

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
    fields: Fields,
    descriptor: Arc<SchemaDescriptor>,
    /// All columns that hold values, reserved ones included.
    columns: HashMap<Box<str>, Column>,
    /// Fields of the caller whose type is none of ours: name and type.
    unreadable: Vec<(String, String)>,
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

/// A published part.
#[derive(Debug)]
pub(crate) struct Part {
    /// The file's name, which also decides between records without stamps.
    pub(crate) name: Arc<str>,
    pub(crate) path: PathBuf,
    pub(crate) schema: Arc<PartSchema>,
    pub(crate) metadata: Arc<ParquetMetaData>,
    pub(crate) groups: Vec<Group>,
    /// All runs in it, where the footer says so.
    pub(crate) runs: Option<Vec<RunRange>>,
    /// The writer of all rows, where the footer says so.
    pub(crate) writer: Option<Arc<str>>,
    length: u64,
    modified: Option<SystemTime>,
    /// Set when rows were found out of the order of their identities.
    unsorted: AtomicBool,
}

impl Part {
    /// Whether its rows were found out of order; they are sorted before they are merged.
    pub(crate) fn is_unsorted(&self) -> bool {
        self.unsorted.load(Ordering::Relaxed)
    }

    pub(crate) fn mark_unsorted(&self) {
        self.unsorted.store(true, Ordering::Relaxed);
    }

    /// Opens the part, under its hidden name when a compaction has replaced it since it was listed.
    ///
    /// # Errors
    /// [`OpenFault::Stale`] when there is no such file any more, or another one.
    pub(crate) fn open(&self) -> Result<File, OpenFault> {
        let hidden = self.path.with_file_name(retired_name(&self.name));
        for path in [&self.path, &hidden] {
            match File::open(path) {
                Ok(file) => {
                    let metadata =
                        file.metadata().map_err(|source| OpenFault::Io { path: path.clone(), source })?;
                    let same = metadata.len() == self.length && metadata.modified().ok() == self.modified;
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

/// The types that a field has in some part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Types {
    bits: u8,
}

impl Types {
    pub(crate) fn with(self, value_type: ValueType) -> Types {
        Types { bits: self.bits | 1 << value_type as u8 }
    }

    pub(crate) fn has(self, value_type: ValueType) -> bool {
        self.bits & 1 << value_type as u8 != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// The one type, if there is only one.
    pub(crate) fn single(self) -> Option<ValueType> {
        let all = [ValueType::Bool, ValueType::Int, ValueType::Float, ValueType::Text];
        let mut present = all.into_iter().filter(|value_type| self.has(*value_type));
        present.next().filter(|_| present.next().is_none())
    }

    /// The type of the column that shows the numbers: bool or int64 when all are, else float64.
    pub(crate) fn numeric(self) -> Option<ValueType> {
        let numbers = Types { bits: self.bits & !(1 << ValueType::Text as u8) };
        if numbers.is_empty() { None } else { Some(numbers.single().unwrap_or(ValueType::Float)) }
    }

    pub(crate) fn has_text(self) -> bool {
        self.has(ValueType::Text)
    }
}

/// All fields of the callers, over all parts of a listing.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldTable {
    pub(crate) types: BTreeMap<Arc<str>, Types>,
    /// Fields that some part holds with an unreadable type.
    pub(crate) unreadable: BTreeMap<String, String>,
}

impl FieldTable {
    pub(crate) fn get(&self, key: &str) -> Types {
        self.types.get(key).copied().unwrap_or_default()
    }
}

/// One listing: what one question reads.
#[derive(Clone, Debug)]
pub(crate) struct PartSet {
    /// Sorted by name, which is their rank between records without stamps.
    pub(crate) parts: Arc<[Arc<Part>]>,
    pub(crate) fields: Arc<FieldTable>,
    /// Parts whose footers cannot be read, with the reason.
    pub(crate) damaged: Arc<[(PathBuf, Arc<QueryError>)]>,
}

/// What the process remembers of one values folder.
#[derive(Debug, Default)]
struct Folder {
    parts: HashMap<Arc<str>, Arc<Part>>,
    schemas: HashMap<Fields, Arc<PartSchema>>,
    last: Option<PartSet>,
}

static FOLDERS: LazyLock<Mutex<HashMap<PathBuf, Arc<Mutex<Folder>>>>> = LazyLock::new(Mutex::default);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is cached is replaced as a whole, so a panic elsewhere leaves nothing half-made.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn folder(path: &Path) -> Arc<Mutex<Folder>> {
    Arc::clone(lock(&FOLDERS).entry(path.to_owned()).or_default())
}

/// Drops what is remembered of a part, so that its footer is read again.
pub(crate) fn forget(part: &Part) {
    if let Some(parent) = part.path.parent() {
        let folder = folder(parent);
        let mut folder = lock(&folder);
        folder.parts.remove(&part.name);
        folder.last = None;
    }
}

/// Lists a values folder. A folder that does not exist has no parts.
///
/// # Errors
/// [`QueryError::Io`] when the folder cannot be listed or a part cannot be opened. A part with a damaged footer
/// is no error here: it is among [`PartSet::damaged`].
pub(crate) fn list(values: &Path) -> Result<PartSet, QueryError> {
    let io = |operation, path: &Path, source| QueryError::Io { operation, path: path.to_owned(), source };
    // The same folder under two names shares what is remembered.
    let path = match values.canonicalize() {
        Ok(path) => path,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(PartSet::empty()),
        Err(source) => return Err(io("find", values, source)),
    };
    let folder = folder(&path);
    let mut tries = 0;
    loop {
        let names = part_names(&path).map_err(|source| io("list", &path, source))?;
        let mut folder = lock(&folder);
        if let Some(last) = folder.last.as_ref().filter(|last| last.is_of(&names)) {
            return Ok(last.clone());
        }
        match folder.update(&path, names) {
            Ok(set) => {
                folder.last = Some(set.clone());
                return Ok(set);
            }
            // Retired and deleted between the listing and now: what replaced it is in the next listing.
            Err(QueryError::Vanished { .. }) if tries < MAX_LISTINGS => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

/// The names of the parts in a folder, sorted.
fn part_names(path: &Path) -> io::Result<Vec<Arc<str>>> {
    let mut names: Vec<Arc<str>> = Vec::new();
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if is_part_name(&name) {
            names.extend(name.to_str().map(Arc::from));
        }
    }
    names.sort_unstable();
    Ok(names)
}

impl Folder {
    fn update(&mut self, path: &Path, names: Vec<Arc<str>>) -> Result<PartSet, QueryError> {
        let unknown: Vec<Arc<str>> =
            names.iter().filter(|name| !self.parts.contains_key(*name)).cloned().collect();
        let mut damaged = Vec::new();
        for (name, footer) in unknown.iter().zip(read_footers(path, &unknown)) {
            match footer {
                Err(FooterFault::Gone) => return Err(QueryError::Vanished { path: path.join(&**name) }),
                Err(FooterFault::Io(source)) => {
                    return Err(QueryError::Io { operation: "read", path: path.join(&**name), source });
                }
                Err(FooterFault::Damaged(what, source)) => {
                    let path = path.join(&**name);
                    let source = source.map(Box::new);
                    damaged.push((path.clone(), Arc::new(QueryError::Damaged { path, what, source })));
                }
                Ok(footer) => {
                    let schema = self.intern(&footer);
                    let part = footer.into_part(path, name, schema);
                    self.parts.insert(Arc::clone(name), Arc::new(part));
                }
            }
        }
        let parts: Arc<[Arc<Part>]> = names.iter().filter_map(|name| self.parts.get(name)).cloned().collect();
        if self.parts.len() > parts.len() {
            let listed: HashSet<&Arc<str>> = names.iter().collect();
            self.parts.retain(|name, _| listed.contains(name));
        }
        let fields = self.fields(&parts);
        Ok(PartSet { parts, fields, damaged: damaged.into() })
    }

    fn intern(&mut self, footer: &Footer) -> Arc<PartSchema> {
        let id = self.schemas.len();
        let entry = self.schemas.entry(footer.fields.clone());
        Arc::clone(entry.or_insert_with(|| Arc::new(footer.schema(id))))
    }

    /// The union over the distinct schemas. When only new ones came, they are added to the union before, so
    /// the cost of a new part does not grow with the number of parts.
    fn fields(&self, parts: &[Arc<Part>]) -> Arc<FieldTable> {
        let ids =
            |parts: &[Arc<Part>]| -> HashSet<usize> { parts.iter().map(|part| part.schema.id).collect() };
        let mut missing = ids(parts);
        let mut table = FieldTable::default();
        if let Some(last) = &self.last {
            let known = ids(&last.parts);
            if known == missing {
                return Arc::clone(&last.fields);
            }
            if known.is_subset(&missing) {
                missing.retain(|id| !known.contains(id));
                table = last.fields.as_ref().clone();
            }
        }
        for part in parts {
            if !missing.remove(&part.schema.id) {
                continue;
            }
            for (name, column) in &part.schema.columns {
                if !name.starts_with(RESERVED_PREFIX) {
                    let types = table.types.entry(Arc::from(&**name)).or_default();
                    *types = types.with(column.value_type);
                }
            }
            table.unreadable.extend(part.schema.unreadable.iter().cloned());
        }
        Arc::new(table)
    }
}

impl PartSet {
    fn empty() -> PartSet {
        PartSet { parts: Arc::from([]), fields: Arc::default(), damaged: Arc::from([]) }
    }

    fn is_of(&self, names: &[Arc<str>]) -> bool {
        // A damaged part is tried again by every listing: it may have been restored.
        self.damaged.is_empty()
            && self.parts.len() == names.len()
            && self.parts.iter().zip(names).all(|(part, name)| part.name == *name)
    }
}

/// A decoded footer, before its schema is shared.
struct Footer {
    metadata: Arc<ParquetMetaData>,
    /// The Arrow types as the file has them.
    fields: Fields,
    facts: Option<PartFacts>,
    length: u64,
    modified: Option<SystemTime>,
}

enum FooterFault {
    Gone,
    Io(io::Error),
    Damaged(String, Option<ParquetError>),
}

fn read_footers(path: &Path, names: &[Arc<str>]) -> Vec<Result<Footer, FooterFault>> {
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
    let file = match File::open(folder.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => File::open(folder.join(retired_name(name))),
        file => file,
    };
    let file = match file {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(FooterFault::Gone),
        file => file.map_err(FooterFault::Io)?,
    };
    let metadata = file.metadata().map_err(FooterFault::Io)?;
    if !metadata.is_file() {
        return Err(FooterFault::Damaged("it is no file".to_owned(), None));
    }
    // A decoder that meets bytes it did not foresee may panic; that is damage, not a defect of the caller.
    let decoded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| decode_footer(&file, &metadata)));
    decoded.unwrap_or_else(|_| Err(FooterFault::Damaged("its footer cannot be decoded".to_owned(), None)))
}

fn decode_footer(file: &File, metadata: &Metadata) -> Result<Footer, FooterFault> {
    let damaged = |what: &str| FooterFault::Damaged(what.to_owned(), None);
    let length = metadata.len();
    let tail_bytes = length.min(TAIL_BYTES);
    let mut tail = read_exact(file, length - tail_bytes, tail_bytes)?;
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
        tail = read_exact(file, length - footer_bytes, footer_bytes)?;
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
    let facts = PartFacts::from_key_values(file_metadata.key_value_metadata().map(Vec::as_slice))
        .map_err(|error| FooterFault::Damaged(error.to_string(), None))?;
    if facts.as_ref().is_some_and(|facts| i64::try_from(facts.rows) != Ok(file_metadata.num_rows())) {
        return Err(damaged("its footer tells two numbers of rows"));
    }
    let footer = Footer {
        fields: schema.fields,
        facts,
        length,
        modified: metadata.modified().ok(),
        metadata: Arc::new(decoded),
    };
    footer.check_identity()?;
    Ok(footer)
}

fn read_exact(file: &File, start: u64, bytes: u64) -> Result<Vec<u8>, FooterFault> {
    let mut buffer = vec![0; bytes as usize];
    file.read_exact_at(&mut buffer, start).map_err(FooterFault::Io)?;
    Ok(buffer)
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

/// The type that a column of this Arrow type is read as, and whether a cast is needed for it.
fn readable(data_type: &DataType) -> Option<(ValueType, bool)> {
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

/// The type of a reserved column, or `None` for a name that we do not know.
fn reserved_type(name: &str) -> Option<ValueType> {
    crate::schema::RESERVED.iter().find(|column| column.name == name).map(|column| column.value_type)
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

    fn schema(&self, id: usize) -> PartSchema {
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

    fn into_part(self, folder: &Path, name: &Arc<str>, schema: Arc<PartSchema>) -> Part {
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
            schema,
            metadata: self.metadata,
            groups,
            runs,
            writer: self.facts.map(|facts| Arc::from(facts.writer)),
            length: self.length,
            modified: self.modified,
            unsorted: AtomicBool::new(false),
        }
    }
}

impl Group {
    fn new(index: usize, group: &RowGroupMetaData, schema: &PartSchema, run: Option<Arc<RunKey>>) -> Group {
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
