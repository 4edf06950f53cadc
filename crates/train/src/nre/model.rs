//! The Burn module of `nre`.

use burn::module::{Module, Param};
use burn::tensor::activation::{gelu, relu};
use burn::tensor::module::linear;
use burn::tensor::{Distribution, Tensor};

use crate::experiment::Initial;

/// What stands between two linear maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    Relu,
    /// With the exact distribution function, not the approximation by tanh.
    Gelu,
    Tanh,
}

/// The shape of a [`NreModel`].
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// Coordinates of an observation and of a parameter point together.
    pub(crate) inputs: usize,
    pub(crate) body: Body,
    pub(crate) activation: Activation,
    pub(crate) dropout: f64,
}

/// What the layers are.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// A perceptron of these widths.
    Mlp(Vec<usize>),
    /// Blocks that add to a stream.
    Residual { width: usize, blocks: usize },
}

impl Shape {
    /// Trainable values.
    pub(crate) fn parameters(&self) -> f64 {
        let inputs = self.inputs as f64;
        match &self.body {
            Body::Mlp(widths) => {
                let (mut from, mut sum) = (inputs, 0.0);
                for width in widths.iter().map(|width| *width as f64).chain([1.0]) {
                    sum += (from + 1.0) * width;
                    from = width;
                }
                sum
            }
            Body::Residual { width, blocks } => {
                let width = *width as f64;
                (inputs + 1.0) * width + *blocks as f64 * 2.0 * (width + 1.0) * width + width + 1.0
            }
        }
    }

    /// Values that the forward pass keeps for a row, at least: what each map gives, before and after its activation.
    pub(crate) fn activations(&self) -> f64 {
        let inner: f64 = match &self.body {
            Body::Mlp(widths) => widths.iter().map(|width| *width as f64).sum(),
            Body::Residual { width, blocks } => *width as f64 * (1.0 + 2.0 * *blocks as f64),
        };
        self.inputs as f64 + 2.0 * inner + 1.0
    }
}

/// A linear map `[rows, inputs] -> [rows, outputs]`.
#[derive(Module, Debug)]
struct Linear {
    weight: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
}

impl Linear {
    /// Weights and biases uniform between plus and minus one over the root of the number of inputs.
    fn new(initial: &Initial<'_>, path: &str, [inputs, outputs]: [usize; 2]) -> Self {
        let bound = 1.0 / (inputs as f64).sqrt();
        Self {
            weight: initial.uniform(&format!("{path}.weight"), [inputs, outputs], bound),
            bias: initial.uniform(&format!("{path}.bias"), [outputs], bound),
        }
    }

    fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        linear(input, self.weight.val(), Some(self.bias.val()))
    }
}

/// Two maps whose result is added to what goes in.
#[derive(Module, Debug)]
struct Block {
    inner: Linear,
    outer: Linear,
}

/// A network that tells pairs of an observation and its own parameter point from pairs that do not belong together.
///
/// Parameter paths, as they stand in `model.safetensors` (weights are `[inputs, outputs]`): of a perceptron
/// `layers.N.weight` and `layers.N.bias`, the last one being the output; of a residual network `input.*`,
/// `blocks.N.inner.*`, `blocks.N.outer.*` and `output.*`.
#[derive(Module, Debug)]
pub struct NreModel {
    layers: Vec<Linear>,
    input: Option<Linear>,
    blocks: Vec<Block>,
    output: Option<Linear>,
    #[module(skip)]
    activation: Activation,
    dropout: f64,
}

impl NreModel {
    pub(crate) fn new(shape: &Shape, initial: &Initial<'_>) -> Self {
        let (mut layers, mut blocks, mut input, mut output) = (Vec::new(), Vec::new(), None, None);
        match &shape.body {
            Body::Mlp(widths) => {
                let mut from = shape.inputs;
                for (index, width) in widths.iter().copied().chain([1]).enumerate() {
                    layers.push(Linear::new(initial, &format!("layers.{index}"), [from, width]));
                    from = width;
                }
            }
            Body::Residual { width, blocks: count } => {
                let width = *width;
                input = Some(Linear::new(initial, "input", [shape.inputs, width]));
                blocks.extend((0..*count).map(|index| Block {
                    inner: Linear::new(initial, &format!("blocks.{index}.inner"), [width, width]),
                    outer: Linear::new(initial, &format!("blocks.{index}.outer"), [width, width]),
                }));
                output = Some(Linear::new(initial, "output", [width, 1]));
            }
        }
        Self { layers, input, blocks, output, activation: shape.activation, dropout: shape.dropout }
    }

    /// The logit of each row, `[rows]`, for observations `[rows, d]` and parameter points `[rows, p]`.
    pub(crate) fn logits(&self, x: Tensor<2>, theta: Tensor<2>) -> Tensor<1> {
        let mut stream = Tensor::cat(vec![x, theta], 1);
        if let Some((output, hidden)) = self.layers.split_last() {
            for layer in hidden {
                stream = self.drop(self.activate(layer.forward(stream)));
            }
            return output.forward(stream).flatten(0, 1);
        }
        if let Some(input) = &self.input {
            stream = self.activate(input.forward(stream));
        }
        for block in &self.blocks {
            let inner = self.drop(self.activate(block.inner.forward(stream.clone())));
            stream = self.activate(stream + block.outer.forward(inner));
        }
        match &self.output {
            Some(output) => output.forward(stream).flatten(0, 1),
            None => stream.sum_dim(1).flatten(0, 1),
        }
    }

    fn activate(&self, input: Tensor<2>) -> Tensor<2> {
        match self.activation {
            Activation::Relu => relu(input),
            Activation::Gelu => gelu(input),
            Activation::Tanh => input.tanh(),
        }
    }

    /// Drops values in training, which is where tensors have autodiff.
    fn drop(&self, input: Tensor<2>) -> Tensor<2> {
        if self.dropout == 0.0 || !input.device().is_autodiff() {
            return input;
        }
        let keep = 1.0 - self.dropout;
        // One multiplication carries mask and scale.
        let mask = input.random_like(Distribution::Bernoulli(keep)) * (1.0 / keep);
        input * mask
    }
}
