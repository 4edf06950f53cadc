//! The implementation: which code builds a product.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use waycairn_durable::Digest;

use crate::CacheError;

/// Says which code decides the bytes of a product.
///
/// Not in it: compiler flags, the digest of a whole library, how chatty a run is, limits. Edits of a file that is
/// named here change the key, so a helper that a builder calls has to be named as well; the feature `check` finds
/// those that are not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Implementation {
    /// The explicit version of the product. Raised when nothing else here tells that its bytes change.
    pub version: u32,
    /// The source files that the builder declares, each with the digest of its bytes.
    pub sources: BTreeMap<String, Digest>,
    /// The crates that decide its numbers, each with its version.
    pub crates: BTreeMap<String, String>,
}

impl Implementation {
    /// Begins with a version alone.
    #[must_use]
    pub fn new(version: u32) -> Self {
        Self { version, sources: BTreeMap::new(), crates: BTreeMap::new() }
    }

    /// Adds the sources of the builder. Their digests are computed here: keep the result, since a recipe is made often.
    #[must_use]
    pub fn with_sources(mut self, sources: &Sources) -> Self {
        self.sources.extend(sources.iter().map(|(name, bytes)| (name.to_owned(), Digest::of(bytes))));
        self
    }

    /// Adds the versions that a lock file fixes for some crates. Give it the text of `Cargo.lock`, embedded with
    /// `include_str!`.
    ///
    /// # Errors
    ///
    /// [`CacheError::Name`] for a crate that the lock file does not name.
    pub fn with_crates(mut self, lock: &str, names: &[&str]) -> Result<Self, CacheError> {
        for name in names {
            let versions = locked_versions(lock, name);
            if versions.is_empty() {
                let reason = "is not in the lock file; name crates that the workspace uses".to_owned();
                return Err(CacheError::Name { what: "crate", name: (*name).to_owned(), reason });
            }
            // Several versions of one crate may be linked; which of them computes is not told here, so all count.
            self.crates.insert((*name).to_owned(), versions.join(","));
        }
        Ok(self)
    }
}

/// The versions of a crate in a lock file, in its order, which is sorted.
fn locked_versions(lock: &str, name: &str) -> Vec<String> {
    let value = |line: &str, key: &str| {
        let text = line.strip_prefix(key)?.trim_start().strip_prefix('=')?.trim();
        Some(text.strip_prefix('"')?.strip_suffix('"')?.to_owned())
    };
    let mut versions = Vec::new();
    for package in lock.split("[[package]]").skip(1) {
        let mut lines = package.lines();
        if lines.by_ref().find_map(|line| value(line, "name")).as_deref() == Some(name) {
            versions.extend(lines.next().and_then(|line| value(line, "version")));
        }
    }
    versions
}

/// Is some source files of a crate, embedded when it was compiled. Made by [`sources!`](crate::sources).
#[derive(Debug, Clone, Copy)]
pub struct Sources {
    files: &'static [(&'static str, &'static [u8])],
}

impl Sources {
    /// Takes names and bytes; use [`sources!`](crate::sources).
    #[must_use]
    pub const fn new(files: &'static [(&'static str, &'static [u8])]) -> Self {
        Self { files }
    }

    /// The files by name, to be joined with others.
    #[must_use]
    pub const fn files(&self) -> &'static [(&'static str, &'static [u8])] {
        self.files
    }

    /// Shows each file: its name, which is the package and the path in it, and its bytes.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static [u8])> {
        self.files.iter().copied()
    }

    /// Shows the paths of the files in the folder of their package, as [`sources!`](crate::sources) was given them.
    pub fn paths(&self) -> impl Iterator<Item = &'static str> {
        self.files.iter().map(|(name, _)| name.split_once('/').map_or(*name, |(_, path)| path))
    }
}

/// Embeds source files of the crate that calls it: their paths in the package's folder.
///
/// ```
/// # use waycairn_cache::{Implementation, Sources, sources};
/// const SOURCES: Sources = sources!["src/lib.rs", "src/key.rs"];
/// let implementation = Implementation::new(1).with_sources(&SOURCES);
/// assert!(implementation.sources.contains_key("waycairn-cache/src/key.rs"));
/// ```
#[macro_export]
macro_rules! sources {
    ($($path:literal),+ $(,)?) => {
        $crate::Sources::new(&[$((
            concat!(env!("CARGO_PKG_NAME"), "/", $path),
            include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $path)).as_slice(),
        )),+])
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCES: Sources = sources!["src/fingerprint.rs", "src/key.rs"];

    /// Field case F33: an edit in a helper changes the key.
    #[test]
    fn cache_1_an_edit_in_a_declared_source_changes_the_digest() {
        let digests = Implementation::new(1).with_sources(&SOURCES).sources;
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/key.rs");
        assert_eq!(digests["waycairn-cache/src/key.rs"], Digest::of_file(&path).unwrap());
        assert_eq!(SOURCES.paths().collect::<Vec<_>>(), ["src/fingerprint.rs", "src/key.rs"]);
        const EDITED: Sources = Sources::new(&[("waycairn-cache/src/key.rs", b"edited")]);
        assert_ne!(
            Implementation::new(1).with_sources(&EDITED).sources["waycairn-cache/src/key.rs"],
            digests["waycairn-cache/src/key.rs"]
        );
    }

    #[test]
    fn versions_come_from_the_lock_file() {
        let lock = "version = 4\n\n[[package]]\nname = \"rand\"\nversion = \"0.9.2\"\ndependencies = [\n \"x\",\n]\n\n\
                    [[package]]\nname = \"rand\"\nversion = \"0.10.0\"\n\n[[package]]\nname = \"rayon\"\nversion = \"1.12.0\"\n";
        let implementation = Implementation::new(1).with_crates(lock, &["rand", "rayon"]).unwrap();
        assert_eq!(implementation.crates["rand"], "0.9.2,0.10.0");
        assert_eq!(implementation.crates["rayon"], "1.12.0");
        let error = Implementation::new(1).with_crates(lock, &["ran"]).unwrap_err();
        assert!(error.to_string().starts_with("the crate `ran` is not in the lock file"), "{error}");
    }
}
