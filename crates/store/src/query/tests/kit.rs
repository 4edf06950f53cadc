//! Parts as any program may write them, and the records in them.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use tempfile::TempDir;
use waycairn_dag::Node;

use crate::field::Scalar;
use crate::fold::PhysicalRecord;
use crate::part::values_folder;
use crate::reader::ObjectReader;
use crate::schema::{NAME, NONCE, PROCESS, RESERVED, SEQ, ValueType, WRITE, WRITER};

/// A record with reserved columns as fields.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::query) struct Record {
    pub(in crate::query) node: Node,
    pub(in crate::query) process: Option<i64>,
    pub(in crate::query) write: Option<i64>,
    pub(in crate::query) writer: Option<String>,
    pub(in crate::query) fields: Vec<(String, Scalar)>,
}

/// A record of process 0 with a writer.
pub(in crate::query) fn record(name: &str, seq: u64, write: i64, fields: &[(&str, Scalar)]) -> Record {
    Record {
        node: Node::new(name, "n", seq).unwrap(),
        process: Some(0),
        write: Some(write),
        writer: Some("w".to_owned()),
        fields: fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
    }
}

impl Record {
    pub(in crate::query) fn process(mut self, process: i64) -> Record {
        self.process = Some(process);
        self
    }

    pub(in crate::query) fn nonce(mut self, nonce: &str) -> Record {
        self.node = Node::new(self.node.name(), nonce, self.node.seq()).unwrap();
        self
    }

    fn cell(&self, column: &str) -> Scalar {
        let int = |value: Option<i64>| value.map_or(Scalar::Null, Scalar::Int);
        match column {
            NAME => self.node.name().into(),
            NONCE => self.node.nonce().into(),
            SEQ => Scalar::Int(i64::try_from(self.node.seq()).unwrap()),
            PROCESS => int(self.process),
            WRITE => int(self.write),
            WRITER => self.writer.as_deref().map_or(Scalar::Null, Scalar::from),
            column => {
                let field = self.fields.iter().find(|(key, _)| key == column);
                field.map_or(Scalar::Null, |(_, value)| value.clone())
            }
        }
    }

    fn identity(&self) -> (&str, &str, u64) {
        (self.node.name(), self.node.nonce(), self.node.seq())
    }
}

/// How a part is written.
#[derive(Clone, Copy, Debug)]
pub(in crate::query) struct Style {
    /// Rows by identity; else as they are given.
    pub(in crate::query) sorted: bool,
    /// The footer says that they are sorted.
    pub(in crate::query) declared: bool,
    pub(in crate::query) group_rows: usize,
    pub(in crate::query) statistics: bool,
}

impl Default for Style {
    fn default() -> Self {
        Style { sorted: true, declared: true, group_rows: 1_000, statistics: true }
    }
}

/// A root of its own with a reader.
pub(in crate::query) struct Root {
    pub(in crate::query) folder: TempDir,
    pub(in crate::query) physical: Vec<PhysicalRecord>,
}

impl Root {
    pub(in crate::query) fn new() -> Root {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(values_folder(folder.path())).unwrap();
        Root { folder, physical: Vec::new() }
    }

    /// A root with one part.
    pub(in crate::query) fn of(records: &[Record]) -> Root {
        let mut root = Root::new();
        root.part("part-1.parquet", records, Style::default());
        root
    }

    pub(in crate::query) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(in crate::query) fn reader(&self) -> ObjectReader {
        ObjectReader::open(self.path()).unwrap()
    }

    /// Writes a part.
    pub(in crate::query) fn part(&mut self, name: &str, records: &[Record], style: Style) {
        let mut records = records.to_vec();
        if style.sorted {
            // Stable, so that the order inside of a node is that of the caller.
            records.sort_by(|one, other| one.identity().cmp(&other.identity()));
        }
        write_part(&values_folder(self.path()).join(name), &records, style);
        for (row, record) in (0..).zip(records) {
            self.physical.push(PhysicalRecord {
                node: record.node,
                process: record.process,
                write: record.write,
                writer: record.writer,
                part: name.to_owned(),
                row,
                fields: record.fields,
            });
        }
    }
}

/// The columns of records: the three of the identity, and every other with a value.
fn columns(records: &[Record]) -> Vec<(String, ValueType)> {
    let mut columns: Vec<(String, ValueType)> = Vec::new();
    for reserved in RESERVED {
        let identity = [NAME, NONCE, SEQ].contains(&reserved.name);
        if identity || records.iter().any(|record| !record.cell(reserved.name).is_null()) {
            columns.push((reserved.name.to_owned(), reserved.value_type));
        }
    }
    for (key, value) in records.iter().flat_map(|record| &record.fields) {
        if let Some(value_type) = type_of(value)
            && !columns.iter().any(|(known, _)| known == key)
        {
            columns.push((key.clone(), value_type));
        }
    }
    columns
}

pub(in crate::query) fn type_of(value: &Scalar) -> Option<ValueType> {
    match value {
        Scalar::Null => None,
        Scalar::Bool(_) => Some(ValueType::Bool),
        Scalar::Int(_) => Some(ValueType::Int),
        Scalar::Float(_) => Some(ValueType::Float),
        Scalar::Text(_) => Some(ValueType::Text),
    }
}

fn array(records: &[Record], column: &str, value_type: ValueType) -> ArrayRef {
    let cells = records.iter().map(|record| record.cell(column));
    match value_type {
        ValueType::Bool => Arc::new(
            cells
                .map(|cell| if let Scalar::Bool(v) = cell { Some(v) } else { None })
                .collect::<BooleanArray>(),
        ),
        ValueType::Int => Arc::new(
            cells.map(|cell| if let Scalar::Int(v) = cell { Some(v) } else { None }).collect::<Int64Array>(),
        ),
        ValueType::Float => Arc::new(
            cells
                .map(|cell| if let Scalar::Float(v) = cell { Some(v) } else { None })
                .collect::<Float64Array>(),
        ),
        ValueType::Text => Arc::new(
            cells
                .map(|cell| if let Scalar::Text(v) = cell { Some(v) } else { None })
                .collect::<StringArray>(),
        ),
    }
}

fn write_part(path: &Path, records: &[Record], style: Style) {
    let columns = columns(records);
    let fields: Vec<Field> =
        columns.iter().map(|(name, value_type)| Field::new(name, value_type.arrow(), true)).collect();
    let arrays = columns.iter().map(|(name, value_type)| array(records, name, *value_type)).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    write_batch(path, &batch, style);
}

pub(in crate::query) fn write_batch(path: &Path, batch: &RecordBatch, style: Style) {
    let sorting = [NAME, NONCE, SEQ].map(|name| SortingColumn {
        column_idx: i32::try_from(batch.schema().index_of(name).unwrap()).unwrap(),
        descending: false,
        nulls_first: false,
    });
    let statistics = if style.statistics { EnabledStatistics::Page } else { EnabledStatistics::None };
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(style.group_rows))
        .set_sorting_columns(style.declared.then(|| sorting.to_vec()))
        .set_statistics_enabled(statistics)
        .build();
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

/// The node of `record(name, seq, ..)`.
pub(in crate::query) fn node(name: &str, seq: u64) -> Node {
    Node::new(name, "n", seq).unwrap()
}
