//! What people of this field have run into with the caches of others; each test carries the number of its case.

#![cfg(unix)]

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde_json::Value;

use crate::study::{Study, files, json};

/// The one entry of a product of the baseline.
fn entry(study: &Study, product: &str) -> (PathBuf, String) {
    let artifacts = json(&study.baseline().join("artifacts.json"));
    let reference = &artifacts["artifacts"][product];
    let text = |field: &str| reference[field].as_str().expect("a text").to_owned();
    (study.out().join(text("path")), text("key"))
}

/// What the deep check says is damaged: paths.
fn damaged(study: &Study) -> Vec<String> {
    let run = study.run("waycairn verify --root out --format json");
    let found: Value = serde_json::from_str(&run.out).expect("what is damaged");
    let list = found["damaged"].as_array().expect("a list");
    assert_eq!(run.status, Some(if list.is_empty() { 0 } else { 3 }), "{run}");
    list.iter().map(|one| one["path"].as_str().expect("a path").to_owned()).collect()
}

fn shown(study: &Study, path: &Path) -> String {
    path.strip_prefix(study.out()).expect("a path below the root").display().to_string()
}

#[test]
fn f28_a_file_that_is_gone_or_short_is_found_at_once_and_one_flipped_byte_by_the_deep_check() {
    let study = Study::new();
    study.launch("waycairn run");
    for (product, file) in [("model", "weights.safetensors"), ("position_losses", "loss.npy")] {
        let (folder, key) = entry(&study, product);
        let path = folder.join(file);
        let whole = fs::read(&path).expect("a file");
        for change in ["flipped", "short", "gone"] {
            let mut bytes = whole.clone();
            match change {
                "flipped" => *bytes.last_mut().expect("a byte") ^= 1,
                "short" => drop(bytes.pop()),
                _ => {}
            }
            fs::write(&path, &bytes).expect("a file");
            if change == "gone" {
                fs::remove_file(&path).expect("a file");
            }
            assert_eq!(damaged(&study), [shown(&study, &path)], "{change}");
            let told = study.run("waycairn verify --root out");
            assert!(told.status == Some(3) && told.out.contains(&shown(&study, &path)), "{told}");
            let told: Value =
                serde_json::from_str(&study.run("waycairn verify --root out --format json").out)
                    .expect("JSON");
            assert_eq!(told["damaged"][0]["key"], *key);
            if change != "flipped" {
                // Damage is an error, never a silent rebuild.
                let restored = study.run("waycairn restore gpt.baseline.r0 --root out");
                restored.fails_with(1, &[file, &format!("{product}/"), "verify --quarantine"]);
                let launched = study.run("waycairn run");
                if product == "model" {
                    launched.fails_with(1, &[file, "verify --quarantine"]);
                } else {
                    // What nothing is computed from now is told, and in nobody's way.
                    assert_eq!(launched.status, Some(0), "{launched}");
                    assert!(launched.err.contains(file) && launched.out.contains("1 damaged"), "{launched}");
                }
            }
            let aside = study.run("waycairn verify --root out --quarantine");
            assert_eq!(aside.status, Some(3), "{aside}");
            let report = study.launch("waycairn run");
            assert_eq!(Study::count(&report, product), (1, 1), "{change}: built again");
            assert_eq!(fs::read(&path).expect("a file"), whole, "{change}: to the same bytes");
            assert_eq!(damaged(&study), [""; 0], "{change}");
        }
    }
}

#[test]
fn f30_a_folder_that_somebody_removed_makes_a_collection_keep_everything_and_say_so() {
    let study = Study::new();
    study.launch("waycairn run");
    // Something that would go.
    let old = study.out().join("cache/model/.tmp-1-0");
    fs::create_dir(&old).expect("a folder");
    let days = Duration::from_secs(2 * 24 * 3600);
    fs::File::open(&old).and_then(|folder| folder.set_modified(SystemTime::now() - days)).expect("a time");
    assert!(study.run("waycairn gc --dry-run --root out").out.contains(".tmp-1-0"));
    for removed in ["cache/position_losses", "cache/model", "cache"] {
        fs::remove_dir_all(study.out().join(removed)).expect("a folder");
        let before = files(&study.out());
        for command in ["gc --dry-run", "gc"] {
            let run = study.run(&format!("waycairn {command} --root out"));
            assert_eq!(run.status, Some(0), "{run}");
            let said = format!("{}{}", run.out, run.err);
            assert!(said.contains(&format!("`{removed}` is missing")), "{removed}\n{run}");
        }
        assert_eq!(files(&study.out()), before, "{removed}");
    }
    let report = study.launch("waycairn run");
    assert_eq!((Study::count(&report, "model"), Study::count(&report, "position_losses")), ((2, 0), (2, 0)));
    assert_eq!(damaged(&study), [""; 0]);
}

#[test]
fn f32_books_that_are_empty_or_garbled_are_named_and_made_again() {
    let study = Study::new();
    study.launch("waycairn run");
    let history = study.out().join("history.json");
    let whole = json(&history);
    for text in ["", "{", "null", "{\"version\": 1}", "\u{0}\u{0}\u{0}"] {
        fs::write(&history, text).expect("a file");
        assert_eq!(damaged(&study), ["history.json"], "{text:?}");
        let shown = study.run("waycairn history --root out");
        assert!(shown.status == Some(0) && shown.err.contains("history.json"), "{text:?}\n{shown}");
        let collected = study.run("waycairn gc --root out");
        assert_eq!(collected.status, Some(0), "{text:?}\n{collected}");
        let report = study.launch("waycairn run");
        assert_eq!(Study::count(&report, "model"), (0, 2), "{text:?}: nothing is lost");
        let (mut now, mut then) = (json(&history), whole.clone());
        for book in [&mut now, &mut then] {
            book["roots"][0]["time"] = Value::Null;
        }
        assert_eq!(now, then, "{text:?}");
        assert_eq!(damaged(&study), [""; 0], "{text:?}");
    }
    // The user's own word cannot be made again: it is named, and nothing is removed meanwhile.
    study.run("waycairn pin gpt.baseline.r0 --root out");
    let pins = study.out().join("pins.json");
    let pinned = fs::read(&pins).expect("pins");
    fs::write(&pins, "").expect("a file");
    assert_eq!(damaged(&study), ["pins.json"]);
    let run = study.run("waycairn gc --root out");
    assert!(format!("{}{}", run.out, run.err).contains("pins.json"), "{run}");
    study.launch("waycairn run");
    fs::write(&pins, pinned).expect("a file");
    assert_eq!(damaged(&study), [""; 0]);
}
