//! The training loader: the batch of the live node.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waycairn_dag::ClockView;

use super::batch::AnyBatch;
use super::stream::Data;

/// Gives the batch of the node that a clock shows.
///
/// The position in the stream is `offset + seq`: asking twice at one node gives the same object,
/// after a tick the next batch follows, and a loader made at another time or place gives the same
/// batch at the same node (TRAIN-2). Nothing is consumed, so nothing has to be saved but the
/// offset.
#[derive(Debug)]
pub(crate) struct Loader {
    data: Arc<dyn Data>,
    offset: u64,
    view: ClockView,
    last: Mutex<Option<Arc<AnyBatch>>>,
}

impl Loader {
    /// Follows `view` through a stream.
    pub(crate) fn new(data: Arc<dyn Data>, offset: u64, view: ClockView) -> Self {
        Self { data, offset, view, last: Mutex::new(None) }
    }

    /// Returns the batch of the live node.
    pub(crate) fn batch(&self) -> Arc<AnyBatch> {
        self.batch_at(self.view.seq())
    }

    /// Returns the batch of any node of the run; the stream does not move.
    pub(crate) fn batch_at(&self, seq: u64) -> Arc<AnyBatch> {
        let position = self.offset.wrapping_add(seq);
        let mut last = self.last();
        match last.as_ref() {
            Some(batch) if batch.position() == position => Arc::clone(batch),
            _ => {
                // Its memory first: a batch may be as large as memory allows.
                *last = None;
                let batch = Arc::new(self.data.batch(position));
                *last = Some(Arc::clone(&batch));
                batch
            }
        }
    }

    fn last(&self) -> MutexGuard<'_, Option<Arc<AnyBatch>>> {
        // A batch is built before it is stored, so a poisoned lock still holds a whole one.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "loader/tests.rs"]
mod tests;
