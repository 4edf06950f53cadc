//! A run that may go on without its records, in a process whose files may not grow.

#![cfg(unix)]

use std::process::Command;

use waycairn_tests::{Root, Run, clean, text};

use crate::program;

fn train(root: &Root, before: &str) -> Run {
    let words =
        "train --text input.txt --name s --preset tiny --steps 50 --on-store-error degrade --format json";
    let mut command = Command::new("sh");
    clean(&mut command, &root.folder().join("home"));
    command.args(["-c", &format!("{before} exec \"$0\" {words} --root root"), program()]);
    Run::of(command.current_dir(root.folder()))
}

fn records(root: &Root) -> u64 {
    root.json(&["sql", "SELECT count(*) AS n FROM records"])[0]["n"].as_u64().expect("a count")
}

#[test]
fn a_run_that_may_degrade_where_files_may_not_grow_says_what_was_not_kept_and_goes_on_later() {
    let mut totals = Vec::new();
    // In blocks of 512 bytes: room for its first record, and for some of the others in a journal.
    for blocks in [7, 10] {
        let root = Root::new(program());
        let _ = root.file("input.txt", text(30_000));
        let limited = train(&root, &format!("ulimit -f {blocks};"));
        limited.fails_with(1, &["training goes on without it", "step 50/50", "file too large"]);
        let error = limited.err.lines().last().expect("an error");
        let error: serde_json::Value = serde_json::from_str(error).expect("JSON");
        assert_eq!(error["error"]["code"], "store", "{limited}");
        let what = error["error"]["what"].as_str().expect("what");
        let lost = what.strip_prefix("the launch ended with an error, and ");
        let lost = lost.and_then(|rest| rest.strip_suffix(" of its records were not kept"));
        let lost: u64 = lost.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{what}"));
        assert!(lost > 0, "{limited}");
        // Each is there, or counted.
        totals.push(records(&root) + lost);
        let runs = root.json(&["nodes"]);
        assert_eq!((&runs[0]["finished"], &runs[0]["checkpoints"]), (&false.into(), &[0; 0][..].into()));

        let report = train(&root, "");
        assert_eq!(report.status, Some(0), "{report}");
        let report = report.json();
        assert_eq!((&report["status"], &report["unrecorded"]), (&"finished".into(), &0.into()), "{report}");
        let again = root.json(&["nodes"]);
        assert_eq!(again.as_array().map(Vec::len), Some(1), "the same run: {again}");
        assert_eq!((&again[0]["nonce"], &again[0]["nodes"]), (&runs[0]["nonce"], &50.into()));
        assert_eq!(
            (&again[0]["finished"], &again[0]["checkpoints"]),
            (&true.into(), &[19, 39, 49][..].into())
        );
    }
    assert!(totals[0] > 50 && totals[0] == totals[1], "{totals:?}");
}
