//! The deep check of checkpoints: every file against its manifest.

use std::io;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use waycairn_dag::Node;
use waycairn_durable::{Digest, open_file};
use waycairn_store::{ObjectReader, QueryError};

use crate::checkpoint::{Checkpoint, CheckpointError, FileEntry, MANIFEST};

/// The checkpoints of a root, found and not yet read.
#[derive(Debug, Default)]
pub struct Checkpoints {
    files: Vec<(PathBuf, FileEntry)>,
    faults: Vec<CheckpointFault>,
    manifests: u64,
}

/// One file of a checkpoint that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointFault {
    /// The file, from the root.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
}

impl Checkpoints {
    /// Finds every checkpoint of a root: what has a manifest, and what a record calls one though its manifest is gone. A
    /// folder that is neither was left by a process that died, and is none; parts may be copied without any.
    ///
    /// # Errors
    ///
    /// [`QueryError::Io`] for the folder that cannot be listed.
    pub fn find(root: &Path) -> Result<Self, QueryError> {
        let mut found = Self::default();
        let reader = ObjectReader::open_live(root)?.skipping_damaged();
        for node in reader.nodes_with_folders()? {
            let folder = reader.checkpoint_folder(&node);
            if folder.is_dir() {
                found.look(&reader, &folder, &node);
            }
        }
        Ok(found)
    }

    fn look(&mut self, reader: &ObjectReader, folder: &Path, node: &Node) {
        let listed = Checkpoint::listed(folder, node);
        let folder = folder.strip_prefix(reader.root()).unwrap_or(folder);
        let path = folder.join(MANIFEST);
        match listed {
            Ok(files) => {
                self.manifests += 1;
                self.files.extend(files.into_iter().map(|(name, entry)| (folder.join(name), entry)));
            }
            Err(CheckpointError::Missing { .. }) => {
                let marked = reader.query().node(node).checkpoint().count();
                if marked.is_ok_and(|marked| marked.value > 0) {
                    let what = "it is not there, and a record says that the checkpoint is whole".to_owned();
                    self.faults.push(CheckpointFault { path, what });
                }
            }
            Err(error) => self.faults.push(CheckpointFault { path, what: error.to_string() }),
        }
    }

    /// How many files there are.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.manifests + self.files.len() as u64
    }

    /// How many bytes their manifests say that they have.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, entry)| entry.bytes).sum()
    }

    /// Reads all of them, in parallel, and says what is wrong, sorted by path. `progress` is told, from several threads,
    /// how many files and bytes were read since it was told before.
    ///
    /// It changes nothing; a checkpoint that is withdrawn meanwhile is left out.
    #[must_use]
    pub fn check(mut self, root: &Path, progress: impl Fn(u64, u64) + Sync) -> Vec<CheckpointFault> {
        // The longest first, one at a time, so that the last thread does not begin with it.
        self.files.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.bytes));
        let check = |(path, entry): (PathBuf, FileEntry)| {
            let what = differs(&root.join(&path), entry, |bytes| progress(0, bytes));
            progress(1, 0);
            what.map(|what| CheckpointFault { path, what })
        };
        let found: Vec<CheckpointFault> =
            self.files.into_par_iter().with_max_len(1).filter_map(check).collect();
        self.faults.extend(found);
        self.faults.retain(|fault| fault.path.parent().is_some_and(|folder| root.join(folder).is_dir()));
        self.faults.sort_by(|one, other| one.path.cmp(&other.path));
        self.faults
    }
}

/// What of a file is not as its manifest says.
fn differs(path: &Path, entry: FileEntry, told: impl Fn(u64)) -> Option<String> {
    let read = || -> io::Result<Option<String>> {
        let found = open_file(path)?.metadata()?.len();
        if found != entry.bytes {
            return Ok(Some(format!("it has {found} bytes and should have {}", entry.bytes)));
        }
        let digest = Digest::of_file_told(path, told).map_err(|error| error.source)?;
        Ok((digest != entry.sha256).then(|| "its bytes have another digest".to_owned()))
    };
    read().unwrap_or_else(|error| Some(error.to_string()))
}
