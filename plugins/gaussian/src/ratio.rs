//! Log ratios of two parameter points.

use waycairn_analysis_api::AnalysisError;
use waycairn_gaussian::{Endpoint, Network, ThetaPairs};

/// Which way ratios go.
pub(crate) const ORIENTATION: &str = "theta1 over theta0";

/// Both ends of the first pair as a network takes them.
pub(crate) fn ends(pairs: &ThetaPairs) -> [Vec<f32>; 2] {
    [Endpoint::Source, Endpoint::Target]
        .map(|end| pairs.point(0, end).iter().map(|value| *value as f32).collect())
}

/// The learned log ratio of the target over the source at each of many observations.
pub(crate) fn log_ratio(
    network: &Network,
    x: &[f32],
    [source, target]: &[Vec<f32>; 2],
) -> Result<Vec<f64>, AnalysisError> {
    let (below, mut ratio) = (network.logits(x, source)?, network.logits(x, target)?);
    ratio.iter_mut().zip(below).for_each(|(ratio, below)| *ratio -= below);
    Ok(ratio)
}
