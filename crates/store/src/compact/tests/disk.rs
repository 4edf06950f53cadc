//! A compaction on a disk that loses its power, refuses or is broken.

use waycairn_durable::fault::{record, refuse};

use super::*;
use crate::query::NodeRow;
use crate::tiers::compact_root;

const EIO: i32 = 5;
const EACCES: i32 = 13;

fn names(root: &TempDir) -> Vec<String> {
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    testkit::parts(root.path()).iter().map(name).collect()
}

#[test]
fn a_compacted_part_is_synced_before_it_is_named_and_its_name_before_its_sources_go() {
    let root = TempDir::new().unwrap();
    store(&root, &[&[0, 1], &[1, 2], &[3]]).close_uncompacted().unwrap();
    let values = values_folder(root.path());
    let sources = names(&root);
    let (report, steps) = record(|| compact(&values, &sources, CLOSE_LIMIT));
    assert_eq!((report.parts, report.sources, report.errors.len()), (1, 3, 0));
    let compacted = testkit::parts(root.path()).remove(0);
    testkit::assert_file_synced(&steps, &compacted);
    let renames: Vec<&Path> =
        steps.iter().filter(|step| step.name == "rename").filter_map(|step| step.path.as_deref()).collect();
    assert_eq!(
        (renames.len(), renames[0]),
        (4, compacted.as_path()),
        "the replacement before its sources go"
    );
}

fn answer(root: &TempDir) -> Vec<NodeRow> {
    crate::ObjectReader::open(root.path()).unwrap().query().select_all().unwrap().value
}

/// What a compaction does to a root whose parts are not compacted; `of_root` says which of the two.
fn compacted(root: &TempDir, of_root: bool) -> CompactReport {
    if of_root {
        compact_root(root.path()).unwrap()
    } else {
        compact(&values_folder(root.path()), &names(root), CLOSE_LIMIT)
    }
}

#[test]
fn a_compaction_on_a_disk_that_refuses_changes_no_answer_and_the_next_one_completes_it() {
    // Steps of the publication; one of the hiding, of the third source.
    let steps = ["file.create", "file.write", "file.sync", "folder.sync", "rename", "hide"];
    for (errno, of_root) in [(EACCES, false), (EACCES, true), (EIO, false), (EIO, true)] {
        for step in steps {
            let root = TempDir::new().unwrap();
            store(&root, &[&[0, 1], &[1, 2], &[3], &[0, 9], &[7]]).close_uncompacted().unwrap();
            let (before, rows, sources) = (answer(&root), contents(&root), names(&root));
            let values = values_folder(root.path());
            let refused = match step {
                "hide" => refuse("rename", &values.join(retired_name(&sources[2])), errno, 1),
                step => refuse(step, &values, errno, 1),
            };
            let report = compacted(&root, of_root);
            drop(refused);
            let told = report
                .errors
                .iter()
                .any(|error| error.io_cause().is_some_and(|cause| cause.raw_os_error() == Some(errno)));
            assert!(told, "{step} {errno}: {:?}", report.errors);
            assert_eq!(answer(&root), before, "{step} {errno}");
            assert!(testkit::temporaries(root.path()).is_empty(), "{step} {errno}");
            let expected = match step {
                // The name is there, and nobody knows how durably: the sources stay.
                "folder.sync" => 6,
                "hide" => 2,
                _ => 5,
            };
            assert_eq!(names(&root).len(), expected, "{step} {errno}");

            let report = compact_root(root.path()).unwrap();
            assert!(report.errors.is_empty(), "{step} {errno}: {:?}", report.errors);
            assert_eq!((answer(&root), names(&root).len()), (before, 1), "{step} {errno}");
            assert_eq!(contents(&root), rows, "{step} {errno}");
        }
    }
}
