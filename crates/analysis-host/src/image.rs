//! What a file is, found by reading it: nothing in it runs here.
//!
//! The system's loader maps a library by its tables without asking whether the file is long enough, so that
//! opening a truncated one ends the process; and it runs a library's constructors before anyone can look at its
//! symbols. So both are checked here: every table and every mapped range lies within the file, and the symbol of a
//! plugin is exported.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use object::read::macho::{MachOFatFile32, MachOFatFile64};
use object::read::{NameOrOrdinal, Object, ObjectSection, ObjectSegment};
use object::{Architecture, FileKind, ObjectKind};
use waycairn_analysis_api::host::SYMBOL;

use crate::error::LoadError;

/// Reads a file that looks like a library. Only the first bytes of one that does not are read.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    let io = |op| {
        move |source: std::io::Error| match source.kind() {
            ErrorKind::NotFound => LoadError::NotFound { path: path.to_owned() },
            ErrorKind::IsADirectory => LoadError::IsDirectory { path: path.to_owned() },
            _ => LoadError::Io { op, path: path.to_owned(), source },
        }
    };
    let metadata = std::fs::metadata(path).map_err(io("look at"))?;
    if metadata.is_dir() {
        return Err(LoadError::IsDirectory { path: path.to_owned() });
    }
    if !metadata.is_file() {
        return Err(not_a_library(path, "no regular file"));
    }
    let mut file = File::open(path).map_err(io("open"))?;
    let mut bytes = Vec::new();
    file.by_ref().take(4096).read_to_end(&mut bytes).map_err(io("read"))?;
    if let Some(found) = something_else(&bytes) {
        return Err(not_a_library(path, found));
    }
    file.read_to_end(&mut bytes).map_err(io("read"))?;
    Ok(bytes)
}

/// Refuses bytes that the system's loader could not map safely on this machine, or that are no plugin.
pub(crate) fn check(path: &Path, bytes: &[u8]) -> Result<(), LoadError> {
    let truncated = |what: String| LoadError::Truncated { path: path.to_owned(), what };
    let length = bytes.len();
    let kind = FileKind::parse(bytes)
        .map_err(|_| truncated(format!("its {length} bytes are less than a header")))?;
    let image = this_machine(kind, bytes)
        .ok_or_else(|| truncated(format!("it has no part for this machine within its {length} bytes")))?;
    if expected_format().is_some_and(|format| format != family(kind)) {
        return Err(LoadError::Architecture {
            path: path.to_owned(),
            found: format!("another system ({})", family(kind)),
            expected: std::env::consts::OS.to_owned(),
        });
    }
    let file = object::File::parse(image)
        .map_err(|error| truncated(format!("{} in {length} bytes", lower_case(&error.to_string()))))?;

    let found = file.architecture();
    if expected_architecture().is_some_and(|expected| expected != found)
        || file.is_little_endian() != cfg!(target_endian = "little")
    {
        return Err(LoadError::Architecture {
            path: path.to_owned(),
            found: format!("{found:?}"),
            expected: std::env::consts::ARCH.to_owned(),
        });
    }
    match file.kind() {
        ObjectKind::Dynamic => {}
        ObjectKind::Relocatable => {
            return Err(not_a_library(path, "an object file; build it with crate-type = [\"cdylib\"]"));
        }
        ObjectKind::Executable => return Err(not_a_library(path, "a program")),
        ObjectKind::Core => return Err(not_a_library(path, "a core dump")),
        _ => return Err(not_a_library(path, "an executable format of another kind")),
    }
    check_ranges(&file, image.len()).map_err(truncated)?;

    let exports = file.exports().map_err(|error| truncated(lower_case(&error.to_string())))?;
    let is_root = |name: &[u8]| {
        // Mach-O writes an underscore before every name.
        name == SYMBOL.as_bytes() || name.strip_prefix(b"_") == Some(SYMBOL.as_bytes())
    };
    for export in exports {
        let export = export.map_err(|error| truncated(lower_case(&error.to_string())))?;
        if matches!(export.name(), NameOrOrdinal::Name(name) if is_root(name)) {
            return Ok(());
        }
    }
    Err(LoadError::NoRootModule { path: path.to_owned() })
}

/// Every range that is mapped or described must lie within the file.
fn check_ranges(file: &object::File<'_>, length: usize) -> Result<(), String> {
    let length = length as u64;
    let outside = |what: &str, offset: u64, size: u64| -> Option<String> {
        let end = offset.checked_add(size);
        if end.is_some_and(|end| end <= length) {
            return None;
        }
        let end = end.map_or_else(|| "beyond any file".to_owned(), |end| format!("at byte {end}"));
        Some(format!("{what} ends {end}, the file has {length}"))
    };
    for segment in file.segments() {
        let (offset, size) = segment.file_range();
        if let Some(what) = outside("a segment", offset, size) {
            return Err(what);
        }
    }
    for section in file.sections() {
        if let Some((offset, size)) = section.file_range()
            && let Some(what) = outside("a section", offset, size)
        {
            return Err(what);
        }
    }
    Ok(())
}

/// The part of a file that is for this machine: all of it, but for a Mach-O file of several architectures.
fn this_machine(kind: FileKind, bytes: &[u8]) -> Option<&[u8]> {
    let wanted = expected_architecture();
    let fits = |architecture: Architecture| wanted.is_none_or(|wanted| wanted == architecture);
    use object::read::macho::FatArch;
    match kind {
        FileKind::MachOFat32 => {
            let fat = MachOFatFile32::parse(bytes).ok()?;
            let part = fat.arches().iter().find(|part| fits(part.architecture()))?;
            part.data(bytes).ok()
        }
        FileKind::MachOFat64 => {
            let fat = MachOFatFile64::parse(bytes).ok()?;
            let part = fat.arches().iter().find(|part| fits(part.architecture()))?;
            part.data(bytes).ok()
        }
        _ => Some(bytes),
    }
}

fn family(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Elf32 | FileKind::Elf64 => "ELF",
        FileKind::Pe32 | FileKind::Pe64 => "PE",
        FileKind::MachO32 | FileKind::MachO64 | FileKind::MachOFat32 | FileKind::MachOFat64 => "Mach-O",
        _ => "unknown",
    }
}

fn expected_format() -> Option<&'static str> {
    match std::env::consts::DLL_EXTENSION {
        "so" => Some("ELF"),
        "dll" => Some("PE"),
        "dylib" => Some("Mach-O"),
        _ => None,
    }
}

/// The architecture of this process, where the names of both worlds are known to agree.
fn expected_architecture() -> Option<Architecture> {
    Some(match std::env::consts::ARCH {
        "x86_64" => Architecture::X86_64,
        "x86" => Architecture::I386,
        "aarch64" => Architecture::Aarch64,
        "arm" => Architecture::Arm,
        "riscv64" => Architecture::Riscv64,
        "powerpc64" => Architecture::PowerPc64,
        "s390x" => Architecture::S390x,
        "loongarch64" => Architecture::LoongArch64,
        _ => return None,
    })
}

/// Says what a file is if its first bytes are of no format that a loader takes.
fn something_else(head: &[u8]) -> Option<&'static str> {
    const LIBRARIES: [&[u8]; 8] = [
        b"\x7fELF",
        b"MZ",
        &[0xfe, 0xed, 0xfa, 0xce],
        &[0xfe, 0xed, 0xfa, 0xcf],
        &[0xce, 0xfa, 0xed, 0xfe],
        &[0xcf, 0xfa, 0xed, 0xfe],
        &[0xca, 0xfe, 0xba, 0xbe],
        &[0xca, 0xfe, 0xba, 0xbf],
    ];
    if LIBRARIES.iter().any(|magic| head.starts_with(magic)) {
        return None;
    }
    Some(match head {
        [] => "an empty file",
        _ if head.starts_with(b"!<arch>\n") => {
            "an archive (`.rlib` or `.a`); build it with crate-type = [\"cdylib\"]"
        }
        _ if head.starts_with(b"\0asm") => "a WebAssembly module",
        _ if is_text(head) => "a text file",
        _ => "a file of another kind",
    })
}

/// Text, but for a character that the end of the head may have cut.
fn is_text(head: &[u8]) -> bool {
    let text = match std::str::from_utf8(head) {
        Ok(_) => head,
        Err(error) if error.error_len().is_none() => &head[..error.valid_up_to()],
        Err(_) => return false,
    };
    !text.is_empty() && !text.contains(&0)
}

fn not_a_library(path: &Path, found: &str) -> LoadError {
    LoadError::NotALibrary { path: path.to_owned(), found: found.to_owned() }
}

fn lower_case(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_lowercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_a_library_from_something_else() {
        assert_eq!(something_else(b""), Some("an empty file"));
        assert_eq!(something_else(b"#!/bin/sh\n"), Some("a text file"));
        assert_eq!(something_else("caf\u{e9}".as_bytes()), Some("a text file"));
        assert_eq!(something_else(&"caf\u{e9}".as_bytes()[..4]), Some("a text file"));
        assert_eq!(something_else(&[1, 0, 2, 3]), Some("a file of another kind"));
        assert!(something_else(b"!<arch>\nfoo").unwrap().contains("cdylib"));
        assert_eq!(something_else(b"\x7fELF\x02"), None);
    }

    #[test]
    fn a_head_without_a_body_is_truncated() {
        let path = Path::new("x.so");
        for bytes in [&b"\x7fELF"[..], b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0", b"MZ", b"\xcf\xfa\xed\xfe"] {
            let error = check(path, bytes).unwrap_err();
            assert!(
                matches!(error, LoadError::Truncated { .. } | LoadError::Architecture { .. }),
                "{bytes:?}: {error}"
            );
        }
    }
}
