//! What a run does at its nodes, and what it records there.

use super::*;
use crate::data::{Reading, Source, TextData};
use crate::origin::base_settings;

#[test]
fn a_fresh_run_records_what_the_names_promise() {
    let rig = Rig::new();
    let report = run(&rig.request("a", &[]));
    assert_eq!((report.status, report.steps), (Status::Finished, 6));
    assert_eq!((report.updates, report.ticks), (6, 5));
    assert_eq!(report.node.seq(), 5);
    assert_eq!(report.checkpoint.as_ref(), Some(&report.node));
    let root = rig.root("a");
    let reader = ObjectReader::open(&root).unwrap();
    let view = reader.node(&report.node).unwrap().unwrap();
    for key in [
        "train/loss",
        "train/learning_rate",
        "train/grad_norm",
        "train/step",
        "train/tokens",
        "train/rate",
        "time/data",
        "time/compute",
        "time/update",
        "time/record",
        "data/batch_sha256",
        "model/sha256",
    ] {
        assert!(view.fields.contains_key(key), "{key}");
    }
    assert!(view.finished);
    assert_eq!(view.fields["train/tokens"], Scalar::Int(6 * 4 * 8));
    let checkpoint = view.checkpoint.unwrap();
    assert!(checkpoint.complete);
    let names: Vec<&str> = checkpoint.files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "config.toml",
            "job.json",
            "manifest.json",
            "model.safetensors",
            "optimizer.safetensors",
            "rng.npy",
            "state.json",
            "tokenizer.json"
        ]
    );
    let first = report.node.at(0).unwrap();
    assert!(
        matches!(field(&root, &first, "job/settings_sha256"), Some(Scalar::Text(text)) if text.len() == 64)
    );
    assert_eq!(field(&root, &first, "job/base"), Some(Scalar::Text("none".to_owned())));
    assert_eq!(reader.runs().unwrap()[0].job.as_deref(), Some("gpt@1"));
}

#[test]
fn training_case_02_what_is_done_is_not_done_again() {
    let rig = Rig::new();
    let whole = run(&rig.request("whole", &[]));
    let expected = computed(&rig.root("whole"), "run");
    assert_eq!(checkpoints(&rig.root("whole"), &whole), [1, 3, 5]);

    // 2 of 6 steps are done, then 6 of 6.
    let request = rig.request("parts", &[]);
    let begun = run_until(&request, 2);
    assert_eq!((begun.status, begun.steps, begun.updates, begun.ticks), (Status::Stopped, 2, 2, 1));
    let rest = run(&request);
    assert_eq!((rest.status, rest.steps, rest.updates, rest.ticks), (Status::Finished, 6, 4, 4));
    assert_eq!(rest.resumed_from.as_ref(), Some(&begun.node));
    assert!(rest.node.same_run(&begun.node));
    assert_eq!(computed(&rig.root("parts"), "run"), expected);
    assert_eq!(checkpoints(&rig.root("parts"), &rest), [1, 3, 5]);
    assert_eq!(final_weights(&rig.root("parts"), &rest), final_weights(&rig.root("whole"), &whole));

    let again = run(&request);
    assert_eq!((again.status, again.updates, again.ticks), (Status::Skipped, 0, 0));
    assert_eq!(again.node, rest.node);
    assert_eq!(computed(&rig.root("parts"), "run"), expected);
}

#[test]
fn the_time_left_counts_all_that_a_step_takes() {
    let rig = Rig::new();
    let pause = std::time::Duration::from_millis(60);
    let mut told = Vec::new();
    let mut progress = |event: &Event<'_>| match event {
        Event::Saving { .. } => std::thread::sleep(pause),
        Event::Step { step, left, .. } => told.push((*step, *left)),
        _ => {}
    };
    let request = rig.request("a", &[("checkpoint_every", "1")]);
    train(&crate::experiments![Gpt], &request, &Stop::new(), &mut progress).unwrap();
    // Two checkpoints are behind the third of six steps.
    let (_, left) = told[2];
    assert!(told[2].0 == 3 && left >= pause * 2, "{told:?}");
}

#[test]
fn training_case_02_all_is_done_and_only_the_finish_marker_is_missing() {
    let rig = Rig::new();
    let request = rig.request("a", &[]);
    // The launch dies when the last checkpoint is complete, before it says that the run is finished.
    let died = std::panic::catch_unwind(|| {
        let mut progress = |event: &Event<'_>| {
            if matches!(event, Event::Saved { node, .. } if node.seq() == 5) {
                panic!("the launch dies here");
            }
        };
        train(&crate::experiments![Gpt], &request, &Stop::new(), &mut progress)
    });
    assert!(died.is_err());
    let root = rig.root("a");
    let reader = ObjectReader::open(&root).unwrap();
    let left = reader.runs().unwrap().remove(0);
    assert_eq!((left.last.seq(), left.checkpoints.as_slice(), left.finished), (5, &[1, 3, 5][..], false));
    let count = || {
        let counts = reader.sql("select count(*), count(\"_x_finished\") from records").unwrap();
        counts.rows().next().unwrap()
    };
    let before = count();
    assert_eq!(before[1], Scalar::Int(0));

    // The next launch says it, and does nothing else.
    let rest = run(&request);
    assert_eq!((rest.status, rest.steps, rest.updates, rest.ticks), (Status::Finished, 6, 0, 0));
    assert_eq!((rest.resumed_from.as_ref(), rest.checkpoint.as_ref()), (Some(&left.last), Some(&left.last)));
    assert_eq!(rest.node, left.last);
    let Scalar::Int(records) = before[0] else { panic!("{before:?}") };
    assert_eq!(count(), [Scalar::Int(records + 1), Scalar::Int(1)]);
    assert!(reader.runs().unwrap().remove(0).finished);
    let whole = run(&rig.request("whole", &[]));
    assert_eq!(computed(&root, "run"), computed(&rig.root("whole"), "run"));
    assert_eq!(final_weights(&root, &rest), final_weights(&rig.root("whole"), &whole));
    assert_eq!(run(&request).status, Status::Skipped);
}

#[test]
fn train_1_a_branch_is_a_run_of_its_own_and_a_resume_is_not() {
    let rig = Rig::new();
    let stopped = run_until(&rig.request("a", &[]), 3);
    let mut branch = TrainRequest::new(rig.root("a"));
    branch.base = Base::Branch(stopped.node.clone());
    branch.sets = vec![("learning_rate".to_owned(), "3e-3".to_owned())];
    let branched = run(&branch);
    // The base's name is the default, and the nonce tells the two apart.
    assert_eq!((branched.node.name(), branched.node.seq()), ("run", 2));
    assert_ne!(branched.node.nonce(), stopped.node.nonce());
    let reader = ObjectReader::open(&rig.root("a")).unwrap();
    let first = branched.node.at(0).unwrap();
    assert_eq!(reader.parents(&first).unwrap().first(), Some(&stopped.node));

    let mut resume = TrainRequest::new(rig.root("a"));
    resume.base = Base::Resume(stopped.node.clone());
    let resumed = run(&resume);
    assert!(resumed.node.same_run(&stopped.node));
    assert_eq!((resumed.node.seq(), resumed.resumed_from.as_ref()), (5, Some(&stopped.node)));
    let next = stopped.node.at(3).unwrap();
    assert_eq!(reader.parents(&next).unwrap(), [stopped.node]);
}

#[test]
fn training_case_03_a_branch_has_its_base_as_parent_and_begins_at_zero() {
    let rig = Rig::new();
    let request = rig.request("a", &[("steps", "2"), ("checkpoint_every", "1")]);
    let report = run(&request);
    assert_eq!(checkpoints(&rig.root("a"), &report), [0, 1]);
    let mut branch = TrainRequest::new(rig.root("a"));
    branch.base = Base::Branch(report.node.clone());
    branch.name = Some("warmer".to_owned());
    branch.sets = vec![("steps".to_owned(), "3".to_owned()), ("learning_rate".to_owned(), "3e-3".to_owned())];
    let branched = run(&branch);
    assert_eq!((branched.node.name(), branched.node.seq()), ("warmer", 0));
    assert_eq!((branched.steps, branched.updates, branched.ticks), (3, 1, 0));
    let reader = ObjectReader::open(&rig.root("a")).unwrap();
    assert_eq!(reader.parents(&branched.node).unwrap().first(), Some(&report.node));
    assert_eq!(field(&rig.root("a"), &branched.node, "train/step"), Some(Scalar::Int(3)));
    let base = Scalar::Text(report.node.address().to_string());
    assert_eq!(field(&rig.root("a"), &branched.node, "job/base"), Some(base));
    // The same command again is the same run.
    let again = run(&branch);
    assert_eq!((again.status, again.node), (Status::Skipped, branched.node));
}

#[test]
fn training_case_04_checkpoint_and_validation_on_one_step_make_one_checkpoint() {
    let rig = Rig::new();
    let report = run(&rig.request("a", &[("eval_every", "2"), ("checkpoint_every", "2"), ("steps", "4")]));
    assert_eq!(checkpoints(&rig.root("a"), &report), [1, 3]);
    let reader = ObjectReader::open(&rig.root("a")).unwrap();
    let records = reader.sql("select count(*) from records where \"_x_checkpoint\"").unwrap();
    assert_eq!(records.rows().next().unwrap()[0], Scalar::Int(2));
}

#[test]
fn training_case_05_the_batch_of_every_checkpoint_can_be_had_again() {
    let rig = Rig::new();
    let request = rig.request("a", &[("checkpoint_every", "1"), ("eval_every", "1"), ("steps", "4")]);
    let report = run(&request);
    let root = rig.root("a");
    let reader = ObjectReader::open(&root).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for seq in 0..4 {
        let node = report.node.at(seq).unwrap();
        let checkpoint = restore::open(&reader, &node, Depth::Whole).unwrap();
        let loader = &checkpoint.state().loader;
        assert_eq!((loader.offset, loader.position), (0, seq));
        let settings = base_settings(&checkpoint, &crate::any_experiment::shared(Gpt)).unwrap();
        let source = Source::parse(settings.text("data.source").unwrap());
        let reading = Reading::Given(checkpoint.vocabulary().unwrap().clone());
        let data = Arc::new(TextData::open(&source, reading, 0.9).unwrap());
        let clock = waycairn_dag::Clock::new(node.clone());
        let stream = Arc::new(crate::language::stream(&settings, data).unwrap());
        assert_eq!(crate::data::Data::fingerprint(stream.as_ref()), &loader.fingerprint);
        let again = crate::data::Loader::new(stream, loader.offset, clock.view());
        let batch = again.batch();
        assert!(Arc::ptr_eq(&batch, &again.batch()));
        let text = batch.sha256().to_string();
        assert_eq!(field(&root, &node, "data/batch_sha256"), Some(Scalar::Text(text.clone())));
        seen.insert(text);
    }
    assert_eq!(seen.len(), 4);

    // Validation is the same however far training has gone: evaluate once, or at every step.
    let seldom = run(&rig.request("b", &[("checkpoint_every", "1"), ("eval_every", "4"), ("steps", "4")]));
    let value = |root: &str, node: &Node| field(&rig.root(root), node, "val/loss").unwrap();
    assert_eq!(value("b", &seldom.node), value("a", &report.node));
}

#[test]
fn a_branch_continues_the_data_stream_or_restarts_it() {
    let rig = Rig::new();
    let base = run(&rig.request("a", &[("steps", "2")]));
    let position = |data: &str, batch: &str| {
        let mut branch = TrainRequest::new(rig.root("a"));
        branch.base = Base::Branch(base.node.clone());
        branch.name = Some(format!("{data}-{batch}"));
        branch.sets = [("steps", "3"), ("branch_data", data), ("batch_size", batch)]
            .map(|(path, value)| (path.to_owned(), value.to_owned()))
            .to_vec();
        let report = run(&branch);
        let reader = ObjectReader::open(&rig.root("a")).unwrap();
        restore::open(&reader, &report.node, Depth::Whole).unwrap().state().loader.position
    };
    assert_eq!(position("continue", "2"), 2);
    assert_eq!(position("restart", "2"), 0);
    // Two batches of 4 examples are the first and a part of the second batch of 6.
    assert_eq!(position("continue", "3"), 2);
}

#[test]
fn a_loss_that_is_not_finite_stops_at_its_node_or_is_skipped() {
    let rig = Rig::new();
    let wild = [
        ("learning_rate", "1e38"),
        ("min_learning_rate", "1e38"),
        ("clip", "off"),
        ("warmup", "0"),
        ("steps", "20"),
    ];
    let error = fail(&rig.request("a", &wild));
    let TrainError::NotFinite { node, step, loss, norm, .. } = &error else { panic!("{error:?}") };
    assert!(!(loss.is_finite() && norm.is_finite()));
    assert_eq!(node.seq(), step - 1);
    let next = error.next().unwrap();
    assert!(next.contains("`clip` or `learning_rate`") && next.contains("on_nonfinite=skip"), "{next}");
    assert!(field(&rig.root("a"), node, "train/loss").is_some());

    let mut skip = wild.to_vec();
    skip.push(("on_nonfinite", "skip"));
    let report = run(&rig.request("b", &skip));
    assert_eq!(report.status, Status::Finished);
    assert!(report.skipped > 0, "{report:?}");
    let reader = ObjectReader::open(&rig.root("b")).unwrap();
    assert!(reader.query().has("train/skipped").count().unwrap().value > 0);
}
