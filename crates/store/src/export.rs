//! A table of an answer, and its ways out: values for printing, Parquet, Arrow.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, Int64Builder, ListBuilder, RecordBatch,
    RecordBatchIterator, RecordBatchOptions, RecordBatchReader, StringArray, StringBuilder,
    TimestampNanosecondArray,
};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, SchemaRef, TimestampNanosecondType};
use arrow::error::ArrowError;
use arrow::ipc::writer::FileWriter;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use waycairn_durable::time::rfc3339_micros;

use crate::field::Scalar;
use crate::query::{Diagnostic, QueryError};

/// Rows and columns of an answer.
#[derive(Clone, Debug)]
pub struct Table {
    /// The columns. All batches have them.
    pub schema: SchemaRef,
    /// The rows, in order.
    pub batches: Vec<RecordBatch>,
    /// What is remarkable about the answer.
    pub diagnostics: Vec<Diagnostic>,
}

/// The values of one column of a table that is made of something else than parts; `None` is missing.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ColumnValues {
    /// Boolean.
    Bools(Vec<Option<bool>>),
    /// Int64.
    Ints(Vec<Option<i64>>),
    /// Float64.
    Floats(Vec<Option<f64>>),
    /// Nanoseconds since 1970, as a timestamp in UTC.
    Times(Vec<Option<i64>>),
    /// Utf8.
    Texts(Vec<Option<String>>),
    /// Lists of Int64.
    IntLists(Vec<Option<Vec<Option<i64>>>>),
    /// Lists of Utf8.
    TextLists(Vec<Option<Vec<Option<String>>>>),
}

impl ColumnValues {
    fn into_array(self) -> ArrayRef {
        match self {
            ColumnValues::Bools(values) => Arc::new(BooleanArray::from(values)),
            ColumnValues::Ints(values) => Arc::new(Int64Array::from(values)),
            ColumnValues::Floats(values) => Arc::new(Float64Array::from(values)),
            ColumnValues::Times(values) => {
                Arc::new(TimestampNanosecondArray::from(values).with_timezone("UTC"))
            }
            ColumnValues::Texts(values) => Arc::new(StringArray::from(values)),
            ColumnValues::IntLists(lists) => {
                let mut builder = ListBuilder::new(Int64Builder::new());
                lists.into_iter().for_each(|list| builder.append_option(list));
                Arc::new(builder.finish())
            }
            ColumnValues::TextLists(lists) => {
                let mut builder = ListBuilder::new(StringBuilder::new());
                lists.into_iter().for_each(|list| builder.append_option(list));
                Arc::new(builder.finish())
            }
        }
    }
}

impl Table {
    /// Makes a table of named columns, so that what is no answer of the store leaves in the same formats.
    ///
    /// # Errors
    /// [`QueryError::Answer`] when the columns have different lengths.
    pub fn from_columns(
        columns: impl IntoIterator<Item = (String, ColumnValues)>,
    ) -> Result<Table, QueryError> {
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for (name, values) in columns {
            let array = values.into_array();
            fields.push(Field::new(name, array.data_type().clone(), true));
            arrays.push(array);
        }
        let schema = Arc::new(Schema::new(fields));
        let batches = match arrays.is_empty() {
            true => Vec::new(),
            false => vec![RecordBatch::try_new(SchemaRef::clone(&schema), arrays).map_err(assemble)?],
        };
        Ok(Table { schema, batches, diagnostics: Vec::new() })
    }

    /// The same table with other names of its columns, one for each.
    ///
    /// # Errors
    /// [`QueryError::Answer`] when there are more or fewer names than columns.
    pub fn renamed(self, names: Vec<String>) -> Result<Table, QueryError> {
        let (given, columns) = (names.len(), self.schema.fields().len());
        if given != columns {
            let what = format!("{given} names for {columns} columns");
            return Err(assemble(ArrowError::InvalidArgumentError(what)));
        }
        let fields = self.schema.fields().iter().zip(names);
        let fields: Vec<Field> = fields.map(|(field, name)| field.as_ref().clone().with_name(name)).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()));
        let renamed = |batch: RecordBatch| {
            let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let columns = batch.columns().to_vec();
            RecordBatch::try_new_with_options(SchemaRef::clone(&schema), columns, &rows).map_err(assemble)
        };
        let batches = self.batches.into_iter().map(renamed).collect::<Result<_, _>>()?;
        Ok(Table { schema, batches, diagnostics: self.diagnostics })
    }

    /// Whether a column holds unsigned numbers of 64 bits, as SQL may make them. In [`rows`](Table::rows) those of
    /// them that are beyond the integers of a field are texts.
    #[must_use]
    pub fn is_unsigned(&self, column: usize) -> bool {
        self.schema.fields().get(column).is_some_and(|field| *field.data_type() == DataType::UInt64)
    }

    /// The names of the columns.
    #[must_use]
    pub fn columns(&self) -> Vec<&str> {
        self.schema.fields().iter().map(|field| field.name().as_str()).collect()
    }

    /// The number of rows.
    #[must_use]
    pub fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The rows as values, one for each column. Times are texts, RFC 3339 in UTC with microseconds; what is
    /// neither a truth value nor a number nor a text, as SQL may make it, is shown as text.
    pub fn rows(&self) -> impl Iterator<Item = Vec<Scalar>> {
        self.batches.iter().flat_map(|batch| {
            (0..batch.num_rows()).map(|row| batch.columns().iter().map(|array| scalar(array, row)).collect())
        })
    }

    /// Writes a Parquet file.
    ///
    /// # Errors
    /// [`QueryError::Answer`] when the sink fails.
    pub fn write_parquet(&self, sink: impl Write + Send) -> Result<(), QueryError> {
        let write = || -> Result<(), ParquetError> {
            let compression = Compression::ZSTD(ZstdLevel::try_new(1)?);
            let properties = WriterProperties::builder().set_compression(compression).build();
            let mut writer = ArrowWriter::try_new(sink, SchemaRef::clone(&self.schema), Some(properties))?;
            for batch in &self.batches {
                writer.write(batch)?;
            }
            writer.close().map(|_| ())
        };
        write().map_err(|error| QueryError::Answer { operation: "write", source: Box::new(error) })
    }

    /// Writes an Arrow file, also known as Feather.
    ///
    /// # Errors
    /// [`QueryError::Answer`] when the sink fails.
    pub fn write_arrow(&self, sink: impl Write) -> Result<(), QueryError> {
        let write = || -> Result<(), ArrowError> {
            let mut writer = FileWriter::try_new(sink, &self.schema)?;
            for batch in &self.batches {
                writer.write(batch)?;
            }
            writer.finish()
        };
        write().map_err(|error| QueryError::Answer { operation: "write", source: Box::new(error) })
    }

    /// Hands the batches on one by one.
    #[must_use]
    pub fn into_reader(self) -> Box<dyn RecordBatchReader + Send> {
        Box::new(RecordBatchIterator::new(self.batches.into_iter().map(Ok), self.schema))
    }
}

fn assemble(error: ArrowError) -> QueryError {
    QueryError::Answer { operation: "assemble", source: Box::new(error) }
}

/// One cell as a value.
fn scalar(array: &ArrayRef, row: usize) -> Scalar {
    if array.is_null(row) {
        return Scalar::Null;
    }
    match array.data_type() {
        // Such an array has no buffer that says which cells are null.
        DataType::Null => Scalar::Null,
        DataType::Boolean => Scalar::Bool(array.as_boolean().value(row)),
        DataType::Int64 => Scalar::Int(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 => Scalar::Float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => Scalar::Text(array.as_string::<i32>().value(row).to_owned()),
        DataType::Timestamp(arrow::datatypes::TimeUnit::Nanosecond, Some(zone)) if **zone == *"UTC" => {
            Scalar::Text(rfc3339_micros(array.as_primitive::<TimestampNanosecondType>().value(row)))
        }
        other => shown(array, row, other),
    }
}

/// Values that only SQL makes: other widths of numbers, lists, dates.
fn shown(array: &ArrayRef, row: usize, data_type: &DataType) -> Scalar {
    let text = ArrayFormatter::try_new(array, &FormatOptions::default())
        .map(|formatter| formatter.value(row).to_string())
        .unwrap_or_default();
    if data_type.is_integer() {
        return text.parse().map(Scalar::Int).unwrap_or(Scalar::Text(text));
    }
    if data_type.is_floating() || matches!(data_type, DataType::Decimal128(..) | DataType::Decimal256(..)) {
        return text.parse().map(Scalar::Float).unwrap_or(Scalar::Text(text));
    }
    Scalar::Text(text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        Float64Array, ListArray, NullArray, StringArray, TimestampNanosecondArray, UInt64Array,
    };
    use arrow::datatypes::{Field, Schema};

    use super::*;

    fn table() -> Table {
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), Some(2)]), None]);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("text", Arc::new(StringArray::from(vec![Some("it's"), None]))),
            ("number", Arc::new(Float64Array::from(vec![Some(f64::NAN), Some(1.5)]))),
            ("count", Arc::new(UInt64Array::from(vec![3, u64::MAX]))),
            ("time", Arc::new(TimestampNanosecondArray::from(vec![Some(1_500), None]).with_timezone("UTC"))),
            ("list", Arc::new(list)),
            ("nothing", Arc::new(NullArray::new(2))),
        ];
        let fields: Vec<Field> =
            columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        let batches = vec![RecordBatch::try_new(SchemaRef::clone(&schema), arrays).unwrap()];
        Table { schema, batches, diagnostics: Vec::new() }
    }

    #[test]
    fn rows_hold_values_of_their_own_types() {
        let table = table();
        let rows: Vec<Vec<Scalar>> = table.rows().collect();
        let expected = [
            Scalar::Text("it's".into()),
            Scalar::Float(f64::NAN),
            Scalar::Int(3),
            Scalar::Text("1970-01-01T00:00:00.000001Z".into()),
            Scalar::Text("[1, 2]".into()),
        ];
        assert!(rows[0].iter().zip(&expected).all(|(found, expected)| found.same(expected)), "{:?}", rows[0]);
        assert_eq!(rows[1][2], Scalar::Text(u64::MAX.to_string()));
        assert!(rows[1][0].is_null() && rows[1][3].is_null() && rows[1][4].is_null() && rows[1][5].is_null());
        assert_eq!((table.num_rows(), table.columns()[4]), (2, "list"));
    }

    #[test]
    fn parquet_and_arrow_give_the_table_back() {
        let table = table();
        let file = tempfile::tempfile().unwrap();
        table.write_parquet(file.try_clone().unwrap()).unwrap();
        let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(file, 10).unwrap();
        assert_eq!(reader.map(Result::unwrap).collect::<Vec<_>>(), table.batches);
        let mut bytes = Vec::new();
        table.write_arrow(&mut bytes).unwrap();
        let reader = arrow::ipc::reader::FileReader::try_new(std::io::Cursor::new(bytes), None).unwrap();
        assert_eq!(reader.map(Result::unwrap).collect::<Vec<_>>(), table.batches);
        let batches = table.batches.clone();
        assert_eq!(table.into_reader().map(Result::unwrap).collect::<Vec<_>>(), batches);
    }

    #[test]
    fn columns_of_any_kind_are_a_table_and_can_be_named_anew() {
        let columns = [
            ("b", ColumnValues::Bools(vec![Some(true), None])),
            ("i", ColumnValues::Ints(vec![None, Some(-3)])),
            ("f", ColumnValues::Floats(vec![Some(f64::NAN), None])),
            ("t", ColumnValues::Times(vec![Some(1_000), None])),
            ("s", ColumnValues::Texts(vec![None, Some(String::new())])),
            ("l", ColumnValues::IntLists(vec![Some(vec![Some(1), None]), None])),
            ("m", ColumnValues::TextLists(vec![Some(Vec::new()), Some(vec![Some("a".to_owned())])])),
        ];
        let named = |columns: &[(&str, ColumnValues)]| {
            Table::from_columns(columns.iter().map(|(name, values)| ((*name).to_owned(), values.clone())))
        };
        let table = named(&columns).unwrap();
        let types: Vec<&DataType> = table.schema.fields().iter().map(|field| field.data_type()).collect();
        let list = |of: DataType| DataType::List(Arc::new(Field::new("item", of, true)));
        let time = DataType::Timestamp(arrow::datatypes::TimeUnit::Nanosecond, Some("UTC".into()));
        let expected = [
            DataType::Boolean,
            DataType::Int64,
            DataType::Float64,
            time,
            DataType::Utf8,
            list(DataType::Int64),
            list(DataType::Utf8),
        ];
        assert!(types.into_iter().eq(&expected), "{:?}", table.schema);
        let nulls: Vec<usize> = table.batches[0].columns().iter().map(|array| array.null_count()).collect();
        assert_eq!(nulls, [1, 1, 1, 1, 1, 1, 0]);
        assert_eq!(table.num_rows(), 2);
        let names: Vec<String> = (0..7).map(|n| n.to_string()).collect();
        let renamed = table.clone().renamed(names.clone()).unwrap();
        assert_eq!(renamed.columns(), names);
        assert_eq!(renamed.batches[0].columns(), table.batches[0].columns());
        assert!(table.renamed(vec!["one".to_owned()]).is_err());
        assert!(named(&[columns[0].clone(), ("x", ColumnValues::Ints(Vec::new()))]).is_err());
        assert_eq!(named(&[]).unwrap().num_rows(), 0);
    }
}
