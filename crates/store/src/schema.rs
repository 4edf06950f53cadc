//! Every name that the store writes into a part, once: columns, their types, footer keys.

use arrow::datatypes::DataType;

use crate::field::int_as_float;

/// Columns that begin with this are the store's own.
pub(crate) const RESERVED_PREFIX: &str = "_x_";

/// What a query appends to the name of a field for its text side; no field name may end in it.
pub(crate) const TEXT_SUFFIX: &str = "::text";

/// Identity: the node's name.
pub(crate) const NAME: &str = "_x_name";
/// Identity: which attempt at the name.
pub(crate) const NONCE: &str = "_x_nonce";
/// Identity: which position of the run.
pub(crate) const SEQ: &str = "_x_seq";
/// Address of one parent.
pub(crate) const PARENT: &str = "_x_parent";
/// Index of the process that wrote the record.
pub(crate) const PROCESS: &str = "_x_prc_idx";
/// The store object that wrote the record.
pub(crate) const WRITER: &str = "_x_writer";
/// The record's place in the order of its writer: nanoseconds since 1970, strictly rising.
pub(crate) const WRITE: &str = "_x_write";
/// One launch of one process.
pub(crate) const EXECUTION: &str = "_x_execution";
/// The user's tag.
pub(crate) const TAG: &str = "_x_tag";
/// The experiment and its version.
pub(crate) const JOB: &str = "_x_job";
/// Folder of the node's blob, relative to `objects/blobs`.
pub(crate) const BLOB: &str = "_x_blob";
/// Marker: the blob holds a complete checkpoint.
pub(crate) const CHECKPOINT: &str = "_x_checkpoint";
/// Marker: the run ended as planned.
pub(crate) const FINISHED: &str = "_x_finished";
/// Marker: the record announces node artifacts or result files.
pub(crate) const RECORD: &str = "_x_record";
/// Suffixes of the announced node artifacts, joined by [`ARTIFACT_SEPARATOR`].
pub(crate) const ARTIFACT: &str = "_x_artifact";

/// Between the suffixes in [`ARTIFACT`]; no suffix can hold it.
pub(crate) const ARTIFACT_SEPARATOR: &str = "/";

/// A reserved column of a part. A column appears only in parts where a row has a value in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReservedColumn {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its one type.
    pub(crate) value_type: ValueType,
    /// Whether a row of ours may lack it.
    pub(crate) nullable: bool,
}

const fn required(name: &'static str, value_type: ValueType) -> ReservedColumn {
    ReservedColumn { name, value_type, nullable: false }
}

const fn optional(name: &'static str, value_type: ValueType) -> ReservedColumn {
    ReservedColumn { name, value_type, nullable: true }
}

/// The reserved columns, in their order in a part; the fields of the caller follow, sorted by name.
///
/// `nullable` says what our writer does. In a part of another program every column may be absent or null,
/// but for the three of the identity.
pub(crate) const RESERVED: [ReservedColumn; 15] = [
    required(NAME, ValueType::Text),
    required(NONCE, ValueType::Text),
    required(SEQ, ValueType::Int),
    required(PROCESS, ValueType::Int),
    required(WRITE, ValueType::Int),
    required(WRITER, ValueType::Text),
    optional(PARENT, ValueType::Text),
    optional(EXECUTION, ValueType::Text),
    optional(TAG, ValueType::Text),
    optional(JOB, ValueType::Text),
    optional(BLOB, ValueType::Text),
    optional(CHECKPOINT, ValueType::Bool),
    optional(FINISHED, ValueType::Bool),
    optional(RECORD, ValueType::Bool),
    optional(ARTIFACT, ValueType::Text),
];

/// The columns by which the rows of a part are sorted, and whether descending. Nulls come last both ways:
/// a missing process or write has the lowest priority, so within a node the best row stands first.
pub(crate) const SORT_ORDER: [(&str, bool); 5] =
    [(NAME, false), (NONCE, false), (SEQ, false), (PROCESS, false), (WRITE, true)];

/// The columns that carry Parquet statistics.
pub(crate) const IDENTITY: [&str; 3] = [NAME, NONCE, SEQ];

/// Footer key: version of the part's format, `1.0`.
pub(crate) const FOOTER_FORMAT: &str = "waycairn.format";
/// Footer key: number of rows, decimal.
pub(crate) const FOOTER_ROWS: &str = "waycairn.rows";
/// Footer key: the smallest identity, as JSON `["name","nonce",seq]`.
pub(crate) const FOOTER_FIRST: &str = "waycairn.first";
/// Footer key: the largest identity, as JSON `["name","nonce",seq]`.
pub(crate) const FOOTER_LAST: &str = "waycairn.last";
/// Footer key: the smallest and the largest `_x_write`, as JSON `[min,max]`.
pub(crate) const FOOTER_WRITES: &str = "waycairn.writes";
/// Footer key: the one `_x_writer` of all rows. Absent when there are several.
pub(crate) const FOOTER_WRITER: &str = "waycairn.writer";
/// Footer key: every run in the part, sorted, as JSON `[["name","nonce",first_seq,last_seq],...]`. Absent
/// when there are more than [`MAX_FOOTER_RUNS`].
pub(crate) const FOOTER_RUNS: &str = "waycairn.runs";

/// Footer key: every run that a recorded parent is of, sorted, as JSON `[["name","nonce",first_seq,last_seq],...]`. Absent when
/// there are more than [`MAX_FOOTER_RUNS`], and in parts that were written before it was.
pub(crate) const FOOTER_PARENTS: &str = "waycairn.parents";

/// Footer key: every column that some row group has no value of, with the places of the row groups that have one, rising, as
/// JSON `{"column":[place,...],...}`. Absent when there are none, and in parts that were written before it was.
pub(crate) const FOOTER_SPARSE: &str = "waycairn.sparse";

/// Footer key: the names of the parts that a compaction made it of, as JSON `["part-<uuid>.parquet",...]`. Absent in a
/// part that replaces none, and in those that were written before it was.
pub(crate) const FOOTER_REPLACES: &str = "waycairn.replaces";

/// Footer key: the name of the part that a removal of a run made it of. Absent in every other part.
pub(crate) const FOOTER_REST_OF: &str = "waycairn.rest_of";

/// Most runs that a footer lists.
pub(crate) const MAX_FOOTER_RUNS: usize = 256;

/// The type of a column: the only four that a part has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ValueType {
    /// `Boolean`
    Bool,
    /// `Int64`
    Int,
    /// `Float64`
    Float,
    /// `Utf8`
    Text,
}

impl ValueType {
    /// The Arrow type that our writer gives to the column.
    pub(crate) fn arrow(self) -> DataType {
        match self {
            ValueType::Bool => DataType::Boolean,
            ValueType::Int => DataType::Int64,
            ValueType::Float => DataType::Float64,
            ValueType::Text => DataType::Utf8,
        }
    }

    /// The type of a column of ours, or of another program's that holds the same values.
    pub(crate) fn of_arrow(data_type: &DataType) -> Option<ValueType> {
        match data_type {
            DataType::Boolean => Some(ValueType::Bool),
            DataType::Int64 => Some(ValueType::Int),
            DataType::Float64 => Some(ValueType::Float),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(ValueType::Text),
            _ => None,
        }
    }
}

/// What is known of one field over the rows of a batch: enough to choose the columns it needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TypesSeen {
    bits: u8,
    inexact_int: bool,
}

impl TypesSeen {
    /// Takes note of an integer, which may have no equal float.
    pub(crate) fn int(&mut self, value: i64) {
        self.bits |= bit(ValueType::Int);
        self.inexact_int |= int_as_float(value).is_none();
    }

    /// Takes note of a value of any other type.
    pub(crate) fn other(&mut self, value_type: ValueType) {
        self.bits |= bit(value_type);
    }

    /// Whether the rows cannot share one column.
    pub(crate) fn conflicts(self) -> bool {
        let bits = if self.shares_float() { self.bits & !bit(ValueType::Int) } else { self.bits };
        bits.count_ones() > 1
    }

    /// The type of the column for a value of type `value_type`: its own, but float for an integer beside
    /// floats when every integer is exact as a float.
    pub(crate) fn column(self, value_type: ValueType) -> ValueType {
        if value_type == ValueType::Int && self.shares_float() { ValueType::Float } else { value_type }
    }

    fn shares_float(self) -> bool {
        let numbers = bit(ValueType::Int) | bit(ValueType::Float);
        self.bits & numbers == numbers && !self.inexact_int
    }
}

const fn bit(value_type: ValueType) -> u8 {
    1 << value_type as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Scalar;

    fn seen(values: &[Scalar]) -> TypesSeen {
        let mut seen = TypesSeen::default();
        for value in values {
            match value {
                Scalar::Null => {}
                Scalar::Bool(_) => seen.other(ValueType::Bool),
                Scalar::Int(int) => seen.int(*int),
                Scalar::Float(_) => seen.other(ValueType::Float),
                Scalar::Text(_) => seen.other(ValueType::Text),
            }
        }
        seen
    }

    #[test]
    fn identity_case_10_exact_integers_share_the_column_of_floats() {
        let exact = seen(&[Scalar::Int(3), Scalar::Float(0.5), Scalar::Null]);
        assert!(!exact.conflicts());
        assert_eq!(exact.column(ValueType::Int), ValueType::Float);
        let inexact = seen(&[Scalar::Int((1 << 53) + 1), Scalar::Float(0.5), Scalar::Int(1)]);
        assert!(inexact.conflicts());
        assert_eq!(inexact.column(ValueType::Int), ValueType::Int);
        assert!(seen(&[Scalar::Int(1), Scalar::Text("a".into())]).conflicts());
        assert!(seen(&[Scalar::Bool(true), Scalar::Float(1.0), Scalar::Int(1)]).conflicts());
        assert!(!seen(&[Scalar::Int(i64::MAX), Scalar::Int(1)]).conflicts());
        assert_eq!(seen(&[Scalar::Null]), TypesSeen::default());
    }

    #[test]
    fn reserved_names_are_distinct_and_marked() {
        let mut names: Vec<&str> = RESERVED.iter().map(|column| column.name).collect();
        assert!(names.iter().all(|name| name.starts_with(RESERVED_PREFIX)));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RESERVED.len());
    }
}
