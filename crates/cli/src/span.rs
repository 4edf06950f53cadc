//! Spans of time on the command line: `90s`, `30m`, `1h30m`, `2d`, or plain seconds.

use std::time::Duration;

/// Reads a span.
///
/// # Errors
///
/// What is wrong with the text and what would be right.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let example = "give seconds, or numbers with units, such as `90s`, `30m`, `1h30m`, `2d`";
    if text.is_empty() {
        return Err(example.to_owned());
    }
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..digits].parse().map_err(|_| example.to_owned())?;
        let unit = rest[digits..].chars().next();
        let seconds = match unit {
            Some('s') => 1,
            Some('m') => 60,
            Some('h') => 3_600,
            Some('d') => 86_400,
            _ => return Err(example.to_owned()),
        };
        let part = number.checked_mul(seconds).ok_or("it is longer than can be counted")?;
        total = total.checked_add(Duration::from_secs(part)).ok_or("it is longer than can be counted")?;
        rest = &rest[digits + 1..];
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_add_up() {
        for (text, seconds) in [("90", 90), ("90s", 90), ("30m", 1_800), ("1h30m", 5_400), ("2d1s", 172_801)]
        {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "m", "1x", "1h30", "-5", "1.5h", "99999999999999999d", "1\u{e9}"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
