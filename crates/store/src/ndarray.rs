//! Arrays in payloads: MessagePack extension type 1, as Flax writes them.

use std::fmt;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_bytes::{ByteBuf, Bytes};
use thiserror::Error;

/// The extension type.
pub(crate) const EXTENSION_TYPE: i8 = 1;

/// An n-dimensional array in a payload.
///
/// It is stored as MessagePack extension type 1 that holds the MessagePack array `(shape, dtype, bytes)`:
/// the convention of Flax, so a ten-line hook for Python's `msgpack` gives NumPy arrays.
///
/// It serializes so with `rmp-serde`, and through [`ObjectStore::artifact`](crate::ObjectStore::artifact); other serde formats
/// know no extension types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NdArray {
    shape: Vec<u64>,
    dtype: String,
    bytes: Vec<u8>,
}

/// The known element types by their NumPy names, and the size of an element in bytes.
const DTYPES: [(&str, usize); 13] = [
    ("bool", 1),
    ("int8", 1),
    ("uint8", 1),
    ("int16", 2),
    ("uint16", 2),
    ("float16", 2),
    ("bfloat16", 2),
    ("int32", 4),
    ("uint32", 4),
    ("float32", 4),
    ("int64", 8),
    ("uint64", 8),
    ("float64", 8),
];

/// Why three parts make no array.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum NdArrayError {
    /// The element type is unknown.
    #[error("`{dtype}` is no known element type; use a NumPy name such as `float32`")]
    Dtype {
        /// The given name.
        dtype: String,
    },
    /// The bytes do not fill the shape.
    #[error("an array of shape {shape:?} and type {dtype} has {expected} bytes, but {found} are given")]
    Length {
        /// The given shape.
        shape: Vec<u64>,
        /// The given type.
        dtype: String,
        /// What the two need; `too many` when no memory could hold it.
        expected: String,
        /// What was given.
        found: usize,
    },
}

impl NdArray {
    /// Makes an array of raw little-endian elements in row-major order. `dtype` is a NumPy name:
    /// `bool`, `int8` to `int64`, `uint8` to `uint64`, `float16`, `bfloat16`, `float32`, `float64`.
    ///
    /// # Errors
    /// [`NdArrayError`] when the type is unknown, or the bytes do not fill the shape exactly.
    pub fn new(shape: Vec<u64>, dtype: &str, bytes: Vec<u8>) -> Result<NdArray, NdArrayError> {
        let size = DTYPES.iter().find(|(name, _)| *name == dtype).map(|&(_, size)| size);
        let size = size.ok_or_else(|| NdArrayError::Dtype { dtype: dtype.to_owned() })?;
        let expected = shape.iter().try_fold(size as u64, |product, &extent| product.checked_mul(extent));
        if expected != Some(bytes.len() as u64) {
            return Err(NdArrayError::Length {
                shape,
                dtype: dtype.to_owned(),
                expected: expected.map_or_else(|| "too many".to_owned(), |bytes| bytes.to_string()),
                found: bytes.len(),
            });
        }
        Ok(NdArray { shape, dtype: dtype.to_owned(), bytes })
    }

    /// Makes a `float32` array.
    ///
    /// # Errors
    /// [`NdArrayError::Length`] when the values do not fill the shape exactly.
    pub fn from_f32(shape: Vec<u64>, values: &[f32]) -> Result<NdArray, NdArrayError> {
        NdArray::new(shape, "float32", values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    /// Makes a `float64` array.
    ///
    /// # Errors
    /// [`NdArrayError::Length`] when the values do not fill the shape exactly.
    pub fn from_f64(shape: Vec<u64>, values: &[f64]) -> Result<NdArray, NdArrayError> {
        NdArray::new(shape, "float64", values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    /// The extent of each dimension; empty for a single element.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The NumPy name of the element type.
    #[must_use]
    pub fn dtype(&self) -> &str {
        &self.dtype
    }

    /// The elements, little-endian, row-major.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Serialize for NdArray {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let parts = (&self.shape, &self.dtype, Bytes::new(&self.bytes));
        let inner = rmp_serde::to_vec(&parts).map_err(serde::ser::Error::custom)?;
        // rmp-serde writes a newtype of this name as an extension; see its `MSGPACK_EXT_STRUCT_NAME`.
        let extension = (EXTENSION_TYPE, Bytes::new(&inner));
        serializer.serialize_newtype_struct(rmp_serde::MSGPACK_EXT_STRUCT_NAME, &extension)
    }
}

impl<'de> Deserialize<'de> for NdArray {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NdArray, D::Error> {
        let (kind, inner) =
            deserializer.deserialize_newtype_struct(rmp_serde::MSGPACK_EXT_STRUCT_NAME, ExtensionVisitor)?;
        if kind != EXTENSION_TYPE {
            return Err(D::Error::custom(format_args!("extension type {kind} is no array")));
        }
        let (shape, dtype, bytes): (Vec<u64>, String, ByteBuf) =
            rmp_serde::from_slice(&inner).map_err(D::Error::custom)?;
        NdArray::new(shape, &dtype, bytes.into_vec()).map_err(D::Error::custom)
    }
}

struct ExtensionVisitor;

impl<'de> Visitor<'de> for ExtensionVisitor {
    type Value = (i8, Vec<u8>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array as MessagePack extension type 1")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let (kind, bytes) = <(i8, ByteBuf)>::deserialize(deserializer)?;
        Ok((kind, bytes.into_vec()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let missing = || A::Error::custom("the extension is incomplete");
        let kind = parts.next_element::<i8>()?.ok_or_else(missing)?;
        let bytes = parts.next_element::<ByteBuf>()?.ok_or_else(missing)?;
        Ok((kind, bytes.into_vec()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn an_array_is_the_extension_that_flax_writes() {
        let array = NdArray::from_f32(vec![2, 1], &[1.0, -2.0]).unwrap();
        let bytes = rmp_serde::to_vec_named(&array).unwrap();
        // ext 8, 20 bytes, type 1; array of 3: [2, 1], "float32", bin 8 of 8 bytes.
        let mut expected = vec![0xc7, 22, 1, 0x93, 0x92, 2, 1, 0xa7];
        expected.extend_from_slice(b"float32");
        expected.extend_from_slice(&[0xc4, 8, 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0]);
        assert_eq!(bytes, expected);
        assert_eq!(rmp_serde::from_slice::<NdArray>(&bytes).unwrap(), array);
    }

    #[test]
    fn arrays_stand_anywhere_in_a_payload() {
        let array = NdArray::new(vec![0, 3], "int64", vec![]).unwrap();
        let scalar = NdArray::from_f64(vec![], &[0.5]).unwrap();
        let payload = BTreeMap::from([("a", vec![array.clone()]), ("b", vec![scalar, array])]);
        let bytes = rmp_serde::to_vec_named(&payload).unwrap();
        let back: BTreeMap<String, Vec<NdArray>> = rmp_serde::from_slice(&bytes).unwrap();
        assert_eq!(back["a"], payload["a"]);
        assert_eq!(back["b"], payload["b"]);
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        assert!(matches!(NdArray::new(vec![], "object", vec![]), Err(NdArrayError::Dtype { .. })));
        assert!(matches!(NdArray::new(vec![2], "float32", vec![0; 4]), Err(NdArrayError::Length { .. })));
        let huge = NdArray::new(vec![u64::MAX, 2], "int8", vec![]).unwrap_err();
        assert!(huge.to_string().contains("too many"));
        // An extension of another type, and one whose content lies about its length.
        assert!(rmp_serde::from_slice::<NdArray>(&[0xd4, 2, 0]).is_err());
        assert!(
            rmp_serde::from_slice::<NdArray>(&[0xc7, 7, 1, 0x93, 0x91, 9, 0xa4, b'i', b'n', b't']).is_err()
        );
    }
}
