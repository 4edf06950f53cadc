//! What loses its name and keeps its bytes for a while.

use std::fs::File;
use std::path::{Path, PathBuf};

use waycairn_durable::{rename, time};

use crate::cache::Cache;
use crate::layout::DAMAGED;
use crate::{CacheError, EntryName};

impl Cache {
    /// Sets a damaged entry aside, under a hidden name in the folder of its product, so that it is built again. It is
    /// deleted by a collection after a day; until then somebody may look at it. Returns the new path.
    ///
    /// # Errors
    ///
    /// [`CacheError::Gone`] when there is no such entry, [`CacheError::Commit`].
    ///
    /// # Durability
    ///
    /// The new name survives a power loss.
    pub fn quarantine(&self, entry: &EntryName) -> Result<PathBuf, CacheError> {
        self.ensure_writable()?;
        let (path, aside) = (entry.path(self.root()), entry.aside(self.root(), DAMAGED));
        if path.symlink_metadata().is_err() {
            return Err(CacheError::Gone { entry: entry.clone() });
        }
        touch(&path);
        rename(&path, &aside)?;
        tracing::warn!(entry = %entry, aside = %aside.display(), "set aside a damaged entry");
        Ok(aside)
    }
}

/// Makes a folder as young as it is under its new name: its day begins now.
pub(crate) fn touch(path: &Path) {
    // An open of anything else might wait.
    if !path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return;
    }
    let now = time::to_system(time::now_nanos());
    if let Err(error) = File::open(path).and_then(|folder| folder.set_modified(now)) {
        tracing::debug!(path = %path.display(), %error, "the time of a folder stays");
    }
}
