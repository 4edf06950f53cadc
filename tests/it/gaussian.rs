//! The Gaussian ratio-estimation study: the acceptance cases of its page that need a whole study.

#![cfg(unix)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use waycairn_tests::{Run, plugin};
use waycairn_train::{Nre, experiments};

use crate::help::{folder, shell};
use crate::study::{files, json};

/// Everything that is computed of each run, and small.
const METRICS: &str = "'classification', 'bias', 'coverage', 'width', 'resolution', 'posterior', 'exact_reference', \
                       'pairwise', 'reweighting', 'normalization'";
const PLOTS: &str = "'training', 'prior', 'inference', 'pairwise', 'reweighting', 'showcase'";

struct Gaussian {
    folder: tempfile::TempDir,
}

impl Gaussian {
    /// The profile `smoke`, without calibration: what the page counts.
    fn new() -> Self {
        let study = Self { folder: folder() };
        study.training("");
        study.analysis(METRICS, PLOTS, "");
        study
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).expect("settings");
    }

    /// Settings of the training, with further lines.
    fn training(&self, more: &str) {
        let base = "[base]\nexperiment = 'nre'\noutput = 'out'\n\
                    data = { train_size = 1024, validation_size = 256, test_size = 256 }\n";
        let own = |table: &str, fields: &str| if more.contains(table) { "" } else { fields }.to_owned();
        let model = own("model = ", "model = { hidden = [32, 32] }\n");
        let training = own("training = ", "training = { epochs = 2, evaluation_batch_size = 2048 }\n");
        self.write("settings_training.toml", &format!("{base}{model}{training}{more}"));
    }

    /// Settings of the analysis; `more` are fields of `inference`, or whole tables after a line break.
    fn analysis(&self, metrics: &str, plots: &str, more: &str) {
        let (inference, tables) = more.split_once('\n').unwrap_or((more, ""));
        let inference = if inference.is_empty() { String::new() } else { format!(", {inference}") };
        let text = format!(
            "[base]\nplugins = ['{}']\nmetrics = [{metrics}]\nplots = [{plots}]\n\
             inference = {{ truth_design = 'grid', truth_points_per_axis = 7, candidate_count = 256, \
             diagnostic_cases = 2{inference} }}\n\
             showcase = {{ samples = 256, bins = 30 }}\ncalibration = {{ cases = 32 }}\n\
             plotting = {{ bins = 30, prior_points = 1000 }}\n{tables}{}",
            plugin("gaussian_study").display(),
            if tables.contains("verification") { "" } else { VERIFICATION },
        );
        self.write("settings_analysis.toml", &text);
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn run(&self, line: &str) -> Run {
        shell(self.folder.path(), line)
    }

    fn launch(&self, line: &str) -> Value {
        let run = self.run(&format!("{line} --format json"));
        assert_eq!(run.status, Some(0), "{line}\n{run}");
        serde_json::from_str(run.out.trim()).expect("a report")
    }

    /// The folders of the runs, by variant and member.
    fn runs(&self) -> BTreeMap<(String, String), PathBuf> {
        let mut found = BTreeMap::new();
        for variant in fs::read_dir(self.out().join("runs")).expect("runs") {
            for run in fs::read_dir(variant.expect("an entry").path()).expect("runs") {
                let folder = run.expect("an entry").path();
                let run = json(&folder.join("run.json"));
                let text = |key: &str| run[key].as_str().expect("a text").to_owned();
                found.insert((text("variant"), text("member")), folder);
            }
        }
        found
    }

    fn member(&self, member: &str) -> PathBuf {
        self.runs().into_iter().find(|((_, of), _)| of == member).expect("the member").1
    }

    /// The entries of a product, by key.
    fn entries(&self, product: &str) -> BTreeSet<String> {
        let entries = fs::read_dir(self.out().join("cache").join(product)).expect("a product");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }

    /// The shape of an array of a run's artifact, and its values.
    fn array(&self, run: &Path, product: &str, name: &str) -> (Vec<usize>, Vec<f64>) {
        let artifacts = json(&run.join("artifacts.json"));
        let path = artifacts["artifacts"][product]["path"].as_str().expect("a path");
        let bytes = fs::read(self.out().join(path).join(format!("{name}.npy"))).expect("an array");
        let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        let text = String::from_utf8_lossy(&bytes[10..10 + header]).into_owned();
        let shape = text.split("'shape': (").nth(1).and_then(|rest| rest.split(')').next()).expect("a shape");
        let shape: Vec<usize> = shape.split(',').filter_map(|size| size.trim().parse().ok()).collect();
        let data = &bytes[10 + header..];
        let values = if text.contains("<f8") {
            data.chunks_exact(8).map(|one| f64::from_le_bytes(one.try_into().expect("eight"))).collect()
        } else if text.contains("<f4") {
            data.chunks_exact(4)
                .map(|one| f64::from(f32::from_le_bytes(one.try_into().expect("four"))))
                .collect()
        } else {
            panic!("an array of floats: {text}")
        };
        (shape, values)
    }
}

const VERIFICATION: &str = "verification = { pairs = 4, samples_per_endpoint = 32, source_samples = 64, \
                            target_samples = 64, directions = 4, marginal_samples = 128, \
                            normalization_thetas = 4 }\n";

/// How many of a product were built, and how many were there.
fn count(report: &Value, product: &str) -> (usize, usize) {
    let of = |status: &str| {
        let products = report["products"].as_array().expect("products");
        products.iter().filter(|one| one["product"] == product && one["status"] == status).count()
    };
    (of("built"), of("hit"))
}

#[test]
fn gaussian_case_14_four_priors_share_what_does_not_depend_on_them() {
    let study = Gaussian::new();
    let report = study.launch("waycairn run");
    for (product, entries) in [
        ("model", 4),
        ("training", 4),
        ("observations", 1),
        ("verification_observations", 1),
        ("showcase_observations", 1),
        ("candidates", 2),
        ("ensemble_scores", 4),
        ("inference", 4),
        ("test_predictions", 4),
        ("verification_predictions", 4),
        ("reweighting_distances", 4),
        ("normalization_observations", 4),
        ("normalization_predictions", 4),
        ("showcase_predictions", 4),
    ] {
        assert_eq!(study.entries(product).len(), entries, "{product}");
        assert_eq!(count(&report, product).0, entries, "{product}");
    }
    // 9 of each prior, 3 shared, 2 sets of candidates; and scores of each prior, which are a product of their own here.
    let all: usize = fs::read_dir(study.out().join("cache"))
        .expect("the cache")
        .map(|product| study.entries(&product.expect("an entry").file_name().to_string_lossy()).len())
        .sum();
    assert_eq!(all, 45);

    for ((_, member), run) in study.runs() {
        let metrics = json(&run.join("metrics.json"));
        let names: BTreeSet<&str> =
            metrics.as_object().expect("metrics").keys().map(String::as_str).collect();
        let wanted: BTreeSet<&str> = METRICS.split(", ").map(|name| name.trim_matches('\'')).collect();
        assert_eq!(names, wanted);
        let auc = metrics["classification"]["auc"].as_f64().expect("a number");
        assert!((0.0..=1.0).contains(&auc));
        assert_eq!(metrics["posterior"]["enabled"], true);
        assert!(metrics["resolution"]["candidate_ess_min"].as_f64().expect("a number") >= 1.0);
        let artifacts = json(&run.join("artifacts.json"));
        let model = artifacts["artifacts"]["model"]["path"].as_str().expect("a path");
        let history = json(&study.out().join(model).join("history.json"));
        for list in ["train_loss", "validation"] {
            assert_eq!(history[list].as_array().expect("a list").len(), 2, "{list}");
        }
        assert_eq!((&history["selected_epoch"], &history["rows_per_epoch"]), (&2.into(), &1024.into()));
        for (plot, figures) in [
            ("training", &["loss"][..]),
            ("prior", &["mean-0"]),
            ("inference", &["estimates-mean-0", "marginal-0-mean-0", "marginal-6-mean-0"]),
            ("pairwise", &["median", "worst"]),
            ("reweighting", &["axis-0"]),
            ("showcase", &["axis-0"]),
        ] {
            for figure in figures {
                let png = fs::read(run.join(format!("plots/{plot}/{figure}.png"))).expect("a figure");
                assert!(png.starts_with(b"\x89PNG"), "{member} {plot} {figure}");
            }
        }
    }

    // A model that is opened again gives the logits that are kept: by the other arithmetic, of Burn.
    let run = study.member("normal-r0");
    let (shape, kept) = study.array(&run, "test_predictions", "logits");
    assert_eq!(shape, [256]);
    let (_, x) = study.array(&run, "training", "test_x");
    let (_, theta) = study.array(&run, "training", "test_theta");
    let node = json(&run.join("run.json"))["node"].as_str().expect("a node").to_owned();
    let node = node.parse::<waycairn_dag::Address>().expect("an address").decode();
    let known = experiments![].with_rows(Nre);
    let column = |name: &str, values: &[f64]| {
        let values: Vec<f32> = values.iter().map(|value| *value as f32).collect();
        waycairn_analysis_host::OwnedTensor::from_f32(name, vec![256, 1], &values).expect("an array")
    };
    let again = waycairn_train::at_node(&known, &study.out(), &node, "cpu", |host| {
        let logits = host.forward(&[column("x", &x), column("theta", &theta)]).expect("logits");
        logits[0].view().as_f32().expect("floats").to_vec()
    })
    .expect("the node");
    for (again, kept) in again.iter().zip(&kept) {
        assert!((f64::from(*again) - kept).abs() < 3e-7 * kept.abs().max(1.0), "{again} {kept}");
    }

    let verified: Value =
        serde_json::from_str(&study.run("waycairn verify --root out --format json").out).expect("JSON");
    assert_eq!(verified["damaged"], serde_json::json!([]), "{verified}");
    assert!(verified["checked"].as_u64().expect("a number") > 20);
}

#[test]
fn gaussian_case_15_a_second_run_does_nothing_and_a_metric_more_computes_that_metric() {
    let study = Gaussian::new();
    study.analysis("'classification'", "", "");
    study.launch("waycairn run");
    let (runs, before) = (study.runs(), files(&study.out()));
    let references = |run: &Path| json(&run.join("artifacts.json"))["artifacts"].clone();
    let model = references(&study.member("grid-r0"))["model"].clone();
    study.launch("waycairn run");
    let after = files(&study.out());
    let weights = |files: &BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)>| -> Vec<_> {
        let own = files.iter().filter(|(path, _)| path.ends_with("weights.safetensors"));
        own.map(|(path, file)| (path.clone(), file.clone())).collect()
    };
    assert_eq!(weights(&before).len(), 4);
    assert_eq!(weights(&before), weights(&after));
    study.analysis("'classification', 'parameter_count'", "", "");
    let report = study.launch("waycairn analyze");
    assert!(report["products"].as_array().expect("products").iter().all(|one| one["status"] == "hit"));
    assert_eq!(study.runs(), runs);
    let run = study.member("grid-r0");
    assert_eq!(references(&run)["model"], model);
    assert_eq!(json(&run.join("metrics.json"))["parameter_count"]["trainable_parameters"], 1185);
}

#[test]
fn gaussian_case_16_and_30_each_change_builds_what_reads_it_and_nothing_else() {
    let study = Gaussian::new();
    let one = "cohort = { priors = ['uniform', 'grid'] }\n";
    study.training(one);
    study.launch("waycairn run");
    let products = [
        "training",
        "model",
        "observations",
        "candidates",
        "ensemble_scores",
        "inference",
        "test_predictions",
        "verification_observations",
        "verification_predictions",
        "reweighting_distances",
        "normalization_observations",
        "normalization_predictions",
        "showcase_observations",
        "showcase_predictions",
    ];
    // The products of which something was built.
    let built = |report: &Value| -> BTreeSet<&str> {
        products.into_iter().filter(|product| count(report, product).0 > 0).collect()
    };
    let of_model: BTreeSet<&str> = [
        "model",
        "ensemble_scores",
        "inference",
        "test_predictions",
        "verification_predictions",
        "reweighting_distances",
        "normalization_predictions",
        "showcase_predictions",
    ]
    .into();
    assert_eq!(built(&study.launch("waycairn run")), BTreeSet::new());

    // Learning rate and architecture: the model and what depends on it.
    study.training(&format!(
        "{one}training = {{ epochs = 2, evaluation_batch_size = 2048, learning_rate = 0.002 }}\n"
    ));
    assert_eq!(built(&study.launch("waycairn run")), of_model);
    study.training(&format!("{one}model = {{ hidden = [16] }}\n"));
    assert_eq!(built(&study.launch("waycairn run")), of_model);
    study.training(one);
    assert_eq!(built(&study.launch("waycairn run")), BTreeSet::new(), "the last three settings are kept");

    // Levels and retained scores: the summary, and no scores.
    let inference: BTreeSet<&str> = ["inference"].into();
    study.analysis(METRICS, PLOTS, "levels = [0.5, 0.9]");
    assert_eq!(built(&study.launch("waycairn analyze")), inference);
    study.analysis(METRICS, PLOTS, "levels = [0.5, 0.9], retain = 'full'");
    assert_eq!(built(&study.launch("waycairn analyze")), inference);

    // One field of `verification`: what reads it.
    study.analysis(METRICS, PLOTS, "levels = [0.5, 0.9], retain = 'full'\nverification = { pairs = 4, samples_per_endpoint = 32, source_samples = 64, target_samples = 64, directions = 4, marginal_samples = 64, normalization_thetas = 4 }\n");
    let normalization: BTreeSet<&str> = ["normalization_observations", "normalization_predictions"].into();
    assert_eq!(built(&study.launch("waycairn analyze")), normalization);

    // A setting of plots: that plot, and no product.
    study.analysis("'classification'", "'prior'", "");
    study.launch("waycairn analyze");
    let text = fs::read_to_string(study.folder.path().join("settings_analysis.toml")).expect("settings");
    study.write("settings_analysis.toml", &text.replace("prior_points = 1000", "prior_points = 500"));
    let report = study.launch("waycairn analyze");
    assert_eq!(built(&report), BTreeSet::new());

    // Another set of parameters: nearly everything is of another problem.
    study.analysis(METRICS, PLOTS, "");
    study.training(&format!("{one}problem = {{ infer = ['std:0'] }}\n"));
    assert_eq!(built(&study.launch("waycairn run")), products.into_iter().collect());
}

#[test]
fn gaussian_case_16_a_sweep_of_learning_rates_shares_its_data() {
    let study = Gaussian::new();
    study.training(
        "cohort = { priors = ['normal'] }\n\
         training = { epochs = 1, evaluation_batch_size = 2048, learning_rate = { choice = [0.001, 0.01] } }\n",
    );
    study.launch("waycairn run");
    let references: Vec<Value> = study
        .runs()
        .into_values()
        .map(|run| json(&run.join("artifacts.json"))["artifacts"].clone())
        .collect();
    assert_eq!(references.len(), 2);
    for (product, shared) in [
        ("training", true),
        ("observations", true),
        ("candidates", true),
        ("verification_observations", true),
        ("model", false),
        ("inference", false),
    ] {
        assert_eq!(references[0][product] == references[1][product], shared, "{product}");
    }
}

#[test]
fn gaussian_case_17_two_dimensions_with_means_and_one_deviation() {
    let study = Gaussian::new();
    study.training(
        "cohort = { priors = ['normal'] }\nproblem = { dimension = 2, infer = ['mean:*', 'std:1'] }\n",
    );
    let text = fs::read_to_string(study.folder.path().join("settings_analysis.toml")).expect("settings");
    let text = text.replace(
        "truth_points_per_axis = 7, candidate_count = 256",
        "truth_points_per_axis = 2, candidate_count = 128",
    );
    study.write("settings_analysis.toml", &text);
    study.launch("waycairn run");
    let run = study.member("normal-r0");
    let artifacts = json(&run.join("artifacts.json"));
    let path =
        |product: &str| study.out().join(artifacts["artifacts"][product]["path"].as_str().expect("a path"));
    let parameters = &json(&path("observations").join("artifact.json"))["metadata"]["parameters"];
    assert_eq!(*parameters, serde_json::json!(["mean:0", "mean:1", "std:1"]));
    assert_eq!(study.array(&run, "candidates", "theta").0, [128, 3]);
    assert_eq!(study.array(&run, "inference", "ratio_mode").0, [8, 3]);
    let (_, truths) = study.array(&run, "observations", "truth");
    assert!(truths.chunks(3).all(|truth| truth[2] > 0.0));
    // The first layer takes two observations and three parameters.
    let weights = fs::read(path("model").join("weights.safetensors")).expect("weights");
    let weights = safetensors::SafeTensors::deserialize(&weights).expect("weights");
    assert_eq!(weights.tensor("layers.0.weight").expect("a tensor").shape(), [5, 32]);
    for figure in ["projection-0-0-1", "projection-0-1-2", "estimates-std-1"] {
        assert!(run.join(format!("plots/inference/{figure}.png")).is_file(), "{figure}");
    }
}

#[test]
fn gaussian_case_18_one_dimension_over_a_limit_refuses_the_launch_and_leaves_nothing() {
    let study = Gaussian::new();
    study.training("problem = { dimension = { choice = [1, 2] } }\n");
    study.analysis(METRICS, PLOTS, "max_model_evaluations = 100000");
    for stage in ["plan", "run"] {
        let refused = study.run(&format!("waycairn {stage}"));
        assert_ne!(refused.status, Some(0), "{refused}");
        for part in ["problem.dimension=2", "max_model_evaluations", "100000"] {
            assert!(refused.err.contains(part), "{part}\n{refused}");
        }
        assert!(!refused.err.contains("baseline of"), "{refused}");
        assert!(!study.out().exists());
    }
    // Training alone asks for no inference.
    study.launch("waycairn train");
    let refused = study.run("waycairn analyze");
    assert_ne!(refused.status, Some(0), "{refused}");
    assert!(refused.err.contains("problem.dimension=2"), "{refused}");
    assert!(!study.out().join("cache/observations").exists(), "case 19");
    assert!(study.runs().into_values().all(|run| !run.join("analysis.json").exists()));
    // What needs no inference is not refused.
    study.analysis("'classification'", "'training'", "max_model_evaluations = 100000");
    study.launch("waycairn analyze");
}

#[test]
fn gaussian_case_21_every_option_of_the_training_at_once() {
    let study = Gaussian::new();
    study.training(
        "cohort = { priors = ['exponential'] }\nmodel = { kind = 'residual', width = 16, blocks = 2, dropout = 0.1, activation = 'gelu' }\n\
         training = { epochs = 4, optimizer = 'adamw', weight_decay = 0.01, learning_rate = 0.03, gradient_clip = 1.0, checkpoint = 'best', evaluation_batch_size = 2048 }\n",
    );
    study.launch("waycairn run");
    let run = study.member("exponential-r0");
    let artifacts = json(&run.join("artifacts.json"));
    let model = study.out().join(artifacts["artifacts"]["model"]["path"].as_str().expect("a path"));
    let history = json(&model.join("history.json"));
    let losses: Vec<f64> = history["validation"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|epoch| epoch["bce"].as_f64().expect("a number"))
        .collect();
    let best = losses.iter().copied().fold(f64::INFINITY, f64::min);
    let best = losses.iter().position(|loss| *loss == best).expect("one") + 1;
    assert_eq!(history["selected_epoch"], best);
    // The node of the run is the one that the weights were taken at, and all that is computed is recorded there.
    let node = json(&run.join("run.json"))["node"].as_str().expect("a node").to_owned();
    let node = node.parse::<waycairn_dag::Address>().expect("an address").decode();
    assert_eq!(node.seq() + 1, 8 * best as u64);
    let (_, modes) = study.array(&run, "inference", "ratio_mode");
    assert!(modes.iter().all(|mode| mode.is_finite()));
    study.training("training = { precision = 'bfloat16' }\n");
    let refused = study.run("waycairn plan");
    assert!(refused.err.contains("`training.precision` is `bfloat16`"), "{refused}");
}

#[test]
fn gaussian_case_22_the_ratio_alone_and_pairs_off_the_lattice() {
    let study = Gaussian::new();
    study.training("cohort = { priors = ['uniform'] }\n");
    study.analysis(METRICS, PLOTS, "targets = ['ratio']\nverification = { pair_design = 'uniform', normalization_on_grid = false, pairs = 4, samples_per_endpoint = 32, source_samples = 64, target_samples = 64, directions = 4, marginal_samples = 128, normalization_thetas = 4 }\n");
    study.launch("waycairn run");
    let run = study.member("uniform-r0");
    let metrics = json(&run.join("metrics.json"));
    for metric in ["posterior", "exact_reference"] {
        assert_eq!(metrics[metric], serde_json::json!({ "enabled": false }));
    }
    let (shape, thetas) = study.array(&run, "normalization_observations", "theta");
    assert_eq!(shape, [4, 1]);
    // Ends and equal steps of the raw interval, which 10/3 shows to be off the lattice of 0.2.
    assert!((thetas[1] - 10.0 / 3.0).abs() < 1e-6, "{thetas:?}");
    let (_, pairs) = study.array(&run, "verification_observations", "pairs");
    assert!(pairs.iter().any(|theta| (theta / 0.2 - (theta / 0.2).round()).abs() > 1e-3));
    // A metric of the ratio needs it.
    study.analysis(METRICS, PLOTS, "targets = ['exact']");
    let refused = study.run("waycairn plan");
    assert!(refused.status != Some(0) && refused.err.contains("ratio"), "{refused}");
}

/// It was told as a product that cannot be planned, without the file, while another type was told with its line.
#[test]
fn a_value_out_of_range_is_told_as_a_setting_with_its_line() {
    let study = Gaussian::new();
    let head = format!(
        "[base]\nplugins = ['{}']\nmetrics = ['bias']\nplots = []\n\n",
        plugin("gaussian_study").display()
    );
    for (section, told) in [
        (
            "[base.inference]\nlevels = [0.5, 2.0]\nsobol_truths = 0\n",
            &[
                "`settings_analysis.toml` line 8: `inference.sobol_truths` is 0; allowed is a whole number of at least 1",
                "; line 7: `inference.levels` is [0.5,2.0]; allowed is a list",
            ][..],
        ),
        ("[base.inference]\n\nlevels = 'all'\n", &["`settings_analysis.toml` line 6: "]),
        (
            "[base.plotting]\n\nbins = 0\n",
            &["`settings_analysis.toml` line 8: `plotting.bins` is 0; allowed is "],
        ),
    ] {
        study.write("settings_analysis.toml", &format!("{head}{section}"));
        for command in ["waycairn plan", "waycairn run"] {
            let refused = study.run(command);
            refused.fails_with(2, told);
            assert!(!refused.err.contains("cannot be planned"), "{refused}");
            assert!(refused.err.contains(" next: correct the se"), "{refused}");
        }
    }
    assert!(!study.out().exists());
}

/// The last node was exported, and a study takes the best one as the model.
#[test]
fn an_export_of_a_run_has_the_weights_that_a_study_takes_as_its_model() {
    let folder = folder();
    let run = |line: &str| shell(folder.path(), line);
    // So long on so few rows that later epochs are worse.
    let sets =
        ["data.train_size=70", "data.validation_size=20", "training.batch_size=16", "training.epochs=12"];
    let model = ["model.kind=residual", "training.learning_rate=0.02", "training.checkpoint=best"];
    let sets: String = sets.iter().chain(&model).map(|set| format!(" --set {set}")).collect();
    let trained = run(&format!("waycairn train --root out --experiment nre{sets}"));
    assert_eq!(trained.status, Some(0), "{trained}");
    let exported = |node: &str, file: &str| {
        let run = run(&format!("waycairn export --root out {node} -o {file}"));
        assert_eq!(run.status, Some(0), "{run}");
        (fs::read(folder.path().join(file)).expect("weights"), run.err)
    };
    let (model, told) = exported("nre", "model.safetensors");
    let [best, last] = ["is that of `", "its last node is `"]
        .map(|before| told.split(before).nth(1).and_then(|rest| rest.split('`').next()).expect("a node"));
    assert_ne!(best, last, "{told}");
    let [best, last] =
        [(best, "best.safetensors"), (last, "last.safetensors")].map(|(node, file)| exported(node, file));
    assert_eq!((model == best.0, model == last.0), (true, false));
    assert_eq!([best.1, last.1], ["", ""], "a node that is named is meant");
}

#[test]
fn gaussian_case_23_what_cannot_be_run_on_is_refused() {
    let study = Gaussian::new();
    for (more, told) in [
        ("runtime = { parallel = 'ddp' }\n", "`runtime.parallel` cannot be"),
        ("runtime = { device = 'abacus' }\n", "abacus"),
        ("runtime = { device = 'cuda' }\n", "cuda"),
        ("runtime = { device = { choice = ['cpu', 'cuda'] } }\n", "separate launches"),
    ] {
        study.training(more);
        let refused = study.run("waycairn train");
        assert!(refused.status != Some(0) && refused.err.contains(told), "{more}{refused}");
        assert!(!study.out().exists());
    }
}

#[test]
fn gaussian_case_25_two_workers_share_the_members() {
    let study = Gaussian::new();
    study.training("cohort = { priors = ['uniform', 'normal'] }\n");
    study.analysis("'classification', 'bias'", "", "");
    let both = study.run("waycairn launch -n 2 -- run");
    assert_eq!(both.status, Some(0), "{both}");
    assert_eq!((study.entries("model").len(), study.entries("observations").len()), (2, 1));
    let weights = files(&study.out().join("cache/model"));
    let again = study.run("waycairn launch -n 2 -- run");
    assert_eq!(again.status, Some(0), "{again}");
    assert_eq!(files(&study.out().join("cache/model")), weights);
}

#[test]
fn f40_calibration_is_shown_as_a_difference_of_distributions_with_a_band() {
    let study = Gaussian::new();
    study.training("cohort = { priors = ['grid'] }\n");
    let both = "'simulation_based_calibration', 'tarp'";
    study.analysis(both, both, "");
    study.launch("waycairn run");
    let run = study.member("grid-r0");
    let metrics = json(&run.join("metrics.json"));
    let sbc = &metrics["simulation_based_calibration"];
    assert_eq!(sbc["cases"], 32);
    assert_eq!(sbc["inside"].as_array().map(Vec::len), Some(1));
    assert!(sbc["largest_difference"][0].as_f64().expect("a number") > 0.0);
    assert_eq!(sbc["exact_posterior"]["inside"][0], true, "ranks of the exact posterior are uniform: {sbc}");
    assert_eq!(metrics["tarp"]["exact_posterior"]["inside"], true, "{}", metrics["tarp"]);
    let svg =
        fs::read_to_string(run.join("plots/simulation_based_calibration/ecdf-mean-0.svg")).expect("a figure");
    for part in ["share of cases minus uniform", "holds an ideal curve with probability", "exact posterior"] {
        assert!(svg.contains(part), "{part}");
    }
    assert!(run.join("plots/tarp/coverage.png").is_file());
    // A metric and its plot of one name are recorded apart.
    let shown = study.run("waycairn show nre.baseline.grid-r0 --root out --format json");
    let shown: Value = serde_json::from_str(&shown.out).expect("a node");
    assert!(
        shown["fields"]["tarp/fingerprint"].is_string()
            && shown["fields"]["plot.tarp/fingerprint"].is_string()
    );
    assert_ne!(shown["fields"]["tarp/fingerprint"], shown["fields"]["plot.tarp/fingerprint"]);
}

#[test]
fn a_root_that_moved_gives_the_same_and_priors_are_compared_in_a_figure() {
    let study = Gaussian::new();
    study.analysis("'coverage', 'bias'", "", "");
    study.launch("waycairn run");
    fs::rename(study.out(), study.folder.path().join("moved")).expect("a move");
    let text = fs::read_to_string(study.folder.path().join("settings_training.toml")).expect("settings");
    study.write("settings_training.toml", &text.replace("output = 'out'", "output = 'moved'"));
    let report = study.launch("waycairn run");
    assert!(
        report["products"].as_array().expect("products").iter().all(|one| one["status"] == "hit"),
        "{report}"
    );
    let line = "waycairn compare coverage.joint_density.0 coverage.joint_density.1 --plot -o priors.svg --root moved";
    let drawn = study.run(line);
    assert_eq!(drawn.status, Some(0), "{drawn}");
    let svg = fs::read_to_string(study.folder.path().join("priors.svg")).expect("a figure");
    for prior in ["uniform-r0", "normal-r0", "exponential-r0", "grid-r0"] {
        assert_eq!(svg.matches(prior).count(), 1, "{prior}");
    }
    // Eight points, each with the middle of its bar.
    assert_eq!(svg.matches("<circle").count(), 16);
    // A root is repeated from its own copies of the settings, in the profile that it was trained in.
    let text = fs::read_to_string(study.folder.path().join("settings_training.toml")).expect("settings");
    study.write("settings_training.toml", &format!("{text}[profiles.other]\nseed = 3\n"));
    let other = study.launch("waycairn run --profile other");
    assert_eq!(count(&other, "model"), (4, 0));
    let again = study.launch("waycairn run --settings-dir moved");
    assert_eq!(count(&again, "model"), (0, 4), "{again}");
    let shown = study.run("waycairn restore nre.baseline.grid-r0 --root moved");
    assert_eq!(shown.status, Some(0), "{shown}");
}

/// Acceptance case 20: an experiment of another program, with rows of its own and a fixed linear model.
mod line {
    use burn::module::{Module, Param};
    use burn::tensor::Tensor;
    use serde_json::{Value, json};
    use waycairn_train::{
        Answer, Axis, Column, DataError, Demand, EpochCourse, Function, Initial, Key, RowExperiment,
        RowTensors, Rows, Settings, SettingsError,
    };

    /// Fits y = 3 x + 1.
    pub(super) struct Line;

    #[derive(Module, Debug)]
    pub(super) struct Slope {
        slope: Param<Tensor<2>>,
        offset: Param<Tensor<1>>,
    }

    impl RowExperiment for Line {
        type Model = Slope;

        fn name(&self) -> &'static str {
            "line"
        }

        fn version(&self) -> &'static str {
            "1"
        }

        fn keys(&self) -> Vec<Key> {
            vec![Key::integer("seed", 0), Key::integer("rows", 64).at_least(1)]
        }

        fn recipe(&self, settings: &Settings) -> Result<Value, SettingsError> {
            Ok(json!({ "rows": settings.integer("rows")? }))
        }

        fn size(&self, settings: &Settings) -> Result<u64, SettingsError> {
            settings.integer("rows")
        }

        fn draw(&self, settings: &Settings) -> Result<Rows, DataError> {
            let rows = settings.size("rows")?;
            let columns = || {
                let x: Vec<f32> = (0..rows).map(|row| row as f32 / rows as f32).collect();
                let y = x.iter().map(|x| 3.0 * x + 1.0).collect();
                vec![Column { name: "x", width: 1, values: x }, Column { name: "y", width: 0, values: y }]
            };
            Ok(Rows { train: columns(), validation: columns() })
        }

        fn order(&self, settings: &Settings, _: u64) -> Vec<u32> {
            (0..settings.integer("rows").unwrap_or_default() as u32).collect()
        }

        fn course(&self, _: &Settings) -> Result<EpochCourse, SettingsError> {
            Ok(EpochCourse { epochs: 60, batch_size: 8, learning_rate: 0.05, ..EpochCourse::default() })
        }

        fn build(&self, _: &Settings, initial: &Initial<'_>) -> Result<Slope, SettingsError> {
            Ok(Slope { slope: initial.zeros("slope", [1, 1]), offset: initial.zeros("offset", [1]) })
        }

        fn demand(&self, _: &Settings) -> Result<Demand, SettingsError> {
            Ok(Demand::default())
        }

        fn loss(&self, model: &Slope, rows: &RowTensors<'_>) -> Option<Tensor<1>> {
            let (x, y): (Tensor<2>, Tensor<1>) = (rows.column("x")?, rows.column("y")?);
            Some((line(model, x) - y).square().mean())
        }

        fn forward(&self) -> Function<Slope> {
            Function::new("forward", "the line at each x", |model: &Slope, inputs| {
                Some(vec![Answer::new(line(model, inputs.floats("x")?))])
            })
            .takes_floats("x", &[Axis::Rows, Axis::Named("one")])
            .gives("y", &[Axis::Rows])
        }

        fn extent(&self, _: &Settings, name: &str) -> Option<usize> {
            (name == "one").then_some(1)
        }
    }

    fn line(model: &Slope, x: Tensor<2>) -> Tensor<1> {
        (x.matmul(model.slope.val()) + model.offset.val().unsqueeze()).flatten(0, 1)
    }
}

#[test]
fn gaussian_case_20_a_metric_of_this_library_works_for_an_experiment_of_another_program() {
    use waycairn_analysis_host::{Discovery, OwnedTensor};
    use waycairn_study::{AnalysisSettings, LaunchOptions, Stages, Training, launch};

    let folder = folder();
    let root = folder.path().join("out");
    fs::write(folder.path().join("settings_training.toml"), "[base]\nexperiment = 'line'\n")
        .expect("settings");
    let analysis = format!(
        "[base]\nplugins = ['{}']\nmetrics = ['parameter_count']\n",
        plugin("gaussian_study").display()
    );
    fs::write(folder.path().join("settings_analysis.toml"), analysis).expect("settings");
    let known = experiments![].with_rows(line::Line);
    let training = Training::read(&known, folder.path(), None).expect("settings").with_output(root.clone());
    let settings = AnalysisSettings::read(folder.path(), None, &Discovery::default()).expect("settings");
    let (options, stop) = (LaunchOptions::default(), waycairn_train::Stop::new());
    let report =
        launch(&known, &training, Stages::Run(&settings), &options, &stop, &mut |_| {}).expect("a launch");
    assert_eq!(report.runs.len(), 1);
    let variant = fs::read_dir(root.join("runs")).expect("runs").next().expect("one").expect("an entry");
    let run = fs::read_dir(variant.path()).expect("runs").next().expect("one").expect("an entry").path();
    assert_eq!(json(&run.join("metrics.json"))["parameter_count"]["trainable_parameters"], 2);
    // It learned, and answers what it is asked.
    let node = json(&run.join("run.json"))["node"].as_str().expect("a node").to_owned();
    let node = node.parse::<waycairn_dag::Address>().expect("an address").decode();
    let y = waycairn_train::at_node(&known, &root, &node, "cpu", |host| {
        let x = OwnedTensor::from_f32("x", vec![2, 1], &[0.0, 2.0]).expect("an array");
        host.forward(&[x]).expect("values")[0].view().as_f32().expect("floats").to_vec()
    });
    let y = y.expect("the node");
    assert!((y[0] - 1.0).abs() < 0.2 && (y[1] - 7.0).abs() < 0.4, "{y:?}");
    // A metric of the Gaussian study says what it is of.
    let wrong = format!("[base]\nplugins = ['{}']\nmetrics = ['bias']\n", plugin("gaussian_study").display());
    fs::write(folder.path().join("settings_analysis.toml"), wrong).expect("settings");
    let settings = AnalysisSettings::read(folder.path(), None, &Discovery::default()).expect("settings");
    let error =
        launch(&known, &training, Stages::Run(&settings), &options, &stop, &mut |_| {}).expect_err("none");
    assert!(error.to_string().contains("nre"), "{error}");
}

/// The reference run of the page: 25 truths, dimension 1, default sizes. Random streams differ, so figures agree within
/// their sampling errors, which stand beside each.
#[test]
fn gaussian_reference_run_agrees_within_sampling_error() {
    let study = Gaussian::new();
    study.write(
        "settings_training.toml",
        "[base]\nexperiment = 'nre'\noutput = 'out'\ncohort = { priors = ['uniform', 'exponential'] }\n\
         runtime = { cpu_threads = 2 }\n",
    );
    let library = plugin("gaussian_study");
    study.write(
        "settings_analysis.toml",
        &format!(
            "[base]\nplugins = ['{}']\nmetrics = [{METRICS}]\n\
             inference = {{ truth_design = 'grid', truth_points_per_axis = 25 }}\n",
            library.display()
        ),
    );
    study.launch("waycairn run");
    // Of the loss of a row the deviation is 0.43: over 15,000 rows its mean has an error of 0.0035, and the run that is
    // compared with has one too; a network is a little above the optimum, by 0.001 to 0.007 in the reference.
    let bce = 3.0 * 0.0035 * 2.0_f64.sqrt();
    // 25 truths: errors of a mean over them are of deviation/5. The deviation of an estimate is 0.516, so of a mean error
    // 0.103, of a mean absolute error 0.062, of the RMSE 0.073; coverages are binomial, 0.093 at 68 % and 0.044 at 95 %.
    // Truths are the same and observations are not, in both runs: twice the variance.
    let three = |error: f64| 3.0 * error * 2.0_f64.sqrt();
    for (member, optimum, reference) in [
        (
            "uniform-r0",
            Some(0.54022),
            [0.540914, 0.0196, 0.4788, 0.5864, 0.60, 0.88, 0.9363, 1.8588, 0.3869, 0.3350, 247.9],
        ),
        (
            "exponential-r0",
            None,
            [0.546799, -0.2306, 0.5067, 0.6197, 0.44, 0.92, 1.0006, 1.9677, 0.3868, 0.2704, 375.5],
        ),
    ] {
        let metrics = json(&study.member(member).join("metrics.json"));
        let number = |path: &str| {
            let at = path.split('.').fold(&metrics, |at, step| match step.parse::<usize>() {
                Ok(index) => &at[index],
                Err(_) => &at[step],
            });
            at.as_f64().unwrap_or_else(|| panic!("{path}"))
        };
        // The width of sets varies from network to network, the sliced distance with the pairs that were drawn.
        for ((path, tolerance), reference) in [
            ("classification.bce", bce),
            ("bias.mean_signed", three(0.103) + 0.1),
            ("bias.mean_absolute", three(0.062)),
            ("bias.rmse", three(0.073)),
            ("coverage.projected_mean.0", three(0.093)),
            ("coverage.projected_mean.1", three(0.06)),
            ("width.mean.0", 0.12),
            ("width.mean.1", 0.22),
            ("pairwise.mae_pooled", 0.15),
            ("reweighting.median_sliced_w1", 0.2),
            ("reweighting.median_ess", 200.0),
        ]
        .into_iter()
        .zip(reference)
        {
            let found = number(path);
            assert!((found - reference).abs() < tolerance, "{member} {path}: {found}, reference {reference}");
        }
        if let Some(optimum) = optimum {
            // No classifier is better than the optimum, but by the error of the test split.
            let found = number("classification.bce");
            assert!(found > optimum - 3.0 * 0.0035 && found < optimum + 3.0 * 0.0035 + 0.005, "{found}");
        }
        // The exact target has no network: its widths are known, 1.016 and 1.990 with errors of a fifth of their spread.
        assert!((number("exact_reference.width.mean.0") - 1.016).abs() < 0.03);
        assert!((number("exact_reference.width.mean.1") - 1.990).abs() < 0.05);
        assert!((number("exact_reference.bias.mean_absolute") - 0.412).abs() < 3.0 * 0.062);
        assert!((number("exact_reference.coverage.projected_mean.0") - 0.68).abs() < 3.0 * 0.093);
        assert!((number("resolution.candidate_ess_fraction_median") - 0.17).abs() < 0.03);
    }
}

#[test]
fn no_number_of_threads_changes_a_number_of_the_study() {
    let results = |threads: usize| {
        let study = Gaussian::new();
        study.training(&format!(
            "cohort = {{ priors = ['exponential'] }}\nruntime = {{ cpu_threads = {threads} }}\n"
        ));
        study.analysis(&format!("{METRICS}, 'simulation_based_calibration', 'tarp'"), PLOTS, "");
        study.launch("waycairn run");
        let run = study.member("exponential-r0");
        let artifacts = json(&run.join("artifacts.json"))["artifacts"].clone();
        let entries = artifacts.as_object().expect("products").values();
        let mut bytes: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for entry in entries {
            let path = entry["path"].as_str().expect("a path").to_owned();
            for file in fs::read_dir(study.out().join(&path)).expect("an entry") {
                let file = file.expect("a file").path();
                let name = file.file_name().expect("a name").to_string_lossy().into_owned();
                // Its manifest has the time at which it was made.
                if name != "artifact.json" {
                    bytes.insert(format!("{path}/{name}"), fs::read(&file).expect("bytes"));
                }
            }
        }
        (bytes, fs::read(run.join("metrics.json")).expect("metrics"))
    };
    let (one, two) = (results(1), results(2));
    assert!(one.0.len() > 30);
    assert_eq!(one.0.keys().collect::<Vec<_>>(), two.0.keys().collect::<Vec<_>>());
    let differ: Vec<&String> =
        one.0.iter().filter(|(name, bytes)| two.0[*name] != **bytes).map(|(name, _)| name).collect();
    assert_eq!(differ, [""; 0]);
    assert_eq!(one.1, two.1);
}
