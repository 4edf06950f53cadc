//! Products across the boundary.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};
use waycairn_analysis_host::{
    Bytes, DType, DeclarationError, ForeignProduct, HostError, Kind, Library, OwnedTensor, ProductData,
    ProductHost, RunError, TensorView,
};
use waycairn_durable::{Digest, FileMapMut};

use crate::kit::{FakeHost, Study, Temper, analysis, hostile};

fn product(name: &str) -> ForeignProduct {
    let library = Library::open(&hostile()).unwrap();
    library.products().iter().find(|product| product.declaration().name == name).unwrap().clone()
}

/// An artifact in the making: arrays are mapped files of a folder.
struct Making<'a> {
    settings: Value,
    folder: TempDir,
    json: RefCell<BTreeMap<String, String>>,
    metadata: RefCell<BTreeMap<String, Value>>,
    /// How many arrays are mapped.
    mapped: Cell<usize>,
    /// How often a dependency was asked for.
    asked: Cell<usize>,
    told: RefCell<Vec<(u64, u64, String)>>,
    values: &'a [u8],
    weights: Vec<TensorView<'a>>,
    /// Bytes that each array lacks.
    short: usize,
    /// What it says that computes.
    threads: usize,
}

struct Mapped<'a> {
    map: FileMapMut,
    host: &'a Cell<usize>,
    short: usize,
}

impl Bytes for Mapped<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        let length = self.map.len() - self.short;
        &mut self.map[..length]
    }
}

impl Drop for Mapped<'_> {
    fn drop(&mut self) {
        self.host.set(self.host.get() - 1);
    }
}

impl<'a> Making<'a> {
    fn new(settings: Value, values: &'a [u8]) -> Self {
        Self {
            settings,
            folder: tempdir().unwrap(),
            json: RefCell::default(),
            metadata: RefCell::default(),
            mapped: Cell::new(0),
            asked: Cell::new(0),
            told: RefCell::default(),
            values,
            weights: vec![TensorView::new("w", DType::F64, &[2], values).unwrap()],
            short: 0,
            threads: 3,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn doubles(&self, name: &str) -> Vec<f64> {
        let bytes = std::fs::read(self.path(name)).unwrap();
        bytes.as_chunks::<8>().0.iter().map(|chunk| f64::from_le_bytes(*chunk)).collect()
    }
}

impl ProductHost for Making<'_> {
    fn threads(&self) -> usize {
        self.threads
    }

    fn settings(&self) -> &Value {
        &self.settings
    }

    fn product(&self, name: &str) -> Result<ProductData<'_>, HostError> {
        self.asked.set(self.asked.get() + 1);
        Ok(match name {
            "observations" => ProductData {
                key: "0b".to_owned(),
                metadata: json!({"cases": 2}),
                arrays: vec![TensorView::new("values", DType::F64, &[2], self.values)?],
                json: Vec::new(),
            },
            "model" => ProductData {
                key: "0c".to_owned(),
                metadata: json!({}),
                arrays: Vec::new(),
                json: vec![("history".to_owned(), "[0.5]".to_owned())],
            },
            other => return Err(HostError::unavailable(format!("no product `{other}`"))),
        })
    }

    fn array(&self, name: &str, dtype: DType, shape: &[usize]) -> Result<Box<dyn Bytes + '_>, HostError> {
        let bytes = shape.iter().product::<usize>() * dtype.size().unwrap();
        let map = FileMapMut::create(&self.path(name), bytes as u64)
            .map_err(|error| HostError::failed(error.to_string()))?;
        self.mapped.set(self.mapped.get() + 1);
        Ok(Box::new(Mapped { map, host: &self.mapped, short: self.short }))
    }

    fn json(&self, name: &str, text: &str) -> Result<(), HostError> {
        self.json.borrow_mut().insert(name.to_owned(), text.to_owned());
        Ok(())
    }

    fn metadata(&self, key: &str, value: Value) -> Result<(), HostError> {
        self.metadata.borrow_mut().insert(key.to_owned(), value);
        Ok(())
    }

    fn weights(&self) -> Result<&[TensorView<'_>], HostError> {
        Ok(&self.weights)
    }

    fn batch(&self) -> Result<Vec<OwnedTensor>, HostError> {
        Ok(vec![OwnedTensor::from_i64("tokens", vec![1], &[7])?])
    }

    fn forward(&self, inputs: &[OwnedTensor]) -> Result<Vec<OwnedTensor>, HostError> {
        let tripled: Vec<f32> = inputs[0].view().iter_f64()?.map(|value| 3.0 * value as f32).collect();
        Ok(vec![OwnedTensor::from_f32("logits", inputs[0].shape().to_vec(), &tripled)?])
    }

    fn call(&self, function: &str, inputs: &[OwnedTensor]) -> Result<Vec<OwnedTensor>, HostError> {
        assert_eq!(function, "double");
        let doubled: Vec<f32> = inputs[0].view().iter_f64()?.map(|value| 2.0 * value as f32).collect();
        Ok(vec![OwnedTensor::from_f32("doubled", inputs[0].shape().to_vec(), &doubled)?])
    }

    fn progress(&self, done: u64, total: u64, what: &str) {
        self.told.borrow_mut().push((done, total, what.to_owned()));
    }

    fn cancelled(&self) -> bool {
        self.told.borrow_mut().push((0, 0, "cancelled?".to_owned()));
        self.told.borrow().len() > 3
    }
}

/// Two doubles, little-endian, at an address that is aligned for them.
fn doubles() -> Vec<u8> {
    [10.0_f64, 20.0].iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn training() -> Value {
    json!({"problem": {"dimension": 2}, "seed": 7})
}

#[test]
fn a_library_lists_its_products_and_settings_and_what_it_refused() {
    let library = Library::open(&hostile()).unwrap();
    let names: Vec<&str> = library.products().iter().map(|p| p.declaration().name.as_str()).collect();
    assert_eq!(names, ["unsound", "sound", "chain_data", "chain_scores", "chain_summary"]);
    let refused: Vec<(usize, String)> =
        library.refused_products().iter().map(|r| (r.index, r.error.to_string())).collect();
    assert_eq!(refused.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0, 1, 3]);
    assert!(
        refused[0].1.starts_with("declaring itself panicked: declaring a product panics, at "),
        "{}",
        refused[0].1
    );
    assert!(refused[1].1.contains("`model` is the trained model"), "{}", refused[1].1);
    assert!(
        matches!(&library.refused_products()[2].error, DeclarationError::Repeated { name } if name == "unsound")
    );

    let sound = library.products()[1].declaration();
    assert_eq!((sound.version, sound.model, sound.backend), (3, true, true));
    assert_eq!(sound.products, ["observations"]);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/hostile/src/products.rs");
    let digest = Digest::of(&std::fs::read(source).unwrap());
    assert_eq!(sound.sources, BTreeMap::from([("waycairn-hostile/src/products.rs".to_owned(), digest)]));
    assert_eq!(library.products()[1].path(), hostile());
    assert_eq!(library.products()[1].digest(), library.digest());

    let settings = library.settings();
    assert_eq!(settings["hostile"], json!({"mode": "nothing", "rows": 4, "limit": 1000}));
    let resolved = library.resolve_settings(&json!({"hostile": {"rows": 9}})).unwrap();
    assert_eq!(resolved["hostile"], json!({"mode": "nothing", "rows": 9, "limit": 1000}));
    assert_eq!(resolved["chain"], settings["chain"]);
    let wrong = |given: Value| library.resolve_settings(&given).unwrap_err().to_string();
    assert_eq!(
        wrong(json!({"hostile": {"row": 9}})),
        "plugin `waycairn_hostile` has no setting `hostile.row`; did you mean `hostile.rows`?"
    );
    assert_eq!(
        wrong(json!({"hostile.rows": 1.5})),
        "setting `hostile.rows` of plugin `waycairn_hostile` must be an integer, not 1.5"
    );
    assert!(Library::open(&crate::kit::summary()).unwrap().products().is_empty());
}

#[test]
fn settings_are_selected_estimated_and_checked() {
    let sound = product("sound");
    let analysis = json!({"hostile": {"rows": 5, "limit": 4, "mode": "nothing"}, "plotting": {"dpi": 140}});
    let selected = sound.select(&training(), &analysis, "uniform").unwrap();
    assert_eq!(
        selected,
        json!({
            "training": {"problem": {"dimension": 2}}, "analysis": {"hostile": {"rows": 5, "limit": 4}},
            "member": "uniform",
        })
    );
    assert_eq!(sound.estimate(&selected).unwrap(), json!({"rows": 5, "bytes": 120}));
    let checked = sound.check(&selected).unwrap();
    assert_eq!(checked.errors, ["hostile.rows=5 is over hostile.limit=4; reduce it"]);
    assert!(checked.warnings.is_empty());
    let error = sound.select(&json!({}), &analysis, "uniform").unwrap_err();
    assert!(error.to_string().contains("the study has no setting `training.problem`"), "{error}");
}

fn build_sound(making: &Making<'_>) -> Result<(), RunError> {
    product("sound").build(making)
}

fn selected(rows: usize) -> Value {
    json!({"training": {"problem": {}}, "analysis": {"hostile": {"rows": rows, "limit": 9}}, "member": "m"})
}

#[test]
fn a_builder_fills_mapped_arrays_from_several_threads() {
    let values = doubles();
    let making = Making::new(selected(3), &values);
    build_sound(&making).unwrap();
    assert_eq!(making.doubles("scores"), [10.0, 10.0, 10.0, 11.0, 11.0, 11.0, 12.0, 12.0, 12.0]);
    assert_eq!(std::fs::read(making.path("inside")).unwrap(), [1, 0, 1]);
    assert_eq!(std::fs::read(making.path("count")).unwrap(), (-7_i64).to_le_bytes());
    assert!(std::fs::read(making.path("empty")).unwrap().is_empty());
    assert_eq!(std::fs::read(making.path("halves")).unwrap(), [0x80, 0x3f, 0x80, 0x3f]);
    // One that was not written is zeros.
    assert_eq!(std::fs::read(making.path("left")).unwrap(), [0; 8]);
    assert_eq!(making.metadata.borrow()["rows"], json!(3));
    let json = making.json.borrow();
    let report: Value = serde_json::from_str(&json["report"]).unwrap();
    assert_eq!(report["settings"], selected(3));
    assert_eq!(report["shape"], json!([3, 3]));
    assert_eq!(report["metadata"], json!({"cases": 2}));
    assert_eq!(report["history"], json!([0.5]));
    assert_eq!(report["weights"], json!(["w"]));
    assert_eq!(report["batch"], json!(["tokens"]));
    assert_eq!(report["forward"], json!([3.0, 6.0]));
    assert_eq!(report["call"], json!([2.0, 4.0]));
    assert_eq!(making.told.borrow()[0], (1, 2, "steps".to_owned()));
}

#[test]
fn abi_3_dependencies_are_views_of_the_hosts_own_bytes() {
    let values = doubles();
    let making = Making::new(selected(1), &values);
    build_sound(&making).unwrap();
    let report: Value = serde_json::from_str(&making.json.borrow()["report"]).unwrap();
    assert_eq!(report["address"], json!(values.as_ptr().addr()));
    // `observations` and `model`, once each.
    assert_eq!(making.asked.get(), 2);
}

#[test]
fn a_builder_that_is_called_first_tells_its_library_the_number_of_threads() {
    let folder = tempdir().unwrap();
    // A copy is a library with statics of its own.
    let path = folder.path().join("told.so");
    std::fs::copy(hostile(), &path).unwrap();
    let library = Library::open(&path).unwrap();
    let sound = library.products().iter().find(|product| product.declaration().name == "sound").unwrap();
    // Planning tells nothing: it computes nothing.
    sound.estimate(&selected(1)).unwrap();
    let values = doubles();
    sound.build(&Making { threads: 5, ..Making::new(selected(1), &values) }).unwrap();
    sound.build(&Making { threads: 6, ..Making::new(selected(1), &values) }).unwrap();
    let threads = library.analyses().iter().find(|known| known.declaration().name == "threads").unwrap();
    let told = FakeHost::new(Temper::Good).with(|host| threads.run(host, &Value::Null)).unwrap();
    assert_eq!(told.metric, Some(json!([5])));
}

/// Builds the misbehaving product; nothing may be mapped afterwards, however it ended.
fn unsound(mode: &str) -> Result<(), RunError> {
    let values = doubles();
    let settings = json!({"analysis": {"hostile": {"mode": mode}}});
    let making = Making::new(settings, &values);
    let outcome = product("unsound").build(&making);
    assert_eq!(making.mapped.get(), 0, "{mode}");
    outcome
}

#[test]
fn abi_4_arrays_are_unmapped_when_the_call_ends_however_it_ends() {
    for mode in
        ["unfinished", "panic-in-thread", "fail-after-writing", "ignore-refusal", "not-true", "too-many"]
    {
        assert!(unsound(mode).is_err(), "{mode}");
    }
    unsound("nothing").unwrap();
}

#[test]
fn abi_4_each_array_is_lent_once_and_only_what_was_asked_for() {
    let refused = |mode: &str| unsound(mode).unwrap_err().to_string();
    assert_eq!(
        refused("ignore-refusal"),
        "an output of product `unsound` was refused: array `Bytes` was made before in this call"
    );
    assert!(refused("twice").contains("JSON member `about` was made before"));
    assert!(refused("bad-name").contains("`../up` is no array"));
    assert!(refused("too-large").contains("more bytes than can be addressed"));
    assert!(refused("too-many").contains("array `array-256` is one too many: a product has at most 256"));
    assert!(
        refused("not-true").contains("array `truths` of truth values has bytes that are neither 0 nor 1")
    );

    // A host that maps less than was asked for is no danger to the builder.
    let values = doubles();
    let making = Making { short: 1, ..Making::new(selected(1), &values) };
    let text = build_sound(&making).unwrap_err().to_string();
    assert!(text.contains("the host made 23 bytes for array `scores`, which needs 24"), "{text}");
}

#[test]
fn abi_1_panics_of_products_end_at_the_boundary() {
    let text = |mode: &str| {
        let error = unsound(mode).unwrap_err();
        assert!(matches!(&error, RunError::ProductPanicked { .. }), "{error}");
        error.to_string()
    };
    assert!(text("panic").starts_with("product `unsound` panicked while being built: build panics, at "));
    assert!(text("unfinished").contains("build panics halfway"));
    text("panic-in-thread");

    let unsound = product("unsound");
    let with = |mode: &str| json!({"hostile": {"mode": mode}});
    let error = unsound.select(&Value::Null, &with("select-panics"), "m").unwrap_err().to_string();
    assert!(
        error.starts_with("product `unsound` panicked while selecting its settings: select panics, at "),
        "{error}"
    );
    let selected = |mode: &str| unsound.select(&json!({}), &with(mode), "m").unwrap();
    assert!(
        unsound.estimate(&selected("estimate-panics")).unwrap_err().to_string().contains("estimate panics")
    );
    assert!(unsound.check(&selected("check-panics")).unwrap_err().to_string().contains("check panics"));
    let error = unsound.estimate(&selected("estimate-text")).unwrap_err().to_string();
    assert_eq!(
        error,
        "product `unsound` failed while estimating: what it answered is not an object of numbers and short texts"
    );
    let error = unsound.select(&json!({}), &with("select-fails"), "m").unwrap_err().to_string();
    assert!(error.ends_with("hostile.mode is not to be had"), "{error}");
    assert_eq!(unsound.estimate(&selected("nothing")).unwrap(), json!({}));
}

#[test]
fn what_a_builder_may_not_have_is_refused_and_an_end_is_told() {
    let refused = |mode: &str| unsound(mode).unwrap_err().to_string();
    assert!(refused("undeclared-model").contains("add `ProductNeeds::model`"));
    assert!(refused("undeclared-function").contains("add `ProductNeeds::function(\"other\")`"));
    assert!(refused("undeclared-product").contains("add `ProductNeeds::product(\"sound\")`"));
    assert!(refused("nan").contains("metadata `mean` is no JSON: it is NaN"));
    assert!(refused("fail-after-writing").ends_with("failed while being built: the builder gives up"));
    assert!(refused("cancelled").ends_with("cancelled"));
}

#[test]
fn the_guides_plugin_of_a_study_builds_the_same_walks_on_any_number_of_threads() {
    let path = crate::authors::authors().library("guide");
    let library = Library::open(&path).unwrap();
    let walks = &library.products()[0];
    let analysis = library.resolve_settings(&json!({"walks": {"count": 10, "steps": 3}})).unwrap();
    let selected = walks.select(&json!({}), &analysis, "m").unwrap();
    assert!(walks.check(&selected).unwrap().errors.is_empty());
    assert_eq!(walks.estimate(&selected).unwrap(), json!({"bytes": 240}));
    let small = json!({"analysis": {"walks": {"count": 1000, "steps": 100, "max_bytes": 10}}});
    assert_eq!(walks.check(&small).unwrap().errors, ["walks.count=1000 needs more than walks.max_bytes=10"]);
    let mut stream = waycairn_analysis_api::stream(2026, "walks", None);
    let mut expected = Vec::new();
    for _ in 0..10 {
        let mut place = 0.0;
        expected.extend((0..3).map(|_| {
            place = place + stream.uniform() - 0.5;
            place
        }));
    }
    let values = doubles();
    for threads in [1, 3, 20] {
        // What is opened anew is told anew.
        let library = Library::open(&path).unwrap();
        let making = Making { threads, ..Making::new(selected.clone(), &values) };
        library.products()[0].build(&making).unwrap();
        assert_eq!(making.doubles("walks"), expected, "{threads}");
        assert_eq!(making.metadata.borrow()["count"], json!(10));
    }
    let kinds: Vec<Kind> = library.analyses().iter().map(|analysis| analysis.declaration().kind).collect();
    assert_eq!(kinds, [Kind::Metric, Kind::Plot]);
}

fn studied(name: &str, mode: &str) -> Result<waycairn_analysis_host::Outputs, RunError> {
    let analysis = analysis(&hostile(), name);
    let settings = json!({ "mode": mode });
    FakeHost::new(Temper::Good).with_study(Study::new(), |host| analysis.run(host, &settings))
}

#[test]
fn a_metric_answers_one_value_with_what_the_study_gave() {
    let metric = analysis(&hostile(), "metric");
    assert_eq!(metric.declaration().kind, Kind::Metric);
    assert!(metric.declaration().sources.contains_key("waycairn-hostile/src/studied.rs"));
    let outputs = studied("metric", "report").unwrap();
    let answer = outputs.metric.unwrap();
    assert_eq!(answer["study"], json!({"training": {"problem": {"dimension": 2}}, "member": "uniform"}));
    assert_eq!((&answer["key"], &answer["sum"], &answer["shape"]), (&json!("ab"), &json!(30.0), &json!([2])));
    assert_eq!((&answer["metadata"], &answer["about"]), (&json!({"rows": 1}), &json!("text")));
    assert_eq!((&answer["doubled"], &answer["cancelled"]), (&json!(["doubled"]), &json!(true)));
    assert_eq!(answer["same"], json!(true));
}

#[test]
fn an_analysis_that_needs_a_function_is_not_called_where_the_experiment_lacks_it() {
    let caller = analysis(&hostile(), "caller");
    let run =
        |study: Study| FakeHost::new(Temper::Good).with_study(study, |host| caller.run(host, &Value::Null));
    assert_eq!(run(Study::new()).unwrap().metric, Some(json!("doubled")));
    let mut lacking = Study::new();
    lacking.functions = vec!["loss".to_owned()];
    let error = run(lacking).unwrap_err().to_string();
    assert!(error.ends_with("it needs the function `double` of the experiment, which has `loss`"), "{error}");
    // Where a host does not know before the call, the call tells.
    let error = FakeHost::new(Temper::Good).with(|host| caller.run(host, &Value::Null)).unwrap_err();
    assert!(error.to_string().contains("no function `double`"), "{error}");
}

#[test]
fn a_metric_or_a_plot_that_answers_nothing_is_an_error() {
    let refused = |name: &str, mode: &str| {
        let error = studied(name, mode).unwrap_err();
        error.to_string()
    };
    assert_eq!(
        refused("metric", "nothing"),
        "an output of analysis `metric` was refused: it is a metric and answered none; call `emit_metric` once"
    );
    assert!(refused("metric", "twice").contains("answered before in this call"));
    assert!(refused("metric", "nan").contains("the metric is no JSON: [1] is NaN"));
    assert!(refused("metric", "undeclared-product").contains("add `Needs::product(\"other\")`"));
    assert!(refused("metric", "undeclared-function").contains("add `Needs::function(\"other\")`"));
    assert!(refused("plot", "numbers").contains("it is a plot and made no figure"));
    assert!(refused("plot", "metric").contains("add `.metric()`"));
    assert_eq!(studied("plot", "figure").unwrap().files.len(), 1);
}
