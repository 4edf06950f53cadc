//! Data in, batches out: a text with vocabulary and plan, or rows of numbers; the loader follows the clock.

mod batch;
mod embedded;
mod error;
mod fingerprint;
mod loader;
mod order;
mod plan;
mod rows;
mod stream;
mod text;
mod vocabulary;

pub use batch::{Batch, Column, HostTensor, RowBatch};
pub use error::{DataError, NotInVocabulary};
pub use fingerprint::{Fingerprint, RowFingerprint, TextFingerprint};
pub use rows::Rows;
pub use vocabulary::Vocabulary;

pub(crate) use batch::{AnyBatch, digest_tensors};
pub(crate) use fingerprint::Whole;
pub(crate) use loader::Loader;
#[cfg(test)]
pub(crate) use plan::TrainPlan;
pub(crate) use rows::{EpochOrder, RowStream, epoch_steps};
pub(crate) use stream::{Data, TextStream};
pub(crate) use text::{Reading, Source, Split, TextData};
