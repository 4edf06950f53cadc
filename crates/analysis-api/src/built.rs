//! Products as an analysis and a builder see them.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::abi;
use crate::element::Element;
use crate::error::ContextError;
use crate::host::Parts;
use crate::view::{TensorView, Tensors};

/// A product: arrays, JSON members, and what its builder said about it. Valid for one call.
///
/// The arrays are the files of the artifact, mapped: nothing is copied, and only what is looked at is read. They may be
/// read from any number of threads that end before the call does.
#[derive(Clone, Debug)]
pub struct ProductView<'a> {
    name: String,
    key: &'a str,
    metadata: Value,
    arrays: Tensors<'a>,
    documents: Vec<(&'a str, &'a str)>,
}

impl<'a> ProductView<'a> {
    pub(crate) fn new(name: &str, parts: Parts<'a>) -> Result<Self, ContextError> {
        let metadata = serde_json::from_str(parts.metadata)
            .map_err(|error| ContextError::invalid(format!("metadata of product `{name}`: {error}")))?;
        Ok(Self {
            name: name.to_owned(),
            key: parts.key,
            metadata,
            arrays: Tensors::new(parts.arrays),
            documents: parts.documents,
        })
    }

    /// The key: the digest of everything that determined it.
    #[must_use]
    pub fn key(&self) -> &'a str {
        self.key
    }

    /// What its builder said about it: a JSON object.
    #[must_use]
    pub fn metadata(&self) -> &Value {
        &self.metadata
    }

    /// All arrays, by name.
    #[must_use]
    pub fn tensors(&self) -> &Tensors<'a> {
        &self.arrays
    }

    /// The elements of an array in place, row-major; truth values as bytes of 0 and 1.
    ///
    /// # Errors
    /// `Unavailable` for a name that it does not have; `Invalid` for another element type than the array's.
    pub fn array<T: Element>(&self, name: &str) -> Result<&'a [T::Value], ContextError> {
        let view = self.view(name)?;
        if view.dtype() != T::DTYPE {
            return Err(ContextError::invalid(format!(
                "array `{name}` of product `{}` has elements of type {}, not {}",
                self.name,
                view.dtype_name(),
                T::DTYPE
            )));
        }
        abi::cast_slice(view.bytes()).ok_or_else(|| {
            ContextError::invalid(format!("array `{name}` of product `{}` is not aligned", self.name))
        })
    }

    /// The lengths of the axes of an array, outermost first.
    ///
    /// # Errors
    /// `Unavailable` for a name that it does not have.
    pub fn shape(&self, name: &str) -> Result<&'a [usize], ContextError> {
        Ok(self.view(name)?.shape())
    }

    /// A JSON member, by its name without `.json`.
    ///
    /// # Errors
    /// `Unavailable` for a name that it does not have; `Invalid` if it does not fit the type.
    pub fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, ContextError> {
        let (_, text) =
            self.documents.iter().find(|(known, _)| *known == name).ok_or_else(|| {
                self.unknown("JSON member", name, self.documents.iter().map(|(name, _)| *name))
            })?;
        serde_json::from_str(text).map_err(|error| {
            ContextError::invalid(format!("JSON member `{name}` of product `{}`: {error}", self.name))
        })
    }

    fn view(&self, name: &str) -> Result<TensorView<'a>, ContextError> {
        self.arrays.get(name).ok_or_else(|| self.unknown("array", name, self.arrays.names()))
    }

    fn unknown<'n>(&self, what: &str, name: &str, known: impl Iterator<Item = &'n str>) -> ContextError {
        let known: Vec<&str> = known.collect();
        let has = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        ContextError::unavailable(format!("product `{}` has no {what} `{name}`; it has {has}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::dtype::DType;

    #[test]
    fn arrays_members_and_metadata_are_read_in_place() {
        let bytes: Vec<u8> = [1.5_f64, -2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        let parts = Parts {
            key: "ab12",
            metadata: r#"{"cases":2}"#,
            arrays: vec![
                TensorView::new("score", DType::F64, &[2], &bytes).unwrap(),
                TensorView::new("inside", DType::Bool, &[2], &[0, 1]).unwrap(),
            ],
            documents: vec![("history", "[1,2]")],
        };
        let product = ProductView::new("scores", parts).unwrap();
        assert_eq!(product.key(), "ab12");
        assert_eq!(product.metadata(), &json!({"cases": 2}));
        let score = product.array::<f64>("score").unwrap();
        assert_eq!((score, score.as_ptr().cast()), (&[1.5, -2.0][..], bytes.as_ptr()));
        assert_eq!(product.array::<bool>("inside").unwrap(), [0, 1]);
        assert_eq!(product.shape("score").unwrap(), [2]);
        assert_eq!(product.json::<Vec<u32>>("history").unwrap(), [1, 2]);
        assert_eq!(product.tensors().len(), 2);

        let text = |error: ContextError| error.to_string();
        assert_eq!(
            text(product.array::<f32>("score").unwrap_err()),
            "array `score` of product `scores` has elements of type float64, not float32"
        );
        assert_eq!(
            text(product.shape("scores").unwrap_err()),
            "product `scores` has no array `scores`; it has score, inside"
        );
        assert_eq!(
            text(product.json::<Value>("more").unwrap_err()),
            "product `scores` has no JSON member `more`; it has history"
        );
        assert!(text(product.json::<String>("history").unwrap_err()).starts_with("JSON member `history`"));
    }
}
