//! What a caller asks of the trainer, and what it answers.

use std::path::PathBuf;
use std::time::Duration;

use waycairn_dag::Node;

use crate::course::Length;

/// One launch of training.
#[derive(Clone, Debug)]
pub struct TrainRequest {
    /// The output root; it need not exist.
    pub root: PathBuf,
    /// Name of the run; by default the preset's, or for a branch and a resume the base's.
    pub name: Option<String>,
    /// The user's tag, recorded with everything of this launch.
    pub tag: Option<String>,
    /// Name of the experiment; by default the base's, or the first of the binary.
    pub experiment: Option<String>,
    /// Name of the preset; by default the experiment's first. Not with a base, whose settings are
    /// taken.
    pub preset: Option<String>,
    /// A text file to train on; it sets `data.source`.
    pub text: Option<PathBuf>,
    /// Settings that are laid over the preset.
    pub settings: Option<SettingsLayer>,
    /// Single settings as path and text, laid over everything.
    pub sets: Vec<(String, String)>,
    /// Where the state comes from.
    pub base: Base,
    /// Begin a new run even where this command could go on.
    pub fresh: bool,
    /// The device: `cpu` or `auto`.
    pub device: String,
    /// Threads that compute; by default one a core.
    pub threads: Option<usize>,
    /// Stop in good order after this time; looked at after each step, between its micro-batches, and between the
    /// batches of a validation, but for one that a launch begins with because it was given up before.
    pub max_time: Option<Duration>,
    /// Go on although the data is not what the checkpoint was trained on.
    pub allow_changed_data: bool,
    /// Take from a checkpoint what fits, and begin the rest anew.
    pub partial: bool,
    /// What to do when records cannot be written.
    pub on_store_error: OnStoreError,
    /// What else makes this command the same as an earlier one: the key of the model in a cache, which says with
    /// which code and on what it is trained. A run goes on, or is finished, only for the same key.
    pub model_key: Option<String>,
    /// The command line, for `job.json`.
    pub command_line: Vec<String>,
}

/// Settings of a request beside its preset and its single settings.
#[derive(Clone, Debug)]
pub enum SettingsLayer {
    /// A TOML file.
    File(PathBuf),
    /// A table that was read already; `origin` names it in errors.
    Table {
        /// The settings, nested.
        table: toml::Table,
        /// Where they stand.
        origin: String,
    },
}

impl TrainRequest {
    /// Asks for the experiment's first preset under a root.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            name: None,
            tag: None,
            experiment: None,
            preset: None,
            text: None,
            settings: None,
            sets: Vec::new(),
            base: Base::None,
            fresh: false,
            device: "auto".to_owned(),
            threads: None,
            max_time: None,
            allow_changed_data: false,
            partial: false,
            on_store_error: OnStoreError::Stop,
            model_key: None,
            command_line: Vec::new(),
        }
    }
}

/// Where a run's state comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Base {
    /// Initial weights, or this command's own earlier run.
    #[default]
    None,
    /// A new run from the state of this node.
    Branch(Node),
    /// The run of this node goes on, from its newest complete checkpoint.
    Resume(Node),
}

/// What a launch does when records cannot be written: the store failed for good, or has no room for more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStoreError {
    /// It stops with the error at the next tick, after a checkpoint if that still works.
    #[default]
    Stop,
    /// It goes on and counts what was not recorded. At each checkpoint it looks whether the disk takes files again, once and
    /// without waiting, and opens the store anew if so: records and checkpoints go on with the disk. Only what must be there at
    /// the end, the last checkpoint and that the run ended, is an error still.
    Degrade,
}

/// How a launch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// All steps are done.
    Finished,
    /// It was asked to stop and can go on.
    Stopped,
    /// The run was finished before; nothing was done.
    Skipped,
}

impl Status {
    /// Returns the word that stands in `--format json`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Stopped => "stopped",
            Self::Skipped => "skipped",
        }
    }
}

/// What a launch did; everything in it is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainReport {
    /// The node of the last step that is done; the run's first node where none is.
    pub node: Node,
    /// The node that the run's model is taken from: the last one, unless the settings choose by validation.
    pub selected: Node,
    /// Whether its model can continue a text.
    pub samples: bool,
    /// How long the run is, where a setting says so.
    pub length: Option<Length>,
    /// How it ended.
    pub status: Status,
    /// Steps that are done, those of earlier launches included.
    pub steps: u64,
    /// Where this launch went on.
    pub resumed_from: Option<Node>,
    /// The newest complete checkpoint.
    pub checkpoint: Option<Node>,
    /// Optimizer steps of this launch.
    pub updates: u64,
    /// Steps of the run that were left out, because their loss or gradient was not finite.
    pub skipped: u64,
    /// Records of this launch that were not kept, where [`OnStoreError::Degrade`] let it go on.
    pub unrecorded: u64,
    /// Ticks of this launch, to nodes whose step is done.
    pub ticks: u64,
}
