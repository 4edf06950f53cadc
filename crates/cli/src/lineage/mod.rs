//! The part of the recorded graph that hangs together with one run: chosen and collapsed, then drawn as text.

mod drawing;
mod graph;
mod stretch;

pub(crate) use drawing::draw;
pub(crate) use graph::{Graph, Marks, family, run_of};
