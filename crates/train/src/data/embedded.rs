//! The text that every binary carries, so that a first run needs no file.

/// Sources of this crate, one after the other.
pub(crate) const EMBEDDED: &str = concat!(
    include_str!("../experiment.rs"),
    include_str!("../gpt/mod.rs"),
    include_str!("../gpt/model.rs"),
    include_str!("../learner.rs"),
    include_str!("../schema.rs"),
    include_str!("../settings.rs"),
    include_str!("../weights.rs"),
    include_str!("../moments.rs"),
    include_str!("batch.rs"),
    include_str!("order.rs"),
    include_str!("plan.rs"),
    include_str!("text.rs"),
    include_str!("vocabulary.rs"),
);
