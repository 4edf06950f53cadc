//! Saves checkpoints in the background.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use waycairn_dag::Node;
use waycairn_durable::Digest;
use waycairn_store::{Marker, ObjectStore, Scalar, StoreError};

use crate::checkpoint::{self, Checkpoint, CheckpointError, Contents, Depth, TensorFile, Written};
use crate::data::{AnyBatch, digest_tensors};
use crate::retention::Retention;

/// The entry of a node's blob that holds its checkpoint.
pub(crate) const ENTRY: &str = "checkpoint";

/// A checkpoint that could not be saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// Its files could not be written.
    #[error("the files of the checkpoint of `{node}` could not be written")]
    Write {
        /// The node.
        node: String,
        /// Why.
        source: CheckpointError,
    },
    /// Its files are there, and the record that announces it is not durable.
    #[error("the record of the checkpoint of `{node}` could not be written")]
    Flush {
        /// The node.
        node: String,
        /// Why.
        source: StoreError,
    },
    /// The store could not commit or announce it.
    #[error("the checkpoint of `{node}` could not be committed")]
    Commit {
        /// The node.
        node: String,
        /// Why.
        source: StoreError,
    },
    /// The node has another checkpoint already.
    #[error("`{node}` has a checkpoint with other weights, which is kept")]
    Different {
        /// The node.
        node: String,
    },
    /// The thread ended without an answer.
    #[error("the thread that saved the checkpoint of `{node}` ended unexpectedly")]
    Thread {
        /// The node.
        node: String,
    },
    /// The system gave no thread.
    #[error("no thread could be started to save the checkpoint of `{node}`")]
    Spawn {
        /// The node.
        node: String,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// Writes at most one checkpoint at a time on a thread of its own.
///
/// A checkpoint is complete when its marker is published, and with it every earlier record: the
/// thread writes the files, syncs and renames the folder, queues the marker, and flushes. It ends
/// at each of those points without harm: a folder without a marker does not count. Then it withdraws the older
/// checkpoints that the settings do not keep.
#[derive(Debug)]
pub(crate) struct Saver {
    store: Arc<ObjectStore>,
    retention: Retention,
    running: Option<(Node, JoinHandle<Result<Saved, SaveError>>)>,
}

/// A checkpoint that is complete and durable.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    pub(crate) node: Node,
    pub(crate) written: Written,
    /// What a user should know of the rules that keep checkpoints.
    pub(crate) notice: Option<String>,
}

impl Saver {
    pub(crate) fn new(store: Arc<ObjectStore>, retention: Retention) -> Self {
        Self { store, retention, running: None }
    }

    /// Saves by another store from now on; the save before must be done.
    pub(crate) fn use_store(&mut self, store: Arc<ObjectStore>) {
        self.store = store;
    }

    /// Waits for the save before, then starts this one and returns what was complete before.
    pub(crate) fn save(
        &mut self,
        node: Node,
        batch: Arc<AnyBatch>,
        contents: Contents,
    ) -> Result<Option<Saved>, SaveError> {
        let before = self.wait()?;
        let store = Arc::clone(&self.store);
        let retention = self.retention.clone();
        let thread = {
            let node = node.clone();
            std::thread::Builder::new().name("waycairn-checkpoint".to_owned()).spawn(move || {
                let step = contents.state.step;
                let written = save(&store, &node, &batch, contents)?;
                let notice = retain(&retention, &store, &node, step);
                Ok(Saved { node, written, notice })
            })
        };
        let thread = thread.map_err(|source| SaveError::Spawn { node: node.to_string(), source })?;
        self.running = Some((node, thread));
        Ok(before)
    }

    /// Returns the last save if it is done, without waiting.
    pub(crate) fn poll(&mut self) -> Result<Option<Saved>, SaveError> {
        match &self.running {
            Some((_, thread)) if thread.is_finished() => self.wait(),
            _ => Ok(None),
        }
    }

    /// Waits for the save that is under way.
    pub(crate) fn wait(&mut self) -> Result<Option<Saved>, SaveError> {
        let Some((node, thread)) = self.running.take() else {
            return Ok(None);
        };
        match thread.join() {
            Ok(saved) => saved.map(Some),
            Err(_) => Err(SaveError::Thread { node: node.to_string() }),
        }
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        // Reached with a save under way only when the run failed for another reason, which is
        // reported; the save itself is still worth waiting for.
        if let Err(error) = self.wait() {
            tracing::error!(%error, "a checkpoint was not saved");
        }
    }
}

fn save(
    store: &ObjectStore,
    node: &Node,
    batch: &AnyBatch,
    contents: Contents,
) -> Result<Written, SaveError> {
    let begin = std::time::Instant::now();
    let commit_error = |source| SaveError::Commit { node: node.to_string(), source };
    // A save of this launch that failed between rename and marker left a folder that does not count; what
    // earlier launches left went when this one began.
    store.remove_unmarked_checkpoint(node).map_err(commit_error)?;
    let staged = store.stage_folder(node, ENTRY).map_err(commit_error)?;
    let written = checkpoint::write(staged.path(), contents)
        .map_err(|source| SaveError::Write { node: node.to_string(), source })?;
    // Only where the node has a checkpoint already there is something to compare with.
    let there = staged.path().with_file_name(ENTRY).exists();
    let ours = if there { digests(staged.path()) } else { None };
    let fields: [(&str, Scalar); 2] = [
        ("data/batch_sha256", batch.sha256().to_string().into()),
        ("model/sha256", written.model_sha256.to_string().into()),
    ];
    match staged.commit(Marker::Checkpoint, &fields) {
        Ok(()) => {}
        Err(StoreError::EntryExists { path }) => {
            // A marked checkpoint is never overwritten; the same tensors are the same checkpoint.
            if ours.is_none() || digests(&path) != ours {
                return Err(SaveError::Different { node: node.to_string() });
            }
        }
        Err(source) => return Err(commit_error(source)),
    }
    store.flush().map_err(|source| SaveError::Flush { node: node.to_string(), source })?;
    tracing::info!(
        node = %node,
        bytes = written.bytes,
        elapsed_ms = begin.elapsed().as_millis() as u64,
        "checkpoint committed"
    );
    Ok(written)
}

/// Withdraws the checkpoints that the settings do not keep, now that a newer one is complete.
///
/// What cannot be withdrawn stays and is tried again after the next save: a run does not stop over it.
/// Returns what a user should know.
fn retain(retention: &Retention, store: &ObjectStore, node: &Node, step: u64) -> Option<String> {
    retention.apply(store, node, step).unwrap_or_else(|error| {
        let error: &dyn std::error::Error = &error;
        tracing::warn!(node = %node, error, "older checkpoints could not be withdrawn");
        None
    })
}

/// The digests of a checkpoint's weights and of its moments, over tensors and not over file bytes, which differ
/// from one writing to the next; `None` where they cannot be read.
fn digests(folder: &Path) -> Option<[Digest; 2]> {
    let checkpoint = Checkpoint::open(folder, Depth::Whole).ok()?;
    let digest = |file: Result<TensorFile, CheckpointError>| {
        let file = file.ok()?;
        let tensors = file.tensors().ok()?;
        let tensors: Vec<_> =
            tensors.iter().map(|(name, view)| (name, view.dtype().to_string(), view)).collect();
        Some(digest_tensors(
            tensors.iter().map(|(name, dtype, view)| (*name, dtype.as_str(), view.shape(), view.data())),
        ))
    };
    Some([digest(checkpoint.model())?, digest(checkpoint.optimizer())?])
}
