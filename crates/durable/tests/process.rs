//! Locks and roots between processes.
#![allow(clippy::disallowed_methods, clippy::panic, clippy::unwrap_used, reason = "a test")]

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use waycairn_durable::{FileLock, LockError};

/// Starts a process that takes the lock, and waits until it has it. What it prints later has to have a reader.
fn holder(path: &Path) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env("DURABLE_LOCK", path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.by_ref().any(|line| line.unwrap().contains("locked")), "the holder did not come up");
    (child, lines)
}

#[test]
#[ignore = "the other process"]
fn child() {
    let Some(path) = std::env::var_os("DURABLE_LOCK") else { return };
    let _lock = FileLock::try_acquire(&PathBuf::from(path)).unwrap();
    let mut stdout = std::io::stdout();
    stdout.write_all(b"locked\n").unwrap();
    stdout.flush().unwrap();
    // Until the other end closes.
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn durable_4_a_lock_ends_with_a_killed_process() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("lock");
    let (mut child, _output) = holder(&path);
    match FileLock::try_acquire(&path) {
        Err(LockError::Busy { holder: Some(holder), .. }) => assert_eq!(holder.pid, child.id()),
        other => panic!("{other:?}"),
    }
    assert_eq!(FileLock::is_held(&path).unwrap().unwrap().pid, child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(FileLock::is_held(&path).unwrap(), None);
    let lock = FileLock::acquire(&path, Duration::ZERO, |_| panic!("announced")).unwrap();
    assert_eq!(FileLock::is_held(&path).unwrap().unwrap().pid, std::process::id());
    drop(lock);
}

#[test]
fn a_waiter_gets_the_lock_when_the_other_process_ends() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("lock");
    let (mut child, _output) = holder(&path);
    let pid = child.id();
    let lock = FileLock::acquire(&path, Duration::from_secs(60), |holder| {
        assert_eq!(holder.pid, pid);
        drop(child.stdin.take());
    });
    assert_eq!(lock.unwrap().path(), path);
    assert!(child.wait().unwrap().success());
}
