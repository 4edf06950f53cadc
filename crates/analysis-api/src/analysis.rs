//! What an author implements and declares.

use serde::Serialize;
use serde_json::Value;

use crate::context::Context;
use crate::error::AnalysisError;
use crate::sources::Sources;

/// One computation about one node.
///
/// # Contract
/// - The value is made by `Default` for each call and dropped after it; nothing is kept from node to node.
/// - [`Analysis::declare`] has no effects: it may be called at any time, also when nothing is ever analysed.
/// - [`Analysis::analyze`] may be called for several nodes at once, each on its own thread with its own value.
/// - What was emitted counts only if the call returns `Ok`, and then all of it counts.
/// - A panic in any of the three (construction, call, drop) is an error of this analysis at this node.
pub trait Analysis: Default {
    /// Says what the analysis is called, which settings it has, and what it needs.
    fn declare() -> Declaration;

    /// Looks at one node and emits what it found.
    ///
    /// # Errors
    /// Whatever keeps it from an answer. Then nothing that it emitted is kept.
    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError>;
}

/// What an analysis says about itself, before anything is loaded for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Declaration {
    /// Lower-case letters, digits, `_` and `-`; recorded scalars are called `<name>/<key>`.
    pub name: String,
    /// The version of the computation: with other results comes another version.
    pub version: String,
    /// One line for a person.
    pub description: String,
    /// A JSON object of every setting with its default; the default fixes the type.
    pub settings: Value,
    /// What the host has to prepare.
    pub needs: Needs,
    /// What a study expects of it.
    #[serde(skip_serializing_if = "Kind::is_analysis")]
    pub kind: Kind,
    /// The source files that decide its results.
    #[serde(skip_serializing_if = "Sources::is_empty")]
    pub sources: Sources,
}

/// What a study expects of an analysis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Kind {
    /// Nothing in particular.
    #[default]
    Analysis,
    /// One JSON value, by [`Context::emit_metric`].
    Metric,
    /// Figures, at least one, by [`Context::emit_figure`].
    Plot,
}

impl Kind {
    fn is_analysis(&self) -> bool {
        *self == Self::Analysis
    }
}

impl Declaration {
    /// A declaration without settings and needs.
    pub fn new(name: impl Into<String>, version: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            description: description.into(),
            settings: Value::Object(serde_json::Map::new()),
            needs: Needs::default(),
            kind: Kind::Analysis,
            sources: Sources::default(),
        }
    }

    /// Makes it a metric of a study: one JSON value for each run, by [`Context::emit_metric`].
    #[must_use]
    pub fn metric(mut self) -> Self {
        self.kind = Kind::Metric;
        self
    }

    /// Makes it a plot of a study: figures for each run, at least one, by [`Context::emit_figure`].
    #[must_use]
    pub fn plot(mut self) -> Self {
        self.kind = Kind::Plot;
        self
    }

    /// Names the source files that decide its results, with [`sources!`](crate::sources): a study does it again where
    /// one of them changed, and leaves it where another part of the library did.
    #[must_use]
    pub fn sources(mut self, sources: Sources) -> Self {
        self.sources = sources;
        self
    }

    /// Sets the settings: a struct with its defaults, or `json!({..})`. It must be a JSON object.
    ///
    /// The host fills in what a user leaves out, and refuses an unknown name or a value of another type than the
    /// default's, before the analysis is called. A default of `null` takes any value; an empty object takes any
    /// keys.
    #[must_use]
    pub fn settings(mut self, defaults: impl Serialize) -> Self {
        // A value that is no JSON object is refused by the host, with the analysis named.
        self.settings = serde_json::to_value(defaults).unwrap_or(Value::Null);
        self
    }

    /// Sets the needs.
    #[must_use]
    pub fn needs(mut self, needs: Needs) -> Self {
        self.needs = needs;
        self
    }
}

/// What an analysis asks the host for. What is not named here is refused at the call, so that a host prepares
/// only what is used.
///
/// A host refuses an analysis that needs something which it does not offer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Needs {
    /// Patterns of tensor names: `*` stands for any text, `?` for one character.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<String>,
    /// The batch of the node.
    #[serde(skip_serializing_if = "is_false")]
    pub batch: bool,
    /// Running the model.
    #[serde(skip_serializing_if = "is_false")]
    pub forward: bool,
    /// Patterns of recorded keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scalars: Vec<String>,
    /// Products of the study.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub products: Vec<String>,
    /// Functions of the experiment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
    /// Dotted paths into the settings of the study.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub study: Vec<String>,
}

impl Needs {
    /// Adds the tensors whose names match a pattern, e.g. `blocks.*.weight`.
    #[must_use]
    pub fn weights(mut self, pattern: impl Into<String>) -> Self {
        self.weights.push(pattern.into());
        self
    }

    /// Adds the batch.
    #[must_use]
    pub fn batch(mut self) -> Self {
        self.batch = true;
        self
    }

    /// Adds running the model.
    #[must_use]
    pub fn forward(mut self) -> Self {
        self.forward = true;
        self
    }

    /// Adds a product of the study, of this library or another; `model` is the trained one.
    #[must_use]
    pub fn product(mut self, name: impl Into<String>) -> Self {
        self.products.push(name.into());
        self
    }

    /// Adds a named function of the experiment.
    #[must_use]
    pub fn function(mut self, name: impl Into<String>) -> Self {
        self.functions.push(name.into());
        self
    }

    /// Adds what it reads of the settings of the study, as a dotted path: `training.problem`,
    /// `analysis.plotting.dpi`, `member`.
    #[must_use]
    pub fn study(mut self, path: impl Into<String>) -> Self {
        self.study.push(path.into());
        self
    }

    /// Adds the recorded keys that match a pattern, e.g. `train/*`.
    #[must_use]
    pub fn scalars(mut self, pattern: impl Into<String>) -> Self {
        self.scalars.push(pattern.into());
        self
    }
}

fn is_false(value: &bool) -> bool {
    !*value
}
