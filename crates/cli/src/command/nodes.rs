//! `waycairn nodes`: the runs of a root.

use clap::Args;
use waycairn_store::{Diagnostic, Expr, ObjectReader, Order, RunSummary, SortKey};

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

/// From so many files of records on it pays to compact them.
const MANY_PARTS: u64 = 1_000;

/// The names of a row that are not the user's.
const FIXED: &[&str] =
    &["name", "nonce", "node", "seq", "nodes", "checkpoints", "started", "written", "finished"];

pub(crate) fn run(args: &NodesArgs, context: &Context) -> Result<(), CliError> {
    let reader = context.reader()?;
    let keys = keys::split(&args.keys)?;
    let mut keys: Vec<&str> = keys.iter().map(|key| meant_key(key)).collect();
    leave_out_fixed(&reader, &mut keys, context)?;
    let runs = reader.runs().map_err(failure::query)?;
    let mut rows = Vec::with_capacity(runs.len());
    let mut diagnostics = Vec::new();
    let known = known(&reader, &keys, &mut diagnostics)?;
    for run in runs {
        let values = last_values(&reader, &run, &keys, &known, &mut diagnostics)?;
        rows.push((run, values));
    }
    context.diagnostics(&diagnostics);
    let parts = reader.part_count().map_err(failure::query)?;
    if parts >= MANY_PARTS {
        context.note(&format!(
            "the records are in {parts} files: `waycairn compact` makes them few, and questions faster"
        ));
    }
    let mut out = args.output.open(&context.terminal)?;
    match args.output.format() {
        Format::Table => {
            let mut grid = grid(&keys);
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

/// A grid for runs. Where it is too wide, the keys stay that were asked for.
fn grid(keys: &[&str]) -> Grid {
    let titles =
        ["run", "nodes", "last seq", "finished", "checkpoints"].into_iter().chain(keys.iter().copied());
    let ranks = [0, 2, 2, 2, 5].into_iter().chain(keys.iter().map(|_| 1));
    Grid::new(titles.chain(["started (UTC)", "written (UTC)"])).ranked(ranks.chain([4, 3]))
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

/// Leaves out keys that name what every row has anyway, where they are no fields as well.
fn leave_out_fixed(reader: &ObjectReader, keys: &mut Vec<&str>, context: &Context) -> Result<(), CliError> {
    if !keys.iter().any(|key| FIXED.contains(key)) {
        return Ok(());
    }
    let schema = reader.schema().map_err(failure::query)?;
    keys.retain(|key| {
        let fixed = FIXED.contains(key) && !schema.iter().any(|info| info.key == *key);
        if fixed {
            context.note(&format!("`{key}` is in every row already; `--keys` adds fields"));
        }
        !fixed
    });
    Ok(())
}

/// Those of the keys that anything was recorded under. The others are asked for once, so that what is wrong with them
/// is told; among the keys of a question they would leave nothing of its answer.
fn known<'k>(
    reader: &ObjectReader,
    keys: &[&'k str],
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Vec<&'k str>, CliError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let schema = reader.schema().map_err(failure::query)?;
    let mut known = Vec::with_capacity(keys.len());
    for key in keys {
        let field = key.strip_suffix("::text").unwrap_or(key);
        if schema.iter().any(|info| info.key == field) {
            known.push(*key);
        } else {
            let answer = reader.query().has(key).limit(1).select(&[&format!("{FIELD}{key}")]);
            diagnostics.extend(answer.map_err(failure::query)?.diagnostics);
        }
    }
    Ok(known)
}

/// The value of each key at the last node of the run that has it: one question a run, however many keys there are.
/// Not one for all runs, so that no more than the nodes of one run are held at a time.
fn last_values(
    reader: &ObjectReader,
    run: &RunSummary,
    keys: &[&str],
    known: &[&str],
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Vec<Value>, CliError> {
    let Some(any) = known.iter().map(|key| Expr::has(key)).reduce(Expr::or) else {
        return Ok(vec![Value::Null; keys.len()]);
    };
    let fields: Vec<String> = known.iter().map(|key| format!("{FIELD}{key}")).collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let mut query = reader.query();
    query.name(&run.name).nonce(&run.nonce).expression(any).sort(SortKey::Seq, Order::Descending);
    let answer = query.select(&fields).map_err(failure::query)?;
    diagnostics.extend(answer.diagnostics);
    let last = |key: &&str| answer.value.iter().find_map(|row| row.fields.get(*key));
    Ok(keys.iter().map(|key| last(key).map_or(Value::Null, Value::from)).collect())
}

#[cfg(test)]
mod tests {
    use waycairn_dag::Node;
    use waycairn_store::{ObjectStore, StoreOptions};

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

    #[test]
    fn a_narrow_terminal_shows_the_keys_that_were_asked_for() {
        let keys = ["train/loss", "val/loss"];
        let left_out = |keys: &[&str], width| {
            let mut grid = grid(keys);
            let fixed = ["shakespeare@0123456789abcdef", "2000", "1999", "yes", "19, 39, 59 .. 1999 (100)"];
            let values = keys.iter().map(|_| Value::Float(2.413_739));
            let times = ["2026-11-30 12:00:00"; 2].map(Value::from);
            grid.push(fixed.map(Value::from).into_iter().chain(values).chain(times));
            grid.draw(&crate::terminal::Terminal::plain().of_width(width)).left_out
        };
        assert_eq!(left_out(&keys, 80), ["checkpoints", "started (UTC)", "written (UTC)"]);
        assert_eq!(left_out(&[], 80), ["checkpoints", "started (UTC)"]);
        assert!(left_out(&[], 130).is_empty());
    }

    #[test]
    fn the_last_value_of_each_key_stands_at_whichever_node_has_it() {
        let root = tempfile::tempdir().unwrap();
        let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
        for run in 0..100 {
            for seq in 0..10 {
                let node = Node::new(&format!("r{run}"), "0123456789abcdef", seq).unwrap();
                let loss = f64::from(run) + seq as f64 / 10.0;
                store.value(&node, &[("train/loss", loss.into())]).unwrap();
                if seq == 4 {
                    store.value(&node, &[("val/loss", 7.into()), ("seq", "mine".into())]).unwrap();
                }
            }
        }
        store.close().unwrap();
        let reader = store.reader();
        let runs = reader.runs().unwrap();
        assert_eq!(runs.len(), 100);
        let keys = ["val/loss", "train/loss", "seq", "val/los"];
        let mut told = Vec::new();
        let known = known(&reader, &keys, &mut told).unwrap();
        assert_eq!((known.as_slice(), told.len()), (&keys[..3], 1), "an unknown key is told, once");
        for run in &runs {
            let number: f64 = run.name[1..].parse().unwrap();
            let values = last_values(&reader, run, &keys, &known, &mut told).unwrap();
            let loss = Value::Float(number + 0.9);
            assert_eq!(values, [Value::Int(7), loss, Value::Text("mine".to_owned()), Value::Null]);
            assert!(last_values(&reader, run, &[], &[], &mut told).unwrap().is_empty());
        }
        assert_eq!(told.len(), 1);
    }
}
