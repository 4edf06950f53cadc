//! `manifest.json`: the list that makes a checkpoint whole.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use waycairn_durable::Digest;

/// The version that this program writes and the newest that it reads.
pub(crate) const VERSION: u32 = 1;

/// Size and digest of each file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    /// [`VERSION`].
    pub(crate) version: u32,
    /// Address of the node that the checkpoint belongs to.
    pub(crate) node: String,
    /// The files by name.
    pub(crate) files: BTreeMap<String, FileEntry>,
}

/// One file of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileEntry {
    /// Its length.
    pub(crate) bytes: u64,
    /// Its SHA-256.
    pub(crate) sha256: Digest,
}
