//! A study without a store: settings, products in memory, and the weights of a network.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use waycairn_analysis_api::stream;
use waycairn_analysis_host::{
    AnalysisHost, Bytes, Checked, DType, ForeignAnalysis, ForeignProduct, HostError, Kind, Library, NodeInfo,
    Outputs, OwnedTensor, ProductData, ProductHost, RecordBatchReader, TensorView,
};

static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let file = format!("{prefix}waycairn_gaussian_study{suffix}");
    let path: PathBuf = std::env::current_exe().unwrap().with_file_name(file);
    Library::open(&path).unwrap()
});

/// How many threads the library is told that it may have, when it is first called.
pub(crate) static THREADS: AtomicUsize = AtomicUsize::new(2);

pub(crate) fn library() -> &'static Library {
    &LIBRARY
}

pub(crate) fn product(name: &str) -> &'static ForeignProduct {
    library().products().iter().find(|product| product.declaration().name == name).unwrap()
}

/// A metric and a plot may have one name.
pub(crate) fn analysis(kind: Kind, name: &str) -> &'static ForeignAnalysis {
    let named = |known: &&ForeignAnalysis| {
        (known.declaration().kind, known.declaration().name.as_str()) == (kind, name)
    };
    library().analyses().iter().find(named).unwrap()
}

/// Settings of one member, and the weights of its model.
#[derive(Clone)]
pub(crate) struct Study {
    pub(crate) training: Value,
    pub(crate) analysis: Value,
    pub(crate) member: String,
    pub(crate) weights: Vec<OwnedTensor>,
}

impl Study {
    /// The smoke profile of one prior.
    pub(crate) fn smoke(dimension: usize, infer: &[&str], prior: &str) -> Self {
        let training = json!({
            "experiment": "nre", "seed": 0, "prior": prior,
            "priors": {"odd": {"family": "normal", "by_parameter": {"mean:0": "grid"}}},
            "problem": {
                "dimension": dimension, "infer": infer, "fixed_mean": 5.0, "fixed_std": 2.0, "fixed": {}, "overrides": {},
            },
            "parameters": {
                "mean": {
                    "low": 0.0, "high": 10.0, "normal_mean": 5.0, "normal_std": 4.0, "exponential_rate": 0.1, "grid_step": 0.2,
                },
                "std": {
                    "low": 0.2, "high": 4.0, "normal_mean": 2.0, "normal_std": 0.7, "exponential_rate": 0.1, "grid_step": 0.2,
                },
            },
            "data": {"train_size": 1024, "validation_size": 256, "test_size": 256},
            "model": {
                "kind": "mlp", "hidden": [32, 32], "width": 16, "blocks": 2, "activation": "relu", "dropout": 0.0,
            },
            "training": {"epochs": 2, "batch_size": 128, "learning_rate": 0.001, "evaluation_batch_size": 2048},
        });
        let smoke = json!({
            "inference": {
                "truth_design": "grid", "truth_points_per_axis": 7, "candidate_count": 256, "diagnostic_cases": 2,
            },
            "verification": {
                "pairs": 4, "samples_per_endpoint": 32, "source_samples": 64, "target_samples": 64, "directions": 4,
                "marginal_samples": 128, "normalization_thetas": 4,
            },
            "showcase": {"samples": 256, "bins": 30},
            "calibration": {"cases": 40},
        });
        let analysis = library().resolve_settings(&smoke).unwrap();
        let mut study = Self { training, analysis, member: format!("{prior}-r0"), weights: Vec::new() };
        study.weights = study.drawn_weights();
        study
    }

    /// Changes one setting, `analysis.inference.levels` for one.
    pub(crate) fn set(mut self, path: &str, value: Value) -> Self {
        let (side, path) = path.split_once('.').unwrap();
        let side = if side == "training" { &mut self.training } else { &mut self.analysis };
        *side.pointer_mut(&format!("/{}", path.replace('.', "/"))).unwrap() = value;
        self
    }

    /// Lists metrics and plots, as a study does those that are wanted.
    pub(crate) fn wanting(mut self, metrics: &[&str], plots: &[&str]) -> Self {
        self.analysis["metrics"] = json!(metrics);
        self.analysis["plots"] = json!(plots);
        self
    }

    pub(crate) fn dimension(&self) -> usize {
        self.training["problem"]["dimension"].as_u64().unwrap() as usize
    }

    /// Weights as a network begins with, of the architecture that the settings say.
    pub(crate) fn drawn_weights(&self) -> Vec<OwnedTensor> {
        let model = &self.training["model"];
        let parameters = self.estimate("training")["inferred_parameters"].as_u64().unwrap() as usize;
        let inputs = self.dimension() + parameters;
        let number = |name: &str| model[name].as_u64().unwrap() as usize;
        let layers: Vec<(String, usize, usize)> = if model["kind"] == "mlp" {
            let hidden =
                model["hidden"].as_array().unwrap().iter().map(|width| width.as_u64().unwrap() as usize);
            let widths: Vec<usize> = [inputs].into_iter().chain(hidden).chain([1]).collect();
            let pairs = widths.windows(2).enumerate();
            pairs.map(|(index, pair)| (format!("layers.{index}"), pair[0], pair[1])).collect()
        } else {
            let width = number("width");
            let blocks = (0..number("blocks")).flat_map(|index| {
                ["inner", "outer"].map(|part| (format!("blocks.{index}.{part}"), width, width))
            });
            [("input".to_owned(), inputs, width)]
                .into_iter()
                .chain(blocks)
                .chain([("output".to_owned(), width, 1)])
                .collect()
        };
        let mut rng = stream(0, "model", Some(&self.member));
        let mut tensors = Vec::new();
        for (name, inputs, outputs) in layers {
            let bound = 1.0 / (inputs as f64).sqrt();
            let mut draw = |count: usize| -> Vec<f32> {
                (0..count).map(|_| ((2.0 * rng.uniform() - 1.0) * bound) as f32).collect()
            };
            let (weight, bias) = (draw(inputs * outputs), draw(outputs));
            tensors.push(
                OwnedTensor::from_f32(format!("{name}.weight"), vec![inputs, outputs], &weight).unwrap(),
            );
            tensors.push(OwnedTensor::from_f32(format!("{name}.bias"), vec![outputs], &bias).unwrap());
        }
        tensors
    }

    pub(crate) fn select(&self, name: &str) -> Result<Value, String> {
        product(name).select(&self.training, &self.analysis, &self.member).map_err(|error| error.to_string())
    }

    pub(crate) fn selections(&self) -> BTreeMap<String, Value> {
        let names = library().products().iter().map(|product| product.declaration().name.clone());
        names.map(|name| (name.clone(), self.select(&name).unwrap())).collect()
    }

    pub(crate) fn estimate(&self, name: &str) -> Value {
        product(name).estimate(&self.select(name).unwrap()).unwrap()
    }

    pub(crate) fn check(&self, name: &str) -> Checked {
        product(name).check(&self.select(name).unwrap()).unwrap()
    }

    /// Builds products, each after what it depends on.
    pub(crate) fn build(&self, names: &[&str]) -> Built {
        let mut built = Built::default();
        for name in names {
            self.add(name, &mut built);
        }
        built
    }

    pub(crate) fn build_all(&self) -> Built {
        let names: Vec<&str> =
            library().products().iter().map(|known| known.declaration().name.as_str()).collect();
        self.build(&names)
    }

    fn add(&self, name: &str, built: &mut Built) {
        if built.0.contains_key(name) {
            return;
        }
        for dependency in &product(name).declaration().products {
            self.add(dependency, built);
        }
        let stored = self.try_build(name, built).unwrap_or_else(|error| panic!("{name}: {error}"));
        built.0.insert(name.to_owned(), stored);
    }

    /// Builds one product over what it depends on.
    pub(crate) fn try_build(&self, name: &str, built: &Built) -> Result<Stored, String> {
        let settings = self.select(name)?;
        let views: Vec<TensorView<'_>> = self.weights.iter().map(OwnedTensor::view).collect();
        let making = Making { settings, built, views, made: RefCell::default(), steps: Cell::new(u64::MAX) };
        product(name).build(&making).map_err(|error| error.to_string())?;
        Ok(making.made.into_inner())
    }

    /// Builds one product whose host asks it to end at that step.
    pub(crate) fn cancelled(&self, name: &str, built: &Built, at: u64) -> String {
        let settings = self.select(name).unwrap();
        let views: Vec<TensorView<'_>> = self.weights.iter().map(OwnedTensor::view).collect();
        let making = Making { settings, built, views, made: RefCell::default(), steps: Cell::new(at) };
        product(name).build(&making).unwrap_err().to_string()
    }

    /// What a metric answers.
    pub(crate) fn metric(&self, name: &str, built: &Built) -> Result<Value, String> {
        Ok(self.run(Kind::Metric, name, built)?.0.metric.unwrap())
    }

    /// What a metric or a plot gives that sees the settings which it declares, and the products that it asked for.
    pub(crate) fn run(
        &self,
        kind: Kind,
        name: &str,
        built: &Built,
    ) -> Result<(Outputs, BTreeSet<String>), String> {
        let analysis = analysis(kind, name);
        let views = self.weights.iter().map(OwnedTensor::view).collect();
        let study = self.settings_at(&analysis.declaration().needs.study);
        let node = Node { study, built, views, asked: RefCell::default() };
        let outputs = analysis.run(&node, &Value::Null).map_err(|error| error.to_string())?;
        Ok((outputs, node.asked.into_inner()))
    }

    /// The settings at paths, and nothing else; where there are none, what an analysis sees outside of a study.
    fn settings_at(&self, paths: &[String]) -> Value {
        let whole = json!({"training": self.training, "analysis": self.analysis, "member": self.member});
        let mut given = json!({});
        for path in paths {
            let Some(value) = whole.pointer(&format!("/{}", path.replace('.', "/"))) else { continue };
            let mut at = &mut given;
            for step in path.split('.') {
                at = at.as_object_mut().unwrap().entry(step).or_insert_with(|| json!({}));
            }
            *at = value.clone();
        }
        if given == json!({}) { Value::Null } else { given }
    }
}

/// The products of a member.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Built(pub(crate) BTreeMap<String, Stored>);

impl Built {
    pub(crate) fn product(&self, name: &str) -> &Stored {
        &self.0[name]
    }

    pub(crate) fn f64(&self, name: &str, array: &str) -> &[f64] {
        bytemuck::cast_slice(self.product(name).bytes(array, DType::F64))
    }

    pub(crate) fn f32(&self, name: &str, array: &str) -> &[f32] {
        bytemuck::cast_slice(self.product(name).bytes(array, DType::F32))
    }
}

/// One product.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Stored {
    pub(crate) arrays: BTreeMap<String, Array>,
    pub(crate) metadata: BTreeMap<String, Value>,
    pub(crate) json: BTreeMap<String, String>,
}

impl Stored {
    fn bytes(&self, name: &str, dtype: DType) -> &[u8] {
        let array = &self.arrays[name];
        assert_eq!(array.dtype, dtype, "{name}");
        array.bytes()
    }

    fn data(&self) -> ProductData<'_> {
        let views = self
            .arrays
            .iter()
            .map(|(name, array)| TensorView::new(name, array.dtype, &array.shape, array.bytes()).unwrap());
        ProductData {
            key: "ab".to_owned(),
            metadata: json!(self.metadata),
            arrays: views.collect(),
            json: self.json.clone().into_iter().collect(),
        }
    }
}

#[derive(Clone, PartialEq)]
pub(crate) struct Array {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    /// Aligned for every element.
    words: Vec<u64>,
    length: usize,
}

impl Array {
    /// An array of one axis.
    pub(crate) fn of<T: bytemuck::NoUninit>(dtype: DType, values: &[T]) -> Self {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let mut words = vec![0; bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Self { dtype, shape: vec![values.len()], words, length: bytes.len() }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.length]
    }
}

struct Making<'a> {
    settings: Value,
    built: &'a Built,
    views: Vec<TensorView<'a>>,
    made: RefCell<Stored>,
    /// Steps until it is to end.
    steps: Cell<u64>,
}

struct Region<'a> {
    name: String,
    array: Array,
    made: &'a RefCell<Stored>,
}

impl Bytes for Region<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.array.words)[..self.array.length]
    }
}

impl Drop for Region<'_> {
    fn drop(&mut self) {
        self.made.borrow_mut().arrays.insert(std::mem::take(&mut self.name), self.array.clone());
    }
}

impl ProductHost for Making<'_> {
    fn threads(&self) -> usize {
        THREADS.load(Ordering::Relaxed)
    }

    fn settings(&self) -> &Value {
        &self.settings
    }

    fn product(&self, name: &str) -> Result<ProductData<'_>, HostError> {
        Ok(self.built.product(name).data())
    }

    fn array(&self, name: &str, dtype: DType, shape: &[usize]) -> Result<Box<dyn Bytes + '_>, HostError> {
        let length = shape.iter().product::<usize>() * dtype.size().unwrap();
        let array = Array { dtype, shape: shape.to_vec(), words: vec![0; length.div_ceil(8)], length };
        Ok(Box::new(Region { name: name.to_owned(), array, made: &self.made }))
    }

    fn json(&self, name: &str, _: &str) -> Result<(), HostError> {
        Err(HostError::invalid(name))
    }

    fn metadata(&self, key: &str, value: Value) -> Result<(), HostError> {
        self.made.borrow_mut().metadata.insert(key.to_owned(), value);
        Ok(())
    }

    fn weights(&self) -> Result<&[TensorView<'_>], HostError> {
        Ok(&self.views)
    }

    fn call(&self, function: &str, _: &[OwnedTensor]) -> Result<Vec<OwnedTensor>, HostError> {
        panic!("`{function}` is called, and logits are the library's own")
    }

    fn cancelled(&self) -> bool {
        let left = self.steps.get();
        self.steps.set(left.saturating_sub(1));
        left == 0
    }
}

/// A node in a study that has the products.
struct Node<'a> {
    study: Value,
    built: &'a Built,
    views: Vec<TensorView<'a>>,
    asked: RefCell<BTreeSet<String>>,
}

impl AnalysisHost for Node<'_> {
    fn threads(&self) -> usize {
        THREADS.load(Ordering::Relaxed)
    }

    fn node(&self) -> NodeInfo {
        NodeInfo { name: "nre.base.uniform-r0".into(), nonce: "00".into(), seq: 9, address: "a".into() }
    }

    fn parents(&self) -> Vec<String> {
        Vec::new()
    }

    fn experiment_settings(&self) -> Value {
        Value::Null
    }

    fn weights(&self) -> Result<&[TensorView<'_>], HostError> {
        Ok(&self.views)
    }

    fn batch(&self) -> Result<Vec<OwnedTensor>, HostError> {
        panic!("the batch is not read")
    }

    fn forward(&self, _: &[OwnedTensor]) -> Result<Vec<OwnedTensor>, HostError> {
        panic!("the model is not run")
    }

    fn scalars(&self, _: &str, _: &[String]) -> Result<Box<dyn RecordBatchReader + Send>, HostError> {
        panic!("nothing recorded is read")
    }

    fn product(&self, name: &str) -> Result<ProductData<'_>, HostError> {
        self.asked.borrow_mut().insert(name.to_owned());
        Ok(self.built.product(name).data())
    }

    fn study(&self) -> Value {
        self.study.clone()
    }
}
