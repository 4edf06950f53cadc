//! The builder: what makes the files of an artifact, and what of them is checked before they count.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use waycairn_durable::{Digest, Durability, FileMap, fault, time, write_file};

use crate::cache::Cache;
use crate::layout::check_member;
use crate::manifest::{Manifest, SCHEMA};
use crate::npy;
use crate::{
    ArrayMut, ArrayRows, Artifact, CacheError, Dtype, Element, EntryName, Key, Member, Recipe, to_value,
};

/// What a builder writes into. All of it is one artifact; none of it exists before the builder has returned.
///
/// Several threads of a builder may use it at once.
#[derive(Debug)]
pub struct Builder<'build> {
    cache: &'build Cache,
    recipe: &'build Recipe,
    entry: &'build EntryName,
    folder: &'build Path,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    members: BTreeMap<String, Made>,
    metadata: Map<String, Value>,
}

/// A file that a builder has named.
#[derive(Debug, Clone)]
enum Made {
    File,
    Array(Dtype, Vec<usize>),
    /// An array that is written row by row and is not finished.
    Rows(Dtype),
}

impl<'build> Builder<'build> {
    pub(crate) fn new(
        cache: &'build Cache,
        recipe: &'build Recipe,
        entry: &'build EntryName,
        folder: &'build Path,
    ) -> Self {
        Self { cache, recipe, entry, folder, state: Mutex::new(State::default()) }
    }

    /// Shows the recipe.
    #[must_use]
    pub fn recipe(&self) -> &Recipe {
        self.recipe
    }

    /// Reads the settings: what the selector returned, and nothing else.
    ///
    /// # Errors
    ///
    /// [`CacheError::Decode`] when they are not those of this type.
    pub fn settings<S: DeserializeOwned>(&self) -> Result<S, CacheError> {
        S::deserialize(&self.recipe.settings).map_err(|source| CacheError::Decode {
            what: "settings".to_owned(),
            entry: self.entry.clone(),
            source,
        })
    }

    /// Opens an artifact that the recipe names as a dependency.
    ///
    /// # Errors
    ///
    /// [`CacheError::NoDependency`] for a name that the recipe does not have, [`CacheError::Gone`] when it is not in
    /// the cache, and as [`Cache::get`].
    pub fn dependency(&self, name: &str) -> Result<Artifact, CacheError> {
        let key = self.recipe.dependencies.get(name).ok_or_else(|| CacheError::NoDependency {
            entry: self.entry.clone(),
            name: name.to_owned(),
            dependencies: self.recipe.dependencies.keys().cloned().collect(),
        })?;
        self.cache.artifact_of_key(name, key)
    }

    /// Makes the array `<name>.npy`, to be filled in place. Its space on the disk is reserved now.
    ///
    /// # Errors
    ///
    /// [`CacheError::Name`], [`CacheError::Twice`], [`CacheError::TooLarge`], and [`CacheError::Commit`], for a full
    /// disk for one.
    pub fn array<T: Element>(&self, name: &str, shape: &[usize]) -> Result<ArrayMut<'_, T>, CacheError> {
        let bytes = ArrayMut::<T>::bytes(name, shape)?;
        let path = self.name(&format!("{name}.npy"), Made::Array(T::DTYPE, shape.to_owned()))?;
        ArrayMut::create(&path, shape, bytes)
    }

    /// Makes the array `<name>.npy`, to be written row by row; a row has the shape `row_shape`.
    ///
    /// # Errors
    ///
    /// [`CacheError::Name`], [`CacheError::Twice`], [`CacheError::TooLarge`] for a row that has no bytes or too many,
    /// [`CacheError::Io`].
    pub fn rows<T: Element>(&self, name: &str, row_shape: &[usize]) -> Result<ArrayRows<'_, T>, CacheError> {
        ArrayRows::<T>::check(name, row_shape)?;
        let path = self.name(&format!("{name}.npy"), Made::Rows(T::DTYPE))?;
        let file = create(&path)?;
        ArrayRows::create(self, file, path, name, row_shape)
    }

    /// Writes the JSON member `<name>.json`: sorted, indented. NaN is refused, what is undefined is null.
    ///
    /// # Errors
    ///
    /// [`CacheError::Name`], [`CacheError::Twice`], [`CacheError::Value`], [`CacheError::Commit`].
    pub fn json<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Result<(), CacheError> {
        let refused = |problem| CacheError::Value { what: format!("member `{name}.json`"), problem };
        let value = to_value(value).map_err(refused)?;
        let mut text = format!("{value:#}");
        text.push('\n');
        let path = self.name(&format!("{name}.json"), Made::File)?;
        Ok(write_file(&path, text.as_bytes(), Durability::Regenerable)?)
    }

    /// Names a file of any kind, and returns the path that the builder has to write it at.
    ///
    /// # Errors
    ///
    /// [`CacheError::Name`], [`CacheError::Twice`].
    pub fn file(&self, name: &str) -> Result<PathBuf, CacheError> {
        self.name(name, Made::File)
    }

    /// Says something about the artifact. The same name again replaces what was said.
    ///
    /// # Errors
    ///
    /// [`CacheError::Value`].
    pub fn metadata<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Result<(), CacheError> {
        let refused = |problem| CacheError::Value { what: format!("metadata `{name}`"), problem };
        let value = to_value(value).map_err(refused)?;
        self.state().metadata.insert(name.to_owned(), value);
        Ok(())
    }

    fn name(&self, file: &str, made: Made) -> Result<PathBuf, CacheError> {
        fault::point("cache.member");
        check_member(file)?;
        let mut state = self.state();
        if state.members.keys().any(|other| other.eq_ignore_ascii_case(file)) {
            return Err(CacheError::Twice { entry: self.entry.clone(), name: file.to_owned() });
        }
        state.members.insert(file.to_owned(), made);
        Ok(self.folder.join(file))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn unfinished(&self, reason: String) -> CacheError {
        CacheError::Unfinished { entry: self.entry.clone(), reason }
    }

    /// An array that was written row by row has its shape now.
    pub(crate) fn finished(&self, name: &str, shape: &[usize]) {
        if let Some(made) = self.state().members.get_mut(&format!("{name}.npy"))
            && let Made::Rows(dtype) = made
        {
            *made = Made::Array(*dtype, shape.to_owned());
        }
    }

    /// Checks that what was begun is there, and digests it.
    pub(crate) fn finish(&self, key: &Key) -> Result<Manifest, CacheError> {
        let State { members, metadata } = std::mem::take(&mut *self.state());
        if members.is_empty() && metadata.is_empty() {
            return Err(self.unfinished("it made no file and said nothing".to_owned()));
        }
        for (name, made) in &members {
            if matches!(made, Made::Rows(_)) {
                return Err(self.unfinished(format!("the array `{name}` is not finished")));
            }
            match fs::symlink_metadata(self.folder.join(name)) {
                Ok(metadata) if metadata.is_file() => {}
                Ok(_) => return Err(self.unfinished(format!("`{name}` is not a file"))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(self.unfinished(format!("the file `{name}` was named and not written")));
                }
                Err(error) => return Err(CacheError::io("look at", &self.folder.join(name))(error)),
            }
        }
        let listing = fs::read_dir(self.folder).map_err(CacheError::io("list the folder", self.folder))?;
        for entry in listing {
            let name = entry.map_err(CacheError::io("list the folder", self.folder))?.file_name();
            if name.to_str().is_none_or(|name| !members.contains_key(name)) {
                return Err(self.unfinished(format!("`{}` is there and was not named", name.display())));
            }
        }
        for (name, made) in &members {
            if let Made::Array(Dtype::Bool, shape) = made {
                self.check_truth(name, shape)?;
            }
        }
        let files = digest(self.folder, members)?;
        let mut manifest = Manifest {
            created: time::rfc3339_micros(time::now_nanos()),
            files,
            key: *key,
            metadata,
            name: self.recipe.product.clone(),
            recipe: self.recipe.clone(),
            schema: SCHEMA,
            sha256: *key.digest(),
        };
        let refused = |problem| CacheError::Value { what: format!("manifest of `{}`", self.entry), problem };
        manifest.sha256 = manifest.seal().map_err(refused)?;
        Ok(manifest)
    }
}

impl Builder<'_> {
    /// Refuses truth values that are none: whoever fills an array as bytes may write others.
    fn check_truth(&self, name: &str, shape: &[usize]) -> Result<(), CacheError> {
        let path = self.folder.join(name);
        let map = FileMap::open(&path)?;
        let offset = npy::check(&map, Dtype::Bool, shape)
            .map_err(|reason| self.unfinished(format!("the array `{name}` was overwritten: {reason}")))?;
        match map[offset..].iter().position(|byte| *byte > 1) {
            None => Ok(()),
            Some(index) => Err(self.unfinished(format!(
                "the array `{name}` of truth values has the byte {} at element {index}, and only 0 and 1 are any",
                map[offset + index]
            ))),
        }
    }
}

/// Makes a file of a builder. It is in a temporary folder, so nobody sees half of it.
fn create(path: &Path) -> Result<File, CacheError> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(CacheError::io("create the file", path))
}

/// Digests the files of a build, several at once, on threads of their own: a task of a shared pool could be given
/// another build to do while it waits, and wait for itself.
fn digest(folder: &Path, members: BTreeMap<String, Made>) -> Result<BTreeMap<String, Member>, CacheError> {
    let members: Vec<(String, Made)> = members.into_iter().collect();
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from).min(members.len());
    let digested = Mutex::new(BTreeMap::new());
    let work = || {
        while let Some((name, made)) = members.get(next.fetch_add(1, Ordering::Relaxed)) {
            let member = digest_one(&folder.join(name), made);
            digested.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), member);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let digested = digested.into_inner().unwrap_or_else(PoisonError::into_inner);
    digested.into_iter().map(|(name, member)| Ok((name, member?))).collect()
}

fn digest_one(path: &Path, made: &Made) -> Result<Member, CacheError> {
    let bytes = fs::metadata(path).map_err(CacheError::io("look at", path))?.len();
    let digest = Digest::of_file(path);
    let sha256 = digest.map_err(|error| CacheError::io("read", path)(error.source))?;
    let (dtype, shape) = match made {
        Made::Array(dtype, shape) => (Some(*dtype), Some(shape.clone())),
        Made::File | Made::Rows(_) => (None, None),
    };
    let note = dtype.and_then(Dtype::note).map(str::to_owned);
    Ok(Member { bytes, dtype, note, sha256, shape })
}
