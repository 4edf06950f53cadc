//! What scripts rely on, seen from outside: the exit status of each way to end, and shapes that only whole answers
//! have.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "a test file needs no durability")]

use std::path::Path;
use std::process::{Command, Output};

/// Settings of a model that trains in no time.
const SMALL: [&str; 10] = [
    "--set",
    "model.layers=1",
    "--set",
    "model.width=8",
    "--set",
    "data.context=8",
    "--set",
    "batch_size=1",
    "--steps",
    "3",
];

fn waycairn(folder: &Path, words: &[&str]) -> Output {
    command(folder, words).output().unwrap()
}

fn command(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_waycairn"));
    for name in ["WAYCAIRN_ROOT", "WAYCAIRN_PLUGIN_PATH", "WAYCAIRN_LOG"] {
        command.env_remove(name);
    }
    command.args(words).current_dir(folder);
    command
}

/// Asserts how each command ends, and that an error says so in the form that was asked for.
#[track_caller]
fn ends(folder: &Path, status: i32, lines: &[&[&str]]) {
    for words in lines {
        let output = waycairn(folder, words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{words:?}\n{said}");
        let failed = said.lines().any(|line| line.starts_with("error: "));
        assert_eq!(failed, status == 1 || status == 2, "{words:?}\n{said}");
    }
}

fn train<'a>(more: &[&'a str]) -> Vec<&'a str> {
    ["train"].iter().chain(&SMALL).chain(more).copied().collect()
}

#[test]
fn cli_4_what_is_done_ends_with_0() {
    let folder = tempfile::tempdir().unwrap();
    let run = train(&[]);
    // The same again is skipped, which is done too; so is an answer that is empty.
    ends(folder.path(), 0, &[&run, &run, &[], &["--help"], &["--version"], &["show", "tiny"]]);
    ends(folder.path(), 0, &[&["query", "seq > 99"], &["plugins"], &["completions", "bash"]]);
    ends(folder.path(), 0, &[&["train", "--show-settings"], &["nodes", "--root", "nowhere"]]);
    // Where no root is named, there may be none to look after.
    let empty = tempfile::tempdir().unwrap();
    for folder in [&folder, &empty] {
        ends(folder.path(), 0, &[&["recover"], &["compact"], &["fsck"]]);
    }
}

#[test]
fn cli_4_what_depends_on_root_file_or_machine_ends_with_1() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "no root").unwrap();
    ends(
        folder.path(),
        1,
        &[
            &["show", "nobody"],
            &["train", "--text", "absent.txt"],
            &["train", "--settings", "absent.toml"],
            &["train", "--branch", "nobody:3", "--name", "new"],
            &["train", "--root", "file"],
            &["train", "--device", "cuda"],
            &["nodes", "--root", "file"],
            &["nodes", "-o", "absent/file"],
            &["plugins", "--plugin-dir", "absent"],
            &["plugins", "--plugin-dir", "file"],
            &["analyze", "--at", "nobody", "--plugin", "absent.so"],
            &["sql", "SELECT nothing FROM nodes"],
            &["recover", "--root", "nowhere"],
            &["compact", "--root", "nowhere"],
            &["fsck", "--root", "nowhere"],
            &["fsck", "--repair", "0123", "--root", "nowhere"],
        ],
    );
}

#[test]
fn cli_4_what_can_be_meant_nowhere_ends_with_2() {
    let folder = tempfile::tempdir().unwrap();
    ends(
        folder.path(),
        2,
        &[
            &["fly"],
            &["nodes", "--formt", "json"],
            &["show"],
            &["train", "--set", "learning_rte=1"],
            &["train", "--set", "learning_rate=fast"],
            &["train", "--preset", "huge"],
            &["train", "--device", "x"],
            &["train", "--name", ""],
            &["train", "--tag", ""],
            &["train", "--tag", "two\nlines"],
            &["train", "--max-time", "soon"],
            &["query", "val/loss <"],
            &["query", "--sort", "seq:up"],
            &["train", "--skip-damaged"],
        ],
    );
    assert!(!folder.path().join("outputs").exists(), "what is refused for its words makes nothing");
}

#[test]
fn cli_4_what_stopped_in_good_order_ends_with_4_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    ends(folder.path(), 4, &[&train(&["--max-time", "0"]), &train(&["--max-time", "0", "--format", "json"])]);
    ends(folder.path(), 0, &[&train(&[])]);
}

#[cfg(unix)]
#[test]
fn cli_4_a_signal_before_training_ends_with_4_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for (signal, held_open) in [("TERM", false), ("INT", false), ("INT", true)] {
        // An open waits for a writer; a read waits for what one writes.
        let writer = held_open.then(|| std::fs::File::options().read(true).write(true).open(&fifo).unwrap());
        let child = command(folder.path(), &train(&["--settings", "fifo"]))
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(500));
        let kill = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        let begin = std::time::Instant::now();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{signal} {held_open}: {said}");
        assert!(said.contains("stopped before anything was trained"), "{said}");
        assert!(begin.elapsed().as_secs() < 30, "{signal} {held_open}");
        drop(writer);
    }
    assert!(!folder.path().join("outputs").exists());
    let fed =
        "mkfifo fed; (sleep 1; printf 'steps = 2\\n' > fed) & exec \"$0\" train --preset tiny --settings fed";
    let fed = Command::new("sh")
        .args(["-c", fed, env!("CARGO_BIN_EXE_waycairn")])
        .current_dir(folder.path())
        .env_remove("WAYCAIRN_ROOT")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&fed.stdout);
    assert!(fed.status.success() && said.contains("after 2 steps"), "{said}");
}

#[cfg(unix)]
#[test]
fn cli_4_a_second_interrupt_ends_at_once_with_130() {
    let folder = tempfile::tempdir().unwrap();
    // A first request waits for the end of a micro-batch; this one is longer than the pause between the two.
    let words = ["train", "--preset", "nanogpt-cpu", "--set", "batch_size=256", "--threads", "1"];
    let child = command(folder.path(), &words)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let locks = folder.path().join("outputs/default/locks");
    let begin = std::time::Instant::now();
    while std::fs::read_dir(&locks).map_or(0, Iterator::count) == 0 {
        assert!(begin.elapsed().as_secs() < 60, "it never began");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    for _ in 0..2 {
        let interrupt = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status();
        assert!(interrupt.unwrap().success());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(output.stdout.is_empty() && !said.contains("error: "), "{said}");
    let told = "stopping after this micro-batch; a second Ctrl-C stops at once, without a checkpoint\n";
    assert_eq!(said.matches(told).count(), 1, "{said}");
    let help = waycairn(folder.path(), &["--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("130 stopped at once by a second Ctrl-C"), "{help}");
}

#[test]
fn cli_1_a_statement_answers_with_its_own_columns() {
    let folder = tempfile::tempdir().unwrap();
    ends(folder.path(), 0, &[&train(&[])]);
    let statement = "SELECT max(seq) AS last, count(*) AS n, 'x' AS t FROM nodes";
    let output = waycairn(folder.path(), &["sql", statement, "--format", "json"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "[\n{\"last\":2,\"n\":3,\"t\":\"x\"}\n]\n");
}

#[test]
fn cli_1_an_error_is_the_last_line_of_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let output = waycairn(folder.path(), &["query", "val/loss <", "--format", "json"]);
    // Notes may stand before it.
    let said = String::from_utf8(output.stderr).unwrap();
    let said: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    let error = said["error"].as_object().unwrap();
    let mut keys: Vec<_> = error.keys().collect();
    keys.sort();
    assert_eq!(keys, ["code", "next", "what", "why"]);
    assert_eq!(error["code"], "usage");
    assert!(output.stdout.is_empty());
}
