//! From settings to a problem and its priors: what the sources of products do not depend on.

use std::collections::BTreeSet;

use super::fault::{Fault, Faults, json, number};
use super::prior::{Family, PriorDefinition};
use super::problem::{ParametersSettings, ProblemSettings, option_path};
use super::section::Section as _;
use crate::prior::{Coordinate, Prior};
use crate::problem::{Kind, Parameter, ParameterName, Problem};

impl Problem {
    /// Resolves the settings of a problem.
    ///
    /// # Errors
    ///
    /// [`Faults`] with all that is not allowed.
    pub fn resolve(problem: &ProblemSettings, parameters: &ParametersSettings) -> Result<Self, Faults> {
        problem.validate()?;
        let names = problem.expand().map_err(|_| {
            Faults::one("problem.infer", &problem.infer, "selectors of the problem's parameters")
        })?;
        parameters.check_boxes(problem, &names)?;
        let inferred: Vec<Parameter> = names
            .iter()
            .map(|name| {
                let options = parameters.of(problem, *name);
                Parameter { name: *name, low: options.low, high: options.high, grid_step: options.grid_step }
            })
            .collect();
        let constants = |kind: Kind, otherwise: f64| -> Vec<Option<f64>> {
            let all = (0..problem.dimension as usize).map(|index| kind.at(index));
            let constant = |name: ParameterName| *problem.fixed.get(&name.to_string()).unwrap_or(&otherwise);
            let taken: BTreeSet<&ParameterName> = names.iter().collect();
            all.map(|name| (!taken.contains(&name)).then(|| constant(name))).collect()
        };
        let (mean, std) =
            (constants(Kind::Mean, problem.fixed_mean), constants(Kind::Std, problem.fixed_std));
        Ok(Self::new(inferred, mean, std))
    }
}

impl Prior {
    /// Resolves the definition of a prior for a problem; `name` is that of the definition.
    ///
    /// # Errors
    ///
    /// [`Faults`] with all that makes none: a family of a parameter that is not inferred, a normal scale that is not
    /// positive, a rate whose product with the box is not finite, a step without a lattice.
    pub fn resolve(
        name: &str,
        definition: &PriorDefinition,
        problem: &ProblemSettings,
        parameters: &ParametersSettings,
        resolved: &Problem,
    ) -> Result<Self, Faults> {
        let mut faults = Vec::new();
        for (text, family) in &definition.by_parameter {
            let known = text.parse::<ParameterName>();
            if known.is_ok_and(|name| name.index < resolved.dimension()) {
                continue;
            }
            faults.push(Fault {
                path: format!("priors.{name}.by_parameter.{text}"),
                value: json(family),
                allowed: format!("a parameter of the problem; inferred are {}", resolved.names().join(", ")),
            });
        }
        let mut coordinates = Vec::with_capacity(resolved.parameters().len());
        for parameter in resolved.parameters() {
            let options = parameters.of(problem, parameter.name);
            let text = parameter.name.to_string();
            let (low, high) = (options.low, options.high);
            let coordinate = match definition.by_parameter.get(&text).unwrap_or(&definition.family) {
                Family::Uniform => Coordinate::Uniform { low, high },
                Family::Normal => {
                    Coordinate::Normal { low, high, mean: options.normal_mean, std: options.normal_std }
                }
                Family::Exponential => Coordinate::Exponential { low, high, rate: options.exponential_rate },
                Family::Grid => Coordinate::Grid { low, high, step: options.grid_step },
            };
            if let Some((option, value, allowed)) = coordinate.wrong() {
                let fault = Fault {
                    path: option_path(problem, parameter.name, option),
                    value: number(value),
                    allowed,
                };
                if !faults.contains(&fault) {
                    faults.push(fault);
                }
            }
            coordinates.push(coordinate);
        }
        Faults::none_of(faults)?;
        Ok(Self::new(coordinates))
    }
}
