#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use waycairn_durable::time;
use waycairn_train::{Base, Gpt, Stop, TrainRequest, experiments, train};

use super::*;
use crate::launch::{LaunchOptions, Stages, launch};
use crate::training::Training;
use crate::tree::Document;

const SMALL: [(&str, &str); 7] = [
    ("steps", "3"),
    ("batch_size", "2"),
    ("warmup", "1"),
    ("eval_every", "off"),
    ("checkpoint_every", "1"),
    ("data.context", "8"),
    ("model.layers", "1"),
];

/// Trains a run by hand.
fn by_hand(root: &Path, name: &str, base: Base) -> Node {
    let mut request = TrainRequest::new(root);
    request.name = Some(name.to_owned());
    if let Base::None = base {
        let sets = SMALL.into_iter().chain([("model.heads", "1"), ("model.width", "8")]);
        request.sets = sets.map(|(path, value)| (path.to_owned(), value.to_owned())).collect();
    } else {
        request.sets = vec![("steps".to_owned(), "5".to_owned())];
    }
    request.base = base;
    train(&experiments![Gpt], &request, &Stop::new(), &mut ()).unwrap().node
}

fn study(root: &Path) -> RecordedRun {
    let text = format!(
        "[base]\nsteps = 2\nbatch_size = 2\nwarmup = 1\neval_every = 'off'\ncheckpoint_every = 1\n\
         data = {{ context = 8 }}\nmodel = {{ layers = 1, heads = 1, width = 8 }}\noutput = '{}'\n",
        root.display()
    );
    let document = Document::parse(Path::new("settings_training.toml"), text).unwrap();
    let training = Training::resolve(&experiments![Gpt], document, None).unwrap();
    let options = LaunchOptions::default();
    launch(&experiments![Gpt], &training, Stages::Train, &options, &Stop::new(), &mut |_| ()).unwrap();
    RecordedRun::list(root).unwrap().remove(0)
}

fn refusal(error: StudyError) -> String {
    match error {
        StudyError::Kept { what, why, next } => format!("{what}; {why}; {next}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn rm_tells_first_and_then_removes_a_run_with_all_that_is_its() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let (gone, stays) = (by_hand(root, "gone", Base::None), by_hand(root, "stays", Base::None));
    let before = Size::of(root).unwrap();
    let told = plan_removal(root, "gone").unwrap();
    assert_eq!(Size::of(root).unwrap(), before, "a plan writes nothing");
    assert!(!told.removed && told.what == "run" && told.records > 3, "{told:?}");
    assert_eq!(told.items[0].item, "checkpoints");
    assert!(told.size.bytes > told.items[0].size.bytes && told.items[0].size.files > 10, "{told:?}");

    let done = remove(root, &format!("gone@{}", &gone.nonce()[..6])).unwrap();
    assert_eq!(done, RemovalPlan { removed: true, ..told });
    let reader = ObjectReader::open(root).unwrap();
    assert_eq!(reader.runs().unwrap().iter().map(|run| run.name.as_str()).collect::<Vec<_>>(), ["stays"]);
    assert!(reader.nodes_with_folders().unwrap().iter().all(|node| node.same_run(&stays)));
    assert!(matches!(remove(root, "gone"), Err(StudyError::NotFound { .. })));
    // Its name is free for another run.
    by_hand(root, "gone", Base::None);
    by_hand(root, "gone", Base::Branch(stays.clone()));
    let StudyError::NotFound { what, next } = plan_removal(root, "gone").unwrap_err() else { panic!() };
    assert!(what.contains("names 2 runs") && next.matches("gone@").count() == 2, "{what} {next}");
}

#[test]
fn rm_of_a_node_withdraws_its_checkpoint_alone() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let run = by_hand(root, "tiny", Base::None);
    let told = plan_removal(root, "tiny:1").unwrap();
    let address = run.at(1).unwrap().address().to_string();
    assert_eq!((told.what, told.node.as_deref(), told.records), ("checkpoint", Some(address.as_str()), 0));
    assert!(remove(root, &address).unwrap().size.bytes > 0);
    let reader = ObjectReader::open(root).unwrap();
    let there = [0, 1, 2].map(|seq| reader.checkpoint(&run.at(seq).unwrap()).unwrap().is_some());
    assert_eq!(there, [true, false, true]);
    assert!(reader.node(&run.at(1).unwrap()).unwrap().unwrap().checkpoint_withdrawn);
    let StudyError::NotFound { what, .. } = remove(root, "tiny:1").unwrap_err() else { panic!() };
    assert!(what.contains("has no checkpoint"), "{what}");
}

#[test]
fn rm_refuses_what_a_branch_a_pin_or_a_process_needs() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let base = by_hand(root, "base", Base::None);
    let branch = by_hand(root, "warmer", Base::Branch(base.at(1).unwrap()));
    let branch = format!("`warmer@{}`", branch.nonce());
    for text in ["base", "base:1"] {
        let why = refusal(remove(root, text).unwrap_err());
        assert!(why.contains("is the base of") && why.contains(&branch), "{why}");
    }
    // Another checkpoint of the run is nobody's base.
    assert!(remove(root, "base:0").unwrap().removed);

    let reader = ObjectReader::open(root).unwrap();
    let run = reader.resolve("warmer").unwrap();
    let taken = take_run(&reader, &run).unwrap();
    let why = refusal(plan_removal(root, "warmer").unwrap_err());
    assert!(why.contains("is being trained by process"), "{why}");
    assert!(matches!(
        remove(root, "warmer"),
        Err(StudyError::Train(waycairn_train::TrainError::Busy { .. }))
    ));
    drop(taken);

    let recorded = study(root);
    let cache = Cache::open(root).unwrap();
    let entry = crate::collect::entries_named(root, &recorded.run.name).unwrap().remove(0);
    cache.pin(&entry, "a figure", time::now_nanos()).unwrap();
    let why = refusal(remove(root, &recorded.run.name).unwrap_err());
    assert!(
        why.contains("is pinned") && why.contains(&format!("waycairn pin model/{}", entry.folder())),
        "{why}"
    );
    assert!(reader.runs_of(&recorded.run.name).unwrap().len() == 1 && root.join(&recorded.folder).is_dir());
    cache.unpin(&entry).unwrap();

    // By its folder; the model is named, and stays.
    let done = remove(root, &recorded.folder.to_string_lossy()).unwrap();
    assert_eq!(done.stays, [entry_path(&entry)]);
    assert!(done.items.iter().any(|item| recorded.folder.to_string_lossy() == item.item), "{done:?}");
    assert!(!root.join(&recorded.folder).exists() && reader.runs_of(&recorded.run.name).unwrap().is_empty());
    assert_eq!(cache.listing().unwrap().entries().count(), 1);
    // The next launch finds the model, and trains its nodes again; the one after that finds both.
    let again = study(root);
    assert_eq!((&again.folder, &again.artifacts), (&recorded.folder, &recorded.artifacts));
    assert_ne!(again.run.node, recorded.run.node);
    assert!(reader.checkpoint(&node_of(&again).unwrap()).unwrap().is_some());
    assert_eq!(study(root).run.node, again.run.node);
    assert!(remove(root, &again.run.name).unwrap().removed);
    // The branch goes, and then its base may.
    assert!(remove(root, "warmer").unwrap().removed && remove(root, "base").unwrap().removed);
    assert!(reader.runs().unwrap().is_empty() && reader.nodes_with_folders().unwrap().is_empty());
}

#[test]
fn rm_is_refused_while_a_study_is_launched_in_the_root() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    by_hand(root, "tiny", Base::None);
    let digest = waycairn_durable::Digest::of(b"a launch");
    let lease = crate::lease::Lease::join(root, digest, |_| ()).unwrap();
    assert!(matches!(remove(root, "tiny"), Err(StudyError::Busy { .. })));
    drop(lease);
    assert!(remove(root, "tiny").unwrap().removed);
}
