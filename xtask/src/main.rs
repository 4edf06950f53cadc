//! Chores of the workspace. `cargo xtask ci` is every check that a change must pass; `.ci/run` calls it.

#![expect(clippy::print_stdout, reason = "a chore reports to the terminal")]

use std::{
    process::{Command, ExitCode},
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
    Check { name: "the main command's build", words: &["build", "--release", "--locked"], variables: &[] },
    Check { name: "tests", words: &["test", "--release", "--locked", "--workspace"], variables: &[] },
    Check {
        name: "crash tests",
        words: &[
            "test",
            "--release",
            "--locked",
            "--package",
            "waycairn-durable",
            "--package",
            "waycairn-cache",
            "--features",
            "waycairn-durable/fault,waycairn-cache/fault,waycairn-cache/check",
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
    }
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
