//! Checkpoints that are damaged, left over, misplaced, or of another model.

use super::*;
use crate::any_experiment::{AnyExperiment, shared};
use crate::checkpoint::{CheckpointError, Contents, MODEL, OPTIMIZER, STATE};
use crate::data::{Loader, Reading, Source, TextData};
use crate::origin::base_settings;
use crate::restore::Want;
use crate::saver::{ENTRY, SaveError, Saver};

#[test]
fn training_case_11_a_damaged_checkpoint_is_named_and_an_older_one_suggested() {
    let rig = Rig::new();
    let request = rig.request("a", &[]);
    let stopped = run_until(&request, 4);
    let reader = ObjectReader::open(&rig.root("a")).unwrap();
    let folder = reader.checkpoint(&stopped.node).unwrap().unwrap();
    let older = stopped.node.at(1).unwrap();
    let check = |damage: &dyn Fn(&Path), expected: &str| {
        let file = folder.join(MODEL);
        let before = std::fs::read(&file).unwrap();
        damage(&folder);
        let error = fail(&request);
        assert_eq!(error.code(), "corrupt");
        let TrainError::Checkpoint { node, older: suggested, source, .. } = &error else {
            panic!("{error:?}");
        };
        assert_eq!((node, suggested.as_deref()), (&stopped.node, Some(&older)));
        assert!(source.to_string().contains(expected), "{source}");
        let command = format!("--branch {older} --name run --steps 6 --text ");
        assert!(error.next().unwrap().contains(&command), "{:?}", error.next());
        assert!(error.next().unwrap().contains(" --set clip=0.5"), "{:?}", error.next());
        std::fs::write(&file, before).unwrap();
    };
    for at in [0, 9, 200, 10_000] {
        let flip = move |folder: &Path| {
            let file = folder.join(MODEL);
            let mut bytes = std::fs::read(&file).unwrap();
            let at = at.min(bytes.len() - 1);
            bytes[at] ^= 1;
            std::fs::write(file, bytes).unwrap();
        };
        check(&flip, "model.safetensors` is damaged");
    }
    check(&|folder| std::fs::remove_file(folder.join(MODEL)).unwrap(), "model.safetensors` is missing");
    let cut = |folder: &Path| {
        let file = folder.join(MODEL);
        let bytes = std::fs::read(&file).unwrap();
        std::fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
    };
    check(&cut, "bytes, and its manifest says");

    // Every other file is guarded as well, the manifest by being the list.
    for name in [OPTIMIZER, STATE, "config.toml", "job.json", "rng.npy", "tokenizer.json", "manifest.json"] {
        let file = folder.join(name);
        let bytes = std::fs::read(&file).unwrap();
        let mut flipped = bytes.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 1;
        std::fs::write(&file, flipped).unwrap();
        let error = fail(&request);
        assert!(matches!(error, TrainError::Checkpoint { .. }), "{name}: {error:?}");
        std::fs::write(&file, bytes).unwrap();
    }
    assert_eq!(run(&request).status, Status::Finished);
}

#[test]
fn a_checkpoint_of_another_node_is_refused() {
    let rig = Rig::new();
    let request = rig.request("a", &[]);
    let stopped = run_until(&request, 4);
    let reader = ObjectReader::open(&rig.root("a")).unwrap();
    let folder = reader.checkpoint(&stopped.node).unwrap().unwrap();
    let other = reader.checkpoint(&stopped.node.at(1).unwrap()).unwrap().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    copy(&other, &folder);
    let error = fail(&request);
    assert!(
        matches!(&error, TrainError::Checkpoint { source, .. } if matches!(**source, CheckpointError::Malformed { .. }))
    );
}

#[test]
fn a_node_without_a_checkpoint_names_the_nearest() {
    let rig = Rig::new();
    let report = run(&rig.request("a", &[]));
    let mut branch = TrainRequest::new(rig.root("a"));
    branch.base = Base::Branch(report.node.at(4).unwrap());
    let error = fail(&branch);
    assert!(error.to_string().ends_with(":4` has no checkpoint"), "{error}");
    let nearest = report.node.at(3).unwrap();
    assert!(error.next().unwrap().starts_with(&format!("the nearest with one: `{nearest}`")));
}

#[test]
fn partial_takes_what_fits() {
    let rig = Rig::new();
    let report = run(&rig.request("a", &[("steps", "2"), ("checkpoint_every", "1")]));
    let mut branch = TrainRequest::new(rig.root("a"));
    branch.base = Base::Branch(report.node);
    branch.sets = vec![("steps".to_owned(), "3".to_owned()), ("model.layers".to_owned(), "2".to_owned())];
    let error = fail(&branch);
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("blocks.1."), "{source}");
    assert!(source.contains(", and ") && source.ends_with(" more") && source.len() < 400, "{source}");
    // Not an older checkpoint, which fits no better.
    assert_eq!(
        error.next().unwrap(),
        "leave the model as the checkpoint has it, with `model.layers = 1`, or use `--partial` to take what fits \
         and begin the rest anew"
    );
    branch.partial = true;
    let mut notices = String::new();
    let mut progress = |event: &Event<'_>| {
        if let Event::Notice(text) = event {
            notices.push_str(text);
        }
    };
    train(&crate::experiments![Gpt], &branch, &Stop::new(), &mut progress).unwrap();
    assert!(notices.contains("restored in part; not in the checkpoint: blocks.1."), "{notices}");
}

#[test]
fn train_3_a_marker_comes_with_every_earlier_record_and_not_before_the_save_is_complete() {
    let rig = Rig::new();
    let root = rig.root("a");
    let mut saved = Vec::new();
    let mut progress = |event: &Event<'_>| match event {
        // It cannot be complete: nobody has written it yet.
        Event::Saving { node, .. } => {
            let reader = ObjectReader::open(&root).unwrap();
            assert!(reader.checkpoint(node).unwrap().is_none());
        }
        // What another process sees now is what a loss of power would leave.
        Event::Saved { node, .. } => {
            let reader = ObjectReader::open(&root).unwrap();
            assert!(restore::open(&reader, node, Depth::Whole).is_ok());
            for seq in 0..=node.seq() {
                let view = reader.node(&node.at(seq).unwrap()).unwrap().unwrap();
                let step = i64::try_from(seq).unwrap() + 1;
                assert_eq!(view.fields["train/step"], Scalar::Int(step));
                assert!(view.fields.contains_key("train/loss"));
                assert_eq!(view.fields.contains_key("val/loss"), step == 4);
            }
            saved.push(node.seq());
        }
        _ => {}
    };
    train(&crate::experiments![Gpt], &rig.request("a", &[]), &Stop::new(), &mut progress).unwrap();
    assert_eq!(saved, [1, 3, 5]);
}

#[test]
fn train_3_a_marked_checkpoint_is_never_overwritten() {
    let rig = Rig::new();
    let report = run(&rig.request("a", &[]));
    let root = rig.root("a");
    let (here, other) = (report.node.clone(), report.node.at(3).unwrap());
    let reader = ObjectReader::open(&root).unwrap();
    let gpt = shared(Gpt);
    let store = Arc::new(ObjectStore::open(&root, StoreOptions::default()).unwrap());
    let mut saver = Saver::new(Arc::clone(&store), crate::retention::Retention::default());
    // Saves at `here` once more, with the tensors of the checkpoint of `from`.
    let mut save = |from: &Node| {
        let checkpoint = restore::open(&reader, from, Depth::Whole).unwrap();
        let settings = base_settings(&checkpoint, &gpt).unwrap();
        let vocabulary = checkpoint.vocabulary().unwrap();
        let compute = Compute::choose("cpu").unwrap();
        let mut learner = gpt.learner(&settings, vocabulary.len(), compute.device()).unwrap();
        restore::restore(&reader, from, &checkpoint, learner.as_mut(), Want::Everything).unwrap();
        let source = Source::parse(settings.text("data.source").unwrap());
        let data = TextData::open(&source, Reading::Given(vocabulary.clone()), 0.9).unwrap();
        let view = waycairn_dag::Clock::new(here.clone()).view();
        let stream = crate::language::stream(&settings, Arc::new(data)).unwrap();
        let batch = Loader::new(Arc::new(stream), 0, view).batch();
        let contents = Contents {
            snapshot: learner.snapshot(),
            state: checkpoint.state().clone(),
            seed: 1337,
            config: settings.to_toml(),
            tokenizer: Some(Arc::new(vocabulary.clone())),
            job: Arc::new(checkpoint.job().clone()),
        };
        saver.save(here.clone(), batch, contents).unwrap();
        saver.wait()
    };
    let folder = reader.checkpoint(&here).unwrap().unwrap();
    assert!(folder.ends_with(ENTRY));
    let bytes = || -> BTreeMap<PathBuf, Vec<u8>> {
        let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
    };
    let before = bytes();
    // The same tensors are the same checkpoint; others are refused. Neither touches what is there.
    save(&here).unwrap();
    assert_eq!(bytes(), before);
    let error = save(&other).unwrap_err();
    assert!(matches!(&error, SaveError::Different { node } if *node == here.to_string()), "{error:?}");
    assert_eq!(bytes(), before);
    assert!(restore::open(&reader, &here, Depth::Whole).is_ok());
    store.close().unwrap();
}

#[test]
fn weights_that_are_not_finite_are_named_when_sampled() {
    let rig = Rig::new();
    let wild = [("learning_rate", "1e38"), ("min_learning_rate", "1e38"), ("clip", "off"), ("warmup", "0")];
    // The loss of the only step is finite; what its update leaves is not.
    let report = run(&rig.request("a", &[&wild[..], &[("steps", "1"), ("eval_every", "off")]].concat()));
    let options = crate::SampleOptions { tokens: 4, ..crate::SampleOptions::default() };
    let error = crate::sample(&crate::experiments![Gpt], &rig.root("a"), &report.node, &options).unwrap_err();
    assert!(matches!(&error, TrainError::NotFiniteWeights { .. }), "{error:?}");
    assert!(error.to_string().contains("NaN or infinity"), "{error}");
}

/// The state that a kill between rename and marker leaves, made by hand.
#[test]
fn train_3_a_folder_without_a_marker_is_removed_and_made_again() {
    let rig = Rig::new();
    let request = rig.request("a", &[]);
    let stopped = run_until(&request, 2);
    let node = stopped.node.at(3).unwrap();
    let blobs = rig.root("a").join("objects").join("blobs");
    let stale = blobs.join(node.address().as_str()).join("checkpoint");
    copy(&blobs.join(stopped.node.address().as_str()).join("checkpoint"), &stale);
    std::fs::write(stale.join("leftover"), "x").unwrap();
    // It does not count: the run goes on at the marked one.
    let rest = run(&request);
    assert_eq!((rest.status, rest.resumed_from.as_ref()), (Status::Finished, Some(&stopped.node)));
    assert!(!stale.join("leftover").exists());
    let reader = ObjectReader::open(&rig.root("a")).unwrap();
    assert!(restore::open(&reader, &node, Depth::Whole).is_ok());
    let whole = run(&rig.request("whole", &[]));
    assert_eq!(final_weights(&rig.root("a"), &rest), final_weights(&rig.root("whole"), &whole));
}

#[test]
fn the_deep_check_reads_every_file_of_every_checkpoint_and_passes_over_what_is_none() {
    let rig = Rig::new();
    let stopped = run_until(&rig.request("a", &[]), 4);
    let root = rig.root("a");
    let reader = ObjectReader::open(&root).unwrap();
    let faults = || {
        let told = std::sync::Mutex::new((0, 0));
        let found = crate::Checkpoints::find(&root).unwrap();
        let (files, bytes) = (found.files(), found.bytes());
        let faults = found.check(&root, |files, bytes| {
            let mut told = told.lock().unwrap();
            *told = (told.0 + files, told.1 + bytes);
        });
        (faults, (files, bytes), told.into_inner().unwrap())
    };
    let (none, (files, bytes), told) = faults();
    assert_eq!(none, [], "two checkpoints are whole");
    assert_eq!((files, told), (16, (14, bytes)), "manifests are read before it is known how much there is");
    for node in [stopped.node.at(1).unwrap(), stopped.node.clone()] {
        let folder = reader.checkpoint(&node).unwrap().unwrap();
        for (name, says) in [
            (MODEL, "another digest"),
            (OPTIMIZER, "another digest"),
            ("config.toml", "another digest"),
            ("manifest.json", "it is not there, and a record says"),
        ] {
            let path = folder.join(name);
            let whole = std::fs::read(&path).unwrap();
            if name == "manifest.json" {
                std::fs::remove_file(&path).unwrap();
            } else {
                let mut bytes = whole.clone();
                *bytes.last_mut().unwrap() ^= 1;
                std::fs::write(&path, bytes).unwrap();
            }
            let (found, ..) = faults();
            let [fault] = &found[..] else { panic!("{name}: {found:?}") };
            assert_eq!(root.join(&fault.path), path);
            assert!(fault.what.contains(says), "{}", fault.what);
            std::fs::write(&path, whole).unwrap();
        }
    }
    // A folder that no record calls a checkpoint, and that has no manifest, was left by a process that died.
    let other = stopped.node.at(77).unwrap();
    let folder = root.join("objects/blobs").join(other.address().as_str()).join("checkpoint");
    std::fs::create_dir_all(folder).unwrap();
    assert_eq!(faults().0, []);
}
