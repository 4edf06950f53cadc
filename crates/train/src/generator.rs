//! The device's random generator, reseeded before every use.
//!
//! No generator state outlives a micro-batch: what dropout draws in step 1,000 is a function of
//! (seed, stream, step, micro), so a restored run has nothing to restore. On the CPU backend the
//! generator is one for the whole process, shared by all threads; a [`Lease`] keeps two trainings
//! in one process from drawing out of each other's stream.

use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::tensor::Device;
use waycairn_durable::Digest;

static GENERATOR: Mutex<()> = Mutex::new(());

/// What random numbers are drawn for; each purpose has its own stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Masks of dropout in training.
    Dropout,
}

/// The generator, seeded, until this is dropped.
#[must_use = "the generator is only ours while the lease lives"]
pub(crate) struct Lease {
    _guard: MutexGuard<'static, ()>,
}

/// Seeds the device's generator for one micro-batch and keeps others away from it.
pub(crate) fn lease(device: &Device, seed: u64, stream: Stream, step: u64, micro: u64) -> Lease {
    // The guarded state is in the backend and is overwritten below, so poison means nothing.
    let guard = GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
    device.seed(key(seed, stream, step, micro));
    Lease { _guard: guard }
}

/// Mixes the four numbers into one; SHA-256 keeps neighbouring steps unrelated.
pub(crate) fn key(seed: u64, stream: Stream, step: u64, micro: u64) -> u64 {
    let stream = match stream {
        Stream::Dropout => "dropout",
    };
    let digest = Digest::of(format!("waycairn generator 1\n{seed}\n{stream}\n{step}\n{micro}").as_bytes());
    let bytes = digest.as_bytes();
    (0..8).fold(0, |value, index| value << 8 | u64::from(bytes[index]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_differ_in_each_coordinate() {
        let mut keys = BTreeSet::new();
        for seed in 0..4 {
            for step in 0..4 {
                for micro in 0..4 {
                    keys.insert(key(seed, Stream::Dropout, step, micro));
                }
            }
        }
        assert_eq!(keys.len(), 64);
        assert_eq!(key(1, Stream::Dropout, 2, 3), key(1, Stream::Dropout, 2, 3));
    }
}
