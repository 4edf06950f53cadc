//! The reading side of a root. It never creates or changes anything.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use waycairn_dag::{Address, Edge, Lineage, Node};
use waycairn_durable::{CommitError, Size, read_format};

use crate::blob::{CHECKPOINT_ENTRY, blobs_folder, leads_out};
use crate::export::Table;
use crate::listing::{FieldTable, Freshness, PartSet};
use crate::part::values_folder;
use crate::query::{
    self, Answer, Diagnostic, Fault, FoldPlan, FoldSpec, IdentityScope, OnDamage, Query, QueryError,
    RecordScope, Threads, attempt, fold_ranges, threads,
};
use crate::resolve::{ResolveError, resolve};
use crate::run::{RunSummary, runs};
use crate::schema::{PARENT, ValueType};
use crate::store::ObjectStore;
use crate::view::{Artifact, ArtifactInfo, NodeView, artifact, view};

/// Reads what was recorded under a root.
///
/// It works on a root that does not exist yet, where every answer is empty, and beside writers, which it never
/// disturbs. A clone shares everything.
///
/// ```
/// use waycairn_store::ObjectReader;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let root = tempfile::tempdir()?;
/// let reader = ObjectReader::open(&root.path().join("nothing-here"))?;
/// assert!(reader.runs()?.is_empty());
/// assert!(!root.path().join("nothing-here").exists());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ObjectReader {
    places: Arc<Places>,
}

#[derive(Clone, Debug)]
struct Places {
    root: PathBuf,
    values: PathBuf,
    freshness: Freshness,
    on_damage: OnDamage,
}

/// A field and the types that it has in some part.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "any combination of the four types occurs")]
pub struct KeyInfo {
    /// The field.
    pub key: String,
    /// Some part has truth values.
    pub bools: bool,
    /// Some part has integers.
    pub ints: bool,
    /// Some part has floats.
    pub floats: bool,
    /// Some part has texts.
    pub texts: bool,
}

impl ObjectReader {
    /// Reads the root, which need not exist.
    ///
    /// # Errors
    /// [`QueryError::Format`] for a root of a newer format, or a file in its place.
    pub fn open(root: &Path) -> Result<ObjectReader, QueryError> {
        ObjectReader::with_values(root, &values_folder(root))
    }

    /// Reads the root with what is in journals too: those of writers that run, and of dead ones that nobody has recovered.
    /// What decides by what is recorded asks this way, or it decides as if the last of it were not there.
    ///
    /// # Errors
    /// As [`open`](ObjectReader::open).
    pub fn open_live(root: &Path) -> Result<ObjectReader, QueryError> {
        Ok(ObjectReader::open(root)?.with_freshness(Freshness::Live))
    }

    /// Reads the parts of another folder, say a local mirror of `objects/values`, while blobs are still found
    /// under the root.
    ///
    /// # Errors
    /// As [`open`](ObjectReader::open).
    pub fn with_values(root: &Path, values: &Path) -> Result<ObjectReader, QueryError> {
        read_format(root)?;
        let absolute = |path: &Path| {
            std::path::absolute(path).map_err(|source| QueryError::Io {
                operation: "find",
                path: path.to_owned(),
                source,
            })
        };
        let (root, values) = (absolute(root)?, absolute(values)?);
        let places = Places { root, values, freshness: Freshness::default(), on_damage: OnDamage::Fail };
        Ok(ObjectReader { places: Arc::new(places) })
    }

    /// The same reader, but a damaged part is left out of every answer instead of making it an error. That is
    /// said loudly: as a warning in the log and as a [`Diagnostic`] of the answer.
    #[must_use]
    pub fn skipping_damaged(&self) -> ObjectReader {
        let places = Places { on_damage: OnDamage::Skip, ..self.places.as_ref().clone() };
        ObjectReader { places: Arc::new(places) }
    }

    /// The same reader, but with what it sees being so new.
    #[must_use]
    pub fn with_freshness(&self, freshness: Freshness) -> ObjectReader {
        let places = Places { freshness, ..self.places.as_ref().clone() };
        ObjectReader { places: Arc::new(places) }
    }

    /// The root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.places.root
    }

    /// How many parts a question has to look at. Each costs it a footer: from about a thousand on, compact them with
    /// [`compact_root`](crate::compact_root).
    ///
    /// # Errors
    /// Any [`QueryError`] of listing parts.
    pub fn part_count(&self) -> Result<u64, QueryError> {
        Ok(self.ask(|set, _| Ok(set.parts.len() as u64))?.value)
    }

    /// Begins a question.
    #[must_use]
    pub fn query(&self) -> Query {
        Query::new(self.clone())
    }

    /// All runs, newest first: the newest is the one whose first record is latest, so an artifact that is added
    /// to an old run does not reorder them. No field of a caller is read.
    ///
    /// # Errors
    /// Any [`QueryError`] of reading parts.
    pub fn runs(&self) -> Result<Vec<RunSummary>, QueryError> {
        Ok(self.ask(|set, _| runs(set, &IdentityScope::default()))?.value)
    }

    /// The runs of one name, as [`runs`](ObjectReader::runs) tells them. Parts whose footers say that they hold no
    /// record of the name are not read, so the damage of their data is no concern of this question.
    ///
    /// # Errors
    /// Any [`QueryError`] of reading parts. A part whose footer cannot be read is one, since it may hold records of
    /// any name.
    pub fn runs_of(&self, name: &str) -> Result<Vec<RunSummary>, QueryError> {
        self.runs_of_any([name.to_owned()])
    }

    /// The runs of some names.
    pub(crate) fn runs_of_any(
        &self,
        names: impl IntoIterator<Item = String>,
    ) -> Result<Vec<RunSummary>, QueryError> {
        let mut scope = IdentityScope::default();
        scope.add_names(names);
        Ok(self.ask(|set, _| runs(set, &scope))?.value)
    }

    /// The distinct recorded parents of a node, sorted by address; none for an unknown node.
    ///
    /// # Errors
    /// Any [`QueryError`] of reading parts.
    pub fn parents(&self, node: &Node) -> Result<Vec<Node>, QueryError> {
        let edges = self.ask(|set, _| edges(set, IdentityScope::node(node)))?.value;
        let parents = edges.into_iter().filter(|edge| edge.child == *node).map(|edge| edge.parent);
        Ok(by_address(parents))
    }

    /// All recorded edges, sorted by child, for a [`Lineage`].
    ///
    /// # Errors
    /// Any [`QueryError`] of reading parts.
    pub fn edges(&self) -> Result<Vec<Edge>, QueryError> {
        Ok(self.ask(|set, _| edges(set, IdentityScope::default()))?.value)
    }

    /// Everything about one node; `None` if nothing was recorded for it.
    ///
    /// # Errors
    /// Any [`QueryError`] of reading parts, and [`QueryError::UnsafePath`].
    pub fn node(&self, node: &Node) -> Result<Option<NodeView>, QueryError> {
        Ok(self.ask(|set, _| view(self, set, node))?.value)
    }

    /// Finds the node that a user means: an exact address; `name@nonce:seq`; `name:seq`, in the newest run of the name;
    /// `name`, the last node of that run; `name@nonce`, the last node of this one; `latest`, the one written last; a
    /// unique prefix of an address, 8 characters or longer. For a nonce stands any unique beginning of 4 characters or
    /// more among the runs of the name.
    ///
    /// # Errors
    /// [`ResolveError::Ambiguous`], [`ResolveError::AmbiguousNonce`] and [`ResolveError::Unknown`] with what may have
    /// been meant.
    pub fn resolve(&self, text: &str) -> Result<Node, ResolveError> {
        resolve(self, text)
    }

    /// The folder of a node's checkpoint; `None` unless a record marks it and it is there.
    ///
    /// # Errors
    /// Any [`QueryError`] of reading parts, and [`QueryError::UnsafePath`].
    pub fn checkpoint(&self, node: &Node) -> Result<Option<PathBuf>, QueryError> {
        let marked = self.query().node(node).checkpoint().select(&["blob"])?.value;
        let blob = marked.into_iter().next().and_then(|row| row.fields.get("blob").map(ToString::to_string));
        let folder = blob.map(|blob| PathBuf::from(blob).join(CHECKPOINT_ENTRY));
        match folder {
            Some(folder) if self.is_inside(node, &folder)? && folder.is_dir() => Ok(Some(folder)),
            _ => Ok(None),
        }
    }

    /// Whether a node has a folder among the blobs, with whatever in it. No record is read.
    #[must_use]
    pub fn has_folder(&self, node: &Node) -> bool {
        self.node_folder(node).is_dir()
    }

    /// The folder of a node among the blobs; it need not exist.
    pub(crate) fn node_folder(&self, node: &Node) -> PathBuf {
        blobs_folder(self.root()).join(node.address().as_str())
    }

    /// The folder where the checkpoint of a node is, if there is one; no record is asked.
    #[must_use]
    pub fn checkpoint_folder(&self, node: &Node) -> PathBuf {
        self.node_folder(node).join(CHECKPOINT_ENTRY)
    }

    /// What the checkpoint folder of a node takes, marked or not; nothing where there is none. No file is opened.
    ///
    /// # Errors
    /// [`CommitError::Io`] when it cannot be looked at.
    pub fn checkpoint_size(&self, node: &Node) -> Result<Size, CommitError> {
        Size::of(&self.checkpoint_folder(node))
    }

    /// Nodes with a checkpoint that is there, near one that may have none: its ancestors, nearest first, then the
    /// others of its run by their distance.
    ///
    /// # Errors
    /// Any [`QueryError`] of reading parts.
    pub fn nearest_checkpoints(&self, node: &Node) -> Result<Vec<Node>, QueryError> {
        let marked = self.query().checkpoint().all()?.value;
        let mut nearest: Vec<Node> = Vec::new();
        if marked.iter().any(|marked| marked != node) {
            let ancestors = Lineage::new(self.edges()?).ancestors(node);
            nearest.extend(ancestors.into_iter().filter(|ancestor| marked.binary_search(ancestor).is_ok()));
        }
        let mut others: Vec<Node> =
            marked.into_iter().filter(|other| other.same_run(node) && !nearest.contains(other)).collect();
        others.sort_by_key(|other| other.seq().abs_diff(node.seq()));
        nearest.extend(others);
        // Parts may be copied without blobs, and a marker outlives a folder that was removed by hand.
        nearest.retain(|other| other != node && self.has_checkpoint_folder(other));
        Ok(nearest)
    }

    /// Whether the folder of a node's checkpoint is there, whatever records say.
    fn has_checkpoint_folder(&self, node: &Node) -> bool {
        let folder = self.checkpoint_folder(node);
        matches!(self.is_inside(node, &folder), Ok(true)) && folder.is_dir()
    }

    /// The artifacts that records of a node announce and that are there, by suffix. No payload is decoded.
    ///
    /// # Errors
    /// Any [`QueryError`] of reading parts, and [`QueryError::UnsafePath`].
    pub fn artifacts(&self, node: &Node) -> Result<Vec<ArtifactInfo>, QueryError> {
        Ok(self.node(node)?.map(|view| view.artifacts).unwrap_or_default())
    }

    /// One artifact of a node, not decoded yet.
    ///
    /// # Errors
    /// [`QueryError::UnknownArtifact`], [`QueryError::Artifact`] when the payload is missing, and any
    /// [`QueryError`] of reading parts.
    pub fn artifact(&self, node: &Node, suffix: &str) -> Result<Artifact, QueryError> {
        artifact(self, node, suffix)
    }

    /// All fields with their types, sorted by name.
    ///
    /// # Errors
    /// Any [`QueryError`] of reading parts.
    pub fn schema(&self) -> Result<Vec<KeyInfo>, QueryError> {
        Ok(self.ask(|set, _| Ok(key_infos(&set.fields)))?.value)
    }

    /// Answers an SQL query over the tables `nodes` (one row a node, folded, a column for each field),
    /// `records` (the rows of the parts as they are), `edges` (`node` and `parent` as addresses, and the identity of both)
    /// and `blobs` (the nodes that have files, with `path` below `objects/blobs`, `checkpoint` and `artifacts`).
    ///
    /// # Errors
    /// [`QueryError::Sql`], and any [`QueryError`] of reading parts.
    pub fn sql(&self, text: &str) -> Result<Table, QueryError> {
        let answer = self.ask(|set, diagnostics| query::sql(set, text, diagnostics))?;
        let (schema, batches) = answer.value;
        Ok(Table { schema, batches, diagnostics: answer.diagnostics })
    }

    /// Whether damaged parts are left out.
    pub(crate) fn skips_damage(&self) -> bool {
        self.places.on_damage == OnDamage::Skip
    }

    /// Answers a question from one listing; see [`attempt`].
    pub(crate) fn ask<T>(
        &self,
        mut answer: impl FnMut(&PartSet, &mut Vec<Diagnostic>) -> Result<T, Fault>,
    ) -> Result<Answer<T>, QueryError> {
        let ((value, diagnostics), mut skipped) =
            attempt(&self.places.values, self.places.freshness, self.places.on_damage, |set| {
                let mut diagnostics = Vec::new();
                answer(set, &mut diagnostics).map(|value| (value, diagnostics))
            })?;
        skipped.extend(diagnostics);
        Ok(Answer { value, diagnostics: skipped })
    }

    /// The folder that a recorded `_x_blob` means under this root.
    ///
    /// # Errors
    /// [`QueryError::UnsafePath`] when it is absolute or leads out of the folder of the blobs.
    pub(crate) fn blob_path(&self, node: &Node, recorded: &str) -> Result<PathBuf, QueryError> {
        let relative = Path::new(recorded);
        let plain = relative.components().all(|component| matches!(component, Component::Normal(_)));
        if recorded.is_empty() || !plain {
            return Err(QueryError::UnsafePath { node: node.to_string(), path: recorded.to_owned() });
        }
        let path = blobs_folder(self.root()).join(relative);
        self.is_inside(node, &path)?;
        Ok(path)
    }

    /// Whether a path exists; one that leads out of the root through a symbolic link is refused.
    ///
    /// # Errors
    /// [`QueryError::UnsafePath`], [`QueryError::Io`].
    pub(crate) fn is_inside(&self, node: &Node, path: &Path) -> Result<bool, QueryError> {
        match leads_out(self.root(), path) {
            Ok(None) => Ok(path.exists()),
            Ok(Some(target)) => {
                Err(QueryError::UnsafePath { node: node.to_string(), path: target.display().to_string() })
            }
            Err((path, source)) => Err(QueryError::Io { operation: "find", path, source }),
        }
    }
}

impl ObjectStore {
    /// A reader of the same root that sees what [`ObjectReader::open_live`] does.
    #[must_use]
    pub fn live_reader(&self) -> ObjectReader {
        self.reader().with_freshness(Freshness::Live)
    }

    /// A reader of the same root. It sees what was flushed.
    #[must_use]
    pub fn reader(&self) -> ObjectReader {
        // The store made the root, and checked its format then.
        let root = std::path::absolute(self.root()).unwrap_or_else(|_| self.root().to_owned());
        let values = values_folder(&root);
        let places = Places { root, values, freshness: Freshness::default(), on_damage: OnDamage::Fail };
        ObjectReader { places: Arc::new(places) }
    }
}

fn key_infos(fields: &FieldTable) -> Vec<KeyInfo> {
    let infos = fields.types.iter().map(|(key, types)| KeyInfo {
        key: key.to_string(),
        bools: types.has(ValueType::Bool),
        ints: types.has(ValueType::Int),
        floats: types.has(ValueType::Float),
        texts: types.has(ValueType::Text),
    });
    infos.collect()
}

/// The distinct edges that records in scope hold, sorted.
pub(crate) fn edges(set: &PartSet, scope: IdentityScope) -> Result<Vec<Edge>, Fault> {
    let mut spec = FoldSpec::default();
    let parents = spec.set(PARENT);
    let with_parents = set.parts.iter().filter(|part| part.schema.column(PARENT).is_some());
    let set = PartSet { parts: with_parents.cloned().collect(), ..set.clone() };
    let plan = Arc::new(FoldPlan::new(&set, spec, scope, RecordScope::default(), threads())?);
    let edges = fold_ranges(&plan, Threads(threads()), None, |block, edges: &mut Vec<Edge>| {
        let sets = block.set(parents);
        for (run, slots) in block.runs() {
            let base = run.node()?;
            for slot in slots {
                let child = base.at(block.seqs()[slot].cast_unsigned());
                // What is no address was not written by us; it is no edge.
                let parents = sets[slot].iter().filter_map(|text| text.parse::<Address>().ok());
                if let Ok(child) = child {
                    edges.extend(parents.map(|parent| Edge::new(child.clone(), parent.decode())));
                }
            }
        }
        Ok(0)
    })?;
    let mut edges: Vec<Edge> = edges.into_iter().flatten().collect();
    edges.sort();
    edges.dedup();
    Ok(edges)
}

pub(crate) fn by_address(nodes: impl Iterator<Item = Node>) -> Vec<Node> {
    let sorted: BTreeMap<Address, Node> = nodes.map(|node| (node.address(), node)).collect();
    sorted.into_values().collect()
}
