//! The training state as files: what stands in `checkpoint/`, written, checked and read.

mod error;
mod files;
mod job;
mod manifest;
mod read;
mod state;
mod tensors;
mod write;

pub use error::CheckpointError;
pub use job::{GitState, JobFile};

pub(crate) use files::{CONFIG, JOB, MANIFEST};
#[cfg(test)]
pub(crate) use files::{MODEL, OPTIMIZER, STATE};
pub(crate) use job::VERSION as JOB_VERSION;
pub(crate) use manifest::FileEntry;
pub(crate) use read::{Checkpoint, Depth, TensorFile};
pub(crate) use state::{LoaderState, ScheduleState, State, VERSION as STATE_VERSION};
pub(crate) use tensors::write_tensors;
pub(crate) use write::{Contents, Written, write};
