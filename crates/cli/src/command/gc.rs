//! `waycairn gc`: what of the cache would go, and its removal.

use clap::Args;
use serde_json::json;
use waycairn_cache::Verdict;

use crate::command::study::StudyPlace;
use crate::context::Context;
use crate::error::CliError;
use crate::failure;
use crate::number::{self, plural};
use crate::output::{Shape, ShapeOutput};
use crate::table::Grid;
use crate::value::Value;

/// Remove what no recent launch of a study used from its cache, or say what would go
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn gc --dry-run
  waycairn gc --root outputs/small --dry-run --format json

A launch that succeeds does this by itself. What the last three distinct training settings used stays, as do what is
pinned, what no history names while it is younger than a day, and everything where there is a doubt. Records and
checkpoints of runs are not in the cache, and stay.")]
pub(crate) struct GcArgs {
    /// Only say what would go, and why
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) place: StudyPlace,
    #[command(flatten)]
    pub(super) output: ShapeOutput,
}

pub(crate) fn run(args: &GcArgs, context: &Context) -> Result<(), CliError> {
    let root = args.place.root(context)?;
    let plan = waycairn_study::plan_collection(&root).map_err(failure::study)?;
    for doubt in &plan.doubts {
        context.note(&format!("nothing is removed: {doubt}"));
    }
    if args.dry_run {
        let mut out = args.output.place.open()?;
        match args.output.format() {
            Shape::Json => out.json(&Value::from(json!(plan)))?,
            Shape::Table => {
                let mut grid = Grid::new(["what", "bytes", "files", "verdict", "why"]);
                for decision in &plan.decisions {
                    let (verdict, why) = match decision.verdict {
                        Verdict::Keep(why) => ("stays", json!(why)),
                        Verdict::Remove(why) => ("goes", json!(why)),
                    };
                    grid.push([
                        Value::Text(decision.path.display().to_string()),
                        Value::Text(number::bytes(decision.bytes)),
                        Value::Count(decision.files),
                        Value::from(verdict),
                        Value::text(why.as_str()),
                    ]);
                }
                context.table(&grid, "the cache is empty", &mut out)?;
            }
        }
        return out.finish();
    }
    // Nothing there is nothing to lock.
    if plan.decisions.is_empty() {
        let mut out = args.output.place.open()?;
        match args.output.format() {
            Shape::Json => {
                out.json(&Value::from(json!({ "removed": [], "bytes": 0, "kept": 0, "errors": [] })))?
            }
            Shape::Table => context.note("the cache is empty"),
        }
        return out.finish();
    }
    let report = waycairn_study::collect(&root).map_err(failure::study)?;
    let mut out = args.output.place.open()?;
    match args.output.format() {
        Shape::Json => {
            let removed: Vec<String> = report.removed_entries.iter().map(ToString::to_string).collect();
            out.json(&Value::from(json!({
                "removed": removed,
                "bytes": report.removed.bytes,
                "kept": report.kept.entries,
                "errors": report.errors,
            })))?;
        }
        Shape::Table => {
            out.text(&format!(
                "removed {} ({}), kept {} ({})\n",
                plural(report.removed.entries, "artifact"),
                number::bytes(report.removed.bytes),
                plural(report.kept.entries, "artifact"),
                number::bytes(report.kept.bytes),
            ))?;
        }
    }
    out.finish()?;
    match report.errors.first() {
        None => Ok(()),
        Some(error) => Err(CliError::new(
            "io",
            format!("{} could not be removed", plural(report.errors.len() as u64, "thing")),
        )
        .why(format!("`{}`: {}", error.path.display(), error.error))
        .next("check its permissions, and run it again")),
    }
}
