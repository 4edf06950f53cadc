//! Ratio scores of ensembles, whether they are kept or computed where they are needed.

use std::ops::Range;

use waycairn_analysis_api::AnalysisError;
use waycairn_gaussian::{Network, Points};

/// Bytes of the scores that are in memory at once, where they are not kept.
const MEMORY: usize = 64 << 20;

/// Ensembles with their truths, as a product has them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cases<'a> {
    /// \[cases, p\].
    pub(crate) truth: &'a [f32],
    /// \[cases, count, d\].
    pub(crate) observations: &'a [f32],
    pub(crate) count: usize,
    pub(crate) dimension: usize,
    pub(crate) parameters: usize,
}

impl<'a> Cases<'a> {
    pub(crate) fn truths(&self, cases: &Range<usize>) -> &'a [f32] {
        &self.truth[cases.start * self.parameters..cases.end * self.parameters]
    }

    pub(crate) fn observed(&self, cases: &Range<usize>) -> &'a [f32] {
        let one = self.count * self.dimension;
        &self.observations[cases.start * one..cases.end * one]
    }

    /// How many cases are looked at together: as many as are evaluated at once, more where cores would wait, and few enough
    /// for memory. No number depends on it.
    pub(crate) fn at_once(&self, evaluated: usize, candidates: usize) -> usize {
        let fitting = MEMORY / (8 * candidates.max(1));
        evaluated.max(rayon::current_num_threads()).min(fitting).max(1)
    }
}

/// A network over candidates.
#[derive(Debug)]
pub(crate) struct Scored {
    network: Network,
    points: Points,
}

impl Scored {
    pub(crate) fn new(network: Network, candidates: &[f32]) -> Result<Self, AnalysisError> {
        Ok(Self { points: network.points(candidates)?, network })
    }

    /// Writes the scores of some cases \[cases, candidates\], and of their truths \[cases\].
    pub(crate) fn write(
        &self,
        of: &Cases<'_>,
        cases: &Range<usize>,
        scores: &mut [f64],
        at_truth: &mut [f64],
    ) -> Result<(), AnalysisError> {
        let observed = of.observed(cases);
        self.network.ensemble_scores(observed, of.count, &self.points, scores)?;
        Ok(self.network.own_scores(observed, of.count, of.truths(cases), at_truth)?)
    }
}

/// Where ratio scores come from.
#[derive(Debug)]
pub(crate) enum Source<'a> {
    Kept { scores: &'a [f64], at_truth: &'a [f64] },
    Computed(&'a Scored),
}

/// Scores that were computed.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    scores: Vec<f64>,
    at_truth: Vec<f64>,
}

/// Ratio scores of one block of cases.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ratio<'a> {
    /// \[cases, candidates\].
    pub(crate) scores: &'a [f64],
    /// \[cases\].
    pub(crate) at_truth: &'a [f64],
}

impl<'a> Source<'a> {
    /// The scores of some cases.
    pub(crate) fn of<'b>(
        &self,
        of: &Cases<'_>,
        block: &Range<usize>,
        candidates: usize,
        buffer: &'b mut Buffer,
    ) -> Result<Ratio<'b>, AnalysisError>
    where
        'a: 'b,
    {
        match self {
            Self::Kept { scores, at_truth } => {
                let (Some(scores), Some(at_truth)) = (
                    scores.get(block.start * candidates..block.end * candidates),
                    at_truth.get(block.clone()),
                ) else {
                    let why = "the product `ensemble_scores` has fewer cases than `observations`; verify the cache \
                               (`waycairn verify`)";
                    return Err(AnalysisError::new(why));
                };
                Ok(Ratio { scores, at_truth })
            }
            Self::Computed(scored) => {
                buffer.scores.resize(block.len() * candidates, 0.0);
                buffer.at_truth.resize(block.len(), 0.0);
                scored.write(of, block, &mut buffer.scores, &mut buffer.at_truth)?;
                Ok(Ratio { scores: &buffer.scores, at_truth: &buffer.at_truth })
            }
        }
    }
}
