//! What the inference of a study will take, and where its scores will be.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use waycairn_analysis_api::{AnalysisError, Study};
use waycairn_gaussian::settings::{InferenceSettings, check_targets};
use waycairn_gaussian::{Prior, Workload, WorkloadInput};

use crate::study::{Posed, planned, section};

/// What a study's inference will be.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) posed: Posed,
    pub(crate) prior: Prior,
    pub(crate) settings: InferenceSettings,
    pub(crate) work: Workload,
    pub(crate) keeping: Keeping,
    /// Why it cannot be done.
    pub(crate) refused: Vec<String>,
}

impl Planned {
    pub(crate) fn of(study: &Study<'_>) -> Result<Self, AnalysisError> {
        let posed = Posed::read(study)?;
        let (prior, settings) = (posed.prior(study)?, section::<InferenceSettings>(study)?);
        let lattices = prior.lattices();
        let input = WorkloadInput {
            settings: &settings,
            dimension: posed.problem.dimension(),
            lattices: lattices.iter().map(|axis| axis.map(|lattice| lattice.count() as u64)).collect(),
        };
        let mut work = Workload::new(&input);
        let mut refused = work.exceeded(&input);
        let (metrics, plots) = (wanted(study, "metrics"), wanted(study, "plots"));
        refused.extend(
            check_targets(&settings.targets, &metrics, &plots).err().map(|faults| faults.to_string()),
        );
        let keeping = Keeping::of(&work);
        for count in [
            &mut work.inference_cases,
            &mut work.candidate_count_upper_bound,
            &mut work.inference_model_evaluations,
            &mut work.estimated_inference_bytes,
            &mut work.ensemble_score_bytes,
        ] {
            *count = planned(*count);
        }
        Ok(Self { posed, prior, settings, work, keeping, refused })
    }
}

/// The metrics or the plots of a study, by name.
fn wanted(study: &Study<'_>, list: &str) -> Vec<String> {
    let names = study.analysis.get(list).and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Where the ratio scores of an inference are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Keeping {
    /// In the product `ensemble_scores`.
    Kept,
    /// Nowhere: they are over `inference.max_score_bytes`, and computed where they are needed.
    Streamed,
    /// Nowhere, and nobody asks: the exact target alone is on.
    Unused,
}

impl Keeping {
    pub(crate) fn of(workload: &Workload) -> Self {
        match (workload.ensemble_scores_kept, workload.inference_model_evaluations) {
            (true, _) => Self::Kept,
            (false, 0) => Self::Unused,
            (false, _) => Self::Streamed,
        }
    }
}
