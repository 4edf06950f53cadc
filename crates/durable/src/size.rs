//! How much space files take, told without reading one.

use std::fs;
use std::io;
use std::ops::{Add, AddAssign};
use std::path::Path;

use serde::Serialize;

use crate::CommitError;

/// Says how many files there are, and how many bytes they have.
///
/// Links count as files of their own and are not followed; folders count as nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Size {
    /// How many files.
    pub files: u64,
    /// How many bytes they have, by their lengths.
    pub bytes: u64,
}

impl Size {
    /// Measures a file, or a folder with all that is in it. What is absent, or vanishes meanwhile, is nothing.
    ///
    /// # Errors
    ///
    /// [`CommitError::Io`] names what cannot be looked at.
    pub fn of(path: &Path) -> Result<Self, CommitError> {
        let Some(metadata) = there(fs::symlink_metadata(path)).map_err(CommitError::io("look at", path))?
        else {
            return Ok(Self::default());
        };
        if !metadata.is_dir() {
            return Ok(Self { files: 1, bytes: metadata.len() });
        }
        let mut size = Self::default();
        let mut open = vec![path.to_owned()];
        while let Some(folder) = open.pop() {
            let list = |result| there(result).map_err(CommitError::io("list the folder", &folder));
            let Some(entries) =
                there(fs::read_dir(&folder)).map_err(CommitError::io("list the folder", &folder))?
            else {
                continue;
            };
            for entry in entries {
                let Some(entry) = list(entry)? else { continue };
                let path = entry.path();
                let metadata = there(entry.metadata()).map_err(CommitError::io("look at", &path))?;
                match metadata {
                    Some(metadata) if metadata.is_dir() => open.push(path),
                    Some(metadata) => size += Self { files: 1, bytes: metadata.len() },
                    None => {}
                }
            }
        }
        Ok(size)
    }
}

/// Nothing for what is not there, or no folder any more.
fn there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl AddAssign for Size {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
    }
}

impl Add for Size {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl std::iter::Sum for Size {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]
    use super::*;

    #[test]
    fn files_and_bytes_are_counted_at_every_depth_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("one"), [0; 10]).unwrap();
        fs::write(at("a/two"), [0; 20]).unwrap();
        fs::write(at("a/b/three"), []).unwrap();
        assert_eq!(Size::of(folder.path()).unwrap(), Size { files: 3, bytes: 30 });
        assert_eq!(Size::of(&at("one")).unwrap(), Size { files: 1, bytes: 10 });
        assert_eq!(Size::of(&at("absent")).unwrap(), Size::default());
        assert_eq!(Size::of(&at("one/below")).unwrap(), Size::default());
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(folder.path(), at("a/loop")).unwrap();
            let size = Size::of(folder.path()).unwrap();
            assert_eq!(size.files, 4);
            assert_eq!(size.bytes, 30 + folder.path().as_os_str().len() as u64);
        }
    }
}
