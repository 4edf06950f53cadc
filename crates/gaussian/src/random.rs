//! Numbers from a generator: uniform, normal, whole, permuted.
//!
//! Each takes a fixed count of 64-bit numbers from the generator (but [`below`], which may reject one), and uses no
//! function of the platform's mathematics library, so a stream gives the same values on every machine.

use rand_core::Rng;

use crate::normal;

const UNIT: f64 = 1.0 / (1_u64 << 53) as f64;

/// Draws a number of \[0, 1): one of 2^53 evenly spaced ones.
pub fn uniform(rng: &mut impl Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 * UNIT
}

/// Draws a standard normal number, by the inverse of its distribution.
pub fn standard_normal(rng: &mut impl Rng) -> f64 {
    // In the middle of a cell, so that neither 0 nor 1 comes.
    normal::inverse(((rng.next_u64() >> 11) as f64 + 0.5) * UNIT)
}

/// Draws a whole number below `count`, each equally often.
pub(crate) fn below(rng: &mut impl Rng, count: u64) -> u64 {
    debug_assert!(count > 0);
    loop {
        // The upper half of a product of 128 bits; lower halves under the threshold would be too frequent.
        let product = u128::from(rng.next_u64()) * u128::from(count);
        let low = product as u64;
        if low >= count || low >= count.wrapping_neg() % count {
            return (product >> 64) as u64;
        }
    }
}

/// Draws an order of 0..`count`, each equally often.
pub fn permutation(rng: &mut impl Rng, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, below(rng, last as u64 + 1) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use waycairn_analysis_api::stream;

    use super::*;

    #[test]
    fn numbers_have_their_distribution() {
        let mut rng = stream(0, "test", None);
        let draws: Vec<f64> = (0..100_000).map(|_| standard_normal(&mut rng)).collect();
        let mean = draws.iter().sum::<f64>() / 1e5;
        let variance = draws.iter().map(|z| z * z).sum::<f64>() / 1e5;
        let fourth = draws.iter().map(|z| z.powi(4)).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.015 && (variance - 1.0).abs() < 0.02 && (fourth - 3.0).abs() < 0.15);
        let mut counts = [0; 3];
        for _ in 0..30_000 {
            counts[below(&mut rng, 3) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_permutation_holds_each_once() {
        let mut rng = stream(0, "test", None);
        let mut first_places = [0; 4];
        for _ in 0..4_000 {
            let mut order = permutation(&mut rng, 4);
            first_places[order[0]] += 1;
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2, 3]);
        }
        assert!(first_places.iter().all(|count| (870..1130).contains(count)), "{first_places:?}");
        assert!(permutation(&mut rng, 0).is_empty());
    }
}
