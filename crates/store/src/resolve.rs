//! From what a user types to a node.

use std::sync::Arc;

use thiserror::Error;
use waycairn_dag::{Address, Node};

use crate::listing::PartSet;
use crate::published::RunKey;
use crate::query::{
    Expr, Fault, FoldPlan, FoldSpec, IdentityScope, QueryError, RecordScope, Threads, decimal, fold_ranges,
    nearest, nearest_text, node, threads,
};
use crate::reader::ObjectReader;
use crate::run::RunSummary;

/// The word for the node that was written last.
const LATEST: &str = "latest";

/// The shortest prefix of an address that is looked for.
const MIN_PREFIX: usize = 8;

/// Most candidates that an error names.
const MAX_CANDIDATES: usize = 10;

/// Why a text means no node.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// Several nodes fit.
    #[error(
        "`{text}` is the beginning of {count} addresses; write more of one of: {}{}",
        candidates.iter().map(|node| format!("`{}` ({node})", node.address())).collect::<Vec<_>>().join(", "),
        if *count > candidates.len() { ", .." } else { "" }
    )]
    Ambiguous {
        /// What was asked for.
        text: String,
        /// How many nodes fit.
        count: usize,
        /// The first of them, by identity.
        candidates: Vec<Node>,
    },
    /// No node fits.
    #[error("there is no node `{text}`{}", nearest_text(nearest))]
    Unknown {
        /// What was asked for.
        text: String,
        /// What may have been meant, in a form that would be found.
        nearest: Vec<String>,
    },
    /// The store could not be read.
    #[error(transparent)]
    Query(#[from] QueryError),
}

/// Finds the node that a text means.
pub(crate) fn resolve(reader: &ObjectReader, text: &str) -> Result<Node, ResolveError> {
    // An address or `name@nonce:seq`: then there is no doubt about what is meant.
    let exact = node(text);
    if let Some(node) = &exact
        && exists(reader, node)?
    {
        return Ok(node.clone());
    }
    let runs = reader.runs()?;
    let newest = |name: &str| runs.iter().find(|run| run.name == name);
    let positioned = text.rsplit_once(':').and_then(|(name, seq)| Some((newest(name)?, decimal(seq)?)));
    if let Some((run, seq)) = positioned
        && let Ok(node) = run.last.at(seq)
        && exists(reader, &node)?
    {
        return Ok(node);
    }
    if let Some(run) = newest(text) {
        return Ok(run.last.clone());
    }
    if text == LATEST
        && let Some(node) = reader.query().latest().first()?.value
    {
        return Ok(node);
    }
    if let Some(node) = by_prefix(reader, text)? {
        return Ok(node);
    }
    Err(unknown(reader, text, exact.as_ref(), positioned, &runs)?)
}

fn exists(reader: &ObjectReader, node: &Node) -> Result<bool, QueryError> {
    Ok(reader.query().node(node).count()?.value > 0)
}

/// Finds the only node whose address begins so.
fn by_prefix(reader: &ObjectReader, text: &str) -> Result<Option<Node>, ResolveError> {
    let alphabet = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if text.len() < MIN_PREFIX || !text.chars().all(alphabet) {
        return Ok(None);
    }
    let (count, candidates) = reader.ask(|set, _| with_prefix(set, text))?.value;
    match (count, candidates) {
        (0, _) => Ok(None),
        (1, mut candidates) => Ok(candidates.pop()),
        (count, candidates) => Err(ResolveError::Ambiguous { text: text.to_owned(), count, candidates }),
    }
}

/// How many nodes have addresses with a prefix, and the first of them.
fn with_prefix(set: &PartSet, prefix: &str) -> Result<(usize, Vec<Node>), Fault> {
    let scope = IdentityScope::default();
    let plan = Arc::new(FoldPlan::new(set, FoldSpec::default(), scope, RecordScope::default(), threads())?);
    let ranges = fold_ranges(&plan, Threads(threads()), None, |block, found: &mut (usize, Vec<Node>)| {
        for (run, slots) in block.runs() {
            let seqs = &block.seqs()[slots];
            if !may_begin(run, prefix)? {
                continue;
            }
            let base = run.node()?;
            for node in seqs.iter().filter_map(|seq| base.at(seq.cast_unsigned()).ok()) {
                if node.address().as_str().starts_with(prefix) {
                    found.0 += 1;
                    if found.1.len() < MAX_CANDIDATES {
                        found.1.push(node);
                    }
                }
            }
        }
        Ok(0)
    })?;
    let count = ranges.iter().map(|(count, _)| count).sum();
    let candidates = ranges.into_iter().flat_map(|(_, candidates)| candidates).take(MAX_CANDIDATES);
    Ok((count, candidates.collect()))
}

/// Whether addresses of a run can begin with a prefix: all of them share the characters that stand for the name
/// and the nonce.
fn may_begin(run: &RunKey, prefix: &str) -> Result<bool, Fault> {
    let address = run.node()?.address();
    let shared_bytes = run.name.len() + run.nonce.len() + 2;
    let shared = (shared_bytes * 4 / 3).min(prefix.len()).min(address.as_str().len());
    Ok(prefix.is_char_boundary(shared) && address.as_str().starts_with(&prefix[..shared]))
}

/// Says what may have been meant.
fn unknown(
    reader: &ObjectReader,
    text: &str,
    exact: Option<&Node>,
    positioned: Option<(&RunSummary, u64)>,
    runs: &[RunSummary],
) -> Result<ResolveError, QueryError> {
    let mut nearest_names: Vec<String> = Vec::new();
    let known =
        exact.and_then(|node| runs.iter().find(|run| run.last.same_run(node)).map(|run| (run, node.seq())));
    let exact_run = known.is_some();
    if let Some((run, seq)) = known.or(positioned) {
        // The run is right, the position is not: name the recorded positions on both sides.
        for seq in neighbours(reader, run, seq)? {
            let short = format!("{}:{seq}", run.name);
            nearest_names.push(if exact_run { format!("{}@{}:{seq}", run.name, run.nonce) } else { short });
        }
        // Or the position is right, in an older run.
        let older = runs.iter().filter(|other| other.name == run.name && other.nonce != run.nonce);
        for other in older.take(MAX_CANDIDATES) {
            let node = other.last.at(seq).ok();
            if let Some(node) = node
                && exists(reader, &node)?
            {
                nearest_names.push(node.to_string());
            }
        }
    } else {
        let name =
            text.rsplit_once(':').filter(|(_, seq)| decimal(seq).is_some()).map_or(text, |(name, _)| name);
        let name = name.rsplit_once('@').map_or(name, |(name, _)| name);
        let mut names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
        names.dedup();
        nearest_names = nearest(name, names);
    }
    Ok(ResolveError::Unknown { text: text.to_owned(), nearest: nearest_names })
}

/// The recorded positions of a run just below and just above one that is not recorded.
fn neighbours(reader: &ObjectReader, run: &RunSummary, seq: u64) -> Result<Vec<u64>, QueryError> {
    let of_run = Expr::name(&run.name).and(Expr::nonce(&run.nonce));
    let mut query = reader.query();
    let all = query.expression(of_run).all()?.value;
    let above = all.partition_point(|node| node.seq() < seq);
    let places = [above.checked_sub(1), Some(above)];
    Ok(places.into_iter().flatten().filter_map(|place| all.get(place)).map(Node::seq).collect())
}

impl ResolveError {
    /// What would be found instead, if something comes near.
    #[must_use]
    pub fn suggestions(&self) -> Vec<String> {
        match self {
            ResolveError::Ambiguous { candidates, .. } => {
                candidates.iter().map(|node| Address::from(node).to_string()).collect()
            }
            ResolveError::Unknown { nearest, .. } => nearest.clone(),
            ResolveError::Query(_) => Vec::new(),
        }
    }
}
