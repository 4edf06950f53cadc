//! The normal distribution: density, distribution, inverse.

use std::f64::consts::{FRAC_1_SQRT_2, LN_2, PI};

/// ln of the square root of 2 pi.
pub(crate) const LN_SQRT_TAU: f64 = 0.918_938_533_204_672_8;

/// The log density of a normal distribution.
#[must_use]
pub fn log_density(x: f64, mean: f64, std: f64) -> f64 {
    let z = (x - mean) / std;
    -0.5 * z * z - libm::log(std) - LN_SQRT_TAU
}

/// The probability below z.
pub(crate) fn cumulative(z: f64) -> f64 {
    0.5 * libm::erfc(-z * FRAC_1_SQRT_2)
}

/// The probability between two points. Where both lie above 0 it is a difference of upper tails, so that it keeps its
/// digits.
pub(crate) fn between(low: f64, high: f64) -> f64 {
    if low > 0.0 { cumulative(-low) - cumulative(-high) } else { cumulative(high) - cumulative(low) }
}

/// The point of \[low, high\] below which the share u of the mass between both lies.
pub(crate) fn inverse_between(u: f64, low: f64, high: f64) -> f64 {
    let mass = between(low, high);
    let below = cumulative(low) + u * mass;
    // From the tail in which the probability is small.
    let z = if below > 0.5 { -inverse(cumulative(-high) + (1.0 - u) * mass) } else { inverse(below) };
    z.clamp(low, high)
}

/// The point below which the probability is p: a rational first guess (Odeh and Evans, 1974, good to 2e-8 and near it), and
/// two steps of Halley's method over [`cumulative`], which leave the rounding of that alone.
pub(crate) fn inverse(p: f64) -> f64 {
    if p.is_nan() || !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if p == 0.0 || p == 1.0 {
        return if p == 0.0 { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    if p == 0.5 {
        return 0.0;
    }
    // In the lower tail, where the probability keeps its digits.
    let tail = p.min(1.0 - p);
    let y = libm::sqrt(-2.0 * libm::log(tail));
    let numerator = (((-4.536_422_101_48e-5 * y - 2.042_312_102_45e-2) * y - 0.342_242_088_547) * y - 1.0)
        * y
        - 0.322_232_431_088;
    let denominator =
        (((3.856_070_063_4e-3 * y + 0.103_537_752_85) * y + 0.531_103_462_366) * y + 0.588_581_570_495) * y
            + 0.099_348_462_606;
    let mut z = -(y + numerator / denominator);
    for _ in 0..2 {
        let error = (cumulative(z) - tail) / (libm::exp(-0.5 * z * z) / libm::sqrt(2.0 * PI));
        if !error.is_finite() {
            break;
        }
        z -= error / (1.0 + 0.5 * z * error);
    }
    if p < 0.5 { z } else { -z }
}

/// ln(e^a + e^b).
pub(crate) fn log_add(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    if high == f64::NEG_INFINITY { high } else { high + libm::log1p(libm::exp(low - high)) }
}

/// The logarithm of a sum of exponentials: -inf for none.
#[must_use]
pub fn log_sum_exp(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let highest = values.clone().fold(f64::NEG_INFINITY, f64::max);
    if !highest.is_finite() {
        return highest;
    }
    highest + libm::log(values.map(|value| libm::exp(value - highest)).sum())
}

/// ln(1 + e^x), without overflow.
#[must_use]
pub fn softplus(x: f64) -> f64 {
    x.max(0.0) + libm::log1p(libm::exp(-x.abs()))
}

/// ln(1 - e^x) of a negative x.
pub(crate) fn log_one_minus_exp(x: f64) -> f64 {
    if x > -LN_2 { libm::log(-libm::expm1(x)) } else { libm::log1p(-libm::exp(x)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_undoes_the_distribution() {
        for p in [1e-300, 1e-17, 1e-9, 1e-3, 0.1, 0.3, 0.499_999, 0.5, 0.7, 0.9, 0.999] {
            let z = inverse(p);
            assert!((cumulative(z) / p - 1.0).abs() < 1e-12, "{p}: {z}");
        }
        // Known quantiles.
        assert!((inverse(0.84) - 0.994_457_883_209_753_1).abs() < 1e-14);
        assert!((inverse(0.975) - 1.959_963_984_540_054).abs() < 1e-14);
        assert!((inverse(0.025) + 1.959_963_984_540_054).abs() < 1e-14);
        assert_eq!((inverse(0.0), inverse(1.0)), (f64::NEG_INFINITY, f64::INFINITY));
        assert!(inverse(f64::NAN).is_nan() && inverse(-0.1).is_nan());
    }

    #[test]
    fn tails_keep_their_digits() {
        // The probability between 10 and 11: 7.619853e-24 (from the asymptotic series of the tails).
        assert!((between(10.0, 11.0) / 7.619_853e-24 - 1.0).abs() < 1e-3, "{}", between(10.0, 11.0));
        assert_eq!(between(10.0, 11.0), between(-11.0, -10.0));
        for u in [0.0, 0.25, 0.999] {
            let z = inverse_between(u, 10.0, 11.0);
            assert!((10.0..=11.0).contains(&z));
            assert!((between(10.0, z) / between(10.0, 11.0) - u).abs() < 1e-9, "{u}: {z}");
        }
    }

    #[test]
    fn logs_of_sums_do_not_overflow() {
        assert_eq!(softplus(10_000.0), 10_000.0);
        assert_eq!(softplus(-10_000.0), 0.0);
        assert!((log_sum_exp([1e4, 1e4].into_iter()) - (1e4 + LN_2)).abs() < 1e-9);
        assert_eq!(log_sum_exp([].into_iter()), f64::NEG_INFINITY);
        assert_eq!(log_add(f64::NEG_INFINITY, f64::NEG_INFINITY), f64::NEG_INFINITY);
        assert!((log_add(0.0, 0.0) - LN_2).abs() < 1e-15);
        assert!((log_one_minus_exp(-1e-10) - libm::log(1e-10)).abs() < 1e-6);
    }
}
