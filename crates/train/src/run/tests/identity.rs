//! Which run a command means.

use super::*;

#[test]
fn resume_is_refused_where_it_would_mix_histories() {
    let rig = Rig::new();
    let request = rig.request("a", &[("checkpoint_every", "1")]);
    let stopped = run_until(&request, 3);
    let mut resume = TrainRequest::new(rig.root("a"));
    resume.base = Base::Resume(stopped.node.at(1).unwrap());
    let error = fail(&resume);
    let root = rig.root("a");
    let expected = format!(
        "begin a branch there: `waycairn train --root {} --branch {}`",
        root.display(),
        stopped.node.at(1).unwrap()
    );
    assert_eq!(error.next().unwrap(), expected);
    assert!(error.to_string().contains("newer checkpoint at seq 2"), "{error}");

    resume.base = Base::Resume(stopped.node.clone());
    resume.sets = vec![("learning_rate".to_owned(), "1.0".to_owned())];
    let error = fail(&resume);
    assert!(error.to_string().contains("other settings"));
    assert!(error.next().unwrap().ends_with(" --set learning_rate=1.0`"), "{:?}", error.next());

    resume.sets.clear();
    let rest = run(&resume);
    assert_eq!((rest.status, rest.updates, rest.ticks), (Status::Finished, 3, 3));
    resume.base = Base::Resume(rest.node.clone());
    let error = fail(&resume);
    assert!(error.to_string().contains("its run is finished"), "{error}");
    assert!(
        error.next().unwrap().ends_with(&format!("--branch {} --steps 12`", rest.node)),
        "{:?}",
        error.next()
    );
}

#[test]
fn a_run_without_a_checkpoint_begins_again_under_its_own_nonce() {
    let rig = Rig::new();
    let request = rig.request("a", &[]);
    let report = run_until(&request, 1);
    let reader = ObjectReader::open(&rig.root("a")).unwrap();
    std::fs::remove_dir_all(reader.checkpoint(&report.node).unwrap().unwrap()).unwrap();
    let again = run(&request);
    assert!(again.node.same_run(&report.node));
    assert_eq!((again.status, again.updates, again.resumed_from), (Status::Finished, 6, None));
}

#[test]
fn a_finished_run_is_skipped_where_nothing_can_be_written() {
    let rig = Rig::new();
    let request = rig.request("a", &[]);
    run(&request);
    // What a launch writes first; it is not made again.
    let (locks, format) = (rig.root("a").join("locks"), rig.root("a").join("FORMAT"));
    std::fs::remove_dir_all(&locks).unwrap();
    std::fs::remove_file(&format).unwrap();
    assert_eq!(run(&request).status, Status::Skipped);
    assert!(!locks.exists() && !format.exists());
}

#[test]
fn other_settings_and_fresh_make_new_runs_and_say_so() {
    let rig = Rig::new();
    let first = run(&rig.request("a", &[]));
    let mut notices = Vec::new();
    let other = rig.request("a", &[("learning_rate", "0.01")]);
    let mut progress = |event: &Event<'_>| {
        if let Event::Notice(text) = event {
            notices.push((*text).to_owned());
        }
    };
    let second = train(&crate::experiments![Gpt], &other, &Stop::new(), &mut progress).unwrap();
    assert!(!second.node.same_run(&first.node));
    assert_eq!(notices.len(), 1);
    assert!(notices[0].contains("learning_rate was 0.002, is 0.01"), "{notices:?}");
    let many = [("clip", "1"), ("warmup", "0"), ("seed", "5"), ("accumulate", "1"), ("batch_size", "4")];
    notices.clear();
    let mut progress = |event: &Event<'_>| {
        if let Event::Notice(text) = event {
            notices.push((*text).to_owned());
        }
    };
    train(&crate::experiments![Gpt], &rig.request("a", &many), &Stop::new(), &mut progress).unwrap();
    assert!(notices[0].ends_with("; and 2 more)"), "{notices:?}");
    let mut fresh = rig.request("a", &[]);
    fresh.fresh = true;
    let third = run(&fresh);
    assert!(!third.node.same_run(&first.node));
    // The newest run of equal settings is meant from now on.
    assert_eq!(run(&rig.request("a", &[])).node, third.node);
}

#[test]
fn a_second_launch_of_a_running_run_names_the_first() {
    let rig = Rig::new();
    let request = rig.request("a", &[]);
    let mut refusals = Vec::new();
    let second = request.clone();
    let mut progress = |event: &Event<'_>| {
        if matches!(event, Event::Step { step: 2, .. }) {
            refusals.push(fail(&second));
        }
    };
    train(&crate::experiments![Gpt], &request, &Stop::new(), &mut progress).unwrap();
    let text = refusals[0].to_string();
    assert_eq!(text, "the run `run` is being trained already");
    let why = refusals[0].why().unwrap();
    assert!(why.starts_with(&format!("it is held by process {} on `", std::process::id())), "{why}");
    assert_eq!(refusals[0].code(), "busy");
}

#[test]
fn a_branch_without_steps_left_says_what_to_do() {
    let rig = Rig::new();
    let report = run(&rig.request("a", &[("steps", "2")]));
    let mut branch = TrainRequest::new(rig.root("a"));
    branch.base = Base::Branch(report.node);
    let error = fail(&branch);
    assert!(error.to_string().ends_with("has done 2 steps, and `steps` is 2"), "{error}");
    assert_eq!(error.next().unwrap(), "ask for more than 2 with `--steps`");
}

#[test]
fn train_1_a_branch_goes_on_without_the_checkpoint_of_its_base() {
    let rig = Rig::new();
    // One checkpoint, or several: its settings are proven by another one of its run where there is one.
    for (root, every) in [("one", "off"), ("more", "2")] {
        let base = run(&rig.request(root, &[("checkpoint_every", every)])).node;
        let root = rig.root(root);
        let folder =
            |node: &Node| root.join("objects/blobs").join(node.address().as_str()).join("checkpoint");
        let branch = |name: &str, steps: &str| {
            let mut request = TrainRequest::new(&root);
            request.name = Some(name.to_owned());
            request.base = Base::Branch(base.clone());
            request.sets = [("steps", steps), ("learning_rate", "0.01"), ("checkpoint_every", "1")]
                .map(|(path, value)| (path.to_owned(), value.to_owned()))
                .into();
            request
        };
        let whole = run(&branch("whole", "9"));
        let request = branch("branch", "9");
        let stopped = run_until(&request, 7);
        std::fs::remove_dir_all(folder(&base)).unwrap();

        // Other settings would begin a new branch, and so would another name: there is nothing to begin at.
        for other in [branch("branch", "10"), branch("other", "9")] {
            let error = fail(&other);
            assert_eq!(error.code(), "no_checkpoint", "{error}");
            assert!(error.to_string().contains(&base.to_string()), "{error}");
        }
        let rest = run(&request);
        assert_eq!((rest.status, rest.updates), (Status::Finished, 2));
        assert_eq!(rest.resumed_from.as_ref(), Some(&stopped.node));
        assert_eq!(final_weights(&root, &rest), final_weights(&root, &whole));
        assert_eq!(run(&request).status, Status::Skipped);
        assert_eq!(
            crate::settings(&crate::experiments![Gpt], &request).unwrap().integer("steps").unwrap(),
            9
        );
    }
}

#[test]
fn a_finished_run_is_left_alone_although_its_text_is_gone() {
    let rig = Rig::new();
    let request = rig.request("one", &[]);
    let report = run(&request);
    std::fs::remove_file(rig.folder.path().join("text.txt")).unwrap();
    let again = run(&request);
    assert_eq!((again.status, again.node), (Status::Skipped, report.node));
    // What would be trained needs it, and nothing is written without it.
    let other = rig.request("other", &[]);
    assert_eq!(fail(&other).code(), "data");
    assert!(!rig.root("other").exists());
}
