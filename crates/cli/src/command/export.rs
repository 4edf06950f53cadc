//! `waycairn export`: the weights of a checkpoint for other programs.

use clap::{Args, ValueEnum};
use waycairn_train::{ExportFormat, export};

use crate::args::NODE_HELP;
use crate::command::compare::{self, CompareArgs};
use crate::command::study::StudyPlace;
use crate::context::Context;
use crate::error::CliError;
use crate::failure;
use crate::output::{Format, Place, RowOutput};

/// Write the weights of a checkpoint, or the numbers of a study, as a file for other programs
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  waycairn export shakespeare --format nanogpt -o nanogpt.safetensors
  waycairn export shakespeare:999 -o weights.safetensors
  waycairn export --csv settings.learning_rate val/loss -o runs.csv

Both formats are safetensors, read by `safetensors.torch.load_file`. `nanogpt` has the names of nanoGPT's model, linear
weights [outputs, inputs], and loads with `load_state_dict`; `safetensors` has our own names, linear weights
[inputs, outputs]. The settings of the model are not in the file: `waycairn show NODE --format json` has them, as model.width
and others under `settings`, and names the `blob` folder of the node. In it, `checkpoint/config.toml` has the settings too, and
`checkpoint/tokenizer.json` the vocabulary.

With --csv it is a table of the runs of a study, and what is named are the PATHs of `waycairn compare`.

{NODE_HELP}"))]
pub(crate) struct ExportArgs {
    /// The node; it must have a checkpoint. With --csv, what the table is to have of each run
    #[arg(value_name = "NODE", required_unless_present = "csv")]
    pub(super) what: Vec<String>,
    /// Write a table of the runs of a study instead: metrics, settings and fields, by path
    #[arg(long, conflicts_with = "format")]
    pub(super) csv: bool,
    #[command(flatten)]
    pub(super) study: StudyPlace,
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
    if args.csv {
        let output = RowOutput { format: Some(Format::Csv), place: args.place.clone() };
        let (paths, place) = (args.what.clone(), args.study.clone());
        return compare::run(&CompareArgs { paths, plot: false, against: None, place, output }, context);
    }
    let [node] = args.what.as_slice() else {
        return Err(CliError::usage("one node is exported at a time")
            .next("name one, or add `--csv` for a table of the runs of a study"));
    };
    args.place.refuse_terminal(&context.terminal)?;
    if args.format.is_none() {
        args.place.ending_of_one("safetensors")?;
    }
    let reader = context.reader()?;
    let node = context.resolve(&reader, node)?;
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
