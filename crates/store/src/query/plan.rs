//! The plan of a fold: which row groups of which parts are read, and in how many independent ranges of
//! identities.

use std::cmp::Ordering;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::buffer::ScalarBuffer;

use crate::listing::PartSet;
use crate::published::{Group, Part, RunKey};
use crate::query::chunk::Span;
use crate::query::fault::Fault;
use crate::query::scope::{IdentityScope, RecordScope};
use crate::query::spec::{FoldSpec, Known, Layout};
use crate::schema::{EXECUTION, PROCESS, TAG, WRITE};

/// A range of identities has at least about this many cells to decode: below, a thread more does not pay.
const CELLS_PER_RANGE: usize = 100_000;

/// Ranges for each thread, so that none waits long for another at the end.
const RANGES_PER_THREAD: usize = 4;

/// Cells that the cursors of one range may hold decoded, about.
const MAX_DECODED_CELLS: usize = 32 << 20;

/// Nodes of a block, at least, unless there are no more.
const BLOCK_SLOTS: usize = 8_192;

/// Rows that are decoded at once from a part.
const BATCH_ROWS: std::ops::RangeInclusive<usize> = 1_024..=8_192;

/// An identity in the order of the merge.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) run: Arc<RunKey>,
    pub(crate) seq: i64,
}

impl Key {
    /// Compares with an identity that is not made into a key.
    pub(crate) fn compare(&self, run: &Arc<RunKey>, seq: i64) -> Ordering {
        let runs = if Arc::ptr_eq(&self.run, run) { Ordering::Equal } else { self.run.cmp(run) };
        runs.then_with(|| self.seq.cmp(&seq))
    }
}

/// The identities that one merge produces.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    pub(crate) scope: IdentityScope,
    /// Inclusive.
    from: Option<Key>,
    /// Exclusive.
    until: Option<Key>,
}

impl Limits {
    /// The rows of a span that are inside; its positions must be sorted.
    pub(crate) fn clip(&self, span: Span, seqs: &ScalarBuffer<i64>) -> Option<Span> {
        if self.scope.is_everything() && self.from.is_none() && self.until.is_none() {
            return Some(span);
        }
        let (first, last) = self.seqs(&span.run)?;
        let of_run = &seqs[span.rows.clone()];
        let start = span.rows.start + of_run.partition_point(|seq| *seq < first);
        let end = span.rows.start + of_run.partition_point(|seq| *seq <= last);
        (start < end).then_some(Span { run: span.run, rows: start..end })
    }

    /// The first and the last position of a run that are inside.
    pub(crate) fn seqs(&self, run: &RunKey) -> Option<(i64, i64)> {
        if !self.scope.allows_run(&run.name, &run.nonce) {
            return None;
        }
        let (mut first, mut last) = self.scope.seqs(&run.name, &run.nonce);
        if let Some(from) = &self.from {
            match run.cmp(&from.run) {
                Ordering::Less => return None,
                Ordering::Equal => first = first.max(from.seq),
                Ordering::Greater => {}
            }
        }
        if let Some(until) = &self.until {
            match run.cmp(&until.run) {
                Ordering::Greater => return None,
                Ordering::Equal => last = last.min(until.seq.checked_sub(1)?),
                Ordering::Less => {}
            }
        }
        (first <= last).then_some((first, last))
    }

    /// Whether rows of the group may be inside.
    fn allows(&self, group: &Group) -> bool {
        let (first, last) = group.seqs.unwrap_or((i64::MIN, i64::MAX));
        match &group.run {
            Some(run) => self.seqs(run).is_some_and(|(from, to)| from <= last && first <= to),
            None => {
                let (name, last_name) = (group.names.0.as_deref(), group.names.1.as_deref());
                let after = |from: &Key| last_name.is_none_or(|last| *from.run.name <= *last);
                let before = |until: &Key| name.is_none_or(|name| *name <= *until.run.name);
                self.scope.allows_names(name, last_name)
                    && self.scope.allows_seqs(first, last)
                    && self.from.as_ref().is_none_or(after)
                    && self.until.as_ref().is_none_or(before)
            }
        }
    }

    /// Whether all rows of the group are inside.
    pub(crate) fn covers(&self, group: &Group) -> bool {
        if self.scope.is_everything() && self.from.is_none() && self.until.is_none() {
            return true;
        }
        match (&group.run, group.seqs) {
            (Some(run), Some((first, last))) => {
                self.seqs(run).is_some_and(|(from, to)| from <= first && last <= to)
            }
            _ => false,
        }
    }
}

/// A part with the row groups to read.
#[derive(Clone, Debug)]
pub(crate) struct PlannedPart {
    pub(crate) part: Arc<Part>,
    /// Its rank among the parts, which decides between records without stamps.
    pub(crate) rank: u32,
    /// Places in [`Part::groups`].
    pub(crate) groups: Vec<usize>,
}

impl PlannedPart {
    /// A key that no row of these groups is below; `None` if nothing is known.
    pub(crate) fn low(&self) -> Option<Key> {
        let mut low: Option<Key> = None;
        for group in &self.groups {
            let key = low_key(&self.part.groups[*group])?;
            if low.as_ref().is_none_or(|low| key < *low) {
                low = Some(key);
            }
        }
        low
    }
}

fn low_key(group: &Group) -> Option<Key> {
    match &group.run {
        Some(run) => Some(Key { run: Arc::clone(run), seq: group.seqs.map_or(i64::MIN, |(first, _)| first) }),
        None => {
            let name = Arc::clone(group.names.0.as_ref()?);
            let run = RunKey { name, nonce: Arc::from("") };
            Some(Key { run: Arc::new(run), seq: i64::MIN })
        }
    }
}

/// Everything that a merge needs to know, for all ranges.
#[derive(Debug)]
pub(crate) struct FoldPlan {
    pub(crate) spec: Arc<FoldSpec>,
    pub(crate) records: Arc<RecordScope>,
    scope: IdentityScope,
    parts: Vec<PlannedPart>,
    /// No node before this one is wanted.
    first: Option<Key>,
    layouts: HashMap<(usize, Known), Arc<Layout>>,
    identities: HashMap<(usize, Known), Arc<Layout>>,
    /// Between the ranges, rising.
    pub(crate) cuts: Vec<Key>,
    /// Rows that are decoded at once from a part.
    pub(crate) batch_rows: usize,
    /// A block is handed on when it has at least this many nodes.
    pub(crate) block_slots: usize,
}

/// One range of identities with the parts that reach into it.
#[derive(Debug)]
pub(crate) struct Range {
    pub(crate) limits: Arc<Limits>,
    pub(crate) parts: Vec<PlannedPart>,
}

impl FoldPlan {
    /// Plans a fold over a listing for at most `threads` threads.
    ///
    /// # Errors
    /// [`Fault::Damaged`] when the columns of a part cannot be decoded.
    pub(crate) fn new(
        set: &PartSet,
        spec: FoldSpec,
        scope: IdentityScope,
        records: RecordScope,
        threads: usize,
    ) -> Result<FoldPlan, Fault> {
        FoldPlan::requiring(set, spec, scope, records, threads, &[])
    }

    /// The same for a question that only nodes answer which have a value of each of some columns.
    ///
    /// # Errors
    /// As [`new`](FoldPlan::new).
    pub(crate) fn requiring(
        set: &PartSet,
        spec: FoldSpec,
        scope: IdentityScope,
        records: RecordScope,
        threads: usize,
        columns: &[&str],
    ) -> Result<FoldPlan, Fault> {
        let limits = Limits { scope: scope.clone(), from: None, until: None };
        let nonces = scope.nonces();
        let mut parts = Vec::new();
        for (rank, part) in set.parts.iter().enumerate() {
            if !has_record_columns(part, &records)
                || part.runs.as_ref().is_some_and(|runs| !runs.iter().any(|run| scope.allows_range(run)))
            {
                continue;
            }
            let groups = part.groups.iter().enumerate().filter(|(_, group)| {
                let filtered = nonces.as_ref().filter(|_| group.run.is_none() && part.runs.is_none());
                group.rows > 0
                    && limits.allows(group)
                    && filtered.is_none_or(|nonces| part.may_hold_nonce(group, nonces))
            });
            let groups: Vec<usize> = groups.map(|(place, _)| place).collect();
            if !groups.is_empty() {
                let rank = u32::try_from(rank).unwrap_or(u32::MAX);
                parts.push(PlannedPart { part: Arc::clone(part), rank, groups });
            }
        }
        for column in columns {
            keep_near(&mut parts, column);
        }
        let mut plan = FoldPlan {
            spec: Arc::new(spec),
            records: Arc::new(records),
            scope,
            parts,
            first: None,
            layouts: HashMap::new(),
            identities: HashMap::new(),
            cuts: Vec::new(),
            batch_rows: *BATCH_ROWS.end(),
            block_slots: BLOCK_SLOTS,
        };
        plan.make_layouts()?;
        plan.make_cuts(threads);
        let widest = plan.layouts.values().map(|layout| layout.leaves.len()).max().unwrap_or(1);
        let fair = MAX_DECODED_CELLS / (widest * plan.parts.len()).max(1);
        plan.batch_rows = fair.clamp(*BATCH_ROWS.start(), *BATCH_ROWS.end());
        Ok(plan)
    }

    fn make_layouts(&mut self) -> Result<(), Fault> {
        for PlannedPart { part, groups, .. } in &self.parts {
            for group in groups {
                let known = known(part, &part.groups[*group]);
                let key = (part.schema.id, known);
                let failed = |error| {
                    Fault::Damaged(Arc::clone(part), part.damaged_by("its schema cannot be read", error))
                };
                if let Entry::Vacant(entry) = self.layouts.entry(key) {
                    let layout =
                        Layout::new(&part.schema, &self.spec, &self.records, known).map_err(failed)?;
                    entry.insert(Arc::new(layout));
                }
                if let Entry::Vacant(entry) = self.identities.entry(key) {
                    entry.insert(Arc::new(Layout::identity(&part.schema, known).map_err(failed)?));
                }
            }
        }
        Ok(())
    }

    /// Cuts the identities into ranges of about equal work, at the first keys of row groups.
    fn make_cuts(&mut self, threads: usize) {
        let mut starts: Vec<(Key, usize)> = Vec::new();
        let mut total = 0;
        for planned in &self.parts {
            for group in &planned.groups {
                let group = &planned.part.groups[*group];
                let cells =
                    group.rows * self.layout(&planned.part, group).map_or(1, |layout| layout.leaves.len());
                total += cells;
                starts.extend(low_key(group).map(|key| (key, cells)));
            }
        }
        let ranges = (total / CELLS_PER_RANGE).min(if threads > 1 { threads * RANGES_PER_THREAD } else { 1 });
        if ranges < 2 {
            return;
        }
        starts.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let mut before = 0;
        for (key, cells) in starts {
            let next = self.cuts.len() + 1;
            if before >= total * next / ranges && self.cuts.last().is_none_or(|cut| *cut < key) {
                self.cuts.push(key);
            }
            before += cells;
        }
    }

    /// Leaves out all nodes up to this one.
    pub(crate) fn begin_after(&mut self, last: &Key) {
        let first = match last.seq.checked_add(1) {
            Some(seq) => Key { run: Arc::clone(&last.run), seq },
            // The first nonce that comes after it.
            None => {
                let nonce = Arc::from(format!("{}\0", last.run.nonce));
                Key { run: Arc::new(RunKey { name: Arc::clone(&last.run.name), nonce }), seq: i64::MIN }
            }
        };
        self.first = Some(first);
    }

    /// The parts that are read.
    pub(crate) fn parts(&self) -> &[PlannedPart] {
        &self.parts
    }

    /// The limits of all ranges together.
    pub(crate) fn limits(&self) -> Arc<Limits> {
        Arc::new(Limits { scope: self.scope.clone(), from: None, until: None })
    }

    /// The number of ranges.
    pub(crate) fn ranges(&self) -> usize {
        self.cuts.len() + 1
    }

    /// One range: its limits, and the row groups that reach into it.
    pub(crate) fn range(&self, index: usize) -> Range {
        let limits = Limits {
            scope: self.scope.clone(),
            from: index
                .checked_sub(1)
                .and_then(|before| self.cuts.get(before))
                .max(self.first.as_ref())
                .cloned(),
            until: self.cuts.get(index).cloned(),
        };
        let mut parts = Vec::new();
        for planned in &self.parts {
            let inside =
                planned.groups.iter().copied().filter(|group| limits.allows(&planned.part.groups[*group]));
            let groups: Vec<usize> = inside.collect();
            if !groups.is_empty() {
                parts.push(PlannedPart { part: Arc::clone(&planned.part), rank: planned.rank, groups });
            }
        }
        Range { limits: Arc::new(limits), parts }
    }

    pub(crate) fn layout(&self, part: &Part, group: &Group) -> Option<&Arc<Layout>> {
        self.layouts.get(&(part.schema.id, known(part, group)))
    }

    pub(crate) fn identity_layout(&self, part: &Part, group: &Group) -> Option<&Arc<Layout>> {
        self.identities.get(&(part.schema.id, known(part, group)))
    }
}

/// Keeps the row groups that may have a node which has a value of a column: those that overlap a row group with such a value.
/// So a key that few records have costs what those cost, whatever else the run has.
fn keep_near(parts: &mut Vec<PlannedPart>, column: &str) {
    let mut near = Near::default();
    for PlannedPart { part, groups, .. } in parts.iter() {
        let groups = groups.iter().map(|group| &part.groups[*group]);
        for group in groups.filter(|group| part.may_hold(column, group)) {
            if !near.add(group) {
                return;
            }
        }
    }
    near.join();
    for planned in parts.iter_mut() {
        let part = Arc::clone(&planned.part);
        planned.groups.retain(|group| near.meets(&part.groups[*group]));
    }
    parts.retain(|planned| !planned.groups.is_empty());
}

/// The identities of some row groups.
#[derive(Default)]
struct Near {
    /// Of those that have one run: the positions.
    runs: BTreeMap<Arc<RunKey>, Vec<(i64, i64)>>,
    /// Of the others: between which names they lie.
    names: Vec<(Arc<str>, Arc<str>)>,
}

impl Near {
    /// False where a group is not known to be anywhere, so that it may be everywhere.
    fn add(&mut self, group: &Group) -> bool {
        match (&group.run, group.seqs, &group.names) {
            (Some(run), Some(seqs), _) => self.runs.entry(Arc::clone(run)).or_default().push(seqs),
            (_, _, (Some(first), Some(last))) => self.names.push((Arc::clone(first), Arc::clone(last))),
            _ => return false,
        }
        true
    }

    /// To be called after the last group was added.
    fn join(&mut self) {
        self.runs.values_mut().for_each(join);
        join(&mut self.names);
    }

    fn meets(&self, group: &Group) -> bool {
        let (Some(first), Some(last)) = &group.names else { return true };
        if overlap(&self.names, first, last) {
            return true;
        }
        if let (Some(run), Some((first, last))) = (&group.run, group.seqs) {
            return self.runs.get(run).is_some_and(|spans| overlap(spans, &first, &last));
        }
        let from = RunKey { name: Arc::clone(first), nonce: Arc::from("") };
        self.runs.range(Arc::new(from)..).next().is_some_and(|(run, _)| run.name <= *last)
    }
}

/// Sorts spans, ends included, and makes one of those that touch.
fn join<T: Ord + Clone>(spans: &mut Vec<(T, T)>) {
    spans.sort_unstable();
    spans.dedup_by(|next, before| {
        let touches = next.0 <= before.1;
        if touches && next.1 > before.1 {
            before.1 = next.1.clone();
        }
        touches
    });
}

/// Whether one of the joined spans has something in common with another one.
fn overlap<T: Ord>(spans: &[(T, T)], first: &T, last: &T) -> bool {
    let after = spans.partition_point(|(_, end)| end < first);
    spans.get(after).is_some_and(|(begin, _)| begin <= last)
}

fn known(part: &Part, group: &Group) -> Known {
    // Rows that are sorted first lose the borders of their row groups.
    Known { run: group.run.is_some() && !part.is_unsorted(), writer: part.writer.is_some() }
}

/// A part without a column that a condition on records needs has no such record.
fn has_record_columns(part: &Part, records: &RecordScope) -> bool {
    let needs = [
        (!records.executions.is_empty(), EXECUTION),
        (!records.tags.is_empty(), TAG),
        (!records.processes.is_empty(), PROCESS),
        (records.from.is_some() || records.until.is_some(), WRITE),
    ];
    needs.into_iter().all(|(needed, column)| !needed || part.schema.column(column).is_some())
}
