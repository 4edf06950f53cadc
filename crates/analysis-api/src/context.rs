//! What an analysis is given for the length of one call.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::abi;
use crate::built::ProductView;
use crate::error::ContextError;
use crate::json;
use crate::scalar::Scalar;
use crate::stream::ArrowStream;
use crate::view::{OwnedTensor, TensorView, Tensors};

/// The node that an analysis looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node<'a> {
    /// The name of its run.
    pub name: &'a str,
    /// Which run of that name.
    pub nonce: &'a str,
    /// The position in the run.
    pub seq: u64,
    /// The address: URL-safe text that stands for all three.
    pub address: &'a str,
}

/// How important a line of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Of use to the author.
    Debug,
    /// Worth a line.
    Info,
    /// Odd, and the result still stands.
    Warn,
    /// The result is doubtful.
    Error,
}

impl LogLevel {
    pub(crate) fn code(self) -> u8 {
        match self {
            LogLevel::Debug => 1,
            LogLevel::Info => 2,
            LogLevel::Warn => 3,
            LogLevel::Error => 4,
        }
    }

    pub(crate) fn from_code(code: u8) -> Self {
        match code {
            0 | 1 => LogLevel::Debug,
            3 => LogLevel::Warn,
            4 => LogLevel::Error,
            _ => LogLevel::Info,
        }
    }
}

/// A node, what belongs to it, and the way to attach results to it. Valid for one call of
/// [`Analysis::analyze`](crate::Analysis::analyze).
///
/// # Concurrency
/// The context stays on the thread of the call. The views it gives may be read from any number of threads
/// that end before the call does, e.g. under `std::thread::scope` or rayon.
///
/// # Lifetimes
/// No view outlives the context (ABI-3), which the compiler sees to:
///
/// ```compile_fail
/// use waycairn_analysis_api::{AnalysisError, Context, Tensors};
///
/// fn escape(context: &Context<'_>) -> Result<Tensors<'static>, AnalysisError> {
///     Ok(context.weights()?)
/// }
/// ```
pub struct Context<'a> {
    raw: abi::ContextObject<'a>,
    settings: Value,
    experiment_settings: Value,
    study: Value,
}

impl<'a> Context<'a> {
    pub(crate) fn new(raw: abi::ContextObject<'a>) -> Result<Self, ContextError> {
        let read = |what: &str, text: &str| {
            serde_json::from_str(text)
                .map_err(|error| ContextError::invalid(format!("the host's {what} are no JSON: {error}")))
        };
        let settings = read("settings", abi::settings(&raw))?;
        let experiment_settings = read("experiment settings", abi::experiment_settings(&raw))?;
        let study = match abi::study(&raw) {
            "" => Value::Null,
            text => read("settings of the study", text)?,
        };
        Ok(Self { raw, settings, experiment_settings, study })
    }

    /// The node.
    #[must_use]
    pub fn node(&self) -> Node<'_> {
        abi::node(&self.raw)
    }

    /// The addresses of the recorded parents.
    #[must_use]
    pub fn parents(&self) -> Vec<&str> {
        abi::parents(&self.raw)
    }

    /// The settings of the analysis: a JSON object with every default filled in, checked against the declaration.
    #[must_use]
    pub fn settings(&self) -> &Value {
        &self.settings
    }

    /// The settings as the author's own type.
    ///
    /// # Errors
    /// `Invalid` if they do not fit that type.
    pub fn settings_as<T: DeserializeOwned>(&self) -> Result<T, ContextError> {
        T::deserialize(&self.settings)
            .map_err(|error| ContextError::invalid(format!("settings of the analysis: {error}")))
    }

    /// The settings that the run was trained with, as recorded; `null` if none were.
    #[must_use]
    pub fn experiment_settings(&self) -> &Value {
        &self.experiment_settings
    }

    /// What the analysis reads of the settings of its study: the paths of [`Needs::study`](crate::Needs::study) and no
    /// others, nested as they are there. `null` where the node is looked at outside a study.
    #[must_use]
    pub fn study(&self) -> &Value {
        &self.study
    }

    /// The weights at this node that match the declared patterns. Nothing is copied, and a mapped file is read
    /// only where a view is.
    ///
    /// # Errors
    /// `Undeclared` without `Needs::weights`; `Unavailable` if this node has none.
    pub fn weights(&self) -> Result<Tensors<'_>, ContextError> {
        abi::weights(&self.raw).map(Tensors::new)
    }

    /// The batch of this node: the tensors that training used at this position.
    ///
    /// # Errors
    /// `Undeclared` without `Needs::batch`; `Unavailable` if it cannot be made again.
    pub fn batch(&self) -> Result<Tensors<'_>, ContextError> {
        abi::batch(&self.raw).map(Tensors::new)
    }

    /// Runs the model of this node on named tensors and answers its named outputs.
    ///
    /// # Errors
    /// `Undeclared` without `Needs::forward`; `Invalid` for inputs that do not fit the model.
    pub fn forward(&self, inputs: &[TensorView<'_>]) -> Result<Vec<OwnedTensor>, ContextError> {
        abi::forward(&self.raw, inputs)
    }

    /// Calls a function of the experiment that made this node, e.g. `loss` of `gpt`. What there are, and what they
    /// take, is the experiment's to say: `waycairn plugins --functions` lists it.
    ///
    /// # Errors
    /// `Undeclared` without `Needs::function`; `Unavailable` for one that the experiment does not have; `Invalid` for
    /// inputs that do not fit it.
    pub fn call(&self, function: &str, inputs: &[TensorView<'_>]) -> Result<Vec<OwnedTensor>, ContextError> {
        abi::call(&self.raw, function, inputs)
    }

    /// A product of the study that this node belongs to. It was found or built before the call; nothing is copied.
    ///
    /// # Errors
    /// `Undeclared` without `Needs::product`; `Unavailable` outside a study.
    pub fn product(&self, name: &str) -> Result<ProductView<'_>, ContextError> {
        ProductView::new(name, abi::product(&self.raw, name)?)
    }

    /// Recorded scalars as a stream of Arrow record batches: one row for each node that the expression finds (an
    /// empty one finds every node), one column for each key.
    ///
    /// # Errors
    /// `Undeclared` for a key outside `Needs::scalars`; `Invalid` for a malformed expression, with its place.
    pub fn scalars(&self, expression: &str, keys: &[&str]) -> Result<ArrowStream, ContextError> {
        abi::scalars(&self.raw, expression, keys)
    }

    /// Writes a line to the host's log.
    pub fn log(&self, level: LogLevel, text: &str) {
        abi::log(&self.raw, level, text);
    }

    /// Tells the host how far the work is: `done` of `total` steps, and of what. A total of 0 is an unknown one.
    pub fn progress(&self, done: u64, total: u64, what: &str) {
        abi::progress(&self.raw, done, total, what);
    }

    /// Whether the host wants the analysis to give up. Long loops ask now and then, and return an error.
    #[must_use]
    pub fn cancelled(&self) -> bool {
        abi::cancelled(&self.raw)
    }

    /// Answers a metric: one JSON value, whose name is the metric's. Once in a call.
    ///
    /// # Errors
    /// `Invalid` for an analysis that is not declared as a metric, for a second answer, and for a value with a number
    /// that JSON does not have: NaN or an infinity, named by its path.
    pub fn emit_metric(&self, value: &impl Serialize) -> Result<(), ContextError> {
        abi::emit_metric(&self.raw, &json::to_text("the metric", value)?)
    }

    /// Attaches an artifact: any serialisable value as MessagePack, fields by name. Arrays go in as
    /// [`NdArray`](crate::NdArray).
    ///
    /// The suffix names it at the node: letters, digits, `.`, `_`, `-`. The description is recorded as scalars
    /// `<suffix>/<key>`. A later run replaces the artifact of the same suffix.
    ///
    /// # Errors
    /// `Invalid` for a suffix or a key that is not plain, or used twice in this call; for a value that does not
    /// serialise.
    pub fn emit_artifact(
        &self,
        suffix: &str,
        description: &[(&str, Scalar)],
        payload: &impl Serialize,
    ) -> Result<(), ContextError> {
        let bytes = rmp_serde::to_vec_named(payload).map_err(|error| {
            ContextError::invalid(format!("artifact `{suffix}` does not serialise: {error}"))
        })?;
        abi::emit_artifact(&self.raw, suffix, description, &bytes)
    }

    /// Records a scalar as `<analysis>/<key>` of the node.
    ///
    /// # Errors
    /// `Invalid` for a key that is empty, reserved or used twice in this call.
    pub fn emit_scalar(&self, key: &str, value: impl Into<Scalar>) -> Result<(), ContextError> {
        abi::emit_scalar(&self.raw, key, &value.into())
    }

    /// Attaches a JSON file, `<analysis>.<name>.json`.
    ///
    /// # Errors
    /// `Invalid` for a name that is not plain or used twice in this call; for a value that does not serialise.
    pub fn emit_json(&self, name: &str, value: &impl Serialize) -> Result<(), ContextError> {
        let bytes = serde_json::to_vec(value)
            .map_err(|error| ContextError::invalid(format!("file `{name}` does not serialise: {error}")))?;
        abi::emit_file(&self.raw, name, "application/json", &bytes)
    }

    /// Attaches a figure, `<analysis>.<name>.<extension of the media type>`.
    ///
    /// # Errors
    /// `Invalid` for a media type other than `image/svg+xml`, `image/png`, `image/jpeg`, `application/pdf`,
    /// `text/html`, `text/plain`, `text/csv`; for a name that is not plain or used twice in this call.
    pub fn emit_figure(&self, name: &str, media_type: &str, bytes: &[u8]) -> Result<(), ContextError> {
        abi::emit_file(&self.raw, name, media_type, bytes)
    }
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("node", &self.node()).finish_non_exhaustive()
    }
}
