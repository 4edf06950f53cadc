//! The sections `problem` and `parameters`: what is observed and what is asked about it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fault::{Fault, Faults, given as told, json, number};
use super::section::{Check, Section};
use crate::problem::{Kind, ParameterName};

/// More coordinates than this are a mistake, and would only be found out after the memory is gone.
const MAX_DIMENSION: u64 = 65_536;

/// The observations, and which of their parameters are inferred.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProblemSettings {
    /// Coordinates of an observation.
    pub dimension: u64,
    /// Selectors in the order of theta's columns: `mean:0`, `std:1`, and `mean:*`, `std:*` for all.
    pub infer: Vec<String>,
    /// The mean of a coordinate whose mean is neither inferred nor in `fixed`.
    pub fixed_mean: f64,
    /// Likewise the standard deviation.
    pub fixed_std: f64,
    /// Constants of single parameters, by name.
    pub fixed: BTreeMap<String, f64>,
    /// Options of single parameters, by name, over those of `parameters`.
    pub overrides: BTreeMap<String, BTreeMap<String, f64>>,
}

impl Default for ProblemSettings {
    fn default() -> Self {
        Self {
            dimension: 1,
            infer: vec!["mean:*".to_owned()],
            fixed_mean: 5.0,
            fixed_std: 2.0,
            fixed: BTreeMap::new(),
            overrides: BTreeMap::new(),
        }
    }
}

impl ProblemSettings {
    /// The names that `infer` selects, in its order; or what is wrong, by the place in the list.
    pub(crate) fn expand(&self) -> Result<Vec<ParameterName>, Vec<(usize, String)>> {
        let (mut names, mut seen, mut wrong) = (Vec::new(), BTreeSet::new(), Vec::new());
        let dimension = self.dimension.min(MAX_DIMENSION) as usize;
        for (place, selector) in self.infer.iter().enumerate() {
            let selected: Vec<ParameterName> = match selector.split_once(':') {
                Some(("mean", "*")) => (0..dimension).map(|index| Kind::Mean.at(index)).collect(),
                Some(("std", "*")) => (0..dimension).map(|index| Kind::Std.at(index)).collect(),
                _ => match self.name(selector) {
                    Ok(name) => vec![name],
                    Err(allowed) => {
                        wrong.push((place, allowed));
                        continue;
                    }
                },
            };
            for name in selected {
                if seen.insert(name) {
                    names.push(name);
                } else {
                    wrong.push((place, format!("each parameter once, and `{name}` comes twice")));
                }
            }
        }
        if wrong.is_empty() { Ok(names) } else { Err(wrong) }
    }

    /// A name of this problem, or what would be one.
    fn name(&self, text: &str) -> Result<ParameterName, String> {
        let last = self.dimension.saturating_sub(1);
        match text.parse::<ParameterName>() {
            Ok(name) if (name.index as u64) < self.dimension => Ok(name),
            _ => Err(format!("`mean:0` to `mean:{last}` and `std:0` to `std:{last}`")),
        }
    }
}

impl Section for ProblemSettings {
    const PATH: &'static str = "problem";
    const FIELDS: &'static [(&'static str, &'static str)] = &[
        ("dimension", "a whole number of 1 to 65536"),
        ("infer", "a list of selectors, at least one: `mean:0`, `std:0`, `mean:*`, `std:*`"),
        ("fixed_mean", "a finite number"),
        ("fixed_std", "a finite number above 0"),
        ("fixed", "a table of numbers by parameter: { \"mean:1\" = 8.0 }"),
        ("overrides", "a table of options by parameter: { \"std:0\" = { low = 0.5 } }"),
    ];

    fn check(&self, check: &mut Check) {
        check.field("dimension", (1..=MAX_DIMENSION).contains(&self.dimension));
        check.field("infer", !self.infer.is_empty());
        check.number("fixed_mean", self.fixed_mean, self.fixed_mean.is_finite());
        check.number("fixed_std", self.fixed_std, self.fixed_std.is_finite() && self.fixed_std > 0.0);
        let inferred: BTreeSet<ParameterName> = match self.expand() {
            Ok(names) => names.into_iter().collect(),
            Err(wrong) => {
                for (place, allowed) in wrong {
                    check.below(&format!("infer[{place}]"), json(&self.infer[place]), false, &allowed);
                }
                BTreeSet::new()
            }
        };
        for (text, value) in &self.fixed {
            let path = format!("fixed.{text}");
            match self.name(text) {
                Err(allowed) => check.below(&path, number(*value), false, &allowed),
                Ok(name) => {
                    let fine = value.is_finite() && (name.kind == Kind::Mean || *value > 0.0);
                    let allowed =
                        if name.kind == Kind::Mean { "a finite number" } else { "a finite number above 0" };
                    check.below(&path, number(*value), fine, allowed);
                    let free = !inferred.contains(&name);
                    check.below(&path, number(*value), free, "a parameter that is not inferred too");
                }
            }
        }
        for (text, options) in &self.overrides {
            if let Err(allowed) = self.name(text) {
                let options =
                    options.iter().map(|(option, value)| (option.clone(), number(*value))).collect();
                check.below(&format!("overrides.{text}"), Value::Object(options), false, &allowed);
            }
            for (option, value) in options {
                let fine = Options::NAMES.contains(&option.as_str());
                let allowed = format!("one of {}", Options::NAMES.join(", "));
                check.below(&format!("overrides.{text}.{option}"), number(*value), fine, &allowed);
            }
        }
    }
}

/// How wide a box is at least, of the larger size of its ends: 16,000 steps of a 32-bit float.
const NARROWEST: f64 = 1e-3;

/// The box of a parameter, and the shape of each family of priors over it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Low end of the box.
    pub low: f64,
    /// High end.
    pub high: f64,
    /// Centre of the normal prior, before it is cut to the box.
    pub normal_mean: f64,
    /// Its standard deviation, likewise.
    pub normal_std: f64,
    /// Rate of the exponential prior: its density falls where that is positive.
    pub exponential_rate: f64,
    /// Distance of the points of the lattice.
    pub grid_step: f64,
}

impl Options {
    const NAMES: [&'static str; 6] =
        ["low", "high", "normal_mean", "normal_std", "exponential_rate", "grid_step"];

    fn field(&mut self, name: &str) -> Option<&mut f64> {
        Some(match name {
            "low" => &mut self.low,
            "high" => &mut self.high,
            "normal_mean" => &mut self.normal_mean,
            "normal_std" => &mut self.normal_std,
            "exponential_rate" => &mut self.exponential_rate,
            "grid_step" => &mut self.grid_step,
            _ => return None,
        })
    }

    /// What of the box is not allowed: the option and what would be.
    fn wrong(&self, kind: Kind) -> Vec<(&'static str, f64, &'static str)> {
        let mut wrong = Vec::new();
        for (name, value) in [("low", self.low), ("high", self.high)] {
            if !value.is_finite() {
                wrong.push((name, value, "a finite number"));
            }
        }
        if wrong.is_empty() {
            if kind == Kind::Std && self.low <= 0.0 {
                wrong.push(("low", self.low, "a number above 0: a standard deviation is positive"));
            }
            if self.low >= self.high {
                wrong.push(("high", self.high, "a number above `low`"));
            } else if self.high - self.low < NARROWEST * self.low.abs().max(self.high.abs()) {
                let allowed = "further from `low`, by a thousandth of their size: points are 32-bit floats";
                wrong.push(("high", self.high, allowed));
            }
        }
        wrong
    }
}

/// The options of means and of standard deviations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParametersSettings {
    /// Of every mean.
    pub mean: Options,
    /// Of every standard deviation.
    pub std: Options,
}

impl Default for ParametersSettings {
    fn default() -> Self {
        let mean = Options {
            low: 0.0,
            high: 10.0,
            normal_mean: 5.0,
            normal_std: 4.0,
            exponential_rate: 0.1,
            grid_step: 0.2,
        };
        let std = Options { low: 0.2, high: 4.0, normal_mean: 2.0, normal_std: 0.7, ..mean };
        Self { mean, std }
    }
}

impl ParametersSettings {
    /// The options of one parameter: those of its kind, and over them its own.
    pub(crate) fn of(&self, problem: &ProblemSettings, name: ParameterName) -> Options {
        let mut options = if name.kind == Kind::Mean { self.mean } else { self.std };
        for (option, value) in problem.overrides.get(&name.to_string()).into_iter().flatten() {
            if let Some(field) = options.field(option) {
                *field = *value;
            }
        }
        options
    }

    /// Refuses a box that is none, of any of the parameters.
    pub(crate) fn check_boxes(
        &self,
        problem: &ProblemSettings,
        names: &[ParameterName],
    ) -> Result<(), Faults> {
        let mut faults = Vec::new();
        for name in names {
            for (option, value, allowed) in self.of(problem, *name).wrong(name.kind) {
                let path = option_path(problem, *name, option);
                let fault = Fault { path, value: number(value), allowed: allowed.to_owned() };
                if !faults.contains(&fault) {
                    faults.push(fault);
                }
            }
        }
        Faults::none_of(faults)
    }
}

/// Where the value of an option stands: with the parameter where that overrides it, else with its kind.
pub(super) fn option_path(problem: &ProblemSettings, name: ParameterName, option: &str) -> String {
    let text = name.to_string();
    if problem.overrides.get(&text).is_some_and(|options| options.contains_key(option)) {
        format!("problem.overrides.{text}.{option}")
    } else {
        format!("parameters.{}.{option}", name.kind)
    }
}

impl Section for ParametersSettings {
    const PATH: &'static str = "parameters";
    const FIELDS: &'static [(&'static str, &'static str)] =
        &[("mean", "a table of options, each a number"), ("std", "a table of options, each a number")];

    fn check(&self, check: &mut Check) {
        for (kind, options) in [(Kind::Mean, self.mean), (Kind::Std, self.std)] {
            for (option, value, allowed) in options.wrong(kind) {
                check.below(&format!("{kind}.{option}"), number(value), false, allowed);
            }
        }
    }

    /// Options that are not given are the default ones of their kind.
    fn read(given: &Value) -> Result<Self, Faults> {
        let Some(kinds) = given.as_object() else {
            return if given.is_null() {
                Ok(Self::default())
            } else {
                Err(Faults::one(Self::PATH, given, "a table"))
            };
        };
        let (mut section, mut faults) = (Self::default(), Vec::new());
        let mut fault = |path: String, value: &Value, allowed: String| {
            faults.push(Fault { path: format!("{}.{path}", Self::PATH), value: told(value), allowed });
        };
        for (kind, given) in kinds {
            let options = match kind.as_str() {
                "mean" => &mut section.mean,
                "std" => &mut section.std,
                _ => {
                    fault(kind.clone(), given, "no such name: the names here are mean, std".to_owned());
                    continue;
                }
            };
            let Some(given) = given.as_object() else {
                fault(kind.clone(), given, "a table of options".to_owned());
                continue;
            };
            for (option, value) in given {
                match (options.field(option), value.as_f64()) {
                    (Some(field), Some(value)) => *field = value,
                    (Some(_), None) => fault(format!("{kind}.{option}"), value, "a number".to_owned()),
                    (None, _) => {
                        let names = Options::NAMES.join(", ");
                        let allowed = format!("no such name: the names here are {names}");
                        fault(format!("{kind}.{option}"), value, allowed);
                    }
                }
            }
        }
        if let Err(more) = section.validate() {
            faults.extend(more.iter().cloned());
        }
        Faults::none_of(faults)?;
        Ok(section)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn gaussian_1_all_mistakes_are_told_with_path_value_and_what_is_allowed() {
        let faults = ProblemSettings::read(&json!({
            "dimension": true,
            "infer": ["mean:0", "median:1", "mean:*"],
            "fixed_std": 0.0,
            "fixed": {"std:0": -1.0, "mean:4": 2.0, "mean:0": 2.0},
            "overrides": {"mean:0": {"lowest": 1.0}},
            "colour": "red",
        }))
        .unwrap_err();
        let paths: Vec<&str> = faults.iter().map(|fault| fault.path.as_str()).collect();
        for path in [
            "problem.dimension",
            "problem.infer[1]",
            "problem.infer[2]",
            "problem.fixed_std",
            "problem.fixed.std:0",
            "problem.fixed.mean:4",
            "problem.overrides.mean:0.lowest",
            "problem.colour",
        ] {
            assert!(paths.contains(&path), "{path}: {faults}");
        }
        let text = faults.to_string();
        assert!(
            text.contains("`problem.dimension` is true; allowed is a whole number of 1 to 65536"),
            "{text}"
        );
        let both = ProblemSettings::read(&json!({"fixed": {"mean:0": 2.0}})).unwrap_err().to_string();
        assert!(both.contains("a parameter that is not inferred too"), "{both}");
    }

    #[test]
    fn gaussian_1_options_are_those_of_the_kind_under_those_of_the_parameter() {
        let parameters = ParametersSettings::read(&json!({"std": {"low": 0.5}})).unwrap();
        let problem =
            ProblemSettings::read(&json!({"dimension": 2, "overrides": {"std:1": {"high": 3.0}}})).unwrap();
        let options = parameters.of(&problem, Kind::Std.at(1));
        assert_eq!((options.low, options.high, options.normal_std), (0.5, 3.0, 0.7));
        assert_eq!(parameters.of(&problem, Kind::Std.at(0)).high, 4.0);

        let faults = ParametersSettings::read(&json!({
            "std": {"low": 0.0, "high": "wide"}, "mean": {"low": 11.0, "lower": 1.0}, "median": {},
        }))
        .unwrap_err()
        .to_string();
        for part in ["std.low", "std.high", "mean.high", "mean.lower", "parameters.median"] {
            assert!(faults.contains(part), "{part}: {faults}");
        }
    }

    #[test]
    fn nothing_and_a_table_of_nothing_are_the_defaults() {
        assert_eq!(ProblemSettings::read(&Value::Null).unwrap(), ProblemSettings::default());
        assert_eq!(ProblemSettings::read(&json!({})).unwrap(), ProblemSettings::default());
        assert_eq!(ParametersSettings::read(&json!({})).unwrap(), ParametersSettings::default());
        assert!(ProblemSettings::read(&json!([])).is_err());
    }
}
