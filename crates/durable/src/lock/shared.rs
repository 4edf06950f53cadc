//! Shared locks: any number at a time, and no exclusive one among them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Holder, PAUSES, answer, read_holder};
use crate::LockError;

/// Is a shared lock on a lock file that exists, held until it is dropped.
///
/// It keeps a [`FileLock`](crate::FileLock) on that file away, and is kept away by one; other shared locks do not
/// matter. Taking it writes nothing, so it works where nothing can be written.
///
/// ```
/// # use waycairn_durable::{FileLock, LockError, SharedLock};
/// # use std::time::Duration;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let root = tempfile::tempdir()?;
/// let path = root.path().join("lock");
/// assert!(SharedLock::acquire(&path, Duration::ZERO)?.is_none(), "nobody has made the file");
/// drop(FileLock::try_acquire(&path)?);
/// let lock = SharedLock::acquire(&path, Duration::ZERO)?;
/// assert!(matches!(FileLock::try_acquire(&path), Err(LockError::Busy { .. })));
/// drop(lock);
/// # FileLock::try_acquire(&path)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct SharedLock {
    file: File,
    path: PathBuf,
}

impl SharedLock {
    /// Takes the lock, waiting up to `limit` for the end of an exclusive one; `None` where there is no lock file.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`] when the limit has passed, [`LockError::Unsupported`] and [`LockError::Io`] as
    /// [`FileLock::try_acquire`](crate::FileLock::try_acquire).
    pub fn acquire(path: &Path, limit: Duration) -> Result<Option<Self>, LockError> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            result => result.map_err(|source| LockError::Io {
                operation: "open the lock file",
                path: path.to_owned(),
                source,
            })?,
        };
        let begin = Instant::now();
        let [mut pause, longest] = PAUSES;
        while !answer(file.try_lock_shared(), path)? {
            let left = limit.saturating_sub(begin.elapsed());
            if left.is_zero() {
                let holder: Option<Holder> = read_holder(path);
                return Err(LockError::Busy { path: path.to_owned(), holder });
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(longest);
        }
        Ok(Some(Self { file, path: path.to_owned() }))
    }
}

impl Drop for SharedLock {
    fn drop(&mut self) {
        // As for an exclusive lock: a process that is being started has a copy of the open file for a moment.
        if let Err(error) = self.file.unlock() {
            tracing::debug!(path = %self.path.display(), %error, "a lock ends with its file");
        }
    }
}
