//! What can go wrong with artifacts.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thiserror::Error;
use waycairn_durable::{CommitError, Digest, LockError, MapError, VersionError};

use crate::{EntryName, Key, ValueError};

/// Says why the cache could not do what was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The root cannot be used, or is of another format.
    #[error(transparent)]
    Format(#[from] VersionError),
    /// A file or folder could not be changed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A lock could not be taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A file could not be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
    /// Another operation on a file or folder failed.
    #[error("cannot {operation} `{}`", path.display())]
    Io {
        /// The step, as a verb.
        operation: &'static str,
        /// What it was done to.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// A recipe, metadata or a JSON member holds what has no canonical text.
    #[error("the {what} cannot be written: {problem}")]
    Value {
        /// What it is: a recipe, the metadata, the member and its name.
        what: String,
        /// Where in it, and why.
        problem: ValueError,
    },
    /// A name cannot stand in a root.
    #[error("the {what} `{}` {reason}", name.escape_debug())]
    Name {
        /// What it names: a product, a file, an entry.
        what: &'static str,
        /// The name.
        name: String,
        /// What is wrong with it, and what is allowed.
        reason: String,
    },
    /// The bytes of an entry contradict its manifest. It is never built again in silence.
    #[error(
        "the entry `{entry}` is damaged: its file `{file}` {damage}; set it aside with `waycairn verify --quarantine`, \
         and it is built again"
    )]
    Damaged {
        /// The entry.
        entry: EntryName,
        /// The key that was asked for, or the folder's where none was.
        key: String,
        /// The file in the entry.
        file: String,
        /// What is wrong with it.
        damage: Box<Damage>,
    },
    /// The entry was written by a newer program.
    #[error(
        "the entry `{entry}` has schema {found}, and this program reads {supported}; upgrade it, or use another root"
    )]
    Newer {
        /// The entry.
        entry: EntryName,
        /// The schema of its manifest.
        found: u64,
        /// The schema of this program.
        supported: u64,
    },
    /// The entry is not there, or not any more.
    #[error("the entry `{entry}` is not there; it was never built, or removed meanwhile: ask for it again")]
    Gone {
        /// The entry.
        entry: EntryName,
    },
    /// The artifact has no such member.
    #[error("the artifact `{entry}` has no member `{name}`; it has {}", listed(members))]
    NoMember {
        /// The entry.
        entry: EntryName,
        /// What was asked for.
        name: String,
        /// What it has.
        members: Vec<String>,
    },
    /// An array has another element type than was asked for.
    #[error("the array `{name}` of `{entry}` holds {found}, and {wanted} was asked for")]
    WrongType {
        /// The entry.
        entry: EntryName,
        /// The array.
        name: String,
        /// The type of its elements.
        found: String,
        /// The type that was asked for.
        wanted: &'static str,
    },
    /// A JSON member or the settings of a recipe are not what the caller reads them as.
    #[error("the {what} of `{entry}` cannot be read as what was asked for")]
    Decode {
        /// What it is.
        what: String,
        /// The entry.
        entry: EntryName,
        /// Where and why.
        source: serde_json::Error,
    },
    /// An array, or a row of one, would have more bytes than can be addressed; or a row has none.
    #[error(
        "the array `{name}` cannot have the shape {shape:?}: it has more bytes than can be addressed, or its rows have none"
    )]
    TooLarge {
        /// The array.
        name: String,
        /// The shape that was asked for.
        shape: Vec<usize>,
    },
    /// A builder named something twice.
    #[error("the builder of `{entry}` made `{name}` twice; every member has one name")]
    Twice {
        /// The entry.
        entry: EntryName,
        /// The name.
        name: String,
    },
    /// A builder came to its end, and what it made is not whole. Nothing was kept.
    #[error("the builder of `{entry}` ended before it was done: {reason}")]
    Unfinished {
        /// The entry.
        entry: EntryName,
        /// What is missing.
        reason: String,
    },
    /// A builder asked for the artifact that it is building.
    #[error("the builder of `{entry}` asked for `{entry}` itself, and would wait for ever")]
    Reentrant {
        /// The entry.
        entry: EntryName,
    },
    /// A builder asked for a dependency that its recipe does not name.
    #[error("the recipe of `{entry}` names no dependency `{name}`; it names {}", listed(dependencies))]
    NoDependency {
        /// The entry.
        entry: EntryName,
        /// What was asked for.
        name: String,
        /// What the recipe names.
        dependencies: Vec<String>,
    },
    /// `history.json` or `pins.json` does not say what it should.
    #[error("`{}` {reason}", path.display())]
    Bookkeeping {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
}

impl CacheError {
    pub(crate) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { operation, path: path.to_owned(), source }
    }

    pub(crate) fn damaged(entry: &EntryName, key: Option<&Key>, file: &str, damage: Damage) -> Self {
        let key = key.map_or_else(|| entry.folder(), ToString::to_string);
        Self::Damaged { entry: entry.clone(), key, file: file.to_owned(), damage: Box::new(damage) }
    }
}

/// Says what is wrong with an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Error)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[non_exhaustive]
pub enum Damage {
    /// The manifest is empty, cut off, or does not say what a manifest says.
    #[error("is no manifest: {reason}")]
    Manifest {
        /// Where and why.
        reason: String,
    },
    /// The file is not there.
    #[error("is missing")]
    Missing,
    /// Something else than a file has its name.
    #[error("is not a file")]
    NotAFile,
    /// The file is longer or shorter than it was.
    #[error("has {found} bytes where the manifest says {expected}")]
    Size {
        /// What the manifest says.
        expected: u64,
        /// What is there.
        found: u64,
    },
    /// A byte of the file changed.
    #[error("has the SHA-256 {found} where the manifest says {expected}")]
    Digest {
        /// What the manifest says.
        expected: Digest,
        /// What is there.
        found: Digest,
    },
    /// The header of an array contradicts the manifest, or is no header of a plain array.
    #[error("is not the array of the manifest: {reason}")]
    Array {
        /// What does not agree.
        reason: String,
    },
    /// A file is there that the manifest does not name.
    #[error("is not in the manifest")]
    Unlisted,
    /// The recipe in the manifest has another key, so the manifest was changed or is another entry's.
    #[error("has the key {found} by its recipe where it is kept as {expected}")]
    Key {
        /// The key in the manifest, or the half of it that names the folder.
        expected: String,
        /// The key that its recipe gives.
        found: String,
    },
    /// An entry that this one was built from is not there.
    #[error("needs `{name}` with the key {key}, which is not there")]
    Dependency {
        /// What the recipe calls it.
        name: String,
        /// Its key.
        key: Key,
    },
    /// The file could not be read.
    #[error("cannot be read: {reason}")]
    Unreadable {
        /// The answer of the operating system.
        reason: String,
    },
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
