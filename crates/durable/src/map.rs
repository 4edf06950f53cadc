//! Files as memory, read only. The only unsafe code of this crate.
#![expect(unsafe_code, reason = "a map of a file is unsafe: another process could change the bytes")]

use std::fmt;
use std::fs::File;
use std::ops::Deref;
use std::path::Path;

use memmap2::Mmap;

use crate::MapError;

/// Is a file as a slice of bytes, read by the operating system as it is touched.
///
/// Map files that were committed and are never written again: a commit gives a name to new bytes and leaves the old
/// ones to those who have them open, so a map of a replaced or removed file goes on to show what it showed. A program
/// of somebody else that changes a file in place changes the bytes under the map; one that shortens it makes the next
/// touch of the missing part end this process.
///
/// # Memory
///
/// None of its own: pages are the operating system's, and shared between processes.
pub struct FileMap(Option<Mmap>);

impl FileMap {
    /// Maps a whole file. An empty one is an empty slice.
    ///
    /// # Errors
    ///
    /// [`MapError::NotAFile`] for a folder, a pipe or a device; [`MapError::Io`] otherwise.
    pub fn open(path: &Path) -> Result<Self, MapError> {
        let io = |operation| move |source| MapError::Io { operation, path: path.to_owned(), source };
        let file = File::open(path).map_err(io("open"))?;
        let metadata = file.metadata().map_err(io("look at"))?;
        if !metadata.is_file() {
            return Err(MapError::NotAFile { path: path.to_owned() });
        }
        if metadata.len() == 0 {
            // An empty map is an error to some operating systems.
            return Ok(Self(None));
        }
        // SAFETY: the map is private to this type and read only, and the slice it lends does not outlive it. The
        // bytes must not change meanwhile: files of this workspace are written under temporary names and never
        // again after their commit (DURABLE-1), and the type's documentation says what a foreign writer would do.
        let map = unsafe { Mmap::map(&file) }.map_err(io("map"))?;
        Ok(Self(Some(map)))
    }
}

impl Deref for FileMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl AsRef<[u8]> for FileMap {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for FileMap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "FileMap({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Durability, write_file};

    fn thread_safe<T: Send + Sync>(_: &T) {}

    #[test]
    fn a_map_shows_the_bytes_of_the_file() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("data");
        let bytes: Vec<u8> = (0..100_000_u32).map(|index| (index % 251) as u8).collect();
        write_file(&path, &bytes, Durability::Regenerable).unwrap();
        let map = FileMap::open(&path).unwrap();
        thread_safe(&map);
        assert_eq!(&*map, bytes.as_slice());
        assert_eq!(map.as_ref().len(), 100_000);
        assert_eq!(format!("{map:?}"), "FileMap(100000 bytes)");
    }

    #[test]
    fn an_empty_file_is_an_empty_slice() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("empty");
        write_file(&path, b"", Durability::Regenerable).unwrap();
        assert!(FileMap::open(&path).unwrap().is_empty());
    }

    #[test]
    fn durable_1_a_map_keeps_its_bytes_when_the_file_is_replaced_and_removed() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("data");
        write_file(&path, b"old bytes", Durability::Regenerable).unwrap();
        let map = FileMap::open(&path).unwrap();
        write_file(&path, b"new", Durability::Regenerable).unwrap();
        assert_eq!(&*map, b"old bytes");
        crate::remove_file(&path).unwrap();
        assert_eq!(&*map, b"old bytes");
    }

    #[test]
    fn errors_name_the_path() {
        let root = tempfile::tempdir().unwrap();
        let absent = root.path().join("absent");
        let error = FileMap::open(&absent).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot open `{}`", absent.display()));
        let error = FileMap::open(root.path()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("`{}` is not a regular file, and only those can be mapped", root.path().display())
        );
    }
}
