//! A settings file to start from.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};

use waycairn_durable::{Committed, Durability, StagedFile, create_dir_all};

use crate::analysis::ANALYSIS_FILE;
use crate::error::StudyError;
use crate::training::TRAINING_FILE;
use crate::tree::settings_path;

/// A study to start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starter {
    /// A small sweep of learning rates, which runs in seconds.
    Sweep,
    /// Ratio estimation on a Gaussian simulator, with all its metrics and figures.
    Gaussian,
}

impl Starter {
    /// The texts of the settings of training and analysis.
    fn texts(self) -> [&'static str; 2] {
        match self {
            Self::Sweep => {
                [include_str!("init/settings_training.toml"), include_str!("init/settings_analysis.toml")]
            }
            Self::Gaussian => [
                include_str!("init/gaussian/settings_training.toml"),
                include_str!("init/gaussian/settings_analysis.toml"),
            ],
        }
    }

    /// The file of the library that its analyses are of, on this system.
    #[must_use]
    pub fn library(self) -> Option<String> {
        let file = |name: &str| format!("{DLL_PREFIX}{name}{DLL_SUFFIX}");
        (self == Self::Gaussian).then(|| file("waycairn_gaussian_study"))
    }
}

/// What stands in a text for the library.
const LIBRARY: &str = "{library}";

/// Writes settings to start from into a folder, and returns the paths. A file that is there stays as it is. `library` is
/// where the library of its analyses is.
///
/// # Errors
///
/// [`StudyError::NotFound`] when files of both names are there already; [`StudyError::Commit`].
pub fn init(folder: &Path, starter: Starter, library: &Path) -> Result<Vec<PathBuf>, StudyError> {
    use std::io::Write as _;
    create_dir_all(folder)?;
    let mut written = Vec::new();
    // TOML knows every escape of a JSON string.
    let library = serde_json::Value::from(library.display().to_string()).to_string();
    for (name, text) in [TRAINING_FILE, ANALYSIS_FILE].into_iter().zip(starter.texts()) {
        let text = text.replace(LIBRARY, &library);
        let path = settings_path(folder, name);
        let mut file = StagedFile::create(&path, Durability::State)?;
        file.write_all(text.as_bytes()).map_err(|source| StudyError::Io {
            operation: "write",
            path: path.clone(),
            source,
        })?;
        if file.commit_new()? == Committed::New {
            written.push(path);
        }
    }
    if written.is_empty() {
        return Err(StudyError::NotFound {
            what: format!("the settings in `{}` are there already, and stay as they are", folder.display()),
            next: "change them, or name another folder with `--settings-dir`".to_owned(),
        });
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use waycairn_train::{Gpt, experiments};

    use super::*;
    use crate::{AnalysisSettings, Plan, Training};

    #[test]
    fn what_is_written_is_a_study() {
        let folder = tempfile::tempdir().unwrap();
        let files = [TRAINING_FILE, ANALYSIS_FILE].map(|file| folder.path().join(file));
        let sweep = || init(folder.path(), Starter::Sweep, Path::new(""));
        assert_eq!(sweep().unwrap(), files);
        for (profile, runs) in [(None, 3), (Some("full"), 8)] {
            let training = Training::read(&experiments![Gpt], folder.path(), profile).unwrap();
            let training = training.with_output(folder.path().join("out"));
            assert_eq!(Plan::new(&experiments![Gpt], &training).unwrap().runs.len(), runs);
        }
        let places = waycairn_analysis_host::Discovery::default();
        let analysis = AnalysisSettings::read(folder.path(), Some("full"), &places).unwrap();
        assert_eq!(analysis.analyses().count(), 0);
        assert!(sweep().unwrap_err().to_string().contains("are there already"));
    }

    #[test]
    fn the_gaussian_study_has_the_profiles_of_its_page() {
        let folder = tempfile::tempdir().unwrap();
        let library = Path::new("no \"such\" library.so");
        init(folder.path(), Starter::Gaussian, library).unwrap();
        let known = experiments![Gpt].with_rows(waycairn_train::Nre);
        for (profile, runs, steps) in
            [(None, 24, 2_735), (Some("one"), 4, 2_735), (Some("paper"), 24, 2_735), (Some("smoke"), 4, 16)]
        {
            let training = Training::read(&known, folder.path(), profile).unwrap();
            let training = training.with_output(folder.path().join("out"));
            let plan = Plan::new(&known, &training).unwrap();
            assert_eq!(plan.runs.len(), runs);
            assert!(plan.runs.iter().all(|run| run.description.estimate.steps == steps));
            let rate = |run: &crate::PlannedRun| {
                run.job.settings.section("parameters").unwrap()["mean"]["exponential_rate"].clone()
            };
            let expected = if profile == Some("paper") { -0.1 } else { 0.1 };
            assert!(plan.runs.iter().all(|run| rate(run) == expected));
        }
        let places = waycairn_analysis_host::Discovery::default();
        let error = AnalysisSettings::read(folder.path(), Some("smoke"), &places).unwrap_err();
        assert!(error.to_string().contains("no \"such\" library.so"), "{error}");
    }
}
