//! What can be wrong with a node or with the text of an address.

use thiserror::Error;

/// Says why a node cannot exist, or why a text is not the address of one.
///
/// The text of every variant says what to do where the caller can do something about it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The name is empty.
    #[error("a name must not be empty")]
    EmptyName,
    /// The nonce is empty.
    #[error("the nonce of `{name}` is empty; a new one has 16 hex digits")]
    EmptyNonce {
        /// The name beside the nonce.
        name: String,
    },
    /// A name or a nonce holds a control character.
    #[error(
        "the {part} `{}` holds the control character U+{:04X} at byte {position}; leave it out",
        text.escape_debug(),
        u32::from(*character)
    )]
    ControlCharacter {
        /// `name` or `nonce`.
        part: &'static str,
        /// The whole name or nonce.
        text: String,
        /// The first control character in it.
        character: char,
        /// Its offset in bytes.
        position: usize,
    },
    /// A nonce holds the character that separates the parts of an address.
    #[error("the nonce `{nonce}` holds `:`, which separates the parts of an address; leave it out")]
    NonceColon {
        /// The whole nonce.
        nonce: String,
    },
    /// The address of the run would be too long for a folder's name.
    #[error(
        "the name `{name}` has {bytes} bytes of UTF-8, {limit} are possible beside a nonce of {nonce_bytes}; \
         choose a shorter name"
    )]
    TooLong {
        /// The name.
        name: String,
        /// Its length in bytes.
        bytes: usize,
        /// The largest length that the nonce leaves for a name.
        limit: usize,
        /// The length of the nonce in bytes.
        nonce_bytes: usize,
    },
    /// The position is above [`Node::MAX_SEQ`](crate::Node::MAX_SEQ).
    #[error("position {seq} is above the largest possible one, {}", crate::Node::MAX_SEQ)]
    SeqTooLarge {
        /// The position that was asked for.
        seq: u64,
    },
    /// The last possible position of a run has no successor.
    #[error("`{node}` is the last possible position of its run; go on in a branch")]
    NoSuccessor {
        /// The node without a successor, as `name@nonce:seq`.
        node: String,
    },
    /// A branch would have the name and nonce of its base, and so be the same run.
    #[error("a branch of `{node}` needs a nonce or a name of its own")]
    BranchOntoItself {
        /// The base, as `name@nonce:seq`.
        node: String,
    },
    /// The text is empty.
    #[error("an address must not be empty")]
    Empty,
    /// The text is longer than an address can be.
    #[error("a text of {bytes} bytes is no address: an address has at most {limit}")]
    TextTooLong {
        /// The length of the text in bytes.
        bytes: usize,
        /// The largest length of an address in bytes.
        limit: usize,
    },
    /// The text holds a character outside of the URL-safe base64 alphabet.
    #[error(
        "`{}` is no address: {character:?} at byte {position} is outside of the URL-safe base64 alphabet \
         (A-Z, a-z, 0-9, `-`, `_`)",
        text.escape_debug()
    )]
    Character {
        /// The whole text.
        text: String,
        /// The first such character.
        character: char,
        /// Its offset in bytes.
        position: usize,
    },
    /// The text has the right alphabet and a length or an end that base64 never has.
    #[error("`{text}` is no address: its end is cut off or damaged; copy the whole of it")]
    Truncated {
        /// The whole text.
        text: String,
    },
    /// The bytes behind the text are not UTF-8.
    #[error("`{text}` is no address: its bytes are not UTF-8")]
    NotUtf8 {
        /// The whole text.
        text: String,
    },
    /// The decoded text does not have the three parts of an address.
    #[error("`{text}` is no address: it holds `{}` where `name:nonce:seq` is needed", decoded.escape_debug())]
    Parts {
        /// The whole text.
        text: String,
        /// What it decodes to.
        decoded: String,
    },
    /// The last part of the decoded text is not a position.
    #[error(
        "`{text}` is no address: its position `{}` is not a number from 0 to {} without leading zeros",
        seq.escape_debug(),
        crate::Node::MAX_SEQ
    )]
    Seq {
        /// The whole text.
        text: String,
        /// What stands in the place of the position.
        seq: String,
    },
}
