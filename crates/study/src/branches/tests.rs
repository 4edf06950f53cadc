#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;

#[test]
fn f34_only_what_nothing_at_all_keeps_is_dead() {
    for bits in 0_u8..128 {
        let bit = |index: u8| bits & (1 << index) != 0;
        let facts = Facts {
            study: bit(0),
            doubt: bit(1),
            run: bit(2),
            used: bit(3),
            pinned: bit(4),
            base: bit(5),
            young: bit(6),
        };
        assert_eq!(decide(facts).is_none(), bits == 1, "{facts:?}");
    }
}

use std::fs;

use waycairn_store::Attachment;
use waycairn_train::{Base, Gpt, Stop, TrainRequest, experiments};

use crate::launch::{LaunchOptions, Stages, launch};
use crate::training::Training;
use crate::tree::Document;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Trains a small study with a learning rate; returns its one run.
fn trained(root: &Path, rate: &str) -> Node {
    let text = format!(
        "[base]\nsteps = 3\nbatch_size = 2\nwarmup = 1\neval_every = 'off'\ncheckpoint_every = 1\n\
         data = {{ context = 8 }}\nmodel = {{ layers = 1, heads = 1, width = 8 }}\n\
         output = '{}'\nlearning_rate = {rate}\n",
        root.display()
    );
    let document = Document::parse(Path::new("settings_training.toml"), text).unwrap();
    let training = Training::resolve(&experiments![Gpt], document, None).unwrap();
    let options = LaunchOptions::default();
    launch(&experiments![Gpt], &training, Stages::Train, &options, &Stop::new(), &mut |_| ()).unwrap();
    ObjectReader::open(root).unwrap().runs().unwrap().remove(0).last
}

fn reasons(root: &Path, now: i64) -> BTreeMap<Node, Branch> {
    let first = |branch: Branch| (Node::new(&branch.name, &branch.nonce, 0).unwrap(), branch);
    plan(root, now, DAY).unwrap().into_iter().map(first).collect()
}

fn reason(planned: &BTreeMap<Node, Branch>, run: &Node) -> Reason {
    planned[&run.at(0).unwrap()].reason
}

#[test]
fn f34_dead_branches_are_listed_with_sizes_and_shared_ancestors_stay() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let now = time::now_nanos() + 2 * i64::try_from(DAY.as_nanos()).unwrap();
    let pinned = trained(root, "0.01");
    let cache = Cache::open(root).unwrap();
    for entry in crate::collect::entries_named(root, pinned.name()).unwrap() {
        cache.pin(&entry, "a figure", now).unwrap();
    }
    let [base, dead, used] = ["0.02", "0.03", "0.04"].map(|rate| trained(root, rate));
    let mut branch = TrainRequest::new(root);
    branch.base = Base::Branch(base.at(1).unwrap());
    branch.name = Some("warmer".to_owned());
    branch.sets = vec![("steps".to_owned(), "5".to_owned())];
    let branch = waycairn_train::train(&experiments![Gpt], &branch, &Stop::new(), &mut ()).unwrap().node;
    let [_, newest] = ["0.05", "0.06"].map(|rate| trained(root, rate));

    let planned = reasons(root, now);
    assert_eq!(planned.len(), 7);
    let told = [&pinned, &base, &dead, &used, &newest, &branch].map(|run| reason(&planned, run));
    assert_eq!(told, [Reason::Pinned, Reason::Base, Reason::Dead, Reason::Used, Reason::Run, Reason::Own]);
    let warmer = format!("warmer@{}", branch.nonce());
    assert_eq!(planned[&base.at(0).unwrap()].branches, [warmer]);
    let reader = ObjectReader::open(root).unwrap();
    let size: Size = (0..3).map(|seq| reader.checkpoint_size(&dead.at(seq).unwrap()).unwrap()).sum();
    let told = &planned[&dead.at(0).unwrap()];
    assert!(told.checkpoints == 3 && told.size == size && size.bytes > 1000, "{told:?}");
    assert_eq!(reason(&reasons(root, time::now_nanos()), &dead), Reason::Young);

    // What something is attached to stays; what is being trained does too.
    let store = ObjectStore::open(root, StoreOptions::default()).unwrap();
    let files = vec![("curve.svg".to_owned(), b"<svg/>".to_vec())];
    store.attach(&dead, Attachment { files, ..Attachment::default() }).unwrap();
    store.close().unwrap();
    let taken = take_run(&reader, &dead).unwrap();
    assert_eq!(reason(&reasons(root, now), &dead), Reason::Written);
    assert_eq!(collect(root, now, DAY).unwrap(), BranchReport::default());
    drop(taken);

    let before = reader.query().select_all().unwrap().value;
    let report = collect(root, now, DAY).unwrap();
    assert_eq!((report.removed.len(), report.removed[0].checkpoints), (1, 2));
    assert!(report.spared.is_empty() && report.size.bytes < size.bytes && report.size.bytes > 0);
    let there = |run: &Node| [0, 1, 2].map(|seq| reader.checkpoint(&run.at(seq).unwrap()).unwrap().is_some());
    assert_eq!(there(&dead), [false, false, true]);
    for run in [&pinned, &base, &used, &newest] {
        assert_eq!(there(run), [true; 3], "{run}");
    }
    let after = reader.query().select_all().unwrap().value;
    let fields = |rows: &[waycairn_store::NodeRow]| -> Vec<_> {
        rows.iter().map(|row| (row.node.clone(), row.fields.get("train/loss").cloned())).collect()
    };
    assert_eq!(fields(&before), fields(&after), "records stay");
    assert_eq!(reason(&reasons(root, now), &dead), Reason::Attached);
    assert_eq!(collect(root, now, DAY).unwrap(), BranchReport::default());
    // The same settings are trained again, as if nothing had been there.
    trained(root, "0.03");
}

#[test]
fn f34_where_nobody_knows_what_is_used_nothing_is_dead() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let now = time::now_nanos() + 2 * i64::try_from(DAY.as_nanos()).unwrap();
    let [dead, ..] = ["0.01", "0.02", "0.03", "0.04"].map(|rate| trained(root, rate));
    assert_eq!(reason(&reasons(root, now), &dead), Reason::Dead);
    let history = fs::read(root.join("history.json")).unwrap();
    for garbled in [None, Some("{")] {
        fs::remove_file(root.join("history.json")).unwrap();
        if let Some(text) = garbled {
            waycairn_durable::write_file(
                &root.join("history.json"),
                text.as_bytes(),
                waycairn_durable::Durability::Regenerable,
            )
            .unwrap();
        }
        let planned = reasons(root, now);
        assert!(planned.values().all(|branch| branch.reason == Reason::Doubt), "{planned:?}");
        assert_eq!(collect(root, now, DAY).unwrap(), BranchReport::default());
        waycairn_durable::write_file(
            &root.join("history.json"),
            &history,
            waycairn_durable::Durability::Regenerable,
        )
        .unwrap();
    }
    fs::remove_dir_all(root.join("runs")).unwrap();
    assert_eq!(reason(&reasons(root, now), &dead), Reason::Doubt);
}
