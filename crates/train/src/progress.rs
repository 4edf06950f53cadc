//! What a training run tells while it runs.

use std::time::Duration;

use waycairn_dag::Node;

/// Something that happened in a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The run begins or goes on.
    Started {
        /// Where it stands.
        node: &'a Node,
        /// Steps that are done.
        done: u64,
        /// Steps in all.
        steps: u64,
        /// Trainable values.
        parameters: usize,
        /// The device that computes.
        device: &'a str,
    },
    /// A step was reported.
    Step {
        /// Its node.
        node: &'a Node,
        /// The step.
        step: u64,
        /// Steps in all.
        steps: u64,
        /// Its loss.
        loss: f64,
        /// Tokens a second since the last report.
        rate: f64,
        /// What it counts: `tokens` or `rows`.
        unit: &'static str,
        /// Steps of the run that were left out, because they were not finite.
        skipped: u64,
        /// Time that the rest will take if it goes on as it did in this launch, validations and checkpoints included.
        left: Duration,
    },
    /// A validation is done.
    Validation {
        /// Its node.
        node: &'a Node,
        /// The step.
        step: u64,
        /// Mean loss over the validation batches.
        loss: f64,
    },
    /// A checkpoint is being written in the background.
    Saving {
        /// Its node.
        node: &'a Node,
        /// The step.
        step: u64,
    },
    /// A checkpoint is complete and durable.
    Saved {
        /// Its node.
        node: &'a Node,
        /// Length of its files.
        bytes: u64,
    },
    /// Something that a user should know.
    Notice(&'a str),
}

/// Receives the events of a run.
pub trait Progress {
    /// Takes one event; called on the training thread, so it should be quick.
    fn event(&mut self, event: &Event<'_>);
}

/// Forgets every event.
impl Progress for () {
    fn event(&mut self, _event: &Event<'_>) {}
}

/// Passes events to a closure.
impl<F: FnMut(&Event<'_>)> Progress for F {
    fn event(&mut self, event: &Event<'_>) {
        self(event);
    }
}
