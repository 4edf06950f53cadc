//! Keeps the checkpoints of a run from being withdrawn while one of them is read.
//!
//! A branch or an analysis keeps its checkpoint by what it records; until that is published it holds the run's lock
//! file, shared. A withdrawal takes the lock alone, and only then asks what is recorded.

use std::path::{Path, PathBuf};
use std::time::Duration;

use waycairn_dag::Node;
use waycairn_durable::{Digest, FileLock, LockError, SharedLock};

/// A withdrawal holds the lock for as long as it takes to delete some folders.
const LIMIT: Duration = Duration::from_secs(60);

/// Lets checkpoints of a run be withdrawn, by itself or by a removal: makes its lock file. Whoever finds none holds
/// nothing, so it has to be there before the first checkpoint of a launch. The folder of the locks has to exist.
pub(crate) fn announce(root: &Path, run: &Node) -> Result<(), LockError> {
    if path(root, run).exists() {
        return Ok(());
    }
    alone(root, run).map(drop)
}

/// Keeps readers away for a withdrawal; `None` when somebody reads now.
pub(crate) fn alone(root: &Path, run: &Node) -> Result<Option<Alone>, LockError> {
    match FileLock::try_acquire(&path(root, run)) {
        Ok(lock) => Ok(Some(Alone(Some(lock)))),
        Err(LockError::Busy { .. }) => Ok(None),
        Err(error @ LockError::Unsupported { .. }) => {
            tracing::warn!(%error, "nothing keeps a checkpoint that is being read from being withdrawn");
            Ok(Some(Alone(None)))
        }
        Err(error) => Err(error),
    }
}

/// The right to withdraw checkpoints of a run, until it is dropped.
#[derive(Debug)]
pub(crate) struct Alone(#[expect(dead_code, reason = "held")] Option<FileLock>);

/// Keeps all checkpoints of a node's run for as long as the answer lives; `None` where the run has no lock file, in a copy
/// that left the locks out, or where there are no locks.
pub(crate) fn hold(root: &Path, node: &Node) -> Result<Option<SharedLock>, LockError> {
    match SharedLock::acquire(&path(root, node), LIMIT) {
        Err(error @ LockError::Busy { .. }) => Err(error),
        Err(error) => {
            // Reading has to work wherever files can be read.
            tracing::debug!(%error, node = %node, "a checkpoint is read without a hold");
            Ok(None)
        }
        Ok(held) => Ok(held),
    }
}

/// The lock file of a node's run.
fn path(root: &Path, node: &Node) -> PathBuf {
    // Position 0 is always within limits.
    let first = node.at(0).map_or_else(|_| node.address(), |first| first.address());
    root.join("locks").join(format!("hold-{}.lock", Digest::of(first.as_str().as_bytes())))
}
