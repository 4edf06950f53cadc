//! A settings file to start from.

use std::path::{Path, PathBuf};

use waycairn_durable::{Committed, Durability, StagedFile, create_dir_all};

use crate::analysis::ANALYSIS_FILE;
use crate::error::StudyError;
use crate::training::TRAINING_FILE;
use crate::tree::settings_path;

/// A small study that runs in seconds, and the file for its analyses.
const FILES: [(&str, &str); 2] = [
    (TRAINING_FILE, include_str!("init/settings_training.toml")),
    (ANALYSIS_FILE, include_str!("init/settings_analysis.toml")),
];

/// Writes settings to start from into a folder, and returns the paths. A file that is there stays as it is.
///
/// # Errors
///
/// [`StudyError::NotFound`] when files of both names are there already; [`StudyError::Commit`].
pub fn init(folder: &Path) -> Result<Vec<PathBuf>, StudyError> {
    use std::io::Write as _;
    create_dir_all(folder)?;
    let mut written = Vec::new();
    for (name, text) in FILES {
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
        assert_eq!(init(folder.path()).unwrap(), files);
        for (profile, runs) in [(None, 3), (Some("full"), 8)] {
            let training = Training::read(&experiments![Gpt], folder.path(), profile).unwrap();
            let training = training.with_output(folder.path().join("out"));
            assert_eq!(Plan::new(&experiments![Gpt], &training).unwrap().runs.len(), runs);
        }
        let places = waycairn_analysis_host::Discovery::default();
        let analysis = AnalysisSettings::read(folder.path(), Some("full"), &places).unwrap();
        assert_eq!(analysis.analyses().count(), 0);
        assert!(init(folder.path()).unwrap_err().to_string().contains("are there already"));
    }
}
