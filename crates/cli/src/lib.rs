//! The waycairn command line, as a library: [`main`] is the whole program.
//!
//! It is the only crate that prints and the only one that reads the environment. It knows how an answer looks and
//! where it goes, and nothing else: what is recorded, trained or loaded is decided below it, and of the files
//! of a root it reads the settings in a checkpoint alone.
//!
//! ```text
//! arguments, environment -> command -> train | store | analysis-host
//!                              |
//!                answer as rows or one value -> table, CSV, JSON, Parquet, Arrow -> standard output or a file
//!                error as code, what, why, next -> three lines or one JSON object -> standard error
//! ```
//!
//! # Invariants
//!
//! - **CLI-1**: the JSON shapes are stable: a test pins each.
//! - **CLI-2**: a value that is missing, one that is NaN and one that is a text are told apart in every format.
//! - **CLI-3**: `-o` makes a regular file appear whole or not at all; anything else is written straight through.
//! - **CLI-4**: the exit status is 0 done, 1 failed, 2 usage, 4 stopped in good order, 130 stopped at once by a
//!   second interrupt. Usage is what the words of the command cannot mean anywhere: a wrong option or setting, an
//!   unknown preset, an empty name, an expression that cannot be read. What depends on the root, a file or the
//!   machine has failed.
//! - **CLI-5**: no panic reaches the user as one.

mod args;
mod chart;
mod columnar;
mod command;
mod context;
mod count;
mod environment;
mod error;
mod failure;
mod keys;
mod lineage;
mod number;
mod output;
mod panic;
mod payload;
mod program;
mod progress;
mod root;
mod rows;
mod span;
mod table;
mod terminal;
mod value;
mod wait;

pub use program::main;
pub use waycairn_train::{Experiments, Gpt, Nre, experiments};
