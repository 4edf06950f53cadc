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
