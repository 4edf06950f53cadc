//! Several workers of one study, some of which are killed.
#![allow(clippy::disallowed_methods, clippy::panic, clippy::unwrap_used, reason = "a test")]

mod kit;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kit::{Work, differences, folder, launch, said};
use serde_json::Value;
use waycairn_cache::Cache;
use waycairn_study::{StudyError, verify};

const WORKERS: u32 = 4;

/// With as many models, each of which has one product: two hundred keys.
const RUNS: u32 = 100;

fn work(worker: Option<(u32, u32)>) -> Work<'static> {
    Work { replicas: RUNS, worker, ..Work::new("run", "0.1", "1") }
}

fn start(root: &Path, worker: u32) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--quiet"])
        .env("STUDY_ROOT", root)
        .env("STUDY_WORKER", worker.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "another process: one worker of the study"]
fn child() {
    let Some(root) = std::env::var_os("STUDY_ROOT") else { return };
    let worker = std::env::var("STUDY_WORKER").unwrap().parse().unwrap();
    match launch(&PathBuf::from(root), work(Some((worker, WORKERS)))) {
        // One that was killed has left some.
        Ok(_) | Err(StudyError::Left { .. }) => {}
        Err(error) => panic!("{error}: {:?}", std::error::Error::source(&error)),
    }
}

/// When each entry of the cache was built; what has no manifest is in the making.
fn built(root: &Path) -> BTreeMap<String, String> {
    let mut built = BTreeMap::new();
    for product in ["model", "position_losses"] {
        for entry in fs::read_dir(root.join("cache").join(product)).into_iter().flatten() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.starts_with('.') {
                continue;
            }
            let manifest =
                fs::read(root.join("cache").join(product).join(&name).join("artifact.json")).unwrap();
            let manifest: Value = serde_json::from_slice(&manifest).unwrap();
            built.insert(format!("{product}/{name}"), manifest["created"].to_string());
        }
    }
    built
}

/// The same a moment later: what has a name is whole, and stays what it is.
fn grown(root: &Path, known: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let now = built(root);
    for (entry, created) in known {
        assert_eq!(now.get(entry), Some(created), "{entry}");
    }
    now
}

/// The generator of Knuth's MMIX; its upper bits.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

#[test]
fn study_case_12_f26_f31_killed_workers_block_nobody_and_every_key_is_built_once() {
    let root = folder();
    let root = root.path();
    let mut random = Random(20_260_101);
    let mut workers: Vec<Child> = (0..WORKERS).map(|worker| start(root, worker)).collect();
    let mut known = BTreeMap::new();
    let mut kills = 0;
    // Again and again when some more keys are there, wherever each of the workers is just then.
    let mut next = 1;
    while next < 2 * RUNS as usize {
        std::thread::sleep(Duration::from_millis(random.next() % 20));
        if known.len() < next && workers.iter_mut().any(|worker| worker.try_wait().unwrap().is_none()) {
            known = grown(root, &known);
            continue;
        }
        next = known.len() + 1 + random.next() as usize % 15;
        let victim = random.next() as usize % workers.len();
        let child = &mut workers[victim];
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert!(status.success() || status.code().is_none(), "it was killed, or done: {status}");
        kills += 1;
        workers[victim] = start(root, u32::try_from(victim).unwrap());
        known = grown(root, &known);
    }
    for mut child in workers {
        assert!(child.wait().unwrap().success());
    }
    assert!(kills > 10, "{kills}");
    // Whoever was killed left it to the next one.
    let report = launch(root, work(None)).unwrap();
    assert_eq!(report.runs.len(), RUNS as usize);
    let now = grown(root, &known);
    assert_eq!(now.len(), 2 * RUNS as usize);
    let found = verify(root, false, |_| ()).unwrap();
    assert!(found.damaged.is_empty(), "{:?}", found.damaged);
    assert!(Cache::open(root).unwrap().verify(|_| ()).unwrap().litter.is_empty());
    let before = said(root);
    let again = launch(root, work(None)).unwrap();
    assert!(again.products.len() == now.len() && again.products.iter().all(|one| one.status == "hit"));
    assert_eq!(differences(&said(root), &before), Vec::<String>::new());
}
