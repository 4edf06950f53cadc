//! The digest: bytes named by their content.

use std::fmt;
use std::io::{self, Read as _, Write};
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};

use crate::{DigestError, ReadError, open_file};

/// Files are read in blocks of this many bytes.
const BLOCK_BYTES: usize = 1 << 20;

/// Is the SHA-256 of some bytes.
///
/// Shown, read and serialized as 64 lower-case hex digits. The order is that of the text.
///
/// ```
/// # use waycairn_durable::Digest;
/// let digest = Digest::of(b"abc");
/// assert_eq!(digest.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
/// assert_eq!(digest.short(), "ba7816bf8f01");
/// assert_eq!(digest.to_string().parse(), Ok(digest));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Computes the digest of bytes in memory.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Computes the digest of a file.
    ///
    /// # Errors
    ///
    /// [`ReadError`] names the file.
    ///
    /// # Memory
    ///
    /// One block of 1 MiB, or the length of the file where that is less.
    pub fn of_file(path: &Path) -> Result<Self, ReadError> {
        Self::of_file_told(path, |_| ())
    }

    /// The same; `told` is given the bytes of each block that was read, since a file may take minutes.
    ///
    /// # Errors
    ///
    /// [`ReadError`] names the file.
    pub fn of_file_told(path: &Path, told: impl FnMut(u64)) -> Result<Self, ReadError> {
        of_file(path, told).map_err(|source| ReadError { path: path.to_owned(), source })
    }

    /// Takes a digest that was computed elsewhere.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Shows the 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Shows the first 12 digits, for people.
    #[must_use]
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(12);
        text
    }
}

fn of_file(path: &Path, mut told: impl FnMut(u64)) -> io::Result<Digest> {
    let mut file = open_file(path)?;
    // One byte more than the file is said to have, so that a small file needs no second block.
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(BLOCK_BYTES);
    let mut block = vec![0; length.saturating_add(1).clamp(4096, BLOCK_BYTES)];
    let mut hasher = Hasher::new();
    loop {
        match file.read(&mut block) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(read) => {
                hasher.update(&block[..read]);
                told(read as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(64);
        for byte in self.0 {
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        formatter.pad(&text)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let mut bytes = [0; 32];
        let digits = text.as_bytes();
        if digits.len() != 2 * bytes.len() {
            return Err(DigestError { text: text.to_owned() });
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            match (value(pair[0]), value(pair[1])) {
                (Some(high), Some(low)) => *byte = high << 4 | low,
                _ => return Err(DigestError { text: text.to_owned() }),
            }
        }
        Ok(Self(bytes))
    }
}

fn value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Computes a digest piece by piece.
///
/// ```
/// # use waycairn_durable::{Digest, Hasher};
/// let mut hasher = Hasher::new();
/// hasher.update(b"a");
/// hasher.update(b"bc");
/// assert_eq!(hasher.finish(), Digest::of(b"abc"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Begins with no bytes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest of all bytes that were added.
    #[must_use]
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

/// Passes bytes on to another writer, and computes their digest and number on the way.
#[derive(Debug)]
pub struct DigestWriter<W> {
    inner: W,
    hasher: Hasher,
    bytes: u64,
}

impl<W: Write> DigestWriter<W> {
    /// Begins with no bytes; what `inner` got before does not count.
    pub fn new(inner: W) -> Self {
        Self { inner, hasher: Hasher::new(), bytes: 0 }
    }

    /// Returns the inner writer, the digest of what it was passed, and the number of bytes. It does not flush.
    #[must_use]
    pub fn finish(self) -> (W, Digest, u64) {
        (self.inner, self.hasher.finish(), self.bytes)
    }
}

impl<W: Write> Write for DigestWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests;
