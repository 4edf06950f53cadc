#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use waycairn_store::{ObjectReader, Scalar};
use waycairn_train::{Gpt, experiments};

use super::*;
use crate::model::MODEL;
use crate::record::{RecordedRun, RunState, STATUS, StatusFile, read};
use crate::training::TRAINING_FILE;
use crate::tree::Document;

const SMALL: &str = "\
[base]
steps = 2
batch_size = 2
warmup = 1
eval_every = 2
eval_batches = 1
checkpoint_every = 1
data = { context = 8 }
model = { layers = 1, heads = 1, width = 8 }
";

/// Settings of a small study in `root`, with more lines below `[base]`.
fn study(root: &Path, more: &str) -> Training {
    let text = format!("{SMALL}output = '{}'\n{more}\n", root.display());
    let document = Document::parse(Path::new("settings_training.toml"), text).unwrap();
    Training::resolve(&experiments![Gpt], document, None).unwrap()
}

fn launch(training: &Training) -> Result<LaunchReport, StudyError> {
    super::launch(
        &experiments![Gpt],
        training,
        Stages::Train,
        &LaunchOptions::default(),
        &Stop::new(),
        &mut |_| (),
    )
}

fn statuses(report: &LaunchReport) -> Vec<&str> {
    report.products.iter().map(|product| product.status.as_str()).collect()
}

/// Every file of a root but its locks, with its content and its time.
fn files(root: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut files = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if path != root.join("locks") {
                    open.push(path);
                }
            } else {
                let modified = path.metadata().unwrap().modified().unwrap();
                files.insert(path.clone(), (fs::read(&path).unwrap(), modified));
            }
        }
    }
    files
}

fn models(root: &Path) -> usize {
    fs::read_dir(root.join("cache/model")).unwrap().count()
}

#[test]
fn study_2_a_study_trains_records_and_finds_all_of_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let training = study(root, "learning_rate = { choice = [0.01, 0.002] }\ncohort = { replicas = 2 }");
    let report = launch(&training).unwrap();
    assert_eq!(statuses(&report), ["built"; 4]);
    assert_eq!(report.removed, Vec::<String>::new());
    let recorded = RecordedRun::list(root).unwrap();
    assert_eq!(recorded.len(), 4);
    for run in &recorded {
        assert_eq!(run.status.as_ref().unwrap().state, RunState::Trained);
        assert!(root.join(&run.artifacts.artifacts[MODEL].path).join("weights.safetensors").is_file());
        assert!(root.join(&run.run.source).is_file());
        assert!(report.runs.iter().any(|known| known.node == run.run.node));
    }
    // One system: the run is a lineage, and its last node has the losses.
    let reader = ObjectReader::open(root).unwrap();
    let node = reader.resolve("gpt.learning_rate-0.002.r1").unwrap();
    let run = recorded.iter().find(|run| run.run.name == "gpt.learning_rate-0.002.r1").unwrap();
    assert_eq!(run.run.node.as_deref(), Some(node.address().as_str()));
    let view = reader.node(&node).unwrap().unwrap();
    assert!(matches!(view.fields["val/loss"], Scalar::Float(_)), "{:?}", view.fields);
    assert!(view.finished && view.checkpoint.is_some());
    assert_eq!(run.run.change.as_ref().unwrap().path, "learning_rate");
    assert_eq!(run.run.settings["seed"], 1338);

    let before = files(root);
    let again = launch(&training).unwrap();
    assert_eq!(statuses(&again), ["hit"; 4]);
    assert_eq!(again.runs, report.runs);
    assert_eq!(files(root), before, "case 4: nothing is written again");
}

#[test]
fn study_case_05_the_latest_settings_win_and_three_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let rates = ["0.01", "0.02", "0.03", "0.04"];
    let studies = rates.map(|rate| study(root, &format!("learning_rate = {rate}")));
    let (mut first, mut third) = (None, None);
    for (index, training) in studies.iter().enumerate() {
        let report = launch(training).unwrap();
        first = first.or(report.products.first().cloned());
        if index == 2 {
            third = RecordedRun::list(root).unwrap().pop().map(|known| known.run);
        }
        assert_eq!(RecordedRun::list(root).unwrap().len(), 1, "only the newest runs");
        assert_eq!(models(root), (index + 1).min(3));
        let copy = fs::read_to_string(root.join(TRAINING_FILE)).unwrap();
        assert_eq!(copy, training.document.text, "byte for byte");
        assert_eq!(fs::read_dir(root.join("source")).unwrap().count(), (index + 1).min(3));
    }
    let key = &first.unwrap().key[..32];
    assert!(!root.join("cache/model").join(key).exists(), "the first model is gone");
    // One of the previous two is found again, and its run is recorded again, with the archive that it was trained from.
    let report = launch(&studies[2]).unwrap();
    let run = RecordedRun::list(root).unwrap().remove(0).run;
    assert_eq!(Some(run.source), third.map(|run| run.source));
    assert_eq!(statuses(&report), ["hit"]);
    assert_eq!(report.removed.len(), 1, "the run of the fourth: {:?}", report.removed);
    assert_eq!(models(root), 3);
    // The first is trained no more either: its last checkpoint is still at its node.
    let before = ObjectReader::open(root).unwrap().runs().unwrap().len();
    assert_eq!(statuses(&launch(&studies[0]).unwrap()), ["built"]);
    assert_eq!(ObjectReader::open(root).unwrap().runs().unwrap().len(), before);
}

#[test]
fn f27_a_launch_collects_by_itself_and_says_files_and_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let studies =
        ["0.01", "0.02", "0.03", "0.04"].map(|rate| study(root, &format!("learning_rate = {rate}")));
    let size = |path: &str| Size::of(&root.join(path)).unwrap();
    let all = || size("cache") + size("runs") + size("source");
    let first = launch(&studies[0]).unwrap();
    assert_eq!(first.cleaned.unwrap(), Cleaned { removed: Size::default(), kept: all() });
    let source = RecordedRun::list(root).unwrap().remove(0).run.source;
    launch(&studies[1]).unwrap();
    let third = launch(&studies[2]).unwrap();
    // What only the first used goes, and the run of the third.
    let model = format!("cache/model/{}", &first.products[0].key[..32]);
    let gone = size(&model) + size(&source) + size(&third.runs[0].path);
    assert!(gone.files > 4 && gone.bytes > 1000, "{gone:?}");
    let fourth = launch(&studies[3]).unwrap();
    let mut paths = [model, source, third.runs[0].path.clone()];
    let mut removed = fourth.removed.clone();
    paths.sort();
    removed.sort();
    assert_eq!(removed, paths);
    assert_eq!(fourth.cleaned.unwrap(), Cleaned { removed: gone, kept: all() });
    // The same again removes nothing, and keeps the same.
    let again = launch(&studies[3]).unwrap();
    assert_eq!(again.cleaned.unwrap(), Cleaned { removed: Size::default(), kept: all() });
}

/// Copies a folder as a download would: everything has one and the same time.
fn copy_without_times(from: &Path, to: &Path, time: SystemTime) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_without_times(&entry.path(), &target, time);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
        fs::File::open(&target).unwrap().set_modified(time).unwrap();
    }
}

#[test]
fn f18_a_root_copied_without_times_is_whole_and_its_clean_up_deletes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("here");
    for rate in ["0.01", "0.02"] {
        launch(&study(&root, &format!("learning_rate = {rate}"))).unwrap();
    }
    let ahead = time::to_system(time::now_nanos()) + std::time::Duration::from_secs(400 * 24 * 3600);
    for (name, time) in [("old", SystemTime::UNIX_EPOCH), ("ahead", ahead)] {
        let copy = folder.path().join(name);
        copy_without_times(&root, &copy, time);
        let before: Vec<PathBuf> = files(&copy).into_keys().collect();
        let report = launch(&study(&copy, "learning_rate = 0.02")).unwrap();
        assert_eq!(statuses(&report), ["hit"]);
        assert_eq!((report.removed, report.cleaned.unwrap().removed), (Vec::new(), Size::default()));
        assert!(files(&copy).into_keys().eq(before), "{name}: nothing was deleted or made");
        assert!(crate::verify(&copy, false, |_| ()).unwrap().damaged.is_empty());
        let reader = ObjectReader::open(&copy).unwrap();
        let runs = reader.runs().unwrap();
        assert_eq!(runs.len(), 2);
        for run in runs {
            assert_eq!(run.checkpoints, [0, 1]);
            for seq in run.checkpoints {
                assert!(reader.checkpoint(&run.last.at(seq).unwrap()).unwrap().is_some(), "{name}");
            }
        }
    }
}

/// F25: a replica more is a run more; what decides the order of the others' examples is in their recipes.
#[test]
fn f25_more_replicas_change_no_run_and_what_changes_the_order_is_another_model() {
    let folder = tempfile::tempdir().unwrap();
    let keys = |more: &str| -> Vec<String> {
        let plan = Plan::new(&experiments![Gpt], &study(folder.path(), more)).unwrap();
        plan.runs.iter().map(|run| run.key.digest().to_string()).collect()
    };
    let base = keys("cohort = { replicas = 2 }");
    assert_ne!(base[0], base[1]);
    assert_eq!(keys("cohort = { replicas = 5 }")[..2], base);
    assert_eq!(keys("cohort = { replicas = 2 }\nruntime = { cpu_threads = 1 }"), base);
    let text = folder.path().join("text.txt");
    waycairn_durable::write_file(
        &text,
        "other words, ".repeat(400).as_bytes(),
        waycairn_durable::Durability::Regenerable,
    )
    .unwrap();
    let [order, context, content] =
        ["data.order = 'random'", "data.context = 9", &format!("data.source = '{}'", text.display())].map(
            |set| {
                let (key, value) = set.split_once(" = ").unwrap();
                let key = key.strip_prefix("data.").unwrap();
                let data = if key == "context" {
                    format!("context = {value}")
                } else {
                    format!("context = 8, {key} = {value}")
                };
                let text = format!(
                    "{}output = '{}'\n",
                    SMALL.replace("context = 8", &data),
                    folder.path().display()
                );
                let document = Document::parse(Path::new("settings_training.toml"), text).unwrap();
                let training = Training::resolve(&experiments![Gpt], document, None).unwrap();
                Plan::new(&experiments![Gpt], &training).unwrap().runs[0].key.digest().to_string()
            },
        );
    let others = [order, context, content, keys("seed = 5").remove(0), keys("accumulate = 2").remove(0)];
    let mut all: Vec<&String> = others.iter().chain([&base[0]]).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 6, "each is another model");
}

#[test]
fn study_case_10_one_configuration_over_a_limit_refuses_the_whole_launch() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("out");
    let training = study(&root, "accumulate = { choice = [1, 1000000000000] }");
    let error = launch(&training).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("1 of 2 configurations are refused: `accumulate=1000000000000`"), "{text}");
    assert!(text.contains("`accumulate` = 1000000000000"), "{text}");
    let training = study(&root, "accumulate = { choice = [1, 1000000000000, 2000000000000] }");
    let text = launch(&training).unwrap_err().to_string();
    assert!(text.contains("2 of 3 configurations are refused"), "{text}");
    // What stands behind a semicolon is what to do, to whoever shows an error.
    assert!(text.contains(", and `accumulate=2000000000000`") && !text.contains("; "), "{text}");
    assert!(!root.exists(), "nothing on disk");
}

#[test]
fn study_1_a_run_that_fails_deletes_nothing_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    launch(&study(root, "learning_rate = 0.01")).unwrap();
    let before = files(root);
    // A loss that is not finite stops its run.
    let training = study(root, "learning_rate = { choice = [1e300, 0.02] }");
    let error = launch(&training).unwrap_err();
    assert_eq!(error.to_string(), "1 of 2 runs failed: baseline r0");
    assert!(matches!(error, StudyError::Runs { source, .. } if matches!(*source, StudyError::Train(_))));
    let after = files(root);
    assert!(before.iter().all(|(path, file)| after.get(path) == Some(file)), "nothing old has changed");
    let jobs = training.jobs(&experiments![Gpt]).unwrap();
    let status: StatusFile = read(&root.join(&jobs[0].0.folder).join(STATUS)).unwrap().unwrap();
    assert_eq!(status.state, RunState::Failed);
    assert!(!status.error.is_empty() && status.ended.is_some());
    // Told to keep going, the other one is trained.
    let options = LaunchOptions { keep_going: true, ..LaunchOptions::default() };
    let told =
        super::launch(&experiments![Gpt], &training, Stages::Train, &options, &Stop::new(), &mut |_| ());
    assert!(told.unwrap_err().to_string().starts_with("1 of 2 runs failed"));
    let status: StatusFile = read(&root.join(&jobs[1].0.folder).join(STATUS)).unwrap().unwrap();
    assert_eq!(status.state, RunState::Trained);
    assert_eq!(RecordedRun::list(root).unwrap().len(), 3, "the old run is still there");
}

#[test]
fn study_1_a_defect_met_in_a_run_is_an_error_of_that_run() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let training = study(root, "learning_rate = { choice = [0.01, 0.002] }");
    let seen = || Some(PanicReport { text: "seen by the hook".to_owned(), backtrace: "here".to_owned() });
    let options = LaunchOptions { keep_going: true, last_panic: Some(seen), ..LaunchOptions::default() };
    let mut first = true;
    let mut observe = |event: &StudyEvent<'_>| {
        if matches!(event, StudyEvent::Train(_)) && std::mem::take(&mut first) {
            panic!("met in the first run");
        }
    };
    let error =
        super::launch(&experiments![Gpt], &training, Stages::Train, &options, &Stop::new(), &mut observe);
    let StudyError::Runs { failed, of: 2, source } = error.unwrap_err() else { panic!("another error") };
    assert_eq!(failed, ["baseline r0"]);
    assert_eq!(source.to_string(), "a defect of waycairn itself: seen by the hook");
    let states: Vec<_> =
        RecordedRun::list(root).unwrap().into_iter().map(|run| run.status.unwrap()).collect();
    assert_eq!(
        states.iter().map(|status| status.state).collect::<Vec<_>>(),
        [RunState::Failed, RunState::Trained]
    );
    assert_eq!(states[0].backtrace.as_deref(), Some("here"));
    assert_eq!(statuses(&launch(&training).unwrap()), ["built", "hit"]);
}

#[test]
fn study_1_a_launch_that_is_stopped_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let training = study(root, "cohort = { replicas = 2 }");
    let stop = Stop::new();
    let mut steps = 0;
    let told = super::launch(
        &experiments![Gpt],
        &training,
        Stages::Train,
        &LaunchOptions::default(),
        &stop,
        &mut |event| {
            if let StudyEvent::Train(Event::Step { .. }) = event {
                steps += 1;
                if steps == 1 {
                    stop.request();
                }
            }
        },
    );
    assert!(matches!(told, Err(StudyError::Stopped { done: 0, of: 2 })));
    let report = launch(&training).unwrap();
    assert_eq!(statuses(&report), ["built"; 2]);
    // An undisturbed study elsewhere has the same weights.
    let other = tempfile::tempdir().unwrap();
    let undisturbed = launch(&study(other.path(), "cohort = { replicas = 2 }")).unwrap();
    for (one, two) in report.products.iter().zip(&undisturbed.products) {
        assert_eq!(one.key, two.key);
        let weights = |root: &Path| {
            fs::read(root.join("cache/model").join(&one.key[..32]).join("weights.safetensors")).unwrap()
        };
        assert_eq!(weights(root), weights(other.path()));
    }
}

#[test]
fn study_3_two_workers_share_the_runs() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let training = study(root, "cohort = { replicas = 4 }");
    let work = |index| {
        let options = LaunchOptions { worker: Some((index, 2)), ..LaunchOptions::default() };
        super::launch(&experiments![Gpt], &training, Stages::Train, &options, &Stop::new(), &mut |_| ())
            .unwrap()
    };
    let reports = std::thread::scope(|scope| {
        let workers = [0, 1].map(|index| scope.spawn(move || work(index)));
        workers.map(|worker| worker.join().unwrap())
    });
    let built = reports.iter().flat_map(statuses).filter(|status| *status == "built").count();
    assert_eq!(built, 4, "each run is trained once: {reports:?}");
    assert!(root.join("history.json").is_file(), "the last one to leave has settled");
    assert_eq!(statuses(&launch(&training).unwrap()), ["hit"; 4]);
}
