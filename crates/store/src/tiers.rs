//! Compaction of a whole root: the parts of writers that are gone, in tiers of size.
//!
//! Parts of about one size become one of the next, so a row is copied once a tier, however many runs come. What a
//! close does for the parts of its own holds here too: a replacement is published before its sources are hidden,
//! rows are neither folded nor dropped, and readers that listed a source find it under its hidden name.
//!
//! A writer that lives compacts its own parts when it closes, so its parts are left to it: the file that says that it
//! lives (see `journal`) is there before its first part is, and goes after its close has compacted.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use waycairn_durable::{FileLock, LockError, read_format};

use crate::compact::{CompactReport, Source, clean_up, doubled, finish, merge, open, plan, retire, single};
use crate::error::StoreError;
use crate::journal::{lives, sweep_writers};
use crate::listing::{Freshness, list};
use crate::part::values_folder;

/// The lock of those that change the parts of others: compactions of the root, and removals.
const LOCK: &str = ".compact.lock";

/// Parts below this many rows are one tier, and each tier above holds parts that are [`STEP`] times as large.
const SMALLEST_ROWS: u64 = 4_096;

const STEP: u64 = 8;

/// Fewer parts than this are not worth copying.
const FEWEST: usize = 4;

/// What a compaction of a root would begin with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CompactPlan {
    /// The parts of the root.
    pub parts: u64,
    /// Parts that would become one each. What these become may be merged once more.
    pub groups: Vec<CompactGroup>,
    /// Parts of writers that live, which are theirs.
    pub live: u64,
    /// Parts of other programs, and symbolic links to parts, which are never touched.
    pub foreign: u64,
}

/// Parts that become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CompactGroup {
    /// How many.
    pub parts: u64,
    /// Their rows.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Says what [`compact_root`] would do first. Nothing is changed.
///
/// # Errors
/// [`StoreError::Format`], [`StoreError::Query`] when the parts cannot be listed.
pub fn plan_compaction(root: &Path) -> Result<CompactPlan, StoreError> {
    read_format(root)?;
    let found = Found::in_root(&values_folder(root), &mut CompactReport::default())?;
    let Found { parts, live, foreign, sources } = found;
    let tiers = tiers(single(&sources, &doubled(&sources)));
    let groups = tiers.groups.iter().map(|group| CompactGroup {
        parts: group.len() as u64,
        rows: group.iter().map(|source| source.facts.rows).sum(),
        bytes: group.iter().filter_map(|source| fs::metadata(&source.path).ok()).map(|file| file.len()).sum(),
    });
    Ok(CompactPlan { parts, groups: groups.collect(), live, foreign })
}

/// Merges the small parts of writers that are gone into larger ones, and deletes what earlier compactions hid more than ten
/// minutes ago.
///
/// Memory is bounded by 16 decoded batches, whatever the root holds. It runs beside writers, readers and recoveries; of two
/// compactions one is refused.
///
/// # Errors
/// [`StoreError::Format`], [`StoreError::Query`] when the parts cannot be listed, [`StoreError::Lock`] when another process
/// compacts the root or removes a run from it. What fails of single parts is in the report: nothing is lost by it.
///
/// # Durability
/// A replacement survives a loss of power before its sources are hidden.
pub fn compact_root(root: &Path) -> Result<CompactReport, StoreError> {
    read_format(root)?;
    let values = values_folder(root);
    let mut report = CompactReport::default();
    if !values.is_dir() {
        return Ok(report);
    }
    let _lock = lock(&values)?;
    let mut sources = finish_root(&values, &mut report)?;
    loop {
        let Tiers { groups, rest } = tiers(sources);
        sources = rest;
        let mut merged = 0;
        let mut lists = sources.iter().map(|source| Arc::clone(&source.columns)).collect();
        for group in groups {
            let done = merge(&values, &group, None).and_then(|path| open(&path, &mut lists));
            match done {
                Ok(new) => {
                    merged += 1;
                    report.parts += 1;
                    report.rows += group.iter().map(|source| source.facts.rows).sum::<u64>();
                    // Merged again it would no longer say whose place it took.
                    if retire(&group, &mut report) {
                        sources.extend(new);
                    }
                }
                // A source that was hidden meanwhile, by a removal: what replaced it is there.
                Err(error) => report.errors.push(Arc::new(error)),
            }
        }
        if merged == 0 {
            break;
        }
    }
    match sweep_writers(&values) {
        Ok(removed) => report.deleted += removed,
        Err(error) => report.errors.push(Arc::new(error)),
    }
    clean_up(&values, &mut report);
    Ok(report)
}

/// Hides what compactions and removals that died left twice, and returns the parts that may be merged. For the holder of the
/// lock.
///
/// # Errors
/// [`StoreError::Query`] when the parts cannot be listed. What fails of single parts is in the report.
pub(crate) fn finish_root(values: &Path, report: &mut CompactReport) -> Result<Vec<Source>, StoreError> {
    let sources = Found::in_root(values, report)?.sources;
    let doubled = doubled(&sources);
    finish(&doubled, report);
    Ok(single(&sources, &doubled))
}

/// Takes the lock of those that change the parts of others; `None` on a file system without locks.
///
/// # Errors
/// [`StoreError::Lock`] when somebody else has it.
pub(crate) fn lock(values: &Path) -> Result<Option<FileLock>, StoreError> {
    match FileLock::try_acquire(&values.join(LOCK)) {
        Ok(lock) => Ok(Some(lock)),
        Err(LockError::Unsupported { .. }) => {
            tracing::warn!(folder = %values.display(), "this file system has no locks: compact and remove from one machine alone");
            Ok(None)
        }
        Err(error) => Err(Box::new(error).into()),
    }
}

/// The parts of a root that may be merged, and how many others there are.
#[derive(Default)]
struct Found {
    parts: u64,
    live: u64,
    foreign: u64,
    sources: Vec<Source>,
}

impl Found {
    fn in_root(values: &Path, report: &mut CompactReport) -> Result<Found, StoreError> {
        let set = list(values, Freshness::Published)?;
        let mut found = Found { parts: (set.parts.len() + set.damaged.len()) as u64, ..Found::default() };
        let mut lists = HashSet::new();
        let mut living: HashMap<Arc<str>, bool> = HashMap::new();
        for part in set.parts.iter() {
            if !part.ours || part.path.is_symlink() {
                found.foreign += 1;
                continue;
            }
            // A part of several writers was made by a compaction of those that were gone.
            if let Some(writer) = &part.writer {
                let lives = *living.entry(Arc::clone(writer)).or_insert_with(|| {
                    // Of whom nobody knows, he may.
                    lives(values, writer).unwrap_or_else(|error| {
                        report.errors.push(Arc::new(error));
                        true
                    })
                });
                if lives {
                    found.live += 1;
                    continue;
                }
            }
            match open(&part.path, &mut lists) {
                Ok(source) => found.sources.extend(source),
                // Its writer merged it and ended meanwhile: the next compaction sees what took its place.
                Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    found.parts -= 1;
                }
                Err(error) => report.errors.push(Arc::new(error)),
            }
        }
        Ok(found)
    }
}

struct Tiers {
    /// What becomes one part each.
    groups: Vec<Vec<Source>>,
    /// What stays as it is.
    rest: Vec<Source>,
}

/// Divides parts into groups of about one size, as far as they can be merged and it is worth while.
fn tiers(sources: Vec<Source>) -> Tiers {
    let mut by_tier: HashMap<u32, Vec<Source>> = HashMap::new();
    for source in sources {
        by_tier.entry(tier(source.facts.rows)).or_default().push(source);
    }
    let mut tiers: Vec<(u32, Vec<Source>)> = by_tier.into_iter().collect();
    tiers.sort_by_key(|(tier, _)| *tier);
    let (mut groups, mut rest) = (Vec::new(), Vec::new());
    for (_, sources) in tiers {
        let planned: Vec<Vec<Source>> =
            plan(sources.clone()).into_iter().filter(|group| group.len() >= FEWEST).collect();
        let taken: HashSet<&PathBuf> = planned.iter().flatten().map(|source| &source.path).collect();
        rest.extend(sources.iter().filter(|source| !taken.contains(&source.path)).cloned());
        groups.extend(planned);
    }
    Tiers { groups, rest }
}

fn tier(rows: u64) -> u32 {
    (rows / SMALLEST_ROWS).checked_ilog(STEP).map_or(0, |tier| tier + 1)
}

#[cfg(test)]
mod tests;
