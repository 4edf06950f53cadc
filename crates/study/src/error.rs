//! What can go wrong with a study, by who can do something about it.

use std::path::{Path, PathBuf};

use waycairn_analysis_host::RunError;
use waycairn_cache::CacheError;
use waycairn_durable::{CommitError, Holder, LockError};
use waycairn_store::{QueryError, StoreError};
use waycairn_train::TrainError;

/// A settings file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// There is no such file.
    #[error("no settings file `{}`", path.display())]
    Absent {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("cannot read the settings file `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file is no UTF-8 text.
    #[error("`{}` is no UTF-8 text: byte {byte} is none of a character", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// The first byte that is not text.
        byte: usize,
    },
    /// The text is not TOML.
    #[error("`{}` is not TOML at line {line}, column {column}: {what}", path.display())]
    NotToml {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The character in it, from 1.
        column: usize,
        /// The parser's message, on one line.
        what: String,
    },
    /// There is no setting of this name.
    #[error("`{}` line {line}: there is no setting `{key}`", path.display())]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The dotted path as given.
        key: String,
        /// The nearest that exists.
        nearest: Option<String>,
        /// What there is.
        hint: String,
    },
    /// A setting has a value that is not accepted.
    #[error("`{}` line {line}: `{key}` cannot be {given}", path.display())]
    BadValue {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The dotted path.
        key: String,
        /// The value as given.
        given: String,
        /// What is accepted, in words.
        accepted: String,
    },
    /// A profile that the file does not have.
    #[error("`{}` has no profile `{name}`", path.display())]
    UnknownProfile {
        /// The file.
        path: PathBuf,
        /// The name as given.
        name: String,
        /// The profiles that it has.
        known: Vec<String>,
    },
    /// A plugin that the settings name, or the command line, is refused.
    #[error("`{}`: {what}", path.display())]
    Plugin {
        /// The settings file.
        path: PathBuf,
        /// The plugin and what is wrong with it.
        what: String,
    },
    /// A section does not fit the analysis or the library that it is for.
    #[error("`{}` line {line}: {what}", path.display())]
    Section {
        /// The file.
        path: PathBuf,
        /// The line of the section, or of what stands nearest above it.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// A product cannot be built with a setting.
    #[error("`{}` line {line}: {what}", path.display())]
    Setting {
        /// The file.
        path: PathBuf,
        /// The line of the setting, or of what stands nearest above it.
        line: usize,
        /// The setting, its value and what is allowed, as the product says it; each further one on a line.
        what: String,
    },
    /// The experiment refuses the settings of one configuration.
    #[error("`{}` line {line}: {configuration}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The line of the setting, or of what stands nearest above it.
        line: usize,
        /// `baseline`, or the setting that was changed and its value.
        configuration: String,
        /// The experiment's reason.
        source: Box<TrainError>,
    },
}

impl SettingsError {
    pub(crate) fn bad_value(path: &Path, line: usize, key: &str, given: &str, accepted: &str) -> Self {
        Self::BadValue {
            path: path.to_owned(),
            line,
            key: key.to_owned(),
            given: given.to_owned(),
            accepted: accepted.to_owned(),
        }
    }

    /// Says what to do about it.
    #[must_use]
    pub fn next(&self) -> Option<String> {
        Some(match self {
            Self::Absent { .. } => {
                "write one with `waycairn init`, or name its folder with `--settings-dir`; one small model alone is trained by `waycairn train --preset tiny`".to_owned()
            }
            Self::Unreadable { .. } => "check the path and its permissions".to_owned(),
            Self::NotText { .. } | Self::NotToml { .. } => "correct the file there".to_owned(),
            Self::UnknownKey { nearest: Some(nearest), .. } => format!("did you mean `{nearest}`?"),
            Self::UnknownKey { hint, .. } => hint.clone(),
            Self::BadValue { key, accepted, .. } => format!("`{key}` takes {accepted}"),
            Self::UnknownProfile { known, .. } if known.is_empty() => {
                "add `[profiles.NAME]` to it, or leave `--profile` out".to_owned()
            }
            Self::UnknownProfile { known, .. } => format!("its profiles are {}", known.join(", ")),
            Self::Plugin { .. } => "list what is found with `waycairn plugins`".to_owned(),
            Self::Section { .. } => "correct the section there; the default of a setting fixes its type".to_owned(),
            Self::Setting { .. } => {
                "correct the setting there; `waycairn plugins` lists the sections with their defaults".to_owned()
            }
            Self::Refused { source, .. } => {
                return match source.as_ref() {
                    TrainError::Data(error) => error.next_in_study(),
                    error => error.next(),
                };
            }
        })
    }
}

/// A study that did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// The settings cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Products, metrics or plots that cannot be planned or were not built.
    #[error("{what}")]
    Products {
        /// What is wrong.
        what: String,
    },
    /// A product was not built, or a metric or plot failed.
    #[error("{what}")]
    Failed {
        /// What failed.
        what: String,
        /// What its plugin says.
        source: Box<RunError>,
    },
    /// A defect of ours, met while a run was trained or analyzed.
    #[error("a defect of waycairn itself: {text}")]
    Panicked {
        /// The panic's text and place.
        text: String,
        /// Where it came from, if that is known.
        backtrace: Option<String>,
    },
    /// Configurations are over a limit; nothing was written.
    #[error("{refused} of {of} configurations are refused: {}", refusals.join(", and "))]
    OverLimit {
        /// How many configurations are refused.
        refused: usize,
        /// Each reason, with the configuration: its name or change.
        refusals: Vec<String>,
        /// How many configurations there are.
        of: usize,
    },
    /// Another launch has the root.
    #[error("`{}` is in use by another launch: {holder}", root.display())]
    Busy {
        /// The output root.
        root: PathBuf,
        /// Who has it.
        holder: Holder,
    },
    /// The file system of the root has no locks, so nobody knows whether a launch works in it.
    #[error("nothing is collected in `{}`: its file system has no locks, or another launch has just begun", root.display())]
    Unlockable {
        /// The output root.
        root: PathBuf,
    },
    /// The launch was told to stop, and stopped in good order.
    #[error("stopped in good order, {done} of {of} runs done")]
    Stopped {
        /// Runs that are done.
        done: usize,
        /// Runs in all.
        of: usize,
    },
    /// Runs were left undone by a worker that is gone.
    #[error("{left} of {of} runs were left undone by another worker, which is gone")]
    Left {
        /// Runs that are not done.
        left: usize,
        /// Runs in all.
        of: usize,
    },
    /// Some runs failed.
    #[error("{} of {of} runs failed: {}", failed.len(), failed.join(", and "))]
    Runs {
        /// Each run that failed; all but the first with their error.
        failed: Vec<String>,
        /// Runs in all.
        of: usize,
        /// What the first one failed with.
        source: Box<StudyError>,
    },
    /// Nothing is known by this name.
    #[error("{what}")]
    NotFound {
        /// What was looked for.
        what: String,
        /// What to do.
        next: String,
    },
    /// What is to be removed is needed.
    #[error("{what}")]
    Kept {
        /// What is needed.
        what: String,
        /// By whom.
        why: String,
        /// What to do.
        next: String,
    },
    /// A file of the root says nothing that can be read.
    #[error("`{}` is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A folder has the name of a file of the root.
    #[error("`{}` is a folder, and a launch keeps a copy of its settings there", path.display())]
    InTheWay {
        /// The folder.
        path: PathBuf,
    },
    /// The cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A run.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A file could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A lock.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The store, on writing.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store, on reading.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// A file or folder of the root.
    #[error("cannot {operation} `{}`", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}

impl StudyError {
    /// Where a panic came from: one of ours, or one of a plugin whose environment asked for backtraces.
    #[must_use]
    pub fn backtrace(&self) -> Option<&str> {
        match self {
            Self::Failed { source, .. } => source.backtrace(),
            Self::Panicked { backtrace, .. } => backtrace.as_deref(),
            _ => None,
        }
    }
}
