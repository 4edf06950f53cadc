//! Highest-density summaries: of one case, and of all.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::GaussianError;

/// What candidates and their scores say of one case.
#[derive(Clone, Debug, PartialEq)]
pub struct Density {
    /// The candidate with the largest score, the first of equal ones.
    pub mode: usize,
    /// For each level, the smallest score of its set.
    pub threshold: Vec<f64>,
    /// For each level, the mass of its set: at least the level.
    pub enclosed_mass: Vec<f64>,
    /// For each level and coordinate, the least value in its set \[levels, p\].
    pub lower: Vec<f32>,
    /// The largest \[levels, p\].
    pub upper: Vec<f32>,
    /// One over the sum of squared masses.
    pub ess: f64,
    /// Log of the sum of scores times measures.
    pub log_normalizer: f64,
}

/// Candidates with what a summary needs of them beside scores.
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a> {
    theta: &'a [f32],
    log_measure: &'a [f64],
    levels: &'a [f64],
    parameters: usize,
}

impl<'a> Summary<'a> {
    /// Takes candidates \[candidates, p\], the logs of their measures, and levels.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] for shapes that do not fit, none at all, values that are not finite, and a level outside of (0, 1\].
    pub fn new(theta: &'a [f32], log_measure: &'a [f64], levels: &'a [f64]) -> Result<Self, GaussianError> {
        let count = log_measure.len();
        if count == 0 || theta.is_empty() {
            return Err(GaussianError::value("theta", "holds no candidate"));
        }
        let parameters = theta.len() / count;
        GaussianError::length("theta", theta.len(), parameters * count)?;
        if theta.iter().any(|value| !value.is_finite()) {
            return Err(GaussianError::value("theta", "holds a value that is not finite"));
        }
        if log_measure.iter().any(|value| !value.is_finite()) {
            return Err(GaussianError::value("log_measure", "holds a value that is not finite"));
        }
        if let Some(level) = levels.iter().find(|level| !(**level > 0.0 && **level <= 1.0)) {
            return Err(GaussianError::value(
                "levels",
                format!("hold {level}; a level is above 0 and at most 1"),
            ));
        }
        Ok(Self { theta, log_measure, levels, parameters })
    }

    /// Summarises one case.
    ///
    /// Candidates are ranked by density, not by mass: a set is all whose score is at least that of the one with which the
    /// mass of the best reaches the level, and so holds ties whole. The bounds are those of that joint set on each axis: gaps
    /// do not show, and points between them may lie outside of the set.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] for scores that are not numbers, +inf, or all -inf. Some may be -inf: they have no mass.
    pub fn of(&self, scores: &[f64]) -> Result<Density, GaussianError> {
        let mass = normalized_mass(scores, self.log_measure)?;
        let order = descending(scores);
        let mode = order[0];
        let (mut threshold, mut enclosed_mass) = (Vec::new(), Vec::new());
        let p = self.parameters;
        let mut lower = vec![f32::INFINITY; self.levels.len() * p];
        let mut upper = vec![f32::NEG_INFINITY; self.levels.len() * p];
        for (level, (lower, upper)) in
            self.levels.iter().zip(lower.chunks_exact_mut(p).zip(upper.chunks_exact_mut(p)))
        {
            let mut sum = 0.0;
            let last = order.iter().find(|index| {
                sum += mass.mass[**index];
                sum >= *level
            });
            let cut = scores[last.copied().unwrap_or(order[order.len() - 1])];
            let mut enclosed = 0.0;
            let finite = |index: &&usize| scores[**index] >= cut && scores[**index] > f64::NEG_INFINITY;
            for index in order.iter().take_while(finite) {
                enclosed += mass.mass[*index];
                let point = &self.theta[index * p..][..p];
                for ((low, high), value) in lower.iter_mut().zip(upper.iter_mut()).zip(point) {
                    *low = low.min(*value);
                    *high = high.max(*value);
                }
            }
            threshold.push(cut);
            enclosed_mass.push(enclosed);
        }
        let squares: f64 = mass.mass.iter().map(|mass| mass * mass).sum();
        Ok(Density {
            mode,
            threshold,
            enclosed_mass,
            lower,
            upper,
            ess: 1.0 / squares,
            log_normalizer: mass.log_normalizer,
        })
    }

    /// Summarises many cases over all cores. `scores` writes the scores of a case and returns that of its true point; where
    /// the truth is a candidate, `membership` has its index, and its own score is taken instead.
    ///
    /// # Errors
    ///
    /// What `scores` raises, and as [`of`](Self::of).
    pub fn cases<E: From<GaussianError> + Send>(
        &self,
        membership: &[Option<usize>],
        scores: impl Fn(usize, &mut [f64]) -> Result<f64, E> + Sync,
    ) -> Result<Summaries, E> {
        let count = self.log_measure.len();
        let each: Vec<(Density, Vec<f64>)> = membership
            .par_iter()
            .enumerate()
            .map_init(
                || vec![0.0; count],
                |row, (case, index)| {
                    let truth = scores(case, row)?;
                    let density = self.of(row)?;
                    let truth = match index {
                        Some(index) => *row.get(*index).ok_or_else(|| {
                            GaussianError::value("membership", format!("names candidate {index} of {count}"))
                        })?,
                        None => truth,
                    };
                    if truth.is_nan() {
                        return Err(GaussianError::value("scores", "at the truth are no number").into());
                    }
                    let inside = density.threshold.iter().map(|cut| f64::from(u8::from(truth >= *cut)));
                    let inside = inside.collect();
                    Ok((density, inside))
                },
            )
            .collect::<Result<_, E>>()?;
        let mut out = Summaries::default();
        for (density, inside) in each {
            let p = self.parameters;
            out.mode.extend(self.theta[density.mode * p..][..p].iter().map(|value| f64::from(*value)));
            out.lower.extend(density.lower.iter().map(|value| f64::from(*value)));
            out.upper.extend(density.upper.iter().map(|value| f64::from(*value)));
            out.threshold.extend(density.threshold);
            out.enclosed_mass.extend(density.enclosed_mass);
            out.ess.push(density.ess);
            out.log_normalizer.push(density.log_normalizer);
            out.joint_contains_truth.extend(inside);
        }
        Ok(out)
    }
}

/// The summaries of N cases, array by array, as a product holds them: L levels, p coordinates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summaries {
    /// \[N, p\].
    pub mode: Vec<f64>,
    /// \[N, L, p\].
    pub lower: Vec<f64>,
    /// \[N, L, p\].
    pub upper: Vec<f64>,
    /// \[N, L\].
    pub threshold: Vec<f64>,
    /// \[N, L\].
    pub enclosed_mass: Vec<f64>,
    /// \[N\].
    pub ess: Vec<f64>,
    /// \[N\].
    pub log_normalizer: Vec<f64>,
    /// \[N, L\]: 1 where the density at the truth is at least that of the set's edge, else 0.
    pub joint_contains_truth: Vec<f64>,
}

impl Summaries {
    /// Adds the summaries of further cases, for scores that come in parts.
    pub fn append(&mut self, more: Self) {
        self.mode.extend(more.mode);
        self.lower.extend(more.lower);
        self.upper.extend(more.upper);
        self.threshold.extend(more.threshold);
        self.enclosed_mass.extend(more.enclosed_mass);
        self.ess.extend(more.ess);
        self.log_normalizer.extend(more.log_normalizer);
        self.joint_contains_truth.extend(more.joint_contains_truth);
    }
}

/// Masses of candidates that sum to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Masses {
    /// One a candidate.
    pub mass: Vec<f64>,
    /// The log of what they were divided by.
    pub log_normalizer: f64,
}

/// The masses that scores and measures make: exp(score + log measure), normalised.
///
/// # Errors
///
/// [`GaussianError`] for lengths that differ, for scores that are not numbers, +inf, or all -inf.
pub fn normalized_mass(scores: &[f64], log_measure: &[f64]) -> Result<Masses, GaussianError> {
    GaussianError::length("scores", scores.len(), log_measure.len())?;
    if scores.iter().any(|score| score.is_nan() || *score == f64::INFINITY) {
        return Err(GaussianError::value("scores", "hold a value that is not a number, or +inf"));
    }
    let mut mass: Vec<f64> = scores.iter().zip(log_measure).map(|(score, measure)| score + measure).collect();
    let highest = mass.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !highest.is_finite() {
        return Err(GaussianError::value("scores", "are all -inf, or none: nothing has mass"));
    }
    let mut total = 0.0;
    for mass in &mut mass {
        *mass = libm::exp(*mass - highest);
        total += *mass;
    }
    // Divided, so that equal densities have equal shares to the last bit and all of a flat density is 1.
    mass.iter_mut().for_each(|mass| *mass /= total);
    Ok(Masses { mass, log_normalizer: highest + libm::log(total) })
}

/// Indices by falling score; of equal ones the first is first.
fn descending(scores: &[f64]) -> Vec<usize> {
    // Whole numbers in the order of the scores, so that a comparison is one instruction. Adding 0 makes -0 a 0.
    let mut keys: Vec<(u64, u32)> = scores
        .iter()
        .enumerate()
        .map(|(index, score)| {
            let bits = (score + 0.0).to_bits();
            let rising = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
            (!rising, index as u32)
        })
        .collect();
    keys.sort_unstable();
    keys.into_iter().map(|(_, index)| index as usize).collect()
}

/// The cases whose scores are kept: `count` of them (all where there are no more), spread evenly.
#[must_use]
pub fn retained_cases(cases: usize, count: usize) -> Vec<usize> {
    let count = count.min(cases);
    match count {
        0 => Vec::new(),
        // In the middle.
        1 => vec![(cases - 1) / 2],
        _ => (0..count)
            .map(|index| (index as u128 * (cases as u128 - 1) / (count as u128 - 1)) as usize)
            .collect(),
    }
}

#[cfg(test)]
mod tests;
