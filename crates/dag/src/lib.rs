//! Identity and ancestry of the points of a training run.
//!
//! A [`Node`] is one logical point: the name of a run, the nonce of one attempt at it, and a position in that
//! attempt. Its [`Address`] is the same three things as URL-safe text. A [`Clock`] is the one mutable position
//! of a job, which any number of [`ClockView`]s read. A [`Lineage`] walks over parent edges that were recorded.
//!
//! This crate is pure. It opens no file, asks for no time, and draws no random number: a [`Nonce`] is made from
//! bytes that are passed in. It does not know fields, tensors, settings or stores.
//!
//! ```text
//!  base@949e88      :0 -> :1 -> :2 -> :3 -> :4        next: same name and nonce, position + 1
//!                               |
//!                               v
//!  warmer@0c11f2    :0 -> :1 -> :2                    branch: new nonce, position 0, parent = base:2
//! ```
//!
//! # Invariants
//!
//! - `DAG-1`: a tick keeps name and nonce, adds one to the position, and makes the old node the parent.
//! - `DAG-2`: equality, order and hash of a node use name, nonce and position, in this order, and nothing else.
//! - `DAG-3`: every node has exactly one address, and every address decodes to the node that it came from,
//!   whatever Unicode the name holds; a parent is never part of it.
//! - `DAG-4`: an address is at most 255 bytes at every position of its run, so it can be a folder's name.
//! - `DAG-5`: a view of a clock shows a position that the clock has had, with the name and nonce of that clock;
//!   successive reads by one thread never go back.
//! - `DAG-6`: every walk ends, also over edges that form cycles, and a cycle is reported rather than hidden.
//!
//! # Example
//!
//! ```
//! use waycairn_dag::{Address, Clock, Edge, Lineage, Node, Nonce};
//!
//! # fn main() -> Result<(), waycairn_dag::AddressError> {
//! let nonce = Nonce::from_random([0x94, 0x9e, 0x88, 0, 0, 0, 0, 1]);
//! let mut clock = Clock::new(Node::new("shakespeare", nonce.as_str(), 0)?);
//! let loader = clock.view();
//! clock.tick()?;
//! assert_eq!(loader.node().to_string(), "shakespeare@949e880000000001:1");
//!
//! // An address finds the way back to its node.
//! let address = loader.node().address();
//! let again: Address = address.as_str().parse()?;
//! assert_eq!(again.decode(), loader.node());
//!
//! // A branch is a new attempt whose first node has the base as its parent.
//! let base = loader.node();
//! let branch = base.branch("warmer", &Nonce::from_random([7; 8]))?;
//! let lineage = Lineage::new([Edge::new(branch.clone(), base.clone())]);
//! assert_eq!(lineage.ancestors(&branch), [base]);
//! # Ok(())
//! # }
//! ```
//!
//! The text of an address, byte by byte, with test vectors: `docs/format.md`.

mod address;
mod clock;
mod edge;
mod error;
mod lineage;
mod node;
mod nonce;

pub use address::Address;
pub use clock::{Clock, ClockView};
pub use edge::Edge;
pub use error::AddressError;
pub use lineage::{Lineage, Topology};
pub use node::Node;
pub use nonce::Nonce;
