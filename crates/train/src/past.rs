//! One past node as its analyses see it.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use waycairn_analysis_host::{
    AnalysisHost, DType, HostError, NodeInfo, OwnedTensor, RecordBatchReader, TensorView,
};
use waycairn_dag::Node;
use waycairn_durable::Digest;
use waycairn_store::{Expr, ObjectReader, Scalar};

use crate::any_experiment::{AnyExperiment, Experiments};
use crate::call::{Call, Extents};
use crate::checkpoint::{Checkpoint, Depth};
use crate::data::{AnyBatch, Data, Reading, Source, TextData, Vocabulary, Whole};
use crate::device::Compute;
use crate::error::{TrainError, chain};
use crate::function::{self, Answer, Given, Signature};
use crate::hold::hold;
use crate::language;
use crate::learner::Learner;
use crate::memory;
use crate::restore::{self, Want};
use crate::settings::Settings;

/// Texts by source and vocabulary: nodes of one run share theirs.
#[derive(Debug, Default)]
pub(crate) struct Texts(Mutex<BTreeMap<(String, Digest), Arc<TextData>>>);

impl Texts {
    fn open(&self, source: &str, vocabulary: &Vocabulary, share: f64) -> Result<Arc<TextData>, HostError> {
        let digest = vocabulary.digest().map_err(|error| HostError::failed(error.to_string()))?;
        let mut texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = texts.get(&(source.to_owned(), digest)) {
            return Ok(Arc::clone(text));
        }
        let reading = Reading::Given(vocabulary.clone());
        let text = TextData::open(&Source::parse(source), reading, share).map_err(|error| {
            HostError::unavailable(format!("{}; the text is the one that `data.source` names", chain(&error)))
        })?;
        let text = Arc::new(text);
        texts.insert((source.to_owned(), digest), Arc::clone(&text));
        Ok(text)
    }
}

/// One node as its analyses see it.
pub(crate) struct PastNode<'a> {
    pub(crate) experiments: &'a Experiments,
    pub(crate) compute: &'a Compute,
    pub(crate) reader: &'a ObjectReader,
    pub(crate) texts: &'a Texts,
    pub(crate) node: &'a Node,
    pub(crate) parents: Vec<Node>,
    pub(crate) checkpoint: &'a Checkpoint,
    /// What training recorded as `data/batch_sha256`.
    pub(crate) recorded: Option<&'a Scalar>,
    pub(crate) weights: Result<Vec<TensorView<'a>>, HostError>,
    /// Restored when an analysis first runs it.
    pub(crate) model: OnceCell<Result<Restored, HostError>>,
}

/// The model of a past node.
pub(crate) struct Restored {
    pub(crate) learner: Box<dyn Learner>,
    /// Rows that it is given at once: the same on every machine.
    pub(crate) rows: usize,
}

/// What the nodes of one launch share.
pub(crate) struct Shared<'a> {
    pub(crate) experiments: &'a Experiments,
    pub(crate) compute: &'a Compute,
    pub(crate) reader: &'a ObjectReader,
    pub(crate) texts: &'a Texts,
}

/// Opens a past node for a while: its weights are mapped, everything else is made when it is asked for. `recorded` is
/// what training recorded as `data/batch_sha256`.
pub(crate) fn with_node<R>(
    shared: &Shared<'_>,
    node: &Node,
    recorded: Option<&Scalar>,
    body: impl FnOnce(&PastNode<'_>) -> R,
) -> Result<R, TrainError> {
    let checkpoint = restore::open(shared.reader, node, Depth::Weights)?;
    let damaged = |source| TrainError::Checkpoint {
        node: node.clone(),
        older: None,
        root: shared.reader.root().to_owned(),
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
        experiments: shared.experiments,
        compute: shared.compute,
        reader: shared.reader,
        texts: shared.texts,
        node,
        parents: shared.reader.parents(node)?,
        checkpoint: &checkpoint,
        recorded,
        weights: views,
        model: OnceCell::new(),
    };
    Ok(body(&host))
}

/// Opens a past node for analyses and products of a caller's own. The clock does not move, and nothing is written.
///
/// # Errors
///
/// [`TrainError`] for a node whose checkpoint is not there or damaged, and for a device that cannot be used.
pub fn at_node<R>(
    experiments: &Experiments,
    root: &Path,
    node: &Node,
    device: &str,
    body: impl FnOnce(&dyn AnalysisHost) -> R,
) -> Result<R, TrainError> {
    let (compute, reader) = (Compute::choose(device)?, ObjectReader::open_live(root)?);
    let view = reader.node(node)?;
    let recorded = view.as_ref().and_then(|view| view.fields.get("data/batch_sha256"));
    let _hold = hold(root, node)?;
    let shared = Shared { experiments, compute: &compute, reader: &reader, texts: &Texts::default() };
    with_node(&shared, node, recorded, |host| body(host))
}

impl PastNode<'_> {
    fn experiment(&self) -> Result<Arc<dyn AnyExperiment>, HostError> {
        let name = self.checkpoint.job().experiment.as_str();
        self.experiments.find(Some(name)).map_err(|error| HostError::unavailable(error.to_string()))
    }

    fn settings(&self) -> Result<Settings, HostError> {
        let experiment = self.experiment()?;
        let origin = format!("`{}`", self.checkpoint.config_path().display());
        Settings::defaults(experiment.schema())
            .with_toml(self.checkpoint.config(), &origin)
            .map_err(|error| HostError::unavailable(error.to_string()))
    }

    /// Makes the batch of this position again.
    pub(crate) fn replay(&self) -> Result<AnyBatch, HostError> {
        let settings = self.settings()?;
        let invalid = |error: crate::settings::SettingsError| HostError::failed(error.to_string());
        let data: Arc<dyn Data> = match self.checkpoint.vocabulary() {
            Some(vocabulary) => {
                let source = settings.text("data.source").map_err(invalid)?;
                let share = settings.number("data.split").map_err(invalid)?;
                let text = self.texts.open(source, vocabulary, share)?;
                Arc::new(language::stream(&settings, text).map_err(|error| HostError::failed(chain(&error)))?)
            }
            None => {
                self.experiment()?.open(&settings, None).map_err(|error| HostError::failed(chain(&error)))?
            }
        };
        let loader = &self.checkpoint.state().loader;
        data.fingerprint()
            .check(&loader.fingerprint, Whole::Yes)
            .map_err(|error| HostError::unavailable(error.to_string()))?;
        let batch = data.batch(loader.position);
        match self.recorded {
            Some(Scalar::Text(recorded)) if *recorded != batch.sha256().to_string() => {
                Err(HostError::failed(format!(
                    "the batch of position {} is not the one that was recorded",
                    loader.position
                )))
            }
            _ => Ok(batch),
        }
    }

    /// Checks the inputs of a call, and then runs it in blocks of rows.
    fn compute(
        &self,
        signature: &Signature,
        inputs: &[OwnedTensor],
        compute: impl Fn(&dyn Learner, &[Given<'_>]) -> Option<Vec<Answer>>,
    ) -> Result<Vec<OwnedTensor>, HostError> {
        let settings = self.settings()?;
        let experiment = self.experiment()?;
        let named = |name: &str| experiment.extent(&settings, name);
        let extents = Extents { settings: &settings, vocabulary: self.checkpoint.tokens(), named: &named };
        let call = Call::new(signature, inputs, &extents)?;
        let model = self.model()?;
        call.run(model.rows, |given| compute(model.learner.as_ref(), given))
    }

    pub(crate) fn model(&self) -> Result<&Restored, HostError> {
        let model = self.model.get_or_init(|| {
            let unavailable = |error: &dyn std::error::Error| HostError::unavailable(chain(error));
            let experiment = self.experiment()?;
            let vocabulary = self.checkpoint.tokens();
            let settings = self.settings()?;
            memory::check(experiment.as_ref(), &settings, vocabulary, memory::Use::Reading)
                .map_err(|error| unavailable(&error))?;
            let mut learner = experiment
                .learner(&settings, vocabulary, self.compute.device())
                .map_err(|error| unavailable(&error))?;
            restore::restore(self.reader, self.node, self.checkpoint, learner.as_mut(), Want::Weights)
                .map_err(|error| unavailable(&error))?;
            let load = experiment.load(&settings, vocabulary).map_err(|error| unavailable(&error))?;
            Ok(Restored { learner, rows: function::block_rows(memory::row_bytes(&load), load.block) })
        });
        model.as_ref().map_err(Clone::clone)
    }
}

impl AnalysisHost for PastNode<'_> {
    /// The number of this program's own pool, which `runtime.cpu_threads` and `--threads` set.
    fn threads(&self) -> usize {
        rayon::current_num_threads()
    }

    fn node(&self) -> NodeInfo {
        NodeInfo {
            name: self.node.name().to_owned(),
            nonce: self.node.nonce().to_owned(),
            seq: self.node.seq(),
            address: self.node.address().to_string(),
        }
    }

    fn parents(&self) -> Vec<String> {
        self.parents.iter().map(|parent| parent.address().to_string()).collect()
    }

    fn experiment_settings(&self) -> Value {
        let table: Option<toml::Table> = self.checkpoint.config().parse().ok();
        table.and_then(|table| serde_json::to_value(table).ok()).unwrap_or(Value::Null)
    }

    fn weights(&self) -> Result<&[TensorView<'_>], HostError> {
        self.weights.as_deref().map_err(Clone::clone)
    }

    fn batch(&self) -> Result<Vec<OwnedTensor>, HostError> {
        let tensors = self.replay()?.tensors();
        tensors
            .into_iter()
            .map(|tensor| {
                let dtype = if tensor.dtype == "I32" { DType::I32 } else { DType::F32 };
                OwnedTensor::new(tensor.name, dtype, tensor.shape, tensor.bytes)
            })
            .collect()
    }

    /// Over tokens it takes `tokens`, `[rows, time]` of a whole-number type, and gives `logits`, `[rows, time, vocabulary]`;
    /// over rows of numbers what the experiment says. Other inputs are ignored, so that a whole batch can be given.
    ///
    /// The model is given a batch of the training's size at a time, fewer rows where their activations would take more
    /// than a fixed number of bytes: activations are many times larger than what goes in and comes out. Where a row lies
    /// changes nothing of its logits, but the last bits may differ with the number of rows that are computed together.
    /// So that number follows from the model alone, and equal inputs give equal bits.
    fn forward(&self, inputs: &[OwnedTensor]) -> Result<Vec<OwnedTensor>, HostError> {
        let forward = self.experiment()?.forward();
        let known = |input: &&OwnedTensor| forward.inputs.iter().any(|port| port.name == input.name());
        let inputs: Vec<OwnedTensor> = inputs.iter().filter(known).cloned().collect();
        self.compute(&forward, &inputs, |learner, given| learner.forward(given))
    }

    /// The rows are computed as those of [`forward`](Self::forward).
    fn call(&self, function: &str, inputs: &[OwnedTensor]) -> Result<Vec<OwnedTensor>, HostError> {
        let functions = self.experiment()?.functions();
        let signature = functions.iter().find(|known| known.name == function).ok_or_else(|| {
            let known: Vec<&str> = functions.iter().map(|known| known.name).collect();
            let known =
                if known.is_empty() { "none".to_owned() } else { format!("`{}`", known.join("`, `")) };
            HostError::unavailable(format!(
                "the experiment `{}` has no function `{function}`; it has {known}",
                self.checkpoint.job().experiment
            ))
        })?;
        self.compute(signature, inputs, |learner, given| learner.call(function, given))
    }

    fn functions(&self) -> Option<Vec<String>> {
        let functions = self.experiment().ok()?.functions();
        Some(functions.iter().map(|function| function.name.to_owned()).collect())
    }

    fn scalars(
        &self,
        expression: &str,
        keys: &[String],
    ) -> Result<Box<dyn RecordBatchReader + Send>, HostError> {
        let mut query = self.reader.query();
        if !expression.trim().is_empty() {
            query.expression(Expr::parse(expression).map_err(|error| HostError::invalid(chain(&error)))?);
        }
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let table = query.batches(&keys).map_err(|error| HostError::failed(chain(&error)))?;
        Ok(table.into_reader())
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
