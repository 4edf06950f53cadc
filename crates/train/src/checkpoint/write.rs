//! Writes the files of a checkpoint into a staged folder.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::path::Path;

use npyz::WriterBuilder;
use serde::Serialize;
use waycairn_durable::{Digest, DigestWriter};

use super::error::CheckpointError;
use super::files::{CONFIG, JOB, MANIFEST, MODEL, OPTIMIZER, RNG, STATE, TOKENIZER};
use super::job::JobFile;
use super::manifest::{self, FileEntry, Manifest};
use super::state::State;
use super::tensors::write_tensors;
use crate::data::Vocabulary;
use crate::learner::Snapshot;
use crate::weights::{self, NamedTensor};

/// Everything that a checkpoint holds, frozen at one node.
pub(crate) struct Contents {
    pub(crate) snapshot: Snapshot,
    /// Its `optimizer` is filled in from the snapshot.
    pub(crate) state: State,
    pub(crate) seed: u64,
    pub(crate) config: String,
    pub(crate) tokenizer: Option<std::sync::Arc<Vocabulary>>,
    pub(crate) job: std::sync::Arc<JobFile>,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// Digest of the weights as tensors.
    pub(crate) model_sha256: Digest,
    /// Length of all files.
    pub(crate) bytes: u64,
}

/// Writes every file, the manifest last.
///
/// # Durability
///
/// None of its own: the folder's stager syncs every file before it gives the folder its name.
pub(crate) fn write(folder: &Path, contents: Contents) -> Result<Written, CheckpointError> {
    let frozen = (contents.snapshot)()
        .map_err(|source| CheckpointError::Optimizer { path: folder.to_owned(), source })?;
    let model_sha256 =
        weights::digest(&frozen.weights).ok_or_else(|| CheckpointError::Format { name: MODEL.to_owned() })?;
    let mut state = contents.state;
    state.optimizer = frozen.moments.scalars;
    let node = state.node.clone();

    let mut writer = FolderWriter { folder, files: BTreeMap::new() };
    writer.tensors(MODEL, &frozen.weights)?;
    writer.tensors(OPTIMIZER, &frozen.moments.tensors)?;
    writer.json(STATE, &state)?;
    writer.file(RNG, |into| rng(into, contents.seed, state.step))?;
    writer.file(CONFIG, |into| into.write_all(contents.config.as_bytes()))?;
    if let Some(tokenizer) = &contents.tokenizer {
        writer.json(TOKENIZER, tokenizer.as_ref())?;
    }
    writer.json(JOB, contents.job.as_ref())?;
    let bytes = writer.files.values().map(|entry| entry.bytes).sum();
    let manifest = Manifest { version: manifest::VERSION, node, files: std::mem::take(&mut writer.files) };
    writer.json(MANIFEST, &manifest)?;
    Ok(Written { model_sha256, bytes })
}

/// Seed and step as an array of two 64-bit numbers. Every generator is reseeded from (seed,
/// stream, step, micro) before use, so this is the whole of the random state.
fn rng(into: &mut dyn Write, seed: u64, step: u64) -> std::io::Result<()> {
    let mut writer = npyz::WriteOptions::<u64>::new().default_dtype().shape(&[2]).writer(into).begin_nd()?;
    writer.extend([seed, step])?;
    writer.finish()
}

struct FolderWriter<'a> {
    folder: &'a Path,
    files: BTreeMap<String, FileEntry>,
}

impl FolderWriter<'_> {
    fn file(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> Result<(), CheckpointError> {
        let path = self.folder.join(name);
        let io = |operation| {
            let path = path.clone();
            move |source| CheckpointError::io(operation, &path, source)
        };
        let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(io("create"))?;
        let mut writer = DigestWriter::new(BufWriter::with_capacity(1 << 20, file));
        fill(&mut writer).map_err(io("write"))?;
        writer.flush().map_err(io("write"))?;
        let (_, sha256, bytes) = writer.finish();
        self.files.insert(name.to_owned(), FileEntry { bytes, sha256 });
        Ok(())
    }

    fn json(&mut self, name: &str, value: &impl Serialize) -> Result<(), CheckpointError> {
        self.file(name, |into| {
            serde_json::to_writer_pretty(&mut *into, value)?;
            into.write_all(b"\n")
        })
    }

    fn tensors(&mut self, name: &str, tensors: &[NamedTensor]) -> Result<(), CheckpointError> {
        if let Some(odd) = tensors.iter().find(|tensor| weights::dtype_name(tensor.data.dtype()).is_none()) {
            return Err(CheckpointError::Format { name: odd.name.clone() });
        }
        self.file(name, |mut into| write_tensors(tensors, &mut into))
    }
}
