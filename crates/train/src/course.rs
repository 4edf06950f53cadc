//! How a model is trained: what the loop reads of an experiment's settings.

use crate::optimizer::{OptimizerKind, OptimizerRule};
use crate::retention::Retention;
use crate::schedule::Schedule;
use crate::settings::{Settings, SettingsError};

/// Everything that the loop, the schedule, the optimizer and the saver go by.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    /// Seed of the streams that are drawn on the device.
    pub(crate) seed: u64,
    pub(crate) steps: u64,
    pub(crate) accumulate: u64,
    pub(crate) clip: Option<f64>,
    pub(crate) report_every: u64,
    pub(crate) eval_every: Option<u64>,
    pub(crate) checkpoint_every: Option<u64>,
    pub(crate) skip_nonfinite: bool,
    /// Whether each step is told to whoever watches.
    pub(crate) verbose: bool,
    /// What of the run is its model.
    pub(crate) selection: Selection,
    pub(crate) schedule: Schedule,
    pub(crate) retention: Retention,
    pub(crate) optimizer: OptimizerRule,
}

/// Which step of a run its model is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// The last one.
    Last,
    /// The one with the lowest validation loss, the earliest of equals.
    Best,
}

impl Course {
    /// Reads the trainer's own settings.
    pub(crate) fn of_settings(settings: &Settings) -> Result<Self, SettingsError> {
        Ok(Self {
            seed: settings.integer("seed")?,
            steps: settings.integer("steps")?,
            accumulate: settings.integer("accumulate")?,
            clip: settings.optional_number("clip")?,
            report_every: settings.integer("report_every")?,
            eval_every: settings.optional_integer("eval_every")?,
            checkpoint_every: settings.optional_integer("checkpoint_every")?,
            skip_nonfinite: settings.text("on_nonfinite")? == "skip",
            verbose: true,
            selection: Selection::Last,
            schedule: Schedule::new(settings)?,
            retention: Retention::new(settings)?,
            optimizer: OptimizerRule {
                kind: OptimizerKind::AdamW,
                betas: settings.pair("betas")?,
                epsilon: 1e-8,
                weight_decay: settings.number("weight_decay")?,
                decay_vectors: false,
            },
        })
    }
}
