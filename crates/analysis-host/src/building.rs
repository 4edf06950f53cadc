//! One call of one builder: what it may ask for, and what it writes.
//!
//! # How an array is lent
//!
//! A host answers a [`Bytes`] for an array, a mapped file as a rule. It is put into the next free slot of a list that was made
//! before the call and that the caller of the builder owns; the slot itself is cut off the list of free ones, so that
//! its exclusive borrow can go to the builder for as long as the list is borrowed, which is the length of the call. So
//! the compiler sees that each region is lent once, that no two are the same, that nobody else touches them while the
//! builder runs, and that they are unmapped after it. There is no `unsafe` in it.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;

use waycairn_analysis_api::host::{BuildHost, Parts};
use waycairn_analysis_api::{DType, ErrorKind, LogLevel, OwnedTensor, TensorView};

use crate::host::{Bytes, HostError, ProductHost};
use crate::outputs::check_plain;
use crate::product::DeclaredProduct;
use crate::products::Products;

/// How many arrays a product may have.
pub(crate) const SLOTS: usize = 256;

/// Element types that an array of a product may have.
pub const ARRAY_TYPES: [DType; 9] = [
    DType::F32,
    DType::F64,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U32,
    DType::U64,
    DType::Bool,
    DType::BF16,
];

/// An array that was lent to the builder.
pub(crate) struct Region<'h> {
    name: String,
    dtype: DType,
    bytes: Box<dyn Bytes + 'h>,
}

impl Region<'_> {
    /// What is wrong with what the builder left in it.
    pub(crate) fn unfit(&mut self) -> Option<String> {
        let truth = self.dtype == DType::Bool && self.bytes.bytes().iter().any(|byte| *byte > 1);
        truth.then(|| format!("array `{}` of truth values has bytes that are neither 0 nor 1", self.name))
    }
}

pub(crate) struct Building<'a, 'h> {
    declared: &'a DeclaredProduct,
    host: &'h dyn ProductHost,
    settings: String,
    batch: OnceCell<Result<Vec<OwnedTensor>, HostError>>,
    products: Products<'a, 'h>,
    free: Cell<&'a mut [Option<Region<'h>>]>,
    members: RefCell<BTreeSet<String>>,
    refused: RefCell<Option<String>>,
}

impl<'a, 'h> Building<'a, 'h> {
    pub(crate) fn new(
        declared: &'a DeclaredProduct,
        host: &'h dyn ProductHost,
        dependencies: &'a [String],
        slots: &'a mut [Option<Region<'h>>],
    ) -> Self {
        Self {
            declared,
            host,
            settings: host.settings().to_string(),
            batch: OnceCell::new(),
            products: Products::new(dependencies),
            free: Cell::new(slots),
            members: RefCell::default(),
            refused: RefCell::default(),
        }
    }

    /// The first refusal. A builder that ignores it would leave an incomplete artifact behind.
    pub(crate) fn into_refused(self) -> Option<String> {
        self.refused.into_inner()
    }

    fn note<T>(&self, result: Result<T, HostError>) -> Result<T, HostError> {
        if let Err(error) = &result {
            self.refused.borrow_mut().get_or_insert_with(|| error.message().to_owned());
        }
        result
    }

    fn undeclared(&self, need: &str) -> HostError {
        let name = &self.declared.name;
        HostError::new(
            ErrorKind::Undeclared,
            format!("product `{name}` does not declare that it depends on this; add `ProductNeeds::{need}`"),
        )
    }

    fn model(&self) -> Result<&'h dyn ProductHost, HostError> {
        if self.declared.model { Ok(self.host) } else { Err(self.undeclared("model")) }
    }

    /// Names a member of the artifact.
    fn claim(&self, what: &str, name: &str, extension: &str) -> Result<(), HostError> {
        check_plain(what, name)?;
        let member = format!("{name}.{extension}").to_lowercase();
        if !self.members.borrow_mut().insert(member) {
            return Err(HostError::invalid(format!("{what} `{name}` was made before in this call")));
        }
        Ok(())
    }

    fn lend(&self, name: &str, dtype: &str, shape: &[usize]) -> Result<&'a mut [u8], HostError> {
        let dtype: DType = dtype.parse()?;
        let Some(size) = dtype.size().filter(|_| ARRAY_TYPES.contains(&dtype)) else {
            return Err(HostError::invalid(format!(
                "an array of a product has elements of type {}, and `{name}` cannot have {dtype}",
                ARRAY_TYPES.map(DType::name).join(", ")
            )));
        };
        let length = length_of(size, shape).ok_or_else(|| {
            HostError::invalid(format!(
                "array `{name}` of shape {shape:?} has more bytes than can be addressed"
            ))
        })?;
        self.claim("array", name, "npy")?;
        let Some((slot, rest)) = self.free.take().split_first_mut() else {
            return Err(HostError::invalid(format!(
                "array `{name}` is one too many: a product has at most {SLOTS}"
            )));
        };
        self.free.set(rest);
        let bytes = self.host.array(name, dtype, shape)?;
        let lent = slot.insert(Region { name: name.to_owned(), dtype, bytes }).bytes.bytes();
        let aligned = lent.is_empty() || lent.as_ptr().addr().is_multiple_of(size);
        if lent.len() != length || !aligned {
            let found = lent.len();
            return Err(HostError::failed(format!(
                "the host made {found} bytes for array `{name}`, which needs {length}, aligned to {size}"
            )));
        }
        Ok(lent)
    }
}

/// The bytes of an array, if they can be counted and addressed. An extent of zero does not hide a product that overflows.
fn length_of(size: usize, shape: &[usize]) -> Option<usize> {
    let extents = shape.iter().filter(|extent| **extent > 0);
    let all =
        extents.copied().try_fold(size, usize::checked_mul).filter(|all| isize::try_from(*all).is_ok())?;
    Some(if shape.contains(&0) { 0 } else { all })
}

fn owned(inputs: &[TensorView<'_>]) -> Vec<OwnedTensor> {
    inputs.iter().map(TensorView::to_owned).collect()
}

impl BuildHost for Building<'_, '_> {
    fn settings(&self) -> &str {
        &self.settings
    }

    fn product(&self, name: &str) -> Result<Parts<'_>, HostError> {
        self.products
            .get(name, || self.host.product(name))
            .unwrap_or_else(|| Err(self.undeclared(&format!("product(\"{name}\")"))))
    }

    fn weights(&self) -> Result<Vec<TensorView<'_>>, HostError> {
        self.model()?.weights().map(<[TensorView<'_>]>::to_vec)
    }

    fn batch(&self) -> Result<Vec<TensorView<'_>>, HostError> {
        let host = self.model()?;
        match self.batch.get_or_init(|| host.batch()) {
            Ok(tensors) => Ok(tensors.iter().map(OwnedTensor::view).collect()),
            Err(error) => Err(error.clone()),
        }
    }

    fn forward(&self, inputs: &[TensorView<'_>]) -> Result<Vec<OwnedTensor>, HostError> {
        self.model()?.forward(&owned(inputs))
    }

    fn call(&self, function: &str, inputs: &[TensorView<'_>]) -> Result<Vec<OwnedTensor>, HostError> {
        if !self.declared.functions.iter().any(|known| known == function) {
            return Err(self.undeclared(&format!("function(\"{function}\")")));
        }
        self.model()?.call(function, &owned(inputs))
    }

    fn array(&self, name: &str, dtype: &str, shape: &[usize]) -> Result<&mut [u8], HostError> {
        self.note(self.lend(name, dtype, shape))
    }

    fn json(&self, name: &str, text: &str) -> Result<(), HostError> {
        let taken = self.claim("JSON member", name, "json").and_then(|()| self.host.json(name, text));
        self.note(taken)
    }

    fn metadata(&self, key: &str, text: &str) -> Result<(), HostError> {
        let value = serde_json::from_str(text)
            .map_err(|error| HostError::invalid(format!("metadata `{key}` is no JSON: {error}")));
        self.note(value.and_then(|value| self.host.metadata(key, value)))
    }

    fn progress(&self, done: u64, total: u64, what: &str) {
        self.host.progress(done, total, what);
    }

    fn log(&self, level: LogLevel, text: &str) {
        let product = self.declared.name.as_str();
        match level {
            LogLevel::Debug => tracing::debug!(product, "{text}"),
            LogLevel::Info => tracing::info!(product, "{text}"),
            LogLevel::Warn => tracing::warn!(product, "{text}"),
            LogLevel::Error => tracing::error!(product, "{text}"),
        }
    }

    fn cancelled(&self) -> bool {
        self.host.cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_or_refused() {
        assert_eq!(length_of(8, &[3, 4]), Some(96));
        assert_eq!(length_of(4, &[]), Some(4));
        assert_eq!(length_of(4, &[0, 5]), Some(0));
        assert_eq!(length_of(8, &[usize::MAX, 2]), None);
        assert_eq!(length_of(8, &[usize::MAX, 2, 0]), None);
        assert_eq!(length_of(1, &[usize::MAX / 2 + 1]), None);
    }
}
