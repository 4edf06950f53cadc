//! The product `calibration_observations`: draws of the prior with an ensemble at each, and what ranks are split by.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use waycairn_analysis_api::{
    AnalysisError, BuildContext, Checked, Product, ProductDeclaration, Sources, Study, stream,
};
use waycairn_gaussian::settings::{CalibrationSettings, InferenceSettings};
use waycairn_gaussian::{OBSERVED_TOGETHER, Prior, Problem, observe, uniform};

use super::step::{product_of, read, saved_within, selected, too_many};
use crate::sources::sources_of;
use crate::study::{Posed, planned, section};

const SOURCES: Sources = sources_of!(
    ["src/products/calibration_observations.rs", "src/products/step.rs", "src/sources.rs", "src/study.rs"],
    [TRUTHS, PRIOR]
);

/// Truths that are draws of the prior: those of a design say nothing of calibration. Replicas of a prior share them.
#[derive(Debug)]
pub struct CalibrationObservations;

#[derive(Serialize, Deserialize)]
struct Selected {
    problem: Problem,
    prior: Prior,
    /// Of the section `calibration`.
    seed: u64,
    cases: u64,
    /// Of the section `inference`: what is checked is what is inferred from as many.
    observations: u64,
}

impl Product for CalibrationObservations {
    fn declare() -> ProductDeclaration {
        let what = "`calibration.cases` draws of the member's prior, and `inference.observations` at each";
        ProductDeclaration::new("calibration_observations", 1, what).sources(SOURCES)
    }

    fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
        let (posed, settings) = (Posed::read(study)?, section::<CalibrationSettings>(study)?);
        let settings = selected(&Selected {
            prior: posed.prior(study)?,
            problem: posed.problem,
            seed: settings.seed,
            cases: settings.cases,
            observations: section::<InferenceSettings>(study)?.observations,
        })?;
        saved_within(study, &["calibration.cases", "inference.observations"], settings, Self::estimate)
    }

    fn estimate(selected: &Value) -> Result<Value, AnalysisError> {
        let selected: Selected = read(selected)?;
        let (d, p) = (selected.problem.dimension() as u64, selected.problem.parameters().len() as u64);
        let each = product_of(&[selected.observations, d, 4]).saturating_add(20 * p + 8);
        Ok(json!({"cases": planned(selected.cases), "bytes": product_of(&[selected.cases, each])}))
    }

    fn check(selected: &Value) -> Result<Checked, AnalysisError> {
        let selected: Selected = read(selected)?;
        let (d, p) = (selected.problem.dimension() as u64, selected.problem.parameters().len() as u64);
        let together = selected.cases.min(OBSERVED_TOGETHER as u64) * d;
        let large = [
            too_many("calibration.cases", selected.cases, p),
            too_many("inference.observations", selected.observations, together),
        ];
        Ok(Checked { errors: large.into_iter().flatten().collect(), warnings: Vec::new() })
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        let Selected { problem, prior, seed, cases, observations } = context.settings_as()?;
        let stream = |name| stream(seed, name, None);
        let (d, p) = (problem.dimension(), problem.parameters().len());
        let (cases, count) = (usize::try_from(cases)?, usize::try_from(observations)?);
        let mut truth = context.array::<f32>("truth", &[cases, p])?;
        let mut rest = context.array::<f32>("observations", &[cases, count, d])?.into_values();
        truth.values().copy_from_slice(&prior.sample(cases, &mut stream("calibration-truths"))?);
        let mut rng = stream("calibration-observations");
        observe(&problem, truth.values(), count, &mut rng, |block| {
            if context.cancelled() {
                return Err(AnalysisError::new("it was asked to end"));
            }
            context.progress((cases - rest.len() / (count * d)) as u64, cases as u64, "cases");
            let (here, after) = std::mem::take(&mut rest).split_at_mut(block.len());
            here.copy_from_slice(block);
            rest = after;
            Ok(())
        })?;
        let fill = |name: &str, shape: &[usize], of: &'static str| {
            let mut rng = stream(of);
            let mut array = context.array::<f64>(name, shape)?;
            array.values().iter_mut().for_each(|value| *value = uniform(&mut rng));
            Ok::<_, AnalysisError>(array)
        };
        fill("rank_split", &[cases, p], "calibration-rank-splits")?;
        fill("reference_split", &[cases], "calibration-reference-splits")?;
        let mut reference = fill("reference", &[cases, p], "calibration-references")?;
        for point in reference.values().chunks_exact_mut(p) {
            for (value, parameter) in point.iter_mut().zip(problem.parameters()) {
                *value = parameter.low + *value * parameter.width();
            }
        }
        context.metadata("parameters", &problem.names())?;
        context.metadata("cases", &cases)?;
        context.metadata("observations_per_case", &count)?;
        context.metadata("reference_distribution", &"uniform over the box, whatever the observations")?;
        context.metadata("prior_measure", &prior.measure())?;
        Ok(())
    }
}
