//! Accepted records, copied out of the caller's hands into one buffer.
//!
//! A record is stored as the *shape* of its keys (each distinct list of keys is kept and checked once per
//! buffer) and a run of fixed-size cells. A loop that records the same keys at every step therefore pays for
//! one comparison of its keys and one copy of its numbers, and the writer looks no key up per record.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use waycairn_dag::Node;

use crate::error::RecordError;
use crate::field::{FieldName, MAX_TEXT_BYTES, Scalar};

/// Most records that [`Rows::copy_some`] copies at a time.
const COPIED_ROWS: usize = 32;

/// It ends when it has copied as much.
const COPIED_BYTES: usize = 16 * 1024;

/// Markers that a record carries beside the caller's fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// `_x_blob` holds the node's folder.
    pub(crate) blob: bool,
    /// `_x_checkpoint`: false takes an earlier true back.
    pub(crate) checkpoint: Option<bool>,
    /// `_x_finished`: false takes an earlier true back.
    pub(crate) finished: Option<bool>,
    /// `_x_record`
    pub(crate) record: bool,
    /// `_x_artifact`, joined already
    pub(crate) artifact: Option<Box<str>>,
}

/// One value in a buffer of [`Rows`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// A span of the buffer's text.
    Text {
        start: u32,
        bytes: u32,
    },
}

/// One record: its identity and place in the order of writes, fixed at the call.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) node: Node,
    pub(crate) write: i64,
    /// Few records have marks, so the others do not pay for them.
    pub(crate) marks: Option<Box<Marks>>,
    /// Index of its keys among the shapes.
    pub(crate) shape: u32,
    first_cell: u32,
}

/// A list of keys that records share. All of them passed [`FieldName::new`], and none occurs twice.
#[derive(Debug)]
pub(crate) struct Shape {
    text: String,
    ends: Vec<u32>,
    /// Another shape with the same hash.
    next: Option<u32>,
}

impl Shape {
    /// The number of keys.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The keys, in the order of the cells.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let key = self.text.get(start..end as usize).unwrap_or_default();
            start = end as usize;
            key
        })
    }

    fn matches(&self, fields: &[(&str, Scalar)]) -> bool {
        if self.ends.len() != fields.len() {
            return false;
        }
        let text = self.text.as_bytes();
        let mut start = 0;
        for ((key, _), &end) in fields.iter().zip(&self.ends) {
            let end = end as usize;
            if text.get(start..end) != Some(key.as_bytes()) {
                return false;
            }
            start = end;
        }
        true
    }
}

/// A buffer of accepted records, in the order in which they were accepted.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    rows: Vec<Row>,
    cells: Vec<Cell>,
    text: String,
    shapes: Vec<Arc<Shape>>,
    /// The memory that all of it takes, nearly.
    bytes: usize,
    by_hash: HashMap<u64, u32>,
    last_shape: u32,
}

impl Rows {
    /// Copies a record into the buffer.
    ///
    /// # Errors
    /// A key or a text that cannot be recorded; the buffer is as it was.
    #[inline]
    pub(crate) fn push(
        &mut self,
        node: &Node,
        write: i64,
        fields: &[(&str, Scalar)],
        marks: Option<Box<Marks>>,
    ) -> Result<(), RecordError> {
        let shape = match self.shapes.get(self.last_shape as usize) {
            Some(last) if last.matches(fields) => self.last_shape,
            _ => self.find_or_add_shape(fields)?,
        };
        let first_cell = self.cells.len();
        let first_text = self.text.len();
        self.cells.reserve(fields.len());
        for (key, value) in fields {
            let cell = match value {
                Scalar::Null => Cell::Null,
                Scalar::Bool(value) => Cell::Bool(*value),
                Scalar::Int(value) => Cell::Int(*value),
                Scalar::Float(value) => Cell::Float(*value),
                Scalar::Text(text) => {
                    if text.len() > MAX_TEXT_BYTES {
                        self.cells.truncate(first_cell);
                        self.text.truncate(first_text);
                        return Err(RecordError::Text { key: (*key).to_owned(), bytes: text.len() });
                    }
                    let start = to_u32(self.text.len());
                    self.text.push_str(text);
                    Cell::Text { start, bytes: to_u32(text.len()) }
                }
            };
            self.cells.push(cell);
        }
        self.last_shape = shape;
        self.bytes += size_of::<Row>() + size_of::<Cell>() * fields.len() + (self.text.len() - first_text);
        self.rows.push(Row { node: node.clone(), write, marks, shape, first_cell: to_u32(first_cell) });
        Ok(())
    }

    /// The number of records.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The memory that the records take, nearly.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The records.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The lists of keys.
    pub(crate) fn shapes(&self) -> &[Arc<Shape>] {
        &self.shapes
    }

    /// The cells of a record, one for each key of its shape.
    pub(crate) fn cells(&self, row: &Row) -> &[Cell] {
        let start = row.first_cell as usize;
        let keys = self.shapes.get(row.shape as usize).map_or(0, |shape| shape.len());
        self.cells.get(start..start + keys).unwrap_or_default()
    }

    /// The text of a [`Cell::Text`].
    pub(crate) fn text(&self, start: u32, bytes: u32) -> &str {
        self.text.get(start as usize..(start + bytes) as usize).unwrap_or_default()
    }

    /// Copies records of `from`, from the one at `start` on, in place of those that are here, and says how many: as many as
    /// are copied in about a microsecond, and at least one if there is one.
    ///
    /// A buffer that copies one other buffer, again and again, numbers its shapes as that one does.
    pub(crate) fn copy_some(&mut self, from: &Rows, start: usize) -> usize {
        self.rows.clear();
        self.cells.clear();
        self.text.clear();
        self.shapes.extend(from.shapes.iter().skip(self.shapes.len()).cloned());
        for row in from.rows.iter().skip(start).take(COPIED_ROWS) {
            let first_cell = to_u32(self.cells.len());
            for cell in from.cells(row) {
                self.cells.push(match *cell {
                    Cell::Text { start, bytes } => {
                        let copy = Cell::Text { start: to_u32(self.text.len()), bytes };
                        self.text.push_str(from.text(start, bytes));
                        copy
                    }
                    cell => cell,
                });
            }
            self.rows.push(Row { node: row.node.clone(), marks: row.marks.clone(), first_cell, ..*row });
            if size_of_val(self.cells.as_slice()) + self.text.len() >= COPIED_BYTES {
                break;
            }
        }
        self.rows.len()
    }

    /// Empties the buffer and keeps its memory, so that the next records find it warm.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.cells.clear();
        self.text.clear();
        self.shapes.clear();
        self.bytes = 0;
        self.by_hash.clear();
        self.last_shape = 0;
    }

    #[cold]
    fn find_or_add_shape(&mut self, fields: &[(&str, Scalar)]) -> Result<u32, RecordError> {
        let hash = hash_keys(fields);
        let mut candidate = self.by_hash.get(&hash).copied();
        let newest = candidate;
        while let Some(index) = candidate {
            let Some(shape) = self.shapes.get(index as usize) else { break };
            if shape.matches(fields) {
                return Ok(index);
            }
            candidate = shape.next;
        }
        check_keys(fields)?;
        let mut shape = Shape { text: String::new(), ends: Vec::with_capacity(fields.len()), next: newest };
        shape.text.reserve_exact(fields.iter().map(|(key, _)| key.len()).sum());
        for (key, _) in fields {
            shape.text.push_str(key);
            shape.ends.push(to_u32(shape.text.len()));
        }
        self.bytes += size_of::<Shape>() + shape.text.len() + size_of_val(shape.ends.as_slice());
        let index = to_u32(self.shapes.len());
        self.shapes.push(Arc::new(shape));
        self.by_hash.insert(hash, index);
        Ok(index)
    }
}

/// The queue's limit on bytes keeps every length below `u32::MAX`.
#[inline]
pub(crate) fn to_u32(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Refuses what [`Rows::push`] would refuse.
///
/// # Errors
/// A key or a text that cannot be recorded.
pub(crate) fn check_fields(fields: &[(&str, Scalar)]) -> Result<(), RecordError> {
    check_keys(fields)?;
    for (key, value) in fields {
        if let Scalar::Text(text) = value
            && text.len() > MAX_TEXT_BYTES
        {
            return Err(RecordError::Text { key: (*key).to_owned(), bytes: text.len() });
        }
    }
    Ok(())
}

fn check_keys(fields: &[(&str, Scalar)]) -> Result<(), RecordError> {
    let mut seen = HashSet::with_capacity(fields.len());
    for (key, _) in fields {
        FieldName::new(key)?;
        if !seen.insert(*key) {
            return Err(RecordError::Duplicate { key: (*key).to_owned() });
        }
    }
    Ok(())
}

/// A cheap hash of a list of keys: its length, and the length and both ends of each key. What it takes for
/// equal is compared in full afterwards.
fn hash_keys(fields: &[(&str, Scalar)]) -> u64 {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = fields.len() as u64;
    let mut mix = |word: u64| hash = (hash.rotate_left(23) ^ word).wrapping_mul(MIX);
    for (key, _) in fields {
        let bytes = key.as_bytes();
        mix(bytes.len() as u64);
        if let (Some(head), Some(tail)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
            mix(u64::from_le_bytes(*head));
            mix(u64::from_le_bytes(*tail));
        } else {
            mix(bytes.iter().fold(0, |word, &byte| (word << 8) | u64::from(byte)));
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn node() -> Node {
        Node::new("a", "b", 7).unwrap()
    }

    fn push(rows: &mut Rows, fields: &[(&str, Scalar)]) -> Result<(), RecordError> {
        rows.push(&node(), 1, fields, None)
    }

    #[test]
    fn store_1_a_refused_record_leaves_the_buffer_as_it_was() {
        let mut rows = Rows::default();
        push(&mut rows, &[("a", 1.0.into()), ("b", "text".into())]).unwrap();
        let (bytes, cells) = (rows.text.len(), rows.cells.len());
        let long = "x".repeat(MAX_TEXT_BYTES + 1);
        let long_key = "k".repeat(1025);
        let refused: [&[(&str, Scalar)]; 5] = [
            &[("good", 1.0.into()), ("_x_seq", 1.into())],
            &[("good", 1.0.into()), ("", 1.into())],
            &[("a::text", 1.into())],
            &[("a", 1.into()), ("a", 2.into())],
            &[(&long_key, 1.into())],
        ];
        for fields in refused {
            push(&mut rows, fields).unwrap_err();
            assert_eq!((rows.text.len(), rows.cells.len(), rows.len()), (bytes, cells, 1), "{fields:?}");
        }
        let error = push(&mut rows, &[("a", 2.0.into()), ("b", long.into())]).unwrap_err();
        assert!(matches!(error, RecordError::Text { key, .. } if key == "b"));
        assert_eq!((rows.text.len(), rows.cells.len(), rows.len()), (bytes, cells, 1));
    }

    #[test]
    fn records_come_back_as_they_were_given() {
        let mut rows = Rows::default();
        let a: Vec<(&str, Scalar)> = vec![("k/a", 1.5.into()), ("k/b", Scalar::Null), ("k/c", "t".into())];
        let b: Vec<(&str, Scalar)> = vec![("k/b", true.into()), ("k/a", 3.into())];
        for fields in [&a, &b, &a, &b, &vec![]] {
            push(&mut rows, fields).unwrap();
        }
        assert_eq!(rows.shapes().len(), 3);
        let back = |index: usize| -> Vec<(String, Scalar)> {
            let row = &rows.rows()[index];
            let keys = rows.shapes()[row.shape as usize].keys();
            keys.zip(rows.cells(row))
                .map(|(key, cell)| {
                    let value = match *cell {
                        Cell::Null => Scalar::Null,
                        Cell::Bool(value) => value.into(),
                        Cell::Int(value) => value.into(),
                        Cell::Float(value) => value.into(),
                        Cell::Text { start, bytes } => rows.text(start, bytes).into(),
                    };
                    (key.to_owned(), value)
                })
                .collect()
        };
        let owned = |fields: &[(&str, Scalar)]| -> Vec<(String, Scalar)> {
            fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
        };
        for (index, fields) in [&a, &b, &a, &b, &vec![]].into_iter().enumerate() {
            assert_eq!(back(index), owned(fields));
        }
    }

    #[test]
    fn what_is_copied_a_few_records_at_a_time_is_all_of_it() {
        let mut rows = Rows::default();
        let wide: Vec<String> = (0..1_000).map(|key| format!("wide/{key}")).collect();
        for number in 0_i64..100 {
            let text = format!("text {number}");
            push(&mut rows, &[("a", number.into()), ("b", text.as_str().into())]).unwrap();
            if number % 10 == 0 {
                let fields: Vec<(&str, Scalar)> =
                    wide.iter().map(|key| (key.as_str(), number.into())).collect();
                push(&mut rows, &fields).unwrap();
            }
        }
        let told = |rows: &Rows, row: &Row| {
            let shape = &rows.shapes()[row.shape as usize];
            let cells = rows.cells(row).iter().map(|cell| match *cell {
                Cell::Text { start, bytes } => rows.text(start, bytes).to_owned(),
                cell => format!("{cell:?}"),
            });
            shape.keys().map(str::to_owned).zip(cells).collect::<Vec<_>>()
        };
        let (mut copy, mut done, mut blocks) = (Rows::default(), 0, 0);
        while done < rows.len() {
            let copied = copy.copy_some(&rows, done);
            assert!((1..=COPIED_ROWS).contains(&copied), "{copied}");
            for (index, row) in copy.rows().iter().enumerate() {
                let original = &rows.rows()[done + index];
                assert_eq!((row.shape, told(&copy, row)), (original.shape, told(&rows, original)));
            }
            (done, blocks) = (done + copied, blocks + 1);
        }
        assert!(blocks >= 10, "a wide record ends a block: {blocks}");
        assert_eq!(copy.copy_some(&rows, done), 0);
    }

    #[test]
    fn shapes_that_share_a_hash_stay_apart() {
        let mut rows = Rows::default();
        // Equal length, equal first and last eight bytes.
        push(&mut rows, &[("12345678-a-12345678", 1.into())]).unwrap();
        push(&mut rows, &[("12345678-b-12345678", 2.into())]).unwrap();
        push(&mut rows, &[("12345678-a-12345678", 3.into())]).unwrap();
        assert_eq!(rows.shapes().len(), 2);
        assert_eq!(rows.rows().iter().map(|row| row.shape).collect::<Vec<_>>(), [0, 1, 0]);
    }
}
