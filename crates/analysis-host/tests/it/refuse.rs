use std::fs;
use std::path::Path;

use tempfile::tempdir;
use waycairn_analysis_host::{Library, LoadError};

use crate::authors::authors;
use crate::kit::{hostile, library, summary};

fn refused(path: &Path) -> LoadError {
    Library::open(path).expect_err("refused")
}

#[test]
fn plugins_case_03_a_text_file_is_named_as_such() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("plugin.so");
    fs::write(&path, "not a library\n").unwrap();
    let error = refused(&path);
    assert!(matches!(&error, LoadError::NotALibrary { .. }));
    assert_eq!(error.to_string(), format!("`{}` is not a dynamic library but a text file", path.display()));
    fs::write(&path, "").unwrap();
    assert!(refused(&path).to_string().ends_with("is not a dynamic library but an empty file"));
    fs::write(&path, [0, 1, 2, 255, 254]).unwrap();
    assert!(refused(&path).to_string().ends_with("a file of another kind"));
}

#[test]
fn plugins_case_03_a_truncated_library_is_refused_before_it_is_opened() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("cut.so");
    for source in [summary(), hostile()] {
        let whole = fs::read(source).unwrap();
        let length = whole.len();
        for keep in [5, 16, 63, 64, 100, 4096, length / 3, length / 2, length - 4096, length - 1] {
            fs::write(&path, &whole[..keep]).unwrap();
            let error = refused(&path);
            assert!(matches!(&error, LoadError::Truncated { .. }), "{keep} of {length}: {error}");
            let text = error.to_string();
            assert!(
                text.contains("is a truncated or damaged library") && text.contains("copy it again"),
                "{text}"
            );
        }
    }
}

#[test]
fn plugins_case_03_a_library_without_analyses_is_named_as_such() {
    let error = refused(&authors().library("bare"));
    assert!(matches!(&error, LoadError::NoRootModule { .. }), "{error}");
    assert!(error.to_string().contains("is a library without analyses"), "{error}");
}

#[test]
fn plugins_case_03_a_directory_is_named_as_such() {
    let folder = tempdir().unwrap();
    let error = refused(folder.path());
    assert!(matches!(&error, LoadError::IsDirectory { .. }));
    assert!(error.to_string().contains("is a folder, not a library"), "{error}");
}

#[test]
fn a_missing_file_is_named() {
    let error = refused(Path::new("nothing/here.so"));
    assert_eq!(error.to_string(), "no such file: `nothing/here.so`");
}

#[test]
fn an_archive_says_which_crate_type_was_meant() {
    let rlib = library("waycairn_summary").with_file_name("libwaycairn_summary.rlib");
    let error = refused(&rlib);
    assert!(error.to_string().contains("crate-type = [\"cdylib\"]"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_library_for_another_machine_is_refused_before_it_is_opened() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("other.so");
    let mut bytes = fs::read(summary()).unwrap();
    // e_machine: RISC-V, which this test does not run on.
    bytes[18..20].copy_from_slice(&243_u16.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let error = refused(&path);
    assert!(matches!(&error, LoadError::Architecture { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("Riscv64") && text.contains(std::env::consts::ARCH), "{text}");

    // The head of a 64-bit Mach-O file.
    fs::write(&path, [0xcf, 0xfa, 0xed, 0xfe, 7, 0, 0, 1, 0, 0, 0, 0, 6, 0, 0, 0]).unwrap();
    let text = refused(&path).to_string();
    assert!(text.contains("another system (Mach-O)"), "{text}");
}

#[test]
fn a_program_is_no_plugin() {
    let error = refused(&std::env::current_exe().unwrap());
    assert!(matches!(&error, LoadError::NoRootModule { .. } | LoadError::NotALibrary { .. }), "{error}");
}
