//! Answers made of rows, in the formats of `--format`.

use std::borrow::Cow;
use std::collections::HashSet;

use waycairn_durable::time::rfc3339_micros;

use crate::error::CliError;
use crate::output::{Destination, Format};
use crate::table::is_ambiguous;
use crate::value::{Fields, Value, non_finite, whole};
use crate::{columnar, failure};

/// What stands before a key that is called like a fixed name.
pub(crate) const FIELD: &str = "field:";

/// The names of an answer's columns.
///
/// Columns before `keys_from` are fixed: every JSON object has them, null where there is nothing. The others are
/// the user's keys: a row without one has no such field, so that a missing value and a null cannot be confused.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    names: Vec<Cow<'static, str>>,
    keys_from: usize,
}

impl Columns {
    /// Fixed columns.
    pub(crate) fn fixed(names: &'static [&'static str]) -> Self {
        Self { names: names.iter().map(|name| Cow::Borrowed(*name)).collect(), keys_from: names.len() }
    }

    /// Adds the user's keys. One that collides with a name of `reserved` is shown as `field:<key>`.
    pub(crate) fn keys<'a>(mut self, keys: impl IntoIterator<Item = &'a str>, reserved: &[&str]) -> Self {
        self.names.extend(keys.into_iter().map(|key| Cow::Owned(shown_key(key, reserved))));
        self
    }

    /// Columns that a statement named itself: every row has them all.
    pub(crate) fn of_statement(names: impl IntoIterator<Item = String>) -> Self {
        let names: Vec<_> = names.into_iter().map(Cow::Owned).collect();
        Self { keys_from: names.len(), names }
    }

    /// The names in order.
    pub(crate) fn names(&self) -> &[Cow<'static, str>] {
        &self.names
    }

    fn object(&self, row: Vec<Value>) -> Fields {
        let named = self.names.iter().cloned().zip(row).enumerate();
        named
            .filter(|(index, (_, value))| *index < self.keys_from || *value != Value::Null)
            .map(|(_, field)| field)
            .collect()
    }
}

/// The names of columns, each once: where a statement gave a name several times, as a join does, the later ones are
/// `name:2`, `name:3`.
pub(crate) fn distinct(names: &[&str]) -> Vec<String> {
    let mut taken: HashSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut seen: HashSet<&str> = HashSet::new();
    let distinct = names.iter().map(|name| {
        if seen.insert(name) {
            return (*name).to_owned();
        }
        let mut count = 2_u64;
        loop {
            let next = format!("{name}:{count}");
            if taken.insert(next.clone()) {
                return next;
            }
            count += 1;
        }
    });
    distinct.collect()
}

/// The name under which a user's key is shown: itself, or with `field:` before it where it would be taken for a
/// fixed name. A key that begins so already is treated alike, so two keys never share a name. Expressions write
/// such keys in the same way.
pub(crate) fn shown_key(key: &str, reserved: &[&str]) -> String {
    if reserved.contains(&key) || key.starts_with(FIELD) { format!("{FIELD}{key}") } else { key.to_owned() }
}

/// The key that a shown name means: the inverse of [`shown_key`].
pub(crate) fn meant_key(shown: &str) -> &str {
    shown.strip_prefix(FIELD).unwrap_or(shown)
}

/// Writes rows in a format that programs read. A table is for people and is drawn elsewhere.
pub(crate) fn write(
    out: &mut Destination,
    format: Format,
    columns: &Columns,
    rows: impl Iterator<Item = Vec<Value>>,
) -> Result<(), CliError> {
    match format {
        Format::Csv => csv(out, columns, rows),
        Format::Json => json(out, columns, rows),
        Format::Jsonl => json_lines(out, columns, rows),
        Format::Parquet | Format::Arrow => {
            failure::write_table(&columnar::table(columns, rows)?, format, out)
        }
        Format::Table => Err(CliError::new("internal", "a table is drawn, not written row by row")),
    }
}

/// Writes one JSON array with a row a line; `[]` where there is none.
pub(crate) fn json(
    out: &mut Destination,
    columns: &Columns,
    rows: impl Iterator<Item = Vec<Value>>,
) -> Result<(), CliError> {
    let mut before = "[\n";
    for row in rows {
        out.text(before)?;
        object(out, columns, row)?;
        before = ",\n";
    }
    out.text(if before == "[\n" { "[]\n" } else { "\n]\n" })
}

/// Writes one JSON object a line.
pub(crate) fn json_lines(
    out: &mut Destination,
    columns: &Columns,
    rows: impl Iterator<Item = Vec<Value>>,
) -> Result<(), CliError> {
    for row in rows {
        object(out, columns, row)?;
        out.text("\n")?;
    }
    Ok(())
}

/// Writes comma-separated values under a header line.
pub(crate) fn csv(
    out: &mut Destination,
    columns: &Columns,
    rows: impl Iterator<Item = Vec<Value>>,
) -> Result<(), CliError> {
    let mut line = String::new();
    for (index, name) in columns.names.iter().enumerate() {
        separate(&mut line, index);
        quote(&mut line, name, name.is_empty());
    }
    line.push('\n');
    out.text(&line)?;
    for row in rows {
        line.clear();
        for (index, value) in row.iter().enumerate() {
            separate(&mut line, index);
            field(&mut line, value);
        }
        line.push('\n');
        out.text(&line)?;
    }
    Ok(())
}

fn object(out: &mut Destination, columns: &Columns, row: Vec<Value>) -> Result<(), CliError> {
    let object = Value::Object(columns.object(row));
    serde_json::to_writer(&mut *out, &object).map_err(|error| out.failed(error.into()))
}

fn separate(line: &mut String, index: usize) {
    if index > 0 {
        line.push(',');
    }
}

/// Writes one CSV field. A missing value is nothing at all; text that could be taken for a number, a truth value
/// or nothing is quoted, so that every value keeps its kind.
fn field(line: &mut String, value: &Value) {
    match value {
        Value::Null => {}
        Value::Bool(value) => line.push_str(if *value { "true" } else { "false" }),
        Value::Int(value) => line.push_str(&value.to_string()),
        Value::Count(value) => line.push_str(&value.to_string()),
        Value::Float(value) => line.push_str(&exact(*value)),
        Value::Time(nanos) => line.push_str(&rfc3339_micros(*nanos)),
        Value::Text(text) => quote(line, text, is_ambiguous(text)),
        Value::List(_) | Value::Object(_) => {
            quote(line, &serde_json::to_string(value).unwrap_or_default(), false);
        }
    }
}

/// The shortest text that reads back as the same float.
fn exact(value: f64) -> String {
    if !value.is_finite() {
        return non_finite(value).to_owned();
    }
    match whole(value) {
        Some(integer) => integer.to_string(),
        None if (1e-5..1e16).contains(&value.abs()) => value.to_string(),
        None => format!("{value:e}"),
    }
}

/// Writes text, in quotes where it needs them or `always`.
fn quote(line: &mut String, text: &str, always: bool) {
    let needs = |c: char| matches!(c, ',' | '"' | '\n' | '\r');
    if !always && !text.contains(needs) && text.trim() == text {
        line.push_str(text);
        return;
    }
    line.push('"');
    line.push_str(&text.replace('"', "\"\""));
    line.push('"');
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::output::Place;

    const FIXED: &[&str] = &["node", "seq"];

    fn columns() -> Columns {
        Columns::fixed(FIXED).keys(["loss", "seq"], FIXED)
    }

    fn rows() -> Vec<Vec<Value>> {
        vec![
            vec![Value::from("a"), Value::Int(1), Value::Float(f64::NAN), Value::Null],
            vec![Value::from("b"), Value::Null, Value::Null, Value::from("x, \"y\"")],
        ]
    }

    /// What a writer makes of rows.
    pub(crate) fn written(
        columns: &Columns,
        rows: Vec<Vec<Value>>,
        write: impl Fn(&mut Destination, &Columns, std::vec::IntoIter<Vec<Value>>) -> Result<(), CliError>,
    ) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answer");
        let mut out = Place { output: Some(path.clone()) }.open().unwrap();
        write(&mut out, columns, rows.into_iter()).unwrap();
        out.finish().unwrap();
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn cli_2_json_tells_missing_null_and_not_a_number_apart() {
        let text = written(&columns(), rows(), json);
        assert_eq!(
            text,
            "[\n{\"node\":\"a\",\"seq\":1,\"loss\":{\"$float\":\"NaN\"}},\n\
             {\"node\":\"b\",\"seq\":null,\"field:seq\":\"x, \\\"y\\\"\"}\n]\n"
        );
        assert_eq!(written(&columns(), Vec::new(), json), "[]\n");
        assert_eq!(written(&columns(), Vec::new(), json_lines), "");
    }

    #[test]
    fn cli_2_csv_tells_them_apart_too() {
        assert_eq!(
            written(&columns(), rows(), csv),
            "node,seq,loss,field:seq\na,1,NaN,\nb,,,\"x, \"\"y\"\"\"\n"
        );
        let text = |value| {
            let mut line = String::new();
            field(&mut line, &value);
            line
        };
        assert_eq!(text(Value::Null), "");
        assert_eq!(text(Value::from("")), "\"\"");
        assert_eq!(text(Value::from("NaN")), "\"NaN\"");
        assert_eq!(text(Value::from("3")), "\"3\"");
        assert_eq!(text(Value::from(" a")), "\" a\"");
        assert_eq!(text(Value::Float(3.0)), "3");
        assert_eq!(text(Value::Float(0.1 + 0.2)), "0.30000000000000004");
        assert_eq!(text(Value::Float(1e-300)), "1e-300");
        assert_eq!(text(Value::List(vec![Value::Int(1), Value::Int(2)])), "\"[1,2]\"");
    }

    #[test]
    fn cli_2_columns_of_one_name_are_told_apart() {
        let names = distinct(&["seq", "seq", "seq:2", "x", "seq"]);
        assert_eq!(names, ["seq", "seq:3", "seq:2", "x", "seq:4"]);
        assert_eq!(distinct(&["seq", "seq"]), ["seq", "seq:2"]);
    }

    #[test]
    fn cli_1_an_empty_answer_is_an_empty_list() {
        assert_eq!(written(&columns(), Vec::new(), json), "[]\n");
    }

    #[test]
    fn cli_1_a_colliding_key_has_its_own_name() {
        for key in ["loss", "seq", "field:seq", "field:loss", "field:field:seq"] {
            let shown = shown_key(key, FIXED);
            assert!(!FIXED.contains(&shown.as_str()));
            assert_eq!(meant_key(&shown), key);
        }
        assert_eq!(shown_key("seq", FIXED), "field:seq");
        assert_eq!(shown_key("loss", FIXED), "loss");
        assert_eq!(meant_key("field:loss"), "loss");
    }
}
