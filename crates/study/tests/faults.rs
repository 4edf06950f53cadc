//! What is in the way of a launch: leftovers, folders and pipes in the place of files, records that contradict each other.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, clippy::panic, clippy::unwrap_used, reason = "a test")]

mod kit;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use kit::{Work, differences, folder, launch, said};
use serde_json::{Value, json};
use waycairn_study::{RecordedRun, StudyError, restore, verify};
use waycairn_train::{Gpt, experiments};

const WORK: Work<'static> = Work { stage: "run", rate: "0.1", rows: "1", replicas: 2, worker: None };

/// A root with one study, and the folder of its first run from there.
fn studied() -> (tempfile::TempDir, PathBuf) {
    let root = folder();
    launch(root.path(), WORK).unwrap();
    let runs = RecordedRun::list(root.path()).unwrap();
    (root, runs[0].folder.clone())
}

/// The same launch mends a root: afterwards it says what it said before.
fn mended(root: &Path, expected: &BTreeMap<String, String>, at: &str) {
    launch(root, WORK).unwrap_or_else(|error| panic!("{at}: {error}"));
    let differences = differences(&said(root), expected);
    assert!(differences.is_empty(), "{at}: {differences:#?}");
    let found = verify(root, false, |_| ()).unwrap();
    assert!(found.damaged.is_empty(), "{at}: {:?}", found.damaged);
}

/// The files of a root that are damaged.
fn damaged(root: &Path) -> Vec<String> {
    verify(root, false, |_| ()).unwrap().damaged.into_iter().map(|one| one.path).collect()
}

#[test]
fn study_1_what_dead_launches_left_hidden_is_swept() {
    let (root, run) = studied();
    let root = root.path();
    let expected = said(root);
    let old = SystemTime::now() - Duration::from_secs(2 * 24 * 3600);
    let litter = |folder: &str, name: &str| {
        let path = root.join(folder).join(name);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("file"), "left").unwrap();
        for path in [path.join("file"), path.clone()] {
            File::open(path).unwrap().set_modified(old).unwrap();
        }
        path
    };
    let run = run.display().to_string();
    let variant = run.rsplit_once('/').unwrap().0.to_owned();
    let gone: Vec<PathBuf> = ["", "source", "locks", "runs", &variant, &run]
        .map(|folder| litter(folder, ".tmp-1-0"))
        .into_iter()
        .collect();
    // In the folder of a run nobody else writes; elsewhere what is young may be in the making.
    fs::write(root.join(&run).join(".tmp-1-1"), "young").unwrap();
    fs::write(root.join(".tmp-1-1"), "young").unwrap();
    let stranger = litter("source", "stranger");
    mended(root, &expected_with(&expected, &stranger, root), "litter");
    for path in gone {
        assert!(!path.exists(), "{}", path.display());
    }
    assert!(root.join(".tmp-1-1").exists() && stranger.exists());
}

fn expected_with(
    expected: &BTreeMap<String, String>,
    stranger: &Path,
    root: &Path,
) -> BTreeMap<String, String> {
    let mut expected = expected.clone();
    let file = stranger.join("file");
    let name = file.strip_prefix(root).unwrap().display().to_string();
    let digest = waycairn_durable::Digest::of(b"left").to_string();
    expected.insert(name, digest);
    expected
}

#[test]
fn study_1_what_stands_in_the_place_of_a_file_of_a_run_is_named_and_mended() {
    let (root, run) = studied();
    let root = root.path();
    let expected = said(root);
    let folder = |path: &Path| {
        fs::create_dir(path).unwrap();
        fs::write(path.join("stranger"), "").unwrap();
    };
    let pipe = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    let socket = |path: &Path| drop(std::os::unix::net::UnixListener::bind(path).unwrap());
    let make = |kind: &str, path: &Path| match kind {
        "folder" => folder(path),
        "pipe" => pipe(path),
        _ => socket(path),
    };
    let own = ["run.json", "status.json", "artifacts.json", "analysis.json", "metrics.json"];
    let results = ["metrics/loss_by_position.json", "plots/loss_by_position_curve/curve.svg"];
    let mut places: Vec<PathBuf> = own.iter().chain(&results).map(|file| run.join(file)).collect();
    places.push("history.json".into());
    for place in places {
        for kind in ["folder", "pipe", "socket"] {
            let at = format!("a {kind} at {}", place.display());
            let path = root.join(&place);
            fs::remove_file(&path).unwrap();
            make(kind, &path);
            assert_eq!(damaged(root), [place.display().to_string()], "{at}");
            let needed =
                ["run.json", "status.json", "artifacts.json"].iter().any(|file| path.ends_with(file));
            match RecordedRun::list(root) {
                Err(StudyError::Damaged { path: named, what }) => {
                    assert!(
                        needed && named == path && what.contains("not a regular file but"),
                        "{at}: {what}"
                    );
                }
                listed => assert!(!needed && listed.unwrap().len() == 2, "{at}"),
            }
            mended(root, &expected, &at);
        }
    }
    // And files where folders belong.
    for results in ["metrics", "plots", "plots/loss_by_position_curve"] {
        let path = root.join(&run).join(results);
        fs::remove_dir_all(&path).unwrap();
        fs::write(&path, "").unwrap();
        mended(root, &expected, results);
    }
    // A training alone lets the analysis begin anew, whatever is left of it.
    fs::remove_file(root.join(&run).join("analysis.json")).unwrap();
    folder(&root.join(&run).join("analysis.json"));
    launch(root, Work { stage: "train", ..WORK }).unwrap();
    assert!(!root.join(&run).join("analysis.json").exists());
    mended(root, &expected, "analyzed again");
}

#[test]
fn study_1_a_folder_in_the_place_of_the_settings_refuses_a_launch_at_once() {
    let (root, _) = studied();
    let root = root.path();
    for name in ["settings_training.toml", "settings_analysis.toml"] {
        fs::remove_file(root.join(name)).unwrap();
        fs::create_dir(root.join(name)).unwrap();
        let before = said(root);
        // Of settings that are not trained yet.
        let error = launch(root, Work { rate: "0.2", ..WORK }).unwrap_err();
        assert!(matches!(&error, StudyError::InTheWay { path } if path.ends_with(name)), "{error}");
        assert_eq!(said(root), before);
        fs::remove_dir(root.join(name)).unwrap();
        launch(root, WORK).unwrap();
    }
}

/// Changes a JSON file.
fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

#[test]
fn study_case_08_records_that_contradict_each_other_are_damage() {
    let (root, run) = studied();
    let root = root.path();
    let expected = said(root);
    let shown = run.display().to_string();
    let artifacts: Value =
        serde_json::from_slice(&fs::read(root.join(&run).join("artifacts.json")).unwrap()).unwrap();
    let artifacts = &artifacts["artifacts"];
    let (model, losses) = (&artifacts["model"], &artifacts["position_losses"]);
    let outside = format!("../{}", model["path"].as_str().unwrap());
    for (product, field, value) in [
        ("model", "path", losses["path"].clone()),
        ("model", "path", json!(outside)),
        ("model", "path", json!("")),
        ("model", "key", losses["key"].clone()),
        ("model", "key", json!("no key")),
        ("position_losses", "path", model["path"].clone()),
        ("position_losses", "key", model["key"].clone()),
        ("position_losses", "key", json!(Value::Null)),
    ] {
        let at = format!("{product} {field} {value}");
        let file = root.join(&run).join("artifacts.json");
        edit(&file, |artifacts| artifacts["artifacts"][product][field] = value);
        assert_eq!(damaged(root), [format!("{shown}/artifacts.json")], "{at}");
        match restore(&experiments![Gpt], root, &shown, "cpu") {
            Err(StudyError::Damaged { path, .. }) => assert_eq!(path, file, "{at}"),
            other => panic!("{at}: {other:?}"),
        }
        mended(root, &expected, &at);
    }
    // A whole reference under the name of another product.
    edit(&root.join(&run).join("artifacts.json"), |artifacts| {
        artifacts["artifacts"]["position_losses"] = artifacts["artifacts"]["model"].clone();
    });
    assert_eq!(damaged(root), [format!("{shown}/artifacts.json")]);
    mended(root, &expected, "another product");
    for (field, value) in [
        ("source", json!("source/../run.json")),
        ("source", json!("../source.zip")),
        ("source", json!(format!("source/{}.zip", "0".repeat(32)))),
        ("id", json!("baseline/other")),
    ] {
        let at = format!("{field} {value}");
        edit(&root.join(&run).join("run.json"), |run| run[field] = value);
        assert_eq!(damaged(root), [format!("{shown}/run.json")], "{at}");
        mended(root, &expected, &at);
    }
    let missing = format!("source/{}.zip", "0".repeat(32));
    edit(&root.join(&run).join("analysis.json"), |analysis| analysis["source"] = json!(missing));
    assert_eq!(damaged(root), [format!("{shown}/analysis.json")]);
    mended(root, &expected, "the archive of an analysis");
    for file in ["status.json", "artifacts.json"] {
        fs::remove_file(root.join(&run).join(file)).unwrap();
        assert_eq!(damaged(root), [format!("{shown}/{file}")]);
        mended(root, &expected, file);
    }
    // A file outside the run with the right bytes is no result of the run.
    fs::copy(root.join(&run).join("metrics/loss_by_position.json"), root.join("outside.json")).unwrap();
    edit(&root.join(&run).join("analysis.json"), |analysis| {
        let files = &mut analysis["results"]["loss_by_position"]["files"];
        let digest = files["metrics/loss_by_position.json"].clone();
        *files = json!({ "../../../outside.json": digest });
    });
    assert!(damaged(root).contains(&format!("{shown}/analysis.json")));
    fs::remove_file(root.join("outside.json")).unwrap();
    mended(root, &expected, "a result outside");
}
