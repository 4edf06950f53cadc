//! Temporary names: how they look, who removes them.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use crate::{CommitError, system};

/// What every temporary name begins with.
const PREFIX: &str = ".tmp-";

/// Says whether a name is a temporary one, which readers ignore.
///
/// ```
/// # use std::ffi::OsStr;
/// assert!(waycairn_durable::is_temporary(OsStr::new(".tmp-4711-8f14e45fceea167a")));
/// assert!(!waycairn_durable::is_temporary(OsStr::new("part-1.parquet")));
/// ```
#[must_use]
pub fn is_temporary(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

/// A new temporary name beside `target`: `.tmp-<pid>-<random>`.
pub(crate) fn beside(target: &Path) -> Result<PathBuf, CommitError> {
    Ok(system::parent(target)?.join(format!("{PREFIX}{}-{}", std::process::id(), Uuid::new_v4().simple())))
}

/// A temporary file or folder, removed when it is dropped before it was kept.
#[derive(Debug)]
pub(crate) struct Temporary {
    path: PathBuf,
    kind: Kind,
    kept: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
}

impl Temporary {
    pub(crate) fn new(path: PathBuf, kind: Kind) -> Self {
        Self { path, kind, kept: false }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// It has another name now.
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = remove(&self.path, self.kind)
        {
            // It stays under a name that readers ignore, until it is reaped.
            tracing::debug!(path = %self.path.display(), %error, "a temporary name stays");
        }
    }
}

fn remove(path: &Path, kind: Kind) -> Result<(), CommitError> {
    match kind {
        Kind::File => system::remove_file(path),
        Kind::Folder => system::remove_tree(path),
    }
}

/// Removes the temporary files and folders in `folder` that nobody has touched for `older_than`, and returns their
/// paths, sorted.
///
/// They are what dead processes left. A temporary folder is as young as the youngest file or folder in it. An absent
/// `folder` has none. Give a time that no commit takes: a temporary file of a live process that is removed costs that
/// process its commit.
///
/// # Errors
///
/// [`CommitError::Io`] when the folder cannot be listed, or for the first one that cannot be removed; the others are
/// removed nevertheless.
pub fn reap(folder: &Path, older_than: Duration, now: SystemTime) -> Result<Vec<PathBuf>, CommitError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(CommitError::io("list the folder", folder))?,
    };
    let (mut reaped, mut first_error) = (Vec::new(), None);
    for entry in entries {
        let entry = entry.map_err(CommitError::io("list the folder", folder))?;
        if !is_temporary(&entry.file_name()) {
            continue;
        }
        let path = entry.path();
        match reap_one(&path, older_than, now) {
            Ok(true) => reaped.push(path),
            Ok(false) => {}
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    reaped.sort_unstable();
    first_error.map_or(Ok(reaped), Err)
}

fn reap_one(path: &Path, older_than: Duration, now: SystemTime) -> Result<bool, CommitError> {
    // Its owner may finish or remove it at any moment; then it is not ours to reap.
    let Some((kind, modified)) = absent(youngest(path)).map_err(CommitError::io("look at", path))? else {
        return Ok(false);
    };
    // A time in the future is that of another clock, so the file is young.
    let age = now.duration_since(modified).unwrap_or_default();
    if age < older_than {
        return Ok(false);
    }
    remove(path, kind)?;
    Ok(true)
}

/// The time of the last change anywhere below a path.
fn youngest(path: &Path) -> io::Result<(Kind, SystemTime)> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_dir() {
        return Ok((Kind::File, metadata.modified()?));
    }
    let (mut youngest, mut folders) = (metadata.modified()?, vec![path.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let Some(metadata) = absent(entry.metadata())? else { continue };
            youngest = youngest.max(metadata.modified()?);
            if Metadata::is_dir(&metadata) {
                folders.push(entry.path());
            }
        }
    }
    Ok((Kind::Folder, youngest))
}

fn absent<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
