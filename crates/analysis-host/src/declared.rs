//! What an analysis declared, read and checked.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use waycairn_analysis_api::host::{Plugin, pick};
use waycairn_analysis_api::{ErrorKind, Failure};
use waycairn_durable::Digest;

use crate::error::DeclarationError;
use crate::host::HostError;
use crate::pattern::any_matches;

/// The longest name of an analysis.
const NAME_LIMIT: usize = 64;

/// The checked declaration of one analysis.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Declared {
    /// Lower-case letters, digits, `_` and `-`.
    pub name: String,
    /// The version of the computation.
    pub version: String,
    /// One line for a person.
    pub description: String,
    /// Every setting with its default, a JSON object.
    pub settings: Value,
    /// What the host has to prepare.
    pub needs: Needs,
    /// What a study expects of it.
    pub kind: Kind,
    /// The source files that decide its results, each with the digest of its bytes. Empty if it names none.
    pub sources: BTreeMap<String, Digest>,
}

/// What a study expects of an analysis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// Nothing in particular.
    #[default]
    Analysis,
    /// One JSON value.
    Metric,
    /// Figures, at least one.
    Plot,
}

impl Kind {
    /// The word for it: `analysis`, `metric`, `plot`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Analysis => "analysis",
            Kind::Metric => "metric",
            Kind::Plot => "plot",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// What an analysis needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Needs {
    /// Patterns of tensor names; empty means no weights.
    pub weights: Vec<String>,
    /// The batch of the node.
    pub batch: bool,
    /// Running the model.
    pub forward: bool,
    /// Patterns of recorded keys; empty means none.
    pub scalars: Vec<String>,
    /// Products of the study.
    pub products: Vec<String>,
    /// Functions of the experiment.
    pub functions: Vec<String>,
    /// Dotted paths into the settings of the study.
    pub study: Vec<String>,
}

impl Needs {
    /// Whether it can answer nowhere but in a study: it needs a product, or reads the study's settings.
    #[must_use]
    pub fn only_in_a_study(&self) -> bool {
        !self.products.is_empty() || !self.study.is_empty()
    }

    /// What of the settings of a study the analysis reads: the declared paths and no others, nested as they are there.
    /// `whole` is an object of `training`, `analysis` and `member`; `null` gives `null`.
    ///
    /// # Errors
    /// `Invalid` for a path that is not there.
    pub fn of_study(&self, whole: &Value) -> Result<Value, HostError> {
        if whole.is_null() { Ok(Value::Null) } else { pick(whole, self.study.iter().map(String::as_str)) }
    }

    /// Checks that an experiment with the functions `known` has those that are needed.
    ///
    /// # Errors
    /// What is missing, and what there is.
    pub fn check_functions(&self, known: &[String]) -> Result<(), String> {
        check_functions(&self.functions, known)
    }

    pub(crate) fn wants_tensor(&self, name: &str) -> bool {
        any_matches(&self.weights, name)
    }

    pub(crate) fn wants_key(&self, key: &str) -> bool {
        any_matches(&self.scalars, key)
    }
}

impl Declared {
    /// Asks the plugin.
    pub(crate) fn ask(plugin: &Plugin, index: usize) -> Result<Self, DeclarationError> {
        Self::read(&plugin.declare(index).map_err(failed)?)
    }

    /// Reads the JSON text of a declaration. Keys that this version does not know are ignored, unknown needs are
    /// not: what a host must understand is always a need.
    fn read(text: &str) -> Result<Self, DeclarationError> {
        let value = read_json(text)?;
        let field = |name: &str| read_text(&value, name);
        let (name, version, description) = (field("name")?, field("version")?, field("description")?);
        if !is_name(&name) {
            return Err(invalid(format!(
                "`{name}` is no name; use up to {NAME_LIMIT} lower-case letters, digits, `_` and `-`, a letter \
                 or digit first"
            )));
        }
        if version.is_empty() {
            return Err(invalid("its version is empty".to_owned()));
        }
        let settings = match value.get("settings") {
            None => Value::Object(serde_json::Map::new()),
            Some(settings @ Value::Object(_)) => settings.clone(),
            Some(_) => {
                return Err(invalid("its settings are no JSON object of names and defaults".to_owned()));
            }
        };
        let needs = match value.get("needs") {
            None => Needs::default(),
            Some(needs) => read_needs(needs)?,
        };
        let kind = match value.get("kind").map(|kind| kind.as_str().unwrap_or_default()) {
            None | Some("analysis") => Kind::Analysis,
            Some("metric") => Kind::Metric,
            Some("plot") => Kind::Plot,
            Some(other) => {
                return Err(invalid(format!(
                    "it is of the kind `{other}`, which this host does not know; use a newer waycairn"
                )));
            }
        };
        let (description, sources) = (one_line(&description), read_sources(&value)?);
        Ok(Self { name, version, description, settings, needs, kind, sources })
    }
}

fn invalid(text: String) -> DeclarationError {
    DeclarationError::Invalid { text }
}

pub(crate) fn read_json(text: &str) -> Result<Value, DeclarationError> {
    serde_json::from_str(text).map_err(|error| invalid(format!("it is no JSON: {error}")))
}

pub(crate) fn read_text(declaration: &Value, name: &str) -> Result<String, DeclarationError> {
    let text = declaration.get(name).and_then(Value::as_str).map(|text| text.trim().to_owned());
    text.ok_or_else(|| invalid(format!("it has no text `{name}`")))
}

/// One line, whatever the author wrote.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) fn read_sources(declaration: &Value) -> Result<BTreeMap<String, Digest>, DeclarationError> {
    let wrong = || invalid("its sources are no names with SHA-256 digests".to_owned());
    let Some(sources) = declaration.get("sources") else { return Ok(BTreeMap::new()) };
    let read = |(name, digest): (&String, &Value)| {
        let digest = digest.as_str().and_then(|text| text.parse().ok()).ok_or_else(wrong)?;
        Ok((name.clone(), digest))
    };
    sources.as_object().ok_or_else(wrong)?.iter().map(read).collect()
}

fn read_needs(value: &Value) -> Result<Needs, DeclarationError> {
    let invalid =
        |key: &str| DeclarationError::Invalid { text: format!("its need `{key}` has another form") };
    let entries = value.as_object().ok_or_else(|| invalid("needs"))?;
    let mut needs = Needs::default();
    for (key, value) in entries {
        let flag = || value.as_bool().ok_or_else(|| invalid(key));
        let patterns = || -> Result<Vec<String>, DeclarationError> {
            let list = value.as_array().ok_or_else(|| invalid(key))?;
            list.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(|| invalid(key))).collect()
        };
        match key.as_str() {
            "weights" => needs.weights = patterns()?,
            "scalars" => needs.scalars = patterns()?,
            "batch" => needs.batch = flag()?,
            "forward" => needs.forward = flag()?,
            "products" => needs.products = patterns()?,
            "functions" => needs.functions = patterns()?,
            "study" => needs.study = patterns()?,
            _ => return Err(DeclarationError::UnknownNeed { need: key.clone() }),
        }
    }
    Ok(needs)
}

/// Checks that all needed functions of an experiment are known.
pub(crate) fn check_functions(needed: &[String], known: &[String]) -> Result<(), String> {
    let Some(missing) = needed.iter().find(|name| !known.contains(name)) else { return Ok(()) };
    let known = if known.is_empty() { "none".to_owned() } else { format!("`{}`", known.join("`, `")) };
    Err(format!("it needs the function `{missing}` of the experiment, which has {known}"))
}

fn is_name(name: &str) -> bool {
    name.len() <= NAME_LIMIT
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-')
}

pub(crate) fn failed(failure: Failure) -> DeclarationError {
    match failure.kind {
        ErrorKind::Panicked => {
            DeclarationError::Panicked { text: failure.message, backtrace: failure.backtrace }
        }
        _ => DeclarationError::Failed { text: failure.message },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(value: Value) -> String {
        Declared::read(&value.to_string()).unwrap_err().to_string()
    }

    #[test]
    fn a_declaration_reads_back() {
        let text = json!({
            "name": "summary", "version": "1.2.0", "description": " per tensor \n statistics ",
            "settings": {"limit": 3}, "needs": {"weights": ["*"], "batch": true, "scalars": ["train/*"]},
            "emits": ["something that a later interface may add"],
        });
        let declared = Declared::read(&text.to_string()).unwrap();
        assert_eq!(declared.name, "summary");
        assert_eq!(declared.description, "per tensor statistics");
        assert_eq!(declared.settings, json!({"limit": 3}));
        assert!(declared.needs.batch && !declared.needs.forward);
        assert!(declared.needs.wants_tensor("any") && declared.needs.wants_key("train/loss"));
        assert!(!declared.needs.wants_key("val/loss"));
    }

    #[test]
    fn abi_2_an_unknown_key_is_ignored_and_an_unknown_need_refused() {
        let base = json!({"name": "a", "version": "1", "description": ""});
        let mut newer = base.clone();
        newer["emits"] = json!(["figure"]);
        assert!(Declared::read(&newer.to_string()).is_ok());
        newer["needs"] = json!({"taps": ["*"]});
        assert_eq!(refused(newer), "it needs `taps`, which this host does not offer; use a newer waycairn");
    }

    #[test]
    fn kind_sources_and_what_is_needed_of_a_study_are_read() {
        let digest = Digest::of(b"abc");
        let text = json!({
            "name": "auc", "version": "1", "description": "", "kind": "metric",
            "needs": {"products": ["test_predictions"], "functions": ["logits"], "study": ["member"]},
            "sources": {"gaussian/src/auc.rs": digest.to_string()},
        });
        let declared = Declared::read(&text.to_string()).unwrap();
        assert_eq!((declared.kind, declared.kind.as_str()), (Kind::Metric, "metric"));
        assert_eq!(declared.sources, BTreeMap::from([("gaussian/src/auc.rs".to_owned(), digest)]));
        assert!(declared.needs.only_in_a_study());
        assert_eq!(declared.needs.functions, ["logits"]);
        let check = |known: &[&str]| {
            let known: Vec<String> = known.iter().map(|name| (*name).to_owned()).collect();
            declared.needs.check_functions(&known)
        };
        assert_eq!(check(&["loss", "logits"]), Ok(()));
        let missing = "it needs the function `logits` of the experiment, which has ";
        assert_eq!(check(&["loss", "head"]).unwrap_err(), format!("{missing}`loss`, `head`"));
        assert_eq!(check(&[]).unwrap_err(), format!("{missing}none"));
        let plain = Declared::read(r#"{"name": "a", "version": "1", "description": ""}"#).unwrap();
        assert_eq!((plain.kind, plain.sources.len()), (Kind::Analysis, 0));
        assert!(!plain.needs.only_in_a_study());
    }

    #[test]
    fn of_the_settings_of_a_study_only_the_declared_paths_are_given() {
        let study = ["training.problem", "analysis.plotting.dpi", "analysis.plotting.bins", "member"];
        let needs = Needs { study: study.map(str::to_owned).to_vec(), ..Needs::default() };
        let whole = json!({
            "training": {"problem": {"dimension": 2}, "seed": 7},
            "analysis": {"plotting": {"dpi": 140, "bins": 30, "more": 1}, "inference": {}},
            "member": "uniform",
        });
        let expected = json!({
            "training": {"problem": {"dimension": 2}},
            "analysis": {"plotting": {"dpi": 140, "bins": 30}},
            "member": "uniform",
        });
        assert_eq!(needs.of_study(&whole).unwrap(), expected);
        assert_eq!(needs.of_study(&Value::Null).unwrap(), Value::Null);
        assert_eq!(Needs::default().of_study(&whole).unwrap(), json!({}));
        let wrong = Needs { study: vec!["training.problm".to_owned()], ..Needs::default() };
        assert_eq!(
            wrong.of_study(&whole).unwrap_err().to_string(),
            "the study has no setting `training.problm`; there it has problem, seed"
        );
    }

    #[test]
    fn a_declaration_that_cannot_be_honoured_is_refused() {
        let with = |key: &str, value: Value| {
            let mut declaration = json!({"name": "a", "version": "1", "description": ""});
            declaration[key] = value;
            refused(declaration)
        };
        assert!(with("name", json!("Summary")).contains("`Summary` is no name"));
        assert!(with("name", json!("../up")).contains("is no name"));
        assert!(with("name", json!("_x_node")).contains("is no name"));
        assert!(with("name", json!("")).contains("is no name"));
        assert!(with("name", json!(3)).contains("no text `name`"));
        assert!(with("version", json!("")).contains("version is empty"));
        assert!(with("settings", json!([1])).contains("no JSON object"));
        assert!(with("needs", json!({"batch": 1})).contains("need `batch`"));
        assert!(with("kind", json!("table")).contains("of the kind `table`, which this host does not know"));
        assert!(with("sources", json!({"a.rs": "12"})).contains("no names with SHA-256 digests"));
        assert!(Declared::read("{").unwrap_err().to_string().contains("no JSON"));
    }
}
