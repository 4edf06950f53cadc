//! A batch of accepted records becomes sorted Arrow rows: one table for each part that the batch needs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, Float64Builder, Int64Array, Int64Builder, RecordBatch, StringArray,
    StringBuilder,
};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use crate::part::{PartFacts, part_schema};
use crate::row::{Cell, Marks, Row, Rows, to_u32};
use crate::schema::{
    ARTIFACT, BLOB, CHECKPOINT, EXECUTION, FINISHED, JOB, NAME, NONCE, PARENT, PROCESS, RECORD, RESERVED,
    SEQ, TAG, TypesSeen, ValueType, WRITE, WRITER,
};

/// A table is converted in slices of about this many cells, so that its memory does not grow with the number
/// of sparse columns.
const SLICE_CELLS: usize = 1 << 20;

/// What every record of one store object has in common.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) writer: String,
    pub(crate) process: i64,
    pub(crate) execution: Option<String>,
    pub(crate) tag: Option<String>,
    pub(crate) job: Option<String>,
}

/// The records of a batch, sorted and divided so that every field has one type in each division.
pub(crate) struct Batch<'a> {
    rows: &'a Rows,
    launch: &'a Launch,
    /// The caller's fields, sorted by name.
    fields: Vec<(&'a str, TypesSeen)>,
    /// For each shape, the index among `fields` of each of its keys.
    shape_fields: Vec<Vec<u32>>,
    groups: Vec<Group>,
}

/// The records that share one part.
#[derive(Default)]
struct Group {
    /// Indices among the rows, in the order of the part.
    rows: Vec<u32>,
    /// The type that this group gives to each field of which the batch has several.
    types: HashMap<u32, ValueType>,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(rows: &'a Rows, launch: &'a Launch) -> Batch<'a> {
        let mut batch =
            Batch { rows, launch, fields: Vec::new(), shape_fields: Vec::new(), groups: Vec::new() };
        batch.collect_fields();
        batch.divide(sorted(rows.rows()));
        batch
    }

    /// The tables, one for each part.
    pub(crate) fn tables(&self) -> impl Iterator<Item = Table<'_>> {
        self.groups.iter().filter_map(|group| Table::new(self, group))
    }

    fn collect_fields(&mut self) {
        let mut index: BTreeMap<&str, u32> = BTreeMap::new();
        for shape in self.rows.shapes() {
            for key in shape.keys() {
                index.entry(key).or_default();
            }
        }
        for (position, (name, slot)) in index.iter_mut().enumerate() {
            *slot = to_u32(position);
            self.fields.push((name, TypesSeen::default()));
        }
        for shape in self.rows.shapes() {
            let fields = shape.keys().filter_map(|key| index.get(key).copied());
            self.shape_fields.push(fields.collect());
        }
        for row in self.rows.rows() {
            let Some(fields) = self.shape_fields.get(row.shape as usize) else { continue };
            for (&field, cell) in fields.iter().zip(self.rows.cells(row)) {
                let Some((_, seen)) = self.fields.get_mut(field as usize) else { continue };
                match cell {
                    Cell::Int(value) => seen.int(*value),
                    other => {
                        if let Some(value_type) = type_of(other) {
                            seen.other(value_type);
                        }
                    }
                }
            }
        }
    }

    /// Gives each row to the first group that has no other type for any of its fields.
    fn divide(&mut self, order: Vec<u32>) {
        if !self.fields.iter().any(|(_, seen)| seen.conflicts()) {
            self.groups.push(Group { rows: order, types: HashMap::new() });
            return;
        }
        let mut types: Vec<(u32, ValueType)> = Vec::new();
        for index in order {
            let Some(row) = self.rows.rows().get(index as usize) else { continue };
            types.clear();
            types.extend(self.cells(row).filter_map(|(field, cell)| {
                let (_, seen) = self.fields.get(field as usize)?;
                (seen.conflicts()).then_some((field, seen.column(type_of(cell)?)))
            }));
            let fits = |group: &Group| {
                types.iter().all(|(field, value)| group.types.get(field).is_none_or(|other| other == value))
            };
            let position = self.groups.iter().position(fits).unwrap_or(self.groups.len());
            if position == self.groups.len() {
                self.groups.push(Group::default());
            }
            if let Some(group) = self.groups.get_mut(position) {
                group.rows.push(index);
                group.types.extend(types.iter().copied());
            }
        }
    }

    /// The fields of a row and their cells.
    fn cells(&self, row: &Row) -> impl Iterator<Item = (u32, &Cell)> {
        let fields = self.shape_fields.get(row.shape as usize).map(Vec::as_slice).unwrap_or_default();
        fields.iter().copied().zip(self.rows.cells(row))
    }
}

/// The rows of one part.
pub(crate) struct Table<'a> {
    batch: &'a Batch<'a>,
    group: &'a Group,
    schema: SchemaRef,
    facts: PartFacts,
    /// For each field of the batch, its place among the fields of this table.
    places: Vec<Option<u32>>,
    types: Vec<ValueType>,
    reserved: Vec<&'static str>,
}

impl<'a> Table<'a> {
    fn new(batch: &'a Batch<'a>, group: &'a Group) -> Option<Table<'a>> {
        let rows = || group.rows.iter().filter_map(|&index| batch.rows.rows().get(index as usize));
        let facts = PartFacts::of_rows(rows().map(|row| (&row.node, row.write)), &batch.launch.writer)?;
        let mut reserved = Reserved::default();
        let mut present = vec![None; batch.fields.len()];
        for row in rows() {
            reserved.add(row);
            for (field, cell) in batch.cells(row) {
                if let (Some(value_type), Some(slot)) = (type_of(cell), present.get_mut(field as usize)) {
                    *slot = Some(value_type);
                }
            }
        }
        let mut places = Vec::with_capacity(present.len());
        let mut columns = Vec::new();
        for (&(name, seen), value_type) in batch.fields.iter().zip(present) {
            places.push(value_type.map(|_| to_u32(columns.len())));
            columns.extend(value_type.map(|value_type| (name, seen.column(value_type))));
        }
        let types = columns.iter().map(|&(_, value_type)| value_type).collect();
        let has = |name: &str| reserved.has(name, batch.launch);
        let names = RESERVED.iter().filter(|column| !column.nullable || has(column.name));
        let names = names.map(|column| column.name).collect();
        let schema = part_schema(has, columns);
        Some(Table { batch, group, schema, facts, places, types, reserved: names })
    }

    /// The columns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What the footer will say.
    pub(crate) fn facts(&self) -> &PartFacts {
        &self.facts
    }

    /// The rows, in bounded slices.
    pub(crate) fn slices(&self) -> impl Iterator<Item = Result<RecordBatch, ArrowError>> {
        let rows = (SLICE_CELLS / self.schema.fields().len().max(1)).max(64);
        self.group.rows.chunks(rows).map(|slice| self.convert(slice))
    }

    fn convert(&self, slice: &[u32]) -> Result<RecordBatch, ArrowError> {
        let all = self.batch.rows.rows();
        let rows: Vec<&Row> = slice.iter().filter_map(|&index| all.get(index as usize)).collect();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        columns.extend(self.reserved.iter().map(|name| reserved_column(name, &rows, self.batch.launch)));
        let mut builders: Vec<Column> =
            self.types.iter().map(|&value_type| Column::new(value_type)).collect();
        for (position, row) in rows.iter().enumerate() {
            for (field, cell) in self.batch.cells(row) {
                let place = self.places.get(field as usize).copied().flatten();
                if let Some(column) = place.and_then(|place| builders.get_mut(place as usize)) {
                    column.set(position, cell, self.batch.rows);
                }
            }
        }
        columns.extend(builders.into_iter().map(|builder| builder.finish(rows.len())));
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
    }
}

/// Which optional reserved columns have a value.
#[derive(Default)]
struct Reserved {
    parent: bool,
    blob: bool,
    checkpoint: bool,
    finished: bool,
    record: bool,
    artifact: bool,
}

impl Reserved {
    fn add(&mut self, row: &Row) {
        self.parent |= row.node.parent().is_some();
        if let Some(marks) = &row.marks {
            self.blob |= marks.blob;
            self.checkpoint |= marks.checkpoint.is_some();
            self.finished |= marks.finished.is_some();
            self.record |= marks.record;
            self.artifact |= marks.artifact.is_some();
        }
    }

    fn has(&self, name: &str, launch: &Launch) -> bool {
        match name {
            PARENT => self.parent,
            BLOB => self.blob,
            CHECKPOINT => self.checkpoint,
            FINISHED => self.finished,
            RECORD => self.record,
            ARTIFACT => self.artifact,
            EXECUTION => launch.execution.is_some(),
            TAG => launch.tag.is_some(),
            JOB => launch.job.is_some(),
            _ => true,
        }
    }
}

fn reserved_column(name: &str, rows: &[&Row], launch: &Launch) -> ArrayRef {
    let text = |of: &dyn Fn(&Row) -> Option<String>| -> ArrayRef {
        Arc::new(rows.iter().map(|row| of(row)).collect::<StringArray>())
    };
    let constant = |value: Option<&str>| -> ArrayRef {
        Arc::new(std::iter::repeat_n(value, rows.len()).collect::<StringArray>())
    };
    let flag = |of: &dyn Fn(&Marks) -> Option<bool>| -> ArrayRef {
        let mut builder = BooleanBuilder::with_capacity(rows.len());
        for row in rows {
            builder.append_option(row.marks.as_deref().and_then(of));
        }
        Arc::new(builder.finish())
    };
    let number = |of: &dyn Fn(&Row) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| of(row))))
    };
    match name {
        NAME => Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.node.name()))),
        NONCE => Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.node.nonce()))),
        SEQ => number(&|row| i64::try_from(row.node.seq()).unwrap_or(i64::MAX)),
        PROCESS => number(&|_| launch.process),
        WRITE => number(&|row| row.write),
        WRITER => constant(Some(&launch.writer)),
        PARENT => Arc::new(
            rows.iter().map(|row| row.node.parent().map(|parent| parent.as_str())).collect::<StringArray>(),
        ),
        EXECUTION => constant(launch.execution.as_deref()),
        TAG => constant(launch.tag.as_deref()),
        JOB => constant(launch.job.as_deref()),
        BLOB => text(&|row| row.marks.as_ref()?.blob.then(|| row.node.address().to_string())),
        CHECKPOINT => flag(&|marks| marks.checkpoint),
        FINISHED => flag(&|marks| marks.finished),
        RECORD => flag(&|marks| marks.record.then_some(true)),
        ARTIFACT => {
            Arc::new(rows.iter().map(|row| row.marks.as_ref()?.artifact.as_deref()).collect::<StringArray>())
        }
        _ => constant(None),
    }
}

/// A column of the caller's values under construction: cells are set in rising rows, gaps are null.
enum Column {
    Bool(BooleanBuilder, usize),
    Int(Int64Builder, usize),
    Float(Float64Builder, usize),
    Text(StringBuilder, usize),
}

impl Column {
    fn new(value_type: ValueType) -> Column {
        match value_type {
            ValueType::Bool => Column::Bool(BooleanBuilder::new(), 0),
            ValueType::Int => Column::Int(Int64Builder::new(), 0),
            ValueType::Float => Column::Float(Float64Builder::new(), 0),
            ValueType::Text => Column::Text(StringBuilder::new(), 0),
        }
    }

    #[inline]
    fn set(&mut self, row: usize, cell: &Cell, rows: &Rows) {
        match (self, cell) {
            (Column::Bool(builder, filled), Cell::Bool(value)) => {
                builder.append_nulls(row - *filled);
                builder.append_value(*value);
                *filled = row + 1;
            }
            (Column::Int(builder, filled), Cell::Int(value)) => {
                builder.append_nulls(row - *filled);
                builder.append_value(*value);
                *filled = row + 1;
            }
            (Column::Float(builder, filled), Cell::Float(value)) => {
                builder.append_nulls(row - *filled);
                builder.append_value(*value);
                *filled = row + 1;
            }
            #[expect(
                clippy::cast_precision_loss,
                reason = "a field with an inexact integer has no float column"
            )]
            (Column::Float(builder, filled), Cell::Int(value)) => {
                builder.append_nulls(row - *filled);
                builder.append_value(*value as f64);
                *filled = row + 1;
            }
            (Column::Text(builder, filled), Cell::Text { start, bytes }) => {
                builder.append_nulls(row - *filled);
                builder.append_value(rows.text(*start, *bytes));
                *filled = row + 1;
            }
            // Null, which the gap stands for; another type is in another group.
            _ => {}
        }
    }

    fn finish(self, rows: usize) -> ArrayRef {
        match self {
            Column::Bool(mut builder, filled) => {
                builder.append_nulls(rows - filled);
                Arc::new(builder.finish())
            }
            Column::Int(mut builder, filled) => {
                builder.append_nulls(rows - filled);
                Arc::new(builder.finish())
            }
            Column::Float(mut builder, filled) => {
                builder.append_nulls(rows - filled);
                Arc::new(builder.finish())
            }
            Column::Text(mut builder, filled) => {
                builder.append_nulls(rows - filled);
                Arc::new(builder.finish())
            }
        }
    }
}

/// Indices of the rows in the order of a part. All have one process, so the latest write of a node is first.
fn sorted(rows: &[Row]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..to_u32(rows.len())).collect();
    let key = |index: &u32| rows.get(*index as usize).map(|row| (&row.node, Reverse(row.write)));
    order.sort_by(|a, b| key(a).cmp(&key(b)));
    order
}

fn type_of(cell: &Cell) -> Option<ValueType> {
    match cell {
        Cell::Null => None,
        Cell::Bool(_) => Some(ValueType::Bool),
        Cell::Int(_) => Some(ValueType::Int),
        Cell::Float(_) => Some(ValueType::Float),
        Cell::Text { .. } => Some(ValueType::Text),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::{DataType, Float64Type, Int64Type};
    use waycairn_dag::Node;

    use super::*;
    use crate::field::Scalar;

    fn launch() -> Launch {
        Launch { writer: "w".into(), process: 2, execution: None, tag: Some("t".into()), job: None }
    }

    fn rows(records: &[(u64, &[(&str, Scalar)])]) -> Rows {
        let mut rows = Rows::default();
        for (write, (seq, fields)) in (100..).zip(records) {
            rows.push(&Node::new("run", "nonce", *seq).unwrap(), write, fields, None).unwrap();
        }
        rows
    }

    fn tables(rows: &Rows) -> Vec<RecordBatch> {
        let launch = launch();
        let batch = Batch::new(rows, &launch);
        let mut all = Vec::new();
        for table in batch.tables() {
            let slices: Vec<RecordBatch> = table.slices().map(Result::unwrap).collect();
            assert_eq!(table.facts().rows, slices.iter().map(|slice| slice.num_rows() as u64).sum::<u64>());
            all.push(arrow::compute::concat_batches(table.schema(), &slices).unwrap());
        }
        all
    }

    fn writes(table: &RecordBatch) -> Vec<i64> {
        table.column_by_name(WRITE).unwrap().as_primitive::<Int64Type>().values().to_vec()
    }

    #[test]
    fn store_3_rows_are_sorted_with_the_latest_write_first() {
        let rows = rows(&[(2, &[]), (1, &[("a", 1.0.into())]), (2, &[("b", Scalar::Null)]), (0, &[])]);
        let tables = tables(&rows);
        assert_eq!(tables.len(), 1);
        assert_eq!(writes(&tables[0]), [103, 101, 102, 100]);
        let schema = tables[0].schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, [NAME, NONCE, SEQ, PROCESS, WRITE, WRITER, TAG, "a"], "only columns with a value");
        let a = tables[0].column_by_name("a").unwrap().as_primitive::<Float64Type>();
        assert_eq!((a.null_count(), a.value(1)), (3, 1.0));
    }

    #[test]
    fn identity_case_10_rows_that_disagree_in_a_type_go_to_separate_parts() {
        let rows = rows(&[
            (0, &[("k", 1.into()), ("x", 1.into())]),
            (1, &[("k", "s".into()), ("x", 2.into())]),
            (2, &[("k", Scalar::Null), ("x", 3.into())]),
            (3, &[("k", 2.5.into())]),
            (4, &[("k", true.into())]),
        ]);
        let tables = tables(&rows);
        let types: Vec<DataType> = tables
            .iter()
            .map(|table| table.schema().field_with_name("k").unwrap().data_type().clone())
            .collect();
        assert_eq!(types, [DataType::Float64, DataType::Utf8, DataType::Boolean]);
        let k = tables[0].column_by_name("k").unwrap().as_primitive::<Float64Type>();
        assert_eq!(k.iter().collect::<Vec<_>>(), [Some(1.0), None, Some(2.5)]);
        assert_eq!(
            tables.iter().map(writes).collect::<Vec<_>>(),
            [vec![100, 102, 103], vec![101], vec![104]]
        );
    }

    #[test]
    fn identity_case_10_an_integer_that_no_float_holds_keeps_its_own_column() {
        let large = (1_i64 << 53) + 1;
        let rows = rows(&[(0, &[("k", large.into())]), (1, &[("k", 2.5.into())]), (2, &[("k", 7.into())])]);
        let tables = tables(&rows);
        assert_eq!(tables.len(), 2);
        let k = tables[0].column_by_name("k").unwrap().as_primitive::<Int64Type>();
        assert_eq!(k.values(), &[large, 7]);
    }

    #[test]
    fn identity_case_08_names_and_texts_come_through_exactly() {
        let keys = ["a `b` \\ \u{4e2d}\u{6587}", "'; drop table parts; --", "\""];
        let fields: Vec<(&str, Scalar)> = keys.iter().map(|key| (*key, (*key).into())).collect();
        let mut rows = Rows::default();
        let name = "it's \"x\"; select * from y --";
        rows.push(&Node::new(name, "n", 0).unwrap(), 1, &fields, None).unwrap();
        let table = tables(&rows).remove(0);
        for key in keys {
            assert_eq!(table.column_by_name(key).unwrap().as_string::<i32>().value(0), key);
        }
        assert_eq!(table.column_by_name(NAME).unwrap().as_string::<i32>().value(0), name);
    }

    #[test]
    fn wide_tables_are_converted_in_slices() {
        let keys: Vec<String> = (0..20_000).map(|key| format!("k{key}")).collect();
        let mut rows = Rows::default();
        for (seq, key) in keys.iter().enumerate().take(200) {
            let fields = [(key.as_str(), Scalar::Int(1))];
            rows.push(&Node::new("r", "n", seq as u64).unwrap(), 1, &fields, None).unwrap();
        }
        let wide: Vec<(&str, Scalar)> = keys.iter().map(|key| (key.as_str(), 1.into())).collect();
        rows.push(&Node::new("r", "n", 300).unwrap(), 2, &wide, None).unwrap();
        let launch = launch();
        let batch = Batch::new(&rows, &launch);
        let table = batch.tables().next().unwrap();
        let slices: Vec<usize> = table.slices().map(|slice| slice.unwrap().num_rows()).collect();
        assert_eq!(slices, [64, 64, 64, 9]);
    }
}
