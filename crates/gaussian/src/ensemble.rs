//! Scores of ensembles: of any logit, and of the likelihood itself.

use rayon::prelude::*;

use crate::error::GaussianError;
use crate::problem::{Likelihood, Moments, Problem};

/// Observations and candidates whose pairs are scored.
#[derive(Clone, Copy, Debug)]
pub struct Ensembles<'a> {
    /// \[cases, count, dimension\].
    pub observations: &'a [f32],
    /// Observations of a case.
    pub count: usize,
    /// Values of an observation.
    pub dimension: usize,
    /// \[candidates, parameters\].
    pub theta: &'a [f32],
    /// Values of a candidate.
    pub parameters: usize,
}

impl Ensembles<'_> {
    /// How many cases and candidates there are.
    fn sizes(&self) -> Result<(usize, usize), GaussianError> {
        let one = self.count * self.dimension;
        if one == 0 || self.parameters == 0 || self.theta.is_empty() {
            return Err(GaussianError::value("observations", "or candidates are none"));
        }
        let (cases, candidates) = (self.observations.len() / one, self.theta.len() / self.parameters);
        GaussianError::length("observations", self.observations.len(), cases * one)?;
        GaussianError::length("theta", self.theta.len(), candidates * self.parameters)?;
        Ok((cases, candidates))
    }

    /// The scores \[cases, candidates\] of any logit function: it gets rows x \[n, dimension\] and theta \[n, parameters\] and
    /// gives n logits. `rows` is the most rows of a call, but for an ensemble that is larger.
    ///
    /// This is the plain route, for models that only run in batches. A [`Network`](crate::Network) is faster by itself.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] where lengths do not fit, a logit is not finite, and what the function raises.
    pub fn scores<E: From<GaussianError>>(
        &self,
        rows: usize,
        mut logits: impl FnMut(&[f32], &[f32]) -> Result<Vec<f64>, E>,
    ) -> Result<Vec<f64>, E> {
        let (cases, candidates) = self.sizes()?;
        let mut out = Vec::with_capacity(cases * candidates);
        let block = (rows / self.count).max(1);
        let (mut x, mut theta) = (Vec::new(), Vec::new());
        for observations in self.observations.chunks_exact(self.count * self.dimension) {
            for points in self.theta.chunks(block * self.parameters) {
                x.clear();
                theta.clear();
                for point in points.chunks_exact(self.parameters) {
                    x.extend_from_slice(observations);
                    (0..self.count).for_each(|_| theta.extend_from_slice(point));
                }
                let found = logits(&x, &theta)?;
                GaussianError::length("logits", found.len(), theta.len() / self.parameters)?;
                if let Some(logit) = found.iter().find(|logit| !logit.is_finite()) {
                    return Err(GaussianError::value("logits", format!("hold {logit}")).into());
                }
                out.extend(found.chunks_exact(self.count).map(|of_one| of_one.iter().sum::<f64>()));
            }
        }
        Ok(out)
    }
}

/// The exact scores of candidates: their log likelihoods, summed over an ensemble.
#[derive(Debug)]
pub struct ExactScores {
    likelihoods: Vec<Likelihood>,
    dimension: usize,
}

impl ExactScores {
    /// Takes the candidates \[candidates, p\] of a problem.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] for points that are none of the problem.
    pub fn new(problem: &Problem, theta: &[f32]) -> Result<Self, GaussianError> {
        let points = theta.chunks(problem.parameters().len());
        let likelihoods = points.map(|point| problem.likelihood(point)).collect::<Result<_, _>>()?;
        Ok(Self { likelihoods, dimension: problem.dimension() })
    }

    /// Writes the scores of one ensemble \[observations, d\].
    ///
    /// # Errors
    ///
    /// [`GaussianError::Shape`] where lengths do not fit.
    pub fn of_case(&self, observations: &[f32], scores: &mut [f64]) -> Result<(), GaussianError> {
        GaussianError::length("scores", scores.len(), self.likelihoods.len())?;
        GaussianError::length("observations", observations.len() % self.dimension, 0)?;
        let moments = Moments::new(observations, self.dimension);
        for (score, likelihood) in scores.iter_mut().zip(&self.likelihoods) {
            *score = likelihood.of_all(&moments);
        }
        Ok(())
    }

    /// Writes the scores \[cases, candidates\] of many ensembles of `count` observations, over all cores.
    ///
    /// # Errors
    ///
    /// [`GaussianError::Shape`] where lengths do not fit.
    pub fn of_cases(
        &self,
        observations: &[f32],
        count: usize,
        scores: &mut [f64],
    ) -> Result<(), GaussianError> {
        let one = (count * self.dimension).max(1);
        GaussianError::length("scores", scores.len(), observations.len() / one * self.likelihoods.len())?;
        let cases = scores.par_chunks_mut(self.likelihoods.len().max(1));
        cases.zip(observations.par_chunks(one)).try_for_each(|(scores, x)| self.of_case(x, scores))
    }
}

#[cfg(test)]
mod tests {
    use waycairn_analysis_api::stream;

    use super::*;
    use crate::settings::{ParametersSettings, ProblemSettings};

    #[test]
    fn gaussian_case_12_a_known_logit_is_summed_over_the_ensemble() {
        let logit = |x: &[f32], theta: &[f32]| -> Result<Vec<f64>, GaussianError> {
            Ok(x.iter().zip(theta).map(|(x, theta)| f64::from(*x) + 2.0 * f64::from(*theta)).collect())
        };
        let theta: Vec<f32> = (0..40).map(|k| k as f32 * 0.25).collect();
        let ensembles = Ensembles {
            observations: &[1.0, 2.0, 3.0],
            count: 3,
            dimension: 1,
            theta: &theta,
            parameters: 1,
        };
        for rows in [1, 4, 128] {
            let scores = ensembles.scores(rows, logit).unwrap();
            let expected: Vec<f64> = theta.iter().map(|theta| 6.0 + 6.0 * f64::from(*theta)).collect();
            assert_eq!(scores, expected, "{rows}");
        }
        // Predictions at theta = 2.
        assert_eq!(logit(&[1.0, 2.0, 3.0], &[2.0; 3]).unwrap(), [5.0, 6.0, 7.0]);
    }

    #[test]
    fn what_does_not_fit_or_is_not_finite_is_refused() {
        let one =
            |observations, theta| Ensembles { observations, count: 2, dimension: 1, theta, parameters: 1 };
        let zero = |x: &[f32], _: &[f32]| -> Result<Vec<f64>, GaussianError> { Ok(vec![0.0; x.len()]) };
        assert!(one(&[1.0; 3], &[1.0]).scores(8, zero).is_err());
        assert!(one(&[1.0; 2], &[]).scores(8, zero).is_err());
        let nan = one(&[1.0; 2], &[1.0]).scores(8, |x, _| Ok::<_, GaussianError>(vec![f64::NAN; x.len()]));
        assert!(nan.is_err());
        let short = one(&[1.0; 2], &[1.0]).scores(8, |_, _| Ok::<_, GaussianError>(vec![0.0]));
        assert!(short.is_err());
    }

    #[test]
    fn gaussian_4_exact_scores_are_sums_of_log_likelihoods_on_any_number_of_threads() {
        let problem = ProblemSettings {
            dimension: 2,
            infer: vec!["mean:*".to_owned(), "std:1".to_owned()],
            ..ProblemSettings::default()
        };
        let problem = Problem::resolve(&problem, &ParametersSettings::default()).unwrap();
        let theta: Vec<f32> = (0..300).map(|i| 0.5 + (i * 7 % 31) as f32 * 0.1).collect();
        let mut x = Vec::new();
        problem.simulate(&[3.0, 6.0, 1.5], 5 * 15, &mut stream(0, "test", None), &mut x).unwrap();
        let exact = ExactScores::new(&problem, &theta).unwrap();
        let run = |threads| {
            let mut scores = vec![0.0; 5 * 100];
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| exact.of_cases(&x, 15, &mut scores)).unwrap();
            scores
        };
        let scores = run(1);
        assert_eq!(scores, run(2));
        for (case, x) in x.chunks_exact(30).enumerate() {
            for (k, theta) in theta.chunks_exact(3).enumerate() {
                let sum: f64 = x.chunks_exact(2).map(|x| problem.log_likelihood(x, theta).unwrap()).sum();
                assert!((scores[case * 100 + k] / sum - 1.0).abs() < 1e-12);
            }
        }
        assert!(exact.of_cases(&x, 15, &mut [0.0; 3]).is_err());
        assert!(ExactScores::new(&problem, &theta[..4]).is_err());
    }
}
