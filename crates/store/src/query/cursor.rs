//! A cursor over the rows of one part in the order of their identities.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};

use crate::published::{Group, Part, PartBytes, RunKey};
use crate::query::chunk::{Chunk, ChunkMaker, Span, sort_rows};
use crate::query::decode::GroupReader;
use crate::query::fault::Fault;
use crate::query::plan::{FoldPlan, Limits, PlannedPart};
use crate::query::spec::{Known, Layout, Selection};

/// Row groups below this are decoded whole: finding the rows in scope first would cost as much.
const MIN_SELECTED_ROWS: usize = 2_048;

/// Rows that are looked at at once to see whether a part is sorted.
const CHECKED_ROWS: usize = 8_192;

/// Reads one part forwards, a chunk at a time.
pub(crate) struct Cursor {
    pub(crate) rank: u32,
    plan: Arc<FoldPlan>,
    planned: PlannedPart,
    maker: ChunkMaker,
    next_group: usize,
    reader: Option<(GroupReader, Option<Arc<RunKey>>)>,
    /// The rows of a part that had to be sorted.
    sorted: Option<VecDeque<RecordBatch>>,
    /// Chunks with rows ahead, the first being read.
    chunks: VecDeque<Arc<Chunk>>,
    /// The span and the row of the first chunk that come next.
    span: usize,
    row: usize,
    ended: bool,
}

/// Rows of one run of one part that are folded together with others.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) chunk: Arc<Chunk>,
    pub(crate) run: Arc<RunKey>,
    pub(crate) rows: std::ops::Range<usize>,
    pub(crate) rank: u32,
}

impl Cursor {
    pub(crate) fn open(
        plan: &Arc<FoldPlan>,
        limits: &Arc<Limits>,
        planned: PlannedPart,
    ) -> Result<Cursor, Fault> {
        let part = Arc::clone(&planned.part);
        let layout = planned.groups.first().and_then(|group| plan.layout(&part, &part.groups[*group]));
        let Some(layout) = layout.cloned() else { return Err(Fault::Unsorted(part)) };
        let maker = ChunkMaker {
            records: Arc::clone(&plan.records),
            flags: plan.spec.flags.clone().into(),
            limits: Arc::clone(limits),
            ..ChunkMaker::new(part, layout)
        };
        let mut cursor = Cursor {
            rank: planned.rank,
            plan: Arc::clone(plan),
            planned,
            maker,
            next_group: 0,
            reader: None,
            sorted: None,
            chunks: VecDeque::new(),
            span: 0,
            row: 0,
            ended: false,
        };
        if cursor.planned.part.is_unsorted() {
            cursor.sort()?;
        }
        cursor.load()?;
        Ok(cursor)
    }

    /// The next identity; `None` at the end.
    pub(crate) fn head(&self) -> Option<(&Arc<RunKey>, i64)> {
        let chunk = self.chunks.front()?;
        let span = chunk.spans.get(self.span)?;
        Some((&span.run, *chunk.seqs.get(self.row)?))
    }

    /// The last identity that is decoded, unless no more rows follow it.
    pub(crate) fn border(&self) -> Option<(&Arc<RunKey>, i64)> {
        if self.ended {
            return None;
        }
        let chunk = self.chunks.back()?;
        let span = chunk.spans.last()?;
        Some((&span.run, *chunk.seqs.get(span.rows.end.checked_sub(1)?)?))
    }

    /// Decodes one more chunk with rows, if there is one.
    pub(crate) fn load(&mut self) -> Result<(), Fault> {
        while !self.ended {
            let Some(chunk) = self.next_chunk()? else {
                self.ended = true;
                break;
            };
            let Some(first) = chunk.spans.first() else { continue };
            if self.chunks.is_empty() {
                (self.span, self.row) = (0, first.rows.start);
            }
            self.chunks.push_back(Arc::new(chunk));
            break;
        }
        Ok(())
    }

    /// Takes the next chunk as a whole.
    pub(crate) fn next_whole(&mut self) -> Result<Option<Arc<Chunk>>, Fault> {
        if self.chunks.is_empty() {
            self.load()?;
        }
        Ok(self.chunks.pop_front())
    }

    /// Moves the rows before `limit` to `taken`; all decoded ones if there is no limit.
    pub(crate) fn take_before(
        &mut self,
        limit: Option<(&Arc<RunKey>, i64)>,
        taken: &mut Vec<Taken>,
    ) -> Result<(), Fault> {
        while let Some(chunk) = self.chunks.front() {
            while let Some(span) = chunk.spans.get(self.span) {
                let end = end_before(span, chunk, self.row, limit);
                if end > self.row {
                    taken.push(Taken {
                        chunk: Arc::clone(chunk),
                        run: Arc::clone(&span.run),
                        rows: self.row..end,
                        rank: self.rank,
                    });
                }
                self.row = end;
                if end < span.rows.end {
                    return Ok(());
                }
                self.span += 1;
                self.row = chunk.spans.get(self.span).map_or(0, |span| span.rows.start);
            }
            self.chunks.pop_front();
            (self.span, self.row) = (0, 0);
            match self.chunks.front().and_then(|chunk| chunk.spans.first()) {
                Some(first) => self.row = first.rows.start,
                None => self.load()?,
            }
        }
        Ok(())
    }

    fn next_chunk(&mut self) -> Result<Option<Chunk>, Fault> {
        if let Some(sorted) = &mut self.sorted {
            return sorted.pop_front().map(|batch| self.maker.chunk(batch, None)).transpose();
        }
        loop {
            if let Some((reader, run)) = &mut self.reader {
                if let Some(batch) = reader.next_batch()? {
                    return self.maker.chunk(batch, run.as_ref()).map(Some);
                }
                self.reader = None;
            }
            let Some(group) = self.planned.groups.get(self.next_group) else { return Ok(None) };
            self.next_group += 1;
            let part = Arc::clone(&self.planned.part);
            let group = &part.groups[*group];
            // The file is open only while it is read, so the number of parts is not bounded by open files.
            let file = open(&part)?;
            let selection = self.selection(&file, group)?;
            if selection.as_ref().is_some_and(|selection| !selection.selects_any()) {
                continue;
            }
            self.reader = Some((self.open_group(&file, group, selection)?, group.run.clone()));
        }
    }

    fn open_group(
        &mut self,
        file: &PartBytes,
        group: &Group,
        selection: Selection,
    ) -> Result<GroupReader, Fault> {
        let part = &self.planned.part;
        let Some(layout) = self.plan.layout(part, group) else {
            return Err(Fault::Unsorted(Arc::clone(part)));
        };
        self.maker.layout = Arc::clone(layout);
        let rows = self.plan.batch_rows.min(group.rows);
        GroupReader::open(part, file, group.index, layout, selection, rows)
    }

    /// Finds the rows in scope of a group that is not in scope as a whole, from its identities alone.
    fn selection(&mut self, file: &PartBytes, group: &Group) -> Result<Selection, Fault> {
        if group.rows < MIN_SELECTED_ROWS || self.maker.limits.covers(group) {
            return Ok(None);
        }
        let part = Arc::clone(&self.planned.part);
        let Some(layout) = self.plan.identity_layout(&part, group) else { return Ok(None) };
        let mut maker = ChunkMaker {
            limits: Arc::clone(&self.maker.limits),
            ..ChunkMaker::new(Arc::clone(&part), Arc::clone(layout))
        };
        let rows = self.plan.batch_rows.min(group.rows);
        let mut reader = GroupReader::open(&part, file, group.index, layout, None, rows)?;
        let mut selectors: Vec<RowSelector> = Vec::new();
        while let Some(batch) = reader.next_batch()? {
            let rows = batch.num_rows();
            let chunk = maker.chunk(batch, group.run.as_ref())?;
            let mut place = 0;
            for span in &chunk.spans {
                selectors.push(RowSelector::skip(span.rows.start - place));
                selectors.push(RowSelector::select(span.rows.len()));
                place = span.rows.end;
            }
            selectors.push(RowSelector::skip(rows - place));
        }
        Ok(Some(RowSelection::from(selectors)))
    }

    /// Reads all row groups and sorts their rows.
    ///
    /// # Memory
    /// All asked columns of the part, which another program wrote without an order.
    fn sort(&mut self) -> Result<(), Fault> {
        let part = Arc::clone(&self.planned.part);
        let mut batches = Vec::new();
        let file = open(&part)?;
        for group in self.planned.groups.clone() {
            let mut reader = self.open_group(&file, &part.groups[group], None)?;
            while let Some(batch) = reader.next_batch()? {
                batches.push(batch);
            }
        }
        let mut slices = VecDeque::new();
        if let Some(sorted) = sort_rows(&batches, &self.maker.layout)? {
            for start in (0..sorted.num_rows()).step_by(self.plan.batch_rows) {
                slices.push_back(sorted.slice(start, self.plan.batch_rows.min(sorted.num_rows() - start)));
            }
        }
        self.sorted = Some(slices);
        Ok(())
    }
}

fn open(part: &Arc<Part>) -> Result<PartBytes, Fault> {
    part.open().map_err(|fault| Fault::open(part, fault))
}

/// Whether the rows of a part are in the order of their identities.
pub(crate) fn is_sorted(part: &Arc<Part>) -> Result<bool, Fault> {
    let failed =
        |error| Fault::Damaged(Arc::clone(part), part.damaged_by("its schema cannot be read", error));
    let layout = Layout::identity(&part.schema, Known { run: false, writer: true }).map_err(failed)?;
    let mut maker = ChunkMaker::new(Arc::clone(part), Arc::new(layout));
    let file = open(part)?;
    for group in part.groups.iter().filter(|group| group.rows > 0) {
        let layout = Arc::clone(&maker.layout);
        let mut reader =
            GroupReader::open(part, &file, group.index, &layout, None, CHECKED_ROWS.min(group.rows))?;
        while let Some(batch) = reader.next_batch()? {
            match maker.chunk(batch, None) {
                Ok(_) => {}
                Err(Fault::Unsorted(_)) => return Ok(false),
                Err(fault) => return Err(fault),
            }
        }
    }
    Ok(true)
}

/// The first row of a span, from `row` on, that is at or after the limit.
fn end_before(span: &Span, chunk: &Chunk, row: usize, limit: Option<(&Arc<RunKey>, i64)>) -> usize {
    let Some((run, seq)) = limit else { return span.rows.end };
    let ordering = if Arc::ptr_eq(&span.run, run) { std::cmp::Ordering::Equal } else { span.run.cmp(run) };
    match ordering {
        std::cmp::Ordering::Less => span.rows.end,
        std::cmp::Ordering::Greater => row,
        std::cmp::Ordering::Equal => {
            row + chunk.seqs[row..span.rows.end].partition_point(|other| *other < seq)
        }
    }
}
