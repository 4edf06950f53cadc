//! `waycairn artifact`: one artifact of a node.

use clap::{Args, ValueEnum};

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

pub(crate) fn run(args: &ArtifactArgs, context: &Context) -> Result<(), CliError> {
    let reader = context.reader()?;
    let node = context.resolve(&reader, &args.node)?;
    let artifact = reader.artifact(&node, &args.suffix).map_err(failure::query)?;
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
