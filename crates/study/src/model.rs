//! The product `model`: the weights that a run ends with.

use std::path::Path;
use std::time::Instant;

use waycairn_cache::{Backend, Builder, Implementation, Recipe};
use waycairn_dag::Node;
use waycairn_durable::{Durability, StagedFile};
use waycairn_store::{NodeRow, ObjectReader, Order, Scalar, SortKey};
use waycairn_train::{
    Description, Experiments, ExportFormat, Progress, Status, Stop, TrainError, TrainReport, TrainRequest,
    export,
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::StudyError;
use crate::training::{Job, without_path};

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
    let settings = without_path(&job.settings);
    let selected = json!({ "settings": settings, "member": job.member, "data": description.data });
    let mut implementation = Implementation { version: VERSION, ..description.implementation.clone() };
    if let Some(lock) = crate::source::lock_file() {
        implementation = implementation.with_crates(lock, &NUMERIC)?;
    }
    Ok(Recipe::new(MODEL, experiment, &selected, implementation)?.with_backend(backend))
}

/// Trains, or finds a run that was trained already; its last checkpoint is there.
pub(crate) fn train(recipe: &Recipe, training: Training<'_>) -> Result<TrainReport, StudyError> {
    let Training { experiments, mut request, stop, progress, .. } = training;
    // Other code or another device is another run, though its settings are the same.
    request.model_key = Some(recipe.key()?.digest().to_string());
    let mut report = waycairn_train::train(experiments, &request, stop, progress)?;
    if report.status == Status::Skipped && report.checkpoint.as_ref() != Some(&report.node) {
        // It was trained to its end, and the checkpoint of its last step is gone: an older one is another model.
        tracing::warn!(node = %report.node, "the last checkpoint of a finished run is gone; it is trained once more");
        request.fresh = true;
        report = waycairn_train::train(experiments, &request, stop, progress)?;
    }
    if report.status == Status::Stopped {
        return Err(StudyError::Stopped { done: 0, of: 1 });
    }
    if report.checkpoint.as_ref() != Some(&report.node) {
        return Err(StudyError::NotFound {
            what: format!("the run {} ended without a checkpoint of its last step", report.node),
            next: "the same command trains it once more".to_owned(),
        });
    }
    Ok(report)
}

/// Trains, or takes the weights of a run that was trained already, and writes them.
pub(crate) fn build(builder: &Builder<'_>, training: Training<'_>) -> Result<(), StudyError> {
    let root = training.request.root.clone();
    let trained = training.trained.clone();
    let begin = Instant::now();
    let report = train(builder.recipe(), training)?;
    let took = begin.elapsed().as_secs_f64();
    let node = &report.node;
    let path = builder.file(WEIGHTS)?;
    let mut file = StagedFile::create(&path, Durability::Regenerable)?;
    export(&root, node, ExportFormat::Safetensors, &mut file)?;
    file.commit()?;
    builder.json("history", &history(&root, node)?)?;
    builder.metadata("node", node.address().as_str())?;
    builder.metadata("steps", &report.steps)?;
    if let Some(mut trained) = trained {
        // A run that had ended before is only read.
        if report.status != Status::Skipped {
            trained.seconds = trained.seconds.map(|before| before + took);
        }
        builder.metadata("trained", &trained)?;
    }
    Ok(())
}

/// What the run recorded on its way: the training loss at each report, and each validation.
fn history(root: &Path, node: &Node) -> Result<Value, TrainError> {
    let reader = ObjectReader::open(root)?;
    let losses = |key: &str| -> Result<Vec<Value>, TrainError> {
        let mut query = reader.query();
        query.name(node.name()).nonce(node.nonce()).has(key).sort(SortKey::Seq, Order::Ascending);
        let loss = |row: &NodeRow| {
            let loss = match row.fields.get(key) {
                Some(Scalar::Float(value)) if value.is_finite() => json!(value),
                _ => Value::Null,
            };
            json!({ "step": row.node.seq() + 1, "loss": loss })
        };
        Ok(query.select(&[key])?.value.iter().map(loss).collect())
    };
    Ok(json!({
        "train": losses("train/loss")?,
        "validation": losses("val/loss")?,
        "world_size": 1,
    }))
}
