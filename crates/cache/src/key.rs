//! The key of a recipe: SHA-256 of its RFC 8785 text.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use waycairn_durable::{Digest, DigestError};

use crate::ValueError;

/// Is the digest of a recipe, and with that of everything that determines an artifact.
///
/// Shown, read and serialized as 64 lower-case hex digits; the first 32 name the folder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(Digest);

impl Key {
    /// The key of a recipe as JSON, checked before.
    pub(crate) fn of(recipe: &Value) -> Result<Self, ValueError> {
        canonical_text(recipe).map(|text| Self(Digest::of(&text)))
    }

    /// Takes a digest for a key.
    #[must_use]
    pub fn from_digest(digest: Digest) -> Self {
        Self(digest)
    }

    /// Shows the digest.
    #[must_use]
    pub fn digest(&self) -> &Digest {
        &self.0
    }

    /// Shows the first 12 digits, for people.
    #[must_use]
    pub fn short(&self) -> String {
        self.0.short()
    }

    /// The 16 bytes that name the folder.
    pub(crate) fn folder_bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.0.as_bytes()[..16]);
        bytes
    }
}

/// The RFC 8785 text of a value without NaN, infinities and large integers.
pub(crate) fn canonical_text(value: &Value) -> Result<Vec<u8>, ValueError> {
    serde_jcs::to_vec(value).map_err(|error| ValueError {
        path: String::new(),
        problem: format!("has no canonical text: {error}"),
    })
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Key({self})")
    }
}

impl FromStr for Key {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        text.parse().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::to_value;

    fn canonical(text: &str) -> String {
        let value: Value = serde_json::from_str(text).unwrap();
        String::from_utf8(canonical_text(&to_value(&value).unwrap()).unwrap()).unwrap()
    }

    /// RFC 8785, sections 3.2.2 and 3.2.3: input and sorted output.
    #[test]
    fn cache_1_the_example_of_the_rfc() {
        let input = r#"{
            "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
            "literals": [null, true, false]
        }"#;
        let expected = "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\
                        \"string\":\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
        assert_eq!(canonical(input), expected);
    }

    /// Section 3.2.3: keys sort by UTF-16 code units, so a pair of surrogates comes before U+FB33.
    #[test]
    fn cache_1_keys_sort_as_the_rfc_says() {
        let input =
            r#"{"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\ud83d\ude00": 5, "\u0080": 6, "\u00f6": 7}"#;
        let expected =
            "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"\u{f6}\":7,\"\u{20ac}\":1,\"\u{1f600}\":5,\"\u{fb33}\":3}";
        assert_eq!(canonical(input), expected);
    }

    /// Appendix B: the bits of a double and its text.
    #[test]
    fn cache_1_the_numbers_of_the_rfc() {
        let vectors: [(u64, &str); 24] = [
            (0x0000_0000_0000_0000, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0x41b3_de43_5555_5556, "333333333.3333334"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ];
        for (bits, expected) in vectors {
            let value = to_value(&f64::from_bits(bits)).unwrap();
            assert_eq!(String::from_utf8(canonical_text(&value).unwrap()).unwrap(), expected, "{bits:x}");
        }
        for bits in [0x7fff_ffff_ffff_ffff, 0x7ff0_0000_0000_0000] {
            assert!(to_value(&f64::from_bits(bits)).is_err());
        }
    }

    #[test]
    fn cache_1_equal_values_have_one_text() {
        assert_eq!(canonical("[1, 1.0, 1e0, 10e-1, -0]"), "[1,1,1,1,0]");
        assert_eq!(canonical(r#"{"b": {"y": 1, "x": 2}, "a": []}"#), r#"{"a":[],"b":{"x":2,"y":1}}"#);
    }

    #[test]
    fn keys_are_shown_and_read_as_hex() {
        let key = Key::of(&Value::Null).unwrap();
        assert_eq!(key.to_string(), "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b");
        assert_eq!(key.to_string().parse(), Ok(key));
        assert_eq!(serde_json::to_string(&key).unwrap(), format!("\"{key}\""));
        assert_eq!(key.short(), "74234e98afe7");
        assert!("74".parse::<Key>().is_err());
    }
}
