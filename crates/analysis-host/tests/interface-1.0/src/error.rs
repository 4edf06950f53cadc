//! Errors of an analysis, of a call into the host, and what of them crosses the boundary.

use std::error::Error;
use std::fmt;

/// What kind of failure a call met. It crosses the boundary as a number; an unknown one reads as `Failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The work itself failed.
    Failed,
    /// This node has no such thing, e.g. no batch.
    Unavailable,
    /// The analysis asked for what its declaration does not name.
    Undeclared,
    /// An argument is not acceptable: a name, a shape, a query.
    Invalid,
    /// The body panicked; the message is the panic's text.
    Panicked,
}

impl ErrorKind {
    pub(crate) fn code(self) -> u32 {
        match self {
            ErrorKind::Failed => 0,
            ErrorKind::Unavailable => 1,
            ErrorKind::Undeclared => 2,
            ErrorKind::Invalid => 3,
            ErrorKind::Panicked => 4,
        }
    }

    pub(crate) fn from_code(code: u32) -> Self {
        match code {
            1 => ErrorKind::Unavailable,
            2 => ErrorKind::Undeclared,
            3 => ErrorKind::Invalid,
            4 => ErrorKind::Panicked,
            _ => ErrorKind::Failed,
        }
    }
}

/// A call of the [`Context`](crate::Context) that did not succeed.
///
/// An analysis usually passes it on with `?`; one that can do without, e.g. without a batch, looks at
/// [`ContextError::kind`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextError {
    kind: ErrorKind,
    message: String,
}

impl ContextError {
    /// An error of a kind, with a lower-case message that says what to do next.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The work failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, message)
    }

    /// This node has no such thing.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// An argument is not acceptable.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The message alone.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for ContextError {}

/// Why an analysis gave up. Any error converts into it with `?`; its chain of sources becomes part of the text.
///
/// It is no `std::error::Error` itself: that is what lets every other error convert.
pub struct AnalysisError {
    message: String,
}

impl AnalysisError {
    /// An error with this text: lower-case, saying what was expected and what was found.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// The text.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for AnalysisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for AnalysisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: Error> From<E> for AnalysisError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            message.push_str(": ");
            message.push_str(&inner.to_string());
            source = inner.source();
        }
        Self { message }
    }
}

/// What comes out of a plugin's body that did not succeed: kind, text, and the backtrace of a panic if the
/// plugin's environment asked for one (`RUST_BACKTRACE=1`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure it is.
    pub kind: ErrorKind,
    /// The text, for a panic with the place in the source where it happened.
    pub message: String,
    /// Empty, or the backtrace of a panic.
    pub backtrace: String,
}

impl Failure {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Invalid, message: message.into(), backtrace: String::new() }
    }
}

impl From<AnalysisError> for Failure {
    fn from(error: AnalysisError) -> Self {
        Self { kind: ErrorKind::Failed, message: error.message, backtrace: String::new() }
    }
}

impl From<ContextError> for Failure {
    fn from(error: ContextError) -> Self {
        Self { kind: error.kind, message: error.message, backtrace: String::new() }
    }
}

impl From<Failure> for ContextError {
    fn from(failure: Failure) -> Self {
        Self { kind: failure.kind, message: failure.message }
    }
}
