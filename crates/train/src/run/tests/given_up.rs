//! A stop between the micro-batches of a step.

use std::sync::atomic::{AtomicU64, Ordering};

use burn::tensor::{Int, Tensor};
use proptest::prelude::*;

use super::*;
use crate::{Experiment, GptModel, Initial, Key, Settings, SettingsError, Tokens};

/// The model of [`Gpt`], which makes somebody ask for a stop while it computes the loss for the `at`-th time; a
/// validation counts too.
struct Interrupted {
    at: u64,
    calls: AtomicU64,
    stop: Stop,
}

impl Experiment for Interrupted {
    type Model = GptModel;

    fn name(&self) -> &'static str {
        Gpt.name()
    }

    fn version(&self) -> &'static str {
        Gpt.version()
    }

    fn keys(&self) -> Vec<Key> {
        Gpt.keys()
    }

    fn build(
        &self,
        settings: &Settings,
        vocabulary: usize,
        initial: &Initial<'_>,
    ) -> Result<GptModel, SettingsError> {
        Gpt.build(settings, vocabulary, initial)
    }

    fn forward(&self, model: &GptModel, tokens: Tensor<2, Int>) -> Tensor<3> {
        Gpt.forward(model, tokens)
    }

    fn loss(&self, model: &GptModel, batch: Tokens) -> Tensor<1> {
        if self.calls.fetch_add(1, Ordering::SeqCst) + 1 == self.at {
            self.stop.request();
        }
        Gpt.loss(model, batch)
    }
}

/// Trains until the loss is computed for the `at`-th time.
fn run_into(request: &TrainRequest, at: u64) -> TrainReport {
    told_into(request, at).0
}

/// The same, with the notices.
fn told_into(request: &TrainRequest, at: u64) -> (TrainReport, Vec<String>) {
    let stop = Stop::new();
    let experiment = Interrupted { at, calls: AtomicU64::new(0), stop: stop.clone() };
    let mut notices = Vec::new();
    let mut progress = |event: &Event<'_>| {
        if let Event::Notice(text) = event {
            notices.push((*text).to_owned());
        }
    };
    let report = train(&crate::experiments![experiment], request, &stop, &mut progress).unwrap();
    (report, notices)
}

/// Six steps of three micro-batches, reported at every second one, so that some nodes have nothing to say.
const SETS: [(&str, &str); 4] =
    [("accumulate", "3"), ("eval_every", "off"), ("checkpoint_every", "4"), ("report_every", "2")];

/// What a later launch is to find: nothing of the step that was given up.
fn check_left(root: &Path, report: &TrainReport, given_up: u64) {
    let reader = ObjectReader::open(root).unwrap();
    let node = report.node.at(given_up).unwrap();
    assert!(reader.node(&node).unwrap().is_none(), "nothing is recorded at seq {given_up}");
    assert!(!root.join("objects").join("blobs").join(node.address().as_str()).exists());
    let run = reader.runs().unwrap().remove(0);
    assert_eq!(run.last, report.node);
    assert!(!run.finished);
}

#[test]
fn train_1_a_step_that_is_given_up_is_saved_at_the_node_before_and_done_again() {
    let rig = Rig::new();
    let whole = run(&rig.request("whole", &SETS));
    let root = rig.root("parts");
    let request = rig.request("parts", &SETS);

    // The second micro-batch of step 4: seq 3 is live, and the state is that of step 3, at seq 2.
    let stopped = run_into(&request, 11);
    assert_eq!((stopped.status, stopped.steps, stopped.node.seq()), (Status::Stopped, 3, 2));
    assert_eq!((stopped.updates, stopped.ticks), (3, 2), "as many as a stop right after step 3 has");
    assert_eq!(stopped.checkpoint.as_ref(), Some(&stopped.node));
    check_left(&root, &stopped, 3);
    let reader = ObjectReader::open(&root).unwrap();
    let saved = restore::open(&reader, &stopped.node, Depth::Whole).unwrap();
    assert_eq!((saved.state().step, saved.state().loader.position), (3, 2));
    assert_eq!(saved.state().node, stopped.node.address().to_string());
    // The batch that the checkpoint names is the one of its own node.
    let every = run(&rig.request("every", &[&SETS[..], &[("checkpoint_every", "1")]].concat()));
    for key in ["data/batch_sha256", "model/sha256"] {
        let there = field(&rig.root("every"), &every.node.at(2).unwrap(), key);
        assert!(there.is_some());
        assert_eq!(field(&root, &stopped.node, key), there, "{key}");
    }
    assert_eq!(reader.parents(&stopped.node).unwrap(), [stopped.node.at(1).unwrap()]);

    // The last micro-batch of step 5: step 4 has its checkpoint already.
    let (again, told) = told_into(&request, 5);
    assert!(told.is_empty(), "{told:?}");
    assert_eq!((again.status, again.steps, again.node.seq()), (Status::Stopped, 4, 3));
    assert_eq!((again.updates, again.ticks), (1, 1));
    assert_eq!(again.resumed_from.as_ref(), Some(&stopped.node));
    assert_eq!(again.checkpoint.as_ref(), Some(&again.node));
    check_left(&root, &again, 4);
    let markers = reader.sql("select count(*) from records where \"_x_checkpoint\"").unwrap();
    assert_eq!(markers.rows().next().unwrap()[0], Scalar::Int(2));

    let rest = run(&request);
    assert_eq!((rest.status, rest.updates, rest.ticks), (Status::Finished, 2, 2));
    assert_eq!(computed(&root, "run"), computed(&rig.root("whole"), "run"));
    assert_eq!(final_weights(&root, &rest), final_weights(&rig.root("whole"), &whole));
    assert_eq!(checkpoints(&root, &rest), [2, 3, 5]);
}

#[test]
fn training_case_02_a_launch_whose_first_step_is_given_up_saves_nothing() {
    let rig = Rig::new();
    let whole = run(&rig.request("whole", &SETS));
    let root = rig.root("parts");
    let request = rig.request("parts", &SETS);
    let (none, told) = told_into(&request, 1);
    assert!(told[0].starts_with("no step was done in this launch"), "{told:?}");
    assert!(told[0].contains("`accumulate`"), "{told:?}");
    assert_eq!((none.status, none.steps, none.node.seq()), (Status::Stopped, 0, 0));
    assert_eq!((none.updates, none.ticks), (0, 0));
    assert_eq!((none.checkpoint.as_ref(), none.resumed_from.as_ref()), (None, None));
    assert!(checkpoints(&root, &none).is_empty());
    let fields = ObjectReader::open(&root).unwrap().node(&none.node).unwrap().unwrap().fields;
    let names: Vec<&str> = fields.keys().map(String::as_str).filter(|key| !key.starts_with("_x_")).collect();
    assert_eq!(names, ["job/base", "job/settings_sha256"], "which run it is, and nothing else");

    // The same run begins again. Two steps later the same happens to a resumed launch: it stands at its base.
    let two = run_until(&request, 2);
    assert!(two.node.same_run(&none.node));
    assert_eq!((two.updates, two.ticks), (2, 1));
    let same = run_into(&request, 1);
    assert_eq!((same.status, same.steps, &same.node), (Status::Stopped, 2, &two.node));
    assert_eq!((same.updates, same.ticks), (0, 0));
    assert_eq!((same.checkpoint.as_ref(), same.resumed_from.as_ref()), (Some(&two.node), Some(&two.node)));
    check_left(&root, &same, 2);

    // The node that it reports can be resumed as it is.
    let mut resume = request.clone();
    resume.base = Base::Resume(same.node);
    let rest = run(&resume);
    assert_eq!((rest.status, rest.updates, rest.ticks), (Status::Finished, 4, 4));
    assert_eq!(computed(&root, "run"), computed(&rig.root("whole"), "run"));
    assert_eq!(final_weights(&root, &rest), final_weights(&rig.root("whole"), &whole));

    // A branch that is stopped so has its own first node, and goes on with the same command.
    let mut branch = request.clone();
    branch.base = Base::Branch(rest.node.clone());
    branch.name = Some("branch".to_owned());
    branch.sets.push(("steps".to_owned(), "8".to_owned()));
    let begun = run_into(&branch, 2);
    assert_eq!((begun.status, begun.steps, begun.updates, begun.ticks), (Status::Stopped, 6, 0, 0));
    assert_eq!((begun.node.name(), begun.node.seq(), begun.checkpoint), ("branch", 0, None));
    let ended = run(&branch);
    assert!(ended.node.same_run(&begun.node));
    assert_eq!((ended.status, ended.updates, ended.ticks), (Status::Finished, 2, 1));
}

#[test]
fn changed_data_is_not_recorded_at_a_node_that_is_given_up() {
    let rig = Rig::new();
    let mut request = rig.request("a", &SETS);
    let two = run_until(&request, 2);
    let text = rig.folder.path().join("text.txt");
    let content = std::fs::read_to_string(&text).unwrap();
    std::fs::write(&text, content.replace('7', "8")).unwrap();
    request.allow_changed_data = true;
    let same = run_into(&request, 2);
    assert_eq!(same.node, two.node);
    check_left(&rig.root("a"), &same, 2);
    // The user thinks better of it: what follows has seen the first data alone.
    std::fs::write(&text, content).unwrap();
    request.allow_changed_data = false;
    let rest = run(&request);
    assert_eq!(rest.status, Status::Finished);
    assert_eq!(field(&rig.root("a"), &rest.node.at(2).unwrap(), "job/changed_data"), None);
}

#[test]
fn max_time_stops_between_micro_batches_and_says_so_when_no_step_was_done() {
    let rig = Rig::new();
    let mut request = rig.request("a", &[]);
    request.max_time = Some(std::time::Duration::ZERO);
    let mut notices = Vec::new();
    let mut progress = |event: &Event<'_>| {
        if let Event::Notice(text) = event {
            notices.push((*text).to_owned());
        }
    };
    let report = train(&crate::experiments![Gpt], &request, &Stop::new(), &mut progress).unwrap();
    assert_eq!((report.status, report.steps, report.checkpoint), (Status::Stopped, 0, None));
    assert!(notices[0].contains("give `--max-time` more"), "{notices:?}");
    request.max_time = None;
    assert_eq!(run(&request).status, Status::Finished);
}

#[test]
fn a_run_that_will_never_validate_says_so_once_at_its_start() {
    let rig = Rig::new();
    let told = |rig: &Rig, name: &str, every: &str, steps: &str| {
        let request = rig.request(name, &[("eval_every", every), ("steps", steps)]);
        let (_, told) = told_into(&request, 1_000_000);
        told.iter().filter(|text| text.starts_with("nothing will be validated")).count()
    };
    for (name, every, count) in [("off", "off", 0), ("at", "6", 0), ("beyond", "7", 1)] {
        assert_eq!(told(&rig, name, every, "6"), count, "{every}");
    }
    let base = run(&rig.request("base", &[("eval_every", "4")])).node;
    for (name, steps, count) in [("short", "7", 1), ("long", "8", 0)] {
        let mut request = rig.request("base", &[("steps", steps)]);
        request.base = crate::Base::Branch(base.clone());
        request.name = Some(name.to_owned());
        let (report, told) = told_into(&request, 1_000_000);
        assert_eq!(report.status, Status::Finished);
        assert_eq!(told.iter().filter(|text| text.starts_with("nothing will")).count(), count, "{steps}");
    }
}

#[test]
fn train_1_a_validation_that_is_given_up_is_done_again_at_its_step() {
    let rig = Rig::new();
    let sets = [("steps", "6"), ("eval_every", "3"), ("eval_batches", "4"), ("checkpoint_every", "off")];
    let sets = [&sets[..], &[("accumulate", "1"), ("batch_size", "2")]].concat();
    let whole = run(&rig.request("whole", &sets));
    let (root, request) = (rig.root("parts"), rig.request("parts", &sets));
    let losses = |root: &Path| -> Vec<u64> {
        let rows = ObjectReader::open(root).unwrap().query().has("val/loss").all().unwrap().value;
        rows.iter().map(Node::seq).collect()
    };
    assert_eq!(losses(&rig.root("whole")), [2, 5]);
    // Three steps, and the second of four batches.
    let stopped = run_into(&request, 5);
    assert_eq!((stopped.status, stopped.steps, stopped.updates), (Status::Stopped, 3, 3));
    assert_eq!(stopped.checkpoint.as_ref(), Some(&stopped.node));
    assert!(losses(&root).is_empty());
    // The launch that goes on begins with it, and may be stopped in it once more.
    let (same, told) = told_into(&request, 2);
    assert_eq!((same.status, same.updates, &same.node), (Status::Stopped, 0, &stopped.node));
    assert!(told[0].starts_with("no step was done"), "{told:?}");
    // Then four batches, three steps, and two batches of the validation of the last step: not finished yet.
    let last = run_into(&request, 9);
    assert_eq!((last.status, last.steps, last.updates), (Status::Stopped, 6, 3));
    assert_eq!(losses(&root), [2]);
    let rest = run(&request);
    assert_eq!((rest.status, rest.updates, rest.ticks, &rest.node), (Status::Finished, 0, 0, &last.node));
    assert_eq!(computed(&root, "run"), computed(&rig.root("whole"), "run"));
    assert_eq!(final_weights(&root, &rest), final_weights(&rig.root("whole"), &whole));
    assert_eq!(run(&request).status, Status::Skipped);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    /// However often and at whichever micro-batch a run is stopped, its numbers are those of an undisturbed run.
    #[test]
    fn train_1_a_run_that_is_stopped_at_any_micro_batch_has_equal_bits(
        stops in proptest::collection::vec(1_u64..14, 1..5),
        accumulate in 2_u64..5,
        report_every in 1_u64..4,
    ) {
        let rig = Rig::new();
        let (accumulate, report_every) = (accumulate.to_string(), report_every.to_string());
        let sets = [("accumulate", accumulate.as_str()), ("report_every", &report_every), ("checkpoint_every", "3")];
        let whole = run(&rig.request("whole", &sets));
        let request = rig.request("parts", &sets);
        let mut done = 0;
        for at in &stops {
            let report = run_into(&request, *at);
            prop_assert!(report.steps >= done);
            done = report.steps;
        }
        // It may have been finished by then.
        let rest = run(&request);
        prop_assert_eq!(rest.steps, 6);
        prop_assert_eq!(computed(&rig.root("parts"), "run"), computed(&rig.root("whole"), "run"));
        prop_assert_eq!(final_weights(&rig.root("parts"), &rest), final_weights(&rig.root("whole"), &whole));
    }
}
