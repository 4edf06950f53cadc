//! The host's side of the boundary. An author of an analysis needs nothing of this module.
//!
//! A host finds the symbol [`SYMBOL`] in an opened library and hands its address to [`open`], which checks who
//! built it and how before it calls anything, and answers a [`Plugin`]. The library must stay open for the rest
//! of the process: what it exports is used as `'static`.

use std::fmt;

use crate::context::LogLevel;
use crate::error::ContextError;
use crate::scalar::Scalar;
use crate::stream::ArrowStream;
use crate::view::{OwnedTensor, TensorView};

pub use crate::abi::arrow::{ArrowArray, ArrowArrayStream, ArrowSchema};
pub use crate::abi::open::{Plugin, SYMBOL, open, stream_from_raw};
pub use crate::study::pick;

/// The version of the interface that this host was built with.
pub const API_VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is known of a node before the call; an analysis reads it without calling the host.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The name of the run.
    pub name: String,
    /// Which run of that name.
    pub nonce: String,
    /// The position.
    pub seq: u64,
    /// The address.
    pub address: String,
    /// The addresses of the recorded parents.
    pub parents: Vec<String>,
    /// The settings of the analysis, defaults filled in, as JSON text.
    pub settings: String,
    /// The settings of the run as JSON text; `null` if none.
    pub experiment_settings: String,
    /// What the analysis reads of the settings of a study as JSON text; `null` or empty outside a study.
    pub study: String,
}

/// A product, borrowed for one call.
#[derive(Clone, Debug, Default)]
pub struct Parts<'a> {
    /// Its key.
    pub key: &'a str,
    /// What its builder said about it as JSON text, an object.
    pub metadata: &'a str,
    /// Its arrays.
    pub arrays: Vec<TensorView<'a>>,
    /// Its JSON members: names without `.json`, and texts.
    pub documents: Vec<(&'a str, &'a str)>,
}

/// What an analysis may call. A panic in any of these becomes a `Panicked` error at the caller's side.
pub trait Host {
    /// The tensors that the analysis may see.
    ///
    /// # Errors
    /// See [`Context::weights`](crate::Context::weights).
    fn weights(&self) -> Result<Vec<TensorView<'_>>, ContextError>;

    /// The batch of the node.
    ///
    /// # Errors
    /// See [`Context::batch`](crate::Context::batch).
    fn batch(&self) -> Result<Vec<TensorView<'_>>, ContextError>;

    /// Runs the model.
    ///
    /// # Errors
    /// See [`Context::forward`](crate::Context::forward).
    fn forward(&self, inputs: &[TensorView<'_>]) -> Result<Vec<OwnedTensor>, ContextError>;

    /// Reads recorded scalars.
    ///
    /// # Errors
    /// See [`Context::scalars`](crate::Context::scalars).
    fn scalars(&self, expression: &str, keys: &[&str]) -> Result<ArrowStream, ContextError>;

    /// Writes a line to the log.
    fn log(&self, level: LogLevel, text: &str);

    /// Takes an artifact.
    ///
    /// # Errors
    /// See [`Context::emit_artifact`](crate::Context::emit_artifact).
    fn emit_artifact(
        &self,
        suffix: &str,
        description: Vec<(String, Scalar)>,
        payload: &[u8],
    ) -> Result<(), ContextError>;

    /// Takes a scalar.
    ///
    /// # Errors
    /// See [`Context::emit_scalar`](crate::Context::emit_scalar).
    fn emit_scalar(&self, key: &str, value: Scalar) -> Result<(), ContextError>;

    /// Takes a file.
    ///
    /// # Errors
    /// See [`Context::emit_figure`](crate::Context::emit_figure).
    fn emit_file(&self, name: &str, media_type: &str, bytes: &[u8]) -> Result<(), ContextError>;

    /// Gives a product.
    ///
    /// # Errors
    /// See [`Context::product`](crate::Context::product).
    fn product(&self, name: &str) -> Result<Parts<'_>, ContextError> {
        Err(ContextError::unavailable(format!("there is no product `{name}` here: products are a study's")))
    }

    /// Calls a named function of the experiment.
    ///
    /// # Errors
    /// See [`Context::call`](crate::Context::call).
    fn call(&self, function: &str, inputs: &[TensorView<'_>]) -> Result<Vec<OwnedTensor>, ContextError> {
        let _ = inputs;
        Err(ContextError::unavailable(format!("the experiment has no function `{function}`")))
    }

    /// Takes the answer of a metric as JSON text.
    ///
    /// # Errors
    /// See [`Context::emit_metric`](crate::Context::emit_metric).
    fn emit_metric(&self, text: &str) -> Result<(), ContextError> {
        let _ = text;
        Err(ContextError::unavailable("metrics are a study's"))
    }

    /// Is told how far the analysis is.
    fn progress(&self, done: u64, total: u64, what: &str) {
        let _ = (done, total, what);
    }

    /// Whether the host wants the analysis to give up.
    fn cancelled(&self) -> bool {
        false
    }
}

/// What a builder may call. A panic in any of these becomes a `Panicked` error at the caller's side.
pub trait BuildHost {
    /// What the selector returned, as JSON text.
    fn settings(&self) -> &str;

    /// Gives a dependency.
    ///
    /// # Errors
    /// See [`BuildContext::product`](crate::BuildContext::product).
    fn product(&self, name: &str) -> Result<Parts<'_>, ContextError>;

    /// The weights of the model.
    ///
    /// # Errors
    /// See [`BuildContext::weights`](crate::BuildContext::weights).
    fn weights(&self) -> Result<Vec<TensorView<'_>>, ContextError>;

    /// The batch of the model's node.
    ///
    /// # Errors
    /// See [`BuildContext::batch`](crate::BuildContext::batch).
    fn batch(&self) -> Result<Vec<TensorView<'_>>, ContextError>;

    /// Runs the model.
    ///
    /// # Errors
    /// See [`BuildContext::forward`](crate::BuildContext::forward).
    fn forward(&self, inputs: &[TensorView<'_>]) -> Result<Vec<OwnedTensor>, ContextError>;

    /// Calls a function of the experiment.
    ///
    /// # Errors
    /// See [`BuildContext::call`](crate::BuildContext::call).
    fn call(&self, function: &str, inputs: &[TensorView<'_>]) -> Result<Vec<OwnedTensor>, ContextError>;

    /// Makes an array, zeros, and lends its elements to the caller alone for as long as this value is borrowed.
    ///
    /// # Errors
    /// See [`BuildContext::array`](crate::BuildContext::array).
    #[expect(clippy::mut_from_ref, reason = "as an arena does: each answer is memory of its own")]
    fn array(&self, name: &str, dtype: &str, shape: &[usize]) -> Result<&mut [u8], ContextError>;

    /// Takes a JSON member.
    ///
    /// # Errors
    /// See [`BuildContext::json`](crate::BuildContext::json).
    fn json(&self, name: &str, text: &str) -> Result<(), ContextError>;

    /// Takes what is said about the product, as JSON text.
    ///
    /// # Errors
    /// See [`BuildContext::metadata`](crate::BuildContext::metadata).
    fn metadata(&self, key: &str, text: &str) -> Result<(), ContextError>;

    /// Is told how far the builder is.
    fn progress(&self, done: u64, total: u64, what: &str);

    /// Writes a line to the log.
    fn log(&self, level: LogLevel, text: &str);

    /// Whether the host wants the builder to give up.
    fn cancelled(&self) -> bool;
}

/// Why a library that was opened is no plugin of this host.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The symbol is there, and what it points to was made by another way of building plugins.
    Foundation {
        /// What differs.
        text: String,
    },
    /// Another major version of the interface.
    Api {
        /// The plugin's version.
        plugin: String,
        /// The host's version.
        host: String,
    },
    /// The same major version, and types that differ.
    Layout {
        /// What the host has.
        expected: String,
        /// What the plugin has.
        found: String,
        /// The whole comparison; may be tens of kilobytes.
        detail: String,
    },
    /// The plugin could not set itself up.
    Start {
        /// What it said.
        text: String,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Foundation { text } => write!(f, "not built by this interface: {text}"),
            OpenError::Api { plugin, host } => {
                write!(f, "built for interface {plugin}, this host has {host}")
            }
            OpenError::Layout { expected, found, .. } => {
                write!(f, "its types differ: expected {expected}, found {found}")
            }
            OpenError::Start { text } => write!(f, "it could not start: {text}"),
        }
    }
}

impl std::error::Error for OpenError {}
