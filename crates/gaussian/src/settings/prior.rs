//! Definitions of priors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fault::{Fault, Faults, given as told};

/// A family of distributions over one coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Flat over the box.
    Uniform,
    /// Normal, cut to the box.
    Normal,
    /// Exponential, cut to the box.
    Exponential,
    /// The points of a lattice, each as likely.
    Grid,
}

impl Family {
    const NAMES: &'static str = "`uniform`, `normal`, `exponential` or `grid`";
}

/// One prior by its families.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriorDefinition {
    /// Of each coordinate that is not named below.
    pub family: Family,
    /// Of single parameters, by name.
    #[serde(default)]
    pub by_parameter: BTreeMap<String, Family>,
}

impl PriorDefinition {
    /// A prior of one family.
    #[must_use]
    pub fn new(family: Family) -> Self {
        Self { family, by_parameter: BTreeMap::new() }
    }
}

/// All priors that can be named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct PriorDefinitions(BTreeMap<String, PriorDefinition>);

/// The four families, each by its name.
impl Default for PriorDefinitions {
    fn default() -> Self {
        let families = [
            ("uniform", Family::Uniform),
            ("normal", Family::Normal),
            ("exponential", Family::Exponential),
            ("grid", Family::Grid),
        ];
        Self(families.map(|(name, family)| (name.to_owned(), PriorDefinition::new(family))).into())
    }
}

impl PriorDefinitions {
    /// Reads the section `priors` over the four that are always there.
    ///
    /// # Errors
    ///
    /// [`Faults`] with all definitions that are none.
    pub fn read(given: &Value) -> Result<Self, Faults> {
        let Some(given) = given.as_object() else {
            return if given.is_null() {
                Ok(Self::default())
            } else {
                Err(Faults::one("priors", given, "a table"))
            };
        };
        let (mut all, mut faults) = (Self::default(), Vec::new());
        for (name, definition) in given {
            match PriorDefinition::deserialize(definition) {
                Ok(definition) => {
                    all.0.insert(name.clone(), definition);
                }
                Err(error) => faults.push(Fault {
                    path: format!("priors.{name}"),
                    value: told(definition),
                    allowed: format!(
                        "{{ family = F, by_parameter = {{ \"mean:0\" = F }} }} with F one of {} ({error})",
                        Family::NAMES
                    ),
                }),
            }
        }
        Faults::none_of(faults)?;
        Ok(all)
    }

    /// The prior of a name, which is the setting `prior` of a training.
    ///
    /// # Errors
    ///
    /// [`Faults`] that name the priors that are there.
    pub fn get(&self, name: &str) -> Result<&PriorDefinition, Faults> {
        self.0.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let allowed = format!("a prior that is defined: {}", names.join(", "));
            Faults::one("prior", name, allowed)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn four_priors_are_there_and_others_are_added_or_replace_them() {
        let read = PriorDefinitions::read(&json!({
            "mixed": {"family": "uniform", "by_parameter": {"std:1": "grid"}},
            "grid": {"family": "normal"},
        }))
        .unwrap();
        assert_eq!(read.get("mixed").unwrap().by_parameter["std:1"], Family::Grid);
        assert_eq!(read.get("grid").unwrap().family, Family::Normal);
        assert_eq!(read.get("exponential").unwrap().family, Family::Exponential);
        let unknown = read.get("flat").unwrap_err().to_string();
        assert!(unknown.contains("exponential, grid, mixed, normal, uniform"), "{unknown}");
    }

    #[test]
    fn gaussian_1_what_is_no_definition_is_told_with_what_would_be() {
        let faults =
            PriorDefinitions::read(&json!({"a": {"family": "flat"}, "b": 3, "c": {"by_parameter": {}}}))
                .unwrap_err();
        assert_eq!(faults.iter().count(), 3);
        assert!(faults.to_string().contains("`priors.a`") && faults.to_string().contains("exponential"));
    }
}
