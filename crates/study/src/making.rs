//! A product in the making, as its plugin sees it; and the node of a run, as the run's metrics and plots see it.

use std::collections::BTreeMap;

use serde_json::Value;
use waycairn_analysis_host::{
    AnalysisHost, Bytes, DType, ForeignProduct, HostError, NodeInfo, OwnedTensor, ProductData, ProductHost,
    RecordBatchReader, TensorView,
};
use waycairn_cache::{ArrayMut, ArrayView, Artifact, Bf16, Builder, CacheError, Dtype, Element};
use waycairn_train::Stop;

use crate::error::StudyError;
use crate::plan::reasons;

/// What a builder is given besides its recipe.
pub(crate) struct Context<'a> {
    pub(crate) product: &'a ForeignProduct,
    /// The node that the model was taken at.
    pub(crate) node: &'a dyn AnalysisHost,
    pub(crate) stop: &'a Stop,
}

/// Builds one product.
pub(crate) fn build(builder: &Builder<'_>, context: Context<'_>) -> Result<(), StudyError> {
    let declared = context.product.declaration();
    let model = declared.model.then_some(crate::model::MODEL);
    let mut dependencies = BTreeMap::new();
    for name in declared.products.iter().map(String::as_str).chain(model) {
        dependencies.insert(name.to_owned(), Opened::new(&builder.dependency(name)?)?);
    }
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
    dependencies: BTreeMap<String, Opened>,
    context: &'a Context<'a>,
}

impl ProductHost for Making<'_> {
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
        tracing::info!(product, done, total, "{what}");
    }

    fn cancelled(&self) -> bool {
        self.context.stop.is_requested()
    }
}

/// The node of a run with the products of its study.
pub(crate) struct StudyNode<'a> {
    pub(crate) node: &'a dyn AnalysisHost,
    pub(crate) products: BTreeMap<String, Opened>,
    pub(crate) study: Value,
    pub(crate) stop: &'a Stop,
}

impl AnalysisHost for StudyNode<'_> {
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
    fn functions(&self) -> Option<Vec<String>> {
        self.node.functions()
    }

    ) -> Result<Box<dyn RecordBatchReader + Send>, HostError> {
        self.node.scalars(expression, keys)
    }

    fn product(&self, name: &str) -> Result<ProductData<'_>, HostError> {
        shown(&self.products, name)
    }

    fn call(&self, function: &str, inputs: &[OwnedTensor]) -> Result<Vec<OwnedTensor>, HostError> {
        self.node.call(function, inputs)
    }

    fn study(&self) -> Value {
        self.study.clone()
    }

    fn cancelled(&self) -> bool {
        self.stop.is_requested()
    }
}

/// An artifact with its arrays mapped, so that views of it can be borrowed.
pub(crate) struct Opened {
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
    pub(crate) fn new(artifact: &Artifact) -> Result<Self, CacheError> {
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

fn shown<'a>(opened: &'a BTreeMap<String, Opened>, name: &str) -> Result<ProductData<'a>, HostError> {
    let opened = opened
        .get(name)
        .ok_or_else(|| HostError::unavailable(format!("there is no product `{name}` here")))?;
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
