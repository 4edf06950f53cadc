//! The end of a launch that succeeded: the latest settings win.
//!
//! ```text
//! history.json   what this training used, before anything goes
//! runs/          only this training's; a folder is renamed aside before its bytes go
//! settings       a copy of the file, byte for byte
//! cache/         a collection: what only expired history used
//! ```
//!
//! A crash between any two leaves more than is wanted, never less; the next launch does the same again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::json;
use waycairn_cache::{EntryName, GcPolicy, Lookup, Tally, Used};
use waycairn_durable::{
    Durability, Size, create_dir_all, delete_aside, read_file, set_aside, sync_folder, time, write_file,
};

use crate::analysis::ANALYSIS_FILE;
use crate::analyze::AnalysisFile;
use crate::error::StudyError;
use crate::launch::{Cleaned, Launch, Stages};
use crate::lease::Alone;
use crate::litter;
use crate::plan::Plan;
use crate::record::{self, RecordedRun, RunState, folders};
use crate::source;
use crate::train::start_over;
use crate::training::TRAINING_FILE;

/// The group of a training's entries in the history.
const TRAINING_GROUP: &str = "training";

/// The group of the entries of an analysis.
const ANALYSIS_GROUP: &str = "analysis";

/// What a root of the history keeps: the archives of the sources that its runs name.
const SOURCES: &str = "sources";

/// What the end of a launch removed and kept.
#[derive(Debug, Default)]
pub(crate) struct CleanUp {
    /// Paths from the root.
    pub(crate) removed: Vec<String>,
    pub(crate) cleaned: Cleaned,
}

impl CleanUp {
    fn add(&mut self, removed: impl IntoIterator<Item = (String, Size)>) {
        for (path, size) in removed {
            self.removed.push(path);
            self.cleaned.removed += size;
        }
    }
}

/// Records a training, removes other runs and collects. Returns what was removed; nothing while a run is not trained.
pub(crate) fn settle(launch: &Launch<'_>, plan: &Plan, alone: &Alone) -> Result<Option<CleanUp>, StudyError> {
    let training = launch.training;
    let root = training.output();
    let cache = &launch.cache;
    let Some(Settled { sources, products }) = settled(launch, plan)? else { return Ok(None) };
    let mut clean_up = CleanUp::default();
    if let Stages::Train = launch.stages {
        // A training lets the analyses of its runs begin anew, once it has succeeded.
        for folder in plan.folders() {
            let removed = start_over(&root.join(folder))?.into_iter();
            clean_up.add(removed.map(|(name, size)| (folder.join(name).display().to_string(), size)));
        }
    }
    let now = time::now_nanos();
    let mut history = cache.history(now)?;
    let before = history.clone();
    history.record(Used {
        digest: plan.digest,
        label: training.profile().unwrap_or("base"),
        group: TRAINING_GROUP,
        entries: plan.entries()?,
        now,
    });
    if launch.stages.analysis().is_some() {
        history.record(Used {
            digest: plan.digest,
            label: training.profile().unwrap_or("base"),
            group: ANALYSIS_GROUP,
            entries: products,
            now,
        });
    }
    history.set_extra(SOURCES, json!(sources));
    if changed(&before, &history) {
        cache.save_history(&history)?;
    }
    clean_up.add(other_runs(root, plan)?);
    litter::reap(root, now);
    if !matches!(launch.stages, Stages::Analyze(_)) {
        copy(&root.join(TRAINING_FILE), training.document.text.as_bytes())?;
    }
    if let Some(settings) = launch.stages.analysis() {
        copy(&root.join(ANALYSIS_FILE), settings.document.text.as_bytes())?;
    }
    let planned = cache.plan_gc(&history, now, GcPolicy::default(), None)?;
    let (mut kept, _) = planned.tally();
    if history.forget_gone(&planned) {
        cache.save_history(&history)?;
    }
    if planned.removals().next().is_some() {
        let report = planned.execute(cache, &alone.lock);
        clean_up.removed.extend(report.removed_entries.iter().map(crate::record::entry_path));
        clean_up.cleaned.removed += size(report.removed);
        kept = report.kept;
        for failure in &report.errors {
            tracing::warn!(path = %failure.path.display(), error = failure.error, "an older artifact stays");
        }
        history.collected(&report);
        cache.save_history(&history)?;
    }
    // Where the history is lost or adopted, nobody knows which archives it named.
    if planned.doubts.is_empty() {
        let named = history.roots().iter().filter_map(|root| root.extra.get(SOURCES)?.as_array()).flatten();
        let named = named.filter_map(|name| name.as_str().map(str::to_owned)).collect();
        clean_up.add(source::collect(root, &named)?);
    }
    clean_up.cleaned.kept = size(kept);
    for folder in ["runs", "source"] {
        clean_up.cleaned.kept += Size::of(&root.join(folder))?;
    }
    Ok(Some(clean_up))
}

fn size(tally: Tally) -> Size {
    Size { files: tally.files, bytes: tally.bytes }
}

/// Refuses a root in which a copy of the settings could not be written at the end.
pub(crate) fn check(root: &Path) -> Result<(), StudyError> {
    for name in [TRAINING_FILE, ANALYSIS_FILE] {
        let path = root.join(name);
        if path.is_dir() {
            return Err(StudyError::InTheWay { path });
        }
    }
    Ok(())
}

/// What a launch that is whole has used.
struct Settled {
    /// The archives that its runs name.
    sources: BTreeSet<String>,
    /// The entries of its products, without the models.
    products: BTreeSet<EntryName>,
}

/// Looks at every run of a plan, whoever has done it; `None` while one of them is not whole: another worker has it,
/// left it, or failed at it.
fn settled(launch: &Launch<'_>, plan: &Plan) -> Result<Option<Settled>, StudyError> {
    let root = launch.training.output();
    let mut settled = Settled { sources: BTreeSet::new(), products: BTreeSet::new() };
    for (index, run) in plan.runs.iter().enumerate() {
        let folder = root.join(&run.job.folder);
        let Some(recorded) = RecordedRun::open(root, &run.job.folder)? else { return Ok(None) };
        let trained = recorded.status.as_ref().is_some_and(|status| status.state == RunState::Trained);
        if !trained || !matches!(launch.cache.get(&run.recipe)?, Lookup::Hit(_)) {
            return Ok(None);
        }
        settled.sources.insert(recorded.run.source);
        let analysis = match (record::read::<AnalysisFile>(&folder.join(record::ANALYSIS)), launch.stages) {
            // It begins anew, whatever it says.
            (Err(_), Stages::Train) => None,
            (analysis, _) => analysis?,
        };
        if let Some(graph) = launch.graphs.get(index) {
            if !analysis.as_ref().is_some_and(|file| file.is_complete(&folder, &graph.wanted)) {
                return Ok(None);
            }
            settled.products.extend(graph.entries()?);
        }
        settled.sources.extend(analysis.map(|file| file.source));
    }
    Ok(Some(settled))
}

/// Whether two histories differ in more than the time of their latest root.
fn changed(before: &waycairn_cache::History, after: &waycairn_cache::History) -> bool {
    let plain = |history: &waycairn_cache::History| {
        let roots: Vec<_> = history
            .roots()
            .iter()
            .map(|root| (root.digest, root.label.clone(), root.groups.clone(), root.extra.clone()))
            .collect();
        (roots, history.expired().clone())
    };
    plain(before) != plain(after) || before.state() != after.state()
}

/// Removes the folders of runs that are not of a plan.
fn other_runs(root: &Path, plan: &Plan) -> Result<Vec<(String, Size)>, StudyError> {
    let ours: BTreeSet<&Path> = plan.folders().collect();
    let runs = root.join("runs");
    let mut removed = Vec::new();
    litter::sweep(&runs)?;
    for variant in folders(&runs)? {
        litter::sweep(&runs.join(&variant))?;
        let members = folders(&runs.join(&variant))?;
        let of = |member: &String| PathBuf::from("runs").join(&variant).join(member);
        let (kept, gone): (Vec<PathBuf>, Vec<PathBuf>) =
            members.iter().map(of).partition(|folder| ours.contains(folder.as_path()));
        for folder in &gone {
            let size = discard(&runs.join(&variant), &root.join(folder))?;
            removed.push((folder.display().to_string(), size));
        }
        for folder in &kept {
            litter::sweep(&root.join(folder))?;
        }
        if kept.is_empty() {
            discard(&runs, &runs.join(&variant))?;
        }
    }
    Ok(removed)
}

/// Renames a folder aside, and then removes it: half of a run has no name. Says what it took.
fn discard(runs: &Path, folder: &Path) -> Result<Size, StudyError> {
    let Some(aside) = set_aside(folder)? else { return Ok(Size::default()) };
    sync_folder(runs)?;
    let size = Size::of(&aside)?;
    delete_aside(&aside)?;
    Ok(size)
}

/// Writes a copy of a settings file, unless the same bytes are there.
fn copy(path: &Path, bytes: &[u8]) -> Result<(), StudyError> {
    if read_file(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        create_dir_all(folder)?;
    }
    Ok(write_file(path, bytes, Durability::State)?)
}
