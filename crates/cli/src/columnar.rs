//! Rows as Arrow columns, for the formats that have no rows.

use waycairn_store::{ColumnValues, Table};

use crate::error::CliError;
use crate::failure;
use crate::rows::Columns;
use crate::value::Value;

/// Makes a table of rows. A column of one kind has that type: bool, int64, float64 (also for integers among floats),
/// UTC nanoseconds, lists of integers or texts; what is left, and any mixture, is text.
pub(crate) fn table(columns: &Columns, rows: impl Iterator<Item = Vec<Value>>) -> Result<Table, CliError> {
    let mut cells: Vec<Vec<Value>> = columns.names().iter().map(|_| Vec::new()).collect();
    for row in rows {
        for (column, value) in cells.iter_mut().zip(row) {
            column.push(value);
        }
    }
    let named = columns.names().iter().zip(&cells);
    let named = named.map(|(name, cells)| (name.clone().into_owned(), column(cells)));
    Table::from_columns(named).map_err(failure::query)
}

/// What all values of a column are, missing ones aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nothing,
    Bools,
    Ints,
    Floats,
    Times,
    IntLists,
    TextLists,
    Texts,
}

impl Kind {
    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Nothing,
            Value::Bool(_) => Self::Bools,
            Value::Int(_) => Self::Ints,
            Value::Count(count) if i64::try_from(*count).is_ok() => Self::Ints,
            Value::Float(_) => Self::Floats,
            Value::Time(_) => Self::Times,
            Value::List(values) => {
                values.iter().map(Self::of).fold(Self::Nothing, Self::joined).list().unwrap_or(Self::Texts)
            }
            Value::Count(_) | Value::Text(_) | Value::Object(_) => Self::Texts,
        }
    }

    /// The kind of a list of values of this kind.
    fn list(self) -> Option<Self> {
        match self {
            Self::Ints | Self::Nothing => Some(Self::IntLists),
            Self::Texts => Some(Self::TextLists),
            _ => None,
        }
    }

    fn joined(self, other: Self) -> Self {
        match (self, other) {
            (one, other) if one == other => one,
            (Self::Nothing, kind) | (kind, Self::Nothing) => kind,
            (Self::Ints, Self::Floats) | (Self::Floats, Self::Ints) => Self::Floats,
            // An empty list has no kind of its own, and counts as one of integers until a text is seen.
            (Self::IntLists, Self::TextLists) | (Self::TextLists, Self::IntLists) => Self::TextLists,
            _ => Self::Texts,
        }
    }
}

fn column(cells: &[Value]) -> ColumnValues {
    let kind = cells.iter().map(Kind::of).fold(Kind::Nothing, Kind::joined);
    match kind {
        Kind::Bools => ColumnValues::Bools(each(cells, |cell| match cell {
            Value::Bool(value) => Some(*value),
            _ => None,
        })),
        Kind::Ints => ColumnValues::Ints(each(cells, int)),
        Kind::Floats => ColumnValues::Floats(each(cells, |cell| match cell {
            Value::Float(value) => Some(*value),
            other => int(other).map(|value| value as f64),
        })),
        Kind::Times => ColumnValues::Times(each(cells, |cell| match cell {
            Value::Time(nanos) => Some(*nanos),
            _ => None,
        })),
        Kind::IntLists => ColumnValues::IntLists(each(cells, |cell| list(cell, int))),
        Kind::TextLists => ColumnValues::TextLists(each(cells, |cell| list(cell, text))),
        Kind::Texts | Kind::Nothing => ColumnValues::Texts(each(cells, text)),
    }
}

fn each<T>(cells: &[Value], value: impl Fn(&Value) -> Option<T>) -> Vec<Option<T>> {
    cells.iter().map(value).collect()
}

fn list<T>(cell: &Value, value: impl Fn(&Value) -> Option<T>) -> Option<Vec<Option<T>>> {
    match cell {
        Value::List(values) => Some(each(values, value)),
        _ => None,
    }
}

fn int(value: &Value) -> Option<i64> {
    match value {
        Value::Int(value) => Some(*value),
        Value::Count(value) => i64::try_from(*value).ok(),
        _ => None,
    }
}

/// Text as it is, anything else as JSON.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Text(text) => Some(text.clone()),
        other => serde_json::to_string(other).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_2_a_column_has_the_type_of_its_values() {
        const NAMES: &[&str] = &["ints", "floats", "times", "lists", "names", "mixed", "nothing"];
        let rows = vec![
            vec![
                Value::Count(3),
                Value::Float(f64::NAN),
                Value::Time(1_000),
                Value::List(Vec::new()),
                Value::list(["a"]),
                Value::Int(1),
                Value::Null,
            ],
            vec![
                Value::Null,
                Value::Int(2),
                Value::Null,
                Value::list([19_u64, 39]),
                Value::List(Vec::new()),
                Value::from("x"),
                Value::Null,
            ],
        ];
        let table = table(&Columns::fixed(NAMES), rows.into_iter()).unwrap();
        let fields = table.schema.fields().iter();
        let types: Vec<String> = fields.map(|field| field.data_type().to_string()).collect();
        assert_eq!(
            types,
            ["Int64", "Float64", r#"Timestamp(ns, "UTC")"#, "List(Int64)", "List(Utf8)", "Utf8", "Utf8",]
        );
        let nulls: Vec<usize> = table.batches[0].columns().iter().map(|array| array.null_count()).collect();
        assert_eq!(nulls, [1, 0, 1, 0, 0, 0, 2]);
    }

    #[test]
    fn no_rows_are_a_table_too() {
        let table = table(&Columns::fixed(&["a"]), std::iter::empty()).unwrap();
        assert_eq!((table.num_rows(), table.columns()), (0, vec!["a"]));
    }
}
