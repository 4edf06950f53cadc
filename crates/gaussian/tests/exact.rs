//! The exact target over the default design: what inference gives when the network is no part of it.

#![allow(clippy::unwrap_used, reason = "tests")]

use waycairn_analysis_api::stream;
use waycairn_gaussian::metrics::{Bias, Coverage, Estimates, Resolution, Width};
use waycairn_gaussian::settings::{
    CalibrationSettings, InferenceSettings, ParametersSettings, PriorDefinitions, ProblemSettings,
};
use waycairn_gaussian::{
    Candidates, EcdfDifference, ExactScores, GaussianError, Prior, Problem, Summaries, Summary, Truths,
    nearer_mass, normalized_mass, rank_share, uniform,
};

struct Study {
    problem: Problem,
    prior: Prior,
    settings: InferenceSettings,
    candidates: Candidates,
}

impl Study {
    fn new(prior: &str) -> Self {
        Self::of(prior, 1, InferenceSettings::default())
    }

    fn of(prior: &str, dimension: u64, settings: InferenceSettings) -> Self {
        let problem = ProblemSettings { dimension, ..ProblemSettings::default() };
        let parameters = ParametersSettings::default();
        let resolved = Problem::resolve(&problem, &parameters).unwrap();
        let definitions = PriorDefinitions::default();
        let prior =
            Prior::resolve(prior, definitions.get(prior).unwrap(), &problem, &parameters, &resolved).unwrap();
        let support = Candidates::support(&prior, &settings);
        let mut rng = stream(settings.seed, "candidate-design", None);
        let candidates = Candidates::new(&resolved, &support, &settings, &mut rng).unwrap();
        Self { problem: resolved, prior, settings, candidates }
    }

    /// Summaries of the exact target at truths with 15 observations each.
    fn exact(&self, truths: &[f32], x: &[f32]) -> Summaries {
        let scores = ExactScores::new(&self.problem, &self.candidates.theta).unwrap();
        let (theta, measure) = (&self.candidates.theta, &self.candidates.log_measure);
        let summary = Summary::new(theta, measure, &self.settings.levels).unwrap();
        summary
            .cases(&self.candidates.indices(truths), |case, row| {
                let x = &x[15 * case..15 * case + 15];
                scores.of_case(x, row)?;
                let mut at_truth = [0.0];
                ExactScores::new(&self.problem, &truths[case..=case])?.of_case(x, &mut at_truth)?;
                Ok::<_, GaussianError>(at_truth[0])
            })
            .unwrap()
    }
}

#[test]
fn the_exact_target_of_the_default_design_is_what_theory_says() {
    let study = Study::new("uniform");
    let seed = study.settings.seed;
    let truths =
        Truths::new(&study.problem, &study.settings, &mut stream(seed, "truth-design", None)).unwrap();
    let x = truths.observe(&study.problem, 15, &mut stream(seed, "inference-observations", None)).unwrap();
    let summaries = study.exact(&truths.theta, &x);
    let estimates = Estimates {
        summaries: &summaries,
        truth: &truths.theta,
        levels: &study.settings.levels,
        parameters: 1,
    };
    let near = |found: f64, expected: f64, slack: f64| {
        assert!((found - expected).abs() < slack, "{found}, not {expected} to {slack}");
    };
    let coverage = Coverage::new(&estimates).unwrap();
    assert_eq!((coverage.cases, coverage.unique_truths), (1_024, 41));
    for (level, error) in [0.015, 0.007].into_iter().enumerate() {
        // Three standard errors, beside the deviation that truths near the box's ends make.
        near(coverage.joint_density[level], study.settings.levels[level], 3.0 * error);
        near(coverage.joint_density_standard_error[level], error, 1e-3);
    }
    let width = Width::new(&estimates).unwrap();
    near(width.mean[0], 1.016, 0.01);
    near(width.mean[1], 1.990, 0.02);
    let bias = Bias::new(&estimates).unwrap();
    // Of 1,024 errors with deviation 0.516: three standard errors of mean size and of root mean square.
    near(bias.mean_absolute, 0.412, 0.030);
    near(bias.rmse, 0.515, 0.035);
    near(bias.mean_signed, 0.0, 0.049);
    let resolution = Resolution::new(&estimates, study.candidates.actual_count, "Lebesgue").unwrap();
    near(resolution.candidate_ess_fraction_median, 0.183, 0.002);
    assert_eq!(resolution.warning, None);
}

#[test]
fn the_exact_target_on_the_native_lattice_rests_on_nine_points() {
    let study = Study::new("grid");
    let truths = [5.0_f32];
    let mut x = Vec::new();
    study.problem.simulate(&truths, 15, &mut stream(0, "inference-observations", None), &mut x).unwrap();
    let summaries = study.exact(&truths, &x);
    assert!((summaries.ess[0] - 9.15).abs() < 0.02, "{}", summaries.ess[0]);
}

#[test]
fn the_exact_posterior_is_calibrated_for_draws_of_its_prior_and_another_is_not() {
    let shares = |drawn: &str, assumed: &str| {
        let (study, assumed) = (Study::new(drawn), Study::new(assumed));
        let mut rng = stream(0, "calibration", None);
        let truths = study.prior.sample(600, &mut rng).unwrap();
        let scores = ExactScores::new(&study.problem, &study.candidates.theta).unwrap();
        let prior = assumed.prior.log_densities(&study.candidates.theta).unwrap();
        let mut row = vec![0.0; study.candidates.actual_count];
        let (mut ranks, mut nearer, mut x) = (Vec::new(), Vec::new(), Vec::new());
        for truth in truths {
            x.clear();
            // One observation, so that the prior counts.
            study.problem.simulate(&[truth], 1, &mut rng, &mut x).unwrap();
            scores.of_case(&x, &mut row).unwrap();
            row.iter_mut().zip(&prior).for_each(|(score, prior)| *score += prior);
            let mass = normalized_mass(&row, &study.candidates.log_measure).unwrap().mass;
            let theta = &study.candidates.theta;
            ranks.push(rank_share(theta.iter().copied(), &mass, truth, uniform(&mut rng)));
            let reference = [10.0 * uniform(&mut rng)];
            let split = uniform(&mut rng);
            nearer.push(nearer_mass(theta, &mass, &[truth], &reference, &[10.0], split).unwrap());
        }
        let of = |shares: &[f64]| EcdfDifference::new(shares, 0.999).unwrap().inside;
        (of(&ranks), of(&nearer))
    };
    for prior in ["uniform", "normal", "exponential", "grid"] {
        assert_eq!(shares(prior, prior), (true, true), "{prior}");
    }
    assert!(!shares("exponential", "normal").0);
}

#[test]
fn the_candidates_of_calibration_move_no_share_by_what_its_band_could_see() {
    // Root mean squares of what ranks and nearer masses change by; the band of 1,024 cases is 0.045 wide to each side.
    for (parameters, count, limits) in [(1, 2_048, [0.002, 0.002]), (2, 8_192, [0.004, 0.01])] {
        let inference = InferenceSettings::default();
        assert_eq!(CalibrationSettings::default().candidates(parameters, inference.candidate_count), count);
        let of = |candidate_count| {
            let settings = InferenceSettings { candidate_count, ..inference.clone() };
            Study::of("uniform", parameters as u64, settings)
        };
        // All that the sequence gives, in place of what is true.
        let (few, all) = (of(count), of(65_536));
        let mut rng = stream(0, "calibration", None);
        let truths = all.prior.sample(100, &mut rng).unwrap();
        let (mut x, scale, mut squares) = (Vec::new(), vec![10.0; parameters], [0.0; 2]);
        for truth in truths.chunks_exact(parameters) {
            x.clear();
            all.problem.simulate(truth, 15, &mut rng, &mut x).unwrap();
            let reference: Vec<f64> = (0..parameters).map(|_| 10.0 * uniform(&mut rng)).collect();
            let shares = |study: &Study| {
                let (theta, measure) = (&study.candidates.theta, &study.candidates.log_measure);
                let mut row = vec![0.0; measure.len()];
                ExactScores::new(&study.problem, theta).unwrap().of_case(&x, &mut row).unwrap();
                let mass = normalized_mass(&row, measure).unwrap().mass;
                let rank = rank_share(theta.iter().step_by(parameters).copied(), &mass, truth[0], 0.5);
                [rank, nearer_mass(theta, &mass, truth, &reference, &scale, 0.5).unwrap()]
            };
            let (few, all) = (shares(&few), shares(&all));
            squares
                .iter_mut()
                .zip(few.iter().zip(all))
                .for_each(|(sum, (few, all))| *sum += (few - all).powi(2));
        }
        for (sum, limit) in squares.into_iter().zip(limits) {
            assert!((sum / 100.0).sqrt() < limit, "{parameters} parameters: {}", (sum / 100.0).sqrt());
        }
    }
}
