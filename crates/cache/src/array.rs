//! Arrays as `.npy` files: written as maps or row by row, read as maps.

use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Seek as _, SeekFrom, Write as _};
use std::marker::PhantomData;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytemuck::checked;
use serde::{Deserialize, Serialize};
use waycairn_durable::{FileMap, FileMapMut};

use crate::npy;
use crate::{Artifact, Builder, CacheError};

#[cfg(target_endian = "big")]
compile_error!("arrays are mapped as they lie on disk, which is little-endian");

/// Is the type of the elements of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// 32-bit float.
    F32,
    /// 64-bit float.
    F64,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// Unsigned 8-bit integer.
    U8,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 64-bit integer.
    U64,
    /// A truth value, one byte.
    Bool,
    /// The upper half of a 32-bit float. NumPy has no such type: the file says unsigned 16-bit integer, and the
    /// manifest `bf16`.
    Bf16,
}

impl Dtype {
    /// What NumPy calls it in a header.
    pub(crate) fn descr(self) -> &'static str {
        match self {
            Self::F32 => "<f4",
            Self::F64 => "<f8",
            Self::I32 => "<i4",
            Self::I64 => "<i8",
            Self::U8 => "|u1",
            Self::U32 => "<u4",
            Self::U64 => "<u8",
            Self::Bool => "|b1",
            Self::Bf16 => "<u2",
        }
    }

    /// The bytes of one element.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::U8 | Self::Bool => 1,
            Self::Bf16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }

    /// The bytes of an array, if they can be counted and addressed.
    pub(crate) fn bytes_of(self, shape: &[usize]) -> Option<u64> {
        // An extent of zero must not hide a product that overflows: NumPy refuses such a shape too.
        let all = shape.iter().filter(|&&extent| extent > 0).try_fold(self.bytes(), |bytes, &extent| {
            bytes.checked_mul(extent as u64).filter(|&bytes| i64::try_from(bytes).is_ok())
        })?;
        isize::try_from(all).ok()?;
        Some(if shape.contains(&0) { 0 } else { all })
    }

    /// What a reader has to be told.
    pub(crate) fn note(self) -> Option<&'static str> {
        let note = "each unsigned 16-bit integer is the upper half of a 32-bit float";
        (self == Self::Bf16).then_some(note)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::Bool => "bool",
            Self::Bf16 => "bf16",
        })
    }
}

mod sealed {
    pub trait Sealed {}
}

/// Is a type that arrays may have: `f32 f64 i32 i64 u8 u32 u64 bool` and [`Bf16`]. Nobody else can implement it.
pub trait Element: sealed::Sealed + fmt::Debug + Send + Sync + 'static {
    /// What one element is in memory.
    type Value: bytemuck::CheckedBitPattern + bytemuck::NoUninit + Send + Sync + fmt::Debug;
    /// Its name on disk.
    const DTYPE: Dtype;
}

/// Stands for arrays of bf16, whose elements are the upper halves of 32-bit floats, as `u16`.
#[derive(Debug, Clone, Copy)]
pub struct Bf16;

macro_rules! element {
    ($($type:ty, $value:ty, $dtype:ident;)+) => {$(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            type Value = $value;
            const DTYPE: Dtype = Dtype::$dtype;
        }
    )+};
}

element! {
    f32, f32, F32;
    f64, f64, F64;
    i32, i32, I32;
    i64, i64, I64;
    u8, u8, U8;
    u32, u32, U32;
    u64, u64, U64;
    bool, bool, Bool;
    Bf16, u16, Bf16;
}

/// Is an array of an artifact, mapped from its file. It holds the artifact.
///
/// # Memory
///
/// None of its own: pages are read when they are touched, and shared between processes.
#[derive(Debug, Clone)]
pub struct ArrayView<T: Element> {
    map: Arc<FileMap>,
    offset: usize,
    shape: Vec<usize>,
    _artifact: Artifact,
    _element: PhantomData<T>,
}

impl<T: Element> ArrayView<T> {
    /// Maps an array whose manifest says `shape`. The error is what does not agree.
    pub(crate) fn new(map: FileMap, shape: &[usize], artifact: &Artifact) -> Result<Self, String> {
        let offset = npy::check(&map, T::DTYPE, shape)?;
        checked::try_cast_slice::<u8, T::Value>(&map[offset..]).map_err(|error| error.to_string())?;
        Ok(Self {
            map: Arc::new(map),
            offset,
            shape: shape.to_owned(),
            _artifact: artifact.clone(),
            _element: PhantomData,
        })
    }

    /// Shows the extents.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Shows all elements, row-major. For `bool` this looks at each byte: call it once and keep the slice.
    #[must_use]
    pub fn values(&self) -> &[T::Value] {
        // Checked when it was made.
        checked::try_cast_slice(&self.map[self.offset..]).unwrap_or_default()
    }

    /// Shows one entry of the first axis. Nothing for an array without axes, and past the end.
    #[must_use]
    pub fn row(&self, index: usize) -> Option<&[T::Value]> {
        self.rows(index..index.checked_add(1)?)
    }

    /// Shows some entries of the first axis.
    #[must_use]
    pub fn rows(&self, range: Range<usize>) -> Option<&[T::Value]> {
        let (&count, row) = self.shape.split_first()?;
        if range.start > range.end || range.end > count {
            return None;
        }
        let row: usize = row.iter().product();
        let size = usize::try_from(T::DTYPE.bytes()).ok()?;
        let at = |index: usize| self.offset + index * row * size;
        checked::try_cast_slice(self.map.get(at(range.start)..at(range.end))?).ok()
    }
}

/// Is an array that a builder fills in place, zeros at first.
///
/// What is written counts when the builder returns.
#[derive(Debug)]
pub struct ArrayMut<'builder, T: Element> {
    map: FileMapMut,
    offset: usize,
    shape: Vec<usize>,
    _builder: PhantomData<&'builder T>,
}

impl<T: Element> ArrayMut<'_, T> {
    /// Counts the bytes of the file before anything is made.
    pub(crate) fn bytes(name: &str, shape: &[usize]) -> Result<u64, CacheError> {
        let header = npy::header(T::DTYPE, shape).len() as u64;
        let bytes = T::DTYPE.bytes_of(shape).and_then(|bytes| bytes.checked_add(header));
        let bytes = bytes.filter(|&bytes| isize::try_from(bytes).is_ok());
        bytes.ok_or_else(|| CacheError::TooLarge { name: name.to_owned(), shape: shape.to_owned() })
    }

    pub(crate) fn create(path: &Path, shape: &[usize], bytes: u64) -> Result<Self, CacheError> {
        let header = npy::header(T::DTYPE, shape);
        let mut map = FileMapMut::create(path, bytes)?;
        map[..header.len()].copy_from_slice(&header);
        Ok(Self { map, offset: header.len(), shape: shape.to_owned(), _builder: PhantomData })
    }

    /// Shows the extents.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Lends all elements, row-major. For `bool` this looks at each byte: call it once and keep the slice.
    pub fn values(&mut self) -> &mut [T::Value] {
        // The header is a multiple of 64 bytes and the map begins with a page, so it is aligned; zeros are valid.
        checked::try_cast_slice_mut(&mut self.map[self.offset..]).unwrap_or_default()
    }

    /// Lends the bytes of all elements, little-endian. Of a `bool` each is 0 or 1: another one is refused when the builder
    /// ends, and until it is gone [`values`](Self::values) shows nothing.
    pub fn values_bytes(&mut self) -> &mut [u8] {
        &mut self.map[self.offset..]
    }
}

/// Is an array that a builder writes row by row, when it does not know their number or has no room for all.
#[derive(Debug)]
#[must_use = "an array that is not finished makes its builder fail"]
pub struct ArrayRows<'builder, T: Element> {
    builder: &'builder Builder<'builder>,
    file: BufWriter<File>,
    path: PathBuf,
    name: String,
    row_shape: Vec<usize>,
    row_length: usize,
    header_bytes: usize,
    rows: usize,
    _element: PhantomData<T>,
}

impl<'builder, T: Element> ArrayRows<'builder, T> {
    /// Checks that a row has some bytes, and not too many, before anything is made.
    pub(crate) fn check(name: &str, row_shape: &[usize]) -> Result<(), CacheError> {
        match T::DTYPE.bytes_of(row_shape) {
            Some(bytes) if bytes > 0 => Ok(()),
            _ => Err(CacheError::TooLarge { name: name.to_owned(), shape: row_shape.to_owned() }),
        }
    }

    pub(crate) fn create(
        builder: &'builder Builder<'builder>,
        file: File,
        path: PathBuf,
        name: &str,
        row_shape: &[usize],
    ) -> Result<Self, CacheError> {
        // Room for the largest number of rows, so that the header can be written again in its place.
        let header_bytes = npy::header(T::DTYPE, &shape_of(usize::MAX, row_shape)).len();
        let mut file = BufWriter::with_capacity(1 << 20, file);
        file.write_all(&vec![0; header_bytes]).map_err(CacheError::io("write", &path))?;
        Ok(Self {
            builder,
            file,
            path,
            name: name.to_owned(),
            row_length: row_shape.iter().product(),
            row_shape: row_shape.to_owned(),
            header_bytes,
            rows: 0,
            _element: PhantomData,
        })
    }

    /// Adds whole rows.
    ///
    /// # Errors
    ///
    /// [`CacheError::Unfinished`] when the number of values is no multiple of that of a row; [`CacheError::Io`].
    pub fn push(&mut self, values: &[T::Value]) -> Result<(), CacheError> {
        if !values.len().is_multiple_of(self.row_length) {
            let reason = format!(
                "{} values were added to `{}`, whose rows have {}",
                values.len(),
                self.name,
                self.row_length
            );
            return Err(self.builder.unfinished(reason));
        }
        let bytes: &[u8] = bytemuck::try_cast_slice(values).unwrap_or_default();
        self.file.write_all(bytes).map_err(CacheError::io("write", &self.path))?;
        self.rows += values.len() / self.row_length;
        Ok(())
    }

    /// Says how many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Ends the array: its header says how many rows there are.
    ///
    /// # Errors
    ///
    /// [`CacheError::Io`].
    pub fn finish(mut self) -> Result<(), CacheError> {
        let shape = shape_of(self.rows, &self.row_shape);
        let header = npy::header_of_length(T::DTYPE, &shape, self.header_bytes);
        let io = CacheError::io("write", &self.path);
        let written = self.file.seek(SeekFrom::Start(0)).and_then(|_| self.file.write_all(&header));
        written.and_then(|()| self.file.flush()).map_err(io)?;
        self.builder.finished(&self.name, &shape);
        Ok(())
    }
}

fn shape_of(rows: usize, row_shape: &[usize]) -> Vec<usize> {
    let mut shape = vec![rows];
    shape.extend_from_slice(row_shape);
    shape
}
