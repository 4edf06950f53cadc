//! Folders made, names changed, and names taken away.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{CommitError, system, temporary};

/// Makes a folder and the missing ones above it. One that exists is fine.
///
/// # Errors
///
/// [`CommitError::NotAFolder`] names the file that is in the way; [`CommitError::Io`] the folder that could not be
/// made.
///
/// # Durability
///
/// The folder above each new one is synced, so the new names survive a power loss. A folder that existed is taken as
/// durable.
pub fn create_dir_all(path: &Path) -> Result<(), CommitError> {
    let mut missing = Vec::new();
    let mut at = path;
    loop {
        match fs::metadata(at) {
            Ok(metadata) if metadata.is_dir() => break,
            Ok(_) => return Err(CommitError::NotAFolder { path: at.to_owned() }),
            // "Not a folder" is about something above: it is found on the way up.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                missing.push(at);
                match at.parent() {
                    Some(parent) if parent.as_os_str().is_empty() => break,
                    Some(parent) => at = parent,
                    None => break,
                }
            }
            Err(error) => return Err(CommitError::io("look at", at)(error)),
        }
    }
    for folder in missing.into_iter().rev().filter(|folder| !folder.as_os_str().is_empty()) {
        // Another process may have made it just now, and may not have synced it yet: sync in both cases.
        system::create_folder(folder)?;
        if let Ok(parent) = system::parent(folder) {
            system::sync_folder(parent)?;
        }
    }
    Ok(())
}

/// Changes the name of a file or folder. A file that has the new name is replaced, and so is an empty folder.
///
/// # Errors
///
/// [`CommitError::Io`] names the old path when the name could not be changed, else the folder that could not be
/// synced.
///
/// # Durability
///
/// The new name is synced before the old one is, so a power loss leaves one of the two, or both for a moment.
pub fn rename(from: &Path, to: &Path) -> Result<(), CommitError> {
    let (source, target) = (system::parent(from)?, system::parent(to)?);
    system::rename(from, to).map_err(CommitError::io("rename", from))?;
    system::sync_folder(target)?;
    if source == target { Ok(()) } else { system::sync_folder(source) }
}

/// Removes a file. An absent one is fine.
///
/// # Errors
///
/// [`CommitError::Io`] names the file.
///
/// # Durability
///
/// A power loss may bring the file back, whole.
pub fn remove_file(path: &Path) -> Result<(), CommitError> {
    system::remove_file(path)
}

/// Removes a folder with all that is in it. An absent one is fine.
///
/// The folder first gets a temporary name, and that is synced: whenever this ends half-way, what is left has no name
/// that a reader looks at.
///
/// # Errors
///
/// [`CommitError::NotAFolder`] for a file or a symbolic link, which stays; [`CommitError::Io`] names what could not be
/// removed.
pub fn remove_dir_all(path: &Path) -> Result<(), CommitError> {
    match set_aside(path) {
        Ok(None) => Ok(()),
        Ok(Some(aside)) => {
            sync_folder(system::parent(path)?)?;
            delete_aside(&aside)
        }
        // Layered file systems cannot rename a folder of a lower layer; nor can one a mount point.
        Err(CommitError::Io { source, .. })
            if matches!(source.kind(), io::ErrorKind::CrossesDevices | io::ErrorKind::ResourceBusy) =>
        {
            system::remove_tree(path)
        }
        Err(error) => Err(error),
    }
}

/// Gives a folder a temporary name beside its own, so that readers ignore it, and returns that; none for an absent
/// folder. It is the first half of the removal of many folders: set all aside, sync the folder above once with
/// [`sync_folder`], and [`delete_aside`] each.
///
/// # Errors
///
/// As [`remove_dir_all`].
///
/// # Durability
///
/// None before the folder above is synced: a power loss may bring the name back. Delete nothing before that.
pub fn set_aside(path: &Path) -> Result<Option<PathBuf>, CommitError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Err(CommitError::NotAFolder { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(CommitError::io("look at", path)(error)),
    }
    let aside = temporary::beside(path)?;
    match system::rename(path, &aside) {
        Ok(()) => Ok(Some(aside)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CommitError::io("rename", path)(error)),
    }
}

/// Deletes a folder or file that has a temporary name, with all that is in it. An absent one is fine.
///
/// # Errors
///
/// [`CommitError::Io`] names what could not be removed, and [`CommitError::NoName`] a path whose name is not a
/// temporary one: it stays.
pub fn delete_aside(path: &Path) -> Result<(), CommitError> {
    if !path.file_name().is_some_and(temporary::is_temporary) {
        return Err(CommitError::NoName { path: path.to_owned() });
    }
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => system::remove_tree(path),
        _ => system::remove_file(path),
    }
}

/// Makes the names in a folder survive a power loss.
///
/// # Errors
///
/// [`CommitError::Io`] names the folder.
pub fn sync_folder(path: &Path) -> Result<(), CommitError> {
    system::sync_folder(path)
}

#[cfg(test)]
mod tests;
