//! The experiment `nre`: neural ratio estimation on a Gaussian simulator whose truth is known.
//!
//! A network learns to tell pairs (x, theta) of the joint distribution from pairs whose halves do not belong together; its
//! logit is then the logarithm of the likelihood-to-evidence ratio (Hermans, Begy and Louppe 2020, arXiv:1903.04057).
//! Problem, priors and pairs are of `waycairn_gaussian`.

mod model;

use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use serde_json::{Value, json};
use waycairn_analysis_host::{rand_core::Rng as _, stream};
use waycairn_cache::{Sources, sources};
use waycairn_gaussian::settings::{
    DataSettings, Faults, ParametersSettings, PriorDefinitions, ProblemSettings, Section,
};
use waycairn_gaussian::sources::{self as parts, File};
use waycairn_gaussian::{Classification, Pairs, Prior, Problem, SplitSizes, TrainingData, permutation};

use crate::data::{Column, DataError, Rows};
use crate::experiment::{Cohort, Demand, Initial};
use crate::function::{Answer, Axis, Function};
use crate::optimizer::{OptimizerKind, OptimizerRule};
use crate::row_experiment::{EpochCourse, RowExperiment, RowTensors};
use crate::schema::{Key, SectionFault};
use crate::settings::{Settings, SettingsError};

pub use model::NreModel;
use model::{Activation, Body, Shape};

const OWN: Sources = sources!["src/nre/mod.rs", "src/nre/model.rs"];
const PARTS: &[&[File]] = &[OWN.files(), parts::PAIRS, parts::CLASSIFICATION];
const FILES: &[File] = &parts::join::<{ parts::count(PARTS) }>(PARTS);

/// Observations, `[rows, d]`.
const X: &str = "x";
/// Parameter points, `[rows, p]`.
const THETA: &str = "theta";
/// 1 where the halves of a pair belong together, `[rows]`.
const Y: &str = "y";

/// Neural ratio estimation on the Gaussian simulator.
///
/// All settings are its own: `problem`, `parameters`, `priors` and `data` are tables that `waycairn_gaussian` reads, `model.*`
/// and `training.*` single settings. A study has one member for each prior of `cohort.priors`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nre;

/// What of the settings decides the data.
struct Resolved {
    seed: u64,
    /// The name of the prior: streams of different priors are apart.
    name: String,
    problem: Problem,
    prior: Prior,
    data: DataSettings,
}

impl Resolved {
    fn new(settings: &Settings) -> Result<Self, SettingsError> {
        let told = |faults: Faults| SettingsError::of_faults(faults_of(&faults), "the settings");
        let problem = ProblemSettings::read(settings.section("problem")?).map_err(told)?;
        let parameters = ParametersSettings::read(settings.section("parameters")?).map_err(told)?;
        let definitions = PriorDefinitions::read(settings.section("priors")?).map_err(told)?;
        let name = settings.text("prior")?;
        let resolved = Problem::resolve(&problem, &parameters).map_err(told)?;
        let definition = definitions.get(name).map_err(told)?;
        let prior = Prior::resolve(name, definition, &problem, &parameters, &resolved).map_err(told)?;
        Ok(Self {
            seed: settings.integer("seed")?,
            name: name.to_owned(),
            problem: resolved,
            prior,
            data: DataSettings::read(settings.section("data")?).map_err(told)?,
        })
    }

    /// The inputs of a network: d and p.
    fn widths(&self) -> [usize; 2] {
        [self.problem.dimension(), self.problem.parameters().len()]
    }
}

fn faults_of(faults: &Faults) -> Vec<SectionFault> {
    let fault = |fault: &waycairn_gaussian::settings::Fault| SectionFault {
        path: fault.path.clone(),
        given: fault.value.to_string(),
        accepted: fault.allowed.clone(),
    };
    faults.iter().map(fault).collect()
}

/// Reads a section of `waycairn_gaussian`, to its whole.
fn section<S: Section>(given: &Value) -> Result<Value, Vec<SectionFault>> {
    S::read(given).map(|section| json!(section)).map_err(|faults| faults_of(&faults))
}

fn priors(given: &Value) -> Result<Value, Vec<SectionFault>> {
    PriorDefinitions::read(given).map(|priors| json!(priors)).map_err(|faults| faults_of(&faults))
}

/// The shape that settings ask for, of so many inputs.
fn shape(settings: &Settings, inputs: usize) -> Result<Shape, SettingsError> {
    Ok(Shape {
        inputs,
        body: match settings.text("model.kind")? {
            "residual" => Body::Residual {
                width: settings.size("model.width")?,
                blocks: settings.size("model.blocks")?,
            },
            _ => Body::Mlp(settings.sizes("model.hidden")?),
        },
        activation: match settings.text("model.activation")? {
            "gelu" => Activation::Gelu,
            "tanh" => Activation::Tanh,
            _ => Activation::Relu,
        },
        dropout: settings.number("model.dropout")?,
    })
}

/// The columns of some pairs.
fn columns(pairs: Pairs, [d, p]: [usize; 2]) -> Vec<Column> {
    vec![
        Column { name: X, width: d, values: pairs.x },
        Column { name: THETA, width: p, values: pairs.theta },
        Column { name: Y, width: 0, values: pairs.label },
    ]
}

/// Mean of softplus(l) - y l, in the form that overflows for no logit: max(l, 0) - y l + ln(1 + exp(-abs(l))).
fn cross_entropy(logits: Tensor<1>, labels: Tensor<1>) -> Tensor<1> {
    let rest = logits.clone().abs().neg().exp().log1p();
    (relu(logits.clone()) - labels * logits + rest).mean()
}

impl RowExperiment for Nre {
    type Model = NreModel;

    fn name(&self) -> &'static str {
        "nre"
    }

    fn version(&self) -> &'static str {
        "1"
    }

    fn keys(&self) -> Vec<Key> {
        let above_zero = (f64::MIN_POSITIVE, f64::MAX);
        vec![
            Key::integer("seed", 0).help("seed of data, initial weights, row orders and dropout"),
            Key::text("prior", "uniform").help("the prior of the parameters: a name of `priors`"),
            Key::section("problem", section::<ProblemSettings>)
                .help("observations, and which of their parameters are inferred"),
            Key::section("parameters", section::<ParametersSettings>)
                .help("the box of each parameter, and the shape of each family of priors over it"),
            Key::section("priors", priors).help("the priors by name"),
            Key::section("data", section::<DataSettings>).help("pairs of each split"),
            Key::choice("model.kind", "mlp", &["mlp", "residual"]).help("network"),
            Key::sizes("model.hidden", &[64, 64, 64, 64]).help("widths of the layers of a perceptron"),
            Key::integer("model.width", 64).at_least(1).help("width of a residual network"),
            Key::integer("model.blocks", 3).at_least(1).help("blocks of a residual network"),
            Key::choice("model.activation", "relu", &["relu", "gelu", "tanh"]).help("between linear maps"),
            Key::number("model.dropout", 0.0).between(0.0, 0.999).help("share of values dropped in training"),
            Key::integer("training.epochs", 5).at_least(1).help("passes over the training pairs"),
            Key::integer("training.batch_size", 128).at_least(1).help("pairs of one step"),
            Key::choice("training.optimizer", "adam", &["adam", "adamw"]).help("update rule"),
            Key::number("training.learning_rate", 1e-3)
                .between(above_zero.0, above_zero.1)
                .help("learning rate, which stays"),
            Key::pair("training.betas", [0.9, 0.999]).help("decay of the optimizer's two moments"),
            Key::number("training.epsilon", 1e-8)
                .between(above_zero.0, above_zero.1)
                .help("added to the root of the second moment"),
            Key::number("training.weight_decay", 0.0).between(0.0, f64::MAX).help("decay of all weights"),
            Key::choice("training.precision", "off", &["float16", "bfloat16"])
                .or_off()
                .help("number format of activations"),
            Key::number("training.gradient_clip", 1.0)
                .between(above_zero.0, above_zero.1)
                .off()
                .help("largest global gradient norm"),
            Key::choice("training.checkpoint", "last", &["last", "best"])
                .help("the model is that of the last epoch, or of the one with the lowest validation loss"),
            Key::switch("training.verbose", true).help("tell each step while it trains"),
            Key::integer("training.evaluation_batch_size", 65_536)
                .at_least(1)
                .help("pairs that are evaluated at once"),
        ]
    }

    fn sources(&self) -> Sources {
        Sources::new(FILES)
    }

    fn check(&self, settings: &Settings) -> Result<(), SettingsError> {
        Resolved::new(settings)?;
        let precision = settings.text("training.precision")?;
        if precision == crate::schema::OFF {
            return Ok(());
        }
        let why = if precision == "float16" {
            "which needs loss scaling on a CUDA device"
        } else {
            "which the CPU's backend does not compute in"
        };
        Err(SettingsError::Conflict {
            what: format!("`training.precision` is `{precision}`, {why}"),
            next: "set it to `off`: then all is computed in 32-bit floats".to_owned(),
        })
    }

    fn cohort(&self) -> Option<Cohort> {
        let default = ["uniform", "normal", "exponential", "grid"].map(str::to_owned).to_vec();
        Some(Cohort { list: "priors", setting: "prior", default })
    }

    fn decides(&self, settings: &Settings) -> Result<Value, SettingsError> {
        let all = json!(settings);
        let mut training = all["training"].clone();
        if let Some(training) = training.as_object_mut() {
            training.remove("verbose");
        }
        Ok(json!({ "data": self.recipe(settings)?, "model": all["model"], "training": training }))
    }

    fn recipe(&self, settings: &Settings) -> Result<Value, SettingsError> {
        let Resolved { seed, name, problem, prior, data } = Resolved::new(settings)?;
        Ok(json!({
            "seed": seed,
            "member": name,
            "problem": problem,
            "prior": prior,
            "train_size": data.train_size,
            "validation_size": data.validation_size,
        }))
    }

    fn size(&self, settings: &Settings) -> Result<u64, SettingsError> {
        Ok(Resolved::new(settings)?.data.train_size)
    }

    fn draw(&self, settings: &Settings) -> Result<Rows, DataError> {
        let resolved = Resolved::new(settings)?;
        let Resolved { seed, name, problem, prior, data } = &resolved;
        // What is not trained on is not drawn: each split has its stream.
        let sizes = SplitSizes { test: 0, ..SplitSizes::from(data) };
        let drawn = TrainingData::draw(problem, prior, sizes, |of| stream(*seed, of, Some(name)));
        let drawn = drawn.map_err(|error| DataError::Rows {
            experiment: self.name().to_owned(),
            what: error.to_string(),
        })?;
        let widths = resolved.widths();
        Ok(Rows { train: columns(drawn.train, widths), validation: columns(drawn.validation, widths) })
    }

    fn order(&self, settings: &Settings, epoch: u64) -> Vec<u32> {
        // They were checked before anything is drawn.
        let Ok(resolved) = Resolved::new(settings) else { return Vec::new() };
        let name = format!("epoch-{}", epoch.saturating_add(1));
        let rows = usize::try_from(resolved.data.train_size).unwrap_or_default();
        let order = permutation(&mut stream(resolved.seed, &name, Some(&resolved.name)), rows);
        order.into_iter().map(|row| row as u32).collect()
    }

    fn course(&self, settings: &Settings) -> Result<EpochCourse, SettingsError> {
        let (seed, prior) = (settings.integer("seed")?, settings.text("prior")?);
        Ok(EpochCourse {
            seed: stream(seed, "model", Some(prior)).next_u64(),
            epochs: settings.integer("training.epochs")?,
            batch_size: settings.integer("training.batch_size")?,
            evaluation_batch_size: settings.size("training.evaluation_batch_size")?,
            learning_rate: settings.number("training.learning_rate")?,
            clip: settings.optional_number("training.gradient_clip")?,
            optimizer: OptimizerRule {
                kind: match settings.text("training.optimizer")? {
                    "adamw" => OptimizerKind::AdamW,
                    _ => OptimizerKind::Adam,
                },
                betas: settings.pair("training.betas")?,
                epsilon: settings.number("training.epsilon")?,
                weight_decay: settings.number("training.weight_decay")?,
                decay_vectors: true,
            },
            best: settings.text("training.checkpoint")? == "best",
            verbose: settings.switch("training.verbose")?,
        })
    }

    fn build(&self, settings: &Settings, initial: &Initial<'_>) -> Result<NreModel, SettingsError> {
        let [d, p] = Resolved::new(settings)?.widths();
        Ok(NreModel::new(&shape(settings, d + p)?, initial))
    }

    fn demand(&self, settings: &Settings) -> Result<Demand, SettingsError> {
        let resolved = Resolved::new(settings)?;
        let [d, p] = resolved.widths();
        let shape = shape(settings, d + p)?;
        let rows = resolved.data.train_size as f64 + resolved.data.validation_size as f64;
        Ok(Demand {
            parameters: shape.parameters(),
            activations_per_token: shape.activations(),
            data: rows * (d + p + 1) as f64,
            settings: vec![
                "problem.dimension",
                "data.train_size",
                "data.validation_size",
                "training.batch_size",
                "model.hidden",
                "model.width",
                "model.blocks",
            ],
        })
    }

    fn loss(&self, model: &NreModel, rows: &RowTensors<'_>) -> Option<Tensor<1>> {
        let logits = model.logits(rows.column(X)?, rows.column(THETA)?);
        Some(cross_entropy(logits, rows.column(Y)?))
    }

    fn loss_name(&self) -> &'static str {
        "bce"
    }

    fn figures(&self) -> &'static [&'static str] {
        &["accuracy", "auc"]
    }

    fn evaluate(
        &self,
        model: &NreModel,
        batches: &mut dyn Iterator<Item = RowTensors<'_>>,
    ) -> Vec<(&'static str, f64)> {
        let (mut logits, mut labels) = (Vec::new(), Vec::new());
        for batch in batches {
            let (Some(x), Some(theta), Some(y)) = (batch.column(X), batch.column(THETA), batch.values(Y))
            else {
                continue;
            };
            logits.extend(model.logits(x, theta).into_data().iter::<f32>().map(f64::from));
            labels.extend_from_slice(y);
        }
        match Classification::new(&logits, &labels) {
            Ok(found) => vec![("loss", found.bce), ("accuracy", found.accuracy), ("auc", found.auc)],
            // Of logits that are not finite there are none.
            Err(_) => vec![("loss", f64::NAN), ("accuracy", f64::NAN), ("auc", f64::NAN)],
        }
    }

    fn forward(&self) -> Function<NreModel> {
        let what = "logarithm of the ratio of likelihood and evidence at each pair";
        Function::new("forward", what, |model: &NreModel, inputs| {
            Some(vec![Answer::new(model.logits(inputs.floats(X)?, inputs.floats(THETA)?))])
        })
        .takes_floats(X, &[Axis::Rows, Axis::Named("dimension")])
        .takes_floats(THETA, &[Axis::Rows, Axis::Named("parameters")])
        .gives("logits", &[Axis::Rows])
    }

    fn extent(&self, settings: &Settings, name: &str) -> Option<usize> {
        let [d, p] = Resolved::new(settings).ok()?.widths();
        match name {
            "dimension" => Some(d),
            "parameters" => Some(p),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use burn::module::ModuleVisitor;
    use burn::optim::GradientsParams;
    use burn::tensor::{Device, TensorData};

    use super::*;
    use crate::settings::Schema;
    use crate::weights::{parameters, weights};

    fn settings(sets: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::defaults(Schema::alone(Nre.keys()));
        for (path, value) in sets {
            settings.set(path, value).unwrap();
        }
        settings
    }

    fn model(sets: &[(&str, &str)], device: &Device) -> NreModel {
        Nre.build(&settings(sets), &Initial::new(1, device)).unwrap()
    }

    fn size(model: &NreModel) -> usize {
        parameters(model).iter().map(|parameter| parameter.len).sum()
    }

    fn values<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
        let count = shape.iter().product::<usize>();
        let values: Vec<f32> = (0..count).map(|index| (index as f32 * 0.37).sin()).collect();
        Tensor::from_data(TensorData::new(values, shape), device)
    }

    #[test]
    fn networks_have_the_sizes_of_the_studys_page_and_demand_says_them() {
        for (sets, expected) in [
            (&[][..], 12_737),
            (&[("model.hidden", "[32, 32]")], 1_185),
            (&[("model.hidden", "[32, 32]"), ("problem.dimension", "3")], 1_185 + 4 * 32),
            (&[("model.kind", "residual")], 3 * 64 + 3 * 2 * 65 * 64 + 65),
        ] {
            assert_eq!(size(&model(sets, &Device::flex())), expected, "{sets:?}");
            assert_eq!(Nre.demand(&settings(sets)).unwrap().parameters, expected as f64);
        }
    }

    #[test]
    fn initial_weights_and_biases_are_uniform_within_one_over_the_root_of_the_inputs() {
        let model = model(&[("model.hidden", "[200, 300]")], &Device::flex());
        for tensor in weights(&model) {
            let inputs = match tensor.name.as_str() {
                name if name.starts_with("layers.0") => 2.0_f64,
                name if name.starts_with("layers.1") => 200.0,
                _ => 300.0,
            };
            let bound = 1.0 / inputs.sqrt();
            let values: Vec<f64> = tensor.data.iter::<f32>().map(f64::from).collect();
            assert!(values.iter().all(|value| value.abs() <= bound * (1.0 + 1e-6)), "{}", tensor.name);
            if values.len() > 1_000 {
                let square = values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64;
                assert!((square * 3.0 / (bound * bound) - 1.0).abs() < 0.03, "{}: {square}", tensor.name);
            }
        }
        let again = weights(&self::model(&[("model.hidden", "[200, 300]")], &Device::flex()));
        assert!(weights(&model).iter().zip(again).all(|(one, other)| one.data == other.data));
    }

    /// Acceptance case 13 of the study: seven rows of five inputs.
    #[test]
    fn every_network_gives_one_logit_a_row_and_a_gradient_to_each_parameter() {
        struct Missing<'a>(&'a GradientsParams, Vec<String>);
        impl ModuleVisitor for Missing<'_> {
            fn visit_float<const D: usize>(&mut self, param: &burn::module::Param<Tensor<D>>) {
                if self.0.get::<D>(param.id).is_none() {
                    self.1.push(format!("{:?}", param.id));
                }
            }
        }
        let device = Device::flex().autodiff();
        for kind in ["mlp", "residual"] {
            for activation in ["relu", "gelu", "tanh"] {
                let sets = [
                    ("model.kind", kind),
                    ("model.activation", activation),
                    ("problem.dimension", "3"),
                    ("problem.infer", "[\"mean:1\", \"std:0\"]"),
                ];
                let model = model(&sets, &device);
                let logits = model.logits(values([7, 3], &device), values([7, 2], &device));
                assert_eq!(logits.dims(), [7]);
                let gradients = GradientsParams::from_grads(logits.sum().backward(), &model);
                let mut missing = Missing(&gradients, Vec::new());
                burn::module::Module::visit(&model, &mut missing);
                assert!(missing.1.is_empty(), "{kind} {activation}: {:?}", missing.1);
                assert_eq!(model.logits(values([1, 3], &device), values([1, 2], &device)).dims(), [1]);
            }
        }
    }

    #[test]
    fn the_loss_is_the_cross_entropy_and_overflows_for_no_logit() {
        let device = Device::flex();
        let tensor = |values: &[f32]| {
            Tensor::<1>::from_data(TensorData::new(values.to_vec(), [values.len()]), &device)
        };
        let loss = |logits: &[f32], labels: &[f32]| {
            cross_entropy(tensor(logits), tensor(labels)).into_scalar::<f32>()
        };
        assert_eq!(loss(&[10_000.0, -10_000.0], &[1.0, 0.0]), 0.0);
        assert_eq!(loss(&[10_000.0, -10_000.0], &[0.0, 1.0]), 10_000.0);
        let expected: f64 = [(0.5_f64, 1.0), (-2.0, 1.0), (3.0, 0.0)]
            .iter()
            .map(|(logit, label)| logit.exp().ln_1p() - label * logit)
            .sum::<f64>()
            / 3.0;
        assert!((f64::from(loss(&[0.5, -2.0, 3.0], &[1.0, 1.0, 0.0])) - expected).abs() < 1e-6);
    }

    #[test]
    fn what_decides_a_model_is_resolved_and_holds_nothing_of_other_priors() {
        let of = |sets: &[(&str, &str)]| Nre.decides(&settings(sets)).unwrap();
        let uniform = of(&[]);
        // Another prior's definition, the shape of a family that is not used, and what is only shown or drawn later.
        for (path, value) in [
            ("priors.normal.family", "exponential"),
            ("parameters.mean.normal_std", "2.0"),
            ("parameters.std.low", "0.5"),
            ("training.verbose", "false"),
            ("data.test_size", "2"),
        ] {
            assert_eq!(of(&[(path, value)]), uniform, "{path}");
        }
        for (path, value) in [
            ("prior", "normal"),
            ("parameters.mean.low", "-1.0"),
            ("problem.fixed_std", "1.0"),
            ("priors.uniform.family", "normal"),
            ("seed", "1"),
            ("data.train_size", "64"),
            ("model.hidden", "[64, 64, 64]"),
            ("training.learning_rate", "0.01"),
            ("training.evaluation_batch_size", "7"),
        ] {
            assert_ne!(of(&[(path, value)]), uniform, "{path}");
        }
        let data = |sets: &[(&str, &str)]| Nre.recipe(&settings(sets)).unwrap();
        assert_eq!(data(&[("training.learning_rate", "0.01")]), data(&[]));
    }

    #[test]
    fn settings_are_written_as_a_file_that_gives_them_again() {
        let sets = [
            ("problem.dimension", "2"),
            ("problem.infer", "[\"std:1\", \"mean:0\"]"),
            ("problem.fixed.\"mean:1\"", "8.0"),
            ("prior", "normal"),
            ("model.hidden", "[32, 32]"),
            ("training.gradient_clip", "1.0"),
        ];
        let mut ours = settings(&[]);
        for (path, value) in sets.iter().filter(|(path, _)| !path.contains('"')) {
            ours.set(path, value).unwrap();
        }
        let ours = ours.with_toml("[problem.fixed]\n\"mean:1\" = 8.0\n", "`f.toml`").unwrap();
        let text = ours.to_toml();
        let again = Settings::defaults(Schema::alone(Nre.keys())).with_toml(&text, "`config.toml`").unwrap();
        assert_eq!(again.differences(&ours), [], "{text}");
        assert_eq!(again.digest().unwrap(), ours.digest().unwrap());
        let differences = ours.differences(&settings(&[]));
        let paths: Vec<&str> = differences.iter().map(|difference| difference.path.as_str()).collect();
        let expected = [
            "model.hidden",
            "prior",
            "problem.dimension",
            "problem.fixed.mean:1",
            "problem.infer",
            "training.gradient_clip",
        ];
        assert_eq!(paths, expected);
    }
}
