use super::*;
use crate::fault::record;
use crate::{Durability, write_file};

#[test]
fn folders_are_made_from_the_top_each_synced_above() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a/b/c");
    let (result, steps) = record(|| create_dir_all(&path));
    result.unwrap();
    assert!(path.is_dir());
    let told: Vec<_> = steps.iter().map(|step| (step.name, step.path.clone().unwrap())).collect();
    let at = |path: &str| root.path().join(path);
    let expected = [
        ("folder.create", at("a")),
        ("folder.sync", root.path().to_owned()),
        ("folder.create", at("a/b")),
        ("folder.sync", at("a")),
        ("folder.create", at("a/b/c")),
        ("folder.sync", at("a/b")),
    ];
    assert_eq!(told, expected);
    let (result, steps) = record(|| create_dir_all(&path));
    result.unwrap();
    assert!(steps.is_empty());
}

#[test]
fn many_may_make_one_folder() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a/b/c/d");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| create_dir_all(&path).unwrap());
        }
    });
    assert!(path.is_dir());
}

#[test]
fn a_file_in_the_way_is_named() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    write_file(&file, b"x", Durability::Regenerable).unwrap();
    for path in [file.clone(), file.join("below"), file.join("far/below")] {
        let error = create_dir_all(&path).unwrap_err();
        assert!(matches!(&error, CommitError::NotAFolder { path } if *path == file), "{error:?}");
        assert_eq!(
            error.to_string(),
            format!(
                "`{}` is not a folder, and one is needed there; move it away or choose another place",
                file.display()
            )
        );
    }
    let dangling = root.path().join("dangling");
    std::os::unix::fs::symlink("nowhere", &dangling).unwrap();
    assert!(matches!(create_dir_all(&dangling), Err(CommitError::NotAFolder { .. })));
}

#[test]
fn a_place_that_takes_no_folders_is_an_error_with_the_path() {
    let path = Path::new("/proc/waycairn/folder");
    if !Path::new("/proc/self").exists() {
        return;
    }
    let error = create_dir_all(path).unwrap_err();
    assert!(error.to_string().starts_with("cannot create the folder `/proc/waycairn`"), "{error}");
}

#[test]
fn a_rename_syncs_the_new_name_before_the_old_one() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    create_dir_all(&at("new")).unwrap();
    write_file(&at("data"), b"x", Durability::State).unwrap();
    let (result, steps) = record(|| rename(&at("data"), &at("new/data")));
    result.unwrap();
    let told: Vec<_> = steps.iter().map(|step| (step.name, step.path.clone().unwrap())).collect();
    assert_eq!(
        told,
        [("rename", at("new/data")), ("folder.sync", at("new")), ("folder.sync", root.path().to_owned())]
    );
    let (result, steps) = record(|| rename(&at("new/data"), &at("new/other")));
    result.unwrap();
    assert_eq!(steps.len(), 2);
    assert_eq!(fs::read(at("new/other")).unwrap(), b"x");
    let error = rename(&at("absent"), &at("other")).unwrap_err();
    assert!(error.to_string().starts_with(&format!("cannot rename `{}`", at("absent").display())), "{error}");
}

#[test]
fn removing_what_is_absent_is_fine() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    remove_file(&at("absent")).unwrap();
    remove_dir_all(&at("absent")).unwrap();
    write_file(&at("file"), b"x", Durability::Regenerable).unwrap();
    assert!(matches!(remove_dir_all(&at("file")), Err(CommitError::NotAFolder { .. })));
    remove_file(&at("file")).unwrap();
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn durable_1_a_folder_loses_its_name_before_its_files() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("folder");
    create_dir_all(&path.join("inner")).unwrap();
    write_file(&path.join("inner/x"), b"x", Durability::Regenerable).unwrap();
    let (result, steps) = record(|| remove_dir_all(&path));
    result.unwrap();
    let names: Vec<_> = steps.iter().map(|step| step.name).collect();
    assert_eq!(names, ["rename", "folder.sync", "remove"]);
    assert!(crate::is_temporary(steps[2].path.as_ref().unwrap().file_name().unwrap()));
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn many_folders_lose_their_names_before_one_sync_and_their_files_after_it() {
    let root = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| root.path().join(name));
    for path in &paths {
        fs::create_dir(path).unwrap();
        write_file(&path.join("x"), b"x", Durability::Regenerable).unwrap();
    }
    let asides: Vec<_> = paths.iter().map(|path| set_aside(path).unwrap().unwrap()).collect();
    assert!(paths.iter().all(|path| !path.exists()));
    assert!(asides.iter().all(|path| temporary::is_temporary(path.file_name().unwrap())));
    assert!(asides.iter().all(|path| path.join("x").exists()));
    sync_folder(root.path()).unwrap();
    for aside in &asides {
        delete_aside(aside).unwrap();
        delete_aside(aside).unwrap();
    }
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    assert_eq!(set_aside(&paths[0]).unwrap(), None);

    // What has a name that counts is not deleted.
    fs::create_dir(&paths[0]).unwrap();
    assert!(matches!(delete_aside(&paths[0]), Err(CommitError::NoName { .. })));
    assert!(paths[0].exists());
    let file = root.path().join("file");
    write_file(&file, b"x", Durability::Regenerable).unwrap();
    assert!(matches!(set_aside(&file), Err(CommitError::NotAFolder { .. })));
}
