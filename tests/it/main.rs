//! Whole flows, from the command line down to the bytes.

mod acceptance;
mod architecture;
mod bad_input;
mod concurrent;
mod faults;
mod field;
mod fuzz;
mod gaussian;
mod golden;
mod help;
mod journal;
mod killed;
mod limits;
mod plugins;
mod python;
mod records;
mod resume;
mod shapes;
mod study;
mod tour;

use std::{collections::BTreeSet, path::Path, sync::OnceLock};

use waycairn_tests::{Root, text};

/// Steps of the run that [`trained`] holds; it has checkpoints at every twentieth node and the last.
const STEPS: u64 = 50;

/// The program under test.
fn program() -> &'static str {
    env!("CARGO_BIN_EXE_waycairn-under-test")
}

/// A root with one finished run `shakespeare` of [`STEPS`] steps; tests only read it, or attach to it.
fn trained() -> &'static Root {
    static TRAINED: OnceLock<Root> = OnceLock::new();
    TRAINED.get_or_init(|| {
        let root = Root::new(program());
        let file = root.file("input.txt", text(30_000));
        let steps = STEPS.to_string();
        root.json(&[
            "train",
            "--text",
            &file,
            "--name",
            "shakespeare",
            "--preset",
            "tiny",
            "--steps",
            &steps,
        ]);
        root
    })
}

#[test]
fn no_test_file_is_forgotten() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("it");
    let files: BTreeSet<String> = std::fs::read_dir(folder)
        .expect("the folder of this file")
        .filter_map(|entry| entry.ok()?.path().file_stem()?.to_str().map(str::to_owned))
        .filter(|name| name != "main")
        .collect();
    let listed: BTreeSet<String> = include_str!("main.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';').map(str::to_owned))
        .collect();
    assert_eq!(files, listed);
}
