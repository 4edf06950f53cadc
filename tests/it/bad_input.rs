//! Bad input: each line of the list has a test with its message. An error says what, where and what to do;
//! it is never a panic, never a signal, and loses nothing.

use std::{fs, path::Path};

use serde_json::Value;
use waycairn_tests::{Root, Run, text};

use crate::{STEPS, program, trained};

fn root() -> Root {
    Root::new(program())
}

#[test]
fn no_such_file() {
    let root = root();
    root.run(&["train", "--text", "absent.txt"]).fails_with(1, &["absent.txt", "no such file"]);
    assert!(!root.path().join("objects/values").exists(), "a refused launch leaves no store");
}

#[test]
fn an_empty_text() {
    let root = root();
    let file = root.file("empty.txt", "");
    root.run(&["train", "--text", &file]).fails_with(1, &["empty.txt", " is empty"]);
}

#[test]
fn a_text_shorter_than_one_context() {
    let root = root();
    let file = root.file("short.txt", "too short");
    root.run(&["train", "--text", &file])
        .fails_with(1, &["short.txt` has 8 tokens, and one example needs 65", "context"]);
}

#[test]
fn a_text_that_is_not_utf_8_names_the_offset() {
    let root = root();
    let mut bytes = text(4_000).into_bytes();
    bytes[1_234] = 0xff;
    let file = root.file("latin.txt", bytes);
    root.run(&["train", "--text", &file]).fails_with(1, &["latin.txt", "1234", "UTF-8"]);
}

#[test]
fn a_folder_in_place_of_the_text() {
    let root = root();
    let folder = root.folder().display().to_string();
    root.run(&["train", "--text", &folder])
        .fails_with(1, &[&format!("`{folder}` is not a regular file"), "next: "]);
}

#[test]
fn a_root_that_is_a_file() {
    let root = root();
    fs::write(root.path(), "something of the user's").expect("a file");
    for words in [&["train", "--preset", "tiny"][..], &["nodes"], &["query"]] {
        let what = format!("`{}` is not a folder, and the root needs one there", root.path().display());
        root.run(words).fails_with(1, &[&what, "next: choose another root"]);
    }
    assert_eq!(fs::read_to_string(root.path()).expect("still there"), "something of the user's");
}

#[test]
fn an_unwritable_root() {
    // Permission bits do not hold for every user who runs tests; the kernel's own folders do.
    if !Path::new("/sys/kernel").exists() {
        eprintln!("SKIPPED: no folder here that nobody may write to");
        return;
    }
    let root = root();
    let run = Run::of(&mut root.bare(["train", "--preset", "tiny", "--root", "/sys/kernel/waycairn"]));
    let what = "so the root `/sys/kernel/waycairn` cannot be written";
    run.fails_with(1, &[what, "why: ", "next: allow writing there, or choose another root"]);
}

#[test]
fn a_root_of_a_newer_format_version() {
    let root = root();
    fs::create_dir_all(root.path().join("objects/values")).expect("a root");
    fs::write(root.path().join("FORMAT"), "waycairn 9.0\n").expect("a marker");
    for words in [&["train", "--preset", "tiny"][..], &["nodes"], &["query", "seq >= 0"]] {
        root.run(words).fails_with(1, &["9.0", "newer"]);
    }
}

#[test]
fn an_unknown_node_names_the_nearest() {
    trained().run(&["show", "shakespear:3"]).fails_with(1, &["shakespear:3", "shakespeare"]);
    trained()
        .run(&["show", "shakespeare:99999"])
        .fails_with(1, &["no node `shakespeare:99999` in `", "next: list the runs with `waycairn nodes`"]);
}

#[test]
fn an_ambiguous_address_prefix_lists_the_candidates() {
    let node = trained().json(&["show", "shakespeare:0"]);
    let address = node["node"].as_str().expect("an address");
    // Every node of the run shares the beginning of its address.
    trained().run(&["show", &address[..10]]).fails_with(1, &[&address[..10], "shakespeare@"]);
}

#[test]
fn a_node_without_a_checkpoint_names_the_nearest_ones() {
    let last = format!("shakespeare:{}", STEPS - 2);
    trained().run(&["sample", &last]).fails_with(1, &["checkpoint", "shakespeare@"]);
    let file = trained().folder().join("none.safetensors").display().to_string();
    trained().run(&["export", &last, "-o", &file]).fails_with(1, &["checkpoint", "shakespeare@"]);
    assert!(!std::path::Path::new(&file).exists());
    let plugin = waycairn_tests::plugin("summary").display().to_string();
    trained()
        .run(&["analyze", "--plugin", &plugin, "--at", &last])
        .fails_with(1, &["checkpoint", "shakespeare@"]);
}

#[test]
fn a_malformed_expression_shows_the_place() {
    trained().run(&["query", "val/loss < and 2"]).fails_with(2, &["val/loss < and 2", "^"]);
    let json = trained().run(&["query", "val/loss <", "--format", "json"]);
    assert_eq!(json.status, Some(2), "{json}");
    let error: Value = serde_json::from_str(json.err.trim()).expect("a JSON error");
    assert_eq!(error["error"]["code"], "usage", "{json}");
    for part in ["code", "what", "why", "next"] {
        assert!(error["error"][part].is_string(), "{json}");
    }
}

#[test]
fn an_unknown_field_names_the_nearest() {
    let run = trained().run(&["query", "--keys", "val/los", "--format", "json"]);
    assert_eq!(run.status, Some(0), "{run}");
    assert_eq!(run.out.trim(), "[]", "{run}");
    assert!(run.err.contains("val/los") && run.err.contains("val/loss"), "{run}");
}

#[test]
fn an_unknown_key_says_that_it_emptied_the_answer() {
    let root = trained();
    let words = ["query", "seq < 3", "--keys", "train/loss,val/los"];
    let emptied = "nothing is shown because of `--keys val/los`; 3 nodes match without it";
    for format in ["table", "json", "csv", "parquet"] {
        let file = root.folder().join("unknown-key").display().to_string();
        let run = root.run(&[&words[..], &["--format", format, "-o", &file]].concat());
        assert_eq!(run.status, Some(0), "{run}");
        assert!(run.err.contains("no node has a field `val/los`; nearest: `val/loss`"), "{run}");
        assert!(run.err.contains(emptied) && !run.err.contains("no node matches"), "{run}");
    }
    let run = root.run(&["query", "seq > 99999", "--keys", "val/los"]);
    assert!(run.err.contains("no node matches") && !run.err.contains("nothing is shown"), "{run}");
    let run = root.run(&["query", "seq > 99999", "--keys", "val/loss"]);
    assert!(run.err.contains("no node matches"), "{run}");
}

#[test]
fn a_shortened_nonce_in_an_expression_is_told_with_what_it_may_mean() {
    let root = trained();
    let run = root.json(&["nodes"]);
    let nonce = run[0]["nonce"].as_str().expect("a nonce");
    let short = &nonce[..4];
    let said = format!("no run has the nonce `{short}`, and an expression takes a nonce whole; nearest: ");
    let run = root.run(&["query", &format!("node = 'shakespeare@{short}:3'")]);
    assert!(run.err.contains(&format!("{said}`shakespeare@{nonce}:3`")), "{run}");
    let run = root.run(&["query", &format!("seq = 3 and not (nonce = '{short}')")]);
    assert!(run.err.contains(&format!("{said}`{nonce}`")), "{run}");
    let run = root.run(&["query", &format!("node = 'shakespeare@{nonce}:3' and nonce != 'zz'")]);
    assert!(run.status == Some(0) && !run.err.contains("nonce"), "{run}");
}

#[test]
fn an_answer_replaces_nothing_that_a_root_keeps_for_itself() {
    let root = trained();
    let node = root.json(&["show", "shakespeare:19"]);
    let model = Path::new(node["blob"].as_str().expect("a blob")).join("checkpoint/model.safetensors");
    let values = root.path().join("objects/values");
    let part = fs::read_dir(&values).expect("the parts").next().expect("a part").expect("an entry").path();
    for target in [root.path().join("FORMAT"), part, values.join("new.csv"), model] {
        let before = fs::read(&target).ok();
        let target = target.display().to_string();
        for words in [
            &["query", "--format", "csv"][..],
            &["nodes", "--format", "json"],
            &["export", "shakespeare", "--format", "safetensors"],
        ] {
            let run = root.run(&[words, &["-o", &target]].concat());
            run.fails_with(
                1,
                &["cannot write to `", "keeps for itself", "choose a place outside of the root"],
            );
        }
        assert_eq!(fs::read(&target).ok(), before, "{target}");
    }
    let beside = root.path().join("plot.csv").display().to_string();
    assert_eq!(root.run(&["nodes", "-o", &beside]).status, Some(0));
    fs::remove_file(beside).expect("the answer");
    let odd = root.folder().join("answer.xlsx").display().to_string();
    root.run(&["nodes", "-o", &odd]).fails_with(2, &["answer.xlsx", "`.csv`", "--format"]);
    assert!(!Path::new(&odd).exists());
}

#[cfg(unix)]
#[test]
fn a_link_to_nothing_is_not_taken_for_nothing() {
    let root = root();
    root.json(&["train", "--steps", "2"]);
    let link = root.path().join("objects/values/part-zzz.parquet");
    std::os::unix::fs::symlink("gone.parquet", &link).expect("a link");
    root.run(&["nodes"]).fails_with(
        1,
        &["part-zzz.parquet` is damaged: it is a symbolic link to nothing", "next: ", "--skip-damaged"],
    );
    assert_eq!(root.run(&["nodes", "--skip-damaged"]).status, Some(0));
    fs::remove_file(link).expect("the link");
    fs::remove_file(root.path().join("FORMAT")).expect("the version");
    std::os::unix::fs::symlink("gone", root.path().join("FORMAT")).expect("a link");
    for words in [&["nodes"][..], &["train", "--steps", "1"]] {
        root.run(words).fails_with(1, &["FORMAT", "why: it is a symbolic link to nothing", "next: put back"]);
    }
}

#[cfg(unix)]
#[test]
fn a_checkpoint_file_that_is_none_says_what_it_is() {
    let root = root();
    root.json(&["train", "--steps", "2"]);
    let shown = root.json(&["show", "tiny"]);
    let folder = Path::new(shown["blob"].as_str().expect("a blob")).join("checkpoint");
    for name in ["model.safetensors", "config.toml", "manifest.json"] {
        let file = folder.join(name);
        fs::rename(&file, folder.join("kept")).expect("moved");
        let made = std::process::Command::new("mkfifo").arg(&file).status();
        assert!(made.expect("mkfifo").success());
        root.run(&["sample", "tiny"]).fails_with(1, &[name, "it is not a regular file but a pipe"]);
        fs::remove_file(&file).expect("the pipe");
        fs::rename(folder.join("kept"), &file).expect("back");
    }
    assert_eq!(root.run(&["sample", "tiny", "--tokens", "1"]).status, Some(0));
}

#[cfg(unix)]
#[test]
fn a_pipe_called_format_never_makes_a_reader_wait() {
    let root = root();
    fs::create_dir_all(root.path()).expect("a root");
    let made = std::process::Command::new("mkfifo").arg(root.path().join("FORMAT")).status();
    assert!(made.expect("mkfifo").success());
    for words in [&["nodes"][..], &["train", "--steps", "1"], &["show", "latest"]] {
        root.run(words).fails_with(1, &["FORMAT", "it is not a regular file but a pipe", "next: "]);
    }
}

#[test]
fn an_error_in_a_statement_advises_what_fits_it() {
    let root = trained();
    for (statement, next) in [
        ("SELECT val/loss FROM nodes", "next: put it in double quotes: \"val/loss\""),
        ("SELECT 1 FROM runs", "next: the tables are `nodes`, `records`, `edges` and `blobs`"),
        ("SELEC 1", "next: see the examples of `waycairn sql --help`"),
        ("DELETE FROM nodes", "next: see the examples of `waycairn sql --help`"),
    ] {
        root.run(&["sql", statement]).fails_with(1, &[next]);
    }
}

#[test]
fn a_file_that_is_no_plugin() {
    let root = trained();
    let file = root.file("not-a-plugin.so", "just text");
    let run = root.run(&["analyze", "--plugin", &file, "--at", "shakespeare"]);
    let what = format!("`{file}` is not a dynamic library but a text file");
    run.fails_with(1, &[&what, "next: list what is found with `waycairn plugins`"]);
}

#[test]
fn without_any_plugin_the_way_to_one_is_told() {
    let root = trained();
    let mut places = root.command(["analyze", "--at", "shakespeare", "--analysis", "summary"]);
    let data = root.folder().join("data");
    let run = Run::of(places.env("XDG_DATA_HOME", &data));
    let plugins = root.path().join("plugins").display().to_string();
    let next = "next: build the plugins with `cargo build --release`, then add `--plugin target/release/";
    run.fails_with(1, &["no analysis `summary`", &plugins, "data/waycairn/plugins", next]);
    let run = Run::of(root.command(["plugins"]).env("XDG_DATA_HOME", &data));
    assert!(run.status == Some(0) && run.err.contains(&plugins) && run.err.contains("cargo build"), "{run}");
}

#[test]
fn a_truncated_library() {
    let root = trained();
    let whole = fs::read(waycairn_tests::plugin("summary")).expect("the plugin");
    for length in [0, 1, 63, 64, 4_096, whole.len() / 2, whole.len() - 1] {
        let file = root.file(&format!("cut-{length}.so"), &whole[..length]);
        let what = match length {
            0 => format!("`{file}` is not a dynamic library but an empty file"),
            // Too little to be known as a library at all.
            1 => format!("`{file}` is not a dynamic library but "),
            _ => format!("`{file}` is a truncated or damaged library\n  why: "),
        };
        root.run(&["analyze", "--plugin", &file, "--at", "shakespeare"]).fails_with(1, &[&what, "next: "]);
    }
}

#[test]
fn a_checkpoint_with_a_flipped_byte_suggests_an_older_one() {
    let root = root();
    let file = root.file("input.txt", text(20_000));
    let words = ["train", "--text", &file, "--name", "flip", "--preset", "tiny", "--steps", "40"];
    root.json(&words);
    let shown = root.json(&["show", "flip:39"]);
    let blob = shown["blob"].as_str().expect("the last node has a blob");
    let model = Path::new(blob).join("checkpoint/model.safetensors");
    let mut bytes = fs::read(&model).expect("the weights");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&model, bytes).expect("damage");
    root.run(&["sample", "flip:39"]).fails_with(1, &["model.safetensors", "flip@"]);
    // The damaged checkpoint was not the only one: the older still loads.
    assert_eq!(root.run(&["sample", "flip:19", "--tokens", "4"]).status, Some(0));
}

#[test]
fn a_second_launch_of_a_running_run_names_the_holder() {
    let root = root();
    let file = root.file("input.txt", text(20_000));
    let words = ["train", "--text", &file, "--name", "busy", "--preset", "tiny", "--steps", "100000"];
    let mut first = root.command(words).stdout(std::process::Stdio::null()).spawn().expect("a launch");
    let started = std::time::Instant::now();
    while root.json(&["nodes"]).as_array().is_none_or(Vec::is_empty) {
        assert!(started.elapsed().as_secs() < 60, "the first launch records nothing");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let second = root.run(&words);
    // Beside it lies the lock of those who read its checkpoints.
    let locks = fs::read_dir(root.path().join("locks")).expect("the locks");
    let mut locks = locks.map(|entry| entry.expect("an entry"));
    let lock = locks.find(|entry| entry.file_name().to_string_lossy().starts_with("run-")).expect("a lock");
    let holder = fs::read(lock.path()).expect("the lock file");
    let pid = first.id();
    first.kill().expect("kill");
    first.wait().expect("wait");
    let holder: Value = serde_json::from_slice(&holder).expect("who holds it");
    let (host, since) =
        (holder["host"].as_str().expect("a host"), holder["started"].as_str().expect("a time"));
    assert!(!host.is_empty() && since.ends_with('Z') && holder["pid"] == pid, "{holder}");
    let why = format!("why: it is held by process {pid} on `{host}`, which began at {since}");
    second.fails_with(1, &["the run `busy` is being trained already", &why, "next: wait for it, or stop it"]);
}

#[test]
fn the_same_name_with_other_settings_begins_a_new_run() {
    let root = root();
    let file = root.file("input.txt", text(20_000));
    let mut words = vec!["train", "--text", &file, "--name", "twice", "--preset", "tiny", "--steps", "4"];
    root.json(&words);
    words.extend(["--seed", "7"]);
    let run = root.run(&words);
    assert_eq!(run.status, Some(0), "{run}");
    assert!(run.err.contains("other settings") || run.out.contains("other settings"), "{run}");
    assert_eq!(root.json(&["nodes"]).as_array().map(Vec::len), Some(2));
}

#[test]
fn a_setting_that_does_not_exist_names_the_nearest() {
    let run = root().run(&["train", "--set", "learning_rat=1"]);
    run.fails_with(2, &["learning_rat", "learning_rate"]);
}

/// What was advised listed the settings of `gpt`, and a prior was told as one of a cohort, which a run has not.
#[test]
fn errors_of_another_experiment_advise_its_own_settings() {
    let root = root();
    let of = |set| root.run(&["train", "--experiment", "nre", "--set", set]);
    let list = "`waycairn train --show-settings --experiment nre`";
    for (set, told) in [
        ("trainng.epochs=2", "did you mean `training.epochs`?"),
        ("training.epochs=0", "`training.epochs` cannot be 0"),
        ("prior=nrmal", "`prior` cannot be \"nrmal\""),
    ] {
        let run = of(set);
        run.fails_with(2, &[told, list]);
        assert!(!run.err.contains("cohort"), "{run}");
    }
    let steps = root.run(&["train", "--experiment", "nre", "--steps", "2"]);
    steps.fails_with(2, &["--steps: no setting has the path `steps`", list]);
    let listed = root.run(&["train", "--show-settings", "--experiment", "nre"]);
    assert!(listed.status == Some(0) && listed.out.contains("\ntraining.epochs = "), "{listed}");
    root.run(&["train", "--set", "stepz=2"]).fails_with(2, &["`waycairn train --show-settings` lists"]);
    assert!(!root.path().exists());
}

#[test]
fn wrong_settings_are_wrong_usage() {
    let root = root();
    let file = root.file("bad.toml", "steps = 3\nseed == 4\n");
    for (words, parts) in [
        (&["--set", "clip=0"][..], &["clip", "a number above 0"][..]),
        (&["--steps", "0"], &["--steps: `steps` cannot be 0", "why: it takes", "next: "]),
        (&["--set", "steps=0"], &["--set: `steps` cannot be 0"]),
        (&["--device", "x"], &["no device is called `x`", "why: the devices", "next: "]),
        (&["--preset", "tin"], &["tin", "tiny"]),
        (&["--name", ""], &["name", "next: give the run a name with `--name`"]),
        (&["--settings", &file], &["bad.toml", "line 2, column"]),
        (&["--threads", "0"], &["at least 1"]),
        (&["--threads", "1000000"], &["1000000", "at most"]),
        (&["--steps", "many"], &["a whole number"]),
    ] {
        let all = [&["train"], words].concat();
        root.run(&all).fails_with(2, parts);
    }
    assert!(!root.path().join("objects/values").exists(), "a refused launch leaves no store");
}

#[test]
fn enormous_sizes_are_refused_with_both_figures() {
    let root = root();
    let largest = "9007199254740991";
    for (path, value) in [
        ("model.width", "1000000"),
        ("model.layers", "1000000"),
        ("batch_size", largest),
        ("accumulate", largest),
    ] {
        let set = format!("{path}={value}");
        let run = root.run(&["train", "--set", &set]);
        run.fails_with(1, &[&format!("`{path}` = {value}"), "B of memory", "available", "--set"]);
    }
    root.run(&["train", "--set", &format!("data.context={largest}")]).fails_with(1, &["data.context"]);
}

#[test]
fn a_branch_that_could_not_be_found_again_is_refused() {
    let root = root();
    let file = root.file("input.txt", text(20_000));
    root.json(&["train", "--text", &file, "--name", "base", "--preset", "tiny", "--steps", "4"]);
    for node in ["base", "base:3", "latest"] {
        root.run(&["train", "--branch", node, "--steps", "8"]).fails_with(2, &["next:", "base@"]);
    }
    let words = ["train", "--branch", "base", "--name", "more", "--steps", "8"];
    let first = root.json(&words);
    let again = root.json(&words);
    assert_eq!((&first["status"], &again["status"]), (&"finished".into(), &"skipped".into()));
    assert_eq!(first["node"], again["node"]);
    let runs = root.json(&["nodes"]);
    let runs = runs.as_array().expect("runs");
    let base = runs.iter().find(|run| run["name"] == "base").expect("the base");
    let nonce = base["nonce"].as_str().expect("a nonce");
    let pinned = format!("base@{nonce}:3");
    let words = ["train", "--branch", &pinned, "--steps", "6"];
    let (first, again) = (root.json(&words), root.json(&words));
    assert_eq!(first["node"], again["node"], "a pinned base keeps the name, and is found again");
}

#[test]
fn a_damaged_part_is_named_and_can_be_left_out() {
    let root = root();
    let file = root.file("input.txt", text(20_000));
    for name in ["whole", "torn"] {
        root.json(&["train", "--text", &file, "--name", name, "--preset", "tiny", "--steps", "2"]);
    }
    let runs = |words: &[&str]| root.json(words).as_array().map(Vec::len);
    assert_eq!(runs(&["nodes"]), Some(2));
    let folder = root.path().join("objects/values");
    let parts = fs::read_dir(&folder).expect("the parts").map(|entry| entry.expect("an entry").path());
    let shown =
        |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"part-"));
    let newest =
        |path: &std::path::PathBuf| fs::metadata(path).and_then(|data| data.modified()).expect("a time");
    let torn = parts.filter(|path| shown(path)).max_by_key(newest).expect("a part");
    let bytes = fs::read(&torn).expect("the part");
    fs::write(&torn, &bytes[..bytes.len() / 2]).expect("damage");
    let part = torn.file_name().and_then(|name| name.to_str()).expect("a name");
    let reading =
        [&["nodes"][..], &["query", "seq >= 0"], &["show", "whole"], &["sql", "SELECT seq FROM nodes"]];
    for words in reading {
        root.run(words).fails_with(1, &[part, "next: ", "`--skip-damaged`"]);
        let run = root.run(&[words, &["--skip-damaged"]].concat());
        assert_eq!(run.status, Some(0), "{words:?}: {run}");
        assert!(run.err.contains(part), "what was left out is named: {run}");
    }
    let left = root.json(&["nodes", "--skip-damaged"]);
    assert!(left.as_array().is_some_and(|runs| runs.iter().any(|run| run["name"] == "whole")), "{left}");
}
