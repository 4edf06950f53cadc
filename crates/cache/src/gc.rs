//! Collection: a plan, which is pure, and its execution.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rayon::prelude::*;
use serde::Serialize;
use waycairn_durable::{FileLock, delete_aside, fault, is_temporary, set_aside, sync_folder, time};

use crate::cache::Cache;
use crate::layout::MANIFEST;
use crate::listing::{Kind, Listed, Listing};
use crate::manifest::Manifest;
use crate::{CacheError, EntryName, History, Key, Pins};

/// How long a chain of entries that are built from each other is told apart.
const MAX_GENERATIONS: usize = 100;

/// Says what a collection spares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcPolicy {
    /// What no history ever named is spared while it is younger than this: a day.
    pub spare_younger: Duration,
}

impl Default for GcPolicy {
    fn default() -> Self {
        Self { spare_younger: Duration::from_secs(24 * 3600) }
    }
}

/// Is all that a plan is computed from.
#[derive(Debug, Clone, Copy)]
pub struct GcInput<'input> {
    /// What is there.
    pub listing: &'input Listing,
    /// What recent launches used.
    pub history: &'input History,
    /// What the user keeps.
    pub pins: &'input Pins,
    /// What this process has in its hands.
    pub held: &'input BTreeSet<EntryName>,
    /// Now, in nanoseconds since 1970.
    pub now: i64,
    /// What is spared.
    pub policy: GcPolicy,
    /// Why the caller wants nothing removed, if so: a folder of its own is missing, say.
    pub doubt: Option<&'input str>,
}

/// Says what would go and why. Printing it is the dry run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GcPlan {
    /// What lies in the cache, each with what is to become of it; sorted.
    pub decisions: Vec<Decision>,
    /// Why nothing is removed, if so. What would go otherwise is kept as [`Keep::Doubt`].
    pub doubts: Vec<String>,
    /// What some root of the history used and is not there.
    pub missing: Vec<EntryName>,
}

/// Is what is to become of one thing in the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// Its path in the root.
    pub path: PathBuf,
    /// The entry that it is, if it counts as one.
    pub entry: Option<EntryName>,
    /// How many bytes its files have.
    pub bytes: u64,
    /// How many files it has.
    pub files: u64,
    /// Keep it or remove it, and why.
    pub verdict: Verdict,
    /// When it was changed last. If it has changed since, it is left alone.
    #[serde(skip)]
    modified: i64,
}

/// Says whether something is kept or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict", content = "reason")]
pub enum Verdict {
    /// It stays.
    Keep(Keep),
    /// It goes.
    Remove(Remove),
}

/// Says why something stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// A root of the history used it.
    Used,
    /// It is pinned, or what is pinned was built from it.
    Pinned,
    /// This process has it in its hands.
    Held,
    /// No history ever named it, and it is not a day old.
    Young,
    /// The cache never makes such a name, so it is somebody else's.
    Foreign,
    /// It would go, were there no doubt.
    Doubt,
}

/// Says why something goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Remove {
    /// Only roots used it that are not in the history any more.
    Expired,
    /// No history ever named it, and it is old.
    Unknown,
    /// It never counted, and it is old.
    Litter,
}

impl GcPlan {
    /// Decides about everything that is there. It is pure: the time is an argument, and nothing is read.
    #[must_use]
    pub fn compute(input: GcInput<'_>) -> Self {
        let used: HashSet<&EntryName> = input.history.used().collect();
        let pinned: HashSet<&EntryName> = input.pins.kept().collect();
        let there: HashSet<&EntryName> = input.listing.entries().collect();
        let mut missing: Vec<EntryName> =
            used.iter().filter(|entry| !there.contains(*entry)).map(|&entry| entry.clone()).collect();
        missing.sort_unstable();

        let mut doubts: Vec<String> = input.history.doubt().into_iter().chain(input.pins.doubt()).collect();
        doubts.extend(input.doubt.map(str::to_owned));
        if !input.listing.present {
            doubts.push("the folder `cache` is missing".to_owned());
        } else {
            let products: BTreeSet<&str> = used.iter().map(|entry| entry.product()).collect();
            let absent = products
                .into_iter()
                .filter(|&product| !input.listing.products.iter().any(|there| **there == *product));
            doubts.extend(absent.map(|product| {
                format!("the folder `cache/{product}` is missing, and recent launches used it")
            }));
        }

        let decide = |listed: &Listed| {
            let age = u128::try_from(i128::from(input.now) - i128::from(listed.modified)).unwrap_or(0);
            let old = age >= input.policy.spare_younger.as_nanos();
            let old_goes = |remove| if old { Verdict::Remove(remove) } else { Verdict::Keep(Keep::Young) };
            let verdict = match &listed.kind {
                Kind::Entry(entry) if used.contains(entry) => Verdict::Keep(Keep::Used),
                Kind::Entry(entry) if pinned.contains(entry) => Verdict::Keep(Keep::Pinned),
                Kind::Entry(entry) if input.held.contains(entry) => Verdict::Keep(Keep::Held),
                Kind::Entry(entry) if input.history.expired().contains(entry) => {
                    Verdict::Remove(Remove::Expired)
                }
                Kind::Entry(_) => old_goes(Remove::Unknown),
                Kind::Bare(_) | Kind::Temporary | Kind::Aside => old_goes(Remove::Litter),
                Kind::Foreign => Verdict::Keep(Keep::Foreign),
            };
            match verdict {
                Verdict::Remove(_) if !doubts.is_empty() => Verdict::Keep(Keep::Doubt),
                verdict => verdict,
            }
        };
        let decision = |listed: &Listed| Decision {
            path: listed.path(Path::new("")),
            entry: listed.entry().cloned(),
            bytes: listed.bytes,
            files: listed.files,
            verdict: decide(listed),
            modified: listed.modified,
        };
        Self { decisions: input.listing.listed.iter().map(decision).collect(), doubts, missing }
    }

    /// What is to go.
    pub fn removals(&self) -> impl Iterator<Item = &Decision> {
        self.decisions.iter().filter(|decision| matches!(decision.verdict, Verdict::Remove(_)))
    }

    /// Adds up what is kept and what is to go, in this order.
    #[must_use]
    pub fn tally(&self) -> (Tally, Tally) {
        let (mut kept, mut removed) = (Tally::default(), Tally::default());
        for decision in &self.decisions {
            match decision.verdict {
                Verdict::Keep(_) => kept.add(decision),
                Verdict::Remove(_) => removed.add(decision),
            }
        }
        (kept, removed)
    }

    /// Removes what the plan says. `_lease` is the lock that keeps others from launching or collecting meanwhile; where
    /// there are no locks there is none, and nothing is collected.
    ///
    /// Names go first: everything is renamed aside, the folder is synced, and then the bytes go, so a collection that
    /// ends half-way leaves litter and no half entry. What was built from others goes before those, so none that is left
    /// lacks one. What is held meanwhile, or was changed since the plan, stays. An error about one thing does not stop
    /// the others.
    #[must_use]
    pub fn execute(&self, cache: &Cache, _lease: &FileLock) -> GcReport {
        let mut report =
            GcReport { doubts: self.doubts.clone(), missing: self.missing.clone(), ..GcReport::default() };
        let generations = self.generations(cache);
        let mut products: BTreeMap<(usize, &Path), Vec<&Decision>> = BTreeMap::new();
        for decision in &self.decisions {
            match decision.verdict {
                Verdict::Keep(_) => report.kept.add(decision),
                Verdict::Remove(_) => {
                    let generation =
                        decision.entry.as_ref().and_then(|entry| generations.get(entry)).copied();
                    let folder = decision.path.parent().unwrap_or(Path::new(""));
                    products.entry((generation.unwrap_or_default(), folder)).or_default().push(decision);
                }
            }
        }
        for ((_, folder), decisions) in products {
            let mut asides = Vec::with_capacity(decisions.len());
            for decision in decisions {
                fault::point("cache.gc.aside");
                match take_name(cache, decision) {
                    Ok(Some(aside)) => asides.push((decision, aside)),
                    Ok(None) => {
                        report.spared += 1;
                        report.kept.add(decision);
                    }
                    Err(error) => report.failed(decision, error),
                }
            }
            fault::point("cache.gc.sync");
            if let Err(error) = sync_folder(&cache.root().join(folder)) {
                // The names may come back after a power loss, so the bytes stay; they are litter now.
                let error = error.to_string();
                for (decision, _) in asides {
                    report.kept.add(decision);
                    report.errors.push(GcFailure { path: decision.path.clone(), error: error.clone() });
                }
                continue;
            }
            fault::point("cache.gc.delete");
            let deleted: Vec<(&Decision, Result<(), CacheError>)> = asides
                .into_par_iter()
                .map(|(decision, aside)| (decision, delete_aside(&aside).map_err(CacheError::from)))
                .collect();
            for (decision, result) in deleted {
                match result {
                    Ok(()) => {
                        report.removed.add(decision);
                        report.removed_entries.extend(decision.entry.clone());
                    }
                    Err(error) => report.failed(decision, error),
                }
            }
        }
        report.removed_entries.sort_unstable();
        tracing::info!(
            removed = report.removed.entries,
            removed_bytes = report.removed.bytes,
            kept = report.kept.entries,
            kept_bytes = report.kept.bytes,
            errors = report.errors.len(),
            "cache collected"
        );
        for doubt in &report.doubts {
            tracing::warn!(doubt, "nothing was collected");
        }
        report
    }

    /// How many that are to go stand above each entry that is to go: built from it, or from what was built from it.
    fn generations(&self, cache: &Cache) -> BTreeMap<&EntryName, usize> {
        let going: Vec<&EntryName> = self.removals().filter_map(|decision| decision.entry.as_ref()).collect();
        let mut generations: BTreeMap<&EntryName, usize> = going.iter().map(|&entry| (entry, 0)).collect();
        let by_folder: BTreeMap<[u8; 16], &EntryName> =
            going.iter().map(|&entry| (entry.folder_bytes(), entry)).collect();
        let mut edges: Vec<(&EntryName, &EntryName)> = Vec::new();
        for entry in going {
            // One that cannot be read goes as it is.
            let Ok(manifest) = Manifest::read(&entry.path(cache.root()).join(MANIFEST), entry) else {
                continue;
            };
            let folders = manifest.recipe.dependencies.values().map(Key::folder_bytes);
            edges.extend(folders.filter_map(|folder| Some((entry, *by_folder.get(&folder)?))));
        }
        // A key holds those that it depends on, so this ends by itself; manifests that lie may go round.
        for _ in 0..MAX_GENERATIONS {
            let mut lifted = false;
            for (above, below) in &edges {
                let generation = generations[above] + 1;
                if generations[below] < generation {
                    generations.insert(*below, generation);
                    lifted = true;
                }
            }
            if !lifted {
                break;
            }
        }
        generations
    }
}

/// Renames aside what is to go, unless it is in use or not what the plan saw. Its new path.
fn take_name(cache: &Cache, decision: &Decision) -> Result<Option<PathBuf>, CacheError> {
    let path = cache.root().join(&decision.path);
    if cache.registry().is_staged(&path) {
        return Ok(None);
    }
    if decision.path.file_name().is_some_and(is_temporary) {
        // Its name counts for nobody already.
        return Ok(Some(path));
    }
    let rename = || -> Result<Option<PathBuf>, CacheError> {
        if decision.entry.is_some() && has_changed(&path, decision.modified) {
            return Ok(None);
        }
        Ok(set_aside(&path)?)
    };
    match &decision.entry {
        Some(entry) => cache.registry().unless_held(entry, rename).unwrap_or(Ok(None)),
        None => rename(),
    }
}

/// Says whether an entry is another one than the plan saw: removed, and built again.
fn has_changed(path: &Path, modified: i64) -> bool {
    let now = path.symlink_metadata().and_then(|metadata| metadata.modified());
    now.ok().map(time::from_system) != Some(modified)
}

/// Is a number of things, of their files and of their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// How many entries and pieces of litter.
    pub entries: u64,
    /// How many files they have.
    pub files: u64,
    /// How many bytes those have.
    pub bytes: u64,
}

impl Tally {
    fn add(&mut self, decision: &Decision) {
        self.entries += 1;
        self.files += decision.files;
        self.bytes += decision.bytes;
    }
}

/// Says what a collection did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct GcReport {
    /// What was removed.
    pub removed: Tally,
    /// What stays, with what could not be removed.
    pub kept: Tally,
    /// The entries among what was removed, sorted.
    pub removed_entries: Vec<EntryName>,
    /// How many were to go and were spared, since they were in use or had changed.
    pub spared: u64,
    /// Why nothing was removed, if so.
    pub doubts: Vec<String>,
    /// What some root of the history used and is not there.
    pub missing: Vec<EntryName>,
    /// What could not be removed.
    pub errors: Vec<GcFailure>,
}

/// Is one thing that could not be removed, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GcFailure {
    /// Its path in the root.
    pub path: PathBuf,
    /// The error, in words.
    pub error: String,
}

impl GcReport {
    fn failed(&mut self, decision: &Decision, error: CacheError) {
        self.kept.add(decision);
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(source) = cause {
            text = format!("{text}: {source}");
            cause = source.source();
        }
        self.errors.push(GcFailure { path: decision.path.clone(), error: text });
    }
}

impl Cache {
    /// Plans a collection of the root as it is now: reads the listing, the pins, and what this process holds.
    /// `history` is what the caller has recorded; read it under the lease.
    ///
    /// # Errors
    ///
    /// [`CacheError::Io`] when the root cannot be listed.
    pub fn plan_gc(
        &self,
        history: &History,
        now: i64,
        policy: GcPolicy,
        doubt: Option<&str>,
    ) -> Result<GcPlan, CacheError> {
        let (listing, pins, held) = (self.listing()?, self.pins()?, self.registry().held());
        let input = GcInput { listing: &listing, history, pins: &pins, held: &held, now, policy, doubt };
        Ok(GcPlan::compute(input))
    }
}

#[cfg(test)]
mod tests;
