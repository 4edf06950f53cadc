//! What the builder of a product is given for the length of one call.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::abi::{self, build};
use crate::built::ProductView;
use crate::context::LogLevel;
use crate::element::Element;
use crate::error::ContextError;
use crate::json;
use crate::view::{OwnedTensor, TensorView, Tensors};

/// Settings, dependencies, and the artifact in the making. Valid for one call of
/// [`Product::build`](crate::Product::build).
///
/// # Concurrency
/// The context stays on the thread of the call. Views of dependencies may be read, and the elements of arrays written,
/// from any number of threads that end before the call does, e.g. under `std::thread::scope` or rayon.
///
/// # Lifetimes
/// An array is the file in the making, mapped by the host. It ends with the call, which the compiler sees to:
///
/// ```compile_fail
/// use waycairn_analysis_api::{AnalysisError, ArrayMut, BuildContext};
///
/// fn escape(context: &BuildContext<'_>) -> Result<ArrayMut<'static, f64>, AnalysisError> {
///     Ok(context.array::<f64>("escaped", &[1])?)
/// }
/// ```
pub struct BuildContext<'a> {
    raw: build::BuildObject<'a>,
    settings: Value,
}

impl<'a> BuildContext<'a> {
    pub(crate) fn new(raw: build::BuildObject<'a>) -> Result<Self, ContextError> {
        let settings = serde_json::from_str(build::settings_of(&raw))
            .map_err(|error| ContextError::invalid(format!("the host's settings are no JSON: {error}")))?;
        Ok(Self { raw, settings })
    }

    /// What [`Product::select`](crate::Product::select) returned. There are no other settings here.
    #[must_use]
    pub fn settings(&self) -> &Value {
        &self.settings
    }

    /// The settings as the author's own type.
    ///
    /// # Errors
    /// `Invalid` if they do not fit that type.
    pub fn settings_as<T: DeserializeOwned>(&self) -> Result<T, ContextError> {
        T::deserialize(&self.settings)
            .map_err(|error| ContextError::invalid(format!("settings of the product: {error}")))
    }

    /// A product that this one depends on. Nothing is copied.
    ///
    /// # Errors
    /// `Undeclared` without `ProductNeeds::product`.
    pub fn product(&self, name: &str) -> Result<ProductView<'_>, ContextError> {
        ProductView::new(name, build::product(&self.raw, name)?)
    }

    /// The weights of the model. Nothing is copied.
    ///
    /// # Errors
    /// `Undeclared` without `ProductNeeds::model`.
    pub fn weights(&self) -> Result<Tensors<'_>, ContextError> {
        build::weights(&self.raw).map(Tensors::new)
    }

    /// The batch of the node that the model was taken at.
    ///
    /// # Errors
    /// `Undeclared` without `ProductNeeds::model`; `Unavailable` if it cannot be made again.
    pub fn batch(&self) -> Result<Tensors<'_>, ContextError> {
        build::batch(&self.raw).map(Tensors::new)
    }

    /// Runs the model on named tensors and answers its named outputs.
    ///
    /// # Errors
    /// `Undeclared` without `ProductNeeds::model`; `Invalid` for inputs that do not fit the model.
    pub fn forward(&self, inputs: &[TensorView<'_>]) -> Result<Vec<OwnedTensor>, ContextError> {
        build::forward(&self.raw, inputs)
    }

    /// Calls a named function of the experiment with the model. `waycairn plugins --functions` lists what there are and what
    /// they take.
    ///
    /// # Errors
    /// `Undeclared` without `ProductNeeds::function`; `Unavailable` for one that the experiment does not have; `Invalid` for
    /// inputs that do not fit it.
    pub fn call(&self, function: &str, inputs: &[TensorView<'_>]) -> Result<Vec<OwnedTensor>, ContextError> {
        build::call(&self.raw, function, inputs)
    }

    /// Makes the array `<name>.npy`, zeros at first, to be filled in place: the file itself, mapped, so that an array may
    /// be larger than memory.
    ///
    /// # Errors
    /// `Invalid` for a name that is not plain or used before in this call, and for a shape whose bytes cannot be counted;
    /// `Failed` if the file cannot be made, for a full disk for one.
    pub fn array<T: Element>(&self, name: &str, shape: &[usize]) -> Result<ArrayMut<'_, T>, ContextError> {
        let bytes = build::array(&self.raw, name, T::DTYPE.name(), shape)?;
        let length = bytes.len();
        let values = abi::cast_slice_mut(bytes).ok_or_else(|| {
            ContextError::failed(format!("array `{name}` of {length} bytes is not aligned for its elements"))
        })?;
        Ok(ArrayMut { values, shape: shape.to_vec() })
    }

    /// Writes the JSON member `<name>.json`.
    ///
    /// # Errors
    /// `Invalid` for a name that is not plain or used before in this call; for NaN or an infinity, named by its path.
    pub fn json(&self, name: &str, value: &impl Serialize) -> Result<(), ContextError> {
        build::json(&self.raw, name, &json::to_text(&format!("member `{name}`"), value)?)
    }

    /// Says something about the product. The same name again replaces what was said.
    ///
    /// # Errors
    /// `Invalid` for NaN or an infinity, named by its path.
    pub fn metadata(&self, key: &str, value: &impl Serialize) -> Result<(), ContextError> {
        build::metadata(&self.raw, key, &json::to_text(&format!("metadata `{key}`"), value)?)
    }

    /// Tells the host how far the work is: `done` of `total` steps, and of what. A total of 0 is an unknown one.
    pub fn progress(&self, done: u64, total: u64, what: &str) {
        build::progress(&self.raw, done, total, what);
    }

    /// Whether the host wants the builder to give up. Long loops ask now and then, and return an error.
    #[must_use]
    pub fn cancelled(&self) -> bool {
        build::cancelled(&self.raw)
    }

    /// Writes a line to the host's log.
    pub fn log(&self, level: LogLevel, text: &str) {
        build::log(&self.raw, level, text);
    }
}

impl fmt::Debug for BuildContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuildContext").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// An array of a product in the making. What is written counts if the builder succeeds.
#[derive(Debug)]
pub struct ArrayMut<'a, T: Element> {
    values: &'a mut [T::Value],
    shape: Vec<usize>,
}

impl<'a, T: Element> ArrayMut<'a, T> {
    /// The lengths of the axes, outermost first.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// All elements, row-major; truth values as bytes of 0 and 1.
    pub fn values(&mut self) -> &mut [T::Value] {
        self.values
    }

    /// All elements, for as long as the context lives.
    #[must_use]
    pub fn into_values(self) -> &'a mut [T::Value] {
        self.values
    }
}
