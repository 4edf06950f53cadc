//! Axes: what they range over, and where their ticks are.

/// One axis of a figure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    pub(crate) label: String,
    pub(crate) low: f64,
    pub(crate) high: f64,
    ticks: Kind,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Numbers,
    /// Ticks at whole numbers alone.
    Whole,
    /// At 0, 1, 2, ...: a name each.
    Names(Vec<String>),
}

/// The ticks of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ticks {
    /// Where, and what stands there.
    pub(crate) at: Vec<(f64, String)>,
    /// The power of ten that all are to be multiplied by.
    pub(crate) power: i32,
}

impl Axis {
    /// An axis between two values. Where they are equal it is made wide enough to be one.
    pub(crate) fn new(label: impl Into<String>, low: f64, high: f64) -> Self {
        let (low, high) = if low < high { (low, high) } else { around(low) };
        Self { label: label.into(), low, high, ticks: Kind::Numbers }
    }

    /// An axis that holds all values, with air at both ends.
    pub(crate) fn holding(label: impl Into<String>, values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = range(values).unwrap_or((0.0, 1.0));
        let (low, high) = if low < high { (low, high) } else { around(low) };
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
        Self { label: label.into(), low: 1.0 - air, high: count + air, ticks: Kind::Whole }
    }

    /// An axis with a name at each of 0, 1, 2, ...
    pub(crate) fn names(label: impl Into<String>, names: Vec<String>) -> Self {
        let high = names.len().max(1) as f64 - 0.5;
        Self { label: label.into(), low: -0.5, high, ticks: Kind::Names(names) }
    }

    pub(crate) fn is_names(&self) -> bool {
        matches!(self.ticks, Kind::Names(_))
    }

    /// Where a value lies: 0 is the low end, and 1 the high one.
    pub(crate) fn share(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    /// About `count` ticks at round values; the names, where it has such.
    pub(crate) fn ticks(&self, count: usize) -> Ticks {
        if let Kind::Names(names) = &self.ticks {
            let at = names.iter().enumerate().map(|(index, name)| (index as f64, name.clone())).collect();
            return Ticks { at, power: 0 };
        }
        let (mut mantissa, mut exponent) = round_step((self.high - self.low) / count.max(1) as f64);
        if self.ticks == Kind::Whole && exponent < 0 {
            (mantissa, exponent) = (10, -1);
        }
        // Whole multiples of a step: so 0 is 0, and no error adds up.
        let step = f64::from(mantissa) * power_of_ten(exponent);
        let slack = (self.high - self.low) * 1e-9;
        let first = ((self.low - slack) / step).ceil();
        let many = (((self.high + slack) / step).floor() - first).clamp(0.0, 1e3) as usize;
        let values: Vec<f64> = (0..=many).map(|index| (first + index as f64) * step).collect();
        let largest = values.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
        let power = match decade(largest) {
            power if largest > 0.0 && !(-2..=4).contains(&power) => power,
            _ => 0,
        };
        // Steps of 10 end one digit earlier.
        let smallest = if mantissa == 10 { exponent + 1 } else { exponent };
        let digits = usize::try_from(power - smallest).unwrap_or(0);
        let text = |value: f64| signed(&format!("{:.digits$}", value / power_of_ten(power)));
        Ticks { at: values.into_iter().map(|value| (value, text(value))).collect(), power }
    }
}

/// A range around one value.
fn around(value: f64) -> (f64, f64) {
    let air = (value.abs() * 0.05).max(0.5);
    (value - air, value + air)
}

/// The least and the largest of values that are finite.
pub(crate) fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite()).fold(None, |range, value| {
        let (low, high) = range.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

/// The round step that is at least `least`: 1, 2, 5 or 10 of a power of ten.
fn round_step(least: f64) -> (u8, i32) {
    let exponent = decade(least);
    let mantissa = least / power_of_ten(exponent);
    let round = [1_u8, 2, 5].into_iter().find(|round| mantissa <= f64::from(*round) * (1.0 + 1e-9));
    (round.unwrap_or(10), exponent)
}

/// The largest power of ten that is not above a value: by comparison, so that it is the same everywhere.
fn decade(value: f64) -> i32 {
    if !(value > 0.0 && value.is_finite()) {
        return 0;
    }
    let above = (-307..=308).find(|exponent| power_of_ten(*exponent) > value);
    above.map_or(308, |exponent| exponent - 1)
}

/// The nearest number to a power of ten.
fn power_of_ten(exponent: i32) -> f64 {
    format!("1e{exponent}").parse().unwrap_or(1.0)
}

/// With the minus sign, and without one at 0.
fn signed(text: &str) -> String {
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| c == '0' || c == '.') => rest.to_owned(),
        Some(rest) => format!("\u{2212}{rest}"),
        None => text.to_owned(),
    }
}

/// `10` with an exponent above it.
pub(crate) fn power_text(power: i32) -> String {
    const DIGITS: [char; 10] = [
        '\u{2070}', '\u{b9}', '\u{b2}', '\u{b3}', '\u{2074}', '\u{2075}', '\u{2076}', '\u{2077}', '\u{2078}',
        '\u{2079}',
    ];
    let raise =
        |c: char| c.to_digit(10).and_then(|digit| DIGITS.get(digit as usize).copied()).unwrap_or('\u{207b}');
    let raised: String = power.to_string().chars().map(raise).collect();
    format!("10{raised}")
}

/// A number for a label: three digits that say something.
pub(crate) fn short(value: f64) -> String {
    let power = decade(value.abs());
    if value != 0.0 && !(-3..=4).contains(&power) {
        return format!(
            "{}\u{d7}{}",
            signed(&format!("{:.2}", value / power_of_ten(power))),
            power_text(power)
        );
    }
    let digits = usize::try_from(2 - power).unwrap_or(0);
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    signed(text)
}

/// `1 case`, `2 cases`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A parameter's name as a reader says it: `mean:0` is the mean of the first coordinate, which is counted from 0.
pub(crate) fn spoken(name: &str) -> String {
    match name.split_once(':') {
        Some(("mean", index)) => format!("mean \u{3bc}{}", lowered(index)),
        Some(("std", index)) => format!("standard deviation \u{3c3}{}", lowered(index)),
        _ => name.to_owned(),
    }
}

/// A coordinate of the observations.
pub(crate) fn coordinate(index: usize) -> String {
    format!("observation x{}", lowered(&index.to_string()))
}

/// Digits below the line.
fn lowered(digits: &str) -> String {
    let low = |c: char| c.to_digit(10).and_then(|digit| char::from_u32(0x2080 + digit)).unwrap_or(c);
    digits.chars().map(low).collect()
}

/// A parameter's name in the name of a file: `mean:0` is `mean-0`.
pub(crate) fn file_name(name: &str) -> String {
    name.replace(':', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis, count: usize) -> Vec<String> {
        axis.ticks(count).at.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_stand_at_round_values_within_the_axis() {
        assert_eq!(texts(&Axis::new("", 0.0, 10.0), 6), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(
            texts(&Axis::new("", -0.11, 0.12), 5),
            ["\u{2212}0.10", "\u{2212}0.05", "0.00", "0.05", "0.10"]
        );
        assert_eq!(texts(&Axis::new("", 0.0, 1.0), 1), ["0", "1"]);
        assert_eq!(texts(&Axis::new("", 0.0, 6e-4), 3), ["0", "2", "4", "6"]);
        assert_eq!(Axis::new("", 0.0, 6e-4).ticks(3).power, -4);
        assert_eq!(texts(&Axis::new("", 0.0, 2.3e6), 3), ["0", "1", "2"]);
        assert_eq!(texts(&Axis::counts("", 2), 6), ["1", "2"]);
        assert_eq!(texts(&Axis::counts("", 100), 6), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(texts(&Axis::names("", vec!["a".into(), "b".into()]), 9), ["a", "b"]);
        for (low, high) in [(3.0, 3.0), (0.0, 0.0), (1e-200, 2e-200), (-1e300, 1e300), (1e9, 1e9 + 1.0)] {
            let axis = Axis::holding("", [low, high].into_iter());
            let ticks = axis.ticks(5).at;
            assert!((2..=8).contains(&ticks.len()), "{axis:?} {ticks:?}");
            assert!(ticks.iter().all(|(at, _)| (-1e-6..=1.0 + 1e-6).contains(&axis.share(*at))));
        }
    }

    #[test]
    fn what_is_not_finite_widens_nothing() {
        assert_eq!(range([f64::NAN, 2.0, f64::INFINITY, 1.0].into_iter()), Some((1.0, 2.0)));
        assert_eq!(range(std::iter::empty()), None);
        let axis = Axis::from_zero("", std::iter::empty());
        assert_eq!((axis.low, axis.high), (0.0, 1.06));
    }

    #[test]
    fn numbers_and_names_are_written_for_people() {
        let written = [0.0, 0.12345, 123.4, -2.5, 1e-9, 3.0].map(short);
        let tiny = "1.00\u{d7}10\u{207b}\u{2079}";
        assert_eq!(written, ["0", "0.123", "123", "\u{2212}2.5", tiny, "3"]);
        assert_eq!(spoken("mean:12"), "mean \u{3bc}\u{2081}\u{2082}");
        assert_eq!(
            (spoken("std:0").as_str(), spoken("other").as_str()),
            ("standard deviation \u{3c3}\u{2080}", "other")
        );
        assert_eq!(file_name("mean:0"), "mean-0");
        assert_eq!((counted(1, "case"), counted(0, "case")), ("1 case".to_owned(), "0 cases".to_owned()));
    }
}
