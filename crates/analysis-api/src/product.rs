//! Products: what a library computes once and shares, between analyses, runs and launches of a study.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::builder::BuildContext;
use crate::error::{AnalysisError, ContextError};
use crate::sources::Sources;
use crate::study::pick;

/// Arrays that are expensive, and addressed by what determines them: the same settings, sources and dependencies find
/// the artifact that was built before, by whomever.
///
/// There is no value of a product: all of it is functions, so that nothing but settings and dependencies can reach a
/// builder.
///
/// # Contract
/// - [`Product::declare`], [`Product::select`], [`Product::estimate`] and [`Product::check`] have no effects and the same
///   answer for the same arguments: a study calls them while it plans, and when nothing is ever built.
/// - [`Product::build`] writes the same bytes for the same settings and dependencies. Randomness comes from
///   [`stream`](crate::stream).
/// - What was written counts only if the call returns `Ok`, and then all of it counts.
/// - A panic in any of them is an error of this product.
pub trait Product {
    /// Says what the product is called, what it depends on, and which code makes it.
    fn declare() -> ProductDeclaration;

    /// What the builder will get, of all settings of the study. It is part of the key: what is left out here cannot be
    /// read there, and what is named needlessly makes it built again. [`Study::pick`] copies by dotted path.
    ///
    /// # Errors
    /// Settings that it cannot be built with. A text that begins with the path of a setting in backticks, as in
    /// `` `walks.steps` is 0; allowed is a whole number of at least 1 ``, is told with the file and the line that it stands in;
    /// so is each line of several.
    fn select(study: &Study<'_>) -> Result<Value, AnalysisError>;

    /// What building will take: a JSON object of names and numbers, and of short texts that say how, shown before anything is
    /// built.
    ///
    /// # Errors
    /// Settings that it cannot be built with.
    fn estimate(selected: &Value) -> Result<Value, AnalysisError> {
        let _ = selected;
        Ok(Value::Object(serde_json::Map::new()))
    }

    /// Refuses settings that are over a limit, before anything is built. Each text names the setting and its value.
    ///
    /// # Errors
    /// Settings that cannot be judged.
    fn check(selected: &Value) -> Result<Checked, AnalysisError> {
        let _ = selected;
        Ok(Checked::default())
    }

    /// Builds it.
    ///
    /// # Errors
    /// Whatever keeps it from being built. Then nothing of it is kept.
    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError>;
}

/// What [`Product::check`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// Reasons not to build.
    #[serde(default)]
    pub errors: Vec<String>,
    /// What a person should know.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The settings of a study, complete and resolved.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Study<'a> {
    /// Those of the training.
    pub training: &'a Value,
    /// Those of products, metrics and plots.
    pub analysis: &'a Value,
    /// The member of the configuration.
    pub member: &'a str,
}

impl<'a> Study<'a> {
    /// Puts them together; what a test of a selector needs.
    #[must_use]
    pub fn new(training: &'a Value, analysis: &'a Value, member: &'a str) -> Self {
        Self { training, analysis, member }
    }

    /// The settings at some dotted paths, nested as they are in the study: `training.problem`,
    /// `analysis.inference.levels`, `member`.
    ///
    /// # Errors
    /// `Invalid` for a path that is not there.
    pub fn pick(&self, paths: &[&str]) -> Result<Value, ContextError> {
        let whole = serde_json::json!({
            "training": self.training, "analysis": self.analysis, "member": self.member,
        });
        pick(&whole, paths.iter().copied())
    }
}

/// What a product says about itself. Built with [`ProductDeclaration::new`] and the methods below.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ProductDeclaration {
    /// Up to 100 letters, digits, `_` and `-`; not `model`, which is the trained one.
    pub name: String,
    /// Raised when its bytes change and nothing else tells so.
    pub version: u32,
    /// One line for a person.
    pub description: String,
    /// What it depends on.
    pub needs: ProductNeeds,
    /// The source files that decide its bytes.
    #[serde(skip_serializing_if = "Sources::is_empty")]
    pub sources: Sources,
}

impl ProductDeclaration {
    /// A declaration without dependencies and sources.
    pub fn new(name: impl Into<String>, version: u32, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version,
            description: description.into(),
            needs: ProductNeeds::default(),
            sources: Sources::default(),
        }
    }

    /// Sets what it depends on.
    #[must_use]
    pub fn needs(mut self, needs: ProductNeeds) -> Self {
        self.needs = needs;
        self
    }

    /// Names the source files that decide its bytes, with [`sources!`](crate::sources): the builder's, and those of every
    /// helper that it calls. They are part of the key.
    #[must_use]
    pub fn sources(mut self, sources: Sources) -> Self {
        self.sources = sources;
        self
    }
}

/// What a product depends on. What is not named here is refused at the call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ProductNeeds {
    /// Other products.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub products: Vec<String>,
    /// The model of the run.
    #[serde(skip_serializing_if = "is_false")]
    pub model: bool,
    /// Functions of the experiment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
    /// Its bytes depend on the type of the device.
    #[serde(skip_serializing_if = "is_false")]
    pub backend: bool,
}

impl ProductNeeds {
    /// Adds another product, of this library or another.
    #[must_use]
    pub fn product(mut self, name: impl Into<String>) -> Self {
        self.products.push(name.into());
        self
    }

    /// Adds the model of the run: then the builder may read its weights and batch, and run it.
    #[must_use]
    pub fn model(mut self) -> Self {
        self.model = true;
        self
    }

    /// Adds a named function of the experiment, and with it the model. A study of an experiment that does not have it is
    /// refused while it is planned.
    #[must_use]
    pub fn function(mut self, name: impl Into<String>) -> Self {
        self.functions.push(name.into());
        self
    }

    /// Says that the bytes depend on the type of the device, as those of whatever runs the model do: the type becomes
    /// part of the key.
    #[must_use]
    pub fn backend(mut self) -> Self {
        self.backend = true;
        self
    }
}

fn is_false(value: &bool) -> bool {
    !*value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_copies_by_dotted_path() {
        let training = json!({"problem": {"dimension": 2}, "seed": 7});
        let analysis = json!({"inference": {"levels": [0.68, 0.95], "seed": 1}});
        let study = Study::new(&training, &analysis, "uniform");
        assert_eq!(
            study.pick(&["training.problem", "analysis.inference.levels", "member"]).unwrap(),
            json!({
                "training": {"problem": {"dimension": 2}},
                "analysis": {"inference": {"levels": [0.68, 0.95]}},
                "member": "uniform",
            })
        );
        assert!(study.pick(&["analysis.inferences"]).is_err());
    }

    #[test]
    fn a_declaration_has_short_json() {
        let declaration = ProductDeclaration::new("scores", 2, "scores")
            .needs(ProductNeeds::default().product("candidates").model().backend());
        assert_eq!(
            serde_json::to_value(declaration).unwrap(),
            json!({
                "name": "scores", "version": 2, "description": "scores",
                "needs": {"products": ["candidates"], "model": true, "backend": true},
            })
        );
        let needs = serde_json::to_value(ProductNeeds::default().function("loss")).unwrap();
        assert_eq!(needs, json!({"functions": ["loss"]}));
    }
}
