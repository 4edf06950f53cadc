//! Named functions of an experiment: what analyses and products compute with a model besides its logits.
//!
//! A function says what it takes and gives, so that a host can refuse a wrong input with what is expected, and can hand over
//! the rows in blocks.

use std::fmt;

use burn::tensor::{Device, Int, Tensor, TensorData};

/// Bytes of activations that the rows of one block may keep, by the experiment's own estimate.
///
/// A constant, and not what is free at the moment: the last bits of a result may depend on how many rows are computed
/// together, and equal inputs are to give equal bits. It is small enough for any machine that can hold the model.
const BLOCK_BYTES: f64 = 512.0 * 1024.0 * 1024.0;

/// One named function of an experiment.
///
/// ```
/// use burn::tensor::Tensor;
/// use waycairn_train::{Answer, Axis, Function};
///
/// /// A model that is one number.
/// struct Scale(f32);
///
/// let scaled = Function::new("scaled", "each value, scaled", |model: &Scale, inputs| {
///     let values: Tensor<2> = inputs.floats("values")?;
///     Some(vec![Answer::new(values * model.0)])
/// })
/// .takes_floats("values", &[Axis::Rows, Axis::Setting("model.width")])
/// .gives("scaled", &[Axis::Rows, Axis::Setting("model.width")]);
/// assert_eq!(
///     scaled.signature().to_string(),
///     "scaled(values: float32 [rows, width]) -> scaled: float32 [rows, width]"
/// );
/// ```
pub struct Function<M> {
    signature: Signature,
    body: Body<M>,
}

type Body<M> = fn(&M, &Inputs<'_>) -> Option<Vec<Answer>>;

impl<M> Function<M> {
    /// A function without inputs and outputs. The body is called for some of the rows at a time, with inputs that were
    /// checked; it answers as many outputs as are declared, in that order, and `None` only if it asks for an input that
    /// is not declared.
    #[must_use]
    pub fn new(name: &'static str, description: &'static str, body: Body<M>) -> Self {
        let (inputs, outputs) = (Vec::new(), Vec::new());
        Self { signature: Signature { name, description, inputs, outputs }, body }
    }

    /// Adds an input of token numbers, below the size of the vocabulary.
    #[must_use]
    pub fn takes_tokens(mut self, name: &'static str, axes: &'static [Axis]) -> Self {
        self.signature.inputs.push(Port { name, values: Values::Tokens, axes });
        self
    }

    /// Adds an input of 32-bit floats.
    #[must_use]
    pub fn takes_floats(mut self, name: &'static str, axes: &'static [Axis]) -> Self {
        self.signature.inputs.push(Port { name, values: Values::Floats, axes });
        self
    }

    /// Adds an output of 32-bit floats.
    #[must_use]
    pub fn gives(mut self, name: &'static str, axes: &'static [Axis]) -> Self {
        self.signature.outputs.push(Port { name, values: Values::Floats, axes });
        self
    }

    /// Returns what it takes and gives.
    #[must_use]
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    pub(crate) fn call(&self, model: &M, inputs: &Inputs<'_>) -> Option<Vec<Answer>> {
        (self.body)(model, inputs)
    }
}

impl<M> fmt::Debug for Function<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.signature, f)
    }
}

/// What a function takes and gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Its name.
    pub name: &'static str,
    /// One line for a person.
    pub description: &'static str,
    /// Its inputs; all of them are needed.
    pub inputs: Vec<Port>,
    /// Its outputs.
    pub outputs: Vec<Port>,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}) -> {}", self.name, Ports(&self.inputs), Ports(&self.outputs))
    }
}

/// One input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: &'static str,
    /// What its elements are.
    pub values: Values,
    /// Its axes, [`Axis::Rows`] first.
    pub axes: &'static [Axis],
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes: Vec<String> = self.axes.iter().map(Axis::to_string).collect();
        write!(f, "{}: {} [{}]", self.name, self.values, axes.join(", "))
    }
}

/// Several, as they stand in a signature.
pub(crate) struct Ports<'a>(pub(crate) &'a [Port]);

impl fmt::Display for Ports<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports: Vec<String> = self.0.iter().map(Port::to_string).collect();
        f.write_str(&ports.join(", "))
    }
}

/// What the elements of an input or output are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Whole numbers from 0, below the size of the vocabulary.
    Tokens,
    /// 32-bit floats.
    Floats,
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tokens => "tokens",
            Self::Floats => "float32",
        })
    }
}

/// How long one axis is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// At least 1, and the same for every input and output; results of a row do not depend on the other rows.
    Rows,
    /// From 1 to the model's context, and the same for every input and output.
    Time,
    /// The number of tokens that the model knows.
    Vocabulary,
    /// The value of a setting: its dotted path.
    Setting(&'static str),
    /// A size that the experiment works out of its settings.
    Named(&'static str),
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rows => "rows",
            Self::Time => "time",
            Self::Vocabulary => "vocabulary",
            Self::Named(name) => name,
            Self::Setting(path) => path.rsplit_once('.').map_or(path, |(_, name)| name),
        })
    }
}

/// The inputs of one call: some of the rows, on the model's device.
#[derive(Debug)]
pub struct Inputs<'a> {
    device: &'a Device,
    given: &'a [Given<'a>],
}

impl<'a> Inputs<'a> {
    pub(crate) fn new(device: &'a Device, given: &'a [Given<'a>]) -> Self {
        Self { device, given }
    }

    /// Gives an input of token numbers; `None` for one that is not declared so.
    #[must_use]
    pub fn tokens<const D: usize>(&self, name: &str) -> Option<Tensor<D, Int>> {
        let given = self.find::<D>(name)?;
        let Elements::Tokens(values) = given.elements else { return None };
        Some(Tensor::from_data(TensorData::new(values.to_vec(), given.shape.clone()), self.device))
    }

    /// Gives an input of floats; `None` for one that is not declared so.
    #[must_use]
    pub fn floats<const D: usize>(&self, name: &str) -> Option<Tensor<D>> {
        let given = self.find::<D>(name)?;
        let Elements::Floats(values) = given.elements else { return None };
        Some(Tensor::from_data(TensorData::new(values.to_vec(), given.shape.clone()), self.device))
    }

    fn find<const D: usize>(&self, name: &str) -> Option<&Given<'a>> {
        self.given.iter().find(|given| given.name == name && given.shape.len() == D)
    }
}

/// One input of one call, on the host.
#[derive(Clone, Debug)]
pub(crate) struct Given<'a> {
    pub(crate) name: &'static str,
    pub(crate) shape: Vec<usize>,
    pub(crate) elements: Elements<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Elements<'a> {
    Tokens(&'a [i32]),
    Floats(&'a [f32]),
}

/// One output of one call.
#[derive(Debug)]
pub struct Answer {
    pub(crate) shape: Vec<usize>,
    pub(crate) data: TensorData,
}

impl Answer {
    /// Waits for the device and takes a tensor from it.
    #[must_use]
    pub fn new<const D: usize>(tensor: Tensor<D>) -> Self {
        Self { shape: tensor.dims().to_vec(), data: tensor.into_data() }
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = f32> {
        self.data.iter::<f32>()
    }
}

/// Rows that a model is given at once when it is only read: those of a batch in training, fewer where their
/// activations would take more than a fixed number of bytes, and one at least. `row` is what one of them takes.
pub(crate) fn block_rows(row: f64, batch: usize) -> usize {
    // A conversion from a float stops at the ends of the range; no demand is a quotient that is infinite.
    let room = (BLOCK_BYTES / row) as usize;
    batch.min(room).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_rows_are_read_at_once_as_training_had_or_the_limit_allows() {
        assert_eq!(block_rows(1e6, 12), 12);
        assert_eq!(block_rows(1e8, 12), 5);
        assert_eq!(block_rows(1e12, 12), 1);
        assert_eq!(block_rows(0.0, 12), 12);
        assert_eq!(block_rows(f64::INFINITY, 12), 1);
    }
}
