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
