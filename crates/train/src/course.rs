//! How a model is trained: what the loop reads of an experiment's settings.

use crate::any_experiment::AnyExperiment;
use crate::optimizer::{OptimizerKind, OptimizerRule};
use crate::retention::Retention;
use crate::schedule::Schedule;
use crate::settings::{Settings, SettingsError};

/// The setting of the number of steps, which has an option of its own.
pub(crate) const STEPS: &str = "steps";

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

/// How long a run is, so that what is advised about it names a setting that its experiment has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Length {
    /// The setting that says so: `steps`, or the one of the passes over its rows.
    pub setting: &'static str,
    /// Its value.
    pub value: u64,
    /// The steps that this makes.
    pub steps: u64,
}

impl Length {
    /// That of a run of so many steps; `None` where no setting says so.
    pub(crate) fn of(experiment: &dyn AnyExperiment, settings: &Settings, steps: u64) -> Option<Self> {
        let setting = experiment.length(settings)?;
        Some(Self { setting, value: settings.integer(setting).ok()?, steps })
    }

    /// The option that sets it, without a value.
    #[must_use]
    pub fn option(&self) -> String {
        if self.setting == STEPS { "--steps".to_owned() } else { format!("--set {}", self.setting) }
    }

    /// The argument that sets it.
    #[must_use]
    pub fn argument(&self, value: u64) -> String {
        let between = if self.setting == STEPS { ' ' } else { '=' };
        format!("{}{between}{value}", self.option())
    }

    /// Steps as a value of the setting, what is begun left out.
    pub(crate) fn whole(&self, steps: u64) -> u64 {
        steps / (self.steps / self.value.max(1)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_one_of_the_experiment() {
        let steps = Length { setting: STEPS, value: 20, steps: 20 };
        assert_eq!((steps.argument(40), steps.whole(7)), ("--steps 40".to_owned(), 7));
        let epochs = Length { setting: "training.epochs", value: 3, steps: 15 };
        assert_eq!(epochs.argument(6), "--set training.epochs=6");
        assert_eq!([0, 4, 5, 14, 15].map(|steps| epochs.whole(steps)), [0, 0, 1, 2, 3]);
    }
}
