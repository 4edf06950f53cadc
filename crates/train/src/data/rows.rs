//! Rows of numbers, which an experiment draws itself, in epochs.

use std::sync::{Arc, Mutex, PoisonError};

use super::batch::{AnyBatch, Column, RowBatch};
use super::fingerprint::{Fingerprint, RowFingerprint};
use super::stream::Data;
use super::vocabulary::Vocabulary;

/// Rows to learn from, and rows that are only evaluated; both have the same columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// What is trained on.
    pub train: Vec<Column>,
    /// What each validation is of.
    pub validation: Vec<Column>,
}

/// The order of the rows in one epoch: each of `0..rows` once.
pub(crate) type EpochOrder = Arc<dyn Fn(u64) -> Vec<u32> + Send + Sync>;

/// The rows of a run in epochs: each has every row once, in an order of its own, cut into batches; the last of an epoch
/// may be smaller.
pub(crate) struct RowStream {
    rows: Rows,
    fingerprint: Fingerprint,
    count: usize,
    batch_size: usize,
    evaluation_batch: usize,
    order: EpochOrder,
    /// The epoch that was asked for last, and its order.
    last: Mutex<Option<(u64, Arc<Vec<u32>>)>>,
}

impl RowStream {
    pub(crate) fn new(
        rows: Rows,
        fingerprint: RowFingerprint,
        evaluation_batch: usize,
        order: EpochOrder,
    ) -> Self {
        let count = rows.train.first().map_or(0, Column::rows);
        let batch_size = usize::try_from(fingerprint.batch_size).unwrap_or(usize::MAX).max(1);
        let fingerprint = Fingerprint::Rows(fingerprint);
        Self { rows, fingerprint, count, batch_size, evaluation_batch, order, last: Mutex::new(None) }
    }

    fn epoch(&self, epoch: u64) -> Arc<Vec<u32>> {
        // An order is whole before it is stored, so a poisoned lock still holds one.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match last.as_ref() {
            Some((known, order)) if *known == epoch => Arc::clone(order),
            _ => {
                let order = Arc::new((self.order)(epoch));
                *last = Some((epoch, Arc::clone(&order)));
                order
            }
        }
    }
}

/// Steps of one epoch.
pub(crate) fn epoch_steps(rows: u64, batch_size: u64) -> u64 {
    rows.div_ceil(batch_size.max(1)).max(1)
}

impl Data for RowStream {
    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    fn batch(&self, position: u64) -> AnyBatch {
        let steps = epoch_steps(self.count as u64, self.batch_size as u64);
        let order = self.epoch(position / steps);
        let from = (position % steps) as usize * self.batch_size;
        let rows = &order[from.min(order.len())..from.saturating_add(self.batch_size).min(order.len())];
        let columns = self.rows.train.iter().map(|column| column.gather(rows)).collect();
        AnyBatch::Rows(RowBatch { position, rows: rows.len(), columns })
    }

    fn validation(&self) -> Vec<AnyBatch> {
        let count = self.rows.validation.first().map_or(0, Column::rows);
        let batch = |from: usize| {
            let range = from..from.saturating_add(self.evaluation_batch).min(count);
            let columns = self.rows.validation.iter().map(|column| column.range(range.clone())).collect();
            AnyBatch::Rows(RowBatch { position: 0, rows: range.len(), columns })
        };
        (0..count).step_by(self.evaluation_batch.max(1)).map(batch).collect()
    }

    fn vocabulary(&self) -> Option<&Arc<Vocabulary>> {
        None
    }
}

impl std::fmt::Debug for RowStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowStream").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use waycairn_durable::Digest;

    use super::*;

    fn stream(rows: usize, batch_size: u64) -> RowStream {
        let columns = |rows: usize| {
            vec![
                Column { name: "x", width: 2, values: (0..2 * rows).map(|value| value as f32).collect() },
                Column { name: "y", width: 0, values: (0..rows).map(|value| value as f32).collect() },
            ]
        };
        let fingerprint = RowFingerprint { recipe_sha256: Digest::of(b""), rows: rows as u64, batch_size };
        let order: EpochOrder = Arc::new(move |epoch| {
            let mut order: Vec<u32> = (0..rows as u32).collect();
            order.rotate_left(epoch as usize % rows);
            order
        });
        RowStream::new(Rows { train: columns(rows), validation: columns(5) }, fingerprint, 2, order)
    }

    fn rows(batch: &AnyBatch) -> Vec<f32> {
        let AnyBatch::Rows(batch) = batch else { panic!("rows") };
        let (x, y) = (batch.column("x").unwrap(), batch.column("y").unwrap());
        assert_eq!((x.rows(), y.rows(), x.shape(batch.rows)), (batch.rows, batch.rows, vec![batch.rows, 2]));
        assert!(x.values.chunks(2).zip(&y.values).all(|(x, y)| x == [2.0 * y, 2.0 * y + 1.0]));
        y.values.clone()
    }

    #[test]
    fn train_2_an_epoch_has_each_row_once_and_its_last_batch_is_what_is_left() {
        let stream = stream(7, 3);
        for epoch in [0, 1, 5] {
            let batches: Vec<AnyBatch> = (0..3).map(|step| stream.batch(3 * epoch + step)).collect();
            assert_eq!(batches.iter().map(AnyBatch::counted).collect::<Vec<_>>(), [3, 3, 1]);
            let mut seen: Vec<f32> = batches.iter().flat_map(rows).collect();
            assert_eq!(seen[0], (epoch % 7) as f32);
            seen.sort_by(f32::total_cmp);
            assert_eq!(seen, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        }
        // Asking back and forth changes nothing.
        assert_eq!(stream.batch(4), stream.batch(4));
        let later = stream.batch(16).sha256();
        stream.batch(0);
        assert_eq!(stream.batch(16).sha256(), later);
    }

    #[test]
    fn a_validation_is_the_whole_split_and_parts_of_a_batch_are_all_of_it() {
        let stream = stream(7, 3);
        let validation = stream.validation();
        assert_eq!(validation.iter().flat_map(rows).collect::<Vec<_>>(), [0.0, 1.0, 2.0, 3.0, 4.0]);
        let batch = stream.batch(0);
        for parts in 1..5 {
            let all: Vec<f32> = (0..parts).flat_map(|part| rows(&batch.micro(part, parts))).collect();
            assert_eq!(all, rows(&batch));
        }
    }

    #[test]
    fn steps_of_an_epoch_of_the_study_are_those_of_its_page() {
        assert_eq!(epoch_steps(70_000, 128), 547);
        assert_eq!(5 * epoch_steps(70_000, 128), 2_735);
        assert_eq!(70_000 % 128, 112);
    }
}
