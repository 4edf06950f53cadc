//! `waycairn sample`: text from a checkpoint.

use clap::Args;
use waycairn_dag::Node;
use waycairn_train::{SampleOptions, sample};

use crate::args::NODE_HELP;
use crate::context::Context;
use crate::count;
use crate::error::CliError;
use crate::failure;
use crate::output::{Shape, ShapeOutput};
use crate::value::Value;

/// Let the model of a checkpoint write text
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  waycairn sample shakespeare --prompt \"ROMEO:\"
  waycairn sample shakespeare:999 --tokens 500 --temperature 0.8 --top-k 40 --seed 7

{NODE_HELP}"))]
pub(crate) struct SampleArgs {
    /// The node; it must have a checkpoint
    #[arg(value_name = "NODE")]
    pub(super) node: String,
    /// The text to go on from [default: a line break]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(super) prompt: Option<String>,
    /// Write this many tokens
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = count::any::<usize>, allow_negative_numbers = true)]
    pub(super) tokens: usize,
    /// Below 1 the likely is favoured, above 1 the unlikely; 0 always takes the likeliest
    #[arg(long, value_name = "T", default_value_t = 1.0, value_parser = count::fraction, allow_negative_numbers = true)]
    pub(super) temperature: f64,
    /// Choose among the K likeliest tokens only
    #[arg(long, value_name = "K", value_parser = count::positive::<usize>, allow_negative_numbers = true)]
    pub(super) top_k: Option<usize>,
    /// Seed of the choice: the same seed writes the same text
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = count::any::<u64>, allow_negative_numbers = true)]
    pub(super) seed: u64,
    /// Device to compute on: cpu or auto
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(super) device: String,
    #[command(flatten)]
    pub(super) output: ShapeOutput,
}

pub(crate) fn run(args: SampleArgs, context: &Context) -> Result<(), CliError> {
    let reader = context.reader()?;
    let node = context.resolve(&reader, &args.node)?;
    let options = SampleOptions {
        prompt: args.prompt,
        tokens: args.tokens,
        temperature: args.temperature,
        top_k: args.top_k,
        seed: args.seed,
        device: args.device,
    };
    let mut out = args.output.place.open()?;
    let text = sample(&context.experiments, reader.root(), &node, &options).map_err(failure::train)?;
    match args.output.format() {
        Shape::Json => out.json(&json(&node, &options, text))?,
        // A prompt that was not given is only where the model begins.
        Shape::Table if options.prompt.is_none() => {
            out.text(&format!("{}\n", text.trim_start_matches('\n')))?
        }
        Shape::Table => out.text(&format!("{text}\n"))?,
    }
    out.finish()
}

/// The stable shape of a sample. The text begins with the prompt.
fn json(node: &Node, options: &SampleOptions, text: String) -> Value {
    Value::Object(vec![
        ("node".into(), Value::Text(node.address().to_string())),
        ("prompt".into(), Value::text(options.prompt.as_deref())),
        ("seed".into(), Value::Count(options.seed)),
        ("text".into(), Value::Text(text)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_1_a_sample() {
        let node = Node::new("tiny", "0123456789abcdef", 19).unwrap();
        let options = SampleOptions { prompt: Some("a".to_owned()), seed: 7, ..SampleOptions::default() };
        let text = serde_json::to_string(&json(&node, &options, "ab".to_owned())).unwrap();
        let address = node.address();
        assert_eq!(text, format!(r#"{{"node":"{address}","prompt":"a","seed":7,"text":"ab"}}"#));
    }
}
