//! `waycairn train`: one run of one experiment.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use waycairn_dag::Node;
use waycairn_store::ObjectReader;
use waycairn_train::{Base, Status, Stop, TrainReport, TrainRequest};

use crate::args::NODE_HELP;
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::failure;
use crate::number::{self, plural};
use crate::output::{Destination, Shape};
use crate::progress::{Seen, Watch};
use crate::table::printable;
use crate::value::Value;

/// Train a model: a new run, a branch of a recorded node, or a run that was interrupted
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  waycairn train --preset tiny
  waycairn train --text shakespeare.txt --preset nanogpt-cpu --name shakespeare
  waycairn train --branch shakespeare:999 --name warmer --set learning_rate=3e-3
  waycairn train --resume shakespeare --max-time 2h

The same command again goes on where the run stopped, at its newest complete checkpoint; a run that is
finished is left alone. Ctrl-C stops after the step at hand, with a checkpoint, and the exit status is 4.

Settings come, later ones over earlier ones, from the preset (for --branch and --resume: from the base), the
file of --settings, and --steps, --seed and --set. A setting is a path such as learning_rate or model.width.

{NODE_HELP}"))]
pub(crate) struct TrainArgs {
    /// Train on this text (UTF-8) [default: an embedded one]
    #[arg(long, value_name = "FILE", help_heading = "What to train")]
    pub(super) text: Option<PathBuf>,
    /// Named settings to start from
    #[arg(long, value_name = "PRESET", help_heading = "What to train")]
    pub(super) preset: Option<String>,
    /// Lay the settings of a TOML file over them
    #[arg(long, value_name = "FILE", help_heading = "What to train")]
    pub(super) settings: Option<PathBuf>,
    /// Set one setting; may be repeated, and wins over all
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = assignment, help_heading = "What to train")]
    pub(super) sets: Vec<(String, String)>,
    /// Train another experiment than the first one of this program
    #[arg(long, value_name = "NAME", help_heading = "What to train")]
    pub(super) experiment: Option<String>,
    /// Train this many steps
    #[arg(long, value_name = "N", help_heading = "What to train")]
    pub(super) steps: Option<u64>,
    /// Seed of everything that is drawn at random
    #[arg(long, value_name = "N", help_heading = "What to train")]
    pub(super) seed: Option<u64>,

    /// Name of the run [default: the preset's name]
    #[arg(long, value_name = "NAME", help_heading = "Which run")]
    pub(super) name: Option<String>,
    /// Mark every record of this launch with a word of yours
    #[arg(long, value_name = "TAG", help_heading = "Which run")]
    pub(super) tag: Option<String>,
    /// Begin a new run from the state of this node
    #[arg(long, value_name = "NODE", conflicts_with_all = ["resume", "fresh"], help_heading = "Which run")]
    pub(super) branch: Option<String>,
    /// Go on with this node's run, from its newest complete checkpoint
    #[arg(long, value_name = "NODE", conflicts_with = "fresh", help_heading = "Which run")]
    pub(super) resume: Option<String>,
    /// Begin a new run even where one of this name could go on
    #[arg(long, help_heading = "Which run")]
    pub(super) fresh: bool,

    /// Device to compute on: cpu or auto
    #[arg(long, value_name = "DEVICE", default_value = "auto", help_heading = "How to run")]
    pub(super) device: String,
    /// Threads to compute with [default: one per core]
    #[arg(long, value_name = "N", help_heading = "How to run")]
    pub(super) threads: Option<NonZeroUsize>,
    /// Stop in good order after this time, such as 90s, 30m or 1h30m
    #[arg(long, value_name = "TIME", value_parser = crate::span::parse, help_heading = "How to run")]
    pub(super) max_time: Option<Duration>,
    /// Go on although the data has changed since the checkpoint; this is recorded
    #[arg(long, help_heading = "How to run")]
    pub(super) allow_changed_data: bool,
    /// Restore what fits of a checkpoint and begin the rest anew
    #[arg(long, help_heading = "How to run")]
    pub(super) partial: bool,

    /// json makes the last line one JSON object
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "table",
        hide_possible_values = true,
        hide_default_value = true,
        help_heading = "Output"
    )]
    pub(super) format: Shape,
}

/// Splits `PATH=VALUE`.
pub(super) fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((path, value)) if !path.trim().is_empty() => {
            Ok((path.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write it as PATH=VALUE, for example learning_rate=3e-3".to_owned()),
    }
}

pub(crate) fn run(args: TrainArgs, context: &Context) -> Result<Exit, CliError> {
    let request = request(&args, context)?;
    let stop = Stop::on_signals().map_err(|error| CliError::of("system", error))?;
    let mut progress = Watch::new(&context.terminal);
    let report = waycairn_train::train(&context.experiments, &request, &stop, &mut progress);
    let seen = progress.end();
    let report = report.map_err(failure::train)?;
    let again = again(&args, &report, context);
    let mut out = Destination::standard_output();
    let named = context.global.root.as_deref();
    let root = named.map_or_else(String::new, |root| format!(" --root {}", quoted(&root.to_string_lossy())));
    match args.format {
        Shape::Json => {
            if report.status == Status::Stopped {
                context.note(&format!("stopped in good order; to go on, run again: {again}"));
            }
            out.json_line(&json(&report))?;
        }
        Shape::Table => out.text(&text(&report, &seen, &again, &root))?,
    }
    out.finish()?;
    Ok(if report.status == Status::Stopped { Exit::Stopped } else { Exit::Done })
}

/// The launch that the arguments describe.
fn request(args: &TrainArgs, context: &Context) -> Result<TrainRequest, CliError> {
    let root = context.root_to_write().path;
    let base = match (&args.branch, &args.resume) {
        (None, None) => Base::None,
        (branch, resume) => {
            let reader = ObjectReader::open(&root).map_err(failure::query)?;
            match (branch, resume) {
                (Some(node), _) => Base::Branch(context.resolve(&reader, node)?),
                (None, node) => Base::Resume(context.resolve(&reader, node.as_deref().unwrap_or_default())?),
            }
        }
    };
    let single = [("steps", args.steps), ("seed", args.seed)];
    let single = single.into_iter().filter_map(|(path, value)| Some((path.to_owned(), value?.to_string())));
    Ok(TrainRequest {
        name: args.name.clone(),
        tag: args.tag.clone(),
        experiment: args.experiment.clone(),
        preset: args.preset.clone(),
        text: args.text.clone(),
        settings_file: args.settings.clone(),
        sets: single.chain(args.sets.iter().cloned()).collect(),
        base,
        fresh: args.fresh,
        device: args.device.clone(),
        threads: args.threads.map(NonZeroUsize::get),
        max_time: args.max_time,
        allow_changed_data: args.allow_changed_data,
        partial: args.partial,
        command_line: context.command_line.clone(),
        ..TrainRequest::new(root)
    })
}

/// The command that goes on: the same one, except that `--fresh` would begin once more.
fn again(args: &TrainArgs, report: &TrainReport, context: &Context) -> String {
    if !args.fresh {
        return context.command_line.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    }
    let root = context.root_to_write().path;
    let node = quoted(&report.node.to_string());
    format!("waycairn train --root {} --resume {node}", quoted(&root.to_string_lossy()))
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=,+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The stable shape of the last line.
fn json(report: &TrainReport) -> Value {
    let address = |node: &Node| Value::Text(node.address().to_string());
    let maybe = |node: &Option<Node>| node.as_ref().map_or(Value::Null, address);
    Value::Object(vec![
        ("node".into(), address(&report.node)),
        ("status".into(), Value::from(report.status.as_str())),
        ("steps".into(), Value::Count(report.steps)),
        ("resumed_from".into(), maybe(&report.resumed_from)),
        ("checkpoint".into(), maybe(&report.checkpoint)),
    ])
}

/// What became of the run, and what may come next.
fn text(report: &TrainReport, seen: &Seen, again: &str, root: &str) -> String {
    let node = printable(&report.node.to_string());
    let steps = plural(report.steps, "step");
    let mut losses = String::new();
    for (name, loss) in [("loss", seen.loss), ("validation loss", seen.validation)] {
        if let Some(loss) = loss {
            losses.push_str(&format!(", {name} {}", number::float(loss)));
        }
    }
    let name = quoted(report.node.name());
    match report.status {
        Status::Finished => format!(
            "finished {node} after {steps}{losses}\n  \
             waycairn show {name}{root}      what is known of its last node\n  \
             waycairn sample {name}{root}    let the model write\n"
        ),
        Status::Skipped => format!(
            "nothing to do: {node} is the last of {steps}, and the run is finished\n  \
             add --fresh to train it once more, or --steps N or --set PATH=VALUE to train it otherwise\n"
        ),
        Status::Stopped => {
            format!(
                "stopped in good order at {node} after {steps}{losses}; to go on, run again:\n  {again}\n"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(status: Status) -> TrainReport {
        let node = Node::new("it's", "0123456789abcdef", 19).unwrap();
        TrainReport {
            node: node.clone(),
            status,
            steps: 20,
            resumed_from: None,
            checkpoint: Some(node),
            updates: 20,
            ticks: 19,
        }
    }

    #[test]
    fn cli_1_the_last_line_of_train() {
        let line = serde_json::to_string(&json(&report(Status::Stopped))).unwrap();
        let node = report(Status::Stopped).node.address();
        assert_eq!(
            line,
            format!(
                r#"{{"node":"{node}","status":"stopped","steps":20,"resumed_from":null,"checkpoint":"{node}"}}"#
            )
        );
    }

    #[test]
    fn words_are_quoted_for_the_shell() {
        assert_eq!(quoted("learning_rate=3e-3"), "learning_rate=3e-3");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("a b"), "'a b'");
    }

    #[test]
    fn the_text_says_what_to_do_next() {
        let seen = Seen { loss: Some(2.5), validation: None };
        assert!(
            text(&report(Status::Finished), &seen, "", "")
                .starts_with("finished it's@0123456789abcdef:19 after 20 steps, loss 2.5\n")
        );
        assert!(
            text(&report(Status::Stopped), &seen, "waycairn train x", "")
                .ends_with("run again:\n  waycairn train x\n")
        );
        assert!(text(&report(Status::Skipped), &seen, "", "").contains("--fresh"));
    }
}
