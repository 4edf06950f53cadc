//! Runs that are stopped, moved, and go on to the bit.

use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    /// TRAIN-1 and exact resume: however often and wherever a run is stopped, its numbers are those
    /// of an undisturbed run.
    #[test]
    fn train_1_a_run_that_is_stopped_anywhere_has_equal_bits(stops in proptest::collection::btree_set(1_u64..9, 1..4), order in prop_oneof![Just("shuffled"), Just("random")]) {
        let rig = Rig::new();
        let sets = [("steps", "9"), ("data.order", order), ("checkpoint_every", "4")];
        let whole = run(&rig.request("whole", &sets));
        let request = rig.request("parts", &sets);
        for step in &stops {
            let report = run_until(&request, *step);
            prop_assert_eq!((report.status, report.steps), (Status::Stopped, *step));
        }
        let rest = run(&request);
        prop_assert_eq!(rest.status, Status::Finished);
        prop_assert_eq!(computed(&rig.root("parts"), "run"), computed(&rig.root("whole"), "run"));
        prop_assert_eq!(final_weights(&rig.root("parts"), &rest), final_weights(&rig.root("whole"), &whole));
    }
}

#[test]
fn training_case_10_a_copied_root_goes_on() {
    let rig = Rig::new();
    let request = rig.request("here", &[]);
    run_until(&request, 3);
    copy(&rig.root("here"), &rig.root("there"));
    let mut there = request.clone();
    there.root = rig.root("there");
    let whole = run(&rig.request("whole", &[]));
    let rest = run(&there);
    assert_eq!((rest.status, rest.updates), (Status::Finished, 3));
    assert_eq!(final_weights(&rig.root("there"), &rest), final_weights(&rig.root("whole"), &whole));
}

#[test]
fn f18_a_copy_without_times_loses_no_checkpoint() {
    use crate::checkpoint::Depth;

    let rig = Rig::new();
    let request = rig.request("here", &[("checkpoint_every", "1")]);
    let stopped = run_until(&request, 4);
    copy(&rig.root("here"), &rig.root("there"));
    let there = rig.root("there");
    let reader = ObjectReader::open(&there).unwrap();
    let whole = |seqs: std::ops::Range<u64>| {
        for seq in seqs {
            let node = stopped.node.at(seq).unwrap();
            restore::open(&reader, &node, Depth::Whole).unwrap_or_else(|error| panic!("{node}: {error}"));
        }
    };
    whole(0..4);
    let mut rest = request.clone();
    rest.root.clone_from(&there);
    // The launch cleans up what dead processes left of its run, and finds nothing that it could call so.
    let rest = run(&rest);
    assert_eq!((rest.status, checkpoints(&there, &rest)), (Status::Finished, (0..6).collect()));
    whole(0..6);
}

#[test]
fn max_time_stops_in_good_order() {
    let rig = Rig::new();
    let mut request = rig.request("a", &[("accumulate", "1")]);
    request.max_time = Some(std::time::Duration::ZERO);
    let report = run(&request);
    assert_eq!((report.status, report.steps), (Status::Stopped, 1));
    assert_eq!(report.checkpoint, Some(report.node));
}
