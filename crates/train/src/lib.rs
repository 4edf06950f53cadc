//! A Burn trainer.
mod checkpoint;
mod data;
mod experiment;
mod generator;
mod gpt;
mod learner;
mod moments;
mod optimizer;
mod schedule;
mod schema;
mod settings;
mod weights;

pub use checkpoint::{CheckpointError, GitState, JobFile};
pub use data::{Batch, DataError, Fingerprint, HostTensor, Vocabulary};
pub use experiment::{
    Experiment, ExperimentDescription, Experiments, Initial, KeyValueCache, Tokens, cross_entropy,
};
pub use gpt::{Gpt, GptModel};
pub use moments::MomentsError;
pub use schema::{Key, LARGEST_INTEGER, OFF, Value};
pub use settings::{Difference, Preset, Schema, Settings, SettingsError};
pub use weights::Mismatch;
