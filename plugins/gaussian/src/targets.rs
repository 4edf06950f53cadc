//! The scores of each target, from those of the ratio, the prior and the likelihood.

use waycairn_analysis_api::AnalysisError;
use waycairn_gaussian::settings::Target;
use waycairn_gaussian::{ExactScores, GaussianError, Prior, Problem};

use crate::scores::{Cases, Ratio};

/// What each target adds to the ratio, or has in its place.
#[derive(Debug)]
pub(crate) struct Targets<'a> {
    of: Cases<'a>,
    problem: &'a Problem,
    /// Log prior of the candidates, and of the truths.
    prior: Option<(Vec<f64>, Vec<f64>)>,
    exact: Option<ExactScores>,
}

impl<'a> Targets<'a> {
    /// Takes cases and candidates; `prior` where the posterior is asked for.
    pub(crate) fn new(
        problem: &'a Problem,
        prior: Option<&Prior>,
        exact: bool,
        of: Cases<'a>,
        theta: &[f32],
    ) -> Result<Self, AnalysisError> {
        let prior = match prior {
            Some(prior) => Some((prior.log_densities(theta)?, prior.log_densities(of.truth)?)),
            None => None,
        };
        let exact = exact.then(|| ExactScores::new(problem, theta)).transpose()?;
        Ok(Self { of, problem, prior, exact })
    }

    /// Writes the scores of one case and returns that of its truth; `case` counts in all of them, `here` in the block.
    pub(crate) fn fill(
        &self,
        target: Target,
        ratio: &Ratio<'_>,
        case: usize,
        here: usize,
        row: &mut [f64],
    ) -> Result<f64, GaussianError> {
        if let (Target::Exact, Some(exact)) = (target, &self.exact) {
            let (one, mut at_truth) = (case..case + 1, [0.0]);
            let observed = self.of.observed(&one);
            exact.of_case(observed, row)?;
            ExactScores::new(self.problem, self.of.truths(&one))?.of_case(observed, &mut at_truth)?;
            return Ok(at_truth[0]);
        }
        row.copy_from_slice(&ratio.scores[here * row.len()..(here + 1) * row.len()]);
        let mut at_truth = ratio.at_truth[here];
        if let (Target::Posterior, Some((prior, prior_at_truth))) = (target, &self.prior) {
            row.iter_mut().zip(prior).for_each(|(score, prior)| *score += prior);
            at_truth += prior_at_truth[case];
        }
        Ok(at_truth)
    }
}

/// What the arrays of a target begin with.
pub(crate) fn name(target: Target) -> &'static str {
    match target {
        Target::Ratio => "ratio",
        Target::Posterior => "posterior",
        Target::Exact => "exact",
    }
}
