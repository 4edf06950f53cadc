//! `waycairn analyze`: analyses of nodes that were recorded before.

use clap::Args;

use crate::args::NODE_HELP;
use crate::command::plugins::PluginPlaces;
use crate::command::train::assignment;
use crate::output::RowOutput;

/// Run analyses on recorded nodes and attach what they find to exactly those nodes
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  waycairn analyze --plugin target/release/libwaycairn_summary.so --at shakespeare:999
  waycairn analyze --analysis summary --where 'val/loss < 2.0' --run shakespeare
  waycairn analyze --plugin libmine.so --every 500 --set depth=3 --force

Nothing is trained and no clock moves. What the same analysis has attached with the same settings before is
skipped. Without --plugin, analyses are looked for as `waycairn plugins` does.

{NODE_HELP}"))]
pub(crate) struct AnalyzeArgs {
    #[command(flatten)]
    pub(super) places: PluginPlaces,
    /// Run this analysis [default: all that the plugins have]
    #[arg(long, value_name = "NAME")]
    pub(super) analysis: Option<String>,
    /// Analyze this node; may be repeated
    #[arg(long, value_name = "NODE", help_heading = "Which nodes")]
    pub(super) at: Vec<String>,
    /// Analyze the checkpointed nodes that satisfy an expression of `waycairn query`
    #[arg(long = "where", value_name = "EXPR", allow_hyphen_values = true, help_heading = "Which nodes")]
    pub(super) filter: Option<String>,
    /// Analyze the checkpoints after every K-th step of a run
    #[arg(long, value_name = "K", help_heading = "Which nodes")]
    pub(super) every: Option<std::num::NonZeroU64>,
    /// Analyze the last checkpoint of a run
    #[arg(long, help_heading = "Which nodes")]
    pub(super) latest: bool,
    /// The run that --every and --latest mean [default: the newest]
    #[arg(long, value_name = "NAME", help_heading = "Which nodes")]
    pub(super) run: Option<String>,
    /// Set one setting of the analysis; may be repeated
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = assignment)]
    pub(super) sets: Vec<(String, String)>,
    /// Run again what was attached before
    #[arg(long)]
    pub(super) force: bool,
    /// Device to compute on: cpu or auto
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(super) device: String,
    #[command(flatten)]
    pub(super) output: RowOutput,
}

pub(crate) fn run(
    _args: AnalyzeArgs,
    _context: &crate::context::Context,
) -> Result<crate::error::Exit, crate::error::CliError> {
    Err(crate::error::CliError::new("internal", "not there yet"))
}
