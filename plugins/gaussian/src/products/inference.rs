//! The product `inference`: highest-density summaries of every case and target.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use waycairn_analysis_api::{
    AnalysisError, BuildContext, Checked, Product, ProductDeclaration, ProductNeeds, Sources, Study,
};
use waycairn_gaussian::settings::{Retain, Target, TruthDesign};
use waycairn_gaussian::{CandidateKind, Prior, Problem, Summary, candidate_indices, retained_cases};

use super::arrays::{Arrays, Shape};
use super::step::{axes, read, selected, steps};
use crate::model::Evaluation;
use crate::plan::{Keeping, Planned};
use crate::scores::{Buffer, Cases, Ratio, Scored, Source};
use crate::sources::sources_of;
use crate::targets::Targets;

const SOURCES: Sources = sources_of!(
    [
        "src/products/inference.rs",
        "src/products/arrays.rs",
        "src/products/step.rs",
        "src/model.rs",
        "src/plan.rs",
        "src/scores.rs",
        "src/settings.rs",
        "src/sources.rs",
        "src/study.rs",
        "src/targets.rs",
    ],
    [PROBLEM, PRIOR, NETWORK, ENSEMBLE, DENSITY, CANDIDATES]
);

const HIGHEST_DENSITY: &str = "candidates ranked by score, cut where the mass of the best reaches the level, with ties at the \
cut whole; lower and upper are the bounds of that joint set on each axis: points between them may lie outside of it";
const COVERAGE: &str = "joint_contains_truth: whether the score at the true parameter is at least that of the set's edge; the \
truth need not be a candidate, and one that is has the candidate's own score";
const EXACT: &str = "the log likelihood, summed over the observations, at the same candidates; no prior";

/// Modes, sets and masses of the densities over the candidates.
#[derive(Debug)]
pub struct Inference;

#[derive(Serialize, Deserialize)]
struct Selected {
    problem: Problem,
    /// Where the posterior is a target: nothing else is of the prior.
    #[serde(skip_serializing_if = "Option::is_none")]
    prior: Option<Prior>,
    inference: Summarised,
    evaluation: Evaluation,
    scores: Keeping,
    work: Work,
    /// Why it cannot be built: nothing, in the recipe of what is. So limits are in no key.
    refused: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Summarised {
    levels: Vec<f64>,
    targets: Vec<Target>,
    retain: Retain,
    diagnostic_cases: u64,
}

/// What was planned; all of it follows from the settings here and from the dependencies.
#[derive(Serialize, Deserialize)]
struct Work {
    truth_design: TruthDesign,
    candidate_design: CandidateKind,
    inference_cases: u64,
    candidate_count_upper_bound: u64,
    inference_model_evaluations: u64,
    estimated_inference_bytes: u64,
    ensemble_score_bytes: u64,
}

impl Product for Inference {
    fn declare() -> ProductDeclaration {
        let what = "modes and highest-density sets of every case, for each of `inference.targets`";
        let needs = ProductNeeds::default()
            .product("ensemble_scores")
            .product("observations")
            .product("candidates")
            .model()
            .backend();
        ProductDeclaration::new("inference", 1, what).needs(needs).sources(SOURCES)
    }

    fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
        let plan = Planned::of(study)?;
        let settings = plan.settings;
        selected(&Selected {
            problem: plan.posed.problem,
            prior: settings.targets.contains(&Target::Posterior).then_some(plan.prior),
            inference: Summarised {
                levels: settings.levels,
                targets: settings.targets,
                retain: settings.retain,
                diagnostic_cases: settings.diagnostic_cases,
            },
            evaluation: Evaluation::read(study)?,
            scores: plan.keeping,
            work: Work {
                truth_design: plan.work.truth_design,
                candidate_design: plan.work.candidate_design,
                inference_cases: plan.work.inference_cases,
                candidate_count_upper_bound: plan.work.candidate_count_upper_bound,
                inference_model_evaluations: plan.work.inference_model_evaluations,
                estimated_inference_bytes: plan.work.estimated_inference_bytes,
                ensemble_score_bytes: plan.work.ensemble_score_bytes,
            },
            refused: plan.refused,
        })
    }

    fn estimate(selected: &Value) -> Result<Value, AnalysisError> {
        let selected: Selected = read(selected)?;
        let (d, p) = (selected.problem.dimension(), selected.problem.parameters().len());
        let work = &selected.work;
        Ok(json!({
            "truth_design": work.truth_design,
            "candidate_design": work.candidate_design,
            "inference_cases": work.inference_cases,
            "candidate_count_upper_bound": work.candidate_count_upper_bound,
            "inference_model_evaluations": work.inference_model_evaluations,
            "estimated_inference_bytes": work.estimated_inference_bytes,
            "ensemble_score_bytes": work.ensemble_score_bytes,
            "ensemble_scores_kept": u8::from(selected.scores == Keeping::Kept),
            "observation_dimension": d,
            "inferred_parameters": p,
            "network_inputs": d + p,
        }))
    }

    fn check(selected: &Value) -> Result<Checked, AnalysisError> {
        let selected: Selected = read(selected)?;
        let over = (selected.scores == Keeping::Streamed).then(|| {
            format!(
                "{} bytes of scores are over `inference.max_score_bytes`: they are not kept, and another level or target \
                 computes them again",
                selected.work.ensemble_score_bytes
            )
        });
        Ok(Checked { errors: selected.refused, warnings: over.into_iter().collect() })
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        let selected: Selected = context.settings_as()?;
        let (observations, candidates) = (context.product("observations")?, context.product("candidates")?);
        let (theta, log_measure) =
            (candidates.array::<f32>("theta")?, candidates.array::<f64>("log_measure")?);
        let [cases, count, dimension] = axes("observations", observations.shape("observations")?)?;
        let parameters = selected.problem.parameters().len();
        let of = Cases {
            truth: observations.array::<f32>("truth")?,
            observations: observations.array::<f32>("observations")?,
            count,
            dimension,
            parameters,
        };
        selected.fits(cases, log_measure.len())?;
        let scored = match selected.scores {
            Keeping::Streamed => {
                let architecture = &selected.evaluation.architecture;
                let network = architecture.network(&context.weights()?, dimension, parameters)?;
                Some(Scored::new(network, theta)?)
            }
            Keeping::Kept | Keeping::Unused => None,
        };
        let kept = context.product("ensemble_scores")?;
        let source = match &scored {
            Some(scored) => Source::Computed(scored),
            None => Source::Kept {
                scores: kept.array::<f64>("log_score")?,
                at_truth: kept.array::<f64>("truth_log_score")?,
            },
        };
        let exact = selected.inference.targets.contains(&Target::Exact);
        let targets = Targets::new(&selected.problem, selected.prior.as_ref(), exact, of, theta)?;
        let levels = &selected.inference.levels;
        let summary = Summary::new(theta, log_measure, levels)?;
        let membership = candidate_indices(theta, parameters, of.truth);
        let retained = selected.retained(cases);
        let rows = context.array::<i64>("retained_cases", &[retained.len()])?.into_values();
        rows.iter_mut().zip(&retained).for_each(|(row, case)| *row = *case as i64);
        let shape = Shape {
            cases,
            parameters,
            levels: levels.len(),
            retained: retained.len(),
            candidates: log_measure.len(),
        };
        let mut outs = selected
            .inference
            .targets
            .iter()
            .map(|target| Ok((*target, Arrays::new(context, *target, &shape)?)))
            .collect::<Result<Vec<_>, AnalysisError>>()?;

        let at_once =
            of.at_once(selected.evaluation.at_once(shape.candidates.saturating_mul(count)), shape.candidates);
        let mut buffer = Buffer::default();
        steps(context, cases, at_once, "cases", |block| {
            let ratio = if selected.scores == Keeping::Unused {
                Ratio::default()
            } else {
                source.of(&of, &block, shape.candidates, &mut buffer)?
            };
            for (target, arrays) in &mut outs {
                let fill = |case: usize, row: &mut [f64]| {
                    targets.fill(*target, &ratio, block.start + case, case, row)
                };
                arrays.put(block.start, &summary.cases(&membership[block.clone()], fill)?, &shape);
                let (first, last) = (
                    retained.partition_point(|case| *case < block.start),
                    retained.partition_point(|case| *case < block.end),
                );
                let rows = &mut arrays.log_score[first * shape.candidates..last * shape.candidates];
                rows.par_chunks_mut(shape.candidates)
                    .zip(&retained[first..last])
                    .try_for_each(|(row, case)| fill(case - block.start, row).map(drop))?;
            }
            Ok(())
        })?;

        context.metadata("levels", levels)?;
        context.metadata("targets", &selected.inference.targets)?;
        context.metadata("cases", &cases)?;
        context.metadata("parameters", &selected.problem.names())?;
        context.metadata("candidate_count", &shape.candidates)?;
        context.metadata("base_measure", &candidates.metadata()["base_measure"])?;
        context.metadata("hld", &HIGHEST_DENSITY)?;
        context.metadata("coverage", &COVERAGE)?;
        context.metadata("posterior_prior_power", &1)?;
        context.metadata("retention", &selected.inference.retain)?;
        context.metadata("exact_target", &EXACT)?;
        Ok(())
    }
}

impl Selected {
    /// The cases whose scores are kept.
    fn retained(&self, cases: usize) -> Vec<usize> {
        match self.inference.retain {
            Retain::Full => (0..cases).collect(),
            Retain::Diagnostic => {
                retained_cases(cases, usize::try_from(self.inference.diagnostic_cases).unwrap_or(usize::MAX))
            }
        }
    }

    /// Refuses more than was planned, and so checked against the limits.
    fn fits(&self, cases: usize, candidates: usize) -> Result<(), AnalysisError> {
        let work = &self.work;
        if cases as u64 == work.inference_cases && candidates as u64 <= work.candidate_count_upper_bound {
            return Ok(());
        }
        Err(AnalysisError::new(format!(
            "there are {cases} cases and {candidates} candidates, and {} with at most {} were planned against \
             `inference.max_saved_bytes` and `inference.max_candidate_points`; verify the cache (`waycairn verify`)",
            work.inference_cases, work.candidate_count_upper_bound
        )))
    }
}
