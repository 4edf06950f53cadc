//! `waycairn pin`: what is kept whatever the history says.

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

/// Keep the artifacts of a run, or one entry of the cache, until they are unpinned; alone, list what is pinned
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn pin
  waycairn pin gpt.baseline.r0 --reason 'figure 3 of the paper'
  waycairn pin gpt.baseline.r0 --remove

A run is named by its folder below `runs`, by the name of its nodes, or by its node's address; an entry as
product/key, of which the first characters are enough. What a pinned entry was built from is kept with it.")]
pub(crate) struct PinArgs {
    /// A run, or an entry of the cache as product/key
    #[arg(value_name = "RUN|ENTRY")]
    pub(super) what: Option<String>,
    /// Why, in your words
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(super) reason: String,
    /// Keep it no longer
    #[arg(long, requires = "what", conflicts_with = "reason")]
    pub(super) remove: bool,
    #[command(flatten)]
    pub(super) place: StudyPlace,
    #[command(flatten)]
    pub(super) output: ShapeOutput,
}

pub(crate) fn run(args: &PinArgs, context: &Context) -> Result<(), CliError> {
    let root = args.place.root(context)?;
    let cache = Cache::open(&root).map_err(failure::cache)?;
    let mut done = Vec::new();
    if let Some(what) = &args.what {
        for entry in waycairn_study::entries_named(&root, what).map_err(failure::study)? {
            if !args.remove {
                cache.pin(&entry, &args.reason, now_nanos()).map_err(failure::cache)?;
            } else if !cache.unpin(&entry).map_err(failure::cache)? {
                context.note(&format!("`{entry}` was not pinned; `waycairn pin` lists what is"));
                continue;
            }
            done.push(entry);
        }
    }
    let pins = cache.pins().map_err(failure::cache)?;
    if let Some(doubt) = pins.doubt() {
        return Err(CliError::new(
            "corrupt",
            format!("`{}` cannot be understood", root.join("pins.json").display()),
        )
        .why(doubt)
        .next("restore it from a copy, or remove it to go on without pins; nothing is collected meanwhile"));
    }
    let mut out = args.output.place.open()?;
    match args.output.format() {
        Shape::Json => {
            let list: Vec<serde_json::Value> = pins
                .pins()
                .iter()
                .map(|(entry, pin)| {
                    let dependencies: Vec<String> =
                        pin.dependencies.iter().map(ToString::to_string).collect();
                    json!({
                        "entry": entry.to_string(),
                        "reason": pin.reason,
                        "time": pin.time,
                        "dependencies": dependencies,
                    })
                })
                .collect();
            out.json(&Value::from(serde_json::Value::Array(list)))?;
        }
        Shape::Table if args.what.is_some() => {
            let verb = if args.remove { "unpinned" } else { "pinned" };
            for entry in &done {
                out.text(&format!("{verb} {entry}\n"))?;
            }
        }
        Shape::Table => {
            let mut grid = Grid::new(["pinned", "reason", "since (UTC)"]);
            for (entry, pin) in pins.pins() {
                grid.push([
                    Value::Text(entry.to_string()),
                    Value::Text(pin.reason.clone()),
                    Value::Text(pin.time.clone()),
                ]);
            }
            context.table(&grid, "nothing is pinned", &mut out)?;
        }
    }
    out.finish()
}
