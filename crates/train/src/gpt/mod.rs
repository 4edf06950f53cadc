//! The experiment `gpt`: a decoder-only transformer over tokens.

mod model;

use burn::tensor::{Int, Tensor};
use waycairn_cache::{Sources, sources};

use crate::experiment::{Demand, Experiment, Initial, KeyValueCache, token_losses};
use crate::function::{Answer, Axis, Function};
use crate::schema::{Key, Value};
use crate::settings::{Preset, Settings, SettingsError};

pub use model::GptModel;

/// The sources that decide the model's numbers.
pub(crate) const SOURCES: Sources = sources!["src/gpt/mod.rs", "src/gpt/model.rs"];

/// A decoder-only transformer: layer normalisation before attention and before a GELU perceptron,
/// learned positions, an output head that may share the token embedding.
///
/// Initial weights are those of GPT-2: normal with deviation 0.02, and smaller by the root of
/// twice the number of layers where a branch joins the residual stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gpt;

/// The shape of a [`GptModel`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) vocabulary: usize,
    pub(crate) context: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) width: usize,
    pub(crate) dropout: f64,
    pub(crate) bias: bool,
    pub(crate) tied: bool,
}

impl Shape {
    fn read(settings: &Settings, vocabulary: usize) -> Result<Self, SettingsError> {
        let shape = Self {
            vocabulary,
            context: settings.size("data.context")?,
            layers: settings.size("model.layers")?,
            heads: settings.size("model.heads")?,
            width: settings.size("model.width")?,
            dropout: settings.number("model.dropout")?,
            bias: settings.switch("model.bias")?,
            tied: settings.switch("model.tied")?,
        };
        if !shape.width.is_multiple_of(shape.heads) {
            return Err(SettingsError::Conflict {
                what: format!(
                    "`model.width` is {}, which `model.heads` = {} does not divide",
                    shape.width, shape.heads
                ),
                next: "choose a width that is a multiple of the number of heads".to_owned(),
            });
        }
        Ok(shape)
    }
}

/// One value a token.
const CELLS: &[Axis] = &[Axis::Rows, Axis::Time];
/// The residual stream.
const STREAM: &[Axis] = &[Axis::Rows, Axis::Time, Axis::Setting("model.width")];
const LOGITS: &[Axis] = &[Axis::Rows, Axis::Time, Axis::Vocabulary];

impl Experiment for Gpt {
    type Model = GptModel;

    fn name(&self) -> &'static str {
        "gpt"
    }

    fn version(&self) -> &'static str {
        "1"
    }

    fn keys(&self) -> Vec<Key> {
        vec![
            Key::integer("model.layers", 2).at_least(1).help("blocks"),
            Key::integer("model.heads", 2).at_least(1).help("attention heads of a block"),
            Key::integer("model.width", 64).at_least(1).help("channels of the residual stream"),
            Key::number("model.dropout", 0.0).between(0.0, 0.99).help("share of values dropped in training"),
            Key::switch("model.bias", false).help("biases in linear maps and normalisations"),
            Key::choice("model.norm", "layer", &["layer"]).help("normalisation"),
            Key::choice("model.mlp", "gelu", &["gelu"]).help("perceptron of a block"),
            Key::choice("model.position", "learned", &["learned"]).help("how positions are told apart"),
            Key::switch("model.tied", true).help("the output head is the token embedding"),
        ]
    }

    fn sources(&self) -> Sources {
        SOURCES
    }

    fn presets(&self) -> Vec<Preset> {
        let character = |steps: u64, decay: u64, values: Vec<(&'static str, Value)>| {
            let mut all: Vec<(&'static str, Value)> = vec![
                ("steps", steps.into()),
                ("decay_steps", decay.into()),
                ("learning_rate", 1e-3.into()),
                ("min_learning_rate", 1e-4.into()),
                ("warmup", 100_u64.into()),
                ("betas", [0.9, 0.99].into()),
                ("weight_decay", 0.1.into()),
                ("clip", 1.0.into()),
                ("schedule", "cosine".into()),
                ("report_every", 10_u64.into()),
                ("eval_every", 250_u64.into()),
                ("eval_batches", 20_u64.into()),
                ("checkpoint_every", 250_u64.into()),
                ("data.tokenizer", "character".into()),
                ("data.order", "random".into()),
                ("model.bias", false.into()),
                ("model.tied", true.into()),
            ];
            all.extend(values);
            all
        };
        vec![
            Preset { name: "tiny", values: Vec::new() },
            Preset {
                name: "nanogpt-cpu",
                values: character(
                    2000,
                    2000,
                    vec![
                        ("batch_size", 12_u64.into()),
                        ("data.context", 64_u64.into()),
                        ("model.layers", 4_u64.into()),
                        ("model.heads", 4_u64.into()),
                        ("model.width", 128_u64.into()),
                        ("model.dropout", 0.0.into()),
                    ],
                ),
            },
            Preset {
                name: "baby-gpt",
                values: character(
                    5000,
                    5000,
                    vec![
                        ("batch_size", 64_u64.into()),
                        ("data.context", 256_u64.into()),
                        ("model.layers", 6_u64.into()),
                        ("model.heads", 6_u64.into()),
                        ("model.width", 384_u64.into()),
                        ("model.dropout", 0.2.into()),
                    ],
                ),
            },
        ]
    }

    fn build(
        &self,
        settings: &Settings,
        vocabulary: usize,
        initial: &Initial<'_>,
    ) -> Result<GptModel, SettingsError> {
        Ok(GptModel::new(&Shape::read(settings, vocabulary)?, initial))
    }

    fn demand(&self, settings: &Settings, vocabulary: usize) -> Result<Demand, SettingsError> {
        let shape = Shape::read(settings, vocabulary)?;
        let [vocabulary, context, layers, heads, width] =
            [shape.vocabulary, shape.context, shape.layers, shape.heads, shape.width].map(|size| size as f64);
        let head = if shape.tied { 0.0 } else { vocabulary * width };
        // A block: qkv and output of attention, the perceptron's two maps, two normalisations.
        let block = 12.0 * width * width + 2.0 * width;
        Ok(Demand {
            parameters: layers * block + (vocabulary + context + 1.0) * width + head,
            // A block keeps its input, qkv, attention's output and the perceptron's hidden values, and for each
            // earlier token a probability a head.
            activations_per_token: layers * (9.0 * width + heads * context) + vocabulary,
            data: 0.0,
            settings: vec!["model.layers", "model.heads", "model.width"],
        })
    }

    fn forward(&self, model: &GptModel, tokens: Tensor<2, Int>) -> Tensor<3> {
        model.forward(tokens)
    }

    fn functions(&self) -> Vec<Function<GptModel>> {
        let loss =
            Function::new("loss", "cross-entropy of each target, in nats", |model: &GptModel, inputs| {
                let logits = model.forward(inputs.tokens("tokens")?);
                Some(vec![Answer::new(token_losses(logits, inputs.tokens("targets")?))])
            });
        let what =
            "logits of a residual stream, as after the last block: final normalisation and output head";
        let head = Function::new("head", what, |model: &GptModel, inputs| {
            Some(vec![Answer::new(model.logits(inputs.floats("stream")?))])
        });
        vec![
            loss.takes_tokens("tokens", CELLS).takes_tokens("targets", CELLS).gives("loss", CELLS),
            head.takes_floats("stream", STREAM).gives("logits", LOGITS),
        ]
    }

    fn next_logits(&self, model: &GptModel, tokens: &[u32], cache: &mut KeyValueCache) -> Option<Vec<f32>> {
        model.next_logits(tokens, cache)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use burn::tensor::Device;

    use super::*;
    use crate::settings::Schema;
    use crate::weights::{parameters, weights};

    fn model(preset: &str, sets: &[(&str, &str)]) -> GptModel {
        let preset = Gpt.presets().into_iter().find(|known| known.name == preset).unwrap();
        let mut settings = Settings::defaults(Schema::new(Gpt.keys())).with_preset(&preset).unwrap();
        for (path, value) in sets {
            settings.set(path, value).unwrap();
        }
        Gpt.build(&settings, 65, &Initial::new(1, &Device::flex())).unwrap()
    }

    fn size(model: &GptModel) -> usize {
        parameters(model).iter().map(|parameter| parameter.len).sum()
    }

    #[test]
    fn presets_have_the_sizes_of_the_published_models() {
        assert_eq!(size(&model("nanogpt-cpu", &[])), 804_096);
        let preset = Gpt.presets().into_iter().find(|known| known.name == "nanogpt-cpu").unwrap();
        let settings = Settings::defaults(Schema::new(Gpt.keys())).with_preset(&preset).unwrap();
        assert_eq!(Gpt.demand(&settings, 65).unwrap().parameters, 804_096.0);
        let untied = model("nanogpt-cpu", &[("model.tied", "false"), ("model.bias", "true")]);
        let biases = 4 * (3 * 128 + 128 + 4 * 128 + 128 + 2 * 128) + 128;
        assert_eq!(size(&untied), 804_096 + 65 * 128 + biases);
    }

    #[test]
    fn initial_weights_are_those_of_gpt_2() {
        let model = model("nanogpt-cpu", &[("model.bias", "true")]);
        for tensor in weights(&model) {
            let values = tensor.data.as_slice::<f32>().unwrap();
            let count = values.len() as f64;
            let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / count;
            let square = values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>() / count;
            let (name, expected) = (tensor.name.as_str(), 0.02);
            let joins = name.ends_with("attention.output.weight") || name.ends_with("mlp.output.weight");
            if name.ends_with("gamma") {
                assert_eq!((mean, square), (1.0, 1.0), "{name}");
            } else if name.ends_with("beta") || name.ends_with("bias") {
                assert_eq!(square, 0.0, "{name}");
            } else {
                let expected = if joins { expected / 8.0_f64.sqrt() } else { expected };
                assert!((square.sqrt() / expected - 1.0).abs() < 0.03, "{name}: {}", square.sqrt());
                assert!(mean.abs() < 0.05 * expected, "{name}: {mean}");
            }
        }
    }

    #[test]
    fn the_head_of_the_stream_is_the_forward_pass_and_the_loss_that_of_training() {
        use crate::experiment::Tokens;
        use crate::function::{Elements, Given, Inputs};

        let device = Device::flex();
        for tied in ["true", "false"] {
            let model = model("tiny", &[("model.tied", tied), ("model.bias", "true")]);
            let call = |name: &str, given: &[Given<'_>]| -> Vec<f32> {
                let functions = Gpt.functions();
                let function = functions.iter().find(|known| known.signature().name == name).unwrap();
                let answers = function.call(&model, &Inputs::new(&device, given)).unwrap();
                assert_eq!(answers.len(), function.signature().outputs.len());
                answers[0].values().collect()
            };
            let (tokens, targets) = ([1, 2, 3, 4, 5, 6], [2, 3, 4, 5, 6, 0]);
            let tensor = |values: [i32; 6]| {
                Tensor::<2, Int>::from_data(burn::tensor::TensorData::new(values.to_vec(), [2, 3]), &device)
            };
            let stream = model.stream(tensor(tokens));
            let width = stream.dims()[2];
            let values: Vec<f32> = stream.into_data().iter::<f32>().collect();
            let given =
                Given { name: "stream", shape: vec![2, 3, width], elements: Elements::Floats(&values) };
            let forward: Vec<f32> = model.forward(tensor(tokens)).into_data().iter::<f32>().collect();
            assert_eq!(call("head", &[given]), forward);

            let given = |name, values| Given { name, shape: vec![2, 3], elements: Elements::Tokens(values) };
            let losses = call("loss", &[given("targets", &targets), given("tokens", &tokens)]);
            let batch = Tokens { inputs: tensor(tokens), targets: tensor(targets), weights: None };
            let mean = Gpt.loss(&model, batch).into_scalar::<f32>();
            assert!((losses.iter().sum::<f32>() / 6.0 - mean).abs() < 1e-6, "{losses:?} {mean}");
        }
    }

    #[test]
    fn a_token_sees_only_those_before_it() {
        let model = model("tiny", &[]);
        let logits = |tokens: Vec<i32>| {
            let data = burn::tensor::TensorData::new(tokens, [1, 6]);
            model
                .forward(Tensor::from_data(data, &Device::flex()))
                .into_data()
                .iter::<f32>()
                .collect::<Vec<_>>()
        };
        let (one, other) = (logits(vec![1, 2, 3, 4, 5, 6]), logits(vec![1, 2, 3, 4, 50, 60]));
        assert_eq!(one[..4 * 65], other[..4 * 65]);
        assert_ne!(one[4 * 65..], other[4 * 65..]);
    }
}
