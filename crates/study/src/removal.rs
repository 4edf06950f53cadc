//! Removal of a run, or of one checkpoint: what would go is told first.
//!
//! ```text
//! lease     no launch works in the root, and no other removal does
//! run       nobody trains it, nobody has a checkpoint of it open; then it is asked what hangs on it
//! runs/     all but `run.json` of its folder: it is no trained run any more
//! records   and then the folders of the nodes (waycairn_store)
//! runs/     the folder
//! ```
//!
//! Killed between any two, it is found by the same words as before, and what is left is not whole.
//!
//! Models stay in the cache, where a collection finds them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Serialize;
use waycairn_cache::{Cache, EntryName};
use waycairn_dag::{Address, Node};
use waycairn_durable::{Size, delete_aside, remove_dir_all, remove_file, set_aside, sync_folder};
use waycairn_store::{ObjectReader, ObjectStore, Removal, ResolveError, StoreOptions};
use waycairn_train::{run_holder, study_models, take_run};

use crate::collect::alone;
use crate::error::StudyError;
use crate::model::MODEL;
use crate::record::{RUN, RecordedRun, STATUS, entry_path};

/// How many runs are named in a refusal.
const SHOWN: usize = 6;

/// The fewest characters that stand for a nonce.
const MIN_NONCE: usize = 4;

/// What goes, in files and bytes, or went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RemovalPlan {
    /// `run` or `checkpoint`.
    pub what: &'static str,
    /// The name of the nodes; null for a folder in `runs/` whose nodes are not known.
    pub name: Option<String>,
    /// Their nonce.
    pub nonce: Option<String>,
    /// The node of a checkpoint.
    pub node: Option<String>,
    /// All of it.
    #[serde(flatten)]
    pub size: Size,
    /// The same by kind.
    pub items: Vec<RemovalItem>,
    /// How many records go.
    pub records: u64,
    /// Parts that other runs have records in too: they are written anew, so what they give back is known afterwards.
    pub shared: Size,
    /// What stays though it belongs to the run, from the root: models in the cache.
    pub stays: Vec<String>,
    /// Whether it was removed.
    pub removed: bool,
}

/// One kind of what goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RemovalItem {
    /// `checkpoints`, `artifacts`, `records`, or the folder of the run from the root.
    pub item: String,
    /// What it takes.
    #[serde(flatten)]
    pub size: Size,
}

/// What a text names.
#[derive(Debug)]
struct Target {
    /// The run, or the node of a checkpoint.
    node: Option<Node>,
    checkpoint: bool,
    /// The folders in `runs/`, from the root.
    folders: Vec<RecordedRun>,
}

/// Says what a removal would take. Nothing is written.
///
/// `text` is a run, as `name`, `name@nonce` or its folder in `runs/`, or a node in any other way that a node is written:
/// then its checkpoint is meant.
///
/// # Errors
///
/// [`StudyError::NotFound`] when it names nothing; [`StudyError::Kept`] while something needs it: a branch, a pin, a process
/// that trains it. [`StudyError::Query`] when records cannot be read: what a damaged part hides may be a branch.
pub fn plan_removal(root: &Path, text: &str) -> Result<RemovalPlan, StudyError> {
    let reader = ObjectReader::open_live(root)?;
    let target = target(root, &reader, text)?;
    check(root, &reader, &target)?;
    if let Some(node) = &target.node
        && let Some(holder) = run_holder(&reader, node)?
    {
        return Err(StudyError::Kept {
            what: format!("`{}` is being trained by {holder}", name_of(node)),
            why: "what goes would be written again at once".to_owned(),
            next: "stop it first, or wait for its end".to_owned(),
        });
    }
    plan(root, &reader, &target)
}

/// Removes what [`plan_removal`] tells of at this moment.
///
/// # Errors
///
/// As [`plan_removal`], and [`StudyError::Busy`] while a launch of a study has the root, [`StudyError::Unlockable`] where the
/// file system has no locks, [`StudyError::Train`] while a process trains the run or has a checkpoint of it open.
///
/// # Durability
///
/// On return nothing of it comes back after a loss of power. Killed in between, it leaves a run that is not whole, and the
/// same removal again completes it.
pub fn remove(root: &Path, text: &str) -> Result<RemovalPlan, StudyError> {
    let reader = ObjectReader::open_live(root)?;
    target(root, &reader, text)?;
    let _alone = alone(root)?;
    let target = target(root, &reader, text)?;
    let _taken = target.node.as_ref().map(|node| take_run(&reader, node)).transpose()?;
    // After the run was taken: whoever opened a checkpoint of it before has recorded by now.
    check(root, &reader, &target)?;
    let mut plan = plan(root, &reader, &target)?;
    for run in &target.folders {
        empty(&root.join(&run.folder))?;
    }
    if let Some(node) = &target.node {
        let store = ObjectStore::open(root, StoreOptions::default())?;
        let removed = match target.checkpoint {
            true => store.withdraw_checkpoints(std::slice::from_ref(node)).map(drop),
            false => store.remove_run(node).map(drop),
        };
        store.close()?;
        removed?;
    }
    for run in &target.folders {
        remove_folder(root, &run.folder)?;
    }
    plan.removed = true;
    Ok(plan)
}

fn name_of(node: &Node) -> String {
    format!("{}@{}", node.name(), node.nonce())
}

/// Finds what a text names: an exact name of a run before anything else.
fn target(root: &Path, reader: &ObjectReader, text: &str) -> Result<Target, StudyError> {
    let plain = text.trim_end_matches('/');
    let recorded = RecordedRun::list(root)?;
    let folder = plain.strip_prefix("runs/").unwrap_or(plain);
    if let Some(run) = recorded.iter().find(|run| run.run.id == folder) {
        return Ok(Target { node: node_of(run), checkpoint: false, folders: vec![run.clone()] });
    }
    let runs = runs(reader, &recorded)?;
    let named: Vec<&Node> = runs.iter().filter(|run| run.name() == plain).collect();
    let fitting = match named.is_empty() {
        false => named,
        true => with_nonce(&runs, plain),
    };
    match fitting.as_slice() {
        [] => {}
        [run] => {
            let alone = runs.iter().filter(|other| other.name() == run.name()).count() == 1;
            let is_its = |known: &&RecordedRun| match node_of(known) {
                Some(node) => node.same_run(run),
                // It was not trained to its end.
                None => alone && known.run.name == run.name(),
            };
            let folders = recorded.iter().filter(is_its).cloned().collect();
            return Ok(Target { node: Some((*run).clone()), checkpoint: false, folders });
        }
        several => {
            let names: Vec<String> = several.iter().map(|run| format!("`{}`", name_of(run))).collect();
            return Err(StudyError::NotFound {
                what: format!("`{text}` names {} runs", several.len()),
                next: format!("name one of them: {}", names.join(", ")),
            });
        }
    }
    let node = reader.resolve(plain).map_err(|error| match error {
        ResolveError::Query(error) => error.into(),
        error => StudyError::NotFound {
            what: error.to_string(),
            next: "list the runs with `waycairn nodes`, and their checkpoints".to_owned(),
        },
    })?;
    Ok(Target { node: Some(node), checkpoint: true, folders: Vec::new() })
}

/// The node of a run's folder.
fn node_of(run: &RecordedRun) -> Option<Node> {
    Some(run.run.node.as_ref()?.parse::<Address>().ok()?.decode())
}

/// The first nodes of all runs: of those that have records, and of those that a removal left folders of.
fn runs(reader: &ObjectReader, recorded: &[RecordedRun]) -> Result<Vec<Node>, StudyError> {
    let nodes = reader.runs()?.into_iter().map(|run| run.last);
    let nodes = nodes.chain(reader.nodes_with_folders()?).chain(recorded.iter().filter_map(node_of));
    let first: BTreeSet<Node> = nodes.filter_map(|node| node.at(0).ok()).collect();
    Ok(first.into_iter().collect())
}

/// The runs that `name@nonce` means, where the beginning of a nonce stands for it.
fn with_nonce<'a>(runs: &'a [Node], text: &str) -> Vec<&'a Node> {
    let Some((name, nonce)) = text.rsplit_once('@') else { return Vec::new() };
    let of_name = || runs.iter().filter(|run| run.name() == name);
    match of_name().find(|run| run.nonce() == nonce) {
        Some(run) => vec![run],
        None if nonce.len() < MIN_NONCE => Vec::new(),
        None => of_name().filter(|run| run.nonce().starts_with(nonce)).collect(),
    }
}

/// Refuses what something needs.
fn check(root: &Path, reader: &ObjectReader, target: &Target) -> Result<(), StudyError> {
    let cache = Cache::open(root)?;
    let pins = cache.pins()?;
    if let Some(doubt) = pins.doubt() {
        return Err(StudyError::Kept {
            what: "nobody knows what is pinned".to_owned(),
            why: doubt,
            next: "restore `pins.json`, or remove it".to_owned(),
        });
    }
    let models = models(&cache, reader, target)?;
    if let Some(pinned) = models.iter().find(|model| pins.pins().contains_key(*model)) {
        return Err(StudyError::Kept {
            what: format!("the model of the run is pinned, `{}`", entry_path(pinned)),
            why: "what is pinned is kept by your word".to_owned(),
            next: format!("unpin it first: `waycairn pin {}/{} --remove`", pinned.product(), pinned.folder()),
        });
    }
    let Some(node) = &target.node else { return Ok(()) };
    if target.checkpoint {
        let view = reader.node(node)?;
        let marked = view.as_ref().is_some_and(|view| view.checkpoint.is_some());
        // A withdrawal that was killed before the bytes went is completed.
        if !marked && reader.checkpoint_size(node)? == Size::default() {
            return Err(StudyError::NotFound {
                what: format!("`{node}` has no checkpoint"),
                next: "name a run as `name` or `name@nonce` to remove all of it; `waycairn show` tells of a node".to_owned(),
            });
        }
        if view.as_ref().is_some_and(|view| view.children_incomplete) {
            return Err(StudyError::Kept {
                what: format!("nobody knows whether a run branched from `{node}`"),
                why: "a part of the records is damaged".to_owned(),
                next: "restore the part that the log names, from a copy of the root".to_owned(),
            });
        }
    }
    let is_base = |parent: &Node| if target.checkpoint { parent == node } else { parent.same_run(node) };
    let branches: BTreeSet<String> = reader
        .edges()?
        .iter()
        .filter(|edge| is_base(&edge.parent) && !edge.child.same_run(node))
        .map(|edge| name_of(&edge.child))
        .collect();
    if branches.is_empty() {
        return Ok(());
    }
    let shown: Vec<String> = branches.iter().take(SHOWN).map(|branch| format!("`{branch}`")).collect();
    let more = if branches.len() > SHOWN { ", .." } else { "" };
    Err(StudyError::Kept {
        what: match target.checkpoint {
            true => format!("`{node}` is the base of a branch"),
            false => format!("`{}` is the base of branches", name_of(node)),
        },
        why: format!("they began there: {}{more}", shown.join(", ")),
        next: "remove the branches first, if nobody needs them".to_owned(),
    })
}

/// The models of a run: those that its folders name, and the one that its first node does.
fn models(cache: &Cache, reader: &ObjectReader, target: &Target) -> Result<BTreeSet<EntryName>, StudyError> {
    let mut folders = BTreeSet::new();
    for run in &target.folders {
        folders.extend(run.artifacts.artifacts.get(MODEL).map(|reference| reference.path.clone()));
    }
    let keys = match &target.node {
        Some(run) => study_models(reader)?.into_iter().filter(|(node, _)| node.same_run(run)).collect(),
        None => Vec::new(),
    };
    let is_its = |entry: &&EntryName| {
        let named = keys.iter().any(|(_, key)| key.starts_with(&entry.folder()));
        entry.product() == MODEL && (named || folders.contains(&entry_path(entry)))
    };
    Ok(cache.listing()?.entries().filter(is_its).cloned().collect())
}

fn plan(root: &Path, reader: &ObjectReader, target: &Target) -> Result<RemovalPlan, StudyError> {
    let mut plan = RemovalPlan { what: "run", ..RemovalPlan::default() };
    let mut add = |item: &str, size: Size| {
        if size != Size::default() {
            plan.size += size;
            plan.items.push(RemovalItem { item: item.to_owned(), size });
        }
    };
    for run in &target.folders {
        add(&run.folder.to_string_lossy(), Size::of(&root.join(&run.folder))?);
    }
    let Some(node) = &target.node else { return Ok(plan) };
    if target.checkpoint {
        add("checkpoints", reader.checkpoint_size(node)?);
        plan.what = "checkpoint";
        plan.node = Some(node.address().to_string());
    } else {
        let found: Removal = reader.removal(node)?;
        add("checkpoints", found.checkpoints);
        add("artifacts", found.artifacts);
        add("records", found.parts);
        (plan.records, plan.shared) = (found.rows, found.shared);
        if let Some(part) = found.foreign.first() {
            return Err(StudyError::Kept {
                what: format!("records of `{}` stand in `objects/values/{part}`", name_of(node)),
                why: "another program wrote that part, so it cannot be written anew without them".to_owned(),
                next: "move that part out of the root first".to_owned(),
            });
        }
    }
    (plan.name, plan.nonce) = (Some(node.name().to_owned()), Some(node.nonce().to_owned()));
    let cache = Cache::open(root)?;
    plan.stays = models(&cache, reader, target)?.iter().map(entry_path).collect();
    Ok(plan)
}

/// Leaves of a run's folder what says which one it is. Its state goes first.
fn empty(folder: &Path) -> Result<(), StudyError> {
    remove_file(&folder.join(STATUS))?;
    sync_folder(folder)?;
    let io = |source| StudyError::Io { operation: "list", path: folder.to_owned(), source };
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        match entry.file_type().map_err(io)?.is_dir() {
            _ if entry.file_name() == RUN => {}
            true => remove_dir_all(&entry.path())?,
            false => remove_file(&entry.path())?,
        }
    }
    Ok(())
}

/// Removes the folder of a run, and the one of its variant where nothing is left in it. Half of a run has no name.
fn remove_folder(root: &Path, folder: &Path) -> Result<(), StudyError> {
    let path: PathBuf = root.join(folder);
    let Some(aside) = set_aside(&path)? else { return Ok(()) };
    let variant = path.parent().unwrap_or(root);
    sync_folder(variant)?;
    delete_aside(&aside)?;
    // Fails where something else is in it, as it should.
    drop(std::fs::remove_dir(variant));
    Ok(())
}

#[cfg(test)]
#[path = "removal/tests.rs"]
mod tests;
