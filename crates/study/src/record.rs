//! What stands in the folder of a run: `run.json`, `status.json`, `artifacts.json`.
//!
//! These are the types as they are on the disk; `docs/format.md` describes every field.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use waycairn_cache::{Backend, EntryName, Key, to_value};
use waycairn_durable::{Digest, Durability, FileLock, is_irregular, read_file, write_file};

use crate::error::StudyError;
use crate::litter;
use crate::plan::reasons;
use crate::source::is_archive;
use crate::training::Change;

/// The version of the files of a run.
pub(crate) const RECORD_VERSION: u64 = 1;

pub(crate) const RUN: &str = "run.json";
pub(crate) const STATUS: &str = "status.json";
pub(crate) const ARTIFACTS: &str = "artifacts.json";
pub(crate) const ANALYSIS: &str = "analysis.json";
pub(crate) const METRICS: &str = "metrics.json";

/// What a run is. The authority for its settings: nothing is read out of a folder's name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunFile {
    /// The version of this file.
    pub version: u64,
    /// The run's folder below `runs/`.
    pub id: String,
    /// `baseline`, or the changed setting and its value.
    pub variant: String,
    /// What differs from the baseline.
    pub change: Option<Change>,
    /// The member of the cohort.
    pub member: String,
    /// The experiment.
    pub experiment: String,
    /// The version of its computation.
    pub experiment_version: String,
    /// The complete settings.
    pub settings: Value,
    /// The digest of the resolved training settings of the launch.
    pub training_sha256: Digest,
    /// The name of the run's nodes.
    pub name: String,
    /// The address of the run's last node; null until it is trained.
    pub node: Option<String>,
    /// The archive of the sources: `source/<hash>.zip`.
    pub source: String,
    /// What the archive does not hold.
    pub outside: Outside,
    /// On what the model is computed.
    pub backend: Backend,
    /// When the launch that trained it began: RFC 3339, UTC.
    pub started: String,
}

impl RunFile {
    /// What in it contradicts the root that it is in.
    pub(crate) fn faults(&self, root: &Path, folder: &Path) -> Vec<String> {
        let mut faults = Vec::new();
        if Path::new("runs").join(&self.id) != folder {
            faults.push(format!("it is that of the run `{}`", self.id));
        }
        if !is_archive(&self.source) {
            faults.push(format!("it names `{}`, which is no archive of sources", self.source));
        } else if !root.join(&self.source).is_file() {
            faults.push(format!("it names the archive `{}`, which is not there", self.source));
        }
        faults
    }
}

/// What decides a result and is in no archive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outside {
    /// Crates that decide numbers, with their versions.
    pub crates: BTreeMap<String, String>,
    /// SHA-256 of external data.
    pub data: BTreeMap<String, Digest>,
    /// The machine.
    pub host: String,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// It is being trained, or was when its process died.
    Running,
    /// Its model is there.
    Trained,
    /// It ended with an error.
    Failed,
}

/// The state of a run's training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusFile {
    /// The version of this file.
    pub version: u64,
    /// How far it is.
    pub state: RunState,
    /// When this training began: RFC 3339, UTC.
    pub started: String,
    /// When it ended.
    pub ended: Option<String>,
    /// The error and its causes, the first one first.
    pub error: Vec<String>,
    /// Where the error came from, if it was a panic.
    pub backtrace: Option<String>,
    /// Seconds that it took, in all its sessions; `None` where one of them was killed.
    pub seconds: Option<f64>,
    /// What was estimated before.
    pub estimate: Value,
}

/// The cache artifacts of a run, by product.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArtifactsFile {
    /// The version of this file.
    pub version: u64,
    /// Product -> where it is.
    pub artifacts: BTreeMap<String, Reference>,
}

/// One cache artifact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// Its key, all 64 hex digits.
    pub key: String,
    /// Its folder, from the root: `cache/<product>/<key>`.
    pub path: String,
}

impl Reference {
    pub(crate) fn new(entry: &EntryName, key: &Key) -> Self {
        Self { key: key.digest().to_string(), path: entry_path(entry) }
    }

    /// The entry of a product, if key and path say the same; else what is wrong.
    pub(crate) fn entry(&self, product: &str) -> Result<(EntryName, Key), String> {
        let digest: Digest = self.key.parse().map_err(|_| format!("`{}` is no key", self.key))?;
        let key = Key::from_digest(digest);
        let entry = EntryName::new(product, &key).map_err(|error| error.to_string())?;
        let path = entry_path(&entry);
        if path != self.path {
            return Err(format!("its `{product}` is `{}`, and its key is that of `{path}`", self.path));
        }
        Ok((entry, key))
    }
}

/// The folder of an entry, from the root.
pub(crate) fn entry_path(entry: &EntryName) -> String {
    format!("cache/{}/{}", entry.product(), entry.folder())
}

/// Writes a JSON file of a run: sorted, indented, whole. NaN is refused.
pub(crate) fn write<T: Serialize>(path: &Path, value: &T) -> Result<(), StudyError> {
    let value = to_value(value)
        .map_err(|error| StudyError::Damaged { path: path.to_owned(), what: error.to_string() })?;
    litter::clear_file(path)?;
    Ok(write_file(path, format!("{value:#}\n").as_bytes(), Durability::State)?)
}

/// Reads a JSON file of a run; `None` where there is none.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StudyError> {
    let damaged = |what: String| StudyError::Damaged { path: path.to_owned(), what };
    let Some(value) = read_plain(path)? else { return Ok(None) };
    match value.get("version").and_then(Value::as_u64) {
        Some(RECORD_VERSION) => {}
        Some(version) if version > RECORD_VERSION => {
            return Err(damaged(format!(
                "it has version {version}, and this program reads {RECORD_VERSION}; upgrade it"
            )));
        }
        _ => return Err(damaged("it says no version".to_owned())),
    }
    T::deserialize(value).map(Some).map_err(|error| damaged(error.to_string()))
}

/// Reads a JSON file without a version.
fn read_plain(path: &Path) -> Result<Option<Value>, StudyError> {
    let bytes = match read_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) if is_irregular(&error) => {
            return Err(StudyError::Damaged { path: path.to_owned(), what: error.to_string() });
        }
        bytes => {
            bytes.map_err(|source| StudyError::Io { operation: "read", path: path.to_owned(), source })?
        }
    };
    let damaged =
        |error: serde_json::Error| StudyError::Damaged { path: path.to_owned(), what: error.to_string() };
    serde_json::from_slice(&bytes).map(Some).map_err(damaged)
}

/// Reads the metrics of a run: an object, or null where there is no file.
fn metrics(path: &Path) -> Result<Value, StudyError> {
    let metrics = read_plain(path)?.unwrap_or_default();
    if metrics.is_object() || metrics.is_null() {
        return Ok(metrics);
    }
    Err(StudyError::Damaged { path: path.to_owned(), what: "it holds no metrics by name".to_owned() })
}

/// A run that is recorded in a root.
#[derive(Clone, Debug)]
pub struct RecordedRun {
    /// Its folder, from the root.
    pub folder: PathBuf,
    /// What it is.
    pub run: RunFile,
    /// How far it is; `None` where the file is missing.
    pub status: Option<StatusFile>,
    /// Its artifacts.
    pub artifacts: ArtifactsFile,
    /// Its metrics, by name; null until it was analyzed, and where they cannot be read.
    pub metrics: Value,
    /// Why they cannot be read, with the path, if they cannot.
    pub unreadable_metrics: Option<String>,
}

impl RecordedRun {
    /// Reads a run's folder; `None` where it holds no `run.json`.
    pub(crate) fn open(root: &Path, folder: &Path) -> Result<Option<Self>, StudyError> {
        let at = |name: &str| root.join(folder).join(name);
        let Some(run) = read::<RunFile>(&at(RUN))? else { return Ok(None) };
        // Derived from the metrics of the run, and written again by its next analysis: so it is no error.
        let (metrics, unreadable_metrics) = match metrics(&at(METRICS)) {
            Ok(metrics) => (metrics, None),
            Err(error) => (Value::Null, Some(reasons(&error))),
        };
        Ok(Some(Self {
            folder: folder.to_owned(),
            run,
            status: read(&at(STATUS))?,
            artifacts: read(&at(ARTIFACTS))?.unwrap_or_default(),
            metrics,
            unreadable_metrics,
        }))
    }

    /// Whether a worker is at it.
    #[must_use]
    pub fn is_at_work(&self, root: &Path) -> bool {
        // The folder's name ends in the first digits of what the lock is named by.
        let member = self.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some((_, digits)) = member.rsplit_once('-') else { return false };
        let locks = std::fs::read_dir(root.join("locks")).into_iter().flatten().flatten();
        let of_run = format!("job-{digits}");
        locks
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(&of_run))
            .any(|entry| matches!(FileLock::is_held(&entry.path()), Ok(Some(_))))
    }

    /// Lists the runs of a root: the baseline, then the variants by the changed setting and its value, then members.
    ///
    /// # Errors
    ///
    /// [`StudyError::Damaged`] for a file that says nothing that can be read.
    pub fn list(root: &Path) -> Result<Vec<Self>, StudyError> {
        let mut found = Vec::new();
        for folder in run_folders(root)? {
            found.extend(Self::open(root, &folder)?);
        }
        found.sort_by(|one, other| one.order().partial_cmp(&other.order()).unwrap_or(Ordering::Equal));
        Ok(found)
    }

    /// Its place among the runs of a root. Numbers are compared as numbers.
    fn order(&self) -> (&str, f64, &str, &str) {
        let change = self.run.change.as_ref();
        let value = change.and_then(|change| change.value.as_f64()).unwrap_or_default();
        (change.map_or("", |change| &change.path), value, &self.run.variant, &self.run.member)
    }

    /// Finds one run: by its folder, by the name of its nodes, or by its node's address.
    ///
    /// # Errors
    ///
    /// [`StudyError::NotFound`] for a text that names none or several.
    pub fn find(root: &Path, text: &str) -> Result<Self, StudyError> {
        let plain = text.trim_end_matches('/');
        let run = plain.strip_prefix("runs/").unwrap_or(plain);
        let mut named: Vec<Self> = Self::list(root)?;
        named.retain(|known| {
            known.run.id == run || known.run.name == run || known.run.node.as_deref() == Some(run)
        });
        if named.len() > 1 {
            let ids: Vec<String> = named.iter().map(|run| format!("`{}`", run.run.id)).collect();
            return Err(StudyError::NotFound {
                what: format!("`{text}` names {} runs", named.len()),
                next: format!("name one by its folder: {}", ids.join(", ")),
            });
        }
        named.pop().ok_or_else(|| StudyError::NotFound {
            what: format!("nothing in `{}` is called `{text}`", root.display()),
            next: "name a run by its folder below `runs/`; `waycairn compare` lists them".to_owned(),
        })
    }
}

/// The folders of all runs, from the root, sorted.
pub(crate) fn run_folders(root: &Path) -> Result<Vec<PathBuf>, StudyError> {
    let mut found = Vec::new();
    for variant in folders(&root.join("runs"))? {
        let variant = Path::new("runs").join(variant);
        found.extend(folders(&root.join(&variant))?.into_iter().map(|member| variant.join(member)));
    }
    Ok(found)
}

/// The names of the folders in a folder, sorted; hidden ones are being made or removed.
pub(crate) fn folders(path: &Path) -> Result<Vec<String>, StudyError> {
    let io = |source| StudyError::Io { operation: "list", path: path.to_owned(), source };
    let entries = match std::fs::read_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(io)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io)?;
        let folder = entry.file_type().map_err(io)?.is_dir();
        if let Some(name) = entry.file_name().to_str()
            && folder
            && !name.starts_with('.')
        {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}
