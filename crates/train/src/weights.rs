//! A module's parameters as named host tensors, and back.

use std::collections::BTreeSet;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{DType, Tensor, TensorData};
use safetensors::SafeTensors;
use waycairn_durable::Digest;

use crate::data::digest_tensors;

/// One parameter of a module.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    /// Dotted module path.
    pub(crate) path: String,
    /// What Burn calls it in this instance.
    pub(crate) id: ParamId,
    /// Number of dimensions.
    pub(crate) rank: usize,
    /// Number of values.
    pub(crate) len: usize,
}

/// One named tensor on the host.
#[derive(Clone, Debug)]
pub(crate) struct NamedTensor {
    pub(crate) name: String,
    pub(crate) data: TensorData,
}

/// What did not fit when weights were loaded by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mismatch {
    /// Parameters of the model that the checkpoint does not have.
    pub missing: Vec<String>,
    /// Tensors of the checkpoint that the model does not have.
    pub unexpected: Vec<String>,
    /// Name, what the checkpoint has, what the model needs.
    pub different: Vec<(String, String, String)>,
}

impl Mismatch {
    /// Whether everything fitted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.different.is_empty()
    }

    /// Says in one line what did not fit, the first few of each kind by name.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut parts = Vec::new();
        if !self.missing.is_empty() {
            parts.push(format!("not in the checkpoint: {}", first(&self.missing, ", ")));
        }
        if !self.unexpected.is_empty() {
            parts.push(format!("not in the model: {}", first(&self.unexpected, ", ")));
        }
        if !self.different.is_empty() {
            let say = |(name, saved, wanted): &(String, String, String)| {
                format!("{name} is {saved}, the model needs {wanted}")
            };
            let different: Vec<String> = self.different.iter().map(say).collect();
            parts.push(first(&different, "; "));
        }
        parts.join("; ")
    }
}

/// A model has hundreds of tensors; the first few tell what kind they are of.
fn first(all: &[String], between: &str) -> String {
    const SHOWN: usize = 3;
    let mut text = all.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(between);
    if all.len() > SHOWN {
        text.push_str(&format!("{between}and {} more", all.len() - SHOWN));
    }
    text
}

#[derive(Default)]
struct Path(Vec<String>);

impl Path {
    fn enter(&mut self, name: &str) {
        self.0.push(name.to_owned());
    }

    fn exit(&mut self) {
        self.0.pop();
    }

    fn dotted(&self) -> String {
        self.0.join(".")
    }
}

/// Lists the parameters in module order.
pub(crate) fn parameters<M: Module>(model: &M) -> Vec<Parameter> {
    #[derive(Default)]
    struct List {
        path: Path,
        found: Vec<Parameter>,
    }
    impl ModuleVisitor for List {
        fn enter_module(&mut self, name: &str, _container: &str) {
            self.path.enter(name);
        }

        fn exit_module(&mut self, _name: &str, _container: &str) {
            self.path.exit();
        }

        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.found.push(Parameter {
                path: self.path.dotted(),
                id: param.id,
                rank: D,
                len: param.val().shape().num_elements(),
            });
        }
    }
    let mut list = List::default();
    model.visit(&mut list);
    list.found
}

/// Copies the parameters to the host, sorted by name.
pub(crate) fn weights<M: Module>(model: &M) -> Vec<NamedTensor> {
    #[derive(Default)]
    struct Copy {
        path: Path,
        found: Vec<NamedTensor>,
    }
    impl ModuleVisitor for Copy {
        fn enter_module(&mut self, name: &str, _container: &str) {
            self.path.enter(name);
        }

        fn exit_module(&mut self, _name: &str, _container: &str) {
            self.path.exit();
        }

        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.found.push(NamedTensor { name: self.path.dotted(), data: param.val().inner().into_data() });
        }
    }
    let mut copy = Copy::default();
    model.visit(&mut copy);
    copy.found.sort_by(|left, right| left.name.cmp(&right.name));
    copy.found
}

/// Puts named tensors into a module; parameters that do not fit keep their values and are listed.
pub(crate) fn load<M: Module>(model: M, file: &SafeTensors<'_>) -> (M, Mismatch) {
    struct Load<'a> {
        path: Path,
        file: &'a SafeTensors<'a>,
        seen: BTreeSet<String>,
        mismatch: Mismatch,
    }
    impl ModuleMapper for Load<'_> {
        fn enter_module(&mut self, name: &str, _container: &str) {
            self.path.enter(name);
        }

        fn exit_module(&mut self, _name: &str, _container: &str) {
            self.path.exit();
        }

        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let name = self.path.dotted();
            let Ok(saved) = self.file.tensor(&name) else {
                self.mismatch.missing.push(name);
                return param;
            };
            self.seen.insert(name.clone());
            let (id, old, mapper) = param.consume();
            let wanted = (old.dtype(), old.shape().as_slice().to_vec());
            let data = dtype(saved.dtype())
                .filter(|dtype| (*dtype, saved.shape()) == (wanted.0, wanted.1.as_slice()))
                .and_then(|dtype| {
                    let bytes = saved.data().to_vec();
                    TensorData::try_from_bytes_vec(bytes, saved.shape().to_vec(), dtype).ok()
                });
            let Some(data) = data else {
                self.mismatch.different.push((
                    name,
                    format!("{:?} {:?}", saved.dtype(), saved.shape()),
                    format!("{:?} {:?}", wanted.0, wanted.1),
                ));
                return Param::from_mapped_value(id, old, mapper);
            };
            let new = Tensor::from_data(data, &old.device()).set_require_grad(old.is_require_grad());
            Param::from_mapped_value(id, new, mapper)
        }
    }
    let mut load = Load { path: Path::default(), file, seen: BTreeSet::new(), mismatch: Mismatch::default() };
    let model = model.map(&mut load);
    let mut mismatch = load.mismatch;
    mismatch.unexpected =
        file.names().into_iter().filter(|name| !load.seen.contains(*name)).map(str::to_owned).collect();
    mismatch.unexpected.sort();
    (model, mismatch)
}

/// Returns the digest of named tensors, recorded as `model/sha256` for the weights.
pub(crate) fn digest(tensors: &[NamedTensor]) -> Option<Digest> {
    let names: Option<Vec<&'static str>> =
        tensors.iter().map(|tensor| dtype_name(tensor.data.dtype())).collect();
    Some(digest_tensors(tensors.iter().zip(names?).map(|(tensor, dtype)| {
        (tensor.name.as_str(), dtype, tensor.data.shape().as_slice(), tensor.data.as_bytes())
    })))
}

/// Returns safetensors' name of a number format that weights may have.
pub(crate) fn dtype_name(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::F64 => Some("F64"),
        DType::F32 => Some("F32"),
        DType::F16 => Some("F16"),
        DType::BF16 => Some("BF16"),
        _ => None,
    }
}

/// Returns Burn's number format for one of safetensors.
pub(crate) fn dtype(dtype: safetensors::Dtype) -> Option<DType> {
    match dtype {
        safetensors::Dtype::F64 => Some(DType::F64),
        safetensors::Dtype::F32 => Some(DType::F32),
        safetensors::Dtype::F16 => Some(DType::F16),
        safetensors::Dtype::BF16 => Some(DType::BF16),
        _ => None,
    }
}
