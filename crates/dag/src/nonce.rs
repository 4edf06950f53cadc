//! The nonce: which attempt at a run this is.

use std::fmt;
use std::sync::Arc;

/// Tells one attempt at a run from every other attempt under the same name.
///
/// A new nonce is 16 lower-case hex digits. The eight random bytes are an argument, so that this crate stays
/// pure; take them from the operating system's random source.
///
/// ```
/// # use waycairn_dag::Nonce;
/// let nonce = Nonce::from_random([0x94, 0x9e, 0x88, 0x00, 0x00, 0xff, 0x10, 0x01]);
/// assert_eq!(nonce.as_str(), "949e880000ff1001");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(Arc<str>);

impl Nonce {
    /// Makes a nonce of eight random bytes.
    #[must_use]
    pub fn from_random(bytes: [u8; 8]) -> Self {
        let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
        let text: String = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
        Self(Arc::from(text))
    }

    /// Shows the nonce as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn shared(&self) -> &Arc<str> {
        &self.0
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl AsRef<str> for Nonce {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_lower_case_hex_digits() {
        assert_eq!(Nonce::from_random([0; 8]).as_str(), "0000000000000000");
        assert_eq!(Nonce::from_random([0xff; 8]).to_string(), "ffffffffffffffff");
        assert_eq!(Nonce::from_random([1, 2, 3, 4, 5, 6, 7, 0xab]).as_ref(), "01020304050607ab");
    }
}
