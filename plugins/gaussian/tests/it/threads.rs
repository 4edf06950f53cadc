//! The number of threads changes no bit.

use std::process::Command;

use crate::kit::Study;

/// Where a process of this test writes what it built; without it, it starts such processes.
const FILE: &str = "WAYCAIRN_TEST_BYTES";

fn bytes() -> Vec<u8> {
    let study = Study::smoke(2, &["mean:*", "std:1"], "odd");
    let streamed = study.clone().set("analysis.inference.max_score_bytes", 0.into());
    let (kept, streamed) = (study.build_all(), streamed.build(&["inference"]));
    let products = kept.0.values().chain(streamed.0.values());
    products.flat_map(|product| product.arrays.values()).flat_map(|array| array.bytes().to_vec()).collect()
}

#[test]
fn gaussian_study_3_no_number_of_threads_changes_a_bit() {
    if let Some(file) = std::env::var_os(FILE) {
        std::fs::write(file, bytes()).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let of = |threads: &str| {
        let file = folder.path().join(threads);
        let run = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "threads::gaussian_study_3_no_number_of_threads_changes_a_bit"])
            .env(FILE, &file)
            .env("RAYON_NUM_THREADS", threads)
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
        std::fs::read(file).unwrap()
    };
    let one = of("1");
    assert!(one.len() > 100_000);
    assert!(one == of("5"));
}
