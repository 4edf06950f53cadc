//! Source files that decide results, embedded when they are compiled.

use std::collections::BTreeMap;

use serde::ser::{Serialize, Serializer};
use sha2::{Digest, Sha256};

/// Some source files of a plugin, by name. Made by [`sources!`](crate::sources).
///
/// A declaration carries the SHA-256 of each, so that a result is used again only where the code that made it is the
/// same, whatever else of the library changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    files: &'static [(&'static str, &'static [u8])],
}

impl Sources {
    /// Takes names and bytes; use [`sources!`](crate::sources).
    #[must_use]
    pub const fn new(files: &'static [(&'static str, &'static [u8])]) -> Self {
        Self { files }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Each file: its name, which is the package and the path in it, and its bytes.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static [u8])> {
        self.files.iter().copied()
    }

    /// The SHA-256 of each file, in lower-case hexadecimal.
    #[must_use]
    pub fn digests(&self) -> BTreeMap<&'static str, String> {
        self.iter().map(|(name, bytes)| (name, hexadecimal(&Sha256::digest(bytes)))).collect()
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// As names and digests.
impl Serialize for Sources {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.digests().serialize(serializer)
    }
}

/// Embeds source files of the crate that calls it: their paths in the package's folder.
///
/// ```
/// # use waycairn_analysis_api::Sources;
/// const SOURCES: Sources = waycairn_analysis_api::sources!["src/lib.rs", "src/dtype.rs"];
/// assert!(SOURCES.digests().contains_key("waycairn-analysis-api/src/dtype.rs"));
/// ```
#[macro_export]
macro_rules! sources {
    ($($path:literal),+ $(,)?) => {{
        const FILES: &[(&str, &[u8])] = &[$((
            concat!(env!("CARGO_PKG_NAME"), "/", $path),
            include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $path)).as_slice(),
        )),+];
        $crate::Sources::new(FILES)
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_sha_256_by_name() {
        // The digest of `abc` in the standard.
        const FILES: Sources = Sources::new(&[("plugin/src/abc.rs", b"abc")]);
        let text = serde_json::to_string(&FILES).unwrap();
        assert_eq!(
            text,
            r#"{"plugin/src/abc.rs":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}"#
        );
        assert_eq!(sources!["src/lib.rs"].iter().next().unwrap().0, "waycairn-analysis-api/src/lib.rs");
    }
}
