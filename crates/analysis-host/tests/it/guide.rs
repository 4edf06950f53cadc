//! The guide's plugins that run a model and that read what was recorded, over a model that is a table.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Float64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatchReader;
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};
use waycairn_analysis_host::{
    AnalysisHost, Bytes, DType, HostError, Kind, Library, NodeInfo, OwnedTensor, ProductData, ProductHost,
    TensorView,
};
use waycairn_durable::FileMapMut;

use crate::authors::authors;

const ROWS: usize = 3;
const TIME: usize = 2;
const VOCABULARY: usize = 4;

/// The model guesses the token after the one that it sees; its loss is the token.
const TOKENS: [i32; ROWS * TIME] = [0, 1, 2, 0, 1, 2];
/// The guesses are right in all but the first place.
const TARGETS: [i32; ROWS * TIME] = [2, 2, 3, 1, 2, 3];

fn integers(name: &str, values: &[i32]) -> OwnedTensor {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    OwnedTensor::new(name, DType::I32, vec![values.len() / TIME, TIME], bytes).unwrap()
}

fn numbers(input: &OwnedTensor) -> Vec<usize> {
    input.view().iter_f64().unwrap().map(|value| value as usize).collect()
}

/// A product in the making: each array is a mapped file.
struct Making {
    settings: Value,
    folder: TempDir,
    weights: bool,
}

struct Mapped(FileMapMut);

impl Bytes for Mapped {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl ProductHost for Making {
    fn threads(&self) -> usize {
        1
    }

    fn settings(&self) -> &Value {
        &self.settings
    }

    fn product(&self, name: &str) -> Result<ProductData<'_>, HostError> {
        panic!("`{name}` is not asked for")
    }

    fn array(&self, name: &str, dtype: DType, shape: &[usize]) -> Result<Box<dyn Bytes + '_>, HostError> {
        let bytes = shape.iter().product::<usize>() * dtype.size().unwrap();
        Ok(Box::new(Mapped(FileMapMut::create(&self.folder.path().join(name), bytes as u64).unwrap())))
    }

    fn json(&self, name: &str, _: &str) -> Result<(), HostError> {
        panic!("`{name}` is not made")
    }

    fn metadata(&self, key: &str, _: Value) -> Result<(), HostError> {
        panic!("`{key}` is not told")
    }

    fn batch(&self) -> Result<Vec<OwnedTensor>, HostError> {
        let mut batch = vec![integers("targets", &TARGETS), integers("tokens", &TOKENS)];
        if self.weights {
            let weights = [0.0, 1.0, 1.0, 1.0, 1.0, 1.0];
            batch.push(OwnedTensor::from_f32("weights", vec![ROWS, TIME], &weights)?);
        }
        Ok(batch)
    }

    fn forward(&self, inputs: &[OwnedTensor]) -> Result<Vec<OwnedTensor>, HostError> {
        let [tokens] = inputs else { panic!("{} inputs", inputs.len()) };
        assert_eq!(tokens.name(), "tokens");
        let mut logits = vec![0.0; tokens.view().elements() * VOCABULARY];
        for (place, token) in numbers(tokens).into_iter().enumerate() {
            logits[place * VOCABULARY + token + 1] = 1.0;
        }
        let shape = [tokens.shape(), &[VOCABULARY]].concat();
        Ok(vec![OwnedTensor::from_f32("logits", shape, &logits)?])
    }

    fn call(&self, function: &str, inputs: &[OwnedTensor]) -> Result<Vec<OwnedTensor>, HostError> {
        let [tokens, targets] = inputs else { panic!("{} inputs", inputs.len()) };
        assert_eq!((function, tokens.name(), targets.name()), ("loss", "tokens", "targets"));
        assert_eq!(tokens.shape(), targets.shape());
        let losses: Vec<f32> = numbers(tokens).into_iter().map(|token| token as f32).collect();
        Ok(vec![OwnedTensor::from_f32("loss", tokens.shape().to_vec(), &losses)?])
    }
}

/// The run's last node, with what was made and what was recorded.
struct Node<'a> {
    made: &'a [(String, Vec<u8>)],
    shape: [usize; 2],
}

impl AnalysisHost for Node<'_> {
    fn threads(&self) -> usize {
        1
    }

    fn node(&self) -> NodeInfo {
        NodeInfo { name: "gpt.baseline.r0".into(), nonce: "00ff".into(), seq: 9, address: "a".into() }
    }

    fn parents(&self) -> Vec<String> {
        Vec::new()
    }

    fn experiment_settings(&self) -> Value {
        Value::Null
    }

    fn weights(&self) -> Result<&[TensorView<'_>], HostError> {
        panic!("the weights are not read")
    }

    fn batch(&self) -> Result<Vec<OwnedTensor>, HostError> {
        panic!("the batch is not read")
    }

    fn forward(&self, _: &[OwnedTensor]) -> Result<Vec<OwnedTensor>, HostError> {
        panic!("the model is not run")
    }

    fn scalars(
        &self,
        expression: &str,
        keys: &[String],
    ) -> Result<Box<dyn RecordBatchReader + Send>, HostError> {
        assert_eq!(expression, "name = 'gpt.baseline.r0' and nonce = '00ff' and has train/loss");
        assert_eq!(keys, ["train/loss"]);
        let schema = Arc::new(Schema::new(vec![
            Field::new("node", DataType::Utf8, false),
            Field::new("train/loss", DataType::Float64, true),
        ]));
        let nodes = Arc::new(StringArray::from(vec!["a", "b", "c"]));
        let losses = Arc::new(Float64Array::from(vec![4.0, 3.5, 1.5]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![nodes, losses]).unwrap();
        Ok(Box::new(RecordBatchIterator::new([Ok(batch)], schema)))
    }

    fn product(&self, name: &str) -> Result<ProductData<'_>, HostError> {
        assert_eq!(name, "guessed");
        let arrays =
            self.made.iter().map(|(name, bytes)| TensorView::new(name, DType::F32, &self.shape, bytes));
        let arrays = arrays.collect::<Result<_, _>>()?;
        Ok(ProductData { key: "0a".into(), metadata: json!({}), arrays, json: Vec::new() })
    }
}

fn metric(library: &Path, node: &Node<'_>) -> Value {
    let library = Library::open(library).unwrap();
    let analysis = &library.analyses()[0];
    assert_eq!(analysis.declaration().kind, Kind::Metric);
    analysis.run(node, &json!({})).unwrap().metric.unwrap()
}

/// What the metric answers for so many rows of the batch.
fn guesses(rows: usize, weights: bool) -> (f64, f64) {
    let path = authors().library("guide_model");
    let library = Library::open(&path).unwrap();
    let guessed = &library.products()[0];
    assert!(guessed.declaration().model && guessed.declaration().backend);
    let analysis = library.resolve_settings(&json!({"guessing": {"rows": rows}})).unwrap();
    let settings = guessed.select(&json!({}), &analysis, "r0").unwrap();
    let making = Making { settings, folder: tempdir().unwrap(), weights };
    guessed.build(&making).unwrap();
    let read = |name: &str| (name.to_owned(), std::fs::read(making.folder.path().join(name)).unwrap());
    let made = ["hit", "loss", "weight"].map(read);
    let shape = [made[0].1.len() / 4 / TIME, TIME];
    let answer = metric(&path, &Node { made: &made, shape });
    (answer["perplexity"].as_f64().unwrap(), answer["accuracy"].as_f64().unwrap())
}

#[test]
fn the_guides_metric_runs_the_model_on_rows_of_the_batch() {
    let near = |(perplexity, accuracy): (f64, f64), loss: f64, right: f64| {
        assert!((perplexity.ln() - loss).abs() < 1e-9, "{perplexity}");
        assert!((accuracy - right).abs() < 1e-9, "{accuracy}");
    };
    near(guesses(0, false), 1.0, 5.0 / 6.0);
    near(guesses(7, false), 1.0, 5.0 / 6.0);
    near(guesses(1, false), 0.5, 0.5);
    // A place without weight counts neither in the loss nor among the guesses.
    near(guesses(1, true), 1.0, 1.0);
}

#[test]
fn the_guides_metric_of_recorded_losses_asks_for_its_own_run() {
    let node = Node { made: &[], shape: [0, TIME] };
    let answer = metric(&authors().library("guide_scalars"), &node);
    assert_eq!(answer, json!({"gain": 2.5, "nodes": 3}));
}
