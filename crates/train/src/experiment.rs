//! What an experiment is: the model, its settings, its loss.

use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use waycairn_cache::Sources;
use waycairn_durable::Digest;

use crate::data::Batch;
use crate::function::Function;
use crate::schema::Key;
use crate::settings::{Preset, Settings, SettingsError};

/// A model that the trainer can train.
///
/// # Contract
///
/// - [`build`](Self::build) makes every parameter through [`Initial`], and gives each the dotted
///   path that it has in the module: then initial weights depend on the seed and the path alone.
/// - [`loss`](Self::loss) is a function of the model and the batch. Randomness comes from the
///   tensors' own device, which the trainer seeds before each call; there is no other state.
/// - A change that changes what is computed raises [`version`](Self::version).
///
/// ```
/// use burn::module::{Module, Param};
/// use burn::tensor::{Device, Int, Tensor, activation::log_softmax};
/// use waycairn_train::{Experiment, Initial, Key, Settings, SettingsError, Tokens};
///
/// /// Predicts the next token from this one.
/// #[derive(Clone, Debug)]
/// struct Bigram;
///
/// #[derive(Module, Debug)]
/// struct Table {
///     logits: Param<Tensor<2>>,
/// }
///
/// impl Experiment for Bigram {
///     type Model = Table;
///
///     fn name(&self) -> &'static str { "bigram" }
///     fn version(&self) -> &'static str { "1" }
///     fn keys(&self) -> Vec<Key> { Vec::new() }
///
///     fn build(&self, _: &Settings, vocabulary: usize, initial: &Initial<'_>) -> Result<Table, SettingsError> {
///         Ok(Table { logits: initial.zeros("logits", [vocabulary, vocabulary]) })
///     }
///
///     fn forward(&self, model: &Table, tokens: Tensor<2, Int>) -> Tensor<3> {
///         let [rows, context] = tokens.dims();
///         let logits = model.logits.val();
///         let [_, vocabulary] = logits.dims();
///         logits.select(0, tokens.reshape([rows * context])).reshape([rows, context, vocabulary])
///     }
/// }
/// # assert_eq!(Bigram.name(), "bigram");
/// ```
pub trait Experiment: Send + Sync + 'static {
    /// The Burn module.
    type Model: Module + 'static;

    /// Returns the name, recorded as `_x_job` and chosen with `--experiment`.
    fn name(&self) -> &'static str;

    /// Returns the version of the computation.
    fn version(&self) -> &'static str;

    /// Returns the settings that only this experiment has, under `model.`.
    fn keys(&self) -> Vec<Key>;

    /// Returns the presets, the default one first; none by default.
    fn presets(&self) -> Vec<Preset> {
        Vec::new()
    }

    /// Returns the source files that decide its numbers, embedded with `waycairn_cache::sources!`: a model that was
    /// trained with other sources is another model. None by default; then [`version`](Self::version) alone tells.
    fn sources(&self) -> Sources {
        Sources::new(&[])
    }

    /// Makes a model with initial weights.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Conflict`] for settings that contradict each other.
    fn build(
        &self,
        settings: &Settings,
        vocabulary: usize,
        initial: &Initial<'_>,
    ) -> Result<Self::Model, SettingsError>;

    /// Says what a model of these settings takes, so that one that cannot fit is refused before it is made; by
    /// default nothing is known.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Conflict`] for settings that contradict each other.
    fn demand(&self, _settings: &Settings, _vocabulary: usize) -> Result<Demand, SettingsError> {
        Ok(Demand::default())
    }

    /// Computes the logits of the next token, `[rows, context, vocabulary]`, for token numbers
    /// `[rows, context]`.
    fn forward(&self, model: &Self::Model, tokens: Tensor<2, Int>) -> Tensor<3>;

    /// Computes the mean loss over the targets that count; by default the cross-entropy of
    /// [`forward`](Self::forward).
    fn loss(&self, model: &Self::Model, batch: Tokens) -> Tensor<1> {
        let logits = self.forward(model, batch.inputs);
        cross_entropy(logits, batch.targets, batch.weights)
    }

    /// Returns what analyses and products may call by name, besides the logits; nothing by default.
    fn functions(&self) -> Vec<Function<Self::Model>> {
        Vec::new()
    }

    /// Computes the logits after the last of `tokens`, keeping what later calls can reuse in
    /// `cache`; `None` when the experiment cannot sample, which is the default.
    ///
    /// `tokens` holds the tokens that were not given before, and the cache those that were.
    fn next_logits(
        &self,
        _model: &Self::Model,
        _tokens: &[u32],
        _cache: &mut KeyValueCache,
    ) -> Option<Vec<f32>> {
        None
    }
}

/// What a model takes of memory, as counts of 32-bit values. Floats, so that no size overflows them.
#[derive(Clone, Debug, Default)]
pub struct Demand {
    /// Trainable values.
    pub parameters: f64,
    /// Values that the forward pass keeps for each token, or for each row of numbers, at least.
    pub activations_per_token: f64,
    /// Values of rows of numbers that are held as long as a training runs; a text is mapped, and counts nothing.
    pub data: f64,
    /// The experiment's own settings that decide this.
    pub settings: Vec<&'static str>,
}

/// A batch on the device.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// Inputs, `[rows, context]`.
    pub inputs: Tensor<2, Int>,
    /// The token after each input, `[rows, context]`.
    pub targets: Tensor<2, Int>,
    /// 1 where a target counts and 0 where not, `[rows, context]`; absent when all count.
    pub weights: Option<Tensor<2>>,
}

impl Tokens {
    /// Copies a batch to a device.
    #[must_use]
    pub fn on(batch: &Batch, device: &Device) -> Self {
        let shape = [batch.rows, batch.context];
        let integers = |values: &[i32]| Tensor::from_data(TensorData::new(values.to_vec(), shape), device);
        Self {
            inputs: integers(&batch.tokens),
            targets: integers(&batch.targets),
            weights: batch
                .weights
                .as_ref()
                .map(|weights| Tensor::from_data(TensorData::new(weights.clone(), shape), device)),
        }
    }
}

/// Keys and values of the tokens that were given already, one pair a layer.
///
/// Each tensor is `[1, heads, tokens, width / heads]`, on a device without autodiff.
#[derive(Debug, Default)]
pub struct KeyValueCache {
    /// Key and value of each layer, outermost first; empty at the start.
    pub layers: Vec<(Tensor<4>, Tensor<4>)>,
    /// Number of tokens in it.
    pub tokens: usize,
}

/// Cross-entropy of each target, `[rows, context]`, in nats, for `[rows, context, vocabulary]` logits.
#[must_use]
pub fn token_losses(logits: Tensor<3>, targets: Tensor<2, Int>) -> Tensor<2> {
    let shape = targets.dims();
    log_probabilities(logits, targets).neg().reshape(shape)
}

/// The logarithm of the probability of each target, `[rows * context, 1]`.
fn log_probabilities(logits: Tensor<3>, targets: Tensor<2, Int>) -> Tensor<2> {
    let [rows, context, vocabulary] = logits.dims();
    let count = rows * context;
    let all = burn::tensor::activation::log_softmax(logits.reshape([count, vocabulary]), 1);
    all.gather(1, targets.reshape([count, 1]))
}

/// Mean cross-entropy of `[rows, context, vocabulary]` logits over the targets that count.
#[must_use]
pub fn cross_entropy(logits: Tensor<3>, targets: Tensor<2, Int>, weights: Option<Tensor<2>>) -> Tensor<1> {
    let picked = log_probabilities(logits, targets);
    match weights {
        None => picked.mean().neg(),
        Some(weights) => {
            let weights = weights.reshape(picked.shape());
            (picked * weights.clone()).sum().neg() / weights.sum()
        }
    }
}

/// Makes the initial parameters.
///
/// Values come from a ChaCha stream on the host, keyed by the seed and the parameter's path: they
/// do not depend on the device, on its generator, or on the order of the calls. Burn's own
/// initialisers draw lazily, at first use, from the device's shared generator.
#[derive(Debug)]
pub struct Initial<'a> {
    seed: u64,
    device: &'a Device,
}

impl<'a> Initial<'a> {
    pub(crate) fn new(seed: u64, device: &'a Device) -> Self {
        Self { seed, device }
    }

    /// Returns the device that parameters are made on.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.device
    }

    /// Draws from a normal distribution around 0.
    #[must_use]
    pub fn normal<const D: usize>(&self, path: &str, shape: [usize; D], deviation: f64) -> Param<Tensor<D>> {
        let text = format!("waycairn parameter 1\n{}\n{path}", self.seed);
        let mut generator = ChaCha12Rng::from_seed(*Digest::of(text.as_bytes()).as_bytes());
        let count: usize = shape.iter().product();
        let mut values = Vec::with_capacity(count + 1);
        while values.len() < count {
            // Box and Muller's transform gives two values at a time.
            let radius = (-2.0 * unit(generator.next_u64()).ln()).sqrt() * deviation;
            let angle = std::f64::consts::TAU * unit(generator.next_u64());
            values.push((radius * angle.cos()) as f32);
            values.push((radius * angle.sin()) as f32);
        }
        values.truncate(count);
        Param::from_data(TensorData::new(values, shape), self.device)
    }

    /// Draws from a uniform distribution between `-bound` and `bound`.
    #[must_use]
    pub fn uniform<const D: usize>(&self, path: &str, shape: [usize; D], bound: f64) -> Param<Tensor<D>> {
        let text = format!("waycairn parameter 1\n{}\n{path}", self.seed);
        let mut generator = ChaCha12Rng::from_seed(*Digest::of(text.as_bytes()).as_bytes());
        let draw = |_| ((2.0 * unit(generator.next_u64()) - 1.0) * bound) as f32;
        let values: Vec<f32> = (0..shape.iter().product::<usize>()).map(draw).collect();
        Param::from_data(TensorData::new(values, shape), self.device)
    }

    /// Makes zeros.
    #[must_use]
    pub fn zeros<const D: usize>(&self, _path: &str, shape: [usize; D]) -> Param<Tensor<D>> {
        Param::from_data(TensorData::zeros::<f32, _>(shape), self.device)
    }

    /// Makes ones.
    #[must_use]
    pub fn ones<const D: usize>(&self, _path: &str, shape: [usize; D]) -> Param<Tensor<D>> {
        Param::from_data(TensorData::ones::<f32, _>(shape), self.device)
    }
}

/// Maps 64 random bits to `0 < x <= 1`.
fn unit(bits: u64) -> f64 {
    ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// What the members of a study's cohort differ in, besides their seeds: a list in the settings of the study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cohort {
    /// The name of the list in the table `cohort`: `priors`.
    pub list: &'static str,
    /// The setting that each member has one value of: `prior`.
    pub setting: &'static str,
    /// The values where the study names none.
    pub default: Vec<String>,
}
