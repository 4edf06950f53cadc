//! Questions: which nodes, with which of their folded values.
//!
//! ```text
//!  Query (builder)    expression -> scope + predicate --\
//!  sql()              DataFusion: tables nodes, records --+--> plan -> merge (the fold) -> block -> answer
//!  runs(), node(), .. ----------------------------------/
//! ```
//!
//! A scope on single records restricts what is folded; predicates see folded values. One listing of the parts
//! answers one question.

mod bits;
mod block;
mod builder;
mod children;
mod chunk;
mod condition;
mod cursor;
mod decode;
mod engine;
mod error;
mod expression;
mod fault;
mod finished;
mod grammar;
mod merge;
mod pages;
mod plan;
mod predicate;
mod provider;
mod records;
mod request;
mod saved;
mod scope;
mod short;
mod shown;
mod slots;
mod sort;
mod spec;
mod sql;
mod stream;
pub(crate) mod tables;
#[cfg(test)]
mod tests;
mod text;

pub use builder::{Answer, FieldFilter, NodeRow, Query};
pub use error::{Diagnostic, QueryError};
pub use expression::{Comparison, Expr, ParseError};
pub use request::Explanation;
pub use saved::SavedQuery;
pub use sort::{Order, SortKey};
pub use stream::BatchStream;

pub(crate) use block::Block;
pub(crate) use children::children;
pub(crate) use engine::{Threads, fold_ranges, threads};
pub(crate) use error::{nearest, nearest_text};
pub(crate) use fault::{Fault, OnDamage, attempt};
pub(crate) use grammar::{decimal, node};
pub(crate) use plan::FoldPlan;
pub(crate) use scope::{IdentityScope, RecordScope};
pub(crate) use spec::{Flag, FoldSpec};
pub(crate) use sql::sql;
