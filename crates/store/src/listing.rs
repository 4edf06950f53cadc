//! The list of parts and what their footers say.
//!
//! The folder is the list: one question uses one listing of `part-*.parquet`, and every other name is ignored.
//! Footers and schemas are read once per process and part, since a part never changes; a file that did change
//! (a root restored in place) is noticed when it is opened, by its length and time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use arrow::datatypes::Fields;

use crate::footer::{Footer, FooterFault, read_footers};
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
