//! `waycairn gc`: what of the cache would go, and its removal.

use clap::Args;
use serde_json::json;
use waycairn_cache::{GcReport, Verdict};
use waycairn_study::{Branch, BranchReport, Reason};

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
  waycairn gc --checkpoints --dry-run

A launch that succeeds collects the cache by itself. What the last three distinct training settings used stays, as do what
is pinned, what no history names while it is younger than a day, and everything where there is a doubt.

--dry-run also lists the checkpoints of runs, and which of them belong to dead branches: runs that a study trained, that no
folder in runs/, no history entry and no pin names, from which nobody branched, that nobody trains, and that are a day old.
A run of `waycairn train --text` is its user's own and never dead, and the base of a branch stays for it. Checkpoints cannot
be computed again but by training, so no launch removes them, and gc does with --checkpoints alone: those of dead branches,
but for nodes that something is attached to. The records stay, and so do the weights of models in the cache.

With --dry-run --format json: {decisions, doubts, missing, branches: [{name, nonce, checkpoints, files, bytes, reason:
own|doubt|run|used|pinned|base|written|young|attached|dead, branches}]}; without --dry-run: {removed, bytes, kept, errors,
checkpoints: {removed: [..], files, bytes, spared} or null}.")]
pub(crate) struct GcArgs {
    /// Only say what would go, and why
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Remove the checkpoints of dead branches too
    #[arg(long)]
    pub(super) checkpoints: bool,
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
        let branches = waycairn_study::plan_branches(&root).map_err(failure::study)?;
        let mut out = args.output.place.open()?;
        match args.output.format() {
            Shape::Json => {
                let mut value = json!(plan);
                value["branches"] = json!(branches);
                out.json(&Value::from(value))?;
            }
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
                for branch in &branches {
                    let verdict = match (branch.is_dead(), args.checkpoints) {
                        (true, true) => "goes",
                        (true, false) => "goes with --checkpoints",
                        (false, _) => "stays",
                    };
                    let checkpoints = plural(branch.checkpoints, "checkpoint");
                    grid.push([
                        Value::Text(format!("{}@{}, {checkpoints}", branch.name, branch.nonce)),
                        Value::Text(number::bytes(branch.size.bytes)),
                        Value::Count(branch.size.files),
                        Value::from(verdict),
                        Value::Text(why(branch)),
                    ]);
                }
                context.table(&grid, "the cache is empty, and no run has a checkpoint", &mut out)?;
            }
        }
        return out.finish();
    }
    let branches = match args.checkpoints {
        true => Some(waycairn_study::collect_branches(&root).map_err(failure::study)?),
        false => None,
    };
    // Nothing there is nothing to lock.
    let report = match plan.decisions.is_empty() {
        true => GcReport::default(),
        false => waycairn_study::collect(&root).map_err(failure::study)?,
    };
    let mut out = args.output.place.open()?;
    match args.output.format() {
        Shape::Json => {
            let removed: Vec<String> = report.removed_entries.iter().map(ToString::to_string).collect();
            out.json(&Value::from(json!({
                "removed": removed,
                "bytes": report.removed.bytes,
                "kept": report.kept.entries,
                "errors": report.errors,
                "checkpoints": branches,
            })))?;
        }
        Shape::Table => {
            if let Some(branches) = &branches {
                out.text(&text(branches))?;
            }
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

/// Why the checkpoints of a run stay or go: its word, and of a base the branches that need it.
fn why(branch: &Branch) -> String {
    let base = match branch.branches.as_slice() {
        [] => return branch.reason.word().to_owned(),
        [one] => format!("base of {one}"),
        [one, others @ ..] => format!("base of {one} and {} more", others.len()),
    };
    if branch.reason == Reason::Base { base } else { format!("{}, {base}", branch.reason.word()) }
}

/// What was removed of dead branches, in words.
fn text(report: &BranchReport) -> String {
    let checkpoints = report.removed.iter().map(|branch| branch.checkpoints).sum();
    let mut text = format!(
        "removed {} of {} ({}, {})\n",
        plural(checkpoints, "checkpoint"),
        plural(report.removed.len() as u64, "dead run"),
        plural(report.size.files, "file"),
        number::bytes(report.size.bytes),
    );
    for spared in &report.spared {
        text.push_str(&format!("spared {spared}: it is in use\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use waycairn_durable::Size;

    use super::*;

    #[test]
    fn cli_1_a_branch_of_the_dry_run() {
        let branch = Branch {
            name: "gpt.baseline.r0".to_owned(),
            nonce: "0123".to_owned(),
            checkpoints: 3,
            size: Size { files: 24, bytes: 300 },
            reason: Reason::Dead,
            branches: Vec::new(),
        };
        let expected = json!({
            "name": "gpt.baseline.r0",
            "nonce": "0123",
            "checkpoints": 3,
            "files": 24,
            "bytes": 300,
            "reason": "dead",
            "branches": [],
        });
        assert_eq!(json!(branch), expected);
        assert_eq!(why(&branch), "dead");
        let branches = vec!["a@1".to_owned(), "b@2".to_owned()];
        let base = Branch { reason: Reason::Base, branches, ..branch };
        assert_eq!(why(&base), "base of a@1 and 1 more");
        assert_eq!(why(&Branch { reason: Reason::Own, ..base }), "own, base of a@1 and 1 more");
    }
}
