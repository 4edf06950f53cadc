//! `waycairn recover`: publish what writers that died had queued.

use clap::Args;
use serde_json::json;
use waycairn_durable::read_format;
use waycairn_store::{RecoverReport, recover};

use crate::context::Context;
use crate::error::CliError;
use crate::failure;
use crate::number::plural;
use crate::output::{Shape, ShapeOutput};
use crate::table::printable;
use crate::value::Value;

/// Publish the records that writers which died had accepted and not published yet
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn recover
  waycairn recover --format json

A writer keeps what it has accepted in a journal beside the parts until it is in one. Every command that records does this too
when it opens the root, and every question of this program reads journals as they are, so this is needed only where another
program is to read the parts. Writers that live keep their journals; running it twice, or beside anything, harms nothing.

With --format json: {segments, records, parts, torn_bytes, damaged: [path], live}. `torn_bytes` are those of records that were
just being written when the process ended. `damaged` are journals in which other bytes stand than were written, by a failing disk
for example: what is whole in them was published, and they are kept under this name, which nothing reads again.")]
pub(crate) struct RecoverArgs {
    #[command(flatten)]
    pub(super) output: ShapeOutput,
}

pub(crate) fn run(args: &RecoverArgs, context: &Context) -> Result<(), CliError> {
    let root = context.root_to_mend()?;
    read_format(&root).map_err(failure::version)?;
    let report = recover(&root).map_err(failure::store)?;
    let mut out = args.output.place.open()?;
    match args.output.format() {
        Shape::Json => {
            let RecoverReport { segments, records, parts, torn_bytes, damaged, live, .. } = &report;
            out.json(&Value::from(json!({
                "segments": segments, "records": records, "parts": parts,
                "torn_bytes": torn_bytes, "damaged": damaged, "live": live,
            })))?;
        }
        Shape::Table => out.text(&text(&report))?,
    }
    out.finish()
}

fn text(report: &RecoverReport) -> String {
    let mut lines = match report.segments {
        0 => vec!["nothing to recover".to_owned()],
        segments => {
            vec![format!("recovered {} of {}", plural(report.records, "record"), plural(segments, "journal"))]
        }
    };
    if report.torn_bytes > 0 {
        lines.push(format!("{} of records that were not written whole", plural(report.torn_bytes, "byte")));
    }
    for path in &report.damaged {
        lines.push(format!("damaged, and kept: {}", printable(&path.display().to_string())));
    }
    if report.live > 0 {
        lines.push(format!("{} of writers that live: left alone", plural(report.live, "journal")));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_1_what_a_recovery_did() {
        let mut report = RecoverReport::default();
        assert_eq!(text(&report), "nothing to recover\n");
        (report.segments, report.records, report.torn_bytes, report.live) = (2, 1, 9, 1);
        report.damaged.push("a/.damaged-journal-x-0".into());
        assert_eq!(
            text(&report),
            "recovered 1 record of 2 journals\n9 bytes of records that were not written whole\n\
             damaged, and kept: a/.damaged-journal-x-0\n1 journal of writers that live: left alone\n"
        );
    }
}
