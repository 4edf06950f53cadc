//! The lifecycle of one run: a clock, a store, a state.

use std::sync::Arc;

use waycairn_dag::{AddressError, Clock, ClockView, Node, Nonce};
use waycairn_store::{ObjectStore, RecordError};

/// How a job begins.
///
/// | mode | state | node afterwards |
/// | --- | --- | --- |
/// | `Fresh` | initialised | own name, own nonce, seq 0, no parent |
/// | `Branch` | restored from the base | own name, own nonce, seq 0, parent = base |
/// | `Resume` | restored from the base | the base's own identity |
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Begin from initial weights.
    Fresh,
    /// Begin a new run from the state of a node.
    Branch(Node),
    /// Go on with the run of a node.
    Resume(Node),
}

/// A job that cannot do what is asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// There is no node to work at yet.
    #[error("the job was not set up")]
    NotSetUp,
    /// The run's name or position cannot be an address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The store refused a record.
    #[error("the node could not be recorded")]
    Record(#[from] RecordError),
}

/// The clock, the store and the state of one run.
///
/// Setting up is idempotent: after one success a further call keeps the prepared state and node,
/// whatever it asks for; after a failure it may be tried again. It records nothing.
#[derive(Debug)]
pub(crate) struct Job<S> {
    store: Arc<ObjectStore>,
    name: String,
    nonce: String,
    prepared: Option<Prepared<S>>,
    ticks: u64,
}

#[derive(Debug)]
struct Prepared<S> {
    clock: Clock,
    state: S,
    /// The base of a resume: recorded by an earlier launch.
    recorded: Option<Node>,
    /// The node that the last tick left.
    before: Option<Node>,
    /// A resumed job stands at its base until the first batch is wanted.
    waits: bool,
}

impl<S> Job<S> {
    /// Makes a job that will have this name and, unless it resumes, this nonce.
    pub(crate) fn new(store: Arc<ObjectStore>, name: &str, nonce: &str) -> Self {
        Self { store, name: name.to_owned(), nonce: nonce.to_owned(), prepared: None, ticks: 0 }
    }

    /// Prepares state and node; see [`Mode`].
    pub(crate) fn setup<E: From<JobError>>(
        &mut self,
        mode: &Mode,
        initialise: impl FnOnce(&Mode) -> Result<S, E>,
    ) -> Result<(), E> {
        if self.prepared.is_some() {
            return Ok(());
        }
        let own = |parent: Option<&Node>| -> Result<Node, JobError> {
            let node = Node::new(&self.name, &self.nonce, 0)?;
            Ok(node.with_parent(parent.map(Node::address)))
        };
        let (node, recorded) = match mode {
            Mode::Fresh => (own(None)?, None),
            Mode::Branch(base) => (own(Some(base))?, None),
            Mode::Resume(base) => (base.clone().with_parent(None), Some(base.clone())),
        };
        let state = initialise(mode)?;
        self.prepared = Some(Prepared {
            clock: Clock::new(node),
            state,
            waits: recorded.is_some(),
            recorded,
            before: None,
        });
        Ok(())
    }

    /// Goes to the node of the next step: a resumed job ticks once, however often this is called.
    pub(crate) fn begin(&mut self) -> Result<(), JobError> {
        let prepared = self.prepared.as_mut().ok_or(JobError::NotSetUp)?;
        if std::mem::take(&mut prepared.waits) {
            self.tick()?;
        }
        Ok(())
    }

    /// Records the live node if nothing was recorded at it (process 0 only), then goes to its successor.
    ///
    /// Neither a flush, nor a save, nor an optimizer step.
    pub(crate) fn tick(&mut self) -> Result<Node, JobError> {
        let prepared = self.prepared.as_mut().ok_or(JobError::NotSetUp)?;
        let node = prepared.clock.node();
        let recorded = prepared.recorded.as_ref() == Some(&node) || self.store.has_recorded(&node);
        if !recorded && self.store.process() == 0 {
            self.store.value(&node, &[])?;
        }
        self.pass()
    }

    /// Goes to the successor of the live node, whatever was recorded at it.
    pub(crate) fn pass(&mut self) -> Result<Node, JobError> {
        let prepared = self.prepared.as_mut().ok_or(JobError::NotSetUp)?;
        let node = prepared.clock.node();
        let next = prepared.clock.tick()?;
        prepared.before = Some(node);
        self.ticks += 1;
        Ok(next)
    }

    /// Records in another store from now on.
    pub(crate) fn use_store(&mut self, store: Arc<ObjectStore>) {
        self.store = store;
    }

    /// Gives up the live node, at which nothing was recorded, and returns where the job ends instead: at the node
    /// before, as if the last tick had not been. Without a tick it ends where it began.
    ///
    /// The clock itself never goes back, so the job is over then.
    pub(crate) fn give_up(&mut self) -> Result<Node, JobError> {
        let prepared = self.prepared.as_mut().ok_or(JobError::NotSetUp)?;
        Ok(match prepared.before.take() {
            Some(before) => {
                self.ticks -= 1;
                before
            }
            None => prepared.clock.node(),
        })
    }

    /// Returns the live node.
    pub(crate) fn node(&self) -> Result<Node, JobError> {
        self.prepared().map(|prepared| prepared.clock.node())
    }

    /// Returns a view that follows the live node.
    pub(crate) fn view(&self) -> Result<ClockView, JobError> {
        self.prepared().map(|prepared| prepared.clock.view())
    }

    /// Returns the state.
    pub(crate) fn state(&self) -> Result<&S, JobError> {
        self.prepared().map(|prepared| &prepared.state)
    }

    /// Returns the state, to be changed.
    pub(crate) fn state_mut(&mut self) -> Result<&mut S, JobError> {
        let prepared = self.prepared.as_mut().ok_or(JobError::NotSetUp)?;
        Ok(&mut prepared.state)
    }

    /// Returns the store.
    pub(crate) fn store(&self) -> &Arc<ObjectStore> {
        &self.store
    }

    /// Returns how often this job ticked, to nodes that were not given up.
    pub(crate) fn ticks(&self) -> u64 {
        self.ticks
    }

    fn prepared(&self) -> Result<&Prepared<S>, JobError> {
        self.prepared.as_ref().ok_or(JobError::NotSetUp)
    }
}

/// Draws a nonce from the system's random source.
pub(crate) fn new_nonce() -> Result<Nonce, getrandom::Error> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)?;
    Ok(Nonce::from_random(bytes))
}

#[cfg(test)]
#[path = "job/tests.rs"]
mod tests;
