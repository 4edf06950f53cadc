//! The plots as a study loads them: each over the products that it needs, with their names and shapes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use waycairn_analysis_host::{
    AnalysisHost, DType, ForeignAnalysis, HostError, Kind, Library, NodeInfo, OwnedTensor, ProductData,
    RecordBatchReader, TensorView,
};

/// The plot of a name: a metric may have the same.
fn plot<'l>(library: &'l Library, name: &str) -> &'l ForeignAnalysis {
    let of_name = |analysis: &&ForeignAnalysis| {
        (analysis.declaration().kind, analysis.declaration().name.as_str()) == (Kind::Plot, name)
    };
    library.analyses().iter().find(of_name).unwrap()
}

fn library() -> Library {
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let file = format!("{prefix}waycairn_gaussian_study{suffix}");
    let path: PathBuf = std::env::current_exe().unwrap().with_file_name(file);
    Library::open(&path).unwrap()
}

/// A product in memory.
#[derive(Default)]
struct Kept {
    metadata: Value,
    arrays: Vec<Array>,
    history: Option<String>,
}

struct Array {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
    /// The bytes, so that they are aligned for every type.
    words: Vec<u64>,
    bytes: usize,
}

impl Kept {
    fn add(&mut self, name: &str, dtype: DType, shape: &[usize], bytes: &[u8]) {
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        });
        let (name, shape, words) = (name.to_owned(), shape.to_vec(), words.collect());
        self.arrays.push(Array { name, dtype, shape, words, bytes: bytes.len() });
    }

    fn f64(mut self, name: &str, shape: &[usize], value: impl Fn(usize) -> f64) -> Self {
        let count = shape.iter().product();
        let bytes: Vec<u8> = (0..count).flat_map(|index| value(index).to_le_bytes()).collect();
        self.add(name, DType::F64, shape, &bytes);
        self
    }

    fn f32(mut self, name: &str, shape: &[usize], value: impl Fn(usize) -> f64) -> Self {
        let count = shape.iter().product();
        let bytes: Vec<u8> = (0..count).flat_map(|index| (value(index) as f32).to_le_bytes()).collect();
        self.add(name, DType::F32, shape, &bytes);
        self
    }

    fn i64(mut self, name: &str, values: &[i64]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.add(name, DType::I64, &[values.len()], &bytes);
        self
    }

    fn said(mut self, metadata: Value) -> Self {
        self.metadata = metadata;
        self
    }
}

/// Something between 0 and 1 for each number.
fn spread(index: usize) -> f64 {
    (index as f64 * 0.618_033_988_75).fract()
}

/// The products of a study with two means and two levels: 6 cases, of which 2 are kept, and 400 candidates.
fn products() -> BTreeMap<&'static str, Kept> {
    let (n, l, p, k, r) = (6, 2, 2, 400, 2);
    let truth = |index: usize| 2.0 + index as f64 * 0.5;
    let mut inference = Kept::default().said(json!({
        "parameters": ["mean:0", "mean:1"], "levels": [0.68, 0.95], "targets": ["ratio", "exact"],
    }));
    inference = inference.i64("retained_cases", &[0, 5]);
    inference = inference.f64("ratio_mode", &[n, p], move |index| truth(index) + 0.2);
    let half = |index: usize| if (index / 2).is_multiple_of(2) { 0.5 } else { 1.0 };
    let case = |index: usize| index / 4 * 2 + index % 2;
    inference = inference.f64("ratio_lower", &[n, l, p], move |index| truth(case(index)) - half(index));
    inference = inference.f64("ratio_upper", &[n, l, p], move |index| truth(case(index)) + half(index));
    for target in ["ratio", "exact"] {
        inference =
            inference.f64(&format!("{target}_log_score"), &[r, k], |index| -4.0 * spread(index).powi(2));
    }
    let history = json!({
        "train_loss": [0.6, 0.55], "validation": [
            {"bce": 0.61, "accuracy": 0.6, "auc": 0.7}, {"bce": 0.56, "accuracy": 0.7, "auc": 0.75},
        ],
        "rows_per_epoch": 10, "global_batch_size": 2, "world_size": 1, "selected_epoch": 2,
    });
    let ratio = |index: usize| 4.0 * spread(index) - 2.0;
    let predictions = Kept::default()
        .f64("probe_log_ratio", &[3, 8], move |index| 0.8 * ratio(index))
        .f64("probe_exact_log_ratio", &[3, 8], ratio)
        .f64("source_log_ratio", &[3, 20], ratio)
        .f64("source_exact_log_ratio", &[3, 20], ratio);
    BTreeMap::from([
        ("model", Kept { history: Some(history.to_string()), ..Kept::default() }),
        (
            "observations",
            Kept::default()
                .f32("truth", &[n, p], truth)
                .f32("observations", &[n, 15, 2], |index| 9.0 * spread(index)),
        ),
        (
            "candidates",
            Kept::default().f32("theta", &[k, p], |index| 10.0 * spread(index)).f64(
                "log_measure",
                &[k],
                |_| -1.0,
            ),
        ),
        ("inference", inference),
        ("verification_predictions", predictions),
        (
            "verification_observations",
            Kept::default().f32("source_x", &[3, 20, 2], |index| 9.0 * spread(index)).f32(
                "target_x",
                &[3, 10, 2],
                |index| 1.0 + 9.0 * spread(index),
            ),
        ),
        ("reweighting_distances", Kept::default().f64("learned_w1", &[3], spread)),
        (
            "showcase_observations",
            Kept::default()
                .f64("theta", &[2, 2], |index| if index < 2 { 3.0 } else { 7.0 })
                .f32("source", &[30, 2], |index| 9.0 * spread(index))
                .f32("target", &[30, 2], |index| 1.0 + 9.0 * spread(index)),
        ),
        ("showcase_predictions", Kept::default().f64("log_ratio", &[30], ratio)),
        (
            "calibration_scores",
            Kept::default()
                .f64("rank_share", &[40, 2], spread)
                .f64("exact_rank_share", &[40, 2], spread)
                .f64("nearer_mass", &[40], spread)
                .f64("exact_nearer_mass", &[40], spread)
                .said(json!({"parameters": ["mean:0", "mean:1"]})),
        ),
    ])
}

fn study() -> Value {
    json!({
        "training": {
            "seed": 0, "prior": "normal", "problem": {"dimension": 2}, "parameters": {},
            "priors": {"normal": {"family": "normal"}},
        },
        "analysis": {
            "plotting": {"dpi": 70, "bins": 20, "prior_points": 500, "max_inference_cases": 4},
            "inference": {"diagnostic_cases": 2},
            "showcase": {"bins": 15},
            "calibration": {"band_probability": 0.95},
        },
    })
}

/// A node whose study has these products; it gives what is declared and nothing else, and notes what was asked for.
struct Node {
    products: BTreeMap<&'static str, Kept>,
    study: Value,
    asked: RefCell<Vec<String>>,
}

impl Node {
    /// With the settings at the paths that are declared.
    fn of(paths: &[String]) -> Self {
        let whole = study();
        let mut given = json!({});
        for path in paths {
            let pointer = format!("/{}", path.replace('.', "/"));
            let value = whole.pointer(&pointer).unwrap_or_else(|| panic!("{path}")).clone();
            let mut at = &mut given;
            for step in path.split('.') {
                at = at.as_object_mut().unwrap().entry(step).or_insert_with(|| json!({}));
            }
            *at = value;
        }
        Self { products: products(), study: given, asked: RefCell::new(Vec::new()) }
    }
}

impl AnalysisHost for Node {
    fn node(&self) -> NodeInfo {
        NodeInfo { name: "nre.base.normal-r0".into(), nonce: "00".into(), seq: 9, address: "a".into() }
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

    fn study(&self) -> Value {
        self.study.clone()
    }

    fn product(&self, name: &str) -> Result<ProductData<'_>, HostError> {
        self.asked.borrow_mut().push(name.to_owned());
        let kept = self.products.get(name).ok_or_else(|| HostError::unavailable(name))?;
        let arrays = kept.arrays.iter().map(|array| {
            let bytes = &bytemuck::cast_slice(&array.words)[..array.bytes];
            TensorView::new(&array.name, array.dtype, &array.shape, bytes).unwrap()
        });
        let json = kept.history.iter().map(|text| ("history".to_owned(), text.clone())).collect();
        Ok(ProductData {
            key: "ab".to_owned(),
            metadata: kept.metadata.clone(),
            arrays: arrays.collect(),
            json,
        })
    }
}

/// Runs a plot on its declared settings; the figures, which are each a PNG and an SVG, and the products that it looked at.
fn figures(name: &str) -> (Vec<String>, Vec<String>) {
    let library = library();
    assert!(library.refused().is_empty(), "{:?}", library.refused());
    let plot = plot(&library, name);
    let declared = plot.declaration();
    assert_eq!(declared.needs.products.is_empty(), name == "prior");
    assert!(declared.sources.len() >= 9 && declared.settings == json!({}), "{declared:?}");
    let node = Node::of(&declared.needs.study);
    let outputs = plot.run(&node, &Value::Null).unwrap();
    let mut found = Vec::new();
    for pair in outputs.files.chunks(2) {
        let [(png, png_type, png_bytes), (svg, svg_type, svg_bytes)] = pair else { panic!("{}", pair.len()) };
        assert_eq!((png_type.as_str(), svg_type.as_str()), ("image/png", "image/svg+xml"));
        assert!(png_bytes.starts_with(b"\x89PNG") && svg_bytes.starts_with(b"<svg"), "{png}");
        let figure = png.strip_suffix(".png").unwrap();
        assert_eq!(svg.strip_suffix(".svg").unwrap(), figure);
        found.push(figure.to_owned());
    }
    let mut asked = node.asked.into_inner();
    asked.sort_unstable();
    asked.dedup();
    let mut products = declared.needs.products.clone();
    products.sort_unstable();
    assert_eq!(asked, products, "{name} needs what it uses");
    (found, declared.needs.study.clone())
}

#[test]
fn every_plot_draws_its_figures_of_what_it_declares() {
    let of = |name: &str| figures(name).0;
    assert_eq!(of("training"), ["loss"]);
    assert_eq!(of("prior"), ["mean-0", "mean-1"]);
    let inference = [
        "estimates-mean-0",
        "estimates-mean-1",
        "marginal-0-mean-0",
        "marginal-0-mean-1",
        "projection-0-0-1",
        "marginal-5-mean-0",
        "marginal-5-mean-1",
        "projection-5-0-1",
    ];
    assert_eq!(of("inference"), inference);
    // Of all that are retained, no more than were asked for.
    let library = library();
    let inference = plot(&library, "inference");
    let mut node = Node::of(&inference.declaration().needs.study);
    node.study["analysis"]["inference"]["diagnostic_cases"] = json!(0);
    assert_eq!(inference.run(&node, &Value::Null).unwrap().files.len(), 4, "the estimates of two parameters");
    assert_eq!(of("pairwise"), ["median", "worst"]);
    assert_eq!(of("reweighting"), ["axis-0", "axis-1"]);
    assert_eq!(of("showcase"), ["axis-0", "axis-1"]);
    assert_eq!(of("observation_histogram"), ["first-ensemble"]);
    assert_eq!(of("simulation_based_calibration"), ["ecdf-mean-0", "ecdf-mean-1"]);
    assert_eq!(of("tarp"), ["coverage"]);
}

#[test]
fn a_plot_declares_the_settings_that_it_reads_and_no_section() {
    let dpi = "analysis.plotting.dpi";
    let bins = "analysis.plotting.bins";
    let of = |name: &str| figures(name).1;
    assert_eq!(of("training"), [dpi]);
    assert_eq!(
        of("inference"),
        [dpi, bins, "analysis.plotting.max_inference_cases", "analysis.inference.diagnostic_cases"]
    );
    assert_eq!(of("reweighting"), [dpi, bins]);
    assert_eq!(of("showcase"), [dpi, "analysis.showcase.bins"]);
    assert_eq!(of("tarp"), ["analysis.calibration.band_probability", dpi]);
}

#[test]
fn a_product_that_is_not_as_it_should_be_is_an_error_with_its_name() {
    let library = library();
    let run = |name: &str, change: &dyn Fn(&mut Node)| {
        let plot = plot(&library, name);
        let mut node = Node::of(&plot.declaration().needs.study);
        change(&mut node);
        plot.run(&node, &Value::Null).unwrap_err().to_string()
    };
    let error = run("inference", &|node| {
        node.products.get_mut("inference").unwrap().metadata["targets"] = json!(["exact"]);
    });
    assert!(error.contains("add `ratio` to `inference.targets`"), "{error}");
    let error = run("inference", &|node| {
        let inference = node.products.remove("inference").unwrap();
        let without = inference.arrays.into_iter().filter(|array| array.name != "retained_cases").collect();
        let inference = Kept { arrays: without, ..Kept::default().said(inference.metadata) };
        node.products.insert("inference", inference.i64("retained_cases", &[0, 7]));
    });
    assert!(error.contains("names case 7, of which there is no truth"), "{error}");
    let error = run("inference", &|node| {
        node.products.get_mut("inference").unwrap().metadata["levels"] = json!("many");
    });
    assert!(error.contains("`levels` is \"many\""), "{error}");
    let error = run("showcase", &|node| {
        node.products.insert("showcase_observations", Kept::default().f32("source", &[4], |_| 0.0));
    });
    assert!(error.contains("array `source` has the shape [4], not one of 2 axes"), "{error}");
    let error = run("training", &|node| node.study = Value::Null);
    assert!(error.contains("`analysis.plotting.dpi` is not among the settings"), "{error}");
    let error = run("training", &|node| node.study = json!({"analysis": {"plotting": {"dpi": -1}}}));
    assert!(error.contains("`analysis.plotting.dpi` is -1"), "{error}");
}
