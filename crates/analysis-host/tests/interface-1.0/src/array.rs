//! Arrays inside an artifact.

use serde::ser::{Error as _, Serialize, Serializer};

use crate::dtype::DType;
use crate::error::ContextError;
use crate::view::{TensorView, checked_size};

/// An n-dimensional array in row-major order that an artifact can carry.
///
/// It serialises as MessagePack extension type 1, whose body is the MessagePack array
/// `(shape, element type name, raw little-endian bytes)`: what Flax writes and NumPy reads.
///
/// ```
/// use waycairn_analysis_api::NdArray;
///
/// let array = NdArray::from_f32(&[2, 2], &[1.0, 2.0, 3.0, 4.0])?;
/// assert_eq!(array.shape(), [2, 2]);
/// assert_eq!(array.bytes().len(), 16);
/// # Ok::<(), waycairn_analysis_api::ContextError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NdArray {
    shape: Vec<usize>,
    dtype: String,
    bytes: Vec<u8>,
}

/// The extension type of an array.
const EXTENSION: i8 = 1;

macro_rules! constructor {
    ($name:ident, $element:ty, $dtype:expr, $text:literal) => {
        #[doc = concat!("An array of ", $text, " values.")]
        ///
        /// # Errors
        /// `Invalid` if the shape has another number of elements than there are values.
        pub fn $name(shape: &[usize], values: &[$element]) -> Result<Self, ContextError> {
            Self::from_bytes(shape, $dtype, values.iter().flat_map(|value| value.to_le_bytes()).collect())
        }
    };
}

impl NdArray {
    /// An array from its little-endian bytes.
    ///
    /// # Errors
    /// `Invalid` if the bytes are not as many as the shape and the element type need.
    pub fn from_bytes(shape: &[usize], dtype: DType, bytes: Vec<u8>) -> Result<Self, ContextError> {
        checked_size("array", dtype, shape, bytes.len())?;
        Ok(Self { shape: shape.to_vec(), dtype: dtype.name().to_owned(), bytes })
    }

    constructor!(from_f32, f32, DType::F32, "`float32`");
    constructor!(from_f64, f64, DType::F64, "`float64`");
    constructor!(from_i64, i64, DType::I64, "`int64`");
    constructor!(from_u8, u8, DType::U8, "`uint8`");

    /// The lengths of the axes, outermost first.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The name of the element type, e.g. `float32`.
    #[must_use]
    pub fn dtype_name(&self) -> &str {
        &self.dtype
    }

    /// The elements, little-endian, row-major.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Copies the tensor, whatever its element type.
impl From<TensorView<'_>> for NdArray {
    fn from(view: TensorView<'_>) -> Self {
        Self {
            shape: view.shape().to_vec(),
            dtype: view.dtype_name().to_owned(),
            bytes: view.bytes().to_vec(),
        }
    }
}

struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

impl Serialize for NdArray {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let body =
            rmp_serde::to_vec(&(&self.shape, &self.dtype, Bytes(&self.bytes))).map_err(S::Error::custom)?;
        serializer.serialize_newtype_struct(rmp_serde::MSGPACK_EXT_STRUCT_NAME, &(EXTENSION, Bytes(&body)))
    }
}
