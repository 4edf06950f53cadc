//! What a batch stream depends on, saved with every checkpoint.

use serde::{Deserialize, Serialize};
use waycairn_durable::Digest;

use super::error::DataError;

/// Everything that a batch is a function of, apart from the position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Fingerprint {
    /// Of a text.
    Text(TextFingerprint),
    /// Of rows of numbers.
    Rows(RowFingerprint),
}

impl Fingerprint {
    /// The digest of the content: of the text's bytes, or of what the rows follow from.
    #[must_use]
    pub fn content_sha256(&self) -> Digest {
        match self {
            Self::Text(text) => text.content_sha256,
            Self::Rows(rows) => rows.recipe_sha256,
        }
    }

    /// Examples of one step.
    pub(crate) fn global_batch(&self) -> u64 {
        match self {
            Self::Text(text) => text.global_batch(),
            Self::Rows(rows) => rows.batch_size,
        }
    }

    /// Whether a model of one can read the other.
    pub(crate) fn same_form(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(text), Self::Text(other)) => text.tokenizer_sha256 == other.tokenizer_sha256,
            (Self::Rows(_), Self::Rows(_)) => true,
            _ => false,
        }
    }

    /// Refuses data other than what a checkpoint saw. A branch may change how batches are cut and
    /// ordered (`Whole::No`); a resume and a replay may not.
    pub(crate) fn check(&self, saved: &Self, whole: Whole) -> Result<(), DataError> {
        match (self, saved) {
            (Self::Text(now), Self::Text(saved)) => now.check(saved, whole),
            (Self::Rows(now), Self::Rows(saved)) => now.check(saved, whole),
            _ => Err(DataError::Changed { differences: vec!["the data is of another kind".to_owned()] }),
        }
    }
}

/// What the batches of rows of numbers are a function of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowFingerprint {
    /// SHA-256 of the RFC 8785 text of what the rows follow from.
    pub recipe_sha256: Digest,
    /// Rows that are trained on.
    pub rows: u64,
    /// Rows of one step.
    pub batch_size: u64,
}

impl RowFingerprint {
    fn check(&self, saved: &Self, whole: Whole) -> Result<(), DataError> {
        let mut differences = Vec::new();
        if saved.recipe_sha256 != self.recipe_sha256 || saved.rows != self.rows {
            differences.push("what the rows follow from is something else".to_owned());
        }
        if whole == Whole::Yes && saved.batch_size != self.batch_size {
            differences.push(format!("the batch size was {}, is {}", saved.batch_size, self.batch_size));
        }
        if differences.is_empty() { Ok(()) } else { Err(DataError::Changed { differences }) }
    }
}

/// What the batches of a text are a function of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextFingerprint {
    /// Bytes of the text.
    pub bytes: u64,
    /// SHA-256 of the text.
    pub content_sha256: Digest,
    /// SHA-256 of the vocabulary's canonical text.
    pub tokenizer_sha256: Digest,
    /// Tokens of both parts.
    pub tokens: u64,
    /// Tokens of the training part.
    pub train_tokens: u64,
    /// Seed of the order.
    pub seed: u64,
    /// `shuffled` or `random`.
    pub order: String,
    /// Tokens of one example.
    pub context: u64,
    /// Examples of one micro-batch.
    pub batch_size: u64,
    /// Micro-batches of one step.
    pub accumulate: u64,
}

impl TextFingerprint {
    /// Returns the key of the training order.
    ///
    /// Batch size and accumulation are left out on purpose: they cut the stream of examples into
    /// batches, and the stream itself should not depend on where it is cut.
    pub(crate) fn order_key(&self) -> Digest {
        let text = format!(
            "waycairn order 1\n{}\n{}\n{}\n{}\n{}\n{}",
            self.content_sha256,
            self.tokenizer_sha256,
            self.train_tokens,
            self.seed,
            self.order,
            self.context
        );
        Digest::of(text.as_bytes())
    }

    /// Examples of one step.
    pub(crate) fn global_batch(&self) -> u64 {
        self.batch_size * self.accumulate
    }

    pub(super) fn check(&self, saved: &Self, whole: Whole) -> Result<(), DataError> {
        let mut differences = Vec::new();
        let mut compare = |field: &str, saved: String, now: String| {
            if saved != now {
                differences.push(format!("{field} was {saved}, is {now}"));
            }
        };
        compare("the text's size", saved.bytes.to_string(), self.bytes.to_string());
        compare("the text's SHA-256", saved.content_sha256.to_string(), self.content_sha256.to_string());
        compare(
            "the vocabulary's SHA-256",
            saved.tokenizer_sha256.to_string(),
            self.tokenizer_sha256.to_string(),
        );
        if whole == Whole::Yes {
            compare("the training part", saved.train_tokens.to_string(), self.train_tokens.to_string());
            compare("seed", saved.seed.to_string(), self.seed.to_string());
            compare("data.order", saved.order.clone(), self.order.clone());
            compare("data.context", saved.context.to_string(), self.context.to_string());
            compare("batch_size", saved.batch_size.to_string(), self.batch_size.to_string());
            compare("accumulate", saved.accumulate.to_string(), self.accumulate.to_string());
        }
        if differences.is_empty() { Ok(()) } else { Err(DataError::Changed { differences }) }
    }
}

/// Whether the cutting into batches is compared as well as the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    Yes,
    No,
}
