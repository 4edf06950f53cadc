//! `waycairn sql`: a SELECT over the root.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use clap::Args;
use waycairn_store::{Scalar, Table};

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
    let table = named_apart(reader.sql(&args.statement).map_err(failure::query)?)?;
    context.diagnostics(&table.diagnostics);
    let mut out = args.output.open(&context.terminal)?;
    match args.output.format() {
        format @ (Format::Parquet | Format::Arrow) => failure::write_table(&table, format, &mut out)?,
        Format::Table => {
            let mut grid = Grid::new(table.columns()).keep(1);
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
    let fields = table.schema.fields().iter().zip(names);
    let fields: Vec<_> = fields.map(|(field, name)| field.as_ref().clone().with_name(name)).collect();
    let schema = Arc::new(Schema::new(fields));
    let batches = table.batches.iter().map(|batch| {
        let renamed = RecordBatch::try_new(SchemaRef::clone(&schema), batch.columns().to_vec());
        renamed.map_err(|error| CliError::of("internal", error))
    });
    let batches = batches.collect::<Result<_, _>>()?;
    Ok(Table { schema, batches, diagnostics: table.diagnostics })
}

/// The rows as values. An unsigned number beyond the integers of a field, as SQL may make it, stays a number.
fn rows_of(table: &Table) -> impl Iterator<Item = Vec<Value>> {
    let unsigned = |column: usize| *table.schema.field(column).data_type() == DataType::UInt64;
    let value = move |(column, cell): (usize, &Scalar)| match cell {
        Scalar::Text(text) if unsigned(column) => text.parse().map_or_else(|_| cell.into(), Value::Count),
        cell => cell.into(),
    };
    table.rows().map(move |row| row.iter().enumerate().map(value).collect())
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, UInt64Array};
    use arrow::datatypes::Field;

    use super::*;
    use crate::rows::tests::written;

    #[test]
    fn cli_2_numbers_stay_numbers_and_names_differ() {
        let arrays: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from(vec![2])), Arc::new(UInt64Array::from(vec![u64::MAX]))];
        let fields: Vec<Field> =
            arrays.iter().map(|array| Field::new("seq", array.data_type().clone(), true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let batches = vec![RecordBatch::try_new(SchemaRef::clone(&schema), arrays).unwrap()];
        let table = named_apart(Table { schema, batches, diagnostics: Vec::new() }).unwrap();
        let columns = Columns::of_statement(table.columns().into_iter().map(str::to_owned));
        let text = written(&columns, rows_of(&table).collect(), rows::json_lines);
        assert_eq!(text, "{\"seq\":2,\"seq:2\":18446744073709551615}\n");
    }
}
