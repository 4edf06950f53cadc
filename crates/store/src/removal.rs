//! Removal of a run: its records, and the folders of its nodes.
//!
//! The order, and what a crash between two steps leaves:
//!
//! | step | afterwards |
//! | --- | --- |
//! | one record takes back the marks of the run: that it ended, and its checkpoints | a run that is not whole: not finished, without a checkpoint |
//! | part by part its rows go: a part of its own is hidden, one that runs share is published anew without them and then hidden | the same, with less |
//! | the record of the first step goes, in the last of the parts | no record; its folders belong to nobody |
//! | the folders of its nodes get hidden names, those are synced, and then the bytes go | nothing |
//!
//! Whoever removes it again begins at the first step and completes it. A part that was published anew names the one that it was
//! made of: where both are there the new one is hidden first, since the other has all of its rows. A reader that listed a part
//! before finds it under its hidden name, as after a compaction, and a later compaction deletes it after the same grace.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{DataType, Int64Type};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::ChunkReader;
use waycairn_dag::Node;
use waycairn_durable::{self as durable, Durability, OwnedFile, Size, StagedFile, fault, is_temporary};

use crate::blob::{blobs_folder, nodes_in};
use crate::compact::{CompactReport, Source, hide, open};
use crate::error::StoreError;
use crate::journal::segments;
use crate::listing::{Freshness, MAX_LISTINGS, PartSet, list};
use crate::merge::Merge;
use crate::part::{PartFacts, PartWriter, RunRange, new_part_name, part_schema, values_folder};
use crate::published::{Part, PartBytes};
use crate::query::{
    Fault, Flag, FoldPlan, FoldSpec, IdentityScope, QueryError, RecordScope, Threads, fold_ranges,
};
use crate::queue::Origin;
use crate::reader::ObjectReader;
use crate::recover::{read_segment, recover_each};
use crate::row::Marks;
use crate::schema::{CHECKPOINT, FINISHED, NAME, NONCE, RESERVED_PREFIX, SEQ, ValueType, WRITE};
use crate::store::ObjectStore;
use crate::tiers::{finish_root, lock};

/// What there is of a run, and goes with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removal {
    /// Parts that hold rows of the run alone.
    pub parts: Size,
    /// Parts that hold rows of others too.
    pub shared: Size,
    /// Rows of the run, in all parts.
    pub rows: u64,
    /// Nodes of the run that have a folder.
    pub nodes: u64,
    /// The checkpoints in those.
    pub checkpoints: Size,
    /// Everything else in those.
    pub artifacts: Size,
    /// Parts of other programs that hold rows of the run: they cannot be written anew.
    pub foreign: Vec<String>,
}

impl Removal {
    /// Whether there is nothing of the run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0 && self.nodes == 0
    }
}

impl ObjectReader {
    /// What a removal of a run would take. Of parts that runs share the identities are read, of others the footers.
    ///
    /// # Errors
    /// Any [`QueryError`] of reading parts; [`QueryError::Io`] for a folder that cannot be measured.
    pub fn removal(&self, run: &Node) -> Result<Removal, QueryError> {
        let mut removal = self.ask(|set, _| records(set, run))?.value;
        let failed = |error: waycairn_durable::CommitError| QueryError::Io {
            operation: "measure",
            path: error.path().to_owned(),
            source: io::Error::other(error),
        };
        for node in self.nodes_with_folders()?.into_iter().filter(|node| node.same_run(run)) {
            let checkpoint = self.checkpoint_size(&node).map_err(failed)?;
            let all = Size::of(&self.node_folder(&node)).map_err(failed)?;
            removal.nodes += 1;
            removal.checkpoints += checkpoint;
            removal.artifacts += Size {
                files: all.files.saturating_sub(checkpoint.files),
                bytes: all.bytes.saturating_sub(checkpoint.bytes),
            };
        }
        Ok(removal)
    }

    /// Every node that has a folder among the blobs, recorded or not, in no order.
    ///
    /// # Errors
    /// [`QueryError::Io`].
    pub fn nodes_with_folders(&self) -> Result<Vec<Node>, QueryError> {
        let folder = blobs_folder(self.root());
        let failed = |source| QueryError::Io { operation: "list", path: folder.clone(), source };
        match nodes_in(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            nodes => nodes.map_err(failed),
        }
    }
}

impl ObjectStore {
    /// Removes a run: every record of it, and the folders of its nodes with all that is in them.
    ///
    /// The caller has to see to it that nobody writes to the run, opens its checkpoints or removes another run meanwhile:
    /// of two removals that write one shared part anew, each brings back what the other took out. That no other run needs
    /// this one is the caller's to ask too. Calling it again, also after a crash in between, completes it.
    ///
    /// A part that another store compacts at this very moment may come back with the run's rows; that is noticed, and
    /// taken out again, as long as this works.
    ///
    /// # Errors
    /// [`StoreError::Query`] when the parts cannot be listed or the run is among the rows of another program's part;
    /// nothing was changed then. Any other error leaves a run that is not whole.
    ///
    /// # Durability
    /// On return nothing of it comes back after a loss of power.
    ///
    /// # Concurrency
    /// Readers that began earlier see the run as it was or with less, and none fails.
    pub fn remove_run(&self, run: &Node) -> Result<Removal, StoreError> {
        self.flush()?;
        // A compaction that began before would bring back what is taken out here.
        let _lock = lock(&values_folder(self.root()))?;
        let (_, unrecovered) = recover_each(self.root())?;
        self.check_nobody_records(run, unrecovered)?;
        let reader = self.reader();
        let found = reader.removal(run)?;
        if let Some(part) = found.foreign.first() {
            return Err(StoreError::Foreign { part: part.clone(), run: run.name().to_owned() });
        }
        // What is there twice would be written anew twice, and nobody would know any more.
        let mut finished = CompactReport::default();
        finish_root(&values_folder(self.root()), &mut finished)?;
        finished.warn();
        self.take_back(run)?;
        self.remove_rows(run)?;
        self.remove_folders(run)?;
        tracing::info!(run = run.name(), nonce = run.nonce(), rows = found.rows, "run removed");
        Ok(found)
    }

    /// Refuses a run that is in a journal: that of a writer which lives, or one that could not be recovered, for the reason
    /// given. Either would bring it back.
    fn check_nobody_records(&self, run: &Node, unrecovered: Option<StoreError>) -> Result<(), StoreError> {
        let values = values_folder(self.root());
        let failed = |source| StoreError::Io { operation: "list", path: values.clone(), source };
        for path in segments(&values).map_err(failed)? {
            // One that cannot be read is nobody's of this run, as far as can be known.
            let Ok(Some((segment, _))) = read_segment(&path) else { continue };
            let mut rows = segment.rows.iter().flat_map(|rows| rows.rows());
            if rows.any(|row| row.node.same_run(run)) {
                let lives = OwnedFile::is_owned(&path).map_err(Box::new)?;
                let recording = StoreError::Recording { run: run.name().to_owned() };
                return Err(unrecovered.filter(|_| !lives).unwrap_or(recording));
            }
        }
        Ok(())
    }

    /// Records that the run has not ended and has no checkpoint, at each node that says otherwise.
    fn take_back(&self, run: &Node) -> Result<(), StoreError> {
        for node in self.reader().ask(|set, _| marked(set, run))?.value {
            let marks = Marks { checkpoint: Some(false), finished: Some(false), ..Marks::default() };
            self.queue().push(&node, &[], Some(Box::new(marks)), Origin::Marker)?;
        }
        self.flush()?;
        fault::point("store.remove.marks");
        Ok(())
    }

    /// Takes the rows of the run out of every part, those of this store last: they say that it is not whole.
    fn remove_rows(&self, run: &Node) -> Result<(), StoreError> {
        let values = values_folder(self.root());
        let mut lists = HashSet::new();
        for _ in 0..=MAX_LISTINGS {
            let set = list(&values, Freshness::Published)?;
            if let Some((path, _)) = set.damaged.first() {
                return Err(StoreError::Query(QueryError::Damaged {
                    path: path.clone(),
                    what: "its footer cannot be read, so nobody knows whether it holds records of the run"
                        .to_owned(),
                    source: None,
                }));
            }
            let own = self.own_parts().lock().unwrap_or_else(PoisonError::into_inner).clone();
            let mut parts: Vec<&Arc<Part>> = set.parts.iter().filter(|part| may_hold(part, run)).collect();
            parts.sort_by_key(|part| own.iter().any(|name| **name == *part.name));
            let mut found = false;
            for part in parts {
                let source = match open(&part.path, &mut lists) {
                    // Another store compacted it: its rows stand in a part of the next listing.
                    Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                        found = true;
                        continue;
                    }
                    source => source?,
                };
                let Some(source) = source else { continue };
                if remove_from(&values, &source, run)? {
                    found = true;
                    self.own_parts()
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .retain(|name| **name != *part.name);
                }
            }
            if !found {
                return Ok(());
            }
        }
        Err(StoreError::Query(QueryError::Vanished { path: values }))
    }

    fn remove_folders(&self, run: &Node) -> Result<(), StoreError> {
        let blobs = blobs_folder(self.root());
        let failed = |source| StoreError::Io { operation: "list", path: blobs.clone(), source };
        for node in self.blobs().nodes()?.into_iter().filter(|node| node.same_run(run)) {
            fault::point("store.remove.aside");
            // A link that leads out of the root is somebody else's folder.
            durable::set_aside(&self.blobs().own_folder(&node)?)?;
        }
        durable::sync_folder(&blobs)?;
        // Only removals make hidden names here, so what one that was killed left goes too.
        for entry in fs::read_dir(&blobs).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if is_temporary(&entry.file_name()) {
                fault::point("store.remove.delete");
                durable::delete_aside(&entry.path())?;
            }
        }
        Ok(())
    }
}

/// Whether the footer of a part leaves it open that it holds rows of the run.
fn may_hold(part: &Part, run: &Node) -> bool {
    let is_it = |range: &RunRange| range.name == run.name() && range.nonce == run.nonce();
    part.runs.as_ref().is_none_or(|runs| runs.iter().any(is_it))
}

/// What the parts hold of a run.
fn records(set: &PartSet, run: &Node) -> Result<Removal, Fault> {
    let mut removal = Removal::default();
    for part in set.parts.iter().filter(|part| may_hold(part, run)) {
        let size = Size { files: 1, bytes: part.length };
        let (rows, of) = count(part, run)?;
        removal.rows += rows;
        match rows {
            0 => {}
            // In a journal: its parts are still to be written.
            _ if part.memory.is_some() => {}
            _ if !part.ours => removal.foreign.push(part.name.to_string()),
            rows if rows == of => removal.parts += size,
            _ => removal.shared += size,
        }
    }
    Ok(removal)
}

/// The nodes of a run that say that it ended, and then the others that have a checkpoint: where there are many, their
/// records are several parts, and the run is not whole from the first one on.
fn marked(set: &PartSet, run: &Node) -> Result<Vec<Node>, Fault> {
    let mut spec = FoldSpec::default();
    let flags = [FINISHED, CHECKPOINT].map(|column| spec.flag(&Flag::True(column)));
    let mut scope = IdentityScope::default();
    scope.add_names([run.name().to_owned()]);
    let plan = Arc::new(FoldPlan::new(set, spec, scope, RecordScope::default(), 1)?);
    let ranges = fold_ranges(&plan, Threads(1), None, |block, marked: &mut [Vec<Node>; 2]| {
        let [finished, checkpoint] = flags.map(|flag| block.flag(flag));
        for (key, slots) in block.runs() {
            if *key.name != *run.name() || *key.nonce != *run.nonce() {
                continue;
            }
            for slot in slots {
                let kind = match (finished.get(slot), checkpoint.get(slot)) {
                    (true, _) => 0,
                    (false, true) => 1,
                    (false, false) => continue,
                };
                marked[kind].extend(run.at(block.seqs()[slot].cast_unsigned()));
            }
        }
        Ok(0)
    })?;
    let [mut finished, mut checkpoints] = [Vec::new(), Vec::new()];
    for [ended, saved] in ranges {
        finished.extend(ended);
        checkpoints.extend(saved);
    }
    finished.extend(checkpoints);
    Ok(finished)
}

/// How many rows of a part are of the run, and how many it has.
fn count(part: &Arc<Part>, run: &Node) -> Result<(u64, u64), Fault> {
    let all = part.groups.iter().map(|group| group.rows as u64).sum();
    if part.runs.as_ref().is_some_and(|runs| runs.len() == 1) {
        return Ok((all, all));
    }
    let roots: Option<Vec<usize>> =
        [NAME, NONCE].iter().map(|name| part.schema.column(name).map(|column| column.root)).collect();
    let Some(roots) = roots else { return Ok((0, all)) };
    let damaged = |error: ParquetError| {
        Fault::Damaged(Arc::clone(part), part.damaged_by("its identities cannot be read", error))
    };
    let rows = match part.open().map_err(|fault| Fault::open(part, fault))? {
        PartBytes::File(file) => count_rows(file, roots, run),
        PartBytes::Memory(bytes) => count_rows(bytes, roots, run),
    };
    Ok((rows.map_err(damaged)?, all))
}

/// How many rows of a Parquet file are of the run, by the columns of its name and its nonce.
fn count_rows(file: impl ChunkReader + 'static, columns: Vec<usize>, run: &Node) -> ParquetResult<u64> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
    let mask = ProjectionMask::roots(builder.parquet_schema(), columns);
    let mut rows = 0;
    for batch in builder.with_projection(mask).build()? {
        let is_it = of_run(&batch?, run).ok_or_else(|| ParquetError::General("no texts".to_owned()))?;
        rows += is_it.true_count() as u64;
    }
    Ok(rows)
}

/// Which rows of a batch are of the run.
fn of_run(batch: &RecordBatch, run: &Node) -> Option<BooleanArray> {
    let text = |name| cast(batch.column_by_name(name)?, &DataType::Utf8).ok();
    let (names, nonces) = (text(NAME)?, text(NONCE)?);
    let (names, nonces) = (names.as_string_opt::<i32>()?, nonces.as_string_opt::<i32>()?);
    let is_it =
        |(name, nonce): (Option<&str>, Option<&str>)| name == Some(run.name()) && nonce == Some(run.nonce());
    Some(names.iter().zip(nonces).map(is_it).collect::<Vec<bool>>().into())
}

/// Takes the rows of a run out of a part; says whether it held some.
fn remove_from(values: &Path, source: &Source, run: &Node) -> Result<bool, StoreError> {
    let Some(rest) = Rest::of(source, run)? else { return Ok(false) };
    if let Some(facts) = rest.facts {
        publish(values, source, run, &facts, &rest.columns)?;
    }
    fault::point("store.remove.part");
    // After the rest of it is there under another name.
    hide(&source.path)?;
    Ok(true)
}

/// What is left of a part without a run.
struct Rest {
    /// `None` where no row is left.
    facts: Option<PartFacts>,
    /// The columns that have a value in some row.
    columns: HashSet<String>,
}

impl Rest {
    /// `None` where the part has no row of the run.
    fn of(source: &Source, run: &Node) -> Result<Option<Rest>, StoreError> {
        let mut rest = Rest { facts: None, columns: HashSet::new() };
        let mut removed = 0;
        for batch in others(source, run, |_| true)? {
            let (batch, gone) = batch?;
            removed += gone;
            if batch.num_rows() == 0 {
                continue;
            }
            rest.add(source, &batch)?;
        }
        Ok((removed > 0).then(|| {
            let is_it = |range: &RunRange| range.name == run.name() && range.nonce == run.nonce();
            if let Some(facts) = &mut rest.facts {
                facts.runs.iter_mut().for_each(|runs| runs.retain(|range| !is_it(range)));
                facts.replaces.clear();
                facts.rest_of = source.name().map(str::to_owned);
            }
            rest
        }))
    }

    fn add(&mut self, source: &Source, batch: &RecordBatch) -> Result<(), StoreError> {
        for (column, field) in batch.columns().iter().zip(batch.schema_ref().fields()) {
            if column.null_count() < column.len() && !self.columns.contains(field.name()) {
                self.columns.insert(field.name().clone());
            }
        }
        let lacks = || unusable(source, "a column of the identity is missing".to_owned());
        let number = |name| batch.column_by_name(name)?.as_primitive_opt::<Int64Type>();
        let text = |name| batch.column_by_name(name)?.as_string_opt::<i32>();
        let (Some(names), Some(nonces), Some(seqs), Some(writes)) =
            (text(NAME), text(NONCE), number(SEQ), number(WRITE))
        else {
            return Err(lacks());
        };
        let node = |row: usize| {
            Node::new(names.value(row), nonces.value(row), seqs.value(row).cast_unsigned())
                .map_err(|error| unusable(source, error.to_string()))
        };
        let last = node(batch.num_rows() - 1)?;
        let range = writes.values().iter().fold(None, |range: Option<(i64, i64)>, write| {
            Some(range.map_or((*write, *write), |(low, high)| (low.min(*write), high.max(*write))))
        });
        let writes = range.ok_or_else(lacks)?;
        match &mut self.facts {
            Some(facts) => {
                facts.rows += batch.num_rows() as u64;
                facts.writes = (facts.writes.0.min(writes.0), facts.writes.1.max(writes.1));
                facts.last = last;
            }
            None => {
                let first = node(0)?;
                let rows = batch.num_rows() as u64;
                self.facts = Some(PartFacts { rows, first, last, writes, ..source.facts.clone() });
            }
        }
        Ok(())
    }
}

/// The rows of a part that are not of the run, with some of its columns, and how many of each batch are.
fn others<'a>(
    source: &'a Source,
    run: &'a Node,
    keep: impl Fn(&str) -> bool,
) -> Result<impl Iterator<Item = Result<(RecordBatch, usize), StoreError>> + 'a, StoreError> {
    let mut types: Vec<(&str, ValueType)> =
        source.columns.iter().map(|(name, of)| (name.as_str(), *of)).filter(|(name, _)| keep(name)).collect();
    types.sort_unstable();
    let has = |name: &str| types.iter().any(|(other, _)| *other == name);
    let fields = types.iter().copied().filter(|(name, _)| !name.starts_with(RESERVED_PREFIX));
    let merge = Merge::new(std::slice::from_ref(source), part_schema(has, fields), 1)?;
    Ok(merge.map(move |batch| {
        let batch = batch?;
        let is_it = of_run(&batch, run).ok_or_else(|| unusable(source, "it has no identities".to_owned()))?;
        let gone = is_it.true_count();
        let stays: BooleanArray = is_it.values().iter().map(|is_it| !is_it).collect::<Vec<bool>>().into();
        let rest = filter_record_batch(&batch, &stays).map_err(|error| StoreError::Part {
            operation: "read",
            path: source.path.clone(),
            source: error.into(),
        })?;
        Ok((rest, gone))
    }))
}

/// Publishes a part with the rows of a source that are not of the run.
fn publish(
    values: &Path,
    source: &Source,
    run: &Node,
    facts: &PartFacts,
    columns: &HashSet<String>,
) -> Result<(), StoreError> {
    let path = values.join(new_part_name());
    let failed = |source| StoreError::Part { operation: "write", path: path.clone(), source };
    let mut rest = others(source, run, |name| columns.contains(name))?;
    let mut writer = None;
    let mut rows = 0;
    for batch in &mut rest {
        let (batch, _) = batch?;
        let writer = match &mut writer {
            Some(writer) => writer,
            none => {
                let staged = StagedFile::create(&path, Durability::State)?;
                let new = PartWriter::new(staged, batch.schema(), facts.runs.is_none()).map_err(failed)?;
                none.insert(new)
            }
        };
        rows += batch.num_rows() as u64;
        writer.write(&batch).map_err(failed)?;
    }
    let Some(writer) = writer.filter(|_| rows == facts.rows) else {
        return Err(unusable(source, format!("it had {} rows of other runs, and then {rows}", facts.rows)));
    };
    let staged = writer.finish(facts).map_err(failed)?;
    fault::point("store.remove.publish");
    staged.commit()?;
    tracing::info!(part = %path.display(), rows, "part written without a run");
    Ok(())
}

fn unusable(source: &Source, what: String) -> StoreError {
    StoreError::Part { operation: "read", path: source.path.clone(), source: ParquetError::General(what) }
}

#[cfg(test)]
#[path = "removal/tests.rs"]
mod tests;
