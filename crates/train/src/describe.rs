//! What a request would train, without training it: its settings, its data, the code that decides its numbers.

use serde::Serialize;
use waycairn_cache::{Implementation, Sources, sources};

use crate::any_experiment::Experiments;
use crate::data::Fingerprint;
use crate::device::Compute;
use crate::error::TrainError;

use crate::memory;
use crate::origin::Resolved;
use crate::settings::Settings;

/// The sources of the trainer that decide the numbers of every model. What decides only when something is saved,
/// shown or recorded is not among them.
const SOURCES: Sources = sources![
    "src/best.rs",
    "src/data/batch.rs",
    "src/data/embedded.rs",
    "src/data/error.rs",
    "src/data/fingerprint.rs",
    "src/data/order.rs",
    "src/data/plan.rs",
    "src/data/rows.rs",
    "src/data/stream.rs",
    "src/data/text.rs",
    "src/data/vocabulary.rs",
    "src/experiment.rs",
    "src/function.rs",
    "src/generator.rs",
    "src/learner.rs",
    "src/moments.rs",
    "src/optimizer.rs",
    "src/row_experiment.rs",
    "src/schedule.rs",
    "src/schema.rs",
    "src/settings.rs",
    "src/settled.rs",
    "src/weights.rs",
];

/// What a request would train.
#[derive(Clone, Debug)]
pub struct Description {
    /// The complete settings.
    pub settings: Settings,
    /// What of them decides the model.
    pub decides: serde_json::Value,
    /// What its batches are a function of.
    pub data: Fingerprint,
    /// The version of the experiment's computation.
    pub experiment_version: String,
    /// The type of device that computes: `cpu`.
    pub device: String,
    /// The library that computes.
    pub backend: String,
    /// The code that decides the numbers.
    pub implementation: Implementation,
    /// What products and analyses may call of the experiment, by name.
    pub functions: Vec<String>,
    /// The experiment's own sources among them.
    pub sources: Sources,
    /// Why it does not fit into memory, if it does not; a run that is finished need not.
    pub over_memory: Option<String>,
    /// What it will take.
    pub estimate: Estimate,
}

/// What a training takes, counted before it begins.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Optimizer steps.
    pub steps: u64,
    /// Tokens that are trained on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Rows that are trained on, of an experiment over rows of numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Trainable values.
    pub parameters: u64,
    /// Bytes of the weights, as they are saved.
    pub weight_bytes: u64,
    /// Bytes of memory that are held at once, at least.
    pub memory_bytes: u64,
}

/// Says what a request would train. It reads the data, and neither trains nor writes.
///
/// # Errors
///
/// [`TrainError`] for settings, data or a device that cannot be used.
pub fn describe(experiments: &Experiments, request: &crate::TrainRequest) -> Result<Description, TrainError> {
    let compute = Compute::choose(&request.device)?;
    let Resolved { experiment, settings, .. } = Resolved::new(experiments, request)?;
    let course = experiment.course(&settings)?;
    let facts = experiment.facts(&settings)?;
    let vocabulary = facts.vocabulary;
    let text = matches!(facts.fingerprint, Fingerprint::Text(_));
    let over_memory = match memory::check(experiment.as_ref(), &settings, vocabulary, memory::Use::Training) {
        Err(error @ TrainError::Memory { .. }) => Some(error.to_string()),
        checked => checked.map(|()| None)?,
    };
    let load = experiment.load(&settings, vocabulary)?;
    // Conversions from floats stop at the ends of the range.
    let parameters = load.parameters as u64;
    let mut implementation =
        Implementation::new(0).with_sources(&SOURCES).with_sources(&experiment.sources());

    implementation
        .crates
        .insert(format!("experiment {}", experiment.name()), experiment.version().to_owned());
    Ok(Description {
        estimate: Estimate {
            steps: course.steps,
            tokens: text.then_some(facts.counted),
            rows: (!text).then_some(facts.counted),
            parameters,
            weight_bytes: parameters.saturating_mul(4),
            memory_bytes: memory::training_bytes(&load) as u64,
        },
        decides: experiment.decides(&settings)?,
        settings,
        data: facts.fingerprint,
        functions: experiment.functions().iter().map(|function| function.name.to_owned()).collect(),
        sources: experiment.sources(),
        over_memory,
        experiment_version: experiment.version().to_owned(),
        device: compute.name().to_owned(),
        backend: compute.backend().to_owned(),
        implementation,
    })
}
