//! Text in, batches out: vocabulary, plan, loader.

mod batch;
mod embedded;
mod error;
mod fingerprint;
mod loader;
mod order;
mod plan;
mod text;
mod vocabulary;

pub use batch::{Batch, HostTensor};
pub use error::{DataError, NotInVocabulary};
pub use fingerprint::Fingerprint;
pub use vocabulary::Vocabulary;

pub(crate) use batch::digest_tensors;
pub(crate) use fingerprint::Whole;
pub(crate) use loader::Loader;
pub(crate) use plan::{TrainPlan, ValidationPlan, gather};
pub(crate) use text::{Reading, Source, Split, TextData};
