//! Kernel locks on files that stay, and who holds them.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::regular::regular;
use crate::{LockError, open_file, time};

mod shared;

pub use shared::SharedLock;

/// A holder's text is one line of at most this many bytes.
const HOLDER_BYTES: u64 = 4096;

/// The first and the longest pause between two tries of [`FileLock::acquire`].
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];

/// How often a try is repeated while nobody but lookers hold the lock, each for less than a microsecond.
const TRIES_AMONG_LOOKERS: u32 = 10_000;

/// Says who holds a lock, for a message. Nothing is decided by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The name of the machine.
    pub host: String,
    /// The process on that machine.
    pub pid: u32,
    /// When it took the lock: RFC 3339, UTC.
    pub started: String,
}

impl Holder {
    /// This process, from now on.
    #[must_use]
    pub fn current() -> Self {
        Self {
            host: gethostname::gethostname().to_string_lossy().into_owned(),
            pid: std::process::id(),
            started: time::rfc3339_micros(time::now_nanos()),
        }
    }

    /// Stands for a holder whose text could not be read: no host, process 0.
    fn unknown() -> Self {
        Self { host: String::new(), pid: 0, started: String::new() }
    }

    fn is_unknown(&self) -> bool {
        self.pid == 0
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unknown() {
            return formatter.write_str("another process");
        }
        write!(formatter, "process {} on {} since {}", self.pid, self.host, self.started)
    }
}

/// Is an exclusive lock on a file, held until it is dropped.
///
/// The operating system keeps the lock, so it ends with the process, however that ends. The file stays: it says who
/// has the lock, or had it last, and it is never deleted, since a lock on a deleted file would exclude nobody. Two
/// locks of one process exclude each other as those of two processes do.
///
/// # Concurrency
///
/// The lock excludes other holders of the same lock file and nothing else. It does not wait in a queue: of several
/// that wait, any may be next.
///
/// ```
/// # use waycairn_durable::{FileLock, LockError};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let root = tempfile::tempdir()?;
/// let path = root.path().join("lock");
/// let lock = FileLock::try_acquire(&path)?;
/// match FileLock::try_acquire(&path) {
///     Err(LockError::Busy { holder: Some(holder), .. }) => assert_eq!(holder.pid, std::process::id()),
///     other => panic!("{other:?}"),
/// }
/// drop(lock);
/// assert_eq!(FileLock::is_held(&path)?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct FileLock {
    file: File,
    path: PathBuf,
}

impl FileLock {
    /// Takes the lock if it is free, making the lock file where there is none. The folder has to exist.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`] says who has it, [`LockError::Unsupported`] that the file system has no locks,
    /// [`LockError::Io`] that the lock file could not be opened.
    pub fn try_acquire(path: &Path) -> Result<Self, LockError> {
        let file = open_lock(path).map_err(|source| LockError::Io {
            operation: "open the lock file",
            path: path.to_owned(),
            source,
        })?;
        if !lock_exclusively(&file, path)? {
            return Err(LockError::Busy { path: path.to_owned(), holder: read_holder(path) });
        }
        if let Err(error) = write_holder(&file, &Holder::current()) {
            // The lock is what counts; the text is for people.
            tracing::debug!(path = %path.display(), %error, "the lock file does not say who holds it");
        }
        Ok(Self { file, path: path.to_owned() })
    }

    /// Takes the lock, waiting for it up to `limit`. When it is not free at once, `announce` is called, once, before
    /// the wait.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire); [`LockError::Busy`] when the limit has passed.
    pub fn acquire(path: &Path, limit: Duration, announce: impl FnOnce(&Holder)) -> Result<Self, LockError> {
        let begin = Instant::now();
        let busy = match Self::try_acquire(path) {
            Err(LockError::Busy { holder, .. }) => holder,
            result => return result,
        };
        announce(&busy.unwrap_or_else(Holder::unknown));
        let [mut pause, longest] = PAUSES;
        loop {
            let left = limit.saturating_sub(begin.elapsed());
            std::thread::sleep(pause.min(left));
            match Self::try_acquire(path) {
                Err(LockError::Busy { .. }) if begin.elapsed() < limit => pause = (pause * 2).min(longest),
                result => {
                    tracing::debug!(path = %path.display(), waited = ?begin.elapsed(), "waited for a lock");
                    return result;
                }
            }
        }
    }

    /// Looks whether somebody holds the lock, and who. It makes no file, and an absent one is free.
    ///
    /// A holder that cannot be read, since it is writing its text just now, has no host and the process number 0. The
    /// answer is of the past as soon as it is there: to be sure, take the lock.
    ///
    /// # Errors
    ///
    /// [`LockError::Unsupported`] and [`LockError::Io`], as [`try_acquire`](Self::try_acquire).
    pub fn is_held(path: &Path) -> Result<Option<Holder>, LockError> {
        let file = match open_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            result => result.map_err(|source| LockError::Io {
                operation: "open the lock file",
                path: path.to_owned(),
                source,
            })?,
        };
        if try_shared(&file, path)? {
            return Ok(None);
        }
        Ok(Some(read_holder(path).unwrap_or_else(Holder::unknown)))
    }

    /// Shows the path of the lock file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing the file would do, unless another thread is starting a process just now: until that runs its
        // program it has a copy of the open file, and with it the lock.
        if let Err(error) = self.file.unlock() {
            tracing::debug!(path = %self.path.display(), %error, "a lock ends with its file");
        }
    }
}

/// Opens a lock file, and makes it where there is none. An open for reading and writing waits for nobody. A link is not followed:
/// what it leads to would be written over.
fn open_lock(path: &Path) -> io::Result<File> {
    if path.is_symlink() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a symbolic link, and a lock is a file",
        ));
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // One that somebody puts there at this moment is refused as well.
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    }
    let file = options.open(path)?;
    regular(file.metadata()?.file_type())?;
    Ok(file)
}

/// Takes the exclusive lock; `false` when another exclusive one is held.
///
/// Those who only look hold a shared lock for a moment. They must not make this fail, so a refusal counts only if a
/// shared lock is refused too: then somebody holds the exclusive one.
fn lock_exclusively(file: &File, path: &Path) -> Result<bool, LockError> {
    for _ in 0..TRIES_AMONG_LOOKERS {
        #[expect(clippy::disallowed_methods, reason = "the one door to it")]
        let result = file.try_lock();
        if answer(result, path)? {
            return Ok(true);
        }
        if !try_shared(file, path)? {
            return Ok(false);
        }
        std::thread::yield_now();
    }
    Ok(false)
}

/// Takes the exclusive lock of a file of one's own, or of one that is dead; `false` where the file system has no locks.
pub(crate) fn lock_at_once(file: &File, path: &Path) -> Result<bool, LockError> {
    match lock_exclusively(file, path) {
        Ok(true) => Ok(true),
        Ok(false) => Err(LockError::Busy { path: path.to_owned(), holder: None }),
        Err(LockError::Unsupported { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Says whether a shared lock can be had, and lets go of it at once.
pub(crate) fn try_shared(file: &File, path: &Path) -> Result<bool, LockError> {
    let free = answer(file.try_lock_shared(), path)?;
    if free {
        // When this fails the lock ends with the file.
        let _ = file.unlock();
    }
    Ok(free)
}

fn answer(result: Result<(), TryLockError>, path: &Path) -> Result<bool, LockError> {
    match result {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(source)) if no_locks(&source) => {
            Err(LockError::Unsupported { path: path.to_owned(), source })
        }
        Err(TryLockError::Error(source)) => {
            Err(LockError::Io { operation: "lock the file", path: path.to_owned(), source })
        }
    }
}

/// The answers that mean that this file system has no locks: "not supported", and "no locks available", which a
/// networked file system gives whose lock service does not run.
fn no_locks(error: &io::Error) -> bool {
    let no_locks_available = if cfg!(target_os = "linux") { Some(37) } else { Some(77) };
    error.kind() == io::ErrorKind::Unsupported || (cfg!(unix) && error.raw_os_error() == no_locks_available)
}

/// Writes the new line over the old one and cuts the rest off after it: a reader in between finds the whole new line
/// and ignores what follows.
fn write_holder(mut file: &File, holder: &Holder) -> io::Result<()> {
    let mut line = serde_json::to_vec(holder)?;
    line.push(b'\n');
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&line)?;
    file.set_len(line.len() as u64)
}

/// Reads the first line; anything but a holder is nothing.
fn read_holder(path: &Path) -> Option<Holder> {
    let mut bytes = Vec::new();
    open_file(path).ok()?.take(HOLDER_BYTES).read_to_end(&mut bytes).ok()?;
    let line = bytes.split(|&byte| byte == b'\n').next()?;
    serde_json::from_slice(line).ok()
}

#[cfg(test)]
mod tests;
