//! Several workers of one launcher: what they say, how they are stopped, and what becomes of the study.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A study of two runs of so many steps.
fn study(steps: u32) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "[base]\nsteps = {steps}\nbatch_size = 2\nwarmup = 1\neval_every = 'off'\ncheckpoint_every = 'off'\noutput = 'out'\n\
         data = {{ context = 8 }}\nmodel = {{ layers = 1, heads = 1, width = 8 }}\nlearning_rate = {{ choice = [0.01, 0.002] }}\n"
    );
    fs::write(folder.path().join("settings_training.toml"), text).unwrap();
    folder
}

/// A command in a process group of its own; what it says goes to the file `said`.
fn start(folder: &Path, words: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_waycairn"));
    for name in ["WAYCAIRN_ROOT", "WAYCAIRN_LOG", "RANK", "WORLD_SIZE"] {
        command.env_remove(name);
    }
    let file = |name: &str| fs::File::options().create(true).append(true).open(folder.join(name)).unwrap();
    command.args(words.split(' ')).current_dir(folder).stdin(Stdio::null()).process_group(0);
    command.stdout(file("answer")).stderr(file("said")).spawn().unwrap()
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap()
}

/// Waits for something that a command comes to say.
#[track_caller]
fn says(folder: &Path, texts: &[&str]) {
    let started = Instant::now();
    while !texts.iter().all(|text| read(folder, "said").contains(text)) {
        assert!(started.elapsed().as_secs() < 120, "{texts:?} is not said:\n{}", read(folder, "said"));
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Signals a process, or a group by its negative number.
fn signal(name: &str, process: i64) {
    let done = Command::new("kill").args(["-s", name, "--", &process.to_string()]).status();
    assert!(done.unwrap().success());
}

/// The process of a worker.
fn worker(launcher: &Child, rank: u32) -> i64 {
    let of = |process: i64| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let parent: u32 = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
        let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
        let wanted = format!("RANK={rank}");
        let has = environment.split(|byte| *byte == 0).any(|word| word == wanted.as_bytes());
        (parent == launcher.id() && has).then_some(process)
    };
    let names =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).find_map(of).unwrap()
}

const BOTH: [&str; 2] = ["worker 0: training ", "worker 1: training "];

#[test]
fn a_signal_to_the_launcher_or_to_all_stops_every_worker_in_good_order() {
    for (name, group) in [("INT", false), ("TERM", false), ("INT", true)] {
        let folder = study(10_000_000);
        let mut launcher = start(folder.path(), "launch -n 2 -- train");
        says(folder.path(), &BOTH);
        let process = i64::from(launcher.id());
        signal(name, if group { -process } else { process });
        assert_eq!(
            launcher.wait().unwrap().code(),
            Some(4),
            "{name} {group}\n{}",
            read(folder.path(), "said")
        );
        let said = read(folder.path(), "said");
        assert!(said.ends_with("waycairn launch -n 2 -- train\n"), "{said}");
        assert_eq!(said.matches("run again").count(), 1, "the workers say nothing of it\n{said}");
        let known =
            ["worker 0: ", "worker 1: ", "stopping the workers", "note: stopped; to go on, run again: "];
        for line in said.lines() {
            assert!(known.iter().any(|known| line.starts_with(known)), "whose line is `{line}`?");
        }
    }
}

#[test]
fn a_second_signal_ends_the_workers_and_a_third_one_kills_what_does_not_listen() {
    let folder = study(10_000_000);
    let mut alone = start(folder.path(), "train --worker 0/2");
    says(folder.path(), &["training "]);
    signal("USR2", i64::from(alone.id()));
    assert_eq!(alone.wait().unwrap().code(), Some(130), "it does not wait for a step");

    let folder = study(10_000_000);
    let mut launcher = start(folder.path(), "launch -n 2 -- train");
    says(folder.path(), &BOTH);
    let deaf = worker(&launcher, 1);
    signal("STOP", deaf);
    for says_so in ["stopping the workers", "ending the workers", "killing the workers"] {
        signal("TERM", i64::from(launcher.id()));
        says(folder.path(), &[says_so]);
    }
    assert_eq!(launcher.wait().unwrap().code(), Some(130));
    assert!(!Path::new(&format!("/proc/{deaf}")).exists(), "nothing of it is left");
}

#[test]
fn a_worker_that_was_killed_is_told_and_the_study_decides_the_status() {
    let folder = study(10_000_000);
    let mut launcher = start(folder.path(), "launch -n 2 -- train");
    says(folder.path(), &BOTH);
    signal("KILL", worker(&launcher, 1));
    std::thread::sleep(Duration::from_millis(50));
    signal("TERM", i64::from(launcher.id()));
    assert_eq!(launcher.wait().unwrap().code(), Some(1));
    let said = read(folder.path(), "said");
    assert!(said.contains("1 of 2 workers failed\n  why: worker 1 was ended by signal 9\n"), "{said}");
    assert!(said.ends_with("waycairn launch -n 2 -- train\n"), "{said}");

    let folder = study(5_000);
    let mut launcher = start(folder.path(), "launch -n 2 -- train");
    says(folder.path(), &BOTH);
    signal("KILL", worker(&launcher, 1));
    let status = launcher.wait().unwrap().code();
    let said = read(folder.path(), "said");
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("worker 1 was ended by signal 9; the others have completed the study\n"), "{said}");
    assert!(!said.contains('\u{1e}'), "what workers tell the launcher is not for people");
    let answer = read(folder.path(), "answer");
    assert!(answer.lines().all(|line| line.starts_with("worker 0: ")), "{answer}");
    assert!(answer.contains("worker 0: 2 runs in `out`\n"), "{answer}");
}

#[test]
fn more_workers_than_a_machine_can_have_are_refused_before_one_is_started() {
    let folder = study(1);
    let status = start(folder.path(), "launch -n 1000000 -- train").wait().unwrap().code();
    let said = read(folder.path(), "said");
    assert!(status == Some(2) && said.contains("`-n` takes 1 to 1024 workers"), "{said}");
    assert!(!folder.path().join("out").exists(), "nothing was started");
}
