//! `waycairn compare`: the runs of a study beside each other.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;
use serde_json::Value as Json;
use waycairn_dag::Address;
use waycairn_store::{ObjectReader, Order, Scalar, SortKey};
use waycairn_study::RecordedRun;
use waycairn_train::nearest;

use crate::chart::{Axis, Chart, Series};
use crate::command::study::StudyPlace;
use crate::context::Context;
use crate::error::CliError;
use crate::failure;
use crate::output::{Format, RowOutput};
use crate::rows::{self, Columns};
use crate::table::{Grid, printable};
use crate::value::Value;

/// Show the runs of a study beside each other: metrics and settings, by dotted path
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn compare
  waycairn compare settings.learning_rate val/loss seconds --format csv
  waycairn compare --root outputs/small --format json
  waycairn compare val/loss --plot --against settings.learning_rate -o loss.svg
  waycairn compare val/loss --plot --against member -o members.svg

A PATH is a metric's, as loss_by_position.mean or coverage.projected_mean.0, a setting's, as settings.learning_rate, variant
or member, a field that the run recorded, as val/loss, its last value, or seconds, what the training took. Without one all numbers of all metrics are
shown, and the losses where there are no metrics.

With --plot it is a figure: a point for each run. Its horizontal axis has the variants, or the members where there is one
variant, or what stands at the path of --against. Of a setting that varies it shows the runs that differ from the baseline in
that setting alone; through numbers goes a line, by the means of the members. Where a metric X has X_standard_error beside it,
a bar is one standard error to each side.")]
pub(crate) struct CompareArgs {
    /// What to show
    #[arg(value_name = "PATH")]
    pub(super) paths: Vec<String>,
    /// Draw it, as SVG, into FILE
    #[arg(long, requires = "output")]
    pub(super) plot: bool,
    /// What the horizontal axis of the plot has: numbers, or names [default: variants, or members]
    #[arg(long, value_name = "PATH", requires = "plot")]
    pub(super) against: Option<String>,
    #[command(flatten)]
    pub(super) place: StudyPlace,
    #[command(flatten)]
    pub(super) output: RowOutput,
}

/// The names of a row that are not the user's.
const FIXED: &[&str] = &["run", "path", "variant", "member", "node", "state"];

/// As many paths stand beside each other in a table; more are lines of it.
const WIDEST: usize = 10;

/// What is shown of runs that have no metrics.
const LOSSES: [&str; 2] = ["train/loss", "val/loss"];

/// A run, with what its last node has.
struct Compared {
    run: RecordedRun,
    fields: BTreeMap<String, Scalar>,
}

pub(crate) fn run(args: &CompareArgs, context: &Context) -> Result<(), CliError> {
    let root = args.place.root(context)?;
    let runs = RecordedRun::list(&root).map_err(failure::study)?;
    let mut known = Vec::new();
    for run in &runs {
        if let Some(what) = &run.unreadable_metrics {
            context.note(&format!(
                "{}: the metrics of `{}` are left out; `waycairn analyze` writes the file again",
                printable(what),
                printable(&run.run.name)
            ));
        }
        leaves("", &run.metrics, &mut known);
    }
    let fields = args.paths.iter().chain(&args.against).map(String::as_str);
    let fields =
        fields.chain(LOSSES.into_iter().filter(|_| known.is_empty())).filter(|path| path.contains('/'));
    let runs = compared(&root, runs, &fields.collect::<Vec<_>>())?;
    if known.is_empty() {
        let there = |key: &&&str| runs.iter().any(|run| run.fields.contains_key(**key));
        known.extend(LOSSES.iter().filter(there).map(ToString::to_string));
    }
    let paths = if args.paths.is_empty() { known.clone() } else { args.paths.clone() };
    for path in args.paths.iter().chain(&args.against) {
        if !runs.is_empty() && runs.iter().all(|run| run.find(path).is_none()) {
            let fields = runs.iter().flat_map(|run| run.fields.keys().map(String::as_str));
            let near = nearest(path, known.iter().map(String::as_str).chain(fields));
            let near = near.map_or_else(String::new, |near| format!("; the nearest is `{near}`"));
            context.note(&format!("no run has `{path}`{near}"));
        }
    }
    if args.plot {
        return plot(args, &runs, &paths);
    }
    let mut out = args.output.open(&context.terminal)?;
    let row = |compared: &Compared| -> Vec<Value> {
        let run = &compared.run;
        let state = run.status.as_ref().map(|status| match status.state {
            waycairn_study::RunState::Running if run.is_at_work(&root) => "running",
            waycairn_study::RunState::Running => "interrupted",
            waycairn_study::RunState::Trained => "trained",
            waycairn_study::RunState::Failed => "failed",
        });
        let fixed = [
            Value::Text(run.run.name.clone()),
            Value::Text(run.folder.display().to_string()),
            Value::Text(run.run.variant.clone()),
            Value::Text(run.run.member.clone()),
            Value::text(run.run.node.clone()),
            Value::text(state),
        ];
        let values = paths.iter().map(|path| compared.find(path).unwrap_or(Value::Null));
        fixed.into_iter().chain(values).collect()
    };
    match args.output.format() {
        Format::Table => {
            if paths.len() > WIDEST {
                // Turned: a line for each path, and a column for each run.
                let names = runs.iter().map(|compared| compared.run.run.name.as_str());
                let mut grid = Grid::new(["path"].into_iter().chain(names));
                for path in &paths {
                    let values = runs.iter().map(|run| run.find(path).unwrap_or(Value::Null));
                    grid.push([Value::Text(path.clone())].into_iter().chain(values));
                }
                context.table(&grid, "no runs of a study", &mut out)?;
                return out.finish();
            }
            let titles = ["run", "state"].into_iter().chain(paths.iter().map(String::as_str));
            let mut grid = Grid::new(titles);
            for run in &runs {
                let values = row(run);
                // The name has the variant and the member; the folder and the address are long, and `--format json` has them.
                let shown = [0, 5].into_iter().chain(FIXED.len()..values.len());
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

/// Runs with the fields of their last nodes, and the last values of `wanted` that these do not have.
fn compared(root: &Path, runs: Vec<RecordedRun>, wanted: &[&str]) -> Result<Vec<Compared>, CliError> {
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    let reader = ObjectReader::open_live(root).map_err(failure::query)?;
    let with = |run: RecordedRun| -> Result<Compared, CliError> {
        let Some(address) = run.run.node.as_deref().and_then(|node| node.parse::<Address>().ok()) else {
            return Ok(Compared { run, fields: BTreeMap::new() });
        };
        let node = address.decode();
        let view = reader.node(&node).map_err(failure::query)?;
        let mut fields = view.map(|view| view.fields).unwrap_or_default();
        for field in wanted {
            if fields.contains_key(*field) {
                continue;
            }
            let mut query = reader.query();
            query
                .name(node.name())
                .nonce(node.nonce())
                .has(field)
                .sort(SortKey::Seq, Order::Descending)
                .limit(1);
            let rows = query.select(&[field]).map_err(failure::query)?.value;
            let value = rows.into_iter().next().and_then(|mut row| row.fields.remove(*field));
            fields.extend(value.map(|value| ((*field).to_owned(), value)));
        }
        Ok(Compared { run, fields })
    };
    runs.into_iter().map(with).collect()
}

/// Draws the runs.
fn plot(args: &CompareArgs, runs: &[Compared], paths: &[String]) -> Result<(), CliError> {
    args.output.place.ending_of_one("svg")?;
    // What differs in another setting would pass for what this one does.
    let own = |compared: &&Compared| match (&compared.run.run.change, &args.against) {
        (Some(change), Some(path)) => path.strip_prefix("settings.").is_none_or(|path| path == change.path),
        _ => true,
    };
    let runs: Vec<&Compared> = runs.iter().filter(own).collect();
    let variants = names(&runs, "variant");
    let against = match &args.against {
        Some(path) => path.as_str(),
        None if variants.len() == 1 => "member",
        None => "variant",
    };
    // Numbers where all are, else names.
    let numbers =
        runs.iter().all(|compared| compared.find(against).as_ref().is_none_or(|at| number(at).is_some()));
    let of_names = names(&runs, against);
    let place = |compared: &Compared| -> Option<f64> {
        let at = compared.find(against)?;
        if numbers {
            return number(&at);
        }
        let name = name_of(&at);
        of_names.iter().position(|known| *known == name).map(|at| at as f64)
    };
    let series = |path: &String| {
        let (mut points, mut errors) = (Vec::new(), Vec::new());
        for compared in &runs {
            let value = compared.find(path).as_ref().and_then(number);
            if let (Some(place), Some(value)) = (place(compared), value) {
                points.push((place, value));
                errors.push(compared.standard_error(path));
            }
        }
        Series { name: path.clone(), points, errors }
    };
    let names: Vec<&str> = of_names.iter().map(String::as_str).collect();
    let chart = Chart {
        axis: if numbers { Axis::Numbers(against) } else { Axis::Names(&names) },
        series: paths.iter().map(series).filter(|series| !series.points.is_empty()).collect(),
    };
    let svg = chart.draw().ok_or_else(|| {
        CliError::new("not_found", "there is nothing to draw")
            .why("no run has a finite number at these paths")
            .next("`waycairn compare` lists what there is")
    })?;
    let mut out = args.output.place.open()?;
    out.bytes(svg.as_bytes())?;
    out.finish()
}

/// What stands at a path, each once, in the order of the runs.
fn names(runs: &[&Compared], path: &str) -> Vec<String> {
    let mut names = Vec::new();
    for value in runs.iter().filter_map(|compared| compared.find(path)) {
        let name = name_of(&value);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// A value as it stands below an axis.
fn name_of(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        other => serde_json::to_string(other).unwrap_or_default(),
    }
}

/// A finite number.
fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Int(value) => *value as f64,
        Value::Count(value) => *value as f64,
        Value::Float(value) => *value,
        _ => return None,
    };
    number.is_finite().then_some(number)
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

impl Compared {
    /// The standard error of what stands at a path of a metric: `coverage.joint_density.0` has that at
    /// `coverage.joint_density_standard_error.0`.
    fn standard_error(&self, path: &str) -> Option<f64> {
        let steps: Vec<&str> = path.split('.').collect();
        let last = steps.iter().rposition(|step| step.parse::<usize>().is_err())?;
        let with = |(at, step): (usize, &&str)| {
            if at == last { format!("{step}_standard_error") } else { (*step).to_owned() }
        };
        let path: Vec<String> = steps.iter().enumerate().map(with).collect();
        self.find(&path.join(".")).as_ref().and_then(number)
    }

    /// What stands at a path: of the settings, of the training, of the last node, or of the metrics.
    fn find(&self, path: &str) -> Option<Value> {
        if path == "seconds" {
            return self.run.status.as_ref()?.seconds.map(Value::Float);
        }
        match path {
            "variant" => return Some(Value::Text(self.run.run.variant.clone())),
            "member" => return Some(Value::Text(self.run.run.member.clone())),
            _ => {}
        }
        if let Some(field) = self.fields.get(path) {
            return Some(Value::from(field));
        }
        let (from, path) = match path.split_once('.') {
            Some(("settings", rest)) => (&self.run.run.settings, rest),
            _ => (&self.run.metrics, path),
        };
        let found = path.split('.').try_fold(from, |at, step| match at {
            Json::Array(items) => items.get(step.parse::<usize>().ok()?),
            at => at.get(step),
        });
        found.filter(|found| !found.is_null()).cloned().map(Value::from)
    }
}
