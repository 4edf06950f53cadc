//! Sorted parts become one sorted stream, a bounded number of decoded rows at a time.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, new_null_array};
use arrow::compute::interleave_record_batch;
use arrow::datatypes::{Int64Type, SchemaRef};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use waycairn_dag::Node;
use waycairn_durable::open_file;

use crate::compact::Source;
use crate::error::StoreError;
use crate::schema::{NAME, NONCE, PROCESS, SEQ, WRITE};

/// Rows of one output batch, nearly.
const OUTPUT_ROWS: usize = 8_192;

/// A run of rows from one source that is this long is passed on without a copy.
const WHOLE_RUN_ROWS: usize = 1_024;

/// The cells that all open sources together hold decoded, nearly.
const OPEN_CELLS: usize = 1 << 22;

/// The rows of several sorted sources, sorted, with the columns of `schema`. Sources are opened when the
/// merge reaches their first identity, so only those that overlap are open together.
pub(crate) struct Merge {
    schema: SchemaRef,
    /// Sources not yet opened, by first identity.
    waiting: VecDeque<Source>,
    /// Open sources; at most as many as overlap.
    cursors: Vec<Cursor>,
    batch_rows: usize,
    /// Batches that `picked` refers to.
    batches: Vec<RecordBatch>,
    picked: Vec<(usize, usize)>,
    /// Finished output.
    ready: VecDeque<RecordBatch>,
}

impl Merge {
    /// Begins a merge of sources that are sorted by their first identity, of which at most `overlapping` are
    /// open together.
    pub(crate) fn new(
        sources: &[Source],
        schema: SchemaRef,
        overlapping: usize,
    ) -> Result<Merge, StoreError> {
        let columns = schema.fields().len().max(1);
        Ok(Merge {
            batch_rows: (OPEN_CELLS / (columns * overlapping.max(1))).clamp(256, OUTPUT_ROWS),
            schema,
            waiting: sources.iter().cloned().collect(),
            cursors: Vec::new(),
            batches: Vec::new(),
            picked: Vec::new(),
            ready: VecDeque::new(),
        })
    }

    /// Takes the longest run of rows that one source can give next; false at the end.
    fn step(&mut self) -> Result<bool, StoreError> {
        let Some(best) = self.open_and_find_best()? else {
            self.flush()?;
            return Ok(false);
        };
        let mut cursor = self.cursors.swap_remove(best);
        let rival = self.best();
        let end = {
            let rival = rival.and_then(|rival| self.cursors.get(rival));
            cursor.end_of_run(rival, self.waiting.front().map(|source| &source.facts.first))
        };
        let rows = end - cursor.row;
        if rows >= WHOLE_RUN_ROWS {
            self.flush()?;
            // It is taken out of the cursors, so the flush has not seen it: its place is another batch's from here on.
            cursor.picked_as = None;
            self.ready.push_back(cursor.batch.slice(cursor.row, rows));
        } else {
            if cursor.picked_as.is_none() {
                cursor.picked_as = Some(self.batches.len());
                self.batches.push(cursor.batch.clone());
            }
            let batch = cursor.picked_as.unwrap_or_default();
            self.picked.extend((cursor.row..end).map(|row| (batch, row)));
        }
        cursor.row = end;
        let more = cursor.row < cursor.batch.num_rows() || cursor.load()?;
        if more {
            self.cursors.push(cursor);
        }
        if self.picked.len() >= self.batch_rows {
            self.flush()?;
        }
        Ok(true)
    }

    /// Opens every source that may hold the next row, and finds the one that does.
    fn open_and_find_best(&mut self) -> Result<Option<usize>, StoreError> {
        loop {
            let best = self.best();
            let due = match (self.waiting.front(), best.and_then(|best| self.cursors.get(best))) {
                (None, _) => false,
                (Some(_), None) => true,
                (Some(source), Some(cursor)) => cursor.cmp_identity(cursor.row, &source.facts.first).is_ge(),
            };
            if !due {
                return Ok(best);
            }
            if let Some(source) = self.waiting.pop_front() {
                self.cursors.extend(Cursor::open(source, Arc::clone(&self.schema), self.batch_rows)?);
            }
        }
    }

    /// The cursor with the smallest row. There are few, so no heap is kept.
    fn best(&self) -> Option<usize> {
        let rank = |a: &(usize, &Cursor), b: &(usize, &Cursor)| a.1.cmp_rows(a.1.row, b.1, b.1.row);
        self.cursors.iter().enumerate().min_by(rank).map(|(index, _)| index)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        if !self.picked.is_empty() {
            let batches: Vec<&RecordBatch> = self.batches.iter().collect();
            let output = interleave_record_batch(&batches, &self.picked).map_err(|source| {
                let path = self.cursors.first().map(|cursor| cursor.source.path.clone()).unwrap_or_default();
                StoreError::Part { operation: "merge", path, source: ParquetError::from(source) }
            })?;
            self.ready.push_back(output);
        }
        self.picked.clear();
        self.batches.clear();
        for cursor in &mut self.cursors {
            cursor.picked_as = None;
        }
        Ok(())
    }
}

impl Iterator for Merge {
    type Item = Result<RecordBatch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Some(Ok(batch));
            }
            match self.step() {
                Ok(true) => {}
                Ok(false) => return self.ready.pop_front().map(Ok),
                Err(error) => {
                    self.waiting.clear();
                    self.cursors.clear();
                    return Some(Err(error));
                }
            }
        }
    }
}

/// An open source, and the row that it gives next.
struct Cursor {
    source: Source,
    schema: SchemaRef,
    /// For each column of `schema`, its place in the source.
    places: Vec<Option<usize>>,
    reader: ParquetRecordBatchReader,
    batch: RecordBatch,
    keys: Keys,
    row: usize,
    /// Its place among the batches of the merge, if it has one already.
    picked_as: Option<usize>,
}

/// The columns by which rows are sorted.
struct Keys {
    name: StringArray,
    nonce: StringArray,
    seq: Int64Array,
    process: Int64Array,
    write: Int64Array,
}

impl Cursor {
    /// Opens a source at its first row; `None` when it has none.
    fn open(source: Source, schema: SchemaRef, batch_rows: usize) -> Result<Option<Cursor>, StoreError> {
        let path = source.path.clone();
        let file = open_file(&path).map_err(|source| StoreError::Io { operation: "open", path, source })?;
        let reader = ParquetRecordBatchReaderBuilder::try_new(file)
            .and_then(|builder| builder.with_batch_size(batch_rows).build())
            .map_err(|error| unreadable(&source, error))?;
        let theirs = arrow::array::RecordBatchReader::schema(&reader);
        let places = schema.fields().iter().map(|field| theirs.index_of(field.name()).ok()).collect();
        let batch = RecordBatch::new_empty(Arc::clone(&schema));
        let keys = Keys::of(&batch).ok_or_else(|| lacks_keys(&source))?;
        let mut cursor = Cursor { source, schema, places, reader, batch, keys, row: 0, picked_as: None };
        Ok(cursor.load()?.then_some(cursor))
    }

    /// Decodes the next rows; false at the end.
    fn load(&mut self) -> Result<bool, StoreError> {
        let batch = match self.reader.next() {
            None => return Ok(false),
            Some(Ok(batch)) if batch.num_rows() == 0 => return self.load(),
            Some(batch) => batch.map_err(|error| unreadable(&self.source, error.into()))?,
        };
        let column = |(place, field): (&Option<usize>, &arrow::datatypes::FieldRef)| -> ArrayRef {
            match place {
                Some(place) => Arc::clone(batch.column(*place)),
                None => new_null_array(field.data_type(), batch.num_rows()),
            }
        };
        let columns = self.places.iter().zip(self.schema.fields()).map(column).collect();
        self.batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(|error| unreadable(&self.source, error.into()))?;
        self.keys = Keys::of(&self.batch).ok_or_else(|| lacks_keys(&self.source))?;
        self.row = 0;
        self.picked_as = None;
        Ok(true)
    }

    /// The end of the run of rows, from the current one, that come before the rival's current row and before
    /// the first identity of the source that waits.
    fn end_of_run(&self, rival: Option<&Cursor>, waiting: Option<&Node>) -> usize {
        let comes_first = |row: usize| {
            rival.is_none_or(|rival| self.cmp_rows(row, rival, rival.row).is_le())
                && waiting.is_none_or(|first| self.cmp_identity(row, first).is_lt())
        };
        let rows = self.batch.num_rows();
        if comes_first(rows - 1) {
            return rows;
        }
        // Doubling, then halving: a run of one row among thousands costs two comparisons.
        let (mut low, mut step) = (self.row, 1);
        while low + step < rows && comes_first(low + step) {
            low += step;
            step *= 2;
        }
        let mut high = (low + step).min(rows - 1);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if comes_first(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        low + 1
    }

    fn cmp_rows(&self, row: usize, other: &Cursor, other_row: usize) -> Ordering {
        let (a, b) = (&self.keys, &other.keys);
        a.name
            .value(row)
            .cmp(b.name.value(other_row))
            .then_with(|| a.nonce.value(row).cmp(b.nonce.value(other_row)))
            .then_with(|| a.seq.value(row).cmp(&b.seq.value(other_row)))
            .then_with(|| a.process.value(row).cmp(&b.process.value(other_row)))
            .then_with(|| b.write.value(other_row).cmp(&a.write.value(row)))
    }

    fn cmp_identity(&self, row: usize, node: &Node) -> Ordering {
        let seq = i64::try_from(node.seq()).unwrap_or(i64::MAX);
        self.keys
            .name
            .value(row)
            .cmp(node.name())
            .then_with(|| self.keys.nonce.value(row).cmp(node.nonce()))
            .then_with(|| self.keys.seq.value(row).cmp(&seq))
    }
}

impl Keys {
    /// The keys of a batch of our own writing, in which none of them is null.
    fn of(batch: &RecordBatch) -> Option<Keys> {
        let column = |name| batch.column_by_name(name).filter(|column| column.null_count() == 0);
        let text = |name| column(name)?.as_string_opt::<i32>().cloned();
        let number = |name| column(name)?.as_primitive_opt::<Int64Type>().cloned();
        Some(Keys {
            name: text(NAME)?,
            nonce: text(NONCE)?,
            seq: number(SEQ)?,
            process: number(PROCESS)?,
            write: number(WRITE)?,
        })
    }
}

fn unreadable(part: &Source, source: ParquetError) -> StoreError {
    StoreError::Part { operation: "read", path: part.path.clone(), source }
}

fn lacks_keys(part: &Source) -> StoreError {
    unreadable(part, ParquetError::General("a column of the sort order is missing or has nulls".to_owned()))
}
