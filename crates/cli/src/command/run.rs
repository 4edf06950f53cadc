//! `waycairn run`: a study, trained and analyzed.

use clap::Args;

use crate::command::plugins::PluginPlaces;
use crate::command::study::{self, Stage, StudyPlace, Workers};
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::output::Shape;

/// Train a study and compute its metrics and plots; what is there already is found and not done again
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn run
  waycairn run --profile small --format json

The study is what settings_training.toml and settings_analysis.toml describe; `waycairn init` writes both. Its last line
with --format json is {products: [{product, key, status: hit|built|damaged, bytes, seconds, estimate}], runs: [{path, node,
status, computed, kept}], removed: [path], cleaned: {removed: {files, bytes}, kept: {files, bytes}}}; cleaned is null where another worker cleans
up. Plugins are looked for where settings_analysis.toml says, and as `waycairn plugins` does.")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(super) place: StudyPlace,
    #[command(flatten)]
    pub(super) workers: Workers,
    #[command(flatten)]
    pub(super) places: PluginPlaces,
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

pub(crate) fn run(args: &RunArgs, context: &Context) -> Result<Exit, CliError> {
    study::launch(&args.place, &args.workers, Stage::Run, &[], &args.places, args.format, context)
}
