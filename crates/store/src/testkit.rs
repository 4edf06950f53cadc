//! For tests: what is physically in a root, without any fold, and how it came there.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use waycairn_durable::fault::Step;

use crate::field::Scalar;
use crate::part::{PartFacts, is_part_name, values_folder};
use crate::retry::RetryPolicy;
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

/// Every hidden name below a folder, at any depth, that a commit left.
pub(crate) fn temporaries(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = open.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.file_name().is_some_and(waycairn_durable::is_temporary) {
                found.push(path);
            } else if path.is_dir() {
                open.push(path);
            }
        }
    }
    found
}

/// Waits of a hundredth of those of a user.
pub(crate) fn impatient() -> RetryPolicy {
    let mut policy = RetryPolicy::default();
    for wait in policy.claim.iter_mut().chain(&mut policy.transient).chain([&mut policy.full]) {
        *wait /= 100;
    }
    policy
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

/// Asserts that a file was synced under its temporary name before it got its own, and its name after that.
pub(crate) fn assert_file_synced(steps: &[Step], target: &Path) {
    let named = place(steps, "rename", target);
    let closed = steps[..named].iter().rev().find(|step| step.name == "file.close");
    let temporary = closed.and_then(|step| step.path.as_deref()).unwrap();
    assert_eq!(temporary.parent(), target.parent(), "another file was closed before the name");
    assert!(place(steps, "file.sync", temporary) < named, "{}: {steps:#?}", target.display());
    assert_name_synced(steps, named, target);
}

/// Asserts that all that is in a folder was synced under its temporary name before it got its own, and its name after
/// that.
pub(crate) fn assert_folder_synced(steps: &[Step], temporary: &Path, target: &Path) {
    let named = place(steps, "rename", target);
    for entry in fs::read_dir(target).unwrap() {
        let file = temporary.join(entry.unwrap().file_name());
        assert!(place(steps, "file.sync", &file) < named, "{}: {steps:#?}", file.display());
    }
    assert!(place(steps, "folder.sync", temporary) < named, "{}: {steps:#?}", target.display());
    assert_name_synced(steps, named, target);
}

fn assert_name_synced(steps: &[Step], named: usize, target: &Path) {
    let next = steps[named + 1..].iter().find(|step| step.path.is_some()).unwrap();
    assert_eq!((next.name, next.path.as_deref()), ("folder.sync", target.parent()), "{}", target.display());
}

fn place(steps: &[Step], name: &str, path: &Path) -> usize {
    let found = steps.iter().position(|step| step.name == name && step.path.as_deref() == Some(path));
    found.unwrap_or_else(|| panic!("no {name} of {} in {steps:#?}", path.display()))
}
