//! The simulator: observations of independent normal coordinates, and which of their parameters are inferred.

use std::fmt;
use std::str::FromStr;

use rand_core::Rng;
use serde::{Deserialize, Serialize};

use crate::error::GaussianError;
use crate::normal::LN_SQRT_TAU;
use crate::random::standard_normal;

/// What a parameter is of its coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Its mean.
    Mean,
    /// Its standard deviation.
    Std,
}

impl Kind {
    /// The parameter of a coordinate.
    #[must_use]
    pub fn at(self, index: usize) -> ParameterName {
        ParameterName { kind: self, index }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mean => "mean",
            Self::Std => "std",
        })
    }
}

/// A parameter by kind and coordinate, written `mean:0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ParameterName {
    /// Mean or standard deviation.
    pub kind: Kind,
    /// The coordinate, from 0.
    pub index: usize,
}

impl fmt::Display for ParameterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.index)
    }
}

impl FromStr for ParameterName {
    type Err = GaussianError;

    fn from_str(text: &str) -> Result<Self, GaussianError> {
        let kinds = [("mean:", Kind::Mean), ("std:", Kind::Std)];
        let found = kinds.iter().find_map(|(prefix, kind)| Some((text.strip_prefix(prefix)?, kind)));
        // What is written back is what was read, so there is one way to write each.
        let index = found.and_then(|(digits, kind)| Some(kind.at(digits.parse().ok()?)));
        index.filter(|name| name.to_string() == text).ok_or_else(|| {
            GaussianError::value("parameter", format!("`{text}` is none: write `mean:0` or `std:0`"))
        })
    }
}

impl Serialize for ParameterName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ParameterName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A parameter that is inferred.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name.
    pub name: ParameterName,
    /// Low end of its box.
    pub low: f64,
    /// High end of its box.
    pub high: f64,
    /// Distance of the points of its lattice.
    pub grid_step: f64,
}

impl Parameter {
    /// The length of its box.
    #[must_use]
    pub fn width(&self) -> f64 {
        self.high - self.low
    }
}

/// A problem whose settings were resolved: serialized, it holds what decides truths and observations and nothing else, so it
/// can stand in the recipe of a product. (The shapes of priors stand in a [`Prior`](crate::Prior).)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    parameters: Vec<Parameter>,
    /// Of each coordinate: its mean where that is a constant.
    mean: Vec<Option<f64>>,
    /// Likewise its standard deviation.
    std: Vec<Option<f64>>,
}

impl Problem {
    pub(crate) fn new(parameters: Vec<Parameter>, mean: Vec<Option<f64>>, std: Vec<Option<f64>>) -> Self {
        Self { parameters, mean, std }
    }

    /// Coordinates of an observation: d.
    #[must_use]
    pub fn dimension(&self) -> usize {
        self.mean.len()
    }

    /// What is inferred, in the order of theta's columns: p of them.
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Their names.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.parameters.iter().map(|parameter| parameter.name.to_string()).collect()
    }

    /// Mean and standard deviation of each coordinate at a parameter point.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] for a point of another length, with a value that is not finite, or with a standard deviation that
    /// is not positive.
    pub fn moments<T: Copy + Into<f64>>(&self, theta: &[T]) -> Result<(Vec<f64>, Vec<f64>), GaussianError> {
        GaussianError::length("theta", theta.len(), self.parameters.len())?;
        let constants = |values: &[Option<f64>]| -> Vec<f64> {
            values.iter().map(|value| value.unwrap_or(f64::NAN)).collect()
        };
        let (mut mean, mut std) = (constants(&self.mean), constants(&self.std));
        for (parameter, value) in self.parameters.iter().zip(theta) {
            let value: f64 = (*value).into();
            let name = parameter.name;
            if !value.is_finite() {
                return Err(GaussianError::value(
                    "theta",
                    format!("has the value {value} at `{name}`: it is finite"),
                ));
            }
            match name.kind {
                Kind::Mean => mean[name.index] = value,
                Kind::Std if value > 0.0 => std[name.index] = value,
                Kind::Std => {
                    let why = format!("has the value {value} at `{name}`: a standard deviation is positive");
                    return Err(GaussianError::value("theta", why));
                }
            }
        }
        Ok((mean, std))
    }

    /// The log likelihood of one observation at a parameter point.
    ///
    /// # Errors
    ///
    /// As [`moments`](Self::moments), and for an observation of another length.
    pub fn log_likelihood<X: Copy + Into<f64>, T: Copy + Into<f64>>(
        &self,
        x: &[X],
        theta: &[T],
    ) -> Result<f64, GaussianError> {
        let at = self.likelihood(theta)?;
        GaussianError::length("x", x.len(), self.dimension())?;
        Ok(at.of(x))
    }

    /// The likelihood at a parameter point, for many observations.
    ///
    /// # Errors
    ///
    /// As [`moments`](Self::moments).
    pub fn likelihood<T: Copy + Into<f64>>(&self, theta: &[T]) -> Result<Likelihood, GaussianError> {
        let (mean, std) = self.moments(theta)?;
        let constant = std.iter().map(|std| -libm::log(*std) - LN_SQRT_TAU).sum();
        let precision = std.iter().map(|std| 1.0 / (std * std)).collect();
        Ok(Likelihood { mean, precision, constant })
    }

    /// Draws `count` observations at a parameter point, each coordinate in turn, and adds them to `out`.
    ///
    /// # Errors
    ///
    /// As [`moments`](Self::moments), and for a value that is not finite as f32.
    pub fn simulate<T: Copy + Into<f64>>(
        &self,
        theta: &[T],
        count: usize,
        rng: &mut impl Rng,
        out: &mut Vec<f32>,
    ) -> Result<(), GaussianError> {
        let (mean, std) = self.moments(theta)?;
        out.reserve(count * mean.len());
        for _ in 0..count {
            for (mean, std) in mean.iter().zip(&std) {
                let value = (mean + std * standard_normal(rng)) as f32;
                if !value.is_finite() {
                    return Err(GaussianError::value("x", format!("was drawn as {value}: it is finite")));
                }
                out.push(value);
            }
        }
        Ok(())
    }
}

/// The likelihood at one parameter point.
#[derive(Clone, Debug)]
pub struct Likelihood {
    mean: Vec<f64>,
    /// One over the variance.
    precision: Vec<f64>,
    constant: f64,
}

impl Likelihood {
    /// The log likelihood of an observation of as many coordinates.
    pub fn of<X: Copy + Into<f64>>(&self, x: &[X]) -> f64 {
        let coordinates = x.iter().zip(self.mean.iter().zip(&self.precision));
        let squares = coordinates.map(|(x, (mean, precision))| {
            let distance = (*x).into() - mean;
            distance * distance * precision
        });
        self.constant - 0.5 * squares.sum::<f64>()
    }

    /// The sum over an ensemble, from its [`Moments`].
    pub(crate) fn of_all(&self, moments: &Moments) -> f64 {
        let count = moments.count;
        let coordinates = moments.each.iter().zip(self.mean.iter().zip(&self.precision));
        let squares = coordinates.map(|((centre, spread), (mean, precision))| {
            let distance = centre - mean;
            (spread + count * distance * distance) * precision
        });
        count * self.constant - 0.5 * squares.sum::<f64>()
    }
}

/// What the likelihood needs to know of an ensemble: how many, and of each coordinate the mean and the sum of squared
/// distances from it. With these the sum over observations costs the same for any number of them, and loses no digits.
#[derive(Clone, Debug)]
pub(crate) struct Moments {
    count: f64,
    each: Vec<(f64, f64)>,
}

impl Moments {
    pub(crate) fn new(observations: &[f32], dimension: usize) -> Self {
        let count = (observations.len() / dimension) as f64;
        let each = (0..dimension).map(|coordinate| {
            let values = || observations.iter().skip(coordinate).step_by(dimension).map(|x| f64::from(*x));
            let centre = values().sum::<f64>() / count;
            (centre, values().map(|x| (x - centre) * (x - centre)).sum::<f64>())
        });
        Self { count, each: each.collect() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use waycairn_analysis_api::stream;

    use super::*;
    use crate::normal::log_density;
    use crate::settings::{ParametersSettings, ProblemSettings, Section as _};

    fn problem(settings: Value) -> Problem {
        Problem::resolve(&ProblemSettings::read(&settings).unwrap(), &ParametersSettings::default()).unwrap()
    }

    #[test]
    fn gaussian_case_04_columns_follow_the_order_of_infer() {
        let problem =
            problem(json!({"dimension": 2, "infer": ["std:1", "mean:0"], "fixed": {"mean:1": 8.0}}));
        assert_eq!(problem.names(), ["std:1", "mean:0"]);
        assert_eq!(problem.moments(&[3.0, 7.0]).unwrap(), (vec![7.0, 8.0], vec![2.0, 3.0]));
        assert_eq!(problem.moments(&[1.0, 4.0]).unwrap(), (vec![4.0, 8.0], vec![2.0, 1.0]));
    }

    #[test]
    fn gaussian_case_05_selectors_that_select_nothing_or_twice_are_refused() {
        let refused = |dimension: u64, infer: Value| {
            let settings = ProblemSettings::read(&json!({"dimension": dimension, "infer": infer}));
            settings.unwrap_err().to_string()
        };
        assert!(refused(1, json!([])).contains("at least one"));
        assert!(refused(2, json!(["mean:0", "mean:0"])).contains("`mean:0` comes twice"));
        assert!(refused(1, json!(["median:0"])).contains("`std:0` to `std:0`"));
        assert!(refused(1, json!(["std:1"])).contains("`std:0` to `std:0`"));
        assert!(refused(2, json!(["mean:*", "mean:0"])).contains("problem.infer[1]"));
        for odd in ["mean:", "mean:+1", "mean:01", "mean", "mean:-1", ":0"] {
            refused(2, json!([odd]));
        }
    }

    #[test]
    fn gaussian_case_06_samples_and_likelihood_are_those_of_the_moments() {
        let problem = problem(json!({"dimension": 2, "infer": ["mean:0", "mean:1", "std:1"]}));
        let (theta, mut x) = ([3.0, 6.0, 1.5], Vec::new());
        problem.simulate(&theta, 50_000, &mut stream(0, "test", None), &mut x).unwrap();
        for (coordinate, mean, std) in [(0, 3.0, 2.0), (1, 6.0, 1.5)] {
            let values: Vec<f64> = x.iter().skip(coordinate).step_by(2).map(|x| f64::from(*x)).collect();
            let found = values.iter().sum::<f64>() / 5e4;
            let spread = (values.iter().map(|x| (x - found).powi(2)).sum::<f64>() / 5e4).sqrt();
            assert!((found - mean).abs() < 0.04 && (spread - std).abs() < 0.04, "{found} {spread}");
        }
        let likelihood = problem.log_likelihood(&[1.0, 2.0], &theta).unwrap();
        assert!((likelihood - log_density(1.0, 3.0, 2.0) - log_density(2.0, 6.0, 1.5)).abs() < 1e-14);
        // Calculated for the specification.
        assert!((likelihood - -6.992_044_910_633_011).abs() < 1e-12);
        assert!((log_density(3.0, 5.0, 2.0) - -2.112_085_713_764_618).abs() < 1e-14);
        let refused = problem.moments(&[3.0, 6.0, 0.0]).unwrap_err().to_string();
        assert!(refused.contains("positive"), "{refused}");
        assert!(problem.moments(&[f64::NAN, 6.0, 1.0]).is_err());
        assert!(problem.moments(&[3.0, 6.0]).is_err());
    }

    #[test]
    fn the_sum_over_an_ensemble_needs_its_moments_alone() {
        let problem = problem(json!({"dimension": 2, "infer": ["mean:*", "std:*"]}));
        let mut x = Vec::new();
        problem.simulate(&[3.0, 6.0, 0.3, 2.0], 40, &mut stream(0, "test", None), &mut x).unwrap();
        let likelihood = problem.likelihood(&[3.5, 6.5, 0.2, 1.0]).unwrap();
        let one_by_one: f64 = x.chunks_exact(2).map(|x| likelihood.of(x)).sum();
        let at_once = likelihood.of_all(&Moments::new(&x, 2));
        assert!((at_once / one_by_one - 1.0).abs() < 1e-12, "{at_once} {one_by_one}");
    }

    #[test]
    fn gaussian_2_a_problem_says_nothing_of_priors_and_of_constants_that_are_inferred() {
        let one = problem(json!({"dimension": 2, "fixed_mean": 1.0}));
        assert_eq!(one, problem(json!({"dimension": 2})));
        let text = serde_json::to_value(&one).unwrap();
        assert_eq!(
            text,
            json!({
                "parameters": [
                    {"name": "mean:0", "low": 0.0, "high": 10.0, "grid_step": 0.2},
                    {"name": "mean:1", "low": 0.0, "high": 10.0, "grid_step": 0.2},
                ],
                "mean": [null, null],
                "std": [2.0, 2.0],
            })
        );
        assert_eq!(Problem::deserialize(&text).unwrap(), one);
    }
}
