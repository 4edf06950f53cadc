//! Every example of every help text, run by a shell as it stands.

#![cfg(unix)]

use std::{path::Path, process::Command};

use waycairn_tests::{Run, clean, plugin, text};

use crate::program;

/// Settings under which a thousand steps take a moment.
const SMALL: &str = "--set model.layers=1 --set model.heads=1 --set model.width=8 --set data.context=8 \
                     --set batch_size=1 --set checkpoint_every=500 --set eval_every=500";

/// Runs a line in a folder where `waycairn` is the program under test.
pub(crate) fn shell(folder: &Path, line: &str) -> Run {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("sh");
    clean(&mut command, folder);
    command.args(["-c", line]).current_dir(folder);
    command.env("PATH", format!("{}:{path}", folder.join("bin").display()));
    Run::of(&mut command)
}

fn done(folder: &Path, line: &str) -> String {
    let run = shell(folder, line);
    assert_eq!(run.status, Some(0), "{line}\n{run}");
    run.out
}

/// A folder with what the examples take for granted: a text, the built plugin, somewhere for completions.
pub(crate) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    for name in [
        "bin",
        "target/release",
        ".local/share/bash-completion/completions",
        ".zfunc",
        ".config/fish/completions",
    ] {
        std::fs::create_dir_all(at(name)).expect("a folder");
    }
    std::os::unix::fs::symlink(program(), at("bin/waycairn")).expect("a link");
    std::os::unix::fs::symlink(plugin("summary"), at("target/release/libwaycairn_summary.so"))
        .expect("a link");
    for name in ["FILE", "shakespeare.txt"] {
        std::fs::write(at(name), "ROMEO:\n".repeat(100) + &text(20_000)).expect("a text");
    }
    let record = "{\"name\": \"sim\", \"nonce\": \"94ab\", \"seq\": 0, \"fields\": {\"energy\": -1.5}}\n{\"flush\": true}\n";
    std::fs::write(at("records.jsonl"), record).expect("records");
    folder
}

/// The examples of one help text. What stands behind a wide gap explains them.
fn examples(help: &str) -> Vec<String> {
    let lines = help.lines().filter(|line| line.starts_with("  waycairn "));
    lines.map(|line| line.trim().split("   ").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn every_example_of_every_help_text_runs() {
    let whole = folder();
    let started = folder();
    let train = format!("waycairn train --text shakespeare.txt --name shakespeare --steps 1002 {SMALL}");
    let stopped = shell(started.path(), &format!("{train} --max-time 0"));
    assert_eq!(stopped.status, Some(4), "{stopped}");
    done(whole.path(), &train);
    done(whole.path(), &format!("waycairn train --preset tiny --steps 2 {SMALL}"));
    done(whole.path(), "waycairn train --branch shakespeare:999 --name warmer");
    let library = "target/release/libwaycairn_summary.so";
    done(whole.path(), &format!("waycairn analyze --plugin {library} --at shakespeare:999"));

    done(whole.path(), "mkdir outputs/default/plugins");
    done(whole.path(), &format!("cp {library} outputs/default/plugins"));

    let study = folder();
    let settings = "[base]\nsteps = 2\neval_every = 2\neval_batches = 1\nmodel = { layers = 1, heads = 1, width = 8 }\ndata = { context = 8 }\n\
                    [profiles.small]\noutput = 'outputs/small'\n[profiles.full]\nlearning_rate = 0.1\n";
    std::fs::write(study.path().join("settings_training.toml"), settings).expect("settings");
    std::fs::write(study.path().join("settings_analysis.toml"), "[base]\n").expect("settings");
    done(study.path(), "waycairn train");
    done(study.path(), "waycairn train --profile small");
    done(study.path(), "waycairn pin gpt.baseline.r0");

    let start = done(whole.path(), "waycairn --help");
    let mut found = examples(&start);
    let listed = start.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<&str> = listed
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.contains(&"train") && commands.contains(&"completions"), "{commands:?}");
    for command in commands.iter().filter(|command| **command != "help") {
        let help = done(whole.path(), &format!("waycairn {command} --help"));
        let own = examples(&help);
        assert!(!own.is_empty(), "{help}");
        found.extend(own);
    }
    for example in found {
        let training = example.starts_with("waycairn train ");
        let words: Vec<&str> = example.split(' ').collect();
        let of_study =
            ["plan", "run", "compare", "restore", "launch", "why", "verify", "history", "pin", "gc"]
                .contains(&words[1])
                || example.contains("--profile")
                || example.contains("--csv");
        let from = match () {
            () if of_study => &study,
            () if example.contains("--resume") => &started,
            () => &whole,
        };
        let copy = tempfile::tempdir().expect("a temporary folder");
        done(from.path(), &format!("cp -R . '{}'", copy.path().display()));
        // A long training is begun, and stops in good order.
        let limit =
            if training && !of_study && !example.contains("--max-time") { " --max-time 1s" } else { "" };
        let run = shell(copy.path(), &format!("{example}{limit}"));
        let well = run.status == Some(0) || (training && run.status == Some(4));
        assert!(well, "{example}\n{run}");
        // Such as that there is nothing to show.
        let noted = run.err.lines().find(|line| line.starts_with("note: "));
        assert!(noted.is_none() || training, "{example}\n{run}");
    }
}
