//! A model in training, its type hidden.

use std::collections::BTreeMap;

use burn::module::Module;
use burn::optim::{GradientsAccumulator, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor};
use safetensors::SafeTensors;

use crate::data::AnyBatch;
use crate::experiment::KeyValueCache;
use crate::function::{Answer, Function, Given, Inputs};
use crate::generator::{self, Stream};
use crate::moments::{Moments, MomentsError, SavedScalar, put_together, take_apart};
use crate::optimizer::{self, OptimizerRule};
use crate::settings::{Settings, SettingsError};
use crate::weights::{self, Mismatch, NamedTensor, Parameter};

/// Where one micro-batch stands; its randomness is a function of these.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    pub(crate) seed: u64,
    pub(crate) step: u64,
    pub(crate) micro: u64,
}

/// A number that is still on the device.
#[derive(Debug)]
pub(crate) struct Pending(Tensor<1>);

impl Pending {
    /// Waits for the device.
    pub(crate) fn read(&self) -> f64 {
        f64::from(self.0.clone().into_scalar::<f32>())
    }
}

/// A frozen copy of weights and optimizer state, to be read later on any thread.
pub(crate) type Snapshot = Box<dyn FnOnce() -> Result<Frozen, MomentsError> + Send>;

/// Weights and optimizer state on the host.
#[derive(Debug)]
pub(crate) struct Frozen {
    pub(crate) weights: Vec<NamedTensor>,
    pub(crate) moments: Moments,
}

/// What a checkpoint gives back to a model.
pub(crate) struct Saved<'a> {
    pub(crate) weights: &'a SafeTensors<'a>,
    /// Optimizer tensors and scalars; `None` when only weights are wanted.
    pub(crate) optimizer: Option<(&'a SafeTensors<'a>, &'a BTreeMap<String, SavedScalar>)>,
    pub(crate) partial: bool,
}

/// What the trainer needs of a model and its optimizer.
pub(crate) trait Learner: Send {
    /// Number of trainable values.
    fn size(&self) -> usize;

    /// Computes loss and gradients of one micro-batch and adds them, times `share`, to those of
    /// the step.
    fn accumulate(&mut self, batch: &AnyBatch, share: f64, draw: Draw);

    /// Ends the accumulation: mean loss and global gradient norm of the step, not yet clipped.
    fn gradients(&mut self) -> (Option<Pending>, Option<Pending>);

    /// Applies the accumulated gradients, clipped.
    fn update(&mut self, rate: f64, clip: Option<f64>);

    /// Forgets what was accumulated of a step, also where micro-batches are still to come.
    fn skip(&mut self);

    /// Computes figures over several batches, without randomness: first `loss`, the mean over their targets.
    fn evaluate(&self, batches: &mut dyn Iterator<Item = &AnyBatch>) -> Vec<(&'static str, f64)>;

    /// Takes a snapshot in constant time: it shares the tensors, which are never changed in place
    /// while shared.
    fn snapshot(&self) -> Snapshot;

    /// Loads saved weights, and optimizer state where it is given.
    fn restore(&mut self, saved: &Saved<'_>) -> Result<Mismatch, MomentsError>;

    /// Computes what the model gives for some rows; `None` for inputs that its experiment does not declare.
    fn forward(&self, inputs: &[Given<'_>]) -> Option<Vec<Answer>>;

    /// Computes a named function of the experiment for some rows; `None` for one that it does not have, and for inputs that
    /// it does not declare.
    fn call(&self, function: &str, inputs: &[Given<'_>]) -> Option<Vec<Answer>>;

    /// Computes the logits after the last token; `None` when the experiment cannot sample.
    fn next_logits(&self, tokens: &[u32], cache: &mut KeyValueCache) -> Option<Vec<f32>>;
}

/// What a learner needs of an experiment, whatever it is trained on.
pub(crate) trait Core: Send + Sync + 'static {
    /// The Burn module.
    type Model: Module + 'static;

    /// Makes a model with initial weights.
    fn build(
        &self,
        settings: &Settings,
        vocabulary: usize,
        device: &Device,
    ) -> Result<Self::Model, SettingsError>;

    /// How weights follow from gradients.
    fn optimizer(&self, settings: &Settings) -> Result<OptimizerRule, SettingsError>;

    /// The mean loss over the targets that count.
    fn loss(&self, model: &Self::Model, batch: &AnyBatch, device: &Device) -> Tensor<1>;

    /// Figures over several batches; first `loss`, the mean over their targets.
    fn evaluate(
        &self,
        model: &Self::Model,
        batches: &mut dyn Iterator<Item = &AnyBatch>,
        device: &Device,
    ) -> Vec<(&'static str, f64)>;

    /// What may be called by name.
    fn functions(&self) -> Vec<Function<Self::Model>>;

    /// What the model gives.
    fn forward(&self, model: &Self::Model, inputs: &Inputs<'_>) -> Option<Vec<Answer>>;

    /// The logits after the last token; `None` when the experiment cannot sample.
    fn next_logits(&self, model: &Self::Model, tokens: &[u32], cache: &mut KeyValueCache)
    -> Option<Vec<f32>>;
}

/// A model of one experiment with its optimizer.
pub(crate) struct Held<C: Core> {
    experiment: C,
    model: C::Model,
    optimizer: ModuleOptimizer,
    rule: OptimizerRule,
    parameters: Vec<Parameter>,
    device: Device,
    gradients: Option<GradientsParams>,
    accumulator: GradientsAccumulator<C::Model>,
    loss: Option<Tensor<1>>,
    norm: Option<Tensor<1>>,
}

impl<C: Core> Held<C> {
    /// Makes initial weights on `device`, and an optimizer without state.
    pub(crate) fn new(
        experiment: C,
        settings: &Settings,
        vocabulary: usize,
        device: &Device,
    ) -> Result<Self, SettingsError> {
        let device = device.clone().autodiff();
        let model = experiment.build(settings, vocabulary, &device)?;
        let parameters = weights::parameters(&model);
        let rule = experiment.optimizer(settings)?;
        Ok(Self {
            optimizer: optimizer::build(&rule, &parameters),
            rule,
            accumulator: GradientsAccumulator::new(),
            gradients: None,
            loss: None,
            norm: None,
            experiment,
            model,
            parameters,
            device,
        })
    }
}

impl<C: Core> Learner for Held<C> {
    fn size(&self) -> usize {
        self.parameters.iter().map(|parameter| parameter.len).sum()
    }

    fn accumulate(&mut self, batch: &AnyBatch, share: f64, draw: Draw) {
        let loss = {
            let _lease = generator::lease(&self.device, draw.seed, Stream::Dropout, draw.step, draw.micro);
            self.experiment.loss(&self.model, batch, &self.device)
        };
        let loss = if share == 1.0 { loss } else { loss * share };
        let gradients = GradientsParams::from_grads(loss.backward(), &self.model);
        let loss = loss.inner();
        self.loss = Some(match self.loss.take() {
            None => loss,
            Some(before) => before + loss,
        });
        if share == 1.0 {
            self.gradients = Some(gradients);
        } else {
            self.accumulator.accumulate(&self.model, gradients);
        }
    }

    fn gradients(&mut self) -> (Option<Pending>, Option<Pending>) {
        let gradients = self.gradients.take().unwrap_or_else(|| self.accumulator.grads());
        self.norm = optimizer::global_norm(&self.model, &gradients);
        self.gradients = Some(gradients);
        (self.loss.take().map(Pending), self.norm.clone().map(Pending))
    }

    fn update(&mut self, rate: f64, clip: Option<f64>) {
        let Some(mut gradients) = self.gradients.take() else {
            return;
        };
        if let (Some(limit), Some(norm)) = (clip, self.norm.take()) {
            optimizer::clip(&self.model, &mut gradients, &norm, limit);
        }
        self.model = self.optimizer.step(rate, self.model.clone(), gradients);
    }

    fn skip(&mut self) {
        self.gradients = None;
        self.accumulator = GradientsAccumulator::new();
        self.loss = None;
        self.norm = None;
    }

    fn evaluate(&self, batches: &mut dyn Iterator<Item = &AnyBatch>) -> Vec<(&'static str, f64)> {
        self.experiment.evaluate(&self.model.valid(), batches, &self.device.clone().inner())
    }

    fn snapshot(&self) -> Snapshot {
        let model = self.model.clone();
        let optimizer = self.optimizer.clone();
        let parameters = self.parameters.clone();
        Box::new(move || {
            Ok(Frozen { weights: weights::weights(&model), moments: take_apart(&optimizer, &parameters)? })
        })
    }

    fn restore(&mut self, saved: &Saved<'_>) -> Result<Mismatch, MomentsError> {
        let (model, mismatch) = weights::load(self.model.clone(), saved.weights);
        if !mismatch.is_empty() && !saved.partial {
            return Ok(mismatch);
        }
        if let Some((tensors, scalars)) = saved.optimizer {
            let fresh = optimizer::build(&self.rule, &self.parameters);
            self.optimizer = put_together(fresh, &self.parameters, tensors, scalars, saved.partial)?;
        }
        self.model = model;
        Ok(mismatch)
    }

    fn forward(&self, inputs: &[Given<'_>]) -> Option<Vec<Answer>> {
        let device = self.device.clone().inner();
        self.experiment.forward(&self.model.valid(), &Inputs::new(&device, inputs))
    }

    fn call(&self, function: &str, inputs: &[Given<'_>]) -> Option<Vec<Answer>> {
        let functions = self.experiment.functions();
        let function = functions.iter().find(|known| known.signature().name == function)?;
        let device = self.device.clone().inner();
        function.call(&self.model.valid(), &Inputs::new(&device, inputs))
    }

    fn next_logits(&self, tokens: &[u32], cache: &mut KeyValueCache) -> Option<Vec<f32>> {
        self.experiment.next_logits(&self.model.valid(), tokens, cache)
    }
}

#[cfg(test)]
#[path = "learner/tests.rs"]
mod tests;
