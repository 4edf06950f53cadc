//! Opens a checkpoint: manifest first, then only files that agree with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use serde::de::DeserializeOwned;
use waycairn_dag::Node;
use waycairn_durable::{Digest, FileMap, MapError, SharedLock, is_irregular, open_file, read_file};

use super::error::CheckpointError;
use super::files::{CONFIG, JOB, LISTED, MANIFEST, MODEL, OPTIMIZER, RNG, STATE, TOKENIZER};
use super::job::{self, JobFile};
use super::manifest::{self, FileEntry, Manifest};
use super::state::{self, State};
use crate::data::{Fingerprint, Vocabulary};

/// How far the files are compared with the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Every file's size and digest: before training goes on.
    Whole,
    /// Every file's size, and the digest of all but the optimizer's: for weights and batches.
    Weights,
}

/// A checkpoint whose files agree with its manifest.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    folder: PathBuf,
    manifest: Manifest,
    state: State,
    job: JobFile,
    vocabulary: Option<Vocabulary>,
    config: String,
    /// Keeps it from being withdrawn.
    hold: Option<SharedLock>,
}

impl Checkpoint {
    /// Opens and checks a checkpoint's folder.
    pub(crate) fn open(folder: &Path, depth: Depth) -> Result<Self, CheckpointError> {
        let manifest = read_manifest(folder)?;
        for (name, entry) in &manifest.files {
            let path = folder.join(name);
            let found = length(&path)?;
            if found != entry.bytes {
                return Err(CheckpointError::Size { path, expected: entry.bytes, found });
            }
            if depth == Depth::Whole || name != OPTIMIZER {
                let found = Digest::of_file(&path)
                    .map_err(|error| CheckpointError::io("read", &path, error.source))?;
                if found != entry.sha256 {
                    return Err(CheckpointError::Corrupt { path, expected: entry.sha256, found });
                }
            }
        }
        let state: State = json(&folder.join(STATE))?;
        version(&folder.join(STATE), state.version, state::VERSION)?;
        let of_text = matches!(state.loader.fingerprint, Fingerprint::Text(_));
        if of_text && !manifest.files.contains_key(TOKENIZER) {
            let what = format!("it does not list `{TOKENIZER}`");
            return Err(CheckpointError::malformed(&folder.join(MANIFEST), what));
        }
        let job: JobFile = json(&folder.join(JOB))?;
        version(&folder.join(JOB), job.version, job::VERSION)?;
        let checkpoint = Self {
            config: text(&folder.join(CONFIG))?,
            vocabulary: of_text.then(|| json(&folder.join(TOKENIZER))).transpose()?,
            folder: folder.to_owned(),
            manifest,
            state,
            job,
            hold: None,
        };
        checkpoint.check_rng()?;
        Ok(checkpoint)
    }

    /// What the manifest of a node's checkpoint lists; no other file is looked at.
    pub(crate) fn listed(folder: &Path, node: &Node) -> Result<BTreeMap<String, FileEntry>, CheckpointError> {
        let manifest = read_manifest(folder)?;
        if manifest.node != node.address().as_str() {
            let what = format!("it belongs to another node, `{}`", manifest.node);
            return Err(CheckpointError::malformed(&folder.join(MANIFEST), what));
        }
        Ok(manifest.files)
    }

    /// The random state is a function of seed and step, so this can only agree.
    fn check_rng(&self) -> Result<(), CheckpointError> {
        let path = self.folder.join(RNG);
        let bytes = map(&path)?;
        let malformed = |error: std::io::Error| CheckpointError::malformed(&path, error);
        let values: Vec<u64> =
            npyz::NpyFile::new(&bytes[..]).and_then(npyz::NpyFile::into_vec).map_err(malformed)?;
        match values[..] {
            [_, step] if step == self.state.step => Ok(()),
            _ => Err(CheckpointError::malformed(
                &path,
                format!("it should hold the seed and step {}", self.state.step),
            )),
        }
    }

    /// Keeps what holds it for as long as it lives.
    pub(crate) fn held(self, hold: Option<SharedLock>) -> Self {
        Self { hold, ..self }
    }

    /// Takes out what holds it.
    pub(crate) fn take_hold(&mut self) -> Option<SharedLock> {
        self.hold.take()
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn job(&self) -> &JobFile {
        &self.job
    }

    /// The vocabulary; none for a run on rows of numbers.
    pub(crate) fn vocabulary(&self) -> Option<&Vocabulary> {
        self.vocabulary.as_ref()
    }

    /// The number of tokens that its model knows; 0 without a vocabulary.
    pub(crate) fn tokens(&self) -> usize {
        self.vocabulary.as_ref().map_or(0, Vocabulary::len)
    }

    /// The text of `config.toml`.
    pub(crate) fn config(&self) -> &str {
        &self.config
    }

    pub(crate) fn config_path(&self) -> PathBuf {
        self.folder.join(CONFIG)
    }

    /// Maps the weights.
    pub(crate) fn model(&self) -> Result<TensorFile, CheckpointError> {
        TensorFile::open(&self.folder.join(MODEL))
    }

    /// Maps the optimizer's tensors.
    pub(crate) fn optimizer(&self) -> Result<TensorFile, CheckpointError> {
        TensorFile::open(&self.folder.join(OPTIMIZER))
    }
}

/// A mapped safetensors file.
#[derive(Debug)]
pub(crate) struct TensorFile {
    path: PathBuf,
    map: FileMap,
}

impl TensorFile {
    fn open(path: &Path) -> Result<Self, CheckpointError> {
        Ok(Self { map: map(path)?, path: path.to_owned() })
    }

    /// The whole file.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Reads the header; the tensors are views of the mapping.
    pub(crate) fn tensors(&self) -> Result<SafeTensors<'_>, CheckpointError> {
        SafeTensors::deserialize(&self.map).map_err(|error| CheckpointError::malformed(&self.path, error))
    }
}

/// Reads a manifest that lists the files of a checkpoint and nothing else.
fn read_manifest(folder: &Path) -> Result<Manifest, CheckpointError> {
    let path = folder.join(MANIFEST);
    let manifest: Manifest = json(&path)?;
    version(&path, manifest.version, manifest::VERSION)?;
    if let Some(name) = LISTED.iter().find(|name| !manifest.files.contains_key(**name)) {
        return Err(CheckpointError::malformed(&path, format!("it does not list `{name}`")));
    }
    // A name with a separator could lead out of the folder.
    let known = |name: &str| LISTED.contains(&name) || name == TOKENIZER;
    if let Some(name) = manifest.files.keys().find(|name| !known(name)) {
        let what = format!("it lists `{name}`, which is no file of a checkpoint");
        return Err(CheckpointError::malformed(&path, what));
    }
    Ok(manifest)
}

fn length(path: &Path) -> Result<u64, CheckpointError> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(metadata.len()),
        // Nothing in a checkpoint is a link: what it holds was written there.
        Ok(metadata) if metadata.is_symlink() => {
            Err(CheckpointError::malformed(path, "it is not a regular file but a symbolic link"))
        }
        Ok(_) => match open_file(path) {
            Err(error) if is_irregular(&error) => Err(CheckpointError::malformed(path, error)),
            _ => Err(CheckpointError::malformed(path, "it is not a regular file")),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(CheckpointError::Missing { path: path.to_owned() })
        }
        Err(error) => Err(CheckpointError::io("look at", path, error)),
    }
}

fn map(path: &Path) -> Result<FileMap, CheckpointError> {
    length(path)?;
    FileMap::open(path).map_err(|error| match error {
        MapError::Io { operation, source, .. } => CheckpointError::io(operation, path, source),
        other => CheckpointError::malformed(path, other),
    })
}

fn text(path: &Path) -> Result<String, CheckpointError> {
    length(path)?;
    let bytes = read_file(path).map_err(|error| CheckpointError::io("read", path, error))?;
    String::from_utf8(bytes).map_err(|_| CheckpointError::malformed(path, "it is not UTF-8"))
}

fn json<T: DeserializeOwned>(path: &Path) -> Result<T, CheckpointError> {
    let text = text(path)?;
    serde_json::from_str(&text).map_err(|error| {
        // A newer version may have fields that this one does not know; say that, not "unknown field".
        let found = serde_json::from_str::<Versioned>(&text).ok();
        match found {
            Some(Versioned { version }) if version > 1 => {
                CheckpointError::Version { path: path.to_owned(), found: version, supported: 1 }
            }
            _ => CheckpointError::malformed(path, error),
        }
    })
}

#[derive(serde::Deserialize)]
struct Versioned {
    version: u32,
}

fn version(path: &Path, found: u32, supported: u32) -> Result<(), CheckpointError> {
    if found > supported {
        return Err(CheckpointError::Version { path: path.to_owned(), found, supported });
    }
    Ok(())
}
