//! For tests: what is physically in the parts of a root, without any fold.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::field::Scalar;
use crate::part::{PartFacts, is_part_name, values_folder};
use crate::schema::{NAME, NONCE, PROCESS, RESERVED_PREFIX, SEQ, SORT_ORDER, WRITE, WRITER};

/// One row as it lies in a part.
#[derive(Clone, Debug)]
pub(crate) struct Physical {
    /// All columns with a value.
    pub(crate) cells: BTreeMap<String, Scalar>,
}

impl Physical {
    pub(crate) fn text(&self, column: &str) -> &str {
        match self.cells.get(column) {
            Some(Scalar::Text(text)) => text,
            other => panic!("{column} is {other:?}"),
        }
    }

    pub(crate) fn int(&self, column: &str) -> i64 {
        match self.cells.get(column) {
            Some(Scalar::Int(int)) => *int,
            other => panic!("{column} is {other:?}"),
        }
    }

    pub(crate) fn key(&self) -> (String, i64) {
        (self.text(WRITER).to_owned(), self.int(WRITE))
    }

    /// The caller's fields.
    pub(crate) fn fields(&self) -> BTreeMap<String, Scalar> {
        let fields = self.cells.iter().filter(|(name, _)| !name.starts_with(RESERVED_PREFIX));
        fields.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

/// Puts bytes in the place of a file.
#[expect(clippy::disallowed_methods, reason = "it damages what others wrote")]
pub(crate) fn put(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}

/// The parts of a root, sorted by name.
pub(crate) fn parts(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(values_folder(root)).unwrap().map(|entry| entry.unwrap());
    let mut parts: Vec<PathBuf> =
        entries.filter(|entry| is_part_name(&entry.file_name())).map(|entry| entry.path()).collect();
    parts.sort();
    parts
}

/// Other names in the folder of the values, sorted.
pub(crate) fn strays(root: &Path) -> Vec<String> {
    let names = fs::read_dir(values_folder(root)).unwrap().map(|entry| entry.unwrap().file_name());
    let mut strays: Vec<String> =
        names.filter(|name| !is_part_name(name)).map(|name| name.into_string().unwrap()).collect();
    strays.sort();
    strays
}

/// The rows of all parts, each part checked against what its footer says and against its order.
pub(crate) fn rows(root: &Path) -> Vec<Physical> {
    parts(root).iter().flat_map(|path| part_rows(path)).collect()
}

pub(crate) fn part_rows(path: &Path) -> Vec<Physical> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let metadata = builder.metadata().file_metadata();
    let facts = PartFacts::from_key_values(metadata.key_value_metadata().map(Vec::as_slice));
    let facts = facts.unwrap().unwrap();
    let schema = builder.schema();
    for group in builder.metadata().row_groups() {
        let declared: Vec<(String, bool)> = group
            .sorting_columns()
            .unwrap()
            .iter()
            .map(|column| {
                assert!(!column.nulls_first);
                (schema.field(column.column_idx as usize).name().clone(), column.descending)
            })
            .collect();
        assert_eq!(declared, SORT_ORDER.map(|(name, descending)| (name.to_owned(), descending)));
    }
    let mut rows = Vec::new();
    for batch in builder.build().unwrap() {
        append(&batch.unwrap(), &mut rows);
    }
    let order = |row: &Physical| {
        (
            row.text(NAME).to_owned(),
            row.text(NONCE).to_owned(),
            row.int(SEQ),
            row.int(PROCESS),
            std::cmp::Reverse(row.int(WRITE)),
        )
    };
    assert!(rows.windows(2).all(|pair| order(&pair[0]) < order(&pair[1])), "not sorted: {}", path.display());
    assert_eq!(facts.rows, rows.len() as u64);
    let identity = |node: &waycairn_dag::Node| {
        (node.name().to_owned(), node.nonce().to_owned(), i64::try_from(node.seq()).unwrap())
    };
    let of = |row: &Physical| (row.text(NAME).to_owned(), row.text(NONCE).to_owned(), row.int(SEQ));
    assert_eq!(identity(&facts.first), of(&rows[0]));
    assert_eq!(identity(&facts.last), of(&rows[rows.len() - 1]));
    let writes = || rows.iter().map(|row| row.int(WRITE));
    assert_eq!(facts.writes, (writes().min().unwrap(), writes().max().unwrap()));
    let runs = facts.runs.unwrap();
    for row in &rows {
        let run = runs.iter().find(|run| run.name == row.text(NAME) && run.nonce == row.text(NONCE)).unwrap();
        assert!((run.first_seq..=run.last_seq).contains(&u64::try_from(row.int(SEQ)).unwrap()));
        assert!(facts.writer.as_deref().is_none_or(|writer| row.text(WRITER) == writer));
    }
    rows
}

fn append(batch: &RecordBatch, rows: &mut Vec<Physical>) {
    for row in 0..batch.num_rows() {
        let mut cells = BTreeMap::new();
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            if column.is_null(row) {
                continue;
            }
            let value = match field.data_type() {
                DataType::Boolean => column.as_boolean().value(row).into(),
                DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into(),
                DataType::Float64 => column.as_primitive::<Float64Type>().value(row).into(),
                DataType::Utf8 => column.as_string::<i32>().value(row).into(),
                other => panic!("{} has type {other}", field.name()),
            };
            cells.insert(field.name().clone(), value);
        }
        rows.push(Physical { cells });
    }
}
