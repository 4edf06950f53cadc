//! A text as tokens: mapped, checked once, read by position.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use waycairn_durable::{Digest, FileMap};

use super::embedded::EMBEDDED;
use super::error::{DataError, NotInVocabulary};
use super::vocabulary::{Outside, Vocabulary};

/// The name of the embedded text in `data.source`.
pub(crate) const EMBEDDED_NAME: &str = "embedded";

/// Where a text comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The text that every binary carries.
    Embedded,
    /// A file.
    File(PathBuf),
}

impl Source {
    /// Reads `data.source`; `embedded:<digest>` is the resolved form of `embedded`.
    pub(crate) fn parse(text: &str) -> Self {
        let head = text.split_once(':').map_or(text, |(head, _)| head);
        if head == EMBEDDED_NAME { Self::Embedded } else { Self::File(PathBuf::from(text)) }
    }

    /// Returns the form that goes into resolved settings: an absolute path, or the digest of the
    /// embedded text, so that the same command means the same run from any folder, and another
    /// binary's embedded text means another run.
    pub(crate) fn resolved(&self) -> String {
        match self {
            Self::Embedded => format!("{EMBEDDED_NAME}:{}", Digest::of(EMBEDDED.as_bytes())),
            Self::File(path) => {
                std::path::absolute(path).unwrap_or_else(|_| path.clone()).to_string_lossy().into_owned()
            }
        }
    }

    fn origin(&self) -> String {
        match self {
            Self::Embedded => "the embedded text".to_owned(),
            Self::File(path) => format!("`{}`", path.display()),
        }
    }
}

/// The two parts of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// The first part.
    Train,
    /// The rest.
    Validation,
}

/// A text with its vocabulary.
///
/// The file stays mapped and must not be changed while it is in use. Where every token is one
/// byte (a byte vocabulary, or an ASCII text), tokens are looked up in the mapping itself;
/// otherwise they are kept as 16-bit numbers, two bytes a character.
#[derive(Debug)]
pub(crate) struct TextData {
    origin: String,
    bytes: Bytes,
    tokens: Tokens,
    vocabulary: Arc<Vocabulary>,
    sha256: Digest,
    train: u64,
}

#[derive(Debug)]
enum Bytes {
    Embedded(&'static str),
    Mapped(FileMap),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Embedded(text) => text.as_bytes(),
            Self::Mapped(map) => map,
        }
    }
}

#[derive(Debug)]
enum Tokens {
    /// Token of each byte; the text was checked to hold no other byte.
    Table(Box<[u16; 256]>),
    Encoded(Vec<u16>),
}

/// What the text is read as.
#[derive(Clone, Debug)]
pub(crate) enum Reading {
    /// The distinct characters of this text.
    OwnCharacters,
    /// Its bytes.
    Bytes,
    /// The vocabulary of a checkpoint.
    Given(Vocabulary),
}

impl TextData {
    /// Opens and checks a text; `share` is the part of its tokens that trains.
    ///
    /// # Errors
    ///
    /// [`DataError`] for a file that cannot be read, an empty text, text that is not UTF-8, a
    /// character outside the vocabulary.
    pub(crate) fn open(source: &Source, reading: Reading, share: f64) -> Result<Self, DataError> {
        let origin = source.origin();
        let bytes = match source {
            Source::Embedded => Bytes::Embedded(EMBEDDED),
            Source::File(path) => Bytes::Mapped(map(path)?),
        };
        if bytes.is_empty() {
            return Err(DataError::Empty { origin });
        }
        let vocabulary = match reading {
            Reading::Given(vocabulary) => vocabulary,
            Reading::Bytes => Vocabulary::Byte,
            Reading::OwnCharacters => {
                let text = utf8(&bytes, &origin)?;
                Vocabulary::of_text(text)
                    .ok_or_else(|| DataError::TooManyCharacters { origin: origin.clone() })?
            }
        };
        let tokens = tokens(&bytes, &vocabulary, &origin)?;
        let count = match &tokens {
            Tokens::Table(_) => bytes.len(),
            Tokens::Encoded(tokens) => tokens.len(),
        };
        Ok(Self {
            sha256: Digest::of(&bytes),
            train: (count as f64 * share).floor() as u64,
            origin,
            bytes,
            tokens,
            vocabulary: Arc::new(vocabulary),
        })
    }

    /// Returns the vocabulary.
    pub(crate) fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Returns the vocabulary, shared.
    pub(crate) fn shared_vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// Returns the digest of the text's bytes.
    pub(crate) fn sha256(&self) -> Digest {
        self.sha256
    }

    /// Returns the number of bytes.
    pub(crate) fn byte_len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns the number of tokens of both parts.
    pub(crate) fn len(&self) -> u64 {
        match &self.tokens {
            Tokens::Table(_) => self.bytes.len() as u64,
            Tokens::Encoded(tokens) => tokens.len() as u64,
        }
    }

    /// Returns the number of tokens of one part.
    pub(crate) fn split_len(&self, split: Split) -> u64 {
        match split {
            Split::Train => self.train,
            Split::Validation => self.len() - self.train,
        }
    }

    /// Refuses a part that does not hold one example of `context` inputs and their targets.
    pub(crate) fn check_split(&self, split: Split, context: u64) -> Result<(), DataError> {
        let tokens = self.split_len(split);
        if tokens > context {
            return Ok(());
        }
        Err(DataError::TooShort {
            origin: self.origin.clone(),
            split: match split {
                Split::Train => "training",
                Split::Validation => "validation",
            },
            tokens,
            needed: context + 1,
        })
    }

    /// Appends `count` tokens of a part, from its token `start`; the range lies inside the part.
    pub(crate) fn read(&self, split: Split, start: u64, count: usize, into: &mut Vec<i32>) {
        let base = match split {
            Split::Train => 0,
            Split::Validation => self.train,
        };
        let from = (base + start) as usize;
        match &self.tokens {
            Tokens::Table(table) => {
                let bytes = &self.bytes[from..from + count];
                into.extend(bytes.iter().map(|byte| i32::from(table[usize::from(*byte)])));
            }
            Tokens::Encoded(tokens) => {
                into.extend(tokens[from..from + count].iter().map(|token| i32::from(*token)));
            }
        }
    }
}

fn map(path: &Path) -> Result<FileMap, DataError> {
    let unreadable = |source: Box<dyn std::error::Error + Send + Sync>| DataError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(Box::new(error)))?;
    if !metadata.is_file() {
        return Err(DataError::NotAFile { path: path.to_owned() });
    }
    FileMap::open(path).map_err(|error| unreadable(Box::new(error)))
}

fn utf8<'a>(bytes: &'a [u8], origin: &str) -> Result<&'a str, DataError> {
    std::str::from_utf8(bytes)
        .map_err(|error| DataError::NotUtf8 { origin: origin.to_owned(), offset: error.valid_up_to() as u64 })
}

fn tokens(bytes: &[u8], vocabulary: &Vocabulary, origin: &str) -> Result<Tokens, DataError> {
    if let Some(table) = vocabulary.byte_table()
        && bytes.iter().all(|byte| table[usize::from(*byte)].is_some())
    {
        return Ok(Tokens::Table(Box::new(table.map(Option::unwrap_or_default))));
    }
    let outside = |outside: Outside| DataError::OutsideVocabulary {
        origin: origin.to_owned(),
        character: outside.character,
        offset: outside.offset,
        source: NotInVocabulary,
    };
    let text = utf8(bytes, origin)?;
    vocabulary.encode(text).map(Tokens::Encoded).map_err(outside)
}

#[cfg(test)]
#[path = "text/tests.rs"]
mod tests;
