use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use super::*;
use crate::{Durability, StagedDir, StagedFile, write_file};

const HOUR: Duration = Duration::from_secs(3600);

fn now() -> SystemTime {
    let nanos = u64::try_from(crate::time::now_nanos()).unwrap();
    SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos)
}

#[test]
fn temporary_names_are_told_by_their_beginning() {
    for name in [".tmp-", ".tmp-1-a", ".tmp-x.parquet"] {
        assert!(is_temporary(OsStr::new(name)), "{name}");
    }
    for name in ["", ".tmp", "tmp-1", "a.tmp-1", ".TMP-1", ".journal-1"] {
        assert!(!is_temporary(OsStr::new(name)), "{name}");
    }
    assert!(is_temporary(&OsString::from_vec(b".tmp-\xff".to_vec())));
}

#[test]
fn temporary_names_differ_and_carry_the_process() {
    let target = Path::new("/some/where");
    let (one, other) = (beside(target).unwrap(), beside(target).unwrap());
    assert_ne!(one, other);
    let name = one.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with(&format!(".tmp-{}-", std::process::id())));
    assert_eq!(one.parent(), Some(Path::new("/some")));
}

#[test]
fn old_temporary_names_are_reaped_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("data");
    let file = StagedFile::create(&target, Durability::State).unwrap();
    let folder = StagedDir::create(&target, Durability::State).unwrap();
    write_file(&folder.path().join("x"), b"x", Durability::Regenerable).unwrap();
    write_file(&target, b"stays", Durability::Regenerable).unwrap();
    write_file(&root.path().join(".hidden"), b"stays", Durability::Regenerable).unwrap();

    assert!(reap(root.path(), HOUR, now()).unwrap().is_empty());
    // A clock that runs behind makes everything young.
    assert!(reap(root.path(), HOUR, SystemTime::UNIX_EPOCH).unwrap().is_empty());
    let mut expected = vec![file.path().to_owned(), folder.path().to_owned()];
    expected.sort();
    assert_eq!(reap(root.path(), HOUR, now() + 2 * HOUR).unwrap(), expected);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
    // Who owned them finds out, and dropping what is gone is no error.
    assert!(file.commit().is_err());
    drop(folder);
}

#[test]
fn a_folder_is_as_young_as_the_youngest_thing_in_it() {
    let root = tempfile::tempdir().unwrap();
    let staged = StagedDir::create(&root.path().join("data"), Durability::State).unwrap();
    let inner = staged.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let path = inner.join("x");
    write_file(&path, b"x", Durability::Regenerable).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_modified(now() + 2 * HOUR).unwrap();
    assert!(reap(root.path(), HOUR, now() + 2 * HOUR).unwrap().is_empty());
    assert_eq!(reap(root.path(), HOUR, now() + 4 * HOUR).unwrap(), [staged.path()]);
}

#[test]
fn an_absent_folder_has_nothing_to_reap() {
    let root = tempfile::tempdir().unwrap();
    assert!(reap(&root.path().join("absent"), HOUR, now()).unwrap().is_empty());
    let file = root.path().join("file");
    write_file(&file, b"x", Durability::Regenerable).unwrap();
    let error = reap(&file, HOUR, now()).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot list the folder `{}`", file.display()));
}
