//! Limits of the operating system that end a process by default.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::Command;

/// A shell that limits the size of files, and becomes the program.
fn limited(rest: &str, folder: &std::path::Path) -> (Option<i32>, String) {
    let script = format!("ulimit -f 1; exec \"$0\" {rest}");
    let program = env!("CARGO_BIN_EXE_waycairn");
    let out = Command::new("sh").args(["-c", &script, program]).current_dir(folder).output().unwrap();
    (out.status.code(), String::from_utf8(out.stderr).unwrap())
}

#[test]
fn cli_4_a_limit_on_the_size_of_files_is_an_error_like_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (code, said) = limited("completions bash > script", folder.path());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with("error: cannot write to standard output\n  why: file too large\n"), "{said}");
    // An answer that comes whole or not at all does not come.
    let (code, said) =
        limited("sql \"select repeat('x', 100000) as x\" --format json -o answer", folder.path());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("file too large"), "{said}");
    assert!(!folder.path().join("answer").exists());
}
