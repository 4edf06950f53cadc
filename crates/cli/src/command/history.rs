//! `waycairn history`: the training settings that a root still keeps everything of.

use clap::Args;
use serde_json::json;
use waycairn_cache::Cache;
use waycairn_durable::time::now_nanos;

use crate::command::study::StudyPlace;
use crate::context::Context;
use crate::error::CliError;
use crate::failure;
use crate::output::{Shape, ShapeOutput};
use crate::table::Grid;
use crate::value::Value;

/// List the last three distinct training settings, whose models and data a study's root keeps
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn history
  waycairn history --root outputs/small --format json")]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub(super) place: StudyPlace,
    #[command(flatten)]
    pub(super) output: ShapeOutput,
}

pub(crate) fn run(args: &HistoryArgs, context: &Context) -> Result<(), CliError> {
    let root = args.place.root(context)?;
    let cache = Cache::open(&root).map_err(failure::cache)?;
    let history = cache.history(now_nanos()).map_err(failure::cache)?;
    if let Some(doubt) = history.doubt() {
        context.note(&doubt);
    }
    let mut out = args.output.place.open()?;
    match args.output.format() {
        Shape::Json => out.json(&Value::from(json!(history.roots())))?,
        Shape::Table => {
            let mut grid = Grid::new(["settings", "profile", "entries", "last used (UTC)"]);
            for known in history.roots() {
                grid.push([
                    Value::Text(known.digest.short()),
                    Value::Text(known.label.clone()),
                    Value::Count(known.entries().count() as u64),
                    Value::Text(known.time.clone()),
                ]);
            }
            context.table(&grid, "no study was launched in this root", &mut out)?;
        }
    }
    out.finish()
}
