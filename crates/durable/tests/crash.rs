//! Ends a process at every fault point of the commits in turn, and looks at what is left.
//!
//! Pass 1 runs the work once and counts the points. Pass 2 runs it again for each of them, in a child process that
//! aborts there, then checks the invariants and repeats the work over what is left.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use waycairn_durable::{
    Durability, StagedDir, StagedFile, create_dir_all, ensure_format, is_temporary, read_format,
    remove_dir_all, write_file,
};

const OLD: &[u8] = b"old bytes";
const NEW: &[u8] = b"new bytes, more of them";

/// All that the crate commits, in one order. Its end is told by a file.
fn work(root: &Path) {
    ensure_format(root).unwrap();
    write_file(&root.join("replaced"), NEW, Durability::State).unwrap();
    create_dir_all(&root.join("made/inner")).unwrap();
    let staged = StagedDir::create(&root.join("made/folder"), Durability::State).unwrap();
    for name in ["1", "2"] {
        write_file(&staged.path().join(name), NEW, Durability::Regenerable).unwrap();
    }
    let _ = staged.commit().unwrap();
    remove_dir_all(&root.join("removed")).unwrap();
    let staged = StagedFile::create(&root.join("done"), Durability::State).unwrap();
    let _ = staged.commit_new().unwrap();
}

fn prepare() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("replaced"), OLD).unwrap();
    fs::create_dir(folder.path().join("removed")).unwrap();
    fs::write(folder.path().join("removed/1"), OLD).unwrap();
    fs::write(folder.path().join("removed/2"), OLD).unwrap();
    folder
}

/// Runs the work in a child process; says whether it came to its end.
fn run(root: &Path, variable: &str, value: &str) -> bool {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--quiet"])
        .env("DURABLE_CRASH_ROOT", root)
        .env(variable, value)
        .output()
        .unwrap()
        .status;
    status.success()
}

#[test]
#[ignore = "the work of the other test, in a process that may abort"]
fn child() {
    if let Some(root) = std::env::var_os("DURABLE_CRASH_ROOT") {
        work(&PathBuf::from(root));
    }
}

/// What holds at every moment: DURABLE-1.
fn check(root: &Path, at: usize) {
    let replaced = fs::read(root.join("replaced")).unwrap();
    assert!(replaced == OLD || replaced == NEW, "at {at}: half of a file");
    assert!(matches!(read_format(root), Ok(None | Some(_))), "at {at}: half of a version");
    let names = |folder: &str| -> Vec<_> {
        let entries = fs::read_dir(root.join(folder)).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.filter(|name| !is_temporary(name)).collect();
        names.sort();
        names
    };
    for (folder, bytes) in [("made/folder", NEW), ("removed", OLD)] {
        let names = names(folder);
        assert!(!root.join(folder).exists() || names == ["1", "2"], "at {at}: half of {folder}: {names:?}");
        assert!(names.iter().all(|name| fs::read(root.join(folder).join(name)).unwrap() == bytes), "at {at}");
    }
}

#[test]
fn durable_1_a_crash_at_any_step_leaves_whole_files_and_folders() {
    let folder = prepare();
    let trace = folder.path().join("trace");
    assert!(run(folder.path(), "WAYCAIRN_FAULT_TRACE", trace.to_str().unwrap()));
    let lines: Vec<String> = fs::read_to_string(&trace).unwrap().lines().map(str::to_owned).collect();
    assert!(lines[0].starts_with("1 file.create "), "{}", lines[0]);
    assert!(lines.len() > 30, "{lines:#?}");
    for (index, line) in lines.iter().enumerate() {
        assert!(line.starts_with(&format!("{} ", index + 1)), "{line}");
    }
    for number in 1..=lines.len() {
        let folder = prepare();
        let ended = run(folder.path(), "WAYCAIRN_FAULT_ABORT", &number.to_string());
        assert!(!ended, "nothing crashed at {number}");
        check(folder.path(), number);
        // The next run finds its way from there.
        work(folder.path());
        check(folder.path(), number);
        assert_eq!(fs::read(folder.path().join("replaced")).unwrap(), NEW);
        assert!(folder.path().join("made/folder/2").exists() && folder.path().join("done").exists());
        assert!(!folder.path().join("removed").exists());
    }
    let folder = prepare();
    assert!(run(folder.path(), "WAYCAIRN_FAULT_ABORT", &(lines.len() + 1).to_string()));
}
