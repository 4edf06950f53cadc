//! Where things are in a root, and what may be called how.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;

use crate::{CacheError, Key};

/// The manifest of an entry. It is written last.
pub(crate) const MANIFEST: &str = "artifact.json";

/// What the name of a damaged entry begins with once it was set aside.
pub(crate) const DAMAGED: &str = ".damaged-";

/// What the name of a folder without a manifest begins with once it was in the way of a build.
pub(crate) const LITTER: &str = ".litter-";

/// The longest name of a member of an entry.
const MAX_NAME_BYTES: usize = 200;

/// The longest name of a product: with its key it names a lock file.
pub(crate) const MAX_PRODUCT_BYTES: usize = 100;

/// The folder of all entries.
pub(crate) fn cache_folder(root: &Path) -> PathBuf {
    root.join("cache")
}

/// The folder of the locks, which are not the cache's alone.
pub(crate) fn locks_folder(root: &Path) -> PathBuf {
    root.join("locks")
}

/// Names an entry: its product, and the first half of its key.
///
/// It is what a folder listing shows, so collection, history and pins go by it. Shown, read and serialized as
/// `<product>/<32 hex digits>`, the path below `cache/`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryName {
    product: Arc<str>,
    folder: [u8; 16],
}

impl EntryName {
    /// Names the entry of a key.
    ///
    /// # Errors
    ///
    /// [`CacheError::Name`] for a product that cannot be a folder.
    pub fn new(product: &str, key: &Key) -> Result<Self, CacheError> {
        check_product(product)?;
        Ok(Self { product: product.into(), folder: key.folder_bytes() })
    }

    /// Reads the name of a folder; nothing for one that is not 32 lower-case hex digits.
    pub(crate) fn from_folder(product: &Arc<str>, folder: &str) -> Option<Self> {
        let digits = folder.as_bytes();
        if digits.len() != 32 {
            return None;
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = hex(pair[0])? << 4 | hex(pair[1])?;
        }
        Some(Self { product: Arc::clone(product), folder: bytes })
    }

    /// Shows the product.
    #[must_use]
    pub fn product(&self) -> &str {
        &self.product
    }

    /// Shows the name of the folder: 32 hex digits.
    #[must_use]
    pub fn folder(&self) -> String {
        let mut text = String::with_capacity(32);
        for byte in self.folder {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// The half of the key that names the folder.
    pub(crate) fn folder_bytes(&self) -> [u8; 16] {
        self.folder
    }

    /// Says whether a key is that of this entry.
    #[must_use]
    pub fn is_of(&self, key: &Key) -> bool {
        self.folder == key.folder_bytes()
    }

    /// The folder of the entry.
    pub(crate) fn path(&self, root: &Path) -> PathBuf {
        let mut path = root.join("cache");
        path.push(&*self.product);
        path.push(self.folder());
        path
    }

    /// The lock that a build of the entry holds.
    pub(crate) fn lock(&self, root: &Path) -> PathBuf {
        locks_folder(root).join(format!("{}-{}.lock", self.product, self.folder()))
    }

    /// A hidden name for what has the entry's name and must lose it: a reader never sees it.
    pub(crate) fn aside(&self, root: &Path, prefix: &str) -> PathBuf {
        let random = Uuid::new_v4().simple().to_string();
        cache_folder(root).join(&*self.product).join(format!("{prefix}{}-{}", self.folder(), &random[..16]))
    }
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.product, self.folder())
    }
}

impl fmt::Debug for EntryName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "EntryName({self})")
    }
}

impl FromStr for EntryName {
    type Err = CacheError;

    fn from_str(text: &str) -> Result<Self, CacheError> {
        let (product, folder) = text.split_once('/').unwrap_or((text, ""));
        check_product(product)?;
        Self::from_folder(&product.into(), folder).ok_or_else(|| CacheError::Name {
            what: "entry",
            name: text.to_owned(),
            reason: "has to be `<product>/<32 hex digits>`".to_owned(),
        })
    }
}

impl Serialize for EntryName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EntryName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Checks that a product can be a folder and part of the name of a lock.
pub(crate) fn check_product(name: &str) -> Result<(), CacheError> {
    check("product", name, MAX_PRODUCT_BYTES)
}

/// Checks that a member of an entry is a plain file, and not the manifest.
pub(crate) fn check_member(name: &str) -> Result<(), CacheError> {
    check("file", name, MAX_NAME_BYTES)?;
    if name.eq_ignore_ascii_case(MANIFEST) {
        let reason = "is the manifest, which the cache writes; choose another name".to_owned();
        return Err(CacheError::Name { what: "file", name: name.to_owned(), reason });
    }
    Ok(())
}

/// A name that is one and the same file on every system, and stays where it is put.
pub(crate) fn check(what: &'static str, name: &str, max_bytes: usize) -> Result<(), CacheError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let reason = if name.is_empty() {
        "is empty".to_owned()
    } else if name.starts_with('.') {
        "begins with a dot, as hidden and temporary files do".to_owned()
    } else if name.len() > max_bytes {
        format!("has {} bytes, and at most {max_bytes} are allowed", name.len())
    } else if let Some(bad) = name.chars().find(|&letter| !letter.is_ascii() || !allowed(letter as u8)) {
        format!("holds {bad:?}; ASCII letters, digits, `.`, `_` and `-` are allowed")
    } else {
        return Ok(());
    };
    Err(CacheError::Name { what, name: name.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_the_folder_or_hide_are_refused() {
        let names = [
            "", ".", "..", "../x", "/x", "a/b", "a\\b", ".hidden", "a\nb", "a\0", "C:x", "a b", "\u{e9}",
            "x\u{7f}",
        ];
        for name in names {
            assert!(check_member(name).is_err(), "{name:?}");
            assert!(check_product(name).is_err(), "{name:?}");
        }
        assert!(check_member("artifact.json").is_err() && check_member("Artifact.JSON").is_err());
        assert!(check_member(&"x".repeat(201)).is_err() && check_product(&"x".repeat(101)).is_err());
        for name in ["train_x.npy", "weights.safetensors", "a-b_c.1", &"x".repeat(200)] {
            check_member(name).unwrap();
        }
        let error = check_member("a/b").unwrap_err().to_string();
        assert_eq!(error, "the file `a/b` holds '/'; ASCII letters, digits, `.`, `_` and `-` are allowed");
    }

    #[test]
    fn an_entry_has_half_the_key_as_its_folder() {
        let key: Key = "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b".parse().unwrap();
        let name = EntryName::new("training", &key).unwrap();
        assert_eq!(name.to_string(), "training/74234e98afe7498fb5daf1f36ac2d78a");
        assert_eq!(name.to_string().parse::<EntryName>().unwrap(), name);
        assert!(name.is_of(&key));
        let root = Path::new("/root");
        assert_eq!(name.path(root), Path::new("/root/cache/training/74234e98afe7498fb5daf1f36ac2d78a"));
        assert_eq!(name.lock(root), Path::new("/root/locks/training-74234e98afe7498fb5daf1f36ac2d78a.lock"));
        assert_eq!(serde_json::to_string(&name).unwrap(), format!("\"{name}\""));
        for text in ["training", "training/74", "training/74234E98afe7498fb5daf1f36ac2d78a", "../x/y", ""] {
            assert!(text.parse::<EntryName>().is_err(), "{text}");
        }
    }
}
