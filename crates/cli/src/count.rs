//! Counts on the command line: an error in plain words in place of the parser's.

use std::str::FromStr;

/// Reads a whole number.
///
/// # Errors
///
/// What would be right.
pub(crate) fn any<T: FromStr>(text: &str) -> Result<T, String> {
    if let Ok(count) = text.parse() {
        return Ok(count);
    }
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    Err(if digits { "it is too large" } else { "give a whole number of at least 0, such as 200" }.to_owned())
}

/// Reads a whole number that is not 0.
///
/// # Errors
///
/// What would be right.
pub(crate) fn positive<T: FromStr + PartialEq + From<u8>>(text: &str) -> Result<T, String> {
    match any(text)? {
        zero if zero == T::from(0) => Err("it must be at least 1".to_owned()),
        count => Ok(count),
    }
}

/// Reads a number that is finite and not negative.
///
/// # Errors
///
/// What would be right.
pub(crate) fn fraction(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    // A negative zero is zero.
    number.map(|number| number + 0.0).ok_or_else(|| "give a number of at least 0, such as 0.8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_in_plain_words() {
        assert_eq!(any::<u64>("200"), Ok(200));
        for text in ["", "x", "-1", "1.5"] {
            assert!(any::<u64>(text).unwrap_err().contains("a whole number"), "{text}");
        }
        assert_eq!(any::<u64>("99999999999999999999").unwrap_err(), "it is too large");
        assert_eq!(positive::<usize>("0").unwrap_err(), "it must be at least 1");
        assert!(fraction("-0").unwrap().is_sign_positive());
        assert!(fraction("NaN").is_err() && fraction("-1").is_err() && fraction("x").is_err());
    }
}
