use std::fs;

use super::*;
use crate::write_file;

const ONE: FormatVersion = FormatVersion { major: 1, minor: 0 };

fn said(root: &Path, text: &str) {
    write_file(&root.join(FILE), text.as_bytes(), Durability::Regenerable).unwrap();
}

#[test]
fn a_new_root_is_made_and_says_the_current_version() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("out/puts");
    assert_eq!(read_format(&root).unwrap(), None);
    assert!(!root.exists());
    assert_eq!(ensure_format(&root).unwrap(), FormatVersion::CURRENT);
    assert_eq!(fs::read_to_string(root.join("FORMAT")).unwrap(), "waycairn 1.0\n");
    assert_eq!(read_format(&root).unwrap(), Some(ONE));
    assert_eq!(ensure_format(&root).unwrap(), ONE);
    assert_eq!(fs::read_dir(&root).unwrap().count(), 1);
}

#[test]
fn a_folder_without_a_version_has_none_until_it_is_ensured() {
    let root = tempfile::tempdir().unwrap();
    write_file(&root.path().join("something"), b"x", Durability::Regenerable).unwrap();
    assert_eq!(read_format(root.path()).unwrap(), None);
    assert_eq!(ensure_format(root.path()).unwrap(), ONE);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
}

#[test]
fn many_processes_may_make_one_root() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(ensure_format(&root).unwrap(), ONE));
        }
    });
    assert_eq!(fs::read_dir(&root).unwrap().count(), 1);
}

#[test]
fn durable_5_a_newer_major_version_is_refused_with_the_way_out() {
    let root = tempfile::tempdir().unwrap();
    said(root.path(), "waycairn 2.3\n");
    let expected = format!(
        "`{}/FORMAT` says format 2.3, and this program reads up to 1.0; upgrade it to use this root",
        root.path().display()
    );
    assert_eq!(read_format(root.path()).unwrap_err().to_string(), expected);
    assert_eq!(ensure_format(root.path()).unwrap_err().to_string(), expected);
    assert_eq!(fs::read_to_string(root.path().join(FILE)).unwrap(), "waycairn 2.3\n");
}

#[test]
fn durable_5_a_newer_minor_version_is_read_and_not_written() {
    let root = tempfile::tempdir().unwrap();
    said(root.path(), "waycairn 1.7\n");
    assert_eq!(read_format(root.path()).unwrap(), Some(FormatVersion { major: 1, minor: 7 }));
    let error = ensure_format(root.path()).unwrap_err();
    assert!(matches!(error, VersionError::ReadOnly { found: FormatVersion { major: 1, minor: 7 }, .. }));
    assert_eq!(
        error.to_string(),
        format!(
            "`{}/FORMAT` says format 1.7, and this program writes 1.0: it may read this root and not write in it; \
             upgrade it",
            root.path().display()
        )
    );
}

#[test]
fn every_pair_of_versions_is_decided() {
    let path = Path::new("FORMAT");
    let versions = [(1, 0), (1, 1), (2, 0), (2, 1)].map(|(major, minor)| FormatVersion { major, minor });
    for found in versions {
        for program in versions {
            let (read, write) =
                (found.check_readable_by(program, path), found.check_writable_by(program, path));
            assert_eq!(read.is_ok(), found.major <= program.major, "{found} read by {program}");
            assert_eq!(write.is_ok(), found <= program, "{found} written by {program}");
        }
    }
}

#[test]
fn a_garbled_version_is_refused_with_what_is_there() {
    let root = tempfile::tempdir().unwrap();
    let long = "waycairn 1.0 ".repeat(100);
    let texts = [
        "",
        "\n",
        "1.0\n",
        "waycairn\n",
        "waycairn 1\n",
        "waycairn 1.\n",
        "waycairn 01.0\n",
        "waycairn +1.0\n",
        "waycairn 1.0.0\n",
        "waycairn 70000.0\n",
        "other 1.0\n",
        "waycairn 1.0\nmore\n",
        "\u{0}\u{0}",
        &long,
    ];
    for text in texts {
        said(root.path(), text);
        for error in [read_format(root.path()).unwrap_err(), ensure_format(root.path()).unwrap_err()] {
            assert!(matches!(error, VersionError::Garbled { .. }), "{text:?}: {error}");
        }
    }
    said(root.path(), "way\u{1b}cairn\n");
    let expected = format!(
        "`{}/FORMAT` holds `way\\u{{1b}}cairn` where a line like `waycairn 1.0` is needed; restore it from a copy, or \
         choose another root",
        root.path().display()
    );
    assert_eq!(read_format(root.path()).unwrap_err().to_string(), expected);
    for text in ["waycairn 1.0", "waycairn 1.0\r\n"] {
        said(root.path(), text);
        assert_eq!(
            read_format(root.path()).unwrap(),
            Some(ONE),
            "an editor may have touched the end of the line"
        );
    }
    write_file(&root.path().join(FILE), b"\xff\xfe", Durability::Regenerable).unwrap();
    assert!(matches!(read_format(root.path()), Err(VersionError::Garbled { .. })));
}

#[test]
fn a_root_that_is_a_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    write_file(&file, b"x", Durability::Regenerable).unwrap();
    let expected =
        format!("`{}` is not a folder, and the root needs one there; choose another root", file.display());
    for error in [read_format(&file).unwrap_err(), ensure_format(&file).unwrap_err()] {
        assert_eq!(error.to_string(), expected);
    }
    assert_eq!(ensure_format(&file.join("below")).unwrap_err().to_string(), expected);
    assert!(matches!(read_format(&file.join("below")), Err(VersionError::RootIsAFile { .. })));
}

#[test]
fn an_unwritable_root_is_refused_with_the_step_and_the_path() {
    // Permission bits do not stop the superuser, so this takes a file system that makes no folders.
    let root = Path::new("/proc/waycairn");
    if !Path::new("/proc/self").exists() {
        return;
    }
    let error = ensure_format(root).unwrap_err();
    assert!(matches!(error, VersionError::Unwritable { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "cannot create the folder `/proc/waycairn`, so the root `/proc/waycairn` cannot be written; allow writing \
         there, or choose another root"
    );
    // A folder that exists and takes no files.
    let error = ensure_format(Path::new("/proc/self")).unwrap_err();
    assert!(matches!(error, VersionError::Unwritable { operation: "create the file", .. }), "{error:?}");
}

#[test]
fn a_root_on_a_file_system_that_folds_case_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    let folds = crate::fault::refuse("case", &root, 0, u64::MAX);
    for _ in 0..2 {
        let error = ensure_format(&root).unwrap_err();
        assert!(matches!(&error, VersionError::CaseInsensitive { root: at } if *at == root), "{error:?}");
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
        assert_eq!(read_format(&root).unwrap(), None);
    }
    drop(folds);
    assert_eq!(ensure_format(&root).unwrap(), ONE);
}

#[test]
fn a_file_system_that_folds_case_is_found_out() {
    let root = tempfile::tempdir().unwrap();
    assert!(!is_case_insensitive(root.path(), |other| other.try_exists()).unwrap());
    // There the other name finds the probe: so does one that is made here.
    let folds = is_case_insensitive(root.path(), |other| {
        let probe = fs::read_dir(root.path()).unwrap().next().unwrap().unwrap().path();
        assert_ne!(probe.file_name(), other.file_name());
        assert!(probe.file_name().unwrap().eq_ignore_ascii_case(other.file_name().unwrap()));
        fs::hard_link(probe, other).unwrap();
        let found = other.try_exists();
        fs::remove_file(other).unwrap();
        found
    });
    assert!(folds.unwrap());
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    let error = VersionError::CaseInsensitive { root: "/mnt/fat".into() };
    assert_eq!(
        error.to_string(),
        "the file system of `/mnt/fat` does not tell upper case from lower case, so two names could mean one file; \
         choose a root on another one"
    );
}
