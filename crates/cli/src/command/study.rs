//! What the commands of studies share: where the settings are, which root they mean, and what is seen meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use waycairn_cache::Cache;
use waycairn_durable::Size;
use waycairn_durable::time::now_nanos;
use waycairn_study::{
    ANALYSIS_FILE, AnalysisSettings, Cleaned, LaunchOptions, LaunchReport, Plan, PlannedProduct,
    ProductReport, RecordedRun, RunReport, Stages, StudyError, StudyEvent, TRAINING_FILE, Training,
};
use waycairn_train::Progress as _;

use crate::command::launch;
use crate::command::plugins::PluginPlaces;
use crate::command::train::quoted;
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::failure;
use crate::number::{self, plural};
use crate::output::{Destination, Shape};
use crate::progress::{Unit, Watch, Work};
use crate::table::printable;
use crate::value::Value;

/// Which settings a study has.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StudyPlace {
    /// Profile of the settings file [default: its default_profile]
    #[arg(long, value_name = "NAME", help_heading = "Study")]
    pub(super) profile: Option<String>,
    /// Folder of settings_training.toml [default: this folder]
    #[arg(long, value_name = "FOLDER", help_heading = "Study")]
    pub(super) settings_dir: Option<PathBuf>,
}

impl StudyPlace {
    /// Reads the settings. `--root` wins over the output that they name.
    pub(super) fn training(&self, context: &Context) -> Result<Training, CliError> {
        let folder = self.folder();
        let profile = self.profile.clone().or_else(|| self.kept_profile());
        let training = Training::read(&context.experiments, &folder, profile.as_deref());
        let training = training.map_err(|error| failure::study(error.into()))?;
        Ok(match context.named_root() {
            Some(root) => training.with_output(root.to_owned()),
            None => training,
        })
    }

    /// The profile of the newest training of a root whose own copies of the settings are read.
    fn kept_profile(&self) -> Option<String> {
        let root = self.settings_dir.as_ref().filter(|folder| folder.join("FORMAT").is_file())?;
        let history = Cache::open(root).ok()?.history(now_nanos()).ok()?;
        let label = history.roots().first()?.label.clone();
        // What a training without a profile is called there.
        (label != "base").then_some(label)
    }

    /// Works out what a launch would do.
    fn plan(&self, context: &Context) -> Result<(Training, Plan), CliError> {
        let training = self.training(context)?;
        let plan = Plan::new(&context.experiments, &training).map_err(failure::study)?;
        Ok((training, plan))
    }

    /// What a launch would do, with the products of its analysis where there are settings of one.
    pub(super) fn planned(
        &self,
        places: &PluginPlaces,
        context: &Context,
    ) -> Result<(Training, Plan, Vec<Vec<PlannedProduct>>), CliError> {
        let (training, plan) = self.plan(context)?;
        if !self.folder().join(ANALYSIS_FILE).exists() {
            let none = plan.runs.iter().map(|_| Vec::new()).collect();
            return Ok((training, plan, none));
        }
        let settings = AnalysisSettings::read(&self.folder(), training.profile(), &places.discovery(context));
        let settings = settings.map_err(|error| failure::study(error.into()))?;
        let products = plan.products(&settings, &training).map_err(failure::study)?;
        Ok((training, plan, products))
    }

    /// The root of a study: the one named, else that of the settings where there are some, else the one that every
    /// reader means.
    pub(super) fn root(&self, context: &Context) -> Result<PathBuf, CliError> {
        if context.named_root().is_some() {
            return Ok(context.root_to_read().path);
        }
        if self.profile.is_some() || self.settings_dir.is_some() || self.has_training() {
            return Ok(self.training(context)?.output().to_owned());
        }
        Ok(context.root_to_read().path)
    }

    /// Whether there is a file of training settings.
    pub(super) fn has_training(&self) -> bool {
        self.folder().join(TRAINING_FILE).exists()
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.settings_dir.clone().unwrap_or_else(|| PathBuf::from("."))
    }
}

/// How the runs of a study are shared and when a launch ends.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Workers {
    /// Go on with the other runs of a study after one has failed, and tell all failures at the end
    #[arg(long, help_heading = "Study")]
    pub(super) keep_going: bool,
    /// Which worker of how many this is, from 0: several share the runs of a study [default: RANK/WORLD_SIZE, else
    /// SLURM_PROCID/SLURM_NTASKS]
    #[arg(long, value_name = "I/N", value_parser = worker, help_heading = "Study")]
    pub(super) worker: Option<(u32, u32)>,
}

/// Reads `I/N`.
fn worker(text: &str) -> Result<(u32, u32), String> {
    let (index, of) = text.split_once('/').unwrap_or((text, ""));
    match (index.parse(), of.parse()) {
        (Ok(index), Ok(of)) if index < of => Ok((index, of)),
        _ => Err("write it as I/N with I below N, for example 0/4".to_owned()),
    }
}

/// What is done with each run of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Train,
    Analyze,
    Run,
}

/// Launches a study.
pub(super) fn launch(
    place: &StudyPlace,
    workers: &Workers,
    stage: Stage,
    only: &[String],
    places: &PluginPlaces,
    format: Shape,
    context: &Context,
) -> Result<Exit, CliError> {
    let training = place.training(context)?;
    let analysis = match stage {
        Stage::Train => None,
        Stage::Analyze | Stage::Run => {
            let discovery = places.discovery(context);
            let read = AnalysisSettings::read(&place.folder(), training.profile(), &discovery);
            Some(read.map_err(|error| failure::study(error.into()))?)
        }
    };
    let stages = match (&analysis, stage) {
        (Some(settings), Stage::Analyze) => Stages::Analyze(settings),
        (Some(settings), _) => Stages::Run(settings),
        (None, _) => Stages::Train,
    };
    let found = only.iter().map(|run| Ok(RecordedRun::find(training.output(), run)?.folder));
    let only = found.collect::<Result<_, _>>().map_err(failure::study)?;
    let stop = context.listen()?;
    let options = LaunchOptions {
        keep_going: workers.keep_going,
        worker: workers.worker.or(context.environment.worker),
        only,
        command_line: context.command_line.clone(),
        last_panic: Some(crate::panic::last),
    };
    let mut watch = Watch::new(&context.terminal);
    let launched = waycairn_study::launch(
        &context.experiments,
        &training,
        stages,
        &options,
        &stop,
        &mut observe(&mut watch),
    );
    watch.end();
    let report = match launched {
        Err(error @ StudyError::Stopped { .. }) => {
            // The launcher of several workers says once how all of them go on.
            let again = match context.environment.launched {
                true => String::new(),
                false => format!("; to go on, run again: {}", context.again()),
            };
            context.note(&format!("{error}{again}"));
            return Ok(Exit::Stopped);
        }
        launched => launched.map_err(failure::study)?,
    };
    if context.environment.launched && report.cleaned.is_some() {
        launch::tell_whole();
    }
    let mut out = Destination::standard_output();
    match format {
        Shape::Json => out.json_line(&Value::from(serde_json::json!(report)))?,
        Shape::Table => out.text(&text(&report, &training))?,
    }
    out.finish()?;
    Ok(Exit::Done)
}

/// What a launch did, in words.
fn text(report: &LaunchReport, training: &Training) -> String {
    let count = |product: &str, status: &str| {
        report.products.iter().filter(|known| known.product == product && known.status == status).count()
    };
    let mut parts = Vec::new();
    let mut kinds: Vec<&str> = report.products.iter().map(|known| known.product.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        let (built, hit) = (count(kind, "built"), count(kind, "hit"));
        let damaged = match count(kind, "damaged") {
            0 => String::new(),
            damaged => format!(", {damaged} damaged, which nothing needed"),
        };
        parts.push(format!("  {kind}: {built} built, {hit} there already{damaged}\n"));
        let done = report.products.iter().filter(|known| known.product == kind && known.status == "built");
        parts.extend(cost(&done.collect::<Vec<_>>()));
    }
    let all = || report.runs.iter().flat_map(|run| run.computed.iter().chain(&run.kept));
    for name in all().collect::<BTreeSet<_>>() {
        let count = |names: fn(&RunReport) -> &Vec<String>| {
            report.runs.iter().filter(|run| names(run).contains(name)).count()
        };
        let (computed, kept) = (count(|run| &run.computed), count(|run| &run.kept));
        parts.push(format!("  {}: {computed} computed, {kept} kept\n", printable(name)));
    }
    let elsewhere = report.runs.iter().filter(|run| run.status == "elsewhere").count();
    if elsewhere > 0 {
        parts.push(format!("  {} with other workers\n", plural(elsewhere as u64, "run")));
    }
    if let Some(Cleaned { removed, kept }) = report.cleaned {
        let size = |size: Size| format!("{}, {}", plural(size.files, "file"), number::bytes(size.bytes));
        let analyses = begun_anew(report);
        let of_analyses = (!analyses.is_empty())
            .then(|| format!("the metrics and plots of {}", plural(analyses.len() as u64, "run")));
        let older = report.removed.len() - analyses.values().sum::<usize>();
        let older = (older > 0).then(|| plural(older as u64, "older thing"));
        let gone: Vec<String> = of_analyses.into_iter().chain(older).collect();
        let removed = match gone.as_slice() {
            [] => "nothing removed".to_owned(),
            gone => format!("{} removed ({})", gone.join(" and "), size(removed)),
        };
        parts.push(format!("  clean-up: {removed}, {} kept\n", size(kept)));
        if !analyses.is_empty() {
            parts.push(
                "    a training lets analyses begin anew: `waycairn analyze` computes them\n".to_owned(),
            );
        }
    }
    let root = training.output().to_string_lossy();
    format!(
        "{} in `{}`\n{}  waycairn nodes --root {}    what the runs recorded\n",
        plural(report.runs.len() as u64, "run"),
        printable(&root),
        parts.concat(),
        quoted(&root)
    )
}

/// How many things were removed in the folder of each run that stays: what its analysis had left.
fn begun_anew(report: &LaunchReport) -> BTreeMap<&Path, usize> {
    let mut found = BTreeMap::new();
    for folder in report.removed.iter().filter_map(|removed| Path::new(removed).parent()) {
        if report.runs.iter().any(|run| Path::new(&run.path) == folder) {
            *found.entry(folder).or_default() += 1;
        }
    }
    found
}

/// What was estimated of some products, and what they took.
fn cost(built: &[&ProductReport]) -> Option<String> {
    let sum = |key: &str| -> Option<f64> {
        let values = built.iter().filter_map(|known| known.estimate.get(key)?.as_f64());
        values.reduce(|sum, value| sum + value)
    };
    let count = |noun: &'static str| sum(noun).map(|count| format!("{} {noun}", number::float(count)));
    let counts = ["steps", "tokens", "evaluations"].into_iter().filter_map(count);
    let bytes = sum("bytes").or_else(|| sum("weight_bytes")).map(|bytes| number::bytes(bytes as u64));
    let span = |seconds: f64| number::span(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    let estimated: Vec<String> = counts.chain(bytes).chain(sum("seconds").map(span)).collect();
    if built.is_empty() {
        return None;
    }
    let actual = format!(
        "took {} and {}",
        span(built.iter().map(|known| known.seconds).sum()),
        number::bytes(built.iter().map(|known| known.bytes).sum())
    );
    Some(match estimated.as_slice() {
        [] => format!("    {actual}\n"),
        estimated => format!("    estimated {}; {actual}\n", estimated.join(", ")),
    })
}

/// Shows a launch on standard error: a line for each run, and below it the run's own.
fn observe<'w>(watch: &'w mut Watch) -> impl FnMut(&StudyEvent<'_>) + use<'w> {
    move |event| match event {
        StudyEvent::Run { index, of, label } => {
            watch.heading(&format!("[{index}/{of}] {}", printable(label)))
        }
        StudyEvent::Train(event) => watch.event(event),
        StudyEvent::Product { product, seconds } => {
            watch.heading(&format!(
                "built {} in {}",
                printable(product),
                number::span(Duration::from_secs_f64(*seconds))
            ));
        }
        StudyEvent::Progress { kind, name, done, total, what } => {
            let verb = if *kind == "product" { "building" } else { "computing" };
            let label = format!("{verb} {name}");
            let (unit, done, total) = (Unit::Named(what), *done, *total);
            watch.work(&Work { label: &label, unit, done, total, more: None });
        }
        StudyEvent::Notice(text) => watch.heading(&format!("note: {}", printable(text))),
        _ => {}
    }
}
