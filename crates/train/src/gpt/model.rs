//! The Burn module of `gpt`.

use burn::module::{Module, Param};
use burn::tensor::activation::{gelu, softmax};
use burn::tensor::module::{embedding, layer_norm, linear};
use burn::tensor::{Device, Distribution, Int, Tensor, TensorData};

use super::Shape;
use crate::experiment::{Initial, KeyValueCache};

const EPSILON: f64 = 1e-5;
/// What a masked score becomes: far enough that its probability is 0, near enough to stay finite.
const MASKED: f32 = -1e9;

/// A linear map `[.., inputs] -> [.., outputs]`.
#[derive(Module, Debug)]
struct Linear {
    weight: Param<Tensor<2>>,
    bias: Option<Param<Tensor<1>>>,
}

/// Layer normalisation over the last axis.
#[derive(Module, Debug)]
struct Norm {
    gamma: Param<Tensor<1>>,
    beta: Option<Param<Tensor<1>>>,
}

/// A table of vectors.
#[derive(Module, Debug)]
struct Table {
    weight: Param<Tensor<2>>,
}

/// Causal attention with one fused projection for queries, keys and values.
#[derive(Module, Debug)]
struct Attention {
    qkv: Linear,
    output: Linear,
    heads: usize,
    dropout: f64,
}

/// Two linear maps with a GELU between them.
#[derive(Module, Debug)]
struct Perceptron {
    hidden: Linear,
    output: Linear,
    dropout: f64,
}

/// One block: attention, then perceptron, each normalised before and added to the stream.
#[derive(Module, Debug)]
struct Block {
    attention_norm: Norm,
    attention: Attention,
    mlp_norm: Norm,
    mlp: Perceptron,
}

/// The whole transformer.
///
/// Parameter paths, as they stand in `model.safetensors` (linear weights are
/// `[inputs, outputs]`): `token_embedding.weight`, `position_embedding.weight`,
/// `blocks.N.attention_norm.gamma`, `blocks.N.attention.qkv.weight`,
/// `blocks.N.attention.output.weight`, `blocks.N.mlp_norm.gamma`, `blocks.N.mlp.hidden.weight`,
/// `blocks.N.mlp.output.weight`, `final_norm.gamma`; with biases also `.bias` and `.beta`; and
/// `head.weight` where the head is not tied.
#[derive(Module, Debug)]
pub struct GptModel {
    token_embedding: Table,
    position_embedding: Table,
    blocks: Vec<Block>,
    final_norm: Norm,
    head: Option<Linear>,
    dropout: f64,
}

impl Linear {
    fn new(initial: &Initial<'_>, path: &str, sizes: [usize; 2], deviation: f64, bias: bool) -> Self {
        Self {
            weight: initial.normal(&format!("{path}.weight"), sizes, deviation),
            bias: bias.then(|| initial.zeros(&format!("{path}.bias"), [sizes[1]])),
        }
    }

    fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        linear(input, self.weight.val(), self.bias.as_ref().map(Param::val))
    }
}

impl Norm {
    fn new(initial: &Initial<'_>, path: &str, width: usize, bias: bool) -> Self {
        Self {
            gamma: initial.ones(&format!("{path}.gamma"), [width]),
            beta: bias.then(|| initial.zeros(&format!("{path}.beta"), [width])),
        }
    }

    fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        let beta = self.beta.as_ref().map(Param::val);
        layer_norm(input, self.gamma.val(), beta, EPSILON)
    }
}

/// Drops values in training, which is where tensors have autodiff.
fn dropout<const D: usize>(input: Tensor<D>, share: f64) -> Tensor<D> {
    if share == 0.0 || !input.device().is_autodiff() {
        return input;
    }
    let keep = 1.0 - share;
    // One multiplication carries mask and scale.
    let mask = input.random_like(Distribution::Bernoulli(keep)) * (1.0 / keep);
    input * mask
}

impl Attention {
    /// `input` is `[rows, tokens, width]`; `mask` is added to the scores and `[1, 1, queries,
    /// keys]`; `past` holds keys and values of earlier tokens and is replaced by all of them.
    fn forward(
        &self,
        input: Tensor<3>,
        mask: Option<&Tensor<4>>,
        past: Option<&mut Option<(Tensor<4>, Tensor<4>)>>,
    ) -> Tensor<3> {
        let [rows, tokens, width] = input.dims();
        let head = width / self.heads;
        let joined = self.qkv.forward(input).reshape([rows, tokens, 3 * self.heads, head]).swap_dims(1, 2);
        let part = |index: usize| joined.clone().narrow(1, index * self.heads, self.heads);
        // The scale goes on the queries, which are smaller than the scores.
        let query = part(0) * (1.0 / (head as f64).sqrt());
        let (mut key, mut value) = (part(1), part(2));
        if let Some(past) = past {
            if let Some((before_key, before_value)) = past.take() {
                key = Tensor::cat(vec![before_key, key], 2);
                value = Tensor::cat(vec![before_value, value], 2);
            }
            *past = Some((key.clone(), value.clone()));
        }
        let mut scores = query.matmul(key.swap_dims(2, 3));
        if let Some(mask) = mask {
            scores = scores + mask.clone();
        }
        let probabilities = dropout(softmax(scores, 3), self.dropout);
        let mixed = probabilities.matmul(value).swap_dims(1, 2).reshape([rows, tokens, width]);
        dropout(self.output.forward(mixed), self.dropout)
    }
}

impl Perceptron {
    fn forward(&self, input: Tensor<3>) -> Tensor<3> {
        let hidden = gelu(self.hidden.forward(input));
        dropout(self.output.forward(hidden), self.dropout)
    }
}

impl Block {
    fn new(initial: &Initial<'_>, index: usize, shape: &Shape) -> Self {
        let path = format!("blocks.{index}");
        let width = shape.width;
        let deviation = 0.02;
        let joining = deviation / (2.0 * shape.layers as f64).sqrt();
        let linear = |name: &str, sizes: [usize; 2], deviation: f64| {
            Linear::new(initial, &format!("{path}.{name}"), sizes, deviation, shape.bias)
        };
        let norm = |name: &str| Norm::new(initial, &format!("{path}.{name}"), width, shape.bias);
        Self {
            attention_norm: norm("attention_norm"),
            attention: Attention {
                qkv: linear("attention.qkv", [width, 3 * width], deviation),
                output: linear("attention.output", [width, width], joining),
                heads: shape.heads,
                dropout: shape.dropout,
            },
            mlp_norm: norm("mlp_norm"),
            mlp: Perceptron {
                hidden: linear("mlp.hidden", [width, 4 * width], deviation),
                output: linear("mlp.output", [4 * width, width], joining),
                dropout: shape.dropout,
            },
        }
    }

    fn forward(
        &self,
        stream: Tensor<3>,
        mask: Option<&Tensor<4>>,
        past: Option<&mut Option<(Tensor<4>, Tensor<4>)>>,
    ) -> Tensor<3> {
        let normed = self.attention_norm.forward(stream.clone());
        let stream = stream + self.attention.forward(normed, mask, past);
        let normed = self.mlp_norm.forward(stream.clone());
        stream + self.mlp.forward(normed)
    }
}

impl GptModel {
    pub(crate) fn new(shape: &Shape, initial: &Initial<'_>) -> Self {
        let width = shape.width;
        let table = |path: &str, rows: usize| Table {
            weight: initial.normal(&format!("{path}.weight"), [rows, width], 0.02),
        };
        Self {
            token_embedding: table("token_embedding", shape.vocabulary),
            position_embedding: table("position_embedding", shape.context),
            blocks: (0..shape.layers).map(|index| Block::new(initial, index, shape)).collect(),
            final_norm: Norm::new(initial, "final_norm", width, shape.bias),
            head: (!shape.tied).then(|| Linear::new(initial, "head", [width, shape.vocabulary], 0.02, false)),
            dropout: shape.dropout,
        }
    }

    /// Token numbers `[rows, tokens]` to logits `[rows, tokens, vocabulary]`; at most as many
    /// tokens as there are positions.
    pub(crate) fn forward(&self, tokens: Tensor<2, Int>) -> Tensor<3> {
        self.logits(self.stream(tokens))
    }

    /// The residual stream after the last block, `[rows, tokens, width]`.
    pub(crate) fn stream(&self, tokens: Tensor<2, Int>) -> Tensor<3> {
        let [_, count] = tokens.dims();
        let mask = causal_mask(count, 0, &tokens.device());
        let mut stream = dropout(self.embed(tokens, 0), self.dropout);
        for block in &self.blocks {
            stream = block.forward(stream, Some(&mask), None);
        }
        stream
    }

    /// As [`Self::forward`] for the last token alone, with the keys and values of earlier ones.
    pub(crate) fn next_logits(&self, tokens: &[u32], cache: &mut KeyValueCache) -> Option<Vec<f32>> {
        let weight = self.token_embedding.weight.val();
        let numbers: Vec<i32> = tokens.iter().map(|token| *token as i32).collect();
        let count = numbers.len();
        if count == 0 {
            return None;
        }
        let data = TensorData::new(numbers, [1, count]);
        let tokens: Tensor<2, Int> = Tensor::from_data(data, &weight.device());
        let mask = (count > 1).then(|| causal_mask(count, cache.tokens, &weight.device()));
        let mut stream = self.embed(tokens, cache.tokens);
        let mut past = std::mem::take(&mut cache.layers).into_iter();
        for block in &self.blocks {
            let mut pair = past.next();
            stream = block.forward(stream, mask.as_ref(), Some(&mut pair));
            cache.layers.extend(pair);
        }
        cache.tokens += count;
        let logits = self.logits(stream.narrow(1, count - 1, 1));
        Some(logits.into_data().iter::<f32>().collect())
    }

    fn embed(&self, tokens: Tensor<2, Int>, first: usize) -> Tensor<3> {
        let [_, count] = tokens.dims();
        let positions = self.position_embedding.weight.val();
        let positions = positions.narrow(0, first, count).unsqueeze::<3>();
        embedding(self.token_embedding.weight.val(), tokens) + positions
    }

    /// The logits of a residual stream `[rows, tokens, width]`.
    pub(crate) fn logits(&self, stream: Tensor<3>) -> Tensor<3> {
        let stream = self.final_norm.forward(stream);
        match &self.head {
            Some(head) => head.forward(stream),
            None => {
                let [rows, tokens, width] = stream.dims();
                let table = self.token_embedding.weight.val();
                let [vocabulary, _] = table.dims();
                stream
                    .reshape([rows * tokens, width])
                    .matmul(table.swap_dims(0, 1))
                    .reshape([rows, tokens, vocabulary])
            }
        }
    }
}

/// 0 where a query may look at a key and a large negative number where not, `[1, 1, queries,
/// past + queries]`.
fn causal_mask(queries: usize, past: usize, device: &Device) -> Tensor<4> {
    let keys = past + queries;
    let values: Vec<f32> = (0..queries * keys)
        .map(|index| if index % keys > past + index / keys { MASKED } else { 0.0 })
        .collect();
    Tensor::from_data(TensorData::new(values, [1, 1, queries, keys]), device)
}
