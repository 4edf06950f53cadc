//! The number of threads is the host's, and changes no bit.

use std::process::Command;
use std::sync::atomic::Ordering;

use crate::kit::{Study, THREADS};

/// Where a process of these tests writes what it found; without it, a test starts such processes.
const FILE: &str = "WAYCAIRN_TEST_BYTES";

/// How many threads the host of such a process says.
const NUMBER: &str = "WAYCAIRN_TEST_THREADS";

/// What `body` answers in a process of its own, for each number of threads of its host; `None` in such a process.
fn of_each<const N: usize>(test: &str, numbers: [&str; N], body: fn() -> Vec<u8>) -> Option<[Vec<u8>; N]> {
    if let Some(file) = std::env::var_os(FILE) {
        THREADS.store(std::env::var(NUMBER).unwrap().parse().unwrap(), Ordering::Relaxed);
        std::fs::write(file, body()).unwrap();
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    Some(numbers.map(|number| {
        let file = folder.path().join(number);
        let run = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("threads::{test}")])
            .env(FILE, &file)
            .env(NUMBER, number)
            // What a pool takes that nobody was told of.
            .env("RAYON_NUM_THREADS", "7")
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
        std::fs::read(file).unwrap()
    }))
}

fn bytes() -> Vec<u8> {
    let study = Study::smoke(2, &["mean:*", "std:1"], "odd");
    let streamed = study.clone().set("analysis.inference.max_score_bytes", 0.into());
    let (kept, streamed) = (study.build_all(), streamed.build(&["inference"]));
    let products = kept.0.values().chain(streamed.0.values());
    products.flat_map(|product| product.arrays.values()).flat_map(|array| array.bytes().to_vec()).collect()
}

#[test]
fn gaussian_study_3_no_number_of_threads_changes_a_bit() {
    let test = "gaussian_study_3_no_number_of_threads_changes_a_bit";
    let Some([one, five]) = of_each(test, ["1", "5"], bytes) else { return };
    assert!(one.len() > 100_000);
    assert!(one == five);
}

/// How many threads this process has more after products were planned and built than before.
#[cfg(target_os = "linux")]
fn added() -> Vec<u8> {
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    let study = Study::smoke(1, &["mean:*"], "uniform");
    for (name, _) in study.selections() {
        study.check(&name);
        study.estimate(&name);
    }
    assert_eq!(threads(), before, "a pool that planning made would be of the wrong size");
    study.build(&["inference"]);
    (threads() - before).to_string().into_bytes()
}

/// The library took every core, whatever `runtime.cpu_threads` was, since its pool is its own.
#[cfg(target_os = "linux")]
#[test]
fn the_library_computes_on_as_many_threads_as_its_host_says() {
    let test = "the_library_computes_on_as_many_threads_as_its_host_says";
    let Some(added) = of_each(test, ["1", "3"], added) else { return };
    assert_eq!(added, [b"1", b"3"]);
}
