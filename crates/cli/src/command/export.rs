//! `waycairn export`: the weights of a checkpoint for other programs.

use clap::{Args, ValueEnum};
use waycairn_train::{ExportFormat, export};

use crate::args::NODE_HELP;
use crate::context::Context;
use crate::error::CliError;
use crate::failure;
use crate::output::Place;

/// Write the weights of a checkpoint as a file for other programs
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  waycairn export shakespeare --format nanogpt -o nanogpt.safetensors
  waycairn export shakespeare:999 -o weights.safetensors

Both formats are safetensors, read by `safetensors.torch.load_file`. `nanogpt` has the names of nanoGPT's model, linear
weights [outputs, inputs], and loads with `load_state_dict`; `safetensors` has our own names, linear weights
[inputs, outputs]. The settings of the model are not in the file: `waycairn show NODE --format json` has them, as model.width
and others under `settings`, and names the `blob` folder of the node. In it, `checkpoint/config.toml` has the settings too, and
`checkpoint/tokenizer.json` the vocabulary.

{NODE_HELP}"))]
pub(crate) struct ExportArgs {
    /// The node; it must have a checkpoint
    #[arg(value_name = "NODE")]
    pub(super) node: String,
    /// nanogpt, or safetensors as it is stored [default: safetensors]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, help_heading = "Output")]
    pub(super) format: Option<WeightFormat>,
    #[command(flatten)]
    pub(super) place: Place,
}

/// Under which names weights are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WeightFormat {
    // As they are stored.
    Safetensors,
    // As PyTorch's nanoGPT calls them.
    Nanogpt,
}

pub(crate) fn run(args: &ExportArgs, context: &Context) -> Result<(), CliError> {
    args.place.refuse_terminal(&context.terminal)?;
    if args.format.is_none() {
        args.place.ending_of_one("safetensors")?;
    }
    let reader = context.reader()?;
    let node = context.resolve(&reader, &args.node)?;
    let format = match args.format {
        None | Some(WeightFormat::Safetensors) => ExportFormat::Safetensors,
        Some(WeightFormat::Nanogpt) => ExportFormat::NanoGpt,
    };
    let mut out = args.place.open()?;
    // The error of the export hides the one of the place, which may be only a closed pipe.
    export(reader.root(), &node, format, &mut out)
        .map_err(|error| out.take_failure().unwrap_or_else(|| failure::train(error)))?;
    out.finish()
}
