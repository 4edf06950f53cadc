use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::*;
use crate::{Durability, write_file};

fn lock_path(root: &tempfile::TempDir) -> PathBuf {
    root.path().join("lock")
}

#[test]
fn a_lock_excludes_and_says_who_has_it() {
    let root = tempfile::tempdir().unwrap();
    let path = lock_path(&root);
    let lock = FileLock::try_acquire(&path).unwrap();
    assert_eq!(lock.path(), path);
    let error = FileLock::try_acquire(&path).unwrap_err();
    let text = error.to_string();
    let LockError::Busy { path: busy, holder: Some(holder) } = error else { panic!("{text}") };
    assert_eq!((busy, holder.pid), (path.clone(), std::process::id()));
    assert!(holder.started.ends_with('Z') && !holder.host.is_empty());
    assert_eq!(
        text,
        format!(
            "`{}` is held by process {} on {} since {}; wait for its end, or stop it",
            path.display(),
            holder.pid,
            holder.host,
            holder.started
        )
    );
    assert_eq!(FileLock::is_held(&path).unwrap(), Some(holder));
    drop(lock);
    assert_eq!(FileLock::is_held(&path).unwrap(), None);
    let _again = FileLock::try_acquire(&path).unwrap();
}

#[test]
fn durable_4_the_file_stays_and_a_look_makes_none() {
    let root = tempfile::tempdir().unwrap();
    let path = lock_path(&root);
    assert_eq!(FileLock::is_held(&path).unwrap(), None);
    assert!(!path.exists());
    drop(FileLock::try_acquire(&path).unwrap());
    assert!(path.exists());
}

#[test]
fn any_text_in_the_file_is_tolerated_and_replaced() {
    let root = tempfile::tempdir().unwrap();
    let path = lock_path(&root);
    let long = "x".repeat(10_000);
    for garbage in
        ["", "\n", "{\"host\":", "\u{0}\u{0}", "{\"host\":\"a\",\"pid\":-1,\"started\":\"\"}", &long]
    {
        write_file(&path, garbage.as_bytes(), Durability::Regenerable).unwrap();
        assert_eq!(read_holder(&path), None);
        let lock = FileLock::try_acquire(&path).unwrap();
        assert_eq!(FileLock::is_held(&path).unwrap().unwrap().pid, std::process::id());
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!((text.matches('\n').count(), text.ends_with('\n')), (1, true));
        drop(lock);
    }
    // The new line over the rest of a longer old one, as a reader sees it before the rest is cut off.
    let line = std::fs::read_to_string(&path).unwrap();
    write_file(&path, format!("{line}st of an old line\n").as_bytes(), Durability::Regenerable).unwrap();
    assert_eq!(read_holder(&path).unwrap().pid, std::process::id());
}

#[test]
fn a_holder_that_cannot_be_read_is_another_process() {
    let root = tempfile::tempdir().unwrap();
    let path = lock_path(&root);
    let lock = FileLock::try_acquire(&path).unwrap();
    lock.file.set_len(0).unwrap();
    let error = FileLock::try_acquire(&path).unwrap_err();
    assert!(
        error.to_string().ends_with("is held by another process; wait for its end, or stop it"),
        "{error}"
    );
    let holder = FileLock::is_held(&path).unwrap().unwrap();
    assert!(holder.is_unknown());
    assert_eq!(holder.to_string(), "another process");
}

#[test]
fn waiting_is_announced_once_and_ends_with_the_holder() {
    let root = tempfile::tempdir().unwrap();
    let path = lock_path(&root);
    let lock = FileLock::try_acquire(&path).unwrap();
    let (announced, release) = (AtomicU32::new(0), std::sync::mpsc::channel::<()>());
    std::thread::scope(|scope| {
        let (sender, receiver) = release;
        scope.spawn(move || {
            // Not before the waiter has said that it waits.
            receiver.recv().unwrap();
            drop(lock);
        });
        let waited = FileLock::acquire(&path, Duration::from_secs(60), |holder| {
            assert_eq!(holder.pid, std::process::id());
            announced.fetch_add(1, Ordering::SeqCst);
            sender.send(()).unwrap();
        });
        drop(waited.unwrap());
    });
    assert_eq!(announced.load(Ordering::SeqCst), 1);
    // A free lock is not announced.
    drop(FileLock::acquire(&path, Duration::ZERO, |_| panic!("announced")).unwrap());
}

#[test]
fn the_limit_of_a_wait_is_kept() {
    let root = tempfile::tempdir().unwrap();
    let path = lock_path(&root);
    let _lock = FileLock::try_acquire(&path).unwrap();
    for limit in [Duration::ZERO, Duration::from_millis(20)] {
        let begin = Instant::now();
        let error = FileLock::acquire(&path, limit, |_| {}).unwrap_err();
        assert!(matches!(error, LockError::Busy { holder: Some(_), .. }), "{error}");
        assert!(begin.elapsed() >= limit);
    }
}

#[test]
fn durable_4_looks_never_make_an_acquisition_fail() {
    let root = tempfile::tempdir().unwrap();
    let path = lock_path(&root);
    drop(FileLock::try_acquire(&path).unwrap());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    FileLock::is_held(&path).unwrap();
                }
            });
        }
        let result = std::panic::catch_unwind(|| {
            for _ in 0..2000 {
                drop(FileLock::try_acquire(&path).unwrap());
            }
        });
        done.store(true, Ordering::Relaxed);
        result.unwrap();
    });
}

#[test]
fn one_at_a_time_among_threads() {
    let root = tempfile::tempdir().unwrap();
    let path = lock_path(&root);
    let inside = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let lock = FileLock::acquire(&path, Duration::from_secs(60), |_| {}).unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(lock);
                }
            });
        }
    });
}

#[test]
fn an_impossible_lock_file_is_an_error_with_the_path() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("absent/lock");
    let error = FileLock::try_acquire(&path).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot open the lock file `{}`; it is gone, or the folder that should hold it is",
            path.display()
        )
    );
    assert!(matches!(FileLock::try_acquire(root.path()), Err(LockError::Io { .. })));
    assert_eq!(FileLock::is_held(&path).unwrap(), None);
}

#[test]
fn file_systems_without_locks_are_told_from_broken_ones() {
    let path = Path::new("/some/lock");
    let answer_of = |error: io::Error| answer(Err(TryLockError::Error(error)), path).unwrap_err();
    let unsupported = answer_of(io::ErrorKind::Unsupported.into());
    assert!(matches!(unsupported, LockError::Unsupported { .. }));
    assert!(
        unsupported.to_string().starts_with("the file system of `/some/lock` has no locks; use a local disk")
    );
    #[cfg(target_os = "linux")]
    assert!(matches!(answer_of(io::Error::from_raw_os_error(37)), LockError::Unsupported { .. }));
    assert!(matches!(answer_of(io::ErrorKind::Interrupted.into()), LockError::Io { .. }));
    assert!(!answer(Err(TryLockError::WouldBlock), path).unwrap());
}

#[test]
fn durable_4_shared_locks_keep_the_exclusive_one_away_and_not_each_other() {
    let root = tempfile::tempdir().unwrap();
    let path = lock_path(&root);
    assert!(SharedLock::acquire(&path, Duration::ZERO).unwrap().is_none());
    assert!(!path.exists(), "taking it makes no file");
    let exclusive = FileLock::try_acquire(&path).unwrap();
    let error = SharedLock::acquire(&path, Duration::from_millis(20)).unwrap_err();
    assert!(
        matches!(&error, LockError::Busy { holder: Some(holder), .. } if holder.pid == std::process::id())
    );
    // It waits for the end of the exclusive one.
    let shared = std::thread::scope(|scope| {
        let waits = scope.spawn(|| SharedLock::acquire(&path, Duration::from_secs(60)).unwrap().unwrap());
        std::thread::sleep(Duration::from_millis(20));
        drop(exclusive);
        waits.join().unwrap()
    });
    let other = SharedLock::acquire(&path, Duration::ZERO).unwrap().unwrap();
    assert!(matches!(FileLock::try_acquire(&path), Err(LockError::Busy { .. })));
    drop(shared);
    assert!(matches!(FileLock::try_acquire(&path), Err(LockError::Busy { .. })));
    drop(other);
    let _free = FileLock::try_acquire(&path).unwrap();
}

#[cfg(unix)]
#[test]
fn what_a_link_leads_to_is_never_written_over() {
    let root = tempfile::tempdir().unwrap();
    let (path, target) = (root.path().join("lock"), root.path().join("precious"));
    write_file(&target, b"precious", Durability::Regenerable).unwrap();
    for target in ["precious", "nothing"] {
        std::os::unix::fs::symlink(target, &path).unwrap();
        let error = FileLock::try_acquire(&path).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("it is a symbolic link"), "{cause}");
        std::fs::remove_file(&path).unwrap();
    }
    assert_eq!(std::fs::read(&target).unwrap(), b"precious");
    assert!(!root.path().join("nothing").exists());
}
