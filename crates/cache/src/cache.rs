//! The cache of one root.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use waycairn_durable::{Holder, create_dir_all, ensure_format, read_format};

use crate::hit::{self, Looked};
use crate::hold::Registry;
use crate::layout::{cache_folder, locks_folder};
use crate::{Artifact, CacheError, EntryName, Hold, Key, MissReason, Recipe};

/// How long a build waits for another one of the same key before it goes on without the lock.
const WAIT: Duration = Duration::from_secs(24 * 3600);

/// Is the artifact cache of an output root. Cheap to clone; all clones, and all caches of one root, know of each
/// other's holds and builds.
///
/// # Concurrency
///
/// Any number of threads and processes may use one root at once. Do not call
/// [`get_or_build`](Self::get_or_build) from a task of a thread pool that its builder uses as well: while a thread of
/// the pool waits for another build, the pool may have no thread left for that build.
#[derive(Debug, Clone)]
pub struct Cache {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    registry: Arc<Registry>,
    options: CacheOptions,
    writable: OnceLock<()>,
}

/// Is called with what a build is about to wait for.
pub type Announce = Arc<dyn Fn(&Waiting<'_>) + Send + Sync>;

/// Says how a cache waits.
#[derive(Clone)]
pub struct CacheOptions {
    /// How long a build waits for another one of the same key: a day. After that it builds too: on some networked
    /// file systems the lock of a machine that died stays, and no lock is needed to commit.
    pub wait: Duration,
    /// Is called once before such a wait.
    pub announce: Option<Announce>,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self { wait: WAIT, announce: None }
    }
}

impl fmt::Debug for CacheOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let announced = self.announce.is_some();
        formatter
            .debug_struct("CacheOptions")
            .field("wait", &self.wait)
            .field("announce", &announced)
            .finish()
    }
}

/// Says what a build waits for.
#[derive(Debug, Clone)]
pub struct Waiting<'wait> {
    /// The entry that somebody else builds.
    pub entry: &'wait EntryName,
    /// The lock that they hold.
    pub lock: &'wait Path,
    /// Who they are, as far as the lock file says.
    pub holder: Option<&'wait Holder>,
}

impl fmt::Display for Waiting<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lock = self.lock.display();
        match self.holder {
            Some(holder) => {
                write!(formatter, "waiting for `{}`, which {holder} builds (`{lock}`)", self.entry)
            }
            None => write!(formatter, "waiting for `{}`, which somebody builds (`{lock}`)", self.entry),
        }
    }
}

/// Is what a recipe finds in the cache.
#[derive(Debug)]
pub enum Lookup {
    /// The artifact is there.
    Hit(Artifact),
    /// It is not, and why.
    Miss(MissReason),
}

impl Cache {
    /// Opens the cache of a root. It makes nothing: the root may be absent, or readable only, and then there are hits
    /// alone. The first build makes `FORMAT`, `cache/` and `locks/`.
    ///
    /// # Errors
    ///
    /// [`CacheError::Format`] for a root that is no folder, or of a newer format.
    pub fn open(root: &Path) -> Result<Self, CacheError> {
        Self::with_options(root, CacheOptions::default())
    }

    /// The same, with a word on how to wait.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn with_options(root: &Path, options: CacheOptions) -> Result<Self, CacheError> {
        read_format(root)?;
        let inner =
            Inner { root: root.to_owned(), registry: Registry::of(root), options, writable: OnceLock::new() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Shows the root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.inner.root
    }

    /// Looks for the artifact of a recipe: the manifest is one, and its files are there with their sizes. It takes no
    /// lock, waits for no builder and writes nothing.
    ///
    /// # Errors
    ///
    /// [`CacheError::Damaged`] for an entry whose files contradict its manifest, [`CacheError::Newer`], and what
    /// [`Recipe::key`] says.
    pub fn get(&self, recipe: &Recipe) -> Result<Lookup, CacheError> {
        let key = recipe.key()?;
        self.look(&EntryName::new(&recipe.product, &key)?, Some(&key))
    }

    /// Opens the artifact of an entry.
    ///
    /// # Errors
    ///
    /// [`CacheError::Gone`] where there is none; otherwise as [`get`](Self::get).
    pub fn artifact(&self, entry: &EntryName) -> Result<Artifact, CacheError> {
        match self.look(entry, None)? {
            Lookup::Hit(artifact) => Ok(artifact),
            Lookup::Miss(_) => Err(CacheError::Gone { entry: entry.clone() }),
        }
    }

    /// Opens the artifact of a key, of the product of that name or else of any other.
    ///
    /// # Errors
    ///
    /// [`CacheError::Gone`] where there is none; otherwise as [`get`](Self::get).
    pub fn artifact_of_key(&self, product: &str, key: &Key) -> Result<Artifact, CacheError> {
        let entry = EntryName::new(product, key)?;
        if let Lookup::Hit(artifact) = self.look(&entry, Some(key))? {
            return Ok(artifact);
        }
        for other in self.products()? {
            let Ok(entry) = EntryName::new(&other, key) else { continue };
            if let Lookup::Hit(artifact) = self.look(&entry, Some(key))? {
                return Ok(artifact);
            }
        }
        Err(CacheError::Gone { entry })
    }

    /// Holds an entry: a collection in this process spares it. An [`Artifact`] holds its own.
    pub fn hold(&self, entry: &EntryName) -> Hold {
        self.inner.registry.hold(entry)
    }

    pub(crate) fn look(&self, entry: &EntryName, key: Option<&Key>) -> Result<Lookup, CacheError> {
        let hold = self.hold(entry);
        Ok(match hit::look(self.root(), entry, key)? {
            Looked::Hit(manifest) => Lookup::Hit(Artifact::new(self.root(), hold, *manifest)),
            Looked::Miss(reason) => Lookup::Miss(reason),
        })
    }

    /// The names of the product folders, sorted.
    pub(crate) fn products(&self) -> Result<Vec<String>, CacheError> {
        let folder = cache_folder(self.root());
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(CacheError::io("list the folder", &folder))?,
        };
        let mut products = Vec::new();
        for entry in entries {
            let entry = entry.map_err(CacheError::io("list the folder", &folder))?;
            if entry.path().is_dir() {
                products.extend(entry.file_name().into_string());
            }
        }
        products.sort_unstable();
        Ok(products)
    }

    /// Makes the root one that is written: once a cache.
    pub(crate) fn ensure_writable(&self) -> Result<(), CacheError> {
        if self.inner.writable.get().is_none() {
            ensure_format(self.root())?;
            create_dir_all(&cache_folder(self.root()))?;
            create_dir_all(&locks_folder(self.root()))?;
            let _ = self.inner.writable.set(());
        }
        Ok(())
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.inner.registry
    }

    pub(crate) fn options(&self) -> &CacheOptions {
        &self.inner.options
    }
}
