//! `waycairn launch`: several workers of one study on this machine.

use std::io::{BufRead, BufReader, Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use clap::Args;
use signal_hook::consts::{SIGTERM, SIGUSR2};
use signal_hook::iterator::Signals;
use waycairn_train::Stop;

use crate::context::Context;
use crate::count;
use crate::environment::LAUNCHED;
use crate::error::{CliError, Exit};
use crate::output::Destination;
use crate::progress::LogWriter;

/// Start several workers of one study on this machine, and wait for all of them
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn launch -n 2 -- run
  waycairn launch -n 2 -- train --profile small --keep-going

Each worker is the command behind the two hyphens, with RANK and WORLD_SIZE set. They share the runs of the study: each run
is done by one of them, and the last one to end cleans up. Give each its share of the cores with `runtime.cpu_threads`.
What a worker says begins with its number, as in `worker 0: `; its answer comes when all have ended, and with a --format of
its own it has no number before it. A first signal, Ctrl-C or one to the launcher alone, stops all of them in good order,
and a second one ends them. The exit status is 0 where the study is whole, whatever became of a single worker; else 1 if
one has failed or was killed, 2 if all refuse the command, 4 if they were stopped, 130 if they were ended.")]
pub(crate) struct LaunchArgs {
    /// How many, up to 1024
    #[arg(short = 'n', long, value_name = "N", value_parser = count::positive::<u32>, allow_negative_numbers = true)]
    pub(super) workers: u32,
    /// What each of them does
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(super) words: Vec<String>,
}

/// The line by which a worker tells its launcher that it has ended the study: every run of it is there, and what was in
/// the way is removed. Nobody else sees it.
const WHOLE: &str = "\u{1e}whole";

/// More than any machine has cores for; each is a process.
const MOST_WORKERS: u32 = 1024;

/// Between two looks at the workers and at what was signalled.
const PAUSE: Duration = Duration::from_millis(20);

/// Says to the launcher that the study is whole.
pub(super) fn tell_whole() {
    drop(LogWriter.write_all(format!("{WHOLE}\n").as_bytes()));
}

pub(crate) fn run(args: &LaunchArgs, context: &Context) -> Result<Exit, CliError> {
    if args.workers > MOST_WORKERS {
        return Err(CliError::usage(format!("`-n` takes 1 to {MOST_WORKERS} workers, and {} were asked for", args.workers))
            .why("each worker is a process of its own on this machine")
            .next("start about as many as there are cores, and the same command on other machines that share the folder"));
    }
    // From here on a signal does not end this process before its workers.
    let mut signals = Signals::new(Stop::signals()).map_err(CliError::system)?;
    let program = std::env::current_exe().map_err(CliError::system)?;
    let whole = Arc::new(AtomicBool::new(false));
    let mut workers = Vec::new();
    for rank in 0..args.workers {
        let mut command = Command::new(&program);
        if let Some(root) = &context.global.root {
            command.arg("--root").arg(root);
        }
        command.args(&args.words).env("RANK", rank.to_string()).env("WORLD_SIZE", args.workers.to_string());
        match Worker::start(rank, command, &whole) {
            Ok(worker) => workers.push(worker),
            Err(error) => {
                // Those that run already are not left to nobody.
                workers.iter().for_each(|worker| worker.signal(SIGTERM));
                drop(wait(&mut workers, &mut signals));
                return Err(CliError::system(error));
            }
        }
    }
    let signalled = wait(&mut workers, &mut signals)?;
    let plain = !has_format(&args.words);
    let mut out = Destination::standard_output();
    let mut ends = Vec::new();
    for worker in workers {
        let (rank, ended, answer) = worker.answer();
        for line in String::from_utf8_lossy(&answer).lines() {
            out.text(&if plain { format!("worker {rank}: {line}\n") } else { format!("{line}\n") })?;
        }
        ends.push((rank, ended));
    }
    out.finish()?;
    judge(&ends, whole.load(Ordering::SeqCst), signalled, context)
}

/// Waits for all workers, and passes on what is signalled meanwhile; says how often something was.
fn wait(workers: &mut [Worker], signals: &mut Signals) -> Result<u32, CliError> {
    let mut signalled = 0_u32;
    loop {
        let mut running = false;
        for worker in workers.iter_mut().filter(|worker| worker.ended.is_none()) {
            worker.ended = worker.child.try_wait().map_err(CliError::system)?;
            running |= worker.ended.is_none();
        }
        if !running {
            return Ok(signalled);
        }
        for _ in signals.pending() {
            signalled += 1;
            let (signal, said) = match signalled {
                1 => (Some(SIGTERM), "stopping the workers; a second signal ends them at once"),
                2 => (Some(SIGUSR2), "ending the workers; a third signal kills them"),
                _ => (None, "killing the workers"),
            };
            drop(LogWriter.write_all(format!("{said}\n").as_bytes()));
            for worker in workers.iter_mut().filter(|worker| worker.ended.is_none()) {
                match signal {
                    // A worker that the terminal has told already takes these for the same stop.
                    Some(signal) => worker.signal(signal),
                    // One that has ended meanwhile is none to kill.
                    None => drop(worker.child.kill()),
                }
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// The exit status that follows from how the workers ended and whether the study is whole.
fn judge(
    ends: &[(u32, Option<ExitStatus>)],
    whole: bool,
    signalled: u32,
    context: &Context,
) -> Result<Exit, CliError> {
    let again = context.again();
    let code = |end: &(u32, Option<ExitStatus>)| end.1.and_then(|ended| ended.code());
    let fates: Vec<String> = ends
        .iter()
        .filter(|end| !matches!(code(end), Some(0 | 4)))
        .map(|(rank, ended)| {
            match (ended.and_then(|ended| ended.signal()), ended.and_then(|ended| ended.code())) {
                (Some(signal), _) => format!("worker {rank} was ended by signal {signal}"),
                (None, Some(code)) => format!("worker {rank} ended with {code}"),
                (None, None) => format!("worker {rank} ended"),
            }
        })
        .collect();
    if ends.iter().all(|end| code(end) == Some(0)) {
        return Ok(Exit::Done);
    }
    if whole {
        for fate in &fates {
            context.note(&format!("{fate}; the others have completed the study"));
        }
        return Ok(Exit::Done);
    }
    if ends.iter().all(|end| code(end) == Some(2)) {
        return Ok(Exit::Usage);
    }
    if signalled > 1 {
        context.note(&format!("ended at once; to go on, run again: {again}"));
        return Ok(Exit::Interrupted);
    }
    if fates.is_empty() {
        context.note(&format!("stopped; to go on, run again: {again}"));
        return Ok(Exit::Stopped);
    }
    Err(CliError::new("workers", format!("{} of {} workers failed", fates.len(), ends.len()))
        .why(fates.join(", "))
        .next(format!("what they said stands above; to go on, run again: {again}")))
}

/// Whether the answer of a command has a form that a number before each line would break.
fn has_format(words: &[String]) -> bool {
    let other = |format: &str| format != "table";
    let joined = words.iter().any(|word| word.strip_prefix("--format=").is_some_and(other));
    joined || words.windows(2).any(|pair| pair[0] == "--format" && other(&pair[1]))
}

/// A worker that was started.
struct Worker {
    rank: u32,
    child: Child,
    /// How it ended, once it has.
    ended: Option<ExitStatus>,
    answer: JoinHandle<Vec<u8>>,
    said: JoinHandle<()>,
}

impl Worker {
    fn start(rank: u32, mut command: Command, whole: &Arc<AtomicBool>) -> std::io::Result<Self> {
        command.env(LAUNCHED, "1").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let answer = std::thread::spawn(move || {
            let mut answer = Vec::new();
            // What was read before a pipe breaks is its answer.
            drop(out.map(|mut out| out.read_to_end(&mut answer)));
            answer
        });
        let whole = Arc::clone(whole);
        let said = std::thread::spawn(move || {
            if let Some(err) = err {
                pass_on(rank, err, &whole);
            }
        });
        Ok(Self { rank, child, ended: None, answer, said })
    }

    /// Signals it. Only a worker that has not been waited for is, so its number is nobody else's.
    fn signal(&self, signal: i32) {
        let mut kill = Command::new("/bin/sh");
        kill.args(["-c", "kill -s \"$0\" \"$1\" 2> /dev/null"]);
        let name = if signal == SIGTERM { "TERM" } else { "USR2" };
        let killed = kill.arg(name).arg(self.child.id().to_string()).stdin(Stdio::null()).status();
        if let Err(error) = killed {
            tracing::warn!(%error, "worker {} cannot be signalled", self.rank);
        }
    }

    /// Its number, how it ended, and its answer.
    fn answer(self) -> (u32, Option<ExitStatus>, Vec<u8>) {
        drop(self.said.join());
        (self.rank, self.ended, self.answer.join().unwrap_or_default())
    }
}

/// Passes on what a worker says, line by line, each with its number.
fn pass_on(rank: u32, err: impl Read, whole: &AtomicBool) {
    let mut err = BufReader::new(err);
    let mut line = Vec::new();
    while err.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        if text == WHOLE {
            whole.store(true, Ordering::SeqCst);
        } else {
            // In one piece, so that the lines of two workers stay apart.
            drop(LogWriter.write_all(format!("worker {rank}: {text}\n").as_bytes()));
        }
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_in_a_format_has_no_number_before_it() {
        let has = |line: &str| has_format(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(has("run --format json") && has("run --format=json") && has("nodes --format csv"));
        assert!(!has("run") && !has("run --format table") && !has("run --format=table"));
    }
}
