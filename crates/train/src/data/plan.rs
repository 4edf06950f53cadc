//! Which examples belong to a position.

use std::sync::Arc;

use super::batch::Batch;
use super::fingerprint::TextFingerprint;
use super::order::{Examples, Order};
use super::text::{Split, TextData};

/// The batch plan of training: a pure function of the fingerprint and the position.
#[derive(Clone, Debug)]
pub(crate) struct TrainPlan {
    examples: Examples,
    order: Order,
    tokens: u64,
    context: u64,
    rows: u64,
}

/// A run of tokens: `len` inputs from `start`, and one more token as the last target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) start: u64,
    pub(crate) len: u64,
}

impl TrainPlan {
    /// Plans over the training part of a text that holds at least one example.
    pub(crate) fn new(fingerprint: &TextFingerprint) -> Self {
        let tokens = fingerprint.train_tokens;
        let context = fingerprint.context;
        let (order, windows) = if fingerprint.order == "random" {
            (Order::Random, tokens.saturating_sub(context))
        } else {
            (Order::Shuffled, tokens.saturating_sub(1).div_ceil(context))
        };
        Self {
            examples: Examples::new(&fingerprint.order_key(), order, windows),
            order,
            tokens,
            context,
            rows: fingerprint.global_batch(),
        }
    }

    /// Returns the window of one example of the stream.
    pub(crate) fn window(&self, example: u64) -> Window {
        let window = self.examples.window(example);
        match self.order {
            Order::Random => Window { start: window, len: self.context },
            Order::Shuffled => {
                let start = window * self.context;
                Window { start, len: self.context.min(self.tokens - 1 - start) }
            }
        }
    }

    /// Returns the windows of a position.
    pub(crate) fn windows(&self, position: u64) -> Vec<Window> {
        let first = position.wrapping_mul(self.rows);
        (first..first.wrapping_add(self.rows)).map(|example| self.window(example)).collect()
    }
}

/// The fixed plan of validation: windows spread evenly over the validation part, the same ones
/// each time, so that two validations differ by the weights alone.
#[derive(Clone, Debug)]
pub(crate) struct ValidationPlan {
    batches: Vec<Vec<Window>>,
}

impl ValidationPlan {
    /// Plans at most `batches * rows` windows; fewer where the part holds fewer that do not
    /// overlap.
    pub(crate) fn new(tokens: u64, context: u64, rows: u64, batches: u64) -> Self {
        let room = tokens.saturating_sub(1);
        let disjoint = (room / context).max(1);
        let wanted = rows.saturating_mul(batches).min(disjoint);
        let last = room.saturating_sub(context);
        let windows: Vec<Window> = (0..wanted)
            .map(|index| {
                let start = if wanted < 2 {
                    0
                } else {
                    let wide = u128::from(last) * u128::from(index) / u128::from(wanted - 1);
                    wide as u64
                };
                Window { start, len: context }
            })
            .collect();
        let rows = usize::try_from(rows).unwrap_or(usize::MAX).max(1);
        Self { batches: windows.chunks(rows).map(<[Window]>::to_vec).collect() }
    }

    /// Returns the batches in order.
    pub(crate) fn batches(&self) -> &[Vec<Window>] {
        &self.batches
    }
}

/// Reads windows into a batch.
pub(crate) fn gather(
    data: &Arc<TextData>,
    split: Split,
    position: u64,
    windows: &[Window],
    context: u64,
) -> Batch {
    let context = context as usize;
    let mut batch = Batch {
        position,
        rows: windows.len(),
        context,
        tokens: Vec::with_capacity(windows.len() * context),
        targets: Vec::with_capacity(windows.len() * context),
        weights: None,
    };
    let mut weights = Vec::new();
    let mut row = Vec::with_capacity(context + 1);
    for (index, window) in windows.iter().enumerate() {
        row.clear();
        let len = window.len as usize;
        data.read(split, window.start, len + 1, &mut row);
        batch.tokens.extend_from_slice(&row[..len]);
        batch.targets.extend_from_slice(&row[1..]);
        if len < context || !weights.is_empty() {
            weights.resize(index * context, 1.0);
            weights.resize(index * context + len, 1.0);
            weights.resize((index + 1) * context, 0.0);
        }
        batch.tokens.resize((index + 1) * context, 0);
        batch.targets.resize((index + 1) * context, 0);
    }
    batch.weights = (!weights.is_empty()).then_some(weights);
    batch
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
