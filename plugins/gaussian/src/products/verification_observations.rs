//! The product `verification_observations`: pairs of parameter points, with observations at both.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use waycairn_analysis_api::{
    AnalysisError, BuildContext, Checked, Product, ProductDeclaration, Sources, Study, stream,
};
use waycairn_gaussian::settings::{PairDesign, VerificationSettings};
use waycairn_gaussian::{Endpoint, Lattice, Problem, ThetaPairs, directions};

use super::step::{product_of, read, saved_within, selected, steps, too_many};
use crate::ratio::ORIENTATION;
use crate::sources::sources_of;
use crate::study::{Posed, planned, section};

const SOURCES: Sources = sources_of!(
    [
        "src/products/verification_observations.rs",
        "src/products/step.rs",
        "src/ratio.rs",
        "src/sources.rs",
        "src/study.rs"
    ],
    [VERIFICATION]
);

/// Pairs of parameter points with observations at both: all members of a configuration share them.
#[derive(Debug)]
pub struct VerificationObservations;

#[derive(Serialize, Deserialize)]
struct Selected {
    problem: Problem,
    verification: Design,
}

/// Of the section `verification` what decides pairs and samples.
#[derive(Serialize, Deserialize)]
struct Design {
    seed: u64,
    pairs: u64,
    pair_design: PairDesign,
    samples_per_endpoint: u64,
    source_samples: u64,
    target_samples: u64,
    directions: u64,
}

impl Design {
    fn of(settings: &VerificationSettings) -> Self {
        Self {
            seed: settings.seed,
            pairs: settings.pairs,
            pair_design: settings.pair_design,
            samples_per_endpoint: settings.samples_per_endpoint,
            source_samples: settings.source_samples,
            target_samples: settings.target_samples,
            directions: settings.directions,
        }
    }
}

impl Product for VerificationObservations {
    fn declare() -> ProductDeclaration {
        let what =
            "pairs of parameter points by `verification.pair_design`, with probes, source and target samples";
        ProductDeclaration::new("verification_observations", 1, what).sources(SOURCES)
    }

    fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
        let (problem, settings) = (Posed::read(study)?.problem, section::<VerificationSettings>(study)?);
        if settings.pair_design == PairDesign::Grid {
            // Each parameter has a lattice, or this is the place to hear of it.
            problem.parameters().iter().try_for_each(|parameter| Lattice::of(parameter).map(drop))?;
        }
        let settings = selected(&Selected { problem, verification: Design::of(&settings) })?;
        saved_within(
            study,
            &[
                "verification.pairs",
                "verification.samples_per_endpoint",
                "verification.source_samples",
                "verification.target_samples",
                "verification.directions",
            ],
            settings,
            Self::estimate,
        )
    }

    fn estimate(selected: &Value) -> Result<Value, AnalysisError> {
        let Selected { problem, verification } = read(selected)?;
        let (d, p) = (problem.dimension() as u64, problem.parameters().len() as u64);
        let probes = verification.samples_per_endpoint.saturating_mul(2);
        let drawn =
            probes.saturating_add(verification.source_samples).saturating_add(verification.target_samples);
        let each = product_of(&[drawn, d, 4])
            .saturating_add(product_of(&[probes, 8]))
            .saturating_add(product_of(&[p, 16]));
        let bytes = product_of(&[verification.pairs, each]).saturating_add(product_of(&[
            verification.directions,
            d,
            8,
        ]));
        Ok(json!({"bytes": planned(bytes)}))
    }

    fn check(selected: &Value) -> Result<Checked, AnalysisError> {
        let Selected { problem, verification } = read(selected)?;
        let mut checked = Checked::default();
        if verification.pair_design == PairDesign::Sobol
            && let Err(error) = ThetaPairs::check(verification.pairs, problem.parameters().len())
        {
            checked.errors.push(error.to_string());
        }
        let (d, p) = (problem.dimension() as u64, problem.parameters().len() as u64);
        checked.errors.extend(too_many("verification.pairs", verification.pairs, 2 * p));
        for (name, samples) in [
            ("verification.samples_per_endpoint", verification.samples_per_endpoint),
            ("verification.source_samples", verification.source_samples),
            ("verification.target_samples", verification.target_samples),
            ("verification.directions", verification.directions),
        ] {
            checked.errors.extend(too_many(name, samples, d));
        }
        Ok(checked)
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        let Selected { problem, verification: settings } = context.settings_as()?;
        let stream = |name| stream(settings.seed, name, None);
        let (d, p) = (problem.dimension(), problem.parameters().len());
        let count = usize::try_from(settings.pairs)?;
        let (n, sources, targets) = (
            usize::try_from(settings.samples_per_endpoint)?,
            usize::try_from(settings.source_samples)?,
            usize::try_from(settings.target_samples)?,
        );
        let (probes, lines) = (n.saturating_mul(2), usize::try_from(settings.directions)?);
        let pairs =
            ThetaPairs::new(&problem, settings.pair_design, count, &mut stream("verification-pairs"))?;
        context.array::<f64>("pairs", &[count, 2, p])?.values().copy_from_slice(pairs.values());
        let probe_x = context.array::<f32>("probe_x", &[count, probes, d])?.into_values();
        let exact = context.array::<f64>("exact_probe_log_ratio", &[count, probes])?.into_values();
        let source_x = context.array::<f32>("source_x", &[count, sources, d])?.into_values();
        let target_x = context.array::<f32>("target_x", &[count, targets, d])?.into_values();
        let (mut probing, mut from_source, mut from_target) =
            (stream("verification-probes"), stream("verification-source"), stream("verification-target"));
        steps(context, count, 1, "pairs", |range| {
            let pair = range.start;
            let one = ThetaPairs::from_values(pairs.values()[2 * p * pair..2 * p * (pair + 1)].to_vec(), p)?;
            let x = one.probes(&problem, n, &mut probing)?;
            exact[pair * probes..][..probes].copy_from_slice(&one.exact_log_ratio(&problem, &x)?);
            probe_x[pair * probes * d..][..probes * d].copy_from_slice(&x);
            let x = one.observe(&problem, Endpoint::Source, sources, &mut from_source)?;
            source_x[pair * sources * d..][..sources * d].copy_from_slice(&x);
            let x = one.observe(&problem, Endpoint::Target, targets, &mut from_target)?;
            target_x[pair * targets * d..][..targets * d].copy_from_slice(&x);
            Ok(())
        })?;
        let lines_of = directions(d, lines, &mut stream("verification-directions"));
        context.array::<f64>("directions", &[lines, d])?.values().copy_from_slice(&lines_of);
        context.metadata("ratio_orientation", &ORIENTATION)?;
        context.metadata("pairs", &count)?;
        context.metadata("shared_across_priors_and_training_replicas", &true)?;
        context.metadata("theta_design", &settings.pair_design)?;
        let source = match settings.pair_design {
            PairDesign::Grid => "`grid_step` of each parameter, whatever the prior",
            PairDesign::Uniform | PairDesign::Sobol => "none: points of the box",
        };
        context.metadata("grid_step_source", &source)?;
        Ok(())
    }
}
