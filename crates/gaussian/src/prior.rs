//! Priors: independent over coordinates, each within its box.

use rand_core::Rng;
use serde::{Deserialize, Serialize};

use crate::error::GaussianError;
use crate::lattice::{Lattice, SLACK};
use crate::normal::{between, inverse_between, log_add, log_density, log_one_minus_exp};
use crate::random::uniform;

/// Below this an exponential prior is drawn as a uniform one.
const FLAT: f64 = 1e-8;

/// The prior of one coordinate, with the options of its own family alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "family", rename_all = "lowercase")]
pub(crate) enum Coordinate {
    Uniform { low: f64, high: f64 },
    Normal { low: f64, high: f64, mean: f64, std: f64 },
    Exponential { low: f64, high: f64, rate: f64 },
    Grid { low: f64, high: f64, step: f64 },
}

/// What a density is a density of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Every coordinate is continuous.
    Continuous,
    /// Every coordinate has a lattice.
    Discrete,
    /// Some have.
    Mixed,
}

impl Measure {
    /// The measure of axes, of which some are discrete.
    pub(crate) fn of(discrete: impl Iterator<Item = bool>) -> Self {
        let (mut any, mut all) = (false, true);
        for discrete in discrete {
            any |= discrete;
            all &= discrete;
        }
        match (any, all) {
            (true, true) => Self::Discrete,
            (true, false) => Self::Mixed,
            (false, _) => Self::Continuous,
        }
    }

    /// What candidates call it: `counting`, `Lebesgue` or `mixed`.
    #[must_use]
    pub fn base(self) -> &'static str {
        match self {
            Self::Continuous => "Lebesgue",
            Self::Discrete => "counting",
            Self::Mixed => "mixed",
        }
    }
}

/// The prior of a problem. Serialized, it holds what decides its numbers and nothing else, so it can stand in the recipe of
/// a product.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Prior {
    coordinates: Vec<Coordinate>,
}

impl Prior {
    pub(crate) fn new(coordinates: Vec<Coordinate>) -> Self {
        Self { coordinates }
    }

    /// How many coordinates it has.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.coordinates.len()
    }

    /// The log density or mass of a parameter point: -inf outside of its support.
    ///
    /// # Errors
    ///
    /// [`GaussianError::Shape`] for a point of another length.
    pub fn log_density<T: Copy + Into<f64>>(&self, theta: &[T]) -> Result<f64, GaussianError> {
        GaussianError::length("theta", theta.len(), self.coordinates.len())?;
        Ok(self
            .coordinates
            .iter()
            .zip(theta)
            .map(|(coordinate, value)| coordinate.log_density((*value).into()))
            .sum())
    }

    /// The log density of each of many points \[points, parameters\].
    ///
    /// # Errors
    ///
    /// [`GaussianError::Shape`] where a point is not whole.
    pub fn log_densities(&self, theta: &[f32]) -> Result<Vec<f64>, GaussianError> {
        let count = self.coordinates.len();
        GaussianError::length("theta", theta.len(), theta.len() / count * count)?;
        // What does not depend on the point is computed once.
        let each: Vec<Prepared> = self.coordinates.iter().map(Coordinate::prepare).collect();
        Ok(theta
            .chunks_exact(count)
            .map(|point| each.iter().zip(point).map(|(one, value)| one.log_density(f64::from(*value))).sum())
            .collect())
    }

    /// Draws points \[size, parameters\]: of each coordinate in turn a block of `size` uniform numbers.
    ///
    /// # Errors
    ///
    /// [`GaussianError::Value`] for a value that is not finite as f32.
    pub fn sample(&self, size: usize, rng: &mut impl Rng) -> Result<Vec<f32>, GaussianError> {
        let count = self.coordinates.len();
        let mut out = vec![0.0; size * count];
        for (column, coordinate) in self.coordinates.iter().enumerate() {
            for row in out.chunks_exact_mut(count) {
                row[column] = coordinate.at(uniform(rng)) as f32;
                if !row[column].is_finite() {
                    return Err(GaussianError::value("theta", format!("was drawn as {}", row[column])));
                }
            }
        }
        Ok(out)
    }

    /// The prior of one coordinate by itself: coordinates are independent.
    ///
    /// # Errors
    ///
    /// [`GaussianError::Value`] for a coordinate that there is not.
    pub fn marginal(&self, coordinate: usize) -> Result<Self, GaussianError> {
        match self.coordinates.get(coordinate) {
            Some(one) => Ok(Self { coordinates: vec![*one] }),
            None => Err(GaussianError::value(
                "coordinate",
                format!("is {coordinate} of a prior with {}", self.coordinates.len()),
            )),
        }
    }

    /// The lattice of each coordinate that has one.
    #[must_use]
    pub fn lattices(&self) -> Vec<Option<Lattice>> {
        self.coordinates.iter().map(Coordinate::lattice).collect()
    }

    /// The points of each coordinate that has a lattice.
    #[must_use]
    pub fn support_axes(&self) -> Vec<Option<Vec<f64>>> {
        self.lattices().into_iter().map(|lattice| lattice.map(|lattice| lattice.points())).collect()
    }

    /// What its density is a density of.
    #[must_use]
    pub fn measure(&self) -> Measure {
        Measure::of(self.lattices().iter().map(Option::is_some))
    }
}

/// A coordinate with what its log density needs of it.
#[derive(Debug)]
struct Prepared {
    low: f64,
    high: f64,
    lattice: Option<Lattice>,
    /// The log density is `constant + slope (x - low) - (x - centre)^2 precision / 2`.
    constant: f64,
    slope: f64,
    centre: f64,
    precision: f64,
}

impl Prepared {
    fn log_density(&self, value: f64) -> f64 {
        let inside = value >= self.low - SLACK && value <= self.high + SLACK;
        if !inside || self.lattice.is_some_and(|lattice| !lattice.contains(value)) {
            return f64::NEG_INFINITY;
        }
        let distance = value - self.centre;
        self.constant + self.slope * (value - self.low) - 0.5 * self.precision * distance * distance
    }
}

impl Coordinate {
    /// The option that makes no prior, its value, and what would.
    pub(crate) fn wrong(&self) -> Option<(&'static str, f64, String)> {
        match *self {
            Self::Uniform { .. } => None,
            Self::Normal { mean, .. } if !mean.is_finite() => {
                Some(("normal_mean", mean, "a finite number".to_owned()))
            }
            Self::Normal { std, .. } if !(std.is_finite() && std > 0.0) => {
                Some(("normal_std", std, "a finite number above 0".to_owned()))
            }
            Self::Normal { low, high, mean, std } => {
                let mass = between((low - mean) / std, (high - mean) / std);
                let allowed = format!("a centre with mass in {low} to {high} at `normal_std` = {std}");
                (mass < f64::MIN_POSITIVE).then_some(("normal_mean", mean, allowed))
            }
            Self::Exponential { low, high, rate } => {
                let allowed = "a rate whose product with the width of the box is finite".to_owned();
                (!(rate * (high - low)).is_finite()).then_some(("exponential_rate", rate, allowed))
            }
            Self::Grid { low, high, step } => {
                let allowed = "a step above 0 that makes at most 10^7 points".to_owned();
                Lattice::new(low, high, step).is_err().then_some(("grid_step", step, allowed))
            }
        }
    }

    fn lattice(&self) -> Option<Lattice> {
        match *self {
            Self::Grid { low, high, step } => Lattice::new(low, high, step).ok(),
            _ => None,
        }
    }

    fn prepare(&self) -> Prepared {
        let flat = |low: f64, high: f64, constant: f64| Prepared {
            low,
            high,
            lattice: None,
            constant,
            slope: 0.0,
            centre: 0.0,
            precision: 0.0,
        };
        match *self {
            Self::Uniform { low, high } => flat(low, high, -libm::log(high - low)),
            Self::Normal { low, high, mean, std } => {
                let mass = between((low - mean) / std, (high - mean) / std);
                let constant = log_density(mean, mean, std) - libm::log(mass);
                Prepared { centre: mean, precision: 1.0 / (std * std), ..flat(low, high, constant) }
            }
            Self::Exponential { low, high, rate } => {
                let width = high - low;
                let constant = -libm::log(width) - log_mean_exp(-rate * width);
                Prepared { slope: -rate, ..flat(low, high, constant) }
            }
            Self::Grid { low, high, .. } => {
                let lattice = self.lattice();
                let count = lattice.map_or(1, |lattice| lattice.count());
                Prepared { lattice, ..flat(low, high, -libm::log(count as f64)) }
            }
        }
    }

    fn log_density(&self, value: f64) -> f64 {
        self.prepare().log_density(value)
    }

    /// The value below which the share u lies.
    fn at(&self, u: f64) -> f64 {
        match *self {
            Self::Uniform { low, high } => low + u * (high - low),
            Self::Normal { low, high, mean, std } => {
                (mean + std * inverse_between(u, (low - mean) / std, (high - mean) / std)).clamp(low, high)
            }
            Self::Exponential { low, high, rate } => {
                let (width, k) = (high - low, -rate * (high - low));
                if k.abs() < FLAT {
                    return low + u * width;
                }
                // ln(1 - u + u e^k) / k
                let share = log_add(libm::log1p(-u), libm::log(u) + k) / k;
                (low + width * share).clamp(low, high)
            }
            Self::Grid { low, .. } => self.lattice().map_or(low, |lattice| lattice.pick(u)),
        }
    }
}

/// ln((e^k - 1) / k), whatever the size of k.
fn log_mean_exp(k: f64) -> f64 {
    if k.abs() < 1e-6 {
        libm::log1p(k / 2.0 + k * k / 6.0 + k * k * k / 24.0)
    } else if k > 0.0 {
        k + log_one_minus_exp(-k) - libm::log(k)
    } else {
        log_one_minus_exp(k) - libm::log(-k)
    }
}

#[cfg(test)]
mod tests;
