//! The product `calibration_scores`: where the truths lie in the posteriors of their ensembles.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use waycairn_analysis_api::{
    AnalysisError, BuildContext, Checked, Product, ProductDeclaration, ProductNeeds, Sources, Study, stream,
};
use waycairn_gaussian::settings::{CalibrationSettings, CandidateDesign, InferenceSettings, Target};
use waycairn_gaussian::{
    CandidateKind, CandidatePlan, Candidates, GaussianError, Lattice, Prior, Problem, nearer_mass,
    normalized_mass, rank_share,
};

use super::step::{axes, product_of, read, saved_within, selected, steps};
use crate::model::Evaluation;
use crate::plan::Planned;
use crate::scores::{Buffer, Cases, Scored, Source};
use crate::sources::sources_of;
use crate::study::{planned, section};
use crate::targets::Targets;

const SOURCES: Sources = sources_of!(
    [
        "src/products/calibration_scores.rs",
        "src/products/step.rs",
        "src/model.rs",
        "src/plan.rs",
        "src/scores.rs",
        "src/settings.rs",
        "src/sources.rs",
        "src/study.rs",
        "src/targets.rs",
    ],
    [PROBLEM, PRIOR, CANDIDATES, NETWORK, ENSEMBLE, DENSITY, CALIBRATION]
);

/// Shares of posteriors' masses: below the truth on each axis, and nearer to a random point than the truth. Those of the exact
/// posterior on the same candidates stand beside them: what these miss, the candidates miss.
///
/// The candidates are of the inference's design, but fewer where a Sobol sequence makes them: see
/// [`CalibrationSettings::candidates`]. They cost nothing beside the scores, and are drawn here and kept nowhere.
#[derive(Debug)]
pub struct CalibrationScores;

#[derive(Serialize, Deserialize)]
struct Selected {
    problem: Problem,
    prior: Prior,
    evaluation: Evaluation,
    /// For each parameter the lattice that candidates are on, or nothing.
    support: Vec<Option<Lattice>>,
    candidates: Design,
    /// Rows of the network.
    model_evaluations: u64,
    cases: u64,
    /// Why it cannot be built: nothing, in the recipe of what is. So limits are in no key.
    refused: Vec<String>,
}

/// What decides candidates: of the section `inference`, but for the count.
#[derive(Serialize, Deserialize)]
struct Design {
    seed: u64,
    candidate_design: CandidateDesign,
    candidate_count: u64,
    candidate_points_per_axis: u64,
}

impl Design {
    fn make(&self, problem: &Problem, support: &[Option<Lattice>]) -> Result<Candidates, GaussianError> {
        let settings = InferenceSettings {
            seed: self.seed,
            candidate_design: self.candidate_design,
            candidate_count: self.candidate_count,
            candidate_points_per_axis: self.candidate_points_per_axis,
            // A limit is told while the study is planned.
            max_candidate_points: u64::MAX,
            ..InferenceSettings::default()
        };
        Candidates::new(problem, support, &settings, &mut stream(self.seed, "candidate-design", None))
    }
}

impl Product for CalibrationScores {
    fn declare() -> ProductDeclaration {
        let what = "ranks of `calibration.cases` truths in their posteriors, and the masses nearer to a random point";
        let needs = ProductNeeds::default().product("calibration_observations").model().backend();
        ProductDeclaration::new("calibration_scores", 1, what).needs(needs).sources(SOURCES)
    }

    fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
        let (plan, calibration) = (Planned::of(study)?, section::<CalibrationSettings>(study)?);
        let settings = &plan.settings;
        let support = Candidates::support(&plan.prior, settings);
        let counts: Vec<Option<u64>> =
            support.iter().map(|axis| axis.map(|lattice| lattice.count() as u64)).collect();
        let inference = CandidatePlan::new(settings, &counts);
        let count = match inference.design {
            CandidateKind::Sobol => calibration.candidates(support.len(), inference.count),
            // Lattices are not thinned out: all of their points are the posterior.
            CandidateKind::Grid | CandidateKind::NativeExact => inference.count,
        };
        let model_evaluations =
            product_of(&[count.saturating_add(1), calibration.cases, settings.observations]);
        let refused = inference.check(settings, support.len()).err();
        let mut refused: Vec<String> = refused.into_iter().map(|error| error.to_string()).collect();
        if model_evaluations > settings.max_model_evaluations {
            refused.push(format!(
                "calibration would evaluate the model at {model_evaluations} rows, and `inference.max_model_evaluations` is {}; \
                 lower `calibration.cases` (it is {}) or `calibration.candidate_count` (it is {}, which makes {count} candidates)",
                settings.max_model_evaluations, calibration.cases, calibration.candidate_count
            ));
        }
        if !settings.native_grid_prior && plan.prior.lattices().iter().any(Option::is_some) {
            refused.push(
                "calibration is of the posterior, that of a discrete prior needs candidates on its lattice, and \
                 `inference.native_grid_prior` is false; set it to true, or take `simulation_based_calibration` and `tarp` \
                 out of `metrics`"
                    .to_owned(),
            );
        }
        let settings = selected(&Selected {
            problem: plan.posed.problem,
            prior: plan.prior,
            evaluation: Evaluation::read(study)?,
            candidates: Design {
                seed: settings.seed,
                candidate_design: settings.candidate_design,
                candidate_count: planned(count),
                candidate_points_per_axis: settings.candidate_points_per_axis,
            },
            support,
            model_evaluations,
            cases: calibration.cases,
            refused,
        })?;
        saved_within(study, &["calibration.cases"], settings, Self::estimate)
    }

    fn estimate(selected: &Value) -> Result<Value, AnalysisError> {
        let selected: Selected = read(selected)?;
        let each = 16 * (selected.problem.parameters().len() as u64 + 1);
        let bytes = product_of(&[selected.cases, each]);
        Ok(json!({"model_evaluations": selected.model_evaluations, "bytes": bytes}))
    }

    fn check(selected: &Value) -> Result<Checked, AnalysisError> {
        Ok(Checked { errors: read::<Selected>(selected)?.refused, warnings: Vec::new() })
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        let Selected { problem, prior, evaluation, support, candidates, .. } = context.settings_as()?;
        let drawn = context.product("calibration_observations")?;
        let made = candidates.make(&problem, &support)?;
        let (theta, log_measure) = (&made.theta[..], &made.log_measure[..]);
        let [cases, count, dimension] = axes("observations", drawn.shape("observations")?)?;
        let p = problem.parameters().len();
        let of = Cases {
            truth: drawn.array::<f32>("truth")?,
            observations: drawn.array::<f32>("observations")?,
            count,
            dimension,
            parameters: p,
        };
        let network = evaluation.architecture.network(&context.weights()?, dimension, p)?;
        let scored = Scored::new(network, theta)?;
        let source = Source::Computed(&scored);
        let targets = Targets::new(&problem, Some(&prior), true, of, theta)?;
        let prior_of_theta = prior.log_densities(theta)?;
        let scale: Vec<f64> = problem.parameters().iter().map(|one| one.width()).collect();
        let (splits, reference) = (drawn.array::<f64>("rank_split")?, drawn.array::<f64>("reference")?);
        let reference_splits = drawn.array::<f64>("reference_split")?;
        let learned = (
            context.array::<f64>("rank_share", &[cases, p])?.into_values(),
            context.array::<f64>("nearer_mass", &[cases])?.into_values(),
        );
        let exact = (
            context.array::<f64>("exact_rank_share", &[cases, p])?.into_values(),
            context.array::<f64>("exact_nearer_mass", &[cases])?.into_values(),
        );
        let (k, mut buffer) = (log_measure.len(), Buffer::default());
        let at_once = of.at_once(evaluation.at_once(k.saturating_mul(count)), k);
        let mut outs = [(Target::Posterior, learned), (Target::Exact, exact)];
        steps(context, cases, at_once, "cases", |block| {
            let ratio = source.of(&of, &block, k, &mut buffer)?;
            for (target, (ranks, nearer)) in &mut outs {
                let ranks = ranks[block.start * p..block.end * p].par_chunks_mut(p);
                let nearer = nearer[block.clone()].par_iter_mut();
                ranks.zip(nearer).enumerate().try_for_each_init(
                    || vec![0.0; k],
                    |row, (here, (ranks, nearer))| {
                        let case = block.start + here;
                        targets.fill(*target, &ratio, case, here, row)?;
                        if *target == Target::Exact {
                            // The exact target has no prior, and the exact posterior does.
                            row.iter_mut().zip(&prior_of_theta).for_each(|(score, prior)| *score += prior);
                        }
                        let mass = normalized_mass(row, log_measure)?.mass;
                        let truth = of.truths(&(case..case + 1));
                        for (axis, rank) in ranks.iter_mut().enumerate() {
                            let values = theta.iter().skip(axis).step_by(p).copied();
                            *rank = rank_share(values, &mass, truth[axis], splits[case * p + axis]);
                        }
                        let reference = &reference[case * p..(case + 1) * p];
                        *nearer =
                            nearer_mass(theta, &mass, truth, reference, &scale, reference_splits[case])?;
                        Ok::<_, GaussianError>(())
                    },
                )?;
            }
            Ok(())
        })?;
        context.metadata("cases", &cases)?;
        context.metadata("parameters", &problem.names())?;
        context.metadata("candidate_count", &k)?;
        context.metadata("candidate_design", &made.design)?;
        context.metadata("posterior_prior_power", &1)?;
        let rank = "mass of the posterior below the truth on each axis, with the mass at it split by a uniform number";
        context.metadata("rank_share", &rank)?;
        let nearer =
            "mass of the posterior that is nearer to the reference point than the truth, in units of the box";
        context.metadata("nearer_mass", &nearer)?;
        Ok(())
    }
}
