//! The product `normalization_observations`: samples of a model's own evidence, and where the mean ratio is asked for.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use waycairn_analysis_api::{
    AnalysisError, BuildContext, Checked, Product, ProductDeclaration, Sources, Study, stream,
};
use waycairn_gaussian::settings::{NormalizationDesign, VerificationSettings};
use waycairn_gaussian::{Lattice, Prior, Problem, evidence_samples, normalization_points};

use super::step::{product_of, read, saved_within, selected, too_many};
use crate::sources::sources_of;
use crate::study::{Posed, planned, section};

const SOURCES: Sources = sources_of!(
    ["src/products/normalization_observations.rs", "src/products/step.rs", "src/sources.rs", "src/study.rs"],
    [NORMALIZATION]
);

/// Observations whose parameters were drawn from the member's prior, and parameter points.
#[derive(Debug)]
pub struct NormalizationObservations;

#[derive(Serialize, Deserialize)]
struct Selected {
    problem: Problem,
    prior: Prior,
    verification: Design,
    member: String,
}

/// Of the section `verification` what decides samples and points.
#[derive(Serialize, Deserialize)]
struct Design {
    seed: u64,
    marginal_samples: u64,
    normalization_thetas: u64,
    normalization_design: NormalizationDesign,
    normalization_on_grid: bool,
}

impl Product for NormalizationObservations {
    fn declare() -> ProductDeclaration {
        let what =
            "samples of the evidence under the member's prior, and the points of the normalisation check";
        ProductDeclaration::new("normalization_observations", 1, what).sources(SOURCES)
    }

    fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
        let (posed, settings) = (Posed::read(study)?, section::<VerificationSettings>(study)?);
        if settings.normalization_design == NormalizationDesign::Diagonal && settings.normalization_on_grid {
            // Each parameter has a lattice, or this is the place to hear of it.
            posed.problem.parameters().iter().try_for_each(|parameter| Lattice::of(parameter).map(drop))?;
        }
        let settings = selected(&Selected {
            prior: posed.prior(study)?,
            problem: posed.problem,
            verification: Design {
                seed: settings.seed,
                marginal_samples: settings.marginal_samples,
                normalization_thetas: settings.normalization_thetas,
                normalization_design: settings.normalization_design,
                normalization_on_grid: settings.normalization_on_grid,
            },
            member: study.member.to_owned(),
        })?;
        saved_within(
            study,
            &["verification.marginal_samples", "verification.normalization_thetas"],
            settings,
            Self::estimate,
        )
    }

    fn estimate(selected: &Value) -> Result<Value, AnalysisError> {
        let Selected { problem, verification, .. } = read(selected)?;
        let samples = product_of(&[verification.marginal_samples, problem.dimension() as u64, 4]);
        let points = product_of(&[verification.normalization_thetas, problem.parameters().len() as u64, 4]);
        Ok(json!({"bytes": planned(samples.saturating_add(points))}))
    }

    fn check(selected: &Value) -> Result<Checked, AnalysisError> {
        let Selected { problem, verification, .. } = read(selected)?;
        let (d, p) = (problem.dimension() as u64, problem.parameters().len() as u64);
        let large = [
            too_many("verification.marginal_samples", verification.marginal_samples, d.max(p)),
            too_many("verification.normalization_thetas", verification.normalization_thetas, p),
        ];
        Ok(Checked { errors: large.into_iter().flatten().collect(), warnings: Vec::new() })
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        let Selected { problem, prior, verification: settings, member } = context.settings_as()?;
        let stream = |name| stream(settings.seed, name, Some(&member));
        let (d, p) = (problem.dimension(), problem.parameters().len());
        let (samples, count) =
            (usize::try_from(settings.marginal_samples)?, usize::try_from(settings.normalization_thetas)?);
        let mut x = context.array::<f32>("x", &[samples, d])?;
        let mut theta = context.array::<f32>("theta", &[count, p])?;
        x.values().copy_from_slice(&evidence_samples(
            &problem,
            &prior,
            samples,
            &mut stream("normalization"),
        )?);
        let (design, on_grid) = (settings.normalization_design, settings.normalization_on_grid);
        // From a stream of their own: more samples move no point.
        let mut points = stream("normalization-thetas");
        theta.values().copy_from_slice(&normalization_points(
            &problem,
            &prior,
            design,
            on_grid,
            count,
            &mut points,
        )?);
        context.metadata(
            "distribution",
            &"x at a parameter that was drawn from the member's prior, each at its own",
        )?;
        context.metadata("expected_ratio_mean", &1.0)?;
        Ok(())
    }
}
