//! The vocabulary: text to token numbers and back.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use waycairn_durable::Digest;

/// The most characters that a character vocabulary may hold: tokens are kept in 16 bits.
const MOST_CHARACTERS: usize = 1 << 16;

/// What a token number stands for; saved as `tokenizer.json` in every checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Vocabulary {
    /// One token for each distinct character, numbered in the order of their code points.
    Character {
        /// The characters; a token is an index into them.
        characters: Vec<char>,
    },
    /// One token for each byte value; 256 in all.
    Byte,
}

/// A character that the vocabulary does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outside {
    pub(crate) character: char,
    /// Bytes from the start of the text.
    pub(crate) offset: u64,
}

impl Vocabulary {
    /// Collects the distinct characters of a text; `None` if there are too many to number.
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        let characters = if text.is_ascii() {
            let mut seen = [false; 128];
            for byte in text.bytes() {
                seen[usize::from(byte & 0x7f)] = true;
            }
            (0_u8..128).filter(|byte| seen[usize::from(*byte)]).map(char::from).collect()
        } else {
            let distinct: BTreeSet<char> = text.chars().collect();
            distinct.into_iter().collect::<Vec<char>>()
        };
        (characters.len() <= MOST_CHARACTERS).then_some(Self::Character { characters })
    }

    /// Returns the name of the kind, as `data.tokenizer` has it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Character { .. } => "character",
            Self::Byte => "byte",
        }
    }

    /// Returns the number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Character { characters } => characters.len(),
            Self::Byte => 256,
        }
    }

    /// Whether there is no token at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the digest of the vocabulary's canonical text.
    ///
    /// # Errors
    ///
    /// The serializer's error; a vocabulary has canonical text, so none is expected.
    pub fn digest(&self) -> Result<Digest, serde_json::Error> {
        Ok(Digest::of(&serde_jcs::to_vec(self)?))
    }

    /// Whether token numbers are a function of single bytes for this text.
    pub(crate) fn byte_table(&self) -> Option<[Option<u16>; 256]> {
        let mut table = [None; 256];
        match self {
            Self::Byte => {
                for (token, entry) in (0_u16..).zip(table.iter_mut()) {
                    *entry = Some(token);
                }
            }
            Self::Character { characters } => {
                for (token, character) in (0_u16..).zip(characters.iter()) {
                    if !character.is_ascii() {
                        return None;
                    }
                    table[*character as usize] = Some(token);
                }
            }
        }
        Some(table)
    }

    /// Turns a text into token numbers.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u16>, Outside> {
        match self {
            Self::Byte => Ok(text.bytes().map(u16::from).collect()),
            Self::Character { characters } => text
                .char_indices()
                .map(|(offset, character)| {
                    let found = characters.binary_search(&character).ok();
                    found
                        .and_then(|token| u16::try_from(token).ok())
                        .ok_or(Outside { character, offset: offset as u64 })
                })
                .collect(),
        }
    }

    /// Turns token numbers into text; bytes that are not UTF-8 become replacement characters.
    #[must_use]
    pub fn decode(&self, tokens: &[u32]) -> String {
        match self {
            Self::Byte => {
                let bytes: Vec<u8> = tokens.iter().map(|token| (token & 0xff) as u8).collect();
                String::from_utf8_lossy(&bytes).into_owned()
            }
            Self::Character { characters } => {
                tokens.iter().filter_map(|token| characters.get(*token as usize)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_text_comes_back_from_its_own_vocabulary(text in "\\PC{1,200}") {
            for vocabulary in [Vocabulary::of_text(&text).unwrap(), Vocabulary::Byte] {
                let tokens = vocabulary.encode(&text).unwrap();
                prop_assert!(tokens.iter().all(|token| usize::from(*token) < vocabulary.len()));
                let wide: Vec<u32> = tokens.into_iter().map(u32::from).collect();
                prop_assert_eq!(vocabulary.decode(&wide), text.clone());
                let json = serde_json::to_string(&vocabulary).unwrap();
                prop_assert_eq!(serde_json::from_str::<Vocabulary>(&json).unwrap(), vocabulary);
            }
        }
    }

    #[test]
    fn a_character_outside_is_named_with_its_offset() {
        let vocabulary = Vocabulary::of_text("ab").unwrap();
        let outside = vocabulary.encode("ab\u{e9}c").unwrap_err();
        assert_eq!(outside, Outside { character: '\u{e9}', offset: 2 });
    }

    #[test]
    fn characters_are_numbered_by_code_point() {
        let vocabulary = Vocabulary::of_text("cab\u{e9}a").unwrap();
        assert_eq!(vocabulary.encode("abc\u{e9}").unwrap(), [0, 1, 2, 3]);
        assert!(vocabulary.byte_table().is_none());
        assert_eq!(Vocabulary::of_text("ba").unwrap().byte_table().unwrap()[usize::from(b'b')], Some(1));
    }
}
