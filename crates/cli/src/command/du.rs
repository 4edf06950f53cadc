//! `waycairn du`: what takes the space in a root.

use clap::Args;
use serde_json::json;
use waycairn_durable::Size;
use waycairn_study::Usage;

use crate::command::study::StudyPlace;
use crate::context::Context;
use crate::error::CliError;
use crate::failure;
use crate::number;
use crate::output::{Destination, Shape, ShapeOutput};
use crate::table::Grid;
use crate::value::Value;

/// Tell what takes the space in a root: by kind, by run, and by product of the cache
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn du
  waycairn du --entries
  waycairn du --format json

No file is opened: names and lengths say it all. Records of several runs may stand in one file, so they are told as a
whole; what is told of a run are the checkpoints, artifacts and figures of its nodes. `temporary` is what has a hidden
name: what is being made, and what a process that died left. `replaced` are files of records whose rows stand in newer
ones; they are deleted ten minutes later, by the next training that ends or the next removal.

With --format json: {files, bytes, areas: [{area, files, bytes}], runs: [{name, nonce, nodes, checkpoints: {files,
bytes}, artifacts: {files, bytes}}], products: [{product, entries, files, bytes}], entries: [{path, files, bytes}]};
entries is empty without --entries. `waycairn rm` removes a run or a
checkpoint, `waycairn gc` what no study uses.")]
pub(crate) struct DuArgs {
    /// Tell every entry of the cache too
    #[arg(long)]
    pub(super) entries: bool,
    #[command(flatten)]
    pub(super) place: StudyPlace,
    #[command(flatten)]
    pub(super) output: ShapeOutput,
}

pub(crate) fn run(args: &DuArgs, context: &Context) -> Result<(), CliError> {
    let root = args.place.root(context)?;
    if !root.exists() {
        return Err(CliError::new("not_found", format!("there is no folder `{}`", root.display()))
            .next("name the root with `--root`, or the settings with `--settings-dir`"));
    }
    let mut usage = Usage::of(&root).map_err(failure::study)?;
    if !args.entries {
        usage.entries.clear();
    }
    let mut out = args.output.place.open()?;
    match args.output.format() {
        Shape::Json => out.json(&Value::from(json!(usage)))?,
        Shape::Table => {
            for grid in grids(&usage) {
                context.table(&grid, "nothing is there", &mut out)?;
                out.text("\n")?;
            }
            total(usage.total, &mut out)?;
        }
    }
    out.finish()
}

/// The tables that have rows.
fn grids(usage: &Usage) -> impl Iterator<Item = Grid> {
    let mut areas = Grid::new(["what", "files", "bytes"]);
    for known in &usage.areas {
        areas.push([Value::from(known.area.word())].into_iter().chain(cells(known.size)));
    }
    let mut runs = Grid::new([
        "run",
        "nodes",
        "checkpoint files",
        "checkpoint bytes",
        "artifact files",
        "artifact bytes",
    ])
    .ranked([0, 3, 2, 0, 2, 1]);
    for run in &usage.runs {
        let who = [Value::Text(format!("{}@{}", run.name, run.nonce)), Value::Count(run.nodes)];
        runs.push(who.into_iter().chain(cells(run.checkpoints)).chain(cells(run.artifacts)));
    }
    let mut products = Grid::new(["product", "entries", "files", "bytes"]);
    for known in &usage.products {
        let what = [Value::Text(known.product.clone()), Value::Count(known.entries)];
        products.push(what.into_iter().chain(cells(known.size)));
    }
    let mut entries = Grid::new(["entry", "files", "bytes"]);
    for known in &usage.entries {
        entries.push([Value::Text(known.path.clone())].into_iter().chain(cells(known.size)));
    }
    [areas, runs, products, entries].into_iter().filter(|grid| !grid.is_empty())
}

fn cells(size: Size) -> [Value; 2] {
    [Value::Count(size.files), Value::Text(number::bytes(size.bytes))]
}

fn total(size: Size, out: &mut Destination) -> Result<(), CliError> {
    out.text(&format!("{} in all, {}\n", number::plural(size.files, "file"), number::bytes(size.bytes)))
}

#[cfg(test)]
mod tests {
    use waycairn_study::{Area, AreaUsage, EntryUsage, ProductUsage, RunUsage};

    use super::*;

    #[test]
    fn cli_1_what_takes_the_space() {
        let size = |files, bytes| Size { files, bytes };
        let usage = Usage {
            total: size(7, 700),
            areas: vec![AreaUsage { area: Area::Checkpoints, size: size(3, 300) }],
            runs: vec![RunUsage {
                name: "tiny".to_owned(),
                nonce: "0123".to_owned(),
                nodes: 2,
                checkpoints: size(3, 300),
                artifacts: size(1, 1),
            }],
            products: vec![ProductUsage { product: "model".to_owned(), entries: 1, size: size(3, 399) }],
            entries: vec![EntryUsage { path: "cache/model/ab".to_owned(), size: size(3, 399) }],
        };
        let expected = json!({
            "files": 7,
            "bytes": 700,
            "areas": [{"area": "checkpoints", "files": 3, "bytes": 300}],
            "runs": [{
                "name": "tiny",
                "nonce": "0123",
                "nodes": 2,
                "checkpoints": {"files": 3, "bytes": 300},
                "artifacts": {"files": 1, "bytes": 1},
            }],
            "products": [{"product": "model", "entries": 1, "files": 3, "bytes": 399}],
            "entries": [{"path": "cache/model/ab", "files": 3, "bytes": 399}],
        });
        assert_eq!(json!(usage), expected);
    }
}
