//! The results of an analysis: written beside the old ones, and put in their place when all are there.
//!
//! | died | a reader sees |
//! | --- | --- |
//! | while results are written | the old ones; what is hidden goes with the next analysis of the run |
//! | while they are put in place | of each the old one or the new one, whole; `analysis.json` says `running` |

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, FileType};
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value};
use waycairn_analysis_host::{Kind, Outputs};
use waycairn_durable::{
    Digest, Durability, create_dir_all, delete_aside, read_file, remove_dir_all, remove_file, rename,
    write_file,
};

use crate::analyze::ResultOf;
use crate::error::StudyError;
use crate::litter;
use crate::record::METRICS;

/// The folders of results in the folder of a run.
pub(crate) const FOLDERS: [&str; 2] = ["metrics", "plots"];

/// Whether a path from the folder of a run is that of a result: below one of the folders of results, and nowhere else.
pub(crate) fn is_result(file: &str) -> bool {
    let plain = Path::new(file).components().all(|part| matches!(part, Component::Normal(_)));
    plain && FOLDERS.iter().any(|folder| Path::new(file).starts_with(folder))
}

/// All metrics of a folder as one text.
pub(crate) fn metrics_text(
    folder: &Path,
    results: &BTreeMap<String, ResultOf>,
) -> Result<String, StudyError> {
    let mut all = Map::new();
    for (name, result) in results.iter().filter(|(_, result)| result.kind == "metric") {
        for file in result.files.keys() {
            let path = folder.join(file);
            let io = |source| StudyError::Io { operation: "read", path: path.clone(), source };
            let damaged = |error: serde_json::Error| StudyError::Damaged {
                path: path.clone(),
                what: error.to_string(),
            };
            let value: Value = serde_json::from_slice(&read_file(&path).map_err(io)?).map_err(damaged)?;
            all.insert(name.clone(), value);
        }
    }
    Ok(format!("{:#}\n", Value::Object(all)))
}

/// New results beside the old ones.
pub(crate) struct Staged {
    folder: PathBuf,
}

impl Staged {
    pub(crate) fn new(run: &Path) -> Result<Self, StudyError> {
        // The run is claimed, so what is hidden in its folder was left by a process that died.
        litter::sweep(run)?;
        let folder = run.join(format!(".tmp-{}-results", std::process::id()));
        create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    /// Keeps files of an earlier analysis; `false` where one of them is gone, or is another one.
    pub(crate) fn keep(&self, run: &Path, files: &BTreeMap<String, Digest>) -> Result<bool, StudyError> {
        for (file, digest) in files {
            match read_file(&run.join(file)) {
                Ok(_) if !is_result(file) => return Ok(false),
                Ok(bytes) if Digest::of(&bytes) == *digest => self.put(file, &bytes)?,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    fn put(&self, file: &str, bytes: &[u8]) -> Result<(), StudyError> {
        let path = self.folder.join(file);
        if let Some(parent) = path.parent() {
            create_dir_all(parent)?;
        }
        Ok(write_file(&path, bytes, Durability::State)?)
    }

    /// Writes what one analysis emitted; returns the files, from the run's folder.
    pub(crate) fn write(
        &self,
        name: &str,
        kind: Kind,
        outputs: &Outputs,
    ) -> Result<BTreeMap<String, Digest>, StudyError> {
        let mut files = BTreeMap::new();
        let mut put = |file: String, bytes: &[u8]| -> Result<(), StudyError> {
            self.put(&file, bytes)?;
            files.insert(file, Digest::of(bytes));
            Ok(())
        };
        if kind == Kind::Metric {
            let value = outputs.metric.clone().unwrap_or(Value::Null);
            put(format!("metrics/{name}.json"), format!("{value:#}\n").as_bytes())?;
        } else {
            for (figure, _, bytes) in &outputs.files {
                put(format!("plots/{name}/{figure}"), bytes)?;
            }
        }
        Ok(files)
    }

    /// Writes all metrics into one file.
    pub(crate) fn metrics(&self, results: &BTreeMap<String, ResultOf>) -> Result<(), StudyError> {
        self.put(METRICS, metrics_text(&self.folder, results)?.as_bytes())
    }

    /// Puts the new results in the place of the old ones, file by file: whenever this ends half-way, each of them is the
    /// old one or the new one, and none is missing that both have.
    pub(crate) fn swap(&self, run: &Path) -> Result<(), StudyError> {
        let mut kept = BTreeSet::new();
        below(&self.folder, Path::new(""), &mut kept)?;
        for results in FOLDERS {
            litter::clear_folder(&run.join(results))?;
            create_dir_all(&run.join(results))?;
        }
        for file in &kept {
            if let Some(parent) = file.parent() {
                litter::clear_folder(&run.join(parent))?;
                create_dir_all(&run.join(parent))?;
            }
            litter::clear_file(&run.join(file))?;
            rename(&self.folder.join(file), &run.join(file))?;
        }
        for results in FOLDERS {
            prune(run, Path::new(results), &kept)?;
        }
        Ok(delete_aside(&self.folder)?)
    }
}

/// Adds the files below a folder of results, from it.
fn below(staged: &Path, folder: &Path, found: &mut BTreeSet<PathBuf>) -> Result<(), StudyError> {
    for (name, kind) in listed(&staged.join(folder))? {
        let path = folder.join(name);
        if kind.is_dir() {
            below(staged, &path, found)?;
        } else {
            found.insert(path);
        }
    }
    Ok(())
}

/// Removes what stands below a folder of results and is none of them.
fn prune(run: &Path, folder: &Path, kept: &BTreeSet<PathBuf>) -> Result<(), StudyError> {
    for (name, kind) in listed(&run.join(folder))? {
        let path = folder.join(name);
        if kept.contains(&path) {
            continue;
        }
        if kept.iter().any(|file| file.starts_with(&path)) {
            prune(run, &path, kept)?;
        } else if kind.is_dir() {
            remove_dir_all(&run.join(path))?;
        } else {
            remove_file(&run.join(path))?;
        }
    }
    Ok(())
}

fn listed(folder: &Path) -> Result<Vec<(OsString, FileType)>, StudyError> {
    let io = |source| StudyError::Io { operation: "list", path: folder.to_owned(), source };
    let entries = fs::read_dir(folder).map_err(io)?;
    let listed = entries.map(|entry| entry.and_then(|entry| Ok((entry.file_name(), entry.file_type()?))));
    listed.collect::<Result<_, _>>().map_err(io)
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After a swap there is nothing; after an error it is of no use.
        if self.folder.exists() {
            drop(delete_aside(&self.folder));
        }
    }
}
