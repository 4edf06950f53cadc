//! Studies on a disk that is full or cannot be written, under a clock that jumps, and copied while they are written.

#![cfg(target_os = "linux")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    thread,
    time::Duration,
};

use serde_json::Value;
use waycairn_tests::{Run, clean};

use crate::study::{Study, TRAINING, files, json};

/// What a root has come to: the results and references of its runs, its entries with their bytes, its archives and its
/// settings; not when, and by whom.
fn essence(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut essence = BTreeMap::new();
    for (path, (bytes, _)) in files(root) {
        let path = path.strip_prefix(root).expect("a path below the root").to_owned();
        let text = path.display().to_string();
        let hidden = text.starts_with('.') || text.contains("/.");
        let record = ["run.json", "status.json", "analysis.json", "artifact.json"];
        let dated = record.iter().any(|name| text.ends_with(&format!("/{name}")));
        let whole = ["runs/", "cache/", "source/", "settings_"].iter().any(|from| text.starts_with(from));
        if whole && !hidden {
            essence.insert(path, if dated { Vec::new() } else { bytes });
        }
    }
    essence
}

/// The paths at which two roots differ.
fn differences(one: &Path, two: &Path) -> Vec<PathBuf> {
    let (one, two) = (essence(one), essence(two));
    let paths: BTreeSet<&PathBuf> = one.keys().chain(two.keys()).collect();
    paths.into_iter().filter(|path| one.get(*path) != two.get(*path)).cloned().collect()
}

/// The root of a study that nothing disturbs.
fn undisturbed() -> PathBuf {
    static UNDISTURBED: OnceLock<Study> = OnceLock::new();
    let undisturbed = UNDISTURBED.get_or_init(|| {
        let study = Study::new();
        study.launch("waycairn run");
        study
    });
    undisturbed.out()
}

/// Gives a root the archives that it will need: they are much larger than all else of a small study, and would be what
/// has no room, always.
fn with_archives(root: &Path) {
    let sources = root.join("source");
    fs::create_dir_all(&sources).expect("a folder");
    copy(&undisturbed().join("source"), &sources);
}

/// Asserts that a root is whole, and what an undisturbed study comes to.
fn completed(study: &Study, root: &str, at: &str) {
    let differences = differences(&study.folder.path().join(root), &undisturbed());
    assert!(differences.is_empty(), "{at}: {differences:?}");
    let verified = study.run(&format!("waycairn verify --root {root}"));
    assert_eq!(verified.status, Some(0), "{at}\n{verified}");
    let again = study.launch(&format!("waycairn run --root {root}"));
    assert_eq!(Study::count(&again, "model"), (0, 2), "{at}");
    assert_eq!(Study::count(&again, "position_losses"), (0, 2), "{at}");
}

/// Runs a script where `mount` has been done, for it alone; `None` where this machine lets nobody mount.
fn mounted(study: &Study, mount: &str, script: &str) -> Option<Run> {
    study.write("mounted.sh", &format!("{mount} || exit 99\n{script}\n"));
    let run = study.run("unshare --user --map-root-user --mount sh mounted.sh");
    let refused = run.status == Some(99) || run.err.contains("unshare");
    if refused {
        eprintln!("SKIPPED: nothing can be mounted here\n{run}");
    }
    (!refused).then_some(run)
}

/// An error has its three parts, and no panic.
fn told(run: &Run, fragments: &[&str]) {
    run.fails_with(1, &["error: ", "why: ", "next: "]);
    run.fails_with(1, fragments);
}

#[test]
fn a_root_on_a_read_only_disk_is_read_and_refuses_every_launch() {
    let study = Study::new();
    study.launch("waycairn run");
    let before = files(study.folder.path());
    let mount = "mount --bind out out && mount -o remount,ro,bind out";
    let readers = [
        "plan",
        "plan --format json",
        "why model",
        "why position_losses",
        "compare",
        "verify",
        "restore gpt.baseline.r0",
        "history",
        "gc --dry-run",
        "nodes --root out",
        "show gpt.baseline.r0 --root out",
        "query 'has loss_by_position/mean' --root out",
    ];
    for reader in readers {
        let Some(run) = mounted(&study, mount, &format!("waycairn {reader}")) else { return };
        assert_eq!(run.status, Some(0), "{reader}\n{run}");
        assert!(
            !run.out.is_empty() && !run.err.lines().any(|line| line.starts_with("error")),
            "{reader}\n{run}"
        );
    }
    // What was trained already is no other: a launch works in the root, or says that it cannot.
    for writer in ["run", "train", "analyze", "gc", "pin gpt.baseline.r0", "verify --quarantine"] {
        let Some(run) = mounted(&study, mount, &format!("waycairn {writer}")) else { return };
        if writer == "verify --quarantine" {
            assert_eq!(run.status, Some(0), "nothing is set aside\n{run}");
        } else {
            told(&run, &["read-only"]);
        }
    }
    study.write("settings_training.toml", &TRAINING.replace("0.002", "0.003"));
    let run = mounted(&study, mount, "waycairn run").expect("it could be mounted before");
    told(&run, &["read-only"]);
    study.write("settings_training.toml", TRAINING);
    let mut after = files(study.folder.path());
    let changed = ["mounted.sh", "settings_training.toml"].map(|name| study.folder.path().join(name));
    after.retain(|path, _| !changed.contains(path));
    let before: BTreeMap<_, _> = before.into_iter().filter(|(path, _)| !changed.contains(path)).collect();
    assert_eq!(after, before, "nothing is left");
}

#[test]
fn a_study_whose_root_cannot_be_made_is_refused() {
    let study = Study::new();
    for command in ["run", "train", "analyze"] {
        // The kernel's own folders are nobody's to write in, whoever runs this.
        let run = study.run(&format!("waycairn {command} --root /sys/kernel/waycairn"));
        told(&run, &["/sys/kernel/waycairn"]);
    }
    study.write("file", "something of the user's");
    let run = study.run("waycairn run --root file");
    run.fails_with(1, &["error: `file` is not a folder", "next: choose another root"]);
    assert_eq!(
        fs::read_to_string(study.folder.path().join("file")).expect("a file"),
        "something of the user's"
    );
}

#[test]
fn a_launch_whose_files_may_not_grow_says_so_and_the_next_one_completes() {
    let study = Study::new();
    let archive = study.run("ulimit -f 1; exec waycairn run");
    told(&archive, &["out/source/", "file too large", "ulimit -f"]);
    with_archives(&study.out());
    let mut failed = BTreeSet::new();
    // In blocks of 512 bytes, and each launch goes on from the one before.
    for blocks in [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64, 128, 512] {
        let run = study.run(&format!("ulimit -f {blocks}; exec waycairn run"));
        if run.status == Some(0) {
            break;
        }
        told(&run, &["file too large", "ulimit -f"]);
        let why = run.err.lines().find(|line| line.contains("why: ")).expect("a reason");
        failed.insert(why.to_owned());
        let verified = study.run("waycairn verify --root out");
        assert_eq!(verified.status, Some(0), "{blocks} blocks\n{verified}");
    }
    assert!(failed.len() > 3, "not always the same file: {failed:#?}");
    study.launch("waycairn run");
    completed(&study, "out", "files may grow again");
}

#[test]
fn a_launch_on_a_full_disk_says_so_and_the_next_one_completes() {
    let pages = |folder: &Path| -> u64 {
        files(folder).values().map(|(bytes, _)| bytes.len().div_ceil(4096) as u64).sum()
    };
    let (all, archives) = (pages(&undisturbed()), pages(&undisturbed().join("source")));
    let mut failed = BTreeSet::new();
    for eighths in 0..9 {
        let study = Study::new();
        // The folders need some pages too; and what it has left is taken along, for the launch with room.
        let size = (archives + 8 + (all - archives) * eighths / 8) * 4096;
        with_archives(&study.folder.path().join("archives"));
        fs::create_dir(study.out()).expect("a place to mount it at");
        let mount = format!("mount -t tmpfs -o size={size} none out && cp -R archives/. out");
        let script = "waycairn run; code=$?; cp -R out kept; exit $code";
        let Some(run) = mounted(&study, &mount, script) else { return };
        fs::remove_dir_all(study.out()).expect("an empty folder");
        fs::rename(study.folder.path().join("kept"), study.out()).expect("what was left");
        if run.status != Some(0) {
            told(&run, &["no space left on device", "free some space"]);
            let why = run.err.lines().find(|line| line.contains("why: ")).expect("a reason");
            failed.insert(why.to_owned());
        }
        let verified = study.run("waycairn verify --root out");
        assert_eq!(verified.status, Some(0), "{size} bytes\n{verified}");
        study.launch("waycairn run");
        completed(&study, "out", &format!("{size} bytes"));
    }
    assert!(failed.len() > 3, "not always the same file: {failed:#?}");
}

/// Copies a folder as it is just now; what goes meanwhile is left out.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    let Ok(entries) = fs::read_dir(from) else { return };
    for entry in entries.filter_map(Result::ok) {
        let target = to.join(entry.file_name());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => copy(&entry.path(), &target),
            Ok(_) => drop(fs::copy(entry.path(), target)),
            Err(_) => {}
        }
    }
}

#[test]
fn a_root_that_is_copied_while_a_launch_writes_it_is_whole_or_says_what_is_not() {
    let study = Study::new();
    let mut command = Command::new(study.folder.path().join("bin/waycairn"));
    clean(&mut command, study.folder.path());
    command.arg("run").current_dir(study.folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("a launch");
    // At most eight are kept, spread over the launch: when there are as many, every second one goes, and only every
    // second one from then on is made.
    let mut kept: Vec<String> = Vec::new();
    let (mut moment, mut stride) = (0, 1);
    while child.try_wait().expect("a launch").is_none() {
        if moment % stride == 0 {
            let name = format!("copy-{moment}");
            copy(&study.out(), &study.folder.path().join(&name));
            kept.push(name);
            if kept.len() == 8 {
                for gone in (1..8).rev().step_by(2) {
                    fs::remove_dir_all(study.folder.path().join(kept.remove(gone))).expect("a copy");
                }
                stride *= 2;
            }
        } else {
            thread::sleep(Duration::from_millis(5));
        }
        moment += 1;
    }
    assert!(child.wait().expect("a launch").success() && kept.len() > 3, "{kept:?}");
    for root in &kept {
        let compared = study.run(&format!("waycairn compare --root {root} --format json"));
        assert_eq!(compared.status, Some(0), "{root}\n{compared}");
        let verified = study.run(&format!("waycairn verify --root {root} --quarantine --format json"));
        let found: Value = serde_json::from_str(&verified.out).expect("what is damaged");
        let damaged = found["damaged"].as_array().expect("a list");
        assert_eq!(verified.status, Some(if damaged.is_empty() { 0 } else { 3 }), "{root}\n{verified}");
        study.launch(&format!("waycairn run --root {root}"));
        completed(&study, root, root);
    }
}

/// A clock that is wrong by `CLOCK_SHIFT` seconds, with `CLOCK_JUMPS` forth and back at every other reading.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *time) {
    static unsigned long readings;
    int result = (int)syscall(SYS_clock_gettime, id, time);
    if (id == CLOCK_REALTIME) {
        const char *shift = getenv("CLOCK_SHIFT"), *jumps = getenv("CLOCK_JUMPS");
        long seconds = shift ? atol(shift) : 0, jump = jumps ? atol(jumps) : 0;
        time->tv_sec += seconds + (__sync_fetch_and_add(&readings, 1) % 2 ? jump : -jump);
    }
    return result;
}
"#;

const YEAR: i64 = 365 * 24 * 3600;

/// Builds the clock; the words that set it.
fn clock(study: &Study) -> String {
    study.write("clock.c", CLOCK);
    let built = study.run("cc -shared -fPIC -o clock.so clock.c");
    assert_eq!(built.status, Some(0), "the C compiler that zstd needs\n{built}");
    format!("LD_PRELOAD={}", study.folder.path().join("clock.so").display())
}

#[test]
fn the_latest_settings_win_whatever_the_clock_says() {
    let study = Study::new();
    let clock = clock(&study);
    let shown = study.run(&format!("{clock} CLOCK_SHIFT={} waycairn history --root out", -10 * YEAR));
    assert_eq!(shown.status, Some(0), "{shown}");
    let rates = ["0.1", "0.2", "0.3", "0.4", "0.5"];
    let mut digests: Vec<Value> = Vec::new();
    let mut times: Vec<String> = Vec::new();
    for (rate, years) in rates.iter().zip([0, -10, 10, -20, 1]) {
        study.write("settings_training.toml", &TRAINING.replace("{ choice = [0.01, 0.002] }", rate));
        let report = study.launch(&format!("{clock} CLOCK_SHIFT={} waycairn run", years * YEAR));
        assert_eq!(Study::count(&report, "model"), (1, 0));
        let history = json(&study.out().join("history.json"));
        let roots = history["roots"].as_array().expect("roots");
        digests.insert(0, roots[0]["digest"].clone());
        times.push(roots[0]["time"].as_str().expect("a time").to_owned());
        digests.truncate(3);
        let order: Vec<&Value> = roots.iter().map(|root| &root["digest"]).collect();
        assert_eq!(order, digests.iter().collect::<Vec<_>>(), "the order is that of the launches");
        assert_eq!(study.runs().len(), 1, "the latest settings win");
        for product in ["model", "position_losses"] {
            let entries = fs::read_dir(study.out().join("cache").join(product)).expect("entries").count();
            assert_eq!(entries, digests.len(), "{product}: three are kept");
        }
        let copy = fs::read_to_string(study.out().join("settings_training.toml")).expect("a copy");
        assert!(copy.contains(&format!("learning_rate = {rate}")), "{copy}");
        // Found again a long time before and after.
        for years in [-30, 30] {
            let again = study.launch(&format!("{clock} CLOCK_SHIFT={} waycairn run", years * YEAR));
            assert_eq!(Study::count(&again, "model"), (0, 1));
            assert_eq!(Study::count(&again, "position_losses"), (0, 1));
            assert_eq!(again["removed"], Value::Array(Vec::new()));
        }
    }
    let mut sorted = times.clone();
    sorted.sort_unstable();
    assert_ne!(times, sorted, "the clock did jump");
    assert_eq!(study.run("waycairn verify --root out").status, Some(0));
}

#[test]
fn a_launch_whose_clock_jumps_at_every_reading_equals_another() {
    let study = Study::new();
    let clock = clock(&study);
    let run = study.run(&format!("{clock} CLOCK_JUMPS={YEAR} waycairn launch -n 2 -- run"));
    assert_eq!(run.status, Some(0), "{run}");
    completed(&study, "out", "two workers");
    // A collection spares what is in the making by any clock that is not a day ahead.
    let litter = study.out().join("cache/model/.tmp-1-0");
    fs::create_dir(&litter).expect("litter");
    for (years, there) in [(0, true), (-10, true), (10, false)] {
        let collected = study.run(&format!("{clock} CLOCK_SHIFT={} waycairn gc", years * YEAR));
        assert_eq!(collected.status, Some(0), "{collected}");
        assert_eq!(litter.exists(), there, "{years} years");
    }
    completed(&study, "out", "collected");
}

#[test]
fn records_keep_their_order_whatever_the_clock_says() {
    let study = Study::new();
    let clock = clock(&study);
    let line = |seq: u64, fields: &str| {
        format!(r#"{{"name":"r","nonce":"94ab","seq":{seq},"fields":{{{fields}}}}}"#)
    };
    let record = |words: &str, lines: &[String]| {
        study.write("lines", &lines.join("\n"));
        let run = study.run(&format!("{clock} {words} waycairn record --root out < lines"));
        assert_eq!(run.status, Some(0), "{run}");
    };
    // Within a launch the later one wins, by a clock that goes a year back at every other reading.
    let lines: Vec<String> = (0..40).map(|value| line(0, &format!(r#""x":{value}"#))).collect();
    record(&format!("CLOCK_JUMPS={YEAR}"), &lines);
    let answer = |words: &str| study.run(&format!("waycairn query {words} --root out --format csv")).out;
    let sql = |text: &str| study.run(&format!("waycairn sql '{text}' --root out --format csv")).out;
    assert_eq!(
        answer("'seq = 0' --keys x").lines().last().and_then(|row| row.rsplit(',').next()),
        Some("39")
    );
    assert_eq!(
        sql("select count(distinct _x_write), min(x), max(x) from records").lines().last(),
        Some("40,0,39")
    );
    // Between launches the clock decides which of two values of one field shows; nothing is lost by it, and no
    // compaction changes it.
    record(&format!("CLOCK_SHIFT={}", 2 * YEAR), &[line(1, r#""x":1,"a":1"#)]);
    record(&format!("CLOCK_SHIFT={}", -2 * YEAR), &[line(1, r#""x":2,"b":2"#), line(2, r#""x":3"#)]);
    let before = answer("--keys x,a,b");
    let of = |rows: &str, seq: &str| rows.lines().find(|row| row.contains(seq)).map(str::to_owned);
    assert!(of(&before, ",1,").is_some_and(|row| row.ends_with(",1,1,2")), "{before}");
    assert_eq!(sql("select count(*) from records").lines().last(), Some("43"));
    let compacted = study.run("waycairn compact --root out");
    assert_eq!(compacted.status, Some(0), "{compacted}");
    assert_eq!(answer("--keys x,a,b"), before);
    let latest = study.run("waycairn query --sort written --keys x --limit 1 --root out --format csv");
    assert!(latest.out.ends_with(",3\n"), "{latest}");
}
