//! What an analysis declared, read and checked.

use serde_json::Value;
use waycairn_analysis_api::host::Plugin;
use waycairn_analysis_api::{ErrorKind, Failure};

use crate::error::DeclarationError;
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
}

impl Needs {
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
        let invalid = |text: String| DeclarationError::Invalid { text };
        let value: Value =
            serde_json::from_str(text).map_err(|error| invalid(format!("it is no JSON: {error}")))?;
        let field = |name: &str| {
            value
                .get(name)
                .and_then(Value::as_str)
                .map(|text| text.trim().to_owned())
                .ok_or_else(|| invalid(format!("it has no text `{name}`")))
        };
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
        // One line, whatever the author wrote.
        let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Self { name, version, description, settings, needs })
    }
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
            _ => return Err(DeclarationError::UnknownNeed { need: key.clone() }),
        }
    }
    Ok(needs)
}

fn is_name(name: &str) -> bool {
    name.len() <= NAME_LIMIT
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-')
}

fn failed(failure: Failure) -> DeclarationError {
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
        newer["kind"] = json!("plot");
        assert!(Declared::read(&newer.to_string()).is_ok());
        newer["needs"] = json!({"taps": ["*"]});
        assert_eq!(refused(newer), "it needs `taps`, which this host does not offer; use a newer waycairn");
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
        assert!(Declared::read("{").unwrap_err().to_string().contains("no JSON"));
    }
}
