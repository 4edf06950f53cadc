//! One launch of training, from a request to a report.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use waycairn_dag::Node;
use waycairn_durable::{FileLock, LockError, create_dir_all, ensure_format};
use waycairn_store::{ObjectReader, ObjectStore, StoreOptions};

use crate::checkpoint::{Checkpoint, Depth, JOB_VERSION, JobFile};
use crate::data::{Fingerprint, Reading, Source, Split, TextData, Whole};
use crate::device::{self, Compute};
use crate::error::{TrainError, branch_command};
use crate::experiment::{AnyExperiment, Experiments};
use crate::identity::{Known, NO_BASE, Plan, Reason, Refusal, RunKey, Wish, decide};
use crate::job::{Job, Mode, new_nonce};
use crate::known::known_runs;
use crate::launch::Launch;
use crate::progress::{Event, Progress};
use crate::request::{Base, Status, TrainReport, TrainRequest};
use crate::restore::{self, Want};
use crate::settings::{Schema, Settings, SettingsError};
use crate::stop::Stop;
use crate::trainer::{Rhythm, Tools, TrainState, Trainer};

/// Trains: a new run, a branch, or one that was interrupted.
///
/// The same request again goes on where the run stopped, at its newest complete checkpoint, with
/// equal bits on the CPU; a finished run is skipped.
///
/// # Errors
///
/// [`TrainError`]; what was recorded before is durable.
///
/// # Durability
///
/// When it returns, everything in the report survives a loss of power.
pub fn train(
    experiments: &Experiments,
    request: &TrainRequest,
    stop: &Stop,
    progress: &mut dyn Progress,
) -> Result<TrainReport, TrainError> {
    let begin = Instant::now();
    let compute = Compute::choose(&request.device)?;
    let threads = device::threads(request.threads)?;
    check_arguments(request)?;
    let reader = ObjectReader::open(&request.root)?;
    let origin = Origin::find(&reader, request)?;
    let experiment = experiments.find(origin.experiment(request))?;
    origin.check_experiment(experiment.name())?;
    let settings = resolve(request, experiment.as_ref(), &origin)?;
    let rhythm = Rhythm::new(&settings)?;
    let name = origin.name(request, experiment.as_ref());
    // Refused now rather than after the lock and the data.
    Node::new(&name, "0000000000000000", 0)?;
    let (key, wish) = origin.wish(request, &name, &settings, experiment.as_ref())?;
    let data = open_data(&settings, &origin, &rhythm)?;
    let fingerprint = fingerprint(&settings, &data)?;

    ensure_format(&request.root)?;
    let _lock = lock(&request.root, &key)?;
    // Read again under the lock: another launch may have ended in between.
    let known = known_runs(&reader, &name)?;
    let plan = decide(&wish, &key, &known)
        .map_err(|refusal| refused(&request.root, &origin, refusal, rhythm.steps))?;
    if let Plan::New(Reason::OtherSettings) = plan {
        let notice = other_settings(&reader, &name, &settings, &known);
        progress.event(&Event::Notice(&notice));
    }
    let base = origin.branch();
    let (mode, nonce) = match &plan {
        Plan::Skip { nonce, seq } => {
            return skipped(&reader, &name, nonce, *seq, rhythm.steps, &known);
        }
        Plan::New(_) => (fresh_or_branch(base), new_nonce()?.as_str().to_owned()),
        Plan::Again { nonce } => (fresh_or_branch(base), nonce.clone()),
        Plan::Continue { nonce, seq } => (Mode::Resume(Node::new(&name, nonce, *seq)?), nonce.clone()),
    };

    let execution = new_nonce()?.as_str().to_owned();
    let launch = Launch::new(execution, request.command_line.clone(), threads);
    let options = StoreOptions {
        execution: Some(launch.execution.clone()),
        tag: request.tag.clone(),
        job: Some(format!("{}@{}", experiment.name(), experiment.version())),
        ..StoreOptions::default()
    };
    let store = Arc::new(ObjectStore::open(&request.root, options)?);
    stop.guard(&store);
    let job_file = Arc::new(JobFile {
        version: JOB_VERSION,
        experiment: experiment.name().to_owned(),
        experiment_version: experiment.version().to_owned(),
        name: name.clone(),
        base: base.map(|base| base.address().to_string()),
        settings_sha256: settings.digest()?,
        execution: launch.execution.clone(),
        command_line: launch.command_line.clone(),
        git: launch.git.clone(),
        host: launch.host.clone(),
        device: compute.name().to_owned(),
        threads: launch.threads,
        cpu_features: launch.cpu_features.clone(),
        packages: launch.packages.clone(),
        data: fingerprint.clone(),
    });

    let mut job = Job::new(Arc::clone(&store), &name, &nonce);
    let restoring = Restoring {
        reader: &reader,
        request,
        experiment: experiment.as_ref(),
        settings: &settings,
        vocabulary: data.vocabulary().len(),
        fingerprint: &fingerprint,
        compute: &compute,
        launch: &launch,
    };
    job.setup(&mode, |mode| restoring.state(mode, progress))?;
    if let (Mode::Branch(base), done) = (&mode, job.state()?.step)
        && done >= rhythm.steps
    {
        return Err(TrainError::NothingToDo { base: base.clone(), done, steps: rhythm.steps });
    }
    let first = !matches!(mode, Mode::Resume(_));
    let tools = Tools {
        settings: &settings,
        data: Arc::new(data),
        fingerprint: fingerprint.clone(),
        job_file,
        key,
        eager: compute.is_eager(),
        deadline: request.max_time.and_then(|time| begin.checked_add(time)),
        stop,
        progress,
    };
    let ended = Trainer::new(job, tools).and_then(|trainer| trainer.run(first));
    let closed = store.close();
    let ended = ended?;
    closed?;
    let resumed_from = match mode {
        Mode::Resume(node) => Some(node),
        Mode::Fresh | Mode::Branch(_) => None,
    };
    Ok(TrainReport {
        status: if ended.finished { Status::Finished } else { Status::Stopped },
        steps: ended.step,
        checkpoint: ended.checkpoint.or_else(|| resumed_from.clone()),
        resumed_from,
        node: ended.node,
        updates: ended.updates,
        ticks: ended.ticks,
    })
}

/// The checkpoint that settings, vocabulary and state are taken from.
enum Origin {
    None,
    Branch {
        node: Node,
        checkpoint: Box<Checkpoint>,
    },
    /// `node` as asked for, and the newest checkpoint of its run.
    Resume {
        node: Node,
        checkpoint: Box<Checkpoint>,
        key: Option<RunKey>,
    },
}

impl Origin {
    fn find(reader: &ObjectReader, request: &TrainRequest) -> Result<Self, TrainError> {
        match &request.base {
            Base::None => Ok(Self::None),
            Base::Branch(node) => {
                let checkpoint = restore::open(reader, node, Depth::Whole)?;
                Ok(Self::Branch { node: node.clone(), checkpoint: Box::new(checkpoint) })
            }
            Base::Resume(node) => {
                let known = known_runs(reader, node.name())?;
                let run = known.into_iter().find(|run| run.nonce == node.nonce());
                let newest = match run.as_ref().and_then(|run| run.checkpoints.last()) {
                    Some(newest) => node.at(*newest)?,
                    // Its error names the nearest checkpoints.
                    None => node.clone(),
                };
                let checkpoint = restore::open(reader, &newest, Depth::Whole)?;
                let key = run.and_then(|run| run.key);
                Ok(Self::Resume { node: node.clone(), checkpoint: Box::new(checkpoint), key })
            }
        }
    }

    fn checkpoint(&self) -> Option<&Checkpoint> {
        match self {
            Self::None => None,
            Self::Branch { checkpoint, .. } | Self::Resume { checkpoint, .. } => Some(checkpoint),
        }
    }

    fn node(&self) -> Option<&Node> {
        match self {
            Self::None => None,
            Self::Branch { node, .. } | Self::Resume { node, .. } => Some(node),
        }
    }

    fn branch(&self) -> Option<&Node> {
        match self {
            Self::Branch { node, .. } => Some(node),
            Self::None | Self::Resume { .. } => None,
        }
    }

    fn experiment<'a>(&'a self, request: &'a TrainRequest) -> Option<&'a str> {
        let recorded = self.checkpoint().map(|checkpoint| checkpoint.job().experiment.as_str());
        request.experiment.as_deref().or(recorded)
    }

    fn check_experiment(&self, wanted: &str) -> Result<(), TrainError> {
        match (self.checkpoint(), self.node()) {
            (Some(checkpoint), Some(node)) if checkpoint.job().experiment != wanted => {
                Err(TrainError::OtherExperiment {
                    node: node.clone(),
                    found: checkpoint.job().experiment.clone(),
                    wanted: wanted.to_owned(),
                })
            }
            _ => Ok(()),
        }
    }

    fn name(&self, request: &TrainRequest, experiment: &dyn AnyExperiment) -> String {
        let of_preset = || {
            let default = || experiment.presets().first().map(|preset| preset.name.to_owned());
            request.preset.clone().or_else(default).unwrap_or_else(|| experiment.name().to_owned())
        };
        let of_base = self.node().map(|node| node.name().to_owned());
        match self {
            // A resumed run keeps its name; another one was refused before.
            Self::Resume { .. } => of_base.unwrap_or_else(of_preset),
            _ => request.name.clone().or(of_base).unwrap_or_else(of_preset),
        }
    }

    /// Returns what makes this command the same as an earlier one, and what it wants.
    fn wish(
        &self,
        request: &TrainRequest,
        name: &str,
        settings: &Settings,
        experiment: &dyn AnyExperiment,
    ) -> Result<(RunKey, Wish), TrainError> {
        let base = self.branch().map_or_else(|| NO_BASE.to_owned(), |base| base.address().to_string());
        let key = |settings_sha256: String| RunKey { name: name.to_owned(), base, settings_sha256 };
        let Self::Resume { node, checkpoint, key: own } = self else {
            let wish = if request.fresh { Wish::Fresh } else { Wish::Same };
            return Ok((key(settings.digest()?.to_string()), wish));
        };
        // A text may have moved: its content is compared by digest, so its path does not count.
        let saved = base_settings(checkpoint, experiment)?;
        let mut here = settings.clone();
        here.set("data.source", saved.text("data.source")?)?;
        let digest = here.digest()?.to_string();
        let key = match own {
            Some(own) => RunKey { settings_sha256: digest, ..own.clone() },
            None => key(digest),
        };
        let wish = Wish::Resume { nonce: node.nonce().to_owned(), seq: node.seq() };
        Ok((key, wish))
    }
}

fn check_arguments(request: &TrainRequest) -> Result<(), TrainError> {
    let usage =
        |what: &str, next: &str| Err(TrainError::Usage { what: what.to_owned(), next: next.to_owned() });
    if request.base != Base::None && request.preset.is_some() {
        return usage(
            "a preset was given together with a base, whose settings are taken",
            "leave the preset out, and change single settings with `--set`",
        );
    }
    if request.base != Base::None && request.fresh {
        return usage("a new run has no base", "leave out `--fresh`: a branch begins a new run anyway");
    }
    match (&request.base, &request.name) {
        (Base::Resume(node), Some(name)) if node.name() != name => usage(
            &format!("a resumed run keeps its name, `{}`, and `{name}` was given", node.name()),
            "leave the name out, or begin a branch with `--branch`",
        ),
        _ => Ok(()),
    }
}

fn base_settings(checkpoint: &Checkpoint, experiment: &dyn AnyExperiment) -> Result<Settings, SettingsError> {
    let origin = format!("`{}`", checkpoint.config_path().display());
    Settings::defaults(Schema::new(experiment.keys())).with_toml(checkpoint.config(), &origin)
}

/// Lays preset or base, file, `--text` and `--set` over the defaults.
fn resolve(
    request: &TrainRequest,
    experiment: &dyn AnyExperiment,
    origin: &Origin,
) -> Result<Settings, SettingsError> {
    let mut settings = match origin.checkpoint() {
        Some(checkpoint) => base_settings(checkpoint, experiment)?,
        None => {
            let defaults = Settings::defaults(Schema::new(experiment.keys()));
            let presets = experiment.presets();
            let preset = match &request.preset {
                None => presets.first(),
                Some(name) => {
                    let found = presets.iter().find(|preset| preset.name == name);
                    Some(found.ok_or_else(|| SettingsError::UnknownPreset {
                        name: name.clone(),
                        known: presets.iter().map(|preset| preset.name.to_owned()).collect(),
                    })?)
                }
            };
            match preset {
                Some(preset) => defaults.with_preset(preset)?,
                None => defaults,
            }
        }
    };
    if let Some(file) = &request.settings_file {
        settings = settings.with_file(file)?;
    }
    if let Some(text) = &request.text {
        settings.set("data.source", &text.to_string_lossy())?;
    }
    for (path, value) in &request.sets {
        settings.set(path, value)?;
    }
    let source = Source::parse(settings.text("data.source")?).resolved();
    settings.set("data.source", &source)?;
    Ok(settings)
}

fn open_data(settings: &Settings, origin: &Origin, rhythm: &Rhythm) -> Result<TextData, TrainError> {
    let tokenizer = settings.text("data.tokenizer")?;
    let kept =
        origin.checkpoint().map(Checkpoint::vocabulary).filter(|vocabulary| vocabulary.kind() == tokenizer);
    let reading = match (kept, tokenizer) {
        (Some(vocabulary), _) => Reading::Given(vocabulary.clone()),
        (None, "byte") => Reading::Bytes,
        (None, _) => Reading::OwnCharacters,
    };
    let source = Source::parse(settings.text("data.source")?);
    let data = TextData::open(&source, reading, settings.number("data.split")?)?;
    let context = settings.integer("data.context")?;
    data.check_split(Split::Train, context)?;
    if rhythm.eval_every.is_some() {
        data.check_split(Split::Validation, context)?;
    }
    Ok(data)
}

pub(crate) fn fingerprint(settings: &Settings, data: &TextData) -> Result<Fingerprint, TrainError> {
    Ok(Fingerprint {
        bytes: data.byte_len(),
        content_sha256: data.sha256(),
        tokenizer_sha256: data.vocabulary().digest().map_err(crate::data::DataError::Vocabulary)?,
        tokens: data.len(),
        train_tokens: data.split_len(Split::Train),
        seed: settings.integer("seed")?,
        order: settings.text("data.order")?.to_owned(),
        context: settings.integer("data.context")?,
        batch_size: settings.integer("batch_size")?,
        accumulate: settings.integer("accumulate")?,
    })
}

/// Takes the run's lock, or goes on without one where the file system has none.
fn lock(root: &Path, key: &RunKey) -> Result<Option<FileLock>, TrainError> {
    let folder = root.join("locks");
    create_dir_all(&folder)?;
    let path = folder.join(format!("run-{}.lock", key.digest()));
    match FileLock::try_acquire(&path) {
        Ok(lock) => Ok(Some(lock)),
        Err(LockError::Busy { path, holder }) => {
            Err(TrainError::Busy { name: key.name.clone(), lock: path, holder })
        }
        Err(error @ LockError::Unsupported { .. }) => {
            tracing::warn!(%error, "nothing keeps a second launch of this run away");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn fresh_or_branch(base: Option<&Node>) -> Mode {
    base.map_or(Mode::Fresh, |base| Mode::Branch(base.clone()))
}

fn skipped(
    reader: &ObjectReader,
    name: &str,
    nonce: &str,
    seq: u64,
    steps: u64,
    known: &[Known],
) -> Result<TrainReport, TrainError> {
    let node = Node::new(name, nonce, seq)?;
    let run = known.iter().find(|run| run.nonce == nonce);
    let newest = run.and_then(|run| run.checkpoints.last());
    let checkpoint = newest.map(|newest| node.at(*newest)).transpose()?;
    tracing::debug!(node = %node, root = %reader.root().display(), "the run is finished");
    Ok(TrainReport {
        node,
        status: Status::Skipped,
        steps,
        resumed_from: None,
        checkpoint,
        updates: 0,
        ticks: 0,
    })
}

/// Says why a run may not go on, with the command that begins a branch instead.
fn refused(root: &Path, origin: &Origin, refusal: Refusal, steps: u64) -> TrainError {
    let Some((node, checkpoint)) = origin.node().zip(origin.checkpoint()) else {
        // Only a resume is refused, and a resume has an origin.
        let what = "nothing was asked to be resumed".to_owned();
        return TrainError::Usage { what, next: "name a node with `--resume`".to_owned() };
    };
    let newest = checkpoint.manifest().node.parse::<waycairn_dag::Address>().map(|address| address.decode());
    let done = checkpoint.state().step;
    let branch = |node: &Node, more: Option<u64>| Some(branch_command(root, node, more));
    let (why, command) = match refusal {
        Refusal::Finished => {
            let why = "its run is finished, and going on would mix two histories under one identity";
            let at = newest.as_ref().unwrap_or(node);
            (why.to_owned(), branch(at, Some(steps.max(done) + done)))
        }
        Refusal::NotNewest { newest } => {
            let why = format!(
                "its run has a newer checkpoint at seq {newest}, and going on from here would mix two histories under one identity"
            );
            (why, branch(node, None))
        }
        Refusal::OtherSettings => {
            let why = "its run has other settings, and a run keeps the settings that it began with";
            (why.to_owned(), branch(newest.as_ref().unwrap_or(node), None))
        }
        Refusal::NoCheckpoint | Refusal::Unknown => ("its run has no complete checkpoint".to_owned(), None),
        Refusal::Foreign => ("its run was not made by `waycairn train`".to_owned(), branch(node, None)),
    };
    TrainError::Refused { node: node.clone(), why, command }
}

/// Says that a name is used with other settings, and which they are where that is known.
fn other_settings(reader: &ObjectReader, name: &str, settings: &Settings, known: &[Known]) -> String {
    let mut text = format!("runs called `{name}` are recorded with other settings: this begins a new one");
    let newest = known.iter().find_map(|run| Some((run, *run.checkpoints.last()?)));
    let differences = newest.and_then(|(run, seq)| {
        let node = Node::new(name, &run.nonce, seq).ok()?;
        let folder = reader.checkpoint(&node).ok()??;
        let config = std::fs::read_to_string(folder.join(crate::checkpoint::CONFIG)).ok()?;
        let theirs = Settings::defaults(settings.schema().clone()).with_toml(&config, "its settings").ok()?;
        Some(settings.differences(&theirs))
    });
    let shown: Vec<String> = differences
        .unwrap_or_default()
        .iter()
        .take(4)
        .map(|difference| format!("{} was {}, is {}", difference.path, difference.theirs, difference.ours))
        .collect();
    if !shown.is_empty() {
        text.push_str(&format!(" ({})", shown.join("; ")));
    }
    text
}

/// What a state is made from.
struct Restoring<'a> {
    reader: &'a ObjectReader,
    request: &'a TrainRequest,
    experiment: &'a dyn AnyExperiment,
    settings: &'a Settings,
    vocabulary: usize,
    fingerprint: &'a Fingerprint,
    compute: &'a Compute,
    launch: &'a Launch,
}

impl Restoring<'_> {
    fn state(&self, mode: &Mode, progress: &mut dyn Progress) -> Result<TrainState, TrainError> {
        let mut learner = self.experiment.learner(self.settings, self.vocabulary, self.compute.device())?;
        let (base, whole) = match mode {
            Mode::Fresh => {
                return Ok(TrainState {
                    learner,
                    step: 0,
                    tokens: 0,
                    skipped: 0,
                    offset: 0,
                    changed_data: false,
                });
            }
            Mode::Branch(base) => (base, Whole::No),
            Mode::Resume(base) => (base, Whole::Yes),
        };
        let checkpoint = restore::open(self.reader, base, Depth::Whole)?;
        let saved = &checkpoint.state().loader.fingerprint;
        let restarts = whole == Whole::No && self.settings.text("branch_data")? == "restart";
        let mut changed_data = false;
        if let Err(error) = self.fingerprint.check(saved, whole)
            && !(restarts && saved.tokenizer_sha256 == self.fingerprint.tokenizer_sha256)
        {
            if !self.request.allow_changed_data {
                return Err(error.into());
            }
            progress.event(&Event::Notice(&format!("going on although {error}")));
            changed_data = true;
        }
        let want = if self.request.partial { Want::WhatFits } else { Want::Everything };
        let mismatch = restore::restore(self.reader, base, &checkpoint, learner.as_mut(), want)?;
        if !mismatch.is_empty() {
            progress.event(&Event::Notice(&format!("restored in part; {}", mismatch.summary())));
        }
        self.compare_machines(&checkpoint, progress);
        let state = checkpoint.state();
        let offset = match mode {
            Mode::Branch(_) if restarts => 0,
            Mode::Branch(_) => self.continued(state.loader.position + 1, saved),
            _ => state.loader.offset,
        };
        Ok(TrainState {
            learner,
            step: state.step,
            tokens: state.tokens,
            skipped: state.skipped,
            offset,
            changed_data: changed_data || state.loader.changed_data_allowed,
        })
    }

    /// The position of the first batch that begins after the examples of `positions` batches.
    fn continued(&self, positions: u64, saved: &Fingerprint) -> u64 {
        let (old, new) = (saved.global_batch(), self.fingerprint.global_batch());
        if old == new {
            return positions;
        }
        let examples = u128::from(positions) * u128::from(old);
        u64::try_from(examples.div_ceil(u128::from(new.max(1)))).unwrap_or(u64::MAX)
    }

    /// Bits are equal within one machine; where something that decides them differs, say so.
    fn compare_machines(&self, checkpoint: &Checkpoint, progress: &mut dyn Progress) {
        let (then, now) = (checkpoint.job(), self.launch);
        let mut differences = Vec::new();
        let mut compare = |what: &str, then: String, now: String| {
            if then != now {
                differences.push(format!("{what} was {then}, is {now}"));
            }
        };
        compare("the device", then.device.clone(), self.compute.name().to_owned());
        compare("the number of threads", then.threads.to_string(), now.threads.to_string());
        compare("the processor", then.cpu_features.join(" "), now.cpu_features.join(" "));
        for (name, version) in &now.packages {
            let saved = then.packages.get(name).cloned().unwrap_or_default();
            compare(name, saved, version.clone());
        }
        if !differences.is_empty() {
            let text = format!("the bits may differ from an undisturbed run: {}", differences.join("; "));
            progress.event(&Event::Notice(&text));
        }
    }
}

#[cfg(test)]
#[path = "run/tests.rs"]
mod tests;
