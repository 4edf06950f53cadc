//! A product in the making, as its plugin sees it; and the node of a run, as the run's metrics and plots see it.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use serde_json::Value;
use waycairn_analysis_host::{
    AnalysisHost, Bytes, DType, ForeignProduct, HostError, NodeInfo, OwnedTensor, ProductData, ProductHost,
    RecordBatchReader, TensorView,
};
use waycairn_cache::{ArrayMut, ArrayView, Artifact, Bf16, Builder, CacheError, Dtype, Element};
use waycairn_train::Stop;

use crate::error::StudyError;
use crate::launch::StudyEvent;
use crate::plan::reasons;

/// Who is told what happens, from inside a call that only borrows.
pub(crate) type Observer<'a> = &'a dyn Fn(&StudyEvent<'_>);

/// What a builder is given besides its recipe.
pub(crate) struct Context<'a> {
    pub(crate) product: &'a ForeignProduct,
    /// The node that the model was taken at.
    pub(crate) node: &'a dyn AnalysisHost,
    pub(crate) stop: &'a Stop,
    pub(crate) observer: Observer<'a>,
}

/// Builds one product. What it depends on is there, and opened when the builder asks for it.
pub(crate) fn build(builder: &Builder<'_>, context: Context<'_>) -> Result<(), StudyError> {
    let declared = context.product.declaration();
    let model = declared.model.then_some(crate::model::MODEL);
    let names = declared.products.iter().map(String::as_str).chain(model);
    let dependencies =
        names.map(|name| (name.to_owned(), Shelved::new(move || builder.dependency(name)))).collect();
    let making = Making { builder, settings: builder.settings()?, dependencies, context: &context };
    context.product.build(&making).map_err(|error| {
        if context.stop.is_requested() {
            return StudyError::Stopped { done: 0, of: 1 };
        }
        StudyError::Failed {
            what: format!("the product `{}` was not built", declared.name),
            source: Box::new(error),
        }
    })
}

struct Making<'a> {
    builder: &'a Builder<'a>,
    settings: Value,
    dependencies: Shelf<'a>,
    context: &'a Context<'a>,
}

impl ProductHost for Making<'_> {
    fn threads(&self) -> usize {
        self.context.node.threads()
    }

    fn settings(&self) -> &Value {
        &self.settings
    }

    fn product(&self, name: &str) -> Result<ProductData<'_>, HostError> {
        shown(&self.dependencies, name)
    }

    fn array(&self, name: &str, dtype: DType, shape: &[usize]) -> Result<Box<dyn Bytes + '_>, HostError> {
        array(self.builder, name, dtype, shape)
    }

    fn json(&self, name: &str, text: &str) -> Result<(), HostError> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| HostError::invalid(error.to_string()))?;
        self.builder.json(name, &value).map_err(failed)
    }

    fn metadata(&self, key: &str, value: Value) -> Result<(), HostError> {
        self.builder.metadata(key, &value).map_err(failed)
    }

    fn weights(&self) -> Result<&[TensorView<'_>], HostError> {
        self.context.node.weights()
    }

    fn batch(&self) -> Result<Vec<OwnedTensor>, HostError> {
        self.context.node.batch()
    }

    fn forward(&self, inputs: &[OwnedTensor]) -> Result<Vec<OwnedTensor>, HostError> {
        self.context.node.forward(inputs)
    }

    fn call(&self, function: &str, inputs: &[OwnedTensor]) -> Result<Vec<OwnedTensor>, HostError> {
        self.context.node.call(function, inputs)
    }

    fn progress(&self, done: u64, total: u64, what: &str) {
        let product = self.context.product.declaration().name.as_str();
        (self.context.observer)(&StudyEvent::Progress { kind: "product", name: product, done, total, what });
    }

    fn cancelled(&self) -> bool {
        self.context.stop.is_requested()
    }
}

/// The node of a run with the products of its study.
pub(crate) struct StudyNode<'a> {
    pub(crate) node: &'a dyn AnalysisHost,
    pub(crate) products: &'a Shelf<'a>,
    pub(crate) study: &'a Value,
    pub(crate) stop: &'a Stop,
    pub(crate) observer: Observer<'a>,
    /// The analysis that looks at it: its kind and its name.
    pub(crate) analysis: (&'static str, &'a str),
}

impl AnalysisHost for StudyNode<'_> {
    fn threads(&self) -> usize {
        self.node.threads()
    }

    fn node(&self) -> NodeInfo {
        self.node.node()
    }

    fn parents(&self) -> Vec<String> {
        self.node.parents()
    }

    fn experiment_settings(&self) -> Value {
        self.node.experiment_settings()
    }

    fn weights(&self) -> Result<&[TensorView<'_>], HostError> {
        self.node.weights()
    }

    fn batch(&self) -> Result<Vec<OwnedTensor>, HostError> {
        self.node.batch()
    }

    fn forward(&self, inputs: &[OwnedTensor]) -> Result<Vec<OwnedTensor>, HostError> {
        self.node.forward(inputs)
    }

    fn scalars(
        &self,
        expression: &str,
        keys: &[String],
    ) -> Result<Box<dyn RecordBatchReader + Send>, HostError> {
        self.node.scalars(expression, keys)
    }

    fn product(&self, name: &str) -> Result<ProductData<'_>, HostError> {
        shown(self.products, name)
    }

    fn call(&self, function: &str, inputs: &[OwnedTensor]) -> Result<Vec<OwnedTensor>, HostError> {
        self.node.call(function, inputs)
    }

    fn functions(&self) -> Option<Vec<String>> {
        self.node.functions()
    }

    fn study(&self) -> Value {
        self.study.clone()
    }

    fn progress(&self, done: u64, total: u64, what: &str) {
        let (kind, name) = self.analysis;
        (self.observer)(&StudyEvent::Progress { kind, name, done, total, what });
    }

    fn cancelled(&self) -> bool {
        self.stop.is_requested()
    }
}

/// The artifacts that one call may ask for.
pub(crate) type Shelf<'a> = BTreeMap<String, Shelved<'a>>;

/// An artifact that is opened when it is first asked for: a damaged one is in nobody's way who does not read it.
pub(crate) struct Shelved<'a> {
    find: Box<dyn Fn() -> Result<Artifact, CacheError> + 'a>,
    opened: OnceCell<Result<Opened, HostError>>,
}

impl<'a> Shelved<'a> {
    pub(crate) fn new(find: impl Fn() -> Result<Artifact, CacheError> + 'a) -> Self {
        Self { find: Box::new(find), opened: OnceCell::new() }
    }

    fn open(&self) -> Result<&Opened, HostError> {
        let opened = self
            .opened
            .get_or_init(|| (self.find)().and_then(|artifact| Opened::new(&artifact)).map_err(failed));
        opened.as_ref().map_err(Clone::clone)
    }
}

/// An artifact with its arrays mapped, so that views of it can be borrowed.
struct Opened {
    key: String,
    metadata: Value,
    arrays: Vec<OpenedArray>,
    json: Vec<(String, String)>,
}

struct OpenedArray {
    name: String,
    dtype: DType,
    data: Box<dyn Mapped>,
}

trait Mapped {
    fn shape(&self) -> &[usize];
    fn bytes(&self) -> &[u8];
}

impl<T: Element> Mapped for ArrayView<T> {
    fn shape(&self) -> &[usize] {
        ArrayView::shape(self)
    }

    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self.values())
    }
}

impl Opened {
    fn new(artifact: &Artifact) -> Result<Self, CacheError> {
        let (mut arrays, mut json) = (Vec::new(), Vec::new());
        for (file, member) in artifact.files() {
            if let Some(dtype) = member.dtype {
                let name = file.strip_suffix(".npy").unwrap_or(file);
                let (dtype, data): (DType, Box<dyn Mapped>) = match dtype {
                    Dtype::F32 => (DType::F32, Box::new(artifact.array::<f32>(name)?)),
                    Dtype::F64 => (DType::F64, Box::new(artifact.array::<f64>(name)?)),
                    Dtype::I32 => (DType::I32, Box::new(artifact.array::<i32>(name)?)),
                    Dtype::I64 => (DType::I64, Box::new(artifact.array::<i64>(name)?)),
                    Dtype::U8 => (DType::U8, Box::new(artifact.array::<u8>(name)?)),
                    Dtype::U32 => (DType::U32, Box::new(artifact.array::<u32>(name)?)),
                    Dtype::U64 => (DType::U64, Box::new(artifact.array::<u64>(name)?)),
                    Dtype::Bool => (DType::Bool, Box::new(artifact.array::<bool>(name)?)),
                    Dtype::Bf16 => (DType::BF16, Box::new(artifact.array::<Bf16>(name)?)),
                };
                arrays.push(OpenedArray { name: name.to_owned(), dtype, data });
            } else if let Some(name) = file.strip_suffix(".json") {
                let value: Value = artifact.json(name)?;
                json.push((name.to_owned(), value.to_string()));
            }
        }
        Ok(Self {
            key: artifact.key().digest().to_string(),
            metadata: Value::Object(artifact.metadata().clone()),
            arrays,
            json,
        })
    }
}

fn shown<'a>(shelf: &'a Shelf<'_>, name: &str) -> Result<ProductData<'a>, HostError> {
    let opened = shelf
        .get(name)
        .ok_or_else(|| HostError::unavailable(format!("there is no product `{name}` here")))?
        .open()?;
    let arrays = opened
        .arrays
        .iter()
        .map(|array| TensorView::new(&array.name, array.dtype, array.data.shape(), array.data.bytes()));
    Ok(ProductData {
        key: opened.key.clone(),
        metadata: opened.metadata.clone(),
        arrays: arrays.collect::<Result<_, _>>()?,
        json: opened.json.clone(),
    })
}

/// Makes an array of an artifact, to be lent as bytes.
fn array<'a>(
    builder: &'a Builder<'_>,
    name: &str,
    dtype: DType,
    shape: &[usize],
) -> Result<Box<dyn Bytes + 'a>, HostError> {
    macro_rules! lent {
        ($element:ty) => {
            Box::new(Lent(builder.array::<$element>(name, shape).map_err(failed)?))
        };
    }
    Ok(match dtype {
        DType::F32 => lent!(f32),
        DType::F64 => lent!(f64),
        DType::I32 => lent!(i32),
        DType::I64 => lent!(i64),
        DType::U8 => lent!(u8),
        DType::U32 => lent!(u32),
        DType::U64 => lent!(u64),
        DType::Bool => lent!(bool),
        DType::BF16 => lent!(Bf16),
        other => {
            return Err(HostError::invalid(format!(
                "arrays of a product are f32, f64, i32, i64, u8, u32, u64, bool or bf16, and `{name}` is {}",
                other.name()
            )));
        }
    })
}

/// An array of an artifact in the making, lent as bytes. Truth values are checked when the builder has ended.
struct Lent<'a, T: Element>(ArrayMut<'a, T>);

impl<T: Element> Bytes for Lent<'_, T> {
    fn bytes(&mut self) -> &mut [u8] {
        self.0.values_bytes()
    }
}

fn failed(error: CacheError) -> HostError {
    HostError::failed(reasons(&error))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;
    use waycairn_analysis_host::ARRAY_TYPES;
    use waycairn_cache::{Cache, Implementation, Recipe};

    use super::*;

    fn build(builder: &Builder<'_>, truth: u8) -> Result<(), CacheError> {
        for dtype in ARRAY_TYPES {
            let mut lent = array(builder, dtype.name(), dtype, &[2]).unwrap();
            let bytes = lent.bytes();
            assert_eq!(bytes, vec![0; 2 * dtype.size().unwrap()]);
            assert!(bytes.as_ptr().addr().is_multiple_of(dtype.size().unwrap()));
            bytes[0] = if dtype == DType::Bool { truth } else { 7 };
        }
        for dtype in [DType::F16, DType::I8, DType::I16, DType::U16, DType::Other] {
            let error = array(builder, "other", dtype, &[2]).err().unwrap();
            assert!(error.message().contains("u64, bool or bf16, and `other` is"), "{error}");
        }
        Ok(())
    }

    #[test]
    fn arrays_of_every_type_are_lent_and_read_and_truth_values_are_checked() {
        let root = tempfile::tempdir().unwrap();
        waycairn_durable::ensure_format(root.path()).unwrap();
        let cache = Cache::open(root.path()).unwrap();
        let recipe = Recipe::new("arrays", "gpt", &json!({}), Implementation::new(1)).unwrap();
        for wrong in [2, 255] {
            let error = cache.get_or_build(&recipe, wrong, build).unwrap_err().to_string();
            assert!(
                error.contains(&format!("`bool.npy` of truth values has the byte {wrong} at element 0")),
                "{error}"
            );
        }
        let built = cache.get_or_build(&recipe, 1, build).unwrap();
        let shelved = Shelved::new(|| Ok(built.artifact.clone()));
        let shelf = BTreeMap::from([("arrays".to_owned(), shelved)]);
        assert!(shown(&shelf, "other").unwrap_err().message().contains("no product `other` here"));
        let data = shown(&shelf, "arrays").unwrap();
        assert_eq!(data.arrays.len(), ARRAY_TYPES.len());
        for view in data.arrays {
            let mut expected = vec![0; 2 * view.dtype().size().unwrap()];
            expected[0] = if view.dtype() == DType::Bool { 1 } else { 7 };
            assert_eq!((view.name(), view.bytes()), (view.dtype().name(), &expected[..]));
        }
        assert!(built.artifact.array::<bool>("bool").unwrap().values()[0]);
    }
}
