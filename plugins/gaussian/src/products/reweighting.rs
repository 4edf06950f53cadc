//! The product `reweighting_distances`: how near source samples come to target samples when they are reweighted.

use serde_json::{Value, json};
use waycairn_analysis_api::{
    AnalysisError, BuildContext, Product, ProductDeclaration, ProductNeeds, Sources, Study,
};
use waycairn_gaussian::{Reweighted, Samples};

use super::step::{axes, steps};
use crate::sources::sources_of;

const SOURCES: Sources = sources_of!(
    ["src/products/reweighting.rs", "src/products/step.rs", "src/sources.rs", "src/study.rs"],
    [REWEIGHTING]
);

/// Sliced distances of all pairs, with learned, exact and equal weights.
#[derive(Debug)]
pub struct ReweightingDistances;

impl Product for ReweightingDistances {
    fn declare() -> ProductDeclaration {
        let what = "sliced Wasserstein-1 distances of reweighted source samples to target samples";
        let needs =
            ProductNeeds::default().product("verification_observations").product("verification_predictions");
        ProductDeclaration::new("reweighting_distances", 1, what).needs(needs).sources(SOURCES)
    }

    fn select(_: &Study<'_>) -> Result<Value, AnalysisError> {
        Ok(json!({}))
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        let observations = context.product("verification_observations")?;
        let predictions = context.product("verification_predictions")?;
        let [pairs, sources, dimension] = axes("source_x", observations.shape("source_x")?)?;
        let [_, targets, _] = axes("target_x", observations.shape("target_x")?)?;
        let (source, target) =
            (observations.array::<f32>("source_x")?, observations.array::<f32>("target_x")?);
        let learned = predictions.array::<f64>("source_log_ratio")?;
        let exact = predictions.array::<f64>("source_exact_log_ratio")?;
        let directions = observations.array::<f64>("directions")?;
        let names = ["learned_w1", "exact_w1", "unweighted_w1", "ess", "exact_ess"];
        let mut arrays = Vec::with_capacity(names.len());
        for name in names {
            arrays.push(context.array::<f64>(name, &[pairs])?.into_values());
        }
        steps(context, pairs, rayon::current_num_threads(), "pairs", |range| {
            let of = |width: usize| range.start * width..range.end * width;
            let found = Reweighted::new(&Samples {
                source: &source[of(sources * dimension)],
                target: &target[of(targets * dimension)],
                learned_log_ratio: &learned[of(sources)],
                exact_log_ratio: &exact[of(sources)],
                directions,
                dimension,
                pairs: range.len(),
            })?;
            let found = [found.learned_w1, found.exact_w1, found.unweighted_w1, found.ess, found.exact_ess];
            for (array, values) in arrays.iter_mut().zip(&found) {
                array[range.clone()].copy_from_slice(values);
            }
            Ok(())
        })?;
        let distance =
            "mean over directions of the area between the distribution functions of projected samples";
        context.metadata("distance", &distance)?;
        context.metadata("source_samples_per_pair", &sources)?;
        Ok(())
    }
}
