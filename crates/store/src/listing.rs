//! The list of parts and what their footers say.
//!
//! The folder is the list: one question uses one listing of `part-*.parquet`, and every other name is ignored.
//! Footers and schemas are read once per process and part, since a part never changes; a file that did change
//! (a root restored in place) is noticed when it is opened, by its length and time.
//!
//! What running writers have not published yet is in their journals. A fresh listing makes parts in memory of those,
//! and reads the journals *before* it lists the parts: a record that moves from one to the other is in one of both.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use arrow::datatypes::Fields;
use bytes::Bytes;
use waycairn_durable::open_file;

use crate::batch::Batch;
use crate::footer::{Footer, FooterFault, footer_of, read_footers};
use crate::journal::{is_news, segments};
use crate::part::is_part_name;
use crate::published::{Part, PartSchema};
use crate::query::QueryError;
use crate::schema::{RESERVED_PREFIX, ValueType};

/// How often a folder is listed again because a part vanished in between.
pub(crate) const MAX_LISTINGS: usize = 8;

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

/// How new what a reader sees is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Freshness {
    /// What was published: flushed, or older than the deadline of a batch.
    #[default]
    Published,
    /// That, and what running writers have in their journals: all but the last tenth of a second, unless they chose
    /// another interval. On a shared file system it is what the machine of the reader sees of them.
    Live,
}

/// How a segment was when it was read: it has grown, or is another one, when this changed.
type Look = (u64, Option<SystemTime>);

/// The parts that were made of a segment, and how it was.
#[derive(Debug)]
struct LiveParts {
    look: Look,
    parts: Vec<Arc<Part>>,
}

/// What the process remembers of one values folder.
#[derive(Debug, Default)]
struct Folder {
    live: HashMap<Arc<str>, LiveParts>,
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
pub(crate) fn list(values: &Path, freshness: Freshness) -> Result<PartSet, QueryError> {
    let io = |operation, path: &Path, source| QueryError::Io { operation, path: path.to_owned(), source };
    // The same folder under two names shares what is remembered.
    let path = match values.canonicalize() {
        Ok(path) => path,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(PartSet::empty()),
        Err(source) => return Err(io("find", values, source)),
    };
    let folder = folder(&path);
    let live = match freshness {
        Freshness::Published => Vec::new(),
        Freshness::Live => live(&path, &folder)?,
    };
    let mut tries = 0;
    loop {
        let names = part_names(&path).map_err(|source| io("list", &path, source))?;
        let mut folder = lock(&folder);
        if let Some(last) = folder.last.as_ref().filter(|last| last.is_of(&names)) {
            return Ok(folder.with_live(last.clone(), &live));
        }
        match folder.update(&path, names) {
            Ok(set) => {
                folder.last = Some(set.clone());
                return Ok(folder.with_live(set, &live));
            }
            // Retired and deleted between the listing and now: what replaced it is in the next listing.
            Err(QueryError::Vanished { .. }) if tries < MAX_LISTINGS => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

/// The parts that the journals of running writers stand for. Those of dead ones are read alike: nobody has recovered
/// them yet. A segment is read again when it has grown.
fn live(path: &Path, folder: &Mutex<Folder>) -> Result<Vec<Arc<Part>>, QueryError> {
    let failed = |source| QueryError::Io { operation: "list", path: path.to_owned(), source };
    let files = segments(path).map_err(failed)?;
    let name_of = |file: &Path| file.file_name().and_then(|name| name.to_str()).map(Arc::<str>::from);
    let names: Vec<Arc<str>> = files.iter().filter_map(|file| name_of(file)).collect();
    lock(folder).live.retain(|name, _| names.binary_search(name).is_ok());
    let mut all = Vec::new();
    for (file, name) in files.into_iter().zip(names) {
        // Its batch was published between the listing and here: then the parts have it.
        let bytes = match read_grown(&file, &name, folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            // Somebody else's, that we may not or cannot read: it is no reason to answer nothing.
            Err(error) => {
                if is_news(&file) {
                    tracing::warn!(segment = %file.display(), %error, "a journal cannot be read; what is in it is left out");
                }
                continue;
            }
            Ok(bytes) => bytes,
        };
        let mut folder = lock(folder);
        match bytes {
            None => {
                all.extend(folder.live.get(&name).into_iter().flat_map(|live| live.parts.iter().cloned()))
            }
            Some((look, bytes)) => {
                let parts = folder.parts_of(&file, &name, &bytes)?;
                all.extend(parts.iter().cloned());
                folder.live.insert(name, LiveParts { look, parts });
            }
        }
    }
    Ok(all)
}

/// The bytes of a segment, and how it was before they were read; `None` when it is as it was.
fn read_grown(file: &Path, name: &Arc<str>, folder: &Mutex<Folder>) -> io::Result<Option<(Look, Vec<u8>)>> {
    use std::io::Read as _;
    let mut file = open_file(file)?;
    let metadata = file.metadata()?;
    let look = (metadata.len(), metadata.modified().ok());
    if lock(folder).live.get(name).is_some_and(|live| live.look == look) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Some((look, bytes)))
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

    /// Makes parts of the whole frames of a segment. What is not whole is left to its writer, or to recovery.
    fn parts_of(&mut self, path: &Path, name: &str, bytes: &[u8]) -> Result<Vec<Arc<Part>>, QueryError> {
        let segment = crate::frame::read(bytes);
        let Some(launch) = &segment.launch else { return Ok(Vec::new()) };
        let mut parts = Vec::new();
        for rows in &segment.rows {
            for table in Batch::new(rows, launch).tables() {
                let encoded = crate::writer::encode(&table).map(Bytes::from);
                let answer = |source| QueryError::Answer { operation: "read a journal for", source };
                let encoded = encoded.map_err(|error| answer(error.into()))?;
                let footer = footer_of(&encoded).map_err(|fault| answer(fault.cause()))?;
                let schema = self.intern(&footer);
                let name: Arc<str> = Arc::from(format!("{name}.{}", parts.len()));
                let mut part = footer.into_part(path.parent().unwrap_or(path), &name, schema);
                path.clone_into(&mut part.path);
                part.memory = Some(encoded);
                parts.push(Arc::new(part));
            }
        }
        Ok(parts)
    }

    /// A listing with parts in memory. Their names sort before those of all others.
    fn with_live(&self, set: PartSet, live: &[Arc<Part>]) -> PartSet {
        if live.is_empty() {
            return set;
        }
        let parts: Arc<[Arc<Part>]> = live.iter().chain(set.parts.iter()).cloned().collect();
        let fields = self.fields(&parts);
        PartSet { parts, fields, ..set }
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
