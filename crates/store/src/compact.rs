//! Compaction: parts become few, and every answer stays the same. A close does it for the parts that its store object wrote;
//! `tiers` does it for a root.
//!
//! The replacement is published first, then its sources are renamed to hidden names
//! (`.old-part-<uuid>.parquet`), and the hidden ones are deleted by a later compaction, ten minutes after
//! they were renamed. The states that a crash can leave:
//!
//! | it ended | then |
//! | --- | --- |
//! | before the replacement was renamed | a temporary file, which no reader takes for a part |
//! | before all sources were hidden | rows that are there twice: the fold does not see it, and the next `compact_root` hides the rest |
//! | before old sources were deleted | hidden files, which the next compaction deletes |
//!
//! What a replacement takes the place of stands in its footer, so who finds both can hide the rest.
//!
//! A reader that listed a source and finds it gone opens the hidden name; one that is reading it goes on.
//! A part that is a symbolic link is left as it is: whoever made it wants the rows where they are.
//! Rows are never folded and never dropped: the replacement holds exactly the rows of its sources.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::errors::ParquetError;
use waycairn_dag::Node;
use waycairn_durable::{self as durable, Durability, StagedFile, fault, open_file, time};

use crate::error::StoreError;
use crate::merge::Merge;
use crate::part::{
    PartFacts, PartWriter, is_retired_name, new_part_name, part_schema, read_all, retired_name,
};
use crate::schema::{RESERVED_PREFIX, ValueType};

/// How long the sources of a compaction stay readable.
pub(crate) const RETIRED_GRACE: Duration = Duration::from_secs(600);

/// How old a temporary file is before it counts as left behind by a process that died.
pub(crate) const TEMPORARY_AGE: Duration = Duration::from_secs(24 * 3600);

/// Most rows of a merged part.
const MAX_MERGED_ROWS: u64 = 1 << 22;

/// Most sources of a merged part, whose footer names them.
const MAX_SOURCES: usize = 1024;

/// Most sources that a merge reads at one moment: its memory is that many decoded batches.
const MAX_OPEN: usize = 16;

/// A close that compacts for longer leaves the rest as it is: who starts programs ends them some time after he has told
/// them to stop.
pub(crate) const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// What a compaction did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CompactReport {
    /// Parts that were merged and then hidden.
    pub sources: u64,
    /// Parts that replaced them.
    pub parts: u64,
    /// Rows that were copied.
    pub rows: u64,
    /// Parts that were left as they are, since it would have taken too long.
    pub left: u64,
    /// Sources of earlier compactions, and files of processes that died, that were deleted.
    pub deleted: u64,
    /// What could not be done. Nothing is lost by it: the parts are as they were, or there twice.
    pub errors: Vec<Arc<StoreError>>,
}

impl CompactReport {
    /// Tells the log what could not be done.
    pub(crate) fn warn(&self) {
        for error in &self.errors {
            tracing::warn!(%error, "compaction is incomplete; nothing is lost");
        }
    }
}

/// A part that may be merged.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) facts: PartFacts,
    /// All columns and their types; parts that have the same share the list.
    pub(crate) columns: Arc<Vec<(String, ValueType)>>,
}

impl Source {
    pub(crate) fn name(&self) -> Option<&str> {
        self.path.file_name()?.to_str()
    }

    /// Reads it to its last byte.
    ///
    /// # Errors
    /// [`StoreError::Part`] when it does not hold the rows that its footer tells of.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let what = match open_file(&self.path).map_err(|error| error.to_string()).and_then(read_all) {
            Ok(rows) if rows == self.facts.rows => return Ok(()),
            Ok(rows) => format!("its footer tells of {} rows, and it has {rows}", self.facts.rows),
            Err(what) => what,
        };
        let source = ParquetError::General(what);
        Err(StoreError::Part { operation: "read", path: self.path.clone(), source })
    }
}

/// Merges what `names` list, as far as it can be merged and within a limit of time, and deletes what earlier compactions left.
pub(crate) fn compact(values: &Path, names: &[String], limit: Duration) -> CompactReport {
    let until = Instant::now() + limit;
    let mut report = CompactReport::default();
    if names.len() > 1 {
        let mut sources = Vec::new();
        let mut lists = HashSet::new();
        for name in names {
            let path = values.join(name);
            if path.is_symlink() {
                continue;
            }
            match open(&path, &mut lists) {
                Ok(source) => sources.extend(source),
                Err(error) => report.errors.push(Arc::new(error)),
            }
        }
        for group in plan(sources) {
            if Instant::now() >= until {
                report.left += group.len() as u64;
                continue;
            }
            match merge(values, &group, Some(until)) {
                Ok(_) => {
                    report.parts += 1;
                    report.rows += group.iter().map(|source| source.facts.rows).sum::<u64>();
                    retire(&group, &mut report);
                }
                Err(StoreError::Late) => report.left += group.len() as u64,
                Err(error) => report.errors.push(Arc::new(error)),
            }
        }
    }
    clean_up(values, &mut report);
    report
}

/// Deletes what compactions hid before the grace, and what processes that died left half-written.
pub(crate) fn clean_up(values: &Path, report: &mut CompactReport) {
    let now = time::to_system(time::now_nanos());
    delete_retired(values, now, report);
    match durable::reap(values, TEMPORARY_AGE, now) {
        Ok(reaped) => report.deleted += reaped.len() as u64,
        Err(error) => report.errors.push(Arc::new(error.into())),
    }
    report.warn();
}

/// Divides sources into groups that can each become one part; sources that stay alone are left out.
///
/// In a group every field has one type, at most [`MAX_OPEN`] sources overlap at any identity, and there are
/// at most [`MAX_SOURCES`] of them and [`MAX_MERGED_ROWS`] rows. A group is sorted by the first identity of its sources.
pub(crate) fn plan(mut sources: Vec<Source>) -> Vec<Vec<Source>> {
    sources.sort_by(|a, b| (&a.facts.first, a.facts.writes).cmp(&(&b.facts.first, b.facts.writes)));
    let mut groups: Vec<Group> = Vec::new();
    for source in sources {
        match groups.iter_mut().find(|group| group.admits(&source)) {
            Some(group) => group.add(source),
            None => groups.push(Group::of(source)),
        }
    }
    groups.into_iter().map(|group| group.sources).filter(|sources| sources.len() > 1).collect()
}

#[derive(Default)]
struct Group {
    sources: Vec<Source>,
    rows: u64,
    types: HashMap<String, ValueType>,
    /// The largest identities of the sources that may overlap what comes.
    open: Vec<Node>,
}

impl Group {
    fn of(source: Source) -> Group {
        let mut group = Group::default();
        group.add(source);
        group
    }

    fn admits(&self, source: &Source) -> bool {
        let overlapping = self.open.iter().filter(|last| **last >= source.facts.first).count();
        let known = self.sources.last().is_some_and(|last| Arc::ptr_eq(&last.columns, &source.columns));
        let agrees = |(name, value_type): &(String, ValueType)| {
            self.types.get(name).is_none_or(|ours| ours == value_type)
        };
        overlapping < MAX_OPEN
            && self.sources.len() < MAX_SOURCES
            && self.rows + source.facts.rows <= MAX_MERGED_ROWS
            && (known || source.columns.iter().all(agrees))
    }

    fn add(&mut self, source: Source) {
        self.open.retain(|last| *last >= source.facts.first);
        self.open.push(source.facts.last.clone());
        self.rows += source.facts.rows;
        if !self.sources.last().is_some_and(|last| Arc::ptr_eq(&last.columns, &source.columns)) {
            self.types.extend(source.columns.iter().cloned());
        }
        self.sources.push(source);
    }
}

/// Reads the footer of an own part. A part that lacks the facts is left alone: it is none of ours.
pub(crate) fn open(
    path: &Path,
    lists: &mut HashSet<Arc<Vec<(String, ValueType)>>>,
) -> Result<Option<Source>, StoreError> {
    let failed = |source| StoreError::Part { operation: "read", path: path.to_owned(), source };
    let file = open_file(path).map_err(|source| StoreError::Io {
        operation: "open",
        path: path.to_owned(),
        source,
    })?;
    let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).map_err(failed)?;
    let pairs = metadata.metadata().file_metadata().key_value_metadata();
    let facts = PartFacts::from_key_values(pairs.map(Vec::as_slice))
        .map_err(|error| failed(ParquetError::External(Box::new(error))))?;
    let fields = metadata.schema().fields();
    let columns: Option<Vec<_>> = fields
        .iter()
        .map(|field| Some((field.name().clone(), ValueType::of_arrow(field.data_type())?)))
        .collect();
    let (Some(facts), Some(columns)) = (facts, columns) else { return Ok(None) };
    let columns = lists.get(&columns).map_or_else(|| Arc::new(columns), Arc::clone);
    lists.insert(Arc::clone(&columns));
    Ok(Some(Source { path: path.to_owned(), facts, columns }))
}

/// Publishes one part with the rows of all sources, and says where it is.
///
/// # Errors
/// [`StoreError::Late`] when it is not done by then; nothing was published. Otherwise what cannot be read or written.
pub(crate) fn merge(values: &Path, group: &[Source], until: Option<Instant>) -> Result<PathBuf, StoreError> {
    let path = values.join(new_part_name());
    let mut all = group.iter().map(|source| source.facts.clone());
    let Some(mut facts) = all.next() else { return Err(StoreError::Late) };
    all.for_each(|other| facts.merge(&other));
    facts.replaces = group.iter().filter_map(Source::name).map(str::to_owned).collect();
    facts.rest_of = None;
    let mut types: Vec<(&str, ValueType)> = group
        .iter()
        .flat_map(|source| source.columns.iter().map(|(name, of)| (name.as_str(), *of)))
        .collect();
    types.sort_unstable();
    types.dedup();
    let has = |name: &str| types.binary_search_by(|(other, _)| (*other).cmp(name)).is_ok();
    let fields = types.iter().copied().filter(|(name, _)| !name.starts_with(RESERVED_PREFIX));
    let schema = part_schema(has, fields);

    let failed = |source| StoreError::Part { operation: "compact into", path: path.clone(), source };
    let staged = StagedFile::create(&path, Durability::State)?;
    let mut writer = PartWriter::new(staged, Arc::clone(&schema), facts.runs.is_none()).map_err(failed)?;
    let mut rows = 0;
    for batch in Merge::new(group, schema, MAX_OPEN)? {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        writer.write(&batch).map_err(failed)?;
        if until.is_some_and(|until| Instant::now() >= until) {
            return Err(StoreError::Late);
        }
    }
    if rows != facts.rows {
        let text = format!("the sources promise {} rows and have {rows}", facts.rows);
        return Err(failed(ParquetError::General(text)));
    }
    let staged = writer.finish(&facts).map_err(failed)?;
    fault::point("store.compact.publish");
    staged.commit()?;
    tracing::info!(part = %path.display(), sources = group.len(), rows, "parts compacted");
    Ok(path)
}

/// Hides the sources of a published replacement; says whether that could be done with all of them.
pub(crate) fn retire<'a>(group: impl IntoIterator<Item = &'a Source>, report: &mut CompactReport) -> bool {
    fault::point("store.compact.retire");
    let mut all = true;
    for source in group {
        match hide(&source.path) {
            Ok(()) => report.sources += 1,
            Err(error) => {
                all = false;
                report.errors.push(Arc::new(error));
            }
        }
    }
    all
}

/// A part that holds all rows of others that are there beside it.
pub(crate) struct Doubled<'a> {
    whole: &'a Source,
    parts: Vec<&'a Source>,
}

/// Finds what is there twice, since a compaction or a removal died between what it published and what it was to hide: the
/// sources of a replacement, and the rest of a part that a run was to be removed from, of which the removal makes another.
pub(crate) fn doubled(parts: &[Source]) -> Vec<Doubled<'_>> {
    let names: HashMap<&str, &Source> = parts.iter().filter_map(|part| Some((part.name()?, part))).collect();
    let named = |name: &String| names.get(name.as_str()).copied();
    let replacements = parts.iter().map(|whole| {
        let parts = whole.facts.replaces.iter().filter_map(named).collect();
        Doubled { whole, parts }
    });
    let rests = parts.iter().filter_map(|rest| {
        let whole = rest.facts.rest_of.as_ref().and_then(named)?;
        Some(Doubled { whole, parts: vec![rest] })
    });
    replacements.chain(rests).filter(|doubled| !doubled.parts.is_empty()).collect()
}

/// The parts that nothing is twice of: merged, others would no longer say of what they were made.
pub(crate) fn single(parts: &[Source], doubled: &[Doubled<'_>]) -> Vec<Source> {
    let out: HashSet<&Path> = doubled
        .iter()
        .flat_map(|doubled| doubled.parts.iter().chain([&doubled.whole]))
        .map(|part| part.path.as_path())
        .collect();
    parts.iter().filter(|part| !out.contains(part.path.as_path())).cloned().collect()
}

/// Hides what is there twice. The part that holds its rows is read to its last byte first, and stays; names of parts are never
/// used twice, so it was made of what it names.
pub(crate) fn finish(doubled: &[Doubled<'_>], report: &mut CompactReport) {
    let stay: HashSet<&Path> = doubled.iter().map(|doubled| doubled.whole.path.as_path()).collect();
    let mut gone = BTreeMap::new();
    for Doubled { whole, parts } in doubled {
        match whole.check() {
            Ok(()) => gone.extend(parts.iter().map(|part| (part.path.as_path(), *part))),
            Err(error) => report.errors.push(Arc::new(error)),
        }
    }
    gone.retain(|path, _| !stay.contains(path));
    if !gone.is_empty() {
        retire(gone.into_values(), report);
    }
}

pub(crate) fn hide(path: &Path) -> Result<(), StoreError> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(()) };
    // The grace counts from now, not from when the part was written. Without the touch, which some file
    // systems refuse, a reader may find the source deleted early; it then lists the folder again. What a link leads to is
    // somebody else's, its time too.
    let now = time::to_system(time::now_nanos());
    if !path.is_symlink()
        && let Err(error) = open_file(path).and_then(|file| file.set_modified(now))
    {
        tracing::debug!(part = name, error = %error, "the time of a compacted part cannot be set");
    }
    durable::rename(path, &path.with_file_name(retired_name(name)))?;
    Ok(())
}

/// Deletes what was hidden more than the grace before `now`, whoever hid it.
fn delete_retired(values: &Path, now: SystemTime, report: &mut CompactReport) {
    match retired_before(values, now) {
        Ok(old) => {
            for path in old {
                match durable::remove_file(&path) {
                    Ok(()) => report.deleted += 1,
                    Err(error) => report.errors.push(Arc::new(error.into())),
                }
            }
        }
        Err(source) => {
            let error = StoreError::Io { operation: "list", path: values.to_owned(), source };
            report.errors.push(Arc::new(error));
        }
    }
}

fn retired_before(values: &Path, now: SystemTime) -> io::Result<Vec<PathBuf>> {
    let mut old = Vec::new();
    for entry in fs::read_dir(values)? {
        let entry = entry?;
        let name: OsString = entry.file_name();
        if !is_retired_name(&name) {
            continue;
        }
        // Another process may delete it between the listing and here.
        let Ok(modified) = entry.metadata().and_then(|metadata| metadata.modified()) else { continue };
        if now.duration_since(modified).is_ok_and(|age| age > RETIRED_GRACE) {
            old.push(entry.path());
        }
    }
    Ok(old)
}

#[cfg(test)]
mod tests;
