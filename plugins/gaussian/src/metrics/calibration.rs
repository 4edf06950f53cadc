//! The metrics `simulation_based_calibration` and `tarp`: whether posteriors are as wide as they say.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration, Needs, ProductView, Sources};
use waycairn_gaussian::metrics::{Calibration, ExpectedCoverage};

use crate::sources::sources_of;

const SOURCES: Sources = sources_of!(["src/metrics/calibration.rs", "src/sources.rs"], [METRICS]);

const BAND: &str = "analysis.calibration.band_probability";
const LEVELS: &str = "analysis.calibration.levels";

/// What is measured of the learned posterior, and the same of the exact one on the same candidates: what that misses is not
/// the network's fault.
#[derive(Serialize)]
struct Answer<M> {
    #[serde(flatten)]
    learned: M,
    exact_posterior: M,
}

/// A setting of the study.
fn setting<T: for<'de> Deserialize<'de>>(context: &Context<'_>, path: &str) -> Result<T, AnalysisError> {
    let value = path.split('.').try_fold(context.study(), |at, step| at.get(step)).unwrap_or(&Value::Null);
    T::deserialize(value).map_err(|error| AnalysisError::new(format!("`{path}` is {value}: {error}")))
}

fn declaration(name: &str, what: &str, needs: Needs) -> Declaration {
    let needs = needs.product("calibration_scores").study(BAND);
    Declaration::new(name, env!("CARGO_PKG_VERSION"), what).metric().needs(needs).sources(SOURCES)
}

/// Ranks of truths in their posteriors.
#[derive(Debug, Default)]
pub struct SimulationBasedCalibration;

impl Analysis for SimulationBasedCalibration {
    fn declare() -> Declaration {
        let what = "whether the ranks of the prior's draws in their posteriors are uniform";
        declaration("simulation_based_calibration", what, Needs::default())
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let scores = context.product("calibration_scores")?;
        let band: f64 = setting(context, BAND)?;
        let of = |name: &str| {
            let parameters = scores.shape(name)?.last().copied().unwrap_or_default();
            Ok::<_, AnalysisError>(Calibration::new(scores.array::<f64>(name)?, parameters, band)?.0)
        };
        let answer = Answer { learned: of("rank_share")?, exact_posterior: of("exact_rank_share")? };
        Ok(context.emit_metric(&answer)?)
    }
}

/// Expected coverage by distances to random points.
#[derive(Debug, Default)]
pub struct Tarp;

impl Analysis for Tarp {
    fn declare() -> Declaration {
        let what = "expected coverage of the prior's draws by distances to random points (TARP)";
        declaration("tarp", what, Needs::default().study(LEVELS))
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let scores: ProductView<'_> = context.product("calibration_scores")?;
        let (band, levels): (f64, Vec<f64>) = (setting(context, BAND)?, setting(context, LEVELS)?);
        let of = |name: &str| {
            Ok::<_, AnalysisError>(ExpectedCoverage::new(scores.array::<f64>(name)?, &levels, band)?.0)
        };
        let answer = Answer { learned: of("nearer_mass")?, exact_posterior: of("exact_nearer_mass")? };
        Ok(context.emit_metric(&answer)?)
    }
}
