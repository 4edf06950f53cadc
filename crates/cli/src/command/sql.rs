//! `waycairn sql`: a SELECT over the root.

use clap::Args;
use waycairn_store::{Scalar, Table};

use crate::context::Context;
use crate::error::CliError;
use crate::failure;
use crate::output::{Format, RowOutput};
use crate::rows::{self, Columns};
use crate::table::Grid;
use crate::value::Value;

/// Answer a SQL SELECT over the tables `nodes` (folded), `records` (as written), `edges` and `blobs`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn sql 'SELECT name, nonce, min(\"val/loss\") AS best FROM nodes GROUP BY name, nonce ORDER BY best'
  waycairn sql 'SELECT * FROM records LIMIT 5' --format jsonl
  waycairn sql 'SELECT node, parent_name, parent_seq FROM edges WHERE name <> parent_name'
  waycairn sql 'SELECT name, seq, artifacts FROM blobs WHERE checkpoint'

A key that is no plain word stands in double quotes, a string in single quotes. Numbers and truth values of a key are in the
column \"key\" and its texts in \"key::text\": one that was only ever a text, such as job/base, has \"job/base::text\" alone.
`DESCRIBE nodes` lists the columns.")]
pub(crate) struct SqlArgs {
    /// The statement
    #[arg(value_name = "SELECT")]
    pub(super) statement: String,
    #[command(flatten)]
    pub(super) output: RowOutput,
}

pub(crate) fn run(args: &SqlArgs, context: &Context) -> Result<(), CliError> {
    let reader = context.reader()?;
    let table = named_apart(reader.sql(&args.statement).map_err(failure::query)?)?;
    context.diagnostics(&table.diagnostics);
    let mut out = args.output.open(&context.terminal)?;
    match args.output.format() {
        format @ (Format::Parquet | Format::Arrow) => failure::write_table(&table, format, &mut out)?,
        Format::Table => {
            let columns = table.columns();
            // The first columns of a statement are those that it names first.
            let ranks = (0..columns.len()).map(|index| u8::from(index > 0));
            let mut grid = Grid::new(columns).ranked(ranks).chosen_by("select fewer columns");
            for row in rows_of(&table) {
                grid.push(row);
            }
            context.table(&grid, "no rows", &mut out)?;
        }
        format => {
            let columns = Columns::of_statement(table.columns().into_iter().map(str::to_owned));
            rows::write(&mut out, format, &columns, rows_of(&table))?;
        }
    }
    out.finish()
}

/// The same table with a name for each column.
fn named_apart(table: Table) -> Result<Table, CliError> {
    let before = table.columns();
    let names = rows::distinct(&before);
    if before == names {
        return Ok(table);
    }
    table.renamed(names).map_err(failure::query)
}

/// The rows as values. An unsigned number beyond the integers of a field, as SQL may make it, stays a number.
fn rows_of(table: &Table) -> impl Iterator<Item = Vec<Value>> {
    let value = |(column, cell): (usize, &Scalar)| match cell {
        Scalar::Text(text) if table.is_unsigned(column) => {
            text.parse().map_or_else(|_| cell.into(), Value::Count)
        }
        cell => cell.into(),
    };
    table.rows().map(move |row| row.iter().enumerate().map(value).collect())
}

#[cfg(test)]
mod tests {
    use waycairn_store::ObjectReader;

    use super::*;
    use crate::rows::tests::written;

    #[test]
    fn cli_2_numbers_stay_numbers_and_names_differ() {
        let nowhere = tempfile::tempdir().unwrap();
        let reader = ObjectReader::open(nowhere.path()).unwrap();
        let both = "select a.seq, b.seq from (select 2 as seq) a, (select 18446744073709551615 as seq) b";
        let table = named_apart(reader.sql(both).unwrap()).unwrap();
        let columns = Columns::of_statement(table.columns().into_iter().map(str::to_owned));
        let text = written(&columns, rows_of(&table).collect(), rows::json_lines);
        assert_eq!(text, "{\"seq\":2,\"seq:2\":18446744073709551615}\n");
    }
}
