//! The address: a node as URL-safe text.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, alphabet};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{AddressError, Node};

/// Writes no padding, tolerates it when reading, and refuses stray bits in the last character.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Padding adds at most this many characters.
const PADDING: usize = 3;

/// Is a node as text: URL-safe, at most 255 bytes, fit for a folder's name.
///
/// The text is `name:nonce:seq` in UTF-8, in base64 with the URL-safe alphabet and without padding. It holds all
/// of the identity, so it decodes without a look at anything else, and it never holds a parent. An address exists
/// only for a node that is possible, hence [`decode`](Self::decode) cannot fail.
///
/// The order of addresses is that of their text. It differs from the order of nodes.
///
/// ```
/// # use waycairn_dag::Address;
/// # fn main() -> Result<(), waycairn_dag::AddressError> {
/// let address: Address = "Z2VuZXJhbC5kZWZhdWx0LnRyYWluLWdwdDo5NDllODg6MQ==".parse()?;
/// assert_eq!(address.as_str(), "Z2VuZXJhbC5kZWZhdWx0LnRyYWluLWdwdDo5NDllODg6MQ");
/// assert_eq!(address.decode().seq(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(Arc<str>);

impl Address {
    /// Recovers the node: name, nonce and position, without a parent.
    #[must_use]
    pub fn decode(&self) -> Node {
        #[expect(clippy::expect_used, reason = "an address is made from a node or validated by from_str")]
        parse(&self.0).expect("DAG-3: every address decodes")
    }

    /// Shows the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The caller knows that such a node is possible. A clock does this at every reading, so the only allocation is
    /// that of the result.
    #[expect(clippy::expect_used, reason = "a possible node fits, and base64 is text")]
    pub(crate) fn encode(name: &str, nonce: &str, seq: u64) -> Self {
        let mut plain = [0; Node::MAX_ADDRESS_BYTES];
        let mut end = plain.len();
        let mut rest = seq;
        // Written from the back, where the digits begin.
        loop {
            end -= 1;
            plain[end] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        for part in [":", nonce, ":", name] {
            let start = end - part.len();
            plain[start..end].copy_from_slice(part.as_bytes());
            end = start;
        }
        let mut text = [0; Node::MAX_ADDRESS_BYTES];
        let length = BASE64.encode_slice(&plain[end..], &mut text).expect("DAG-4: an address fits");
        Self(Arc::from(str::from_utf8(&text[..length]).expect("DAG-3: base64 is text")))
    }
}

/// Decodes and validates, splitting twice from the right since a name may hold the separator.
fn parse(text: &str) -> Result<Node, AddressError> {
    if text.is_empty() {
        return Err(AddressError::Empty);
    }
    if text.len() > Node::MAX_ADDRESS_BYTES + PADDING {
        return Err(AddressError::TextTooLong { bytes: text.len(), limit: Node::MAX_ADDRESS_BYTES });
    }
    let bytes = BASE64.decode(text).map_err(|error| undecodable(text, &error))?;
    let Ok(decoded) = String::from_utf8(bytes) else {
        return Err(AddressError::NotUtf8 { text: text.to_owned() });
    };
    let mut parts = decoded.rsplitn(3, ':');
    let (Some(seq), Some(nonce), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(AddressError::Parts { text: text.to_owned(), decoded });
    };
    // Only the canonical digits: otherwise one node would have several addresses.
    let canonical = seq.bytes().all(|byte| byte.is_ascii_digit()) && (seq == "0" || !seq.starts_with('0'));
    match seq.parse() {
        Ok(seq) if canonical && seq <= Node::MAX_SEQ => Node::new(name, nonce, seq),
        _ => Err(AddressError::Seq { text: text.to_owned(), seq: seq.to_owned() }),
    }
}

fn undecodable(text: &str, error: &DecodeError) -> AddressError {
    let stranger =
        |(_, character): &(usize, char)| !matches!(character, 'A'..='Z' | 'a'..='z' | '0'..='9' | '-' | '_');
    let body = text.trim_end_matches('=');
    match (error, body.char_indices().find(stranger)) {
        (_, Some((position, character))) => {
            AddressError::Character { text: text.to_owned(), character, position }
        }
        _ => AddressError::Truncated { text: text.to_owned() },
    }
}

impl FromStr for Address {
    type Err = AddressError;

    /// Validates the text as the address of a possible node, and takes padding away.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        parse(text)?;
        Ok(Self(Arc::from(text.trim_end_matches('='))))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

impl AsRef<str> for Address {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&Node> for Address {
    fn from(node: &Node) -> Self {
        node.address()
    }
}

impl From<&Address> for Node {
    fn from(address: &Address) -> Self {
        address.decode()
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
