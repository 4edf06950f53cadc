//! Reading by a name behind which there may be something other than a file.
//!
//! An open of a pipe waits until somebody writes, and a device may never end: whoever puts one where a file is looked
//! for would stop every reader. What is read by its name in a root is opened here, and nowhere else.

use std::fmt;
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;

/// Opens a regular file for reading. It never waits for another process.
///
/// # Errors
///
/// Those of the operating system; for a symbolic link to nothing one of which [`is_dangling`] holds, of the kind
/// [`io::ErrorKind::NotFound`]; for a folder, a pipe, a socket or a device one of which [`is_irregular`] holds. The
/// kind of a folder's is [`io::ErrorKind::IsADirectory`].
pub fn open_file(path: &Path) -> io::Result<File> {
    if !opens_without_waiting()
        && let Ok(metadata) = std::fs::metadata(path)
    {
        regular(metadata.file_type())?;
    }
    match options().open(path) {
        Ok(file) => {
            regular(file.metadata()?.file_type())?;
            Ok(file)
        }
        Err(error) => {
            // A socket is no file to open at all, and what the system says to that is no help.
            if let Ok(metadata) = std::fs::metadata(path) {
                regular(metadata.file_type())?;
            } else if error.kind() != io::ErrorKind::PermissionDenied && path.is_symlink() {
                // Or to itself, over others or not.
                return Err(io::Error::new(io::ErrorKind::NotFound, Dangling));
            }
            Err(error)
        }
    }
}

/// Reads all of a regular file.
///
/// # Errors
///
/// As [`open_file`].
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open_file(path)?;
    let length = usize::try_from(file.metadata()?.len()).unwrap_or_default();
    let mut bytes = Vec::new();
    bytes.try_reserve(length)?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Says whether a file was not opened because it is none: it is there, and it is something else.
#[must_use]
pub fn is_irregular(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Irregular>())
}

/// Says whether a file was not found because its name is that of a symbolic link to nothing: something is there, which
/// is not to be taken for an absent file without a word.
#[must_use]
pub fn is_dangling(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Dangling>())
}

/// Is the cause of an error about a symbolic link to nothing.
#[derive(Debug)]
struct Dangling;

impl fmt::Display for Dangling {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("it is a symbolic link to nothing")
    }
}

impl std::error::Error for Dangling {}

/// Is the cause of an error about something that is not a regular file.
#[derive(Debug)]
struct Irregular(&'static str);

impl fmt::Display for Irregular {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "it is not a regular file but {}", self.0)
    }
}

impl std::error::Error for Irregular {}

/// Refuses what is not a regular file.
pub(crate) fn regular(kind: FileType) -> io::Result<()> {
    if kind.is_file() {
        return Ok(());
    }
    let (error, what) = if kind.is_dir() {
        (io::ErrorKind::IsADirectory, "a folder")
    } else {
        (io::ErrorKind::InvalidInput, special(kind))
    };
    Err(io::Error::new(error, Irregular(what)))
}

#[cfg(unix)]
fn special(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;
    if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(not(unix))]
fn special(_: FileType) -> &'static str {
    "something special"
}

/// Whether [`options`] open a pipe at once. Elsewhere it is looked at first, and what takes the name in between is
/// waited for.
fn opens_without_waiting() -> bool {
    cfg!(target_os = "linux")
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // To a regular file the flag means nothing.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    options
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Durability, write_file};

    /// Makes a pipe, which nobody writes to.
    #[cfg(unix)]
    pub(crate) fn pipe(path: &Path) {
        let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    }

    #[test]
    fn a_file_is_read_whole() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("data");
        assert_eq!(open_file(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        write_file(&path, b"bytes", Durability::Regenerable).unwrap();
        assert_eq!(read_file(&path).unwrap(), b"bytes");
        let error = read_file(root.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        assert!(is_irregular(&error) && !is_irregular(&io::ErrorKind::IsADirectory.into()));
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_said_at_once() {
        let root = tempfile::tempdir().unwrap();
        let (fifo, socket) = (root.path().join("pipe"), root.path().join("socket"));
        pipe(&fifo);
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for (path, what) in
            [(fifo.as_path(), "a pipe"), (&socket, "a socket"), (Path::new("/dev/null"), "a device")]
        {
            let error = open_file(path).unwrap_err();
            assert!(is_irregular(&error));
            assert_eq!(error.to_string(), format!("it is not a regular file but {what}"));
        }
        drop(listener);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_nothing_is_told_from_nothing() {
        use crate::{FileMap, MapError, VersionError, read_format};
        let root = tempfile::tempdir().unwrap();
        let link = root.path().join("FORMAT");
        assert!(!is_dangling(&open_file(&link).unwrap_err()));
        assert_eq!(read_format(root.path()).unwrap(), None);
        std::os::unix::fs::symlink("FORMAT", &link).unwrap();
        assert!(is_dangling(&open_file(&link).unwrap_err()), "one to itself");
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("nothing", &link).unwrap();
        let error = open_file(&link).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(is_dangling(&error) && !is_irregular(&error));
        assert_eq!(error.to_string(), "it is a symbolic link to nothing");
        assert!(matches!(FileMap::open(&link), Err(MapError::Io { source, .. }) if is_dangling(&source)));
        assert!(
            matches!(read_format(root.path()), Err(VersionError::Io { source, .. }) if is_dangling(&source))
        );
    }

    #[cfg(unix)]
    #[test]
    fn no_reader_of_this_crate_waits_for_a_pipe() {
        use crate::{Digest, FileLock, FileMap, LockError, MapError, VersionError, read_format};
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for name in ["FORMAT", "lock", "data"] {
            pipe(&at(name));
        }
        assert!(
            matches!(read_format(root.path()), Err(VersionError::Io { source, .. }) if is_irregular(&source))
        );
        assert!(
            matches!(FileLock::is_held(&at("lock")), Err(LockError::Io { source, .. }) if is_irregular(&source))
        );
        assert!(matches!(
            FileLock::try_acquire(&at("lock")),
            Err(LockError::Io { source, .. }) if is_irregular(&source)
        ));
        assert!(matches!(FileMap::open(&at("data")), Err(MapError::NotAFile { .. })));
        assert!(is_irregular(&Digest::of_file(&at("data")).unwrap_err().source));
    }
}
