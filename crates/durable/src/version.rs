//! The format version of a root, and the file that says it.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use crate::temporary::{self, Kind, Temporary};
use crate::{
    CommitError, Durability, StagedFile, VersionError, create_dir_all, fault, is_dangling, open_file, system,
};

/// The file in a root that says its version.
const FILE: &str = "FORMAT";

/// What its line begins with.
const WORD: &str = "waycairn ";

/// No version line is longer.
const LINE_BYTES: u64 = 64;

/// Is the version of everything that is written below a root.
///
/// A program reads every root of its own major version, whatever the minor one, and writes in those whose minor
/// version is not above its own. A new minor version adds what older programs may ignore; a new major version changes
/// what they would misread.
///
/// Versions: 1.0, the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormatVersion {
    /// Changes when older programs would misread the root.
    pub major: u16,
    /// Changes when something is added that older programs may ignore.
    pub minor: u16,
}

impl FormatVersion {
    /// The version that this program writes.
    pub const CURRENT: Self = Self { major: 1, minor: 0 };

    /// Checks that a program of version `program` may read what has this version.
    ///
    /// # Errors
    ///
    /// [`VersionError::Unreadable`] names `path` as the file that says the version.
    pub fn check_readable_by(self, program: Self, path: &Path) -> Result<(), VersionError> {
        if self.major <= program.major {
            return Ok(());
        }
        Err(VersionError::Unreadable { path: path.to_owned(), found: self, supported: program })
    }

    /// Checks that a program of version `program` may write where this version is.
    ///
    /// # Errors
    ///
    /// [`VersionError::Unreadable`] and [`VersionError::ReadOnly`] name `path` as the file that says the version.
    pub fn check_writable_by(self, program: Self, path: &Path) -> Result<(), VersionError> {
        self.check_readable_by(program, path)?;
        if self <= program {
            return Ok(());
        }
        Err(VersionError::ReadOnly { path: path.to_owned(), found: self, supported: program })
    }

    /// Reads `waycairn 1.0` with or without the end of the line. Only the canonical digits are read.
    fn from_line(line: &str) -> Option<Self> {
        let (major, minor) = line.strip_prefix(WORD)?.trim_end().split_once('.')?;
        let version = Self { major: major.parse().ok()?, minor: minor.parse().ok()? };
        (version.to_string() == format!("{major}.{minor}")).then_some(version)
    }
}

impl fmt::Display for FormatVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// Reads the version of a root. It changes nothing; a root that does not exist, or does not say a version, has none.
///
/// # Errors
///
/// [`VersionError::RootIsAFile`], [`VersionError::Unreadable`] for a newer major version,
/// [`VersionError::Garbled`], and [`VersionError::Io`].
pub fn read_format(root: &Path) -> Result<Option<FormatVersion>, VersionError> {
    let path = root.join(FILE);
    let io = |operation| {
        let path = path.clone();
        move |source| VersionError::Io { operation, path, source }
    };
    let mut bytes = Vec::new();
    match open_file(&path) {
        Ok(file) => file.take(LINE_BYTES).read_to_end(&mut bytes).map_err(io("read"))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_dangling(&error) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(VersionError::RootIsAFile { path: root.to_owned() });
        }
        Err(error) => return Err(io("open")(error)),
    };
    let text = String::from_utf8_lossy(&bytes);
    let Some(version) = FormatVersion::from_line(&text) else {
        return Err(VersionError::Garbled { path, text: text.trim_end().to_owned() });
    };
    version.check_readable_by(FormatVersion::CURRENT, &path)?;
    Ok(Some(version))
}

/// Makes a root ready to be written: the folder exists, says a version that this program may write, and takes new
/// files. A new root gets the current version, where its file system tells upper case from lower case.
///
/// Several processes may do this at once.
///
/// # Errors
///
/// As [`read_format`], and [`VersionError::ReadOnly`] for a newer minor version, [`VersionError::Unwritable`], and
/// [`VersionError::CaseInsensitive`].
///
/// # Durability
///
/// A version that was written survives a power loss.
pub fn ensure_format(root: &Path) -> Result<FormatVersion, VersionError> {
    let path = root.join(FILE);
    create_dir_all(root).map_err(|error| unwritable(root, error))?;
    if let Some(version) = read_format(root)? {
        version.check_writable_by(FormatVersion::CURRENT, &path)?;
        // Say now what would otherwise be said when the first minutes of work are lost.
        StagedFile::create(&path, Durability::Regenerable).map_err(|error| unwritable(root, error))?;
        return Ok(version);
    }
    let exists = |other: &Path| Ok(fault::refused("case", root).is_err() || other.try_exists()?);
    if is_case_insensitive(root, exists).map_err(|error| unwritable(root, error))? {
        return Err(VersionError::CaseInsensitive { root: root.to_owned() });
    }
    write_version(&path).map_err(|error| unwritable(root, error))?;
    // A process of another version may have been first.
    let version = read_format(root)?.unwrap_or(FormatVersion::CURRENT);
    version.check_writable_by(FormatVersion::CURRENT, &path)?;
    Ok(version)
}

/// Writes the current version, unless another process has written one.
fn write_version(path: &Path) -> Result<(), CommitError> {
    let line = format!("{WORD}{}\n", FormatVersion::CURRENT);
    let stage = || {
        let mut staged = StagedFile::create(path, Durability::State)?;
        staged.write_all(line.as_bytes()).map_err(CommitError::io("write the file", path))?;
        Ok(staged)
    };
    match stage()?.commit_new() {
        // Without hard links a replacement has to do: whoever else comes now writes a version as well.
        Err(CommitError::NoHardLinks { .. }) => stage()?.commit(),
        result => result.map(|_| ()),
    }
}

/// Says whether a file can be found under its name in the other case. Temporary names end in hex digits, so there are
/// letters to change.
fn is_case_insensitive(
    root: &Path,
    exists: impl FnOnce(&Path) -> io::Result<bool>,
) -> Result<bool, CommitError> {
    let path = temporary::beside(&root.join(FILE))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
    system::create_file(&path)?;
    let probe = Temporary::new(path, Kind::File);
    exists(&root.join(name)).map_err(CommitError::io("look for the other case of", probe.path()))
}

fn unwritable(root: &Path, error: CommitError) -> VersionError {
    let path = error.path().to_owned();
    let (operation, source) = match error {
        CommitError::NotAFolder { .. } => return VersionError::RootIsAFile { path },
        CommitError::Io { operation, source, .. } => (operation, source),
        CommitError::NoHardLinks { source, .. } => ("name the file", source),
        CommitError::NoName { .. } => ("name the file", io::ErrorKind::InvalidInput.into()),
    };
    VersionError::Unwritable { root: root.to_owned(), operation, path, source }
}

#[cfg(test)]
mod tests;
