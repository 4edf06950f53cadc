//! Update rules with decay groups, and the norm of all gradients.

use burn::module::{Module, ModuleVisitor, Param, ParamGroup, ParamId};
use burn::optim::decay::WeightDecayConfig;
use burn::optim::{Adam, AdamConfig, AdamW, AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::Tensor;

use crate::settled::Settled;
use crate::weights::Parameter;

/// Above this many values Burn's CPU backend sums one tensor in parallel, in an order that depends
/// on the scheduler; summing the rows first keeps the bits.
const LARGEST_PLAIN_SUM: usize = 1 << 21;

/// How weights follow from gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptimizerRule {
    /// The rule.
    pub kind: OptimizerKind,
    /// Decay of the two moments.
    pub betas: [f64; 2],
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Decay of weights.
    pub weight_decay: f64,
    /// Whether vectors decay too, or matrices alone.
    pub decay_vectors: bool,
}

/// An update rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptimizerKind {
    /// Adam (Kingma and Ba 2015); decay is added to the gradient.
    Adam,
    /// AdamW (Loshchilov and Hutter 2019); decay is of the weights.
    AdamW,
}

/// Makes an optimizer without state.
pub(crate) fn build(rule: &OptimizerRule, parameters: &[Parameter]) -> ModuleOptimizer {
    let all = if rule.decay_vectors { rule.weight_decay } else { 0.0 };
    let plain = match rule.kind {
        OptimizerKind::Adam => ModuleOptimizer::from(adam(rule, all)),
        OptimizerKind::AdamW => ModuleOptimizer::from(adam_w(rule, all)),
    };
    if rule.decay_vectors {
        return plain;
    }
    let matrices = parameters.iter().filter(|parameter| parameter.rank >= 2).map(|parameter| parameter.id);
    let matrices = ParamGroup::from_ids(matrices.collect::<Vec<ParamId>>());
    match rule.kind {
        OptimizerKind::Adam => plain.with_group(matrices, adam(rule, rule.weight_decay), None),
        OptimizerKind::AdamW => plain.with_group(matrices, adam_w(rule, rule.weight_decay), None),
    }
}

fn adam(rule: &OptimizerRule, decay: f64) -> Settled<Adam> {
    let decay = (decay > 0.0).then(|| WeightDecayConfig::new(decay as f32));
    let adam = AdamConfig::new()
        .with_beta_1(rule.betas[0] as f32)
        .with_beta_2(rule.betas[1] as f32)
        .with_epsilon(rule.epsilon as f32)
        .with_weight_decay(decay)
        .build();
    Settled::new(adam, rule.betas)
}

fn adam_w(rule: &OptimizerRule, decay: f64) -> Settled<AdamW> {
    let adam = AdamWConfig::new()
        .with_beta_1(rule.betas[0] as f32)
        .with_beta_2(rule.betas[1] as f32)
        .with_epsilon(rule.epsilon as f32)
        .with_weight_decay(decay as f32)
        .build();
    Settled::new(adam, rule.betas)
}

/// Returns the Euclidean norm of all gradients together, without waiting for the device.
pub(crate) fn global_norm<M: Module>(model: &M, gradients: &GradientsParams) -> Option<Tensor<1>> {
    struct Squares<'a> {
        gradients: &'a GradientsParams,
        sum: Option<Tensor<1>>,
    }
    impl ModuleVisitor for Squares<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let Some(gradient) = self.gradients.get::<D>(param.id) else {
                return;
            };
            let large = gradient.shape().num_elements() > LARGEST_PLAIN_SUM;
            let squares = gradient.square();
            let sum = if large && D > 1 { squares.sum_dim(D - 1).sum() } else { squares.sum() };
            self.sum = Some(match self.sum.take() {
                Some(before) => before + sum,
                None => sum,
            });
        }
    }
    let mut squares = Squares { gradients, sum: None };
    model.visit(&mut squares);
    squares.sum.map(Tensor::sqrt)
}

/// Scales all gradients down to a global norm of at most `limit`.
pub(crate) fn clip<M: Module>(model: &M, gradients: &mut GradientsParams, norm: &Tensor<1>, limit: f64) {
    struct Scale<'a> {
        gradients: &'a mut GradientsParams,
        factor: Tensor<1>,
    }
    impl ModuleVisitor for Scale<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = self.gradients.remove::<D>(param.id) {
                let scaled = gradient * self.factor.clone().unsqueeze();
                self.gradients.register(param.id, scaled);
            }
        }
    }
    // As PyTorch's clip_grad_norm_: the small number keeps a zero norm harmless.
    let factor = (norm.clone() + 1e-6).recip() * limit;
    let mut scale = Scale { gradients, factor: factor.clamp_max(1.0) };
    model.visit(&mut scale);
}
