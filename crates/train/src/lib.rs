//! A Burn trainer: runs that record where they stand, and go on from there to the bit.
//!
//! It does not know how records are stored or folded, how plugins cross their boundary, or how anything is
//! shown: it decides the order of work at a node, and what has to be saved so that a run can be interrupted
//! anywhere. Burn is known here and nowhere else in the workspace.
//!
//! ```text
//!  request -> settings -> which run is meant (identity)  -> new | continue | again | skip | refused
//!                            |
//!                 state: initial weights, or a checkpoint of the base (restore)
//!                            |
//!      +---> batch (a function of the position) -> update -> metrics -> validation --+
//!      |                                                                             |
//!      +------ tick <- checkpoint: snapshot now, written and marked beside the next steps
//!
//!  analyze: past node -> mapped weights, replayed batch, model -> plugin -> one record. No clock.
//! ```
//!
//! # Invariants
//!
//! - **TRAIN-1**: a resume keeps the node and its identity, a branch begins at seq 0 under a new nonce with its
//!   base as parent; on the CPU a run that was interrupted, however often and wherever, has the losses and
//!   weights of an undisturbed run, bit for bit.
//! - **TRAIN-2**: a batch is a function of (data, seed, offset + seq); asking twice at a node gives the same
//!   batch, and asking never moves the stream.
//! - **TRAIN-3**: a checkpoint counts when its marker is published, and with it every earlier record; a folder
//!   without a marker is removed by the next launch of its run, one with a marker is never overwritten.
//! - **TRAIN-4**: no parameter is restored without its optimizer state unless the user asks for that.
//! - **TRAIN-5**: a training withdraws a checkpoint only when the settings keep it no longer and a newer one is
//!   complete; the newest, bases of branches and nodes with artifacts keep theirs, and no recorded value changes.
//! - **TRAIN-6**: no checkpoint is withdrawn between its opening and the record that keeps it: that of a branch, or
//!   what an analysis attaches.
//!
//! # A run
//!
//! ```
//! use waycairn_train::{Gpt, Status, Stop, TrainRequest, experiments, train};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let mut request = TrainRequest::new(folder.path());
//! request.sets = vec![("steps".into(), "2".into()), ("eval_every".into(), "off".into())];
//! let report = train(&experiments![Gpt], &request, &Stop::new(), &mut ())?;
//! assert_eq!((report.status, report.node.seq()), (Status::Finished, 1));
//!
//! // The same command again finds that nothing is left to do.
//! let again = train(&experiments![Gpt], &request, &Stop::new(), &mut ())?;
//! assert_eq!((again.status, again.node), (Status::Skipped, report.node));
//! # Ok(())
//! # }
//! ```
//!
//! What stands in a checkpoint, byte by byte: `docs/format.md`.

mod any_experiment;
mod best;
mod call;
mod checkpoint;
mod course;
mod data;
mod describe;
mod device;
mod error;
mod experiment;
mod explain;
mod export;
mod function;
mod generator;
mod gpt;
mod history;
mod hold;
mod identity;
mod inspect;
mod job;
mod known;
mod language;
mod launch;
mod learner;
mod memory;
mod moments;
mod nre;
mod of_rows;
mod optimizer;
mod origin;
mod past;
#[cfg(test)]
#[path = "pinned/tests.rs"]
mod pinned;
mod prepare;
mod progress;
mod request;
mod restore;
mod retention;
mod row_experiment;
mod run;
mod sample;
mod saver;
mod schedule;
mod schema;
mod settings;
mod settled;
mod stand_in;
mod stop;
mod taken;
mod trainer;
mod verify;
mod weights;

pub use any_experiment::{ExperimentDescription, Experiments};
pub use checkpoint::{CheckpointError, GitState, JobFile};
pub use course::Length;
pub use data::{
    Batch, Column, DataError, Fingerprint, HostTensor, NotInVocabulary, RowBatch, RowFingerprint, Rows,
    TextFingerprint, Vocabulary,
};
pub use describe::{Description, Estimate, describe};
pub use device::{DeviceError, use_threads};
pub use error::TrainError;
pub use experiment::{
    Cohort, Demand, Experiment, Initial, KeyValueCache, Tokens, cross_entropy, token_losses,
};
pub use explain::settings;
pub use export::{ExportFormat, export};
pub use function::{Answer, Axis, Function, Inputs, Port, Signature, Values};
pub use gpt::{Gpt, GptModel};
pub use inspect::{AnalyzeOutcome, AnalyzeRequest, AnalyzeStatus, analyze, attachment};
pub use job::JobError;
pub use known::{model_history, model_node, recorded_config, recorded_experiment};
pub use moments::MomentsError;
pub use nre::{Nre, NreModel};
pub use optimizer::{OptimizerKind, OptimizerRule};
pub use past::at_node;
pub use progress::{Event, Progress};
pub use request::{Base, OnStoreError, SettingsLayer, Status, TrainReport, TrainRequest};
pub use row_experiment::{EpochCourse, RowExperiment, RowTensors};
pub use run::train;
pub use sample::{SampleOptions, sample};
pub use saver::SaveError;
pub use schema::{Key, LARGEST_INTEGER, OFF, ReadSection, SectionFault, Value};
pub use serde_json;
pub use settings::{Difference, Preset, Schema, Settings, SettingsError, nearest};
pub use stop::Stop;
pub use taken::{TakenRun, run_holder, study_models, take_run};
pub use verify::{CheckpointFault, Checkpoints};
pub use weights::Mismatch;
