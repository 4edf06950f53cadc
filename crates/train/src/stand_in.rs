//! The branch of a base whose checkpoint cannot be used.
//!
//! A command that began a branch goes on with it, and needs its base for nothing but the settings that the branch's own
//! were made from. They stand in every checkpoint of the base's run, because a run keeps its settings; and where none
//! is left, the branch's own settings tell whether the command could have made them.

use waycairn_dag::Node;
use waycairn_durable::Digest;
use waycairn_store::ObjectReader;

use crate::any_experiment::Experiments;
use crate::checkpoint::{Checkpoint, Depth};
use crate::identity::Known;
use crate::known::known_runs;
use crate::origin::{Overlay, base_settings};
use crate::request::TrainRequest;
use crate::restore;

/// Looks for the settings of a base without its checkpoint.
pub(crate) struct StandIn<'a> {
    pub(crate) reader: &'a ObjectReader,
    pub(crate) request: &'a TrainRequest,
    pub(crate) experiments: &'a Experiments,
    pub(crate) overlay: &'a Overlay,
}

impl StandIn<'_> {
    /// Returns a checkpoint whose settings lead this command to the branch that it began at `base`; `None` where it
    /// began none that could go on, or where that cannot be told.
    pub(crate) fn find(&self, base: &Node) -> Option<Checkpoint> {
        let name = self.request.name.as_deref().unwrap_or(base.name());
        let address = base.address();
        let mut branches = known_runs(self.reader, name).ok()?;
        branches.retain(|run| {
            let of_base = run.key.as_ref().is_some_and(|key| key.base == address.as_str());
            of_base && (run.finished || !run.checkpoints.is_empty())
        });
        if branches.is_empty() {
            return None;
        }
        if let Some(sibling) = self.sibling(base) {
            let wanted = self.wanted(&sibling)?;
            return branches.iter().any(|run| settings_of(run) == Some(wanted)).then_some(sibling);
        }
        let mut own = branches.iter().filter_map(|run| self.own(name, run));
        // Of two, either could be meant.
        own.next().filter(|_| own.next().is_none())
    }

    /// Another checkpoint of the base's run: the digest that the run recorded proves its settings.
    fn sibling(&self, base: &Node) -> Option<Checkpoint> {
        let runs = known_runs(self.reader, base.name()).ok()?;
        let run = runs.into_iter().find(|run| run.nonce == base.nonce())?;
        let others = run.checkpoints.iter().rev().filter(|seq| **seq != base.seq());
        let mut others = others.filter_map(|seq| self.proven(&base.at(*seq).ok()?, &run));
        others.next()
    }

    /// The newest checkpoint of a branch, if this command's settings laid over its own change nothing.
    fn own(&self, name: &str, run: &Known) -> Option<Checkpoint> {
        let node = Node::new(name, &run.nonce, *run.checkpoints.last()?).ok()?;
        let checkpoint = self.proven(&node, run)?;
        (self.wanted(&checkpoint) == settings_of(run)).then_some(checkpoint)
    }

    /// A checkpoint of a run, if its settings are those that the run recorded.
    fn proven(&self, node: &Node, run: &Known) -> Option<Checkpoint> {
        let checkpoint = restore::open(self.reader, node, Depth::Weights).ok()?;
        let experiment = self.experiments.find(Some(&checkpoint.job().experiment)).ok()?;
        let settings = base_settings(&checkpoint, experiment.as_ref()).ok()?;
        (settings.digest().ok() == settings_of(run)).then_some(checkpoint)
    }

    /// The digest of the settings that this command makes of a checkpoint's.
    fn wanted(&self, checkpoint: &Checkpoint) -> Option<Digest> {
        let name = self.request.experiment.as_deref().unwrap_or(&checkpoint.job().experiment);
        let experiment = self.experiments.find(Some(name)).ok()?;
        let settings = base_settings(checkpoint, experiment.as_ref()).ok()?;
        self.overlay.lay(settings, self.request).and_then(|settings| settings.digest()).ok()
    }
}

fn settings_of(run: &Known) -> Option<Digest> {
    run.key.as_ref().map(|key| key.settings_sha256)
}
