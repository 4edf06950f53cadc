//! Chores of the workspace. `cargo xtask ci` is every check that a change must pass; `.ci/run` calls it.

#![expect(clippy::print_stdout, reason = "a chore reports to the terminal")]

use std::{
    fs::OpenOptions,
    io::{BufWriter, Error, Result, Write as _},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Chores of the Waycairn workspace")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Runs every check: format, lints, build, unit, integration and doc tests, documentation.
    Ci,
    /// Writes a new sample of the format, `tests/golden/NAME`; build with `cargo build --release` before.
    Golden {
        /// The folder's name, as in `v2`.
        name: String,
    },
}

/// One check: what it is called, the words after `cargo`, and the variables it is given.
struct Check {
    name: &'static str,
    words: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
}

/// All of one profile, so that each dependency is built once and checked once.
const CHECKS: &[Check] = &[
    Check { name: "format", words: &["fmt", "--all", "--check"], variables: &[] },
    Check {
        name: "lints",
        words: &[
            "clippy",
            "--release",
            "--locked",
            "--workspace",
            "--all-targets",
            "--",
            "--deny",
            "warnings",
        ],
        variables: &[],
    },
    // Without the features of the tests, as a person builds it.
    Check { name: "the main command's check", words: &["check", "--release", "--locked"], variables: &[] },
    // With the fault points, so that the workspace is built once for all tests: without an environment variable a point
    // is a count.
    Check {
        name: "tests",
        words: &["test", "--release", "--locked", "--workspace", "--features", "waycairn-study/fault"],
        variables: &[],
    },
    // What reads sources has other features of a dependency that the heavy ones share: not of the whole workspace, or they
    // would be built once more.
    Check {
        name: "tests of declared sources",
        words: &[
            "test",
            "--release",
            "--locked",
            "--package",
            "waycairn-cache",
            "--package",
            "waycairn-gaussian",
            "--features",
            "waycairn-cache/check,waycairn-gaussian/check",
            "--lib",
            "--test",
            "sources",
        ],
        variables: &[],
    },
    Check {
        name: "documentation",
        words: &["doc", "--release", "--locked", "--workspace", "--no-deps"],
        variables: &[("RUSTDOCFLAGS", "--deny warnings")],
    },
];

fn main() -> ExitCode {
    match Arguments::parse().chore {
        Chore::Ci => ci(),
        Chore::Golden { name } => match golden(&name) {
            Ok(folder) => {
                println!("wrote `{}`; look through it, then add it and never change it", folder.display());
                ExitCode::SUCCESS
            }
            Err(error) => {
                println!("no sample was written: {error}");
                ExitCode::FAILURE
            }
        },
    }
}

/// Writes a sample by the commands in `tests/golden/commands`, with answers to the `questions` beside them.
fn golden(name: &str) -> Result<PathBuf> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden");
    let target = samples.join(name);
    // Somewhere neutral, since settings hold the absolute path of the text. Neither folder may be there.
    let work = std::env::temp_dir().join("waycairn-golden");
    std::fs::create_dir(&work)?;
    std::fs::create_dir(&target)?;
    std::fs::copy(samples.join("text.txt"), work.join("text.txt"))?;
    let built = std::env::current_exe()?;
    let plugin = format!("{}waycairn_summary{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let plugin = built.with_file_name(plugin).display().to_string();
    // Recorded as it is called: without the folder of this machine.
    let path = built.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
    let program = |words: &str| {
        let words = words.split_whitespace().map(|word| if word == "summary.so" { &plugin } else { word });
        let mut command = Command::new("waycairn");
        command.args(words).args(["--root", "root"]).current_dir(&work).env("PATH", &path);
        command
    };
    let run = |command: &mut Command| match command.status()? {
        status if status.success() || status.code() == Some(4) => Ok(()),
        status => Err(Error::other(format!("{command:?} ended with {status}"))),
    };
    for words in std::fs::read_to_string(samples.join("commands"))?.lines() {
        run(&mut program(words))?;
    }
    record_much(program("record"))?;
    run(&mut program("rm gone --yes"))?;
    kill_a_recorder(program("record"))?;
    for line in std::fs::read_to_string(samples.join("questions"))?.lines() {
        let (answer, words) = line.split_once(' ').unwrap_or((line, ""));
        let answer =
            OpenOptions::new().write(true).create_new(true).open(target.join(format!("{answer}.json")))?;
        run(program(words).args(["--format", "json"]).stdout(answer))?;
    }
    // Nothing refers to locks, nor to what a compaction keeps for a while. What a killed writer left is a part of the sample.
    std::fs::remove_dir_all(work.join("root/locks"))?;
    for entry in std::fs::read_dir(work.join("root/objects/values"))? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        if name.starts_with(b".") && !name.starts_with(b".journal-") {
            std::fs::remove_file(entry.path())?;
        }
    }
    run(Command::new("cp").arg("-R").arg(work.join("root")).arg(&target))?;
    std::fs::remove_dir_all(&work)?;
    Ok(target)
}

/// Has a program record a run of more than one row group, of which the last alone has some key, and a second run beside it
/// that is there to be removed: what is left says in its footer where the key is, and what it is left of.
fn record_much(mut record: Command) -> Result<()> {
    let mut child = record.stdin(Stdio::piped()).spawn()?;
    let mut lines = BufWriter::new(child.stdin.take().ok_or_else(|| Error::other("no way to the recorder"))?);
    for seq in 0..66_000 {
        let rare = if seq == 65_900 { r#","rare":1"# } else { "" };
        writeln!(lines, r#"{{"name":"long","nonce":"94ac","seq":{seq},"fields":{{"x":{seq}{rare}}}}}"#)?;
    }
    writeln!(lines, r#"{{"name":"gone","nonce":"94ad","seq":0,"fields":{{"x":1}}}}"#)?;
    drop(lines);
    match child.wait()? {
        status if status.success() => Ok(()),
        status => Err(Error::other(format!("the recorder ended with {status}"))),
    }
}

/// Has a program record, and kills it when its records are in the journal, in two frames, and in no part.
fn kill_a_recorder(mut record: Command) -> Result<()> {
    let mut child = record.stdin(Stdio::piped()).spawn()?;
    let mut lines = child.stdin.take().ok_or_else(|| Error::other("no way to the recorder"))?;
    let run = r#""name":"sim","nonce":"94ab""#;
    for fields in [
        r#"{"energy":-1.5,"note":"caf\u00e9","count":3,"done":false}"#,
        r#"{"energy":{"$float":"NaN"},"note":null}"#,
        r#"{"energy":{"$float":"-Infinity"},"count":9007199254740993,"done":true}"#,
    ]
    .iter()
    .enumerate()
    .map(|(seq, fields)| format!(r#"{{{run},"seq":{seq},"fields":{fields}}}"#))
    {
        writeln!(lines, "{fields}")?;
        // Ten times the interval of the journal.
        std::thread::sleep(Duration::from_secs(1));
    }
    child.kill()?;
    child.wait().map(drop)
}

/// Runs the checks in order and stops at the first that fails; prints what each took.
fn ci() -> ExitCode {
    let mut taken: Vec<(&str, Duration)> = Vec::new();
    for check in CHECKS {
        println!("== {}: cargo {}", check.name, check.words.join(" "));
        let started = Instant::now();
        // Cargo names itself to the programs that it runs; the fallback serves a direct start.
        let cargo = option_env!("CARGO").unwrap_or("cargo");
        let status = Command::new(cargo).args(check.words).envs(check.variables.iter().copied()).status();
        taken.push((check.name, started.elapsed()));
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => {
                println!("== {} failed: {status}", check.name);
                return ExitCode::FAILURE;
            }
            Err(error) => {
                println!("== {} did not start: {error}", check.name);
                return ExitCode::FAILURE;
            }
        }
    }
    for (name, time) in taken {
        println!("{:>7.1} s  {name}", time.as_secs_f64());
    }
    ExitCode::SUCCESS
}
