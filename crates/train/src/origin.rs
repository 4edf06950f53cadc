//! Where a run comes from: the checkpoint of a base, and the settings that follow from it.

use std::sync::Arc;

use waycairn_dag::Node;
use waycairn_durable::Digest;
use waycairn_store::ObjectReader;

use crate::any_experiment::{AnyExperiment, Experiments};
use crate::checkpoint::{Checkpoint, Depth};
use crate::course::Length;
use crate::data::Source;
use crate::error::TrainError;
use crate::identity::{NO_BASE, RunKey, Wish};
use crate::known::known_runs;
use crate::request::{Base, SettingsLayer, TrainRequest};
use crate::restore;
use crate::settings::{Settings, SettingsError, parse, read_file};
use crate::stand_in::StandIn;

/// The setting that names a text.
const SOURCE: &str = "data.source";

/// The checkpoint that settings, vocabulary and state are taken from.
pub(crate) enum Origin {
    None,
    /// Where the checkpoint of `node` cannot be used it is another one that has the same settings; see [`StandIn`].
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

/// What follows from a request alone, before anything is locked or written.
pub(crate) struct Resolved {
    pub(crate) reader: ObjectReader,
    pub(crate) origin: Origin,
    pub(crate) experiment: Arc<dyn AnyExperiment>,
    pub(crate) settings: Settings,
}

impl Resolved {
    pub(crate) fn new(experiments: &Experiments, request: &TrainRequest) -> Result<Self, TrainError> {
        check_arguments(request)?;
        let reader = ObjectReader::open_live(&request.root)?;
        let overlay = Overlay::read(request)?;
        let origin = Origin::find(&reader, request, experiments, &overlay)?;
        let experiment = experiments.find(origin.experiment(request))?;
        origin.check_experiment(experiment.name())?;
        let settings = resolve(request, experiment.as_ref(), &origin, &overlay)?;
        experiment.check(&settings)?;
        Ok(Self { reader, origin, experiment, settings })
    }
}

impl Origin {
    fn find(
        reader: &ObjectReader,
        request: &TrainRequest,
        experiments: &Experiments,
        overlay: &Overlay,
    ) -> Result<Self, TrainError> {
        match &request.base {
            Base::None => Ok(Self::None),
            Base::Branch(node) => {
                let stand_in = |error| {
                    let stand_in = StandIn { reader, request, experiments, overlay };
                    stand_in.find(node).ok_or(error)
                };
                let checkpoint = restore::open(reader, node, Depth::Whole).or_else(stand_in)?;
                Ok(Self::Branch { node: node.clone(), checkpoint: Box::new(checkpoint) })
            }
            Base::Resume(node) => {
                let mut before = None;
                loop {
                    let known = known_runs(reader, node.name())?;
                    let run = known.into_iter().find(|run| run.nonce == node.nonce());
                    let newest = match run.as_ref().and_then(|run| run.checkpoints.last()) {
                        Some(newest) => node.at(*newest)?,
                        // Its error names the nearest checkpoints.
                        None => node.clone(),
                    };
                    match restore::open(reader, &newest, Depth::Whole) {
                        // The run is being trained, and a newer one replaced it before it was held.
                        Err(error) if error.is_no_checkpoint() && before.as_ref() != Some(&newest) => {
                            before = Some(newest);
                        }
                        opened => {
                            let checkpoint = Box::new(opened?);
                            let key = run.and_then(|run| run.key);
                            return Ok(Self::Resume { node: node.clone(), checkpoint, key });
                        }
                    }
                }
            }
        }
    }

    pub(crate) fn checkpoint(&self) -> Option<&Checkpoint> {
        match self {
            Self::None => None,
            Self::Branch { checkpoint, .. } | Self::Resume { checkpoint, .. } => Some(checkpoint),
        }
    }

    pub(crate) fn node(&self) -> Option<&Node> {
        match self {
            Self::None => None,
            Self::Branch { node, .. } | Self::Resume { node, .. } => Some(node),
        }
    }

    pub(crate) fn branch(&self) -> Option<&Node> {
        match self {
            Self::Branch { node, .. } => Some(node),
            Self::None | Self::Resume { .. } => None,
        }
    }

    pub(crate) fn experiment<'a>(&'a self, request: &'a TrainRequest) -> Option<&'a str> {
        let recorded = self.checkpoint().map(|checkpoint| checkpoint.job().experiment.as_str());
        request.experiment.as_deref().or(recorded)
    }

    pub(crate) fn check_experiment(&self, wanted: &str) -> Result<(), TrainError> {
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

    /// The base of a branch whose own checkpoint cannot be used.
    pub(crate) fn lost(&self) -> Option<&Node> {
        self.branch().filter(|base| {
            self.checkpoint().is_some_and(|there| there.manifest().node != base.address().as_str())
        })
    }

    /// Refuses a branch whose base has done all steps.
    pub(crate) fn check_steps(&self, steps: u64, length: Option<&Length>) -> Result<(), TrainError> {
        match self {
            Self::Branch { node, checkpoint }
                if checkpoint.state().step >= steps && self.lost().is_none() =>
            {
                let (base, done) = (node.clone(), checkpoint.state().step);
                Err(TrainError::NothingToDo { base, done, steps, length: length.cloned() })
            }
            _ => Ok(()),
        }
    }

    /// Gives away the checkpoint if it is the one of this node.
    pub(crate) fn into_checkpoint_of(self, base: &Node) -> Option<Checkpoint> {
        match self {
            Self::None => None,
            Self::Branch { checkpoint, .. } | Self::Resume { checkpoint, .. } => {
                (checkpoint.manifest().node == base.address().as_str()).then_some(*checkpoint)
            }
        }
    }

    pub(crate) fn name(&self, request: &TrainRequest, experiment: &dyn AnyExperiment) -> String {
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
    pub(crate) fn wish(
        &self,
        request: &TrainRequest,
        name: &str,
        settings: &Settings,
        experiment: &dyn AnyExperiment,
    ) -> Result<(RunKey, Wish), TrainError> {
        let base = self.branch().map_or_else(|| NO_BASE.to_owned(), |base| base.address().to_string());
        let key = |settings_sha256: Digest| RunKey {
            name: name.to_owned(),
            base,
            settings_sha256,
            model_key: request.model_key.clone(),
        };
        let Self::Resume { node, checkpoint, key: own } = self else {
            let wish = if request.fresh { Wish::Fresh } else { Wish::Same };
            return Ok((key(settings.digest()?), wish));
        };
        // A text may have moved: its content is compared by digest, so its path does not count.
        let saved = base_settings(checkpoint, experiment)?;
        let mut here = settings.clone();
        if let Ok(source) = saved.text(SOURCE) {
            here.set(SOURCE, source)?;
        }
        let digest = here.digest()?;
        let key = match own {
            Some(own) => RunKey { settings_sha256: digest, ..own.clone() },
            None => key(digest),
        };
        let wish = Wish::Resume { nonce: node.nonce().to_owned(), seq: node.seq() };
        Ok((key, wish))
    }
}

/// Refuses arguments that contradict each other.
fn check_arguments(request: &TrainRequest) -> Result<(), TrainError> {
    let usage = |what: &str, next: &str| {
        Err(TrainError::Usage { what: what.to_owned(), why: None, next: next.to_owned() })
    };
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

/// Reads the settings of a checkpoint.
pub(crate) fn base_settings(
    checkpoint: &Checkpoint,
    experiment: &dyn AnyExperiment,
) -> Result<Settings, SettingsError> {
    let origin = format!("`{}`", checkpoint.config_path().display());
    Settings::defaults(experiment.schema()).with_toml(checkpoint.config(), &origin)
}

/// What is laid over the settings of a preset or a base. A file is read once: it may be a pipe.
pub(crate) struct Overlay {
    /// Its content, and what it is called in errors.
    layer: Option<(toml::Table, String)>,
}

impl Overlay {
    fn read(request: &TrainRequest) -> Result<Self, SettingsError> {
        let layer = match &request.settings {
            None => None,
            Some(SettingsLayer::Table { table, origin }) => Some((table.clone(), origin.clone())),
            Some(SettingsLayer::File(path)) => {
                let origin = format!("`{}`", path.display());
                Some((parse(&read_file(path)?, &origin)?, origin))
            }
        };
        Ok(Self { layer })
    }

    /// Lays file, `--text` and `--set` over settings.
    pub(crate) fn lay(
        &self,
        mut settings: Settings,
        request: &TrainRequest,
    ) -> Result<Settings, SettingsError> {
        if let Some((table, origin)) = &self.layer {
            settings = settings.with_table(table, origin)?;
        }
        if let Some(text) = &request.text {
            // A file that is called `embedded` is a file.
            if !settings.schema().has(SOURCE) {
                return Err(SettingsError::Conflict {
                    what: "the experiment draws its own data, and a text was given".to_owned(),
                    next: "leave out `--text`".to_owned(),
                });
            }
            settings.set(SOURCE, &Source::File(text.clone()).resolved())?;
        }
        for (path, value) in &request.sets {
            settings.set(path, value)?;
        }
        if settings.schema().has(SOURCE) {
            let source = Source::parse(settings.text(SOURCE)?).resolved();
            settings.set(SOURCE, &source)?;
        }
        Ok(settings)
    }
}

/// Lays preset or base, file, `--text` and `--set` over the defaults.
fn resolve(
    request: &TrainRequest,
    experiment: &dyn AnyExperiment,
    origin: &Origin,
    overlay: &Overlay,
) -> Result<Settings, SettingsError> {
    let settings = match origin.checkpoint() {
        Some(checkpoint) => base_settings(checkpoint, experiment)?,
        None => {
            let defaults = Settings::defaults(experiment.schema());
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
    overlay.lay(settings, request)
}
