//! What a run learns from, whatever it is made of.

use std::fmt::Debug;
use std::sync::Arc;

use super::batch::AnyBatch;
use super::fingerprint::{Fingerprint, TextFingerprint};
use super::plan::{TrainPlan, ValidationPlan, gather};
use super::text::{Split, TextData};
use super::vocabulary::Vocabulary;

/// Examples in an order that positions number, and others that are only evaluated.
pub(crate) trait Data: Debug + Send + Sync {
    /// What the batches are a function of, with their position.
    fn fingerprint(&self) -> &Fingerprint;

    /// The batch of a position of the stream (TRAIN-2).
    fn batch(&self, position: u64) -> AnyBatch;

    /// The batches of every validation.
    fn validation(&self) -> Vec<AnyBatch>;

    /// The vocabulary of a text.
    fn vocabulary(&self) -> Option<&Arc<Vocabulary>>;
}

/// A text, cut into examples.
#[derive(Debug)]
pub(crate) struct TextStream {
    data: Arc<TextData>,
    fingerprint: Fingerprint,
    plan: TrainPlan,
    context: u64,
    validation: ValidationPlan,
}

impl TextStream {
    /// The stream that `fingerprint` describes, with so many batches of a validation.
    pub(crate) fn new(data: Arc<TextData>, fingerprint: TextFingerprint, eval_batches: u64) -> Self {
        let (context, rows) = (fingerprint.context, fingerprint.batch_size);
        let validation = ValidationPlan::new(data.split_len(Split::Validation), context, rows, eval_batches);
        Self {
            plan: TrainPlan::new(&fingerprint),
            fingerprint: Fingerprint::Text(fingerprint),
            data,
            context,
            validation,
        }
    }
}

impl Data for TextStream {
    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    fn batch(&self, position: u64) -> AnyBatch {
        let windows = self.plan.windows(position);
        AnyBatch::Tokens(gather(&self.data, Split::Train, position, &windows, self.context))
    }

    fn validation(&self) -> Vec<AnyBatch> {
        let gather = |windows: &Vec<_>| {
            AnyBatch::Tokens(gather(&self.data, Split::Validation, 0, windows, self.context))
        };
        self.validation.batches().iter().map(gather).collect()
    }

    fn vocabulary(&self) -> Option<&Arc<Vocabulary>> {
        Some(self.data.shared_vocabulary())
    }
}
