//! The training of one run of a launch: its model is trained or found, and its folder says so.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use serde_json::json;
use waycairn_cache::How;
use waycairn_dag::Address;
use waycairn_durable::{Holder, Size, create_dir_all, remove_dir_all, remove_file, time};
use waycairn_store::ObjectReader;
use waycairn_train::{Description, Event, Fingerprint, Progress, TrainRequest};

use crate::analysis::{ANALYSIS_FILE, AnalysisSettings};
use crate::error::StudyError;
use crate::launch::{Launch, ProductReport, Stages, StudyEvent};
use crate::litter;
use crate::model::{self, MODEL};
use crate::plan::{PlannedRun, chain};
use crate::record::{
    self, ANALYSIS, ARTIFACTS, ArtifactsFile, METRICS, Outside, RECORD_VERSION, RUN, Reference, RunFile,
    RunState, STATUS, StatusFile,
};
use crate::results;
use crate::source;
use crate::training::TRAINING_FILE;
use crate::tree::Document;

impl Launch<'_> {
    /// Trains one run, or finds its model.
    pub(crate) fn train(
        &self,
        run: &PlannedRun,
        observe: &mut dyn FnMut(&StudyEvent<'_>),
    ) -> Result<(ProductReport, Option<String>), StudyError> {
        let folder = self.training.output.join(&run.job.folder);
        let begin = Instant::now();
        // What is there may be damaged, which is an error here as everywhere.
        let found = matches!(self.cache.get(&run.recipe)?, waycairn_cache::Lookup::Hit(_));
        let before = if found { None } else { self.begin(run, &folder, observe)? };
        let mut progress = |event: &Event<'_>| observe(&StudyEvent::Train(event));
        let request =
            TrainRequest { command_line: self.options.command_line.clone(), ..run.job.request.clone() };
        let context = model::Training {
            experiments: self.experiments,
            request: request.clone(),
            settings: run.job.settings.clone(),
            // Its archive is written for what is trained alone.
            trained: (!found).then(|| self.trained(&run.description, before)).transpose()?,
            stop: self.stop,
            progress: &mut progress,
        };
        let built = match self.guard(|| self.cache.get_or_build(&run.recipe, context, model::build)) {
            Ok(built) => built,
            Err(error) => {
                let mut status = self.status(run, RunState::Running);
                status.seconds = before.map(|before| before + begin.elapsed().as_secs_f64());
                // What stopped goes on there.
                if !matches!(error, StudyError::Stopped { .. }) {
                    status.state = RunState::Failed;
                    status.error = chain(&error);
                    status.backtrace = error.backtrace().map(str::to_owned);
                    status.ended = Some(time::rfc3339_micros(time::now_nanos()));
                }
                record::write(&folder.join(STATUS), &status)?;
                return Err(error);
            }
        };
        let node = built.artifact.metadata().get("node").and_then(|node| node.as_str()).map(str::to_owned);
        let node = match node {
            Some(node) if found && !self.is_recorded(&node)? => {
                Some(self.node_again(run, &folder, request, &mut progress)?)
            }
            node => node,
        };
        let seconds = begin.elapsed().as_secs_f64();
        self.end(run, &folder, &built.artifact, node.clone())?;

        let status = if built.how == How::Hit { "hit" } else { "built" };
        let product = ProductReport {
            product: MODEL.to_owned(),
            key: run.key.digest().to_string(),
            status: status.to_owned(),
            bytes: built.artifact.bytes(),
            seconds,
            estimate: json!(run.description.estimate),
        };
        Ok((product, node))
    }

    /// The last node of a run whose model is there and whose nodes were removed, or not copied: one that the run's folder
    /// knows of a training since, or that of another training.
    fn node_again(
        &self,
        run: &PlannedRun,
        folder: &Path,
        request: TrainRequest,
        progress: &mut dyn Progress,
    ) -> Result<String, StudyError> {
        let there = record::read::<RunFile>(&folder.join(RUN)).ok().flatten().and_then(|run| run.node);
        if let Some(there) = there
            && self.is_recorded(&there)?
        {
            return Ok(there);
        }
        if let Stages::Analyze(_) = self.stages {
            return Err(StudyError::NotFound {
                what: format!("the nodes of `{}` of {} are gone", run.label, run.job.member),
                next: "`waycairn run` trains it once more, for its nodes".to_owned(),
            });
        }
        let (experiments, stop) = (self.experiments, self.stop);
        let settings = run.job.settings.clone();
        let context = model::Training { experiments, request, settings, trained: None, stop, progress };
        Ok(self.guard(|| model::train(&run.recipe, context))?.selected.address().to_string())
    }

    /// Whether anything is recorded at the last node of a run. It left a checkpoint there once, so a look at its folder
    /// is nearly always enough.
    fn is_recorded(&self, address: &str) -> Result<bool, StudyError> {
        let Ok(address) = address.parse::<Address>() else { return Ok(false) };
        let (reader, node) = (ObjectReader::open_live(self.training.output())?, address.decode());
        Ok(reader.has_folder(&node) || reader.query().node(&node).count()?.value > 0)
    }

    /// Says that a run is being trained: what was found about it before is void, but for the seconds that it took so far.
    /// They are not known where a session was killed.
    fn begin(
        &self,
        run: &PlannedRun,
        folder: &Path,
        observe: &mut dyn FnMut(&StudyEvent<'_>),
    ) -> Result<Option<f64>, StudyError> {
        create_dir_all(folder)?;
        if !start_over(folder)?.is_empty() {
            let shown = run.job.folder.display();
            let text = format!("the metrics and plots of `{shown}` are removed: its model is made once more");
            observe(&StudyEvent::Notice(&text));
        }
        let there = record::read::<StatusFile>(&folder.join(STATUS)).ok().flatten();
        let before = there.map_or(Some(0.0), |status| status.seconds);
        record::write(&folder.join(STATUS), &self.status(run, RunState::Running))?;
        let trained = self.trained(&run.description, before)?;
        record::write(&folder.join(RUN), &self.run_file(run, trained))?;
        Ok(before)
    }

    /// Says that a run is trained. Files that say so already are left alone.
    fn end(
        &self,
        run: &PlannedRun,
        folder: &Path,
        artifact: &waycairn_cache::Artifact,
        node: Option<String>,
    ) -> Result<(), StudyError> {
        create_dir_all(folder)?;
        let reference = Reference::new(artifact.entry(), artifact.key());
        let mut artifacts =
            record::read::<ArtifactsFile>(&folder.join(ARTIFACTS)).ok().flatten().unwrap_or_default();
        if artifacts.artifacts.get(MODEL) != Some(&reference) {
            artifacts = ArtifactsFile { version: RECORD_VERSION, ..ArtifactsFile::default() };
            artifacts.artifacts.insert(MODEL.to_owned(), reference);
            record::write(&folder.join(ARTIFACTS), &artifacts)?;
        }
        let there = record::read::<RunFile>(&folder.join(RUN)).ok().flatten();
        match there {
            // The folder's name says all that decides the result, so what is there is this run, unless it was changed.
            Some(there) if there.faults(self.training.output(), &run.job.folder).is_empty() => {
                if there.node != node {
                    record::write(&folder.join(RUN), &RunFile { node, ..there })?;
                }
            }
            _ => {
                let trained = self.of_model(run, artifact)?;
                record::write(&folder.join(RUN), &RunFile { node, ..self.run_file(run, trained) })?;
            }
        }
        let there = record::read::<StatusFile>(&folder.join(STATUS)).ok().flatten();
        if there.as_ref().is_none_or(|status| status.state != RunState::Trained) {
            let mut status = self.status(run, RunState::Trained);
            if let Some(begun) = there {
                status.started = begun.started;
            }
            status.ended = Some(time::rfc3339_micros(time::now_nanos()));
            status.seconds =
                artifact.metadata().get("trained").and_then(|trained| trained["seconds"].as_f64());
            record::write(&folder.join(STATUS), &status)?;
        }
        Ok(())
    }

    /// The circumstances of a training of this launch.
    fn trained(&self, description: &Description, seconds: Option<f64>) -> Result<model::Trained, StudyError> {
        Ok(model::Trained {
            host: Holder::current().host,
            started: time::rfc3339_micros(self.started),
            source: self.source(description)?,
            seconds,
        })
    }

    /// The circumstances of the training of a model that is there; this launch's where its archive is gone.
    fn of_model(
        &self,
        run: &PlannedRun,
        artifact: &waycairn_cache::Artifact,
    ) -> Result<model::Trained, StudyError> {
        let told = artifact.metadata().get("trained").cloned().map(serde_json::from_value::<model::Trained>);
        match told {
            Some(Ok(trained)) if self.training.output.join(&trained.source).is_file() => Ok(trained),
            Some(Ok(trained)) => Ok(model::Trained { source: self.source(&run.description)?, ..trained }),
            _ => self.trained(&run.description, None),
        }
    }

    fn run_file(&self, run: &PlannedRun, trained: model::Trained) -> RunFile {
        let configuration = &self.training.configurations[run.job.configuration];
        let description = &run.description;
        RunFile {
            version: RECORD_VERSION,
            id: run.job.folder.strip_prefix("runs").unwrap_or(&run.job.folder).display().to_string(),
            variant: configuration.name.clone(),
            change: configuration.change.clone(),
            member: run.job.member.clone(),
            experiment: self.training.experiment.clone(),
            experiment_version: description.experiment_version.clone(),
            settings: json!(run.job.settings),
            training_sha256: self.digest,
            name: run.job.name.clone(),
            node: None,
            source: trained.source,
            outside: Outside {
                crates: description.implementation.crates.clone(),
                data: match &description.data {
                    Fingerprint::Text(text) => [("text".to_owned(), text.content_sha256)].into(),
                    // They are drawn anew from the settings: nothing of them is outside.
                    Fingerprint::Rows(_) => BTreeMap::new(),
                },
                host: trained.host,
            },
            backend: run.recipe.backend.clone().unwrap_or_else(|| crate::plan::backend(description)),
            started: trained.started,
        }
    }

    /// The archive of the sources and settings of the analysis of this launch.
    pub(crate) fn analysis_source(
        &self,
        settings: &AnalysisSettings,
        run: &PlannedRun,
    ) -> Result<String, StudyError> {
        let texts = [(TRAINING_FILE, &self.training.document), (ANALYSIS_FILE, &settings.document)];
        self.archive(&self.analysis_source, &run.description, &texts)
    }

    /// An archive of this launch; it is written when the first run needs it.
    fn archive(
        &self,
        written: &OnceCell<String>,
        description: &Description,
        texts: &[(&str, &Document)],
    ) -> Result<String, StudyError> {
        if let Some(name) = written.get() {
            return Ok(name.clone());
        }
        let own =
            description.sources.iter().map(|(name, bytes)| (format!("experiment/{name}"), bytes.to_owned()));
        let texts = texts
            .iter()
            .map(|(name, document)| (format!("settings/{name}"), document.text.clone().into_bytes()));
        let name = source::archive(self.training.output(), &own.chain(texts).collect())?;
        Ok(written.get_or_init(|| name).clone())
    }

    /// The archive of the sources and settings of this launch.
    fn source(&self, description: &Description) -> Result<String, StudyError> {
        self.archive(&self.source, description, &[(TRAINING_FILE, &self.training.document)])
    }

    fn status(&self, run: &PlannedRun, state: RunState) -> StatusFile {
        StatusFile {
            version: RECORD_VERSION,
            state,
            started: time::rfc3339_micros(time::now_nanos()),
            ended: None,
            error: Vec::new(),
            backtrace: None,
            seconds: None,
            estimate: json!(run.description.estimate),
        }
    }
}

/// Removes what an analysis left in the folder of a run: first what says that there is one. Says what there was.
pub(crate) fn start_over(folder: &Path) -> Result<Vec<(&'static str, Size)>, StudyError> {
    let mut removed = Vec::new();
    let names = [ANALYSIS, METRICS].into_iter().chain(results::FOLDERS);
    for name in names.filter(|name| folder.join(name).symlink_metadata().is_ok()) {
        removed.push((name, Size::of(&folder.join(name))?));
    }
    for file in [ANALYSIS, METRICS] {
        litter::clear_file(&folder.join(file))?;
        remove_file(&folder.join(file))?;
    }
    for results in results::FOLDERS {
        litter::clear_folder(&folder.join(results))?;
        remove_dir_all(&folder.join(results))?;
    }
    Ok(removed)
}
