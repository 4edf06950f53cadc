//! A record batch reader as the interface's Arrow C stream.

#![expect(unsafe_code, reason = "the same C struct under two Rust names")]

use std::mem::{align_of, size_of};
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ffi::FFI_ArrowSchema;
use arrow::ffi_stream::FFI_ArrowArrayStream;
use arrow::record_batch::RecordBatchReader;
use waycairn_analysis_api::ArrowStream;
use waycairn_analysis_api::host::{ArrowArrayStream, ArrowSchema, stream_from_raw};

const _: () = {
    assert!(size_of::<FFI_ArrowArrayStream>() == size_of::<ArrowArrayStream>());
    assert!(align_of::<FFI_ArrowArrayStream>() == align_of::<ArrowArrayStream>());
    assert!(size_of::<FFI_ArrowSchema>() == size_of::<ArrowSchema>());
    assert!(align_of::<FFI_ArrowSchema>() == align_of::<ArrowSchema>());
};

/// Exports a reader. Batches are read as the plugin asks for them.
pub(crate) fn export(reader: Box<dyn RecordBatchReader + Send>) -> ArrowStream {
    let mut stream = FFI_ArrowArrayStream::new(Box::new(Guarded { reader, panicked: false }));
    // SAFETY: both are the C struct `ArrowArrayStream`; the source is left released, and the reader is `Send`.
    unsafe { stream_from_raw((&raw mut stream).cast()) }
}

/// A reader that answers an error where the inner one panics: its callers are C functions, which cannot unwind.
struct Guarded {
    reader: Box<dyn RecordBatchReader + Send>,
    panicked: bool,
}

impl Iterator for Guarded {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.panicked {
            return None;
        }
        catch_unwind(AssertUnwindSafe(|| self.reader.next())).unwrap_or_else(|payload| {
            self.panicked = true;
            let text = payload
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| payload.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "a panic without a text".to_owned());
            Some(Err(ArrowError::ExternalError(format!("reading scalars panicked: {text}").into())))
        })
    }
}

impl RecordBatchReader for Guarded {
    fn schema(&self) -> SchemaRef {
        self.reader.schema()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, BooleanArray, Float32Array, Float64Array, Int8Array, Int64Array, LargeStringArray,
        ListArray, NullArray, RecordBatchIterator, StringArray, StringViewArray, TimestampNanosecondArray,
        UInt32Array, UInt64Array,
    };
    use arrow::datatypes::Int64Type;
    use waycairn_analysis_api::{Column, ColumnValues};

    use super::*;

    fn through(columns: Vec<(&str, ArrayRef)>) -> Result<Vec<Column>, String> {
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap();
        let schema = batch.schema();
        // Twice, the second time without its first row: a slice has an offset into its buffers.
        let rest = batch.slice(1, batch.num_rows() - 1);
        let reader = RecordBatchIterator::new(vec![Ok(batch), Ok(rest)], schema);
        export(Box::new(reader)).columns().map_err(|error| error.to_string())
    }

    fn one(column: ArrayRef) -> ColumnValues {
        through(vec![("c", column)]).unwrap().remove(0).values
    }

    #[test]
    fn booleans_floats_and_nulls_cross() {
        let bools: Vec<Option<bool>> = (0..20).map(|i| (i % 3 != 0).then_some(i % 2 == 0)).collect();
        let twice = [&bools[..], &bools[1..]].concat();
        assert_eq!(one(Arc::new(BooleanArray::from(bools))), ColumnValues::Bool(twice));
        let floats = Float64Array::from(vec![Some(1.5), None, Some(f64::INFINITY)]);
        let expected = vec![Some(1.5), None, Some(f64::INFINITY), None, Some(f64::INFINITY)];
        assert_eq!(one(Arc::new(floats)), ColumnValues::Float(expected));
        let expected = ColumnValues::Float(vec![Some(0.5), Some(2.0), Some(2.0)]);
        assert_eq!(one(Arc::new(Float32Array::from(vec![0.5, 2.0]))), expected);
        assert_eq!(one(Arc::new(NullArray::new(2))), ColumnValues::Float(vec![None; 3]));
    }

    #[test]
    fn integers_of_every_width_and_times_cross() {
        let expected = ColumnValues::Int(vec![Some(3), None, None]);
        for column in [
            Arc::new(Int8Array::from(vec![Some(3), None])) as ArrayRef,
            Arc::new(UInt32Array::from(vec![Some(3), None])),
            Arc::new(Int64Array::from(vec![Some(3), None])),
            Arc::new(UInt64Array::from(vec![Some(3), None])),
            Arc::new(TimestampNanosecondArray::from(vec![Some(3), None]).with_timezone("UTC")),
        ] {
            assert_eq!(one(column), expected);
        }
        let expected = ColumnValues::Int(vec![Some(i64::MAX); 3]);
        assert_eq!(one(Arc::new(UInt64Array::from(vec![u64::MAX; 2]))), expected);
    }

    #[test]
    fn text_of_every_layout_crosses() {
        let rows =
            vec![Some("short"), None, Some(""), Some("a text of more than twelve bytes"), Some("e\u{301}")];
        let twice = [&rows[..], &rows[1..]].concat();
        let expected = ColumnValues::Text(twice.iter().map(|row| row.map(str::to_owned)).collect());
        assert_eq!(one(Arc::new(StringArray::from(rows.clone()))), expected);
        assert_eq!(one(Arc::new(LargeStringArray::from(rows.clone()))), expected);
        assert_eq!(one(Arc::new(StringViewArray::from(rows))), expected);
        assert_eq!(
            one(Arc::new(StringArray::from(vec![""; 1]))),
            ColumnValues::Text(vec![Some(String::new())])
        );
    }

    #[test]
    fn columns_keep_their_names_and_order() {
        let columns = through(vec![
            ("train/loss", Arc::new(Float64Array::from(vec![1.0]))),
            ("node", Arc::new(StringArray::from(vec!["a"]))),
        ])
        .unwrap();
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["train/loss", "node"]);
        assert_eq!(columns[0].to_f64(), [Some(1.0)]);
        assert_eq!(columns[1].len(), 1);
    }

    #[test]
    fn a_column_of_another_type_is_refused_by_name() {
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![Some(vec![Some(1)])]);
        let error = through(vec![("l", Arc::new(lists))]).unwrap_err();
        assert!(error.contains("column `l` has the Arrow format `+l`"), "{error}");
    }

    #[test]
    fn a_stream_that_is_not_read_is_released() {
        let column: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
        let batch = RecordBatch::try_from_iter(vec![("c", Arc::clone(&column))]).unwrap();
        let schema = batch.schema();
        drop(export(Box::new(RecordBatchIterator::new(vec![Ok(batch)], schema))));
        assert_eq!(Arc::strong_count(&column), 1);
    }
}
