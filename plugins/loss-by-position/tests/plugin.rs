//! The library as a study loads it: product, metric and plot, over a model that is a table.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use waycairn_analysis_host::{
    AnalysisHost, Bytes, DType, HostError, Kind, Library, NodeInfo, OwnedTensor, ProductData, ProductHost,
    RecordBatchReader, TensorView,
};

fn library() -> Library {
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let file = format!("{prefix}waycairn_loss_by_position{suffix}");
    let path: PathBuf = std::env::current_exe().unwrap().with_file_name(file);
    Library::open(&path).unwrap()
}

/// 40 rows of 3 tokens out of 4. The experiment says of each token that its loss is that of its position, and a little more
/// or less by turns.
const ROWS: usize = 40;
const CONTEXT: usize = 3;
const VOCABULARY: usize = 4;

fn tokens() -> Vec<i32> {
    (0..ROWS * CONTEXT).map(|index| (index * 7 % VOCABULARY) as i32).collect()
}

fn losses(rows: usize) -> Vec<f32> {
    let loss = |index: usize| {
        (index % CONTEXT) as f32 + if (index / CONTEXT).is_multiple_of(2) { 0.25 } else { -0.25 }
    };
    (0..rows * CONTEXT).map(loss).collect()
}

fn tensor(name: &str, values: &[i32]) -> Result<OwnedTensor, HostError> {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    OwnedTensor::new(name, DType::I32, vec![values.len() / CONTEXT, CONTEXT], bytes)
}

#[derive(Default)]
struct Making {
    settings: Value,
    arrays: RefCell<BTreeMap<String, Vec<f32>>>,
    metadata: RefCell<BTreeMap<String, Value>>,
    rows: RefCell<Vec<usize>>,
    weights: bool,
    cancelled: bool,
}

struct Array<'a> {
    name: String,
    values: Vec<f32>,
    host: &'a Making,
}

impl Bytes for Array<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.values)
    }
}

impl Drop for Array<'_> {
    fn drop(&mut self) {
        self.host.arrays.borrow_mut().insert(self.name.clone(), self.values.clone());
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
        Err(HostError::unavailable(name))
    }

    fn array(&self, name: &str, dtype: DType, shape: &[usize]) -> Result<Box<dyn Bytes + '_>, HostError> {
        assert_eq!(dtype, DType::F32);
        let values = vec![0.0; shape.iter().product()];
        Ok(Box::new(Array { name: name.to_owned(), values, host: self }))
    }

    fn json(&self, name: &str, _: &str) -> Result<(), HostError> {
        Err(HostError::invalid(name))
    }

    fn metadata(&self, key: &str, value: Value) -> Result<(), HostError> {
        self.metadata.borrow_mut().insert(key.to_owned(), value);
        Ok(())
    }

    fn batch(&self) -> Result<Vec<OwnedTensor>, HostError> {
        let mut batch = vec![tensor("targets", &tokens())?, tensor("tokens", &tokens())?];
        if self.weights {
            // The last position of no row counts.
            let weights: Vec<f32> = (0..ROWS * CONTEXT).map(|i| f32::from(i % CONTEXT != 2)).collect();
            batch.push(OwnedTensor::from_f32("weights", vec![ROWS, CONTEXT], &weights)?);
        }
        Ok(batch)
    }

    fn call(&self, function: &str, inputs: &[OwnedTensor]) -> Result<Vec<OwnedTensor>, HostError> {
        assert_eq!(function, "loss");
        let [tokens, targets] = inputs else { panic!("{} inputs", inputs.len()) };
        assert_eq!((tokens.name(), targets.name()), ("tokens", "targets"));
        let rows = tokens.view().shape()[0];
        let before: usize = self.rows.borrow().iter().sum();
        let expected = &self::tokens()[before * CONTEXT..(before + rows) * CONTEXT];
        assert_eq!(tokens.view().as_i32().unwrap(), expected);
        assert_eq!(targets.view().as_i32().unwrap(), expected);
        self.rows.borrow_mut().push(rows);
        Ok(vec![OwnedTensor::from_f32("loss", vec![rows, CONTEXT], &losses(rows))?])
    }

    fn cancelled(&self) -> bool {
        self.cancelled
    }
}

fn build(making: &Making) -> Result<(), String> {
    library().products()[0].build(making).map_err(|error| error.to_string())
}

fn settings(rows: usize) -> Value {
    json!({"analysis": {"position": {"rows": rows}}})
}

#[test]
fn the_product_has_the_mean_loss_of_each_position() {
    let making = Making { settings: settings(0), ..Making::default() };
    build(&making).unwrap();
    let arrays = making.arrays.borrow();
    assert_eq!(arrays["loss"], [0.0, 1.0, 2.0]);
    assert_eq!(*making.rows.borrow(), [16, 16, 8]);
    let metadata = making.metadata.borrow();
    assert_eq!((&metadata["rows"], &metadata["unit"]), (&json!(40), &json!("nats")));
}

#[test]
fn rows_can_be_fewer_and_weights_count() {
    let making = Making { settings: settings(5), ..Making::default() };
    build(&making).unwrap();
    assert_eq!(*making.rows.borrow(), [5]);
    assert_eq!(making.arrays.borrow()["loss"], [0.05, 1.05, 2.05]);
    let making = Making { settings: settings(0), weights: true, ..Making::default() };
    build(&making).unwrap();
    let loss = making.arrays.borrow()["loss"].clone();
    assert!(loss[1] == 1.0 && loss[2].is_nan());
    let making = Making { settings: settings(0), cancelled: true, ..Making::default() };
    assert!(build(&making).unwrap_err().ends_with("it was asked to end"));
}

#[test]
fn only_its_own_setting_is_in_the_key() {
    let library = library();
    assert_eq!(library.settings(), &json!({"position": {"rows": 0}}));
    let product = &library.products()[0];
    assert!(product.declaration().model && product.declaration().backend);
    assert_eq!(product.declaration().functions, ["loss"]);
    assert_eq!(product.declaration().sources.len(), 2);
    let study = json!({"position": {"rows": 7}, "plotting": {"dpi": 140}});
    assert_eq!(product.select(&json!({"seed": 1}), &study, "m").unwrap(), settings(7));
    let error = product.select(&json!({}), &json!({"position": {"rows": -1}}), "m").unwrap_err().to_string();
    assert!(error.contains("position.rows is no number of rows"), "{error}");
}

/// A node in a study that has the product.
struct Node;

impl AnalysisHost for Node {
    fn threads(&self) -> usize {
        1
    }

    fn node(&self) -> NodeInfo {
        NodeInfo { name: "gpt.base.0".into(), nonce: "00".into(), seq: 9, address: "a".into() }
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

    fn scalars(&self, _: &str, _: &[String]) -> Result<Box<dyn RecordBatchReader + Send>, HostError> {
        panic!("nothing recorded is read")
    }

    fn product(&self, name: &str) -> Result<ProductData<'_>, HostError> {
        const LOSS: [f32; 4] = [4.0, 3.0, 2.0, 1.0];
        assert_eq!(name, "position_losses");
        Ok(ProductData {
            key: "ab".to_owned(),
            metadata: json!({"rows": 40}),
            arrays: vec![TensorView::new("loss", DType::F32, &[4], bytemuck::cast_slice(&LOSS))?],
            json: Vec::new(),
        })
    }
}

#[test]
fn the_metric_and_the_plot_take_the_product_and_run_no_model() {
    let library = library();
    let [metric, plot] = library.analyses() else { panic!("two analyses") };
    assert_eq!((metric.declaration().kind, plot.declaration().kind), (Kind::Metric, Kind::Plot));
    let outputs = metric.run(&Node, &Value::Null).unwrap();
    assert_eq!(outputs.metric, Some(json!({"first": 4.0, "last": 1.0, "mean": 2.5, "ratio": 0.25})));
    let outputs = plot.run(&Node, &json!({"width": 300})).unwrap();
    let (name, media_type, bytes) = &outputs.files[0];
    assert_eq!((name.as_str(), media_type.as_str()), ("curve.svg", "image/svg+xml"));
    assert!(String::from_utf8(bytes.clone()).unwrap().starts_with("<svg width=\"300\" height=\"360\""));
}
