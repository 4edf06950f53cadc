//! The product `calibration_scores`: where the truths lie in the posteriors of their ensembles.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use waycairn_analysis_api::{
    AnalysisError, BuildContext, Checked, Product, ProductDeclaration, ProductNeeds, Sources, Study,
};
use waycairn_gaussian::settings::{CalibrationSettings, Target};
use waycairn_gaussian::{GaussianError, Prior, Problem, nearer_mass, normalized_mass, rank_share};

use super::step::{axes, product_of, read, saved_within, selected, steps};
use crate::model::Evaluation;
use crate::plan::Planned;
use crate::scores::{Buffer, Cases, Scored, Source};
use crate::sources::sources_of;
use crate::study::section;
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
    [PROBLEM, PRIOR, NETWORK, ENSEMBLE, DENSITY, CALIBRATION]
);

/// Shares of posteriors' masses: below the truth on each axis, and nearer to a random point than the truth. Those of the exact
/// posterior on the same candidates stand beside them: what these miss, the candidates miss.
#[derive(Debug)]
pub struct CalibrationScores;

#[derive(Serialize, Deserialize)]
struct Selected {
    problem: Problem,
    prior: Prior,
    evaluation: Evaluation,
    /// Rows of the network, which the dependencies say too.
    model_evaluations: u64,
    cases: u64,
    /// Why it cannot be built: nothing, in the recipe of what is. So limits are in no key.
    refused: Vec<String>,
}

impl Product for CalibrationScores {
    fn declare() -> ProductDeclaration {
        let what = "ranks of `calibration.cases` truths in their posteriors, and the masses nearer to a random point";
        let needs = ProductNeeds::default()
            .product("calibration_observations")
            .product("candidates")
            .model()
            .backend();
        ProductDeclaration::new("calibration_scores", 1, what).needs(needs).sources(SOURCES)
    }

    fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
        let (plan, calibration) = (Planned::of(study)?, section::<CalibrationSettings>(study)?);
        let settings = &plan.settings;
        let candidates = plan.work.candidate_count_upper_bound.saturating_add(1);
        let model_evaluations = product_of(&[candidates, calibration.cases, settings.observations]);
        let mut refused = Vec::new();
        if model_evaluations > settings.max_model_evaluations {
            refused.push(format!(
                "calibration would evaluate the model at {model_evaluations} rows, and `inference.max_model_evaluations` is {}; \
                 lower `calibration.cases` (it is {}) or `inference.candidate_count`",
                settings.max_model_evaluations, calibration.cases
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
        let Selected { problem, prior, evaluation, .. } = context.settings_as()?;
        let (drawn, candidates) =
            (context.product("calibration_observations")?, context.product("candidates")?);
        let (theta, log_measure) =
            (candidates.array::<f32>("theta")?, candidates.array::<f64>("log_measure")?);
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
        context.metadata("posterior_prior_power", &1)?;
        let rank = "mass of the posterior below the truth on each axis, with the mass at it split by a uniform number";
        context.metadata("rank_share", &rank)?;
        let nearer =
            "mass of the posterior that is nearer to the reference point than the truth, in units of the box";
        context.metadata("nearer_mass", &nearer)?;
        Ok(())
    }
}
