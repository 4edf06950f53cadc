//! The aligned table: no rules, numbers to the right, what is missing as a dash.

use std::borrow::Cow;

use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table, presets};

use waycairn_durable::time::rfc3339_micros;

use crate::number;
use crate::terminal::Terminal;
use crate::value::Value;

/// Spaces between two columns.
const GAP: u16 = 2;

/// How a missing value looks.
pub(crate) const MISSING: &str = "-";

/// Rows under titles, as text.
#[derive(Debug, Default)]
pub(crate) struct Grid {
    titles: Vec<String>,
    looks: Vec<Looks>,
    rows: Vec<Vec<String>>,
    /// For each column how soon it is left out where the terminal is too narrow: 0 for never, and of the others the
    /// highest first, the later ones before the earlier.
    ranks: Vec<u8>,
    /// What the user can do to choose the columns.
    choice: Option<&'static str>,
}

/// What the cells of a column have been so far, missing ones aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looks {
    Nothing,
    Numbers,
    Text,
}

/// A grid made into lines.
pub(crate) struct Drawn {
    /// The lines, each with its end.
    pub(crate) text: String,
    /// The titles of the columns that did not fit.
    pub(crate) left_out: Vec<String>,
}

impl Grid {
    /// A grid whose columns all stay.
    pub(crate) fn new<T: Into<String>>(titles: impl IntoIterator<Item = T>) -> Self {
        // A key is a title, and may hold anything.
        let titles: Vec<String> = titles.into_iter().map(|title| printable(&title.into())).collect();
        let columns = titles.len();
        Self {
            titles,
            looks: vec![Looks::Nothing; columns],
            rows: Vec::new(),
            ranks: vec![0; columns],
            choice: None,
        }
    }

    /// Lets columns be left out on a narrow terminal: those of the highest rank first, of one rank the later ones
    /// first, and those of rank 0 never.
    pub(crate) fn ranked(mut self, ranks: impl IntoIterator<Item = u8>) -> Self {
        for (rank, given) in self.ranks.iter_mut().zip(ranks) {
            *rank = given;
        }
        self
    }

    /// Says how the user chooses the columns, as in "choose with `--keys`".
    pub(crate) fn chosen_by(mut self, choice: &'static str) -> Self {
        self.choice = Some(choice);
        self
    }

    /// How the user chooses the columns, where that can be done.
    pub(crate) fn choice(&self) -> Option<&'static str> {
        self.choice
    }

    /// Adds a row of values. A column whose values are all numbers is aligned to the right.
    pub(crate) fn push(&mut self, values: impl IntoIterator<Item = Value>) {
        let mut row = Vec::with_capacity(self.titles.len());
        for (value, looks) in values.into_iter().zip(&mut self.looks) {
            *looks = match value {
                Value::Null => *looks,
                Value::Int(_) | Value::Count(_) | Value::Float(_) if *looks != Looks::Text => Looks::Numbers,
                _ => Looks::Text,
            };
            row.push(cell(&value));
        }
        self.rows.push(row);
    }

    /// Whether it has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Draws the lines for this terminal.
    pub(crate) fn draw(&self, terminal: &Terminal) -> Drawn {
        let shown = self.fitting(terminal);
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.force_no_tty();
        if terminal.styled() {
            table.enforce_styling();
            table.style_text_only();
        }
        let titles = shown.iter().map(|index| &self.titles[*index]);
        table.set_header(titles.map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
        for row in &self.rows {
            table.add_row(shown.iter().filter_map(|index| row.get(*index)));
        }
        for (column, index) in table.column_iter_mut().zip(&shown) {
            column.set_padding((0, GAP));
            if self.looks[*index] == Looks::Numbers {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut text = String::new();
        for line in table.lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        let left_out = (0..self.titles.len()).filter(|index| !shown.contains(index));
        Drawn { text, left_out: left_out.map(|index| self.titles[index].clone()).collect() }
    }

    /// The columns that fit: all of them where nothing limits the width.
    fn fitting(&self, terminal: &Terminal) -> Vec<usize> {
        let mut shown: Vec<usize> = (0..self.titles.len()).collect();
        let Some(limit) = terminal.width else { return shown };
        let widths = self.titles.iter().enumerate().map(|(index, title)| {
            let cells = self.rows.iter().filter_map(|row| row.get(index)).map(|cell| width(cell));
            cells.chain([width(title)]).max().unwrap_or(0) + usize::from(GAP)
        });
        let widths: Vec<usize> = widths.collect();
        // No gap stands after the last column.
        let mut used = widths.iter().sum::<usize>().saturating_sub(usize::from(GAP));
        let mut optional: Vec<usize> = shown.iter().copied().filter(|index| self.ranks[*index] > 0).collect();
        optional.sort_by_key(|index| (self.ranks[*index], *index));
        while used > limit
            && let Some(index) = optional.pop()
        {
            used = used.saturating_sub(widths[index]);
            shown.retain(|kept| *kept != index);
        }
        shown
    }
}

/// A value as a cell.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => MISSING.to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Count(value) => value.to_string(),
        Value::Float(value) => number::float(*value),
        Value::Time(nanos) => rfc3339_micros(*nanos),
        Value::Text(text) if is_ambiguous(text) => format!("{text:?}"),
        Value::Text(text) => printable(text),
        Value::List(values) => values.iter().map(cell).collect::<Vec<_>>().join(", "),
        Value::Object(_) => serde_json::to_string(value).unwrap_or_default(),
    }
}

/// Whether text would be taken for something else: a missing value, a number, a truth value.
pub(crate) fn is_ambiguous(text: &str) -> bool {
    text.is_empty() || text == MISSING || text == "true" || text == "false" || text.parse::<f64>().is_ok()
}

/// Text that keeps to its cell: control characters, which could move the cursor, are written as escapes.
pub(crate) fn printable(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    text.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
        .collect()
}

/// The most characters of a word in a message, or of what stands in backticks: every name and node fits, and most paths.
const LONGEST: usize = 300;

/// A message in which what is too long to be read keeps its two ends: words, and what stands in backticks.
pub(crate) fn shortened(message: &str) -> Cow<'_, str> {
    if message.len() <= LONGEST {
        return Cow::Borrowed(message);
    }
    let ends = |piece: &str| {
        let (mut head, mut tail) = (piece.char_indices().skip(60), piece.char_indices().rev().skip(39));
        match (head.next(), tail.next()) {
            (Some((head, _)), Some((tail, _))) if piece.chars().count() > LONGEST => {
                format!("{}..{}", &piece[..head], &piece[tail..])
            }
            _ => piece.to_owned(),
        }
    };
    let mut quoted = true;
    let pieces = message.split('`').map(|piece| {
        quoted = !quoted;
        if quoted { ends(piece) } else { piece.split(' ').map(ends).collect::<Vec<_>>().join(" ") }
    });
    Cow::Owned(pieces.collect::<Vec<_>>().join("`"))
}

/// Columns that text takes, near enough to decide what fits.
fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_have_no_tail() {
        let mut grid = Grid::new(["node", "loss", "note"]);
        grid.push([Value::from("tiny:9"), Value::Float(2.5), Value::Null]);
        grid.push([Value::from("tiny:199"), Value::Float(f64::NAN), Value::from("ok")]);
        assert_eq!(
            grid.draw(&Terminal::plain()).text,
            "node      loss  note\ntiny:9     2.5  -\ntiny:199   NaN  ok\n"
        );
    }

    #[test]
    fn cli_2_missing_empty_and_not_a_number_differ() {
        let shown: Vec<String> = [
            Value::Null,
            Value::from("-"),
            Value::from(""),
            Value::Float(f64::NAN),
            Value::from("NaN"),
            Value::from("3"),
            Value::Int(3),
        ]
        .iter()
        .map(cell)
        .collect();
        assert_eq!(shown, ["-", "\"-\"", "\"\"", "NaN", "\"NaN\"", "\"3\"", "3"]);
    }

    #[test]
    fn control_characters_cannot_move_the_cursor() {
        assert_eq!(cell(&Value::from("a\n\u{1b}[2Jb")), "a\\n\\u{1b}[2Jb");
    }

    #[test]
    fn what_is_too_long_to_be_read_keeps_its_ends() {
        let long = "x".repeat(10_000);
        let short = format!("{}..{}", "x".repeat(60), "x".repeat(40));
        assert_eq!(shortened(&format!("no node `a {long}` in `r`")).len(), "no node `` in `r`".len() + 102);
        assert_eq!(
            shortened(&format!("invalid value '{long}' found")).len(),
            "invalid value  found".len() + 102
        );
        assert_eq!(shortened(&long), short);
        let many = "a word `and a name` ".repeat(100);
        assert_eq!(shortened(&many), many);
        let wide = "\u{e9}".repeat(400);
        assert_eq!(shortened(&wide).chars().count(), 102);
    }

    #[test]
    fn a_narrow_terminal_leaves_out_what_may_be() {
        let mut grid = Grid::new(["node", "a/long/key", "another/key"]).ranked([0, 1, 1]);
        grid.push([Value::from("tiny:9"), Value::Int(1), Value::Int(2)]);
        let narrow = Terminal::plain().of_width(20);
        let drawn = grid.draw(&narrow);
        assert_eq!(drawn.text, "node    a/long/key\ntiny:9           1\n");
        assert_eq!(drawn.left_out, ["another/key"]);

        // What matters most stays, wherever it stands.
        let grid = grid.ranked([0, 2, 1]);
        let drawn = grid.draw(&narrow);
        assert_eq!(drawn.text, "node    another/key\ntiny:9            2\n");
        assert_eq!(drawn.left_out, ["a/long/key"]);
        assert_eq!(grid.draw(&Terminal::plain().of_width(3)).left_out, ["a/long/key", "another/key"]);
        assert!(grid.draw(&Terminal::plain().of_width(31)).left_out.is_empty());
    }
}
