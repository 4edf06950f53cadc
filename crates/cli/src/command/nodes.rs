//! `waycairn nodes`: the runs of a root.

use clap::Args;
use waycairn_store::{Diagnostic, ObjectReader, Order, RunSummary, SortKey};

use crate::context::Context;
use crate::error::CliError;
use crate::output::{Format, RowOutput};
use crate::rows::{self, Columns, FIELD, meant_key};
use crate::table::Grid;
use crate::value::Value;
use crate::{failure, keys, number};

/// List the runs, newest first, with their checkpoints
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn nodes
  waycairn nodes --keys train/loss,val/loss
  waycairn nodes --format json")]
pub(crate) struct NodesArgs {
    /// Also show the last value of these keys in each run; a plain listing reads no metric
    #[arg(long, value_name = "KEY,..")]
    pub(super) keys: Vec<String>,
    #[command(flatten)]
    pub(super) output: RowOutput,
}

/// The names of a row that are not the user's.
const FIXED: &[&str] =
    &["name", "nonce", "node", "seq", "nodes", "checkpoints", "started", "written", "finished"];

pub(crate) fn run(args: &NodesArgs, context: &Context) -> Result<(), CliError> {
    let reader = context.reader()?;
    let keys = keys::split(&args.keys)?;
    let keys: Vec<&str> = keys.iter().map(|key| meant_key(key)).collect();
    let runs = reader.runs().map_err(failure::query)?;
    let mut rows = Vec::with_capacity(runs.len());
    let mut diagnostics = Vec::new();
    for run in runs {
        let values = last_values(&reader, &run, &keys, &mut diagnostics)?;
        rows.push((run, values));
    }
    context.diagnostics(&diagnostics);
    let mut out = args.output.open(&context.terminal)?;
    match args.output.format() {
        Format::Table => {
            let keys = keys.iter().copied();
            let titles = ["run", "nodes", "last seq", "finished", "checkpoints"].into_iter().chain(keys);
            let mut grid = Grid::new(titles.chain(["started (UTC)", "written (UTC)"])).keep(5);
            for (run, values) in &rows {
                let fixed = [
                    Value::Text(format!("{}@{}", run.name, run.nonce)),
                    Value::Count(run.nodes),
                    Value::Count(run.last.seq()),
                    Value::from(if run.finished { "yes" } else { "no" }),
                    checkpoints(&run.checkpoints),
                ];
                let times = [run.started, run.written].map(|nanos| Value::text(nanos.map(number::moment)));
                grid.push(fixed.into_iter().chain(values.iter().cloned()).chain(times));
            }
            context.table(&grid, "no runs", &mut out)?;
        }
        format => {
            let columns = Columns::fixed(FIXED).keys(keys.iter().copied(), FIXED);
            rows::write(&mut out, format, &columns, rows.into_iter().map(|(run, values)| row(run, values)))?;
        }
    }
    out.finish()
}

/// Checkpoints as people read them.
fn checkpoints(seqs: &[u64]) -> Value {
    match seqs {
        [] => Value::Null,
        [one] => Value::list([*one]),
        several => Value::Text(number::ascending(several)),
    }
}

/// The stable shape of a run, and what was asked for besides.
fn row(run: RunSummary, values: Vec<Value>) -> Vec<Value> {
    let fixed = [
        Value::Text(run.name),
        Value::Text(run.nonce),
        Value::Text(run.last.address().to_string()),
        Value::Count(run.last.seq()),
        Value::Count(run.nodes),
        Value::list(run.checkpoints),
        Value::time(run.started),
        Value::time(run.written),
        Value::Bool(run.finished),
    ];
    fixed.into_iter().chain(values).collect()
}

/// The value of each key at the last node of the run that has it.
fn last_values(
    reader: &ObjectReader,
    run: &RunSummary,
    keys: &[&str],
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Vec<Value>, CliError> {
    let mut values = Vec::with_capacity(keys.len());
    for key in keys {
        let mut query = reader.query();
        query.name(&run.name).nonce(&run.nonce).has(key).sort(SortKey::Seq, Order::Descending).limit(1);
        let answer = query.select(&[&format!("{FIELD}{key}")]).map_err(failure::query)?;
        diagnostics.extend(answer.diagnostics);
        let value = answer.value.first().and_then(|row| row.fields.get(*key));
        values.push(value.map_or(Value::Null, Value::from));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use waycairn_dag::Node;

    use super::*;
    use crate::rows::tests::written;

    #[test]
    fn cli_1_a_row_of_nodes() {
        let run = RunSummary {
            name: "tiny".to_owned(),
            nonce: "0123456789abcdef".to_owned(),
            last: Node::new("tiny", "0123456789abcdef", 39).unwrap(),
            nodes: 40,
            checkpoints: vec![19, 39],
            started: Some(1_000),
            written: None,
            finished: true,
            job: None,
            tag: None,
        };
        let columns = Columns::fixed(FIXED).keys(["val/loss", "seq"], FIXED);
        let text = written(&columns, vec![row(run, vec![Value::Float(2.5), Value::Int(7)])], rows::json);
        assert_eq!(
            text,
            "[\n{\"name\":\"tiny\",\"nonce\":\"0123456789abcdef\",\"node\":\"dGlueTowMTIzNDU2Nzg5YWJjZGVmOjM5\",\
             \"seq\":39,\"nodes\":40,\"checkpoints\":[19,39],\"started\":\"1970-01-01T00:00:00.000001Z\",\
             \"written\":null,\"finished\":true,\"val/loss\":2.5,\"field:seq\":7}\n]\n"
        );
    }
}
