//! A node's blob folder: entries are staged under hidden names, become visible by one rename each, and count
//! when a marker record says so.
//!
//! The states that a crash can leave:
//!
//! | it ended | then |
//! | --- | --- |
//! | while an entry was staged | a hidden `.tmp-*` name, which readers ignore and which is reaped by age |
//! | after the rename, before the marker was durable | an entry that no record announces: it does not count |
//! | afterwards | the entry counts |
//! | while it was withdrawn, after its marker was taken back | an entry, or a hidden name, that does not count |

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use waycairn_dag::{Address, Node};
use waycairn_durable::{self as durable, CommitError, Committed, Durability, StagedDir, fault};

use crate::error::StoreError;
use crate::field::Scalar;
use crate::part::values_folder;
use crate::queue::{Origin, Queue};
use crate::row::{Marks, check_fields};

/// The file that says in clear which node a blob folder belongs to.
pub(crate) const NODESPEC: &str = "nodespec.json";

/// The entry that holds the training state.
pub(crate) const CHECKPOINT_ENTRY: &str = "checkpoint";

/// What the name of an artifact's payload ends in.
pub(crate) const PAYLOAD_SUFFIX: &str = ".msgpack";

/// Longest name of an entry, in bytes: a file name may have 255, and suffixes are added.
const MAX_ENTRY_NAME_BYTES: usize = 200;

/// Where a path really leads, if that is out of the root; readers refuse such a path, so writers do. `None` where
/// it stays inside, and where there is nothing.
///
/// # Errors
/// The path and the answer of the operating system.
pub(crate) fn leads_out(root: &Path, path: &Path) -> Result<Option<PathBuf>, (PathBuf, io::Error)> {
    let real = |path: &Path| match path.canonicalize() {
        Ok(real) => Ok(Some(real)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err((path.to_owned(), source)),
    };
    let (Some(root), Some(target)) = (real(root)?, real(path)?) else { return Ok(None) };
    Ok((!target.starts_with(&root)).then_some(target))
}

/// Refuses to write below folders of the root that lead out of it.
///
/// # Errors
/// [`StoreError::Outside`], [`StoreError::Io`].
pub(crate) fn check_inside(root: &Path) -> Result<(), StoreError> {
    let folders = [root.join("objects"), blobs_folder(root), values_folder(root)];
    folders.iter().try_for_each(|path| check_folder(root, path))
}

/// Refuses to write below one folder, which need not exist, if it leads out of the root.
fn check_folder(root: &Path, path: &Path) -> Result<(), StoreError> {
    let target = match leads_out(root, path) {
        Ok(Some(target)) => target,
        // A link to nothing: what it leads to cannot be known to stay inside.
        Ok(None) if path.is_symlink() && !path.exists() => fs::read_link(path).unwrap_or_default(),
        Ok(None) => return Ok(()),
        Err((path, source)) => return Err(StoreError::Io { operation: "find", path, source }),
    };
    Err(StoreError::Outside { path: path.to_owned(), target })
}

/// Every node that has a folder among the blobs, in no order; folders of other names are passed over.
pub(crate) fn nodes_in(blobs: &Path) -> io::Result<Vec<Node>> {
    let mut nodes = Vec::new();
    for entry in fs::read_dir(blobs)? {
        let name = entry?.file_name();
        let address = name.to_str().and_then(|name| name.parse::<Address>().ok());
        nodes.extend(address.map(|address| address.decode()));
    }
    Ok(nodes)
}

/// The folder of the blobs under an output root.
pub(crate) fn blobs_folder(root: &Path) -> PathBuf {
    root.join("objects").join("blobs")
}

/// What the marker of an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Marker {
    /// The entry is a complete checkpoint.
    Checkpoint,
}

/// The blob folders of a root.
#[derive(Debug)]
pub(crate) struct Blobs {
    folder: PathBuf,
    process: i64,
    /// Held while a node's folder is made and something is staged in it, and while an empty one is removed,
    /// so that the one does not take the ground from under the other. Under it no other lock is taken.
    folders: Mutex<()>,
}

impl Blobs {
    pub(crate) fn new(folder: PathBuf, process: i64) -> Blobs {
        Blobs { folder, process, folders: Mutex::new(()) }
    }

    /// The folder of a node; it need not exist.
    pub(crate) fn node_folder(&self, node: &Node) -> PathBuf {
        self.folder.join(node.address().as_str())
    }

    /// Every node that has a folder, in no order; folders of other names are passed over.
    pub(crate) fn nodes(&self) -> Result<Vec<Node>, StoreError> {
        let failed = |source| StoreError::Io { operation: "list", path: self.folder.clone(), source };
        nodes_in(&self.folder).map_err(failed)
    }

    /// The node's folder, to be changed.
    ///
    /// # Errors
    /// [`StoreError::Outside`] when it leads out of the root: readers would refuse what is written there, and what
    /// is removed there is somebody else's.
    pub(crate) fn own_folder(&self, node: &Node) -> Result<PathBuf, StoreError> {
        let folder = self.node_folder(node);
        // `objects/blobs` lies two folders below the root.
        let root = self.folder.ancestors().nth(2).unwrap_or(&self.folder);
        let root = if root.as_os_str().is_empty() { Path::new(".") } else { root };
        check_folder(root, &folder)?;
        Ok(folder)
    }

    /// Makes the node's folder and stages something in it.
    ///
    /// # Errors
    /// [`StoreError::Outside`], [`StoreError::Io`], [`StoreError::Commit`].
    pub(crate) fn stage<T>(
        &self,
        node: &Node,
        stage: impl FnOnce(&Path) -> Result<T, CommitError>,
    ) -> Result<T, StoreError> {
        let _folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = self.own_folder(node)?;
        durable::create_dir_all(&folder)?;
        Ok(stage(&folder).inspect_err(|_| remove_if_empty(&folder))?)
    }

    /// Removes the node's folder if nothing is in it: what was staged was given up.
    pub(crate) fn tidy(&self, node: &Node) {
        let _folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        remove_if_empty(&self.node_folder(node));
    }

    /// Removes folders that a process was filling when it died. Only entries are staged as folders, so the
    /// payloads that another process may be writing here, which are files, stay.
    pub(crate) fn remove_half_staged(&self, node: &Node) -> Result<(), StoreError> {
        let folder = self.own_folder(node)?;
        let failed = |source| StoreError::Io { operation: "list", path: folder.clone(), source };
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            if durable::is_temporary(&entry.file_name()) && entry.path().is_dir() {
                durable::remove_dir_all(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Writes `nodespec.json` unless it is there. Process 0 does it alone: the others would write the same.
    pub(crate) fn describe(&self, node: &Node) -> Result<(), StoreError> {
        let path = self.node_folder(node).join(NODESPEC);
        if self.process != 0 || path.exists() {
            return Ok(());
        }
        let spec = serde_json::to_string_pretty(node).map_err(|error| StoreError::Io {
            operation: "encode",
            path: path.clone(),
            source: error.into(),
        })?;
        durable::write_file(&path, format!("{spec}\n").as_bytes(), Durability::State)?;
        Ok(())
    }
}

/// Fails on a folder with something in it, which is what is wanted.
fn remove_if_empty(folder: &Path) {
    let _ = fs::remove_dir(folder);
}

/// An entry in the making: a folder that nobody sees until [`StagedEntry::commit`].
///
/// Dropped without a commit, nothing of it remains.
#[derive(Debug)]
#[must_use = "nothing is kept until it is committed"]
pub struct StagedEntry {
    staged: Option<StagedDir>,
    path: PathBuf,
    target: PathBuf,
    node: Node,
    blobs: Arc<Blobs>,
    queue: Arc<Queue>,
}

impl StagedEntry {
    /// Stages the folder `entry` of a node.
    pub(crate) fn new(
        node: &Node,
        entry: &str,
        blobs: &Arc<Blobs>,
        queue: &Arc<Queue>,
    ) -> Result<StagedEntry, StoreError> {
        check_name("entry", entry)?;
        queue.check_open()?;
        let target = blobs.node_folder(node).join(entry);
        let staged = blobs.stage(node, |_| StagedDir::create(&target, Durability::State))?;
        Ok(StagedEntry {
            path: staged.path().to_owned(),
            staged: Some(staged),
            target,
            node: node.clone(),
            blobs: Arc::clone(blobs),
            queue: Arc::clone(queue),
        })
    }

    /// The folder to fill, under its hidden name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the entry durable and visible, and then queues its marker with further fields of the node.
    ///
    /// # Errors
    /// [`StoreError::EntryExists`] when the node has an entry of that name: it is never replaced.
    /// [`StoreError::Record`] for a field that cannot be recorded; nothing was committed then. Any other
    /// error may leave an entry without a marker, which does not count;
    /// [`ObjectStore::remove_unmarked_checkpoint`](crate::ObjectStore::remove_unmarked_checkpoint) removes it.
    ///
    /// # Durability
    /// On return the bytes survive a loss of power. The marker follows with the next batch; after
    /// [`ObjectStore::flush`](crate::ObjectStore::flush) it does so too.
    pub fn commit(mut self, marker: Marker, fields: &[(&str, Scalar)]) -> Result<(), StoreError> {
        check_fields(fields)?;
        self.queue.check_open()?;
        let Some(staged) = self.staged.take() else { return Ok(()) };
        if self.target.exists() {
            return Err(StoreError::EntryExists { path: self.target.clone() });
        }
        self.blobs.describe(&self.node)?;
        fault::point("store.blob.commit");
        if staged.commit()? == Committed::Raced {
            return Err(StoreError::EntryExists { path: self.target.clone() });
        }
        tracing::info!(node = %self.node, entry = %self.target.display(), "entry committed");
        fault::point("store.blob.marker");
        let marks = match marker {
            Marker::Checkpoint => Marks { blob: true, checkpoint: Some(true), ..Marks::default() },
        };
        self.queue.push(&self.node, fields, Some(Box::new(marks)), Origin::Marker)?;
        Ok(())
    }
}

impl Drop for StagedEntry {
    fn drop(&mut self) {
        if let Some(staged) = self.staged.take() {
            drop(staged);
            self.blobs.tidy(&self.node);
        }
    }
}

/// Refuses what cannot name something in a blob folder. `what` is the word for it in the error.
pub(crate) fn check_name(what: &'static str, name: &str) -> Result<(), StoreError> {
    let refuse = |reason: String| Err(StoreError::EntryName { what, name: name.to_owned(), reason });
    if name.is_empty() {
        return refuse("is empty; give it a name".to_owned());
    }
    if name.len() > MAX_ENTRY_NAME_BYTES {
        return refuse(format!("has {} bytes; at most {MAX_ENTRY_NAME_BYTES} are allowed", name.len()));
    }
    if name.starts_with('.') {
        return refuse("begins with a dot, which hides files".to_owned());
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if let Some(other) = name.chars().find(|&c| !allowed(c)) {
        return refuse(format!("holds {other:?}; only ASCII letters, digits, `.`, `_` and `-` are allowed"));
    }
    if name == NODESPEC {
        return refuse("is written by the store itself; choose another".to_owned());
    }
    Ok(())
}

/// Refuses what cannot name a result file: it would be taken for something else.
pub(crate) fn check_file_name(name: &str) -> Result<(), StoreError> {
    check_name("file", name)?;
    let refuse = |reason: &str| {
        Err(StoreError::EntryName { what: "file", name: name.to_owned(), reason: reason.to_owned() })
    };
    if name == CHECKPOINT_ENTRY {
        return refuse("is the name of the checkpoint folder; choose another");
    }
    if name.ends_with(PAYLOAD_SUFFIX) {
        return refuse("ends in `.msgpack`, as payloads of artifacts do; choose another extension");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    mod disk;

    use super::*;

    #[test]
    fn names_in_a_blob_folder_are_plain() {
        for good in ["checkpoint", "attention", "summary.weights.json", "a-b_c.1", &"x".repeat(200)] {
            check_name("entry", good).unwrap();
        }
        for bad in [
            "",
            ".",
            "..",
            ".hidden",
            "a/b",
            "a\\b",
            "a b",
            "\u{e9}",
            "nodespec.json",
            "a\0",
            &"x".repeat(201),
        ] {
            assert!(check_name("entry", bad).is_err(), "{bad:?}");
        }
        for bad in ["a.msgpack", "checkpoint", "../x"] {
            assert!(check_file_name(bad).is_err(), "{bad:?}");
        }
        let text = check_name("suffix", "a b").unwrap_err().to_string();
        assert!(text.contains("suffix `a b`") && text.contains("' '"), "{text}");
    }

    #[cfg(unix)]
    #[test]
    fn store_7_a_node_folder_that_lies_outside_is_refused_when_it_is_written() {
        use std::os::unix::fs::symlink;

        use crate::record::Attachment;
        use crate::store::{ObjectStore, StoreOptions};

        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
        let node = |seq| Node::new("a.b.run", "0123456789abcdef", seq).unwrap();
        let folder = |seq| blobs_folder(root.path()).join(node(seq).address().as_str());
        let elsewhere = outside.path().join("elsewhere");
        fs::create_dir_all(elsewhere.join(".tmp-1-x")).unwrap();
        symlink(&elsewhere, folder(0)).unwrap();
        symlink(outside.path().join("nothing"), folder(1)).unwrap();
        let file = || Attachment { files: vec![("x.a.svg".into(), vec![])], ..Attachment::default() };
        for seq in 0..2 {
            let errors = [
                store.stage_folder(&node(seq), "checkpoint").map(drop).unwrap_err(),
                store.attach(&node(seq), file()).unwrap_err(),
                store.remove_unmarked_checkpoint(&node(seq)).map(drop).unwrap_err(),
                store.withdraw_checkpoints(&[node(seq)]).map(drop).unwrap_err(),
            ];
            for error in errors {
                assert!(matches!(error, StoreError::Outside { .. }), "{error:?}");
                let text = error.to_string();
                assert!(text.contains(node(seq).address().as_str()), "{text}");
            }
        }
        let left: Vec<_> =
            fs::read_dir(&elsewhere).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [".tmp-1-x"], "nothing was written there, and nothing removed");
        // A link that stays inside is fine.
        fs::create_dir(root.path().join("large")).unwrap();
        symlink("../../large", folder(2)).unwrap();
        store.attach(&node(2), file()).unwrap();
        store.flush().unwrap();
        assert!(root.path().join("large/x.a.svg").is_file());
        assert_eq!(store.reader().node(&node(2)).unwrap().unwrap().files.len(), 1);
    }
}
