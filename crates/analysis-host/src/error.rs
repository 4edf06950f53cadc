//! Why a library was refused, and why a run of an analysis brought nothing.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a file is no plugin of this host.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// There is nothing at this path.
    #[error("no such file: `{path}`", path = path.display())]
    NotFound {
        /// The path as it was given.
        path: PathBuf,
    },
    /// There is no folder at this path.
    #[error("no such folder: `{path}`; name one that is there", path = path.display())]
    NoFolder {
        /// The path as it was given.
        path: PathBuf,
    },
    /// A folder where a library was named.
    #[error("`{path}` is a folder, not a library; name the library in it, or give it as a plugin folder", path = path.display())]
    IsDirectory {
        /// The path as it was given.
        path: PathBuf,
    },
    /// A file where a folder was named.
    #[error("`{path}` is not a folder; name a library by its file", path = path.display())]
    NotAFolder {
        /// The path as it was given.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("`{path}` is not a dynamic library but {found}", path = path.display())]
    NotALibrary {
        /// The path as it was given.
        path: PathBuf,
        /// What it is, and what to do if that is a known mistake.
        found: String,
    },
    /// A library for another machine or system.
    #[error("`{path}` is a library for {found}, this host runs on {expected}; build it for this machine", path = path.display())]
    Architecture {
        /// The path as it was given.
        path: PathBuf,
        /// What the library is for.
        found: String,
        /// What this host is.
        expected: String,
    },
    /// The file's tables point outside it, so that opening it would end the process.
    #[error("`{path}` is a truncated or damaged library: {what}; build or copy it again", path = path.display())]
    Truncated {
        /// The path as it was given.
        path: PathBuf,
        /// What does not fit.
        what: String,
    },
    /// A library that exports no analyses.
    #[error("`{path}` is a library without analyses; a plugin has the line `export_analyses![..]`", path = path.display())]
    NoRootModule {
        /// The path as it was given.
        path: PathBuf,
    },
    /// Another major version of the interface.
    #[error("`{path}` was built for interface {plugin}, this host has {host}; build it with waycairn-analysis-api {host}", path = path.display())]
    Api {
        /// The path as it was given.
        path: PathBuf,
        /// The plugin's version of the interface.
        plugin: String,
        /// The host's version of the interface.
        host: String,
    },
    /// Types that cross the boundary differ.
    #[error("`{path}` was built with an interface whose types differ: expected {expected}, found {found}; build it with this host's waycairn-analysis-api", path = path.display())]
    Layout {
        /// The path as it was given.
        path: PathBuf,
        /// The first difference, the host's side.
        expected: String,
        /// The first difference, the plugin's side.
        found: String,
    },
    /// The library's header is not one that this interface's macro writes.
    #[error("`{path}` was not built by this interface: {what}; build it with waycairn-analysis-api {host}", path = path.display())]
    Foundation {
        /// The path as it was given.
        path: PathBuf,
        /// What differs.
        what: String,
        /// The host's version of the interface.
        host: String,
    },
    /// The system's loader refused it, for instance for a library that it needs and that is not there.
    #[error("the system cannot load `{path}`: {what}", path = path.display())]
    Refused {
        /// The path as it was given.
        path: PathBuf,
        /// The loader's words.
        what: String,
    },
    /// The plugin's own start-up failed.
    #[error("`{path}` could not start: {what}", path = path.display())]
    Start {
        /// The path as it was given.
        path: PathBuf,
        /// What it said.
        what: String,
    },
    /// The settings that it adds to a study are none.
    #[error("the settings of `{path}` are not acceptable: {what}", path = path.display())]
    Settings {
        /// The path as it was given.
        path: PathBuf,
        /// What is wrong with them, or the panic of making them.
        what: String,
    },
    /// The file cannot be read.
    #[error("cannot {op} `{path}`", path = path.display())]
    Io {
        /// What was tried.
        op: &'static str,
        /// The path as it was given.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Why one analysis of a library that loaded cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DeclarationError {
    /// `declare` panicked.
    #[error("declaring itself panicked: {text}")]
    Panicked {
        /// The panic's text and place.
        text: String,
        /// The backtrace, or empty.
        backtrace: String,
    },
    /// `declare` could not answer.
    #[error("it does not declare itself: {text}")]
    Failed {
        /// What it said.
        text: String,
    },
    /// The declaration is not one that this host can honour.
    #[error("its declaration is not acceptable: {text}")]
    Invalid {
        /// What is wrong with it.
        text: String,
    },
    /// It needs what this host does not offer.
    #[error("it needs `{need}`, which this host does not offer; use a newer waycairn")]
    UnknownNeed {
        /// The need.
        need: String,
    },
    /// Another analysis or product of the same library has this name.
    #[error("its library has two called `{name}`")]
    Repeated {
        /// The name.
        name: String,
    },
}

/// Settings that an analysis or a library does not have.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// No such setting.
    #[error("{owner} has no setting `{setting}`{}", setting_hint(.nearest, .known))]
    Unknown {
        /// Whose settings they are, e.g. ``analysis `summary` ``.
        owner: String,
        /// The setting's path.
        setting: String,
        /// The one that was probably meant.
        nearest: Option<String>,
        /// All there are.
        known: Vec<String>,
    },
    /// A value of another type than the default's.
    #[error("setting `{setting}` of {owner} must be {expected}, not {found}")]
    Type {
        /// Whose settings they are.
        owner: String,
        /// The setting's path.
        setting: String,
        /// What the default is.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A number that has no exact text in every language, so that settings with it have no digest.
    #[error("settings of {owner} cannot be digested: {text}")]
    Digest {
        /// Whose settings they are.
        owner: String,
        /// Why not.
        text: String,
    },
}

fn setting_hint(nearest: &Option<String>, known: &[String]) -> String {
    match nearest {
        Some(name) => format!("; did you mean `{name}`?"),
        None if known.is_empty() => "; leave it out: there are no settings to set".to_owned(),
        None => format!("; it has {}", known.join(", ")),
    }
}

fn analysis_hint(nearest: &Option<String>, known: &[String]) -> String {
    match nearest {
        Some(name) => format!(" among the plugins; did you mean `{name}`?"),
        None if known.is_empty() => {
            ": no plugin was found; build one, and name its library or put it where plugins are looked for"
                .to_owned()
        }
        None => format!(" among the plugins; they have {}", known.join(", ")),
    }
}

/// Why a run of an analysis brought nothing, or a product none. Nothing is kept in any of these cases.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The settings do not fit; the analysis was not called.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The analysis answered an error, its own or one that a call to the host gave it.
    #[error("analysis `{analysis}` failed: {text}")]
    Failed {
        /// The analysis.
        analysis: String,
        /// Its words.
        text: String,
    },
    /// The analysis panicked while it was made, called or dropped.
    #[error("analysis `{analysis}` panicked: {text}")]
    Panicked {
        /// The analysis.
        analysis: String,
        /// The panic's text and place.
        text: String,
        /// The backtrace, or empty.
        backtrace: String,
    },
    /// The product answered an error, its own or one that a call to the host gave it.
    #[error("product `{product}` failed while {step}: {text}")]
    ProductFailed {
        /// The product.
        product: String,
        /// What it was asked to do.
        step: &'static str,
        /// Its words.
        text: String,
    },
    /// The product panicked.
    #[error("product `{product}` panicked while {step}: {text}")]
    ProductPanicked {
        /// The product.
        product: String,
        /// What it was asked to do.
        step: &'static str,
        /// The panic's text and place.
        text: String,
        /// The backtrace, or empty.
        backtrace: String,
    },
    /// Something that a builder wrote was refused and it went on regardless, or it is not what it was said to be.
    #[error("an output of product `{product}` was refused: {text}")]
    ProductOutput {
        /// The product.
        product: String,
        /// Why.
        text: String,
    },
    /// An output was refused and the analysis went on regardless, or one that its kind asks for is missing, so that its
    /// results would be incomplete.
    #[error("an output of analysis `{analysis}` was refused: {text}")]
    Output {
        /// The analysis.
        analysis: String,
        /// Why.
        text: String,
    },
}

impl RunError {
    /// The plugin's backtrace, if it panicked and its environment asked for one.
    #[must_use]
    pub fn backtrace(&self) -> Option<&str> {
        match self {
            RunError::Panicked { backtrace, .. } | RunError::ProductPanicked { backtrace, .. }
                if !backtrace.is_empty() =>
            {
                Some(backtrace)
            }
            _ => None,
        }
    }
}

/// Why a selector picks no analysis.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SelectError {
    /// No analysis of this name.
    #[error("no analysis `{selector}`{}", analysis_hint(.nearest, .known))]
    Unknown {
        /// What was asked for.
        selector: String,
        /// The one that was probably meant.
        nearest: Option<String>,
        /// All there are.
        known: Vec<String>,
    },
    /// Several libraries have an analysis of this name.
    #[error(
        "analysis `{name}` is in several libraries: {}; pick one as `FILE#{name}`",
        files.iter().map(|file| format!("`{}`", file.display())).collect::<Vec<_>>().join(", ")
    )]
    Ambiguous {
        /// The name.
        name: String,
        /// The libraries.
        files: Vec<PathBuf>,
    },
}
