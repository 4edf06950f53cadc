//! `waycairn tail`: what a run records, as it comes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use waycairn_dag::Node;
use waycairn_store::{Expr, NodeRow, ObjectReader, Order, RunSummary, Scalar, SortKey};

use crate::context::Context;
use crate::error::CliError;
use crate::output::{Destination, Shape, ShapeFormat};
use crate::rows::meant_key;
use crate::table::printable;
use crate::value::Value;
use crate::wait::nobody_reads_within;
use crate::{failure, keys, number};

/// How often it looks.
const PAUSE: Duration = Duration::from_millis(500);

/// How much older than the newest record one may be that is still to come: other machines have other clocks, and other
/// writers other intervals.
const LATE: i64 = 60_000_000_000;

/// Follow a run: show its last nodes, then what is recorded of it, until it is finished
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn tail shakespeare
  waycairn tail shakespeare --keys train/loss,val/loss --nodes 3
  waycairn tail shakespeare --once --format jsonl

A line is a node with what was recorded of it just now; a node that something is recorded of later comes again, with that. It
reads the journals of running writers, so a value is here within a second of being recorded, and disturbs nobody. It ends
when the run is finished, with Ctrl-C, when nobody reads it any more, or, with --once, at once: a run that nothing marks as finished, as one of `waycairn record`,
is followed until then. A run is named as a node is: the node's run is followed.

With --format jsonl: {node, name, nonce, seq, <key>: value, ..}, as `waycairn query` gives it.")]
pub(crate) struct TailArgs {
    /// The run: its name, name@nonce, latest, or any node of it
    #[arg(value_name = "RUN")]
    pub(super) run: String,
    /// Show these keys alone
    #[arg(long, value_name = "KEY,..")]
    pub(super) keys: Vec<String>,
    /// Begin with that many of its last nodes
    #[arg(short, long, value_name = "N", default_value_t = 10)]
    pub(super) nodes: usize,
    /// Show what there is, and do not wait for more
    #[arg(long)]
    pub(super) once: bool,
    /// table (text for people), or jsonl [default: table]
    #[arg(
        long,
        value_name = "FORMAT",
        hide_possible_values = true,
        default_value = "table",
        hide_default_value = true
    )]
    pub(super) format: ShapeFormat,
}

pub(crate) fn run(args: &TailArgs, context: &Context) -> Result<(), CliError> {
    let reader = context.reader()?;
    let run = context.resolve(&reader, &args.run)?;
    let keys: Vec<String> = keys::split(&args.keys)?.iter().map(|key| meant_key(key).to_owned()).collect();
    let mut tail = Tail { reader, run, keys, seen: BTreeMap::new() };
    let mut out = Destination::standard_output();
    let show = |row: &NodeRow, out: &mut Destination| line(row, args.format.shape(), out);
    // Before the nodes are shown: what is recorded between the two comes as news.
    let mut summary = tail.summary()?;
    tail.news(summary.as_ref())?;
    for row in tail.last(args.nodes)? {
        show(&row, &mut out)?;
    }
    out.settle()?;
    if args.once {
        return out.finish();
    }
    let mut looked_at = None;
    loop {
        // A run is finished when its marker was there before its last records were looked for.
        if looked_at != summary {
            for row in tail.news(summary.as_ref())? {
                show(&row, &mut out)?;
            }
            out.settle()?;
            looked_at.clone_from(&summary);
        }
        if summary.as_ref().is_some_and(|summary| summary.finished) {
            break;
        }
        if nobody_reads_within(PAUSE) {
            break;
        }
        summary = tail.summary()?;
    }
    out.finish()
}

/// What a run has shown so far.
struct Tail {
    reader: ObjectReader,
    /// A node of it.
    run: Node,
    /// Those that are shown; all when there are none.
    keys: Vec<String>,
    /// What was recorded lately, by position.
    seen: BTreeMap<u64, BTreeMap<String, Scalar>>,
}

impl Tail {
    fn summary(&self) -> Result<Option<RunSummary>, CliError> {
        let runs = self.reader.runs_of(self.run.name()).map_err(failure::query)?;
        Ok(runs.into_iter().find(|run| run.nonce == self.run.nonce()))
    }

    /// The last nodes with all that is known of them, by position.
    fn last(&self, nodes: usize) -> Result<Vec<NodeRow>, CliError> {
        let mut query = self.reader.query();
        query.name(self.run.name()).nonce(self.run.nonce()).sort(SortKey::Seq, Order::Descending);
        if let Some(any) = self.keys.iter().map(|key| Expr::has(key)).reduce(Expr::or) {
            query.expression(any);
        }
        let mut rows = query.limit(nodes).select_all().map_err(failure::query)?.value;
        rows.reverse();
        Ok(rows.into_iter().filter_map(|row| self.shown(row)).collect())
    }

    /// What was recorded lately and was not seen before: nodes with the fields that are new.
    fn news(&mut self, summary: Option<&RunSummary>) -> Result<Vec<NodeRow>, CliError> {
        let Some(written) = summary.and_then(|summary| summary.written) else { return Ok(Vec::new()) };
        let mut query = self.reader.query();
        query.name(self.run.name()).nonce(self.run.nonce());
        let recent = query.written_between(written.saturating_sub(LATE), i64::MAX).select_all();
        let mut seen = BTreeMap::new();
        let mut news = Vec::new();
        for row in recent.map_err(failure::query)?.value {
            let before = self.seen.get(&row.node.seq());
            let mut new = row.clone();
            new.fields.retain(|key, value| {
                !before.and_then(|before| before.get(key)).is_some_and(|before| before.same(value))
            });
            seen.insert(row.node.seq(), row.fields);
            if before.is_none() || !new.fields.is_empty() {
                news.extend(self.shown(new));
            }
        }
        self.seen = seen;
        Ok(news)
    }

    /// The row with the keys that are shown; `None` when it has none of those that were asked for.
    fn shown(&self, mut row: NodeRow) -> Option<NodeRow> {
        if self.keys.is_empty() {
            return Some(row);
        }
        row.fields.retain(|key, _| self.keys.contains(key));
        (!row.fields.is_empty()).then_some(row)
    }
}

fn line(row: &NodeRow, format: Shape, out: &mut Destination) -> Result<(), CliError> {
    match format {
        Shape::Json => out.json_line(&Value::Object(object(row))),
        Shape::Table => out.text(&text(row)),
    }
}

fn object(row: &NodeRow) -> Vec<(Cow<'static, str>, Value)> {
    const FIXED: [&str; 4] = ["node", "name", "nonce", "seq"];
    let node = &row.node;
    let address = Value::Text(node.address().to_string());
    let values = [address, node.name().into(), node.nonce().into(), Value::Count(node.seq())];
    let mut fields: Vec<(Cow<'static, str>, Value)> = FIXED.into_iter().map(Cow::from).zip(values).collect();
    for (key, value) in &row.fields {
        let key = if FIXED.contains(&key.as_str()) { format!("field:{key}") } else { key.clone() };
        fields.push((key.into(), value.into()));
    }
    fields
}

/// A line for people: the position, then each key with its value.
fn text(row: &NodeRow) -> String {
    let mut line = format!("{:>6}", row.node.seq());
    for (key, value) in &row.fields {
        let value = match value {
            Scalar::Float(value) => number::float(*value),
            other => printable(&other.to_string()),
        };
        line.push_str(&format!("  {} {value}", printable(key)));
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use waycairn_store::{Freshness, ObjectStore, StoreOptions};

    use super::*;

    fn node(seq: u64) -> Node {
        Node::new("run", "0123456789abcdef", seq).unwrap()
    }

    #[test]
    fn cli_1_a_line_of_a_tail() {
        let fields = [("loss", Scalar::Float(2.5)), ("seq", Scalar::Int(3)), ("a\n", "b".into())];
        let fields = fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let row = NodeRow { node: node(7), written: None, fields };
        assert_eq!(text(&row).trim_start(), "7  a\\n b  loss 2.5  seq 3\n");
        let json = serde_json::to_string(&Value::Object(object(&row))).unwrap();
        assert!(json.ends_with(r#""seq":7,"a\n":"b","loss":2.5,"field:seq":3}"#), "{json}");
    }

    /// A poll shows what came since the last one and nothing twice, also what is recorded of an old node.
    #[test]
    fn cli_2_a_tail_shows_each_value_once() {
        let root = tempfile::tempdir().unwrap();
        let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
        let reader = store.reader().with_freshness(Freshness::Live);
        let mut tail = Tail { reader, run: node(0), keys: Vec::new(), seen: BTreeMap::new() };
        let mut news = |store: &ObjectStore| {
            store.flush().unwrap();
            let summary = tail.summary().unwrap();
            let rows = tail.news(summary.as_ref()).unwrap();
            rows.iter().map(|row| text(row).trim().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(news(&store), [""; 0]);
        store.value(&node(0), &[("a", 1.into())]).unwrap();
        store.value(&node(1), &[("a", 2.into())]).unwrap();
        assert_eq!(news(&store), ["0  a 1", "1  a 2"]);
        assert_eq!(news(&store), [""; 0]);
        store.value(&node(0), &[("b", "late".into())]).unwrap();
        store.value(&node(1), &[("a", 3.into())]).unwrap();
        assert_eq!(news(&store), ["0  b late", "1  a 3"]);
        store.value(&node(2), &[]).unwrap();
        assert_eq!(news(&store), ["2"]);
        store.close().unwrap();
    }
}
