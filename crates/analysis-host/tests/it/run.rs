use serde_json::{Value, json};
use waycairn_analysis_host::{Library, Outputs, RunError, ScalarOut};

use crate::kit::{FakeHost, Temper, analysis, hostile, summary};

fn mode(mode: &str) -> Result<Outputs, RunError> {
    let hostile = analysis(&hostile(), "hostile");
    FakeHost::new(Temper::Good).with(|host| hostile.run(host, &json!({ "mode": mode })))
}

fn healthy(temper: Temper, settings: Value) -> Outputs {
    let healthy = analysis(&hostile(), "healthy");
    FakeHost::new(temper).with(|host| healthy.run(host, &settings)).unwrap()
}

fn report(outputs: &Outputs) -> Value {
    serde_json::from_slice(&outputs.files[0].2).unwrap()
}

#[test]
fn the_context_gives_what_the_host_has() {
    let outputs = healthy(Temper::Good, json!({"scale": 2}));
    let report = report(&outputs);
    assert_eq!(report["node"], json!(["run", "00ff", 2, "the-address"]));
    assert_eq!(report["parents"], json!(["the-parent"]));
    assert_eq!(report["settings"], json!({"scale": 2.0, "query": ""}));
    assert_eq!(report["experiment"], json!({"learning_rate": 0.1}));
    // `*.weight` is declared, `layer.bias` is not.
    assert_eq!(report["weights"], json!(["layer.weight"]));
    assert_eq!(report["sum"], json!(10.0));
    assert_eq!(report["batch"], json!({"names": ["tokens"], "outputs": [["logits", [1, 3], 48.0]]}));
    assert_eq!(
        report["scalars"],
        json!([
            ["node", ["a", "b", "c", "d", "e"]],
            ["train/loss", [1.5, null, 0.25, 9.0, null]],
            ["val/loss", [null, 4.0, null, null, 6.0]],
        ])
    );
}

#[test]
fn outputs_arrive_in_order_with_their_values() {
    let outputs = healthy(Temper::Good, Value::Null);
    let names: Vec<&str> = outputs.files.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["report.json", "figure.svg"]);
    assert_eq!(outputs.files[1].1, "image/svg+xml");
    assert_eq!(outputs.scalars[0], ("on".to_owned(), ScalarOut::Bool(true)));
    assert_eq!(outputs.scalars[1], ("count".to_owned(), ScalarOut::Int(1)));
    assert!(matches!(outputs.scalars[2].1, ScalarOut::Float(value) if value.is_nan()));
    let (suffix, description, payload) = &outputs.artifacts[0];
    assert_eq!(suffix, "healthy");
    assert_eq!(description[0], ("sum".to_owned(), ScalarOut::Float(10.0)));
    assert_eq!(description[1], ("name".to_owned(), ScalarOut::Text("run".to_owned())));
    let rmpv::Value::Ext(1, body) = rmpv::decode::read_value(&mut payload.as_slice()).unwrap() else {
        panic!("the payload is an array");
    };
    let body = rmpv::decode::read_value(&mut body.as_slice()).unwrap();
    let body = body.as_array().unwrap();
    assert_eq!(body[0].as_array().unwrap()[0].as_u64(), Some(4));
    assert_eq!(body[1].as_str(), Some("float64"));
    assert_eq!(body[2].as_slice().unwrap()[..8], 1.0_f64.to_le_bytes());
}

#[test]
fn abi_3_weights_are_views_of_the_hosts_own_bytes() {
    let healthy = analysis(&hostile(), "healthy");
    let fake = FakeHost::new(Temper::Good);
    let outputs = fake.with(|host| healthy.run(host, &Value::Null)).unwrap();
    let report = report(&outputs);
    assert_eq!(report["addresses"], json!([fake.bytes.as_ptr() as u64]));
    assert_eq!(report["in_place"], json!(true));
}

#[test]
fn abi_3_what_was_emitted_is_the_hosts_copy() {
    let outputs = healthy(Temper::Good, Value::Null);
    let again = healthy(Temper::Good, Value::Null);
    // Bytes of an earlier call are untouched by a later one.
    assert_eq!(outputs.artifacts[0].2, again.artifacts[0].2);
    assert_ne!(outputs.artifacts[0].2.as_ptr(), again.artifacts[0].2.as_ptr());
}

#[test]
fn an_error_of_the_host_is_a_value_that_the_analysis_may_take() {
    let batch = &report(&healthy(Temper::NoBatch, Value::Null))["batch"];
    assert_eq!(batch, &json!({"error": "the text of this run is gone", "kind": "Unavailable"}));
    let scalars = &report(&healthy(Temper::Good, json!({"query": "<"})))["scalars"];
    assert_eq!(scalars, &json!({"error": "expected a key at 0 in `<`"}));
}

#[test]
fn abi_1_a_panic_of_the_host_is_a_value_that_the_analysis_may_take() {
    let report = report(&healthy(Temper::ForwardPanics, Value::Null));
    assert_eq!(report["batch"]["outputs"], json!({"error": "the model panics"}));
}

#[test]
fn abi_1_a_panic_inside_the_stream_of_scalars_is_a_value_too() {
    let report = report(&healthy(Temper::ScalarsPanic, Value::Null));
    let text = report["scalars"]["error"].as_str().unwrap();
    assert!(text.contains("reading scalars panicked: the query panics"), "{text}");
}

#[test]
fn plugins_case_04_a_panic_in_declare_leaves_the_next_analyses_usable() {
    let library = Library::open(&hostile()).unwrap();
    let names: Vec<&str> = library.analyses().iter().map(|a| a.declaration().name.as_str()).collect();
    assert_eq!(names, ["hostile", "healthy", "metric", "plot", "caller", "chain", "threads"]);
    assert_eq!(library.refused().len(), 1);
    assert_eq!(library.refused()[0].index, 0);
    let text = library.refused()[0].error.to_string();
    assert!(text.starts_with("declaring itself panicked: declare panics, at "), "{text}");
}

#[test]
fn plugins_case_04_a_panic_in_analyze_is_an_error_and_the_next_analysis_runs() {
    let error = mode("panic").unwrap_err();
    assert!(matches!(&error, RunError::Panicked { .. }));
    let text = error.to_string();
    assert!(text.starts_with("analysis `hostile` panicked: analyze panics at 2, at "), "{text}");
    assert!(text.contains("lib.rs:"), "{text}");
    healthy(Temper::Good, Value::Null);
    mode("nothing").unwrap();
}

#[test]
fn plugins_case_04_a_panic_in_a_destructor_is_an_error_and_nothing_is_kept() {
    let error = mode("panic-in-drop").unwrap_err();
    assert!(error.to_string().starts_with("analysis `hostile` panicked: drop panics"), "{error}");
    mode("nothing").unwrap();
}

#[test]
fn abi_1_panics_of_every_kind_end_at_the_boundary() {
    for (name, expected) in [
        ("panic-without-text", "analysis `hostile` panicked: a panic without a text"),
        ("panic-with-a-bomb", "analysis `hostile` panicked: a panic without a text"),
        ("panic-in-thread", "analysis `hostile` panicked: a thread panics"),
        ("panic-twice", "analysis `hostile` panicked: analyze panics first"),
        ("panic-while-dropping", "analysis `hostile` panicked: drop panics"),
    ] {
        let error = mode(name).unwrap_err();
        assert!(matches!(&error, RunError::Panicked { .. }), "{name}: {error}");
        assert!(error.to_string().starts_with(expected), "{name}: {error}");
    }
    mode("nothing").unwrap();
}

#[test]
fn an_error_carries_its_sources() {
    assert_eq!(mode("error").unwrap_err().to_string(), "analysis `hostile` failed: the analysis gives up");
    let text = mode("error-with-source").unwrap_err().to_string();
    assert_eq!(text, format!("analysis `hostile` failed: the outer error: {}", std::fmt::Error));
}

#[test]
fn plugins_case_07_an_analysis_that_emits_and_fails_leaves_nothing() {
    assert!(matches!(mode("emit-then-fail"), Err(RunError::Failed { .. })));
}

#[test]
fn a_refused_output_fails_the_run_even_if_the_analysis_ignores_it() {
    let text = mode("ignore-refusal").unwrap_err().to_string();
    assert_eq!(
        text,
        "an output of analysis `hostile` was refused: `hostile/value` was emitted before in this call"
    );
    let text = mode("bad-name").unwrap_err().to_string();
    assert!(text.contains("`../up` is no suffix"), "{text}");
}

#[test]
fn what_is_not_declared_is_refused_with_the_line_to_add() {
    let refused = |name: &str| mode(name).unwrap_err().to_string();
    assert!(refused("undeclared-batch").contains("add `Needs::batch`"));
    assert!(refused("undeclared-forward").contains("add `Needs::forward`"));
    assert!(refused("undeclared-scalars").contains("add `Needs::scalars(\"train/loss\")`"));
}

#[test]
fn settings_are_checked_before_the_call() {
    let hostile = analysis(&hostile(), "hostile");
    let run = |settings: Value| FakeHost::new(Temper::Good).with(|host| hostile.run(host, &settings));
    assert_eq!(
        run(json!({"mod": "panic"})).unwrap_err().to_string(),
        "analysis `hostile` has no setting `mod`; did you mean `mode`?"
    );
    assert!(matches!(run(json!({"mode": 3})), Err(RunError::Settings(_))));
}

#[test]
fn one_analysis_runs_on_several_threads_at_once() {
    let healthy = analysis(&hostile(), "healthy");
    let hostile = analysis(&hostile(), "hostile");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let fake = FakeHost::new(Temper::Good);
                    fake.with(|host| healthy.run(host, &Value::Null)).unwrap();
                    fake.with(|host| hostile.run(host, &json!({"mode": "panic"}))).unwrap_err();
                }
            });
        }
    });
}

#[test]
fn summary_reports_every_tensor() {
    let summary = analysis(&summary(), "summary");
    let mut fake = FakeHost::new(Temper::Good);
    fake.bytes[20..].copy_from_slice(&f32::NAN.to_le_bytes());
    let outputs = fake.with(|host| summary.run(host, &json!({"norm_per_tensor": true}))).unwrap();
    let scalar = |key: &str| outputs.scalars.iter().find(|(name, _)| name == key).unwrap().1.clone();
    assert_eq!(scalar("parameters"), ScalarOut::Int(6));
    assert_eq!(scalar("non_finite"), ScalarOut::Int(1));
    assert_eq!(scalar("norm"), ScalarOut::Float(55.0_f64.sqrt()));
    assert_eq!(scalar("norm/layer.bias"), ScalarOut::Float(5.0));
    let (suffix, description, payload) = &outputs.artifacts[0];
    assert_eq!(suffix, "summary");
    assert_eq!(description, &[("tensors".to_owned(), ScalarOut::Int(2))]);
    let report = rmpv::decode::read_value(&mut payload.as_slice()).unwrap();
    let first = &report["tensors"][0];
    assert_eq!(first["name"].as_str(), Some("layer.weight"));
    assert_eq!(first["statistics"]["mean"].as_f64(), Some(2.5));
    assert_eq!(first["statistics"]["std"].as_f64(), Some(1.25_f64.sqrt()));
    assert_eq!(report["tensors"][1]["nan"].as_u64(), Some(1));
}

#[test]
fn provenance_names_the_library_and_digests_its_file_and_the_settings() {
    let path = summary();
    let summary = analysis(&path, "summary");
    let provenance = summary.provenance(&Value::Null).unwrap();
    assert_eq!(provenance.plugin, "waycairn_summary");
    assert_eq!(provenance.plugin_version, env!("CARGO_PKG_VERSION"));
    assert_eq!(provenance.plugin_sha256, waycairn_durable::Digest::of(&std::fs::read(&path).unwrap()));
    assert_eq!(provenance.plugin_sha256, summary.digest());
    // What a user leaves out and what the default says are the same settings.
    assert_eq!(provenance, summary.provenance(&json!({"norm_per_tensor": false})).unwrap());
    assert_ne!(provenance, summary.provenance(&json!({"norm_per_tensor": true})).unwrap());
    let text = br#"{"norm_per_tensor":false}"#;
    assert_eq!(provenance.settings_sha256, waycairn_durable::Digest::of(text));
    let fields = provenance.fields("summary");
    assert_eq!(fields[0], ("summary/plugin".to_owned(), "waycairn_summary".to_owned()));
    assert_eq!(fields[3].0, "summary/settings_sha256");
    assert!(summary.provenance(&json!({"x": 1})).is_err());
}

/// What the library was told of threads when an analysis had been run for hosts that say these numbers, one after the other.
fn told(numbers: &[usize]) -> Option<Value> {
    let folder = tempfile::tempdir().unwrap();
    // A copy is a library with statics of its own.
    let path = folder.path().join("told.so");
    std::fs::copy(hostile(), &path).unwrap();
    let threads = analysis(&path, "threads");
    let mut told = None;
    for number in numbers {
        let mut host = FakeHost::new(Temper::Good);
        host.threads = *number;
        told = host.with(|host| threads.run(host, &Value::Null)).unwrap().metric;
    }
    told
}

#[test]
fn a_library_is_told_its_number_of_threads_once_and_before_its_first_call() {
    // A library has statics of its own, and so its pool took every core, whatever the program was set to.
    assert_eq!(told(&[7]), Some(json!([7])));
    assert_eq!(told(&[7, 2]), Some(json!([7])));
}

#[test]
fn abi_1_a_panic_at_the_number_of_threads_ends_at_the_boundary() {
    assert_eq!(told(&[1_000_000]), Some(json!([])), "the analysis is run all the same");
}
