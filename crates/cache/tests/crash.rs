//! Ends a process at every step of a build, of a collection and of its books in turn, and looks at what is left.
#![allow(clippy::disallowed_methods, clippy::panic, clippy::unwrap_used, reason = "a test")]

mod kit;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kit::{DAY, get, names, now, recipe};
use waycairn_cache::{BookState, Cache, CacheError, GcPolicy, How, Used};
use waycairn_durable::{Digest, FileLock};

/// A launch: builds two entries, records what it used, collects what expired, pins.
fn work(root: &Path) {
    let cache = Cache::open(root).unwrap();
    let entries: BTreeSet<_> = [1, 2].map(|seed| get(&cache, seed).unwrap().artifact.entry().clone()).into();
    let mut history = cache.history(now()).unwrap();
    history.record(Used { digest: Digest::of(b"new"), label: "new", group: "training", entries, now: now() });
    cache.save_history(&history).unwrap();
    let lease = FileLock::try_acquire(&root.join("locks/lease.lock")).unwrap();
    let plan = cache.plan_gc(&history, now(), GcPolicy::default(), None).unwrap();
    let report = plan.execute(&cache, &lease);
    assert!(report.errors.is_empty() && report.doubts.is_empty(), "{report:?}");
    history.collected(&report);
    cache.save_history(&history).unwrap();
    cache.pin(&recipe(2).entry().unwrap(), "keep", now()).unwrap();
    fs::write(root.join("done"), b"").unwrap();
}

/// Three roots of the past, so that the first of them expires.
fn prepare() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path()).unwrap();
    let mut history = cache.history(now()).unwrap();
    for seed in [11, 12, 13] {
        let entries = BTreeSet::from([get(&cache, seed).unwrap().artifact.entry().clone()]);
        history.record(Used {
            digest: Digest::of(&[seed as u8]),
            label: "old",
            group: "training",
            entries,
            now: now(),
        });
    }
    cache.save_history(&history).unwrap();
    folder
}

fn run(root: &Path, variable: &str, value: &str) -> bool {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--quiet"])
        .env("CACHE_CRASH_ROOT", root)
        .env(variable, value)
        .output()
        .unwrap()
        .status
        .success()
}

#[test]
#[ignore = "the work of the other test, in a process that may abort"]
fn child() {
    if let Some(root) = std::env::var_os("CACHE_CRASH_ROOT") {
        work(&PathBuf::from(root));
    }
}

/// What holds at every moment: CACHE-2, CACHE-4 and CACHE-5.
fn check(root: &Path, at: usize) {
    let cache = Cache::open(root).unwrap();
    let report = cache.verify(|_| ()).unwrap();
    assert!(report.failures.is_empty() && report.litter.is_empty(), "at {at}: {report:?}");
    for seed in [1, 2, 11, 12, 13] {
        match cache.artifact(&recipe(seed).entry().unwrap()) {
            Ok(artifact) => assert_eq!(artifact.files().len(), 4, "at {at}"),
            Err(error) => assert!(
                matches!(error, CacheError::Gone { .. }) && seed != 12 && seed != 13,
                "at {at}: {error}"
            ),
        }
    }
    let history = cache.history(now()).unwrap();
    assert_eq!(history.state(), &BookState::Read, "at {at}");
    assert_eq!(cache.pins().unwrap().doubt(), None, "at {at}");
}

#[test]
fn cache_2_a_crash_at_any_step_leaves_whole_entries_and_whole_books() {
    let folder = prepare();
    let trace = folder.path().join("trace");
    assert!(run(folder.path(), "WAYCAIRN_FAULT_TRACE", trace.to_str().unwrap()));
    let lines: Vec<String> = fs::read_to_string(&trace).unwrap().lines().map(str::to_owned).collect();
    for point in [
        "cache.build",
        "cache.member",
        "cache.built",
        "cache.manifest",
        "cache.commit",
        "cache.gc.aside",
        "cache.gc.sync",
        "cache.gc.delete",
    ] {
        assert!(lines.iter().any(|line| line.contains(&format!(" {point} "))), "no {point} in {lines:#?}");
    }
    assert_eq!(names(folder.path()).len(), 4);
    order(&lines);
    for number in 1..=lines.len() {
        let folder = prepare();
        assert!(
            !run(folder.path(), "WAYCAIRN_FAULT_ABORT", &number.to_string()),
            "nothing crashed at {number}"
        );
        check(folder.path(), number);
        // The next launch finds its way from there, and waits for nobody.
        work(folder.path());
        check(folder.path(), number);
        let cache = Cache::open(folder.path()).unwrap();
        assert_eq!(get(&cache, 1).unwrap().how, How::Hit);
        let expired = cache.artifact(&recipe(11).entry().unwrap());
        assert!(matches!(expired, Err(CacheError::Gone { .. })), "at {number}");
        // What the crash left is swept when it is old, and nothing else is.
        let lease = FileLock::try_acquire(&folder.path().join("locks/lease.lock")).unwrap();
        let history = cache.history(now()).unwrap();
        let plan = cache.plan_gc(&history, now() + 2 * DAY, GcPolicy::default(), None).unwrap();
        assert!(plan.execute(&cache, &lease).errors.is_empty());
        assert_eq!(names(folder.path()).len(), 4, "at {number}");
    }
}

/// Bytes before names: within each build the manifest is the last file, all is synced after it, then the one rename,
/// then the folder above. Names before bytes: a collection renames, syncs, and only then removes.
fn order(lines: &[String]) {
    let place = |from: usize, word: &str, path: &str| {
        let found = lines.iter().skip(from).position(|line| {
            let mut words = line.split(' ').skip(1);
            words.next() == Some(word) && words.next().is_some_and(|text| text.ends_with(path))
        });
        from + found.unwrap_or_else(|| panic!("no {word} {path} from {from} in {lines:#?}"))
    };
    let built = place(0, "cache.built", "");
    let manifest = place(built, "rename", "artifact.json");
    let commit = place(manifest, "cache.commit", "");
    let entry = recipe(1).entry().unwrap().folder();
    let renamed = place(commit, "rename", &entry);
    let syncs = lines[commit..renamed].iter().filter(|line| line.contains(" file.sync ")).count();
    assert_eq!(syncs, 5, "{lines:#?}");
    assert_eq!(lines[built..renamed].iter().filter(|line| line.contains(" rename ")).count(), 1);
    let above = place(renamed, "folder.sync", "cache/numbers");
    assert_eq!(above, renamed + 1);
    let aside = place(0, "cache.gc.aside", "");
    let sync = place(aside, "folder.sync", "cache/numbers");
    let remove = place(aside, "remove", "");
    assert!(aside < sync && sync < remove);
}
