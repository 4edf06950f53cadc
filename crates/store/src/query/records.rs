//! The rows of the parts as they are, with the columns of all parts.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};

use crate::field::int_as_float;
use crate::listing::FieldTable;
use crate::query::Diagnostic;
use crate::query::bits::Bits;
use crate::query::chunk::Chunk;
use crate::query::cursor::Cursor;
use crate::query::fault::Fault;
use crate::query::plan::{FoldPlan, PlannedPart};
use crate::query::shown::note;
use crate::query::spec::FoldSpec;
use crate::schema::{RESERVED, TEXT_SUFFIX, ValueType};

/// The columns of the table of the records.
#[derive(Clone, Debug)]
pub(crate) struct RecordColumns {
    columns: Vec<RecordColumn>,
}

#[derive(Clone, Debug)]
struct RecordColumn {
    /// Its name in the table.
    name: String,
    /// Its name in the parts.
    stored: Arc<str>,
    value_type: ValueType,
}

impl RecordColumns {
    /// The reserved columns, then what the fields show.
    pub(crate) fn new(fields: &FieldTable) -> RecordColumns {
        let mut columns: Vec<RecordColumn> = RESERVED
            .iter()
            .map(|column| RecordColumn {
                name: column.name.to_owned(),
                stored: Arc::from(column.name),
                value_type: column.value_type,
            })
            .collect();
        for (key, types) in &fields.types {
            if let Some(numeric) = types.numeric() {
                columns.push(RecordColumn {
                    name: key.to_string(),
                    stored: Arc::clone(key),
                    value_type: numeric,
                });
            }
            if types.has_text() {
                let name = format!("{key}{TEXT_SUFFIX}");
                columns.push(RecordColumn { name, stored: Arc::clone(key), value_type: ValueType::Text });
            }
        }
        RecordColumns { columns }
    }

    /// Some of the columns, in this order.
    pub(crate) fn project(&self, places: &[usize]) -> RecordColumns {
        RecordColumns {
            columns: places.iter().filter_map(|place| self.columns.get(*place)).cloned().collect(),
        }
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        let fields =
            self.columns.iter().map(|column| Field::new(&column.name, column.value_type.arrow(), true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Adds what the columns need to what is decoded.
    pub(crate) fn need(&self, spec: &mut FoldSpec) {
        for column in &self.columns {
            spec.column(&column.stored);
        }
    }

    fn batch(
        &self,
        chunk: &Chunk,
        spec: &FoldSpec,
        inexact: &Mutex<Vec<Diagnostic>>,
    ) -> Result<RecordBatch, Fault> {
        let failed = |error| Fault::answer("assemble", error);
        let rows = chunk.seqs.len();
        let mut keep = Bits::new(rows);
        for span in &chunk.spans {
            keep.set_range(span.rows.clone());
        }
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let place = spec.place(&column.stored);
            let array = place.and_then(|place| chunk.columns.get(place)?.as_ref());
            let shown = column.value_type.arrow();
            arrays.push(match array {
                Some(array) if *array.data_type() == shown => Arc::clone(array),
                Some(array) if is_text(array) == (column.value_type == ValueType::Text) => {
                    note_inexact(array, column, &keep, inexact);
                    cast(array, &shown).map_err(failed)?
                }
                _ => new_null_array(&shown, rows),
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema(), arrays, &options).map_err(failed)?;
        if keep.count() == rows {
            return Ok(batch);
        }
        filter_record_batch(&batch, &BooleanArray::new(keep.into_buffer(), None)).map_err(failed)
    }
}

fn is_text(array: &ArrayRef) -> bool {
    *array.data_type() == DataType::Utf8
}

fn note_inexact(array: &ArrayRef, column: &RecordColumn, keep: &Bits, inexact: &Mutex<Vec<Diagnostic>>) {
    if column.value_type != ValueType::Float {
        return;
    }
    if let Some(ints) = array.as_primitive_opt::<Int64Type>() {
        let mut kept = keep.places().filter(|row| ints.is_valid(*row)).map(|row| ints.value(row));
        if let Some(value) = kept.find(|value| int_as_float(*value).is_none()) {
            note(inexact, &column.stored, value);
        }
    }
}

/// The rows of some parts as batches.
pub(crate) struct Records {
    plan: Arc<FoldPlan>,
    columns: RecordColumns,
    parts: VecDeque<PlannedPart>,
    cursor: Option<Cursor>,
    inexact: Arc<Mutex<Vec<Diagnostic>>>,
}

impl Records {
    pub(crate) fn new(
        plan: &Arc<FoldPlan>,
        columns: RecordColumns,
        parts: Range<usize>,
        inexact: Arc<Mutex<Vec<Diagnostic>>>,
    ) -> Records {
        let parts = plan.parts().get(parts).unwrap_or_default().iter().cloned().collect();
        Records { plan: Arc::clone(plan), columns, parts, cursor: None, inexact }
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, Fault> {
        loop {
            let cursor = match &mut self.cursor {
                Some(cursor) => cursor,
                None => {
                    let Some(part) = self.parts.pop_front() else { return Ok(None) };
                    self.cursor.insert(Cursor::open(&self.plan, &self.plan.limits(), part)?)
                }
            };
            match cursor.next_whole()? {
                Some(chunk) => return self.columns.batch(&chunk, &self.plan.spec, &self.inexact).map(Some),
                None => self.cursor = None,
            }
        }
    }
}

impl Iterator for Records {
    type Item = Result<RecordBatch, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.next_batch();
        if batch.is_err() {
            self.parts.clear();
            self.cursor = None;
        }
        batch.transpose()
    }
}
