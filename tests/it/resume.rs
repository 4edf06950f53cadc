//! A run that is interrupted, by a signal or without warning, goes on and ends as if it never had been.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::Value;
use waycairn_store::ObjectReader;
use waycairn_tests::{Root, Run, text};

use crate::program;

const NAME: &str = "exact";

fn launch<'a>(file: &'a str, steps: &'a str) -> Vec<&'a str> {
    vec![
        "train",
        "--text",
        file,
        "--name",
        NAME,
        "--preset",
        "tiny",
        "--steps",
        steps,
        "--threads",
        "1",
        "--set",
        "model.dropout=0.2",
        "--set",
        "accumulate=2",
        "--set",
        "checkpoint_every=7",
        "--set",
        "data.order=shuffled",
    ]
}

/// seq -> the exact text of its training loss.
fn losses(root: &Root) -> BTreeMap<u64, String> {
    let rows = root.json(&["query", "has train/loss", "--keys", "train/loss,val/loss"]);
    rows.as_array()
        .expect("rows")
        .iter()
        .map(|row| {
            (row["seq"].as_u64().expect("a seq"), format!("{} {}", row["train/loss"], row["val/loss"]))
        })
        .collect()
}

/// Every tensor of the last checkpoint, weights and moments: name -> (dtype, shape, bytes).
fn tensors(root: &Root) -> BTreeMap<String, (String, Vec<usize>, Vec<u8>)> {
    let blob = PathBuf::from(root.json(&["show", NAME])["blob"].as_str().expect("a blob"));
    let mut all = BTreeMap::new();
    for file in ["model.safetensors", "optimizer.safetensors"] {
        let bytes = std::fs::read(blob.join("checkpoint").join(file)).expect("a checkpoint file");
        let parsed = safetensors::SafeTensors::deserialize(&bytes).expect("safetensors");
        for (name, view) in parsed.tensors() {
            let value = (format!("{:?}", view.dtype()), view.shape().to_vec(), view.data().to_vec());
            all.insert(format!("{file}/{name}"), value);
        }
    }
    all
}

/// The newest position of the run that has a complete checkpoint.
fn newest(root: &Root) -> Option<u64> {
    let reader = ObjectReader::open(&root.path()).expect("a reader");
    reader.runs().expect("the runs").first()?.checkpoints.last().copied()
}

#[test]
fn training_case_08_kill_nine_twenty_times_ends_like_an_undisturbed_run() {
    const LAUNCHES: u64 = 20;
    // Enough that twenty launches do not reach the end; see `LAUNCHES` and the pauses.
    let steps = "240";
    let words = |file| [&launch(file, steps)[..], &["--set", "model.width=32"]].concat();
    let whole = Root::new(program());
    let file = whole.file("input.txt", text(20_000));
    whole.json(&words(&file));

    let broken = Root::new(program());
    let mut state: u64 = 99;
    let (mut unfinished, mut resumed) = (0, 0);
    for round in 0..LAUNCHES {
        let before = newest(&broken);
        let mut command = broken.command(words(&file));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("a launch");
        // Most are killed a little after a checkpoint of their own; one of five wherever it stands then.
        let started = Instant::now();
        while round % 5 != 4 && newest(&broken) == before && child.try_wait().expect("a status").is_none() {
            assert!(started.elapsed().as_secs() < 60, "round {round} saves nothing");
            std::thread::sleep(Duration::from_millis(2));
        }
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_millis((state >> 40) % 16));
        unfinished += u64::from(child.try_wait().expect("a status").is_none());
        child.kill().expect("kill -9");
        let run = Run::from(child.wait_with_output().expect("wait"));
        resumed += u64::from(run.err.contains("going on after step"));
        // A reader finds the root whole after each of them.
        let run = broken.run(&["nodes", "--format", "json"]);
        assert_eq!(run.status, Some(0), "round {round}: {run}");
    }
    assert!(unfinished >= 15, "{unfinished} of {LAUNCHES} launches were killed on the way");
    assert!(resumed >= 10, "{resumed} of {LAUNCHES} launches went on from a checkpoint");
    let left = broken.json(&["nodes"]);
    assert_eq!(left[0]["finished"], false, "the last kill came on the way: {left}");
    let report = broken.json(&words(&file));
    assert_ne!(report["status"], "stopped");
    assert_eq!(losses(&broken), losses(&whole));
    assert_eq!(tensors(&broken), tensors(&whole));
    let runs = broken.json(&["nodes"]);
    assert_eq!(runs.as_array().map(Vec::len), Some(1), "one run, however often it was interrupted: {runs}");
}

#[cfg(unix)]
#[test]
fn a_signal_stops_in_good_order_and_the_same_command_goes_on() {
    for signal in ["INT", "TERM", "USR1"] {
        let root = Root::new(program());
        let file = root.file("input.txt", text(20_000));
        let words = launch(&file, "100000");
        let child =
            root.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a launch");
        let started = Instant::now();
        while root.json(&["nodes"]).as_array().is_none_or(Vec::is_empty) {
            assert!(started.elapsed().as_secs() < 60, "the launch records nothing");
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(Duration::from_millis(200));
        let kill = std::process::Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
        assert!(kill.expect("kill runs").success());
        let run = Run::from(child.wait_with_output().expect("wait"));
        assert_eq!(run.status, Some(4), "stopped in good order: {run}");
        assert!(
            run.out.contains("--resume") || run.err.contains("again") || run.out.contains("again"),
            "{run}"
        );
        let node = root.json(&["show", NAME]);
        assert_eq!(node["checkpoint"]["complete"], true, "it stopped at a checkpoint: {node}");
        let done = node["seq"].as_u64().expect("a seq") + 1;

        // The same command again goes on from there; a limit on time ends it once more.
        let mut again = words.clone();
        again.extend(["--max-time", "1s", "--format", "json"]);
        let run = root.run(&again);
        assert_eq!(run.status, Some(4), "{run}");
        let report = run.json();
        assert_eq!(report["status"], "stopped");
        assert!(report["resumed_from"].is_string(), "{report}");
        assert!(root.json(&["show", NAME])["seq"].as_u64().expect("a seq") + 1 > done, "{report}");
        assert_eq!(root.json(&["nodes"]).as_array().map(Vec::len), Some(1));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_in_the_first_moment_is_heard() {
    /// The bit of SIGINT among the signals that a process catches.
    const INTERRUPT: u64 = 1 << 1;
    let root = Root::new(program());
    let file = root.file("input.txt", text(20_000));
    let mut command = root.command(launch(&file, "100000"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a launch");
    let status = format!("/proc/{}/status", child.id());
    let started = Instant::now();
    let catches = || {
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        caught
            .and_then(|caught| u64::from_str_radix(caught.trim(), 16).ok())
            .is_some_and(|set| set & INTERRUPT != 0)
    };
    while !catches() {
        assert!(started.elapsed().as_secs() < 60, "no handler");
    }
    let kill = std::process::Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
    let run = Run::from(child.wait_with_output().expect("wait"));
    assert_eq!(run.status, Some(4), "{run}");
}

#[test]
fn a_finished_run_is_not_continued_but_branched() {
    let root = Root::new(program());
    let file = root.file("input.txt", text(20_000));
    root.json(&launch(&file, "14"));
    let refused = root.run(&["train", "--resume", NAME]);
    refused.fails_with(1, &["--branch", NAME]);
    let refused = root.run(&["train", "--resume", &format!("{NAME}:6")]);
    refused.fails_with(1, &["--branch", NAME]);
    let fresh: Value = {
        let mut words = launch(&file, "14");
        words.push("--fresh");
        root.json(&words)
    };
    assert_eq!(fresh["status"], "finished");
    assert_eq!(root.json(&["nodes"]).as_array().map(Vec::len), Some(2));
}
