//! Analyses of past nodes: restore, replay, run a plugin, attach. Nothing ticks.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::PathBuf;

use rayon::prelude::*;
use serde_json::Value;
use waycairn_analysis_host::{
    ForeignAnalysis, HostError, Outputs, Provenance, RunError, ScalarOut,
    SettingsError as AnalysisSettingsError, TensorView,
};
use waycairn_dag::Node;
use waycairn_durable::SharedLock;
use waycairn_store::{Attachment, NodeView, ObjectReader, ObjectStore, Scalar, StoreOptions};

use crate::checkpoint::Depth;
use crate::device::Compute;
use crate::error::{TrainError, chain};
use crate::experiment::Experiments;
use crate::hold::hold;
use crate::job::new_nonce;
use crate::past::{PastNode, Texts};
use crate::restore;

/// One launch of analyses.
#[derive(Clone, Debug)]
pub struct AnalyzeRequest {
    /// The output root.
    pub root: PathBuf,
    /// What to run, in this order.
    pub analyses: Vec<ForeignAnalysis>,
    /// The nodes; each must have a checkpoint.
    pub at: Vec<Node>,
    /// Settings of the analyses as path and text; each analysis must have all of them.
    pub sets: Vec<(String, String)>,
    /// Run again what was attached before.
    pub force: bool,
    /// The device.
    pub device: String,
    /// The user's tag.
    pub tag: Option<String>,
}

/// How one analysis of one node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnalyzeStatus {
    /// Its results are attached, and durable.
    Attached,
    /// The same analysis with the same settings was attached before.
    Skipped,
    /// It failed, and nothing is attached.
    Failed,
}

impl AnalyzeStatus {
    /// Returns the word that stands in `--format json`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Attached => "attached",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }
}

/// What the trainer's own fields begin with. An analysis of such a name would record over them.
const OWN_FIELDS: [&str; 7] = ["data", "job", "memory", "model", "time", "train", "val"];

/// What one analysis of one node brought.
#[derive(Clone, Debug)]
pub struct AnalyzeOutcome {
    /// The node.
    pub node: Node,
    /// The analysis.
    pub analysis: String,
    /// How it ended.
    pub status: AnalyzeStatus,
    /// Suffixes of the artifacts that were attached.
    pub artifacts: Vec<String>,
    /// Values that the analysis recorded, under their full keys.
    pub scalars: Vec<(String, Scalar)>,
    /// Names of the result files that were attached.
    pub files: Vec<String>,
    /// Why it failed.
    pub error: Option<String>,
}

/// Runs analyses on past nodes and attaches what they find to exactly those nodes.
///
/// For each node the checkpoint is opened and checked; weights are views of the mapped file, the
/// model is restored only if an analysis runs it, the batch is replayed only if one asks for it.
/// All outputs of an analysis become visible in one record, or none. No clock moves, and the
/// node's own metrics stay as they are. Nodes run in parallel.
///
/// # Errors
///
/// [`TrainError::NoCheckpoint`] for a node without one, before anything runs;
/// [`TrainError::Usage`] for a setting that an analysis does not have, and for an analysis that is called as
/// the trainer's own fields begin. What goes wrong with one
/// analysis of one node is in its outcome.
///
/// # Durability
///
/// When it returns, what was attached survives a loss of power.
pub fn analyze(
    experiments: &Experiments,
    request: &AnalyzeRequest,
) -> Result<Vec<AnalyzeOutcome>, TrainError> {
    let compute = Compute::choose(&request.device)?;
    let reader = ObjectReader::open(&request.root)?;
    let mut tasks = Vec::new();
    for analysis in &request.analyses {
        let name = analysis.declaration().name.as_str();
        if OWN_FIELDS.contains(&name) {
            return Err(TrainError::Usage {
                what: format!("the analysis `{name}` would record over the node's own fields `{name}/...`"),
                why: None,
                next: "its author must give it another name".to_owned(),
            });
        }
        let settings = analysis.settings_from_text(&request.sets);
        let provenance = analysis.provenance(&settings).map_err(usage)?;
        tasks.push(Task { analysis, settings, provenance });
    }
    let mut holds: Vec<(&Node, Option<SharedLock>)> = Vec::new();
    for node in &request.at {
        // Until everything is attached: the first look and the last may be hours apart.
        if !holds.iter().any(|(held, _)| held.same_run(node)) {
            holds.push((node, hold(&request.root, node)?));
        }
        if reader.checkpoint(node)?.is_none() {
            return Err(TrainError::NoCheckpoint {
                nearest: reader.nearest_checkpoints(node)?,
                node: node.clone(),
            });
        }
    }
    let options = StoreOptions {
        execution: Some(new_nonce()?.as_str().to_owned()),
        tag: request.tag.clone(),
        ..StoreOptions::default()
    };
    let store = ObjectStore::open(&request.root, options)?;
    let bench = Bench {
        experiments,
        compute,
        reader,
        store: &store,
        tasks: &tasks,
        force: request.force,
        texts: Texts::default(),
    };
    let outcomes: Vec<Vec<AnalyzeOutcome>> = request.at.par_iter().map(|node| bench.node(node)).collect();
    let closed = store.close();
    drop(holds);
    closed?;
    Ok(outcomes.into_iter().flatten().collect())
}

/// One analysis with its settings.
struct Task<'a> {
    analysis: &'a ForeignAnalysis,
    settings: Value,
    provenance: Provenance,
}

impl Task<'_> {
    fn name(&self) -> &str {
        &self.analysis.declaration().name
    }

    /// Whether the node's record says that this very analysis is attached.
    fn is_attached(&self, view: &NodeView) -> bool {
        let fields = self.provenance.fields(self.name());
        fields.iter().all(
            |(key, value)| matches!(view.fields.get(key), Some(Scalar::Text(recorded)) if recorded == value),
        )
    }
}

/// What the analyses of all nodes share.
struct Bench<'a> {
    experiments: &'a Experiments,
    compute: Compute,
    reader: ObjectReader,
    store: &'a ObjectStore,
    tasks: &'a [Task<'a>],
    force: bool,
    texts: Texts,
}

impl Bench<'_> {
    fn node(&self, node: &Node) -> Vec<AnalyzeOutcome> {
        let view = match self.reader.node(node) {
            Ok(view) => view,
            Err(error) => return self.all_failed(node, &error.into()),
        };
        let attached =
            |task: &&Task<'_>| !self.force && view.as_ref().is_some_and(|view| task.is_attached(view));
        let (skipped, wanted): (Vec<_>, Vec<_>) = self.tasks.iter().partition(attached);
        let mut outcomes: BTreeMap<&str, AnalyzeOutcome> = skipped
            .into_iter()
            .map(|task| (task.name(), outcome(node, task, AnalyzeStatus::Skipped)))
            .collect();
        if !wanted.is_empty() {
            let recorded = view.as_ref().and_then(|view| view.fields.get("data/batch_sha256"));
            match self.run(node, recorded, &wanted) {
                Ok(done) => outcomes.extend(done),
                Err(error) => return self.all_failed(node, &error),
            }
        }
        // In the order in which they were asked for.
        self.tasks.iter().filter_map(|task| outcomes.remove(task.name())).collect()
    }

    fn all_failed(&self, node: &Node, error: &TrainError) -> Vec<AnalyzeOutcome> {
        let mut text = chain(error);
        if let Some(next) = error.next() {
            text.push_str("; ");
            text.push_str(&next);
        }
        let failed = |task: &Task<'_>| AnalyzeOutcome {
            error: Some(text.clone()),
            ..outcome(node, task, AnalyzeStatus::Failed)
        };
        self.tasks.iter().map(failed).collect()
    }

    fn run<'t>(
        &self,
        node: &Node,
        recorded: Option<&Scalar>,
        tasks: &[&'t Task<'_>],
    ) -> Result<Vec<(&'t str, AnalyzeOutcome)>, TrainError> {
        let checkpoint = restore::open(&self.reader, node, Depth::Weights)?;
        let damaged = |source| TrainError::Checkpoint {
            node: node.clone(),
            older: None,
            root: self.reader.root().to_owned(),
            carried: String::new(),
            source: Box::new(source),
        };
        let file = checkpoint.model().map_err(damaged)?;
        let tensors = file.tensors().map_err(damaged)?;
        let mut parts: Vec<(&str, Vec<usize>, &str, &[u8])> = tensors
            .iter()
            .map(|(name, view)| (name, view.shape().to_vec(), numpy_name(view.dtype()), view.data()))
            .collect();
        parts.sort_by_key(|(name, ..)| *name);
        let views: Result<Vec<TensorView<'_>>, HostError> = parts
            .iter()
            .map(|(name, shape, dtype, bytes)| TensorView::with_dtype_name(name, dtype, shape, bytes))
            .collect();
        let host = PastNode {
            experiments: self.experiments,
            compute: &self.compute,
            reader: &self.reader,
            texts: &self.texts,
            node,
            parents: self.reader.parents(node)?,
            checkpoint: &checkpoint,
            recorded,
            weights: views,
            model: OnceCell::new(),
        };
        Ok(tasks.iter().map(|task| (task.name(), self.task(node, task, &host))).collect())
    }

    fn task(&self, node: &Node, task: &Task<'_>, host: &PastNode<'_>) -> AnalyzeOutcome {
        let done =
            task.analysis.run(host, &task.settings).map_err(|error| run_error(&error)).and_then(|outputs| {
                let key = |key: &str| format!("{}/{key}", task.name());
                let scalars =
                    outputs.scalars.iter().map(|(name, value)| (key(name), scalar(value.clone()))).collect();
                let attachment = attachment(task, outputs);
                let done = AnalyzeOutcome {
                    artifacts: attachment.artifacts.iter().map(|(suffix, _)| suffix.clone()).collect(),
                    files: attachment.files.iter().map(|(name, _)| name.clone()).collect(),
                    scalars,
                    ..outcome(node, task, AnalyzeStatus::Attached)
                };
                self.store.attach(node, attachment).map_err(|error| chain(&error))?;
                self.store.flush().map_err(|error| chain(&error))?;
                Ok(done)
            });
        done.unwrap_or_else(|error| AnalyzeOutcome {
            error: Some(error),
            ..outcome(node, task, AnalyzeStatus::Failed)
        })
    }
}

fn outcome(node: &Node, task: &Task<'_>, status: AnalyzeStatus) -> AnalyzeOutcome {
    AnalyzeOutcome {
        node: node.clone(),
        analysis: task.name().to_owned(),
        status,
        artifacts: Vec::new(),
        scalars: Vec::new(),
        files: Vec::new(),
        error: None,
    }
}

/// Puts the outputs of one run under the analysis's own names, with its provenance.
fn attachment(task: &Task<'_>, outputs: Outputs) -> Attachment {
    let name = task.name();
    let mut attachment = Attachment::default();
    for (key, value) in task.provenance.fields(name) {
        attachment.fields.push((key, value.into()));
    }
    for (key, value) in outputs.scalars {
        attachment.fields.push((format!("{name}/{key}"), scalar(value)));
    }
    for (suffix, description, payload) in outputs.artifacts {
        for (key, value) in description {
            attachment.fields.push((format!("{suffix}/{key}"), scalar(value)));
        }
        attachment.artifacts.push((suffix, payload));
    }
    for (file, _, bytes) in outputs.files {
        attachment.files.push((format!("{name}.{file}"), bytes));
    }
    attachment
}

fn scalar(value: ScalarOut) -> Scalar {
    match value {
        ScalarOut::Bool(value) => value.into(),
        ScalarOut::Int(value) => value.into(),
        ScalarOut::Float(value) => value.into(),
        ScalarOut::Text(value) => value.into(),
    }
}

fn usage(error: AnalysisSettingsError) -> TrainError {
    let list = "list the settings of an analysis with `waycairn plugins`".to_owned();
    match error {
        AnalysisSettingsError::Unknown { analysis, setting, nearest, known } => TrainError::Usage {
            what: format!("the analysis `{analysis}` has no setting `{setting}`"),
            why: Some(match known.as_slice() {
                [] => "it has no settings".to_owned(),
                known => format!("its settings are `{}`", known.join("`, `")),
            }),
            next: nearest.map_or(list, |name| format!("did you mean `{name}`?")),
        },
        AnalysisSettingsError::Type { analysis, setting, expected, found } => TrainError::Usage {
            what: format!("the setting `{setting}` of the analysis `{analysis}` cannot be {found}"),
            why: Some(format!("it must be {expected}")),
            next: list,
        },
        error => TrainError::Usage { what: chain(&error), why: None, next: list },
    }
}

fn run_error(error: &RunError) -> String {
    match error.backtrace() {
        Some(backtrace) => {
            tracing::debug!(%backtrace, "the backtrace of a panic in a plugin");
            chain(error)
        }
        None => chain(error),
    }
}

/// The name that NumPy has for a number format.
fn numpy_name(dtype: safetensors::Dtype) -> &'static str {
    match dtype {
        safetensors::Dtype::F64 => "float64",
        safetensors::Dtype::F32 => "float32",
        safetensors::Dtype::F16 => "float16",
        safetensors::Dtype::BF16 => "bfloat16",
        safetensors::Dtype::I64 => "int64",
        safetensors::Dtype::I32 => "int32",
        _ => "other",
    }
}

#[cfg(test)]
#[path = "inspect/tests.rs"]
mod tests;
