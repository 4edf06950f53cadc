//! Pins: what is kept by the user's word.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use waycairn_durable::{FileLock, LockError, time};

use crate::cache::Cache;
use crate::history::{BOOK_VERSION, BookState, read_book, write_book};
use crate::layout::locks_folder;
use crate::{Artifact, CacheError, EntryName};

/// How long a change of the pins waits for another one.
const WAIT: Duration = Duration::from_secs(30);

/// Is what the user wants to keep, whatever the history says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pins {
    pins: BTreeMap<EntryName, Pin>,
    state: BookState,
}

/// Is why an entry is kept, and what it needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// The entries that it was built from, and those that they were built from. They are kept with it.
    pub dependencies: BTreeSet<EntryName>,
    /// Why, in the user's words.
    pub reason: String,
    /// Since when: RFC 3339, UTC.
    pub time: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    pins: BTreeMap<EntryName, Pin>,
    version: u64,
}

impl Pins {
    /// Begins without a pin.
    #[must_use]
    pub fn new() -> Self {
        Self { pins: BTreeMap::new(), state: BookState::Absent }
    }

    /// Shows the pins by entry.
    #[must_use]
    pub fn pins(&self) -> &BTreeMap<EntryName, Pin> {
        &self.pins
    }

    /// Says why a collection cannot know what is pinned, if so.
    #[must_use]
    pub fn doubt(&self) -> Option<String> {
        match &self.state {
            BookState::Garbled { reason } => Some(format!(
                "`pins.json` is garbled: {reason}; restore it from a copy, or remove it to go on without pins"
            )),
            BookState::Read | BookState::Absent => None,
        }
    }

    /// All entries that are kept by pins.
    pub fn kept(&self) -> impl Iterator<Item = &EntryName> {
        self.pins.iter().flat_map(|(entry, pin)| std::iter::once(entry).chain(&pin.dependencies))
    }

    /// Adds a pin.
    pub fn insert(&mut self, entry: EntryName, pin: Pin) {
        self.pins.insert(entry, pin);
    }
}

impl Default for Pins {
    fn default() -> Self {
        Self::new()
    }
}

impl Cache {
    /// Reads the pins. A garbled file has none, says so by [`Pins::doubt`], and is left for the user: nobody else
    /// knows what was pinned.
    ///
    /// # Errors
    ///
    /// [`CacheError::Io`], and [`CacheError::Bookkeeping`] for a file of a newer program.
    pub fn pins(&self) -> Result<Pins, CacheError> {
        let (file, state) = read_book::<File>(&self.pins_path())?;
        Ok(Pins { pins: file.map(|file| file.pins).unwrap_or_default(), state })
    }

    /// Keeps an entry, with all that it was built from, until it is unpinned. Pinning it again changes the reason.
    ///
    /// # Errors
    ///
    /// [`CacheError::Gone`] when there is no such entry; [`CacheError::Bookkeeping`] while the file is garbled.
    ///
    /// # Durability
    ///
    /// On return it survives a power loss.
    pub fn pin(&self, entry: &EntryName, reason: &str, now: i64) -> Result<(), CacheError> {
        let dependencies = self.dependencies(self.artifact(entry)?);
        let pin = Pin { dependencies, reason: reason.to_owned(), time: time::rfc3339_micros(now) };
        self.change_pins(|pins| pins.insert(entry.clone(), pin)).map(|_| ())
    }

    /// Keeps an entry no longer; says whether it was pinned.
    ///
    /// # Errors
    ///
    /// As [`pin`](Self::pin), but for an entry that is not there.
    pub fn unpin(&self, entry: &EntryName) -> Result<bool, CacheError> {
        Ok(self.change_pins(|pins| pins.remove(entry))?.is_some())
    }

    fn change_pins<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<EntryName, Pin>) -> T,
    ) -> Result<T, CacheError> {
        self.ensure_writable()?;
        let lock = locks_folder(self.root()).join("pins.lock");
        let _lock = match FileLock::acquire(&lock, WAIT, |_| {}) {
            Err(error @ LockError::Unsupported { .. }) => {
                tracing::warn!(%error, "changing the pins without a lock");
                None
            }
            lock => Some(lock?),
        };
        let mut pins = self.pins()?;
        if let Some(doubt) = pins.doubt() {
            let reason = format!("cannot be changed, {}", doubt.trim_start_matches("`pins.json` is "));
            return Err(CacheError::Bookkeeping { path: self.pins_path(), reason });
        }
        let changed = change(&mut pins.pins);
        write_book(&self.pins_path(), &File { pins: pins.pins, version: BOOK_VERSION }, &pins.state)?;
        Ok(changed)
    }

    /// All entries that an artifact was built from, near and far, as far as they are there.
    fn dependencies(&self, artifact: Artifact) -> BTreeSet<EntryName> {
        let (mut found, mut open) = (BTreeSet::new(), vec![artifact]);
        while let Some(artifact) = open.pop() {
            for (name, key) in &artifact.recipe().dependencies {
                match self.artifact_of_key(name, key) {
                    Ok(dependency) => {
                        if found.insert(dependency.entry().clone()) {
                            open.push(dependency);
                        }
                    }
                    Err(error) => tracing::warn!(%error, "a pinned entry lacks what it was built from"),
                }
            }
        }
        found
    }

    fn pins_path(&self) -> PathBuf {
        self.root().join("pins.json")
    }
}
