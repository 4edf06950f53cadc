//! From a node to its checkpoint, and from that to a state.

use std::path::Path;

use waycairn_dag::Node;
use waycairn_store::ObjectReader;

use crate::checkpoint::{Checkpoint, CheckpointError, Depth};
use crate::error::TrainError;
use crate::hold::hold;
use crate::learner::{Learner, Saved};
use crate::weights::Mismatch;

/// Opens the checkpoint of a node and checks its files. As long as it lives no checkpoint of that run is withdrawn.
///
/// # Errors
///
/// [`TrainError::NoCheckpoint`] with the nearest nodes that have one, [`TrainError::Withdrawn`] where it went while
/// it was read; [`TrainError::Checkpoint`]
/// with the fault and the nearest older node whose checkpoint is whole; [`TrainError::Lock`].
pub(crate) fn open(reader: &ObjectReader, node: &Node, depth: Depth) -> Result<Checkpoint, TrainError> {
    let hold = hold(reader.root(), node)?;
    let Some(folder) = reader.checkpoint(node)? else {
        return Err(TrainError::NoCheckpoint {
            nearest: reader.nearest_checkpoints(node)?,
            node: node.clone(),
        });
    };
    let checkpoint = Checkpoint::open(&folder, depth).and_then(|checkpoint| {
        let recorded = node.address();
        if checkpoint.manifest().node == recorded.as_str() {
            return Ok(checkpoint);
        }
        let what = format!("it belongs to another node, `{}`", checkpoint.manifest().node);
        Err(CheckpointError::Malformed { path: folder.clone(), what })
    });
    checkpoint.map(|checkpoint| checkpoint.held(hold)).map_err(|source| damaged(reader, node, source))
}

/// Puts a checkpoint's weights and, where wanted, its optimizer state into a learner.
pub(crate) fn restore(
    reader: &ObjectReader,
    node: &Node,
    checkpoint: &Checkpoint,
    learner: &mut dyn Learner,
    want: Want,
) -> Result<Mismatch, TrainError> {
    fill(checkpoint, learner, want).map_err(|source| damaged(reader, node, source))
}

/// What of a checkpoint is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// Weights and optimizer, all of it.
    Everything,
    /// Weights and optimizer, as far as they fit.
    WhatFits,
    /// Weights alone, all of them.
    Weights,
}

fn fill(checkpoint: &Checkpoint, learner: &mut dyn Learner, want: Want) -> Result<Mismatch, CheckpointError> {
    let folder = checkpoint.folder();
    let weights = checkpoint.model()?;
    let weights = weights.tensors()?;
    let optimizer = match want {
        Want::Weights => None,
        Want::Everything | Want::WhatFits => Some(checkpoint.optimizer()?),
    };
    let optimizer = match &optimizer {
        Some(file) => Some((file.tensors()?, &checkpoint.state().optimizer)),
        None => None,
    };
    let saved = Saved {
        weights: &weights,
        optimizer: optimizer.as_ref().map(|(tensors, scalars)| (tensors, *scalars)),
        partial: want == Want::WhatFits,
    };
    let mismatch = learner
        .restore(&saved)
        .map_err(|source| CheckpointError::Optimizer { path: folder.to_owned(), source })?;
    if want != Want::WhatFits && !mismatch.is_empty() {
        let (path, what) = (folder.to_owned(), mismatch.summary());
        return Err(CheckpointError::Mismatch { path, what, saved: Vec::new() });
    }
    Ok(mismatch)
}

/// A checkpoint that cannot be read was withdrawn meanwhile, or else it is damaged.
pub(crate) fn damaged(reader: &ObjectReader, node: &Node, source: CheckpointError) -> TrainError {
    let marked = reader.query().node(node).checkpoint().count();
    if marked.is_ok_and(|marked| marked.value == 0) {
        let nearest = reader.nearest_checkpoints(node).unwrap_or_default();
        return TrainError::Withdrawn { node: node.clone(), nearest };
    }
    // Weights that do not fit are whole, and older ones of the run fit no better.
    let fits = !matches!(source, CheckpointError::Mismatch { .. });
    TrainError::Checkpoint {
        older: fits.then(|| older(reader, node)).flatten().map(Box::new),
        node: node.clone(),
        root: reader.root().to_owned(),
        carried: String::new(),
        source: Box::new(source),
    }
}

/// Finds the nearest ancestor whose checkpoint is whole.
fn older(reader: &ObjectReader, node: &Node) -> Option<Node> {
    let whole = |folder: &Path| Checkpoint::open(folder, Depth::Whole).is_ok();
    let candidates = reader.nearest_checkpoints(node).ok()?;
    let before = |other: &Node| !other.same_run(node) || other.seq() < node.seq();
    candidates
        .into_iter()
        .filter(before)
        .find(|other| matches!(reader.checkpoint(other), Ok(Some(folder)) if whole(&folder)))
}
