//! `waycairn artifact`: one artifact of a node.

use clap::{Args, ValueEnum};
use waycairn_dag::Node;
use waycairn_store::{ObjectReader, QueryError};

use crate::args::NODE_HELP;
use crate::context::Context;
use crate::error::CliError;
use crate::output::Place;
use crate::{failure, payload};

/// Print an artifact that is attached to a node
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  waycairn artifact shakespeare:999 summary
  waycairn artifact shakespeare:999 summary --format msgpack -o summary.msgpack

In JSON an array is {{\"$array\": {{dtype, shape, values}}}}, bytes are {{\"$bytes\": base64}}, and a number that is not
finite is {{\"$float\": \"NaN\"}}. `waycairn show NODE` lists the artifacts of a node.

{NODE_HELP}"))]
pub(crate) struct ArtifactArgs {
    /// The node
    #[arg(value_name = "NODE")]
    pub(super) node: String,
    /// The artifact's name, such as summary
    #[arg(value_name = "SUFFIX")]
    pub(super) suffix: String,
    /// json, or msgpack as it is stored [default: by FILE's ending, else json]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, help_heading = "Output")]
    pub(super) format: Option<PayloadFormat>,
    #[command(flatten)]
    pub(super) place: Place,
}

/// How an artifact's payload is written: as readable JSON, or as the MessagePack that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PayloadFormat {
    // For people and programs.
    Json,
    // The bytes as they are stored.
    Msgpack,
}

/// The error of a node without an artifact, with the nodes of its run that have it.
fn elsewhere(error: QueryError, reader: &ObjectReader, node: &Node, suffix: &str) -> CliError {
    let unknown = matches!(error, QueryError::UnknownArtifact { .. });
    let error = failure::query(error);
    if !unknown {
        return error;
    }
    let mut query = reader.query();
    query.name(node.name()).nonce(node.nonce()).artifact_named(suffix);
    let nodes = query.all().map(|answer| answer.value).unwrap_or_default();
    if nodes.is_empty() {
        return error;
    }
    let (names, more) = failure::first(&nodes, nodes.len());
    let why = format!("it is attached to other nodes of the run: {names}{more}");
    error.why(why).next("name one of those nodes, or attach one to this node with `waycairn analyze`")
}

pub(crate) fn run(args: &ArtifactArgs, context: &Context) -> Result<(), CliError> {
    let reader = context.reader()?;
    let node = context.resolve(&reader, &args.node)?;
    let artifact = reader
        .artifact(&node, &args.suffix)
        .map_err(|error| elsewhere(error, &reader, &node, &args.suffix))?;
    let format = args.format.unwrap_or_else(|| match args.place.ending().as_deref() {
        Some("msgpack" | "mp") => PayloadFormat::Msgpack,
        _ => PayloadFormat::Json,
    });
    if args.format.is_none() {
        args.place.known_ending(&["json", "msgpack", "mp"])?;
    }
    if format == PayloadFormat::Msgpack {
        args.place.refuse_terminal(&context.terminal)?;
    }
    let mut out = args.place.open()?;
    match format {
        PayloadFormat::Json => out.json(&payload::json(artifact.value().map_err(failure::query)?))?,
        PayloadFormat::Msgpack => out.bytes(artifact.bytes())?,
    }
    out.finish()
}

#[cfg(test)]
mod tests {
    use waycairn_store::{ObjectStore, StoreOptions};

    use super::*;

    #[test]
    fn a_node_without_the_artifact_is_told_who_has_it() {
        let root = tempfile::tempdir().unwrap();
        let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
        let node = |name: &str, seq| Node::new(name, "0123456789abcdef", seq).unwrap();
        for (name, seq) in [("tiny", 1), ("tiny", 2), ("other", 1)] {
            store.value(&node(name, seq), &[]).unwrap();
        }
        store.artifact(&node("tiny", 1), "summary", &[], &1).unwrap();
        store.close().unwrap();
        let reader = store.reader();
        let told = |node: &Node, suffix: &str| {
            let error = reader.artifact(node, suffix).unwrap_err();
            let error = elsewhere(error, &reader, node, suffix);
            (String::from(error.why.unwrap()), String::from(error.next.unwrap()))
        };
        let (why, next) = told(&node("tiny", 2), "summary");
        assert!(why.ends_with("of the run: tiny@0123456789abcdef:1"), "{why}");
        assert!(next.starts_with("name one of those nodes"), "{next}");
        let (why, next) = told(&node("other", 1), "summary");
        assert_eq!(why, "it has no artifacts at all");
        assert!(!next.contains("of those"), "{next}");
        let (why, next) = told(&node("tiny", 1), "sumary");
        assert_eq!(why, "its artifacts are `summary`");
        assert!(next.ends_with("name one of those"), "{next}");
    }
}
