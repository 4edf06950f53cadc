//! Named random streams.

use std::convert::Infallible;
use std::fmt;

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng, TryRng};
use sha2::{Digest, Sha256};

/// The first line of what is digested. Another way to make streams gets another number.
const FORM: &str = "waycairn stream 1";

/// The random stream of a name: the same numbers for the same seed, name and member, on every machine, in every plugin and
/// host of this major version.
///
/// One name for each array keeps arrays independent: to change the size of one shifts no other. With a member the members
/// of a configuration draw apart; without one they share.
///
/// It is `ChaCha12`, seeded with the SHA-256 of the text `waycairn stream 1`, seed, name and member (empty without one),
/// each on a line of its own.
///
/// ```
/// use waycairn_analysis_api::rand_core::Rng;
/// use waycairn_analysis_api::stream;
///
/// let mut truths = stream(2026, "truth-design", None);
/// let first = truths.next_u64();
/// assert_eq!(stream(2026, "truth-design", None).next_u64(), first);
/// assert_ne!(stream(2026, "truth-design", Some("uniform")).next_u64(), first);
/// assert!((0.0..1.0).contains(&truths.uniform()));
/// ```
#[must_use]
pub fn stream(seed: u64, name: &str, member: Option<&str>) -> Stream {
    let text = format!("{FORM}\n{seed}\n{name}\n{}", member.unwrap_or_default());
    Stream { generator: ChaCha12Rng::from_seed(Sha256::digest(text.as_bytes()).into()) }
}

/// A random stream, made by [`stream`]. It implements the traits of [`rand_core`](crate::rand_core), so distributions of the
/// crate `rand` take it.
#[derive(Clone, PartialEq, Eq)]
pub struct Stream {
    generator: ChaCha12Rng,
}

impl Stream {
    /// A number in `[0, 1)`: one of 2^53 evenly spaced ones, from the upper bits of the next 64.
    pub fn uniform(&mut self) -> f64 {
        const UNIT: f64 = 1.0 / (1_u64 << 53) as f64;
        (self.next_u64() >> 11) as f64 * UNIT
    }

    /// Goes to a position, counted in numbers of 64 bits from the start, so that threads can draw parts of one stream.
    pub fn seek(&mut self, numbers: u64) {
        self.generator.set_word_pos(u128::from(numbers) * 2);
    }
}

impl TryRng for Stream {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.generator.try_next_u32()
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.generator.try_next_u64()
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.generator.try_fill_bytes(bytes)
    }
}

/// Without the state.
impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stream")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(mut stream: Stream) -> [u64; 3] {
        std::array::from_fn(|_| stream.next_u64())
    }

    #[test]
    fn the_first_numbers_are_pinned() {
        // Computed apart from this crate, from the definitions of SHA-256 and ChaCha.
        assert_eq!(
            first(stream(0, "model", None)),
            [9_915_699_491_737_416_038, 8_948_462_219_979_253_256, 5_524_051_479_806_391_493]
        );
        assert_eq!(
            first(stream(2026, "training-train", Some("uniform"))),
            [4_240_342_699_134_232_139, 12_544_141_298_116_183_077, 1_251_922_569_295_232_052]
        );
        let mut bytes = [0; 4];
        stream(0, "model", None).fill_bytes(&mut bytes);
        assert_eq!(bytes, first(stream(0, "model", None))[0].to_le_bytes()[..4]);
    }

    #[test]
    fn seed_name_and_member_each_make_another_stream() {
        let all = [
            first(stream(0, "a", None)),
            first(stream(1, "a", None)),
            first(stream(0, "b", None)),
            first(stream(0, "a", Some("m"))),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(all[..index].iter().all(|other| other != one), "{index}");
        }
    }

    #[test]
    fn a_part_of_a_stream_is_drawn_by_its_position() {
        let mut whole = stream(7, "epoch-3", None);
        let numbers: Vec<u64> = (0..40).map(|_| whole.next_u64()).collect();
        for position in [0, 1, 17, 31, 39] {
            let mut part = stream(7, "epoch-3", None);
            part.seek(position as u64);
            assert_eq!(part.next_u64(), numbers[position]);
        }
        let mean = (0..10_000).map(|_| whole.uniform()).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
    }
}
