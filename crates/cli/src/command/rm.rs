//! `waycairn rm`: a run, or one checkpoint, goes.

use clap::Args;
use serde_json::json;
use waycairn_study::RemovalPlan;

use crate::command::study::StudyPlace;
use crate::context::Context;
use crate::error::CliError;
use crate::failure;
use crate::number::{self, plural};
use crate::output::{Shape, ShapeOutput};
use crate::table::{Grid, printable};
use crate::value::Value;

/// Remove a run with all that is recorded of it, or the checkpoint of one node; without --yes only say what would go
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn rm tiny
  waycairn rm tiny --yes
  waycairn rm shakespeare:499 --yes --format json

A run is named by the name of its nodes, as name or name@nonce, or by its folder in runs/: its checkpoints, artifacts, figures
and records go, and the folder in runs/. Its model stays in the cache, where `waycairn gc` finds it when no study uses it. A
node, written in any way with a position, as an address or as latest, stands for its checkpoint alone; all else of it stays.

Refused are the base of a branch (remove the branch first), a run whose model is pinned (`waycairn pin RUN --remove`), one that
is being trained or whose checkpoint somebody reads, and everything while a study is launched in the root. A program of your own
that records holds no lock: end it first. There is no way back: records cannot be computed again. Killed half-way, it leaves a
run that is not finished and has no checkpoint, and the same command completes it.

With --format json: {what: run|checkpoint, name, nonce, node, files, bytes, items: [{item, files, bytes}], records, shared:
{files, bytes}, stays: [path], removed}. What shared files of records give back is known when they are written anew; the
replaced ones are deleted ten minutes later, by the next training that ends or the next removal.")]
pub(crate) struct RmArgs {
    /// A run, or the node of a checkpoint
    #[arg(value_name = "RUN|NODE")]
    pub(super) what: String,
    /// Remove it
    #[arg(long)]
    pub(super) yes: bool,
    #[command(flatten)]
    pub(super) place: StudyPlace,
    #[command(flatten)]
    pub(super) output: ShapeOutput,
}

pub(crate) fn run(args: &RmArgs, context: &Context) -> Result<(), CliError> {
    let root = args.place.root(context)?;
    let plan = match args.yes {
        true => waycairn_study::remove(&root, &args.what),
        false => waycairn_study::plan_removal(&root, &args.what),
    };
    let plan = plan.map_err(failure::study)?;
    let mut out = args.output.place.open()?;
    match args.output.format() {
        Shape::Json => out.json(&Value::from(json!(plan)))?,
        Shape::Table => {
            let mut grid = Grid::new(["what", "files", "bytes"]);
            for item in &plan.items {
                grid.push([
                    Value::Text(item.item.clone()),
                    Value::Count(item.size.files),
                    Value::Text(number::bytes(item.size.bytes)),
                ]);
            }
            if !grid.is_empty() {
                out.text(&grid.draw(&context.looks(&out)).text)?;
            }
            out.text(&text(&plan))?;
        }
    }
    out.finish()
}

/// What goes or went, in words.
fn text(plan: &RemovalPlan) -> String {
    let mut lines = Vec::new();
    if plan.records > 0 {
        let shared = match plan.shared.files {
            0 => String::new(),
            files => format!("; {} that other runs share", plural(files, "part")),
        };
        lines.push(format!("{}{shared}", plural(plan.records, "record")));
    }
    lines.extend(
        plan.stays
            .iter()
            .map(|path| format!("stays: {}, until `waycairn gc` finds it unused", printable(path))),
    );
    let what = match (&plan.name, &plan.nonce) {
        (Some(name), Some(nonce)) => format!("{} {}@{}", plan.what, printable(name), printable(nonce)),
        _ => format!("the folder of a {} whose nodes are not known", plan.what),
    };
    let size = format!("{}, {}", plural(plan.size.files, "file"), number::bytes(plan.size.bytes));
    lines.push(match plan.removed {
        true => format!("removed {what}: {size}"),
        false => format!("would remove {what}: {size}; nothing is removed without --yes"),
    });
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use waycairn_durable::Size;
    use waycairn_study::RemovalItem;

    use super::*;

    #[test]
    fn cli_1_what_a_removal_takes() {
        let size = Size { files: 3, bytes: 300 };
        let plan = RemovalPlan {
            what: "run",
            name: Some("tiny".to_owned()),
            nonce: Some("0123".to_owned()),
            node: None,
            size,
            items: vec![RemovalItem { item: "checkpoints".to_owned(), size }],
            records: 7,
            shared: Size { files: 1, bytes: 10 },
            stays: vec!["cache/model/ab".to_owned()],
            removed: false,
        };
        let expected = json!({
            "what": "run",
            "name": "tiny",
            "nonce": "0123",
            "node": null,
            "files": 3,
            "bytes": 300,
            "items": [{"item": "checkpoints", "files": 3, "bytes": 300}],
            "records": 7,
            "shared": {"files": 1, "bytes": 10},
            "stays": ["cache/model/ab"],
            "removed": false,
        });
        assert_eq!(json!(plan), expected);
        let told = text(&plan);
        assert!(
            told.ends_with("would remove run tiny@0123: 3 files, 300 B; nothing is removed without --yes\n"),
            "{told}"
        );
        assert!(
            text(&RemovalPlan { removed: true, ..plan }).ends_with("removed run tiny@0123: 3 files, 300 B\n")
        );
    }
}
