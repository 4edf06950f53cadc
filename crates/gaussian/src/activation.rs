//! What stands between the layers of a network.

use serde::{Deserialize, Serialize};

/// The function between two layers.
///
/// The three are written so that a loop over a slice compiles to vector instructions: without branches and without calls. They
/// differ from the exact values by a few units of the last place of the result, or by 1e-9 where that is less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// max(x, 0).
    #[default]
    Relu,
    /// The hyperbolic tangent.
    Tanh,
    /// x times the standard normal probability below x: the exact form, not the one with a tangent.
    Gelu,
}

impl Activation {
    /// Puts the value of every element in its place, by the vectors of whoever calls it.
    #[inline(always)]
    pub(crate) fn apply(self, values: &mut [f32]) {
        match self {
            Self::Relu => values.iter_mut().for_each(|value| *value = relu(*value)),
            Self::Tanh => values.iter_mut().for_each(|value| *value = tanh(*value)),
            Self::Gelu => values.iter_mut().for_each(|value| *value = gelu(*value)),
        }
    }

    /// Puts the value of `values + shift` into `out`.
    pub(crate) fn apply_shifted(self, values: &[f32], shift: f32, out: &mut [f32]) {
        let pairs = out.iter_mut().zip(values);
        match self {
            Self::Relu => pairs.for_each(|(out, value)| *out = relu(value + shift)),
            Self::Tanh => pairs.for_each(|(out, value)| *out = tanh(value + shift)),
            Self::Gelu => pairs.for_each(|(out, value)| *out = gelu(value + shift)),
        }
    }

    /// Puts the value of the sum into `values`.
    pub(crate) fn apply_sum(self, values: &mut [f32], other: &[f32]) {
        let pairs = values.iter_mut().zip(other);
        match self {
            Self::Relu => pairs.for_each(|(value, other)| *value = relu(*value + other)),
            Self::Tanh => pairs.for_each(|(value, other)| *value = tanh(*value + other)),
            Self::Gelu => pairs.for_each(|(value, other)| *value = gelu(*value + other)),
        }
    }
}

/// Adds the columns, each with its weight, to the sums: four columns a pass, because the sums are read and written once for
/// them. A row's sum is one chain, from the first column to the last.
pub(crate) fn weighted(columns: &[f32], weights: &[f32], sums: &mut [f32]) {
    let rows = sums.len();
    let mut fours = columns.chunks_exact(4 * rows);
    let mut weights_of_fours = weights.chunks_exact(4);
    for (four, weight) in (&mut fours).zip(&mut weights_of_fours) {
        let (first, rest) = four.split_at(rows);
        let (second, rest) = rest.split_at(rows);
        let (third, fourth) = rest.split_at(rows);
        let (first, second) = (&first[..rows], &second[..rows]);
        let (third, fourth) = (&third[..rows], &fourth[..rows]);
        for (row, sum) in sums.iter_mut().enumerate() {
            *sum = *sum
                + weight[0] * first[row]
                + weight[1] * second[row]
                + weight[2] * third[row]
                + weight[3] * fourth[row];
        }
    }
    for (column, weight) in fours.remainder().chunks_exact(rows).zip(weights_of_fours.remainder()) {
        for (sum, value) in sums.iter_mut().zip(column) {
            *sum += weight * value;
        }
    }
}

/// A NaN stays one: a comparison, where `max` would hide it.
#[inline(always)]
fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// e^x for x of \[-87, 0\]: 2^n by the bits of the exponent, times a polynomial over half a unit around 0.
#[inline(always)]
fn exp(x: f32) -> f32 {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    // ln 2 in two parts, so that n times the first is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // The constant rounds to a whole number: its bits are those of the sum.
    const MAGIC: f32 = 12_582_912.0;
    let shifted = x * LOG2_E + MAGIC;
    let n = shifted - MAGIC;
    let r = x - n * LN2_HIGH - n * LN2_LOW;
    let polynomial = 1.0
        + r * (1.0
            + r * (0.5
                + r * (1.0 / 6.0
                    + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0 + r * (1.0 / 5040.0)))))));
    let exponent = shifted.to_bits().wrapping_sub(MAGIC.to_bits()).wrapping_add(127) << 23;
    polynomial * f32::from_bits(exponent)
}

#[inline(always)]
fn tanh(x: f32) -> f32 {
    let size = x.abs();
    // Small arguments by a series in odd powers, where 1 - e^-2x would lose digits.
    let square = x * x;
    let small = x
        * (1.0
            + square
                * (-1.0 / 3.0
                    + square
                        * (2.0 / 15.0
                            + square
                                * (-17.0 / 315.0
                                    + square
                                        * (62.0 / 2835.0
                                            + square
                                                * (-1382.0 / 155_925.0
                                                    + square * (21_844.0 / 6_081_075.0)))))));
    let power = exp(-2.0 * if size > 20.0 { 20.0 } else { size });
    let large = ((1.0 - power) / (1.0 + power)).copysign(x);
    if size < 0.4 { small } else { large }
}

/// x/2 (1 + erf(x / sqrt 2)), by the complement of the error function for a positive argument (Numerical Recipes gives
/// this form of a Chebyshev fit; its relative error is below 1.2e-7).
#[inline(always)]
fn gelu(x: f32) -> f32 {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let z = if z > 9.0 { 9.0 } else { z };
    let t = 1.0 / (1.0 + 0.5 * z);
    let inner = -1.265_512_2
        + t * (1.000_023_7
            + t * (0.374_091_95
                + t * (0.096_784_18
                    + t * (-0.186_288_06
                        + t * (0.278_868_07
                            + t * (-1.135_204
                                + t * (1.488_515_9 + t * (-0.822_152_2 + t * 0.170_872_77))))))));
    // e^-z^2 apart: its argument is long, the other one short.
    let tail = t * exp(-z * z) * exp(inner);
    let upper = if x.abs() > 12.0 { 0.0 } else { 0.5 * tail };
    if x > 0.0 { x * (1.0 - upper) } else { x * upper }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(activation: Activation, x: f32) -> f32 {
        let mut value = [x];
        activation.apply(&mut value);
        value[0]
    }

    #[test]
    fn values_are_those_of_the_definitions() {
        for step in -12_000..=12_000 {
            let x = step as f32 * 1e-3;
            let wide = f64::from(x);
            let close = |found: f32, expected: f64, slack: f64| {
                assert!((f64::from(found) - expected).abs() <= slack, "{x}: {found}, not {expected}");
            };
            close(relu(x), wide.max(0.0), 0.0);
            let tanh_exact = libm::tanh(wide);
            close(tanh(x), tanh_exact, 3e-7 * tanh_exact.abs());
            let gelu_exact = 0.5 * wide * libm::erfc(-wide * std::f64::consts::FRAC_1_SQRT_2);
            close(gelu(x), gelu_exact, 1e-6 * gelu_exact.abs() + 1e-9);
        }
        for activation in [Activation::Relu, Activation::Tanh, Activation::Gelu] {
            assert!(of(activation, f32::NAN).is_nan(), "{activation:?}");
            assert_eq!(of(activation, 0.0), 0.0);
            let large = of(activation, 1e30);
            assert!(
                if activation == Activation::Tanh { large == 1.0 } else { large == 1e30 },
                "{activation:?}"
            );
            assert!(of(activation, -1e30).is_finite());
        }
    }

    #[test]
    fn slices_are_the_single_values() {
        let values: Vec<f32> = (-20..20).map(|step| step as f32 * 0.3).collect();
        for activation in [Activation::Relu, Activation::Tanh, Activation::Gelu] {
            let mut applied = values.clone();
            activation.apply(&mut applied);
            let mut shifted = vec![0.0; values.len()];
            activation.apply_shifted(&values, 0.7, &mut shifted);
            let mut summed = values.clone();
            activation.apply_sum(&mut summed, &vec![0.7; values.len()]);
            for (index, value) in values.iter().enumerate() {
                assert_eq!(applied[index], of(activation, *value));
                assert_eq!(shifted[index], of(activation, value + 0.7));
                assert_eq!(summed[index], shifted[index]);
            }
        }
    }
}
