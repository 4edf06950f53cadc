//! Tensors: borrowed views of the host's bytes, and owned ones.
//!
//! A view is four borrowed things (name, element type, shape, bytes) that live as long as the call they were given
//! in; the borrow checker keeps a view from outliving it. The bytes of weights come straight from the mapped
//! checkpoint file, so looking at one tensor of a large file reads that tensor alone.

use std::fmt;

use crate::abi;
use crate::dtype::DType;
use crate::error::ContextError;

pub use crate::abi::TensorView;

impl<'a> TensorView<'a> {
    /// A view of little-endian, row-major bytes.
    ///
    /// # Errors
    /// `Invalid` if the bytes are not as many as the shape and the element type need.
    pub fn new(
        name: &'a str,
        dtype: DType,
        shape: &'a [usize],
        bytes: &'a [u8],
    ) -> Result<Self, ContextError> {
        checked_size(name, dtype, shape, bytes.len())?;
        Ok(Self::from_parts(name, dtype.name(), shape, bytes))
    }

    /// A view of elements whose type this version of the interface need not know.
    ///
    /// # Errors
    /// `Invalid` if the type is known and the bytes are not as many as it needs.
    pub fn with_dtype_name(
        name: &'a str,
        dtype: &'a str,
        shape: &'a [usize],
        bytes: &'a [u8],
    ) -> Result<Self, ContextError> {
        checked_size(name, DType::from_name(dtype), shape, bytes.len())?;
        Ok(Self::from_parts(name, dtype, shape, bytes))
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        DType::from_name(self.dtype_name())
    }

    /// The number of elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.shape().iter().product()
    }

    /// The elements in place, if they are `float32` and aligned for it. Nothing is copied.
    #[must_use]
    pub fn as_f32(&self) -> Option<&'a [f32]> {
        (self.dtype() == DType::F32).then(|| abi::cast_slice(self.bytes())).flatten()
    }

    /// The elements in place, if they are `float64` and aligned for it.
    #[must_use]
    pub fn as_f64(&self) -> Option<&'a [f64]> {
        (self.dtype() == DType::F64).then(|| abi::cast_slice(self.bytes())).flatten()
    }

    /// The elements in place, if they are `int64` and aligned for it.
    #[must_use]
    pub fn as_i64(&self) -> Option<&'a [i64]> {
        (self.dtype() == DType::I64).then(|| abi::cast_slice(self.bytes())).flatten()
    }

    /// The elements in place, if they are `int32` and aligned for it.
    #[must_use]
    pub fn as_i32(&self) -> Option<&'a [i32]> {
        (self.dtype() == DType::I32).then(|| abi::cast_slice(self.bytes())).flatten()
    }

    /// The elements as `f64`, whatever their type and alignment. 64-bit integers beyond 2^53 are rounded.
    ///
    /// Walk it with `for_each`, `fold` or `sum`: these choose the element type once, `next` does so for each.
    ///
    /// # Errors
    /// `Invalid` for an element type that this version of the interface does not know.
    pub fn iter_f64(&self) -> Result<Values<'a>, ContextError> {
        match self.dtype() {
            DType::Other => Err(ContextError::invalid(format!(
                "tensor `{}` has elements of type `{}`, which this plugin cannot read",
                self.name(),
                self.dtype_name()
            ))),
            dtype => Ok(Values { dtype, bytes: self.bytes() }),
        }
    }

    /// A copy that may outlive the call.
    #[must_use]
    pub fn to_owned(&self) -> OwnedTensor {
        OwnedTensor {
            name: self.name().to_owned(),
            dtype: self.dtype_name().to_owned(),
            shape: self.shape().to_vec(),
            bytes: self.bytes().to_vec(),
        }
    }
}

impl fmt::Debug for TensorView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {:?}", self.name(), self.dtype_name(), self.shape())
    }
}

/// Refuses bytes that do not fit the shape. An unknown type fits any number of bytes.
pub(crate) fn checked_size(
    name: &str,
    dtype: DType,
    shape: &[usize],
    bytes: usize,
) -> Result<(), ContextError> {
    let Some(size) = dtype.size() else { return Ok(()) };
    let needed = if shape.contains(&0) {
        Some(0)
    } else {
        shape.iter().try_fold(size, |product, length| product.checked_mul(*length))
    };
    if needed == Some(bytes) {
        return Ok(());
    }
    let needed = needed.map_or_else(|| "more bytes than there are".to_owned(), |n| format!("{n} bytes"));
    Err(ContextError::invalid(format!(
        "`{name}` of shape {shape:?} and type {dtype} needs {needed}, not {bytes}"
    )))
}

/// A tensor that owns its bytes: what [`Context::forward`](crate::Context::forward) answers.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnedTensor {
    name: String,
    dtype: String,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl OwnedTensor {
    /// A tensor of little-endian, row-major bytes.
    ///
    /// # Errors
    /// `Invalid` if the bytes are not as many as the shape and the element type need.
    pub fn new(
        name: impl Into<String>,
        dtype: DType,
        shape: Vec<usize>,
        bytes: Vec<u8>,
    ) -> Result<Self, ContextError> {
        let name = name.into();
        checked_size(&name, dtype, &shape, bytes.len())?;
        Ok(Self { name, dtype: dtype.name().to_owned(), shape, bytes })
    }

    /// A tensor of `float32` values.
    ///
    /// # Errors
    /// `Invalid` if the shape has another number of elements than there are values.
    pub fn from_f32(
        name: impl Into<String>,
        shape: Vec<usize>,
        values: &[f32],
    ) -> Result<Self, ContextError> {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self::new(name, DType::F32, shape, bytes)
    }

    /// A tensor of `int64` values.
    ///
    /// # Errors
    /// `Invalid` if the shape has another number of elements than there are values.
    pub fn from_i64(
        name: impl Into<String>,
        shape: Vec<usize>,
        values: &[i64],
    ) -> Result<Self, ContextError> {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self::new(name, DType::I64, shape, bytes)
    }

    pub(crate) fn from_parts(name: String, dtype: String, shape: Vec<usize>, bytes: Vec<u8>) -> Self {
        Self { name, dtype, shape, bytes }
    }

    pub(crate) fn into_parts(self) -> (String, String, Vec<usize>, Vec<u8>) {
        (self.name, self.dtype, self.shape, self.bytes)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        DType::from_name(&self.dtype)
    }

    /// The lengths of the axes, outermost first.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements, little-endian, row-major.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A view of it.
    #[must_use]
    pub fn view(&self) -> TensorView<'_> {
        TensorView::from_parts(&self.name, &self.dtype, &self.shape, &self.bytes)
    }
}

/// The tensors of a node, by name.
#[derive(Clone, Debug)]
pub struct Tensors<'a> {
    views: Vec<TensorView<'a>>,
}

impl<'a> Tensors<'a> {
    pub(crate) fn new(views: Vec<TensorView<'a>>) -> Self {
        Self { views }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.views.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    /// All of them, in the host's order.
    pub fn iter(&self) -> std::slice::Iter<'_, TensorView<'a>> {
        self.views.iter()
    }

    /// The names, in the host's order.
    pub fn names(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.views.iter().map(TensorView::name)
    }

    /// The tensor of this name, if there is one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<TensorView<'a>> {
        self.views.iter().find(|view| view.name() == name).copied()
    }

    /// The tensor of this name.
    ///
    /// # Errors
    /// `Unavailable` if there is none; the text lists some that there are.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'a>, ContextError> {
        self.get(name).ok_or_else(|| {
            let mut known: Vec<&str> = self.names().take(8).collect();
            if self.len() > known.len() {
                known.push("..");
            }
            ContextError::unavailable(format!("no tensor `{name}`; there are {}", known.join(", ")))
        })
    }
}

impl<'v, 'a> IntoIterator for &'v Tensors<'a> {
    type Item = &'v TensorView<'a>;
    type IntoIter = std::slice::Iter<'v, TensorView<'a>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The elements of a tensor as `f64`, in row-major order.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    dtype: DType,
    bytes: &'a [u8],
}

/// Runs `$body` with `$read` bound to a reader of `$size` bytes, chosen by the element type.
macro_rules! with_reader {
    ($dtype:expr, |$read:ident, $size:ident| $body:expr) => {
        with_reader!(@arms $dtype, $read, $size, $body,
            U8: 1 => |b: [u8; 1]| f64::from(b[0]),
            I8: 1 => |b: [u8; 1]| f64::from(i8::from_le_bytes(b)),
            U16: 2 => |b: [u8; 2]| f64::from(u16::from_le_bytes(b)),
            I16: 2 => |b: [u8; 2]| f64::from(i16::from_le_bytes(b)),
            U32: 4 => |b: [u8; 4]| f64::from(u32::from_le_bytes(b)),
            I32: 4 => |b: [u8; 4]| f64::from(i32::from_le_bytes(b)),
            U64: 8 => |b: [u8; 8]| u64::from_le_bytes(b) as f64,
            I64: 8 => |b: [u8; 8]| i64::from_le_bytes(b) as f64,
            F16: 2 => |b: [u8; 2]| f64::from(half_to_f32(u16::from_le_bytes(b))),
            BF16: 2 => |b: [u8; 2]| f64::from(f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16)),
            F32: 4 => |b: [u8; 4]| f64::from(f32::from_le_bytes(b)),
            F64: 8 => |b: [u8; 8]| f64::from_le_bytes(b),
        )
    };
    (@arms $dtype:expr, $read:ident, $size:ident, $body:expr, $($variant:ident: $bytes:literal => $reader:expr,)*) => {
        match $dtype {
            $(DType::$variant => { const $size: usize = $bytes; let $read = $reader; $body })*
            DType::Bool | DType::Other => {
                const $size: usize = 1;
                let $read = |b: [u8; 1]| f64::from(u8::from(b[0] != 0));
                $body
            }
        }
    };
}

impl Iterator for Values<'_> {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        with_reader!(self.dtype, |read, SIZE| {
            let (first, rest) = self.bytes.split_first_chunk::<SIZE>()?;
            self.bytes = rest;
            Some(read(*first))
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let count = self.bytes.len() / self.dtype.size().unwrap_or(1);
        (count, Some(count))
    }

    fn fold<B, F: FnMut(B, f64) -> B>(self, init: B, mut step: F) -> B {
        with_reader!(self.dtype, |read, SIZE| {
            let (chunks, _) = self.bytes.as_chunks::<SIZE>();
            chunks.iter().fold(init, |state, chunk| step(state, read(*chunk)))
        })
    }
}

impl ExactSizeIterator for Values<'_> {}

/// Widens an IEEE 754 binary16.
fn half_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let exponent = u32::from(bits >> 10) & 0x1f;
    let fraction = u32::from(bits) & 0x3ff;
    match (exponent, fraction) {
        // Zero and subnormals: the fraction counts units of 2^-24.
        (0, fraction) => {
            let magnitude = fraction as f32 * f32::from_bits((127 - 24) << 23);
            f32::from_bits(magnitude.to_bits() | sign)
        }
        (0x1f, fraction) => f32::from_bits(sign | 0xff << 23 | fraction << 13),
        (exponent, fraction) => f32::from_bits(sign | (exponent + 127 - 15) << 23 | fraction << 13),
    }
}
