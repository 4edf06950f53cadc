//! `waycairn train`: one run of one experiment.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::args::NODE_HELP;
use crate::output::Shape;

/// Train a model: a new run, a branch of a recorded node, or a run that was interrupted
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  waycairn train --preset tiny
  waycairn train --text shakespeare.txt --preset nanogpt-cpu --name shakespeare
  waycairn train --branch shakespeare:999 --name warmer --set learning_rate=3e-3
  waycairn train --resume shakespeare --max-time 2h

The same command again goes on where the run stopped, at its newest complete checkpoint; a run that is
finished is left alone. Ctrl-C stops after the step at hand, with a checkpoint, and the exit status is 4.

Settings come, later ones over earlier ones, from the preset (for --branch and --resume: from the base), the
file of --settings, and --steps, --seed and --set. A setting is a path such as learning_rate or model.width.

{NODE_HELP}"))]
pub(crate) struct TrainArgs {
    /// Train on this text (UTF-8) [default: an embedded one]
    #[arg(long, value_name = "FILE", help_heading = "What to train")]
    pub(super) text: Option<PathBuf>,
    /// Named settings to start from: tiny, nanogpt-cpu, baby-gpt [default: tiny]
    #[arg(long, value_name = "PRESET", help_heading = "What to train")]
    pub(super) preset: Option<String>,
    /// Lay the settings of a TOML file over them
    #[arg(long, value_name = "FILE", help_heading = "What to train")]
    pub(super) settings: Option<PathBuf>,
    /// Set one setting; may be repeated, and wins over all
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = assignment, help_heading = "What to train")]
    pub(super) sets: Vec<(String, String)>,
    /// Train this many steps
    #[arg(long, value_name = "N", help_heading = "What to train")]
    pub(super) steps: Option<u64>,
    /// Seed of everything that is drawn at random
    #[arg(long, value_name = "N", help_heading = "What to train")]
    pub(super) seed: Option<u64>,

    /// Name of the run [default: the preset's name]
    #[arg(long, value_name = "NAME", help_heading = "Which run")]
    pub(super) name: Option<String>,
    /// Mark every record of this launch with a word of yours
    #[arg(long, value_name = "TAG", help_heading = "Which run")]
    pub(super) tag: Option<String>,
    /// Begin a new run from the state of this node
    #[arg(long, value_name = "NODE", conflicts_with_all = ["resume", "fresh"], help_heading = "Which run")]
    pub(super) branch: Option<String>,
    /// Go on with this node's run, from its newest complete checkpoint
    #[arg(long, value_name = "NODE", conflicts_with = "fresh", help_heading = "Which run")]
    pub(super) resume: Option<String>,
    /// Begin a new run even where one of this name could go on
    #[arg(long, help_heading = "Which run")]
    pub(super) fresh: bool,

    /// Device to compute on: cpu or auto
    #[arg(long, value_name = "DEVICE", default_value = "auto", help_heading = "How to run")]
    pub(super) device: String,
    /// Threads to compute with [default: one per core]
    #[arg(long, value_name = "N", help_heading = "How to run")]
    pub(super) threads: Option<std::num::NonZeroUsize>,
    /// Stop in good order after this time, such as 90s, 30m or 1h30m
    #[arg(long, value_name = "TIME", value_parser = crate::span::parse, help_heading = "How to run")]
    pub(super) max_time: Option<Duration>,
    /// Go on although the data has changed since the checkpoint; this is recorded
    #[arg(long, help_heading = "How to run")]
    pub(super) allow_changed_data: bool,
    /// Restore what fits of a checkpoint and begin the rest anew
    #[arg(long, help_heading = "How to run")]
    pub(super) partial: bool,

    /// json makes the last line one JSON object
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "table",
        hide_possible_values = true,
        hide_default_value = true,
        help_heading = "Output"
    )]
    pub(super) format: Shape,
}

/// Splits `PATH=VALUE`.
pub(super) fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((path, value)) if !path.trim().is_empty() => {
            Ok((path.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write it as PATH=VALUE, for example learning_rate=3e-3".to_owned()),
    }
}

pub(crate) fn run(
    _args: TrainArgs,
    _context: &crate::context::Context,
) -> Result<crate::error::Exit, crate::error::CliError> {
    Err(crate::error::CliError::new("internal", "not there yet"))
}
