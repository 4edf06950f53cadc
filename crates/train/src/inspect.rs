//! Analyses of past nodes: restore, replay, run a plugin, attach. Nothing ticks.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rayon::prelude::*;
use serde_json::Value;
use waycairn_analysis_host::{
    ForeignAnalysis, Outputs, Provenance, RunError, ScalarOut, SettingsError as AnalysisSettingsError,
};
use waycairn_dag::Node;
use waycairn_durable::SharedLock;
use waycairn_store::{Attachment, NodeView, ObjectReader, ObjectStore, Scalar, StoreOptions};

use crate::any_experiment::Experiments;
use crate::device::Compute;
use crate::error::{TrainError, chain};
use crate::hold::hold;
use crate::job::new_nonce;
use crate::past::{self, PastNode, Texts};

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
    let reader = ObjectReader::open_live(&request.root)?;
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
        self.analysis.id()
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
        let shared = past::Shared {
            experiments: self.experiments,
            compute: &self.compute,
            reader: &self.reader,
            texts: &self.texts,
        };
        past::with_node(&shared, node, recorded, |host| {
            tasks.iter().map(|task| (task.name(), self.task(node, task, host))).collect()
        })
    }

    fn task(&self, node: &Node, task: &Task<'_>, host: &PastNode<'_>) -> AnalyzeOutcome {
        let done =
            task.analysis.run(host, &task.settings).map_err(|error| run_error(&error)).and_then(|outputs| {
                let key = |key: &str| format!("{}/{key}", task.name());
                let scalars =
                    outputs.scalars.iter().map(|(name, value)| (key(name), scalar(value.clone()))).collect();
                let attachment = attachment(task.name(), &task.provenance, outputs);
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

/// Puts the outputs of one analysis under its own names, with its provenance, as what is attached to a node.
///
/// Of a metric every number, truth value and short text is a scalar: `<metric>/<path>`, the path with `/` between its
/// steps, of an array the index. What is null, and texts above 200 bytes, are left out.
#[must_use]
pub fn attachment(name: &str, provenance: &Provenance, outputs: Outputs) -> Attachment {
    let mut attachment = Attachment::default();
    for (key, value) in provenance.fields(name) {
        attachment.fields.push((key, value.into()));
    }
    if let Some(metric) = &outputs.metric {
        leaves(name, metric, &mut attachment.fields);
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

/// The longest text of a metric that is recorded as a scalar.
const SHORT_TEXT: usize = 200;

fn leaves(path: &str, value: &Value, fields: &mut Vec<(String, Scalar)>) {
    let own = path.to_owned();
    match value {
        Value::Null => {}
        Value::Bool(value) => fields.push((own, (*value).into())),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => fields.push((own, whole.into())),
            (None, Some(value)) => fields.push((own, value.into())),
            (None, None) => {}
        },
        Value::String(text) if text.len() <= SHORT_TEXT => fields.push((own, text.as_str().into())),
        Value::String(_) => {}
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                leaves(&format!("{path}/{index}"), item, fields);
            }
        }
        Value::Object(entries) => {
            for (key, item) in entries {
                leaves(&format!("{path}/{key}"), item, fields);
            }
        }
    }
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
        AnalysisSettingsError::Unknown { owner, setting, nearest, known } => TrainError::Usage {
            what: format!("the {owner} has no setting `{setting}`"),
            why: Some(match known.as_slice() {
                [] => "it has no settings".to_owned(),
                known => format!("its settings are `{}`", known.join("`, `")),
            }),
            next: nearest.map_or(list, |name| format!("did you mean `{name}`?")),
        },
        AnalysisSettingsError::Type { owner, setting, expected, found } => TrainError::Usage {
            what: format!("the setting `{setting}` of the {owner} cannot be {found}"),
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

#[cfg(test)]
#[path = "inspect/tests.rs"]
mod tests;
