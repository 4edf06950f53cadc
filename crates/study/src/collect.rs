//! A collection by hand, and what is pinned.

use std::path::Path;

use waycairn_cache::{Cache, EntryName, GcPlan, GcPolicy, GcReport};
use waycairn_durable::{Digest, time};

use crate::error::StudyError;
use crate::lease::{Alone, Lease};

/// Plans a collection of a root: what would go, and why. Nothing is written.
///
/// # Errors
///
/// [`StudyError::Cache`] when the root cannot be listed.
pub fn plan_collection(root: &Path) -> Result<GcPlan, StudyError> {
    let cache = Cache::open(root)?;
    let now = time::now_nanos();
    Ok(cache.plan_gc(&cache.history(now)?, now, GcPolicy::default(), None)?)
}

/// Collects: removes what a plan that is made now, under the lease, says.
///
/// # Errors
///
/// [`StudyError::Busy`] while a launch has the root; [`StudyError::Unlockable`] where the file system has no locks.
pub fn collect(root: &Path) -> Result<GcReport, StudyError> {
    let cache = Cache::open(root)?;
    let alone = alone(root)?;
    let now = time::now_nanos();
    let mut history = cache.history(now)?;
    let plan = cache.plan_gc(&history, now, GcPolicy::default(), None)?;
    let report = plan.execute(&cache, &alone.lock);
    if history.forget_gone(&plan) || !report.removed_entries.is_empty() {
        history.collected(&report);
        cache.save_history(&history)?;
    }
    Ok(report)
}

/// The right to remove what launches made: no other one works in the root, and none can begin.
pub(crate) fn alone(root: &Path) -> Result<Alone, StudyError> {
    let announce = |holder: &_| tracing::warn!("waiting for {holder}, who looks at the workers of the root");
    // No settings have this digest, so every launch that lives refuses it.
    let lease = Lease::join(root, Digest::of(b"a collection by hand"), announce)?;
    lease.leave(announce)?.ok_or_else(|| StudyError::Unlockable { root: root.to_owned() })
}

/// The cache entries that a text names: an entry, written `<product>/<key>` or as its folder; or a run, by its folder,
/// the name of its nodes or its node's address, which stands for all of its artifacts.
///
/// # Errors
///
/// [`StudyError::NotFound`] when it names nothing.
pub fn entries_named(root: &Path, text: &str) -> Result<Vec<EntryName>, StudyError> {
    let plain = text.trim_end_matches('/');
    let listing = Cache::open(root)?.listing()?;
    let entry = plain.strip_prefix("cache/").unwrap_or(plain);
    if let Some((product, key)) = entry.split_once('/') {
        let matches = |known: &&EntryName| {
            known.product() == product && key.len() >= 4 && known.folder().starts_with(key)
        };
        let found: Vec<EntryName> = listing.entries().filter(matches).cloned().collect();
        if let [one] = found.as_slice() {
            return Ok(vec![one.clone()]);
        }
    }
    let one = crate::record::RecordedRun::find(root, plain)?;
    let paths: Vec<&str> =
        one.artifacts.artifacts.values().map(|reference| reference.path.as_str()).collect();
    let of_run = |entry: &&EntryName| paths.contains(&crate::record::entry_path(entry).as_str());
    Ok(listing.entries().filter(of_run).cloned().collect())
}
