//! Numbers, sizes, spans and times as people read them; machines get the exact values of [`crate::value`].

use std::time::Duration;

use waycairn_durable::time::rfc3339_micros;

use crate::value::{non_finite, whole};

/// Digits of a float in a table; a training loss says nothing beyond them.
const SIGNIFICANT: usize = 6;

/// A float with six significant digits, without trailing zeros; whole numbers in full.
pub(crate) fn float(value: f64) -> String {
    if !value.is_finite() {
        return non_finite(value).to_owned();
    }
    if let Some(integer) = whole(value) {
        return integer.to_string();
    }
    let scientific = format!("{value:.*e}", SIGNIFICANT - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-5..15).contains(&exponent) {
        let decimals = usize::try_from(SIGNIFICANT as i32 - 1 - exponent).unwrap_or(0);
        trim(&format!("{value:.decimals$}")).to_owned()
    } else {
        format!("{}e{exponent}", trim(mantissa))
    }
}

/// A number of bytes in decimal units with three digits: `87 B`, `1.25 kB`, `431 MB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut scaled = bytes as f64 / 1000.0;
    let mut unit = UNITS[0];
    for next in &UNITS[1..] {
        if scaled < 999.5 {
            break;
        }
        scaled /= 1000.0;
        unit = next;
    }
    let decimals = if scaled < 9.995 {
        2
    } else if scaled < 99.95 {
        1
    } else {
        0
    };
    format!("{scaled:.decimals$} {unit}")
}

/// A span of time in its two largest units: `42s`, `3m 20s`, `1h 05m`, `2d 04h`.
pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    if days > 0 {
        format!("{days}d {:02}h", hours % 24)
    } else if hours > 0 {
        format!("{hours}h {:02}m", minutes % 60)
    } else if minutes > 0 {
        format!("{minutes}m {:02}s", seconds % 60)
    } else {
        format!("{seconds}s")
    }
}

/// A moment to the second, in UTC: `2026-03-01 09:30:07`.
pub(crate) fn moment(nanos: i64) -> String {
    let text = rfc3339_micros(nanos);
    match (text.get(..10), text.get(11..19)) {
        (Some(day), Some(time)) => format!("{day} {time}"),
        _ => text,
    }
}

/// `1 node`, `2 nodes`.
pub(crate) fn plural(count: u64, noun: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{s}")
}

/// Ascending numbers, with the middle left out where there are many: `19, 39, 59 .. 199 (10)`.
pub(crate) fn ascending(numbers: &[u64]) -> String {
    const SHOWN: usize = 5;
    let join = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    match numbers {
        [head @ .., last] if numbers.len() > SHOWN => {
            format!("{} .. {last} ({})", join(&head[..SHOWN - 2]), numbers.len())
        }
        _ => join(numbers),
    }
}

fn trim(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_six_digits() {
        for (value, text) in [
            (2.413_739_919_662_475_6, "2.41374"),
            (3.0, "3"),
            (0.001, "0.001"),
            (0.000_033_333_333, "0.0000333333"),
            (1.0e-7, "1e-7"),
            (1.234_567_8e-9, "1.23457e-9"),
            (123_456.78, "123457"),
            (1_234_567.8, "1234568"),
            (-0.5, "-0.5"),
            (1.0e300, "1e300"),
            (9_999_999.5, "10000000"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(float(value), text);
        }
    }

    #[test]
    fn sizes_have_three_digits() {
        for (size, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.00 kB"),
            (12_340, "12.3 kB"),
            (999_600, "1.00 MB"),
            (431_000_000, "431 MB"),
            (u64::MAX, "18447 PB"),
        ] {
            assert_eq!(bytes(size), text);
        }
    }

    #[test]
    fn spans_have_two_units() {
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (200, "3m 20s"), (3_900, "1h 05m"), (187_200, "2d 04h")]
        {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn many_numbers_lose_their_middle() {
        assert_eq!(ascending(&[]), "");
        assert_eq!(ascending(&[1, 3]), "1, 3");
        assert_eq!(ascending(&[1, 2, 3, 4, 5]), "1, 2, 3, 4, 5");
        assert_eq!(ascending(&[19, 39, 59, 79, 99, 119]), "19, 39, 59 .. 119 (6)");
    }

    #[test]
    fn moments_end_at_the_second() {
        assert_eq!(moment(1_500_000_000), "1970-01-01 00:00:01");
    }
}
