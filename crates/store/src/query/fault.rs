//! Why one attempt at an answer ended early, and the loop of attempts.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use arrow::error::ArrowError;

use crate::listing::{self, Freshness, MAX_LISTINGS, PartSet};
use crate::published::{OpenFault, Part};
use crate::query::cursor::is_sorted;
use crate::query::{Diagnostic, QueryError};

/// Why an attempt ended. All but the last are met by another attempt.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The part is gone or was replaced since the listing.
    Stale(Arc<Part>),
    /// The rows of the part are not in the order that was expected.
    Unsorted(Arc<Part>),
    /// The part is damaged.
    Damaged(Arc<Part>, QueryError),
    Error(QueryError),
}

impl Fault {
    pub(crate) fn io(operation: &'static str, path: &Path, source: io::Error) -> Fault {
        Fault::Error(QueryError::Io { operation, path: path.to_owned(), source })
    }

    pub(crate) fn open(part: &Arc<Part>, fault: OpenFault) -> Fault {
        match fault {
            OpenFault::Stale => Fault::Stale(Arc::clone(part)),
            OpenFault::Io { path, source } => Fault::io("open", &path, source),
        }
    }

    pub(crate) fn damaged(part: &Arc<Part>, what: impl Into<String>) -> Fault {
        Fault::Damaged(Arc::clone(part), part.damaged(what))
    }

    pub(crate) fn answer(operation: &'static str, source: ArrowError) -> Fault {
        Fault::Error(QueryError::Answer { operation, source: Box::new(source) })
    }
}

impl From<QueryError> for Fault {
    fn from(error: QueryError) -> Fault {
        Fault::Error(error)
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Stale(part) => write!(f, "the part `{}` changed", part.path.display()),
            Fault::Unsorted(part) => write!(f, "the part `{}` is not sorted", part.path.display()),
            Fault::Damaged(_, error) | Fault::Error(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Fault {}

/// What to do about a damaged part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnDamage {
    /// The answer is an error that names it.
    Fail,
    /// The answer leaves it out and says so.
    Skip,
}

/// Answers a question from one listing, with another attempt for what the attempt itself can cure: a part that
/// a compaction took away, a part whose rows turn out to be unsorted, a damaged part that is to be skipped.
pub(crate) fn attempt<T>(
    values: &Path,
    freshness: Freshness,
    on_damage: OnDamage,
    mut answer: impl FnMut(&PartSet) -> Result<T, Fault>,
) -> Result<(T, Vec<Diagnostic>), QueryError> {
    let mut skipped: HashSet<Arc<str>> = HashSet::new();
    let mut diagnostics = Vec::new();
    let mut stale = 0;
    loop {
        let mut set = listing::list(values, freshness)?;
        let unreadable = std::mem::replace(&mut set.damaged, Arc::from([]));
        let mut loud = diagnostics.clone();
        for (path, error) in unreadable.iter() {
            if on_damage == OnDamage::Fail {
                return Err(restate(error));
            }
            loud.push(skip(path, &restate(error)));
        }
        if !skipped.is_empty() {
            set.parts = set.parts.iter().filter(|part| !skipped.contains(&part.name)).cloned().collect();
        }
        match answer(&set) {
            Ok(value) => return Ok((value, loud)),
            Err(Fault::Error(error)) => return Err(error),
            Err(Fault::Unsorted(part)) => {
                part.mark_unsorted();
                find_unsorted(&set);
            }
            Err(Fault::Stale(part)) => {
                listing::forget(&part);
                stale += 1;
                if stale > MAX_LISTINGS {
                    return Err(QueryError::Vanished { path: part.path.clone() });
                }
            }
            Err(Fault::Damaged(part, error)) => {
                if on_damage == OnDamage::Fail {
                    return Err(error);
                }
                diagnostics.push(skip(&part.path, &error));
                skipped.insert(Arc::clone(&part.name));
            }
        }
    }
}

/// Where one part of another program is unsorted, others may be: they are looked at together, so that the next
/// attempt is the last.
fn find_unsorted(set: &PartSet) {
    for part in set.parts.iter().filter(|part| !part.ours && !part.is_unsorted()) {
        // What else is wrong with a part is the business of the attempt that reads it.
        if matches!(is_sorted(part), Ok(false)) {
            part.mark_unsorted();
        }
    }
}

/// What the log has named: each part once, however many questions leave it out.
static NAMED: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);

fn skip(path: &Path, error: &QueryError) -> Diagnostic {
    let what = match error {
        QueryError::Damaged { what, .. } => what.clone(),
        other => other.to_string(),
    };
    if NAMED.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned()) {
        tracing::warn!(part = %path.display(), %what, "a damaged part is left out");
    }
    Diagnostic::SkippedPart { path: path.to_owned(), what }
}

/// Says a remembered error again.
fn restate(error: &QueryError) -> QueryError {
    match error {
        QueryError::Damaged { path, what, source } => {
            let source =
                source.as_ref().map(|source| parquet::errors::ParquetError::General(source.to_string()));
            QueryError::Damaged { path: path.clone(), what: what.clone(), source: source.map(Box::new) }
        }
        other => QueryError::Answer { operation: "list the parts for", source: other.to_string().into() },
    }
}
