//! Runs of the experiment `nre`, whose data are rows that it draws itself.

use std::sync::atomic::{AtomicUsize, Ordering};

use burn::tensor::Tensor;
use waycairn_gaussian::{Activation, Linear, Network};

use super::*;
use crate::data::{DataError, Rows};
use crate::{
    Demand, EpochCourse, Function, Initial, Key, Nre, NreModel, RowExperiment, RowTensors, Settings,
};

const SETS: [(&str, &str); 8] = [
    ("problem.dimension", "2"),
    ("data.train_size", "70"),
    ("data.validation_size", "20"),
    ("training.batch_size", "16"),
    ("training.epochs", "3"),
    ("model.hidden", "[8, 8]"),
    ("model.dropout", "0.2"),
    ("training.evaluation_batch_size", "7"),
];

fn request(root: &Path, sets: &[(&str, &str)]) -> TrainRequest {
    let mut request = TrainRequest::new(root);
    request.experiment = Some("nre".to_owned());
    let all: BTreeMap<&str, &str> = SETS.iter().chain(sets).copied().collect();
    request.sets = all.into_iter().map(|(path, value)| (path.to_owned(), value.to_owned())).collect();
    request
}

fn known() -> crate::Experiments {
    crate::experiments![Gpt].with_rows(Nre)
}

fn run(request: &TrainRequest) -> TrainReport {
    train(&known(), request, &Stop::new(), &mut ()).unwrap()
}

fn run_until(request: &TrainRequest, step: u64) -> TrainReport {
    let stop = Stop::new();
    let asked = stop.clone();
    let mut progress = move |event: &Event<'_>| {
        if matches!(event, Event::Step { step: now, .. } if *now == step) {
            asked.request();
        }
    };
    train(&known(), request, &stop, &mut progress).unwrap()
}

/// What was computed at each step: also the figures of validations that text has not.
fn computed_rows(root: &Path) -> BTreeMap<u64, Vec<String>> {
    let reader = ObjectReader::open(root).unwrap();
    let rows = reader.query().name("nre").select_all().unwrap().value;
    let exact = ["train/loss", "train/grad_norm", "train/rows", "val/loss", "val/accuracy", "val/auc"];
    rows.into_iter()
        .map(|row| {
            let bits = |key: &&str| match row.fields.get(*key) {
                Some(Scalar::Float(value)) => format!("{:016x}", value.to_bits()),
                other => format!("{other:?}"),
            };
            (row.node.seq(), exact.iter().map(bits).collect())
        })
        .collect()
}

#[test]
fn train_1_a_run_on_rows_that_was_interrupted_within_an_epoch_has_the_bits_of_an_undisturbed_one() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    let whole = run(&request(&one, &[]));
    // 70 rows in batches of 16: five steps an epoch, and the last one is of six rows.
    assert_eq!((whole.status, whole.steps), (Status::Finished, 15));
    for step in [3, 5, 11] {
        assert_eq!(run_until(&request(&other, &[]), step).status, Status::Stopped);
    }
    let last = run(&request(&other, &[]));
    assert_eq!(last.steps, 15);
    let computed = computed_rows(&one);
    assert_eq!(computed.len(), 15);
    assert_eq!(computed, computed_rows(&other));
    assert_eq!(final_weights(&one, &whole), final_weights(&other, &last));
    assert_eq!(field(&one, &whole.node.at(4).unwrap(), "train/rows"), Some(Scalar::Int(70)));
    // Three epochs, three validations.
    let validated = computed.values().filter(|fields| fields[5] != "None").count();
    assert_eq!(validated, 3);
}

#[test]
fn train_2_the_batch_of_a_past_node_is_drawn_again_and_the_model_is_that_of_the_blocked_arithmetic() {
    for (kind, activation) in [("mlp", "relu"), ("residual", "gelu"), ("mlp", "tanh")] {
        let folder = tempfile::tempdir().unwrap();
        let sets = [("model.kind", kind), ("model.activation", activation), ("model.width", "6")];
        let report = run(&request(folder.path(), &sets));
        let recorded = field(folder.path(), &report.node, "data/batch_sha256").unwrap();
        crate::at_node(&known(), folder.path(), &report.node, "cpu", |host| {
            // The last batch of an epoch; a batch whose digest is not the recorded one is refused.
            assert!(matches!(&recorded, Scalar::Text(digest) if digest.len() == 64));
            let batch = host.batch().unwrap();
            let shapes: Vec<_> =
                batch.iter().map(|array| (array.name(), array.view().shape().to_vec())).collect();
            assert_eq!(shapes, [("x", vec![6, 2]), ("theta", vec![6, 2]), ("y", vec![6])]);
            let logits = host.forward(&batch).unwrap();
            assert_eq!((logits[0].name(), logits[0].view().shape()), ("logits", &[6][..]));

            let weights = host.weights().unwrap();
            let values =
                |name: &str| weights.iter().find(|view| view.name() == name).unwrap().as_f32().unwrap();
            let linear = |path: &str| Linear {
                weight: values(&format!("{path}.weight")),
                bias: values(&format!("{path}.bias")),
            };
            let activation = match activation {
                "gelu" => Activation::Gelu,
                "tanh" => Activation::Tanh,
                _ => Activation::Relu,
            };
            let network = if kind == "mlp" {
                let layers = ["layers.0", "layers.1", "layers.2"].map(linear);
                Network::mlp(2, 2, activation, &layers)
            } else {
                let blocks: Vec<_> = (0..3)
                    .map(|block| {
                        (linear(&format!("blocks.{block}.inner")), linear(&format!("blocks.{block}.outer")))
                    })
                    .collect();
                Network::residual(2, 2, activation, linear("input"), &blocks, linear("output"))
            };
            let network = network.unwrap();
            let (x, theta) = (batch[0].view(), batch[1].view());
            let blocked = network.logits(x.as_f32().unwrap(), theta.as_f32().unwrap()).unwrap();
            let plain = logits[0].view().as_f32().unwrap().to_vec();
            for (plain, blocked) in plain.iter().zip(&blocked) {
                let gap = (f64::from(*plain) - blocked).abs();
                assert!(gap < 1e-5 * (1.0 + blocked.abs()), "{kind} {plain} {blocked}");
            }
        })
        .unwrap();
    }
}

#[test]
fn the_model_of_the_best_epoch_is_the_first_of_the_lowest_validation_loss() {
    let folder = tempfile::tempdir().unwrap();
    // So long on so few rows that later epochs are worse.
    let sets = [
        ("training.checkpoint", "best"),
        ("training.learning_rate", "0.02"),
        ("training.epochs", "12"),
        ("training.optimizer", "adamw"),
        ("training.weight_decay", "0.01"),
        ("training.gradient_clip", "1.0"),
        ("model.kind", "residual"),
        ("model.dropout", "0.1"),
        ("model.activation", "gelu"),
    ];
    let asked = request(folder.path(), &sets);
    let report = run(&asked);
    let losses: Vec<f64> = (1..=12)
        .map(|epoch| {
            let node = report.node.at(5 * epoch - 1).unwrap();
            match field(folder.path(), &node, "val/loss") {
                Some(Scalar::Float(loss)) => loss,
                other => panic!("{other:?}"),
            }
        })
        .collect();
    let best = losses.iter().copied().fold(f64::INFINITY, f64::min);
    let epoch = losses.iter().position(|loss| *loss == best).unwrap() as u64 + 1;
    assert!(epoch < 12, "a test of a choice needs one: {losses:?}");
    assert_eq!(report.selected, report.node.at(5 * epoch - 1).unwrap());
    // Its checkpoint and the newest one are there, and nothing else.
    assert_eq!(checkpoints(folder.path(), &report), [5 * epoch - 1, 59]);
    let settings = crate::settings(&known(), &asked).unwrap();
    let history = crate::model_history(&known(), folder.path(), &report.selected, "nre", &settings).unwrap();
    assert_eq!(history["selected_epoch"], epoch);
    assert_eq!((&history["rows_per_epoch"], &history["global_batch_size"]), (&70.into(), &16.into()));
    let told: Vec<f64> = history["validation"]
        .as_array()
        .unwrap()
        .iter()
        .map(|figures| {
            assert!(figures["accuracy"].is_f64() && figures["auc"].is_f64());
            figures["bce"].as_f64().unwrap()
        })
        .collect();
    assert_eq!(told, losses);
    assert_eq!(history["train_loss"].as_array().unwrap().len(), 12);
    // The same command again finds the same.
    let again = run(&asked);
    assert_eq!((again.status, again.selected), (Status::Skipped, report.selected));
}

#[test]
fn the_training_loss_of_an_epoch_is_that_of_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let asked = request(folder.path(), &[]);
    let report = run(&asked);
    let settings = crate::settings(&known(), &asked).unwrap();
    let history = crate::model_history(&known(), folder.path(), &report.node, "nre", &settings).unwrap();
    let loss = |step: u64| match field(folder.path(), &report.node.at(step).unwrap(), "train/loss") {
        Some(Scalar::Float(loss)) => loss,
        other => panic!("{other:?}"),
    };
    let second: f64 = (5..9).map(|step| 16.0 * loss(step)).sum::<f64>() + 6.0 * loss(9);
    assert_eq!(history["train_loss"][1].as_f64().unwrap(), second / 70.0);
    assert_eq!(history["selected_epoch"], 3);
}

#[test]
fn a_run_on_rows_may_be_branched_and_has_no_text_and_no_sample() {
    let folder = tempfile::tempdir().unwrap();
    let report = run(&request(folder.path(), &[("training.epochs", "1")]));
    let mut branch = request(folder.path(), &[("training.epochs", "2")]);
    branch.base = Base::Branch(report.node.clone());
    let branched = run(&branch);
    assert_eq!((branched.steps, branched.updates), (10, 5));
    // What an undisturbed run of two epochs does in its second one.
    let whole = run(&request(&folder.path().join("whole"), &[("training.epochs", "2")]));
    assert_eq!(
        final_weights(folder.path(), &branched),
        final_weights(&folder.path().join("whole"), &whole),
        "an epoch later"
    );
    let error = crate::sample(&known(), folder.path(), &report.node, &crate::SampleOptions::default());
    assert!(matches!(error, Err(TrainError::CannotSample { .. })));
    let mut text = request(folder.path(), &[]);
    text.text = Some("text.txt".into());
    let error = train(&known(), &text, &Stop::new(), &mut ()).unwrap_err();
    assert!(error.to_string().contains("draws its own data"), "{error}");
}

/// `nre`, which counts how often its rows are drawn.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicUsize>);

impl RowExperiment for Counted {
    type Model = NreModel;

    fn name(&self) -> &'static str {
        Nre.name()
    }

    fn version(&self) -> &'static str {
        Nre.version()
    }

    fn keys(&self) -> Vec<Key> {
        Nre.keys()
    }

    fn recipe(&self, settings: &Settings) -> Result<serde_json::Value, SettingsError> {
        Nre.recipe(settings)
    }

    fn size(&self, settings: &Settings) -> Result<u64, SettingsError> {
        Nre.size(settings)
    }

    fn draw(&self, settings: &Settings) -> Result<Rows, DataError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Nre.draw(settings)
    }

    fn order(&self, settings: &Settings, epoch: u64) -> Vec<u32> {
        Nre.order(settings, epoch)
    }

    fn course(&self, settings: &Settings) -> Result<EpochCourse, SettingsError> {
        Nre.course(settings)
    }

    fn build(&self, settings: &Settings, initial: &Initial<'_>) -> Result<NreModel, SettingsError> {
        Nre.build(settings, initial)
    }

    fn demand(&self, settings: &Settings) -> Result<Demand, SettingsError> {
        Nre.demand(settings)
    }

    fn loss(&self, model: &NreModel, rows: &RowTensors<'_>) -> Option<Tensor<1>> {
        Nre.loss(model, rows)
    }

    fn forward(&self) -> Function<NreModel> {
        Nre.forward()
    }
}

/// The rows were drawn before it was known that nobody trains on them: minutes of work for nothing.
#[test]
fn rows_are_drawn_for_what_is_trained_and_for_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let counted = Counted::default();
    let known = crate::Experiments::new().with_rows(counted.clone());
    let launch = |request: &TrainRequest| train(&known, request, &Stop::new(), &mut ());
    let asked = request(folder.path(), &[]);
    let report = launch(&asked).unwrap();
    assert_eq!((report.status, counted.0.load(Ordering::Relaxed)), (Status::Finished, 1));
    assert_eq!(launch(&asked).unwrap().status, Status::Skipped);
    assert_eq!(counted.0.load(Ordering::Relaxed), 1);
    let mut resumed = asked.clone();
    resumed.base = Base::Resume(report.node);
    assert!(matches!(launch(&resumed), Err(TrainError::Refused { .. })));
    assert_eq!(counted.0.load(Ordering::Relaxed), 1);
    assert_eq!(launch(&TrainRequest { fresh: true, ..asked }).unwrap().status, Status::Finished);
    assert_eq!(counted.0.load(Ordering::Relaxed), 2);
}

/// `--steps`, `clip` and `on_nonfinite` were advised, which the experiment does not have.
#[test]
fn what_is_advised_about_a_run_on_rows_names_settings_that_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let asked = request(folder.path(), &[]);
    let report = run(&asked);
    let length = crate::Length { setting: "training.epochs", value: 3, steps: 15 };
    assert_eq!(report.length.as_ref(), Some(&length));
    assert_eq!(run(&asked).length.as_ref(), Some(&length));

    let mut branch = request(folder.path(), &[]);
    branch.base = Base::Branch(report.node.clone());
    let error = train(&known(), &branch, &Stop::new(), &mut ()).unwrap_err();
    assert!(error.to_string().ends_with("has done 15 steps, and `training.epochs` = 3 makes 15"), "{error}");
    assert_eq!(error.next().unwrap(), "ask for more than 3 with `--set training.epochs`");

    let mut resume = TrainRequest::new(folder.path());
    resume.base = Base::Resume(report.node.clone());
    let error = train(&known(), &resume, &Stop::new(), &mut ()).unwrap_err();
    let next = error.next().unwrap();
    assert!(next.ends_with(" --set training.epochs=6`") && !next.contains("--steps"), "{next}");
    // It is a command that does what it says.
    let mut further = TrainRequest::new(folder.path());
    (further.base, further.name) = (Base::Branch(report.node), Some("further".to_owned()));
    further.sets = vec![("training.epochs".to_owned(), "6".to_owned())];
    let further = run(&further);
    assert_eq!((further.status, further.steps, further.updates), (Status::Finished, 30, 15));

    let wild = request(&folder.path().join("wild"), &[("training.learning_rate", "1e38")]);
    let error = train(&known(), &wild, &Stop::new(), &mut ()).unwrap_err();
    assert!(matches!(error, TrainError::NotFinite { .. }), "{error:?}");
    assert_eq!(
        error.next().unwrap(),
        "branch from an earlier checkpoint with a lower `training.gradient_clip` or `training.learning_rate`"
    );
}

#[test]
fn settings_that_cannot_be_trained_with_are_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    let refused = |sets: &[(&str, &str)]| {
        let error = train(&known(), &request(&root, sets), &Stop::new(), &mut ()).unwrap_err();
        let why = error.why().map_or_else(String::new, |why| format!(" ({why})"));
        assert!(!root.exists());
        format!("{error}{why}")
    };
    for (sets, told) in [
        (&[("prior", "nrmal")][..], "`prior` cannot be \"nrmal\" (it takes a prior that is defined:"),
        (&[("problem.infer", "[\"std:5\"]")], "`problem.infer[0]` cannot be \"std:5\""),
        (&[("problem.dimension", "0")], "`problem.dimension` cannot be 0 (it takes a whole number of 1 to"),
        (&[("data.train_size", "7")], "`data.train_size` cannot be 7 (it takes an even whole number"),
        (&[("parameters.mean.low", "11")], "`parameters.mean.high` cannot be 10"),
        (
            &[("model.hidden", "[8, 0]")],
            "`model.hidden` cannot be [8, 0] (it takes a list of whole numbers from 1)",
        ),
        (
            &[("training.precision", "bfloat16")],
            "`training.precision` is `bfloat16`, which the CPU's backend",
        ),
        (&[("training.precision", "float16")], "`training.precision` is `float16`, which needs loss scaling"),
        (&[("problem.dimensions", "2")], "`problem.dimensions` cannot be 2"),
        (&[("learning_rate", "2")], "no setting has the path `learning_rate`"),
    ] {
        let text = refused(sets);
        assert!(text.contains(told), "{text}");
    }
    // Memory is counted before it is asked for.
    let text = refused(&[("data.train_size", "2000000000000000")]);
    assert!(text.contains("`data.train_size` = 2000000000000000") && text.contains(" need about "), "{text}");
}
