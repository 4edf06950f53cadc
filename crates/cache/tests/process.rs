//! Several threads and processes, one root.
#![allow(clippy::disallowed_methods, clippy::panic, clippy::unwrap_used, reason = "a test")]

mod kit;

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kit::{build, get, names, now, recipe};
use waycairn_cache::{Cache, CacheError, CacheOptions, GcPolicy, How};
use waycairn_durable::FileLock;

const KEYS: u64 = 200;
const THREADS: u64 = 64;

/// Starts a process that runs one of the children below.
fn start(child: &str, root: &Path, argument: u64) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", child, "--ignored", "--nocapture"])
        .env("CACHE_ROOT", root)
        .env("CACHE_ARGUMENT", argument.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

fn arguments() -> Option<(PathBuf, u64)> {
    let root = std::env::var_os("CACHE_ROOT")?;
    Some((PathBuf::from(root), std::env::var("CACHE_ARGUMENT").unwrap().parse().unwrap()))
}

fn say(line: &str) {
    let mut stdout = std::io::stdout();
    stdout.write_all(format!("\n{line}\n").as_bytes()).unwrap();
    stdout.flush().unwrap();
}

#[test]
#[ignore = "another process: builds one entry, slowly"]
fn child_slow() {
    let Some((root, millis)) = arguments() else { return };
    let cache = Cache::open(&root).unwrap();
    let built = cache.get_or_build(&recipe(1), Duration::from_millis(millis), |builder, pause| {
        say("building");
        build(builder, pause)
    });
    say(&format!("how {:?}", built.unwrap().how));
}

#[test]
#[ignore = "another process: all keys on many threads, in an order of its own"]
fn child_all() {
    let Some((root, seed)) = arguments() else { return };
    let cache = Cache::open(&root).unwrap();
    let built = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (cache, built) = (&cache, &built);
            scope.spawn(move || {
                let mut random = Random(seed * THREADS + thread + 1);
                let mut keys: Vec<u64> = (0..KEYS).collect();
                for at in (1..keys.len()).rev() {
                    keys.swap(at, random.next() as usize % (at + 1));
                }
                for key in keys {
                    let artifact = get(cache, key).unwrap();
                    built.fetch_add(u64::from(matches!(artifact.how, How::Built { .. })), Ordering::Relaxed);
                    let values = artifact.artifact.array::<f64>("values").unwrap();
                    assert_eq!(values.values()[5], (key * 1000 + 5) as f64);
                }
            });
        }
    });
    say(&format!("built {}", built.load(Ordering::Relaxed)));
}

/// The generator of Knuth's MMIX; its upper bits.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

fn wait_for(lines: &mut Lines<BufReader<ChildStdout>>, word: &str) -> String {
    lines.map(Result::unwrap).find(|line| line.starts_with(word)).unwrap_or_else(|| panic!("no `{word}`"))
}

#[test]
fn cache_case_03_two_processes_build_once_and_the_waiter_says_for_whom_it_waits() {
    let root = tempfile::tempdir().unwrap();
    let (mut child, mut lines) = start("child_slow", root.path(), 500);
    wait_for(&mut lines, "building");
    let told = Arc::new(Mutex::new(Vec::new()));
    let pid = child.id();
    let announce = {
        let told = Arc::clone(&told);
        Arc::new(move |waiting: &waycairn_cache::Waiting<'_>| {
            assert_eq!(waiting.holder.unwrap().pid, pid);
            told.lock().unwrap().push(waiting.to_string());
        })
    };
    let options = CacheOptions { announce: Some(announce), ..CacheOptions::default() };
    let cache = Cache::with_options(root.path(), options).unwrap();
    // Other keys are not waited for.
    assert!(matches!(get(&cache, 2).unwrap().how, How::Built { .. }));
    let built = get(&cache, 1).unwrap();
    assert!(
        matches!(built.how, How::Waited { waited } if waited > Duration::from_millis(50)),
        "{:?}",
        built.how
    );
    assert!(wait_for(&mut lines, "how").contains("Built"));
    assert!(child.wait().unwrap().success());
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 1, "announced once");
    let entry = recipe(1).entry().unwrap();
    assert!(told[0].starts_with(&format!("waiting for `{entry}`, which process {pid} on ")), "{}", told[0]);
}

#[test]
fn cache_case_03_after_a_killed_builder_the_next_one_builds_and_its_litter_goes_when_it_is_old() {
    let root = tempfile::tempdir().unwrap();
    let (mut child, mut lines) = start("child_slow", root.path(), 60_000);
    wait_for(&mut lines, "building");
    // Until its first array is there.
    while !names(root.path())
        .iter()
        .any(|name| root.path().join("cache/numbers").join(name).join("values.npy").exists())
    {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let litter = names(root.path());
    assert!(litter.len() == 1 && litter[0].starts_with(".tmp-"), "{litter:?}");
    let cache = Cache::open(root.path()).unwrap();
    let built = get(&cache, 1).unwrap();
    assert!(matches!(built.how, How::Built { waited, .. } if waited < Duration::from_secs(30)));
    assert!(cache.verify(|_| ()).unwrap().failures.is_empty());
    let lease = FileLock::try_acquire(&root.path().join("locks/lease.lock")).unwrap();
    let mut history = waycairn_cache::History::new();
    let entries = [built.artifact.entry().clone()].into();
    let digest = waycairn_durable::Digest::of(b"x");
    history.record(waycairn_cache::Used { digest, label: "l", group: "g", entries, now: now() });
    for (later, left) in [(0, 2), (kit::DAY + kit::DAY / 24, 1)] {
        let plan = cache.plan_gc(&history, now() + later, GcPolicy::default(), None).unwrap();
        assert!(plan.execute(&cache, &lease).errors.is_empty());
        assert_eq!(names(root.path()).len(), left);
    }
}

#[test]
fn cache_2_many_threads_of_one_process_build_one_key_once() {
    let root = tempfile::tempdir().unwrap();
    let caches = [Cache::open(root.path()).unwrap(), Cache::open(&root.path().join(".")).unwrap()];
    let built = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..64 {
            let (cache, built) = (&caches[thread % 2], &built);
            scope.spawn(move || {
                let had = cache.get_or_build(&recipe(1), Duration::from_millis(50), build).unwrap();
                built.fetch_add(u64::from(matches!(had.how, How::Built { .. })), Ordering::Relaxed);
                assert_eq!(had.artifact.array::<u32>("streamed").unwrap().values()[3], 1);
            });
        }
    });
    assert_eq!(built.into_inner(), 1);
}

#[test]
fn cache_2_after_a_failed_builder_the_next_thread_builds() {
    let root = tempfile::tempdir().unwrap();
    let cache = Cache::open(root.path()).unwrap();
    static TRIES: AtomicU64 = AtomicU64::new(0);
    fn fails_at_first(builder: &waycairn_cache::Builder<'_>, (): ()) -> Result<(), CacheError> {
        if TRIES.fetch_add(1, Ordering::SeqCst) < 3 {
            builder.file("x")?;
            return builder.json("x", &f64::NAN);
        }
        builder.metadata("x", &1)
    }
    let outcomes: Vec<bool> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16)
            .map(|_| scope.spawn(|| cache.get_or_build(&recipe(1), (), fails_at_first).is_ok()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|&&ok| ok).count(), 13);
    assert_eq!(names(root.path()).len(), 1);
}

#[test]
fn cache_2_a_lock_that_nobody_frees_delays_a_build_and_does_not_stop_it() {
    let root = tempfile::tempdir().unwrap();
    let options = CacheOptions { wait: Duration::from_millis(50), ..CacheOptions::default() };
    let cache = Cache::with_options(root.path(), options).unwrap();
    get(&cache, 2).unwrap();
    let entry = recipe(1).entry().unwrap();
    let lock = root.path().join("locks").join(format!("numbers-{}.lock", entry.folder()));
    let _held = FileLock::try_acquire(&lock).unwrap();
    assert!(
        matches!(get(&cache, 1).unwrap().how, How::Built { waited, .. } if waited >= Duration::from_millis(50))
    );
    // And it hides nothing that is there.
    let begin = Instant::now();
    assert_eq!(get(&cache, 1).unwrap().how, How::Hit);
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[test]
fn cache_case_12_every_key_is_built_once() {
    let root = tempfile::tempdir().unwrap();
    let children: Vec<_> = (0..4).map(|seed| start("child_all", root.path(), seed)).collect();
    let mut built = 0;
    for (mut child, mut lines) in children {
        let line = wait_for(&mut lines, "built");
        built += line.trim_start_matches("built ").parse::<u64>().unwrap();
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(built, KEYS);
    assert_eq!(names(root.path()).len() as u64, KEYS);
    let report = Cache::open(root.path()).unwrap().verify(|_| ()).unwrap();
    assert_eq!((report.entries, report.files), (KEYS, KEYS * 5));
    assert!(report.failures.is_empty() && report.litter.is_empty(), "{report:?}");
}

#[test]
fn cache_case_12_random_kills_leave_whole_entries_and_every_key_is_built() {
    let root = tempfile::tempdir().unwrap();
    let mut random = Random(20_260_101);
    let mut children: Vec<_> = (0..4).map(|seed| start("child_all", root.path(), seed)).collect();
    let mut kills = 0;
    let mut whole = std::collections::BTreeMap::new();
    while kills < 24 {
        std::thread::sleep(Duration::from_millis(20 + random.next() % 120));
        let victim = random.next() as usize % children.len();
        let (child, _) = &mut children[victim];
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        children[victim] = start("child_all", root.path(), 100 + kills);
        // Whatever has a name now is whole, and stays the same entry.
        let cache = Cache::open(root.path()).unwrap();
        for key in 0..KEYS {
            let entry = recipe(key).entry().unwrap();
            match cache.artifact(&entry) {
                Ok(artifact) => {
                    let created = artifact.created().to_owned();
                    assert_eq!(*whole.entry(key).or_insert(created.clone()), created);
                }
                Err(error) => assert!(matches!(error, CacheError::Gone { .. }), "{error}"),
            }
        }
    }
    for (mut child, mut lines) in children {
        wait_for(&mut lines, "built");
        assert!(child.wait().unwrap().success());
    }
    let cache = Cache::open(root.path()).unwrap();
    for key in 0..KEYS {
        get(&cache, key).unwrap();
    }
    let report = cache.verify(|_| ()).unwrap();
    assert_eq!(report.entries, KEYS);
    assert!(report.failures.is_empty() && report.litter.is_empty(), "{report:?}");
    let strangers =
        names(root.path()).into_iter().filter(|name| name.len() != 32 && !name.starts_with(".tmp-"));
    assert_eq!(strangers.count(), 0);
}
