//! Files that grow while their owner lives, and that somebody else takes over when it is dead.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::lock::{lock_at_once, try_shared};
use crate::temporary::{self, Kind, Temporary};
use crate::{CommitError, LockError, fault, open_file, system};

/// How long an owner that has no lock may be silent before it counts as dead: six times the pause between two of
/// its [`beat`](OwnedFile::beat)s.
const SILENCE: Duration = Duration::from_secs(60);

/// How often an owner without a lock says that it lives.
pub const HEARTBEAT: Duration = Duration::from_secs(10);

/// Is a file that this process alone appends to, and that another one may take over when this process has ended,
/// however it ended.
///
/// A kernel lock on the file says that the owner lives. Where the file system has no locks the file's time does: the
/// owner renews it at least every [`HEARTBEAT`], and one that was silent for a minute counts as dead.
///
/// ```
/// # use waycairn_durable::OwnedFile;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let root = tempfile::tempdir()?;
/// let path = root.path().join("segment");
/// let mut owned = OwnedFile::create(&path)?;
/// owned.append(b"one")?;
/// assert!(OwnedFile::take(&path)?.is_none(), "its owner lives");
/// drop(owned);
/// let taken = OwnedFile::take(&path)?.expect("nobody owns it any more");
/// assert_eq!(std::fs::read(&path)?, b"one");
/// taken.remove()?;
/// assert!(!path.exists());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct OwnedFile {
    file: File,
    path: PathBuf,
    /// Bytes that were appended whole.
    length: u64,
    locked: bool,
}

impl OwnedFile {
    /// Makes an empty file and owns it. Nobody sees it before it is owned. A file of that name is replaced.
    ///
    /// # Errors
    ///
    /// [`CommitError::Io`], and [`CommitError::NoName`] when the path is no name of a file.
    ///
    /// # Durability
    ///
    /// None: it survives the end of its process. See [`sync`](Self::sync).
    pub fn create(path: &Path) -> Result<Self, CommitError> {
        let temporary = temporary::beside(path)?;
        let file = system::create_file(&temporary)?;
        let temporary = Temporary::new(temporary, Kind::File);
        let locked = locked(&file, path)
            .map_err(|error| CommitError::io("lock the file", path)(io::Error::other(error)))?;
        system::rename(temporary.path(), path).map_err(CommitError::io("name the file", path))?;
        temporary.keep();
        Ok(Self { file, path: path.to_owned(), length: 0, locked })
    }

    /// Takes over a file whose owner is dead; `None` when the owner lives, or the file is gone.
    ///
    /// # Errors
    ///
    /// [`LockError::Io`] when it cannot be opened.
    pub fn take(path: &Path) -> Result<Option<Self>, LockError> {
        let failed = |operation| move |source| LockError::Io { operation, path: path.to_owned(), source };
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed("open the file"))?,
        };
        let locked = match locked(&file, path) {
            Err(LockError::Busy { .. }) => return Ok(None),
            locked => locked?,
        };
        if !locked && !is_silent(&file, path).map_err(failed("look at the file"))? {
            return Ok(None);
        }
        // Whoever had the lock a moment ago may have removed the file, or put another one in its place.
        if !is_at(&file, path).map_err(failed("look at the file"))? {
            return Ok(None);
        }
        let length = file.metadata().map_err(failed("look at the file"))?.len();
        Ok(Some(Self { file, path: path.to_owned(), length, locked }))
    }

    /// Looks whether somebody who lives owns a file. Nothing is changed, so it works where nothing can be written; an absent
    /// file is nobody's. The answer is of the past as soon as it is there.
    ///
    /// # Errors
    ///
    /// [`LockError::Io`] when it cannot be opened.
    pub fn is_owned(path: &Path) -> Result<bool, LockError> {
        let failed = |source| LockError::Io { operation: "look at the file", path: path.to_owned(), source };
        let file = match open_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            file => file.map_err(failed)?,
        };
        let has_locks = fault::refused("lock", path);
        let has_locks = has_locks.map_err(|source| LockError::Unsupported { path: path.to_owned(), source });
        match has_locks.and_then(|()| try_shared(&file, path)) {
            Err(LockError::Unsupported { .. }) => {
                let last = file.metadata().and_then(|metadata| metadata.modified()).map_err(failed)?;
                let now = crate::time::to_system(crate::time::now_nanos());
                Ok(now.duration_since(last).is_ok_and(|silence| silence < SILENCE))
            }
            free => free.map(|free| !free),
        }
    }

    /// Appends bytes: all of them, or, when that fails, none as far as the file can still be cut.
    ///
    /// # Errors
    ///
    /// That of the write. The next call writes over what a failed one left.
    ///
    /// # Durability
    ///
    /// The bytes survive the end of the process, and a power loss after [`sync`](Self::sync).
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        fault::step("file.append", &self.path)?;
        let appended = self.write_at_end(bytes);
        if appended.is_ok() {
            self.length += bytes.len() as u64;
        } else if let Err(error) = self.file.set_len(self.length) {
            tracing::debug!(path = %self.path.display(), %error, "a half-written end stays");
        }
        appended
    }

    fn write_at_end(&mut self, bytes: &[u8]) -> io::Result<()> {
        use std::io::{Seek as _, SeekFrom};
        self.file.seek(SeekFrom::Start(self.length))?;
        self.file.write_all(bytes)
    }

    /// Makes what was appended, and the name of the file, survive a power loss.
    ///
    /// # Errors
    ///
    /// [`CommitError::Io`].
    pub fn sync(&self) -> Result<(), CommitError> {
        system::sync_file(&self.file, &self.path)?;
        system::sync_folder(system::parent(&self.path)?)
    }

    /// Whether others see by the file's time alone that the owner lives, so that [`beat`](Self::beat) matters.
    #[must_use]
    pub fn needs_heartbeat(&self) -> bool {
        !self.locked
    }

    /// Renews the file's time.
    ///
    /// # Errors
    ///
    /// That of the operating system.
    pub fn beat(&self) -> io::Result<()> {
        self.file.set_modified(crate::time::to_system(crate::time::now_nanos()))
    }

    /// Removes the file, while it is still owned.
    ///
    /// # Errors
    ///
    /// [`CommitError::Io`].
    ///
    /// # Durability
    ///
    /// A power loss may bring the file back.
    pub fn remove(self) -> Result<(), CommitError> {
        system::remove_file(&self.path)
    }

    /// Gives the file another name, while it is still owned. A file of that name is replaced.
    ///
    /// # Errors
    ///
    /// [`CommitError::Io`].
    pub fn rename(mut self, to: &Path) -> Result<Self, CommitError> {
        system::rename(&self.path, to).map_err(CommitError::io("rename the file", &self.path))?;
        to.clone_into(&mut self.path);
        Ok(self)
    }
}

impl Drop for OwnedFile {
    fn drop(&mut self) {
        // Closing the file would do, unless another thread is starting a process just now; see `FileLock`.
        if self.locked
            && let Err(error) = self.file.unlock()
        {
            tracing::debug!(path = %self.path.display(), %error, "a lock ends with its file");
        }
    }
}

/// Takes the lock of a file of one's own, or of one that is dead; `false` where the file system has no locks.
fn locked(file: &File, path: &Path) -> Result<bool, LockError> {
    if fault::refused("lock", path).is_err() { Ok(false) } else { lock_at_once(file, path) }
}

/// Whether the owner of a file without a lock has said nothing for long. The clock is that of the file system, which
/// may be another machine's: a new file says what time it is there.
fn is_silent(file: &File, path: &Path) -> io::Result<bool> {
    let last = file.metadata()?.modified()?;
    let probe = temporary::beside(path).map_err(io::Error::other)?;
    let made = system::create_file(&probe).map_err(io::Error::other)?;
    let probe = Temporary::new(probe, Kind::File);
    let now = made.metadata()?.modified()?;
    drop(probe);
    Ok(now.duration_since(last).is_ok_and(|silence| silence >= SILENCE))
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let ours = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> io::Result<bool> {
    // There no open file can be removed or replaced.
    path.try_exists()
}

#[cfg(test)]
mod tests;
