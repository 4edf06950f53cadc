//! Where plugins are looked for, and in which order.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use waycairn_tests::{Root, Run, plugin};

use crate::program;

/// A copy of the example plugin in a folder, under a name of its own.
fn put(folder: &Path, name: &str) -> PathBuf {
    fs::create_dir_all(folder).expect("a folder");
    let path = folder.join(name).with_extension(std::env::consts::DLL_EXTENSION);
    fs::copy(plugin("summary"), &path).expect("a copy");
    path
}

fn files(run: &Run) -> Vec<PathBuf> {
    assert_eq!(run.status, Some(0), "{run}");
    let rows = run.json();
    let rows = rows.as_array().expect("rows");
    assert!(rows.iter().all(|row| row["status"] == "loaded"), "{run}");
    rows.iter().filter_map(|row| row["file"].as_str().map(PathBuf::from)).collect()
}

#[test]
fn plugins_are_looked_for_in_the_documented_order() {
    let root = Root::new(program());
    let at = |name: &str| root.folder().join(name);
    // The names would sort the other way round.
    let file = put(&at("somewhere"), "z-file");
    let folder = [put(&at("one"), "x-folder"), put(&at("one"), "y-folder"), put(&at("other"), "w-folder")];
    let path = [put(&at("first"), "v-path"), put(&at("second"), "u-path")];
    let own = put(&root.path().join("plugins"), "t-root");
    let data = put(&at("data/waycairn/plugins"), "s-data");
    let home = put(&at("home/.local/share/waycairn/plugins"), "r-home");
    let file_text = file.display().to_string();
    let one = at("one").display().to_string();
    let other = at("other").display().to_string();
    let words = ["plugins", "--plugin-dir", &one, "--plugin", &file_text, "--plugin-dir", &other];

    let mut command = root.command([&words[..], &["--format", "json"]].concat());
    let searched = std::env::join_paths([at("first"), at("absent"), at("second")]).expect("a path");
    command.env("WAYCAIRN_PLUGIN_PATH", &searched).env("XDG_DATA_HOME", at("data"));
    let expected: Vec<PathBuf> = [&[file][..], &folder, &path, std::slice::from_ref(&own), &[data]].concat();
    assert_eq!(files(&Run::of(&mut command)), expected);

    // Without any of the words and variables there are the root and the home; a variable that is empty is not set.
    for value in [None, Some("")] {
        let mut command = root.command(["plugins", "--format", "json"]);
        for name in ["WAYCAIRN_PLUGIN_PATH", "XDG_DATA_HOME"] {
            value.map(|value| command.env(name, value));
        }
        assert_eq!(files(&Run::of(&mut command)), [own.clone(), home.clone()]);
    }
}

#[test]
fn of_equal_libraries_the_first_in_the_order_is_run() {
    let root = Root::new(program());
    root.json(&["train", "--preset", "tiny", "--steps", "1", "--set", "model.width=8"]);
    put(&root.path().join("plugins"), "copy");
    let named = put(&root.folder().join("named"), "original").display().to_string();
    let outcome = root.json(&["analyze", "--plugin", &named, "--latest"]);
    assert_eq!(
        outcome.as_array().map(Vec::len),
        Some(1),
        "equal in every byte, they count as one: {outcome}"
    );
    let run = root.run(&["plugins", "--plugin-dir", "absent", "--format", "json"]);
    run.fails_with(1, &["no such folder: `absent`"]);
    let absent = run.json();
    let refused: Vec<&Value> =
        absent.as_array().expect("rows").iter().filter(|row| row["status"] == "refused").collect();
    assert!(
        refused.len() == 1 && refused[0]["file"] == "absent",
        "a folder that was named must be there: {absent}"
    );
}

#[test]
fn what_a_library_offers_a_study_is_listed_with_its_settings() {
    let root = Root::new(program());
    let library = plugin("loss_by_position").display().to_string();
    let listed = root.json(&["plugins", "--plugin", &library]);
    let row = |name: &str| {
        let found = listed.as_array().expect("rows").iter().find(|row| row["name"] == name);
        found.unwrap_or_else(|| panic!("`{name}` is listed: {listed}"))
    };
    assert_eq!(row("loss_by_position")["kind"], "metric");
    assert_eq!(row("loss_by_position")["description"], "losses at the ends of the context");
    let plot = row("loss_by_position_curve");
    assert_eq!(plot["kind"], "plot");
    let own = ["loss_by_position_curve.height = 360", "loss_by_position_curve.width = 640"];
    assert_eq!(plot["settings"], serde_json::json!(own));
    let product = row("position_losses");
    assert_eq!((&product["kind"], &product["version"]), (&"product".into(), &"1".into()));
    assert!(product["description"].as_str().is_some_and(|text| text.contains("0 is every row")), "{product}");
    let section = row("position");
    assert_eq!(section["kind"], "settings");
    assert_eq!(section["settings"], serde_json::json!(["position.rows = 0"]));
    let table = root.run(&["plugins", "--plugin", &library]);
    assert!(table.out.contains("settings: position.rows = 0"), "{table}");
}

#[test]
fn what_plugins_may_call_is_listed_and_what_they_lack_is_told_before_they_run() {
    let root = Root::new(program());
    let listed = root.json(&["plugins", "--functions"]);
    let names: Vec<&Value> = listed.as_array().expect("rows").iter().map(|row| &row["function"]).collect();
    assert_eq!(names, ["loss", "head"]);
    assert_eq!(listed[1]["outputs"], "logits: float32 [rows, time, vocabulary]");
    let table = root.run(&["plugins", "--functions"]);
    assert!(table.out.contains("stream: float32 [rows, time, width]"), "{table}");

    root.json(&["train", "--preset", "tiny", "--steps", "1", "--set", "model.width=8"]);
    let library = plugin("hostile").display().to_string();
    let run = root.run(&["analyze", "--plugin", &library, "--analysis", "caller", "--latest"]);
    run.fails_with(1, &["it needs the function `double` of the experiment, which has `loss`, `head`"]);
}

/// A library has a pool of its own, and it took every core, whatever the study said.
#[cfg(unix)]
#[test]
fn plugins_are_told_how_many_threads_they_may_have() {
    use crate::study::{Study, TRAINING, json};

    let study = Study::new();
    study.write("settings_training.toml", &format!("{TRAINING}runtime = {{ cpu_threads = 3 }}\n"));
    study.analyzed("'threads'", "", "");
    study.launch("waycairn run");
    for run in study.runs() {
        assert_eq!(json(&run.join("metrics.json"))["threads"], serde_json::json!([3]));
    }
    // Of nodes, it is as many as the program itself computes on.
    let library = plugin("hostile").display().to_string();
    let analyze = format!(
        "RAYON_NUM_THREADS=5 waycairn analyze --root out --plugin {library} --analysis threads --at gpt.baseline.r0 --force"
    );
    let run = study.run(&analyze);
    assert_eq!(run.status, Some(0), "{run}");
    let shown = study.run("waycairn show gpt.baseline.r0 --root out --format json");
    let shown: Value = serde_json::from_str(&shown.out).expect("a node");
    assert_eq!(shown["fields"]["threads/0"], 5, "{shown}");
}
