//! The node: name, nonce, position; equality without the parent.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{Address, AddressError, Nonce};

/// The characters of the largest position in decimal.
const SEQ_DIGITS: usize = 19;

/// Is one logical point of a run.
///
/// The identity is the name, the nonce and the position: two nodes that agree in these are equal, have one hash
/// and one place in the order (name, nonce, position), whatever their parents are. A parent is the address of the
/// node before, kept beside the identity because a record may carry it.
///
/// A clone copies no text and allocates nothing: name, nonce and parent are shared.
///
/// `Display` shows `name@nonce:seq`, for people; the [`Address`] is for programs. With serde a node is the
/// map `{name, nonce, seq, parent}`, the parent an address or null.
///
/// ```
/// # use waycairn_dag::Node;
/// # fn main() -> Result<(), waycairn_dag::AddressError> {
/// let node = Node::new("general.default.train-gpt", "949e88", 0)?;
/// assert_eq!(node.address().as_str(), "Z2VuZXJhbC5kZWZhdWx0LnRyYWluLWdwdDo5NDllODg6MA");
///
/// let next = node.next()?;
/// assert_eq!(next.to_string(), "general.default.train-gpt@949e88:1");
/// assert_eq!(next.parent(), Some(&node.address()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Node {
    name: Arc<str>,
    nonce: Arc<str>,
    seq: u64,
    parent: Option<Address>,
}

impl Node {
    /// The largest position: it fits a signed 64-bit column.
    pub const MAX_SEQ: u64 = i64::MAX as u64;

    /// The largest length of an address in bytes: that of a file name.
    pub const MAX_ADDRESS_BYTES: usize = 255;

    /// Makes a node without a parent.
    ///
    /// A name is any non-empty Unicode text without control characters and may hold `:`. A nonce is the same,
    /// without `:`.
    ///
    /// # Errors
    ///
    /// [`EmptyName`](AddressError::EmptyName), [`EmptyNonce`](AddressError::EmptyNonce),
    /// [`ControlCharacter`](AddressError::ControlCharacter), [`NonceColon`](AddressError::NonceColon),
    /// [`SeqTooLarge`](AddressError::SeqTooLarge), and [`TooLong`](AddressError::TooLong) when the address at
    /// [`MAX_SEQ`](Self::MAX_SEQ) would pass [`MAX_ADDRESS_BYTES`](Self::MAX_ADDRESS_BYTES): beside a nonce of 16
    /// digits a name has at most 154 bytes of UTF-8.
    pub fn new(name: &str, nonce: &str, seq: u64) -> Result<Self, AddressError> {
        check(name, nonce)?;
        check_seq(seq)?;
        Ok(Self { name: Arc::from(name), nonce: Arc::from(nonce), seq, parent: None })
    }

    /// Shows the name of the run.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Shows the nonce of the attempt.
    #[must_use]
    pub fn nonce(&self) -> &str {
        &self.nonce
    }

    /// Shares the name, so that it can be kept without a copy of its text.
    #[must_use]
    pub fn name_arc(&self) -> &Arc<str> {
        &self.name
    }

    /// Shares the nonce, so that it can be kept without a copy of its text.
    #[must_use]
    pub fn nonce_arc(&self) -> &Arc<str> {
        &self.nonce
    }

    /// Shows the position in the run.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Shows the address of the parent that this node carries, if it carries one.
    ///
    /// A node that was decoded from an address carries none, even when edges to it were recorded.
    #[must_use]
    pub fn parent(&self) -> Option<&Address> {
        self.parent.as_ref()
    }

    /// Replaces the parent; `None` takes it away.
    #[must_use]
    pub fn with_parent(mut self, parent: Option<Address>) -> Self {
        self.parent = parent;
        self
    }

    /// Computes the address of this node.
    #[must_use]
    pub fn address(&self) -> Address {
        Address::encode(&self.name, &self.nonce, self.seq)
    }

    /// Makes the successor: the same name and nonce, the next position, this node as the parent.
    ///
    /// # Errors
    ///
    /// [`NoSuccessor`](AddressError::NoSuccessor) at [`MAX_SEQ`](Self::MAX_SEQ).
    pub fn next(&self) -> Result<Self, AddressError> {
        if self.seq >= Self::MAX_SEQ {
            return Err(AddressError::NoSuccessor { node: self.to_string() });
        }
        Ok(self.after_previous(self.seq + 1))
    }

    /// Makes the first node of a new attempt: the given name and nonce, position 0, this node as the parent.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new) for the name, and [`BranchOntoItself`](AddressError::BranchOntoItself) when both
    /// name and nonce are those of this node.
    pub fn branch(&self, name: &str, nonce: &Nonce) -> Result<Self, AddressError> {
        check(name, nonce.as_str())?;
        if *name == *self.name && *nonce.as_str() == *self.nonce {
            return Err(AddressError::BranchOntoItself { node: self.to_string() });
        }
        let name = if *name == *self.name { Arc::clone(&self.name) } else { Arc::from(name) };
        Ok(Self { name, nonce: Arc::clone(nonce.shared()), seq: 0, parent: Some(self.address()) })
    }

    /// Says whether two nodes belong to one run: the same name and nonce.
    #[must_use]
    pub fn same_run(&self, other: &Self) -> bool {
        same(&self.name, &other.name) && same(&self.nonce, &other.nonce)
    }

    /// Makes the node at another position of the same run, without a parent. It copies no text.
    ///
    /// # Errors
    ///
    /// [`SeqTooLarge`](AddressError::SeqTooLarge) above [`MAX_SEQ`](Self::MAX_SEQ).
    pub fn at(&self, seq: u64) -> Result<Self, AddressError> {
        check_seq(seq)?;
        Ok(self.sibling(seq))
    }

    /// The node at `seq` of this run, without a parent. The caller knows that `seq` is possible.
    pub(crate) fn sibling(&self, seq: u64) -> Self {
        Self { name: Arc::clone(&self.name), nonce: Arc::clone(&self.nonce), seq, parent: None }
    }

    /// The node at `seq` of this run with the position before as its parent. The caller knows that `seq` is
    /// possible and not 0.
    pub(crate) fn after_previous(&self, seq: u64) -> Self {
        debug_assert!(seq > 0 && seq <= Self::MAX_SEQ);
        let parent = Address::encode(&self.name, &self.nonce, seq.saturating_sub(1));
        Self { name: Arc::clone(&self.name), nonce: Arc::clone(&self.nonce), seq, parent: Some(parent) }
    }

    fn identity(&self) -> (&str, &str, u64) {
        (&self.name, &self.nonce, self.seq)
    }
}

/// Equal text, without a look at it where both are one allocation.
fn same(one: &Arc<str>, other: &Arc<str>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

/// Refuses what no node may be called.
fn check(name: &str, nonce: &str) -> Result<(), AddressError> {
    if name.is_empty() {
        return Err(AddressError::EmptyName);
    }
    if nonce.is_empty() {
        return Err(AddressError::EmptyNonce { name: name.to_owned() });
    }
    for (part, text) in [("name", name), ("nonce", nonce)] {
        if let Some((position, character)) = text.char_indices().find(|(_, character)| character.is_control())
        {
            return Err(AddressError::ControlCharacter { part, text: text.to_owned(), character, position });
        }
    }
    if nonce.contains(':') {
        return Err(AddressError::NonceColon { nonce: nonce.to_owned() });
    }
    // Four characters of base64 hold three bytes; the two colons and the largest position take their part.
    let limit = (Node::MAX_ADDRESS_BYTES * 3 / 4).saturating_sub(2 + SEQ_DIGITS + nonce.len());
    if name.len() > limit {
        let (bytes, nonce_bytes) = (name.len(), nonce.len());
        return Err(AddressError::TooLong { name: name.to_owned(), bytes, limit, nonce_bytes });
    }
    Ok(())
}

fn check_seq(seq: u64) -> Result<(), AddressError> {
    if seq > Node::MAX_SEQ { Err(AddressError::SeqTooLarge { seq }) } else { Ok(()) }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.seq == other.seq && self.same_run(other)
    }
}

impl Eq for Node {}

impl PartialOrd for Node {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Node {
    fn cmp(&self, other: &Self) -> Ordering {
        self.identity().cmp(&other.identity())
    }
}

impl Hash for Node {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl fmt::Display for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}:{}", self.name, self.nonce, self.seq)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Node")
            .field("name", &self.name)
            .field("nonce", &self.nonce)
            .field("seq", &self.seq)
            .field("parent", &self.parent().map(Address::as_str))
            .finish()
    }
}

/// The serialized shape of a node, apart from the type that lives in memory.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Node")]
struct NodeSpec<Text, Parent> {
    name: Text,
    nonce: Text,
    seq: u64,
    parent: Option<Parent>,
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (name, nonce, seq) = self.identity();
        NodeSpec { name, nonce, seq, parent: self.parent() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spec: NodeSpec<String, Address> = NodeSpec::deserialize(deserializer)?;
        let node = Self::new(&spec.name, &spec.nonce, spec.seq).map_err(de::Error::custom)?;
        Ok(node.with_parent(spec.parent))
    }
}

#[cfg(test)]
pub(crate) mod tests;
