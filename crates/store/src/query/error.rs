//! What can go wrong when the store is read, and what an answer wants to point out.

use std::fmt;
use std::io;
use std::path::PathBuf;

use datafusion::error::DataFusionError;
use parquet::errors::ParquetError;
use thiserror::Error;
use waycairn_durable::VersionError;

use crate::field::Scalar;

/// Why a question has no answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The root is of another format.
    #[error(transparent)]
    Format(#[from] VersionError),
    /// A file or a folder could not be read.
    #[error("could not {operation} `{}`", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A part is not what a part must be.
    #[error(
        "the part `{}` is damaged: {what}; restore it from a copy of the root, or move it out of the folder and lose its records",
        path.display()
    )]
    Damaged {
        /// The part.
        path: PathBuf,
        /// What contradicts the format.
        what: String,
        /// The cause, where a decoder reported it.
        #[source]
        source: Option<Box<ParquetError>>,
    },
    /// A payload of a node artifact is damaged or missing.
    #[error("the artifact `{}` cannot be read: {what}", path.display())]
    Artifact {
        /// The payload's file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A listed part vanished while it was read, several times in a row.
    #[error(
        "the part `{}` vanished while it was read; something other than this store removes parts from the folder",
        path.display()
    )]
    Vanished {
        /// The part.
        path: PathBuf,
    },
    /// A condition on single records stands where it means nothing.
    #[error(
        "`{word}` restricts which records are folded, so it stands only beside an outermost `and`, not in `or` or `not`"
    )]
    RecordScope {
        /// The condition.
        word: &'static str,
    },
    /// A number is compared with a field that holds text only.
    #[error("the field `{key}` holds only text, and {} `{value}` is compared with it; put the value in quotes", value.kind())]
    TextOnly {
        /// The field.
        key: String,
        /// The value.
        value: Scalar,
    },
    /// A reserved column is selected without `raw`.
    #[error(
        "`{key}` is a column of the store itself; what can be asked for are fields, and `node`, `name`, `nonce`, `seq` and `written`"
    )]
    Reserved {
        /// The column.
        key: String,
    },
    /// A recorded path leads out of the root.
    #[error("the recorded path `{path}` of {node} leads out of the root; it is not followed")]
    UnsafePath {
        /// The node, for people.
        node: String,
        /// What was recorded, or what it leads to.
        path: String,
    },
    /// The node has no such artifact.
    #[error("{node} has no artifact `{suffix}`{}", nearest_text(nearest))]
    UnknownArtifact {
        /// The node, for people.
        node: String,
        /// What was asked for.
        suffix: String,
        /// The artifacts that it has, the most similar name first.
        nearest: Vec<String>,
    },
    /// The SQL text cannot be planned, or failed when it ran.
    #[error("the SQL query failed: {what}")]
    Sql {
        /// What is wrong with it.
        what: String,
        /// The cause.
        source: Box<DataFusionError>,
    },
    /// An answer could not be assembled or written.
    #[error("could not {operation} the answer")]
    Answer {
        /// What was tried.
        operation: &'static str,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A strict question names a key that nobody recorded.
    #[error("{what}")]
    Unknown {
        /// Which one, and what may have been meant.
        what: Diagnostic,
    },
    /// A thread of the reader ended without a result.
    #[error("a thread that read the store ended unexpectedly: {what}; this is a defect of the program")]
    Thread {
        /// What it said.
        what: String,
    },
}

/// Something about an answer that its reader should know, and that is no error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Diagnostic {
    /// No part has a field of this name.
    UnknownField {
        /// What was asked for.
        key: String,
        /// Fields with similar names, the most similar first.
        nearest: Vec<String>,
    },
    /// No part has text under this name, and the question was about text.
    NoText {
        /// The field.
        key: String,
    },
    /// No part has a field of this name, so the answer stands in the order of the identities.
    UnknownSortKey {
        /// What was asked for.
        key: String,
        /// Fields with similar names, the most similar first.
        nearest: Vec<String>,
    },
    /// No run has this nonce, and some have one that begins so: an expression takes a nonce whole.
    ShortNonce {
        /// What was asked for.
        nonce: String,
        /// What may have been meant, as an expression takes it: nonces, or nodes where one was asked for.
        nearest: Vec<String>,
    },
    /// An integer that no float equals is shown as the nearest float.
    InexactInteger {
        /// The field.
        key: String,
        /// The integer.
        value: i64,
    },
    /// A damaged part was left out, as the reader was told to.
    SkippedPart {
        /// The part.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Some parts hold this field with a type that no value has; these cells are left out.
    UnreadableField {
        /// The field.
        key: String,
        /// The type.
        data_type: String,
    },
}

impl Diagnostic {
    /// Whether it says that a key is unknown.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(
            self,
            Diagnostic::UnknownField { .. } | Diagnostic::UnknownSortKey { .. } | Diagnostic::NoText { .. }
        )
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Diagnostic::UnknownField { key, nearest } => {
                write!(f, "no node has a field `{key}`{}", nearest_text(nearest))
            }
            Diagnostic::NoText { key } => {
                write!(f, "no node has text in the field `{key}`; compare it with a number")
            }
            Diagnostic::UnknownSortKey { key, nearest } => write!(
                f,
                "no node has a field `{key}` to sort by, so the order is that of the identities{}",
                nearest_text(nearest)
            ),
            Diagnostic::ShortNonce { nonce, nearest } => write!(
                f,
                "no run has the nonce `{nonce}`, and an expression takes a nonce whole{}",
                nearest_text(nearest)
            ),
            Diagnostic::InexactInteger { key, value } => write!(
                f,
                "the column `{key}` also holds floats, so the integer {value} is shown as the nearest float"
            ),
            Diagnostic::SkippedPart { path, what } => {
                write!(f, "the damaged part `{}` is left out: {what}", path.display())
            }
            Diagnostic::UnreadableField { key, data_type } => write!(
                f,
                "some parts hold the field `{key}` as {data_type}, which is no type of a value; these cells are left out"
            ),
        }
    }
}

pub(crate) fn nearest_text(nearest: &[String]) -> String {
    match nearest {
        [] => String::new(),
        [one] => format!("; nearest: `{one}`"),
        many => format!("; nearest: `{}`", many.join("`, `")),
    }
}

/// Picks the names most similar to `wanted`, at most five, without the hopeless ones.
pub(crate) fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let lower = wanted.to_lowercase();
    let mut scored: Vec<(f64, &str)> = names
        .into_iter()
        .filter_map(|name| {
            let other = name.to_lowercase();
            let mut score = strsim::normalized_damerau_levenshtein(&lower, &other);
            // `loss` means `train/loss` more often than it means `boss`.
            if !lower.is_empty() && (other.contains(&lower) || lower.contains(&other)) {
                score = score.max(0.5) + 0.25;
            }
            (score >= 0.45).then_some((score, name))
        })
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    scored.into_iter().take(5).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_come_first_and_the_hopeless_not_at_all() {
        let names = ["train/loss", "val/loss", "learning_rate", "tokens"];
        assert_eq!(nearest("train/los", names), ["train/loss"]);
        assert_eq!(nearest("tran/loss", names), ["train/loss", "val/loss"]);
        assert_eq!(nearest("loss", names), ["train/loss", "val/loss"]);
        assert_eq!(nearest("Tokens", names), ["tokens"]);
        assert_eq!(nearest("zzzz", names), Vec::<String>::new());
    }
}
