//! The product `candidates`: the parameter points that densities are evaluated at.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use waycairn_analysis_api::{
    AnalysisError, BuildContext, Checked, Product, ProductDeclaration, Sources, Study, stream,
};
use waycairn_gaussian::settings::{CandidateDesign, InferenceSettings, Section};
use waycairn_gaussian::{CandidateKind, CandidatePlan, Candidates, Lattice, Problem};

use super::step::{product_of, read, selected};
use crate::sources::sources_of;
use crate::study::{Posed, planned, section};

const SOURCES: Sources = sources_of!(
    ["src/products/candidates.rs", "src/products/step.rs", "src/sources.rs", "src/study.rs"],
    [CANDIDATES]
);

/// Candidates with their measures: members whose priors have the same support share them.
#[derive(Debug)]
pub struct CandidatesProduct;

#[derive(Serialize, Deserialize)]
struct Selected {
    problem: Problem,
    /// For each parameter the lattice that candidates are on, or nothing.
    support: Vec<Option<Lattice>>,
    inference: Design,
}

/// Of the section `inference` what decides candidates.
#[derive(Serialize, Deserialize)]
struct Design {
    seed: u64,
    candidate_design: CandidateDesign,
    candidate_count: u64,
    candidate_points_per_axis: u64,
    native_grid_prior: bool,
    max_candidate_points: u64,
}

impl Selected {
    /// The section, in which everything else is as it is by default, and not read.
    fn settings(&self) -> Result<InferenceSettings, AnalysisError> {
        Ok(InferenceSettings::read(&serde_json::to_value(&self.inference)?)?)
    }

    fn plan(&self) -> Result<CandidatePlan, AnalysisError> {
        let counts = self.support.iter().map(|axis| axis.map(|lattice| lattice.count() as u64));
        Ok(CandidatePlan::new(&self.settings()?, &counts.collect::<Vec<_>>()))
    }
}

impl Product for CandidatesProduct {
    fn declare() -> ProductDeclaration {
        let what = "parameter points by `inference.candidate_design`, each with the log of its measure";
        ProductDeclaration::new("candidates", 1, what).sources(SOURCES)
    }

    fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
        let (posed, settings) = (Posed::read(study)?, section::<InferenceSettings>(study)?);
        selected(&Selected {
            support: Candidates::support(&posed.prior(study)?, &settings),
            problem: posed.problem,
            inference: Design {
                seed: settings.seed,
                candidate_design: settings.candidate_design,
                candidate_count: settings.candidate_count,
                candidate_points_per_axis: settings.candidate_points_per_axis,
                native_grid_prior: settings.native_grid_prior,
                max_candidate_points: settings.max_candidate_points,
            },
        })
    }

    fn estimate(selected: &Value) -> Result<Value, AnalysisError> {
        let selected: Selected = read(selected)?;
        let (count, p) = (selected.plan()?.count, selected.support.len() as u64);
        Ok(json!({"candidates": planned(count), "bytes": product_of(&[count, 4 * p + 8])}))
    }

    fn check(selected: &Value) -> Result<Checked, AnalysisError> {
        let selected: Selected = read(selected)?;
        let (plan, p) = (selected.plan()?, selected.support.len());
        let refused = plan.check(&selected.settings()?, p).err();
        Ok(Checked {
            errors: refused.into_iter().map(|error| error.to_string()).collect(),
            warnings: plan.warnings(p),
        })
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        let selected: Selected = context.settings_as()?;
        let (settings, problem) = (selected.settings()?, &selected.problem);
        let mut rng = stream(settings.seed, "candidate-design", None);
        let made = Candidates::new(problem, &selected.support, &settings, &mut rng)?;
        let (count, p) = (made.actual_count, problem.parameters().len());
        context.array::<f32>("theta", &[count, p])?.values().copy_from_slice(&made.theta);
        context.array::<f64>("log_measure", &[count])?.values().copy_from_slice(&made.log_measure);
        context.metadata("design", &made.design)?;
        context.metadata("requested_count", &made.requested_count)?;
        context.metadata("actual_count", &count)?;
        context.metadata("base_measure", &made.base_measure)?;
        context.metadata("parameters", &problem.names())?;
        context.metadata("native_discrete_support", &made.native_discrete_support)?;
        context.metadata("approximation", &approximation(made.design))?;
        Ok(())
    }
}

fn approximation(design: CandidateKind) -> &'static str {
    match design {
        CandidateKind::Grid => "trapezoid rule on continuous axes, sums over lattices",
        CandidateKind::NativeExact => "none: every point of the prior",
        CandidateKind::Sobol => {
            "scrambled Sobol points, each for an equal share of the box; points that coincide are one"
        }
    }
}
