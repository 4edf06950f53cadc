//! The checkpoints of dead branches: runs that a study trained once and that nothing names any more.
//!
//! A launch leaves the nodes of older settings with all their checkpoints, since nobody can compute a record again. What
//! of them nothing needs is told here, and removed when somebody asks for that: the checkpoints alone, as the retention
//! of a training withdraws them. The records stay.
//!
//! What is not proven dead stays: a run of no study is its user's own, and where history or pins cannot be read nobody
//! knows what is used.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use waycairn_cache::{Cache, EntryName, GcPolicy};
use waycairn_dag::Node;
use waycairn_durable::{Size, time};
use waycairn_store::{ObjectReader, ObjectStore, RunSummary, StoreOptions};
use waycairn_train::{TrainError, run_holder, study_models, take_run};

use crate::collect::alone;
use crate::error::StudyError;
use crate::model::MODEL;
use crate::record::RecordedRun;
use crate::usage::{RunUsage, Usage};

/// A run that has checkpoints, and what is to become of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Branch {
    /// The name of its nodes.
    pub name: String,
    /// Their nonce.
    pub nonce: String,
    /// How many checkpoints it has; of a dead branch, how many would go.
    pub checkpoints: u64,
    /// What those take.
    #[serde(flatten)]
    pub size: Size,
    /// Why they stay, or go.
    pub reason: Reason,
    /// The runs that branched from it.
    pub branches: Vec<String>,
}

impl Branch {
    /// Whether its checkpoints would go.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.reason == Reason::Dead
    }
}

/// Why the checkpoints of a run stay, or go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// No study trained it: it is its user's own.
    Own,
    /// Nobody knows what is used: the history or the pins are lost or cannot be read.
    Doubt,
    /// A folder in `runs/` names it.
    Run,
    /// The history names its model.
    Used,
    /// Its model is pinned.
    Pinned,
    /// Other runs branched from it.
    Base,
    /// It is being trained.
    Written,
    /// It was written to within the last day.
    Young,
    /// Something is attached to each node of it that has a checkpoint.
    Attached,
    /// Nothing needs them: they go.
    Dead,
}

impl Reason {
    /// Its word, as in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Doubt => "doubt",
            Self::Run => "run",
            Self::Used => "used",
            Self::Pinned => "pinned",
            Self::Base => "base",
            Self::Written => "written",
            Self::Young => "young",
            Self::Attached => "attached",
            Self::Dead => "dead",
        }
    }
}

/// What was removed of dead branches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BranchReport {
    /// The branches whose checkpoints went.
    pub removed: Vec<Branch>,
    /// What that gave back.
    #[serde(flatten)]
    pub size: Size,
    /// The ones that were to go and were spared, as `name@nonce`: they are in use after all.
    pub spared: Vec<String>,
}

/// What is true of a run.
#[derive(Clone, Copy, Debug)]
struct Facts {
    /// A study trained it.
    study: bool,
    doubt: bool,
    run: bool,
    used: bool,
    pinned: bool,
    base: bool,
    young: bool,
}

/// Decides by what is cheap to know: `None` where it is dead unless it is being trained.
fn decide(facts: Facts) -> Option<Reason> {
    let reasons = [
        (!facts.study, Reason::Own),
        (facts.doubt, Reason::Doubt),
        (facts.run, Reason::Run),
        (facts.used, Reason::Used),
        (facts.pinned, Reason::Pinned),
        (facts.base, Reason::Base),
        (facts.young, Reason::Young),
    ];
    reasons.into_iter().find_map(|(holds, reason)| holds.then_some(reason))
}

/// Lists all runs with checkpoints and says which of them are dead branches. Nothing is written.
///
/// # Errors
///
/// [`StudyError::Query`] when records cannot be read: what a damaged part hides may be a branch.
pub fn plan_branches(root: &Path) -> Result<Vec<Branch>, StudyError> {
    plan(root, time::now_nanos(), GcPolicy::default().spare_younger)
}

/// Removes the checkpoints of the branches that are dead under the lease.
///
/// Each is taken first, so that nobody trains it or branches from it, and then asked once more what hangs on it.
///
/// # Errors
///
/// [`StudyError::Busy`] while a launch has the root; [`StudyError::Unlockable`] where the file system has no locks;
/// [`StudyError::Store`] when a checkpoint cannot be withdrawn. What was removed before stays removed.
pub fn collect_branches(root: &Path) -> Result<BranchReport, StudyError> {
    collect(root, time::now_nanos(), GcPolicy::default().spare_younger)
}

fn collect(root: &Path, now: i64, young: Duration) -> Result<BranchReport, StudyError> {
    let mut report = BranchReport::default();
    if !root.join("objects").is_dir() {
        return Ok(report);
    }
    let _alone = alone(root)?;
    let dead: Vec<Branch> = plan(root, now, young)?.into_iter().filter(Branch::is_dead).collect();
    if dead.is_empty() {
        return Ok(report);
    }
    let store = ObjectStore::open(root, StoreOptions::default())?;
    for branch in dead {
        match withdraw(&store, &branch) {
            Ok(true) => {
                report.size += branch.size;
                report.removed.push(branch);
            }
            Ok(false) => report.spared.push(format!("{}@{}", branch.name, branch.nonce)),
            Err(error) => {
                store.close()?;
                return Err(error);
            }
        }
    }
    store.close()?;
    Ok(report)
}

/// Withdraws the checkpoints of a branch, unless it is in use after all.
fn withdraw(store: &ObjectStore, branch: &Branch) -> Result<bool, StudyError> {
    let reader = store.live_reader();
    let run = Node::new(&branch.name, &branch.nonce, 0).map_err(waycairn_train::JobError::from);
    let run = run.map_err(TrainError::from)?;
    let _taken = match take_run(&reader, &run) {
        Ok(taken) => taken,
        Err(TrainError::Busy { .. } | TrainError::Read { .. }) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let Some(checkpoints) = free(&reader, &run)? else { return Ok(false) };
    store.withdraw_checkpoints(&checkpoints)?;
    // What an earlier collection left that was killed between a marker and its bytes.
    store.remove_unmarked_checkpoints(run.name(), run.nonce())?;
    Ok(true)
}

/// The marked nodes of a run that nothing is attached to; `None` when somebody branched from one.
fn free(reader: &ObjectReader, run: &Node) -> Result<Option<Vec<Node>>, StudyError> {
    let mut free = Vec::new();
    for node in reader.query().name(run.name()).nonce(run.nonce()).checkpoint().all()?.value {
        let Some(view) = reader.node(&node)? else { continue };
        if view.children_incomplete || view.children.iter().any(|child| !child.same_run(&node)) {
            return Ok(None);
        }
        if view.artifacts.is_empty() && view.files.is_empty() {
            free.push(node);
        }
    }
    Ok(Some(free))
}

fn plan(root: &Path, now: i64, young: Duration) -> Result<Vec<Branch>, StudyError> {
    let reader = ObjectReader::open_live(root)?;
    let runs = reader.runs()?;
    let key = |node: &Node| (node.name().to_owned(), node.nonce().to_owned());
    let models: BTreeMap<_, String> =
        study_models(&reader)?.into_iter().map(|(node, model)| (key(&node), model)).collect();
    let mut branches: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for edge in reader.edges()?.iter().filter(|edge| !edge.parent.same_run(&edge.child)) {
        let child = format!("{}@{}", edge.child.name(), edge.child.nonce());
        branches.entry(key(&edge.parent)).or_default().insert(child);
    }
    let takes: BTreeMap<_, RunUsage> =
        Usage::of(root)?.runs.into_iter().map(|run| ((run.name.clone(), run.nonce.clone()), run)).collect();

    let cache = Cache::open(root)?;
    let (history, pins) = (cache.history(now)?, cache.pins()?);
    let doubt = history.doubt().is_some()
        || pins.doubt().is_some()
        || history.roots().is_empty()
        || !root.join("runs").is_dir();
    let model = |entry: &EntryName| (entry.product() == MODEL).then(|| entry.folder().to_owned());
    let used: BTreeSet<String> = history.used().filter_map(model).collect();
    let pinned: BTreeSet<String> = pins.kept().filter_map(model).collect();
    let recorded = RecordedRun::list(root)?;
    let is_named = |run: &RunSummary| {
        recorded.iter().any(|known| match &known.run.node {
            Some(node) => {
                node.parse().is_ok_and(|node: waycairn_dag::Address| node.decode().same_run(&run.last))
            }
            // It is not trained to its end: any run of the name may be the one.
            None => known.run.name == run.name,
        })
    };

    let mut planned = Vec::new();
    for run in runs {
        let id = (run.name.clone(), run.nonce.clone());
        let size = takes.get(&id).map(|usage| usage.checkpoints).unwrap_or_default();
        if run.checkpoints.is_empty() && size == Size::default() {
            continue;
        }
        let model = models.get(&id);
        let among = |entries: &BTreeSet<String>| {
            model.is_some_and(|key| entries.iter().any(|entry| key.starts_with(entry.as_str())))
        };
        let age = run.written.map_or(i128::MAX, |written| i128::from(now) - i128::from(written));
        let below = branches.remove(&id).unwrap_or_default();
        let facts = Facts {
            study: model.is_some(),
            doubt,
            run: is_named(&run),
            used: among(&used),
            pinned: among(&pinned),
            base: !below.is_empty(),
            young: age < i128::try_from(young.as_nanos()).unwrap_or(i128::MAX),
        };
        let mut branch = Branch {
            name: run.name.clone(),
            nonce: run.nonce.clone(),
            checkpoints: run.checkpoints.len() as u64,
            size,
            reason: Reason::Dead,
            branches: below.into_iter().collect(),
        };
        match decide(facts) {
            Some(reason) => branch.reason = reason,
            None if run_holder(&reader, &run.last)?.is_some() => branch.reason = Reason::Written,
            None => narrow(&mut branch, &reader, &run)?,
        }
        planned.push(branch);
    }
    Ok(planned)
}

/// Leaves out of a dead branch the checkpoints of nodes that something is attached to.
fn narrow(branch: &mut Branch, reader: &ObjectReader, run: &RunSummary) -> Result<(), StudyError> {
    let Some(free) = free(reader, &run.last)? else {
        branch.reason = Reason::Base;
        return Ok(());
    };
    let mut kept = Size::default();
    for node in run.checkpoints.iter().filter_map(|seq| run.last.at(*seq).ok()) {
        if !free.contains(&node) {
            kept += reader.checkpoint_size(&node)?;
        }
    }
    let left = Size {
        files: branch.size.files.saturating_sub(kept.files),
        bytes: branch.size.bytes.saturating_sub(kept.bytes),
    };
    if free.is_empty() && left == Size::default() {
        branch.reason = Reason::Attached;
    } else {
        (branch.checkpoints, branch.size) = (free.len() as u64, left);
    }
    Ok(())
}

#[cfg(test)]
#[path = "branches/tests.rs"]
mod tests;
