//! A small study with a real plugin, roots to copy, and what two roots have in common.
#![allow(dead_code, reason = "no test uses all of it")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use waycairn_analysis_host::Discovery;
use waycairn_durable::Digest;
use waycairn_store::ObjectReader;
use waycairn_study::{
    ANALYSIS_FILE, AnalysisSettings, LaunchOptions, LaunchReport, Stages, StudyError, TRAINING_FILE, Training,
};
use waycairn_train::{Gpt, Stop, experiments};

/// A root to be. In memory where that is to be had: these tests end processes and not power, and a launch waits for the
/// disk some hundred times.
pub(crate) fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir()
        && let Ok(folder) = tempfile::tempdir_in(memory)
    {
        return folder;
    }
    tempfile::tempdir().unwrap()
}

/// What is launched: stages, and the settings that differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work<'a> {
    /// `train`, `analyze` or `run`.
    pub(crate) stage: &'a str,
    /// The learning rate: another one is another training.
    pub(crate) rate: &'a str,
    /// Rows that the product reads: others are another product.
    pub(crate) rows: &'a str,
    /// How many runs there are.
    pub(crate) replicas: u32,
    /// Which of how many workers this is.
    pub(crate) worker: Option<(u32, u32)>,
}

impl<'a> Work<'a> {
    pub(crate) fn new(stage: &'a str, rate: &'a str, rows: &'a str) -> Self {
        Self { stage, rate, rows, replicas: 2, worker: None }
    }

    pub(crate) fn text(&self) -> String {
        format!("{} {} {}", self.stage, self.rate, self.rows)
    }

    pub(crate) fn read(text: &'a str) -> Self {
        let words: Vec<&str> = text.split(' ').collect();
        Self::new(words[0], words[1], words[2])
    }
}

/// A study of runs of one step and one checkpoint each.
fn training(rate: &str, replicas: u32) -> String {
    format!(
        "[base]\nsteps = 1\nbatch_size = 2\nwarmup = 1\neval_every = \"off\"\ncheckpoint_every = \"off\"\n\
         data = {{ context = 4 }}\nmodel = {{ layers = 1, heads = 1, width = 4 }}\n\
         learning_rate = {rate}\ncohort = {{ replicas = {replicas} }}\n"
    )
}

/// A product, and a metric and a plot of it. The width is the plot's alone.
fn analysis(rows: &str) -> String {
    format!(
        "[base]\nplugins = ['{}']\nmetrics = ['loss_by_position']\nplots = ['loss_by_position_curve']\n\
         position = {{ rows = {rows} }}\nloss_by_position_curve = {{ width = 30{rows} }}\n",
        plugin().display()
    )
}

/// The plugin, which cargo builds for this test, beside it.
fn plugin() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let prefix = std::env::consts::DLL_PREFIX;
    folder.join(format!("{prefix}waycairn_loss_by_position{}", std::env::consts::DLL_SUFFIX))
}

/// Writes the settings of a study.
pub(crate) fn settings(folder: &Path, work: Work<'_>) {
    fs::write(folder.join(TRAINING_FILE), training(work.rate, work.replicas)).unwrap();
    fs::write(folder.join(ANALYSIS_FILE), analysis(work.rows)).unwrap();
}

pub(crate) fn launch(root: &Path, work: Work<'_>) -> Result<LaunchReport, StudyError> {
    let folder = tempfile::tempdir().unwrap();
    settings(folder.path(), work);
    let experiments = experiments![Gpt];
    let training = Training::read(&experiments, folder.path(), None)?.with_output(root.to_owned());
    let analysis = AnalysisSettings::read(folder.path(), None, &Discovery::default())?;
    let stages = match work.stage {
        "train" => Stages::Train,
        "analyze" => Stages::Analyze(&analysis),
        _ => Stages::Run(&analysis),
    };
    let options = LaunchOptions { worker: work.worker, ..LaunchOptions::default() };
    waycairn_study::launch(&experiments, &training, stages, &options, &Stop::new(), &mut |_| ())
}

/// Copies a folder. What goes meanwhile is left out.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let Ok(entries) = fs::read_dir(from) else { return };
    for entry in entries.filter_map(Result::ok) {
        let target = to.join(entry.file_name());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => copy(&entry.path(), &target),
            Ok(_) => drop(fs::copy(entry.path(), target)),
            Err(_) => {}
        }
    }
}

/// All files below a folder, from it, sorted.
pub(crate) fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            } else {
                found.push(entry.path().strip_prefix(root).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// What a root says, but for times, machines, and what is drawn at random: every file with its content, and what is
/// recorded at the nodes of its runs.
pub(crate) fn said(root: &Path) -> BTreeMap<String, String> {
    let mut said = BTreeMap::new();
    for path in files(root) {
        let name = path.display().to_string();
        // Locks name their last holder; the store is asked below.
        if name.starts_with("locks/") || name.starts_with("objects/") {
            continue;
        }
        // What is hidden is spared for a day, since it may be in the making; but a run is one worker's.
        let hidden = name.starts_with('.') || name.contains("/.");
        if hidden && !name.starts_with("runs/") {
            continue;
        }
        let bytes = fs::read(root.join(&path)).unwrap();
        let text = match name.rsplit_once('.') {
            // It says when it was built, and what for: which is the name of its folder.
            _ if name.ends_with("artifact.json") => String::new(),
            Some((_, "json")) => plain(&bytes),
            _ => Digest::of(&bytes).to_string(),
        };
        said.insert(name, text);
    }
    let reader = ObjectReader::open(root).unwrap();
    for run in waycairn_study::RecordedRun::list(root).unwrap() {
        let Some(node) = run.run.node else { continue };
        let node = node.parse::<waycairn_dag::Address>().unwrap().decode();
        let view = reader.node(&node).unwrap().unwrap();
        let fields = view.fields.iter().filter(|(key, _)| !key.starts_with("job/"));
        let numbers = fields.filter(|(key, _)| key.contains("loss"));
        said.insert(
            format!("node of {}", run.folder.display()),
            format!("{:?}", numbers.collect::<Vec<_>>()),
        );
    }
    said
}

/// JSON without what differs from launch to launch.
fn plain(bytes: &[u8]) -> String {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(entries) => {
                for key in ["started", "ended", "seconds", "time", "node", "host", "status"] {
                    entries.remove(key);
                }
                entries.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    match serde_json::from_slice::<Value>(bytes) {
        Ok(mut value) => {
            strip(&mut value);
            value.to_string()
        }
        Err(error) => error.to_string(),
    }
}

/// The entries of `right` that differ in `left`, and what only one of them has.
pub(crate) fn differences(left: &BTreeMap<String, String>, right: &BTreeMap<String, String>) -> Vec<String> {
    let names = left.keys().chain(right.keys().filter(|name| !left.contains_key(*name)));
    let differs = names.filter(|name| left.get(*name) != right.get(*name));
    differs.map(|name| format!("{name}: {:?} / {:?}", left.get(name), right.get(name))).collect()
}
