//! The tables of SQL that are small enough to be made before a statement runs: `edges` and `blobs`. They are made only for
//! a statement that names them.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Field, Schema, SchemaRef};
use waycairn_dag::{Edge, Node};

use crate::listing::PartSet;
use crate::query::engine::{Threads, fold_ranges, threads};
use crate::query::fault::Fault;
use crate::query::plan::FoldPlan;
use crate::query::scope::{IdentityScope, RecordScope};
use crate::query::spec::{Flag, FoldSpec};
use crate::schema::{ARTIFACT, ARTIFACT_SEPARATOR, BLOB, CHECKPOINT};

/// The recorded edges: a row for each, `node` and `parent` as addresses, and the identity of both.
pub(crate) fn edges(edges: &[Edge]) -> Result<RecordBatch, Fault> {
    let of =
        |which: fn(&Edge) -> &Node, name: &str| identity(&edges.iter().map(which).collect::<Vec<_>>(), name);
    let columns = of(|edge| &edge.child, "").into_iter().chain(of(|edge| &edge.parent, "parent"));
    table(columns.collect())
}

/// The nodes that something was committed for beside their values: `path` is relative to `objects/blobs`, `artifacts` are the
/// announced suffixes, joined by `/`.
pub(crate) fn blobs(set: &PartSet) -> Result<RecordBatch, Fault> {
    let rows = recorded_blobs(set)?;
    let mut columns = identity(&rows.iter().map(|row| &row.node).collect::<Vec<_>>(), "");
    let paths: StringArray = rows.iter().map(|row| Some(row.path.as_str())).collect();
    let checkpoints: BooleanArray = rows.iter().map(|row| Some(row.checkpoint)).collect();
    let artifacts: StringArray = rows.iter().map(|row| row.artifacts.as_deref()).collect();
    columns.push(("path".to_owned(), Arc::new(paths) as ArrayRef));
    columns.push(("checkpoint".to_owned(), Arc::new(checkpoints)));
    columns.push(("artifacts".to_owned(), Arc::new(artifacts)));
    table(columns)
}

fn recorded_blobs(set: &PartSet) -> Result<Vec<Blob>, Fault> {
    let mut spec = FoldSpec::default();
    let checkpoint = spec.flag(&Flag::True(CHECKPOINT));
    let (paths, artifacts) = (spec.set(BLOB), spec.set(ARTIFACT));
    let (scope, records) = (IdentityScope::default(), RecordScope::default());
    let plan = Arc::new(FoldPlan::new(set, spec, scope, records, threads())?);
    let rows = fold_ranges(&plan, Threads(threads()), None, |block, rows: &mut Vec<Blob>| {
        let (paths, artifacts) = (block.set(paths), block.set(artifacts));
        let checkpoints = block.flag(checkpoint);
        for (run, slots) in block.runs() {
            let base = run.node()?;
            for slot in slots {
                // Paths of one node are alike, unless another program wrote one of them.
                let Some(path) = paths[slot].first() else { continue };
                let Ok(node) = base.at(block.seqs()[slot].cast_unsigned()) else { continue };
                let names: Vec<&str> = artifacts[slot].iter().map(|name| &**name).collect();
                rows.push(Blob {
                    node,
                    path: path.to_string(),
                    checkpoint: checkpoints.get(slot),
                    artifacts: (!names.is_empty()).then(|| names.join(ARTIFACT_SEPARATOR)),
                });
            }
        }
        Ok(0)
    })?;
    Ok(rows.into_iter().flatten().collect())
}

/// The nodes that a record says have files.
pub(crate) fn nodes_with_blobs(set: &PartSet) -> Result<Vec<Node>, Fault> {
    Ok(recorded_blobs(set)?.into_iter().map(|blob| blob.node).collect())
}

struct Blob {
    node: Node,
    path: String,
    checkpoint: bool,
    artifacts: Option<String>,
}

/// The columns of an identity: the address, name, nonce and position; those of a parent are called after it.
fn identity(nodes: &[&Node], of: &str) -> Vec<(String, ArrayRef)> {
    let name = |word: &str| if of.is_empty() { word.to_owned() } else { format!("{of}_{word}") };
    let address = if of.is_empty() { "node".to_owned() } else { of.to_owned() };
    let text = |text: &dyn Fn(&Node) -> String| -> ArrayRef {
        Arc::new(nodes.iter().map(|node| Some(text(node))).collect::<StringArray>())
    };
    let seqs: Int64Array = nodes.iter().map(|node| i64::try_from(node.seq()).ok()).collect();
    vec![
        (address, text(&|node| node.address().to_string())),
        (name("name"), text(&|node| node.name().to_owned())),
        (name("nonce"), text(&|node| node.nonce().to_owned())),
        (name("seq"), Arc::new(seqs)),
    ]
}

fn table(columns: Vec<(String, ArrayRef)>) -> Result<RecordBatch, Fault> {
    let fields = columns.iter().map(|(name, array)| Field::new(name, array.data_type().clone(), true));
    let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(schema, arrays).map_err(|error| Fault::answer("assemble", error))
}
