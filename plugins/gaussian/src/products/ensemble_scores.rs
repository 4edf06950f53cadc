//! The product `ensemble_scores`: what a network says of every case and candidate.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use waycairn_analysis_api::{
    AnalysisError, BuildContext, Product, ProductDeclaration, ProductNeeds, Sources, Study,
};

use super::step::{axes, product_of, read, selected, steps};
use crate::model::Evaluation;
use crate::plan::{Keeping, Planned};
use crate::scores::{Cases, Scored};
use crate::sources::sources_of;

const SOURCES: Sources = sources_of!(
    [
        "src/products/ensemble_scores.rs",
        "src/products/step.rs",
        "src/model.rs",
        "src/plan.rs",
        "src/scores.rs",
        "src/settings.rs",
        "src/sources.rs",
        "src/study.rs",
    ],
    [NETWORK]
);

/// The scores of the ratio target, which posterior and levels follow from at no cost.
///
/// Where they are over `inference.max_score_bytes` the product is empty, says so, and `inference` computes them itself.
#[derive(Debug)]
pub struct EnsembleScores;

#[derive(Serialize, Deserialize)]
struct Selected {
    scores: Keeping,
    /// Where they are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<Kept>,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    evaluation: Evaluation,
    cases: u64,
    candidates: u64,
    observations: u64,
}

impl Product for EnsembleScores {
    fn declare() -> ProductDeclaration {
        let what = "the sum of logits of every case and candidate; empty above `inference.max_score_bytes`";
        let needs = ProductNeeds::default().product("observations").product("candidates").model().backend();
        ProductDeclaration::new("ensemble_scores", 1, what).needs(needs).sources(SOURCES)
    }

    fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
        let planned = Planned::of(study)?;
        let kept = match planned.keeping {
            Keeping::Kept => Some(Kept {
                evaluation: Evaluation::read(study)?,
                cases: planned.work.inference_cases,
                candidates: planned.work.candidate_count_upper_bound,
                observations: planned.settings.observations,
            }),
            Keeping::Streamed | Keeping::Unused => None,
        };
        selected(&Selected { scores: planned.keeping, kept })
    }

    fn estimate(selected: &Value) -> Result<Value, AnalysisError> {
        let selected: Selected = read(selected)?;
        let (evaluations, bytes) = selected.kept.map_or((0, 0), |kept| {
            let scores = product_of(&[kept.candidates.saturating_add(1), kept.cases]);
            (product_of(&[scores, kept.observations]), product_of(&[scores, 8]))
        });
        Ok(json!({"model_evaluations": evaluations, "bytes": bytes}))
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        let selected: Selected = context.settings_as()?;
        let (observations, candidates) = (context.product("observations")?, context.product("candidates")?);
        let [count, parameters] = axes("theta", candidates.shape("theta")?)?;
        context.metadata("scores", &selected.scores)?;
        let Some(kept) = selected.kept else {
            context.array::<f64>("log_score", &[0, count])?;
            context.array::<f64>("truth_log_score", &[0])?;
            return Ok(());
        };
        let [cases, observed, dimension] = axes("observations", observations.shape("observations")?)?;
        let network = kept.evaluation.architecture.network(&context.weights()?, dimension, parameters)?;
        let scored = Scored::new(network, candidates.array::<f32>("theta")?)?;
        let of = Cases {
            truth: observations.array::<f32>("truth")?,
            observations: observations.array::<f32>("observations")?,
            count: observed,
            dimension,
            parameters,
        };
        let scores = context.array::<f64>("log_score", &[cases, count])?.into_values();
        let at_truth = context.array::<f64>("truth_log_score", &[cases])?.into_values();
        let at_once = of.at_once(kept.evaluation.at_once(count.saturating_mul(observed)), count);
        steps(context, cases, at_once, "cases", |cases| {
            let scores = &mut scores[cases.start * count..cases.end * count];
            scored.write(&of, &cases, scores, &mut at_truth[cases.clone()])
        })
    }
}
