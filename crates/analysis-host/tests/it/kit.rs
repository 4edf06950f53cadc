//! A host with one node, and the libraries that cargo built beside this test.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatchReader;
use serde_json::{Value, json};
use waycairn_analysis_host::{
    AnalysisHost, DType, ForeignAnalysis, HostError, Library, NodeInfo, OwnedTensor, ProductData, TensorView,
};

/// The library of a plugin that this crate names as a dependency for its tests: cargo builds it before the test,
/// and leaves it beside the test's program (`target/<profile>/deps`).
pub fn library(name: &str) -> PathBuf {
    let file = format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let program = std::env::current_exe().unwrap();
    let path = program.with_file_name(&file);
    assert!(path.exists(), "`{}` is not built; it is a dev-dependency", path.display());
    path
}

pub fn summary() -> PathBuf {
    library("waycairn_summary")
}

pub fn hostile() -> PathBuf {
    library("waycairn_hostile")
}

/// One analysis of a library.
pub fn analysis(path: &Path, name: &str) -> ForeignAnalysis {
    let library = Library::open(path).unwrap();
    library.analyses().iter().find(|a| a.declaration().name == name).unwrap().clone()
}

/// What a panicking host does.
#[derive(Clone, Copy, PartialEq)]
pub enum Temper {
    Good,
    NoBatch,
    ForwardPanics,
    ScalarsPanic,
}

/// A node at seq 2 with two weights, a batch, a model that doubles, and two recorded keys.
pub struct FakeHost {
    pub temper: Temper,
    /// What it says that computes.
    pub threads: usize,
    /// The elements of both weights, little-endian.
    pub bytes: Vec<u8>,
    shapes: [Vec<usize>; 2],
}

impl FakeHost {
    pub fn new(temper: Temper) -> Self {
        let values = [1.0_f32, 2.0, 3.0, 4.0, -5.0, 0.5];
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self { temper, threads: 3, bytes, shapes: [vec![2, 2], vec![2]] }
    }

    pub fn views(&self) -> Vec<TensorView<'_>> {
        vec![
            TensorView::new("layer.weight", DType::F32, &self.shapes[0], &self.bytes[..16]).unwrap(),
            TensorView::new("layer.bias", DType::F32, &self.shapes[1], &self.bytes[16..]).unwrap(),
        ]
    }

    /// The host itself borrows its views.
    pub fn with<R>(&self, body: impl FnOnce(&dyn AnalysisHost) -> R) -> R {
        let node = Node { host: self, views: self.views(), study: None };
        body(&node)
    }

    /// As [`FakeHost::with`], in a study.
    pub fn with_study<R>(&self, study: Study, body: impl FnOnce(&dyn AnalysisHost) -> R) -> R {
        let node = Node { host: self, views: self.views(), study: Some(study) };
        body(&node)
    }
}

/// A study with one product and one function.
pub struct Study {
    pub functions: Vec<String>,
    scores: Vec<u8>,
}

impl Study {
    pub fn new() -> Self {
        Self {
            functions: vec!["double".to_owned()],
            scores: [10.0_f64, 20.0].iter().flat_map(|value| value.to_le_bytes()).collect(),
        }
    }
}

struct Node<'a> {
    host: &'a FakeHost,
    views: Vec<TensorView<'a>>,
    study: Option<Study>,
}

impl AnalysisHost for Node<'_> {
    fn threads(&self) -> usize {
        self.host.threads
    }

    fn product(&self, name: &str) -> Result<ProductData<'_>, HostError> {
        match &self.study {
            Some(study) if name == "sound" => Ok(ProductData {
                key: "ab".to_owned(),
                metadata: json!({"rows": 1}),
                arrays: vec![TensorView::new("scores", DType::F64, &[2], &study.scores)?],
                json: vec![("about".to_owned(), "\"text\"".to_owned())],
            }),
            _ => Err(HostError::unavailable(format!(
                "there is no product `{name}` here: products belong to a study; run this analysis in one"
            ))),
        }
    }

    fn call(&self, function: &str, inputs: &[OwnedTensor]) -> Result<Vec<OwnedTensor>, HostError> {
        match &self.study {
            Some(_) if function == "double" => {
                let doubled: Vec<f32> =
                    inputs[0].view().iter_f64()?.map(|value| 2.0 * value as f32).collect();
                Ok(vec![OwnedTensor::from_f32("doubled", inputs[0].shape().to_vec(), &doubled)?])
            }
            _ => Err(HostError::unavailable(format!("this experiment has no function `{function}`"))),
        }
    }

    fn functions(&self) -> Option<Vec<String>> {
        self.study.as_ref().map(|study| study.functions.clone())
    }

    fn study(&self) -> Value {
        match self.study {
            Some(_) => json!({
                "training": {"problem": {"dimension": 2}, "seed": 7}, "analysis": {"x": {}}, "member": "uniform",
            }),
            None => Value::Null,
        }
    }

    fn cancelled(&self) -> bool {
        self.study.is_some()
    }

    fn node(&self) -> NodeInfo {
        NodeInfo { name: "run".into(), nonce: "00ff".into(), seq: 2, address: "the-address".into() }
    }

    fn parents(&self) -> Vec<String> {
        vec!["the-parent".into()]
    }

    fn experiment_settings(&self) -> Value {
        json!({"learning_rate": 0.1})
    }

    fn weights(&self) -> Result<&[TensorView<'_>], HostError> {
        Ok(&self.views)
    }

    fn batch(&self) -> Result<Vec<OwnedTensor>, HostError> {
        if self.host.temper == Temper::NoBatch {
            return Err(HostError::unavailable("the text of this run is gone"));
        }
        Ok(vec![OwnedTensor::from_i64("tokens", vec![1, 3], &[7, 8, 9])?])
    }

    fn forward(&self, inputs: &[OwnedTensor]) -> Result<Vec<OwnedTensor>, HostError> {
        assert!(self.host.temper != Temper::ForwardPanics, "the model panics");
        let doubled: Vec<f32> = inputs[0].view().iter_f64()?.map(|value| 2.0 * value as f32).collect();
        Ok(vec![OwnedTensor::from_f32("logits", inputs[0].shape().to_vec(), &doubled)?])
    }

    fn scalars(
        &self,
        expression: &str,
        keys: &[String],
    ) -> Result<Box<dyn RecordBatchReader + Send>, HostError> {
        if !expression.is_empty() {
            return Err(HostError::invalid(format!("expected a key at 0 in `{expression}`")));
        }
        assert_eq!(keys, ["train/loss", "val/loss"]);
        let schema = Arc::new(Schema::new(vec![
            Field::new("node", DataType::Utf8, false),
            Field::new("train/loss", DataType::Float64, true),
            Field::new("val/loss", DataType::Int64, true),
        ]));
        let batch = |names: Vec<&str>, train: Vec<Option<f64>>, val: Vec<Option<i64>>| {
            let columns: Vec<Arc<dyn Array>> = vec![
                Arc::new(StringArray::from(names)),
                Arc::new(Float64Array::from(train)),
                Arc::new(Int64Array::from(val)),
            ];
            RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
        };
        let first = batch(vec!["a", "b", "c"], vec![Some(1.5), None, Some(0.25)], vec![None, Some(4), None]);
        // A slice has an offset into its buffers.
        let second =
            batch(vec!["x", "d", "e"], vec![None, Some(9.0), None], vec![None, None, Some(6)]).slice(1, 2);
        let panics = self.host.temper == Temper::ScalarsPanic;
        let batches = vec![first, second].into_iter().enumerate().map(move |(index, batch)| {
            assert!(!panics || index == 0, "the query panics");
            Ok::<_, ArrowError>(batch)
        });
        Ok(Box::new(RecordBatchIterator::new(batches, schema)))
    }
}
