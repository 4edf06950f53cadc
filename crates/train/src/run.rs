//! One launch of training, from a request to a report.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use waycairn_dag::Node;
use waycairn_durable::{FileLock, LockError, create_dir_all, ensure_format};
use waycairn_store::{ObjectReader, ObjectStore, StoreError, StoreOptions, WhenFull, check_tag};

use crate::any_experiment::{AnyExperiment, Experiments};
use crate::checkpoint::{Checkpoint, Depth, JOB_VERSION, JobFile};
use crate::course::{Course, Length, STEPS};
use crate::device::{self, Compute};
use crate::error::TrainError;
use crate::explain::{carried, other_settings, refused};
use crate::hold;
use crate::identity::{Known, Plan, Reason, RunKey, decide, option, quote};
use crate::job::{Job, Mode, new_nonce};
use crate::known::{known_runs, selected};
use crate::launch::Launch;
use crate::memory;
use crate::origin::Resolved;
use crate::prepare::Preparing;
use crate::progress::{Event, Progress};
use crate::request::{OnStoreError, Status, TrainReport, TrainRequest};
use crate::restore;
use crate::stop::Stop;
use crate::trainer::{Tools, Trainer};

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
    launch(experiments, request, stop, progress).map_err(|error| {
        let steps = request.sets.iter().rfind(|(path, _)| path == STEPS);
        let steps = steps.map_or_else(String::new, |(_, steps)| format!(" --steps {}", quote(steps)));
        let name =
            request.name.as_ref().map_or_else(String::new, |name| format!(" {}", option("--name", name)));
        error.carrying(format!("{name}{steps}{}", carried(request, STEPS)))
    })
}

fn launch(
    experiments: &Experiments,
    request: &TrainRequest,
    stop: &Stop,
    progress: &mut dyn Progress,
) -> Result<TrainReport, TrainError> {
    let begin = Instant::now();
    // Refused now rather than when the store is opened.
    request.tag.as_deref().map_or(Ok(()), check_tag).map_err(StoreError::from)?;
    let compute = Compute::choose(&request.device)?;
    let threads = device::threads(request.threads)?;
    let Resolved { reader, origin, experiment, settings } = Resolved::new(experiments, request)?;
    let experiment = experiment.as_ref();
    let course = experiment.course(&settings)?;
    let length = Length::of(experiment, &settings, course.steps);
    origin.check_steps(course.steps, length.as_ref())?;
    let name = origin.name(request, experiment);
    // Refused now rather than when the run has begun.
    Node::new(&name, "0000000000000000", 0)?;
    let (key, wish) = origin.wish(request, &name, &settings, experiment)?;

    // Data that nobody trains on are not drawn. Nothing is written for a run that is finished, so that it is left alone
    // where nothing can be written.
    let known = known_runs(&reader, &name)?;
    match decide(&wish, &key, &known) {
        Ok(Plan::Skip { nonce, seq }) => {
            return skipped(&reader, experiment, &course, Node::new(&name, &nonce, seq)?, &known, length);
        }
        Ok(_) => {}
        Err(refusal) => return Err(refused(&reader, request, &origin, refusal, length.as_ref())),
    }
    let kept = origin.checkpoint().and_then(Checkpoint::vocabulary);
    let data = experiment.open(&settings, kept)?;
    stop.begin();
    ensure_format(&request.root)?;
    let _lock = lock(&request.root, &key)?;
    // Read under the lock: another launch may have ended in between.
    let known = known_runs(&reader, &name)?;
    let plan = decide(&wish, &key, &known)
        .map_err(|refusal| refused(&reader, request, &origin, refusal, length.as_ref()))?;
    if let (Plan::New(_) | Plan::Again { .. }, Some(base)) = (&plan, origin.lost()) {
        // Only a branch that is there can do without its base.
        restore::open(&reader, base, Depth::Whole)?;
    }
    if let Plan::New(Reason::OtherSettings) = plan {
        progress.event(&Event::Notice(&other_settings(&reader, &key, &settings, &known)));
    }
    let base = origin.branch().cloned();
    let from_base = || base.clone().map_or(Mode::Fresh, Mode::Branch);
    let (mode, nonce) = match plan {
        Plan::Skip { nonce, seq } => {
            return skipped(&reader, experiment, &course, Node::new(&name, &nonce, seq)?, &known, length);
        }
        Plan::New(_) => (from_base(), new_nonce()?.as_str().to_owned()),
        Plan::Again { nonce } => (from_base(), nonce),
        Plan::Continue { nonce, seq } => (Mode::Resume(Node::new(&name, &nonce, seq)?), nonce),
    };
    let mut checkpoint = match &mode {
        Mode::Fresh => None,
        Mode::Branch(node) | Mode::Resume(node) => Some(match origin.into_checkpoint_of(node) {
            Some(checkpoint) => checkpoint,
            None => restore::open(&reader, node, Depth::Whole)?,
        }),
    };
    let data = match checkpoint.as_ref().and_then(Checkpoint::vocabulary) {
        // Changed data may have other characters; the model has those that it was made with.
        Some(kept)
            if request.allow_changed_data && data.vocabulary().is_some_and(|now| now.as_ref() != kept) =>
        {
            experiment.open(&settings, Some(kept))?
        }
        _ => data,
    };
    let tokens = data.vocabulary().map_or(0, |vocabulary| vocabulary.len());
    memory::check(experiment, &settings, tokens, memory::Use::Training)?;
    let fingerprint = data.fingerprint().clone();

    let launch = Launch::new(new_nonce()?.as_str().to_owned(), request.command_line.clone(), threads);
    let degrades = request.on_store_error == OnStoreError::Degrade;
    let options = StoreOptions {
        execution: Some(launch.execution.clone()),
        tag: request.tag.clone(),
        job: Some(format!("{}@{}", experiment.name(), experiment.version())),
        when_full: if degrades { WhenFull::Drop } else { WhenFull::default() },
        ..StoreOptions::default()
    };
    let open = || ObjectStore::open(&request.root, options.clone()).map(Arc::new);
    let store = open()?;
    stop.guard(&store);
    // The lock is ours: whoever left a checkpoint without its marker is gone.
    store.remove_unmarked_checkpoints(&name, &nonce)?;
    hold::announce(&request.root, &Node::new(&name, &nonce, 0)?)?;
    let first = !matches!(mode, Mode::Resume(_));
    let selection = course.selection;
    let mut job = Job::new(Arc::clone(&store), &name, &nonce);
    let preparing = Preparing {
        reader: &reader,
        request,
        experiment,
        settings: &settings,
        vocabulary: tokens,
        fingerprint: &fingerprint,
        compute: &compute,
        launch: &launch,
        checkpoint: checkpoint.as_ref(),
    };
    job.setup(&mode, |mode| preparing.state(mode, progress))?;
    // A run that goes on must be able to withdraw its own checkpoints.
    let hold = checkpoint.as_mut().filter(|_| first).and_then(Checkpoint::take_hold);
    drop(checkpoint);

    let job_file = JobFile {
        version: JOB_VERSION,
        experiment: experiment.name().to_owned(),
        experiment_version: experiment.version().to_owned(),
        name,
        base: base.map(|base| base.address().to_string()),
        settings_sha256: key.settings_sha256,
        execution: launch.execution,
        command_line: launch.command_line,
        git: launch.git,
        host: launch.host,
        device: compute.name().to_owned(),
        threads: launch.threads,
        cpu_features: launch.cpu_features,
        packages: launch.packages,
        data: fingerprint,
    };
    let tools = Tools {
        settings: &settings,
        data,
        course,
        job_file: Arc::new(job_file),
        key,
        eager: compute.is_eager(),
        deadline: request.max_time.and_then(|time| begin.checked_add(time)),
        stop,
        hold,
        reopen: degrades.then_some(&open),
        progress,
    };
    let ended = Trainer::new(job, tools).and_then(|trainer| trainer.run(first));
    // What was recorded before an error is kept as well, so the error comes second. A launch that was told to
    // stop may be killed soon: it leaves its parts as they are.
    let closed = match &ended {
        Ok(ended) if ended.finished => ended.store.close(),
        Ok(ended) => ended.store.close_uncompacted(),
        Err(_) => store.close_uncompacted(),
    };
    let ended = ended?;
    closed?;
    let selected = selected(&reader, selection, &ended.node)?;
    let resumed_from = match mode {
        Mode::Resume(node) => Some(node),
        Mode::Fresh | Mode::Branch(_) => None,
    };
    Ok(TrainReport {
        status: if ended.finished { Status::Finished } else { Status::Stopped },
        steps: ended.step,
        checkpoint: ended.checkpoint.or_else(|| resumed_from.clone()),
        resumed_from,
        selected,
        samples: experiment.samples(),
        length,
        node: ended.node,
        updates: ended.updates,
        skipped: ended.skipped,
        unrecorded: ended.unrecorded,
        ticks: ended.ticks,
    })
}

/// Takes the run's lock, or goes on without one where the file system has none.
fn lock(root: &Path, key: &RunKey) -> Result<Option<FileLock>, TrainError> {
    let folder = root.join("locks");
    create_dir_all(&folder)?;
    let path = folder.join(lock_name(key));
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

/// Returns the name of the run's lock file.
pub(crate) fn lock_name(key: &RunKey) -> String {
    format!("run-{}.lock", key.digest())
}

/// Reports a run that was finished before.
fn skipped(
    reader: &ObjectReader,
    experiment: &dyn AnyExperiment,
    course: &Course,
    node: Node,
    known: &[Known],
    length: Option<Length>,
) -> Result<TrainReport, TrainError> {
    let run = known.iter().find(|run| run.nonce == node.nonce());
    let newest = run.and_then(|run| run.checkpoints.last());
    let checkpoint = newest.map(|newest| node.at(*newest)).transpose()?;
    tracing::debug!(node = %node, "the run is finished");
    Ok(TrainReport {
        selected: selected(reader, course.selection, &node)?,
        samples: experiment.samples(),
        length,
        node,
        status: Status::Skipped,
        steps: course.steps,
        resumed_from: None,
        checkpoint,
        updates: 0,
        skipped: 0,
        unrecorded: 0,
        ticks: 0,
    })
}

#[cfg(test)]
mod tests;
