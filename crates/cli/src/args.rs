//! The command line: what every command shares. Each command's own arguments are beside its code.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser};

use crate::command::Command;
use crate::output::ShapeFormat;

/// Train models, and ask later what any step of any run was like: metrics, checkpoints, analyses
#[derive(Debug, Parser)]
#[command(
    name = "waycairn",
    disable_version_flag = true,
    after_help = START
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    /// Print the version; with --format json also formats, plugin interface and devices
    #[arg(short = 'V', long)]
    pub(crate) version: bool,
    /// How --version is written
    #[arg(long, value_name = "FORMAT", hide = true)]
    pub(crate) format: Option<ShapeFormat>,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// Output root [default: $WAYCAIRN_ROOT, else outputs/default, looked for upward when read]
    #[arg(long, global = true, value_name = "FOLDER", help_heading = "Everywhere")]
    pub(crate) root: Option<PathBuf>,
    /// Leave damaged parts out of the answer, each with a warning: for commands that only read records
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) skip_damaged: bool,
    /// Say more: the causes of an error and what is done; twice for details
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Everywhere")]
    pub(crate) verbose: u8,
}

/// The names that a node can be given by, for the help of commands that take one.
pub(crate) const NODE_HELP: &str = "\
A NODE is `name` (the last node of its newest run), `name:seq`, `name@nonce` (the last node of that run),
`name@nonce:seq`, an address or its first 8 or more characters, or `latest` (the most recently written one). Of a
nonce its first 4 or more characters are enough.";

const START: &str = "\
Start here:
  waycairn train --preset tiny             a small model on an embedded text, in seconds
  waycairn train --text FILE --preset nanogpt-cpu --name shakespeare
  waycairn nodes                           the runs, newest first
  waycairn show tiny                       the last node of the run
  waycairn query 'val/loss < 2.8' --keys train/loss,val/loss
  waycairn sample tiny --prompt \"The \"

Each command has examples: `waycairn query --help`. Every answer comes as a table, or as --format says.
Exit status: 0 done, 1 failed, 2 wrong usage, 4 stopped in good order (the same command goes on),
130 stopped at once by a second Ctrl-C.";

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let example = format!("waycairn {}", command.get_name());
            assert!(help.contains(&example), "{}", command.get_name());
        }
    }

    #[test]
    fn the_root_may_stand_anywhere() {
        for line in [["waycairn", "--root", "r", "nodes"], ["waycairn", "nodes", "--root", "r"]] {
            let cli = Cli::try_parse_from(line).unwrap();
            assert_eq!(cli.global.root, Some("r".into()));
        }
    }
}
