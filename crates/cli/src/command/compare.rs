//! `waycairn compare`: the runs of a study beside each other.

use clap::Args;
use serde_json::Value as Json;
use waycairn_study::RecordedRun;
use waycairn_train::nearest;

use crate::command::study::StudyPlace;
use crate::context::Context;
use crate::error::CliError;
use crate::failure;
use crate::output::{Format, RowOutput};
use crate::rows::{self, Columns};
use crate::table::Grid;
use crate::value::Value;

/// Show the runs of a study beside each other: metrics and settings, by dotted path
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn compare
  waycairn compare settings.learning_rate seconds --format csv
  waycairn compare --root outputs/small --format json

A PATH is a metric's, as loss_by_position.mean or coverage.projected_mean.0, a setting's, as settings.learning_rate, or
seconds, what the training took. Without one all numbers of all metrics are shown.")]
pub(crate) struct CompareArgs {
    /// What to show
    #[arg(value_name = "PATH")]
    pub(super) paths: Vec<String>,
    #[command(flatten)]
    pub(super) place: StudyPlace,
    #[command(flatten)]
    pub(super) output: RowOutput,
}

/// The names of a row that are not the user's.
const FIXED: &[&str] = &["path", "variant", "member", "node", "state"];

pub(crate) fn run(args: &CompareArgs, context: &Context) -> Result<(), CliError> {
    let root = args.place.root(context)?;
    let runs = RecordedRun::list(&root).map_err(failure::study)?;
    let mut known = Vec::new();
    for run in &runs {
        leaves("", &run.metrics, &mut known);
    }
    let paths = if args.paths.is_empty() { known.clone() } else { args.paths.clone() };
    for path in &args.paths {
        if !runs.is_empty() && runs.iter().all(|run| find(run, path).is_none()) {
            let near = nearest(path, known.iter().map(String::as_str));
            let near = near.map_or_else(String::new, |near| format!("; the nearest is `{near}`"));
            context.note(&format!("no run has `{path}`{near}"));
        }
    }
    let mut out = args.output.open(&context.terminal)?;
    let row = |run: &RecordedRun| -> Vec<Value> {
        let state = run.status.as_ref().map(|status| match status.state {
            waycairn_study::RunState::Running => "running",
            waycairn_study::RunState::Trained => "trained",
            waycairn_study::RunState::Failed => "failed",
        });
        let fixed = [
            Value::Text(run.folder.display().to_string()),
            Value::Text(run.run.variant.clone()),
            Value::Text(run.run.member.clone()),
            Value::text(run.run.node.clone()),
            Value::text(state),
        ];
        let values = paths.iter().map(|path| find(run, path).map_or(Value::Null, Value::from));
        fixed.into_iter().chain(values).collect()
    };
    match args.output.format() {
        Format::Table => {
            let titles = ["variant", "member", "state"].into_iter().chain(paths.iter().map(String::as_str));
            let mut grid = Grid::new(titles);
            for run in &runs {
                let values = row(run);
                // The folder and the address are long, and `--format json` has them.
                let shown = [1, 2, 4].into_iter().chain(FIXED.len()..values.len());
                grid.push(shown.filter_map(|index| values.get(index).cloned()));
            }
            context.table(&grid, "no runs of a study", &mut out)?;
        }
        format => {
            let columns = Columns::fixed(FIXED).keys(paths.iter().map(String::as_str), FIXED);
            rows::write(&mut out, format, &columns, runs.iter().map(row))?;
        }
    }
    out.finish()
}

/// The paths of all numbers and truth values, each once, in the order in which they are met.
fn leaves(path: &str, value: &Json, found: &mut Vec<String>) {
    let below = |step: &str| if path.is_empty() { step.to_owned() } else { format!("{path}.{step}") };
    match value {
        Json::Object(entries) => entries.iter().for_each(|(key, value)| leaves(&below(key), value, found)),
        Json::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, item)| leaves(&below(&index.to_string()), item, found));
        }
        Json::Number(_) | Json::Bool(_) if !found.iter().any(|known| known == path) => {
            found.push(path.to_owned());
        }
        _ => {}
    }
}

/// What stands at a path: of the settings, of the training, or of the metrics.
fn find(run: &RecordedRun, path: &str) -> Option<Json> {
    if path == "seconds" {
        return run.status.as_ref()?.seconds.map(Json::from);
    }
    let (from, path) = match path.split_once('.') {
        Some(("settings", rest)) => (&run.run.settings, rest),
        _ => (&run.metrics, path),
    };
    let found = path.split('.').try_fold(from, |at, step| match at {
        Json::Array(items) => items.get(step.parse::<usize>().ok()?),
        at => at.get(step),
    });
    found.filter(|found| !found.is_null()).cloned()
}
