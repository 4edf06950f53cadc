//! From what a user types to a node.

use std::collections::BTreeSet;
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

/// The shortest beginning of a nonce that stands for it.
const MIN_NONCE: usize = 4;

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
    /// The beginning of a nonce fits several runs.
    #[error(
        "`{text}` is written with the beginning of {count} nonces; write more of one of: {}{}",
        candidates.iter().map(|node| format!("`{node}`")).collect::<Vec<_>>().join(", "),
        if *count > candidates.len() { ", .." } else { "" }
    )]
    AmbiguousNonce {
        /// What was asked for.
        text: String,
        /// How many runs fit.
        count: usize,
        /// The node that was asked for in each of the newest of them; the last node of a run that does not have it.
        candidates: Vec<Node>,
    },
    /// There are runs of the name whose nonce begins so, and too little of it is written.
    #[error(
        "`{text}` has less than {MIN_NONCE} characters of a nonce; write more of one of: `{}`",
        candidates.join("`, `")
    )]
    ShortNonce {
        /// What was asked for.
        text: String,
        /// The runs whose nonce begins so, as `name@nonce`.
        candidates: Vec<String>,
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
    let positioned = text.rsplit_once(':').and_then(|(run, seq)| Some((run, decimal(seq)?)));
    let run = positioned.map_or(text, |(run, _)| run);
    // Only runs that the text may mean: what else there is may be damaged.
    let mut names: BTreeSet<&str> = [text, run].into();
    names.extend(run.rsplit_once('@').map(|(name, _)| name));
    names.extend(exact.as_ref().map(Node::name));
    let runs = reader.runs_of_any(names.into_iter().map(str::to_owned))?;
    let newest = |name: &str| runs.iter().find(|run| run.name == name);
    let of_newest = positioned.and_then(|(name, seq)| Some((newest(name)?, seq)));
    if let Some((run, seq)) = of_newest
        && let Some(node) = at(reader, run, seq)?
    {
        return Ok(node);
    }
    if let Some(run) = newest(text) {
        return Ok(run.last.clone());
    }
    let fitting = with_nonce(&runs, run);
    let seq = positioned.map(|(_, seq)| seq);
    match fitting.as_slice() {
        [] => {}
        [run] => match seq {
            None => return Ok(run.last.clone()),
            Some(seq) => {
                if let Some(node) = at(reader, run, seq)? {
                    return Ok(node);
                }
            }
        },
        several => {
            let mut candidates = Vec::new();
            for run in several.iter().take(MAX_CANDIDATES) {
                let asked = seq.map(|seq| at(reader, run, seq)).transpose()?.flatten();
                candidates.push(asked.unwrap_or_else(|| run.last.clone()));
            }
            let text = text.to_owned();
            return Err(ResolveError::AmbiguousNonce { text, count: several.len(), candidates });
        }
    }
    if text == LATEST
        && let Some(node) = reader.query().latest().first()?.value
    {
        return Ok(node);
    }
    if let Some(node) = by_prefix(reader, text)? {
        return Ok(node);
    }
    if let Some(candidates) = short_of_nonce(&runs, run) {
        return Err(ResolveError::ShortNonce { text: text.to_owned(), candidates });
    }
    // The run is right, by its nonce or as the newest of its name, or by an address: then the position is not.
    let of_exact = exact
        .as_ref()
        .and_then(|node| runs.iter().find(|run| run.last.same_run(node)).map(|run| (run, node.seq())));
    let by_nonce = of_exact.or_else(|| fitting.first().copied().zip(seq));
    let nearest = match (by_nonce, of_newest) {
        (Some((run, seq)), _) => near_position(reader, run, seq, &runs, Written::WithNonce)?,
        (None, Some((run, seq))) => near_position(reader, run, seq, &runs, Written::WithName)?,
        (None, None) => near_name(reader, run, &runs),
    };
    Err(ResolveError::Unknown { text: text.to_owned(), nearest })
}

/// The runs that `name@nonce` means, the newest first: the one of that nonce, or those whose nonces begin so.
fn with_nonce<'a>(runs: &'a [RunSummary], text: &str) -> Vec<&'a RunSummary> {
    let Some((name, nonce)) = text.rsplit_once('@') else { return Vec::new() };
    let of_name = || runs.iter().filter(|run| run.name == name);
    match of_name().find(|run| run.nonce == nonce) {
        Some(run) => vec![run],
        None if nonce.len() < MIN_NONCE => Vec::new(),
        None => of_name().filter(|run| run.nonce.starts_with(nonce)).collect(),
    }
}

/// What `name@n` may mean, whose nonce has fewer characters than stand for one.
fn short_of_nonce(runs: &[RunSummary], text: &str) -> Option<Vec<String>> {
    let (name, nonce) = text.rsplit_once('@')?;
    // It may be found as it stands, with a position that is not there.
    let is_whole = |run: &RunSummary| run.name == text || (run.name == name && run.nonce == nonce);
    if nonce.len() >= MIN_NONCE || runs.iter().any(is_whole) {
        return None;
    }
    let fitting = runs.iter().filter(|run| run.name == name && run.nonce.starts_with(nonce));
    let shown = fitting.take(MAX_CANDIDATES).map(|run| format!("{name}@{}", run.nonce));
    Some(shown.collect()).filter(|shown: &Vec<String>| !shown.is_empty())
}

/// The node of a run at a position, if it is recorded.
fn at(reader: &ObjectReader, run: &RunSummary, seq: u64) -> Result<Option<Node>, QueryError> {
    match run.last.at(seq) {
        Ok(node) if exists(reader, &node)? => Ok(Some(node)),
        _ => Ok(None),
    }
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

/// How a run was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    WithName,
    WithNonce,
}

/// What may have been meant where the run is known and its position is not recorded: the recorded ones on both
/// sides, and the same position in older runs of the name.
fn near_position(
    reader: &ObjectReader,
    run: &RunSummary,
    seq: u64,
    runs: &[RunSummary],
    written: Written,
) -> Result<Vec<String>, QueryError> {
    let mut nearest = Vec::new();
    for seq in neighbours(reader, run, seq)? {
        nearest.push(match written {
            Written::WithName => format!("{}:{seq}", run.name),
            Written::WithNonce => format!("{}@{}:{seq}", run.name, run.nonce),
        });
    }
    let older = runs.iter().filter(|other| other.name == run.name && other.nonce != run.nonce);
    for other in older.take(MAX_CANDIDATES) {
        nearest.extend(at(reader, other, seq)?.map(|node| node.to_string()));
    }
    Ok(nearest)
}

/// What may have been meant by `name` or `name@nonce` where there is no such run: other runs of the name, or similar
/// names. For that every part is read; where one is damaged, nothing comes to mind.
fn near_name(reader: &ObjectReader, text: &str, runs: &[RunSummary]) -> Vec<String> {
    let name = text.rsplit_once('@').map_or(text, |(name, _)| name);
    let of_name: Vec<&RunSummary> = runs.iter().filter(|run| run.name == name).collect();
    if !of_name.is_empty() {
        let with_nonces = of_name.into_iter().take(MAX_CANDIDATES);
        return with_nonces.map(|run| format!("{name}@{}", run.nonce)).collect();
    }
    let all = reader.runs().unwrap_or_default();
    let mut names: Vec<&str> = all.iter().map(|run| run.name.as_str()).collect();
    names.dedup();
    nearest(name, names)
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
            ResolveError::AmbiguousNonce { candidates, .. } => {
                candidates.iter().map(ToString::to_string).collect()
            }
            ResolveError::Unknown { nearest: names, .. }
            | ResolveError::ShortNonce { candidates: names, .. } => names.clone(),
            ResolveError::Query(_) => Vec::new(),
        }
    }
}
