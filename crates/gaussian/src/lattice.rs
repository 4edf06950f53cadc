//! The evenly spaced points of one parameter.

use serde::{Deserialize, Serialize};

use crate::error::GaussianError;
use crate::problem::Parameter;

/// Points of one axis, at most.
const MAX_POINTS: f64 = 1e7;

/// What a value may lie outside of its box, or off its point, and still count as there: values are kept as f32.
pub(crate) const SLACK: f64 = 1e-7;

/// The points `low + i step` up to `high`. Serialized, it says which points those are, so it can stand in the recipe of a
/// product for the list of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lattice {
    low: f64,
    step: f64,
    count: usize,
}

impl Lattice {
    /// The points of a box.
    ///
    /// # Errors
    ///
    /// [`GaussianError::Value`] for a step that is not positive, or so small that there are more than 10^7 points.
    pub fn new(low: f64, high: f64, step: f64) -> Result<Self, GaussianError> {
        if !(step.is_finite() && step > 0.0) {
            return Err(GaussianError::value(
                "grid_step",
                format!("is {step}; it is a finite number above 0"),
            ));
        }
        let last = ((high - low) / step + 1e-10).floor();
        if !(0.0..MAX_POINTS).contains(&last) {
            let why = format!("is {step}, too small for {low} to {high}: at most 10^7 points; raise it");
            return Err(GaussianError::value("grid_step", why));
        }
        Ok(Self { low, step, count: last as usize + 1 })
    }

    /// The lattice of a parameter.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn of(parameter: &Parameter) -> Result<Self, GaussianError> {
        Self::new(parameter.low, parameter.high, parameter.grid_step)
    }

    /// How many points there are: at least one.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The point of an index.
    #[must_use]
    pub fn point(&self, index: usize) -> f64 {
        self.low + self.step * index as f64
    }

    /// All points, rising.
    #[must_use]
    pub fn points(&self) -> Vec<f64> {
        (0..self.count).map(|index| self.point(index)).collect()
    }

    /// Whether a value is a point, as closely as an f32 can say.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        let index = ((value - self.low) / self.step).round();
        (0.0..self.count as f64).contains(&index)
            && (value - self.point(index as usize)).abs() <= (self.step * 1e-4).max(1e-6)
    }

    /// The point of a uniform number of \[0, 1).
    #[must_use]
    pub fn pick(&self, u: f64) -> f64 {
        self.point(((u * self.count as f64) as usize).min(self.count - 1))
    }

    /// The point that is nearest to a value, among those of \[low, high\]; of two as near the lower one.
    #[must_use]
    pub fn nearest_within(&self, value: f64, low: f64, high: f64) -> Option<f64> {
        let inside = |index: f64| {
            let point = self.point(index as usize);
            point >= low - SLACK && point <= high + SLACK
        };
        let last = (self.count - 1) as f64;
        let mut first = ((low - self.low) / self.step).floor().clamp(0.0, last);
        let mut end = ((high - self.low) / self.step).ceil().clamp(0.0, last);
        while first <= end && !inside(first) {
            first += 1.0;
        }
        while end >= first && !inside(end) {
            end -= 1.0;
        }
        if first > end {
            return None;
        }
        let below = ((value - self.low) / self.step).floor().clamp(first, end);
        let above = (below + 1.0).min(end);
        let (below, above) = (self.point(below as usize), self.point(above as usize));
        // A tie that only rounding decides is a tie.
        let farther = (above - value).abs() + self.step * 1e-9 < (below - value).abs();
        Some(if farther { above } else { below })
    }
}

/// Point i of `count` from low to high, both included; of one point the middle.
pub(crate) fn spaced(low: f64, high: f64, count: usize, index: usize) -> f64 {
    match count {
        0 | 1 => f64::midpoint(low, high),
        _ if index + 1 == count => high,
        _ => low + (high - low) * index as f64 / (count - 1) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_the_defaults() {
        let means = Lattice::new(0.0, 10.0, 0.2).unwrap();
        assert_eq!((means.count(), means.point(0), means.point(50)), (51, 0.0, 10.0));
        let stds = Lattice::new(0.2, 4.0, 0.2).unwrap();
        assert_eq!(stds.count(), 20);
        assert!((stds.point(19) - 4.0).abs() < 1e-12);
        let spread = means.points().iter().map(|x| (x - 5.0).powi(2)).sum::<f64>() / 51.0;
        assert!((spread.sqrt() - 2.943_92).abs() < 1e-5, "calculated for the specification");
    }

    #[test]
    fn values_are_on_it_as_closely_as_f32() {
        let means = Lattice::new(0.0, 10.0, 0.2).unwrap();
        assert!(means.points().iter().all(|point| means.contains(f64::from(*point as f32))));
        assert!(!means.contains(0.1) && !means.contains(10.2) && !means.contains(-0.2));
        assert!(!means.contains(f64::NAN));
        assert_eq!((means.pick(0.0), means.pick(1.0 - 1e-16)), (0.0, 10.0));
    }

    #[test]
    fn the_nearest_point_lies_within_and_a_tie_goes_down() {
        let means = Lattice::new(0.0, 10.0, 0.2).unwrap();
        let nearest = |value| means.nearest_within(value, 1.0, 9.0).unwrap();
        for (value, point) in
            [(0.0, 1.0), (1.09, 1.0), (1.1, 1.0), (1.11, 1.2), (2.3, 2.2), (8.97, 9.0), (9.9, 9.0)]
        {
            assert!((nearest(value) - point).abs() < 1e-9, "{value}: {}", nearest(value));
        }
        assert_eq!(means.nearest_within(1.05, 1.02, 1.08), None);
    }

    #[test]
    fn steps_that_make_no_lattice_are_refused() {
        for step in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-7] {
            assert!(Lattice::new(0.0, 10.0, step).is_err(), "{step}");
        }
        assert_eq!(Lattice::new(0.0, 10.0, 11.0).unwrap().count(), 1);
    }
}
