//! What the commands of studies share: where the settings are, which root they mean, and what is seen meanwhile.

use std::path::PathBuf;

use clap::Args;
use waycairn_study::{Plan, StudyEvent, TRAINING_FILE, Training};
use waycairn_train::Progress as _;

use crate::context::Context;
use crate::error::CliError;
use crate::failure;
use crate::progress::Watch;
use crate::table::printable;

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
        let training = Training::read(&context.experiments, &folder, self.profile.as_deref());
        let training = training.map_err(|error| failure::study(error.into()))?;
        Ok(match &context.global.root {
            Some(root) => training.with_output(root.clone()),
            None => training,
        })
    }

    /// Works out what a launch would do.
    pub(super) fn plan(&self, context: &Context) -> Result<(Training, Plan), CliError> {
        let training = self.training(context)?;
        let plan = Plan::new(&context.experiments, &training).map_err(failure::study)?;
        Ok((training, plan))
    }

    /// The root of a study: the one named, else that of the settings where there are some, else the one that every
    /// reader means.
    pub(super) fn root(&self, context: &Context) -> Result<PathBuf, CliError> {
        if context.global.root.is_some() {
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

/// Shows a launch on standard error: a line for each run, and below it the run's own.
pub(super) fn observe<'w>(watch: &'w mut Watch) -> impl FnMut(&StudyEvent<'_>) + use<'w> {
    move |event| match event {
        StudyEvent::Run { index, of, label } => {
            watch.heading(&format!("[{index}/{of}] {}", printable(label)))
        }
        StudyEvent::Train(event) => watch.event(event),
        StudyEvent::Notice(text) => watch.heading(&format!("note: {}", printable(text))),
        _ => {}
    }
}
