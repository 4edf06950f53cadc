//! What this process uses just now: entries that are held, and builds that are on their way.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use crate::layout::EntryName;

/// One registry a root and process, however many caches are opened on it.
static REGISTRIES: LazyLock<Mutex<HashMap<PathBuf, Weak<Registry>>>> = LazyLock::new(Mutex::default);

/// What this process uses of one root.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How many holds each entry has.
    held: HashMap<EntryName, usize>,
    /// The builds of this process, each with the lock that its threads exclude each other by.
    builds: HashMap<EntryName, Arc<Mutex<()>>>,
    /// The temporary folders of those builds.
    staged: HashSet<PathBuf>,
}

impl Registry {
    /// The registry of a root, by its real path.
    pub(crate) fn of(root: &Path) -> Arc<Self> {
        let mut registries = lock(&REGISTRIES);
        registries.retain(|_, registry| registry.strong_count() > 0);
        let entry = registries.entry(real_path(root)).or_default();
        entry.upgrade().unwrap_or_else(|| {
            let registry = Arc::new(Self::default());
            *entry = Arc::downgrade(&registry);
            registry
        })
    }

    /// Holds an entry. It is held before it is looked at, so a collection in this process cannot come in between.
    pub(crate) fn hold(self: &Arc<Self>, entry: &EntryName) -> Hold {
        let mut state = lock(&self.state);
        match state.held.get_mut(entry) {
            Some(count) => *count += 1,
            None => {
                state.held.insert(entry.clone(), 1);
            }
        }
        Hold { registry: Arc::clone(self), entry: entry.clone() }
    }

    /// The entries that are held.
    pub(crate) fn held(&self) -> BTreeSet<EntryName> {
        lock(&self.state).held.keys().cloned().collect()
    }

    /// Runs `act` if nothing holds the entry, and lets nothing hold it meanwhile.
    pub(crate) fn unless_held<T>(&self, entry: &EntryName, act: impl FnOnce() -> T) -> Option<T> {
        let state = lock(&self.state);
        if state.held.contains_key(entry) { None } else { Some(act()) }
    }

    /// The lock between the threads of this process that build an entry.
    pub(crate) fn build_lock(&self, entry: &EntryName) -> Arc<Mutex<()>> {
        Arc::clone(lock(&self.state).builds.entry(entry.clone()).or_default())
    }

    /// Forgets that lock when no other thread has it.
    pub(crate) fn forget_build_lock(&self, entry: &EntryName, mine: Arc<Mutex<()>>) {
        let mut state = lock(&self.state);
        drop(mine);
        if state.builds.get(entry).is_some_and(|other| Arc::strong_count(other) == 1) {
            state.builds.remove(entry);
        }
    }

    pub(crate) fn stage(&self, path: &Path) {
        lock(&self.state).staged.insert(path.to_owned());
    }

    pub(crate) fn unstage(&self, path: &Path) {
        lock(&self.state).staged.remove(path);
    }

    pub(crate) fn is_staged(&self, path: &Path) -> bool {
        lock(&self.state).staged.contains(path)
    }
}

/// Keeps an entry from being collected by this process, until it is dropped.
///
/// Processes that share a root spare each other's entries by history, pins and age; this is for what one process has
/// in its hands.
#[derive(Debug)]
#[must_use = "the entry is held until this is dropped"]
pub struct Hold {
    registry: Arc<Registry>,
    entry: EntryName,
}

impl Hold {
    /// Names the entry that is held.
    #[must_use]
    pub fn entry(&self) -> &EntryName {
        &self.entry
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = lock(&self.registry.state);
        if let Some(count) = state.held.get_mut(&self.entry) {
            *count -= 1;
            if *count == 0 {
                state.held.remove(&self.entry);
            }
        }
    }
}

/// A panic of a holder leaves counts and sets that are whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The real path of what may not exist yet: of the folders above that do, with the rest of the name.
fn real_path(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in path.ancestors() {
        if let Ok(real) = fs::canonicalize(above) {
            let rest = path.strip_prefix(above).unwrap_or(Path::new(""));
            let plain = rest.components().filter(|part| !matches!(part, Component::CurDir));
            return plain.fold(real, |path, part| path.join(part));
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use waycairn_durable::Digest;

    #[test]
    fn cache_3_a_held_entry_is_held_until_the_last_hold_ends() {
        let root = tempfile::tempdir().unwrap();
        let entry = EntryName::new("p", &Key::from_digest(Digest::of(b"x"))).unwrap();
        let registry = Registry::of(&root.path().join("not/yet/there"));
        let (one, two) = (registry.hold(&entry), registry.hold(&entry));
        assert_eq!(one.entry(), &entry);
        drop(one);
        assert_eq!(registry.held(), BTreeSet::from([entry.clone()]));
        assert_eq!(registry.unless_held(&entry, || ()), None);
        drop(two);
        assert_eq!(registry.unless_held(&entry, || 3), Some(3));
    }

    #[test]
    fn one_root_has_one_registry_by_every_path() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        let early = Registry::of(&real);
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(Arc::ptr_eq(&early, &Registry::of(&link)));
        assert!(Arc::ptr_eq(&early, &Registry::of(&folder.path().join("./real"))));
        assert!(!Arc::ptr_eq(&early, &Registry::of(folder.path())));
    }
}
