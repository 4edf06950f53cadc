//! Everything about one node: its values, its neighbours, its files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use waycairn_dag::{Address, Node};
use waycairn_durable::read_file;

use crate::blob::{CHECKPOINT_ENTRY, NODESPEC, PAYLOAD_SUFFIX};
use crate::field::Scalar;
use crate::listing::PartSet;
use crate::query::{
    Block, Fault, Flag, FoldPlan, FoldSpec, IdentityScope, QueryError, RecordScope, Threads, children,
    fold_ranges, nearest,
};
use crate::reader::{ObjectReader, by_address};
use crate::record::{FILES, PLUGIN};
use crate::schema::{ARTIFACT, ARTIFACT_SEPARATOR, BLOB, CHECKPOINT, FINISHED, PARENT, RECORD};

/// The file inside a checkpoint that is written last.
const MANIFEST: &str = "manifest.json";

/// What the field that tells the version of the plugin ends in.
const PLUGIN_VERSION: &str = "/plugin_version";

/// Everything about one node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeView {
    /// The node, without a parent.
    pub node: Node,
    /// Its recorded parents, sorted by address.
    pub parents: Vec<Node>,
    /// The nodes that recorded it as a parent, sorted by address; without those in a damaged part, which the log names.
    pub children: Vec<Node>,
    /// Whether a damaged part may hold more of its children.
    pub children_incomplete: bool,
    /// Its folded fields, each with its own type.
    pub fields: BTreeMap<String, Scalar>,
    /// The last write among its records, in nanoseconds since 1970.
    pub written: Option<i64>,
    /// The folder of its blob, absolute; `None` if no record names one. It need not exist: parts may be copied
    /// without blobs.
    pub blob: Option<PathBuf>,
    /// Its checkpoint, if a record marks one.
    pub checkpoint: Option<CheckpointInfo>,
    /// Whether it had a checkpoint that was withdrawn, since the settings kept it no longer.
    pub checkpoint_withdrawn: bool,
    /// Its artifacts, by suffix.
    pub artifacts: Vec<ArtifactInfo>,
    /// The result files that records of it announce and that are there: names and sizes in bytes, by name.
    pub files: Vec<(String, u64)>,
    /// Whether a record of it says that its run ended as planned.
    pub finished: bool,
}

/// What is there of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointInfo {
    /// Whether its manifest is there, which was written last.
    pub complete: bool,
    /// All files together.
    pub bytes: u64,
    /// Paths inside the checkpoint, with `/`, and sizes in bytes, by path.
    pub files: Vec<(String, u64)>,
}

/// What is known of an artifact without reading its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactInfo {
    /// Its name at the node.
    pub suffix: String,
    /// The size of the payload.
    pub bytes: u64,
    /// When the record that announces it was written, in nanoseconds since 1970.
    pub written: Option<i64>,
    /// The plugin that attached it, if the record says so.
    pub plugin: Option<String>,
    /// The version of that plugin.
    pub plugin_version: Option<String>,
}

/// The payload of an artifact: MessagePack, decoded when it is asked for.
#[derive(Clone, Debug)]
pub struct Artifact {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Artifact {
    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The payload as it is.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The payload as a value of any shape. Arrays are extensions of type 1, see [`NdArray`](crate::NdArray).
    ///
    /// # Errors
    /// [`QueryError::Artifact`] when the payload is damaged.
    pub fn value(&self) -> Result<rmpv::Value, QueryError> {
        let mut rest = self.bytes.as_slice();
        let value = rmpv::decode::read_value(&mut rest).map_err(|error| self.damaged(&error.to_string()))?;
        if rest.is_empty() { Ok(value) } else { Err(self.damaged("it goes on behind its value")) }
    }

    /// The payload as a type that knows its shape.
    ///
    /// # Errors
    /// [`QueryError::Artifact`] when the payload is damaged or of another shape.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, QueryError> {
        rmp_serde::from_slice(&self.bytes).map_err(|error| self.damaged(&error.to_string()))
    }

    fn damaged(&self, what: &str) -> QueryError {
        QueryError::Artifact {
            path: self.path.clone(),
            what: format!("it is damaged or of another shape: {what}"),
        }
    }
}

/// What the records of a node say, before anything is looked up among the files.
#[derive(Default)]
struct Recorded {
    found: bool,
    fields: BTreeMap<String, Scalar>,
    written: Option<i64>,
    blob: Option<String>,
    parents: BTreeMap<Address, Node>,
    checkpoint: bool,
    withdrawn: bool,
    finished: bool,
    files: AnnouncedFiles,
    announced: BTreeMap<String, Announcement>,
}

/// Which result files records announce.
#[derive(Debug, Default)]
struct AnnouncedFiles {
    names: BTreeSet<String>,
    /// From records that do not name their files, as the first writers made them: beginnings of their names.
    beginnings: BTreeSet<String>,
}

impl AnnouncedFiles {
    fn has(&self, name: &str) -> bool {
        self.names.contains(name) || self.beginnings.iter().any(|beginning| name.starts_with(beginning))
    }

    /// Adds what one record that announces something says, of which these are the texts by key.
    fn add<'a>(&mut self, texts: impl Iterator<Item = (&'a str, String)>, artifacts: bool) {
        let (mut named, mut plugins) = (false, Vec::new());
        for (key, text) in texts {
            if key.ends_with(FILES) {
                named = true;
                self.names.extend(text.split(ARTIFACT_SEPARATOR).map(str::to_owned));
            } else if let Some(analysis) = key.strip_suffix(PLUGIN) {
                plugins.push(format!("{analysis}."));
            }
        }
        match (named, plugins.is_empty()) {
            (true, _) => {}
            (false, false) => self.beginnings.extend(plugins),
            // It announces something, and no artifact.
            (false, true) if !artifacts => drop(self.beginnings.insert(String::new())),
            (false, true) => {}
        }
    }
}

/// The record that announces an artifact.
#[derive(Clone, Default)]
struct Announcement {
    written: Option<i64>,
    plugin: Option<String>,
    plugin_version: Option<String>,
}

/// Looks at one node. `None` if it has no record.
pub(crate) fn view(reader: &ObjectReader, set: &PartSet, node: &Node) -> Result<Option<NodeView>, Fault> {
    let recorded = recorded(set, node)?;
    if !recorded.found {
        return Ok(None);
    }
    let blob = recorded.blob.as_ref().map(|blob| reader.blob_path(node, blob)).transpose()?;
    let entries = match &blob {
        Some(blob) if reader.is_inside(node, blob)? => list(blob)?,
        _ => Vec::new(),
    };
    let mut artifacts = Vec::new();
    let mut files = Vec::new();
    for (name, bytes) in entries {
        match name.strip_suffix(PAYLOAD_SUFFIX) {
            Some(suffix) => {
                if let Some(announcement) = recorded.announced.get(suffix).cloned() {
                    let Announcement { written, plugin, plugin_version } = announcement;
                    artifacts.push(ArtifactInfo {
                        suffix: suffix.to_owned(),
                        bytes,
                        written,
                        plugin,
                        plugin_version,
                    });
                }
            }
            None if name != NODESPEC && recorded.files.has(&name) => files.push((name, bytes)),
            None => {}
        }
    }
    let checkpoint = match &blob {
        Some(blob) if recorded.checkpoint => {
            Some(checkpoint_info(reader, node, &blob.join(CHECKPOINT_ENTRY))?)
        }
        _ => recorded.checkpoint.then(CheckpointInfo::default),
    };
    let children = children(set, node)?;
    Ok(Some(NodeView {
        node: node.clone().with_parent(None),
        parents: recorded.parents.into_values().collect(),
        children: by_address(children.nodes.into_iter()),
        children_incomplete: children.incomplete,
        fields: recorded.fields,
        written: recorded.written,
        blob,
        checkpoint,
        checkpoint_withdrawn: recorded.withdrawn,
        artifacts,
        files,
        finished: recorded.finished,
    }))
}

/// How the files of a node stand to what is recorded of it: names within its folder.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// A record names it, and it is not there.
    pub(crate) dangling: Vec<String>,
    /// It is there, and no record names it.
    pub(crate) without_marker: Vec<String>,
    /// A payload that cannot be read, and why.
    pub(crate) damaged: Vec<(String, String)>,
}

/// Compares the files of a node with its records. What is hidden is somebody's work, or what it left.
pub(crate) fn files(reader: &ObjectReader, node: &Node) -> Result<Files, QueryError> {
    let recorded = reader.ask(|set, _| recorded(set, node))?.value;
    let folder = reader.node_folder(node);
    let mut files = Files::default();
    let there = if reader.is_inside(node, &folder)? { list(&folder)? } else { Vec::new() };
    for (name, _) in &there {
        match name.strip_suffix(PAYLOAD_SUFFIX) {
            Some(suffix) if recorded.announced.contains_key(suffix) => {
                let artifact = artifact(reader, node, suffix);
                match artifact.and_then(|artifact| artifact.value().map(drop)) {
                    Err(QueryError::Artifact { what, .. }) => files.damaged.push((name.clone(), what)),
                    other => other?,
                }
            }
            None if name == NODESPEC || recorded.files.has(name) => {}
            _ => files.without_marker.push(name.clone()),
        }
    }
    let has = |name: &str| there.iter().any(|(there, _)| there == name);
    let payloads = recorded.announced.keys().map(|suffix| format!("{suffix}{PAYLOAD_SUFFIX}"));
    files.dangling.extend(payloads.filter(|name| !has(name)));
    // An attachment without files names none.
    let named = recorded.files.names.iter().filter(|name| !name.is_empty() && !has(name));
    files.dangling.extend(named.cloned());
    let checkpoint = folder.join(CHECKPOINT_ENTRY).is_dir();
    let entry = CHECKPOINT_ENTRY.to_owned();
    match (recorded.checkpoint, checkpoint) {
        (true, false) => files.dangling.push(entry),
        (false, true) => files.without_marker.push(entry),
        _ => {}
    }
    Ok(files)
}

/// Reads one artifact of a node.
pub(crate) fn artifact(reader: &ObjectReader, node: &Node, suffix: &str) -> Result<Artifact, QueryError> {
    let recorded = reader.ask(|set, _| recorded(set, node))?.value;
    if !recorded.announced.contains_key(suffix) {
        let names: Vec<&str> = recorded.announced.keys().map(String::as_str).collect();
        let similar = nearest(suffix, names.iter().copied());
        let nearest =
            if similar.is_empty() { names.into_iter().map(str::to_owned).collect() } else { similar };
        return Err(QueryError::UnknownArtifact {
            node: node.to_string(),
            suffix: suffix.to_owned(),
            nearest,
        });
    }
    let address = node.address();
    let blob = reader.blob_path(node, recorded.blob.as_deref().unwrap_or(address.as_str()))?;
    let path = blob.join(format!("{suffix}{PAYLOAD_SUFFIX}"));
    if !reader.is_inside(node, &path)? {
        let what = "its file is missing; the parts may have been copied without the blobs".to_owned();
        return Err(QueryError::Artifact { path, what });
    }
    match read_file(&path) {
        Ok(bytes) => Ok(Artifact { path, bytes }),
        Err(source) => Err(QueryError::Io { operation: "read", path, source }),
    }
}

fn recorded(set: &PartSet, node: &Node) -> Result<Recorded, Fault> {
    let mut spec = FoldSpec::default();
    let keys: Vec<Arc<str>> = set.fields.types.keys().cloned().collect();
    for key in &keys {
        spec.column(key);
    }
    let blob = spec.column(BLOB);
    let artifact = spec.column(ARTIFACT);
    let parents = spec.set(PARENT);
    let marks = spec.column(CHECKPOINT);
    let checkpoint = spec.flag(&Flag::True(CHECKPOINT));
    let finished = spec.flag(&Flag::True(FINISHED));
    let announces = spec.column(RECORD);
    let telling = |key: &str| key.ends_with(FILES) || key.ends_with(PLUGIN) || key.ends_with(PLUGIN_VERSION);
    let telling: Vec<(usize, &str)> =
        keys.iter().enumerate().map(|(index, key)| (index, &**key)).filter(|(_, key)| telling(key)).collect();
    let plan = FoldPlan::new(set, spec, IdentityScope::node(node), RecordScope::default(), 1)?;
    let seq = i64::try_from(node.seq()).unwrap_or(i64::MAX);
    let found = fold_ranges(&Arc::new(plan), Threads(1), None, |block, recorded: &mut Recorded| {
        let Some(slot) = block.seqs().iter().position(|other| *other == seq) else { return Ok(0) };
        recorded.found = true;
        for (index, key) in keys.iter().enumerate() {
            if let Some(value) = block.column(index, set.fields.get(key)).get(slot) {
                recorded.fields.insert(key.to_string(), value.to_scalar());
            }
        }
        recorded.written = Some(block.writes().1[slot]).filter(|write| *write != i64::MIN);
        let records = block.records(slot);
        recorded.blob = records.iter().find_map(|record| text(block.value(*record, blob)));
        for parent in &block.set(parents)[slot] {
            if let Ok(address) = parent.parse::<Address>() {
                recorded.parents.insert(address.clone(), address.decode());
            }
        }
        recorded.checkpoint = block.flag(checkpoint).get(slot);
        let withdraws = |record: &(usize, usize)| block.value(*record, marks) == Some(Scalar::Bool(false));
        recorded.withdrawn = !recorded.checkpoint && records.iter().any(withdraws);
        recorded.finished = block.flag(finished).get(slot);
        // The best record first; of two that announce one artifact, that is the one whose payload stayed.
        for record in records {
            let suffixes = text(block.value(record, artifact));
            if matches!(block.value(record, announces), Some(Scalar::Bool(true))) {
                let texts = telling
                    .iter()
                    .filter_map(|(index, key)| Some((*key, text(block.value(record, *index))?)));
                recorded.files.add(texts, suffixes.is_some());
            }
            let Some(suffixes) = suffixes else { continue };
            let announcement = announcement(block, record, &telling);
            for suffix in suffixes.split(ARTIFACT_SEPARATOR) {
                recorded.announced.entry(suffix.to_owned()).or_insert_with(|| announcement.clone());
            }
        }
        Ok(0)
    })?;
    Ok(found.into_iter().find(|recorded| recorded.found).unwrap_or_default())
}

fn announcement(block: &Block, record: (usize, usize), keys: &[(usize, &str)]) -> Announcement {
    let ending = |ending: &str| {
        let ends = |(_, key): &&(usize, &str)| key.ends_with(ending);
        keys.iter().filter(ends).find_map(|(index, _)| text(block.value(record, *index)))
    };
    Announcement {
        written: block.write(record),
        plugin: ending(PLUGIN),
        plugin_version: ending(PLUGIN_VERSION),
    }
}

fn text(value: Option<Scalar>) -> Option<String> {
    match value {
        Some(Scalar::Text(text)) => Some(text),
        _ => None,
    }
}

/// The plain, visible files of a folder with their sizes, by name. Links are not followed.
fn list(folder: &Path) -> Result<Vec<(String, u64)>, QueryError> {
    let io = |source| QueryError::Io { operation: "list", path: folder.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        // An entry may be replaced or reaped while it is listed.
        let Ok(metadata) = entry.metadata() else { continue };
        let name = entry.file_name().to_string_lossy().into_owned();
        if metadata.is_file() && !name.starts_with('.') {
            files.push((name, metadata.len()));
        }
    }
    files.sort();
    Ok(files)
}

fn checkpoint_info(reader: &ObjectReader, node: &Node, folder: &Path) -> Result<CheckpointInfo, QueryError> {
    let mut info = CheckpointInfo::default();
    if !reader.is_inside(node, folder)? {
        return Ok(info);
    }
    let mut folders = vec![(folder.to_owned(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        let io = |source| QueryError::Io { operation: "list", path: folder.clone(), source };
        for entry in fs::read_dir(&folder).map_err(io)? {
            let entry = entry.map_err(io)?;
            let Ok(metadata) = entry.metadata() else { continue };
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if metadata.is_dir() {
                folders.push((entry.path(), format!("{path}/")));
            } else if metadata.is_file() {
                info.bytes += metadata.len();
                info.files.push((path, metadata.len()));
            }
        }
    }
    info.files.sort();
    info.complete = info.files.iter().any(|(path, _)| path == MANIFEST);
    Ok(info)
}
