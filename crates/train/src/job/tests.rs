#![allow(clippy::unwrap_used, reason = "tests")]

use waycairn_store::StoreOptions;

use super::*;

fn job() -> (tempfile::TempDir, Job<&'static str>) {
    job_of(0)
}

fn job_of(process: i64) -> (tempfile::TempDir, Job<&'static str>) {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions { process, ..StoreOptions::default() };
    let store = ObjectStore::open(folder.path(), options).unwrap();
    (folder, Job::new(Arc::new(store), "run", "949e88"))
}

fn base() -> Node {
    Node::new("base", "0c11f2", 4).unwrap()
}

fn ready(state: &'static str) -> impl FnOnce(&Mode) -> Result<&'static str, JobError> {
    move |_| Ok(state)
}

#[test]
fn training_case_01_each_mode_prepares_its_node() {
    let cases = [
        (Mode::Fresh, "run@949e88:0", None),
        (Mode::Branch(base()), "run@949e88:0", Some(base().address())),
        (Mode::Resume(base()), "base@0c11f2:4", None),
    ];
    for (mode, node, parent) in cases {
        let (_folder, mut job) = job();
        job.setup(&mode, ready("state")).unwrap();
        assert_eq!(job.node().unwrap().to_string(), node);
        assert_eq!(job.node().unwrap().parent(), parent.as_ref());
        assert_eq!(job.store().flush().unwrap().records, 0, "setting up records nothing");
    }
}

#[test]
fn training_case_01_the_opposite_mode_after_success_changes_nothing() {
    let (_folder, mut job) = job();
    job.setup(&Mode::Fresh, ready("first")).unwrap();
    for mode in [Mode::Resume(base()), Mode::Branch(base()), Mode::Fresh] {
        job.setup(&mode, ready("second")).unwrap();
        assert_eq!(job.node().unwrap().to_string(), "run@949e88:0");
        assert_eq!(*job.state().unwrap(), "first");
    }
}

#[test]
fn training_case_01_a_failing_initialiser_may_be_tried_again() {
    let (_folder, mut job) = job();
    let failing = |_: &Mode| Err::<&'static str, JobError>(JobError::NotSetUp);
    assert!(job.setup(&Mode::Fresh, failing).is_err());
    assert!(matches!(job.node(), Err(JobError::NotSetUp)));
    assert!(matches!(job.tick(), Err(JobError::NotSetUp)));
    job.setup(&Mode::Resume(base()), ready("state")).unwrap();
    assert_eq!(job.node().unwrap(), base());
}

#[test]
fn train_1_a_resume_keeps_the_node_and_its_record_and_ticks_once() {
    let (_folder, mut job) = job();
    job.setup(&Mode::Resume(base()), ready("state")).unwrap();
    job.begin().unwrap();
    job.begin().unwrap();
    assert_eq!((job.node().unwrap().seq(), job.ticks()), (5, 1));
    assert_eq!(job.node().unwrap().parent(), Some(&base().address()));
    assert_eq!(job.store().flush().unwrap().records, 0, "the base counts as recorded");
    job.tick().unwrap();
    assert_eq!(job.store().flush().unwrap().records, 1, "an unrecorded node is recorded empty");
}

#[test]
fn identity_case_01_only_process_zero_records_a_node_that_has_nothing_to_say() {
    for (process, empty) in [(0, 1), (1, 0), (7, 0)] {
        let (_folder, mut job) = job_of(process);
        job.setup(&Mode::Fresh, ready("state")).unwrap();
        job.tick().unwrap();
        assert_eq!(job.store().flush().unwrap().records, empty, "process {process} left an empty node");
        job.store().value(&job.node().unwrap(), &[("a", 1_i64.into())]).unwrap();
        job.tick().unwrap();
        let recorded = job.store().flush().unwrap().records;
        assert_eq!(recorded, empty + 1, "process {process}: what it says is recorded, and once");
        assert_eq!((job.node().unwrap().seq(), job.ticks()), (2, 2), "process {process} ticks all the same");
    }
}

#[test]
fn giving_up_a_node_ends_at_the_one_before_as_if_the_tick_had_not_been() {
    let (_folder, mut job) = job();
    assert!(matches!(job.give_up(), Err(JobError::NotSetUp)));
    job.setup(&Mode::Branch(base()), ready("state")).unwrap();
    let first = job.node().unwrap();
    assert_eq!((job.give_up().unwrap(), job.ticks()), (first.clone(), 0), "nothing is before the first");
    job.tick().unwrap();
    let ended = job.give_up().unwrap();
    assert_eq!((&ended, ended.parent(), job.ticks()), (&first, first.parent(), 0));
    assert_eq!(job.store().flush().unwrap().records, 1, "the tick recorded the node that it left");
}

#[test]
fn train_1_a_branch_begins_at_zero_with_its_base_as_parent_and_without_a_tick() {
    let (_folder, mut job) = job();
    job.setup(&Mode::Branch(base()), ready("state")).unwrap();
    job.begin().unwrap();
    let node = job.node().unwrap();
    assert_eq!((node.to_string().as_str(), node.parent()), ("run@949e88:0", Some(&base().address())));
    assert_eq!(job.ticks(), 0);
    job.store().value(&node, &[("a", 1_i64.into())]).unwrap();
    job.tick().unwrap();
    assert_eq!(job.store().flush().unwrap().records, 1, "a recorded node is not recorded again");
}
