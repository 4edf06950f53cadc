//! A Burn trainer.
mod checkpoint;
mod data;
mod device;
mod error;
mod experiment;
mod generator;
mod gpt;
mod identity;
mod inspect;
mod job;
mod known;
mod launch;
mod learner;
mod moments;
mod optimizer;
mod progress;
mod request;
mod restore;
mod run;
mod sample;
mod saver;
mod schedule;
mod schema;
mod settings;
mod stop;
mod trainer;
mod weights;

pub use checkpoint::{CheckpointError, GitState, JobFile};
pub use data::{Batch, DataError, Fingerprint, HostTensor, Vocabulary};
pub use device::DeviceError;
pub use error::TrainError;
pub use experiment::{
    Experiment, ExperimentDescription, Experiments, Initial, KeyValueCache, Tokens, cross_entropy,
};
pub use gpt::{Gpt, GptModel};
pub use inspect::{AnalyzeOutcome, AnalyzeRequest, AnalyzeStatus, analyze};
pub use job::JobError;
pub use moments::MomentsError;
pub use progress::{Event, Progress};
pub use request::{Base, Status, TrainReport, TrainRequest};
pub use run::train;
pub use sample::{SampleOptions, sample};
pub use saver::SaveError;
pub use schema::{Key, LARGEST_INTEGER, OFF, Value};
pub use settings::{Difference, Preset, Schema, Settings, SettingsError};
pub use stop::Stop;
pub use weights::Mismatch;
