//! The experiments of a binary, whatever they are over: what the trainer needs of each of them.

use std::sync::Arc;

use burn::tensor::Device;
use waycairn_cache::Sources;
use waycairn_dag::Node;
use waycairn_store::ObjectReader;

use crate::course::Course;
use crate::data::{Data, Fingerprint, Vocabulary};
use crate::error::TrainError;
use crate::experiment::{Cohort, Experiment};
use crate::function::Signature;
use crate::language::Language;
use crate::learner::Learner;
use crate::of_rows::OfRows;
use crate::row_experiment::RowExperiment;
use crate::schema::Key;
use crate::settings::{Preset, Schema, Settings, SettingsError};

/// The experiments that a binary has.
///
/// ```
/// use waycairn_train::{Experiments, Gpt, experiments};
///
/// let known: Experiments = experiments![Gpt];
/// assert_eq!(known.names(), ["gpt"]);
/// ```
#[derive(Clone, Default)]
pub struct Experiments {
    all: Vec<Arc<dyn AnyExperiment>>,
}

impl Experiments {
    /// Starts without any.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one; a later one of the same name wins.
    #[must_use]
    pub fn with<E: Experiment>(mut self, experiment: E) -> Self {
        self.all.retain(|known| known.name() != experiment.name());
        self.all.push(Arc::new(Language(Arc::new(experiment))));
        self
    }

    /// Adds one over rows of numbers; a later one of the same name wins.
    #[must_use]
    pub fn with_rows<E: RowExperiment>(mut self, experiment: E) -> Self {
        self.all.retain(|known| known.name() != experiment.name());
        self.all.push(Arc::new(OfRows(Arc::new(experiment))));
        self
    }

    /// What the members of a study of an experiment differ in, besides their seeds.
    #[must_use]
    pub fn cohort(&self, experiment: &str) -> Option<Cohort> {
        self.all.iter().find(|known| known.name() == experiment)?.cohort()
    }

    /// Returns the names in order.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.all.iter().map(|known| known.name()).collect()
    }

    /// Finds one by name, or the first when none is named.
    pub(crate) fn find(&self, name: Option<&str>) -> Result<Arc<dyn AnyExperiment>, SettingsError> {
        let found = match name {
            None => self.all.first(),
            Some(name) => self.all.iter().find(|known| known.name() == name),
        };
        found.cloned().ok_or_else(|| SettingsError::UnknownExperiment {
            name: name.unwrap_or("(none)").to_owned(),
            known: self.names().into_iter().map(str::to_owned).collect(),
        })
    }

    /// Lists name, settings, presets and functions of each experiment.
    #[must_use]
    pub fn describe(&self) -> Vec<ExperimentDescription> {
        self.all
            .iter()
            .map(|known| ExperimentDescription {
                name: known.name(),
                version: known.version(),
                keys: known.keys(),
                schema: known.schema(),
                presets: known.presets(),
                functions: known.functions(),
            })
            .collect()
    }
}

impl std::fmt::Debug for Experiments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// What an experiment says about itself.
#[derive(Clone, Debug)]
pub struct ExperimentDescription {
    /// Its name.
    pub name: &'static str,
    /// The version of its computation.
    pub version: &'static str,
    /// The settings that only it has.
    pub keys: Vec<Key>,
    /// All of its settings.
    pub schema: Schema,
    /// Its presets, the default one first.
    pub presets: Vec<Preset>,
    /// What analyses and products may call.
    pub functions: Vec<Signature>,
}

/// Lists the experiments of a binary: `experiments![Gpt, Mine]`.
#[macro_export]
macro_rules! experiments {
    ($($experiment:expr),* $(,)?) => {
        $crate::Experiments::new()$(.with($experiment))*
    };
}

/// What a training is of, known without making its data.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// The number of tokens of a vocabulary; 0 where the data has none.
    pub(crate) vocabulary: usize,
    /// Tokens or rows that are trained on.
    pub(crate) counted: u64,
    pub(crate) fingerprint: Fingerprint,
}

/// What a training takes of memory, as counts of 32-bit values. Floats, so that no size overflows them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load {
    /// Trainable values.
    pub(crate) parameters: f64,
    /// Activations of one row of a batch, at least.
    pub(crate) row: f64,
    /// Rows of a micro-batch.
    pub(crate) rows: f64,
    /// What is held of the data.
    pub(crate) data: f64,
    /// The settings that decide it.
    pub(crate) settings: Vec<&'static str>,
    /// Those that decide what a model takes that is only read.
    pub(crate) reading_settings: Vec<&'static str>,
    /// Rows that are given to a model at once, at most, when it is only read.
    pub(crate) block: usize,
}

/// An experiment of any kind whose model type is hidden, so that one trainer serves them all.
pub(crate) trait AnyExperiment: Send + Sync {
    fn name(&self) -> &'static str;
    fn version(&self) -> &'static str;
    /// The settings that only it has.
    fn keys(&self) -> Vec<Key>;
    /// All of its settings.
    fn schema(&self) -> Schema;
    fn presets(&self) -> Vec<Preset>;
    fn functions(&self) -> Vec<Signature>;
    /// What [`Learner::forward`] takes and gives.
    fn forward(&self) -> Signature;
    /// Whether it can continue a text.
    fn samples(&self) -> bool;
    /// The extent of a named axis.
    fn extent(&self, settings: &Settings, name: &str) -> Option<usize>;
    fn sources(&self) -> Sources;
    fn cohort(&self) -> Option<Cohort>;
    /// Refuses settings that contradict each other.
    fn check(&self, settings: &Settings) -> Result<(), SettingsError>;
    /// What of the settings decides the model.
    fn decides(&self, settings: &Settings) -> Result<serde_json::Value, SettingsError>;
    fn course(&self, settings: &Settings) -> Result<Course, SettingsError>;
    /// The setting that says how long it is trained.
    fn length(&self, settings: &Settings) -> Option<&'static str>;
    fn facts(&self, settings: &Settings) -> Result<Facts, TrainError>;
    /// Reads or makes the data; a text with the vocabulary of a checkpoint, where there is one of the same kind.
    fn open(&self, settings: &Settings, kept: Option<&Vocabulary>) -> Result<Arc<dyn Data>, TrainError>;
    fn load(&self, settings: &Settings, vocabulary: usize) -> Result<Load, SettingsError>;
    /// Makes a model with initial weights and an optimizer without state.
    fn learner(
        &self,
        settings: &Settings,
        vocabulary: usize,
        device: &Device,
    ) -> Result<Box<dyn Learner>, SettingsError>;
    /// What the run of a node recorded on its way.
    fn history(
        &self,
        reader: &ObjectReader,
        node: &Node,
        settings: &Settings,
    ) -> Result<serde_json::Value, TrainError>;
}

#[cfg(test)]
pub(crate) fn shared<E: Experiment>(experiment: E) -> impl AnyExperiment {
    Language(Arc::new(experiment))
}
