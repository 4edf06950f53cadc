//! What can go wrong with files, folders, locks, maps and versions.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::{FormatVersion, Holder};

/// Says why a file or folder could not be changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The operating system refused one step.
    #[error("cannot {operation} `{}`{}", path.display(), advice(source))]
    Io {
        /// The step, as a verb with its object: `sync the file`.
        operation: &'static str,
        /// What it was done to.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// Something else stands where a folder is needed.
    #[error("`{}` is not a folder, and one is needed there; move it away or choose another place", path.display())]
    NotAFolder {
        /// The file in the way.
        path: PathBuf,
    },
    /// The path of a target ends in no name, as `/` and `..` do.
    #[error("`{}` ends in no name that a file or folder could have", path.display())]
    NoName {
        /// The path.
        path: PathBuf,
    },
    /// The file system cannot give a file a name only if nothing has that name.
    #[error("the file system of `{}` has no hard links; choose a place on another one", path.display())]
    NoHardLinks {
        /// The name that was wanted.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
}

impl CommitError {
    pub(crate) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { operation, path: path.to_owned(), source }
    }

    /// Names the file or folder that the error is about.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. }
            | Self::NotAFolder { path }
            | Self::NoName { path }
            | Self::NoHardLinks { path, .. } => path,
        }
    }

    /// Shows the answer of the operating system, where there is one, so that a caller can decide to try again.
    #[must_use]
    pub fn io_error(&self) -> Option<&io::Error> {
        match self {
            Self::Io { source, .. } | Self::NoHardLinks { source, .. } => Some(source),
            Self::NotAFolder { .. } | Self::NoName { .. } => None,
        }
    }
}

/// The next step after an answer of the operating system, where there is a plain one.
fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull => "; free some space on that disk",
        io::ErrorKind::QuotaExceeded => "; remove something, or ask for a larger quota",
        io::ErrorKind::PermissionDenied => "; allow writing there, or choose another place",
        io::ErrorKind::ReadOnlyFilesystem => "; its file system is read-only: choose another place",
        io::ErrorKind::NotFound => "; it is gone, or the folder that should hold it is",
        _ => "",
    }
}

/// Says that a file could not be read.
#[derive(Debug, Error)]
#[error("cannot read `{}`", path.display())]
pub struct ReadError {
    /// The file.
    pub path: PathBuf,
    /// The answer of the operating system.
    pub source: io::Error,
}

/// Says that a text is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{}` is not a SHA-256 digest: 64 hex digits are needed", text.escape_debug())]
pub struct DigestError {
    /// The text.
    pub text: String,
}

/// Says why a file could not be mapped.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MapError {
    /// The operating system refused.
    #[error("cannot {operation} `{}`", path.display())]
    Io {
        /// The step, as a verb.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// A folder, a pipe or a device.
    #[error("`{}` is not a regular file, and only those can be mapped", path.display())]
    NotAFile {
        /// What is there.
        path: PathBuf,
    },
}

/// Says why a lock was not taken.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LockError {
    /// Somebody else has it.
    #[error("{}", busy(path, holder.as_ref()))]
    Busy {
        /// The lock file.
        path: PathBuf,
        /// Who has it, as far as the lock file says.
        holder: Option<Holder>,
    },
    /// The file system has no locks, as some networked ones.
    #[error("the file system of `{}` has no locks; use a local disk, or make sure that one process works there", path.display())]
    Unsupported {
        /// The lock file.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// The lock file could not be opened.
    #[error("cannot {operation} `{}`{}", path.display(), advice(source))]
    Io {
        /// The step, as a verb with its object.
        operation: &'static str,
        /// The lock file.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
}

fn busy(path: &Path, holder: Option<&Holder>) -> String {
    match holder {
        Some(holder) => format!("`{}` is held by {holder}; wait for its end, or stop it", path.display()),
        None => format!("`{}` is held by another process; wait for its end, or stop it", path.display()),
    }
}

/// Says why a root cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VersionError {
    /// The root, or something on the way to it, is not a folder.
    #[error("`{}` is not a folder, and the root needs one there; choose another root", path.display())]
    RootIsAFile {
        /// The file in the way.
        path: PathBuf,
    },
    /// The root cannot be written.
    #[error(
        "cannot {operation} `{}`, so the root `{}` cannot be written; allow writing there, or choose another root",
        path.display(),
        root.display()
    )]
    Unwritable {
        /// The root.
        root: PathBuf,
        /// The step that failed, as a verb with its object.
        operation: &'static str,
        /// What it was done to.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// Names that differ in case alone would be one file.
    #[error(
        "the file system of `{}` does not tell upper case from lower case, so two names could mean one file; \
         choose a root on another one",
        root.display()
    )]
    CaseInsensitive {
        /// The root.
        root: PathBuf,
    },
    /// The root was made by a newer program.
    #[error(
        "`{}` says format {found}, and this program reads up to {supported}; upgrade it to use this root",
        path.display()
    )]
    Unreadable {
        /// The file that says the version.
        path: PathBuf,
        /// The version that it says.
        found: FormatVersion,
        /// The version of this program.
        supported: FormatVersion,
    },
    /// The root was written by a newer program and may be read only.
    #[error(
        "`{}` says format {found}, and this program writes {supported}: it may read this root and not write in it; \
         upgrade it",
        path.display()
    )]
    ReadOnly {
        /// The file that says the version.
        path: PathBuf,
        /// The version that it says.
        found: FormatVersion,
        /// The version of this program.
        supported: FormatVersion,
    },
    /// The file that should say the version does not.
    #[error(
        "`{}` holds `{}` where a line like `waycairn {}` is needed; restore it from a copy, or choose another root",
        path.display(),
        text.escape_debug(),
        FormatVersion::CURRENT
    )]
    Garbled {
        /// The file.
        path: PathBuf,
        /// How it begins.
        text: String,
    },
    /// The file that says the version could not be read.
    #[error("cannot {operation} `{}`", path.display())]
    Io {
        /// The step, as a verb with its object.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The answer of the operating system.
        source: io::Error,
    },
}
