//! Which checkpoints stay while a run goes on.

use super::*;

/// The positions that have a checkpoint's folder.
fn folders(root: &Path, report: &TrainReport) -> Vec<u64> {
    let folder = |seq: &u64| {
        let address = report.node.at(*seq).unwrap().address();
        root.join("objects/blobs").join(address.as_str()).join("checkpoint").is_dir()
    };
    (0..=report.node.seq()).filter(folder).collect()
}

#[test]
fn train_5_the_newest_checkpoints_stay_and_no_number_changes() {
    let rig = Rig::new();
    let all = run(&rig.request("all", &[("steps", "12")]));
    let kept = run(&rig.request("kept", &[("steps", "12"), ("keep_last", "2")]));
    let (all_root, kept_root) = (rig.root("all"), rig.root("kept"));
    assert_eq!(checkpoints(&all_root, &all), [1, 3, 5, 7, 9, 11]);
    assert_eq!(checkpoints(&kept_root, &kept), [9, 11]);
    assert_eq!(folders(&kept_root, &kept), [9, 11]);
    assert_eq!(computed(&kept_root, "run"), computed(&all_root, "run"));
    assert_eq!(final_weights(&kept_root, &kept), final_weights(&all_root, &all));
    // What else was recorded at a node stays, and the newest node is still the newest.
    let first = kept.node.at(1).unwrap();
    assert!(field(&kept_root, &first, "data/batch_sha256").is_some());
    let reader = ObjectReader::open(&kept_root).unwrap();
    assert_eq!(reader.resolve("latest").unwrap(), kept.node);
    assert!(reader.node(&first).unwrap().unwrap().checkpoint.is_none());
}

#[test]
fn f21_the_next_checkpoint_is_there_before_the_last_one_goes() {
    let rig = Rig::new();
    let request = rig.request("kept", &[("steps", "40"), ("checkpoint_every", "1"), ("keep_last", "1")]);
    let root = rig.root("kept");
    let newest = || {
        let runs = ObjectReader::open(&root).ok()?.runs().ok()?;
        runs.first()?.checkpoints.last().copied()
    };
    let mut seen = Vec::new();
    std::thread::scope(|scope| {
        let training = scope.spawn(|| run(&request));
        while !training.is_finished() {
            // Whenever the run is killed, one is there to go on from.
            match (newest(), seen.last()) {
                (None, None) => {}
                (Some(now), before) if before.is_none_or(|before| *before <= now) => seen.push(now),
                (now, before) => panic!("{now:?} after {before:?}"),
            }
        }
    });
    seen.dedup();
    assert!(seen.len() > 2, "{seen:?}");
    assert_eq!(newest(), Some(39));
}

#[test]
fn train_5_a_run_that_is_stopped_keeps_what_it_goes_on_from() {
    let rig = Rig::new();
    let sets = [("steps", "12"), ("keep_last", "1")];
    let whole = run(&rig.request("whole", &sets));
    let request = rig.request("stopped", &sets);
    let root = rig.root("stopped");
    for step in [1, 3, 4, 7] {
        let report = run_until(&request, step);
        assert_eq!(checkpoints(&root, &report), [step - 1], "after step {step}");
    }
    let report = run(&request);
    assert_eq!(folders(&root, &report), [11]);
    assert_eq!(final_weights(&root, &report), final_weights(&rig.root("whole"), &whole));
    assert_eq!(computed(&root, "run"), computed(&rig.root("whole"), "run"));
}

#[test]
fn train_5_bases_of_branches_and_nodes_with_artifacts_stay() {
    let rig = Rig::new();
    let sets = [("steps", "12"), ("keep_last", "1")];
    let request = rig.request("a", &sets);
    let root = rig.root("a");
    let branched = run_until(&request, 2);
    let mut branch = rig.request("a", &[("steps", "5")]);
    branch.name = Some("branch".to_owned());
    branch.base = Base::Branch(branched.node.clone());
    run(&branch);
    let attached = run_until(&request, 5);
    assert_eq!(checkpoints(&root, &attached), [1, 4], "the base of the branch stayed");
    let store = ObjectStore::open(&root, StoreOptions::default()).unwrap();
    store.artifact(&attached.node, "summary", &[], &1).unwrap();
    store.close().unwrap();
    let report = run(&request);
    assert_eq!(checkpoints(&root, &report), [1, 4, 11]);
    assert_eq!(folders(&root, &report), [1, 4, 11]);
}

#[test]
fn train_5_a_base_stays_where_damage_hides_its_branch() {
    let rig = Rig::new();
    let request = rig.request("a", &[("steps", "12"), ("keep_last", "1")]);
    let values = rig.root("a").join("objects").join("values");
    let parts = || -> Vec<PathBuf> {
        std::fs::read_dir(&values).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let branched = run_until(&request, 2);
    let before = parts();
    let mut branch = rig.request("a", &[("steps", "5")]);
    branch.name = Some("branch".to_owned());
    branch.base = Base::Branch(branched.node);
    run(&branch);
    for part in parts().iter().filter(|part| !before.contains(part)) {
        // All data of the part; its footer still tells which runs it has, and which parents.
        let mut bytes = std::fs::read(part).unwrap();
        let end = bytes.len() - 8;
        let footer = u32::from_le_bytes(*bytes[end..].first_chunk().unwrap()) as usize;
        bytes[4..end - footer].fill(0xff);
        std::fs::write(part, bytes).unwrap();
    }
    let report = run(&request);
    // The footer tells still which nodes are parents in it, so the base stays, and what is no base need not.
    assert_eq!(folders(&rig.root("a"), &report), [1, 11]);
}

#[test]
fn train_5_every_nth_and_the_best_stay() {
    let rig = Rig::new();
    let every = run(&rig.request("every", &[("steps", "11"), ("keep_every", "4")]));
    assert_eq!(checkpoints(&rig.root("every"), &every), [3, 7, 10], "steps 4 and 8, and the newest");

    let sets = [("steps", "12"), ("eval_every", "2"), ("learning_rate", "0.5"), ("warmup", "0")];
    let best = run(&rig.request("best", &[&sets[..], &[("keep_best", "2")]].concat()));
    let root = rig.root("best");
    let reader = ObjectReader::open(&root).unwrap();
    let rows = reader.query().has("val/loss").select(&["val/loss"]).unwrap().value;
    let mut ranked: Vec<(f64, u64)> = rows
        .iter()
        .map(|row| match row.fields["val/loss"] {
            Scalar::Float(loss) => (loss, row.node.seq()),
            _ => panic!("a loss is a float"),
        })
        .collect();
    assert_eq!(ranked.len(), 6);
    ranked.sort_by(|one, other| one.0.total_cmp(&other.0).then(other.1.cmp(&one.1)));
    let mut expected: Vec<u64> = ranked.iter().take(2).map(|(_, seq)| *seq).chain([11]).collect();
    expected.sort_unstable();
    expected.dedup();
    assert_eq!(checkpoints(&root, &best), expected);

    // A field that is not recorded ranks nothing, and nothing is deleted over it.
    let mut notices = Vec::new();
    let mut progress = |event: &Event<'_>| {
        if let Event::Notice(text) = event {
            notices.push((*text).to_owned());
        }
    };
    let request = rig.request("none", &[("keep_best", "3 eval/accuracy max")]);
    let none = train(&crate::experiments![Gpt], &request, &Stop::new(), &mut progress).unwrap();
    assert_eq!(checkpoints(&rig.root("none"), &none), [1, 3, 5]);
    assert_eq!(notices.len(), 1, "once: {notices:?}");
    assert!(notices[0].contains("in the field `eval/accuracy`"), "{notices:?}");
}

#[test]
fn train_5_a_rule_that_can_keep_nothing_is_refused_at_once() {
    let rig = Rig::new();
    let error = fail(&rig.request("a", &[("keep_best", "2"), ("eval_every", "off")]));
    assert!(error.to_string().contains("keep_best"), "{error}");
    let error = fail(&rig.request("a", &[("keep_best", "1 _x_seq min")]));
    assert_eq!(error.code(), "usage");
    assert!(error.to_string().contains("`_x_seq` is reserved"), "{error}");
    let error = fail(&rig.request("a", &[("keep_last", "0")]));
    assert!(matches!(error, TrainError::Settings(SettingsError::BadValue { .. })), "{error}");
    assert!(!rig.root("a").exists());
}

/// Names of the lock files by which readers hold the checkpoints of a run.
fn hold_files(root: &Path) -> usize {
    let names = std::fs::read_dir(root.join("locks")).unwrap();
    names.filter(|name| name.as_ref().unwrap().file_name().to_string_lossy().starts_with("hold-")).count()
}

#[test]
fn train_6_an_open_checkpoint_is_withdrawn_after_it_is_let_go() {
    let rig = Rig::new();
    let request = rig.request("a", &[("steps", "12"), ("keep_last", "1")]);
    let root = rig.root("a");
    let base = run_until(&request, 2);
    let reader = ObjectReader::open(&root).unwrap();
    let open = restore::open(&reader, &base.node, Depth::Whole).unwrap();
    let more = run_until(&request, 5);
    assert_eq!(
        folders(&root, &more),
        [1, 3, 4],
        "nothing of the run goes while one of its checkpoints is read"
    );
    assert_eq!(hold_files(&root), 1);
    drop(open);
    let rest = run(&request);
    assert_eq!(folders(&root, &rest), [11]);
    let error = restore::open(&reader, &base.node, Depth::Whole).unwrap_err();
    assert!(matches!(error, TrainError::NoCheckpoint { .. }), "{error:?}");

    // A run that withdraws nothing has such a file too, for whoever removes it; reading makes none.
    let all = run(&rig.request("all", &[]));
    let locks = rig.root("all").join("locks");
    assert_eq!(hold_files(&rig.root("all")), 1);
    std::fs::remove_dir_all(&locks).unwrap();
    std::fs::create_dir(&locks).unwrap();
    let reader = ObjectReader::open(&rig.root("all")).unwrap();
    drop(restore::open(&reader, &all.node, Depth::Whole).unwrap());
    assert_eq!(hold_files(&rig.root("all")), 0);
}

#[test]
fn train_6_a_branch_holds_its_base_until_it_is_recorded() {
    let rig = Rig::new();
    let root = rig.root("a");
    let base = run_until(&rig.request("a", &[("steps", "12"), ("keep_last", "1")]), 2).node;
    let mut branch = rig.request("a", &[("steps", "5")]);
    branch.name = Some("branch".to_owned());
    branch.base = Base::Branch(base.clone());
    let mut seen = Vec::new();
    let mut progress = |event: &Event<'_>| {
        let free = || hold::alone(&root, &base).unwrap().is_some();
        let recorded = || {
            let view = ObjectReader::open(&root).unwrap().node(&base).unwrap().unwrap();
            view.children.iter().any(|child| child.name() == "branch")
        };
        match event {
            Event::Started { .. } => seen.push((free(), recorded())),
            Event::Step { step: 3, .. } => seen.push((free(), recorded())),
            _ => {}
        }
    };
    train(&crate::experiments![Gpt], &branch, &Stop::new(), &mut progress).unwrap();
    assert_eq!(seen, [(false, false), (true, true)]);
}

#[test]
fn a_checkpoint_that_went_while_it_was_read_is_not_called_damaged() {
    use crate::checkpoint::CheckpointError;
    let rig = Rig::new();
    let report = run(&rig.request("a", &[("keep_last", "1")]));
    let reader = ObjectReader::open(&rig.root("a")).unwrap();
    let fault = |seq| {
        let missing = CheckpointError::Missing { path: "manifest.json".into() };
        restore::damaged(&reader, &report.node.at(seq).unwrap(), missing)
    };
    let gone = fault(3);
    assert_eq!(gone.code(), "no_checkpoint");
    assert!(gone.to_string().ends_with(":3` was withdrawn meanwhile: its run does not keep it"), "{gone}");
    assert_eq!(gone.next().unwrap(), format!("the nearest with one: `{}`", report.node));
    assert_eq!(fault(5).code(), "corrupt");
}
