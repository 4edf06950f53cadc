#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;

const BEAT: Duration = Duration::from_millis(20);

fn join(root: &Path, settings: &str) -> Result<Lease, StudyError> {
    Lease::join_with(root, Digest::of(settings.as_bytes()), BEAT, |_| ())
}

/// What a worker of another machine leaves when that machine dies.
fn foreign(root: &Path, number: u32, settings: &str) -> Worker {
    let holder = Holder { host: "elsewhere".to_owned(), pid: 7, started: String::new() };
    let worker = Worker { holder, settings: Digest::of(settings.as_bytes()), beat: 3 };
    let locks = root.join("locks");
    create_dir_all(&locks).unwrap();
    write(&locks, number, &worker).unwrap();
    worker
}

#[test]
fn study_3_a_launch_of_the_same_settings_joins_and_another_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let first = join(root.path(), "ours").unwrap();
    let second = join(root.path(), "ours").unwrap();
    assert_ne!(first.number, second.number);
    match join(root.path(), "theirs").unwrap_err() {
        StudyError::Busy { holder, .. } => assert_eq!(holder.pid, std::process::id()),
        other => panic!("{other}"),
    }
    assert!(first.leave(|_| ()).unwrap().is_none(), "the second one still works");
    let alone = second.leave(|_| ()).unwrap().unwrap();
    drop(alone);
    let theirs = join(root.path(), "theirs").unwrap();
    assert_eq!(theirs.number, 0, "places are used again");
}

/// Field case F29: nobody waits for ever for a holder that died on another machine.
#[test]
fn study_3_a_worker_that_died_is_nobody() {
    let root = tempfile::tempdir().unwrap();
    let locks = root.path().join("locks");
    create_dir_all(&locks).unwrap();
    // Of this machine: its lock is free.
    let worker = Worker { holder: Holder::current(), settings: Digest::of(b"theirs"), beat: 3 };
    write(&locks, 0, &worker).unwrap();
    // Of this machine, killed while it wrote.
    write_file(&worker_file(&locks, 1), b"{\"hol", Durability::Regenerable).unwrap();
    // Of another machine: its number does not rise.
    foreign(root.path(), 2, "theirs");
    let ours = join(root.path(), "ours").unwrap();
    assert!(ours.leave(|_| ()).unwrap().is_some());
}

#[test]
fn study_3_a_worker_of_another_machine_lives_while_its_number_rises() {
    let root = tempfile::tempdir().unwrap();
    let mut worker = foreign(root.path(), 0, "theirs");
    // An hour ago or in an hour by any clock: nothing looks at one.
    let locks = root.path().join("locks");
    let (stop, stopped) = mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        while stopped.recv_timeout(BEAT / 2) == Err(RecvTimeoutError::Timeout) {
            worker.beat += 1;
            write(&locks, 0, &worker).unwrap();
        }
    });
    match join(root.path(), "ours").unwrap_err() {
        StudyError::Busy { holder, .. } => assert_eq!(holder.host, "elsewhere"),
        other => panic!("{other}"),
    }
    let same = join(root.path(), "theirs").unwrap();
    assert_eq!(same.number, 1);
    assert!(same.leave(|_| ()).unwrap().is_none());
    drop(stop);
    thread.join().unwrap();
    assert!(join(root.path(), "ours").is_ok());
}
