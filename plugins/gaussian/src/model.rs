//! The trained network, out of the weights of a model.

use serde::{Deserialize, Serialize};
use waycairn_analysis_api::{AnalysisError, DType, Study, Tensors};
use waycairn_gaussian::{Activation, Linear, Network};

use crate::study::{count, training};

/// What the layers of a network are: the settings that its kind has, and no others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Architecture {
    /// Layers one after the other.
    Mlp { hidden: Vec<usize>, activation: Activation },
    /// Pairs of layers beside a sum.
    Residual { width: usize, blocks: usize, activation: Activation },
}

/// What a product needs to evaluate a model, beside its weights.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Evaluation {
    pub(crate) architecture: Architecture,
    /// Rows between two looks at whether to go on.
    pub(crate) evaluation_batch_size: u64,
}

/// One linear layer, copied out of the tensors.
struct Layer {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Layer {
    fn read(weights: &Tensors<'_>, name: &str, inputs: usize, outputs: usize) -> Result<Self, AnalysisError> {
        Ok(Self {
            weight: values(weights, &format!("{name}.weight"), &[inputs, outputs])?,
            bias: values(weights, &format!("{name}.bias"), &[outputs])?,
        })
    }

    fn linear(&self) -> Linear<'_> {
        Linear { weight: &self.weight, bias: &self.bias }
    }
}

/// The elements of a tensor of that shape.
fn values(weights: &Tensors<'_>, name: &str, shape: &[usize]) -> Result<Vec<f32>, AnalysisError> {
    let tensor = weights.get(name).ok_or_else(|| {
        let names: Vec<&str> = weights.names().collect();
        AnalysisError::new(format!(
            "the model has no tensor `{name}`, which its settings (`model`) ask for; it has {}",
            names.join(", ")
        ))
    })?;
    if tensor.dtype() != DType::F32 || tensor.shape() != shape {
        return Err(AnalysisError::new(format!(
            "the tensor `{name}` of the model is {} {:?}, and its settings (`model`) ask for float32 {shape:?}",
            tensor.dtype_name(),
            tensor.shape()
        )));
    }
    let words = tensor.bytes().chunks_exact(4);
    Ok(words.map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
}

impl Architecture {
    fn read(study: &Study<'_>) -> Result<Self, AnalysisError> {
        let model = training(study, "model")?;
        Self::deserialize(model)
            .map_err(|error| AnalysisError::new(format!("`model` is {model}, no network: {error}")))
    }

    /// Builds the network of observations of that dimension and so many parameters.
    pub(crate) fn network(
        &self,
        weights: &Tensors<'_>,
        dimension: usize,
        parameters: usize,
    ) -> Result<Network, AnalysisError> {
        let inputs = dimension + parameters;
        match self {
            Self::Mlp { hidden, activation } => {
                let widths: Vec<usize> =
                    [inputs].into_iter().chain(hidden.iter().copied()).chain([1]).collect();
                let pairs = widths.windows(2).enumerate();
                let layers = pairs
                    .map(|(index, pair)| Layer::read(weights, &format!("layers.{index}"), pair[0], pair[1]))
                    .collect::<Result<Vec<_>, _>>()?;
                let layers: Vec<Linear<'_>> = layers.iter().map(Layer::linear).collect();
                Ok(Network::mlp(dimension, parameters, *activation, &layers)?)
            }
            Self::Residual { width, blocks, activation } => {
                let width = *width;
                let first = Layer::read(weights, "input", inputs, width)?;
                let blocks = (0..*blocks)
                    .map(|index| {
                        let read =
                            |part| Layer::read(weights, &format!("blocks.{index}.{part}"), width, width);
                        Ok((read("inner")?, read("outer")?))
                    })
                    .collect::<Result<Vec<_>, AnalysisError>>()?;
                let last = Layer::read(weights, "output", width, 1)?;
                let blocks: Vec<(Linear<'_>, Linear<'_>)> =
                    blocks.iter().map(|(inner, outer)| (inner.linear(), outer.linear())).collect();
                let (first, last) = (first.linear(), last.linear());
                Ok(Network::residual(dimension, parameters, *activation, first, &blocks, last)?)
            }
        }
    }
}

impl Evaluation {
    pub(crate) fn read(study: &Study<'_>) -> Result<Self, AnalysisError> {
        Ok(Self {
            architecture: Architecture::read(study)?,
            evaluation_batch_size: count(study, "training.evaluation_batch_size", 1)?,
        })
    }

    /// How many things of so many rows are evaluated between two looks at whether to go on: at least one.
    pub(crate) fn at_once(&self, rows: usize) -> usize {
        let all = usize::try_from(self.evaluation_batch_size).unwrap_or(usize::MAX);
        (all / rows.max(1)).max(1)
    }
}
