//! The state that a run begins with.

use waycairn_store::ObjectReader;

use crate::any_experiment::AnyExperiment;
use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::data::{Fingerprint, Whole};
use crate::device::Compute;
use crate::error::TrainError;
use crate::job::Mode;
use crate::launch::Launch;
use crate::origin::base_settings;
use crate::progress::{Event, Progress};
use crate::request::TrainRequest;
use crate::restore::{self, Want};
use crate::settings::Settings;
use crate::trainer::TrainState;

/// What a state is made from.
pub(crate) struct Preparing<'a> {
    pub(crate) reader: &'a ObjectReader,
    pub(crate) request: &'a TrainRequest,
    pub(crate) experiment: &'a dyn AnyExperiment,
    pub(crate) settings: &'a Settings,
    pub(crate) vocabulary: usize,
    pub(crate) fingerprint: &'a Fingerprint,
    pub(crate) compute: &'a Compute,
    pub(crate) launch: &'a Launch,
    /// The checkpoint of the base, where there is one.
    pub(crate) checkpoint: Option<&'a Checkpoint>,
}

impl Preparing<'_> {
    /// Makes initial weights, or restores those of the base with everything that goes on with them.
    pub(crate) fn state(&self, mode: &Mode, progress: &mut dyn Progress) -> Result<TrainState, TrainError> {
        let mut learner = self.experiment.learner(self.settings, self.vocabulary, self.compute.device())?;
        let (base, whole, checkpoint) = match (mode, self.checkpoint) {
            (Mode::Branch(base), Some(checkpoint)) => (base, Whole::No, checkpoint),
            (Mode::Resume(base), Some(checkpoint)) => (base, Whole::Yes, checkpoint),
            _ => {
                return Ok(TrainState {
                    learner,
                    step: 0,
                    tokens: 0,
                    skipped: 0,
                    offset: 0,
                    changed_data: false,
                });
            }
        };
        let saved = &checkpoint.state().loader.fingerprint;
        // Without such a setting a branch goes on.
        let restarts =
            whole == Whole::No && self.settings.text("branch_data").is_ok_and(|data| data == "restart");
        let mut changed_data = false;
        if let Err(error) = self.fingerprint.check(saved, whole)
            && !(restarts && self.fingerprint.same_form(saved))
        {
            if !self.request.allow_changed_data {
                return Err(error.into());
            }
            progress.event(&Event::Notice(&format!("going on although {error}")));
            changed_data = true;
        }
        let want = if self.request.partial { Want::WhatFits } else { Want::Everything };
        let mismatch = restore::restore(self.reader, base, checkpoint, learner.as_mut(), want)
            .map_err(|error| self.naming_settings(error, checkpoint))?;
        if !mismatch.is_empty() {
            progress.event(&Event::Notice(&format!("restored in part; {}", mismatch.summary())));
        }
        self.compare_machines(checkpoint, progress);
        let state = checkpoint.state();
        let offset = match mode {
            Mode::Branch(_) if restarts => 0,
            Mode::Branch(_) => self.continued(state.loader.position + 1, saved),
            _ => state.loader.offset,
        };
        Ok(TrainState {
            learner,
            step: state.step,
            tokens: state.tokens,
            skipped: state.skipped,
            offset,
            changed_data: changed_data || state.loader.changed_data_allowed,
        })
    }

    /// Names the settings of the model that are not those of the checkpoint, where that is why its weights do not fit.
    fn naming_settings(&self, mut error: TrainError, checkpoint: &Checkpoint) -> TrainError {
        if let TrainError::Checkpoint { source, .. } = &mut error
            && let CheckpointError::Mismatch { saved, .. } = source.as_mut()
            && let Ok(theirs) = base_settings(checkpoint, self.experiment)
        {
            let keys = self.experiment.keys();
            let decides = |path: &str| path == "data.tokenizer" || keys.iter().any(|key| key.path() == path);
            let differences = self.settings.differences(&theirs).into_iter();
            let differences = differences.filter(|difference| decides(&difference.path));
            *saved = differences
                .map(|difference| format!("`{} = {}`", difference.path, difference.theirs))
                .collect();
        }
        error
    }

    /// The position of the first batch that begins after the examples of `positions` batches.
    fn continued(&self, positions: u64, saved: &Fingerprint) -> u64 {
        let (old, new) = (saved.global_batch(), self.fingerprint.global_batch());
        if old == new {
            return positions;
        }
        let examples = u128::from(positions) * u128::from(old);
        u64::try_from(examples.div_ceil(u128::from(new.max(1)))).unwrap_or(u64::MAX)
    }

    /// Bits are equal within one machine; where something that decides them differs, say so.
    fn compare_machines(&self, checkpoint: &Checkpoint, progress: &mut dyn Progress) {
        let (then, now) = (checkpoint.job(), self.launch);
        let mut differences = Vec::new();
        let mut compare = |what: &str, then: String, now: String| {
            if then != now {
                differences.push(format!("{what} was {then}, is {now}"));
            }
        };
        compare("the device", then.device.clone(), self.compute.name().to_owned());
        compare("the number of threads", then.threads.to_string(), now.threads.to_string());
        compare("the processor", then.cpu_features.join(" "), now.cpu_features.join(" "));
        for (name, version) in &now.packages {
            let saved = then.packages.get(name).cloned().unwrap_or_default();
            compare(name, saved, version.clone());
        }
        if !differences.is_empty() {
            let text = format!("the bits may differ from an undisturbed run: {}", differences.join("; "));
            progress.event(&Event::Notice(&text));
        }
    }
}
