//! The history: the last distinct roots, and the entries that each used.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;
use waycairn_durable::{Digest, Durability, is_irregular, read_file, rename, time, write_file};

use crate::cache::Cache;
use crate::listing::{Kind, Listing};
use crate::{CacheError, EntryName, GcPlan, GcReport, to_value};

/// How many distinct roots are kept.
pub const HISTORY_ROOTS: usize = 3;

/// The version of `history.json` and `pins.json` that this program writes and reads.
pub(crate) const BOOK_VERSION: u64 = 1;

/// Entries that no history names are adopted when they are older than this and the history is gone.
const ADOPTED_AGE: Duration = Duration::from_secs(24 * 3600);

/// The label of the root that a lost history leaves behind.
const RECOVERED: &str = "recovered";

/// Is what recent launches used; a collection starts from it.
///
/// A root is what the caller tells apart by a digest, that of its resolved settings say. Recording the same digest
/// again makes no new root. Each root names its entries in groups, and a group is replaced as a whole: the entries of
/// the latest analysis, say, while those of the training stay.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    roots: Vec<Root>,
    expired: BTreeSet<EntryName>,
    state: BookState,
}

/// Is one distinct root of the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Root {
    /// What tells it from other roots.
    pub digest: Digest,
    /// What the caller keeps with it.
    #[serde(default)]
    pub extra: Map<String, Value>,
    /// The entries that it used, by group.
    pub groups: BTreeMap<String, BTreeSet<EntryName>>,
    /// What it is called, for people.
    pub label: String,
    /// When it was recorded last: RFC 3339, UTC.
    pub time: String,
}

impl Root {
    /// All entries that it used.
    pub fn entries(&self) -> impl Iterator<Item = &EntryName> {
        self.groups.values().flatten()
    }
}

/// Says what was found of a file that keeps books: `history.json` or `pins.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BookState {
    /// It was read.
    Read,
    /// There is none.
    Absent,
    /// It is there and says nothing that can be read.
    Garbled {
        /// Where and why.
        reason: String,
    },
}

/// Says what a launch used.
#[derive(Debug, Clone)]
pub struct Used<'used> {
    /// What tells its root from others.
    pub digest: Digest,
    /// What it is called, for people.
    pub label: &'used str,
    /// Which group of entries this is: that of a training, or of an analysis.
    pub group: &'used str,
    /// The entries, all of them: those of this group that were used before and are not here are expired.
    pub entries: BTreeSet<EntryName>,
    /// Now, in nanoseconds since 1970.
    pub now: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    expired: BTreeSet<EntryName>,
    roots: Vec<Root>,
    version: u64,
}

impl History {
    /// Begins without a root.
    #[must_use]
    pub fn new() -> Self {
        Self { roots: Vec::new(), expired: BTreeSet::new(), state: BookState::Absent }
    }

    /// Shows the roots, the latest first.
    #[must_use]
    pub fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// Shows what only roots used that are not in the history any more, and that was not collected yet.
    #[must_use]
    pub fn expired(&self) -> &BTreeSet<EntryName> {
        &self.expired
    }

    /// Says what was found of the file.
    #[must_use]
    pub fn state(&self) -> &BookState {
        &self.state
    }

    /// Says why a collection must not go by this history alone, if so: it was lost, and what is there was adopted.
    #[must_use]
    pub fn doubt(&self) -> Option<String> {
        match &self.state {
            BookState::Read => None,
            BookState::Garbled { reason } => Some(format!("`history.json` was garbled: {reason}")),
            BookState::Absent => {
                let adopted = self.roots.iter().any(|root| root.label == RECOVERED);
                adopted
                    .then(|| "`history.json` is missing, and entries are there that are not new".to_owned())
            }
        }
    }

    /// Records what a launch used. Its root is the latest then; what no root uses any more is expired.
    pub fn record(&mut self, used: Used<'_>) {
        let before: BTreeSet<EntryName> = self.used().cloned().collect();
        // What was adopted and is used by somebody who says so needs no adoption.
        for root in self.roots.iter_mut().filter(|root| root.label == RECOVERED) {
            root.groups
                .values_mut()
                .for_each(|entries| entries.retain(|entry| !used.entries.contains(entry)));
        }
        self.roots.retain(|root| root.label != RECOVERED || root.entries().next().is_some());
        let place = self.roots.iter().position(|root| root.digest == used.digest);
        let mut root = match place {
            Some(place) => self.roots.remove(place),
            None => Root {
                digest: used.digest,
                extra: Map::new(),
                groups: BTreeMap::new(),
                label: String::new(),
                time: String::new(),
            },
        };
        used.label.clone_into(&mut root.label);
        root.time = time::rfc3339_micros(used.now);
        root.groups.insert(used.group.to_owned(), used.entries);
        self.roots.insert(0, root);
        self.roots.truncate(HISTORY_ROOTS);
        let after: BTreeSet<EntryName> = self.used().cloned().collect();
        self.expired.extend(before);
        self.expired.retain(|entry| !after.contains(entry));
    }

    /// Keeps something of the caller's with the latest root.
    pub fn set_extra(&mut self, name: &str, value: Value) {
        if let Some(root) = self.roots.first_mut() {
            root.extra.insert(name.to_owned(), value);
        }
    }

    /// Forgets the expired entries that a collection has removed.
    pub fn collected(&mut self, report: &GcReport) {
        for entry in &report.removed_entries {
            self.expired.remove(entry);
        }
    }

    /// Forgets the expired entries that a plan did not find: a collection that died has removed them. `true` if there
    /// were some. A plan in doubt may have found nothing because it could not look.
    pub fn forget_gone(&mut self, plan: &GcPlan) -> bool {
        let before = self.expired.len();
        if plan.doubts.is_empty() {
            let there: BTreeSet<&EntryName> =
                plan.decisions.iter().filter_map(|decision| decision.entry.as_ref()).collect();
            self.expired.retain(|entry| there.contains(entry));
        }
        self.expired.len() < before
    }

    /// All entries that some root uses.
    pub fn used(&self) -> impl Iterator<Item = &EntryName> {
        self.roots.iter().flat_map(Root::entries)
    }

    /// Adopts what is there when the file is lost: everything if it was garbled, what is not new if it is missing. It
    /// is one more root, the oldest, and expires as the others do.
    fn adopt(&mut self, listing: &Listing, now: i64) {
        let oldest = match &self.state {
            BookState::Read => return,
            BookState::Garbled { .. } => i64::MAX,
            BookState::Absent => {
                now.saturating_sub(i64::try_from(ADOPTED_AGE.as_nanos()).unwrap_or(i64::MAX))
            }
        };
        let old = listing.listed.iter().filter(|listed| listed.modified <= oldest);
        let entries: BTreeSet<EntryName> = old
            .filter_map(|listed| match &listed.kind {
                Kind::Entry(entry) => Some(entry.clone()),
                _ => None,
            })
            .collect();
        if !entries.is_empty() {
            self.roots.push(Root {
                digest: Digest::of(RECOVERED.as_bytes()),
                extra: Map::new(),
                groups: BTreeMap::from([(RECOVERED.to_owned(), entries)]),
                label: RECOVERED.to_owned(),
                time: time::rfc3339_micros(now),
            });
        }
    }
}

impl Default for History {
    fn default() -> Self {
        Self::new()
    }
}

impl Cache {
    /// Reads the history. One that is lost, garbled or missing, is made again from the entries that are there; it says
    /// so by its [`state`](History::state), and a collection with it removes nothing.
    ///
    /// # Errors
    ///
    /// [`CacheError::Io`]; [`CacheError::Bookkeeping`] for a file of a newer program.
    pub fn history(&self, now: i64) -> Result<History, CacheError> {
        let (file, state) = read_book::<File>(&self.history_path())?;
        let mut history = History { state, ..History::new() };
        match file {
            Some(file) => (history.roots, history.expired) = (file.roots, file.expired),
            None => history.adopt(&self.listing()?, now),
        }
        if let BookState::Garbled { reason } = &history.state {
            let path = self.history_path();
            tracing::warn!(path = %path.display(), reason, "the history is lost, and made again from what is there");
        }
        Ok(history)
    }

    /// Writes the history. A garbled file is set aside first, under a name that begins with `.garbled-`.
    ///
    /// Only the holder of the root's lease may call it.
    ///
    /// # Errors
    ///
    /// [`CacheError::Commit`], [`CacheError::Value`].
    ///
    /// # Durability
    ///
    /// On return it survives a power loss.
    pub fn save_history(&self, history: &History) -> Result<(), CacheError> {
        self.ensure_writable()?;
        let file =
            File { expired: history.expired.clone(), roots: history.roots.clone(), version: BOOK_VERSION };
        write_book(&self.history_path(), &file, &history.state)
    }

    fn history_path(&self) -> PathBuf {
        self.root().join("history.json")
    }
}

/// Reads a file that keeps books. One of a newer program is an error: to set it aside would be to lose it.
pub(crate) fn read_book<T: DeserializeOwned>(path: &Path) -> Result<(Option<T>, BookState), CacheError> {
    let garbled = |reason: String| Ok((None, BookState::Garbled { reason }));
    let bytes = match read_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((None, BookState::Absent)),
        Err(error) if is_irregular(&error) => return garbled(error.to_string()),
        bytes => bytes.map_err(CacheError::io("read", path))?,
    };
    if bytes.is_empty() {
        return garbled("it is empty".to_owned());
    }
    let value: Value = match serde_json::from_slice(&bytes) {
        Ok(value) => value,
        Err(error) => return garbled(error.to_string()),
    };
    match value.get("version").and_then(Value::as_u64) {
        Some(version) if version > BOOK_VERSION => {
            let reason = format!(
                "has version {version}, and this program reads {BOOK_VERSION}; upgrade it to use this root"
            );
            return Err(CacheError::Bookkeeping { path: path.to_owned(), reason });
        }
        Some(BOOK_VERSION) => {}
        _ => return garbled("it says no version".to_owned()),
    }
    match T::deserialize(value) {
        Ok(book) => Ok((Some(book), BookState::Read)),
        Err(error) => garbled(error.to_string()),
    }
}

/// Writes a file that keeps books: sorted, indented, whole.
pub(crate) fn write_book<T: Serialize + DeserializeOwned>(
    path: &Path,
    book: &T,
    state: &BookState,
) -> Result<(), CacheError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let refused = |problem| CacheError::Value { what: format!("file `{name}`"), problem };
    let text = format!("{:#}\n", to_value(book).map_err(refused)?);
    // Looked at again: another process may have made it whole.
    if matches!(state, BookState::Garbled { .. })
        && matches!(read_book::<T>(path), Ok((_, BookState::Garbled { .. })))
    {
        let random = Uuid::new_v4().simple().to_string();
        let aside = path.with_file_name(format!(".garbled-{}-{name}", &random[..16]));
        rename(path, &aside)?;
        tracing::warn!(path = %path.display(), aside = %aside.display(), "set aside a garbled file");
    }
    Ok(write_file(path, text.as_bytes(), Durability::State)?)
}

#[cfg(test)]
mod tests;
