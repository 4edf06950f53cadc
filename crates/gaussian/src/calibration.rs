//! Simulation-based calibration: whether posteriors are as wide as they say.
//!
//! Where true parameters are drawn from the prior, the share of a posterior's mass below the truth is uniform (Talts,
//! Betancourt, Simpson, Vehtari and Gelman, *Validating Bayesian Inference Algorithms with Simulation-Based Calibration*,
//! 2018). Truths of a design are no such draws: a check of these says whether sets of the design cover, and not whether the
//! posterior is calibrated.
//!
//! The empirical distribution of N such shares is shown as its difference from the diagonal, with a band that a uniform
//! sample stays inside of as a whole with a given probability (Saeilynoja, Buerkner and Vehtari, *Graphical test for discrete
//! uniformity and its applications in goodness-of-fit evaluation and multiple sample comparison*, 2022). The band at a point z
//! is the central interval of Binomial(N, z) at one pointwise level for all points; the level is the largest with which
//! the path stays inside at all points with the probability that was asked for. That probability is computed, not simulated:
//! the counts of a uniform sample at rising points are a Markov chain, whose step from z to z' adds
//! Binomial(N - count, (z' - z) / (1 - z)) (their section 2.2).

use serde::Serialize;

use crate::error::GaussianError;

/// The most evaluation points of a curve: finer steps than this are not seen, and cost time.
const MAX_POINTS: usize = 100;

/// The mass below a truth, with the mass at it split by a uniform number: exactly uniform under a calibrated discrete
/// posterior too.
///
/// `values` are the candidates' values on one axis, with their masses.
#[must_use]
pub fn rank_share(values: impl Iterator<Item = f32>, mass: &[f64], truth: f32, split: f64) -> f64 {
    let (mut below, mut at) = (0.0, 0.0);
    for (value, mass) in values.zip(mass) {
        if value < truth {
            below += mass;
        } else if value == truth {
            at += mass;
        }
    }
    (below + split * at).clamp(0.0, 1.0)
}

/// A curve of the difference between an empirical distribution and the uniform one, with its band.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EcdfDifference {
    /// Where it is evaluated, rising, within (0, 1).
    pub at: Vec<f64>,
    /// The share of values up to there, less the point itself.
    pub difference: Vec<f64>,
    /// The least value inside of the band.
    pub lower: Vec<f64>,
    /// The largest value inside of the band.
    pub upper: Vec<f64>,
    /// The difference of the largest size over all of \[0, 1\], with its sign: Kolmogorov's. The curve jumps at each share, and
    /// is furthest from 0 at a jump or just before one, between the points of `at`; the band and `inside` are of these alone.
    pub largest: f64,
    /// The probability with which a uniform sample stays inside at all points.
    pub probability: f64,
    /// Whether the curve does.
    pub inside: bool,
}

impl EcdfDifference {
    /// The curve of shares of \[0, 1\], with a band of that probability, at evenly spaced points.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] for no shares, one outside of \[0, 1\], or a probability outside of (0, 1).
    pub fn new(shares: &[f64], probability: f64) -> Result<Self, GaussianError> {
        if shares.is_empty() || !shares.iter().all(|share| (0.0..=1.0).contains(share)) {
            return Err(GaussianError::value("shares", "are none, or one lies outside of 0 to 1"));
        }
        let count = shares.len();
        let points = count.clamp(2, MAX_POINTS);
        let at: Vec<f64> = (1..points).map(|index| index as f64 / points as f64).collect();
        let band = Band::new(count, &at, probability)?;
        let mut sorted = shares.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let counts = band_counts(&sorted, &at);
        let inside = band.holds(&counts);
        let relative = |value: usize, z: &f64| value as f64 / count as f64 - z;
        Ok(Self {
            difference: counts.iter().zip(&at).map(|(count, z)| relative(*count, z)).collect(),
            lower: band.limits.iter().zip(&at).map(|((low, _), z)| relative(*low, z)).collect(),
            upper: band.limits.iter().zip(&at).map(|((_, high), z)| relative(*high, z)).collect(),
            largest: largest(&sorted),
            probability: band.probability,
            at,
            inside,
        })
    }
}

/// The largest difference of sorted shares: above 0 at one of them, below 0 where all before it are counted. Of two of one
/// size the one above 0.
fn largest(sorted: &[f64]) -> f64 {
    let count = sorted.len() as f64;
    let jumps = sorted.iter().enumerate().map(|(before, share)| {
        let (at, just_before) = ((before + 1) as f64 / count - share, before as f64 / count - share);
        (at, just_before)
    });
    let (above, below) =
        jumps.fold((0.0_f64, 0.0_f64), |(above, below), (at, before)| (above.max(at), below.min(before)));
    if above >= -below { above } else { below }
}

/// Limits of the counts of a uniform sample at rising points.
#[derive(Debug)]
struct Band {
    /// The least and the largest count at each point.
    limits: Vec<(usize, usize)>,
    /// How probable it is that all counts are within.
    probability: f64,
}

impl Band {
    /// The narrowest band of one pointwise level with at least that probability.
    fn new(count: usize, at: &[f64], probability: f64) -> Result<Self, GaussianError> {
        if !(probability > 0.0 && probability < 1.0) {
            return Err(GaussianError::value(
                "probability",
                format!("is {probability}; it lies between 0 and 1"),
            ));
        }
        let logs = LogFactorials::new(count);
        let distributions: Vec<Vec<f64>> = at.iter().map(|z| logs.cumulative(count, *z)).collect();
        let band = |tail: f64| {
            let limits = distributions.iter().map(|cumulative| {
                // The central interval: less than `tail` below it, and above it.
                let low = cumulative.partition_point(|below| *below < tail);
                let high = cumulative.partition_point(|below| *below < 1.0 - tail);
                (low.min(count), high.clamp(low, count))
            });
            let limits: Vec<(usize, usize)> = limits.collect();
            let probability = logs.stays(count, at, &limits);
            Self { limits, probability }
        };
        // Tails between that of one point alone and that by which all points together cannot leave.
        let outside = 1.0 - probability;
        let (mut wide, mut narrow) = (outside / (2 * at.len()) as f64, outside / 2.0);
        let mut best = band(wide);
        for _ in 0..20 {
            let middle = libm::sqrt(wide * narrow);
            let tried = band(middle);
            if tried.probability >= probability {
                best = tried;
                wide = middle;
            } else {
                narrow = middle;
            }
        }
        Ok(best)
    }

    fn holds(&self, counts: &[usize]) -> bool {
        counts.iter().zip(&self.limits).all(|(count, (low, high))| (low..=high).contains(&count))
    }
}

/// How many of sorted shares lie up to each point.
fn band_counts(sorted: &[f64], at: &[f64]) -> Vec<usize> {
    at.iter().map(|z| sorted.partition_point(|share| share <= z)).collect()
}

/// ln n! for all n up to a count.
struct LogFactorials(Vec<f64>);

impl LogFactorials {
    fn new(count: usize) -> Self {
        let mut sum = 0.0;
        Self(
            (0..=count)
                .map(|n| {
                    if n == 0 {
                        0.0
                    } else {
                        sum += libm::log(n as f64);
                        sum
                    }
                })
                .collect(),
        )
    }

    /// The probability of k of n at p.
    fn binomial(&self, n: usize, k: usize, (log_p, log_q): (f64, f64)) -> f64 {
        let ways = self.0[n] - self.0[k] - self.0[n - k];
        let failures = if n == k { 0.0 } else { (n - k) as f64 * log_q };
        libm::exp(ways + k as f64 * log_p + failures)
    }

    /// The probability of at most k of n at p, for each k.
    fn cumulative(&self, n: usize, p: f64) -> Vec<f64> {
        let logs = (libm::log(p), libm::log1p(-p));
        let mut sum = 0.0;
        (0..=n)
            .map(|k| {
                sum += self.binomial(n, k, logs);
                sum
            })
            .collect()
    }

    /// The probability that the counts of a uniform sample stay within limits at all points.
    fn stays(&self, count: usize, at: &[f64], limits: &[(usize, usize)]) -> f64 {
        // The probability of each count at the point before, from `first` on, with all before within.
        let (mut first, mut each) = (0, vec![1.0]);
        let mut before = 0.0;
        for (z, (low, high)) in at.iter().zip(limits) {
            let share = (z - before) / (1.0 - before);
            let logs = (libm::log(share), libm::log1p(-share));
            let mut next = vec![0.0; high - low + 1];
            for (from, probability) in (first..).zip(&each).filter(|(_, probability)| **probability > 1e-18) {
                let (least, most, odds) = (from.max(*low), *high, share / (1.0 - share));
                if least > most {
                    continue;
                }
                // From the likeliest count within outwards, by the ratio of neighbours: one exponential, and no underflow
                // of what matters.
                let left = count - from;
                let top = (from + (share * left as f64) as usize).clamp(least, most);
                let peak = probability * self.binomial(left, top - from, logs);
                next[top - low] += peak;
                let mut value = peak;
                for to in top + 1..=most {
                    value *= odds * (left + 1 - (to - from)) as f64 / (to - from) as f64;
                    next[to - low] += value;
                }
                value = peak;
                for to in (least..top).rev() {
                    value *= (to + 1 - from) as f64 / ((left - (to - from)) as f64 * odds);
                    next[to - low] += value;
                }
            }
            (first, each, before) = (*low, next, *z);
        }
        each.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use waycairn_analysis_api::stream;

    use super::*;
    use crate::random::uniform;

    #[test]
    fn the_mass_below_a_truth_counts_and_the_mass_at_it_is_split() {
        let values = [0.0_f32, 1.0, 2.0, 3.0];
        let mass = [0.1, 0.4, 0.3, 0.2];
        let share = |truth, split| rank_share(values.into_iter(), &mass, truth, split);
        assert!((share(2.0, 0.0) - 0.5).abs() < 1e-12);
        assert!((share(2.0, 0.5) - 0.65).abs() < 1e-12);
        assert!((share(2.5, 0.5) - 0.8).abs() < 1e-12);
        assert_eq!((share(-1.0, 0.5), share(9.0, 0.5)), (0.0, 1.0));
    }

    #[test]
    fn a_uniform_sample_stays_inside_as_often_as_the_band_says() {
        let mut rng = stream(0, "test", None);
        let at: Vec<f64> = (1..50).map(|index| f64::from(index) / 50.0).collect();
        let band = Band::new(50, &at, 0.9).unwrap();
        assert!(band.probability >= 0.9 && band.probability < 0.93, "{}", band.probability);
        let inside = (0..20_000)
            .filter(|_| {
                let mut shares: Vec<f64> = (0..50).map(|_| uniform(&mut rng)).collect();
                shares.sort_unstable_by(f64::total_cmp);
                band.holds(&band_counts(&shares, &at))
            })
            .count();
        let share = inside as f64 / 2e4;
        assert!((share - band.probability).abs() < 4.0 * (0.09_f64 / 2e4).sqrt(), "{share}");
        let curve = EcdfDifference::new(&[0.5; 50], 0.9).unwrap();
        assert_eq!((curve.probability, curve.inside), (band.probability, false));
    }

    #[test]
    fn what_is_not_uniform_leaves_the_band() {
        let evenly = |of: &dyn Fn(f64) -> f64| {
            let shares: Vec<f64> = (0..1_024).map(|i| of((f64::from(i) + 0.5) / 1_024.0)).collect();
            EcdfDifference::new(&shares, 0.95).unwrap()
        };
        let uniform = evenly(&|u| u);
        assert!(uniform.inside && uniform.difference.iter().all(|difference| difference.abs() < 1e-3));
        assert_eq!(uniform.at.len(), MAX_POINTS - 1);
        // The widest part of the band of 1,024: near 1.36 / sqrt(1,024), the limit of Kolmogorov, at both sides.
        let widest = uniform.upper.iter().copied().fold(0.0, f64::max);
        assert!((0.035..0.055).contains(&widest), "{widest}");
        assert!(uniform.lower.iter().zip(&uniform.upper).all(|(low, high)| *low < 0.0 && *high > 0.0));
        assert!(!evenly(&|u| u * u).inside, "biased");
        assert!(!evenly(&|u| 0.5 + 0.4 * (u - 0.5)).inside, "too wide");
    }

    #[test]
    fn the_largest_difference_is_at_a_jump_or_just_before_one() {
        // At 1/4, 1/2 and 3/4 these are 1/2 at most: what the points see of a jump that lies between them.
        let high = EcdfDifference::new(&[0.3; 4], 0.9).unwrap();
        assert!(high.difference.iter().all(|difference| difference.abs() <= 0.5));
        assert!((high.largest - 0.7).abs() < 1e-12, "{}", high.largest);
        let low = EcdfDifference::new(&[0.6, 0.6, 0.6, 0.9], 0.9).unwrap();
        assert!((low.largest + 0.6).abs() < 1e-12, "{}", low.largest);
        assert_eq!(EcdfDifference::new(&[0.5], 0.9).unwrap().largest, 0.5);
        assert_eq!(EcdfDifference::new(&[1.0; 3], 0.9).unwrap().largest, -1.0);
        // Never less than at any point, and more than that by one jump of many at most.
        let mut rng = stream(0, "largest", None);
        let shares: Vec<f64> = (0..300).map(|_| uniform(&mut rng).powi(2)).collect();
        let curve = EcdfDifference::new(&shares, 0.9).unwrap();
        let seen = curve.difference.iter().copied().fold(0.0, |most: f64, found| most.max(found.abs()));
        assert!(curve.largest.abs() >= seen && curve.largest.abs() < seen + 0.02, "{seen} {}", curve.largest);
    }

    #[test]
    fn the_probability_of_one_point_is_that_of_the_binomial() {
        let logs = LogFactorials::new(10);
        let inside = logs.stays(10, &[0.5], &[(3, 7)]);
        assert!((inside - (1_024.0 - 2.0 * (1.0 + 10.0 + 45.0)) / 1_024.0).abs() < 1e-12);
        // Two points: of 2 values, at most one up to 0.3 and at least one up to 0.6.
        let two = LogFactorials::new(2).stays(2, &[0.3, 0.6], &[(0, 1), (1, 2)]);
        // Not both above 0.6, and not both up to 0.3: 1 - 0.16 - 0.09.
        assert!((two - 0.75).abs() < 1e-12, "{two}");
        assert!(EcdfDifference::new(&[], 0.9).is_err() && EcdfDifference::new(&[1.5], 0.9).is_err());
        assert!(EcdfDifference::new(&[0.5], 1.0).is_err());
    }
}
