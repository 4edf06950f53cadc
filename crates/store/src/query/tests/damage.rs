//! Stray and damaged files.

use std::fs;
use std::path::PathBuf;

use parquet::file::reader::{FileReader, SerializedFileReader};

use super::kit::{Root, Style, node, record};
use super::scope::overwrite;
use crate::field::Scalar;
use crate::part::values_folder;
use crate::query::{Diagnostic, QueryError};

fn two_parts() -> (Root, PathBuf) {
    let mut root = Root::new();
    root.part("part-a.parquet", &[record("a", 0, 1, &[("x", Scalar::Float(1.0))])], Style::default());
    root.part("part-b.parquet", &[record("b", 0, 1, &[("x", Scalar::Float(2.0))])], Style::default());
    let path = values_folder(root.path()).join("part-b.parquet");
    (root, path)
}

/// Where the first chunk of a column lies in the bytes of a part.
pub(super) fn column_bytes(part: &[u8], column: &str) -> std::ops::Range<usize> {
    let reader = SerializedFileReader::new(bytes::Bytes::copy_from_slice(part)).unwrap();
    let group = reader.metadata().row_group(0);
    let chunk = group.columns().iter().find(|chunk| chunk.column_path().string() == column).unwrap();
    let (start, length) = chunk.byte_range();
    usize::try_from(start).unwrap()..usize::try_from(start + length).unwrap()
}

#[test]
fn identity_case_11_stray_files_are_ignored() {
    let (root, path) = two_parts();
    let values = values_folder(root.path());
    for stray in [
        "notes.txt",
        ".tmp-1-abc",
        ".tmp-2-part-x.parquet",
        "other.parquet",
        "part-1.parquet.bak",
        ".journal-x-1",
    ] {
        fs::copy(&path, values.join(stray)).unwrap();
        overwrite(&values.join(stray), b"PAR1 truncated");
    }
    fs::create_dir(values.join("folder")).unwrap();
    assert_eq!(root.reader().query().all().unwrap().value, [node("a", 0), node("b", 0)]);
}

#[test]
fn identity_case_11_a_damaged_part_is_an_error_that_names_it() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 7] = [
        ("empty", Vec::clear),
        ("short", |bytes| bytes.truncate(5)),
        ("cut", |bytes| bytes.truncate(bytes.len() / 2)),
        ("other file", |bytes| *bytes = b"not a part at all, but long enough to look at".to_vec()),
        ("footer", |bytes| {
            let end = bytes.len() - 8;
            bytes[end - 60..end].fill(0xff);
        }),
        ("footer length", |bytes| {
            let end = bytes.len() - 8;
            bytes[end..end + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        }),
        ("data", |bytes| {
            let place = column_bytes(bytes, "x");
            bytes[place].fill(0xff);
        }),
    ];
    for (what, damage) in damages {
        let (root, path) = two_parts();
        let mut bytes = fs::read(&path).unwrap();
        damage(&mut bytes);
        overwrite(&path, &bytes);
        let reader = root.reader();
        let error = reader.query().select_all().expect_err(what);
        assert!(
            matches!(&error, QueryError::Damaged { path: named, .. } if named.ends_with("part-b.parquet")),
            "{what}: {error:?}"
        );
        assert!(error.to_string().contains("part-b.parquet` is damaged: "), "{what}: {error}");
        assert!(reader.sql("select * from nodes").is_err(), "{what}");
        // The listing of runs reads no metric, so it does not meet damage there.
        let runs = if what == "data" { 2 } else { 1 };
        assert_eq!(reader.runs().is_ok(), what == "data", "{what}");

        let skipping = reader.skipping_damaged();
        let answer = skipping.query().select_all().unwrap();
        assert_eq!(
            answer.value.iter().map(|row| row.node.clone()).collect::<Vec<_>>(),
            [node("a", 0)],
            "{what}"
        );
        assert!(
            matches!(answer.diagnostics.as_slice(), [Diagnostic::SkippedPart { path, .. }] if path.ends_with("part-b.parquet")),
            "{what}: {:?}",
            answer.diagnostics
        );
        let table = skipping.sql("select x from nodes").unwrap();
        assert_eq!((table.num_rows(), table.diagnostics.len()), (1, 1), "{what}");
        assert_eq!(skipping.runs().unwrap().len(), runs, "{what}");
    }
}

#[test]
fn identity_case_11_any_flipped_byte_is_an_error_or_harmless_never_a_panic() {
    let (root, path) = two_parts();
    let bytes = fs::read(&path).unwrap();
    let reader = root.reader();
    for place in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[place] ^= 0x41;
        overwrite(&path, &flipped);
        // The time of the file may not have moved on, so a copy under a new name stands for a new process.
        let copy = path.with_file_name(format!("part-c{place}.parquet"));
        waycairn_durable::rename(&path, &copy).unwrap();
        if let Err(error) = reader.query().select_all() {
            assert!(matches!(error, QueryError::Damaged { .. }), "byte {place}: {error:?}");
        }
        waycairn_durable::rename(&copy, &path).unwrap();
    }
}

#[test]
fn a_part_without_what_a_part_must_have_is_damaged() {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use std::sync::Arc;
    let name = || Arc::new(StringArray::from(vec![Some("a"), Some("a")])) as ArrayRef;
    let seq = || Arc::new(Int64Array::from(vec![0, 1])) as ArrayRef;
    let parts: [(&str, Vec<(&str, ArrayRef)>); 5] = [
        ("has no column `_x_nonce`", vec![("_x_name", name()), ("_x_seq", seq())]),
        (
            "without an identity",
            vec![
                ("_x_name", Arc::new(StringArray::from(vec![Some("a"), None])) as ArrayRef),
                ("_x_nonce", name()),
                ("_x_seq", seq()),
            ],
        ),
        (
            "below 0",
            vec![
                ("_x_name", name()),
                ("_x_nonce", name()),
                ("_x_seq", Arc::new(Int64Array::from(vec![-1, 1])) as ArrayRef),
            ],
        ),
        ("column `_x_seq` has the type", vec![("_x_name", name()), ("_x_nonce", name()), ("_x_seq", name())]),
        (
            "a run that cannot be",
            vec![
                ("_x_name", name()),
                ("_x_nonce", Arc::new(StringArray::from(vec!["a:b", "a:b"])) as ArrayRef),
                ("_x_seq", seq()),
            ],
        ),
    ];
    for (what, columns) in parts {
        let root = Root::new();
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let path = values_folder(root.path()).join("part-x.parquet");
        super::foreign::write_plain(&path, &batch);
        let error = root.reader().query().all().unwrap_err();
        assert!(matches!(error, QueryError::Damaged { .. }), "{error:?}");
        assert!(error.to_string().contains(what), "{error} / {what}");
        // What no question can be asked of, the check finds: also where every page decodes.
        let found = crate::fsck(root.path()).unwrap().problems;
        assert!(matches!(&found[..], [found] if found.what.contains(what)), "{found:?} / {what}");
    }
}

#[test]
fn a_restored_part_is_seen_again() {
    let (root, path) = two_parts();
    let reader = root.reader();
    assert_eq!(reader.query().count().unwrap().value, 2);
    let bytes = fs::read(&path).unwrap();
    overwrite(&path, &bytes[..bytes.len() / 2]);
    assert!(reader.query().all().is_err());
    overwrite(&path, &bytes);
    assert_eq!(reader.query().count().unwrap().value, 2);
    fs::remove_file(&path).unwrap();
    assert_eq!(reader.query().count().unwrap().value, 1);
}

#[cfg(unix)]
#[test]
fn only_a_regular_file_is_a_part_and_a_pipe_never_makes_a_reader_wait() {
    let (root, path) = two_parts();
    let pipe = path.with_file_name("part-y.parquet");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let error = root.reader().query().count().unwrap_err().to_string();
    assert!(error.contains("part-y.parquet` is damaged: it is not a regular file but a "), "{error}");
    assert_eq!(root.reader().skipping_damaged().query().count().unwrap().value, 2);
    fs::remove_file(&pipe).unwrap();
    // A link to a regular file is as good as the file.
    let aside = path.with_file_name("elsewhere");
    waycairn_durable::rename(&path, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &path).unwrap();
    assert_eq!(root.reader().query().count().unwrap().value, 2);
}

#[test]
fn damaged_parents_of_other_runs_do_not_hide_a_node() {
    let mut root = Root::new();
    let base = node("a", 0);
    let parent = [("_x_parent", Scalar::from(base.address().as_str()))];
    root.part("part-a.parquet", &[record("a", 0, 1, &[("x", Scalar::Float(1.0))])], Style::default());
    root.part("part-b.parquet", &[record("b", 0, 1, &parent)], Style::default());
    root.part("part-c.parquet", &[record("c", 0, 1, &parent)], Style::default());
    let children = || root.reader().node(&base).unwrap().unwrap().children;
    assert_eq!(children(), [node("b", 0), node("c", 0)]);
    assert!(!root.reader().node(&base).unwrap().unwrap().children_incomplete);
    let path = values_folder(root.path()).join("part-b.parquet");
    let mut bytes = fs::read(&path).unwrap();
    let place = column_bytes(&bytes, "_x_parent");
    bytes[place].fill(0xff);
    overwrite(&path, &bytes);
    assert_eq!(children(), [node("c", 0)]);
    assert!(
        root.reader().node(&base).unwrap().unwrap().children_incomplete,
        "and that there may be more is said"
    );
    assert!(root.reader().node(&node("b", 0)).is_err(), "what is damaged of the node itself stays an error");
}

#[test]
fn damaged_data_is_no_concern_of_questions_about_other_runs() {
    let (root, path) = two_parts();
    let mut bytes = fs::read(&path).unwrap();
    for column in ["_x_name", "_x_nonce", "_x_seq", "_x_write", "x"] {
        let place = column_bytes(&bytes, column);
        bytes[place].fill(0xff);
    }
    overwrite(&path, &bytes);
    let reader = root.reader();
    assert!(reader.runs().is_err() && reader.runs_of("b").is_err());
    assert_eq!(reader.runs_of("a").unwrap().len(), 1);
    assert!(reader.runs_of("c").unwrap().is_empty());
    let node = node("a", 0);
    assert_eq!(reader.query().name("a").select_all().unwrap().value.len(), 1);
    assert!(reader.checkpoint(&node).unwrap().is_none());
    assert!(reader.parents(&node).unwrap().is_empty());
    for text in ["a", "a:0", "a@n", "a@n:0", node.address().as_str()] {
        assert_eq!(reader.resolve(text).unwrap(), node, "{text}");
    }
    assert!(matches!(reader.resolve("a:1").unwrap_err(), crate::ResolveError::Unknown { .. }));
    assert!(matches!(reader.resolve("c").unwrap_err(), crate::ResolveError::Unknown { .. }));
    // A footer that cannot be read may be that of a part with the run. Under a name whose footer nobody has read yet.
    let unread = path.with_file_name("part-c.parquet");
    waycairn_durable::rename(&path, &unread).unwrap();
    overwrite(&unread, b"not a part at all, but long enough to look at");
    assert!(reader.runs_of("a").is_err());
    assert_eq!(reader.skipping_damaged().runs_of("a").unwrap().len(), 1);
}
