//! A run of a study, opened: its model on a device, and its artifacts.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use waycairn_analysis_host::{DType, HostError, OwnedTensor};
use waycairn_cache::{Cache, Member};
use waycairn_dag::Address;
use waycairn_train::{Experiments, at_node};

use crate::error::StudyError;
use crate::record::{self, RecordedRun};

/// A run that was opened.
#[derive(Clone, Debug, Serialize)]
pub struct Restored {
    /// Its folder, from the root.
    pub path: String,
    /// The address of its last node.
    pub node: String,
    /// How many tensors the model has.
    pub tensors: usize,
    /// How many values they have together.
    pub values: u64,
    /// What the model answers for the batch of its node: names and shapes. Empty where that batch cannot be made again.
    pub outputs: BTreeMap<String, Vec<usize>>,
    /// Why there are no outputs.
    pub without_outputs: Option<String>,
    /// Its artifacts.
    pub artifacts: Vec<RestoredArtifact>,
}

/// One artifact of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RestoredArtifact {
    /// Its kind.
    pub product: String,
    /// Its key.
    pub key: String,
    /// Its folder, from the root.
    pub path: String,
    /// Its files.
    pub members: BTreeMap<String, Member>,
}

/// Opens a run: every artifact that it refers to is there with its sizes, and its model is loaded on a device and run on
/// the batch of its node. Where the text of that batch is not there any more it is run on a single token instead, to see
/// that it is whole.
///
/// # Errors
///
/// [`StudyError::NotFound`] for a run that there is not or that is not trained; [`StudyError::Cache`] for an artifact that is
/// damaged or gone; [`StudyError::Train`] for a model that cannot be loaded.
pub fn restore(
    experiments: &Experiments,
    root: &Path,
    text: &str,
    device: &str,
) -> Result<Restored, StudyError> {
    let run = RecordedRun::find(root, text)?;
    let address = run.run.node.as_deref().and_then(|node| node.parse::<Address>().ok());
    let node = address.map(|address| address.decode()).ok_or_else(|| StudyError::NotFound {
        what: format!("the run `{}` has not been trained", run.run.id),
        next: "train the study: `waycairn train`".to_owned(),
    })?;
    let cache = Cache::open(root)?;
    let mut artifacts = Vec::new();
    for (product, reference) in &run.artifacts.artifacts {
        let damaged =
            |what: String| StudyError::Damaged { path: root.join(&run.folder).join(record::ARTIFACTS), what };
        let (_, key) = reference.entry(product).map_err(damaged)?;
        let artifact = cache.artifact_of_key(product, &key)?;
        artifacts.push(RestoredArtifact {
            product: product.clone(),
            key: reference.key.clone(),
            path: reference.path.clone(),
            members: artifact.files().clone(),
        });
    }
    let told = |error: HostError| StudyError::Products { what: format!("the model cannot be run: {error}") };
    let (tensors, values, outputs, without_outputs) = at_node(experiments, root, &node, device, |host| {
        let weights = host.weights().map_err(told)?;
        let values = weights.iter().map(|view| view.shape().iter().product::<usize>() as u64).sum();
        let tensors = weights.len();
        match host.batch() {
            Ok(batch) => {
                let outputs = host.forward(&batch).map_err(told)?;
                let outputs =
                    outputs.iter().map(|tensor| (tensor.name().to_owned(), tensor.view().shape().to_vec()));
                Ok::<_, StudyError>((tensors, values, outputs.collect(), None))
            }
            Err(error) => {
                let token = OwnedTensor::new("tokens".to_owned(), DType::I32, vec![1, 1], vec![0; 4]);
                host.forward(&[token.map_err(told)?]).map_err(told)?;
                Ok((tensors, values, BTreeMap::new(), Some(error.to_string())))
            }
        }
    })??;
    Ok(Restored {
        path: run.folder.display().to_string(),
        node: node.address().to_string(),
        tensors,
        values,
        outputs,
        without_outputs,
        artifacts,
    })
}
