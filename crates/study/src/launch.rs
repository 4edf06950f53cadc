//! One launch of a study: every run is trained or found, and then the root holds this launch's results.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use waycairn_cache::{Cache, CacheOptions, Waiting};
use waycairn_durable::{Digest, FileLock, Holder, LockError, Size, ensure_format, time};
use waycairn_train::{Event, Experiments, Stop};

use crate::analysis::AnalysisSettings;
use crate::analyze::Analyzed;
use crate::error::StudyError;
use crate::graph::Graph;
use crate::lease::Lease;
use crate::plan::{Plan, PlannedRun, ProductState, reasons};
use crate::settle;
use crate::training::{Training, identity};

/// How a launch goes about its runs.
#[derive(Clone, Debug, Default)]
pub struct LaunchOptions {
    /// Run the remaining runs after one has failed, and report all failures at the end.
    pub keep_going: bool,
    /// Which of how many workers this is. It decides where in the list of runs this one begins, so that workers that
    /// start at once do not all try the same run; which run is whose is decided by claims.
    pub worker: Option<(u32, u32)>,
    /// Only these runs, by their folders from the root; all where there are none. The root is tidied up when the whole
    /// study is done, and a launch of some of its runs may leave that to another.
    pub only: Vec<PathBuf>,
    /// The command line, for `job.json`.
    pub command_line: Vec<String>,
    /// What is known of the last panic, for the record of a run that met a defect. Only who has set the program's panic
    /// hook knows.
    pub last_panic: Option<fn() -> Option<PanicReport>>,
}

/// A panic, as the program's panic hook saw it.
#[derive(Clone, Debug)]
pub struct PanicReport {
    /// Its text and place.
    pub text: String,
    /// Where it came from.
    pub backtrace: String,
}

/// What a launch does with each run.
#[derive(Clone, Copy, Debug)]
pub enum Stages<'a> {
    /// Trains it, or finds its model, and lets its analysis begin anew.
    Train,
    /// Computes its metrics and plots; it has to be trained.
    Analyze(&'a AnalysisSettings),
    /// Both.
    Run(&'a AnalysisSettings),
}

impl<'a> Stages<'a> {
    pub(crate) fn analysis(self) -> Option<&'a AnalysisSettings> {
        match self {
            Self::Train => None,
            Self::Analyze(settings) | Self::Run(settings) => Some(settings),
        }
    }

    /// What the workers of one launch have in common: the same stages of the same settings. Others would undo what these
    /// do.
    fn digest(self, plan: &Plan) -> Digest {
        let stage = match self {
            Self::Train => "train",
            Self::Analyze(_) => "analyze",
            Self::Run(_) => "run",
        };
        let analysis = self.analysis().map_or_else(String::new, AnalysisSettings::identity);
        identity(&[&plan.digest.to_string(), stage, &analysis])
    }
}

/// Something that happened in a launch.
#[derive(Debug)]
#[non_exhaustive]
pub enum StudyEvent<'a> {
    /// A run begins.
    Run {
        /// Its place, from 1.
        index: usize,
        /// How many there are.
        of: usize,
        /// The variant and the member.
        label: &'a str,
    },
    /// Something happened in a run's training.
    Train(&'a Event<'a>),
    /// A product was built.
    Product {
        /// Its kind.
        product: &'a str,
        /// How long it took.
        seconds: f64,
    },
    /// A product, metric or plot says how far it is.
    Progress {
        /// `product`, `metric` or `plot`.
        kind: &'static str,
        /// Its name.
        name: &'a str,
        /// How much is done.
        done: u64,
        /// Of how much; 0 where that is not known.
        total: u64,
        /// What is counted.
        what: &'a str,
    },
    /// Something that a user should know.
    Notice(&'a str),
}

/// What a launch did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LaunchReport {
    /// The products that it needed.
    pub products: Vec<ProductReport>,
    /// Its runs.
    pub runs: Vec<RunReport>,
    /// What was removed at the end, from the root: older runs and entries, and what analyses left in the folders of runs
    /// whose analyses begin anew.
    pub removed: Vec<String>,
    /// What that took, and what of the cache, the runs and the source archives stays; `None` where another worker
    /// cleans up.
    pub cleaned: Option<Cleaned>,
}

/// What a clean-up removed and kept, in files and bytes. Records and checkpoints are not counted: no launch removes
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cleaned {
    /// What was removed.
    pub removed: Size,
    /// What stays.
    pub kept: Size,
}

/// One product of a launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProductReport {
    /// Its kind.
    pub product: String,
    /// Its key.
    pub key: String,
    /// `hit`, `built`, or `damaged` where nothing needed it.
    pub status: String,
    /// The bytes of its files.
    pub bytes: u64,
    /// Seconds that it took.
    pub seconds: f64,
    /// What was estimated that building it takes.
    pub estimate: serde_json::Value,
}

/// One run of a launch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunReport {
    /// Its folder, from the root.
    pub path: String,
    /// The address of its last node.
    pub node: Option<String>,
    /// `trained`, `analyzed`, `failed`, or `elsewhere` where another worker has it.
    pub status: &'static str,
    /// Its metrics and plots that were computed.
    pub computed: Vec<String>,
    /// Its metrics and plots that were there already.
    pub kept: Vec<String>,
}

impl RunReport {
    fn new(path: String, node: Option<String>, status: &'static str) -> Self {
        Self { path, node, status, computed: Vec::new(), kept: Vec::new() }
    }
}

/// What a launch works with.
pub(crate) struct Launch<'a> {
    pub(crate) experiments: &'a Experiments,
    pub(crate) training: &'a Training,
    pub(crate) options: &'a LaunchOptions,
    pub(crate) stages: Stages<'a>,
    /// What each run needs for its analysis, in the order of the plan; none for a training.
    pub(crate) graphs: Vec<Graph<'a>>,
    pub(crate) cache: Cache,
    pub(crate) stop: &'a Stop,
    /// What tells the settings from others.
    pub(crate) digest: Digest,
    pub(crate) started: i64,
    /// The archive of the sources, once it was needed.
    pub(crate) source: OnceCell<String>,
    /// The one of the analysis.
    pub(crate) analysis_source: OnceCell<String>,
}

/// Launches a study: does the stages of every run, and then makes the root hold this training's runs alone.
///
/// The same settings again do nothing. A launch that fails or is interrupted deletes nothing, and the next one goes on
/// where it stopped.
///
/// # Errors
///
/// [`StudyError::OverLimit`] before anything is written; [`StudyError::Busy`] while another launch has the root;
/// [`StudyError::Stopped`] when it was told to stop; [`StudyError::Runs`] for runs that failed.
///
/// # Durability
///
/// What the report names survives a loss of power.
pub fn launch(
    experiments: &Experiments,
    training: &Training,
    stages: Stages<'_>,
    options: &LaunchOptions,
    stop: &Stop,
    observe: &mut dyn FnMut(&StudyEvent<'_>),
) -> Result<LaunchReport, StudyError> {
    let started = time::now_nanos();
    let plan = Plan::new(experiments, training)?;
    if let Some(other) = options.only.iter().find(|only| plan.folders().all(|folder| folder != *only)) {
        return Err(StudyError::NotFound {
            what: format!("the run `{}` is none of these settings", other.display()),
            next: "name one that `waycairn plan` lists, or the settings that it has with `--settings-dir`"
                .to_owned(),
        });
    }
    let graphs = match stages.analysis() {
        Some(analysis) => plan.graphs(analysis, training)?,
        None => Vec::new(),
    };
    settle::check(&training.output)?;
    ensure_format(&training.output).map_err(waycairn_train::TrainError::from)?;
    waycairn_train::use_threads(training.runtime.threads)?;
    let lease = Lease::join(&training.output, stages.digest(&plan), announce)?;
    // Whoever waits for the root is ended by a signal at once; from here on a stop is one in good order.
    stop.begin();
    let launch = Launch {
        experiments,
        training,
        options,
        stages,
        graphs,
        cache: open_cache(training)?,
        stop,
        digest: plan.digest,
        started,
        source: OnceCell::new(),
        analysis_source: OnceCell::new(),
    };
    let mut report = launch.runs(&plan, observe)?;
    if let Some(alone) = lease.leave(announce)? {
        match settle::settle(&launch, &plan, &alone)? {
            Some(settled) => {
                (report.removed, report.cleaned) = (settled.removed, Some(settled.cleaned));
            }
            None if !options.only.is_empty() => {}
            None => {
                let left = report.runs.iter().filter(|run| run.status == "elsewhere").count();
                return Err(StudyError::Left { left, of: report.runs.len() });
            }
        }
    }
    Ok(report)
}

fn announce(holder: &Holder) {
    tracing::warn!("waiting for {holder}, who looks at the workers of the root");
}

fn open_cache(training: &Training) -> Result<Cache, StudyError> {
    let announce = |waiting: &Waiting<'_>| tracing::warn!("{waiting}");
    let options = CacheOptions { announce: Some(std::sync::Arc::new(announce)), ..CacheOptions::default() };
    Ok(Cache::with_options(&training.output, options)?)
}

impl Launch<'_> {
    fn runs(
        &self,
        plan: &Plan,
        observe: &mut dyn FnMut(&StudyEvent<'_>),
    ) -> Result<LaunchReport, StudyError> {
        let of = plan.runs.len();
        let mut report = LaunchReport::default();
        let (mut failed, mut first) = (Vec::new(), None);
        let mut done: BTreeMap<usize, RunReport> = BTreeMap::new();
        // Twice: what another worker had the first time may be done by now, or left by one that died.
        for index in order(of, self.options.worker).chain(order(of, self.options.worker)) {
            if done.get(&index).is_some_and(|run| run.status != "elsewhere") {
                continue;
            }
            let run = &plan.runs[index];
            if !self.options.only.is_empty() && !self.options.only.contains(&run.job.folder) {
                continue;
            }
            let label = format!("{} {}", run.label, run.job.member);
            observe(&StudyEvent::Run { index: index + 1, of, label: &label });
            if self.stop.is_requested() {
                return Err(stopped(&done, of));
            }
            match self.run(run, self.graphs.get(index), observe) {
                Ok((products, ran)) => {
                    report.products.extend(products);
                    done.insert(index, ran);
                }
                Err(StudyError::Stopped { .. }) => return Err(stopped(&done, of)),
                Err(error) => {
                    let text = format!("{label}: {}", reasons(&error));
                    // The first one's error is that of the launch.
                    failed.push(if first.is_none() { label } else { text.clone() });
                    first.get_or_insert_with(|| Box::new(error));
                    let path = run.job.folder.display().to_string();
                    done.insert(index, RunReport::new(path, None, "failed"));
                    if !self.options.keep_going {
                        break;
                    }
                    observe(&StudyEvent::Notice(&text));
                }
            }
        }
        report.runs = done.into_values().collect();
        match first {
            None => Ok(report),
            Some(source) => Err(StudyError::Runs { failed, of, source }),
        }
    }

    /// Does the stages of one run.
    fn run(
        &self,
        run: &PlannedRun,
        graph: Option<&Graph<'_>>,
        observe: &mut dyn FnMut(&StudyEvent<'_>),
    ) -> Result<(Vec<ProductReport>, RunReport), StudyError> {
        let path = run.job.folder.display().to_string();
        let Some(_claim) = self.claim(run)? else {
            return Ok((Vec::new(), RunReport::new(path, None, "elsewhere")));
        };
        if let (Stages::Analyze(_), ProductState::Miss) = (self.stages, run.state) {
            return Err(StudyError::NotFound {
                what: format!("`{}` of {} has not been trained", run.label, run.job.member),
                next: "train the study first: `waycairn train`, or `waycairn run` for both".to_owned(),
            });
        }
        // A model that is there is only recorded, if its run's folder went meanwhile.
        let (product, node) = self.train(run, observe)?;
        let mut products = if let Stages::Analyze(_) = self.stages { Vec::new() } else { vec![product] };
        let mut report = RunReport::new(path, node, "trained");
        if let Some((settings, graph)) = self.stages.analysis().zip(graph) {
            let Analyzed { products: needed, computed, kept } =
                self.analyze(settings, run, graph, observe)?;
            products.extend(needed);
            report = RunReport { status: "analyzed", computed, kept, ..report };
        }
        Ok((products, report))
    }

    /// Runs `body`; a panic in it is an error of the one run that it met.
    pub(crate) fn guard<T>(&self, body: impl FnOnce() -> Result<T, StudyError>) -> Result<T, StudyError> {
        catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
            let said = self.options.last_panic.and_then(|last| last());
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text =
                text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("it left no message");
            Err(match said {
                Some(PanicReport { text, backtrace }) => {
                    StudyError::Panicked { text, backtrace: Some(backtrace) }
                }
                None => StudyError::Panicked { text: text.to_owned(), backtrace: None },
            })
        })
    }

    /// Takes a run, so that no other worker does; `None` if one has it.
    fn claim(&self, run: &PlannedRun) -> Result<Option<Option<FileLock>>, StudyError> {
        let name = format!("job-{}.lock", &run.job.digest.to_string()[..32]);
        match FileLock::try_acquire(&self.training.output.join("locks").join(name)) {
            Ok(lock) => Ok(Some(Some(lock))),
            Err(LockError::Busy { .. }) => Ok(None),
            // Two workers may train one run then; the cache keeps one of the results.
            Err(LockError::Unsupported { .. }) => Ok(Some(None)),
            Err(error) => Err(error.into()),
        }
    }
}

fn stopped(done: &BTreeMap<usize, RunReport>, of: usize) -> StudyError {
    let whole = done.values().filter(|run| matches!(run.status, "trained" | "analyzed")).count();
    StudyError::Stopped { done: whole, of }
}

/// The order in which one worker of several tries the runs.
fn order(runs: usize, worker: Option<(u32, u32)>) -> impl Iterator<Item = usize> {
    let first = worker.map_or(0, |(index, of)| runs * index as usize / (of.max(1) as usize));
    (0..runs).map(move |offset| (first + offset) % runs.max(1))
}

#[cfg(test)]
#[path = "launch/tests.rs"]
mod tests;
