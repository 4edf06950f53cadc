//! The tour of the README: its commands as they stand there, and in more detail what each kind of them answers.

use serde_json::Value;
use waycairn_tests::{Root, Run, text};

use crate::{STEPS, program, trained};

fn rows(value: &Value) -> &[Value] {
    value.as_array().expect("an array")
}

/// What becomes of a command of the README.
#[cfg(unix)]
enum How {
    /// It is put before every later command.
    Before,
    /// It runs as it stands.
    Whole,
    /// It runs with these words behind it, so that it takes a moment.
    Cut(&'static str),
    /// It does not run here, and why.
    Left(&'static str),
}

/// Each command of the README by its beginning, what is done with it, and what its answer has in it.
#[cfg(unix)]
const COMMANDS: &[(&str, How, &[&str])] = &[
    ("cargo run --release -- train --preset tiny", How::Whole, &["finished tiny@", ":199 after 200 steps"]),
    ("cargo xtask ci", How::Left("it runs these tests"), &[]),
    ("export PATH=", How::Before, &[]),
    ("waycairn nodes", How::Whole, &["tiny@", "19, 39, 59 .. 199 (10)"]),
    ("waycairn show ", How::Whole, &["tiny@", ":19", "val/loss", "model.safetensors"]),
    ("waycairn query 'val/loss", How::Whole, &["train/loss,val/loss\n", "tiny,"]),
    ("waycairn query \"name = 'tiny' and checkpoint\"", How::Whole, &["val/loss", "tiny@"]),
    ("waycairn query \"name in ('tiny','warmer')", How::Whole, &["train/step", "tiny@", "warmer@"]),
    ("waycairn query --keys val/loss,train/step", How::Whole, &["val/loss", "@"]),
    ("waycairn sql ", How::Whole, &["val/loss", "199"]),
    ("waycairn train --branch ", How::Whole, &["finished warmer@", ":179 after 200 steps"]),
    ("waycairn lineage ", How::Whole, &["tiny@", "warmer@"]),
    ("waycairn analyze ", How::Whole, &["tiny@", "attached", "artifact summary"]),
    ("waycairn artifact ", How::Whole, &["\"tensors\"", "\"parameters\""]),
    ("waycairn sample tiny ", How::Whole, &["The "]),
    ("waycairn export ", How::Whole, &[]),
    (
        "waycairn train --text tinyshakespeare.txt",
        How::Cut(
            "--steps 2 --set model.layers=1 --set model.heads=1 --set model.width=8 --set data.context=8 \
             --set batch_size=1 --set eval_batches=1",
        ),
        &["finished shakespeare@", ":1 after 2 steps"],
    ),
    ("waycairn sample shakespeare ", How::Whole, &["ROMEO:"]),
    ("echo '{\"name\": \"sim\"", How::Whole, &[]),
    ("waycairn tail sim --once", How::Whole, &["0  energy -1.5"]),
    ("waycairn init --settings-dir ", How::Whole, &["settings_training.toml"]),
    ("waycairn init gaussian ", How::Whole, &["settings_training.toml"]),
    (
        "waycairn run --profile smoke ",
        How::Whole,
        &["4 runs in `outputs/smoke`", "inference: 4 built", "tarp: 4 computed"],
    ),
    ("waycairn compare bias.rmse ", How::Whole, &["nre.baseline.uniform-r0", "nre.baseline.grid-r0"]),
    ("waycairn compare coverage.joint_density.0 ", How::Whole, &[]),
    ("waycairn plan ", How::Whole, &["baseline", "learning_rate=0.001", "0 of 3 models are there"]),
    ("waycairn run --settings-dir ", How::Whole, &["3 runs in `outputs/small`", "model: 3 built"]),
    ("waycairn query 'has val/loss' ", How::Whole, &["gpt.baseline.r0@", "val/loss"]),
    ("cargo bench ", How::Left("it measures, for hours"), &[]),
];

#[cfg(unix)]
#[test]
fn every_command_of_the_readme_runs_in_the_order_in_which_it_stands() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let lines: Vec<&str> = blocks.flat_map(str::lines).filter(|line| !line.trim().is_empty()).collect();

    let folder = crate::help::folder();
    // Only where the README says that the build leaves it, and no link: the program looks for the library of a study beside
    // itself.
    std::fs::remove_file(folder.path().join("bin/waycairn")).expect("a link");
    let built = folder.path().join("target/release/waycairn");
    if std::fs::hard_link(program(), &built).is_err() {
        std::fs::copy(program(), &built).expect("a copy");
    }
    std::os::unix::fs::symlink(
        waycairn_tests::plugin("gaussian_study"),
        built.with_file_name("libwaycairn_gaussian_study.so"),
    )
    .expect("a link");
    let learnt = "ROMEO:\nWay.\n".repeat(400);
    std::fs::write(folder.path().join("tinyshakespeare.txt"), learnt).expect("a text");
    let mut before = String::new();
    let mut met = vec![0; COMMANDS.len()];
    for line in lines {
        let rows: Vec<usize> = (0..COMMANDS.len()).filter(|row| line.starts_with(COMMANDS[*row].0)).collect();
        let &[row] = rows.as_slice() else { panic!("the README has `{line}`: say here what becomes of it") };
        met[row] += 1;
        let (_, how, says) = &COMMANDS[row];
        let more = match how {
            How::Before => {
                before.push_str(line);
                before.push('\n');
                continue;
            }
            How::Whole => "",
            How::Cut(more) => more,
            How::Left(why) => {
                eprintln!("left out: `{line}`: {why}");
                continue;
            }
        };
        // What explains a command stands behind a gap.
        let command = line.split("  #").next().unwrap_or(line).trim_end();
        let command = command.replacen("cargo run --release --", "target/release/waycairn", 1);
        let run = crate::help::shell(folder.path(), &format!("{before}{command} {more}"));
        assert_eq!(run.status, Some(0), "{command}\n{run}");
        for part in *says {
            assert!(run.out.contains(part), "`{part}` is not in the answer of `{command}`\n{run}");
        }
    }
    for (count, (begins, ..)) in met.into_iter().zip(COMMANDS) {
        assert_eq!(count, 1, "`{begins}` stands in the README once, or is left out here");
    }
}

#[test]
fn train_without_any_input_uses_the_embedded_text() {
    let root = Root::new(program());
    let report = root.json(&["train", "--preset", "tiny", "--steps", "3"]);
    assert_eq!(report["status"], "finished");
    assert_eq!(report["steps"], 3);
    assert_eq!(report["resumed_from"], Value::Null);
    let again = root.json(&["train", "--preset", "tiny", "--steps", "3"]);
    assert_eq!(again["status"], "skipped", "the same command again finds it finished");
    assert_eq!(again["node"], report["node"]);
}

#[test]
fn nodes_lists_runs_with_their_checkpoints() {
    let runs = trained().json(&["nodes"]);
    let run = rows(&runs).iter().find(|run| run["name"] == "shakespeare").expect("the run");
    assert_eq!(run["nodes"], STEPS);
    assert_eq!(run["seq"], STEPS - 1);
    assert_eq!(run["checkpoints"], serde_json::json!([19, 39, STEPS - 1]));
    assert_eq!(run["finished"], true);
    for time in ["started", "written"] {
        let text = run[time].as_str().expect("a time");
        assert!(text.len() == 27 && text.ends_with('Z'), "`{text}` is RFC 3339 with microseconds");
    }
}

#[test]
fn show_gives_one_node_whole() {
    let node = trained().json(&["show", "shakespeare:19"]);
    assert_eq!((&node["name"], &node["seq"]), (&Value::from("shakespeare"), &Value::from(19)));
    assert!(node["fields"]["train/loss"].is_f64() && node["fields"]["val/loss"].is_f64());
    assert_eq!(node["fields"]["train/step"], 20);
    assert_eq!(rows(&node["parents"]).len(), 1);
    assert_eq!(node["checkpoint"]["complete"], true);
    let files: Vec<&str> =
        rows(&node["checkpoint"]["files"]).iter().filter_map(|f| f.as_str().or(f["name"].as_str())).collect();
    for name in [
        "model.safetensors",
        "optimizer.safetensors",
        "state.json",
        "rng.npy",
        "config.toml",
        "tokenizer.json",
        "job.json",
        "manifest.json",
    ] {
        assert!(files.contains(&name), "{name} in {files:?}");
    }
}

#[test]
fn show_tells_the_settings_of_the_run_at_every_node_of_it() {
    let root = trained();
    let whole = root.json(&["show", "shakespeare:19"]);
    assert_eq!(whole["settings"]["model.width"], 64, "{whole}");
    assert_eq!(whole["settings"]["steps"], STEPS);
    let between = root.json(&["show", "shakespeare:3"]);
    assert_eq!((&between["checkpoint"], &between["settings"]), (&Value::Null, &whole["settings"]));
    let said = root.run(&["show", "shakespeare:3"]);
    assert!(said.out.contains("\nsettings other than the defaults (all of them: --format json)\n"), "{said}");
    assert!(said.out.contains("  steps ") && !said.out.contains("model.width"), "{said}");
}

#[test]
fn query_filters_on_folded_values_in_every_format() {
    let root = trained();
    let found = root.json(&["query", "has val/loss and seq >= 10", "--keys", "train/loss,val/loss"]);
    assert_eq!(rows(&found).len(), 2, "{found}");
    let csv = root.run(&["query", "has val/loss", "--keys", "train/loss,val/loss", "--format", "csv"]);
    assert_eq!(csv.status, Some(0), "{csv}");
    assert!(
        csv.out.lines().next().is_some_and(|head| head.contains("train/loss") && head.contains("val/loss"))
    );
    assert_eq!(csv.out.lines().count(), 3, "{csv}");
    for format in ["table", "jsonl"] {
        assert_eq!(root.run(&["query", "has val/loss", "--format", format]).status, Some(0));
    }
    for format in ["parquet", "arrow"] {
        let file = root.folder().join(format!("answer.{format}")).display().to_string();
        let run = root.run(&["query", "has val/loss", "--format", format, "-o", &file]);
        assert_eq!(run.status, Some(0), "{run}");
        assert!(std::fs::metadata(file).expect("the answer").len() > 100);
    }
    let best =
        root.json(&["query", "has val/loss", "--sort", "val/loss", "--limit", "1", "--keys", "val/loss"]);
    assert_eq!(rows(&best).len(), 1);
}

#[test]
fn the_best_checkpoint_of_a_run_is_one_question() {
    let root = trained();
    let checkpoints = "name = 'shakespeare' and checkpoint";
    let all = root.json(&["query", checkpoints, "--keys", "val/loss"]);
    let losses = rows(&all).iter().filter_map(|row| row["val/loss"].as_f64());
    let lowest = losses.reduce(f64::min).expect("a loss");
    let best = root.json(&["query", checkpoints, "--keys", "val/loss", "--sort", "val/loss", "--limit", "1"]);
    assert_eq!(rows(&best).len(), 1);
    assert_eq!(best[0]["val/loss"].as_f64(), Some(lowest), "{all}");
}

#[test]
fn sql_reads_logical_nodes() {
    let table = trained().json(&["sql", "SELECT count(*) AS n FROM nodes WHERE name = 'shakespeare'"]);
    assert_eq!(table[0]["n"], STEPS);
}

#[test]
fn a_branch_has_its_base_as_parent_and_lineage_draws_it() {
    let root = Root::new(program());
    let file = root.file("input.txt", text(20_000));
    root.json(&["train", "--text", &file, "--name", "trunk", "--preset", "tiny", "--steps", "20"]);
    root.json(&[
        "train",
        "--branch",
        "trunk:19",
        "--name",
        "warmer",
        "--set",
        "learning_rate=3e-3",
        "--steps",
        "30",
    ]);
    let first = root.json(&["show", "warmer:0"]);
    let base = root.json(&["show", "trunk:19"]);
    assert_eq!(first["parents"], serde_json::json!([base["node"]]));
    assert_eq!(first["fields"]["train/step"], 21, "a branch goes on with the optimizer's step");
    let drawn = root.run(&["lineage", "warmer"]);
    assert_eq!(drawn.status, Some(0), "{drawn}");
    assert!(drawn.out.contains("trunk") && drawn.out.contains("warmer"), "{drawn}");
    let graph = root.json(&["lineage", "warmer"]);
    assert!(!rows(&graph["edges"]).is_empty() && rows(&graph["cycles"]).is_empty());
}

#[test]
fn plugins_case_05_an_analysis_attaches_to_the_past_node_without_ticking() {
    let root = Root::new(program());
    let file = root.file("input.txt", text(20_000));
    root.json(&[
        "train",
        "--text",
        &file,
        "--name",
        "past",
        "--preset",
        "tiny",
        "--steps",
        "11",
        "--set",
        "checkpoint_every=3",
    ]);
    let model = |node: &Value| {
        let blob = std::path::PathBuf::from(node["blob"].as_str().expect("a blob"));
        std::fs::read(blob.join("checkpoint/model.safetensors")).expect("the weights")
    };
    let before = root.json(&["show", "past:2"]);
    let bytes = model(&before);
    let plugin = waycairn_tests::plugin("summary").display().to_string();
    let words = ["analyze", "--plugin", &plugin, "--at", "past:2"];
    let attached = root.json(&words);
    assert_eq!(attached[0]["status"], "attached", "{attached}");
    let after = root.json(&["show", "past:2"]);
    assert_eq!(after["artifacts"][0]["suffix"], "summary", "{after}");
    assert_eq!(model(&after), bytes, "the checkpoint is untouched");
    for (key, value) in before["fields"].as_object().expect("fields") {
        assert_eq!(&after["fields"][key], value, "`{key}` was the node's own");
    }
    assert_eq!(root.json(&["show", "past"])["seq"], 10, "the newest by sequence is as before");
    assert_eq!(root.json(&["show", "latest"])["seq"], 2, "the latest write stands at the past node");
    let trained = root
        .json(&["sql", "SELECT count(*) AS n FROM records WHERE _x_seq = 2 AND \"train/loss\" IS NOT NULL"]);
    assert_eq!(trained[0]["n"], 1, "no record says that it was trained again");
    assert_eq!(root.json(&words)[0]["status"], "skipped", "the same again is already attached");
    let mut forced = words.to_vec();
    forced.push("--force");
    assert_eq!(root.json(&forced)[0]["status"], "attached");

    let artifact = root.json(&["artifact", "past:2", "summary"]);
    assert!(artifact.is_object(), "{artifact}");
}

#[test]
fn a_sample_continues_the_prompt() {
    let run =
        trained().run(&["sample", "shakespeare", "--prompt", "stone ", "--tokens", "20", "--seed", "1"]);
    assert_eq!(run.status, Some(0), "{run}");
    assert!(run.out.contains("stone "), "{run}");
    assert!(run.out.trim_end().chars().count() >= 20, "{run}");
    let again =
        trained().run(&["sample", "shakespeare", "--prompt", "stone ", "--tokens", "20", "--seed", "1"]);
    assert_eq!(run.out, again.out, "the same seed, the same text");
}

#[test]
fn an_export_has_the_weights_under_the_names_that_were_asked_for() {
    let root = trained();
    let export = |words: &[&str]| {
        let file = root.folder().join("export.safetensors").display().to_string();
        let run = root.run(&[&["export", "shakespeare:19", "-o", &file], words].concat());
        assert_eq!((run.status, run.out.as_str()), (Some(0), ""), "{run}");
        std::fs::read(file).expect("the weights")
    };
    let blob = root.json(&["show", "shakespeare:19"])["blob"].as_str().map(std::path::PathBuf::from);
    let stored = blob.expect("a blob").join("checkpoint/model.safetensors");
    assert_eq!(export(&[]), std::fs::read(stored).expect("the weights"));
    let bytes = export(&["--format", "nanogpt"]);
    let file = safetensors::SafeTensors::deserialize(&bytes).expect("tensors");
    let fused = file.tensor("transformer.h.1.attn.c_attn.weight").expect("the projection");
    assert_eq!(fused.shape(), [3 * 64, 64]);
    assert!(file.tensor("lm_head.weight").is_ok());
}

#[test]
fn identity_case_17_a_copied_root_resolves_in_its_new_place() {
    let root = Root::new(program());
    root.json(&["train", "--preset", "tiny", "--steps", "2", "--name", "moved"]);
    let elsewhere = root.folder().join("elsewhere");
    std::fs::rename(root.path(), &elsewhere).expect("a move");
    let there = elsewhere.display().to_string();
    let words = ["show", "moved", "--format", "json", "--root", &there];
    let shown = Run::of(&mut root.bare(words)).json();
    assert!(shown["blob"].as_str().is_some_and(|blob| blob.starts_with(&there)), "{shown}");
    let words = ["sample", "moved", "--tokens", "3", "--root", &there];
    assert_eq!(Run::of(&mut root.bare(words)).status, Some(0));
}

#[test]
fn the_program_says_what_it_is() {
    let root = Root::new(program());
    let words = ["--version", "--format", "json"];
    let version = Run::of(&mut root.bare(words)).json();
    for key in ["version", "formats", "api", "devices"] {
        assert!(!version[key].is_null(), "{version}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let run = Run::of(&mut root.bare(["completions", shell]));
        assert!(run.status == Some(0) && run.out.contains("lineage"), "{run}");
    }
}

#[test]
fn an_empty_root_gives_empty_answers() {
    let root = Root::new(program());
    assert_eq!(root.run(&["nodes", "--format", "json"]).out.trim(), "[]");
    assert_eq!(root.run(&["query", "--format", "json"]).out.trim(), "[]");
    assert!(!root.path().exists(), "a reader creates nothing");
}

#[test]
fn train_in_a_folder_below_says_that_there_is_a_root_above() {
    let root = Root::new(program());
    let below = root.folder().join("below");
    std::fs::create_dir(&below).expect("a folder");
    let words = ["train", "--preset", "tiny", "--steps", "1"];
    let train = |folder: &std::path::Path| {
        let run = Run::of(root.bare(words).current_dir(folder));
        assert_eq!(run.status, Some(0), "{run}");
        run.err
    };
    let note = "is a new output root; there is one at `";
    assert!(!train(root.folder()).contains(note));
    let above = root.folder().join("outputs/default");
    let said = train(&below);
    assert!(said.contains(note) && said.contains(&above.display().to_string()), "{said}");
    assert!(!train(&below).contains(note), "it is no longer new");
}
