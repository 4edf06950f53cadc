//! One product of a loaded library, as a safe value.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use waycairn_analysis_api::host::Plugin;
use waycairn_analysis_api::{Checked, ErrorKind, Failure};
use waycairn_durable::Digest;

use crate::building::{Building, Region, SLOTS};
use crate::declared::{check_functions, failed, one_line, read_json, read_sources, read_text};
use crate::error::{DeclarationError, RunError};
use crate::foreign::Origin;
use crate::host::ProductHost;

/// The longest name of a product.
const NAME_LIMIT: usize = 100;

/// The product that a study makes itself.
const MODEL: &str = "model";

/// The checked declaration of one product.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeclaredProduct {
    /// Letters, digits, `_` and `-`.
    pub name: String,
    /// Raised when its bytes change and nothing else tells so.
    pub version: u32,
    /// One line for a person.
    pub description: String,
    /// The products that it depends on, each once, without the model.
    pub products: Vec<String>,
    /// It depends on the model of the run.
    pub model: bool,
    /// Functions of the experiment that the builder calls; with one of them it depends on the model.
    pub functions: Vec<String>,
    /// Its bytes depend on the type of the device.
    pub backend: bool,
    /// The source files that decide its bytes, each with the digest of its bytes.
    pub sources: BTreeMap<String, Digest>,
}

impl DeclaredProduct {
    /// Asks the plugin.
    pub(crate) fn ask(plugin: &Plugin, index: usize) -> Result<Self, DeclarationError> {
        Self::read(&plugin.declare_product(index).map_err(failed)?)
    }

    fn read(text: &str) -> Result<Self, DeclarationError> {
        let invalid = |text: String| DeclarationError::Invalid { text };
        let value = read_json(text)?;
        let (name, description) = (read_text(&value, "name")?, read_text(&value, "description")?);
        if name == MODEL {
            return Err(invalid(format!(
                "`{MODEL}` is the trained model, which a study makes itself; use another name"
            )));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || name.len() > NAME_LIMIT || !name.chars().all(plain) {
            return Err(invalid(format!(
                "`{name}` is no name of a product; use up to {NAME_LIMIT} letters, digits, `_` and `-`"
            )));
        }
        let version =
            value.get("version").and_then(Value::as_u64).and_then(|version| version.try_into().ok());
        let mut declared = Self {
            version: version.ok_or_else(|| invalid("its version is no 32-bit number".to_owned()))?,
            description: one_line(&description),
            products: Vec::new(),
            model: false,
            functions: Vec::new(),
            backend: false,
            sources: read_sources(&value)?,
            name,
        };
        if let Some(needs) = value.get("needs") {
            declared.read_needs(needs)?;
        }
        Ok(declared)
    }

    fn read_needs(&mut self, needs: &Value) -> Result<(), DeclarationError> {
        let invalid =
            |key: &str| DeclarationError::Invalid { text: format!("its need `{key}` has another form") };
        for (key, value) in needs.as_object().ok_or_else(|| invalid("needs"))? {
            let flag = || value.as_bool().ok_or_else(|| invalid(key));
            let names = || {
                let names: Option<BTreeSet<&str>> = value.as_array()?.iter().map(Value::as_str).collect();
                names
            };
            match key.as_str() {
                "functions" => {
                    let names = names().ok_or_else(|| invalid(key))?;
                    self.model |= !names.is_empty();
                    self.functions = names.into_iter().map(str::to_owned).collect();
                }
                "products" => {
                    let mut names = names().ok_or_else(|| invalid(key))?;
                    self.model |= names.remove(MODEL);
                    self.products = names.into_iter().map(str::to_owned).collect();
                }
                "model" => self.model |= flag()?,
                "backend" => self.backend = flag()?,
                _ => return Err(DeclarationError::UnknownNeed { need: key.clone() }),
            }
        }
        if self.products.contains(&self.name) {
            return Err(DeclarationError::Invalid { text: "it depends on itself".to_owned() });
        }
        Ok(())
    }

    /// Checks that an experiment with the functions `known` has those that the builder calls.
    ///
    /// # Errors
    /// What is missing, and what there is.
    pub fn check_functions(&self, known: &[String]) -> Result<(), String> {
        check_functions(&self.functions, known)
    }

    /// The names that the builder may ask for.
    pub(crate) fn dependencies(&self) -> Vec<String> {
        let model = self.model.then(|| MODEL.to_owned());
        self.products.iter().cloned().chain(model).collect()
    }
}

/// One product.
///
/// # Concurrency
/// It may be asked and built on several threads at once.
#[derive(Clone, Debug)]
pub struct ForeignProduct {
    plugin: Plugin,
    index: usize,
    declared: DeclaredProduct,
    origin: Arc<Origin>,
}

/// The longest text of an estimate, in bytes.
const SHORT_TEXT: usize = 200;

/// Whether a value may stand in an estimate.
fn is_told(value: &Value) -> bool {
    value.is_number() || value.as_str().is_some_and(|text| text.len() <= SHORT_TEXT)
}

impl ForeignProduct {
    pub(crate) fn new(plugin: Plugin, index: usize, declared: DeclaredProduct, origin: Arc<Origin>) -> Self {
        Self { plugin, index, declared, origin }
    }

    /// What it declared.
    #[must_use]
    pub fn declaration(&self) -> &DeclaredProduct {
        &self.declared
    }

    /// The library it came from, as it was named.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.origin.path
    }

    /// The SHA-256 of that library.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.origin.digest
    }

    /// What its builder gets, of the complete settings of a study.
    ///
    /// # Errors
    /// What the product says of settings that it cannot be built with, and its panic.
    pub fn select(&self, training: &Value, analysis: &Value, member: &str) -> Result<Value, RunError> {
        const STEP: &str = "selecting its settings";
        let answer = self.plugin.select(self.index, &training.to_string(), &analysis.to_string(), member);
        self.read(STEP, answer)
    }

    /// What building with these selected settings takes: an object of numbers, and of short texts that say how.
    ///
    /// # Errors
    /// What the product says, its panic, and an answer of another form.
    pub fn estimate(&self, selected: &Value) -> Result<Value, RunError> {
        const STEP: &str = "estimating";
        let estimate = self.read(STEP, self.plugin.estimate(self.index, &selected.to_string()))?;
        match estimate.as_object() {
            Some(entries) if entries.values().all(is_told) => Ok(estimate),
            _ => Err(self.unfit(STEP, "an object of numbers and short texts")),
        }
    }

    /// Whether it may be built with these selected settings.
    ///
    /// # Errors
    /// What the product says, and its panic. Limits that are exceeded are in the answer.
    pub fn check(&self, selected: &Value) -> Result<Checked, RunError> {
        const STEP: &str = "checking";
        let checked = self.read(STEP, self.plugin.check(self.index, &selected.to_string()))?;
        serde_json::from_value(checked).map_err(|_| self.unfit(STEP, "errors and warnings"))
    }

    /// Builds it. The regions that the host gave as arrays are dropped before this returns, in any case.
    ///
    /// # Errors
    /// What the product says, its panic, and an output that was refused, also where the builder went on. The host then
    /// throws away what it was given.
    pub fn build(&self, host: &dyn ProductHost) -> Result<(), RunError> {
        let span = tracing::debug_span!("analysis-host.build", product = %self.declared.name);
        let _entered = span.enter();
        self.origin.tell_threads(&self.plugin, host.threads());
        let dependencies = self.declared.dependencies();
        let mut slots: Vec<Option<Region<'_>>> = Vec::new();
        slots.resize_with(SLOTS, || None);
        let building = Building::new(&self.declared, host, &dependencies, &mut slots);
        let outcome = self.plugin.build(self.index, &building);
        let refused = building.into_refused();
        outcome.map_err(|failure| self.failed("being built", failure))?;
        let unfit = || slots.iter_mut().flatten().find_map(Region::unfit);
        match refused.or_else(unfit) {
            None => Ok(()),
            Some(text) => Err(RunError::ProductOutput { product: self.declared.name.clone(), text }),
        }
    }

    fn read(&self, step: &'static str, answer: Result<String, Failure>) -> Result<Value, RunError> {
        let text = answer.map_err(|failure| self.failed(step, failure))?;
        serde_json::from_str(&text).map_err(|_| self.unfit(step, "JSON"))
    }

    fn unfit(&self, step: &'static str, expected: &str) -> RunError {
        let text = format!("what it answered is not {expected}");
        RunError::ProductFailed { product: self.declared.name.clone(), step, text }
    }

    fn failed(&self, step: &'static str, failure: Failure) -> RunError {
        let product = self.declared.name.clone();
        match failure.kind {
            ErrorKind::Panicked => {
                let (text, backtrace) = (failure.message, failure.backtrace);
                RunError::ProductPanicked { product, step, text, backtrace }
            }
            _ => RunError::ProductFailed { product, step, text: failure.message },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(name: &str, needs: Value) -> Result<DeclaredProduct, DeclarationError> {
        let text = json!({"name": name, "version": 3, "description": " two \n words ", "needs": needs});
        DeclaredProduct::read(&text.to_string())
    }

    #[test]
    fn a_declaration_reads_back() {
        let needs = json!({"products": ["theta", "model", "theta", "cases"], "backend": true});
        let declared = read("scores_1-a", needs).unwrap();
        assert_eq!((declared.version, declared.description.as_str()), (3, "two words"));
        assert_eq!(declared.products, ["cases", "theta"]);
        assert!(declared.model && declared.backend);
        assert_eq!(declared.dependencies(), ["cases", "theta", "model"]);
        let plain = read("plain", json!({})).unwrap();
        assert!(!plain.model && plain.dependencies().is_empty());
        let calling = read("calling", json!({"functions": ["loss", "head", "loss"]})).unwrap();
        assert!(calling.model, "a function is one of the model");
        assert_eq!(calling.functions, ["head", "loss"]);
        assert!(calling.check_functions(&["head".to_owned()]).unwrap_err().contains("the function `loss`"));
    }

    #[test]
    fn a_declaration_that_cannot_be_honoured_is_refused() {
        let refused = |name: &str, needs: Value| read(name, needs).unwrap_err().to_string();
        assert!(refused("model", json!({})).contains("is the trained model"));
        for name in ["", "a.b", "a/b", "caf\u{e9}", &"x".repeat(101)] {
            assert!(refused(name, json!({})).contains("is no name of a product"), "{name}");
        }
        assert!(refused("a", json!({"products": ["a"]})).contains("depends on itself"));
        assert!(refused("a", json!({"taps": ["*"]})).contains("it needs `taps`"));
        assert!(refused("a", json!({"products": [1]})).contains("need `products`"));
        assert!(refused("a", json!({"functions": "loss"})).contains("need `functions`"));
        let text = json!({"name": "a", "version": -1, "description": ""}).to_string();
        assert!(DeclaredProduct::read(&text).unwrap_err().to_string().contains("no 32-bit number"));
    }
}
