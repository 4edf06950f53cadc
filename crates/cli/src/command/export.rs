//! `waycairn export`: the weights of a checkpoint for other programs.

use clap::{Args, ValueEnum};
use waycairn_dag::Node;
use waycairn_store::ObjectReader;
use waycairn_train::{ExportFormat, export, model_node};

use crate::args::NODE_HELP;
use crate::command::compare::{self, CompareArgs};
use crate::command::study::StudyPlace;
use crate::context::Context;
use crate::error::CliError;
use crate::failure;
use crate::output::{Format, Place, RowOutput};
use crate::table::printable;

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

{NODE_HELP} Here `name` and `name@nonce` are the node that the model of the run is taken from, as in a study:
its last node, or with the setting training.checkpoint = \"best\" the one with the lowest validation loss, which is told."))]
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
    let node = of_model(node, &reader, context)?;
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

/// The node whose weights are meant: of a run that is named as a whole the one that its model is taken from.
fn of_model(text: &str, reader: &ObjectReader, context: &Context) -> Result<Node, CliError> {
    let named = context.resolve(reader, text)?;
    if !is_whole_run(text, &named) {
        return Ok(named);
    }
    let node = model_node(&context.experiments, reader, &named).map_err(failure::train)?;
    if node.seq() != named.seq() {
        let [shown, last] = [&node, &named].map(|node| printable(&node.to_string()));
        context.note(&format!(
            "the model of the run is that of `{shown}`, with the lowest validation loss; its last node is `{last}`"
        ));
    }
    Ok(node)
}

/// Whether the text that means a node names no position: `name` or `name@nonce`.
fn is_whole_run(text: &str, node: &Node) -> bool {
    let nonce = |rest: &str| rest.strip_prefix('@').is_some_and(|nonce| node.nonce().starts_with(nonce));
    text.strip_prefix(node.name()).is_some_and(|rest| rest.is_empty() || nonce(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_named_as_a_whole_without_a_position() {
        let node = Node::new("a:1", "0123456789abcdef", 7).unwrap();
        for whole in ["a:1", "a:1@0123", "a:1@0123456789abcdef"] {
            assert!(is_whole_run(whole, &node), "{whole}");
        }
        let address = node.address().to_string();
        for position in ["a:1:7", "a:1@0123:7", "a:1@0123456789abcdef:7", "latest", &address, &address[..9]] {
            assert!(!is_whole_run(position, &node), "{position}");
        }
    }
}
