//! Numbers and names as a reader says them.

/// The largest power of ten that is not above a value; 0 for what has none.
pub(crate) fn decade(value: f64) -> i32 {
    if value > 0.0 && value.is_finite() { libm::floor(libm::log10(value)) as i32 } else { 0 }
}

/// With the minus sign, and without one at 0.
pub(crate) fn signed(text: &str) -> String {
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
        let mantissa = value / libm::exp10(f64::from(power));
        return format!("{}\u{d7}{}", signed(&format!("{mantissa:.2}")), power_text(power));
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

/// A pair by its index in the arrays, as cases and coordinates are named: so it says from where it counts.
pub(crate) fn numbered(pair: usize, pairs: usize) -> String {
    format!("pair {pair} (from 0) of {pairs}")
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
