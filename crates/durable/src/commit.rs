//! The commit of a file or folder: temporary name, bytes, sync, rename, sync above.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::temporary::{self, Kind, Temporary};
use crate::{CommitError, fault, open_file, system};

/// Says what a commit promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Bytes that exist nowhere else. They are synced before the name appears, and the name before the commit
    /// returns, so a power loss after that loses nothing.
    State,
    /// Bytes that can be made again, and that are verified when they are used. Nothing is synced: the commit survives
    /// the end of its process, and a power loss may leave the name with some of the bytes.
    Regenerable,
}

/// Says whose bytes have the name after a commit that replaces nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub enum Committed {
    /// The name is new, with the bytes of this commit.
    New,
    /// Another process was first. Its bytes have the name, and those of this commit are removed.
    Raced,
}

/// Is a file that nobody sees until it is complete.
///
/// The bytes go to a temporary file in the target's folder, `.tmp-<pid>-<random>`, with the mode that the umask gives
/// to ordinary files. Dropped without a commit it is removed. Writes are passed on as they come: wrap it in a
/// [`BufWriter`](io::BufWriter) for small ones.
///
/// ```
/// # use std::io::Write;
/// # use waycairn_durable::{Committed, Durability, StagedFile};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let root = tempfile::tempdir()?;
/// let target = root.path().join("note");
/// let mut staged = StagedFile::create(&target, Durability::State)?;
/// staged.write_all(b"first")?;
/// staged.commit()?;
///
/// // `commit_new` leaves what is there.
/// let mut staged = StagedFile::create(&target, Durability::State)?;
/// staged.write_all(b"second")?;
/// assert_eq!(staged.commit_new()?, Committed::Raced);
/// assert_eq!(std::fs::read(&target)?, b"first");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StagedFile {
    file: File,
    temporary: Temporary,
    target: PathBuf,
    durability: Durability,
}

impl StagedFile {
    /// Makes the temporary file. The folder of the target has to exist.
    ///
    /// # Errors
    ///
    /// [`CommitError::Io`], and [`CommitError::NoName`] when the target is no name of a file.
    pub fn create(target: &Path, durability: Durability) -> Result<Self, CommitError> {
        let path = temporary::beside(target)?;
        let file = system::create_file(&path)?;
        Ok(Self { file, temporary: Temporary::new(path, Kind::File), target: target.to_owned(), durability })
    }

    /// Shows the path of the temporary file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.temporary.path()
    }

    /// Shows the temporary file, open for reading and writing.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name. A file of that name is replaced; its readers keep the old bytes.
    ///
    /// # Errors
    ///
    /// [`CommitError::Io`]. When the last step fails, the sync of the folder, the file has its name all the same.
    ///
    /// # Durability
    ///
    /// As the [`Durability`] says that the file was made with.
    pub fn commit(self) -> Result<(), CommitError> {
        let durability = self.durability;
        let (temporary, target) = self.finish()?;
        system::rename(temporary.path(), &target).map_err(|source| refused(&target, source))?;
        temporary.keep();
        sync_above(&target, durability)
    }

    /// Gives the file its name if nothing has that name, by a hard link.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit), and [`CommitError::NoHardLinks`] where the file system has none.
    ///
    /// # Durability
    ///
    /// As for `commit`. After [`Committed::Raced`] the name is synced too, so what it stands for can be relied on.
    pub fn commit_new(self) -> Result<Committed, CommitError> {
        let durability = self.durability;
        let (temporary, target) = self.finish()?;
        let committed = match system::link(temporary.path(), &target) {
            Ok(()) => Committed::New,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Committed::Raced,
            Err(source)
                if matches!(source.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied) =>
            {
                return Err(CommitError::NoHardLinks { path: target, source });
            }
            Err(source) => return Err(CommitError::io("name the file", &target)(source)),
        };
        sync_above(&target, durability)?;
        Ok(committed)
    }

    /// Gives the file its name as [`commit`](Self::commit) does, and keeps what had the name before, so that the
    /// commit can be taken back while others that belong to it may still fail.
    ///
    /// # Errors
    ///
    /// As `commit`; but after any error the name means what it meant before, unless that could not be restored.
    ///
    /// # Durability
    ///
    /// As for `commit`. A process that dies before it drops the [`Revocable`] leaves the new bytes under the name,
    /// and the old ones under a temporary name.
    pub fn commit_revocable(self) -> Result<Revocable, CommitError> {
        let durability = self.durability;
        let (temporary, target) = self.finish()?;
        let before = keep_before(&target, durability)?;
        system::rename(temporary.path(), &target).map_err(|source| refused(&target, source))?;
        temporary.keep();
        let committed = Revocable { target, before, durability };
        match sync_above(&committed.target, durability) {
            Ok(()) => Ok(committed),
            Err(error) => {
                if let Err(again) = committed.revoke() {
                    tracing::error!(error = %again, "a failed commit could not be taken back");
                }
                Err(error)
            }
        }
    }

    /// Bytes before names: after this the temporary file is complete, and durable where that was asked for.
    fn finish(self) -> Result<(Temporary, PathBuf), CommitError> {
        let Self { file, temporary, target, durability } = self;
        if durability == Durability::State {
            system::sync_file(&file, temporary.path())?;
        }
        system::close(file, temporary.path());
        Ok((temporary, target))
    }
}

/// Is a commit of a file that can still be taken back. Dropped, the commit stays.
///
/// ```
/// # use std::io::Write;
/// # use waycairn_durable::{Durability, StagedFile, write_file};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let root = tempfile::tempdir()?;
/// let note = root.path().join("note");
/// write_file(&note, b"first", Durability::State)?;
/// let mut staged = StagedFile::create(&note, Durability::State)?;
/// staged.write_all(b"second")?;
/// let committed = staged.commit_revocable()?;
/// assert_eq!(std::fs::read(&note)?, b"second");
/// committed.revoke()?;
/// assert_eq!(std::fs::read(&note)?, b"first");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropped, the commit stays"]
pub struct Revocable {
    target: PathBuf,
    /// A second name of the file that had the name before, or a copy of it.
    before: Option<Temporary>,
    durability: Durability,
}

impl Revocable {
    /// Gives the name back to the file that had it before, or takes it away if none had it.
    ///
    /// # Errors
    ///
    /// [`CommitError::Io`]. What could not be restored stays beside the target, under its temporary name.
    ///
    /// # Durability
    ///
    /// As the [`Durability`] says that the file was made with.
    pub fn revoke(self) -> Result<(), CommitError> {
        let Self { target, before, durability } = self;
        match before {
            Some(before) => {
                let renamed = system::rename(before.path(), &target);
                // Even if that failed: it may be the only name of these bytes.
                before.keep();
                renamed.map_err(CommitError::io("restore the file", &target))?;
            }
            None => system::remove_file(&target)?,
        }
        sync_above(&target, durability)
    }
}

/// Gives the file that has a name a second, temporary one; `None` if there is no file to keep.
fn keep_before(target: &Path, durability: Durability) -> Result<Option<Temporary>, CommitError> {
    match fs::symlink_metadata(target) {
        // No file replaces a folder: the rename will say so.
        Ok(metadata) if metadata.is_dir() => return Ok(None),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(CommitError::io("look at", target)(source)),
    }
    let path = temporary::beside(target)?;
    let linked = system::link(target, &path);
    let kept = Temporary::new(path, Kind::File);
    if linked.is_ok() {
        return Ok(Some(kept));
    }
    // No hard links here, or none to a file of somebody else: a copy does it too.
    let mut old = match open_file(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        old => old.map_err(CommitError::io("open the file", target))?,
    };
    let mut copy = system::create_file(kept.path())?;
    fault::step("file.write", kept.path()).map_err(CommitError::io("copy the file", target))?;
    io::copy(&mut old, &mut copy).map_err(CommitError::io("copy the file", target))?;
    if durability == Durability::State {
        system::sync_file(&copy, kept.path())?;
    }
    Ok(Some(kept))
}

impl Write for StagedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        fault::step("file.write", self.temporary.path())?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for StagedFile {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file.seek(position)
    }
}

/// Writes a whole file: its readers see the old bytes or the new ones.
///
/// # Errors
///
/// As [`StagedFile::create`] and [`StagedFile::commit`].
///
/// # Durability
///
/// As `durability` says.
pub fn write_file(target: &Path, bytes: &[u8], durability: Durability) -> Result<(), CommitError> {
    let mut staged = StagedFile::create(target, durability)?;
    staged.write_all(bytes).map_err(CommitError::io("write the file", target))?;
    staged.commit()
}

/// Is a folder that nobody sees until it is complete.
///
/// It is filled under a temporary name beside the target. Dropped without a commit it is removed with all that is in
/// it. The files in it may be written in any way, since nobody reads them before the commit.
#[derive(Debug)]
pub struct StagedDir {
    temporary: Temporary,
    target: PathBuf,
    durability: Durability,
}

impl StagedDir {
    /// Makes the temporary folder. The folder above the target has to exist.
    ///
    /// # Errors
    ///
    /// [`CommitError::Io`], and [`CommitError::NoName`] when the target is no name of a folder.
    pub fn create(target: &Path, durability: Durability) -> Result<Self, CommitError> {
        let path = temporary::beside(target)?;
        system::create_folder(&path)?;
        Ok(Self { temporary: Temporary::new(path, Kind::Folder), target: target.to_owned(), durability })
    }

    /// Shows the path of the temporary folder, to be filled.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.temporary.path()
    }

    /// Gives the folder its name if nothing but an empty folder has that name.
    ///
    /// All files have to be closed, or at least flushed, before.
    ///
    /// # Errors
    ///
    /// [`CommitError::Io`], and [`CommitError::NotAFolder`] when a file has the name. When the last step fails, the
    /// sync of the folder above, the folder has its name all the same.
    ///
    /// # Durability
    ///
    /// With [`Durability::State`] every file and folder inside is synced before the name appears, and the name before
    /// this returns, also after [`Committed::Raced`].
    pub fn commit(self) -> Result<Committed, CommitError> {
        let Self { temporary, target, durability } = self;
        if durability == Durability::State {
            system::sync_tree(temporary.path())?;
        }
        let committed = match system::rename(temporary.path(), &target) {
            Ok(()) => {
                temporary.keep();
                Committed::New
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
                ) =>
            {
                Committed::Raced
            }
            Err(source) => return Err(refused(&target, source)),
        };
        sync_above(&target, durability)?;
        Ok(committed)
    }
}

/// Why a rename onto `target` failed.
fn refused(target: &Path, source: io::Error) -> CommitError {
    match source.kind() {
        io::ErrorKind::NotADirectory => CommitError::NotAFolder { path: target.to_owned() },
        _ => CommitError::io("give its name to", target)(source),
    }
}

fn sync_above(target: &Path, durability: Durability) -> Result<(), CommitError> {
    match durability {
        Durability::State => system::sync_folder(system::parent(target)?),
        Durability::Regenerable => Ok(()),
    }
}

#[cfg(test)]
mod tests;
