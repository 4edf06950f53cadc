//! The program under test: what the binary `waycairn` is.

use std::process::ExitCode;

use waycairn_cli::{Gpt, Nre, experiments};

fn main() -> ExitCode {
    waycairn_cli::main(experiments![Gpt].with_rows(Nre))
}
