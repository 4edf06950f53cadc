//! `waycairn query`: the nodes whose folded fields match an expression.

use std::collections::BTreeSet;

use clap::Args;
use serde_json::json;
use waycairn_store::{Diagnostic, Explanation, Expr, NodeRow, ObjectReader, Order, Query, Scalar, SortKey};

use crate::context::Context;
use crate::error::CliError;
use crate::number::plural;
use crate::output::{Format, RowOutput};
use crate::rows::{self, Columns, FIELD, meant_key};
use crate::table::{Grid, printable};
use crate::value::Value;
use crate::{count, failure, keys};

/// Find nodes by their fields
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn query 'val/loss < 2.8' --keys train/loss,val/loss --format csv
  waycairn query \"name = 'shakespeare' and checkpoint\" --sort val/loss --limit 1
  waycairn query --keys val/loss --sort name,written:desc --limit 10
  waycairn query 'val/loss < 2.8' --keys val/loss --explain --format json

An EXPR compares keys with values: val/loss < 2.8, name in ('x', 'y'), seq >= 100, \"a key with spaces\" != 3.
Operators are =, !=, <, <=, >, >= and in. Terms are joined with and, or, not and parentheses. `has KEY` and `missing KEY` ask whether a node has the
key at all; a comparison with a missing key is false. `checkpoint`, `artifact`, `artifact = 'summary'` and
`finished` ask for what is attached to the node and whether its run ended. `name = 'x'`, `nonce = 'x'`, `seq >= 3` and
`node = 'ADDRESS'` or `node = 'name@nonce:seq'` say which nodes; here a nonce is written whole, unlike in a NODE of
other commands. `project = 'project.*.run'` compares names of three parts between dots, and `job = 'gpt@1'` asks for the
experiment and its version. `tag = 'x'`, `execution = 'x'` (one launch), `process = 0` and `written >= '2026-11-30T12:00:00Z'` choose which records are folded, those that are marked so,
of that launch or process, or as new: a field that only other records of the node have counts as missing. The `written` of --keys and --sort is another
thing, the time of the node's last record.
A key that is called like a word of the language or a column of the answer is written field:KEY.

--explain gives {parts, journals, parts_read, parts_pruned, row_groups, row_groups_read, row_groups_pruned, rows_read, columns,
ranges, threads}: parts are files of records, and those that are pruned are known by their footers to hold nothing that is
asked for.")]
pub(crate) struct QueryArgs {
    /// What the nodes must satisfy [default: every node]
    #[arg(value_name = "EXPR")]
    pub(super) expression: Option<String>,
    /// Show these keys, in this order [default: all]; `written` is the last record's time
    #[arg(long, value_name = "KEY,..")]
    pub(super) keys: Vec<String>,
    /// Sort by keys, or by name, nonce, seq or written, the first one first; nodes without one come last
    #[arg(long, value_name = "KEY[:desc],..")]
    pub(super) sort: Vec<String>,
    /// Fail when a key is named that no node has
    #[arg(long)]
    pub(super) strict: bool,
    /// Say what would be read, and read it not
    #[arg(long)]
    pub(super) explain: bool,
    /// Show at most this many nodes
    #[arg(long, value_name = "N", value_parser = count::any::<usize>, allow_negative_numbers = true)]
    pub(super) limit: Option<usize>,
    /// Leave out this many nodes first
    #[arg(long, value_name = "N", value_parser = count::any::<usize>, allow_negative_numbers = true)]
    pub(super) offset: Option<usize>,
    #[command(flatten)]
    pub(super) output: RowOutput,
}

/// The names of a row that are not the user's.
const FIXED: &[&str] = &["node", "name", "nonce", "seq"];
/// The same with the one that only `--keys` brings.
const RESERVED: &[&str] = &["node", "name", "nonce", "seq", "written"];

pub(crate) fn run(args: &QueryArgs, context: &Context) -> Result<(), CliError> {
    let reader = context.reader()?;
    let asked = Asked::parse(&keys::split(&args.keys)?);
    let mut query = build(args, &reader)?;
    let named = named(args)?;
    if args.explain {
        return explain(&mut query, &asked, args, context);
    }
    let mut out = args.output.open(&context.terminal)?;
    match args.output.format() {
        Format::Parquet | Format::Arrow if args.keys.is_empty() || asked.is_of_fields() => {
            let table = query.batches(&asked.selection()).map_err(failure::query)?;
            context.diagnostics(&table.diagnostics);
            if table.rows().next().is_none() {
                emptied(&table.diagnostics, &asked, args, &reader)?
                    .iter()
                    .for_each(|note| context.note(note));
            }
            failure::write_table(&table, args.output.format(), &mut out)?;
        }
        format => {
            let answer =
                if args.keys.is_empty() { query.select_all() } else { query.select(&asked.selection()) };
            let answer = answer.map_err(failure::query)?;
            context.diagnostics(&answer.diagnostics);
            let mut empty = None;
            if answer.value.is_empty() {
                empty = emptied(&answer.diagnostics, &asked, args, &reader)?;
                if let Some(note) = empty.as_deref().filter(|_| format != Format::Table) {
                    context.note(note);
                }
            }
            let empty = empty.as_deref().unwrap_or("no node matches");
            let asked = match (args.keys.is_empty(), format) {
                (true, Format::Table) => Asked::for_people(&answer.value, &named),
                (true, _) => Asked::all(&answer.value),
                (false, _) => asked,
            };
            match format {
                Format::Table => {
                    let grid = asked.grid(&answer.value, &named);
                    context.table(&grid, empty, &mut out)?;
                }
                format => {
                    let columns = asked.columns(FIXED);
                    rows::write(&mut out, format, &columns, answer.value.iter().map(|row| asked.row(row)))?;
                }
            }
        }
    }
    out.finish()
}

/// What the answer would read.
fn explain(query: &mut Query, asked: &Asked, args: &QueryArgs, context: &Context) -> Result<(), CliError> {
    let answer = query.explain(&asked.selection()).map_err(failure::query)?;
    context.diagnostics(&answer.diagnostics);
    let mut out = args.output.open(&context.terminal)?;
    let explanation = answer.value;
    match args.output.format() {
        Format::Json => out.json(&Value::from(json!(explanation)))?,
        Format::Jsonl => out.json_line(&Value::from(json!(explanation)))?,
        Format::Table => out.text(&explained(&explanation))?,
        Format::Csv | Format::Parquet | Format::Arrow => {
            return Err(CliError::usage("an explanation is no table")
                .why("it is one object")
                .next("take `--format json`, or none"));
        }
    }
    out.finish()
}

fn explained(explanation: &Explanation) -> String {
    let Explanation { parts, journals, parts_read, row_groups, row_groups_read, rows_read, columns, .. } =
        explanation;
    let columns = if columns.is_empty() { "none".to_owned() } else { columns.join(", ") };
    let ranges = plural(explanation.ranges, "range");
    let threads = plural(explanation.threads, "thread");
    format!(
        "parts       {parts_read} of {parts} ({journals} of journals)\n\
         row groups  {row_groups_read} of {row_groups}, with {rows_read} rows\n\
         columns     {}\n\
         folded in   {ranges} on {threads}\n",
        printable(&columns)
    )
}

/// What to say of an answer that is empty because of its keys: one that no node has leaves no rows, whatever matches.
fn emptied(
    diagnostics: &[Diagnostic],
    asked: &Asked,
    args: &QueryArgs,
    reader: &ObjectReader,
) -> Result<Option<String>, CliError> {
    let is_unknown = |key: &&str| {
        let field = key.strip_suffix("::text").unwrap_or(key);
        diagnostics.iter().any(|diagnostic| match diagnostic {
            Diagnostic::UnknownField { key, .. } | Diagnostic::UnreadableField { key, .. } => key == field,
            _ => false,
        })
    };
    let selection = asked.selection();
    let keys = selection.iter().map(|key| key.strip_prefix(FIELD).unwrap_or(key));
    let unknown: Vec<&str> = keys.filter(is_unknown).collect();
    if unknown.is_empty() {
        return Ok(None);
    }
    let mut query = reader.query();
    if let Some(text) = &args.expression {
        query.expression(Expr::parse(text).map_err(failure::parse)?);
    }
    let matching = query.count().map_err(failure::query)?.value;
    let verb = if matching == 1 { "matches" } else { "match" };
    Ok((matching > 0).then(|| {
        let keys = unknown.join("`, `");
        format!("nothing is shown because of `--keys {keys}`; {} {verb} without it", plural(matching, "node"))
    }))
}

/// Builds the query that the arguments describe.
fn build(args: &QueryArgs, reader: &ObjectReader) -> Result<Query, CliError> {
    let mut query = reader.query();
    if let Some(text) = &args.expression {
        query.expression(Expr::parse(text).map_err(failure::parse)?);
    }
    for (key, descending) in keys::sorts(&args.sort)? {
        query
            .sort(SortKey::from(key.as_str()), if descending { Order::Descending } else { Order::Ascending });
    }
    if args.strict {
        query.strict();
    }
    if let Some(limit) = args.limit {
        query.limit(limit);
    }
    if let Some(offset) = args.offset {
        query.offset(offset);
    }
    Ok(query)
}

/// The keys that the question is about: those to sort by, then those of the expression.
fn named(args: &QueryArgs) -> Result<Vec<String>, CliError> {
    let sorts = keys::sorts(&args.sort)?;
    let mut named: Vec<String> = sorts.iter().map(|(key, _)| meant_key(key).to_owned()).collect();
    if let Some(text) = &args.expression {
        let expression = Expr::parse(text).map_err(failure::parse)?;
        named.extend(expression.keys().into_iter().map(str::to_owned));
    }
    Ok(named)
}

/// The keys of the answer.
struct Asked {
    shown: Vec<Key>,
}

enum Key {
    Written,
    Field {
        key: String,
        /// The key behind `field:`.
        asked: String,
    },
}

impl Key {
    fn field(key: &str) -> Self {
        Self::Field { key: key.to_owned(), asked: format!("{FIELD}{key}") }
    }
}

impl Asked {
    /// The keys as the user wrote them; what every row has anyway is not repeated.
    fn parse(keys: &[String]) -> Self {
        let shown = keys.iter().filter(|key| !FIXED.contains(&key.as_str())).map(|key| match key.as_str() {
            "written" => Key::Written,
            shown => Key::field(meant_key(shown)),
        });
        Self { shown: shown.collect() }
    }

    /// Every key that occurs in the rows, in order.
    fn all(rows: &[NodeRow]) -> Self {
        let keys: BTreeSet<&String> = rows.iter().flat_map(|row| row.fields.keys()).collect();
        Self { shown: keys.into_iter().map(|key| Key::field(key)).collect() }
    }

    /// The same in the order in which people look for them: what the question names, then metrics, then what the
    /// machine did, and the keys of long texts, such as digests, last. A terminal shows what fits.
    fn for_people(rows: &[NodeRow], named: &[String]) -> Self {
        const LONG: usize = 24;
        let is_long = |key: &str| {
            rows.iter()
                .any(|row| matches!(row.fields.get(key), Some(Scalar::Text(text)) if text.len() > LONG))
        };
        let place = |key: &Key| match key {
            Key::Written => (0, 0),
            Key::Field { key, .. } => match named.iter().position(|named| named == key) {
                Some(place) => (0, place),
                None if is_long(key) => (3, 0),
                None if key.starts_with("memory/") || key.starts_with("time/") => (2, 0),
                None => (1, 0),
            },
        };
        let Self { mut shown } = Self::all(rows);
        shown.sort_by_cached_key(place);
        Self { shown }
    }

    /// The rows as a table. Where it is too wide, the first of the keys that the question names stays.
    fn grid(&self, rows: &[NodeRow], named: &[String]) -> Grid {
        let is_named = |key: &Key| match key {
            Key::Written => named.iter().any(|named| named == "written"),
            Key::Field { key, .. } => named.contains(key),
        };
        let mut ranks: Vec<u8> = self.shown.iter().map(|key| if is_named(key) { 1 } else { 2 }).collect();
        let kept = ranks.iter().position(|rank| *rank == 1).unwrap_or(0);
        if let Some(rank) = ranks.get_mut(kept) {
            *rank = 0;
        }
        let columns = self.columns(&["node"]);
        let titles = columns.names().iter().map(|name| name.to_string());
        let mut grid =
            Grid::new(titles).ranked([0].into_iter().chain(ranks)).chosen_by("choose with `--keys`");
        for row in rows {
            let node = [Value::Text(row.node.to_string())];
            grid.push(node.into_iter().chain(self.values(row)));
        }
        grid
    }

    /// The fields as the store takes them: behind `field:`, where no name has a meaning of its own.
    fn selection(&self) -> Vec<&str> {
        let fields = self.shown.iter().filter_map(|key| match key {
            Key::Written => None,
            Key::Field { asked, .. } => Some(asked.as_str()),
        });
        fields.collect()
    }

    /// Whether there are keys, and each is a field.
    fn is_of_fields(&self) -> bool {
        !self.shown.is_empty() && self.shown.iter().all(|key| matches!(key, Key::Field { .. }))
    }

    /// The user's part of a row, with the names under which it is shown.
    fn columns(&self, fixed: &'static [&'static str]) -> Columns {
        let mut columns = Columns::fixed(fixed);
        for key in &self.shown {
            columns = match key {
                Key::Written => columns.keys(["written"], &[]),
                Key::Field { key, .. } => columns.keys([key.as_str()], RESERVED),
            };
        }
        columns
    }

    /// The stable shape of a row.
    fn row(&self, row: &NodeRow) -> Vec<Value> {
        let node = &row.node;
        let fixed = [
            Value::Text(node.address().to_string()),
            Value::from(node.name()),
            Value::from(node.nonce()),
            Value::Count(node.seq()),
        ];
        fixed.into_iter().chain(self.values(row)).collect()
    }

    fn values<'a>(&'a self, row: &'a NodeRow) -> impl Iterator<Item = Value> + 'a {
        self.shown.iter().map(|key| match key {
            Key::Written => Value::time(row.written),
            Key::Field { key, .. } => row.fields.get(key).map_or(Value::Null, Value::from),
        })
    }
}

#[cfg(test)]
mod tests {
    use waycairn_dag::Node;

    use super::*;
    use crate::rows::tests::written;

    fn found() -> Vec<NodeRow> {
        let node = Node::new("tiny", "0123456789abcdef", 19).unwrap();
        let fields =
            [("val/loss", Scalar::Float(f64::NAN)), ("seq", Scalar::Int(7)), ("written", Scalar::Int(8))];
        let fields = fields.map(|(key, value)| (key.to_owned(), value)).into();
        vec![NodeRow { node, written: Some(0), fields }]
    }

    fn json(asked: &Asked) -> String {
        let rows = found().iter().map(|row| asked.row(row)).collect();
        written(&asked.columns(FIXED), rows, rows::json)
    }

    const NODE: &str =
        r#"{"node":"dGlueTowMTIzNDU2Nzg5YWJjZGVmOjE5","name":"tiny","nonce":"0123456789abcdef","seq":19"#;

    #[test]
    fn cli_1_a_row_of_query_with_all_fields() {
        let rest = r#","field:seq":7,"val/loss":{"$float":"NaN"},"field:written":8}"#;
        assert_eq!(json(&Asked::all(&found())), format!("[\n{NODE}{rest}\n]\n"));
    }

    #[test]
    fn cli_1_a_row_of_query_with_keys() {
        let keys = ["written", "name", "val/loss", "absent", "field:seq"].map(str::to_owned);
        let asked = Asked::parse(&keys);
        let rest = r#","written":"1970-01-01T00:00:00.000000Z","val/loss":{"$float":"NaN"},"field:seq":7}"#;
        assert_eq!(json(&asked), format!("[\n{NODE}{rest}\n]\n"));
        assert_eq!(asked.selection(), ["field:val/loss", "field:absent", "field:seq"]);
    }

    #[test]
    fn a_narrow_terminal_shows_the_keys_that_the_question_names() {
        let node = Node::new("tiny", "0123456789abcdef", 19).unwrap();
        let keys = ["eval/f1", "memory/peak", "train/loss", "train/rate", "val/loss", "a/digest"];
        let mut fields: std::collections::BTreeMap<String, Scalar> =
            keys.map(|key| (key.to_owned(), Scalar::Float(2.413_739))).into();
        fields.insert("a/digest".to_owned(), "0123456789abcdef0123456789abcdef".into());
        let rows = vec![NodeRow { node, written: Some(0), fields }];
        let named = ["val/loss", "train/rate"].map(str::to_owned);
        let left_out = |asked: &Asked| {
            let drawn = asked.grid(&rows, &named).draw(&crate::terminal::Terminal::plain().of_width(48));
            drawn.left_out
        };
        let all = Asked::for_people(&rows, &named);
        assert_eq!(left_out(&all), ["eval/f1", "train/loss", "memory/peak", "a/digest"]);
        let chosen = Asked::parse(&["train/loss", "val/loss", "train/rate"].map(str::to_owned));
        assert_eq!(left_out(&chosen), ["train/loss"]);
    }
}
