//! Why the trainer could not do what was asked.

use std::path::PathBuf;

use waycairn_dag::{AddressError, Node};
use waycairn_durable::{CommitError, Holder, LockError, VersionError};
use waycairn_store::{QueryError, RecordError, StoreError};

use crate::checkpoint::CheckpointError;
use crate::course::Length;
use crate::data::DataError;
use crate::device::DeviceError;
use crate::job::JobError;
use crate::saver::SaveError;
use crate::settings::SettingsError;

/// Why training, sampling or an analysis failed.
///
/// The text says what happened, [`std::error::Error::source`] or [`TrainError::why`] why, [`TrainError::next`] what to
/// do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// The settings cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The data cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The device cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The root cannot be used.
    #[error(transparent)]
    Root(#[from] VersionError),
    /// A folder of the root cannot be made.
    #[error(transparent)]
    Folder(#[from] CommitError),
    /// The name cannot be an address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The job cannot do what is asked.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store refused a record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The store cannot be read.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// A checkpoint was not saved.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// A launch that went on without records ended with an error.
    #[error(
        "the launch ended with an error, and {unrecorded} of its records {} not kept",
        if *unrecorded == 1 { "was" } else { "were" }
    )]
    Degraded {
        /// Records of the launch that are neither in parts nor in a journal.
        unrecorded: u64,
        /// The error.
        source: Box<TrainError>,
    },
    /// A checkpoint cannot be used.
    #[error("the checkpoint of `{node}` cannot be used")]
    Checkpoint {
        /// The node.
        node: Node,
        /// The nearest older node whose checkpoint is whole.
        older: Option<Box<Node>>,
        /// The output root.
        root: PathBuf,
        /// Arguments of the launch that another one should have as well, each with a space before it.
        carried: String,
        /// What is wrong with it.
        source: Box<CheckpointError>,
    },
    /// The node has no checkpoint.
    #[error("`{node}` has no checkpoint")]
    NoCheckpoint {
        /// The node.
        node: Node,
        /// Nodes with one, the nearest first.
        nearest: Vec<Node>,
    },
    /// The node's checkpoint was withdrawn while it was read.
    #[error("the checkpoint of `{node}` was withdrawn meanwhile: its run does not keep it")]
    Withdrawn {
        /// The node.
        node: Node,
        /// Nodes with one, the nearest first.
        nearest: Vec<Node>,
    },
    /// Another process trains this run.
    #[error("the run `{name}` is being trained already")]
    Busy {
        /// The run's name.
        name: String,
        /// The run's lock.
        lock: PathBuf,
        /// Who holds it, as far as that is known.
        holder: Option<Holder>,
    },
    /// A process has a checkpoint of this run open.
    #[error("a checkpoint of the run `{name}` is being read")]
    Read {
        /// The run's name.
        name: String,
    },
    /// The run's lock failed.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Going on would mix two histories under one identity.
    #[error("`{node}` cannot be resumed: {why}")]
    Refused {
        /// The node as asked for.
        node: Node,
        /// The reason.
        why: String,
        /// The command that does it right.
        command: Option<String>,
    },
    /// A branch has no steps left.
    #[error(
        "`{base}` has done {done} step{}, and {}",
        if *done == 1 { "" } else { "s" }, asked(length.as_ref(), *steps)
    )]
    NothingToDo {
        /// The base of the branch.
        base: Node,
        /// Steps that it has done.
        done: u64,
        /// Steps in all.
        steps: u64,
        /// The setting that asks for them, where one does.
        length: Option<Length>,
    },
    /// The checkpoint belongs to another experiment.
    #[error("`{node}` is a checkpoint of the experiment `{found}`, and `{wanted}` is asked for")]
    OtherExperiment {
        /// The node.
        node: Node,
        /// What the checkpoint says.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// A loss or gradient is not finite.
    #[error("step {step} at `{node}` has the loss {loss} and the gradient norm {norm}")]
    NotFinite {
        /// The node, where both are recorded.
        node: Node,
        /// The step.
        step: u64,
        /// Its loss.
        loss: f64,
        /// Its gradient norm.
        norm: f64,
        /// The settings of the experiment that may be too high.
        lower: Vec<&'static str>,
        /// Whether the experiment can let such steps pass.
        skips: bool,
    },
    /// The settings need more memory than there is.
    #[error(
        "{settings} need about {} of memory, and {} are available",
        crate::memory::size(*needed), crate::memory::size(*available as f64)
    )]
    Memory {
        /// The settings that decide the size, with their values.
        settings: String,
        /// Bytes that are needed at least.
        needed: f64,
        /// Bytes that can be had.
        available: u64,
    },
    /// A model gives numbers that are not finite.
    #[error("the model of `{node}` gives logits that are not finite: its weights hold NaN or infinity")]
    NotFiniteWeights {
        /// The node of the checkpoint.
        node: Node,
    },
    /// The experiment cannot write text.
    #[error("the experiment `{experiment}` cannot sample")]
    CannotSample {
        /// Its name.
        experiment: String,
    },
    /// The weights have no counterpart in the format that was asked for.
    #[error("the weights of `{node}` cannot be exported: {what}")]
    CannotExport {
        /// The node of the checkpoint.
        node: Node,
        /// What has no counterpart.
        what: String,
    },
    /// An exported file cannot be written.
    #[error("cannot write the exported weights")]
    Export(#[source] std::io::Error),
    /// Arguments contradict each other.
    #[error("{what}")]
    Usage {
        /// What contradicts what.
        what: String,
        /// The reason, where there is one to give.
        why: Option<String>,
        /// What to do.
        next: String,
    },
    /// The system gave no random numbers.
    #[error("the system gave no random numbers")]
    Random(#[from] getrandom::Error),
}

impl TrainError {
    /// Returns a short code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            // A file that cannot be read, or a checkpoint's settings that lack something, are no wrong usage.
            Self::Settings(
                SettingsError::Unreadable { .. }
                | SettingsError::TooLong { .. }
                | SettingsError::NotCanonical(_)
                | SettingsError::Absent { .. },
            ) => "settings",
            Self::Degraded { source, .. } => source.code(),
            Self::Settings(_) | Self::Usage { .. } | Self::Address(_) => "usage",
            Self::Store(StoreError::Tag(_)) => "usage",
            Self::Device(DeviceError::TooManyThreads { .. } | DeviceError::Unknown { .. }) => "usage",
            Self::Memory { .. } => "memory",
            Self::Data(_) => "data",
            Self::Device(_) => "device",
            Self::Root(_) | Self::Folder(_) => "root",
            Self::Store(_) | Self::Record(_) | Self::Query(_) | Self::Save(_) | Self::Job(_) => "store",
            Self::Checkpoint { source, .. } if source.is_damage() => "corrupt",
            Self::Checkpoint { .. } | Self::OtherExperiment { .. } => "checkpoint",
            Self::NoCheckpoint { .. } | Self::Withdrawn { .. } => "no_checkpoint",
            Self::Busy { .. } | Self::Read { .. } | Self::Lock(_) => "busy",
            Self::Refused { .. } | Self::NothingToDo { .. } => "refused",
            Self::NotFinite { .. } | Self::NotFiniteWeights { .. } => "not_finite",
            Self::CannotSample { .. } | Self::CannotExport { .. } => "usage",
            Self::Export(_) => "io",
            Self::Random(_) => "system",
        }
    }

    /// Whether the arguments are at fault.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        self.code() == "usage"
    }

    /// Whether a node has no checkpoint, or has it no longer: what else was recorded meanwhile may name another one.
    #[must_use]
    pub fn is_no_checkpoint(&self) -> bool {
        matches!(self, Self::NoCheckpoint { .. } | Self::Withdrawn { .. })
    }

    /// Keeps arguments for the command that is advised.
    pub(crate) fn carrying(mut self, arguments: String) -> Self {
        if let Self::Checkpoint { carried, .. } = &mut self {
            *carried = arguments;
        }
        self
    }

    /// Says why, where neither the text nor a source does.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        match self {
            Self::Settings(error) => error.why(),
            Self::Device(error) => error.why(),
            Self::Busy { holder, .. } => Some(format!("it is held by {}", holder_text(holder.as_ref()))),
            Self::Usage { why, .. } => why.clone(),
            _ => None,
        }
    }

    /// Says what to do about it.
    #[must_use]
    pub fn next(&self) -> Option<String> {
        match self {
            Self::Settings(error) => error.next(),
            Self::Degraded { source, .. } => source.next().or_else(|| {
                let next = "when the disk is well again, the same command goes on from the newest checkpoint";
                Some(next.to_owned())
            }),
            Self::Data(error) => error.next(),
            Self::Device(error) => Some(error.next()),
            Self::Checkpoint { older, root, carried, source, .. } => match older {
                Some(older) => Some(format!(
                    "the nearest older complete checkpoint is `{older}`; go on from it with `{}`",
                    branch_command(root, older, carried)
                )),
                None if source.is_damage() => {
                    Some("restore the folder from a copy; there is no older complete checkpoint".to_owned())
                }
                None => Some(without_older(source)),
            },
            Self::NoCheckpoint { nearest, .. } | Self::Withdrawn { nearest, .. } if nearest.is_empty() => {
                Some("no node near it has one; list them with `waycairn nodes`".to_owned())
            }
            Self::NoCheckpoint { nearest, .. } | Self::Withdrawn { nearest, .. } => {
                let names: Vec<String> = nearest.iter().take(3).map(|node| format!("`{node}`")).collect();
                Some(format!("the nearest with one: {}", names.join(", ")))
            }
            Self::Read { .. } => {
                Some("wait until what reads it has ended: a branch that begins, or an analysis".to_owned())
            }
            Self::Busy { .. } => Some("wait for it, or stop it; both can go on afterwards".to_owned()),
            Self::Refused { command, .. } => {
                command.as_ref().map(|command| format!("begin a branch there: `{command}`"))
            }
            Self::NothingToDo { done, length: Some(length), .. } => {
                Some(format!("ask for more than {} with `{}`", length.whole(*done), length.option()))
            }
            Self::NothingToDo { done, .. } => Some(format!("ask for more than {done} with `--set`")),
            Self::OtherExperiment { found, .. } => Some(format!("ask for the experiment `{found}`")),
            Self::NotFinite { lower, skips, .. } => {
                let pass = ", or let such steps pass with `--set on_nonfinite=skip`";
                let branch = "branch from an earlier checkpoint with a lower";
                Some(format!("{branch} `{}`{}", lower.join("` or `"), if *skips { pass } else { "" }))
            }
            Self::Memory { .. } => Some("make them smaller with `--set`, or free memory".to_owned()),
            Self::NotFiniteWeights { .. } => Some("sample from an earlier checkpoint of the run".to_owned()),
            Self::CannotExport { .. } => {
                Some("take them in their own names with `--format safetensors`".to_owned())
            }
            Self::Usage { next, .. } => Some(next.clone()),
            Self::Address(AddressError::EmptyName) => Some("give the run a name with `--name`".to_owned()),
            _ => None,
        }
    }
}

/// What to do about a checkpoint that is whole and of no use as it is.
fn without_older(source: &CheckpointError) -> String {
    let partial = "use `--partial` to take what fits and begin the rest anew";
    match source {
        CheckpointError::Mismatch { saved, .. } if !saved.is_empty() => {
            format!("leave the model as the checkpoint has it, with {}, or {partial}", saved.join(" and "))
        }
        CheckpointError::Version { .. } => "use the program that wrote it, or a newer one".to_owned(),
        CheckpointError::Io { .. } => "allow reading it, and try again".to_owned(),
        _ => partial.to_owned(),
    }
}

/// What a command asks for, in the words of its experiment.
fn asked(length: Option<&Length>, steps: u64) -> String {
    match length {
        Some(Length { setting, value, .. }) if *value == steps => format!("`{setting}` is {value}"),
        Some(Length { setting, value, .. }) => format!("`{setting}` = {value} makes {steps}"),
        None => format!("the settings make {steps}"),
    }
}

/// Writes the command that begins a branch at a node, `more` being further arguments, each with a space before it.
pub(crate) fn branch_command(root: &std::path::Path, node: &Node, more: &str) -> String {
    let root = crate::identity::option("--root", &root.to_string_lossy());
    let branch = crate::identity::option("--branch", &node.to_string());
    format!("waycairn train {root} {branch}{more}")
}

fn holder_text(holder: Option<&Holder>) -> String {
    match holder {
        Some(Holder { host, pid, started, .. }) => {
            format!("process {pid} on `{host}`, which began at {started}")
        }
        None => "another process".to_owned(),
    }
}

/// An error with its causes, each said once.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}
