//! The structs of the Arrow C data and stream interfaces, and a small reader of them.
//!
//! The layouts are those that the Arrow project publishes and freezes. They are written out here because those of
//! the `arrow` crate carry no layout description that a plugin's load could be checked against.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;

use abi_stable::StableAbi;

use crate::error::ContextError;
use crate::stream::{Column, ColumnValues};

/// `struct ArrowSchema`.
#[repr(C)]
#[derive(StableAbi)]
pub struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

/// `struct ArrowArray`.
#[repr(C)]
#[derive(StableAbi)]
pub struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

/// `struct ArrowArrayStream`.
#[repr(C)]
#[derive(StableAbi)]
pub struct ArrowArrayStream {
    get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

macro_rules! release_on_drop {
    ($($name:ident),*) => {$(
        impl Drop for $name {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: a struct whose `release` is set is live, and its producer's callback may be called
                    // once; the callback clears `release`.
                    unsafe { release(self) }
                }
            }
        }
    )*};
}

release_on_drop!(ArrowSchema, ArrowArray, ArrowArrayStream);

// SAFETY: the stream interface allows use from any thread, one at a time; the host exports readers that are `Send`.
unsafe impl Send for ArrowArrayStream {}

impl ArrowArrayStream {
    fn error(&mut self, what: &str, status: c_int) -> ContextError {
        let text = self.get_last_error.map(|last_error| {
            // SAFETY: the stream is live, and the text is valid until its next call.
            unsafe { text(last_error(self)) }
        });
        match text {
            Some(text) if !text.is_empty() => ContextError::failed(text),
            _ => ContextError::failed(format!("the stream of scalars failed at {what} with code {status}")),
        }
    }

    fn schema(&mut self) -> Result<ArrowSchema, ContextError> {
        let get = self.get_schema.ok_or_else(|| ContextError::failed("the stream of scalars is released"))?;
        let mut schema = MaybeUninit::<ArrowSchema>::zeroed();
        // SAFETY: the stream is live and the callback fills the struct.
        let status = unsafe { get(self, schema.as_mut_ptr()) };
        if status != 0 {
            return Err(self.error("its schema", status));
        }
        // SAFETY: all-zero bytes are a released schema, and the callback has filled them.
        Ok(unsafe { schema.assume_init() })
    }

    fn next(&mut self) -> Result<Option<ArrowArray>, ContextError> {
        let get = self.get_next.ok_or_else(|| ContextError::failed("the stream of scalars is released"))?;
        let mut array = MaybeUninit::<ArrowArray>::zeroed();
        // SAFETY: the stream is live and the callback fills the struct.
        let status = unsafe { get(self, array.as_mut_ptr()) };
        if status != 0 {
            return Err(self.error("a batch", status));
        }
        // SAFETY: all-zero bytes are a released array, and the callback has filled them.
        let array = unsafe { array.assume_init() };
        Ok(array.release.is_some().then_some(array))
    }
}

/// # Safety
/// Null, or a NUL-terminated text.
unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: by the caller's promise.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// Reads a stream of record batches to its end.
pub(crate) fn read_columns(stream: &mut ArrowArrayStream) -> Result<Vec<Column>, ContextError> {
    let schema = stream.schema()?;
    let count = usize::try_from(schema.n_children).unwrap_or(0);
    // SAFETY: the schema is live, so its children are `n_children` live schemas and the texts are C strings.
    let fields: Vec<(String, String)> = (0..count)
        .map(|index| unsafe {
            let child = &**schema.children.add(index);
            (text(child.name), text(child.format))
        })
        .collect();
    let mut columns: Vec<Column> = Vec::with_capacity(count);
    for (name, format) in &fields {
        columns.push(Column { name: name.clone(), values: empty(name, format)? });
    }
    while let Some(batch) = stream.next()? {
        if usize::try_from(batch.n_children) != Ok(count) {
            return Err(ContextError::failed("a batch has another number of columns than its schema"));
        }
        let rows = usize::try_from(batch.length).unwrap_or(0);
        let skip = usize::try_from(batch.offset).unwrap_or(0);
        for (index, column) in columns.iter_mut().enumerate() {
            // SAFETY: the batch is a live struct array, so its children are live arrays of at least
            // `offset + length` rows, of the types that the schema names.
            unsafe {
                let child = &**batch.children.add(index);
                append(child, &fields[index].1, skip, rows, &mut column.values);
            }
        }
    }
    Ok(columns)
}

fn empty(name: &str, format: &str) -> Result<ColumnValues, ContextError> {
    Ok(match format {
        "b" => ColumnValues::Bool(Vec::new()),
        "c" | "C" | "s" | "S" | "i" | "I" | "l" | "L" => ColumnValues::Int(Vec::new()),
        times if times.starts_with("ts") || times.starts_with("tD") => ColumnValues::Int(Vec::new()),
        "n" | "f" | "g" => ColumnValues::Float(Vec::new()),
        "u" | "U" | "vu" => ColumnValues::Text(Vec::new()),
        other => {
            return Err(ContextError::invalid(format!(
                "column `{name}` has the Arrow format `{other}`, which needs an Arrow library to read"
            )));
        }
    })
}

/// # Safety
/// `array` is a live array of the type that `format` names, with at least `skip + rows` rows.
unsafe fn append(array: &ArrowArray, format: &str, skip: usize, rows: usize, values: &mut ColumnValues) {
    let start = skip + usize::try_from(array.offset).unwrap_or(0);
    // A live array of this type has the buffers that the format lists, each long enough for its rows; validity,
    // buffer 0, may be null.
    let buffer = |index: usize| -> *const u8 {
        // SAFETY: see above; only indices of the format are asked for.
        unsafe { *array.buffers.add(index) }.cast()
    };
    let bit = |bits: *const u8, row: usize| {
        // SAFETY: see above; the row is within the bits.
        let byte = unsafe { *bits.add(row / 8) };
        byte >> (row % 8) & 1 == 1
    };
    let all_null = format == "n";
    let validity = if all_null || array.n_buffers == 0 { std::ptr::null() } else { buffer(0) };
    let valid = |row: usize| !all_null && (validity.is_null() || bit(validity, row));
    let range = start..start + rows;

    macro_rules! fixed {
        ($out:expr, $source:ty, $convert:expr) => {
            $out.extend(range.map(|row| {
                valid(row).then(|| {
                    // SAFETY: see above; the row is within the values buffer.
                    let value = unsafe { buffer(1).cast::<$source>().add(row).read_unaligned() };
                    $convert(value)
                })
            }))
        };
    }
    macro_rules! offsets {
        ($out:expr, $offset:ty) => {
            $out.extend(range.map(|row| {
                valid(row).then(|| {
                    // SAFETY: see above; there is one offset more than rows, and they lie within the data.
                    let bytes = unsafe {
                        let offsets = buffer(1).cast::<$offset>();
                        let from = offsets.add(row).read_unaligned() as usize;
                        let to = offsets.add(row + 1).read_unaligned() as usize;
                        std::slice::from_raw_parts(non_null(buffer(2)).add(from), to - from)
                    };
                    String::from_utf8_lossy(bytes).into_owned()
                })
            }))
        };
    }

    match values {
        ColumnValues::Bool(out) => out.extend(range.map(|row| valid(row).then(|| bit(buffer(1), row)))),
        ColumnValues::Float(out) => match format {
            "f" => fixed!(out, f32, f64::from),
            _ => fixed!(out, f64, f64::from),
        },
        ColumnValues::Int(out) => match format {
            "c" => fixed!(out, i8, i64::from),
            "C" => fixed!(out, u8, i64::from),
            "s" => fixed!(out, i16, i64::from),
            "S" => fixed!(out, u16, i64::from),
            "i" => fixed!(out, i32, i64::from),
            "I" => fixed!(out, u32, i64::from),
            "L" => fixed!(out, u64, |value| i64::try_from(value).unwrap_or(i64::MAX)),
            _ => fixed!(out, i64, i64::from),
        },
        ColumnValues::Text(out) => match format {
            "u" => offsets!(out, i32),
            "U" => offsets!(out, i64),
            _ => out.extend(range.map(|row| {
                valid(row).then(|| {
                    // SAFETY: see above; a view is 16 bytes, and a long one points into data buffer 2 + index.
                    let bytes = unsafe {
                        let view = buffer(1).add(16 * row);
                        let length = view.cast::<i32>().read_unaligned() as usize;
                        let data = if length <= 12 {
                            view.add(4)
                        } else {
                            let index = view.add(8).cast::<i32>().read_unaligned() as usize;
                            buffer(2 + index).add(view.add(12).cast::<i32>().read_unaligned() as usize)
                        };
                        std::slice::from_raw_parts(data, length)
                    };
                    String::from_utf8_lossy(bytes).into_owned()
                })
            })),
        },
    }
}

/// A data buffer of no bytes may be null, which a slice may not be.
fn non_null(pointer: *const u8) -> *const u8 {
    if pointer.is_null() { std::ptr::NonNull::dangling().as_ptr() } else { pointer }
}
