//! Which window an example is: a keyed function of the example's number alone.
//!
//! Both orders answer any example in constant time and memory. `random` reads one word pair of a
//! ChaCha stream at the example's own place. `shuffled` must visit every window once an epoch, so
//! it applies a permutation of the window numbers: a Feistel network over the smallest even number
//! of bits that holds them, walked until the result is a window again (at most four walks on
//! average). A stored permutation would need eight bytes a window and a pass over all of them at
//! each jump to another epoch; replaying a batch of a past node is exactly such a jump.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use waycairn_durable::Digest;

const ROUNDS: usize = 8;

/// How examples follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Every window once an epoch, in an order that differs between epochs.
    Shuffled,
    /// Each example is drawn from all windows.
    Random,
}

/// A stream of window numbers.
#[derive(Clone, Debug)]
pub(crate) struct Examples {
    order: Order,
    windows: u64,
    generator: ChaCha8Rng,
}

impl Examples {
    /// `windows` is at least 1.
    pub(crate) fn new(key: &Digest, order: Order, windows: u64) -> Self {
        Self { order, windows: windows.max(1), generator: ChaCha8Rng::from_seed(*key.as_bytes()) }
    }

    /// Returns the window of an example, below the number of windows.
    pub(crate) fn window(&self, example: u64) -> u64 {
        match self.order {
            Order::Random => {
                let mut generator = self.generator.clone();
                generator.set_stream(0);
                generator.set_word_pos(u128::from(example) * 2);
                let wide = u128::from(generator.next_u64()) * u128::from(self.windows);
                (wide >> 64) as u64
            }
            Order::Shuffled => {
                let epoch = example / self.windows;
                Permutation::new(&self.generator, epoch, self.windows).apply(example % self.windows)
            }
        }
    }
}

/// A keyed permutation of `0..count`.
struct Permutation {
    keys: [u64; ROUNDS],
    half_bits: u32,
    count: u64,
}

impl Permutation {
    fn new(generator: &ChaCha8Rng, epoch: u64, count: u64) -> Self {
        let mut generator = generator.clone();
        // Stream 0 belongs to `random`.
        generator.set_stream(epoch.wrapping_add(1));
        generator.set_word_pos(0);
        let mut keys = [0; ROUNDS];
        for key in &mut keys {
            *key = generator.next_u64();
        }
        let bits = u64::BITS - (count - 1).leading_zeros();
        Self { keys, half_bits: bits.div_ceil(2).max(1), count }
    }

    fn apply(&self, index: u64) -> u64 {
        let mut value = index;
        loop {
            value = self.network(value);
            // A permutation of the larger range, walked from inside, comes back inside.
            if value < self.count {
                return value;
            }
        }
    }

    fn network(&self, value: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let mut left = (value >> self.half_bits) & mask;
        let mut right = value & mask;
        for key in self.keys {
            let next = left ^ (mix(right ^ key) & mask);
            left = right;
            right = next;
        }
        (left << self.half_bits) | right
    }
}

/// A bijective 64-bit mixer: multiplications and shifts that let every bit reach the low ones.
fn mix(mut value: u64) -> u64 {
    for constant in [0xbf58_476d_1ce4_e5b9_u64, 0x94d0_49bb_1331_11eb] {
        value ^= value >> 31;
        value = value.wrapping_mul(constant);
    }
    value ^ (value >> 29)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_epoch_visits_every_window_once(seed in any::<u64>(), windows in 1_u64..3000, epoch in 0_u64..1 << 40) {
            let examples = Examples::new(&Digest::of(&seed.to_le_bytes()), Order::Shuffled, windows);
            let seen: BTreeSet<u64> = (0..windows).map(|index| examples.window(epoch * windows + index)).collect();
            prop_assert_eq!(seen.len() as u64, windows);
            prop_assert!(seen.iter().all(|window| *window < windows));
        }

        #[test]
        fn a_random_window_is_in_range_and_needs_no_history(seed in any::<u64>(), windows in 1_u64..u64::MAX, example in any::<u64>()) {
            let examples = Examples::new(&Digest::of(&seed.to_le_bytes()), Order::Random, windows);
            let window = examples.window(example);
            prop_assert!(window < windows);
            examples.window(example.wrapping_add(77));
            prop_assert_eq!(examples.window(example), window);
        }
    }

    #[test]
    fn epochs_and_seeds_differ() {
        let stream = |seed: u64, from: u64| -> Vec<u64> {
            let examples = Examples::new(&Digest::of(&seed.to_le_bytes()), Order::Shuffled, 1000);
            (from..from + 50).map(|example| examples.window(example)).collect()
        };
        assert_ne!(stream(1, 0), stream(1, 1000));
        assert_ne!(stream(1, 0), stream(2, 0));
        assert_eq!(stream(1, 500), stream(1, 500));
    }

    #[test]
    fn random_windows_are_spread_evenly() {
        let examples = Examples::new(&Digest::of(b"even"), Order::Random, 10);
        let mut counts = [0_u32; 10];
        for example in 0..10_000 {
            counts[examples.window(example) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
