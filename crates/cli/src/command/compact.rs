//! `waycairn compact`: many small files of records become few.

use std::sync::Arc;

use clap::Args;
use serde_json::json;
use waycairn_store::{CompactPlan, CompactReport, StoreError, compact_root, plan_compaction};

use crate::context::Context;
use crate::error::CliError;
use crate::failure;
use crate::number::{self, plural};
use crate::output::{Shape, ShapeOutput};
use crate::table::Grid;
use crate::value::Value;

/// Merge the small files of records of a root into larger ones
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn compact --dry-run
  waycairn compact
  waycairn compact --format json

Every store that is closed merges what it wrote; this merges what many of them left, four files of about one size or more at a
time. No answer changes: rows are copied as they are. It runs beside writers, whose files are left to them, and beside
readers: what is replaced is kept under a hidden name for ten minutes, and deleted by the next compaction. Killed at any
moment it loses nothing, and the next one goes on.

With --format json: {sources, parts, rows, deleted, errors: [text]}; with --dry-run: {parts, groups: [{parts, rows, bytes}], live,
foreign}. A group becomes one file; `live` are files of writers that are running, `foreign` those of other programs, and
links.")]
pub(crate) struct CompactArgs {
    /// Only say what would be merged
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) output: ShapeOutput,
}

pub(crate) fn run(args: &CompactArgs, context: &Context) -> Result<(), CliError> {
    let root = context.root_to_mend()?;
    if args.dry_run {
        let plan = plan_compaction(&root).map_err(failure::store)?;
        let mut out = args.output.place.open()?;
        match args.output.format() {
            Shape::Json => out.json(&Value::from(json!(plan)))?,
            Shape::Table => {
                context.table(&grid(&plan), "nothing to merge", &mut out)?;
                out.text(&others(&plan))?;
            }
        }
        return out.finish();
    }
    let report = compact_root(&root).map_err(failure::store)?;
    let mut out = args.output.place.open()?;
    match args.output.format() {
        Shape::Json => out.json(&object(&report))?,
        Shape::Table => out.text(&text(&report))?,
    }
    out.finish()?;
    // What could be done was done, and is told; that something could not is a failure all the same.
    match report.errors.first() {
        Some(error) => {
            Err(CliError::new("store", format!("{} not merged", plural(report.errors.len() as u64, "group")))
                .why(told(error))
                .next("nothing is lost; mend what is told, and compact again"))
        }
        None => Ok(()),
    }
}

/// An error with its causes, in one line.
fn told(error: &Arc<StoreError>) -> String {
    CliError::of("store", Arc::clone(error)).in_one_line()
}

fn grid(plan: &CompactPlan) -> Grid {
    let mut grid = Grid::new(["files", "rows", "bytes"]);
    for group in &plan.groups {
        let bytes = Value::Text(number::bytes(group.bytes));
        grid.push([Value::Count(group.parts), Value::Count(group.rows), bytes]);
    }
    grid
}

/// What is not merged.
fn others(plan: &CompactPlan) -> String {
    let mut lines = vec![format!("{} of records", plural(plan.parts, "file"))];
    if plan.live > 0 {
        lines.push(format!("{} of writers that are running", plan.live));
    }
    if plan.foreign > 0 {
        lines.push(format!("{} of other programs, or links", plan.foreign));
    }
    lines.join("; ") + "\n"
}

fn object(report: &CompactReport) -> Value {
    let errors: Vec<String> = report.errors.iter().map(told).collect();
    let CompactReport { sources, parts, rows, deleted, .. } = report;
    Value::from(
        json!({"sources": sources, "parts": parts, "rows": rows, "deleted": deleted, "errors": errors}),
    )
}

fn text(report: &CompactReport) -> String {
    let mut text = match report.sources {
        0 => "nothing to merge".to_owned(),
        sources => format!(
            "merged {} into {}, {}",
            plural(sources, "file"),
            report.parts,
            plural(report.rows, "row")
        ),
    };
    if report.deleted > 0 {
        let files = plural(report.deleted, "file");
        text.push_str(&format!(
            "; deleted {files} that earlier ones had replaced, or that dead writers left"
        ));
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_1_what_a_compaction_did() {
        let mut report = CompactReport::default();
        assert_eq!(text(&report), "nothing to merge\n");
        (report.sources, report.parts, report.rows, report.deleted) = (9, 1, 40, 2);
        assert_eq!(
            text(&report),
            "merged 9 files into 1, 40 rows; deleted 2 files that earlier ones had replaced, or that dead writers left\n"
        );
        let json = serde_json::to_string(&object(&report)).unwrap();
        assert_eq!(json, r#"{"deleted":2,"errors":[],"parts":1,"rows":40,"sources":9}"#);
    }
}
