//! Files as memory: committed ones to read, new ones to fill. The only unsafe code of this crate.
#![expect(unsafe_code, reason = "a map of a file is unsafe: another process could change the bytes")]

use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::ops::{Deref, DerefMut};
use std::path::Path;

use memmap2::{Mmap, MmapMut};

use crate::{CommitError, MapError, is_irregular, open_file, system};

/// Where the operating system cannot reserve space, zeros are written in blocks of this many bytes.
const BLOCK_BYTES: usize = 1 << 20;

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
        let file = open_file(path).map_err(|source| match is_irregular(&source) {
            true => MapError::NotAFile { path: path.to_owned() },
            false => io("open")(source),
        })?;
        if file.metadata().map_err(io("look at"))?.len() == 0 {
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

/// Is a new file as a slice of bytes to be written, zeros at first.
///
/// For a file in a staged folder: it is made here, so nobody else has it open, and what is written counts with the
/// commit of the folder. After this is dropped the file holds what was written, and a sync of the file makes that
/// durable.
///
/// # Memory
///
/// None of its own. The operating system writes the pages back when it needs the room.
pub struct FileMapMut(Option<MmapMut>);

impl FileMapMut {
    /// Makes a file of `bytes` bytes and maps all of it.
    ///
    /// The space on the disk is reserved first: a full disk is an error here, and not the end of the process at a
    /// later write. File systems that copy on write may promise less than that.
    ///
    /// # Errors
    ///
    /// [`CommitError::Io`] when there is such a file already, when there is no space for it, and when it cannot be
    /// mapped. What was made of the file stays, for the owner of the folder to remove.
    pub fn create(path: &Path, bytes: u64) -> Result<Self, CommitError> {
        let file = system::create_file(path)?;
        if bytes == 0 {
            return Ok(Self(None));
        }
        reserve(&file, bytes).map_err(CommitError::io("reserve the space of", path))?;
        // SAFETY: the file is new and was made by this call, so no other map of it exists, and the slices that this
        // type lends do not outlive it. Its name is in a staged folder, where nobody but the stager writes.
        let map = unsafe { MmapMut::map_mut(&file) }.map_err(CommitError::io("map", path))?;
        Ok(Self(Some(map)))
    }
}

/// Gives the file its length, and blocks on the disk for all of it.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    loop {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        match fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => break,
            Err(error) => return Err(error.into()),
        }
    }
    write_zeros(file, bytes)
}

fn write_zeros(mut file: &File, bytes: u64) -> io::Result<()> {
    let block = vec![0; BLOCK_BYTES.min(usize::try_from(bytes).unwrap_or(BLOCK_BYTES))];
    let mut left = bytes;
    while left > 0 {
        let length = block.len().min(usize::try_from(left).unwrap_or(block.len()));
        file.write_all(&block[..length])?;
        left -= length as u64;
    }
    Ok(())
}

impl Deref for FileMapMut {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl DerefMut for FileMapMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.as_deref_mut().unwrap_or_default()
    }
}

impl fmt::Debug for FileMapMut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "FileMapMut({} bytes)", self.len())
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
    fn what_is_written_to_a_map_is_in_the_file() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("data");
        let mut map = FileMapMut::create(&path, 100_000).unwrap();
        thread_safe(&map);
        assert_eq!(format!("{map:?}"), "FileMapMut(100000 bytes)");
        assert!(map.iter().all(|&byte| byte == 0));
        map[99_999] = 7;
        map[..3].copy_from_slice(b"abc");
        drop(map);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!((bytes.len(), &bytes[..3], bytes[99_999]), (100_000, &b"abc"[..], 7));
        assert!(FileMapMut::create(&root.path().join("empty"), 0).unwrap().is_empty());
        let error = FileMapMut::create(&path, 3).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot create the file `{}`", path.display()));
    }

    #[test]
    fn a_map_that_no_disk_holds_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let error = FileMapMut::create(&root.path().join("data"), 1 << 60).unwrap_err();
        assert!(error.to_string().starts_with("cannot reserve the space of `"), "{error}");
    }

    #[test]
    fn zeros_are_written_where_space_cannot_be_reserved() {
        let file = tempfile::tempfile().unwrap();
        for bytes in [0, 1, BLOCK_BYTES as u64 + 1] {
            file.set_len(0).unwrap();
            std::io::Seek::rewind(&mut &file).unwrap();
            write_zeros(&file, bytes).unwrap();
            assert_eq!(file.metadata().unwrap().len(), bytes);
        }
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
