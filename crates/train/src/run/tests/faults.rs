//! What a user or a disk does wrong.

use waycairn_durable::fault::{Refusal, refuse};

use super::*;
use crate::OnStoreError;

#[test]
fn changed_data_is_refused_unless_allowed_and_then_recorded() {
    let rig = Rig::new();
    let request = rig.request("a", &[]);
    run_until(&request, 2);
    let text = rig.folder.path().join("text.txt");
    let mut content = std::fs::read_to_string(&text).unwrap();
    content.replace_range(0..1, "L");
    content.replace_range(0..1, "l");
    content.push_str("line 1 of 2\n");
    std::fs::write(&text, &content).unwrap();
    let error = fail(&request);
    assert_eq!(error.code(), "data");
    assert!(error.to_string().contains("the text's size was"), "{error}");
    let mut allowed = request.clone();
    allowed.allow_changed_data = true;
    let report = run(&allowed);
    let node = report.node.at(2).unwrap();
    assert_eq!(field(&rig.root("a"), &node, "job/changed_data"), Some(Scalar::Bool(true)));
}

#[test]
fn bad_arguments_say_what_to_do() {
    let rig = Rig::new();
    let bad = |change: &dyn Fn(&mut TrainRequest)| {
        let mut request = rig.request("a", &[]);
        change(&mut request);
        let error = fail(&request);
        let advice = [error.why(), error.next()].into_iter().flatten().collect::<Vec<_>>().join("; ");
        (error.to_string(), advice, error.code())
    };
    let (what, next, code) = bad(&|request| request.preset = Some("tin".to_owned()));
    assert_eq!((what.as_str(), code), ("no preset is called `tin`", "usage"));
    assert!(next.contains("tiny, nanogpt-cpu, baby-gpt"));
    let (what, _, code) = bad(&|request| request.text = Some("/none.txt".into()));
    assert_eq!((what.as_str(), code), ("cannot open the text `/none.txt`", "data"));
    let (_, next, _) = bad(&|request| request.sets.push(("batchsize".to_owned(), "1".to_owned())));
    assert!(next.starts_with("did you mean `batch_size`? "), "{next}");
    let (what, _, _) = bad(&|request| request.sets.push(("model.heads".to_owned(), "3".to_owned())));
    assert!(what.contains("`model.heads` = 3 does not divide"), "{what}");
    let (what, _, _) = bad(&|request| request.sets.push(("data.context".to_owned(), "100000".to_owned())));
    assert!(what.contains("one example needs 100001"), "{what}");
    let (_, _, code) = bad(&|request| request.device = "cuda".to_owned());
    assert_eq!(code, "device");
    let (_, _, code) = bad(&|request| request.name = Some("x".repeat(300)));
    assert_eq!(code, "usage");
    let (_, _, code) = bad(&|request| request.name = Some(String::new()));
    assert_eq!(code, "usage");
    let (what, next, code) = bad(&|request| request.threads = Some(1_000_000));
    assert_eq!((what.as_str(), code), ("1000000 threads are too many", "usage"));
    assert!(next.contains("at most"), "{next}");
    for (path, value) in [("model.width", "1000000"), ("batch_size", "9007199254740991")] {
        let (what, next, code) = bad(&|request| request.sets.push((path.to_owned(), value.to_owned())));
        assert_eq!(code, "memory", "{what}");
        assert!(what.contains(&format!("`{path}` = {value}")) && next.contains("--set"), "{what}");
    }
    let (_, _, code) = bad(&|request| request.experiment = Some("nre".to_owned()));
    assert_eq!(code, "usage");
    let file = rig.folder.path().join("text.txt");
    let (_, _, code) = bad(&|request| request.root = file.clone());
    assert!(["root", "store"].contains(&code), "{code}");
    // Nothing was made by any of these.
    assert!(
        !rig.root("a")
            .join("objects")
            .join("values")
            .read_dir()
            .is_ok_and(|mut files| files.next().is_some())
    );
}

#[test]
fn allowed_data_is_read_with_the_vocabulary_of_the_checkpoint() {
    let rig = Rig::new();
    let mut request = rig.request("a", &[]);
    run_until(&request, 2);
    let text = rig.folder.path().join("text.txt");
    let content = std::fs::read_to_string(&text).unwrap();
    std::fs::write(&text, format!("{content}Z")).unwrap();
    request.allow_changed_data = true;
    let error = fail(&request);
    assert!(error.to_string().contains("holds the character 'Z'"), "{error}");
    // Fewer characters are no reason to refuse: the model has them all.
    std::fs::write(&text, content.replace('7', "8")).unwrap();
    assert_eq!(run(&request).status, Status::Finished);
}

#[test]
fn a_store_that_fails_ends_the_run_with_its_cause() {
    let rig = Rig::new();
    let request = rig.request("a", &[("steps", "40")]);
    let values = rig.root("a").join("objects").join("values");
    let mut progress = |event: &Event<'_>| {
        if matches!(event, Event::Step { step: 3, .. }) {
            std::fs::remove_dir_all(&values).unwrap();
            std::fs::write(&values, "").unwrap();
        }
    };
    let error = train(&crate::experiments![Gpt], &request, &Stop::new(), &mut progress).unwrap_err();
    assert_eq!(error.code(), "store");
    let mut text = String::new();
    let mut cause: Option<&dyn std::error::Error> = Some(&error);
    while let Some(error) = cause {
        text.push_str(&format!("{error}\n"));
        cause = error.source();
    }
    assert!(text.contains("objects/values"), "{text}");
}

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const EDQUOT: i32 = 122;

/// Trains on a disk that takes no part from the checkpoint after step 4 on, until the event for which `mended` holds: a step
/// of the disk fails with an error number.
fn on_a_disk_that_breaks(
    request: &TrainRequest,
    (step, errno): (&'static str, i32),
    mended: impl Fn(&Event<'_>) -> bool,
) -> (Result<TrainReport, TrainError>, Vec<String>) {
    let values = request.root.join("objects/values");
    let (mut disk, mut notices): (Option<Refusal>, Vec<String>) = (None, Vec::new());
    let mut progress = |event: &Event<'_>| {
        match event {
            Event::Saving { step: 4, .. } => disk = Some(refuse(step, &values, errno, u64::MAX)),
            Event::Notice(notice) => notices.push((*notice).to_owned()),
            _ => {}
        }
        if mended(event) {
            disk = None;
        }
    };
    let report = train(&crate::experiments![Gpt], request, &Stop::new(), &mut progress);
    drop(disk);
    (report, notices)
}

/// Records of a root, each once.
fn records(root: &Path) -> u64 {
    let text = "select distinct _x_writer, _x_write from records";
    ObjectReader::open(root).unwrap().sql(text).unwrap().num_rows() as u64
}

/// Whether the run was told to go on without records.
fn goes_on(event: &Event<'_>) -> bool {
    matches!(event, Event::Notice(notice) if notice.contains("goes on"))
}

#[test]
fn a_store_that_fails_stops_the_run_and_the_same_command_goes_on() {
    let rig = Rig::new();
    let whole = run(&rig.request("b", &[]));
    for (number, broken) in [("file.create", EIO), ("file.write", ENOSPC)].into_iter().enumerate() {
        let root = format!("a{number}");
        let request = rig.request(&root, &[]);
        let (failed, notices) = on_a_disk_that_breaks(&request, broken, |_| false);
        let error = failed.unwrap_err();
        assert_eq!((error.code(), notices.len()), ("store", 0), "{error:?}");
        let report = run(&request);
        assert_eq!((report.status, report.unrecorded), (Status::Finished, 0));
        // That of step 4 is whole, and the journal says so where it could be written.
        let from = if broken.1 == EIO { 1 } else { 3 };
        assert_eq!(report.resumed_from.as_ref().unwrap().seq(), from, "{broken:?}");
        assert_eq!(final_weights(&rig.root(&root), &report), final_weights(&rig.root("b"), &whole));
    }
}

#[test]
fn what_only_a_journal_says_of_a_run_is_gone_on_from_sampled_and_never_removed() {
    let rig = Rig::new();
    let whole = run(&rig.request("b", &[]));
    let (request, root) = (rig.request("a", &[]), rig.root("a"));
    let (failed, _) = on_a_disk_that_breaks(&request, ("file.write", ENOSPC), |_| false);
    failed.unwrap_err();
    // Nobody can publish it, and everybody reads it.
    let disk = refuse("file.write", &root.join("objects/values"), 13, u64::MAX);
    let published = ObjectReader::open(&root).unwrap().runs().unwrap();
    let live = ObjectReader::open_live(&root).unwrap().runs().unwrap();
    assert_eq!((&published[0].checkpoints[..], &live[0].checkpoints[..]), (&[1][..], &[1, 3][..]));
    let node = live[0].last.at(3).unwrap();
    let options = crate::SampleOptions { tokens: 3, ..crate::SampleOptions::default() };
    crate::sample(&crate::experiments![Gpt], &root, &node, &options).unwrap();
    let store = ObjectStore::open(&root, StoreOptions::default()).unwrap();
    assert_eq!(store.remove_unmarked_checkpoints(node.name(), node.nonce()).unwrap(), 0);
    assert!(!store.remove_unmarked_checkpoint(&node).unwrap());
    drop((disk, store));
    let branch = TrainRequest {
        base: Base::Branch(node.clone()),
        sets: vec![("steps".to_owned(), "5".to_owned())],
        text: None,
        ..request.clone()
    };
    assert_eq!(run(&branch).updates, 1);
    let report = run(&request);
    assert_eq!(report.resumed_from, Some(node));
    assert_eq!(final_weights(&root, &report), final_weights(&rig.root("b"), &whole));
}

#[test]
fn a_run_that_may_degrade_goes_on_without_records_and_with_the_disk() {
    let rig = Rig::new();
    let whole = run(&rig.request("b", &[]));
    let all = records(&rig.root("b"));
    // A store that failed loses what is not journaled; one without room has it wait, and then it is there.
    for (number, broken) in [("file.create", EIO), ("file.write", EDQUOT)].into_iter().enumerate() {
        let root = format!("a{number}");
        let request = TrainRequest { on_store_error: OnStoreError::Degrade, ..rig.request(&root, &[]) };
        // The checkpoint after step 4 cannot be announced; the disk is well again when that was said.
        let (report, notices) = on_a_disk_that_breaks(&request, broken, goes_on);
        let report = report.unwrap();
        assert_eq!((report.status, report.steps, report.updates), (Status::Finished, 6, 6));
        assert_eq!(notices.len(), 1, "{notices:?}");
        assert_eq!(final_weights(&rig.root(&root), &report), final_weights(&rig.root("b"), &whole));
        assert_eq!(
            records(&rig.root(&root)) + report.unrecorded,
            all,
            "{broken:?}: each is there, or counted"
        );
        assert_eq!(report.unrecorded > 0, broken.1 == EIO, "{broken:?}");
        let there: &[u64] = if broken.1 == EIO { &[1, 5] } else { &[1, 3, 5] };
        assert_eq!(checkpoints(&rig.root(&root), &report), there, "that of the end is");
        assert_eq!(run(&request).status, Status::Skipped, "it ended, and that is recorded");
    }
}

#[test]
fn a_run_that_degrades_for_a_while_counts_each_record_once() {
    let rig = Rig::new();
    let sets = [("steps", "21"), ("report_every", "3")];
    run(&rig.request("b", &sets));
    let request = TrainRequest { on_store_error: OnStoreError::Degrade, ..rig.request("a", &sets) };
    // Two checkpoints and more are lost before the disk is well again.
    let mended = |event: &Event<'_>| matches!(event, Event::Step { step: 12, .. });
    let (report, notices) = on_a_disk_that_breaks(&request, ("file.create", EIO), mended);
    let report = report.unwrap();
    assert_eq!((report.status, notices.len()), (Status::Finished, 1), "{notices:?}");
    assert!(report.unrecorded > 8, "{}", report.unrecorded);
    assert_eq!(records(&rig.root("a")) + report.unrecorded, records(&rig.root("b")));
    let folders = std::fs::read_dir(rig.root("a").join("objects/blobs")).unwrap();
    let there = folders.filter(|folder| folder.as_ref().unwrap().path().join("checkpoint").exists()).count();
    assert_eq!(there, checkpoints(&rig.root("a"), &report).len(), "none is left that nothing announces");
}

#[test]
fn a_run_that_may_degrade_ends_with_the_error_on_a_disk_that_stays_broken() {
    let rig = Rig::new();
    let sets = [("steps", "13"), ("report_every", "3")];
    let request = TrainRequest { on_store_error: OnStoreError::Degrade, ..rig.request("a", &sets) };
    let (report, notices) = on_a_disk_that_breaks(&request, ("file.create", EIO), |_| false);
    let error = report.unwrap_err();
    assert_eq!((error.code(), notices.len()), ("store", 1), "{notices:?}");
    let TrainError::Degraded { unrecorded, .. } = &error else { panic!("{error:?}") };
    let kept = records(&rig.root("a"));
    run(&rig.request("b", &sets));
    // All but the one that nobody came to: that the run has ended.
    assert_eq!(kept + unrecorded + 1, records(&rig.root("b")), "{error}");
    let report = run(&request);
    assert_eq!((report.status, report.resumed_from.as_ref().unwrap().seq()), (Status::Finished, 1));
}
