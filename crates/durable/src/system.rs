//! The steps that change the disk, each behind its fault point. Nothing else in this crate calls the operating system
//! for a change.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;

use crate::CommitError;
use crate::fault::step;

/// Makes a new file; the mode is what the umask leaves of an ordinary one.
pub(crate) fn create_file(path: &Path) -> Result<File, CommitError> {
    let create = || OpenOptions::new().read(true).write(true).create_new(true).open(path);
    step("file.create", path).and_then(|()| create()).map_err(CommitError::io("create the file", path))
}

pub(crate) fn sync_file(file: &File, path: &Path) -> Result<(), CommitError> {
    let synced = step("file.sync", path).and_then(|()| file.sync_all());
    synced.map_err(CommitError::io("sync the file", path))
}

pub(crate) fn close(file: File, path: &Path) {
    // Closing says nothing, so there is nothing that could fail.
    let _ = step("file.close", path);
    drop(file);
}

/// Makes a folder; says whether it is new.
pub(crate) fn create_folder(path: &Path) -> Result<bool, CommitError> {
    match step("folder.create", path).and_then(|()| fs::create_dir(path)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(CommitError::NotAFolder { path: path.to_owned() })
        }
        Err(error) => Err(CommitError::io("create the folder", path)(error)),
    }
}

/// Makes the names in a folder survive a power loss.
///
/// Some file systems cannot sync a folder and say so; there the names are as durable as they get.
pub(crate) fn sync_folder(path: &Path) -> Result<(), CommitError> {
    static TOLD: Once = Once::new();
    step("folder.sync", path).map_err(CommitError::io("sync the folder", path))?;
    if !cfg!(unix) {
        return Ok(());
    }
    let folder = File::open(path).map_err(CommitError::io("open the folder", path))?;
    match folder.sync_all() {
        Err(error) if folder_sync_is_missing(&error) => {
            TOLD.call_once(
                || tracing::warn!(folder = %path.display(), %error, "this file system cannot sync a folder"),
            );
            Ok(())
        }
        result => result.map_err(CommitError::io("sync the folder", path)),
    }
}

/// The answers to a sync of an open folder that mean that there is no such thing. The folder is open, so "not found"
/// cannot be about the folder.
fn folder_sync_is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported | io::ErrorKind::NotFound)
}

/// Renames without a sync, and hands the answer of the operating system on: the caller knows which ones are a race.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    step("rename", to)?;
    #[expect(clippy::disallowed_methods, reason = "the one door to it")]
    fs::rename(from, to)
}

/// Gives a file a second name, only if nothing has that name.
pub(crate) fn link(from: &Path, to: &Path) -> io::Result<()> {
    step("link", to)?;
    fs::hard_link(from, to)
}

/// Removes a file; an absent one is fine.
pub(crate) fn remove_file(path: &Path) -> Result<(), CommitError> {
    let removed = step("remove", path).and_then(|()| fs::remove_file(path));
    absent_is_fine(removed).map_err(CommitError::io("remove the file", path))
}

/// Removes a folder with all that is in it; an absent one is fine.
pub(crate) fn remove_tree(path: &Path) -> Result<(), CommitError> {
    let removed = step("remove", path).and_then(|()| fs::remove_dir_all(path));
    absent_is_fine(removed).map_err(CommitError::io("remove the folder", path))
}

pub(crate) fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// The folder that holds a path.
pub(crate) fn parent(path: &Path) -> Result<&Path, CommitError> {
    match (path.file_name(), path.parent()) {
        (Some(_), Some(parent)) if parent.as_os_str().is_empty() => Ok(Path::new(".")),
        (Some(_), Some(parent)) => Ok(parent),
        _ => Err(CommitError::NoName { path: path.to_owned() }),
    }
}

/// Syncs all files and folders in a folder, and the folder itself. Symbolic links are not followed: what they lead to
/// is somebody else's.
pub(crate) fn sync_tree(root: &Path) -> Result<(), CommitError> {
    let mut folders: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(CommitError::io("list the folder", &folder))? {
            let entry = entry.map_err(CommitError::io("list the folder", &folder))?;
            let path = entry.path();
            let kind = entry.file_type().map_err(CommitError::io("look at", &path))?;
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                let file = File::open(&path).map_err(CommitError::io("open the file", &path))?;
                sync_file(&file, &path)?;
            }
        }
        sync_folder(&folder)?;
    }
    Ok(())
}
