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

/// A product of a study, as an analysis or a builder sees it. What it shows is mapped and borrowed for one call.
#[derive(Clone, Debug, Default)]
pub struct ProductData<'a> {
    /// Its key.
    pub key: String,
    /// What its builder said about it, an object.
    pub metadata: Value,
    /// Its arrays, by name without `.npy`, aligned for their elements.
    pub arrays: Vec<TensorView<'a>>,
    /// Its JSON members: names without `.json`, and texts.
    pub json: Vec<(String, String)>,
}

/// One node as an analysis sees it. All of it is borrowed for one call of one analysis.
///
/// # Contract
/// - The answers are those of one position: nothing here ticks, trains or replaces state.
/// - What an analysis did not declare is never asked for.
/// - [`AnalysisHost::batch`], and [`AnalysisHost::product`] for one name, are asked at most once in a call, and the answer
///   kept; the others as often as the analysis likes.
/// - An error is a value that the analysis gets; a panic becomes such a value, too.
/// - [`AnalysisHost::threads`] is asked before the first call of a library, of an analysis or a builder, and what it answers
///   then is what the library was told.
pub trait AnalysisHost {
    /// How many threads compute here, at least one: as many as pools of the library's own may have. The library has statics of
    /// its own, so what the program set for itself does not reach it.
    fn threads(&self) -> usize;

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

    /// A product of the study that the node belongs to, built before.
    ///
    /// # Errors
    /// `Unavailable` outside a study, and for a product that it does not have.
    fn product(&self, name: &str) -> Result<ProductData<'_>, HostError> {
        Err(HostError::unavailable(format!(
            "there is no product `{name}` here: products belong to a study; run this analysis in one"
        )))
    }

    /// Calls a named function of the experiment.
    ///
    /// # Errors
    /// `Unavailable` for one that it does not have, `Invalid` for inputs that do not fit.
    fn call(&self, function: &str, inputs: &[OwnedTensor]) -> Result<Vec<OwnedTensor>, HostError> {
        let _ = inputs;
        Err(HostError::unavailable(format!("this experiment has no function `{function}`")))
    }

    /// The functions that the experiment has, so that an analysis that needs another is refused before it is called;
    /// `None` where that is not known before the call.
    fn functions(&self) -> Option<Vec<String>> {
        None
    }

    /// The complete settings of the study: an object of `training`, `analysis` and `member`. `null` outside a study.
    /// The analysis gets the paths that it declared.
    fn study(&self) -> Value {
        Value::Null
    }

    /// Is told how far the analysis is. A total of 0 is an unknown one.
    fn progress(&self, done: u64, total: u64, what: &str) {
        let _ = (done, total, what);
    }

    /// Whether the analysis should give up.
    fn cancelled(&self) -> bool {
        false
    }
}

/// What a builder may ask for; implemented over the cache for one artifact in the making.
///
/// # Contract
/// - What a product did not declare is never asked for.
/// - [`ProductHost::batch`], and [`ProductHost::product`] for one name, are asked at most once in a call.
/// - Names of arrays and JSON members are plain and asked for once each. If the call of the builder fails, all of it is
///   thrown away by the caller.
/// - An error is a value that the builder gets; a panic becomes such a value, too.
pub trait ProductHost {
    /// As [`AnalysisHost::threads`].
    fn threads(&self) -> usize;

    /// What the selector returned.
    fn settings(&self) -> &Value;

    /// A product that this one depends on, or the `model`.
    ///
    /// # Errors
    /// `Unavailable` for one that there is not.
    fn product(&self, name: &str) -> Result<ProductData<'_>, HostError>;

    /// Makes an array of zeros. It is kept until the call of the builder has ended, lent to the builder alone, and dropped
    /// before [`ForeignProduct::build`](crate::ForeignProduct::build) returns.
    ///
    /// # Errors
    /// `Failed` if it cannot be made.
    fn array(&self, name: &str, dtype: DType, shape: &[usize]) -> Result<Box<dyn Bytes + '_>, HostError>;

    /// Takes a JSON member, as text.
    ///
    /// # Errors
    /// `Failed` if it cannot be written.
    fn json(&self, name: &str, text: &str) -> Result<(), HostError>;

    /// Takes what the builder says about the product. A later value of one key replaces the earlier one.
    ///
    /// # Errors
    /// `Invalid` for what cannot be kept.
    fn metadata(&self, key: &str, value: Value) -> Result<(), HostError>;

    /// The weights of the model.
    ///
    /// # Errors
    /// `Unavailable` without one.
    fn weights(&self) -> Result<&[TensorView<'_>], HostError> {
        Err(HostError::unavailable("there is no model here"))
    }

    /// The batch of the node that the model was taken at.
    ///
    /// # Errors
    /// `Unavailable` where it cannot be made again, with the reason.
    fn batch(&self) -> Result<Vec<OwnedTensor>, HostError> {
        Err(HostError::unavailable("there is no batch here"))
    }

    /// Runs the model on named inputs.
    ///
    /// # Errors
    /// `Invalid` for inputs that do not fit, `Unavailable` without a model.
    fn forward(&self, inputs: &[OwnedTensor]) -> Result<Vec<OwnedTensor>, HostError> {
        let _ = inputs;
        Err(HostError::unavailable("there is no model here"))
    }

    /// Calls a named function of the experiment.
    ///
    /// # Errors
    /// `Unavailable` for one that it does not have, `Invalid` for inputs that do not fit.
    fn call(&self, function: &str, inputs: &[OwnedTensor]) -> Result<Vec<OwnedTensor>, HostError> {
        let _ = inputs;
        Err(HostError::unavailable(format!("this experiment has no function `{function}`")))
    }

    /// Is told how far the builder is. A total of 0 is an unknown one.
    fn progress(&self, done: u64, total: u64, what: &str) {
        let _ = (done, total, what);
    }

    /// Whether the builder should give up.
    fn cancelled(&self) -> bool {
        false
    }
}

/// The bytes of an array in the making: a mapped file as a rule.
///
/// Answer the same bytes each time, aligned for the elements of the array, as many as its shape needs.
pub trait Bytes {
    /// Lends them.
    fn bytes(&mut self) -> &mut [u8];
}
