#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

use waycairn_dag::Node;
use waycairn_store::{Attachment, Marker, ObjectStore, StoreOptions};

use super::*;

fn area(usage: &Usage, area: Area) -> Size {
    usage.areas.iter().find(|known| known.area == area).map(|known| known.size).unwrap_or_default()
}

#[test]
fn du_tells_runs_products_and_litter_apart_and_adds_up() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let store = ObjectStore::open(root, StoreOptions::default()).unwrap();
    let node = |name: &str, seq| Node::new(name, "0123456789abcdef", seq).unwrap();
    for (name, seq, bytes) in [("big", 0, 3000), ("big", 4, 2000), ("small", 0, 100)] {
        let staged = store.stage_folder(&node(name, seq), "checkpoint").unwrap();
        fs::write(staged.path().join("model"), vec![0; bytes]).unwrap();
        staged.commit(Marker::Checkpoint, &[]).unwrap();
    }
    let files = vec![("curve.svg".to_owned(), vec![0; 700])];
    store.attach(&node("small", 0), Attachment { files, ..Attachment::default() }).unwrap();
    store.close().unwrap();
    for (path, bytes) in [
        ("cache/model/0123456789abcdef0123456789abcdef/artifact.json", 50),
        ("cache/model/0123456789abcdef0123456789abcdef/data", 950),
        ("cache/model/.tmp-1-2/data", 5),
        ("cache/notes.txt", 7),
        ("runs/a/r0/run.json", 11),
        ("runs/a/.tmp-3-4/run.json", 13),
        ("source/x.zip", 17),
        ("objects/values/.old-part-x.parquet", 19),
        ("objects/blobs/.tmp-9-9/checkpoint/model", 23),
        ("objects/blobs/no-address!/x", 29),
        ("mine.txt", 31),
    ] {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![0; bytes]).unwrap();
    }

    let usage = Usage::of(root).unwrap();
    let size = |files, bytes| Size { files, bytes };
    assert_eq!(area(&usage, Area::Checkpoints), size(3, 5100));
    assert_eq!(area(&usage, Area::Cache), size(2, 1000));
    assert_eq!(area(&usage, Area::Temporary), size(3, 5 + 13 + 23));
    assert_eq!(area(&usage, Area::Replaced), size(1, 19));
    assert_eq!(area(&usage, Area::Runs), size(1, 11));
    assert_eq!(area(&usage, Area::Sources), size(1, 17));
    assert_eq!(area(&usage, Area::Other), size(3, 7 + 29 + 31));
    assert!(area(&usage, Area::Values).files > 0 && area(&usage, Area::Books).files == 1);
    assert_eq!(usage.total, Size::of(root).unwrap(), "every file is somewhere, once");

    let names: Vec<(&str, u64, Size)> =
        usage.runs.iter().map(|run| (run.name.as_str(), run.nodes, run.checkpoints)).collect();
    assert_eq!(names, [("big", 2, size(2, 5000)), ("small", 1, size(1, 100))]);
    // The figure, and who the node is.
    assert!(usage.runs[1].artifacts.files == 2 && usage.runs[1].artifacts.bytes > 700, "{usage:?}");
    assert_eq!(usage.products[0].entries, 1);
    assert_eq!(usage.entries[0].path, "cache/model/0123456789abcdef0123456789abcdef");
    assert_eq!(Usage::of(&root.join("nothing")).unwrap(), Usage::default());
}

#[test]
fn du_looks_at_a_root_that_is_written_and_emptied_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for turn in 0..40 {
                for path in ["runs/a/r0/plots", "objects/blobs/.tmp-1-1/checkpoint", "cache/model/.tmp-2-2"] {
                    let at = root.join(path);
                    fs::create_dir_all(&at).unwrap();
                    fs::write(at.join(format!("{turn}")), [0; 10]).unwrap();
                }
                for path in ["runs", "objects", "cache"] {
                    fs::remove_dir_all(root.join(path)).unwrap();
                }
            }
        });
        while !writer.is_finished() {
            Usage::of(root).unwrap();
        }
    });
}
