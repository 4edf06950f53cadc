#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use waycairn_durable::Digest;

use super::*;

fn fingerprint(tokens: u64, order: &str, context: u64, batch: (u64, u64), seed: u64) -> TextFingerprint {
    TextFingerprint {
        bytes: tokens,
        content_sha256: Digest::of(b"content"),
        tokenizer_sha256: Digest::of(b"tokenizer"),
        tokens,
        train_tokens: tokens,
        seed,
        order: order.to_owned(),
        context,
        batch_size: batch.0,
        accumulate: batch.1,
    }
}

proptest! {
    /// Every target of the text is trained on exactly once an epoch, the short last window too.
    #[test]
    fn shuffled_covers_every_target_once_an_epoch(tokens in 2_u64..600, context in 1_u64..40, seed in any::<u64>(), epoch in 0_u64..5) {
        let plan = TrainPlan::new(&fingerprint(tokens, "shuffled", context, (1, 1), seed));
        let windows = (tokens - 1).div_ceil(context);
        let mut targets = BTreeMap::new();
        for example in epoch * windows..(epoch + 1) * windows {
            let window = plan.window(example);
            prop_assert!(window.len >= 1 && window.len <= context);
            for target in window.start + 1..=window.start + window.len {
                *targets.entry(target).or_insert(0) += 1;
            }
        }
        prop_assert!(targets.values().all(|count| *count == 1));
        prop_assert_eq!(targets.len() as u64, tokens - 1);
    }

    #[test]
    fn random_windows_stay_inside(tokens in 2_u64..10_000, seed in any::<u64>(), example in any::<u64>()) {
        let context = (tokens - 1).min(16);
        let plan = TrainPlan::new(&fingerprint(tokens, "random", context, (1, 1), seed));
        let window = plan.window(example);
        prop_assert_eq!(window.len, context);
        prop_assert!(window.start + context < tokens);
    }

    /// The same examples in the same order, however they are cut into batches.
    #[test]
    fn the_stream_does_not_depend_on_the_cut(order in prop_oneof![Just("shuffled"), Just("random")], seed in any::<u64>(), position in 0_u64..1000) {
        let whole = TrainPlan::new(&fingerprint(500, order, 16, (12, 1), seed));
        let cut = TrainPlan::new(&fingerprint(500, order, 16, (2, 3), seed));
        let parts: Vec<Window> = [2 * position, 2 * position + 1].into_iter().flat_map(|position| cut.windows(position)).collect();
        prop_assert_eq!(whole.windows(position), parts);
    }

    #[test]
    fn validation_windows_do_not_overlap(tokens in 2_u64..5000, context in 1_u64..64, rows in 1_u64..9, batches in 1_u64..9) {
        prop_assume!(tokens > context);
        let plan = ValidationPlan::new(tokens, context, rows, batches);
        let windows: Vec<Window> = plan.batches().iter().flatten().copied().collect();
        prop_assert!(!windows.is_empty() && windows.len() as u64 <= rows * batches);
        for pair in windows.windows(2) {
            prop_assert!(pair[0].start + context <= pair[1].start);
        }
        prop_assert!(windows.iter().all(|window| window.start + context < tokens));
    }
}

/// F25: whatever changes which examples a step sees is in the fingerprint, which every checkpoint saves, and a replay
/// that finds another value is refused and names it.
#[test]
fn f25_what_changes_the_order_is_recorded_and_a_replay_with_another_value_is_refused() {
    use crate::data::Whole;

    let base = fingerprint(5_000, "shuffled", 16, (4, 2), 7);
    let stream = |fingerprint: &TextFingerprint| {
        let plan = TrainPlan::new(fingerprint);
        (0..20).map(|position| plan.windows(position)).collect::<Vec<_>>()
    };
    let change = |change: &dyn Fn(&mut TextFingerprint)| {
        let mut changed = base.clone();
        change(&mut changed);
        changed
    };
    let changes = [
        ("seed was 7, is 8", change(&|one| one.seed = 8)),
        ("data.order was shuffled, is random", change(&|one| one.order = "random".to_owned())),
        ("data.context was 16, is 17", change(&|one| one.context = 17)),
        ("batch_size was 4, is 3", change(&|one| one.batch_size = 3)),
        ("accumulate was 2, is 1", change(&|one| one.accumulate = 1)),
        ("the training part was 5000, is 4500", change(&|one| one.train_tokens = 4_500)),
        ("the text's SHA-256 was", change(&|one| one.content_sha256 = Digest::of(b"other"))),
        ("the vocabulary's SHA-256 was", change(&|one| one.tokenizer_sha256 = Digest::of(b"other"))),
    ];
    for (says, changed) in changes {
        assert_ne!(stream(&changed), stream(&base), "{says}");
        let error = changed.check(&base, Whole::Yes).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    assert_eq!(stream(&base.clone()), stream(&base));
    base.check(&base.clone(), Whole::Yes).unwrap();
}
