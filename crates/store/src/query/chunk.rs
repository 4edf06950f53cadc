//! Decoded rows of one part, ready to be merged: identities in order, stamps, and the columns asked for.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, Int64Array, RecordBatch, StringArray,
    UInt32Array,
};
use arrow::buffer::{BooleanBuffer, ScalarBuffer};
use arrow::compute::{
    CastOptions, SortColumn, cast, cast_with_options, concat_batches, filter_record_batch,
    lexsort_to_indices, take_record_batch,
};
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use waycairn_dag::Node;

use crate::published::{Part, RunKey, dictionary};
use crate::query::bits::Bits;
use crate::query::fault::Fault;
use crate::query::plan::Limits;
use crate::query::scope::RecordScope;
use crate::query::spec::{Flag, Layout, Place};
use crate::schema::{ARTIFACT_SEPARATOR, ValueType};
use crate::stamp::Stamp;

/// Rows of one run in a chunk.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) run: Arc<RunKey>,
    pub(crate) rows: Range<usize>,
}

/// A run of decoded rows, sorted by identity.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// The rows that are in scope, by run. Rows between the spans are not.
    pub(crate) spans: Vec<Span>,
    pub(crate) seqs: ScalarBuffer<i64>,
    /// `None` when the part has no such column.
    pub(crate) process: Option<Int64Array>,
    pub(crate) write: Option<Int64Array>,
    writer: Writer,
    pub(crate) columns: Vec<Option<ArrayRef>>,
    pub(crate) flags: Vec<Option<FlagRows>>,
    pub(crate) sets: Vec<Option<StringArray>>,
    pub(crate) labels: Vec<Option<DictionaryArray<Int32Type>>>,
    /// The rows that only take a checkpoint's marker back, if there are any: they are no writing at their node.
    pub(crate) withdrawn: Option<BooleanBuffer>,
}

/// The rows that answer a question.
#[derive(Debug)]
pub(crate) struct FlagRows {
    pub(crate) yes: BooleanBuffer,
    /// Those that take the answer back, if there are any.
    pub(crate) no: Option<BooleanBuffer>,
}

/// Who wrote the rows.
#[derive(Debug)]
enum Writer {
    Unknown,
    One(Arc<str>),
    Each(DictionaryArray<Int32Type>),
}

impl Chunk {
    pub(crate) fn stamp(&self, row: usize) -> Stamp<'_> {
        let writer = match &self.writer {
            Writer::Unknown => None,
            Writer::One(writer) => Some(&**writer),
            Writer::Each(writers) => text(writers, row),
        };
        Stamp { process: number(self.process.as_ref(), row), write: number(self.write.as_ref(), row), writer }
    }
}

/// Which rows of a column of truth values are true, and which false; `None` where it is no such column.
fn truths(array: &ArrayRef) -> Option<FlagRows> {
    let array = array.as_boolean_opt()?;
    let (yes, no) = match array.nulls() {
        Some(nulls) => (array.values() & nulls.inner(), &!array.values() & nulls.inner()),
        None => (array.values().clone(), !array.values()),
    };
    Some(FlagRows { yes, no: (no.count_set_bits() > 0).then_some(no) })
}

fn number(array: Option<&Int64Array>, row: usize) -> Option<i64> {
    array.filter(|array| array.is_valid(row)).map(|array| array.value(row))
}

pub(crate) fn text(array: &DictionaryArray<Int32Type>, row: usize) -> Option<&str> {
    let key = array.key(row)?;
    let values = array.values().as_string_opt::<i32>()?;
    values.is_valid(key).then(|| values.value(key))
}

/// Makes chunks of the batches of one part.
pub(crate) struct ChunkMaker {
    pub(crate) part: Arc<Part>,
    pub(crate) layout: Arc<Layout>,
    pub(crate) records: Arc<RecordScope>,
    pub(crate) flags: Arc<[Flag]>,
    pub(crate) limits: Arc<Limits>,
    /// The last identity so far, to see that the order goes on.
    pub(crate) last: Option<(Arc<RunKey>, i64)>,
    /// The run of the span before, so that its text is shared.
    pub(crate) known_run: Option<Arc<RunKey>>,
}

impl ChunkMaker {
    /// A maker for all rows of a part, without questions.
    pub(crate) fn new(part: Arc<Part>, layout: Arc<Layout>) -> ChunkMaker {
        ChunkMaker {
            part,
            layout,
            records: Arc::default(),
            flags: Arc::from([]),
            limits: Arc::default(),
            last: None,
            known_run: None,
        }
    }

    /// Takes over a batch. `run` is the run of all its rows where that is known without decoding.
    ///
    /// # Errors
    /// [`Fault::Unsorted`] when its rows, or they and those before, are out of order.
    pub(crate) fn chunk(&mut self, batch: RecordBatch, run: Option<&Arc<RunKey>>) -> Result<Chunk, Fault> {
        let batch = self.in_record_scope(batch)?;
        let seqs = self.seqs(&batch)?;
        let spans = self.spans(&batch, &seqs, run)?;
        self.check_order(&spans, &seqs)?;
        let spans = spans.into_iter().filter_map(|span| self.limits.clip(span, &seqs)).collect();
        let layout = Arc::clone(&self.layout);
        let numbers = |place: Option<Place>| -> Result<Option<Int64Array>, Fault> {
            let Some(place) = place else { return Ok(None) };
            let array = self.array(&batch, place)?;
            Ok(Some(array.as_primitive::<Int64Type>().clone()))
        };
        let writer = match (&self.part.writer, layout.writer) {
            (Some(writer), _) => Writer::One(Arc::clone(writer)),
            (None, Some(place)) => Writer::Each(self.dictionary(&batch, place)?),
            (None, None) => Writer::Unknown,
        };
        let columns =
            layout.columns.iter().map(|place| place.map(|place| self.array(&batch, place)).transpose());
        let flags = self
            .flags
            .iter()
            .zip(&layout.flags)
            .map(|(flag, place)| place.map(|place| self.flag(&batch, flag, place)).transpose());
        let sets = layout.sets.iter().map(|place| place.map(|place| self.texts(&batch, place)).transpose());
        let labels =
            layout.labels.iter().map(|place| place.map(|place| self.dictionary(&batch, place)).transpose());
        Ok(Chunk {
            seqs,
            process: numbers(layout.process)?,
            write: numbers(layout.write)?,
            writer,
            columns: columns.collect::<Result<_, _>>()?,
            flags: flags.collect::<Result<_, _>>()?,
            sets: sets.collect::<Result<_, _>>()?,
            labels: labels.collect::<Result<_, _>>()?,
            withdrawn: match layout.withdrawn {
                Some(place) => truths(&self.array(&batch, place)?).and_then(|rows| rows.no),
                None => None,
            },
            spans,
        })
    }

    fn array(&self, batch: &RecordBatch, place: Place) -> Result<ArrayRef, Fault> {
        let array = batch.column(place.index);
        if !place.column.cast {
            return match array.data_type() {
                DataType::Dictionary(_, value) if **value == DataType::Utf8 => {
                    self.cast(array, &DataType::Utf8)
                }
                _ => Ok(Arc::clone(array)),
            };
        }
        self.cast(array, &place.column.value_type.arrow())
    }

    fn cast(&self, array: &ArrayRef, to: &DataType) -> Result<ArrayRef, Fault> {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(array, to, &options)
            .map_err(|error| Fault::damaged(&self.part, format!("it holds a value that is no {to}: {error}")))
    }

    fn dictionary(&self, batch: &RecordBatch, place: Place) -> Result<DictionaryArray<Int32Type>, Fault> {
        let array = batch.column(place.index);
        if let Some(array) = array.as_dictionary_opt::<Int32Type>()
            && array.values().as_string_opt::<i32>().is_some()
        {
            return Ok(array.clone());
        }
        let array = self.cast(array, &dictionary())?;
        Ok(array.as_dictionary::<Int32Type>().clone())
    }

    pub(crate) fn texts(&self, batch: &RecordBatch, place: Place) -> Result<StringArray, Fault> {
        let array = self.cast(batch.column(place.index), &DataType::Utf8)?;
        Ok(array.as_string::<i32>().clone())
    }

    fn flag(&self, batch: &RecordBatch, flag: &Flag, place: Place) -> Result<FlagRows, Fault> {
        let array = self.array(batch, place)?;
        let rows = array.len();
        let bits = match (flag, place.column.value_type) {
            (Flag::True(_), ValueType::Bool) => {
                if let Some(rows) = truths(&array) {
                    return Ok(rows);
                }
                Bits::new(rows)
            }
            (Flag::Present(_), _) => Bits::from_fn(rows, |row| array.is_valid(row)),
            (Flag::Equals(_, wanted), ValueType::Text) => {
                let array = array.as_string::<i32>();
                Bits::from_fn(rows, |row| array.is_valid(row) && array.value(row) == &**wanted)
            }
            (Flag::Lists(_, wanted), ValueType::Text) => {
                let array = array.as_string::<i32>();
                let lists = |list: &str| list.split(ARTIFACT_SEPARATOR).any(|one| one == &**wanted);
                Bits::from_fn(rows, |row| array.is_valid(row) && lists(array.value(row)))
            }
            _ => Bits::new(rows),
        };
        Ok(FlagRows { yes: bits.into_buffer(), no: None })
    }

    pub(crate) fn seqs(&self, batch: &RecordBatch) -> Result<ScalarBuffer<i64>, Fault> {
        let missing = || Fault::damaged(&self.part, "it has a row without an identity");
        let array = self.array(batch, self.layout.seq.ok_or_else(missing)?)?;
        let seqs = array.as_primitive::<Int64Type>();
        if seqs.null_count() > 0 {
            return Err(missing());
        }
        if seqs.values().iter().any(|seq| *seq < 0) {
            return Err(Fault::damaged(&self.part, "it has a row with a position below 0"));
        }
        Ok(seqs.values().clone())
    }

    /// Finds the runs of a batch, whose rows may be in any order.
    pub(crate) fn spans(
        &mut self,
        batch: &RecordBatch,
        seqs: &ScalarBuffer<i64>,
        run: Option<&Arc<RunKey>>,
    ) -> Result<Vec<Span>, Fault> {
        if seqs.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(run) = run {
            return Ok(vec![Span { run: self.run(&run.name, &run.nonce)?, rows: 0..seqs.len() }]);
        }
        let part = Arc::clone(&self.part);
        let missing = || Fault::damaged(&part, "it has a row without an identity");
        let (Some(name), Some(nonce)) = (self.layout.name, self.layout.nonce) else { return Err(missing()) };
        let (names, nonces) = (self.dictionary(batch, name)?, self.dictionary(batch, nonce)?);
        let (name_keys, nonce_keys) = (names.keys(), nonces.keys());
        if name_keys.null_count() > 0 || nonce_keys.null_count() > 0 {
            return Err(missing());
        }
        let (name_keys, nonce_keys) = (name_keys.values(), nonce_keys.values());
        let mut spans: Vec<Span> = Vec::new();
        let mut start = 0;
        for row in 1..=seqs.len() {
            let ends = row == seqs.len()
                || name_keys[row] != name_keys[start]
                || nonce_keys[row] != nonce_keys[start];
            if !ends {
                continue;
            }
            let (Some(name), Some(nonce)) = (text(&names, start), text(&nonces, start)) else {
                return Err(missing());
            };
            let run = self.run(name, nonce)?;
            match spans.last_mut() {
                // A dictionary may hold one text twice.
                Some(span) if Arc::ptr_eq(&span.run, &run) => span.rows.end = row,
                _ => spans.push(Span { run, rows: start..row }),
            }
            start = row;
        }
        Ok(spans)
    }

    /// The key of a run, shared with the span before where it is the same.
    fn run(&mut self, name: &str, nonce: &str) -> Result<Arc<RunKey>, Fault> {
        match &self.known_run {
            Some(run) if *run.name == *name && *run.nonce == *nonce => Ok(Arc::clone(run)),
            _ => {
                let node = Node::new(name, nonce, 0).map_err(|error| {
                    Fault::damaged(&self.part, format!("it names a run that cannot be: {error}"))
                })?;
                let run = RunKey { name: Arc::clone(node.name_arc()), nonce: Arc::clone(node.nonce_arc()) };
                let run = Arc::new(run);
                self.known_run = Some(Arc::clone(&run));
                Ok(run)
            }
        }
    }

    fn check_order(&mut self, spans: &[Span], seqs: &ScalarBuffer<i64>) -> Result<(), Fault> {
        let mut last = self.last.take();
        for span in spans {
            let seqs = &seqs[span.rows.clone()];
            let (Some(first), Some(end)) = (seqs.first(), seqs.last()) else { continue };
            let follows = last.as_ref().is_none_or(|(run, seq)| (run, seq) <= (&span.run, first));
            // Without an early exit, so that the compiler can do several at once.
            let rising = seqs.windows(2).fold(true, |rising, pair| rising & (pair[0] <= pair[1]));
            if !follows || !rising {
                return Err(Fault::Unsorted(Arc::clone(&self.part)));
            }
            last = Some((Arc::clone(&span.run), *end));
        }
        self.last = last;
        Ok(())
    }

    /// Drops the rows that are not to be folded.
    fn in_record_scope(&self, batch: RecordBatch) -> Result<RecordBatch, Fault> {
        let records = &self.records;
        if records.is_everything() {
            return Ok(batch);
        }
        let mut keep = Bits::ones(batch.num_rows());
        let mut narrow = |bits: Bits| keep.and(&bits);
        let rows = batch.num_rows();
        let texts = [(&records.executions, self.layout.execution), (&records.tags, self.layout.tag)];
        for (wanted, place) in texts {
            for wanted in wanted {
                narrow(match place {
                    None => Bits::new(rows),
                    Some(place) => {
                        let array = self.dictionary(&batch, place)?;
                        Bits::from_fn(rows, |row| text(&array, row) == Some(wanted))
                    }
                });
            }
        }
        let numbers = |place: Option<Place>| -> Result<Option<ArrayRef>, Fault> {
            place.map(|place| self.array(&batch, place)).transpose()
        };
        if !records.processes.is_empty() {
            let array = numbers(self.layout.process)?;
            let array = array.as_ref().map(|array| array.as_primitive::<Int64Type>());
            narrow(Bits::from_fn(rows, |row| {
                number(array, row)
                    .is_some_and(|process| records.processes.iter().all(|wanted| *wanted == process))
            }));
        }
        if records.from.is_some() || records.until.is_some() {
            let array = numbers(self.layout.write)?;
            let array = array.as_ref().map(|array| array.as_primitive::<Int64Type>());
            narrow(Bits::from_fn(rows, |row| {
                number(array, row).is_some_and(|write| {
                    records.from.is_none_or(|from| from <= write)
                        && records.until.is_none_or(|until| write < until)
                })
            }));
        }
        let keep = BooleanArray::new(keep.into_buffer(), None);
        filter_record_batch(&batch, &keep).map_err(|error| Fault::answer("filter the rows of", error))
    }
}

/// Sorts rows by identity. Rows of one node keep their order, which decides between those without stamps.
pub(crate) fn sort_rows(batches: &[RecordBatch], layout: &Layout) -> Result<Option<RecordBatch>, Fault> {
    let failed = |error| Fault::answer("sort the rows of", error);
    let Some(first) = batches.first() else { return Ok(None) };
    let batch = concat_batches(&first.schema(), batches).map_err(failed)?;
    let mut keys = Vec::new();
    for place in [layout.name, layout.nonce, layout.seq].into_iter().flatten() {
        let array = batch.column(place.index);
        let plain = if place.column.value_type == ValueType::Text { DataType::Utf8 } else { DataType::Int64 };
        keys.push(SortColumn { values: cast(array, &plain).map_err(failed)?, options: None });
    }
    let rows = u32::try_from(batch.num_rows())
        .map_err(|_| failed(arrow::error::ArrowError::InvalidArgumentError("too many rows".to_owned())))?;
    let order: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..rows));
    keys.push(SortColumn { values: order, options: None });
    let indices = lexsort_to_indices(&keys, None).map_err(failed)?;
    take_record_batch(&batch, &indices).map(Some).map_err(failed)
}
