//! Get or build: the fast check, the lock, the builder, and the commit.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use waycairn_durable::{
    Committed, Durability, FileLock, Holder, LockError, StagedDir, create_dir_all, fault, write_file,
};

use crate::cache::{Cache, Lookup, Waiting};
use crate::hold::Registry;
use crate::layout::{LITTER, MANIFEST};
use crate::set_aside::touch;
use crate::{Artifact, Builder, CacheError, EntryName, Key, MissReason, Recipe};

/// A waiter looks for the entry again after this long, so that a lock that nobody frees cannot hide it.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

thread_local! {
    /// What this thread builds just now, the innermost last.
    static BUILDING: RefCell<Vec<(PathBuf, EntryName)>> = const { RefCell::new(Vec::new()) };
}

/// Is an artifact, and how it was had.
#[derive(Debug, Clone)]
pub struct Built {
    /// The artifact.
    pub artifact: Artifact,
    /// How it was had.
    pub how: How,
}

/// Says how an artifact was had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It was there.
    Hit,
    /// Somebody else built it while this call waited.
    Waited {
        /// For how long.
        waited: Duration,
    },
    /// This call built it.
    Built {
        /// Why it had to.
        reason: MissReason,
        /// How long it waited for others first.
        waited: Duration,
        /// How long the build took, with the commit.
        took: Duration,
    },
}

impl Cache {
    /// Returns the artifact of a recipe, and builds it if there is none. Of all threads and processes that ask for one
    /// key, one builds and the others wait for it.
    ///
    /// `build` is a function and not a closure with captures: all that decides its bytes is in the recipe, and comes
    /// from [`Builder::settings`] and [`Builder::dependency`]. `context` is for what does not: progress, a number of
    /// threads, a flag to stop.
    ///
    /// # Errors
    ///
    /// What the builder returned: nothing is kept then. [`CacheError::Damaged`] for an entry that is there and
    /// damaged, which is never built again in silence; [`CacheError::Unfinished`] for a builder that returned before
    /// all that it began was whole.
    ///
    /// # Durability
    ///
    /// When this returns an artifact that it built, the artifact survives a power loss. A process that dies at any
    /// moment leaves the whole entry or none; what it left under a hidden name is swept by a later collection.
    ///
    /// # Concurrency
    ///
    /// A hit takes no lock. A build holds `locks/<product>-<key>.lock`; where the file system has no locks it goes on
    /// without, and at worst two build the same.
    pub fn get_or_build<C, E: From<CacheError>>(
        &self,
        recipe: &Recipe,
        context: C,
        build: fn(&Builder<'_>, C) -> Result<(), E>,
    ) -> Result<Built, E> {
        let key = recipe.key()?;
        let entry = EntryName::new(&recipe.product, &key)?;
        if let Lookup::Hit(artifact) = self.look(&entry, Some(&key))? {
            return Ok(Built { artifact, how: How::Hit });
        }
        let _building = Building::begin(self.root(), &entry)?;
        self.ensure_writable()?;
        let begin = Instant::now();
        let turn = Turn::new(self.registry(), &entry);
        let mut announced = false;
        let _turn = turn.wait(|| self.announce(&entry, None, &mut announced));
        // Who had the turn before may have built it.
        let (_lock, reason) = match self.lock_or_hit(&entry, &key, begin, &mut announced)? {
            Locked::Hit(artifact) => {
                return Ok(Built { artifact, how: How::Waited { waited: begin.elapsed() } });
            }
            Locked::Mine(lock, reason) => (lock, reason),
        };
        let waited = begin.elapsed();
        let span = tracing::debug_span!("cache.build", product = recipe.product, key = key.short());
        let artifact = span.in_scope(|| self.build(recipe, &entry, &key, reason, context, build))?;
        let took = begin.elapsed().saturating_sub(waited);
        let elapsed_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        tracing::info!(
            product = recipe.product,
            key = key.short(),
            bytes = artifact.bytes(),
            elapsed_ms,
            "artifact built"
        );
        Ok(Built { artifact, how: How::Built { reason, waited, took } })
    }

    /// Takes the lock of an entry, and looks again under it.
    fn lock_or_hit(
        &self,
        entry: &EntryName,
        key: &Key,
        begin: Instant,
        announced: &mut bool,
    ) -> Result<Locked, CacheError> {
        let path = entry.lock(self.root());
        loop {
            let lock = match FileLock::acquire(&path, LOOK_AGAIN.min(self.options().wait), |holder| {
                self.announce(entry, Some(holder), announced);
            }) {
                Ok(lock) => Some(lock),
                Err(LockError::Busy { .. }) if begin.elapsed() < self.options().wait => {
                    match self.look(entry, Some(key))? {
                        Lookup::Hit(artifact) => return Ok(Locked::Hit(artifact)),
                        Lookup::Miss(_) => continue,
                    }
                }
                Err(error @ (LockError::Busy { .. } | LockError::Unsupported { .. })) => {
                    tracing::warn!(entry = %entry, %error, "building without a lock, at worst twice");
                    None
                }
                Err(error) => return Err(error.into()),
            };
            return Ok(match self.look(entry, Some(key))? {
                Lookup::Hit(artifact) => Locked::Hit(artifact),
                Lookup::Miss(reason) => Locked::Mine(lock, reason),
            });
        }
    }

    fn announce(&self, entry: &EntryName, holder: Option<&Holder>, announced: &mut bool) {
        if std::mem::replace(announced, true) {
            return;
        }
        let lock = entry.lock(self.root());
        // A thread of this process has its turn: it holds the lock as well, or is about to.
        let found = if holder.is_none() { FileLock::is_held(&lock).ok().flatten() } else { None };
        let waiting = Waiting { entry, lock: &lock, holder: holder.or(found.as_ref()) };
        tracing::info!(entry = %entry, lock = %lock.display(), "{waiting}");
        if let Some(announce) = &self.options().announce {
            announce(&waiting);
        }
    }

    /// Builds and commits. The caller has the lock, if there are locks.
    fn build<C, E: From<CacheError>>(
        &self,
        recipe: &Recipe,
        entry: &EntryName,
        key: &Key,
        reason: MissReason,
        context: C,
        build: fn(&Builder<'_>, C) -> Result<(), E>,
    ) -> Result<Artifact, E> {
        fault::point("cache.build");
        let target = entry.path(self.root());
        if let Some(folder) = target.parent() {
            create_dir_all(folder).map_err(CacheError::from)?;
        }
        if reason == MissReason::Litter {
            self.set_litter_aside(entry)?;
        }
        let staged = Staged::create(self.registry(), &target)?;
        let builder = Builder::new(self, recipe, entry, staged.dir.path());
        build(&builder, context)?;
        fault::point("cache.built");
        let manifest = builder.finish(key)?;
        let bytes = manifest.to_bytes().map_err(|source| CacheError::Decode {
            what: "manifest".to_owned(),
            entry: entry.clone(),
            source,
        })?;
        // The manifest is the last file: a folder without one is no entry, wherever the copy of a root was cut off.
        fault::point("cache.manifest");
        write_file(&staged.dir.path().join(MANIFEST), &bytes, Durability::Regenerable)
            .map_err(CacheError::from)?;
        fault::point("cache.commit");
        let hold = self.hold(entry);
        match staged.commit()? {
            Committed::New => Ok(Artifact::new(self.root(), hold, manifest)),
            // Without locks another one was first, and built the same.
            Committed::Raced => match self.look(entry, Some(key))? {
                Lookup::Hit(artifact) => Ok(artifact),
                Lookup::Miss(_) => {
                    let reason =
                        "something that is no artifact took its name meanwhile; ask for it again".to_owned();
                    Err(CacheError::Unfinished { entry: entry.clone(), reason }.into())
                }
            },
        }
    }

    /// Gives a folder without a manifest a hidden name. It is not deleted at once: whoever left it may come back.
    fn set_litter_aside(&self, entry: &EntryName) -> Result<(), CacheError> {
        let (path, aside) = (entry.path(self.root()), entry.aside(self.root(), LITTER));
        touch(&path);
        waycairn_durable::rename(&path, &aside)?;
        if aside.join(MANIFEST).exists() {
            // Without locks: it was committed just now. Give it back.
            waycairn_durable::rename(&aside, &path)?;
        }
        tracing::warn!(entry = %entry, aside = %aside.display(), "set aside a folder without a manifest");
        Ok(())
    }
}

enum Locked {
    Hit(Artifact),
    Mine(Option<FileLock>, MissReason),
}

/// Says that this thread builds an entry, and refuses to wait for itself.
struct Building;

impl Building {
    fn begin(root: &Path, entry: &EntryName) -> Result<Self, CacheError> {
        BUILDING.with_borrow_mut(|building| {
            if building.iter().any(|(other, name)| other == root && name == entry) {
                return Err(CacheError::Reentrant { entry: entry.clone() });
            }
            building.push((root.to_owned(), entry.clone()));
            Ok(Self)
        })
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        BUILDING.with_borrow_mut(Vec::pop);
    }
}

/// The turn of a thread among those of this process that build one entry. One of them then asks for the lock of the
/// entry, so that many threads do not poll one file.
struct Turn<'registry> {
    registry: &'registry Arc<Registry>,
    entry: &'registry EntryName,
    mutex: Option<Arc<Mutex<()>>>,
}

impl<'registry> Turn<'registry> {
    fn new(registry: &'registry Arc<Registry>, entry: &'registry EntryName) -> Self {
        Self { registry, entry, mutex: Some(registry.build_lock(entry)) }
    }

    fn wait(&self, announce: impl FnOnce()) -> Option<MutexGuard<'_, ()>> {
        let mutex = self.mutex.as_ref()?;
        Some(match mutex.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                announce();
                mutex.lock().unwrap_or_else(PoisonError::into_inner)
            }
        })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(mutex) = self.mutex.take() {
            self.registry.forget_build_lock(self.entry, mutex);
        }
    }
}

/// The temporary folder of a build, known to the registry as long as it is one.
struct Staged<'registry> {
    dir: StagedDir,
    known: Known<'registry>,
}

struct Known<'registry> {
    registry: &'registry Registry,
    path: PathBuf,
}

impl Drop for Known<'_> {
    fn drop(&mut self) {
        self.registry.unstage(&self.path);
    }
}

impl<'registry> Staged<'registry> {
    fn create(registry: &'registry Registry, target: &Path) -> Result<Self, CacheError> {
        let dir = StagedDir::create(target, Durability::State)?;
        let path = dir.path().to_owned();
        registry.stage(&path);
        Ok(Self { dir, known: Known { registry, path } })
    }

    fn commit(self) -> Result<Committed, CacheError> {
        let Self { dir, known } = self;
        let committed = dir.commit();
        drop(known);
        Ok(committed?)
    }
}
