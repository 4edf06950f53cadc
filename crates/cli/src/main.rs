//! The `waycairn` binary: every command of [`waycairn_cli`] with the experiments that ship with it.

use std::process::ExitCode;

use waycairn_cli::{Gpt, Nre, experiments};

fn main() -> ExitCode {
    waycairn_cli::main(experiments![Gpt].with_rows(Nre))
}
