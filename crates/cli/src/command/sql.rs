//! `waycairn sql`: a SELECT over the root.

use clap::Args;

use crate::context::Context;
use crate::error::CliError;
use crate::failure;
use crate::output::{Format, RowOutput};
use crate::rows::{self, Columns};
use crate::table::Grid;
use crate::value::Value;

/// Answer a SQL SELECT over the tables `nodes` (folded) and `records` (as written)
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn sql 'SELECT name, min(\"val/loss\") AS best FROM nodes GROUP BY name ORDER BY best'
  waycairn sql 'SELECT * FROM records LIMIT 5' --format jsonl

A key that is no plain word stands in double quotes, a string in single quotes.")]
pub(crate) struct SqlArgs {
    /// The statement
    #[arg(value_name = "SELECT")]
    pub(super) statement: String,
    #[command(flatten)]
    pub(super) output: RowOutput,
}

pub(crate) fn run(args: &SqlArgs, context: &Context) -> Result<(), CliError> {
    let reader = context.reader()?;
    let table = reader.sql(&args.statement).map_err(failure::query)?;
    context.diagnostics(&table.diagnostics);
    let mut out = args.output.open(&context.terminal)?;
    match args.output.format() {
        format @ (Format::Parquet | Format::Arrow) => failure::write_table(&table, format, &mut out)?,
        Format::Table => {
            let mut grid = Grid::new(table.columns()).keep(1);
            for row in table.rows() {
                grid.push(row.iter().map(Value::from));
            }
            context.table(&grid, "no rows", &mut out)?;
        }
        format => {
            let columns = Columns::of_statement(table.columns());
            rows::write(
                &mut out,
                format,
                &columns,
                table.rows().map(|row| row.iter().map(Value::from).collect()),
            )?;
        }
    }
    out.finish()
}
