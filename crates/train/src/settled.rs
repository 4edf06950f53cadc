//! Moments that come to rest at zero.
//!
//! Where a gradient ends, as that of a unit that no row reaches any more, a moment shrinks by its factor at each step until it
//! is below the smallest normal float, and rounding keeps it there: it never becomes zero. Processors take a hundred times as
//! long for such a number, and some of them in each step made the updates of a small network three times as long.

use burn::optim::{Adam, AdamW, LearningRate, Optimizer};
use burn::tensor::{Device, Tensor};

/// Steps between two looks at the moments.
const EVERY: usize = 8;

/// The largest value that is ever taken for zero: its part in an update is below the rounding of any weight.
const LARGEST: f32 = 1e-30;

/// An optimizer whose moments become zero instead of numbers below the normal ones.
///
/// Which step looks is told by the step count of the state, so a run that was interrupted computes the same.
#[derive(Clone)]
pub(crate) struct Settled<O> {
    optimizer: O,
    limits: [f32; 2],
}

impl<O> Settled<O> {
    /// `betas` are the optimizer's.
    pub(crate) fn new(optimizer: O, betas: [f64; 2]) -> Self {
        // What is larger is still a normal number when it is looked at again.
        let limit = |beta: f64| (f64::from(f32::MIN_POSITIVE) / beta.powi(EVERY as i32)).min(LARGEST.into());
        Self { optimizer, limits: betas.map(|beta| limit(beta) as f32) }
    }

    /// The moments after a step.
    fn settle<const D: usize>(&self, time: usize, moments: [&mut Tensor<D>; 2]) {
        if !time.is_multiple_of(EVERY) {
            return;
        }
        for (moment, limit) in moments.into_iter().zip(self.limits) {
            *moment = moment.clone().mask_fill(moment.clone().abs().lower_elem(limit), 0.0);
        }
    }
}

/// The same for each rule, whose states are types of their own with the same fields.
macro_rules! settled {
    ($($rule:ty),+) => {$(
        impl Optimizer for Settled<$rule> {
            type State<const D: usize> = <$rule as Optimizer>::State<D>;

            fn step<const D: usize>(
                &self,
                rate: LearningRate,
                tensor: Tensor<D>,
                gradient: Tensor<D>,
                state: Option<Self::State<D>>,
            ) -> (Tensor<D>, Option<Self::State<D>>) {
                let (tensor, mut state) = self.optimizer.step(rate, tensor, gradient, state);
                if let Some(momentum) = state.as_mut().map(|state| &mut state.momentum) {
                    self.settle(momentum.time, [&mut momentum.moment_1, &mut momentum.moment_2]);
                }
                (tensor, state)
            }

            fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
                <$rule>::to_device(state, device)
            }
        }
    )+};
}

settled!(Adam, AdamW);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use burn::optim::{AdamConfig, AdamWConfig};

    use super::*;

    fn values(tensor: &Tensor<1>) -> Vec<f32> {
        tensor.clone().into_data().iter::<f32>().collect()
    }

    /// Two weights: the gradient of the first one ends after some steps.
    fn gradient(step: usize, device: &Device) -> Tensor<1> {
        let ended = if step < 20 { 0.3 } else { 0.0 };
        Tensor::from_floats([ended, 0.1 * (step as f32).sin()], device)
    }

    #[test]
    fn a_moment_whose_gradient_ended_becomes_zero_and_weights_stay_those_of_the_plain_rule() {
        let device = Device::flex();
        let plain = AdamConfig::new().with_epsilon(1e-8).build();
        let settled = Settled::new(plain.clone(), [0.9, 0.999]);
        let start = Tensor::<1>::from_floats([0.5, -0.5], &device);
        let (mut one, mut other) = ((start.clone(), None), (start, None));
        for step in 0..1500 {
            one = plain.step(1e-3, one.0, gradient(step, &device), one.1);
            other = settled.step(1e-3, other.0, gradient(step, &device), other.1);
        }
        assert_eq!(values(&one.0), values(&other.0));
        let (one, other) = (one.1.unwrap().momentum, other.1.unwrap().momentum);
        // This is what makes the plain rule slow.
        assert!(values(&one.moment_1)[0].is_subnormal());
        assert_eq!(values(&other.moment_1)[0], 0.0);
        assert_eq!(values(&one.moment_1)[1], values(&other.moment_1)[1]);
        assert_eq!(values(&one.moment_2), values(&other.moment_2));
    }

    #[test]
    fn no_moment_is_below_the_normal_numbers_at_any_step() {
        let device = Device::flex();
        for betas in [[0.9, 0.999], [0.5, 0.9], [0.0, 0.3]] {
            let plain = AdamWConfig::new().with_beta_1(betas[0] as f32).with_beta_2(betas[1] as f32).build();
            let settled = Settled::new(plain, betas);
            let mut now = (Tensor::<1>::from_floats([0.5, -0.5], &device), None);
            for step in 0..1200 {
                now = settled.step(1e-3, now.0, gradient(step, &device), now.1);
                let momentum = &now.1.as_ref().unwrap().momentum;
                let of = |moment: &Tensor<1>| values(moment)[0];
                assert!(!of(&momentum.moment_1).is_subnormal() && !of(&momentum.moment_2).is_subnormal());
            }
            assert_eq!(values(&now.1.unwrap().momentum.moment_1)[0], 0.0);
        }
    }
}
