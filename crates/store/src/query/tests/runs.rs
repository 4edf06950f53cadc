//! The listing of runs, the view of a node, and the names that users type.

use super::kit::{Root, Style, node, record};
use crate::field::Scalar;
use crate::resolve::ResolveError;
use crate::schema::{ARTIFACT, BLOB, CHECKPOINT, FINISHED, JOB, PARENT, RECORD, TAG};
use crate::{ObjectReader, ObjectStore, StoreOptions};

fn runs_root() -> Root {
    let mut root = Root::new();
    let marked = (CHECKPOINT, Scalar::Bool(true));
    root.part(
        "part-a.parquet",
        &[
            record("old", 0, 10, &[(JOB, "gpt@1".into()), (TAG, "first".into())]),
            record("old", 2, 12, std::slice::from_ref(&marked)),
            record("old", 4, 14, &[marked, (FINISHED, Scalar::Bool(true)), (TAG, "second".into())]),
            record("new", 0, 20, &[("x", Scalar::Int(1))]),
            record("new", 1, 21, &[("x", Scalar::Int(2))]),
            record("new", 0, 5, &[]).nonce("m"),
        ],
        Style::default(),
    );
    // A later artifact at the old run does not reorder the runs.
    root.part("part-b.parquet", &[record("old", 2, 99, &[(ARTIFACT, "summary".into())])], Style::default());
    root
}

#[test]
fn runs_stand_by_their_first_record() {
    let root = runs_root();
    let runs = root.reader().runs().unwrap();
    let order: Vec<(&str, &str)> = runs.iter().map(|run| (run.name.as_str(), run.nonce.as_str())).collect();
    assert_eq!(order, [("new", "n"), ("old", "n"), ("new", "m")]);
    let old = &runs[1];
    assert_eq!((old.nodes, old.checkpoints.as_slice(), old.finished), (3, &[2, 4][..], true));
    assert_eq!((old.started, old.written), (Some(10), Some(99)));
    assert_eq!((old.job.as_deref(), old.tag.as_deref()), (Some("gpt@1"), Some("second")));
    assert_eq!(old.last, node("old", 4));
    assert_eq!((runs[0].job.as_deref(), runs[0].finished), (None, false));
}

#[test]
fn store_7_the_record_of_a_checkpoint_that_was_written_last_decides() {
    let mark = |seq, write, value| record("r", seq, write, &[(CHECKPOINT, Scalar::Bool(value))]);
    let checkpoints = |parts: &[Vec<super::kit::Record>]| {
        let mut root = Root::new();
        for (index, records) in parts.iter().enumerate() {
            root.part(&format!("part-{index}.parquet"), records, Style::default());
        }
        let runs = root.reader().runs().unwrap();
        let found = root.reader().query().checkpoint().all().unwrap().value;
        assert_eq!(found.iter().map(|node| node.seq()).collect::<Vec<_>>(), runs[0].checkpoints);
        (runs[0].checkpoints.clone(), runs[0].written)
    };
    let records = [
        // Withdrawn; withdrawn and saved again; a withdrawal that nothing preceded; saved twice.
        (mark(0, 10, true), mark(0, 90, false)),
        (mark(1, 80, false), mark(1, 81, true)),
        (mark(2, 70, false), record("r", 2, 60, &[("x", Scalar::Int(1))])),
        (mark(3, 50, true), mark(3, 51, true)),
    ];
    let one: Vec<_> = records.iter().flat_map(|(one, other)| [one.clone(), other.clone()]).collect();
    let (first, second): (Vec<_>, Vec<_>) = records.into_iter().unzip();
    let expected = (vec![1, 3], Some(81));
    assert_eq!(checkpoints(&[one]), expected);
    assert_eq!(checkpoints(&[first.clone(), second.clone()]), expected);
    assert_eq!(checkpoints(&[second.clone(), first.clone(), second]), expected, "duplicates change nothing");
}

#[test]
fn a_missing_root_gives_empty_answers_and_stays_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nothing");
    let reader = ObjectReader::open(&path).unwrap();
    assert!(reader.runs().unwrap().is_empty());
    assert!(reader.query().select_all().unwrap().value.is_empty());
    assert!(reader.edges().unwrap().is_empty());
    assert!(reader.node(&node("r", 0)).unwrap().is_none());
    assert!(reader.checkpoint(&node("r", 0)).unwrap().is_none());
    assert!(reader.schema().unwrap().is_empty());
    assert_eq!(reader.sql("select count(*) from nodes").unwrap().rows().next().unwrap(), [Scalar::Int(0)]);
    assert_eq!(reader.sql("select count(*) from records").unwrap().rows().next().unwrap(), [Scalar::Int(0)]);
    assert!(matches!(reader.resolve("latest").unwrap_err(), ResolveError::Unknown { .. }));
    assert!(!path.exists());
    // A root without its marker is read; one of a newer format is not, nor is a file.
    std::fs::create_dir_all(path.join("objects/values")).unwrap();
    assert!(ObjectReader::open(&path).is_ok());
    waycairn_durable::write_file(
        &path.join("FORMAT"),
        b"waycairn 99.0\n",
        waycairn_durable::Durability::Regenerable,
    )
    .unwrap();
    assert!(matches!(ObjectReader::open(&path).unwrap_err(), crate::QueryError::Format(_)));
    let file = folder.path().join("file");
    waycairn_durable::write_file(&file, b"", waycairn_durable::Durability::Regenerable).unwrap();
    assert!(matches!(ObjectReader::open(&file).unwrap_err(), crate::QueryError::Format(_)));
}

#[test]
fn names_find_nodes() {
    let root = runs_root();
    let reader = root.reader();
    let found = |text: &str| reader.resolve(text).unwrap();
    assert_eq!(found(node("old", 2).address().as_str()), node("old", 2));
    assert_eq!(found("old@n:2"), node("old", 2));
    assert_eq!(found("new@m:0").nonce(), "m");
    assert_eq!(found("old:0"), node("old", 0));
    assert_eq!(found("new"), node("new", 1));
    assert_eq!(found("new:0"), node("new", 0));
    assert_eq!(found("latest"), node("old", 2));
    let address = node("old", 4).address().to_string();
    assert_eq!(found(&address[..address.len() - 1]).name(), "old");
}

#[test]
fn names_with_colons_split_from_the_right() {
    let root = Root::of(&[
        record("a:b", 3, 1, &[]),
        record("a:b:7", 1, 2, &[]),
        record("latest", 5, 3, &[]),
        record("x@y", 2, 4, &[]),
    ]);
    let reader = root.reader();
    assert_eq!(reader.resolve("a:b").unwrap(), node("a:b", 3));
    assert_eq!(reader.resolve("a:b:3").unwrap(), node("a:b", 3));
    assert_eq!(reader.resolve("a:b:7").unwrap(), node("a:b:7", 1));
    assert_eq!(reader.resolve("a:b@n:3").unwrap(), node("a:b", 3));
    assert_eq!(reader.resolve("x@y").unwrap(), node("x@y", 2));
    assert_eq!(reader.resolve("x@y@n:2").unwrap(), node("x@y", 2));
    // A run of that name goes before the word.
    assert_eq!(reader.resolve("latest").unwrap(), node("latest", 5));
}

#[test]
fn an_ambiguous_prefix_lists_candidates_and_an_unknown_name_the_nearest() {
    let root = Root::of(&[
        record("shakespeare", 0, 1, &[]),
        record("shakespeare", 5, 2, &[]),
        record("shakespeare", 9, 1, &[]).nonce("older"),
        record("shake", 0, 0, &[]),
    ]);
    let reader = root.reader();
    let prefix = &node("shakespeare", 0).address().to_string()[..10];
    let error = reader.resolve(prefix).unwrap_err();
    let ResolveError::Ambiguous { count, candidates, .. } = &error else { panic!("{error}") };
    assert_eq!((*count, candidates.len()), (3, 3));
    assert!(error.to_string().contains(node("shakespeare", 5).address().as_str()), "{error}");
    // Too short to be looked for.
    assert!(matches!(reader.resolve(&prefix[..7]).unwrap_err(), ResolveError::Unknown { .. }));

    let nearest = |text: &str| match reader.resolve(text).unwrap_err() {
        ResolveError::Unknown { nearest, .. } => nearest,
        error => panic!("{error}"),
    };
    assert_eq!(nearest("shakespear"), ["shakespeare", "shake"]);
    assert_eq!(nearest("shakespear:3"), ["shakespeare", "shake"]);
    assert_eq!(nearest("shakespeare:3"), ["shakespeare:0", "shakespeare:5"]);
    assert_eq!(nearest("shakespeare:9"), ["shakespeare:5", "shakespeare@older:9"]);
    assert_eq!(nearest("shakespeare@older:10"), ["shakespeare@older:9"]);
    let text = reader.resolve("shakespear").unwrap_err().to_string();
    assert_eq!(text, "there is no node `shakespear`; nearest: `shakespeare`, `shake`");
}

#[test]
fn nearest_checkpoints_are_ancestors_first() {
    let marked = || (CHECKPOINT, Scalar::Bool(true));
    let child_of = |parent: waycairn_dag::Node| (PARENT, Scalar::from(parent.address().as_str()));
    let root = Root::of(&[
        record("base", 0, 1, &[marked()]),
        record("base", 1, 2, &[child_of(node("base", 0)), marked()]),
        record("base", 2, 3, &[child_of(node("base", 1)), marked()]),
        record("warm", 0, 4, &[child_of(node("base", 1))]),
        record("warm", 1, 5, &[child_of(node("warm", 0))]),
        record("warm", 4, 6, &[marked()]),
        record("warm", 9, 7, &[marked()]),
    ]);
    let folder = |node: waycairn_dag::Node| {
        root.path().join("objects/blobs").join(node.address().as_str()).join("checkpoint")
    };
    for node in [node("base", 0), node("base", 1), node("warm", 4), node("warm", 9)] {
        std::fs::create_dir_all(folder(node)).unwrap();
    }
    let nearest = || root.reader().nearest_checkpoints(&node("warm", 1)).unwrap();
    assert_eq!(nearest(), [node("base", 1), node("base", 0), node("warm", 4), node("warm", 9)]);
    for gone in [node("base", 1), node("warm", 4)] {
        std::fs::remove_dir(folder(gone)).unwrap();
    }
    assert_eq!(nearest(), [node("base", 0), node("warm", 9)], "what is marked and gone is not named");
    assert!(root.reader().nearest_checkpoints(&node("nobody", 1)).unwrap().is_empty());
}

#[test]
fn a_node_shows_its_artifacts_and_who_attached_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = ObjectStore::open(folder.path(), StoreOptions::default()).unwrap();
    let at = node("r", 3);
    store.value(&at, &[("loss", 0.5.into())]).unwrap();
    store.artifact(&at, "notes", &[("lines", 2_i64.into())], &vec!["one", "two"]).unwrap();
    let attachment = crate::Attachment {
        artifacts: vec![("summary".to_owned(), rmp_serde::to_vec(&7_u8).unwrap())],
        files: vec![("summary.table.json".to_owned(), b"{}".to_vec())],
        fields: vec![
            ("summary/mean".to_owned(), 1.5.into()),
            ("summary/plugin".to_owned(), "waycairn-summary".into()),
            ("summary/plugin_version".to_owned(), "0.1.0".into()),
        ],
    };
    store.attach(&at, attachment).unwrap();
    store.close().unwrap();
    let reader = store.reader();
    let view = reader.node(&at).unwrap().unwrap();
    let shown: Vec<(&str, u64, Option<&str>, Option<&str>)> = view
        .artifacts
        .iter()
        .map(|info| {
            (info.suffix.as_str(), info.bytes, info.plugin.as_deref(), info.plugin_version.as_deref())
        })
        .collect();
    assert_eq!(shown, [("notes", 9, None, None), ("summary", 1, Some("waycairn-summary"), Some("0.1.0"))]);
    assert!(view.artifacts.iter().all(|info| info.written.is_some()));
    assert_eq!(view.files, [("summary.table.json".to_owned(), 2)]);
    assert_eq!(view.fields["notes/lines"], Scalar::Int(2));
    assert!(view.checkpoint.is_none());
    assert_eq!(reader.artifact(&at, "notes").unwrap().decode::<Vec<String>>().unwrap(), ["one", "two"]);
    assert_eq!(reader.artifact(&at, "summary").unwrap().value().unwrap(), rmpv::Value::from(7));
    let error = reader.artifact(&at, "sumary").unwrap_err();
    assert_eq!(error.to_string(), "r@n:3 has no artifact `sumary`; nearest: `summary`");

    // A damaged payload is an error of its own and hides nothing.
    let path = reader.artifact(&at, "notes").unwrap().path().to_owned();
    super::scope::overwrite(&path, &[0x92, 0xa3]);
    let damaged = reader.artifact(&at, "notes").unwrap();
    let error = damaged.value().unwrap_err();
    assert!(error.to_string().contains("notes.msgpack"), "{error}");
    assert!(damaged.decode::<Vec<String>>().is_err());
    assert_eq!(reader.artifacts(&at).unwrap().len(), 2);
    std::fs::remove_file(&path).unwrap();
    assert!(reader.artifact(&at, "notes").unwrap_err().to_string().contains("missing"));
    assert_eq!(reader.artifacts(&at).unwrap().len(), 1);
}

#[test]
fn unannounced_files_are_no_artifacts() {
    let address = node("r", 0).address();
    let root =
        Root::of(&[record("r", 0, 1, &[(RECORD, Scalar::Bool(true)), (BLOB, address.as_str().into())])]);
    let blob = root.path().join("objects/blobs").join(address.as_str());
    std::fs::create_dir_all(blob.join("checkpoint")).unwrap();
    for name in ["stray.msgpack", ".tmp-1-x", "nodespec.json", "figure.svg"] {
        waycairn_durable::write_file(&blob.join(name), b"12", waycairn_durable::Durability::Regenerable)
            .unwrap();
    }
    let view = root.reader().node(&node("r", 0)).unwrap().unwrap();
    assert!(view.artifacts.is_empty() && view.checkpoint.is_none());
    assert_eq!(view.files, [("figure.svg".to_owned(), 2)]);
    // Without a record that announces files, there are none.
    let bare = Root::of(&[record("r", 0, 1, &[(BLOB, address.as_str().into())])]);
    let blob = bare.path().join("objects/blobs").join(address.as_str());
    std::fs::create_dir_all(&blob).unwrap();
    waycairn_durable::write_file(&blob.join("figure.svg"), b"1", waycairn_durable::Durability::Regenerable)
        .unwrap();
    assert!(bare.reader().node(&node("r", 0)).unwrap().unwrap().files.is_empty());
}

/// The footers tell where parents lie, and what they leave out has none of them.
#[test]
fn children_are_found_in_the_parts_whose_footers_have_room_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let nodes =
        |run: u64, seq: u64| waycairn_dag::Node::new(&format!("run-{run}"), "0123456789abcdef", seq).unwrap();
    for run in 0..6 {
        let store = crate::ObjectStore::open(folder.path(), crate::StoreOptions::default()).unwrap();
        for seq in 0..5 {
            // Each run begins at a node of the one before.
            let parent = match (seq, run) {
                (0, 0) => None,
                (0, run) => Some(nodes(run - 1, 3)),
                (seq, run) => Some(nodes(run, seq - 1)),
            };
            store.value(&nodes(run, seq).with_parent(parent.map(|parent| parent.address())), &[]).unwrap();
        }
        store.close().unwrap();
    }
    let reader = crate::ObjectReader::open(folder.path()).unwrap();
    let children = |node: &waycairn_dag::Node| reader.node(node).unwrap().unwrap().children;
    for run in 0..6 {
        for seq in 0..5 {
            let mut expected = Vec::new();
            expected.extend((seq < 4).then(|| nodes(run, seq + 1)));
            expected.extend((seq == 3 && run < 5).then(|| nodes(run + 1, 0)));
            expected.sort_by_key(|node| node.address());
            assert_eq!(children(&nodes(run, seq)), expected, "run-{run}:{seq}");
        }
    }
    let set = crate::listing::list(&crate::part::values_folder(folder.path()), crate::Freshness::Published)
        .unwrap();
    let told: Vec<usize> = set.parts.iter().map(|part| part.parents.as_ref().unwrap().len()).collect();
    assert_eq!(told.iter().sum::<usize>(), 1 + 5 * 2);
    // Merged, they tell it together.
    crate::compact_root(folder.path()).unwrap();
    assert_eq!(children(&nodes(2, 3)), {
        let mut both = vec![nodes(2, 4), nodes(3, 0)];
        both.sort_by_key(|node| node.address());
        both
    });
}
