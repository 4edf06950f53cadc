//! `waycairn restore`: a run of a study, opened.

use clap::Args;
use serde_json::json;

use crate::command::study::StudyPlace;
use crate::context::Context;
use crate::error::CliError;
use crate::failure;
use crate::number;
use crate::output::{Shape, ShapeOutput};
use crate::table::printable;
use crate::value::Value;

/// Open the model and the artifacts of a run of a study, to see that they are there and where
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn restore gpt.baseline.r0
  waycairn restore gpt.baseline.r0 --device cpu --format json

A run is named by its folder below `runs`, by the name of its nodes, or by its node's address. The model is loaded on the
device and run on its own batch; where the text of that batch is gone, `outputs` is empty and `without_outputs` says
why. Variables of a launcher count for nothing here.")]
pub(crate) struct RestoreArgs {
    /// The run
    #[arg(value_name = "RUN")]
    pub(super) run: String,
    /// Device to load the model on: cpu or auto
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    pub(super) device: String,
    #[command(flatten)]
    pub(super) place: StudyPlace,
    #[command(flatten)]
    pub(super) output: ShapeOutput,
}

pub(crate) fn run(args: &RestoreArgs, context: &Context) -> Result<(), CliError> {
    let root = args.place.root(context)?;
    let restored = waycairn_study::restore(&context.experiments, &root, &args.run, &args.device);
    let restored = restored.map_err(failure::study)?;
    if let Some(why) = &restored.without_outputs {
        context.note(&format!(
            "the model is not run on its own batch, which cannot be made again: {}; put the text back, or link to it, at \
             the path of `data.source` in settings_training.toml",
            printable(why)
        ));
    }
    let mut out = args.output.place.open()?;
    match args.output.format() {
        Shape::Json => out.json(&Value::from(json!(restored)))?,
        Shape::Table => {
            out.text(&format!("run       {}\n", printable(&restored.path)))?;
            out.text(&format!("node      {}\n", printable(&restored.node)))?;
            let outputs = restored.outputs.iter().map(|(name, shape)| format!("{name} {shape:?}"));
            let outputs = match outputs.collect::<Vec<_>>().join(", ") {
                none if none.is_empty() => format!("loaded on {}", args.device),
                outputs => format!("on {} its own batch gives {outputs}", args.device),
            };
            out.text(&format!(
                "model     {} tensors, {} values; {outputs}\n",
                restored.tensors, restored.values
            ))?;
            for artifact in &restored.artifacts {
                out.text(&format!("{}  {}\n", printable(&artifact.product), printable(&artifact.path)))?;
                for (name, member) in &artifact.members {
                    let shape = member.shape.as_ref().zip(member.dtype);
                    let shape =
                        shape.map_or_else(String::new, |(shape, dtype)| format!("  {dtype} {shape:?}"));
                    out.text(&format!("  {}  {}{shape}\n", printable(name), number::bytes(member.bytes)))?;
                }
            }
        }
    }
    out.finish()
}
