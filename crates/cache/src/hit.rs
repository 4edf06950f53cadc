//! The hit: the fast check, and the handle that it gives.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use waycairn_durable::{FileMap, MapError, read_file};

use crate::layout::{EntryName, MANIFEST};
use crate::manifest::{Manifest, ReadFault, SCHEMA};
use crate::{ArrayView, CacheError, Damage, Element, Hold, Key, Member, Recipe};

/// Says why there is no artifact for a recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissReason {
    /// Nothing has the name of its key. [`Cache::why`](crate::Cache::why) says what the nearest entry differs in.
    Absent,
    /// A folder has the name and holds no manifest: what somebody left who copied or deleted by hand. A build sets it
    /// aside.
    Litter,
}

/// The outcome of the fast check.
#[derive(Debug)]
pub(crate) enum Looked {
    Hit(Box<Manifest>),
    Miss(MissReason),
}

/// The fast check: the manifest is one, of this key, and its files are there with their sizes.
pub(crate) fn look(root: &Path, entry: &EntryName, key: Option<&Key>) -> Result<Looked, CacheError> {
    let mut path = entry.path(root);
    path.push(MANIFEST);
    match read_whole(&mut path, entry, key) {
        Ok(Some(manifest)) => Ok(Looked::Hit(Box::new(manifest))),
        Ok(None) => {
            path.pop();
            Ok(Looked::Miss(match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => MissReason::Absent,
                _ => MissReason::Litter,
            }))
        }
        // Whoever collects or sets aside renames the folder: what was half seen then is not damaged but gone.
        Err(_) if !entry.path(root).join(MANIFEST).exists() => Ok(Looked::Miss(MissReason::Absent)),
        Err(error) => Err(error),
    }
}

fn read_whole(
    path: &mut PathBuf,
    entry: &EntryName,
    key: Option<&Key>,
) -> Result<Option<Manifest>, CacheError> {
    let damaged = |file: &str, damage| CacheError::damaged(entry, key, file, damage);
    let manifest = match Manifest::read(path, entry) {
        Ok(manifest) => manifest,
        Err(ReadFault::Absent) => return Ok(None),
        Err(ReadFault::Bad(reason)) => return Err(damaged(MANIFEST, Damage::Manifest { reason })),
        Err(ReadFault::Newer(found)) => {
            return Err(CacheError::Newer { entry: entry.clone(), found, supported: SCHEMA });
        }
        Err(ReadFault::Io(source)) => return Err(CacheError::io("read", path)(source)),
    };
    if let Some(key) = key.filter(|&key| *key != manifest.key) {
        let damage = Damage::Key { expected: key.to_string(), found: manifest.key.to_string() };
        return Err(damaged(MANIFEST, damage));
    }
    for (name, member) in &manifest.files {
        path.set_file_name(name);
        if let Some(damage) = check_size(path, member)? {
            return Err(damaged(name, damage));
        }
    }
    path.set_file_name(MANIFEST);
    Ok(Some(manifest))
}

/// Looks at the length of a file.
pub(crate) fn check_size(path: &Path, member: &Member) -> Result<Option<Damage>, CacheError> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => Ok(Some(Damage::NotAFile)),
        Ok(metadata) if metadata.len() != member.bytes => {
            Ok(Some(Damage::Size { expected: member.bytes, found: metadata.len() }))
        }
        Ok(_) => Ok(None),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Some(Damage::Missing))
        }
        Err(error) => Err(CacheError::io("look at", path)(error)),
    }
}

/// Is a committed artifact, found whole by the fast check. Cheap to clone.
///
/// It holds its entry: a collection in this process spares it. Its bytes are not checked against their digests when
/// they are read; [`Cache::verify`](crate::Cache::verify) does that.
#[derive(Debug, Clone)]
pub struct Artifact {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    manifest: Manifest,
    hold: Hold,
}

impl Artifact {
    pub(crate) fn new(root: &Path, hold: Hold, manifest: Manifest) -> Self {
        let path = hold.entry().path(root);
        Self { inner: Arc::new(Inner { path, manifest, hold }) }
    }

    /// Shows the key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.inner.manifest.key
    }

    /// Names the entry.
    #[must_use]
    pub fn entry(&self) -> &EntryName {
        self.inner.hold.entry()
    }

    /// Shows the product.
    #[must_use]
    pub fn product(&self) -> &str {
        &self.inner.manifest.name
    }

    /// Shows the folder of the entry. Nothing in it may be changed.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Says when it was built: RFC 3339, UTC.
    #[must_use]
    pub fn created(&self) -> &str {
        &self.inner.manifest.created
    }

    /// Shows what its builder said about it.
    #[must_use]
    pub fn metadata(&self) -> &Map<String, Value> {
        &self.inner.manifest.metadata
    }

    /// Shows what it was built from.
    #[must_use]
    pub fn recipe(&self) -> &Recipe {
        &self.inner.manifest.recipe
    }

    /// Shows its files by name, without the manifest.
    #[must_use]
    pub fn files(&self) -> &BTreeMap<String, Member> {
        &self.inner.manifest.files
    }

    /// Says how many bytes its files have, without the manifest.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files().values().map(|member| member.bytes).sum()
    }

    /// Maps the array `<name>.npy`.
    ///
    /// # Errors
    ///
    /// [`CacheError::NoMember`], [`CacheError::WrongType`] for another element type, [`CacheError::Damaged`] when its
    /// header contradicts the manifest, [`CacheError::Gone`] when the entry was removed meanwhile.
    pub fn array<T: Element>(&self, name: &str) -> Result<ArrayView<T>, CacheError> {
        let file = format!("{name}.npy");
        let member = self.member(&file)?;
        let (Some(dtype), Some(shape)) = (member.dtype, &member.shape) else {
            return Err(self.no_member(&file));
        };
        if dtype != T::DTYPE {
            let entry = self.entry().clone();
            let wanted = std::any::type_name::<T>().rsplit("::").next().unwrap_or_default();
            return Err(CacheError::WrongType {
                entry,
                name: name.to_owned(),
                found: dtype.to_string(),
                wanted,
            });
        }
        let map = match FileMap::open(&self.inner.path.join(&file)) {
            Err(MapError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Err(self.missing(&file));
            }
            map => map?,
        };
        ArrayView::new(map, shape, self).map_err(|reason| self.damaged(&file, Damage::Array { reason }))
    }

    /// Reads the JSON member `<name>.json`.
    ///
    /// # Errors
    ///
    /// [`CacheError::NoMember`], [`CacheError::Decode`] when it is not what is asked for, [`CacheError::Gone`] when the
    /// entry was removed meanwhile.
    pub fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, CacheError> {
        let file = format!("{name}.json");
        let path = self.file(&file)?;
        let bytes = match read_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(self.missing(&file)),
            bytes => bytes.map_err(CacheError::io("read", &path))?,
        };
        serde_json::from_slice(&bytes).map_err(|source| CacheError::Decode {
            what: format!("member `{file}`"),
            entry: self.entry().clone(),
            source,
        })
    }

    /// Shows the path of a file, `weights.safetensors` say.
    ///
    /// # Errors
    ///
    /// [`CacheError::NoMember`].
    pub fn file(&self, name: &str) -> Result<PathBuf, CacheError> {
        self.member(name)?;
        Ok(self.inner.path.join(name))
    }

    fn member(&self, file: &str) -> Result<&Member, CacheError> {
        self.files().get(file).ok_or_else(|| self.no_member(file))
    }

    fn no_member(&self, file: &str) -> CacheError {
        CacheError::NoMember {
            entry: self.entry().clone(),
            name: file.to_owned(),
            members: self.files().keys().cloned().collect(),
        }
    }

    /// A file that is not there: of an entry that is, or of one that was removed.
    fn missing(&self, file: &str) -> CacheError {
        if self.inner.path.join(MANIFEST).exists() {
            self.damaged(file, Damage::Missing)
        } else {
            CacheError::Gone { entry: self.entry().clone() }
        }
    }

    fn damaged(&self, file: &str, damage: Damage) -> CacheError {
        CacheError::damaged(self.entry(), Some(self.key()), file, damage)
    }
}
