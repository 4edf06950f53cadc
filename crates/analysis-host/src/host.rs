//! What a host has to offer: the trait that the trainer implements for one node.

use arrow::record_batch::RecordBatchReader;
use serde_json::Value;

pub use waycairn_analysis_api::{ContextError as HostError, DType, ErrorKind, OwnedTensor, TensorView};

/// The identity of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// The name of the run.
    pub name: String,
    /// Which run of that name.
    pub nonce: String,
    /// The position.
    pub seq: u64,
    /// The address text.
    pub address: String,
}

/// One node as an analysis sees it. All of it is borrowed for one call of one analysis.
///
/// # Contract
/// - The answers are those of one position: nothing here ticks, trains or replaces state.
/// - What an analysis did not declare is never asked for.
/// - [`AnalysisHost::batch`] is asked at most once in a call, and its answer kept; the others as often as the
///   analysis likes.
/// - An error is a value that the analysis gets; a panic becomes such a value, too.
pub trait AnalysisHost {
    /// The node.
    fn node(&self) -> NodeInfo;

    /// The addresses of the recorded parents.
    fn parents(&self) -> Vec<String>;

    /// The settings that the run was trained with; `null` if none are recorded.
    fn experiment_settings(&self) -> Value;

    /// All weights, little-endian. Their names are matched against the declared patterns by this crate.
    ///
    /// # Errors
    /// `Unavailable` where the node has none.
    fn weights(&self) -> Result<&[TensorView<'_>], HostError>;

    /// The batch that training used at this position.
    ///
    /// # Errors
    /// `Unavailable` where it cannot be made again, with the reason.
    fn batch(&self) -> Result<Vec<OwnedTensor>, HostError>;

    /// Runs the model on named inputs.
    ///
    /// # Errors
    /// `Invalid` for inputs that do not fit, `Unavailable` without a model.
    fn forward(&self, inputs: &[OwnedTensor]) -> Result<Vec<OwnedTensor>, HostError>;

    /// Recorded scalars: one row for each node that the expression finds (an empty one finds every node), one
    /// column for each key.
    ///
    /// # Errors
    /// `Invalid` for a malformed expression, with its place.
    fn scalars(
        &self,
        expression: &str,
        keys: &[String],
    ) -> Result<Box<dyn RecordBatchReader + Send>, HostError>;
}
