//! What goes and what stays, on disk.
#![allow(clippy::disallowed_methods, clippy::panic, clippy::unwrap_used, reason = "a test")]

mod kit;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use kit::{DAY, get, names, now, recipe};
use waycairn_cache::{
    BookState, Cache, EntryName, GcPlan, GcPolicy, GcReport, How, Implementation, Keep, Recipe, Used, Verdict,
};
use waycairn_durable::{Digest, FileLock};

fn cache() -> (tempfile::TempDir, Cache) {
    let root = tempfile::tempdir().unwrap();
    let cache = Cache::open(root.path()).unwrap();
    (root, cache)
}

fn entry(seed: u64) -> EntryName {
    recipe(seed).entry().unwrap()
}

/// What a launch does: builds, records, collects. Returns the report.
fn launch(cache: &Cache, seeds: &[u64], now: i64) -> GcReport {
    let entries: BTreeSet<EntryName> =
        seeds.iter().map(|&seed| get(cache, seed).unwrap().artifact.entry().clone()).collect();
    let mut history = cache.history(now).unwrap();
    let digest = Digest::of(format!("{seeds:?}").as_bytes());
    history.record(Used { digest, label: "smoke", group: "training", entries, now });
    cache.save_history(&history).unwrap();
    let lease = FileLock::try_acquire(&cache.root().join("locks/lease.lock")).unwrap();
    let plan = cache.plan_gc(&history, now, GcPolicy::default(), None).unwrap();
    let report = plan.execute(cache, &lease);
    history.collected(&report);
    cache.save_history(&history).unwrap();
    report
}

fn exist(cache: &Cache, seeds: std::ops::Range<u64>) -> Vec<bool> {
    seeds.map(|seed| cache.artifact(&entry(seed)).is_ok()).collect()
}

#[test]
fn cache_5_four_roots_in_turn_keep_the_last_three_and_what_they_share() {
    let (_root, cache) = cache();
    for root in 1..=3 {
        let report = launch(&cache, &[0, root], now());
        assert_eq!((report.removed.entries, report.errors.len()), (0, 0));
    }
    let report = launch(&cache, &[0, 4], now());
    assert_eq!(report.removed_entries, [entry(1)]);
    assert_eq!((report.removed.entries, report.removed.files), (1, 5));
    assert!(report.removed.bytes > 1000 && report.kept.entries == 4 && report.kept.files == 20);
    assert_eq!(exist(&cache, 0..5), [true, false, true, true, true]);
    assert!(cache.history(0).unwrap().expired().is_empty());
    assert!(cache.verify(|_| ()).unwrap().failures.is_empty());
    // Going back to one of the previous two builds nothing.
    assert!(launch(&cache, &[0, 2], now()).removed_entries.is_empty());
    assert_eq!(get(&cache, 2).unwrap().how, How::Hit);
}

#[test]
fn cache_5_what_expired_and_was_not_collected_goes_with_the_next_collection() {
    let (_root, cache) = cache();
    for root in 1..=3 {
        launch(&cache, &[root], now());
    }
    // Recorded, and killed before the collection.
    let mut history = cache.history(0).unwrap();
    get(&cache, 4).unwrap();
    let entries = BTreeSet::from([entry(4)]);
    history.record(Used { digest: Digest::of(b"4"), label: "l", group: "training", entries, now: now() });
    cache.save_history(&history).unwrap();
    assert!(exist(&cache, 1..2)[0]);
    assert_eq!(launch(&cache, &[2], now()).removed_entries, [entry(1)]);
}

#[test]
fn cache_5_what_a_collection_that_died_has_removed_is_forgotten_by_the_next_one() {
    let (_root, cache) = cache();
    for root in 1..=4 {
        launch(&cache, &[root], now());
    }
    let mut history = cache.history(0).unwrap();
    let entries = BTreeSet::from([entry(4)]);
    history.record(Used { digest: Digest::of(b"5"), label: "l", group: "training", entries, now: now() });
    cache.save_history(&history).unwrap();
    let lease = FileLock::try_acquire(&cache.root().join("locks/lease.lock")).unwrap();
    let plan = cache.plan_gc(&history, now(), GcPolicy::default(), None).unwrap();
    assert_eq!(plan.execute(&cache, &lease).removed_entries, [entry(2)]);
    // Killed before it said so.
    let mut history = cache.history(0).unwrap();
    assert_eq!(history.expired(), &BTreeSet::from([entry(2)]));
    let plan = cache.plan_gc(&history, now(), GcPolicy::default(), Some("a doubt")).unwrap();
    assert!(!history.forget_gone(&plan), "a plan in doubt knows nothing");
    let plan = cache.plan_gc(&history, now(), GcPolicy::default(), None).unwrap();
    assert!(history.forget_gone(&plan) && history.expired().is_empty());
    assert!(!history.forget_gone(&plan));
}

#[test]
fn cache_5_litter_is_spared_for_a_day_and_strangers_for_ever() {
    let (root, cache) = cache();
    launch(&cache, &[1], now());
    let folder = root.path().join("cache/numbers");
    fs::create_dir(folder.join(".tmp-1-dead")).unwrap();
    fs::write(folder.join(".tmp-1-dead/half"), [0; 100]).unwrap();
    fs::write(folder.join(".tmp-1-file"), [0; 10]).unwrap();
    fs::create_dir(folder.join("0123456789abcdef0123456789abcdef")).unwrap();
    fs::write(folder.join("notes.txt"), b"mine").unwrap();
    symlink("/etc", folder.join("ffffffffffffffffffffffffffffffff")).unwrap();
    cache.quarantine(&{ get(&cache, 9).unwrap().artifact.entry().clone() }).unwrap();
    get(&cache, 5).unwrap();
    let young = launch(&cache, &[1], now());
    assert_eq!((young.removed.entries, names(root.path()).len()), (0, 8));
    // A clock that runs behind spares everything.
    assert_eq!(launch(&cache, &[1], now() - 10 * DAY).removed.entries, 0);
    let old = launch(&cache, &[1], now() + DAY + DAY / 24);
    assert_eq!(old.removed_entries, [entry(5)]);
    assert_eq!((old.removed.entries, old.errors.len()), (5, 0), "{old:?}");
    let left = names(root.path());
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(left.contains(&"notes.txt".to_owned()) && Path::new("/etc").exists());
}

#[test]
fn cache_5_what_is_pinned_or_held_stays_and_so_does_what_a_pin_needs() {
    let (root, cache) = cache();
    let first = get(&cache, 1).unwrap().artifact;
    let needs = Recipe::new("sums", "test", &1, Implementation::new(1))
        .unwrap()
        .with_dependency("numbers", *first.key());
    let second = cache
        .get_or_build(&needs, (), |builder, ()| builder.metadata("x", &1))
        .unwrap()
        .artifact
        .entry()
        .clone();
    drop(first);
    let held = get(&cache, 2).unwrap().artifact;
    get(&cache, 3).unwrap();
    cache.pin(&second, "for the paper", now()).unwrap();
    assert_eq!(cache.pins().unwrap().pins()[&second].reason, "for the paper");
    launch(&cache, &[4], now());
    let later = now() + 2 * DAY;
    let report = launch(&cache, &[4], later);
    assert_eq!(report.removed_entries, [entry(3)], "{report:?}");
    assert_eq!(exist(&cache, 1..5), [true, true, false, true]);
    drop(held);
    assert!(cache.unpin(&second).unwrap() && !cache.unpin(&second).unwrap());
    assert_eq!(launch(&cache, &[4], later).removed.entries, 3);
    assert_eq!(names(root.path()), [entry(4).folder()]);
    assert!(cache.pin(&second, "gone", now()).unwrap_err().to_string().contains("is not there"));
}

#[test]
fn cache_5_what_is_held_after_the_plan_stays() {
    let (_root, cache) = cache();
    get(&cache, 1).unwrap();
    let history = waycairn_cache::History::new();
    let later = now() + 2 * DAY;
    let plan: GcPlan = cache.plan_gc(&history, later, GcPolicy::default(), None).unwrap();
    assert_eq!(plan.removals().count(), 1);
    let lease = FileLock::try_acquire(&cache.root().join("locks/lease.lock")).unwrap();
    let held = get(&cache, 1).unwrap().artifact;
    let report = plan.execute(&cache, &lease);
    assert_eq!((report.removed.entries, report.spared), (0, 1));
    drop(held);
    // It was removed and built again since: not what the plan saw.
    fs::remove_dir_all(cache.root().join("cache").join(entry(1).to_string())).unwrap();
    get(&cache, 1).unwrap();
    let report = plan.execute(&cache, &lease);
    assert_eq!((report.removed.entries, report.spared), (0, 1));
    let plan = cache.plan_gc(&history, later, GcPolicy::default(), None).unwrap();
    assert_eq!(plan.execute(&cache, &lease).removed.entries, 1);
}

#[test]
fn cache_5_a_lost_history_is_made_again_and_nothing_goes_in_that_run() {
    for text in ["", "\0\0\0\0", "{\"version\": 1", "[]", "{\"version\": 1, \"roots\": 3, \"expired\": []}"] {
        let (root, cache) = cache();
        launch(&cache, &[1, 2], now());
        get(&cache, 3).unwrap();
        fs::write(root.path().join("history.json"), text).unwrap();
        let later = now() + 10 * DAY;
        let history = cache.history(later).unwrap();
        assert!(matches!(history.state(), BookState::Garbled { .. }), "{text}");
        assert_eq!(history.roots()[0].label, "recovered");
        let report = launch(&cache, &[1], later);
        assert_eq!(report.removed.entries, 0);
        assert!(report.doubts[0].starts_with("`history.json` was garbled"), "{report:?}");
        assert!(
            fs::read_dir(root.path())
                .unwrap()
                .any(|entry| { entry.unwrap().file_name().to_string_lossy().starts_with(".garbled-") })
        );
        // From now on it is a history like any other: what was adopted expires after two other roots.
        assert_eq!(cache.history(0).unwrap().state(), &BookState::Read);
        assert_eq!(launch(&cache, &[10], later).removed.entries, 0);
        let mut adopted = vec![entry(2), entry(3)];
        adopted.sort();
        assert_eq!(launch(&cache, &[11], later).removed_entries, adopted);
        assert_eq!(launch(&cache, &[12], later).removed_entries, [entry(1)]);
    }
}

#[test]
fn cache_5_a_history_that_was_removed_by_hand_costs_nothing_that_is_used() {
    let (root, cache) = cache();
    launch(&cache, &[1, 2], now());
    fs::remove_file(root.path().join("history.json")).unwrap();
    // What is new needs no history: the first launch of a root has none either.
    assert_eq!(cache.history(now()).unwrap().doubt(), None);
    let later = now() + 2 * DAY;
    let history = cache.history(later).unwrap();
    assert!(history.doubt().unwrap().contains("is missing"));
    let report = launch(&cache, &[1], later);
    assert_eq!((report.removed.entries, report.doubts.len()), (0, 1));
    assert_eq!(launch(&cache, &[1], later).removed.entries, 0);
    assert_eq!(exist(&cache, 1..3), [true, true]);
}

#[test]
fn cache_5_garbled_pins_stop_the_collection_and_are_left_to_the_user() {
    let (root, cache) = cache();
    get(&cache, 1).unwrap();
    launch(&cache, &[2], now());
    cache.pin(&entry(1), "mine", now()).unwrap();
    fs::write(root.path().join("pins.json"), "").unwrap();
    let report = launch(&cache, &[2], now() + 2 * DAY);
    assert_eq!(report.removed.entries, 0);
    assert!(report.doubts[0].contains("`pins.json` is garbled: it is empty"), "{report:?}");
    let error = cache.pin(&entry(1), "mine", now()).unwrap_err().to_string();
    assert!(error.contains("restore it from a copy, or remove it"), "{error}");
}

#[test]
fn cache_5_errors_about_one_thing_do_not_stop_the_others() {
    let (root, cache) = cache();
    for seed in 1..=3 {
        get(&cache, seed).unwrap();
    }
    let history = waycairn_cache::History::new();
    let plan = cache.plan_gc(&history, now() + 2 * DAY, GcPolicy::default(), None).unwrap();
    // One became a file meanwhile: it is not what the plan saw.
    let path = root.path().join("cache").join(entry(2).to_string());
    fs::remove_dir_all(&path).unwrap();
    fs::write(&path, b"x").unwrap();
    let lease = FileLock::try_acquire(&cache.root().join("locks/lease.lock")).unwrap();
    let report = plan.execute(&cache, &lease);
    assert_eq!((report.removed.entries, report.spared + report.errors.len() as u64), (2, 1));
    assert!(path.exists());
}

#[test]
fn cache_5_a_build_on_its_way_is_not_swept() {
    let (root, cache) = cache();
    cache
        .get_or_build(&recipe(1), &cache, |builder, cache: &Cache| {
            let path = builder.file("x")?;
            fs::write(&path, b"x").unwrap();
            let lease = FileLock::try_acquire(&cache.root().join("locks/lease.lock")).unwrap();
            let history = waycairn_cache::History::new();
            let plan = cache.plan_gc(&history, now() + 2 * DAY, GcPolicy::default(), None).unwrap();
            assert_eq!(plan.removals().count(), 1);
            let report = plan.execute(cache, &lease);
            assert_eq!((report.removed.entries, report.spared), (0, 1));
            assert!(path.exists());
            Ok::<(), waycairn_cache::CacheError>(())
        })
        .unwrap();
    assert_eq!(names(root.path()).len(), 1);
}

/// Gives everything below a folder one modification time, as a copy to and from a bucket may.
fn touch(folder: &std::path::Path, time: SystemTime) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            touch(&path, time);
        }
        fs::File::open(&path).unwrap().set_modified(time).unwrap();
    }
}

#[test]
fn f18_a_root_that_was_copied_without_its_times_is_the_same_cache() {
    let (root, cache) = cache();
    launch(&cache, &[1, 2], now());
    let copies = tempfile::tempdir().unwrap();
    let ages = [
        ("now", SystemTime::now()),
        ("old", SystemTime::UNIX_EPOCH + Duration::from_secs(1)),
        ("ahead", SystemTime::now() + Duration::from_secs(400 * 24 * 3600)),
    ];
    for (name, time) in ages {
        let copy = copies.path().join(name);
        let status = std::process::Command::new("cp").arg("-r").arg(root.path()).arg(&copy).status();
        assert!(status.unwrap().success());
        touch(&copy, time);
        let cache = Cache::open(&copy).unwrap();
        assert_eq!(get(&cache, 1).unwrap().how, How::Hit);
        assert!(cache.verify(|_| ()).unwrap().failures.is_empty());
        let plan = cache.plan_gc(&cache.history(now()).unwrap(), now(), GcPolicy::default(), None).unwrap();
        assert!(plan.decisions.iter().all(|decision| decision.verdict == Verdict::Keep(Keep::Used)));
        // Without the history nobody knows what was used, and however old all of it looks nothing goes.
        fs::remove_file(copy.join("history.json")).unwrap();
        let plan = cache.plan_gc(&cache.history(now()).unwrap(), now(), GcPolicy::default(), None).unwrap();
        assert_eq!(plan.removals().count(), 0, "{name}: {plan:?}");
        assert_eq!(get(&cache, 2).unwrap().how, How::Hit);
    }
}

/// What a listing and a plan of very many entries cost. Ignored: it makes 100,000 folders.
#[test]
#[ignore = "makes 100,000 entries"]
fn a_hundred_thousand_entries_are_listed_and_planned_in_seconds() {
    let (root, cache) = cache();
    let artifact = get(&cache, 1).unwrap().artifact;
    let manifest = fs::read(artifact.path().join("artifact.json")).unwrap();
    let folder = root.path().join("cache/numbers");
    for number in 0..100_000 {
        let name = folder.join(format!("{number:032x}"));
        fs::create_dir(&name).unwrap();
        fs::write(name.join("artifact.json"), &manifest).unwrap();
        fs::write(name.join("x.npy"), b"x").unwrap();
    }
    let begin = std::time::Instant::now();
    let listing = cache.listing().unwrap();
    let listed = begin.elapsed();
    let history = waycairn_cache::History::new();
    let plan = cache.plan_gc(&history, now() + 2 * DAY, GcPolicy::default(), None).unwrap();
    let planned = begin.elapsed() - listed;
    let lease = FileLock::try_acquire(&cache.root().join("locks/lease.lock")).unwrap();
    let report = plan.execute(&cache, &lease);
    let executed = begin.elapsed() - listed - planned;
    std::io::Write::write_all(
        &mut std::io::stderr(),
        format!("listed {listed:?}, listed and planned {planned:?}, removed {executed:?}\n").as_bytes(),
    )
    .unwrap();
    assert_eq!((listing.listed.len(), report.removed.entries), (100_001, 100_000));
    assert!(listed < Duration::from_secs(30));
    let _ = SystemTime::UNIX_EPOCH;
}
