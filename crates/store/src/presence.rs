//! Which row groups of a part hold a value of a column, so that a key which few records have costs what those cost.
//!
//! Parquet's own statistics would say it with the smallest and the largest value of every column of every group, which
//! makes wide footers slow to read, and which no fold can use: the value that wins may stand in another part.

use std::collections::{BTreeMap, HashMap};

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::Schema;

/// Collects what the footer says, while rows are written.
#[derive(Debug)]
pub(crate) struct Presence {
    group_rows: usize,
    rows: usize,
    /// For each column the groups that hold a value, rising.
    held: Vec<Vec<usize>>,
}

impl Presence {
    /// For row groups of this many rows.
    pub(crate) fn new(schema: &Schema, group_rows: usize) -> Presence {
        Presence { group_rows: group_rows.max(1), rows: 0, held: vec![Vec::new(); schema.fields().len()] }
    }

    /// Looks at the next rows.
    pub(crate) fn add(&mut self, batch: &RecordBatch) {
        let mut start = 0;
        while start < batch.num_rows() {
            let group = self.rows / self.group_rows;
            let count = (self.group_rows - self.rows % self.group_rows).min(batch.num_rows() - start);
            for (column, held) in batch.columns().iter().zip(&mut self.held) {
                if held.last() != Some(&group) && column.slice(start, count).null_count() < count {
                    held.push(group);
                }
            }
            start += count;
            self.rows += count;
        }
    }

    /// The number of row groups so far.
    fn groups(&self) -> usize {
        self.rows.div_ceil(self.group_rows)
    }

    /// Whether row groups of these numbers of rows were counted with.
    pub(crate) fn is_of(&self, mut groups: impl ExactSizeIterator<Item = i64>) -> bool {
        let last = groups.len().saturating_sub(1);
        groups.len() == self.groups()
            && groups.by_ref().take(last).all(|rows| usize::try_from(rows) == Ok(self.group_rows))
    }

    /// The value of the footer's key: the columns that some group has no value of, each with the groups that have one. `None`
    /// where there are no such columns.
    pub(crate) fn to_text(&self, schema: &Schema) -> Option<String> {
        let columns = schema.fields().iter().zip(&self.held);
        let sparse = columns.filter(|(_, held)| held.len() < self.groups());
        let sparse: BTreeMap<&str, &[usize]> =
            sparse.map(|(field, held)| (field.name().as_str(), held.as_slice())).collect();
        (!sparse.is_empty()).then(|| serde_json::json!(sparse).to_string())
    }
}

/// For columns that are not in every row group of a part: the groups that hold a value, rising.
pub(crate) type Sparse = HashMap<Box<str>, Box<[usize]>>;

/// Reads the value of the footer's key; `None` when it is none such.
pub(crate) fn sparse(text: &str) -> Option<Sparse> {
    let mut sparse: Sparse = serde_json::from_str(text).ok()?;
    sparse.values_mut().for_each(|groups| groups.sort_unstable());
    Some(sparse)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    fn batch(columns: [&[Option<i64>]; 3]) -> RecordBatch {
        let column = |values: &[Option<i64>]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
        let [all, some, none] = columns;
        let columns =
            [("all", column(all), true), ("some", column(some), true), ("none", column(none), true)];
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    }

    #[test]
    fn columns_are_told_that_some_row_groups_lack_whatever_the_batches() {
        let one = batch([&[Some(1), Some(2), Some(3)], &[None, None, None], &[None, None, None]]);
        let two = batch([&[Some(4), None, Some(6), Some(7)], &[None, Some(5), None, None], &[None; 4]]);
        let whole = arrow::compute::concat_batches(&one.schema(), [&one, &two]).unwrap();
        for batches in [vec![one, two], vec![whole]] {
            let schema = batches[0].schema();
            // Rows 0 1 | 2 3 | 4 5 | 6: the only value of `some` is in row 4.
            let mut presence = Presence::new(&schema, 2);
            batches.iter().for_each(|batch| presence.add(batch));
            let text = presence.to_text(&schema).unwrap();
            assert_eq!(text, r#"{"none":[],"some":[2]}"#);
            let back = sparse(&text).unwrap();
            assert_eq!((back.len(), &*back["some"], &*back["none"]), (2, &[2][..], &[][..]));
            assert!(presence.is_of([2, 2, 2, 1].into_iter()));
            assert!(!presence.is_of([2, 2, 3].into_iter()) && !presence.is_of([2, 3, 1, 1].into_iter()));
        }
    }

    #[test]
    fn nothing_is_told_where_every_row_group_has_a_value() {
        let batch = batch([&[Some(1), None], &[None, Some(1)], &[Some(1), Some(2)]]);
        let mut presence = Presence::new(&batch.schema(), 2);
        assert_eq!(presence.to_text(&batch.schema()), None);
        presence.add(&batch);
        assert_eq!(presence.to_text(&batch.schema()), None);
        assert!(sparse("[]").is_none() && sparse(r#"{"a":[-1]}"#).is_none());
    }
}
