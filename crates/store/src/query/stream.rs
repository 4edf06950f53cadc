//! An answer batch by batch.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::vec;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::listing::{self, PartSet};
use crate::query::fault::Fault;
use crate::query::merge::Merge;
use crate::query::plan::Key;
use crate::query::request::{Bound, Request, Selection};
use crate::query::shown::ShownColumns;
use crate::query::{Block, Diagnostic, QueryError};
use crate::reader::ObjectReader;

/// An answer as record batches, in the order of the answer; see [`Query::stream`](crate::Query::stream).
///
/// When a part turns out to be gone or unsorted on the way, the parts are listed again and it goes on behind the last node
/// that it has given.
#[derive(Debug)]
pub struct BatchStream {
    reader: ObjectReader,
    request: Request,
    /// No keys mean all fields.
    keys: Vec<String>,
    schema: SchemaRef,
    diagnostics: Vec<Diagnostic>,
    source: Source,
    last: Option<Key>,
    /// Rows of the answer that are still to be left out, and that may still come.
    skip: usize,
    left: usize,
}

/// Where the next batches come from.
enum Source {
    Folding(Box<Folding>),
    Whole(vec::IntoIter<RecordBatch>),
    Over,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Source::Folding(_) => "Folding",
            Source::Whole(_) => "Whole",
            Source::Over => "Over",
        })
    }
}

impl BatchStream {
    pub(crate) fn new(
        reader: ObjectReader,
        request: Request,
        keys: &[&str],
    ) -> Result<BatchStream, QueryError> {
        let selection = if keys.is_empty() { Selection::Everything } else { Selection::Keys(keys) };
        let (schema, diagnostics, source);
        let (mut skip, mut left) = (request.offset, request.limit.unwrap_or(usize::MAX));
        if request.is_in_order() {
            let answer =
                reader.ask(|set, diagnostics| Folding::new(set, &request, selection, None, diagnostics))?;
            let (shown, folding) = answer.value;
            (schema, diagnostics) = (shown.schema(), answer.diagnostics);
            source = folding.map_or(Source::Over, |folding| Source::Folding(Box::new(folding)));
        } else {
            let answer = reader.ask(|set, diagnostics| request.table(set, selection, diagnostics))?;
            let batches;
            (schema, batches) = answer.value;
            diagnostics = answer.diagnostics;
            source = Source::Whole(batches.into_iter());
            (skip, left) = (0, usize::MAX);
        }
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        Ok(BatchStream { reader, request, keys, schema, diagnostics, source, last: None, skip, left })
    }

    /// The columns of the batches.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// What is remarkable so far, as in [`Answer`](crate::Answer).
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    fn folded(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        while let Source::Folding(folding) = &mut self.source {
            match folding.next_batch() {
                Ok(Some((batch, last))) => {
                    self.last = Some(last);
                    self.note(folding_notes(&self.source));
                    return Ok(Some(batch));
                }
                Ok(None) => self.source = Source::Over,
                Err(Fault::Error(error)) => return Err(error),
                Err(Fault::Damaged(_, error)) if !self.reader.skips_damage() => return Err(error),
                // It is met again behind the last node, and left out there.
                Err(Fault::Damaged(..)) => self.go_on()?,
                Err(Fault::Unsorted(part)) => {
                    part.mark_unsorted();
                    self.go_on()?;
                }
                Err(Fault::Stale(part)) => {
                    listing::forget(&part);
                    self.go_on()?;
                }
            }
        }
        Ok(None)
    }

    /// Begins again behind the last node.
    fn go_on(&mut self) -> Result<(), QueryError> {
        let keys: Vec<&str> = self.keys.iter().map(String::as_str).collect();
        // All fields are those that there were at the beginning.
        let all: Vec<String> =
            self.schema.fields().iter().skip(4).map(|field| field.name().clone()).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let selection = Selection::Keys(if keys.is_empty() { &all } else { &keys });
        let (request, last) = (&self.request, self.last.as_ref());
        let answer = self.reader.ask(|set, diagnostics| {
            let (shown, mut folding) = Folding::new(set, request, selection, last, diagnostics)?;
            // What can be cured is met here, as far as the first batch.
            let first = folding.as_mut().map(Folding::next_batch).transpose()?.flatten();
            Ok((shown, folding, first))
        })?;
        let (shown, folding, first) = answer.value;
        if shown.schema() != self.schema {
            return Err(QueryError::Answer {
                operation: "go on with",
                source: "other types of fields were recorded meanwhile; ask again".into(),
            });
        }
        self.note(answer.diagnostics);
        self.source = match folding {
            Some(mut folding) => {
                folding.first = first;
                Source::Folding(Box::new(folding))
            }
            None => Source::Over,
        };
        Ok(())
    }

    fn note(&mut self, diagnostics: Vec<Diagnostic>) {
        for diagnostic in diagnostics {
            if !self.diagnostics.contains(&diagnostic) {
                self.diagnostics.push(diagnostic);
            }
        }
    }
}

fn folding_notes(source: &Source) -> Vec<Diagnostic> {
    match source {
        Source::Folding(folding) => folding.inexact.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        _ => Vec::new(),
    }
}

impl Iterator for BatchStream {
    type Item = Result<RecordBatch, QueryError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let batch = match &mut self.source {
                _ if self.left == 0 => return None,
                Source::Over => return None,
                Source::Whole(batches) => batches.next()?,
                Source::Folding(_) => match self.folded() {
                    Ok(batch) => batch?,
                    Err(error) => {
                        self.source = Source::Over;
                        return Some(Err(error));
                    }
                },
            };
            let from = self.skip.min(batch.num_rows());
            let rows = (batch.num_rows() - from).min(self.left);
            self.skip -= from;
            self.left -= rows;
            if rows > 0 {
                return Some(Ok(batch.slice(from, rows)));
            }
        }
    }
}

/// The fold of one listing, range by range.
struct Folding {
    set: PartSet,
    bound: Bound,
    shown: ShownColumns,
    ranges: Range<usize>,
    merge: Option<Merge>,
    /// A batch that was made already.
    first: Option<(RecordBatch, Key)>,
    inexact: Mutex<Vec<Diagnostic>>,
}

impl Folding {
    /// `None` is an answer without rows.
    fn new(
        set: &PartSet,
        request: &Request,
        selection: Selection<'_>,
        after: Option<&Key>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<(ShownColumns, Option<Folding>), Fault> {
        let keys: Vec<&str> = match selection {
            Selection::Keys(keys) => keys.to_vec(),
            Selection::Everything => set.fields.types.keys().map(|key| &**key).collect(),
        };
        let shown = ShownColumns::of_query(&keys, &set.fields);
        let Some(mut bound) = request.bind(set, selection, diagnostics)? else { return Ok((shown, None)) };
        if let (Some(after), Some(plan)) = (after, Arc::get_mut(&mut bound.plan)) {
            plan.begin_after(after);
        }
        let ranges = 0..bound.plan.ranges();
        let (set, columns) = (set.clone(), shown.clone());
        let inexact = Mutex::default();
        Ok((shown, Some(Folding { set, bound, shown: columns, ranges, merge: None, first: None, inexact })))
    }

    /// The next batch with a row, and the last node that was looked at for it.
    fn next_batch(&mut self) -> Result<Option<(RecordBatch, Key)>, Fault> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        loop {
            let merge = match &mut self.merge {
                Some(merge) => merge,
                none => {
                    let Some(range) = self.ranges.next() else { return Ok(None) };
                    none.insert(Merge::new(&self.bound.plan, range))
                }
            };
            let Some(block) = merge.next_block()? else {
                self.merge = None;
                continue;
            };
            let mut folded = self.bound.folded(&block, &self.set);
            let keep = folded.holds(&self.bound.spec, &self.bound.predicate);
            if let Some(last) = last(&block)
                && keep.count() > 0
            {
                let batch = self.shown.batch(&mut folded, &self.bound.spec, &keep, &self.inexact)?;
                return Ok(Some((batch, last)));
            }
        }
    }
}

/// The last node of a block.
fn last(block: &Block) -> Option<Key> {
    let (run, _) = block.runs().last()?;
    Some(Key { run: Arc::clone(run), seq: *block.seqs().last()? })
}
