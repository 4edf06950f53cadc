//! `waycairn sample`: text from a checkpoint.

use clap::Args;

use crate::args::NODE_HELP;
use crate::output::ShapeOutput;

/// Let the model of a checkpoint write text
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  waycairn sample shakespeare --prompt \"ROMEO:\"
  waycairn sample shakespeare:999 --tokens 500 --temperature 0.8 --top-k 40 --seed 7

{NODE_HELP}"))]
pub(crate) struct SampleArgs {
    /// The node; it must have a checkpoint
    #[arg(value_name = "NODE")]
    pub(super) node: String,
    /// The text to go on from [default: a line break]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(super) prompt: Option<String>,
    /// Write this many tokens
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub(super) tokens: usize,
    /// Below 1 the likely is favoured, above 1 the unlikely; 0 always takes the likeliest
    #[arg(long, value_name = "T", default_value_t = 1.0)]
    pub(super) temperature: f64,
    /// Choose among the K likeliest tokens only
    #[arg(long, value_name = "K")]
    pub(super) top_k: Option<usize>,
    /// Seed of the choice: the same seed writes the same text
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) seed: u64,
    /// Device to compute on: cpu or auto
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(super) device: String,
    #[command(flatten)]
    pub(super) output: ShapeOutput,
}

pub(crate) fn run(
    _args: SampleArgs,
    _context: &crate::context::Context,
) -> Result<(), crate::error::CliError> {
    Err(crate::error::CliError::new("internal", "not there yet"))
}
