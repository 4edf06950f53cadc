//! Data that cannot be trained on.

use std::path::PathBuf;

use crate::settings::SettingsError;

/// Why a text cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The file cannot be opened or mapped.
    #[error("cannot open the text `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The path names a folder, a pipe or a device.
    #[error("`{}` is not a regular file, and only the text of one can be trained on", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// There is nothing in it.
    #[error("{origin} is empty")]
    Empty {
        /// The file, or the embedded text.
        origin: String,
    },
    /// One part of the text does not hold a single example.
    #[error("the {split} part of {origin} has {tokens} token{}, and one example needs {needed}", if *tokens == 1 { "" } else { "s" })]
    TooShort {
        /// The file, or the embedded text.
        origin: String,
        /// `training` or `validation`.
        split: &'static str,
        /// Tokens in that part.
        tokens: u64,
        /// The context and one more.
        needed: u64,
    },
    /// The file is not UTF-8.
    #[error("{origin} is not UTF-8 at byte {offset}")]
    NotUtf8 {
        /// The file.
        origin: String,
        /// Bytes before the first that is not UTF-8.
        offset: u64,
    },
    /// A character is not in the vocabulary.
    #[error("{origin} holds the character {character:?} at byte {offset}")]
    OutsideVocabulary {
        /// The file, or the prompt.
        origin: String,
        /// The character.
        character: char,
        /// Bytes before it.
        offset: u64,
        /// Why that is wrong.
        source: NotInVocabulary,
    },
    /// The text has more distinct characters than tokens can number.
    #[error("{origin} has more than 65536 distinct characters")]
    TooManyCharacters {
        /// The file.
        origin: String,
    },
    /// The data is not what the checkpoint was trained on.
    #[error("the data is not what the checkpoint was trained on: {}", differences.join("; "))]
    Changed {
        /// Field, then what the checkpoint has, then what is there now.
        differences: Vec<String>,
    },
    /// An experiment drew rows that cannot be trained on.
    #[error("the experiment `{experiment}` drew rows that cannot be used: {what}")]
    Rows {
        /// The experiment.
        experiment: String,
        /// What is wrong with them.
        what: String,
    },
    /// The settings cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The vocabulary has no canonical text.
    #[error("the vocabulary has no canonical text")]
    Vocabulary(#[source] serde_json::Error),
}

/// Why a character cannot be read.
#[derive(Clone, Copy, Debug, Default, thiserror::Error)]
#[error("the vocabulary of the model does not have it")]
pub struct NotInVocabulary;

impl DataError {
    /// Says what to do about it in a study, whose data its settings file names.
    #[must_use]
    pub fn next_in_study(&self) -> Option<String> {
        let source = "`data.source` of settings_training.toml";
        match self {
            Self::Unreadable { .. } => {
                Some(format!("put the text back there, or name an existing text file in {source}"))
            }
            Self::NotAFile { .. } => Some(format!("name a text file in {source}")),
            Self::NotUtf8 { .. } | Self::TooManyCharacters { .. } => Some(
                "convert the text to what the tokenizer reads, or set `data.tokenizer = 'byte'` in settings_training.toml"
                    .to_owned(),
            ),
            Self::Changed { .. } => Some(format!("put the old data back, or name it in {source}")),
            _ => self.next(),
        }
    }

    /// Says what to do about it.
    #[must_use]
    pub fn next(&self) -> Option<String> {
        let text = match self {
            Self::Unreadable { .. } => "give an existing text file with `--text FILE`".to_owned(),
            Self::NotAFile { .. } => {
                "give a text file with `--text FILE`; write what comes through a pipe to one first".to_owned()
            }
            Self::Empty { .. } => "give a text with something in it".to_owned(),
            Self::TooShort { split, .. } => {
                format!(
                    "give a longer text, a smaller `data.context`, or change `data.split` so that the {split} part grows"
                )
            }
            Self::NotUtf8 { .. } => {
                "convert the file to UTF-8, or train on bytes with `--set data.tokenizer=byte`".to_owned()
            }
            Self::OutsideVocabulary { .. } => {
                "leave that character out, or train with a vocabulary that has it".to_owned()
            }
            Self::TooManyCharacters { .. } => "train on bytes with `--set data.tokenizer=byte`".to_owned(),
            Self::Changed { .. } => {
                "put the old data back, or go on with the new data with `--allow-changed-data`".to_owned()
            }
            Self::Settings(error) => return error.next(),
            Self::Vocabulary(_) | Self::Rows { .. } => return None,
        };
        Some(text)
    }
}
