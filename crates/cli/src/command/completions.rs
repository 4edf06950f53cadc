//! `waycairn completions`: a script that completes commands in a shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::error::CliError;
use crate::output::Destination;

/// Print a script that completes waycairn's commands in a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn completions bash > ~/.local/share/bash-completion/completions/waycairn
  waycairn completions zsh > ~/.zfunc/_waycairn
  waycairn completions fish > ~/.config/fish/completions/waycairn.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs) -> Result<(), CliError> {
    // The generator panics where it cannot write, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "waycairn", &mut script);
    let mut out = Destination::standard_output();
    out.bytes(&script)?;
    out.finish()
}
