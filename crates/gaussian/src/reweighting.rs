//! Samples that are reweighted to another distribution, and how far from it they are.

use rayon::prelude::*;

use crate::error::GaussianError;
use crate::normal::log_sum_exp;

/// Weights that sum to 1, from log ratios.
///
/// # Errors
///
/// [`GaussianError`] for none, and for ratios that make no weight: NaN, +inf, all -inf.
pub fn weights(log_ratio: &[f64]) -> Result<Vec<f64>, GaussianError> {
    let norm = log_sum_exp(log_ratio.iter().copied());
    if !norm.is_finite() || log_ratio.iter().any(|ratio| ratio.is_nan()) {
        return Err(GaussianError::value(
            "log_ratio",
            "makes no weights: it is empty, infinite, or no number",
        ));
    }
    Ok(log_ratio.iter().map(|ratio| libm::exp(ratio - norm)).collect())
}

/// One over the sum of squared weights: how many equal ones would say as much.
#[must_use]
pub fn effective_samples(weights: &[f64]) -> f64 {
    1.0 / weights.iter().map(|weight| weight * weight).sum::<f64>()
}

/// The sliced distances of one pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distances<const N: usize> {
    /// The mean distance over the directions, for each set of weights.
    pub w1: [f64; N],
}

/// The sliced Wasserstein distance of order 1, for each of several sets of weights of one source: the mean over directions of
/// the area between the distribution functions of the projected samples, exact for weighted steps. The samples are sorted
/// once for all weights.
///
/// `source` \[s, d\] with weights \[s\] each, `target` \[t, d\] with equal ones, `directions` \[k, d\]. In one dimension all
/// directions are 1 or -1, which give the same distance: one of them is computed.
///
/// # Errors
///
/// [`GaussianError`] where lengths do not fit, for a negative weight and for weights without a sum.
pub fn sliced_w1<const N: usize>(
    source: &[f32],
    weights: [&[f64]; N],
    target: &[f32],
    directions: &[f64],
    dimension: usize,
) -> Result<Distances<N>, GaussianError> {
    let d = dimension.max(1);
    let (sources, targets, count) = (source.len() / d, target.len() / d, directions.len() / d);
    GaussianError::length("source", source.len(), sources * d)?;
    GaussianError::length("target", target.len(), targets * d)?;
    GaussianError::length("directions", directions.len(), count * d)?;
    if sources == 0 || targets == 0 || count == 0 {
        return Err(GaussianError::value("source", "or target or directions are none"));
    }
    let mut totals = [0.0; N];
    for (weights, total) in weights.iter().zip(&mut totals) {
        GaussianError::length("weights", weights.len(), sources)?;
        if weights.iter().any(|weight| weight.is_nan() || *weight < 0.0) {
            return Err(GaussianError::value("weights", "hold a negative one, or what is no number"));
        }
        *total = weights.iter().sum();
        if !(total.is_finite() && *total > 0.0) {
            return Err(GaussianError::value("weights", format!("sum to {total}")));
        }
    }
    let count = if d == 1 { 1 } else { count };
    let mut sums = [0.0; N];
    for direction in directions.chunks_exact(d).take(count) {
        let project = |samples: &[f32]| -> Vec<(f64, u32)> {
            let on = |x: &[f32]| x.iter().zip(direction).map(|(x, v)| f64::from(*x) * v).sum::<f64>();
            let mut values: Vec<(f64, u32)> =
                samples.chunks_exact(d).zip(0..).map(|(x, index)| (on(x), index)).collect();
            values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            values
        };
        let (source, target) = (project(source), project(target));
        for ((sum, weights), total) in sums.iter_mut().zip(weights).zip(totals) {
            *sum += area(&source, weights, total, &target);
        }
    }
    Ok(Distances { w1: sums.map(|sum| sum / count as f64) })
}

/// The area between two distribution functions, whose steps are sorted.
fn area(source: &[(f64, u32)], weights: &[f64], total: f64, target: &[(f64, u32)]) -> f64 {
    let (mut from, mut to, mut below, mut sum) = (0, 0, 0.0, 0.0);
    let mut last = source[0].0.min(target[0].0);
    while from < source.len() || to < target.len() {
        let next = match (source.get(from), target.get(to)) {
            (Some(a), Some(b)) => a.0.min(b.0),
            (Some(a), None) => a.0,
            (None, Some(b)) => b.0,
            (None, None) => break,
        };
        // A count of equal weights has no rounding to add up.
        sum += (below / total - to as f64 / target.len() as f64).abs() * (next - last);
        last = next;
        while source.get(from).is_some_and(|step| step.0 <= next) {
            below += weights[source[from].1 as usize];
            from += 1;
        }
        while target.get(to).is_some_and(|step| step.0 <= next) {
            to += 1;
        }
    }
    sum
}

/// Distances and effective samples of all pairs, as a product holds them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reweighted {
    /// With the learned ratios as weights.
    pub learned_w1: Vec<f64>,
    /// With the exact ones.
    pub exact_w1: Vec<f64>,
    /// With equal weights.
    pub unweighted_w1: Vec<f64>,
    /// Effective samples of the learned weights.
    pub ess: Vec<f64>,
    /// Of the exact ones.
    pub exact_ess: Vec<f64>,
}

/// What is reweighted: P pairs.
#[derive(Clone, Copy, Debug)]
pub struct Samples<'a> {
    /// \[P, S, d\].
    pub source: &'a [f32],
    /// \[P, T, d\].
    pub target: &'a [f32],
    /// \[P, S\].
    pub learned_log_ratio: &'a [f64],
    /// \[P, S\].
    pub exact_log_ratio: &'a [f64],
    /// \[k, d\].
    pub directions: &'a [f64],
    /// d.
    pub dimension: usize,
    /// P.
    pub pairs: usize,
}

impl Reweighted {
    /// Measures all pairs, over all cores.
    ///
    /// # Errors
    ///
    /// As [`weights`] and [`sliced_w1`].
    pub fn new(samples: &Samples<'_>) -> Result<Self, GaussianError> {
        let pairs = samples.pairs.max(1);
        let (source, target) = (samples.source.len() / pairs, samples.target.len() / pairs);
        let ratios = source / samples.dimension.max(1);
        GaussianError::length("source", samples.source.len(), source * pairs)?;
        GaussianError::length("target", samples.target.len(), target * pairs)?;
        GaussianError::length("learned_log_ratio", samples.learned_log_ratio.len(), ratios * pairs)?;
        GaussianError::length("exact_log_ratio", samples.exact_log_ratio.len(), ratios * pairs)?;
        let of = |pair: usize| {
            let at = pair * ratios..(pair + 1) * ratios;
            let learned = weights(&samples.learned_log_ratio[at.clone()])?;
            let exact = weights(&samples.exact_log_ratio[at])?;
            let equal = vec![1.0; ratios];
            let found = sliced_w1(
                &samples.source[pair * source..(pair + 1) * source],
                [&learned, &exact, &equal],
                &samples.target[pair * target..(pair + 1) * target],
                samples.directions,
                samples.dimension,
            )?;
            Ok((found.w1, effective_samples(&learned), effective_samples(&exact)))
        };
        let each: Vec<_> =
            (0..samples.pairs).into_par_iter().map(of).collect::<Result<_, GaussianError>>()?;
        let mut out = Self::default();
        for ([learned, exact, equal], ess, exact_ess) in each {
            out.learned_w1.push(learned);
            out.exact_w1.push(exact);
            out.unweighted_w1.push(equal);
            out.ess.push(ess);
            out.exact_ess.push(exact_ess);
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use waycairn_analysis_api::stream;

    use super::*;
    use crate::problem::Problem;
    use crate::settings::{ParametersSettings, ProblemSettings};
    use crate::verification::{Endpoint, ThetaPairs, directions};

    fn one(source: &[f32], weights: &[f64], target: &[f32]) -> Result<f64, GaussianError> {
        Ok(sliced_w1(source, [weights], target, &[1.0], 1)?.w1[0])
    }

    #[test]
    fn distances_that_can_be_computed_by_hand() {
        assert_eq!(one(&[0.0], &[1.0], &[3.0]).unwrap(), 3.0);
        assert_eq!(one(&[0.0, 4.0], &[0.5, 0.5], &[4.0, 0.0]).unwrap(), 0.0);
        // A quarter of the mass goes from 4 to 0.
        assert!((one(&[0.0, 4.0], &[1.0, 3.0], &[4.0, 0.0]).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(one(&[1.0, 1.0, 2.0], &[0.2, 0.3, 0.5], &[1.0, 2.0]).unwrap(), 0.0);
        // Shifting by (1, 2) moves a projection on v by v . (1, 2).
        let (source, target) = ([0.0, 0.0, 3.0, 1.0], [1.0, 2.0, 4.0, 3.0]);
        let axes = [1.0, 0.0, 0.0, 1.0];
        let found = sliced_w1(&source, [&[1.0, 1.0], &[2.0, 2.0]], &target, &axes, 2).unwrap();
        assert_eq!(found.w1, [1.5, 1.5]);
        // In one dimension both directions agree.
        let (a, b) = ([0.3, 1.0, 7.0], [0.1, 2.0]);
        let there = sliced_w1(&a, [&[1.0, 2.0, 1.0]], &b, &[1.0], 1).unwrap().w1[0];
        let back = sliced_w1(&a, [&[1.0, 2.0, 1.0]], &b, &[-1.0], 1).unwrap().w1[0];
        assert!((there - back).abs() < 1e-12);
    }

    #[test]
    fn weights_that_are_none_are_refused() {
        assert!(one(&[0.0, 1.0], &[1.0, -1.0], &[0.0]).is_err());
        assert!(one(&[0.0, 1.0], &[0.0, 0.0], &[0.0]).is_err());
        assert!(one(&[0.0, 1.0], &[1.0], &[0.0]).is_err());
        assert!(one(&[0.0], &[f64::NAN], &[0.0]).is_err());
        assert!(one(&[], &[], &[0.0]).is_err());
        assert!(
            weights(&[]).is_err() && weights(&[f64::NAN, 0.0]).is_err() && weights(&[f64::INFINITY]).is_err()
        );
        let large = weights(&[1e4, 1e4 + 1.0]).unwrap();
        assert!((large.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!((effective_samples(&[0.25; 4]) - 4.0).abs() < 1e-12);
    }

    #[test]
    fn gaussian_4_exact_weights_bring_source_to_target_on_any_number_of_threads() {
        let settings = ProblemSettings { dimension: 2, ..ProblemSettings::default() };
        let problem = Problem::resolve(&settings, &ParametersSettings::default()).unwrap();
        let pairs = ThetaPairs::from_values(vec![4.0, 5.0, 6.0, 5.0, 5.0, 5.0, 5.0, 5.0], 2).unwrap();
        let mut rng = stream(2027, "verification-source", None);
        let source = pairs.observe(&problem, Endpoint::Source, 2_048, &mut rng).unwrap();
        let target = pairs.observe(&problem, Endpoint::Target, 2_048, &mut rng).unwrap();
        let exact = pairs.exact_log_ratio(&problem, &source).unwrap();
        let samples = Samples {
            source: &source,
            target: &target,
            learned_log_ratio: &vec![0.0; exact.len()],
            exact_log_ratio: &exact,
            directions: &directions(2, 32, &mut rng),
            dimension: 2,
            pairs: 2,
        };
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| Reweighted::new(&samples)).unwrap()
        };
        let found = run(1);
        assert_eq!(found, run(2));
        assert!(found.exact_w1[0] < 0.35 && found.unweighted_w1[0] > 0.8, "{found:?}");
        assert!((found.learned_w1[0] - found.unweighted_w1[0]).abs() < 1e-9);
        assert!((found.ess[0] - 2_048.0).abs() < 1e-6 && found.exact_ess[0] < 1_500.0);
        assert!(found.exact_w1[1] < 0.2 && (found.exact_ess[1] - 2_048.0).abs() < 1e-6);
    }
}
