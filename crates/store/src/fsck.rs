//! The check of a whole root: is what is recorded there, and is what is there recorded?
//!
//! It reads every byte of every part. What it finds it only tells; a repair does what a check before it told, and nothing
//! when anything has changed since.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use waycairn_dag::{Lineage, Node};
use waycairn_durable::{self as durable, Digest, OwnedFile, is_temporary, read_format, time};

use crate::blob::{blobs_folder, nodes_in};
use crate::compact::{RETIRED_GRACE, TEMPORARY_AGE};
use crate::error::StoreError;
use crate::journal::{is_damaged_segment_name, is_segment_name, is_writer_name};
use crate::listing::{Freshness, MAX_LISTINGS, PartSet, forget, list};
use crate::part::{NEWER_ADVICE, is_retired_name, read_all, values_folder};
use crate::published::{OpenFault, Part};
use crate::query::{
    Fault, FoldPlan, FoldSpec, IdentityScope, QueryError, RecordScope, Threads, fold_ranges, tables,
};
use crate::reader::ObjectReader;
use crate::recover::{read_segment, recover_each};
use crate::view::{Files, files};

/// How long a file may be without its record.
const MARKER_PATIENCE: Duration = Duration::from_millis(500);

/// What a damaged part is called once it is set aside.
const DAMAGED_PREFIX: &str = ".damaged-";

/// Digits of the plan's digest that are shown, and have to be given.
const PLAN_DIGITS: usize = 12;

/// What a check of a root found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FsckReport {
    /// Parts that were read.
    pub parts: u64,
    /// Rows in them.
    pub rows: u64,
    /// Nodes with files that were compared with what is recorded of them.
    pub nodes: u64,
    /// What is wrong, by kind, then by path and node.
    pub problems: Vec<Problem>,
    /// Stands for the repairs that are among these; `None` when there are none. [`fsck_repair`] wants it.
    pub plan: Option<String>,
}

/// Something that is wrong in a root.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// Of which kind it is.
    pub kind: ProblemKind,
    /// Where it is, below the root.
    pub path: Option<String>,
    /// The node that it is about, for people.
    pub node: Option<String>,
    /// What is wrong.
    pub what: String,
    /// What a repair does about it; `None` where only a person can know.
    pub repair: Option<Repair>,
}

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProblemKind {
    /// A part whose bytes are not those of a part, or whose rows cannot be folded.
    UnreadablePart,
    /// Records of a writer that died, in no part yet.
    OrphanSegment,
    /// A file that is called as a segment is, and is none that this program can read.
    ForeignSegment,
    /// A segment of a journal that was damaged; what was whole in it is in parts.
    DamagedSegment,
    /// A record names a file or a checkpoint that is not there.
    DanglingBlob,
    /// A recorded path, or a folder of a node, that leads out of the root.
    UnsafePath,
    /// A file or a checkpoint that no record names.
    BlobWithoutMarker,
    /// A payload that is no MessagePack.
    DamagedArtifact,
    /// Nodes that are their own ancestors.
    Cycle,
    /// What a process that died left half-written, or what a compaction replaced.
    Leftover,
}

/// What a repair does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Repair {
    /// Publishes the records.
    Recover,
    /// Gives the file a hidden name, under which nothing reads it: questions have answers again, without its records.
    SetAside,
    /// Deletes the file.
    Delete,
}

/// Checks a root. Nothing is changed; a root that does not exist is fine.
///
/// # Errors
/// [`StoreError::Format`], [`StoreError::Query`] and [`StoreError::Io`] when something cannot be looked at at all.
///
/// # Concurrency
/// It may run beside writers. What they are doing meanwhile may be told as a file without a record: look again.
pub fn fsck(root: &Path) -> Result<FsckReport, StoreError> {
    read_format(root)?;
    let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
    let mut check = Check { root, report: FsckReport::default() };
    check.parts()?;
    check.hidden_files()?;
    check.blobs()?;
    check.cycles()?;
    let mut report = check.report;
    report.problems.sort();
    report.problems.dedup();
    let repairs: Vec<&Problem> = report.problems.iter().filter(|problem| problem.repair.is_some()).collect();
    if !repairs.is_empty() {
        let text = serde_json::to_vec(&repairs).unwrap_or_default();
        report.plan = Some(Digest::of(&text).to_string().chars().take(PLAN_DIGITS).collect());
    }
    Ok(report)
}

/// Does the repairs of a check that was made before, whose [`plan`](FsckReport::plan) this is, and says which.
///
/// # Errors
/// [`StoreError::Plan`] when a check finds other repairs now; nothing was changed then. Otherwise what a check or a repair
/// cannot do; those before it were done.
///
/// # Durability
/// On return what was done survives a loss of power.
pub fn fsck_repair(root: &Path, plan: &str) -> Result<Vec<Problem>, StoreError> {
    let report = fsck(root)?;
    if report.plan.as_deref() != Some(plan) {
        return Err(StoreError::Plan { given: plan.to_owned(), found: report.plan });
    }
    let mut repairs: Vec<Problem> =
        report.problems.into_iter().filter(|problem| problem.repair.is_some()).collect();
    let mut failed = None;
    if repairs.iter().any(|problem| problem.repair == Some(Repair::Recover)) {
        // What cannot be recovered keeps nobody from the other repairs.
        let (_, kept) = recover_each(root)?;
        let planned = repairs.len();
        repairs.retain(|problem| {
            let left = || problem.path.as_ref().is_some_and(|path| root.join(path).exists());
            problem.repair != Some(Repair::Recover) || !left()
        });
        failed = kept.filter(|_| repairs.len() < planned);
    }
    for problem in &repairs {
        let Some(path) = problem.path.as_ref().map(|path| root.join(path)) else { continue };
        match problem.repair {
            Some(Repair::SetAside) => {
                let name =
                    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                durable::rename(&path, &path.with_file_name(format!("{DAMAGED_PREFIX}{name}")))?;
            }
            Some(Repair::Delete) => durable::remove_file(&path)?,
            Some(Repair::Recover) | None => {}
        }
    }
    failed.map_or(Ok(repairs), Err)
}

struct Check {
    root: PathBuf,
    report: FsckReport,
}

impl Check {
    fn found(
        &mut self,
        kind: ProblemKind,
        path: Option<&Path>,
        node: Option<&Node>,
        what: &str,
        repair: Option<Repair>,
    ) {
        let below = |path: &Path| path.strip_prefix(&self.root).unwrap_or(path).display().to_string();
        self.report.problems.push(Problem {
            kind,
            path: path.map(below),
            node: node.map(ToString::to_string),
            what: what.to_owned(),
            repair,
        });
    }

    /// Every part, to its last byte.
    fn parts(&mut self) -> Result<(), StoreError> {
        let values = values_folder(&self.root);
        let mut checked = HashSet::new();
        let mut listings = 0;
        loop {
            let set = list(&values, Freshness::Published)?;
            let mut replaced = false;
            for part in set.parts.iter() {
                if checked.contains(&part.name) {
                    continue;
                }
                let path = values.join(&*part.name);
                match check(&set, part) {
                    Some(Ok(rows)) => self.report.rows += rows,
                    Some(Err(what)) => {
                        let repair = Some(Repair::SetAside);
                        self.found(ProblemKind::UnreadablePart, Some(&path), None, &what, repair);
                    }
                    // Looked at once more, under this name or as what took its place.
                    None if listings < MAX_LISTINGS => {
                        forget(part);
                        replaced = true;
                        continue;
                    }
                    None => {}
                }
                self.report.parts += 1;
                checked.insert(Arc::clone(&part.name));
            }
            listings += 1;
            if replaced {
                continue;
            }
            for (path, error) in set.damaged.iter() {
                let path = values.join(path.file_name().unwrap_or_default());
                let what = cause(error);
                let newer = what.contains(NEWER_ADVICE);
                let repair = (!newer).then_some(Repair::SetAside);
                self.found(ProblemKind::UnreadablePart, Some(&path), None, &what, repair);
            }
            return Ok(());
        }
    }

    /// What is hidden among the parts.
    fn hidden_files(&mut self) -> Result<(), StoreError> {
        let values = values_folder(&self.root);
        let failed = |source| StoreError::Io { operation: "list", path: values.clone(), source };
        let entries = match fs::read_dir(&values) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(failed)?,
        };
        let now = time::to_system(time::now_nanos());
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let (path, file_name) = (entry.path(), entry.file_name());
            let name = file_name.to_string_lossy();
            let age = entry.metadata().and_then(|metadata| metadata.modified()).ok();
            let age = age.and_then(|modified| now.duration_since(modified).ok()).unwrap_or_default();
            if is_segment_name(&name) && path.is_symlink() {
                let what = "a symbolic link, which is no segment: nothing reads it";
                self.found(ProblemKind::ForeignSegment, Some(&path), None, what, None);
            } else if is_segment_name(&name) {
                if self.is_orphan(&path, ProblemKind::ForeignSegment) {
                    match read_segment(&path) {
                        Ok(Some((segment, _))) if segment.foreign => {
                            let what = "no segment that this program knows; a newer one may have written it";
                            self.found(ProblemKind::ForeignSegment, Some(&path), None, what, None);
                        }
                        Err(error) => {
                            self.found(
                                ProblemKind::ForeignSegment,
                                Some(&path),
                                None,
                                &error.to_string(),
                                None,
                            );
                        }
                        Ok(_) => {
                            let what = "records of a writer that died";
                            self.found(
                                ProblemKind::OrphanSegment,
                                Some(&path),
                                None,
                                what,
                                Some(Repair::Recover),
                            );
                        }
                    }
                }
            } else if is_damaged_segment_name(&name) {
                let what = "other bytes than were written; what is whole in it is in parts";
                self.found(ProblemKind::DamagedSegment, Some(&path), None, what, None);
            } else if is_writer_name(&name) {
                if self.is_orphan(&path, ProblemKind::Leftover) {
                    let what = "a writer that died left it";
                    self.found(ProblemKind::Leftover, Some(&path), None, what, Some(Repair::Delete));
                }
            } else if is_retired_name(&file_name) && age > RETIRED_GRACE {
                let what = "a compaction or a removal replaced it";
                self.found(ProblemKind::Leftover, Some(&path), None, what, Some(Repair::Delete));
            } else if is_temporary(&file_name) && age > TEMPORARY_AGE && path.is_file() {
                let what = "a process that died left it half-written";
                self.found(ProblemKind::Leftover, Some(&path), None, what, Some(Repair::Delete));
            }
        }
        Ok(())
    }

    /// Whether nobody who lives owns a file; what cannot be looked at is a problem of this kind.
    fn is_orphan(&mut self, path: &Path, kind: ProblemKind) -> bool {
        match OwnedFile::is_owned(path) {
            // It may have been removed by its owner meanwhile.
            Ok(owned) => !owned && path.symlink_metadata().is_ok(),
            Err(error) => {
                let what =
                    std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
                self.found(kind, Some(path), None, &what, None);
                false
            }
        }
    }

    /// The files of nodes beside what records say of them.
    fn blobs(&mut self) -> Result<(), StoreError> {
        let reader = ObjectReader::open_live(&self.root)?.skipping_damaged();
        let folder = blobs_folder(&self.root);
        let mut nodes: BTreeSet<Node> = match nodes_in(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            nodes => {
                let failed = |source| StoreError::Io { operation: "list", path: folder.clone(), source };
                nodes.map_err(failed)?.into_iter().collect()
            }
        };
        nodes.extend(reader.ask(|set, _| tables::nodes_with_blobs(set))?.value);
        for node in nodes {
            self.report.nodes += 1;
            let place = reader.node_folder(&node);
            let mut found = files(&reader, &node);
            // The record of what was committed just now may be on its way to the journal.
            if found.as_ref().is_ok_and(|found| !found.without_marker.is_empty()) {
                std::thread::sleep(MARKER_PATIENCE);
                found = files(&reader, &node);
            }
            let Files { dangling, without_marker, damaged } = match found {
                Err(error @ QueryError::UnsafePath { .. }) => {
                    self.found(ProblemKind::UnsafePath, Some(&place), Some(&node), &error.to_string(), None);
                    continue;
                }
                files => files?,
            };
            for name in dangling {
                let what = "a record names it, and it is not there; a copy of the root may have it";
                self.found(ProblemKind::DanglingBlob, Some(&place.join(name)), Some(&node), what, None);
            }
            for name in without_marker {
                let what = "no record names it; what is unmarked counts as not there";
                self.found(ProblemKind::BlobWithoutMarker, Some(&place.join(name)), Some(&node), what, None);
            }
            for (name, what) in damaged {
                self.found(ProblemKind::DamagedArtifact, Some(&place.join(name)), Some(&node), &what, None);
            }
        }
        Ok(())
    }

    fn cycles(&mut self) -> Result<(), StoreError> {
        let reader = ObjectReader::open_live(&self.root)?.skipping_damaged();
        for cycle in Lineage::new(reader.edges()?).cycles() {
            let names: Vec<String> = cycle.iter().map(ToString::to_string).collect();
            let what = format!(
                "each is a recorded parent of the next, and the last of the first: {}",
                names.join(", ")
            );
            self.found(ProblemKind::Cycle, None, cycle.first(), &what, None);
        }
        Ok(())
    }
}

/// Folds all columns of one part.
fn folds(set: &PartSet, part: &Arc<Part>) -> Result<(), Fault> {
    let alone = PartSet { parts: Arc::from([Arc::clone(part)]), damaged: Arc::from([]), ..set.clone() };
    let mut spec = FoldSpec::default();
    for name in part.schema.columns.keys() {
        spec.column(name);
    }
    let fold = |alone: &PartSet| -> Result<(), Fault> {
        let (scope, records) = (IdentityScope::default(), RecordScope::default());
        let plan = Arc::new(FoldPlan::new(alone, spec.clone(), scope, records, 1)?);
        fold_ranges(&plan, Threads(1), None, |_, _: &mut ()| Ok(0)).map(drop)
    };
    match fold(&alone) {
        // Rows of another program may be in any order: they are sorted first.
        Err(Fault::Unsorted(part)) => {
            part.mark_unsorted();
            fold(&alone)
        }
        folded => folded,
    }
}

/// Reads a part to its last byte and folds it: how many rows it has, or what is wrong with it; `None` when it was replaced.
fn check(set: &PartSet, part: &Arc<Part>) -> Option<Result<u64, String>> {
    let rows = match part.open_file() {
        Err(OpenFault::Stale) => return None,
        Err(OpenFault::Io { source, .. }) => return Some(Err(source.to_string())),
        Ok(file) => match read_all(file) {
            Ok(rows) => rows,
            wrong => return Some(wrong),
        },
    };
    // What decodes may still be no identity, or no value: the fold says so.
    match folds(set, part) {
        Ok(()) => Some(Ok(rows)),
        Err(Fault::Stale(_)) => None,
        Err(Fault::Damaged(_, error) | Fault::Error(error)) => Some(Err(cause(&error))),
        Err(other) => Some(Err(other.to_string())),
    }
}

/// What an error says is wrong, without the file and the advice, which are told apart.
fn cause(error: &QueryError) -> String {
    match error {
        QueryError::Damaged { what, .. } => what.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
