//! Studies from the command line, with metrics and plots of real plugins.

#![cfg(unix)]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde_json::Value;
use waycairn_analysis_host::Discovery;
use waycairn_cache::Backend;
use waycairn_study::{AnalysisSettings, Plan, ProductState, Training};
use waycairn_tests::{Run, plugin};
use waycairn_train::{Gpt, experiments};

use crate::help::{folder, shell};

/// A study of two runs, each of two steps.
pub(crate) const TRAINING: &str = "[base]\nsteps = 2\nbatch_size = 2\nwarmup = 1\neval_every = 'off'\ncheckpoint_every = 'off'\n\
                        output = 'out'\ndata = { context = 8 }\nmodel = { layers = 1, heads = 1, width = 8 }\n\
                        learning_rate = { choice = [0.01, 0.002] }\n";

/// What a study is analyzed for: its lists, and further lines below them.
fn analysis(metrics: &str, plots: &str, more: &str) -> String {
    let [position, hostile] = ["loss_by_position", "hostile"].map(plugin);
    format!(
        "[base]\nplugins = ['{}', '{}']\nmetrics = [{metrics}]\nplots = [{plots}]\n{more}\n",
        position.display(),
        hostile.display()
    )
}

pub(crate) struct Study {
    pub(crate) folder: tempfile::TempDir,
}

impl Study {
    pub(crate) fn new() -> Self {
        let study = Self { folder: folder() };
        study.write("settings_training.toml", TRAINING);
        study.analyzed("'loss_by_position'", "'loss_by_position_curve'", "");
        study
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).expect("settings");
    }

    pub(crate) fn analyzed(&self, metrics: &str, plots: &str, more: &str) {
        self.write("settings_analysis.toml", &analysis(metrics, plots, more));
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    pub(crate) fn run(&self, line: &str) -> Run {
        shell(self.folder.path(), line)
    }

    /// The report of a launch that succeeds.
    pub(crate) fn launch(&self, line: &str) -> Value {
        let run = self.run(&format!("{line} --format json"));
        assert_eq!(run.status, Some(0), "{line}\n{run}");
        serde_json::from_str(run.out.trim()).expect("a report")
    }

    /// How many of a product were built, and how many were there.
    pub(crate) fn count(report: &Value, product: &str) -> (usize, usize) {
        let of = |status: &str| {
            let products = report["products"].as_array().expect("products");
            products.iter().filter(|one| one["product"] == product && one["status"] == status).count()
        };
        (of("built"), of("hit"))
    }

    /// The folders of the runs.
    pub(crate) fn runs(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for variant in fs::read_dir(self.out().join("runs")).expect("runs") {
            let variant = variant.expect("an entry").path();
            found.extend(fs::read_dir(variant).expect("runs").map(|entry| entry.expect("an entry").path()));
        }
        found.sort();
        found
    }

    pub(crate) fn baseline(&self) -> PathBuf {
        let runs = self.runs();
        runs.into_iter().find(|run| run.to_string_lossy().contains("/baseline-")).expect("the baseline")
    }
}

pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

/// Every file below a folder but those of `locks`, with its content and its time.
pub(crate) fn files(root: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut files = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.extend((!path.ends_with("locks")).then_some(path));
            } else {
                let modified = path.metadata().and_then(|metadata| metadata.modified()).expect("a time");
                files.insert(path.clone(), (fs::read(&path).expect("a file"), modified));
            }
        }
    }
    files
}

#[test]
fn a_study_runs_records_its_metrics_at_nodes_and_does_nothing_again() {
    let study = Study::new();
    let report = study.launch("waycairn run");
    assert_eq!(Study::count(&report, "model"), (2, 0));
    assert_eq!(Study::count(&report, "position_losses"), (2, 0));
    let run = study.baseline();
    let metrics = json(&run.join("metrics.json"));
    let mean = metrics["loss_by_position"]["mean"].as_f64().expect("a number");
    assert_eq!(json(&run.join("metrics/loss_by_position.json")), metrics["loss_by_position"]);
    assert!(run.join("plots/loss_by_position_curve/curve.svg").is_file());
    let state = json(&run.join("analysis.json"));
    assert_eq!(state["state"], "complete");
    assert!(study.out().join(state["source"].as_str().expect("an archive")).is_file());
    let artifacts = json(&run.join("artifacts.json"));
    let losses = artifacts["artifacts"]["position_losses"]["path"].as_str().expect("a path");
    assert!(study.out().join(losses).join("loss.npy").is_file());
    // One system: the metric is at the node that was trained, which has not ticked.
    let shown = study.run("waycairn show gpt.baseline.r0 --root out --format json");
    let shown: Value = serde_json::from_str(&shown.out).expect("a node");
    assert_eq!(shown["seq"], 1);
    assert_eq!(shown["fields"]["loss_by_position/mean"].as_f64(), Some(mean));
    assert_eq!(shown["fields"]["train/step"], 2);
    // What it was computed from is told there too.
    for name in ["loss_by_position", "loss_by_position_curve"] {
        assert!(state["results"][name]["fingerprint"].is_string(), "{state}");
        assert_eq!(
            shown["fields"][format!("{name}/fingerprint")],
            state["results"][name]["fingerprint"],
            "{name}"
        );
    }
    assert!(shown["files"].to_string().contains("loss_by_position_curve.curve.svg"), "{}", shown["files"]);

    let before = files(&study.out());
    let again = study.launch("waycairn run");
    assert_eq!(Study::count(&again, "model"), (0, 2));
    assert_eq!(Study::count(&again, "position_losses"), (0, 2));
    assert_eq!(files(&study.out()), before, "case 4: nothing is written again");
    // What was changed by hand is found, and written again.
    let shown_metrics = run.join("metrics.json");
    let shown_metrics = shown_metrics.strip_prefix(study.out()).expect("below the root");
    for text in ["{}", "", "no JSON", "[1]"] {
        fs::write(run.join("metrics.json"), text).expect("a file");
        let verified = study.run("waycairn verify --root out");
        assert!(verified.status == Some(3) && verified.out.contains("metrics.json"), "{text}\n{verified}");
        // It was left out of the answer without a word. What says no metric is none that cannot be read.
        let compared = study.run("waycairn compare --root out");
        assert!(compared.status == Some(0) && compared.out.contains("gpt.baseline.r0"), "{text}\n{compared}");
        let told = compared.err.contains(&format!("`out/{}` is damaged", shown_metrics.display()))
            && compared
                .err
                .contains("the metrics of `gpt.baseline.r0` are left out; `waycairn analyze` writes");
        assert_eq!(told, text != "{}", "{text}\n{compared}");
        study.launch("waycairn run");
        assert_eq!(json(&run.join("metrics.json")), metrics, "{text}");
    }
    fs::remove_file(run.join("metrics.json")).expect("a file");
    study.launch("waycairn analyze");
    assert_eq!(json(&run.join("metrics.json")), metrics);
    // Training the same again lets the analyses begin anew, and keeps their data. Their results went without a word.
    let report = study.launch("waycairn train");
    assert!(!run.join("analysis.json").exists() && !run.join("metrics").exists());
    let removed: Vec<&str> =
        report["removed"].as_array().expect("paths").iter().filter_map(Value::as_str).collect();
    assert_eq!(removed.len(), 8, "{removed:?}");
    for name in ["analysis.json", "metrics.json", "metrics", "plots"] {
        let path = run.join(name).strip_prefix(study.out()).expect("below the root").display().to_string();
        assert!(removed.contains(&path.as_str()), "{path} {removed:?}");
    }
    // Of two runs: two files of JSON, a metric and a plot.
    assert_eq!(report["cleaned"]["removed"]["files"], 8);
    study.launch("waycairn analyze");
    let said = study.run("waycairn train");
    assert!(said.out.contains("  clean-up: the metrics and plots of 2 runs removed (8 files, "), "{said}");
    assert!(said.out.contains("`waycairn analyze` computes them"), "{said}");
    let said = study.run("waycairn train");
    assert!(!said.out.contains("metrics and plots") && !said.out.contains("analyze"), "{said}");
    let analyzed = study.launch("waycairn analyze");
    assert_eq!(Study::count(&analyzed, "position_losses"), (0, 2));
    assert_eq!(json(&run.join("metrics.json")), metrics);
    assert_eq!(json(&study.out().join("history.json"))["roots"].as_array().map(Vec::len), Some(1));
    assert_eq!(study.run("waycairn verify --root out").status, Some(0));
}

#[test]
fn results_of_a_model_that_is_made_once_more_go_with_a_word() {
    let study = Study::new();
    study.launch("waycairn run");
    fs::remove_dir_all(study.out().join("cache/model")).expect("models");
    let run = study.run("waycairn run");
    assert_eq!(run.status, Some(0), "{run}");
    for folder in study.runs() {
        let folder = folder.strip_prefix(study.out()).expect("below the root").display();
        assert!(run.err.contains(&format!("the metrics and plots of `{folder}` are removed")), "{run}");
    }
    let again = study.run("waycairn run");
    assert!(!again.err.contains("are removed"), "{again}");
}

#[test]
fn what_is_reused_is_what_did_not_change() {
    let study = Study::new();
    study.launch("waycairn run");
    let run = study.baseline();
    let of = |name: &str| json(&run.join("analysis.json"))["results"][name].clone();
    let (metric, plot) = (of("loss_by_position"), of("loss_by_position_curve"));
    let figure = fs::read(run.join("plots/loss_by_position_curve/curve.svg")).expect("a figure");

    // The label of a plot: all products and weights, and the metric.
    study.analyzed(
        "'loss_by_position'",
        "'loss_by_position_curve'",
        "loss_by_position_curve = { width = 300 }",
    );
    let report = study.launch("waycairn analyze");
    assert_eq!(Study::count(&report, "position_losses"), (0, 2));
    assert_eq!(of("loss_by_position"), metric, "it was kept, with the time that it took");
    assert_ne!(of("loss_by_position_curve"), plot);
    assert_ne!(fs::read(run.join("plots/loss_by_position_curve/curve.svg")).expect("a figure"), figure);

    // A metric on products that are there: that metric alone.
    study.analyzed("", "'loss_by_position_curve'", "loss_by_position_curve = { width = 300 }");
    study.launch("waycairn run");
    assert!(!run.join("metrics/loss_by_position.json").exists(), "case 7: the old metric is gone");
    let plot = of("loss_by_position_curve");
    study.analyzed(
        "'loss_by_position'",
        "'loss_by_position_curve'",
        "loss_by_position_curve = { width = 300 }",
    );
    let report = study.launch("waycairn run");
    assert_eq!(Study::count(&report, "model"), (0, 2));
    assert_eq!(Study::count(&report, "position_losses"), (0, 2));
    assert_eq!(of("loss_by_position_curve"), plot);
    assert_eq!(of("loss_by_position")["fingerprint"], metric["fingerprint"]);

    // A setting that a product reads: that product and what follows from it.
    study.analyzed("'loss_by_position'", "", "position = { rows = 1 }");
    let why = study.run("waycairn why position_losses");
    assert!(why.out.contains("settings.analysis.position.rows: 0 -> 1"), "{why}");
    let plan: Value = serde_json::from_str(&study.run("waycairn plan --format json").out).expect("a plan");
    let planned: Vec<(&str, &str)> = plan["runs"][0]["products"]
        .as_array()
        .expect("products")
        .iter()
        .filter_map(|one| Some((one["product"].as_str()?, one["status"].as_str()?)))
        .collect();
    assert_eq!(planned, [("model", "hit"), ("position_losses", "miss")]);
    let report = study.launch("waycairn analyze");
    assert_eq!(Study::count(&report, "position_losses"), (2, 0));
    assert_ne!(of("loss_by_position")["fingerprint"], metric["fingerprint"]);
    assert!(!run.join("plots/loss_by_position_curve").exists());

    // Nothing is asked for: no product is referred to.
    study.analyzed("", "", "");
    study.launch("waycairn analyze");
    let artifacts = json(&run.join("artifacts.json"));
    assert_eq!(artifacts["artifacts"].as_object().map(serde_json::Map::len), Some(1), "case 7: {artifacts}");

    // A learning rate: the models, and what depends on them.
    study.analyzed("'loss_by_position'", "", "");
    study.write("settings_training.toml", &TRAINING.replace("[0.01, 0.002]", "[0.01, 0.003]"));
    let report = study.launch("waycairn run");
    assert_eq!(Study::count(&report, "model"), (1, 1));
    assert_eq!(study.runs().len(), 2);
}

/// Section 6 of the specification of studies, on products of every kind.
#[test]
fn what_follows_from_what_changed_is_built_again_and_nothing_else() {
    let study = Study::new();
    let products = ["model", "chain_data", "chain_scores", "chain_summary"];
    let counts = |report: &Value| products.map(|product| Study::count(report, product));
    study.analyzed("'chain'", "", "");
    // Two runs; what needs no model is one for both.
    assert_eq!(counts(&study.launch("waycairn run")), [(2, 0), (1, 1), (2, 0), (2, 0)]);
    assert_eq!(counts(&study.launch("waycairn run")), [(0, 2); 4]);

    // Levels: the summary.
    study.analyzed("'chain'", "", "chain = { levels = [0.5, 0.9] }");
    assert_eq!(counts(&study.launch("waycairn run")), [(0, 2), (0, 2), (0, 2), (2, 0)]);
    // A field of the same section that no product reads: nothing.
    study.analyzed("'chain'", "", "chain = { levels = [0.5, 0.9], unrelated = 1 }");
    assert_eq!(counts(&study.launch("waycairn run")), [(0, 2); 4]);
    // What only the data reads: it, and what follows.
    study.analyzed("'chain'", "", "chain = { levels = [0.5, 0.9], rows = 5 }");
    assert_eq!(counts(&study.launch("waycairn run")), [(0, 2), (1, 1), (2, 0), (2, 0)]);
    // A learning rate, and the width: the models, and what follows from them.
    for (old, new) in [("[0.01, 0.002]", "[0.03, 0.04]"), ("width = 8", "width = 16")] {
        study.write("settings_training.toml", &TRAINING.replace(old, new));
        assert_eq!(counts(&study.launch("waycairn run")), [(2, 0), (0, 2), (2, 0), (2, 0)], "{new}");
    }
    // What the data reads of the training: nearly everything.
    study.write("settings_training.toml", &TRAINING.replace("context = 8", "context = 4"));
    assert_eq!(counts(&study.launch("waycairn run")), [(2, 0), (1, 1), (2, 0), (2, 0)]);

    // Another device or world size: the model and what follows, which a plan knows without such a device.
    let folder = study.folder.path();
    let experiments = experiments![Gpt];
    let training = Training::read(&experiments, folder, None).expect("settings").with_output(study.out());
    let analysis = AnalysisSettings::read(folder, None, &Discovery::default()).expect("settings");
    let plan = Plan::new(&experiments, &training).expect("a plan");
    let there = plan.products(&analysis, &training).expect("products");
    for (device, world_size) in [("cuda", 1), ("cpu", 2)] {
        let mut other = plan.clone();
        for run in &mut other.runs {
            let backend = run.recipe.backend.clone().expect("a model has one");
            let backend = Backend { device: device.to_owned(), world_size, ..backend };
            run.recipe = run.recipe.clone().with_backend(backend);
            run.key = run.recipe.key().expect("a key");
        }
        let planned = other.products(&analysis, &training).expect("products");
        for (before, after) in there.iter().zip(&planned) {
            let states: Vec<_> = after.iter().map(|planned| planned.state).collect();
            assert_eq!(states, [ProductState::Hit, ProductState::Miss, ProductState::Miss]);
            assert_eq!(before[0].key, after[0].key, "the data is the same");
        }
    }
}

#[test]
fn study_case_06_a_plot_that_fails_leaves_what_was_there() {
    let study = Study::new();
    study.launch("waycairn run");
    let run = study.baseline();
    let results = |folder: &Path| [files(&folder.join("metrics")), files(&folder.join("plots"))];
    let (before, history) = (results(&run), fs::read(study.out().join("history.json")).expect("a history"));
    // The same training, analyzed again.
    study.analyzed("'loss_by_position'", "'plot'", "plot = { mode = 'wrong' }");
    let failed = study.run("waycairn analyze");
    assert_eq!(failed.status, Some(1), "{failed}");
    assert!(failed.err.contains("the plot `plot` failed"), "{failed}");
    assert_eq!(results(&run), before);
    let state = json(&run.join("analysis.json"));
    assert_eq!(state["state"], "failed");
    assert!(state["error"][1].as_str().expect("a text").contains("no mode `wrong`"), "{state}");
    // A panic is told with where it came from, and one run may be analyzed alone.
    study.analyzed("'loss_by_position'", "'plot'", "plot = { mode = 'panic' }");
    let panicked = study.run("RUST_BACKTRACE=1 waycairn analyze gpt.baseline.r0");
    assert_eq!(panicked.status, Some(1), "{panicked}");
    let state = json(&run.join("analysis.json"));
    assert!(state["error"][1].as_str().expect("a text").contains("the plot panics"), "{state}");
    assert!(state["backtrace"].as_str().expect("a backtrace").contains("hostile"), "{state}");
    assert_eq!(results(&run), before);
    let unknown = study.run("waycairn analyze gpt.baseline.r7");
    assert!(unknown.status == Some(1) && unknown.err.contains("nothing in `out` is called"), "{unknown}");
    // New settings: the new run is trained, and nothing old is gone.
    study.write("settings_training.toml", &TRAINING.replace("choice = [0.01, 0.002]", "choice = [0.3]"));
    let failed = study.run("waycairn run");
    assert_eq!(failed.status, Some(1), "{failed}");
    assert_eq!(fs::read(study.out().join("history.json")).expect("a history"), history);
    assert_eq!(results(&run), before);
    let runs = study.runs();
    assert_eq!(runs.len(), 3);
    let new = runs.iter().find(|one| json(&one.join("run.json"))["settings"]["learning_rate"] == 0.3);
    let new = new.expect("the new run");
    assert_eq!(json(&new.join("status.json"))["state"], "trained");
    assert_eq!(json(&new.join("analysis.json"))["state"], "failed");
    // A changed result is not taken for what it was, whatever the records say.
    fs::write(run.join("metrics/loss_by_position.json"), "{}").expect("a file");
    // Mended, it goes on with what is trained.
    study.analyzed("'loss_by_position'", "'plot'", "");
    let report = study.launch("waycairn run");
    assert_eq!(Study::count(&report, "model"), (0, 1));
    assert_eq!(study.runs().len(), 1, "the latest settings win");
}

#[test]
fn study_case_09_products_that_cannot_be_had_are_told_before_anything_is_done() {
    let study = Study::new();
    for (metrics, plots, more, told) in [
        ("'metric'", "", "", "no plugin that was found has the product `observations`"),
        ("'caller'", "", "", "it needs the function `double` of the experiment, which has `loss`, `head`"),
        ("'loss_by_positon'", "", "", "did you mean `loss_by_position`?"),
        ("'loss_by_position', 'loss_by_position'", "", "", "a list of texts, each once"),
        ("'plot'", "'plot'", "", "`metrics` cannot be \"plot\""),
        ("", "'loss_by_position'", "", "`plots` cannot be \"loss_by_position\""),
        ("'loss_by_position'", "", "position = { row = 1 }", "did you mean `position.rows`?"),
        ("'loss_by_position'", "", "positon = { rows = 1 }", "there is no setting `positon`"),
        (
            "'loss_by_position'",
            "",
            "position = { rows = { choice = [1, 2] } }",
            "only training settings hold choices",
        ),
        ("'loss_by_position'", "", "position = { rows = 'many' }", "line 5"),
    ] {
        study.analyzed(metrics, plots, more);
        let run = study.run("waycairn run");
        assert!(run.status == Some(1) || run.status == Some(2), "{metrics} {plots} {more}\n{run}");
        assert!(run.err.contains(told), "{metrics} {plots} {more}\n{run}");
        assert!(!study.out().exists(), "{metrics} {plots} {more}");
    }
    study.analyzed("'loss_by_position'", "", "");
    let run = study.run("waycairn analyze");
    assert!(run.err.contains("has not been trained") && run.status == Some(1), "{run}");
    assert!(!study.out().join("runs").exists());
}

#[test]
fn a_damaged_product_is_in_nobodys_way_who_does_not_read_it() {
    let study = Study::new();
    let launch = study.run("waycairn run");
    assert!(launch.err.contains("building position_losses: 0/2 rows\n"), "{launch}");
    let run = study.baseline();
    let of = |name: &str| json(&run.join("analysis.json"))["results"][name].clone();
    let metric = of("loss_by_position");
    let entry = json(&run.join("artifacts.json"))["artifacts"]["position_losses"]["path"].clone();
    let entry = study.out().join(entry.as_str().expect("a path"));
    let status = |report: &Value| {
        let products = report["products"].as_array().expect("products").iter();
        let mut found: Vec<String> = products
            .filter(|one| one["product"] == "position_losses")
            .filter_map(|one| one["status"].as_str().map(str::to_owned))
            .collect();
        found.sort();
        found
    };

    // Shorter than it was, which is seen at once. What was computed from it still holds.
    fs::write(entry.join("loss.npy"), "short").expect("a file");
    let report = study.launch("waycairn run");
    assert_eq!(status(&report), ["damaged", "hit"]);
    assert_eq!(of("loss_by_position"), metric);

    // Another plot that does not read it is computed, and the metric kept.
    study.analyzed("'loss_by_position'", "'plot'", "");
    let report = study.launch("waycairn analyze");
    assert_eq!(status(&report), ["damaged", "hit"]);
    assert!(run.join("plots/plot/curve.svg").is_file());
    assert_eq!(of("loss_by_position"), metric);

    // One that does is told which file.
    study.analyzed("'loss_by_position'", "'plot', 'loss_by_position_curve'", "");
    let failed = study.run("waycairn analyze");
    assert_eq!(failed.status, Some(1), "{failed}");
    assert!(failed.err.contains("position_losses") && failed.err.contains("loss.npy"), "{failed}");
    assert_eq!(of("loss_by_position"), metric);

    // Set aside it is missing, and a launch is whole only with all of its products: it is built again.
    assert!(study.run("waycairn verify --root out --quarantine").out.contains("set aside"));
    study.analyzed("'loss_by_position'", "'plot'", "");
    let report = study.launch("waycairn analyze");
    assert_eq!(status(&report), ["built", "hit"]);
    assert_eq!(of("loss_by_position"), metric);
    let verified = study.run("waycairn verify --root out");
    assert_eq!(verified.status, Some(0), "{verified}");
    assert!(verified.err.contains("checking: ") && verified.err.contains(" files\n"), "{verified}");
}

#[test]
fn study_case_08_a_root_that_was_copied_is_found_whole() {
    let study = Study::new();
    study.launch("waycairn run");
    fs::rename(study.out(), study.folder.path().join("moved")).expect("a move");
    let report = study.launch("RANK=7 WORLD_SIZE=nonsense waycairn run --root moved");
    assert_eq!(Study::count(&report, "model"), (0, 2));
    assert_eq!(Study::count(&report, "position_losses"), (0, 2));
    // And repeated from the copies of the settings that it keeps.
    let report = study.launch("waycairn run --settings-dir moved --root moved");
    assert_eq!(Study::count(&report, "model"), (0, 2));
    assert!(!study.out().exists());
    assert_eq!(study.run("waycairn verify --root moved").status, Some(0));
}

#[test]
fn runs_are_compared_by_path_and_restored() {
    let study = Study::new();
    study.launch("waycairn run");
    let rows = study.run("waycairn compare --root out --format json");
    let rows: Value = serde_json::from_str(&rows.out).expect("rows");
    let rows = rows.as_array().expect("rows");
    assert_eq!(rows.len(), 2);
    let metrics = json(&study.baseline().join("metrics.json"));
    let baseline = rows.iter().find(|row| row["variant"] == "baseline").expect("the baseline");
    assert_eq!(baseline["loss_by_position.mean"], metrics["loss_by_position"]["mean"]);
    assert_eq!((&baseline["member"], &baseline["state"]), (&Value::from("r0"), &Value::from("trained")));
    let table = study.run("waycairn compare settings.learning_rate --root out --format csv");
    assert!(table.out.contains("settings.learning_rate") && table.out.contains(",0.002\n"), "{table}");
    let exported = study.run("waycairn export --csv settings.learning_rate --root out");
    assert_eq!(exported.out, table.out, "{exported}");
    let plotted = study.run(
        "waycairn compare loss_by_position.mean train/loss --plot --against settings.learning_rate --root out -o a.svg",
    );
    assert_eq!(plotted.status, Some(0), "{plotted}");
    let svg = fs::read_to_string(study.folder.path().join("a.svg")).expect("a figure");
    assert_eq!(svg.matches("<circle").count(), 4, "two runs, two paths");
    let wrong = study.run("waycairn compare loss_by_position.men --root out");
    assert!(wrong.err.contains("the nearest is `loss_by_position.mean`"), "{wrong}");

    let restored = study
        .run("RANK=3 WORLD_SIZE=8 waycairn restore gpt.baseline.r0 --device cpu --root out --format json");
    assert_eq!(restored.status, Some(0), "{restored}");
    let restored: Value = serde_json::from_str(&restored.out).expect("a run");
    assert_eq!(restored["outputs"]["logits"][1], 8);
    assert!(restored["tensors"].as_u64() > Some(5));
    let products: Vec<&str> = restored["artifacts"]
        .as_array()
        .expect("artifacts")
        .iter()
        .filter_map(|artifact| artifact["product"].as_str())
        .collect();
    assert_eq!(products, ["model", "position_losses"]);
    let unknown = study.run("waycairn restore gpt.baseline.r9 --root out");
    assert!(unknown.status == Some(1) && unknown.err.contains("nothing in `out` is called"), "{unknown}");
}

#[test]
fn study_3_local_workers_share_the_runs_of_a_study() {
    let study = Study::new();
    study.write("settings_training.toml", &format!("{TRAINING}cohort = {{ replicas = 3 }}\n"));
    let run = study.run("waycairn launch -n 3 -- run --format json");
    assert_eq!(run.status, Some(0), "{run}");
    let reports: Vec<Value> =
        run.out.lines().map(|line| serde_json::from_str(line).expect("a report")).collect();
    assert_eq!(reports.len(), 3);
    let built = |product: &str| reports.iter().map(|report| Study::count(report, product).0).sum::<usize>();
    assert_eq!((built("model"), built("position_losses")), (6, 6), "{run}");
    assert!(study.out().join("history.json").is_file(), "the last one has settled");
    let again = study.launch("waycairn run");
    assert_eq!((Study::count(&again, "model"), Study::count(&again, "position_losses")), ((0, 6), (0, 6)));
    let failed = study.run("waycairn launch -n 2 -- run --profile none");
    assert_eq!(failed.status, Some(2), "{failed}");
}

#[test]
fn space_is_told_and_a_run_is_removed_after_a_plan() {
    let study = Study::new();
    let report = study.launch("waycairn run");
    assert_eq!(report["cleaned"]["removed"], serde_json::json!({ "files": 0, "bytes": 0 }));
    assert!(report["cleaned"]["kept"]["bytes"].as_u64() > Some(1_000), "{report}");
    let value = |line: &str| -> Value {
        let run = study.run(line);
        assert_eq!(run.status, Some(0), "{run}");
        serde_json::from_str(&run.out).expect("JSON")
    };
    let usage = value("waycairn du --root out --entries --format json");
    let areas = usage["areas"].as_array().expect("areas");
    let sum: u64 = areas.iter().filter_map(|area| area["bytes"].as_u64()).sum();
    assert_eq!(usage["bytes"].as_u64(), Some(sum));
    assert_eq!(
        (usage["runs"].as_array().map(Vec::len), usage["entries"].as_array().map(Vec::len)),
        (Some(2), Some(4))
    );
    assert!(study.run("waycairn du --root out").out.contains("position_losses"), "products are told");

    let plan = study.run("waycairn rm gpt.baseline.r0 --root out");
    assert!(plan.status == Some(0) && plan.out.contains("nothing is removed without --yes"), "{plan}");
    assert!(study.baseline().is_dir());
    let done = value("waycairn rm gpt.baseline.r0 --root out --yes --format json");
    assert_eq!((&done["removed"], &done["what"]), (&Value::from(true), &Value::from("run")));
    assert_eq!(value("waycairn nodes --root out --format json").as_array().map(Vec::len), Some(1));
    let again = study.run("waycairn rm gpt.baseline.r0 --root out --yes");
    assert!(again.status == Some(1) && again.err.contains("waycairn nodes"), "{again}");
    let listing = value("waycairn gc --root out --dry-run --format json");
    assert_eq!(listing["branches"][0]["reason"], "run");
    // The study is whole again after its next launch.
    study.launch("waycairn run");
    assert_eq!(study.run("waycairn verify --root out").status, Some(0));
    assert_eq!(value("waycairn nodes --root out --format json").as_array().map(Vec::len), Some(2));
}

#[test]
fn a_flipped_byte_of_a_checkpoint_is_found_by_the_deep_check() {
    let study = Study::new();
    study.launch("waycairn train");
    let blobs = fs::read_dir(study.out().join("objects/blobs")).expect("blobs");
    let mut models = blobs.map(|entry| entry.expect("an entry").path().join("checkpoint/model.safetensors"));
    let model = models.find(|model| model.is_file()).expect("a checkpoint");
    let mut bytes = fs::read(&model).expect("a file");
    *bytes.last_mut().expect("a byte") ^= 1;
    fs::write(&model, bytes).expect("a file");
    let verified = study.run("waycairn verify --root out --format json");
    assert_eq!(verified.status, Some(3), "{verified}");
    let found: Value = serde_json::from_str(&verified.out).expect("what is damaged");
    let path = model.strip_prefix(study.out()).expect("a path below the root").display().to_string();
    let what = "its bytes have another digest";
    assert_eq!(found["damaged"], serde_json::json!([{ "path": path, "key": null, "what": what }]));
}

#[test]
fn a_run_whose_text_is_gone_is_opened_all_the_same() {
    let study = Study::new();
    let text: String = (0..400).map(|line| format!("line {line}\n")).collect();
    study.write("text.txt", &text);
    let named = TRAINING.replace("context = 8", "context = 8, source = 'text.txt'");
    study.write("settings_training.toml", &named);
    study.launch("waycairn train");
    fs::remove_file(study.folder.path().join("text.txt")).expect("a text");
    let restored = study.run("waycairn restore gpt.baseline.r0 --root out --format json");
    assert_eq!(restored.status, Some(0), "{restored}");
    let said: Value = serde_json::from_str(&restored.out).expect("a run");
    assert_eq!(said["outputs"], serde_json::json!({}));
    assert!(said["without_outputs"].as_str().is_some_and(|why| why.contains("text.txt")), "{said}");
    assert!(said["tensors"].as_u64() > Some(5));
    assert!(restored.err.contains("`data.source` in settings_training.toml"), "{restored}");
    let launched = study.run("waycairn train");
    for told in [&restored, &launched] {
        assert!(!told.err.contains("--text") && !told.err.contains("plugin"), "{told}");
    }
    assert!(matches!(launched.status, Some(1 | 2)), "{launched}");
    assert!(launched.err.contains("`data.source` of settings_training.toml"), "{launched}");
}
