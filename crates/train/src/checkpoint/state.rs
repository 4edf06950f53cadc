//! `state.json`: counters, data offset, the optimizer's scalars.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::data::Fingerprint;
use crate::moments::SavedScalar;

/// The version that this program writes and the newest that it reads.
pub(crate) const VERSION: u32 = 1;

/// What a job needs, besides weights and moments, to go on after a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    /// [`VERSION`].
    pub(crate) version: u32,
    /// Address of the node.
    pub(crate) node: String,
    /// Optimizer steps that are done.
    pub(crate) step: u64,
    /// Tokens that were trained on.
    pub(crate) tokens: u64,
    /// Steps that were skipped because of a loss or gradient that was not finite.
    pub(crate) skipped: u64,
    /// Where the learning rate stands.
    pub(crate) schedule: ScheduleState,
    /// Where the data stands.
    pub(crate) loader: LoaderState,
    /// The loss scaler of mixed precision; always null with `precision = "f32"`.
    pub(crate) scaler: Option<f64>,
    /// The optimizer's scalars by `<path>.<field>`.
    pub(crate) optimizer: BTreeMap<String, SavedScalar>,
}

/// The learning rate of the last step; the next one follows from the settings and the step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleState {
    pub(crate) learning_rate: f64,
}

/// Where a run stands in its data stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoaderState {
    /// Position of the run's seq 0.
    pub(crate) offset: u64,
    /// Position of this node: offset + seq.
    pub(crate) position: u64,
    /// What the stream is a function of.
    pub(crate) fingerprint: Fingerprint,
    /// Whether a difference to the base's data was allowed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) changed_data_allowed: bool,
}
