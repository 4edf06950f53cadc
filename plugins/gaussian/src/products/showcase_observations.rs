//! The product `showcase_observations`: many samples at one fixed pair of parameter points.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use waycairn_analysis_api::{
    AnalysisError, BuildContext, Product, ProductDeclaration, Sources, Study, stream,
};
use waycairn_gaussian::settings::{Section, ShowcaseSettings, VerificationSettings};
use waycairn_gaussian::{Endpoint, Problem, showcase_pair};

use super::step::{product_of, read, saved_within, selected, steps};
use crate::ratio::ORIENTATION;
use crate::sources::sources_of;
use crate::study::{Posed, planned, section};

const SOURCES: Sources = sources_of!(
    [
        "src/products/showcase_observations.rs",
        "src/products/step.rs",
        "src/ratio.rs",
        "src/sources.rs",
        "src/study.rs",
    ],
    [VERIFICATION]
);

/// Samples that are drawn between two looks at whether to go on.
const BLOCK: usize = 1 << 16;

/// Source and target samples of the showcase: all members of a configuration share them.
#[derive(Debug)]
pub struct ShowcaseObservations;

#[derive(Serialize, Deserialize)]
struct Selected {
    problem: Problem,
    showcase: Design,
    /// That of the section `verification`.
    seed: u64,
}

/// Of the section `showcase` what decides points and samples.
#[derive(Serialize, Deserialize)]
struct Design {
    source_fraction: f64,
    target_fraction: f64,
    samples: u64,
}

impl Product for ShowcaseObservations {
    fn declare() -> ProductDeclaration {
        let what = "`showcase.samples` observations at each of two fixed parameter points";
        ProductDeclaration::new("showcase_observations", 1, what).sources(SOURCES)
    }

    fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
        let settings: ShowcaseSettings = section(study)?;
        let settings = selected(&Selected {
            problem: Posed::read(study)?.problem,
            showcase: Design {
                source_fraction: settings.source_fraction,
                target_fraction: settings.target_fraction,
                samples: settings.samples,
            },
            seed: section::<VerificationSettings>(study)?.seed,
        })?;
        saved_within(study, &["showcase.samples"], settings, Self::estimate)
    }

    fn estimate(selected: &Value) -> Result<Value, AnalysisError> {
        let Selected { problem, showcase, .. } = read(selected)?;
        let points = 16 * problem.parameters().len() as u64;
        let samples = product_of(&[showcase.samples, problem.dimension() as u64, 8]);
        Ok(json!({"bytes": planned(samples.saturating_add(points))}))
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        let Selected { problem, showcase, seed } = context.settings_as()?;
        let (d, p) = (problem.dimension(), problem.parameters().len());
        let samples = usize::try_from(showcase.samples)?;
        // What else the section has is as it is by default, and not read.
        let pair = showcase_pair(&problem, &ShowcaseSettings::read(&serde_json::to_value(&showcase)?)?);
        context.array::<f64>("theta", &[2, p])?.values().copy_from_slice(pair.values());
        let mut rng = stream(seed, "showcase", None);
        for (name, end) in [("source", Endpoint::Source), ("target", Endpoint::Target)] {
            let values = context.array::<f32>(name, &[samples, d])?.into_values();
            steps(context, samples, BLOCK, &format!("{name} samples"), |rows| {
                let drawn = pair.observe(&problem, end, rows.len(), &mut rng)?;
                values[rows.start * d..rows.end * d].copy_from_slice(&drawn);
                Ok(())
            })?;
        }
        context.metadata("orientation", &ORIENTATION)?;
        context.metadata("parameters", &problem.names())?;
        Ok(())
    }
}
