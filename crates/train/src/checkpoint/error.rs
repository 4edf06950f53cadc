//! A checkpoint that cannot be written or read.

use std::path::{Path, PathBuf};

use waycairn_durable::Digest;

/// Why a checkpoint cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// A file is not there.
    #[error("the checkpoint file `{}` is missing", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A file is longer or shorter than the manifest says.
    #[error("the checkpoint file `{}` has {found} bytes, and its manifest says {expected}", path.display())]
    Size {
        /// The file.
        path: PathBuf,
        /// Bytes in the manifest.
        expected: u64,
        /// Bytes in the file.
        found: u64,
    },
    /// A file's bytes are not those that were written.
    #[error("the checkpoint file `{}` is damaged: its SHA-256 is {}, and its manifest says {}", path.display(), found.short(), expected.short())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The digest in the manifest.
        expected: Digest,
        /// The digest of the file.
        found: Digest,
    },
    /// A file does not say what its name promises.
    #[error("the checkpoint file `{}` cannot be understood: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A file was written by a newer version.
    #[error("the checkpoint file `{}` has version {found}, and this program reads {supported}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that can be read.
        supported: u32,
    },
    /// The system refused.
    #[error("cannot {operation} `{}`", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The weights do not fit the model.
    #[error("the checkpoint in `{}` does not fit the model: {what}", path.display())]
    Mismatch {
        /// The checkpoint's folder.
        path: PathBuf,
        /// What does not fit, by name.
        what: String,
        /// Settings of the model that are not those of the checkpoint, as `path = value` of the checkpoint.
        saved: Vec<String>,
    },
    /// The optimizer's state does not fit.
    #[error("the optimizer state in `{}` cannot be used", path.display())]
    Optimizer {
        /// The checkpoint's folder.
        path: PathBuf,
        /// Why.
        source: crate::moments::MomentsError,
    },
    /// A weight has a number format that checkpoints do not hold.
    #[error("the tensor `{name}` has a number format that checkpoints do not hold")]
    Format {
        /// The tensor.
        name: String,
    },
}

impl CheckpointError {
    pub(super) fn io(operation: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io { operation, path: path.to_owned(), source }
    }

    pub(super) fn malformed(path: &Path, what: impl ToString) -> Self {
        Self::Malformed { path: path.to_owned(), what: what.to_string() }
    }

    /// Whether the bytes on disk are not those that were written.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Missing { .. } | Self::Size { .. } | Self::Corrupt { .. } | Self::Malformed { .. }
        )
    }
}
