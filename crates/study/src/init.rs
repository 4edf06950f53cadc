//! A settings file to start from.

use std::path::{Path, PathBuf};

use waycairn_durable::{Committed, Durability, StagedFile, create_dir_all};

use crate::error::StudyError;
use crate::training::TRAINING_FILE;

/// A small study that runs in seconds.
const TRAINING: &str = include_str!("init/settings_training.toml");

/// Writes settings to start from into a folder, and returns the paths. A file that is there stays as it is.
///
/// # Errors
///
/// [`StudyError::NotFound`] when a file of that name is there already; [`StudyError::Commit`].
pub fn init(folder: &Path) -> Result<Vec<PathBuf>, StudyError> {
    use std::io::Write as _;
    create_dir_all(folder)?;
    let path =
        if folder == Path::new(".") { PathBuf::from(TRAINING_FILE) } else { folder.join(TRAINING_FILE) };
    let mut file = StagedFile::create(&path, Durability::State)?;
    file.write_all(TRAINING.as_bytes()).map_err(|source| StudyError::Io {
        operation: "write",
        path: path.clone(),
        source,
    })?;
    match file.commit_new()? {
        Committed::New => Ok(vec![path]),
        Committed::Raced => Err(StudyError::NotFound {
            what: format!("`{}` is there already, and stays as it is", path.display()),
            next: "change it, or name another folder with `--settings-dir`".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use waycairn_train::{Gpt, experiments};

    use super::*;
    use crate::{Plan, Training};

    #[test]
    fn what_is_written_is_a_study() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(init(folder.path()).unwrap(), [folder.path().join(TRAINING_FILE)]);
        for (profile, runs) in [(None, 3), (Some("full"), 8)] {
            let training = Training::read(&experiments![Gpt], folder.path(), profile).unwrap();
            let training = training.with_output(folder.path().join("out"));
            assert_eq!(Plan::new(&experiments![Gpt], &training).unwrap().runs.len(), runs);
        }
        assert!(init(folder.path()).unwrap_err().to_string().contains("is there already"));
    }
}
