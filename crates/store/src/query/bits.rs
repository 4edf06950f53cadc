//! Which slots: bits in words.

use arrow::buffer::{BooleanBuffer, Buffer};

/// A list of bits, 64 in a word, the first in the lowest place. Bits past the end are 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    pub(crate) fn new(len: usize) -> Bits {
        Bits { words: vec![0; len.div_ceil(64)], len }
    }

    pub(crate) fn ones(len: usize) -> Bits {
        let mut bits = Bits { words: vec![u64::MAX; len.div_ceil(64)], len };
        bits.trim();
        bits
    }

    pub(crate) fn from_fn(len: usize, mut bit: impl FnMut(usize) -> bool) -> Bits {
        let mut words = Vec::with_capacity(len.div_ceil(64));
        for start in (0..len).step_by(64) {
            let mut word = 0;
            for place in 0..(len - start).min(64) {
                word |= u64::from(bit(start + place)) << place;
            }
            words.push(word);
        }
        Bits { words, len }
    }

    #[inline]
    pub(crate) fn get(&self, place: usize) -> bool {
        self.words.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    #[inline]
    pub(crate) fn set(&mut self, place: usize) {
        self.words[place / 64] |= 1 << (place % 64);
    }

    #[inline]
    pub(crate) fn clear(&mut self, place: usize) {
        self.words[place / 64] &= !(1 << (place % 64));
    }

    pub(crate) fn set_range(&mut self, range: std::ops::Range<usize>) {
        let mut start = range.start;
        while start < range.end {
            let count = (range.end - start).min(64);
            self.or_word(start, mask(count));
            start += count;
        }
    }

    /// Up to 64 bits from `start` on.
    #[inline]
    pub(crate) fn word(&self, start: usize) -> u64 {
        let (index, shift) = (start / 64, start % 64);
        let low = self.words[index] >> shift;
        if shift == 0 { low } else { low | self.words.get(index + 1).copied().unwrap_or(0) << (64 - shift) }
    }

    /// Sets the bits of `word` from `start` on.
    #[inline]
    pub(crate) fn or_word(&mut self, start: usize, word: u64) {
        let (index, shift) = (start / 64, start % 64);
        self.words[index] |= word << shift;
        if shift != 0 && word >> (64 - shift) != 0 {
            self.words[index + 1] |= word >> (64 - shift);
        }
    }

    pub(crate) fn and(&mut self, other: &Bits) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
    }

    pub(crate) fn or(&mut self, other: &Bits) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    pub(crate) fn negate(&mut self) {
        for word in &mut self.words {
            *word = !*word;
        }
        self.trim();
    }

    fn trim(&mut self) {
        if let Some(last) = self.words.last_mut()
            && !self.len.is_multiple_of(64)
        {
            *last &= mask(self.len % 64);
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The places of the ones, rising.
    pub(crate) fn places(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let place = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(index * 64 + place)
            })
        })
    }

    pub(crate) fn into_buffer(self) -> BooleanBuffer {
        BooleanBuffer::new(Buffer::from_vec(self.words), 0, self.len)
    }
}

#[inline]
/// The lowest bits.
pub(crate) fn mask(bits: usize) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_cross_words() {
        let mut bits = Bits::new(200);
        bits.set_range(60..140);
        assert_eq!(bits.count(), 80);
        assert!(!bits.get(59) && bits.get(60) && bits.get(139) && !bits.get(140));
        assert_eq!(bits.places().collect::<Vec<_>>(), (60..140).collect::<Vec<_>>());
        let mut other = Bits::from_fn(200, |place| place % 2 == 0);
        other.and(&bits);
        assert_eq!(other.count(), 40);
        other.negate();
        assert_eq!(other.count(), 160);
        assert_eq!(Bits::ones(200).count(), 200);
        assert_eq!(bits.clone().into_buffer().count_set_bits(), 80);
    }
}
