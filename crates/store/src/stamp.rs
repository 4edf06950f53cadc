//! The stamp of a record: who wrote it, in which order, and what that is worth in a conflict.

use std::cmp::{Ordering, Reverse};

/// Who wrote a record, and when in its own order. In parts of other programs any of them may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp<'a> {
    /// Index of the process.
    pub(crate) process: Option<i64>,
    /// Place in the order of the writer.
    pub(crate) write: Option<i64>,
    /// The store object that wrote it.
    pub(crate) writer: Option<&'a str>,
}

impl Stamp<'_> {
    /// Orders two records of one node by priority; the greater one wins a field that both have.
    ///
    /// A lower process wins, then a higher write, then a higher writer id as text. A missing part ranks
    /// below every present one. What is equal here is decided by part name and row, the later winning.
    pub(crate) fn priority(&self, other: &Stamp<'_>) -> Ordering {
        let rank = |stamp: &Stamp<'_>| (stamp.process.map(Reverse), stamp.write);
        rank(self).cmp(&rank(other)).then_with(|| self.writer.cmp(&other.writer))
    }
}

/// Hands out the writes of one store object: nanoseconds since 1970, but always later than the one before.
#[derive(Debug, Default)]
pub(crate) struct WriteClock {
    last: i64,
}

impl WriteClock {
    /// The next write, at the wall clock's `now`. Two calls never get the same, and a clock that is set
    /// back does not reorder records.
    pub(crate) fn next(&mut self, now: i64) -> i64 {
        self.last = now.max(self.last.saturating_add(1));
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_case_07_process_zero_wins_whatever_is_later() {
        let stamp = |process, write, writer| Stamp { process, write, writer };
        let rising = [
            stamp(None, None, None),
            stamp(None, None, Some("a")),
            stamp(None, Some(9), None),
            stamp(Some(1), None, Some("z")),
            stamp(Some(1), Some(-4), None),
            stamp(Some(1), Some(99), Some("a")),
            stamp(Some(0), None, None),
            stamp(Some(0), Some(1), Some("a")),
            stamp(Some(0), Some(1), Some("b")),
            stamp(Some(0), Some(2), Some("a")),
        ];
        for (i, low) in rising.iter().enumerate() {
            assert_eq!(low.priority(low), Ordering::Equal);
            for high in &rising[i + 1..] {
                assert_eq!(low.priority(high), Ordering::Less, "{low:?} {high:?}");
                assert_eq!(high.priority(low), Ordering::Greater);
            }
        }
    }

    #[test]
    fn store_1_writes_rise_when_the_clock_does_not() {
        let mut clock = WriteClock::default();
        let writes: Vec<i64> = [100, 100, 50, 103, 90, 200].into_iter().map(|now| clock.next(now)).collect();
        assert_eq!(writes, [100, 101, 102, 103, 104, 200]);
    }
}
