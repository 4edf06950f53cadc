//! The manifest: the file that makes a folder an entry. All of its bytes are here.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use waycairn_durable::{Digest, is_irregular, open_file};

use crate::key::canonical_text;
use crate::layout::{EntryName, check_member};
use crate::{Dtype, Key, Recipe, ValueError, to_value};

/// The schema that this program writes, and the highest that it reads.
///
/// Schemas: 1, the first.
pub(crate) const SCHEMA: u64 = 1;

/// No manifest is longer; a longer file is none.
const MAX_BYTES: u64 = 64 << 20;

/// What `artifact.json` holds. The fields stand in the order of their names, as everything in it does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    pub(crate) created: String,
    pub(crate) files: BTreeMap<String, Member>,
    pub(crate) key: Key,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) name: String,
    pub(crate) recipe: Recipe,
    pub(crate) schema: u64,
    /// The digest of all the others, as RFC 8785 text; see [`Manifest::seal`].
    pub(crate) sha256: Digest,
}

/// Says what one file of an artifact is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its length.
    pub bytes: u64,
    /// The type of its elements, for an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<Dtype>,
    /// What a reader has to know to read it elsewhere; for arrays of bf16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The SHA-256 of its bytes.
    pub sha256: Digest,
    /// Its extents, for an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Vec<usize>>,
}

/// Why there is no manifest to be had.
#[derive(Debug)]
pub(crate) enum ReadFault {
    /// There is no such file, or no such folder.
    Absent,
    /// It is there and is no manifest.
    Bad(String),
    /// A newer program wrote it.
    Newer(u64),
    /// It could not be read.
    Io(io::Error),
}

impl Manifest {
    /// Reads the manifest at `path` and checks that it is one: of this entry, with names that stay in its folder.
    pub(crate) fn read(path: &Path, entry: &EntryName) -> Result<Self, ReadFault> {
        let mut file = open_file(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ReadFault::Absent,
            _ if is_irregular(&error) => ReadFault::Bad(error.to_string()),
            _ => ReadFault::Io(error),
        })?;
        let metadata = file.metadata().map_err(ReadFault::Io)?;
        if metadata.len() > MAX_BYTES {
            return Err(ReadFault::Bad(format!("it has {} bytes, more than {MAX_BYTES}", metadata.len())));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default() + 1);
        file.read_to_end(&mut bytes).map_err(ReadFault::Io)?;
        Self::from_bytes(&bytes, entry)
    }

    fn from_bytes(bytes: &[u8], entry: &EntryName) -> Result<Self, ReadFault> {
        if bytes.is_empty() {
            return Err(ReadFault::Bad("it is empty".to_owned()));
        }
        let manifest: Self = match serde_json::from_slice(bytes) {
            Ok(manifest) => manifest,
            Err(error) => {
                return Err(newer(bytes).map_or_else(|| ReadFault::Bad(error.to_string()), ReadFault::Newer));
            }
        };
        if manifest.schema > SCHEMA {
            return Err(ReadFault::Newer(manifest.schema));
        }
        manifest.check(entry).map_err(ReadFault::Bad)?;
        Ok(manifest)
    }

    fn check(&self, entry: &EntryName) -> Result<(), String> {
        if self.name != entry.product() || !entry.is_of(&self.key) {
            return Err(format!("it is that of `{}` with the key {}", self.name, self.key));
        }
        for (name, member) in &self.files {
            check_member(name).map_err(|error| error.to_string())?;
            match (member.dtype, &member.shape) {
                (None, None) => {}
                (Some(dtype), Some(shape))
                    if dtype.bytes_of(shape).is_some_and(|bytes| bytes < member.bytes) => {}
                _ => return Err(format!("the array `{name}` does not have its dtype and shape")),
            }
        }
        Ok(())
    }

    /// Computes the digest of all fields but itself. A fast check does not look at it; the deep check does, since
    /// nothing else would contradict a changed `created` or `metadata`.
    pub(crate) fn seal(&self) -> Result<Digest, ValueError> {
        let mut value = to_value(self)?;
        if let Some(fields) = value.as_object_mut() {
            fields.remove("sha256");
        }
        Ok(Digest::of(&canonical_text(&value)?))
    }

    /// The bytes of the file: indented, sorted, with a line feed at the end.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// The schema of a manifest that this program cannot read, if that is the reason.
fn newer(bytes: &[u8]) -> Option<u64> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    value.get("schema")?.as_u64().filter(|&schema| schema > SCHEMA)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Implementation;

    fn sample() -> (Manifest, EntryName) {
        let recipe = Recipe::new("training", "e", &1, Implementation::new(1)).unwrap();
        let key = recipe.key().unwrap();
        let array = Member {
            bytes: 128 + 24,
            dtype: Some(Dtype::F32),
            note: None,
            sha256: Digest::of(b""),
            shape: Some(vec![2, 3]),
        };
        let mut manifest = Manifest {
            created: "2026-01-01T00:00:00.000000Z".to_owned(),
            files: BTreeMap::from([("x.npy".to_owned(), array)]),
            key,
            metadata: Map::new(),
            name: "training".to_owned(),
            recipe,
            schema: SCHEMA,
            sha256: Digest::of(b""),
        };
        manifest.sha256 = manifest.seal().unwrap();
        (manifest, EntryName::new("training", &key).unwrap())
    }

    #[test]
    fn a_manifest_comes_back_and_is_sorted() {
        let (manifest, entry) = sample();
        let bytes = manifest.to_bytes().unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(
            text.starts_with("{\n  \"created\": ")
                && text.contains(",\n  \"schema\": 1,\n  \"sha256\": ")
                && text.ends_with("\"\n}\n"),
            "{text}"
        );
        assert_eq!(Manifest::from_bytes(&bytes, &entry).unwrap(), manifest);
    }

    #[test]
    fn cache_4_the_seal_is_over_all_other_fields() {
        let (manifest, _) = sample();
        assert_eq!(manifest.seal().unwrap(), manifest.sha256);
        let changes: [fn(&mut Manifest); 4] = [
            |manifest| manifest.created.push('0'),
            |manifest| drop(manifest.metadata.insert("x".to_owned(), Value::from(1))),
            |manifest| manifest.files.clear(),
            |manifest| manifest.recipe.experiment.push('x'),
        ];
        for change in changes {
            let (mut changed, _) = sample();
            change(&mut changed);
            assert_ne!(changed.seal().unwrap(), manifest.sha256);
        }
    }

    #[test]
    fn what_is_no_manifest_is_said() {
        let (manifest, entry) = sample();
        let bad = |bytes: &[u8]| match Manifest::from_bytes(bytes, &entry) {
            Err(ReadFault::Bad(reason)) => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(bad(b""), "it is empty");
        assert!(bad(&[0; 4096]).contains("line 1"));
        let text = String::from_utf8(manifest.to_bytes().unwrap()).unwrap();
        assert!(bad(&text.as_bytes()[..100]).contains("EOF"));
        let changed = |from: &str, to: &str| {
            assert!(text.contains(from));
            bad(text.replace(from, to).as_bytes())
        };
        assert!(changed("\"x.npy\"", "\"../x.npy\"").contains("`../x.npy` begins with a dot"));
        assert!(changed("\"x.npy\"", "\"artifact.json\"").contains("is the manifest"));
        assert!(changed("\"f32\"", "\"f16\"").contains("unknown variant"));
        assert!(changed("\"dtype\": \"f32\",", "").contains("does not have its dtype and shape"));
        assert!(changed("      2,", "      18446744073709551615,").contains("does not have its dtype"));
        assert!(changed("\"schema\"", "\"more\": 1, \"schema\"").contains("unknown field"));
        assert!(
            changed("\"name\": \"training\"", "\"name\": \"other\"").starts_with("it is that of `other`")
        );
        let newer = text.replace("\"schema\": 1", "\"more\": 1, \"schema\": 2");
        assert!(matches!(Manifest::from_bytes(newer.as_bytes(), &entry), Err(ReadFault::Newer(2))));
        let newer = text.replace("\"schema\": 1", "\"schema\": 2");
        assert!(matches!(Manifest::from_bytes(newer.as_bytes(), &entry), Err(ReadFault::Newer(2))));
    }
}
