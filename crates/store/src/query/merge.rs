//! The fold as a streaming merge over sorted parts.
//!
//! ```text
//!  part A  ---[cursor]--\        rows before the horizon        slots, one a node
//!  part B  ---[cursor]----> step ----------------------> block ------------------> columns
//!  part C   (not open yet)/  \-- horizon: no row that is still to come lies before it
//! ```
//!
//! The parts are sorted by identity, so the rows of one node are near each other in all of them. A step takes
//! from every open part the rows before the *horizon*, the smallest identity that may still come; a part is
//! opened when the merge reaches its first row. The rows of a step get *slots*, one for each node, and a column
//! is then folded into slot arrays part by part: the parts in the order of their priority, where a cell that is
//! set stays. Where parts do not stand in such an order as wholes, their rows are put into it one by one.
//!
//! # Memory
//! For each open part at most two decoded batches of the columns asked for, and one block of slots.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::published::RunKey;
use crate::query::block::Block;
use crate::query::cursor::{Cursor, Taken};
use crate::query::fault::Fault;
use crate::query::plan::{FoldPlan, Key, Limits, PlannedPart};

/// Folds one range of identities, block by block, in the order of the identities.
pub(crate) struct Merge {
    plan: Arc<FoldPlan>,
    limits: Arc<Limits>,
    /// Not open yet, by their first identity; those where it is unknown stand first.
    waiting: VecDeque<(Option<Key>, PlannedPart)>,
    cursors: Vec<Cursor>,
    taken: Vec<Taken>,
}

impl Merge {
    pub(crate) fn new(plan: &Arc<FoldPlan>, range: usize) -> Merge {
        let range = plan.range(range);
        let mut waiting: Vec<(Option<Key>, PlannedPart)> =
            range.parts.into_iter().map(|planned| (planned.low(), planned)).collect();
        waiting.sort_by(|(one, _), (other, _)| one.cmp(other));
        Merge {
            plan: Arc::clone(plan),
            limits: range.limits,
            waiting: waiting.into(),
            cursors: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// The next block; `None` at the end.
    ///
    /// # Errors
    /// Any [`Fault`] of a part; the merge is of no use after one.
    pub(crate) fn next_block(&mut self) -> Result<Option<Block>, Fault> {
        let mut block = Block::new(self.plan.spec.ranks());
        while block.len() < self.plan.block_slots {
            if !self.step()? {
                break;
            }
            block.add(&mut self.taken);
        }
        Ok((block.len() > 0).then_some(block))
    }

    /// Takes the rows before the horizon. Returns false when there are none left.
    fn step(&mut self) -> Result<bool, Fault> {
        loop {
            self.cursors.retain(|cursor| cursor.head().is_some());
            let smallest = self.cursors.iter().filter_map(Cursor::head).min_by(compare);
            let smallest = smallest.map(|(run, seq)| Key { run: Arc::clone(run), seq });
            if self.open_up_to(smallest.as_ref())? {
                continue;
            }
            let Some(smallest) = smallest else { return Ok(false) };
            let next = self.waiting.front().and_then(|(low, _)| low.as_ref()).map(|key| (&key.run, key.seq));
            let borders = self.cursors.iter().filter_map(Cursor::border);
            let horizon =
                borders.chain(next).min_by(compare).map(|(run, seq)| Key { run: Arc::clone(run), seq });
            if horizon.as_ref().is_none_or(|horizon| smallest < *horizon) {
                let limit = horizon.as_ref().map(|key| (&key.run, key.seq));
                for cursor in &mut self.cursors {
                    cursor.take_before(limit, &mut self.taken)?;
                }
                return Ok(true);
            }
            // The rows of one node go on behind what is decoded: look further there.
            for cursor in &mut self.cursors {
                if cursor.border().is_some_and(|(run, seq)| smallest.compare(run, seq).is_eq()) {
                    cursor.load()?;
                }
            }
        }
    }

    /// Opens the parts that may have rows at or before `key`, or the next one if there is no key. Returns
    /// whether there were any.
    fn open_up_to(&mut self, key: Option<&Key>) -> Result<bool, Fault> {
        let mut opened = false;
        while let Some((low, _)) = self.waiting.front() {
            let due = match (low, key) {
                (None, _) => true,
                (Some(low), Some(key)) => low <= key,
                (Some(_), None) => !opened,
            };
            if !due {
                break;
            }
            if let Some((_, planned)) = self.waiting.pop_front() {
                self.cursors.push(Cursor::open(&self.plan, &self.limits, planned)?);
                opened = true;
            }
        }
        Ok(opened)
    }
}

fn compare(one: &(&Arc<RunKey>, i64), other: &(&Arc<RunKey>, i64)) -> std::cmp::Ordering {
    let runs = if Arc::ptr_eq(one.0, other.0) { std::cmp::Ordering::Equal } else { one.0.cmp(other.0) };
    runs.then_with(|| one.1.cmp(&other.1))
}
