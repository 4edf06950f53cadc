//! `waycairn fsck`: is what is recorded there, and is what is there recorded?

use clap::Args;
use serde_json::json;
use waycairn_store::{FsckReport, Problem, fsck, fsck_repair};

use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::failure;
use crate::number::plural;
use crate::output::{Shape, ShapeOutput};
use crate::table::{Grid, printable};
use crate::value::Value;

/// Check all records of a root, and whether files and records of nodes fit each other
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn fsck
  waycairn fsck --format json

It reads every byte of every file of records, looks for what writers that died left, for files of nodes that no record names and
for files that a record names and that are not there, for payloads that cannot be read, and for nodes that are their own
ancestors. (`waycairn verify` checks the cache of a study, and a checkpoint.) Nothing is changed.

Where something can be repaired it tells a plan, a word that stands for exactly that: `waycairn fsck --repair PLAN` does it, and
refuses when the check finds anything else by then. A repair publishes what dead writers had queued, deletes what they left
half-written, and sets aside a file of records that cannot be read: under a hidden name, so that questions have answers again,
without its records. A file of a node without a record, and a record without its file, are told and left to you.

The exit status is 3 when something is wrong. With --format json: {parts, rows, nodes, plan, problems: [{kind, path, node, what,
repair}]}, with --repair the list of what was repaired alone.")]
pub(crate) struct FsckArgs {
    /// Do the repairs that a check told, which this stands for
    #[arg(long, value_name = "PLAN")]
    pub(super) repair: Option<String>,
    #[command(flatten)]
    pub(super) output: ShapeOutput,
}

pub(crate) fn run(args: &FsckArgs, context: &Context) -> Result<Exit, CliError> {
    let root = context.root_to_mend()?;
    if let Some(plan) = &args.repair {
        let repaired = fsck_repair(&root, plan).map_err(failure::store)?;
        let mut out = args.output.place.open()?;
        match args.output.format() {
            Shape::Json => out.json(&Value::from(json!(repaired)))?,
            Shape::Table => {
                context.table(&grid(&repaired), "nothing was to be repaired", &mut out)?;
                out.text(&format!("repaired {}\n", plural(repaired.len() as u64, "problem")))?;
            }
        }
        out.finish()?;
        return Ok(Exit::Done);
    }
    let report = fsck(&root).map_err(failure::store)?;
    let mut out = args.output.place.open()?;
    match args.output.format() {
        Shape::Json => out.json(&Value::from(json!(report)))?,
        Shape::Table => {
            if !report.problems.is_empty() {
                context.table(&grid(&report.problems), "", &mut out)?;
            }
            out.text(&text(&report))?;
        }
    }
    out.finish()?;
    Ok(if report.problems.is_empty() { Exit::Done } else { Exit::Damaged })
}

fn word(value: &impl serde::Serialize) -> String {
    match json!(value) {
        serde_json::Value::String(word) => word.replace('_', " "),
        _ => String::new(),
    }
}

fn grid(problems: &[Problem]) -> Grid {
    let mut grid = Grid::new(["kind", "path", "node", "what", "repair"]).ranked([0, 1, 4, 2, 3]);
    for problem in problems {
        let text = |text: &Option<String>| Value::text(text.as_deref().map(printable));
        grid.push([
            Value::Text(word(&problem.kind)),
            text(&problem.path),
            text(&problem.node),
            Value::Text(printable(&problem.what)),
            Value::text(problem.repair.map(|repair| word(&repair))),
        ]);
    }
    grid
}

fn text(report: &FsckReport) -> String {
    let counts = format!(
        "{} with {}, {} with files: {}\n",
        plural(report.parts, "part"),
        plural(report.rows, "row"),
        plural(report.nodes, "node"),
        match report.problems.len() {
            0 => "all is well".to_owned(),
            problems => plural(problems as u64, "problem"),
        }
    );
    match &report.plan {
        Some(plan) => format!("{counts}what can be repaired, is by: waycairn fsck --repair {plan}\n"),
        None => counts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_1_what_a_check_found() {
        let mut report = FsckReport::default();
        assert_eq!(text(&report), "0 parts with 0 rows, 0 nodes with files: all is well\n");
        report.parts = 1;
        report.plan = Some("0123456789ab".to_owned());
        assert!(text(&report).ends_with("waycairn fsck --repair 0123456789ab\n"));
        assert_eq!(word(&waycairn_store::ProblemKind::BlobWithoutMarker), "blob without marker");
    }
}
