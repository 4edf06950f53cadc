//! Checkpoints that are damaged, left over, misplaced, or of another model.

use super::*;
use crate::checkpoint::{CheckpointError, MODEL, OPTIMIZER, STATE};

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
    let report = run(&rig.request("a", &[("steps", "2")]));
    let mut branch = TrainRequest::new(rig.root("a"));
    branch.base = Base::Branch(report.node);
    branch.sets = vec![("steps".to_owned(), "3".to_owned()), ("model.layers".to_owned(), "2".to_owned())];
    let error = fail(&branch);
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("blocks.1.attention.qkv.weight"), "{source}");
    assert!(error.next().unwrap().contains("--partial"));
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
