//! The archive of the sources and settings that a result came from: `source/<hash>.zip`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Cursor, Write as _};
use std::path::Path;

use waycairn_durable::{Digest, Durability, Hasher, Size, StagedFile, create_dir_all, remove_file};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::error::StudyError;
use crate::litter;

/// The sources of this program, without tests, its manifests and its lock file.
const PROGRAM: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// How much of the content's digest names the archive.
const SHORT: usize = 32;

/// The lock file that this program was built with, where its sources are at hand.
pub(crate) fn lock_file() -> Option<&'static str> {
    let (_, bytes) = PROGRAM.iter().find(|(name, _)| *name == "Cargo.lock")?;
    std::str::from_utf8(bytes).ok()
}

/// Whether a path from the root is that of an archive.
pub(crate) fn is_archive(path: &str) -> bool {
    let digest = path.strip_prefix("source/").and_then(|name| name.strip_suffix(".zip"));
    digest.is_some_and(|digest| digest.len() == SHORT && digest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Writes an archive of this program's sources and of further files, and returns its path from the root. The same
/// content has the same name, and is written once.
///
/// The name is a digest over the names and the content, not over the bytes of the archive: those depend on how they
/// were packed.
pub(crate) fn archive(root: &Path, further: &BTreeMap<String, Vec<u8>>) -> Result<String, StudyError> {
    let program = PROGRAM.iter().map(|(name, bytes)| (*name, *bytes));
    let files: BTreeMap<&str, &[u8]> =
        program.chain(further.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()))).collect();
    let mut content = Hasher::new();
    for (name, bytes) in &files {
        content.update(format!("{name}\n{}\n", Digest::of(bytes)).as_bytes());
    }
    let name = format!("source/{}.zip", &content.finish().to_string()[..SHORT]);
    let path = root.join(&name);
    if path.is_file() {
        return Ok(name);
    }
    create_dir_all(&root.join("source"))?;
    litter::clear_file(&path)?;
    let io = |source| StudyError::Io { operation: "write", path: path.clone(), source };
    let mut staged = StagedFile::create(&path, Durability::State)?;
    packed(&files).and_then(|bytes| staged.write_all(&bytes)).map_err(io)?;
    staged.commit()?;
    Ok(name)
}

/// The archive's bytes. In memory, since what packs goes back to each file's header.
fn packed(files: &BTreeMap<&str, &[u8]>) -> io::Result<Vec<u8>> {
    // No time of this machine, so that equal content has equal bytes.
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .last_modified_time(DateTime::default())
        .unix_permissions(0o644);
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        zip.start_file(*name, options).map_err(io::Error::other)?;
        zip.write_all(bytes)?;
    }
    Ok(zip.finish().map_err(io::Error::other)?.into_inner())
}

/// Removes the archives that are not in `kept`; paths from the root, and what they took. Names that are no archive's
/// stay.
pub(crate) fn collect(root: &Path, kept: &BTreeSet<String>) -> Result<Vec<(String, Size)>, StudyError> {
    let folder = root.join("source");
    let io = |source| StudyError::Io { operation: "list", path: folder.clone(), source };
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(io)?,
    };
    let mut removed = Vec::new();
    for entry in entries {
        let name = entry.map_err(io)?.file_name();
        let path = format!("source/{}", name.to_string_lossy());
        if is_archive(&path) && !kept.contains(&path) {
            let size = Size::of(&root.join(&path))?;
            remove_file(&root.join(&path))?;
            removed.push((path, size));
        }
    }
    removed.sort_unstable();
    Ok(removed)
}
