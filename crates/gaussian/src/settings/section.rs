//! How a section is read and checked.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::fault::{Fault, Faults, given as told, json, number};

/// What is allowed of a count. A field that says so is checked by that.
pub(crate) const POSITIVE: &str = "a whole number of at least 1";

/// One section of the settings.
pub trait Section: Default + Serialize + DeserializeOwned {
    /// Where it stands in the settings.
    const PATH: &'static str;

    /// Its fields, and for each what is allowed.
    const FIELDS: &'static [(&'static str, &'static str)];

    /// Says of each value out of range that it is so, but for counts.
    fn check(&self, _check: &mut Check) {}

    /// All values that are not allowed.
    fn faults(&self) -> Vec<Fault> {
        let mut check = Check::new(Self::PATH, Self::FIELDS, json(self));
        check.counts();
        self.check(&mut check);
        check.faults
    }

    /// Refuses values that are not allowed.
    ///
    /// # Errors
    ///
    /// [`Faults`] with all of them.
    fn validate(&self) -> Result<(), Faults> {
        Faults::none_of(self.faults())
    }

    /// Reads the section: what is given over what is the default. Nothing at all (null) is the default.
    ///
    /// # Errors
    ///
    /// [`Faults`] with all that is wrong: names, types, ranges.
    fn read(given: &Value) -> Result<Self, Faults> {
        let empty = Map::new();
        let given = match given {
            Value::Null => &empty,
            Value::Object(fields) => fields,
            other => return Err(Faults::one(Self::PATH, other, "a table")),
        };
        let defaults = json(Self::default());
        let mut whole = defaults.clone();
        let mut faults = Vec::new();
        for (name, value) in given {
            let known = Self::FIELDS.iter().find(|(field, _)| field == name);
            let path = format!("{}.{name}", Self::PATH);
            let Some((_, allowed)) = known else {
                let names: Vec<&str> = Self::FIELDS.iter().map(|(name, _)| *name).collect();
                let allowed = format!("no such name: the names here are {}", names.join(", "));
                faults.push(Fault { path, value: told(value), allowed });
                continue;
            };
            // Alone over the defaults, so that one mistake hides no other.
            let mut alone = defaults.clone();
            alone[name.as_str()] = value.clone();
            match Self::deserialize(alone) {
                Ok(_) => whole[name.as_str()] = value.clone(),
                Err(_) => faults.push(Fault { path, value: told(value), allowed: (*allowed).to_owned() }),
            }
        }
        let section: Self = Self::deserialize(whole)
            .map_err(|error| Faults::one(Self::PATH, Value::Object(given.clone()), error.to_string()))?;
        faults.extend(section.faults());
        Faults::none_of(faults)?;
        Ok(section)
    }
}

/// Collects what is wrong with a section.
#[derive(Debug)]
pub struct Check {
    path: &'static str,
    fields: &'static [(&'static str, &'static str)],
    section: Value,
    faults: Vec<Fault>,
}

impl Check {
    fn new(path: &'static str, fields: &'static [(&'static str, &'static str)], section: Value) -> Self {
        Self { path, fields, section, faults: Vec::new() }
    }

    /// Says of each count whether it is one.
    fn counts(&mut self) {
        for (name, _) in self.fields.iter().filter(|(_, allowed)| *allowed == POSITIVE) {
            self.field(name, self.section[*name].as_u64().is_some_and(|value| value >= 1));
        }
    }

    /// Says whether a field holds what is allowed.
    pub(crate) fn field(&mut self, name: &str, fine: bool) {
        self.value(name, self.section[name].clone(), fine);
    }

    /// The same of a field that is a number, which may be NaN or infinite.
    pub(crate) fn number(&mut self, name: &str, value: f64, fine: bool) {
        self.value(name, number(value), fine);
    }

    /// The same of a field that is a list of numbers.
    pub(crate) fn numbers(&mut self, name: &str, values: &[f64], fine: bool) {
        self.value(name, values.iter().copied().map(number).collect(), fine);
    }

    fn value(&mut self, name: &str, value: Value, fine: bool) {
        let allowed =
            self.fields.iter().find(|(field, _)| *field == name).map_or("", |(_, allowed)| *allowed);
        self.below(name, value, fine, allowed);
    }

    /// Says whether a value below a field is allowed, and what would be.
    pub(crate) fn below(&mut self, path: &str, value: Value, fine: bool, allowed: &str) {
        if !fine {
            let path = format!("{}.{path}", self.path);
            self.faults.push(Fault { path, value, allowed: allowed.to_owned() });
        }
    }
}

/// Whether no element comes twice.
pub(crate) fn distinct<T: PartialEq>(values: &[T]) -> bool {
    values.iter().enumerate().all(|(index, value)| !values[..index].contains(value))
}
