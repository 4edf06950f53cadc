use std::fs;

use super::*;
use crate::fault::{Step, record};
use crate::is_temporary;

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The names of the steps, and for each what it was done to: `tmp`, or a path below `root`.
fn told(root: &Path, steps: &[Step]) -> Vec<String> {
    let short = |path: &Path| {
        let below = path.strip_prefix(root).unwrap();
        let parts = below.iter().map(|part| if is_temporary(part) { "tmp" } else { part.to_str().unwrap() });
        let text = parts.collect::<Vec<_>>().join("/");
        if text.is_empty() { ".".to_owned() } else { text }
    };
    steps.iter().map(|step| format!("{} {}", step.name, short(step.path.as_deref().unwrap()))).collect()
}

#[test]
fn durable_2_a_file_commit_syncs_bytes_before_the_name_and_the_name_before_it_returns() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("data");
    let (result, steps) = record(|| write_file(&target, b"bytes", Durability::State));
    result.unwrap();
    let expected = [
        "file.create tmp",
        "file.write tmp",
        "file.sync tmp",
        "file.close tmp",
        "rename data",
        "folder.sync .",
    ];
    assert_eq!(told(root.path(), &steps), expected);
}

#[test]
fn durable_2_a_new_file_commit_syncs_in_the_same_order() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("data");
    for committed in [Committed::New, Committed::Raced] {
        let (result, steps) = record(|| StagedFile::create(&target, Durability::State).unwrap().commit_new());
        assert_eq!(result.unwrap(), committed);
        let expected = [
            "file.create tmp",
            "file.sync tmp",
            "file.close tmp",
            "link data",
            "folder.sync .",
            "remove tmp",
        ];
        assert_eq!(told(root.path(), &steps), expected);
    }
}

#[test]
fn regenerable_commits_sync_nothing() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("data");
    let (result, steps) = record(|| write_file(&target, b"bytes", Durability::Regenerable));
    result.unwrap();
    let expected = ["file.create tmp", "file.write tmp", "file.close tmp", "rename data"];
    assert_eq!(told(root.path(), &steps), expected);
    let folder = root.path().join("folder");
    let (result, steps) = record(|| {
        let staged = StagedDir::create(&folder, Durability::Regenerable).unwrap();
        fs::create_dir(staged.path().join("inner")).unwrap();
        staged.commit()
    });
    assert_eq!(result.unwrap(), Committed::New);
    assert_eq!(told(root.path(), &steps), ["folder.create tmp", "rename folder"]);
}

#[test]
fn durable_2_a_folder_commit_syncs_all_inside_before_the_name_and_the_name_before_it_returns() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("entry");
    let (result, steps) = record(|| {
        let staged = StagedDir::create(&target, Durability::State).unwrap();
        fs::create_dir_all(staged.path().join("a/b")).unwrap();
        for file in ["1", "a/2", "a/b/3"] {
            write_file(&staged.path().join(file), b"x", Durability::Regenerable).unwrap();
        }
        std::os::unix::fs::symlink("nowhere", staged.path().join("link")).unwrap();
        staged.commit()
    });
    assert_eq!(result.unwrap(), Committed::New);
    let told = told(root.path(), &steps);
    let place = |step: &str| {
        told.iter().position(|other| other == step).unwrap_or_else(|| panic!("{step} in {told:?}"))
    };
    let rename = place("rename entry");
    let inside = [
        "file.sync tmp/1",
        "file.sync tmp/a/2",
        "file.sync tmp/a/b/3",
        "folder.sync tmp",
        "folder.sync tmp/a",
        "folder.sync tmp/a/b",
    ];
    assert!(inside.iter().all(|step| place(step) < rename));
    assert_eq!(told.last().unwrap(), "folder.sync .");
    assert_eq!(rename, told.len() - 2);
    assert_eq!(names(&target), ["1", "a", "link"]);
}

#[test]
fn durable_1_a_file_is_seen_when_it_is_committed_and_not_before() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("data");
    write_file(&target, b"old", Durability::State).unwrap();
    let mut staged = StagedFile::create(&target, Durability::State).unwrap();
    staged.write_all(b"new and ").unwrap();
    staged.write_all(b"longer").unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"old");
    assert!(is_temporary(staged.path().file_name().unwrap()));
    assert_eq!(staged.path().parent(), target.parent());
    staged.commit().unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"new and longer");
    assert_eq!(names(root.path()), ["data"]);
}

#[test]
fn a_staged_file_can_be_patched_before_its_commit() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("data");
    let mut staged = StagedFile::create(&target, Durability::Regenerable).unwrap();
    staged.write_all(b"????body").unwrap();
    staged.seek(SeekFrom::Start(0)).unwrap();
    staged.write_all(b"head").unwrap();
    staged.flush().unwrap();
    assert_eq!(staged.file().metadata().unwrap().len(), 8);
    staged.commit().unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"headbody");
}

#[test]
fn a_drop_without_a_commit_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let mut staged = StagedFile::create(&root.path().join("file"), Durability::State).unwrap();
    staged.write_all(b"x").unwrap();
    drop(staged);
    let staged = StagedDir::create(&root.path().join("folder"), Durability::State).unwrap();
    write_file(&staged.path().join("x"), b"x", Durability::State).unwrap();
    drop(staged);
    assert!(names(root.path()).is_empty());
}

#[test]
fn an_ordinary_mode_is_given() {
    use std::os::unix::fs::PermissionsExt as _;
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("data");
    write_file(&target, b"x", Durability::State).unwrap();
    let ordinary = root.path().join("ordinary");
    fs::OpenOptions::new().write(true).create_new(true).open(&ordinary).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&target), mode(&ordinary));
}

#[test]
fn durable_3_the_first_of_two_new_files_stays() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("data");
    let stage = |bytes: &[u8]| {
        let mut staged = StagedFile::create(&target, Durability::State).unwrap();
        staged.write_all(bytes).unwrap();
        staged
    };
    let (one, other) = (stage(b"one"), stage(b"other"));
    assert_eq!(other.commit_new().unwrap(), Committed::New);
    assert_eq!(one.commit_new().unwrap(), Committed::Raced);
    assert_eq!(fs::read(&target).unwrap(), b"other");
    assert_eq!(names(root.path()), ["data"]);
}

#[test]
fn durable_3_of_many_racing_folders_one_is_new_and_whole() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("entry");
    let committed: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let target = &target;
                scope.spawn(move || {
                    let staged = StagedDir::create(target, Durability::State).unwrap();
                    for file in ["1", "2"] {
                        let text = format!("{number}");
                        write_file(&staged.path().join(file), text.as_bytes(), Durability::Regenerable)
                            .unwrap();
                    }
                    (number, staged.commit().unwrap())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let winners: Vec<_> = committed.iter().filter(|(_, committed)| *committed == Committed::New).collect();
    assert_eq!(winners.len(), 1);
    for file in ["1", "2"] {
        assert_eq!(fs::read_to_string(target.join(file)).unwrap(), winners[0].0.to_string());
    }
    assert_eq!(names(root.path()), ["entry"]);
}

#[test]
fn an_empty_folder_gives_way_and_a_file_does_not() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("entry");
    fs::create_dir(&target).unwrap();
    let stage = || {
        let staged = StagedDir::create(&target, Durability::State).unwrap();
        write_file(&staged.path().join("x"), b"x", Durability::State).unwrap();
        staged
    };
    assert_eq!(stage().commit().unwrap(), Committed::New);
    fs::remove_dir_all(&target).unwrap();
    write_file(&target, b"a file", Durability::State).unwrap();
    let error = stage().commit().unwrap_err();
    assert!(matches!(&error, CommitError::NotAFolder { path } if *path == target), "{error:?}");
    assert_eq!(names(root.path()), ["entry"]);
}

#[test]
fn a_reader_sees_only_whole_files_while_they_are_replaced() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("data");
    let text = |number: u8| vec![number; 10_000 + usize::from(number)];
    write_file(&target, &text(0), Durability::Regenerable).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=200 {
                write_file(&target, &text(number), Durability::Regenerable).unwrap();
            }
        });
        let mut last = 0;
        while last < 200 {
            let bytes = fs::read(&target).unwrap();
            assert_eq!(bytes, text(bytes[0]));
            assert!(bytes[0] >= last);
            last = bytes[0];
        }
    });
}

#[test]
fn errors_name_the_step_the_path_and_what_to_do() {
    let root = tempfile::tempdir().unwrap();
    let error = write_file(&root.path().join("absent/data"), b"x", Durability::State).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("cannot create the file `{}/absent/.tmp-", root.path().display())),
        "{text}"
    );
    assert!(text.ends_with("`; it is gone, or the folder that should hold it is"), "{text}");
    assert_eq!(error.io_error().unwrap().kind(), io::ErrorKind::NotFound);
    assert!(error.path().starts_with(root.path().join("absent")));

    let error = write_file(&root.path().join(".."), b"x", Durability::State).unwrap_err();
    assert!(matches!(error, CommitError::NoName { .. }));
    assert!(error.io_error().is_none());

    // A file cannot take the name of a folder.
    let folder = root.path().join("folder");
    fs::create_dir(&folder).unwrap();
    let error = write_file(&folder, b"x", Durability::State).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot give its name to `{}`", folder.display()));
    assert_eq!(names(root.path()), ["folder"]);
}

#[test]
fn a_relative_target_without_a_folder_is_in_the_current_one() {
    assert_eq!(system::parent(Path::new("data")).unwrap(), Path::new("."));
    assert_eq!(temporary::beside(Path::new("data")).unwrap().parent().unwrap(), Path::new("."));
}

#[test]
fn a_revoked_commit_leaves_every_name_as_it_was() {
    let root = tempfile::tempdir().unwrap();
    let (old, new) = (root.path().join("old"), root.path().join("new"));
    write_file(&old, b"before", Durability::State).unwrap();
    let commit = |target: &Path| {
        let mut staged = StagedFile::create(target, Durability::State).unwrap();
        staged.write_all(b"after").unwrap();
        staged.commit_revocable()
    };
    let committed = [commit(&old).unwrap(), commit(&new).unwrap()];
    assert_eq!((fs::read(&old).unwrap(), fs::read(&new).unwrap()), (b"after".to_vec(), b"after".to_vec()));
    for committed in committed {
        committed.revoke().unwrap();
    }
    assert_eq!(fs::read(&old).unwrap(), b"before");
    assert_eq!(names(root.path()), ["old"]);
    // Dropped, it stays, and nothing hidden is left.
    drop(commit(&old).unwrap());
    assert_eq!(fs::read(&old).unwrap(), b"after");
    assert_eq!(names(root.path()), ["old"]);
    // A folder is in the way: nothing changes.
    fs::create_dir(&new).unwrap();
    commit(&new).unwrap_err();
    assert_eq!(names(root.path()), ["new", "old"]);
}

#[test]
fn durable_2_a_revocable_commit_keeps_the_old_bytes_before_it_takes_their_name() {
    let root = tempfile::tempdir().unwrap();
    let target = root.path().join("data");
    write_file(&target, b"before", Durability::State).unwrap();
    let (committed, steps) =
        record(|| StagedFile::create(&target, Durability::State).unwrap().commit_revocable());
    let expected =
        ["file.create tmp", "file.sync tmp", "file.close tmp", "link tmp", "rename data", "folder.sync ."];
    assert_eq!(told(root.path(), &steps), expected);
    let (revoked, steps) = record(|| committed.unwrap().revoke());
    revoked.unwrap();
    assert_eq!(told(root.path(), &steps), ["rename data", "folder.sync ."]);
}
