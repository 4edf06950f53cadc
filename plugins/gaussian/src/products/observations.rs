//! The product `observations`: true parameters, and an ensemble at each.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use waycairn_analysis_api::{
    AnalysisError, BuildContext, Checked, Product, ProductDeclaration, Sources, Study, stream,
};
use waycairn_gaussian::settings::{InferenceSettings, Section, TruthDesign};
use waycairn_gaussian::{OBSERVED_TOGETHER, Problem, TruthPlan, Truths, observe};

use super::step::{product_of, read, selected, too_many};
use crate::sources::sources_of;
use crate::study::{Posed, planned, section};

const SOURCES: Sources = sources_of!(
    ["src/products/observations.rs", "src/products/step.rs", "src/sources.rs", "src/study.rs"],
    [TRUTHS]
);

/// The truths of a problem with their observations: all members of a configuration share them.
#[derive(Debug)]
pub struct Observations;

#[derive(Serialize, Deserialize)]
struct Selected {
    problem: Problem,
    inference: Design,
}

/// Of the section `inference` what decides truths and observations.
#[derive(Serialize, Deserialize)]
struct Design {
    seed: u64,
    observations: u64,
    repeats: u64,
    truth_design: TruthDesign,
    truth_points_per_axis: u64,
    truth_margin_fraction: f64,
    max_grid_truths: u64,
    sobol_truths: u64,
    align_truths_to_grid: bool,
}

impl Selected {
    /// The section, in which everything else is as it is by default, and not read.
    fn settings(&self) -> Result<InferenceSettings, AnalysisError> {
        Ok(InferenceSettings::read(&serde_json::to_value(&self.inference)?)?)
    }
}

impl Product for Observations {
    fn declare() -> ProductDeclaration {
        let what = "true parameters by `inference.truth_design`, and `inference.observations` at each";
        ProductDeclaration::new("observations", 1, what).sources(SOURCES)
    }

    fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
        let settings: InferenceSettings = section(study)?;
        selected(&Selected {
            problem: Posed::read(study)?.problem,
            inference: Design {
                seed: settings.seed,
                observations: settings.observations,
                repeats: settings.repeats,
                truth_design: settings.truth_design,
                truth_points_per_axis: settings.truth_points_per_axis,
                truth_margin_fraction: settings.truth_margin_fraction,
                max_grid_truths: settings.max_grid_truths,
                sobol_truths: settings.sobol_truths,
                align_truths_to_grid: settings.align_truths_to_grid,
            },
        })
    }

    fn estimate(selected: &Value) -> Result<Value, AnalysisError> {
        let selected: Selected = read(selected)?;
        let (d, p) = (selected.problem.dimension() as u64, selected.problem.parameters().len() as u64);
        let cases = TruthPlan::new(&selected.settings()?, selected.problem.parameters().len()).cases;
        let each = p.saturating_add(product_of(&[selected.inference.observations, d]));
        Ok(json!({"cases": planned(cases), "bytes": product_of(&[cases, each, 4])}))
    }

    fn check(selected: &Value) -> Result<Checked, AnalysisError> {
        let selected: Selected = read(selected)?;
        let (settings, p) = (selected.settings()?, selected.problem.parameters().len());
        let refused = Truths::check(&selected.problem, &settings).err().map(|error| error.to_string());
        let plan = TruthPlan::new(&settings, p);
        let together = plan.cases.min(OBSERVED_TOGETHER as u64) * selected.problem.dimension() as u64;
        let large = too_many("inference.observations", settings.observations, together);
        Ok(Checked {
            errors: refused.into_iter().chain(large).collect(),
            warnings: plan.warnings(&settings, p),
        })
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        let selected: Selected = context.settings_as()?;
        let (settings, problem) = (selected.settings()?, &selected.problem);
        let truths = Truths::new(problem, &settings, &mut stream(settings.seed, "truth-design", None))?;
        let (d, p) = (problem.dimension(), problem.parameters().len());
        let (cases, count) = (truths.cases, usize::try_from(settings.observations)?);
        context.array::<f32>("truth", &[cases, p])?.values().copy_from_slice(&truths.theta);
        let all = context.array::<f32>("observations", &[cases, count, d])?.into_values();
        let mut rest = all;
        let mut rng = stream(settings.seed, "inference-observations", None);
        observe(problem, &truths.theta, count, &mut rng, |block| {
            let done = cases - rest.len() / (count * d);
            if context.cancelled() {
                return Err(AnalysisError::new("it was asked to end"));
            }
            context.progress(done as u64, cases as u64, "cases");
            let (here, after) = std::mem::take(&mut rest).split_at_mut(block.len());
            here.copy_from_slice(block);
            rest = after;
            Ok(())
        })?;
        context.metadata("parameters", &problem.names())?;
        context.metadata("truth_design_requested", &settings.truth_design)?;
        context.metadata("truth_design_actual", &truths.actual)?;
        context.metadata("truths_before_repeats", &truths.before_repeats)?;
        context.metadata("unique_truths", &truths.unique)?;
        context.metadata("cases", &cases)?;
        context.metadata("observations_per_case", &count)?;
        context.metadata("truths_aligned_to_grid", &settings.align_truths_to_grid)?;
        context.metadata("shared_across_priors_and_training_replicas", &true)?;
        Ok(())
    }
}
