//! What is in the way: what launches that died have left under hidden names, and what stands where a file of a run is
//! written.

use std::path::Path;
use std::time::Duration;

use waycairn_durable::{delete_aside, is_temporary, remove_dir_all, remove_file, time};

use crate::error::StudyError;

/// Nothing is in the making for so long.
const OLD: Duration = Duration::from_secs(24 * 3600);

/// Removes what is hidden in a folder that nobody else writes in: the folder of a run that is claimed, or any of `runs/`
/// for the last worker.
pub(crate) fn sweep(folder: &Path) -> Result<(), StudyError> {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_temporary(&entry.file_name()) {
            delete_aside(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes what is hidden and old in the folders of a root that others may write in.
pub(crate) fn reap(root: &Path, now: i64) {
    for folder in ["", "source", "locks"] {
        let folder = root.join(folder);
        if let Err(error) = waycairn_durable::reap(&folder, OLD, time::to_system(now)) {
            // It is in nobody's way.
            tracing::warn!(folder = %folder.display(), %error, "what a dead process left stays");
        }
    }
}

/// Takes a folder away that stands where a file is written again anyway; nothing else.
pub(crate) fn clear_file(path: &Path) -> Result<(), StudyError> {
    if path.symlink_metadata().is_ok_and(|there| there.is_dir()) {
        remove_dir_all(path)?;
    }
    Ok(())
}

/// Takes away what stands where a folder is made again anyway, and is none.
pub(crate) fn clear_folder(path: &Path) -> Result<(), StudyError> {
    if path.symlink_metadata().is_ok_and(|there| !there.is_dir()) {
        remove_file(path)?;
    }
    Ok(())
}
