//! The product `model`: the weights that a run ends with.

use std::time::Instant;

use waycairn_cache::{Backend, Builder, Implementation, Recipe};
use waycairn_durable::{Durability, StagedFile};
use waycairn_store::ObjectReader;
use waycairn_train::{
    Description, Experiments, ExportFormat, Progress, Settings, Status, Stop, TrainError, TrainReport,
    TrainRequest, export, model_history,
};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::StudyError;
use crate::training::Job;

/// The name of the product; no other may have it.
pub(crate) const MODEL: &str = "model";

pub(crate) const WEIGHTS: &str = "weights.safetensors";

/// Raised when what a training computes changes and no declared source or crate tells so: the order of a step's
/// parts in the trainer's loop, say, whose file also decides what is shown and recorded.
const VERSION: u32 = 1;

/// The crates that compute a model's numbers.
const NUMERIC: [&str; 5] = ["burn", "burn-flex", "burn-tensor", "gemm", "rand_chacha"];

/// What a builder is given besides its recipe: nothing here decides the bytes.
pub(crate) struct Training<'launch> {
    pub(crate) experiments: &'launch Experiments,
    pub(crate) request: TrainRequest,
    /// The settings of the run.
    pub(crate) settings: Settings,
    /// Who trains it, when, and from which sources.
    pub(crate) trained: Option<Trained>,
    pub(crate) stop: &'launch Stop,
    pub(crate) progress: &'launch mut dyn Progress,
}

/// The circumstances of a training, in the metadata of its model: whoever finds it later records them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Trained {
    /// The machine.
    pub(crate) host: String,
    /// When its launch began: RFC 3339, UTC.
    pub(crate) started: String,
    /// The archive of the sources, from the root.
    pub(crate) source: String,
    /// Seconds that it took, in all its sessions; `None` where one of them was killed, and nobody knows.
    #[serde(default)]
    pub(crate) seconds: Option<f64>,
}

/// The recipe of a run's model.
///
/// The path of the text is not in it, and its content is: a text that moved is the same text.
pub(crate) fn recipe(
    experiment: &str,
    job: &Job,
    description: &Description,
    backend: Backend,
) -> Result<Recipe, StudyError> {
    let selected = json!({ "settings": description.decides, "member": job.member, "data": description.data });
    let mut implementation = Implementation { version: VERSION, ..description.implementation.clone() };
    if let Some(lock) = crate::source::lock_file() {
        implementation = implementation.with_crates(lock, &NUMERIC)?;
    }
    Ok(Recipe::new(MODEL, experiment, &selected, implementation)?.with_backend(backend))
}

/// Trains, or finds a run that was trained already; the checkpoint that its model is taken from is there.
pub(crate) fn train(recipe: &Recipe, training: Training<'_>) -> Result<TrainReport, StudyError> {
    let Training { experiments, mut request, stop, progress, .. } = training;
    // Other code or another device is another run, though its settings are the same.
    request.model_key = Some(recipe.key()?.digest().to_string());
    let mut report = waycairn_train::train(experiments, &request, stop, progress)?;
    let there = |report: &TrainReport| -> Result<bool, StudyError> {
        let reader = ObjectReader::open_live(&request.root).map_err(TrainError::from)?;
        Ok(reader.checkpoint(&report.selected).map_err(TrainError::from)?.is_some())
    };
    if report.status == Status::Skipped && !there(&report)? {
        // It was trained to its end, and the checkpoint that its model is taken from is gone: another one is another model.
        tracing::warn!(node = %report.selected, "the checkpoint of a finished run is gone; it is trained once more");
        request.fresh = true;
        report = waycairn_train::train(experiments, &request, stop, progress)?;
    }
    if report.status == Status::Stopped {
        return Err(StudyError::Stopped { done: 0, of: 1 });
    }
    if !there(&report)? {
        return Err(StudyError::NotFound {
            what: format!(
                "the run {} ended without the checkpoint that its model is taken from",
                report.selected
            ),
            next: "the same command trains it once more".to_owned(),
        });
    }
    Ok(report)
}

/// Trains, or takes the weights of a run that was trained already, and writes them.
pub(crate) fn build(builder: &Builder<'_>, training: Training<'_>) -> Result<(), StudyError> {
    let root = training.request.root.clone();
    let (experiments, settings) = (training.experiments, training.settings.clone());
    let trained = training.trained.clone();
    let begin = Instant::now();
    let report = train(builder.recipe(), training)?;
    let took = begin.elapsed().as_secs_f64();
    let node = &report.selected;
    let path = builder.file(WEIGHTS)?;
    let mut file = StagedFile::create(&path, Durability::Regenerable)?;
    export(&root, node, ExportFormat::Safetensors, &mut file)?;
    file.commit()?;
    builder.json(
        "history",
        &model_history(experiments, &root, node, &builder.recipe().experiment, &settings)?,
    )?;
    builder.metadata("node", node.address().as_str())?;
    builder.metadata("steps", &report.steps)?;
    builder.metadata("model_seed", &settings.integer("seed").map_err(TrainError::from)?)?;
    if let Some(mut trained) = trained {
        // A run that had ended before is only read.
        if report.status != Status::Skipped {
            trained.seconds = trained.seconds.map(|before| before + took);
        }
        builder.metadata("trained", &trained)?;
    }
    Ok(())
}
