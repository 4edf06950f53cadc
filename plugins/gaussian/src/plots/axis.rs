//! Axes: what they range over. Where their ticks are is for `plotters` to say.

use std::ops::Range;

use plotters::coord::ranged1d::{BoldPoints, KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;

use super::words::{decade, power_text, signed};

/// One axis of a figure.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) label: String,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Ticks at whole numbers alone.
    whole: bool,
    pub(crate) ticks: Vec<f64>,
}

impl Axis {
    /// An axis between two values. Where they are equal it is made wide enough to be one.
    pub(crate) fn new(label: impl Into<String>, low: f64, high: f64) -> Self {
        let air = if low < high { 0.0 } else { (low.abs() * 0.05).max(0.5) };
        Self { label: label.into(), low: low - air, high: high + air, whole: false, ticks: Vec::new() }
    }

    /// An axis that holds all values, with air at both ends.
    pub(crate) fn holding(label: impl Into<String>, values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = range(values).unwrap_or((0.0, 1.0));
        let air = (high - low) * 0.04;
        Self::new(label, low - air, high + air)
    }

    /// An axis from 0 on, with air above the largest value.
    pub(crate) fn from_zero(label: impl Into<String>, values: impl Iterator<Item = f64>) -> Self {
        let high = range(values).map_or(1.0, |(_, high)| high);
        Self::new(label, 0.0, if high > 0.0 { high * 1.06 } else { 1.06 })
    }

    /// An axis of counts from 1 on.
    pub(crate) fn counts(label: impl Into<String>, count: usize) -> Self {
        let count = count.max(1) as f64;
        let air = ((count - 1.0) * 0.04).max(0.25);
        Self { whole: true, ..Self::new(label, 1.0 - air, count + air) }
    }

    /// With at most `most` ticks, where `plotters` places them.
    pub(crate) fn ticked(&self, most: usize) -> Self {
        let mut ticks = self.numbers().key_points(BoldPoints(most));
        ticks.retain(|tick| !self.whole || (tick - tick.round()).abs() < 1e-9);
        Self { ticks, ..self.clone() }
    }

    fn numbers(&self) -> RangedCoordf64 {
        (self.low..self.high).into()
    }

    /// The label, with the power of ten that the ticks are to be multiplied by.
    pub(crate) fn described(&self) -> String {
        match power(&self.ticks) {
            0 => self.label.clone(),
            power => format!("{} (\u{d7} {})", self.label, power_text(power)),
        }
    }

    /// What stands at each tick.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.ticks.iter().map(|tick| self.format_ext(tick)).collect()
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.numbers().map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    /// As many digits as tell all ticks apart.
    fn format_ext(&self, value: &f64) -> String {
        let scale = libm::exp10(f64::from(power(&self.ticks)));
        let whole = |digits: &usize| {
            let mut steps = self.ticks.iter().map(|tick| tick / scale * libm::exp10(*digits as f64));
            steps.all(|step| (step - step.round()).abs() < 1e-4 * step.abs().max(1.0))
        };
        let digits = (0..6).find(whole).unwrap_or(6);
        signed(&format!("{:.digits$}", value / scale))
    }
}

/// The power of ten of ticks that would be long without it; else 0.
fn power(ticks: &[f64]) -> i32 {
    let power = decade(ticks.iter().fold(0.0, |largest, tick| tick.abs().max(largest)));
    if (-2..=4).contains(&power) { 0 } else { power }
}

/// The least and the largest of values that are finite.
pub(crate) fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite()).fold(None, |range, value| {
        let (low, high) = range.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis, most: usize) -> Vec<String> {
        axis.ticked(most).texts()
    }

    #[test]
    fn ticks_are_written_with_the_digits_that_tell_them_apart() {
        assert_eq!(texts(&Axis::new("", 0.0, 10.0), 6), ["0", "2", "4", "6", "8", "10"]);
        let signs = ["\u{2212}0.10", "\u{2212}0.05", "0.00", "0.05", "0.10"];
        assert_eq!(texts(&Axis::new("", -0.11, 0.12), 6), signs);
        let small = Axis::new("density", 0.0, 6.5e-4);
        assert_eq!(texts(&small, 4), ["0", "2", "4", "6"]);
        assert_eq!(small.ticked(4).described(), "density (\u{d7} 10\u{207b}\u{2074})");
        assert_eq!(texts(&Axis::counts("", 2), 6), ["1", "2"]);
        for (low, high) in [(3.0, 3.0), (0.0, 0.0), (-1e300, 1e300), (1e9, 1e9 + 1.0), (1e-9, 2e-9)] {
            let axis = Axis::holding("", [low, high].into_iter());
            let ticks = axis.ticked(6).ticks;
            assert!((2..=6).contains(&ticks.len()), "{axis:?} {ticks:?}");
            assert!(ticks.iter().all(|at| (axis.low..=axis.high).contains(at)), "{axis:?} {ticks:?}");
        }
    }

    #[test]
    fn what_is_not_finite_widens_nothing() {
        assert_eq!(range([f64::NAN, 2.0, f64::INFINITY, 1.0].into_iter()), Some((1.0, 2.0)));
        assert_eq!(range(std::iter::empty()), None);
        let axis = Axis::from_zero("", std::iter::empty());
        assert_eq!((axis.low, axis.high), (0.0, 1.06));
    }
}
