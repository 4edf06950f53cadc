//! `waycairn launch`: several workers of one study on this machine.

use std::process::{Command, Stdio};

use clap::Args;

use crate::context::Context;
use crate::count;
use crate::error::{CliError, Exit};

/// Start several workers of one study on this machine, and wait for all of them
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn launch -n 2 -- run
  waycairn launch -n 2 -- train --profile small --keep-going

Each worker is the command behind the two hyphens, with RANK and WORLD_SIZE set. They share the runs of the study: each run
is done by one of them, and the last one to end cleans up. Give each its share of the cores with `runtime.cpu_threads`. Ctrl-C
reaches all of them. The exit status is that of the workers where they agree, else 1 if one has failed, else 4.")]
pub(crate) struct LaunchArgs {
    /// How many
    #[arg(short = 'n', long, value_name = "N", value_parser = count::positive::<u32>, allow_negative_numbers = true)]
    pub(super) workers: u32,
    /// What each of them does
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(super) words: Vec<String>,
}

pub(crate) fn run(args: &LaunchArgs, context: &Context) -> Result<Exit, CliError> {
    let program = std::env::current_exe().map_err(CliError::system)?;
    // From here on a first signal is noted and not obeyed: the workers have it too, and end in good order.
    context.listen()?.begin();
    let mut workers = Vec::new();
    for rank in 0..args.workers {
        let mut command = Command::new(&program);
        if let Some(root) = &context.global.root {
            command.arg("--root").arg(root);
        }
        command.args(&args.words).stdin(Stdio::null());
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", args.workers.to_string());
        workers.push(command.spawn().map_err(CliError::system)?);
    }
    let mut ended = Vec::new();
    for worker in &mut workers {
        ended.push(worker.wait().map_err(CliError::system)?.code());
    }
    let all = |code: i32| ended.iter().all(|ended| *ended == Some(code));
    let failed = ended.iter().filter(|code| !matches!(code, Some(0 | 4))).count();
    if all(0) {
        Ok(Exit::Done)
    } else if all(2) {
        Ok(Exit::Usage)
    } else if failed == 0 {
        Ok(Exit::Stopped)
    } else {
        Err(CliError::new("workers", format!("{failed} of {} workers failed", args.workers))
            .next("their errors stand above; the same command goes on"))
    }
}
