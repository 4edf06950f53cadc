#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::fault::refuse;

const ENOSPC: i32 = 28;
const ENOLCK: i32 = 37;

#[test]
fn durable_6_an_owned_file_is_taken_when_its_owner_is_dead_and_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    assert!(OwnedFile::take(&path).unwrap().is_none(), "there is nothing");
    let mut owned = OwnedFile::create(&path).unwrap();
    owned.append(b"12").unwrap();
    owned.append(b"3").unwrap();
    assert!(OwnedFile::take(&path).unwrap().is_none());
    assert!(OwnedFile::is_owned(&path).unwrap() && !OwnedFile::is_owned(&folder.path().join("b")).unwrap());
    drop(owned);
    assert!(!OwnedFile::is_owned(&path).unwrap());
    let mut taken = OwnedFile::take(&path).unwrap().unwrap();
    assert_eq!(taken.length, 3);
    assert!(OwnedFile::take(&path).unwrap().is_none(), "of two that take it over one does");
    taken.append(b"4").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"1234");
    taken.remove().unwrap();
    assert!(OwnedFile::take(&path).unwrap().is_none());
}

#[test]
fn durable_6_a_file_that_was_replaced_is_not_taken_for_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let old = OwnedFile::create(&path).unwrap();
    let moved = old.rename(&folder.path().join("b")).unwrap();
    let mut new = OwnedFile::create(&path).unwrap();
    new.append(b"new").unwrap();
    drop(moved);
    assert!(OwnedFile::take(&path).unwrap().is_none());
    assert_eq!(OwnedFile::take(&folder.path().join("b")).unwrap().unwrap().length, 0);
}

#[test]
fn durable_6_without_locks_silence_decides() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let owned = OwnedFile::create(&path).unwrap();
    assert!(!owned.needs_heartbeat(), "this file system has locks");
    assert!(!is_silent(&owned.file, &path).unwrap(), "it was made just now");
    let before = crate::time::to_system(crate::time::now_nanos()) - SILENCE - Duration::from_secs(5);
    owned.file.set_modified(before).unwrap();
    assert!(is_silent(&owned.file, &path).unwrap());
    owned.beat().unwrap();
    assert!(!is_silent(&owned.file, &path).unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the look at the clock leaves nothing");
}

#[test]
fn where_there_are_no_locks_an_owner_lives_as_long_as_it_beats() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let _no_locks = refuse("lock", folder.path(), ENOLCK, u64::MAX);
    let mut owned = OwnedFile::create(&path).unwrap();
    owned.append(b"1").unwrap();
    assert!(owned.needs_heartbeat());
    let silent = || {
        let before = crate::time::to_system(crate::time::now_nanos()) - SILENCE - Duration::from_secs(5);
        File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
    };
    assert!(OwnedFile::is_owned(&path).unwrap() && OwnedFile::take(&path).unwrap().is_none());
    silent();
    assert!(!OwnedFile::is_owned(&path).unwrap());
    owned.beat().unwrap();
    assert!(OwnedFile::is_owned(&path).unwrap() && OwnedFile::take(&path).unwrap().is_none());
    silent();
    drop(owned);
    assert_eq!(OwnedFile::take(&path).unwrap().unwrap().length, 1);
}

#[test]
fn durable_6_an_append_that_fails_leaves_no_half() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let mut owned = OwnedFile::create(&path).unwrap();
    owned.append(b"one").unwrap();
    let full = refuse("file.append", folder.path(), ENOSPC, 1);
    let error = owned.append(b"two").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(ENOSPC));
    assert_eq!(fs::read(&path).unwrap(), b"one");
    owned.append(b"three").unwrap();
    drop(full);
    assert_eq!(fs::read(&path).unwrap(), b"onethree");
    assert_eq!(owned.length, 8);
}
