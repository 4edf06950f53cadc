//! `waycairn train`: one run of one experiment, or all runs of a study.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use waycairn_dag::Node;
use waycairn_store::ObjectReader;
use waycairn_train::{
    Base, OnStoreError, SettingsError, SettingsLayer, Status, TrainError, TrainReport, TrainRequest,
    recorded_experiment,
};

use crate::args::NODE_HELP;
use crate::command::plugins::PluginPlaces;
use crate::command::settings;
use crate::command::study::{self, Stage, StudyPlace, Workers};
use crate::context::Context;
use crate::count;
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
  waycairn train --preset nanogpt-cpu --show-settings
  waycairn train --profile small

Without --text, --preset, --settings, --branch and --resume it is a study that is trained: every run that the file
settings_training.toml describes. `waycairn init` writes one, and `waycairn plan` says what it would run. Its last line
with --format json is {{products: [{{product, key, status: hit|built, bytes, seconds, estimate}}], runs: [{{path, node, status,
computed, kept}}], removed: [path], cleaned: {{removed: {{files, bytes}}, kept: {{files, bytes}}}}}}: what the clean-up at the end removed
and kept of the cache, of runs/ and of source/. A training lets the analyses of its runs begin anew, so their metrics and
plots are among what is removed; `waycairn run` keeps them.

The same command again goes on where the run stopped, at its newest complete checkpoint; a run that is
finished is left alone. Ctrl-C stops after the micro-batch at hand, or the batch of a validation, with a checkpoint
of the last finished step, and the exit status is 4.

Settings come, later ones over earlier ones, from the preset (for --branch and --resume: from the base), the
file of --settings, and --steps, --seed and --set. A setting is a path such as learning_rate or model.width;
--show-settings lists all of them, as a file that --settings reads.

With --format json the last line is {{node, status: finished|stopped|skipped, steps, resumed_from, checkpoint,
skipped, unrecorded}}: skipped counts the steps of the run that were left out as not finite, and unrecorded the records
that --on-store-error degrade let go.

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
    #[arg(long, value_name = "N", value_parser = count::any::<u64>, allow_negative_numbers = true, help_heading = "What to train")]
    pub(super) steps: Option<u64>,
    /// Seed of everything that is drawn at random
    #[arg(long, value_name = "N", value_parser = count::any::<u64>, allow_negative_numbers = true, help_heading = "What to train")]
    pub(super) seed: Option<u64>,

    /// List every setting with its value, its default and what it accepts, and train nothing
    #[arg(long, help_heading = "What to train")]
    pub(super) show_settings: bool,

    /// Name of the run, a new one for a branch [default: the preset's name]
    #[arg(long, value_name = "NAME", help_heading = "Which run")]
    pub(super) name: Option<String>,
    /// Mark every record of this launch with a word of yours
    #[arg(long, value_name = "TAG", help_heading = "Which run")]
    pub(super) tag: Option<String>,
    /// Begin a new run from the state of this node; it needs a --name of its own, unless NODE is written with its
    /// nonce
    #[arg(long, value_name = "NODE", conflicts_with_all = ["resume", "fresh"], help_heading = "Which run")]
    pub(super) branch: Option<String>,
    /// Go on with this node's run, from its newest complete checkpoint
    #[arg(long, value_name = "NODE", conflicts_with = "fresh", help_heading = "Which run")]
    pub(super) resume: Option<String>,
    /// Begin a new run even where one of this name could go on
    #[arg(long, help_heading = "Which run")]
    pub(super) fresh: bool,

    /// Device to compute on: cpu or auto [default: auto]
    #[arg(long, value_name = "DEVICE", help_heading = "How to run")]
    pub(super) device: Option<String>,
    /// Threads to compute with [default: one per core]
    #[arg(long, value_name = "N", value_parser = count::positive::<usize>, allow_negative_numbers = true, help_heading = "How to run")]
    pub(super) threads: Option<usize>,
    /// Stop in good order after this time, such as 90s, 30m or 1h30m
    #[arg(long, value_name = "TIME", value_parser = crate::span::parse, help_heading = "How to run")]
    pub(super) max_time: Option<Duration>,
    /// Go on although the data has changed since the checkpoint; this is recorded
    #[arg(long, help_heading = "How to run")]
    pub(super) allow_changed_data: bool,
    /// Where records cannot be written: stop, or degrade, which goes on and counts them [default: stop]
    #[arg(long, value_name = "POLICY", help_heading = "How to run")]
    pub(super) on_store_error: Option<StoreErrors>,
    /// Restore what fits of a checkpoint and begin the rest anew
    #[arg(long, help_heading = "How to run")]
    pub(super) partial: bool,

    #[command(flatten)]
    pub(super) study: StudyPlace,
    #[command(flatten)]
    pub(super) workers: Workers,

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

/// What `--on-store-error` takes.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum StoreErrors {
    Stop,
    Degrade,
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

impl TrainArgs {
    /// Whether one run is meant, and not a study. An option that only a run has means one where there is no study that
    /// it could have been given to by mistake.
    fn is_single(&self) -> Result<bool, CliError> {
        let named = self.text.is_some()
            || self.preset.is_some()
            || self.settings.is_some()
            || self.branch.is_some()
            || self.resume.is_some()
            || self.show_settings;
        let of_a_study = first(&[
            ("--profile", self.study.profile.is_some()),
            ("--settings-dir", self.study.settings_dir.is_some()),
            ("--keep-going", self.workers.keep_going),
            ("--worker", self.workers.worker.is_some()),
        ]);
        let of_a_run = first(&[
            ("--set", !self.sets.is_empty()),
            ("--steps", self.steps.is_some()),
            ("--seed", self.seed.is_some()),
            ("--name", self.name.is_some()),
            ("--tag", self.tag.is_some()),
            ("--experiment", self.experiment.is_some()),
            ("--fresh", self.fresh),
            ("--device", self.device.is_some()),
            ("--threads", self.threads.is_some()),
            ("--max-time", self.max_time.is_some()),
            ("--allow-changed-data", self.allow_changed_data),
            ("--on-store-error", self.on_store_error.is_some()),
            ("--partial", self.partial),
        ]);
        match (named, of_a_study, of_a_run) {
            (true, Some(option), _) => Err(CliError::usage(format!(
                "`{option}` is for a study, and the other options ask for one run"
            ))
            .next("leave one of them out")),
            (true, None, _) => Ok(true),
            (false, None, Some(_)) if !self.study.has_training() => Ok(true),
            (false, _, Some(option)) => {
                Err(CliError::usage(format!("`{option}` is for one run, and a study is here"))
                    .why("without --text, --preset, --settings, --branch and --resume the study is trained")
                    .next("add `--preset tiny` for a run, or write the setting into settings_training.toml"))
            }
            (false, _, None) => Ok(false),
        }
    }
}

/// The first option that was given.
fn first(options: &[(&'static str, bool)]) -> Option<&'static str> {
    options.iter().find(|(_, given)| *given).map(|(option, _)| *option)
}

pub(crate) fn run(args: TrainArgs, context: &Context) -> Result<Exit, CliError> {
    if !args.is_single()? {
        let places = PluginPlaces::default();
        return study::launch(&args.study, &args.workers, Stage::Train, &[], &places, args.format, context);
    }
    if !args.show_settings {
        context.note_other_root();
    }
    let request = request(&args, context)?;
    let failed = |error| listed(failure::train(named(&args, error)), &request, context);
    if args.show_settings {
        let settings = waycairn_train::settings(&context.experiments, &request).map_err(failed)?;
        return settings::show(&settings, args.format, context).map(|()| Exit::Done);
    }
    let stop = context.listen()?;
    let mut progress = Watch::new(&context.terminal);
    let report = waycairn_train::train(&context.experiments, &request, &stop, &mut progress);
    let seen = progress.end();
    let report = report.map_err(failed)?;
    let again = again(&args, &request, &report, &context.command_line);
    let mut out = Destination::standard_output();
    let named = context.global.root.as_deref();
    let root =
        named.map_or_else(String::new, |root| format!(" {}", with_value("--root", &root.to_string_lossy())));
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
            let reader = ObjectReader::open_live(&root).map_err(failure::query)?;
            match (branch, resume) {
                (Some(text), _) => {
                    let node = context.resolve(&reader, text)?;
                    check_branch(args, text, &node)?;
                    Base::Branch(node)
                }
                (None, node) => Base::Resume(context.resolve(&reader, node.as_deref().unwrap_or_default())?),
            }
        }
    };
    let single = single(args).map(|(path, value)| (path.to_owned(), value));
    Ok(TrainRequest {
        name: args.name.clone(),
        tag: args.tag.clone(),
        experiment: args.experiment.clone(),
        preset: args.preset.clone(),
        text: args.text.clone(),
        settings: args.settings.clone().map(SettingsLayer::File),
        sets: single.chain(args.sets.iter().cloned()).collect(),
        base,
        fresh: args.fresh,
        device: args.device.clone().unwrap_or_else(|| "auto".to_owned()),
        threads: args.threads,
        max_time: args.max_time,
        allow_changed_data: args.allow_changed_data,
        partial: args.partial,
        on_store_error: match args.on_store_error {
            None | Some(StoreErrors::Stop) => OnStoreError::Stop,
            Some(StoreErrors::Degrade) => OnStoreError::Degrade,
        },
        command_line: context.command_line.clone(),
        ..TrainRequest::new(root)
    })
}

/// The settings that have an option of their own.
fn single(args: &TrainArgs) -> impl Iterator<Item = (&'static str, String)> {
    let single = [("steps", args.steps), ("seed", args.seed)];
    single.into_iter().filter_map(|(path, value)| Some((path, value?.to_string())))
}

/// An error that names the option that the user wrote: those of their own come before every `--set`.
fn named(args: &TrainArgs, mut error: TrainError) -> TrainError {
    let (path, given, origin) = match &mut error {
        TrainError::Settings(SettingsError::BadValue { path, given, origin, .. }) => {
            (path, Some(given), origin)
        }
        TrainError::Settings(SettingsError::UnknownPath { path, origin, .. }) => (path, None, origin),
        _ => return error,
    };
    let is = |(single, value): (&str, String)| {
        single == path.as_str() && given.as_ref().is_none_or(|given| value == given.as_str())
    };
    if origin == "--set" && single(args).any(is) {
        *origin = format!("--{path}");
    }
    error
}

/// An error whose advice lists the settings of the experiment that is asked for, or that a base is of, where that is not
/// the one that is trained without a word.
fn listed(mut error: CliError, request: &TrainRequest, context: &Context) -> CliError {
    let of_base = |node| recorded_experiment(&ObjectReader::open_live(&request.root).ok()?, node);
    let experiment = request.experiment.clone().or_else(|| match &request.base {
        Base::None => None,
        Base::Branch(node) | Base::Resume(node) => of_base(node),
    });
    if let (Some(next), Some(experiment)) = (&error.next, experiment)
        && context.experiments.names().first().is_some_and(|first| *first != experiment)
    {
        let option = with_value("--experiment", &experiment);
        let list = format!("waycairn train --show-settings {option}");
        error.next = Some(next.replace("waycairn train --show-settings", &list).into());
    }
    error
}

/// The command that goes on: the same one, with its node written so that it means the same later, and without
/// `--fresh`, which would begin once more.
fn again(args: &TrainArgs, request: &TrainRequest, report: &TrainReport, command_line: &[String]) -> String {
    let pinned = match &request.base {
        Base::None => None,
        Base::Branch(node) => Some(("--branch", node)),
        // The run went on from the node of the command: the last one has a newer checkpoint.
        Base::Resume(_) => Some(("--resume", &report.node)),
    };
    let mut words = Vec::new();
    let mut given = command_line.iter();
    while let Some(word) = given.next() {
        let own = pinned.filter(|(option, _)| {
            word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        });
        match own {
            Some((option, node)) => {
                if word == option {
                    given.next();
                }
                words.push(with_value(option, &node.to_string()));
            }
            None if args.fresh && word == "--fresh" => {}
            None => words.push(quoted(word)),
        }
    }
    words.join(" ")
}

/// Refuses a branch that the same command could not find again: its NODE would mean another node by then.
fn check_branch(args: &TrainArgs, text: &str, node: &Node) -> Result<(), CliError> {
    let shown = node.to_string();
    if text == shown || text == node.address().as_str() {
        return Ok(());
    }
    let option = with_value("--branch", &shown);
    let text = printable(text);
    if text == "latest" && node.name() != "latest" {
        return Err(CliError::usage(
            "`--branch latest` means another node as soon as the branch has written",
        )
        .why("the same command could not find the branch again")
        .next(format!("write `{}`", printable(&option))));
    }
    if args.name.as_deref().is_some_and(|name| name != node.name()) {
        return Ok(());
    }
    Err(CliError::usage(format!("`--branch {text}` would give the new run the name of its base"))
        .why("the same command could not find the branch again, because its node would be taken for the base")
        .next(format!("add `--name NEW`, or write the node as `{}`", printable(&option))))
}

/// An option with its value. A value that begins with a hyphen would be taken for an option of its own.
fn with_value(option: &str, value: &str) -> String {
    let between = if value.starts_with('-') { '=' } else { ' ' };
    format!("{option}{between}{}", quoted(value))
}

/// A word as a shell reads it back.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=,+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A node as an argument: by its run's name where a name like that can mean nothing else.
fn positional(node: &Node) -> String {
    let name = node.name();
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) && name != "latest";
    let text = if plain { name.to_owned() } else { node.to_string() };
    format!("{}{}", if text.starts_with('-') { "-- " } else { "" }, quoted(&text))
}

/// The command that trains a finished run further: a branch, since a run keeps the settings that it began with.
fn further(report: &TrainReport, root: &str) -> String {
    let (Some(base), Some(length)) = (&report.checkpoint, &report.length) else { return String::new() };
    let branch = with_value("--branch", &base.to_string());
    let name = with_value("--name", &format!("{}-2", base.name()));
    let longer = length.argument(length.value.saturating_mul(2));
    format!("  waycairn train{root} {branch} {name} {longer}    trains it further, in a branch\n")
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
        ("skipped".into(), Value::Count(report.skipped)),
        ("unrecorded".into(), Value::Count(report.unrecorded)),
    ])
}

/// What became of the run, and what may come next.
fn text(report: &TrainReport, seen: &Seen, again: &str, root: &str) -> String {
    let node = printable(&report.node.to_string());
    let steps = plural(report.steps, "step");
    let mut losses = String::new();
    for (name, loss) in [("loss", seen.loss), ("validation loss", seen.validation)] {
        if let Some((step, loss)) = loss {
            // A number that is not of the last step is not said as if it were.
            let at = if step == report.steps { String::new() } else { format!(" at step {step}") };
            losses.push_str(&format!(", {name} {}{at}", number::float(loss)));
        }
    }
    if report.skipped > 0 {
        losses.push_str(&format!(", {} skipped as not finite", plural(report.skipped, "step")));
    }
    if report.unrecorded > 0 {
        losses.push_str(&format!(", {} not kept", plural(report.unrecorded, "record")));
    }
    let name = positional(&report.node);
    match report.status {
        Status::Finished => {
            let sample = if report.samples {
                format!("  waycairn sample{root} {name}    let the model write\n")
            } else {
                String::new()
            };
            format!(
                "finished {node} after {steps}{losses}\n  \
                 waycairn show{root} {name}      what is known of its last node\n{sample}"
            )
        }
        Status::Skipped => {
            let too = report
                .length
                .as_ref()
                .map_or_else(String::new, |length| format!(", {} too,", length.option()));
            format!(
                "nothing to do: {node} is the last of {steps}, and the run is finished\n{}  \
                 --fresh trains it once more from its beginning; other settings{too} begin a new run\n",
                further(report, root)
            )
        }
        Status::Stopped => {
            format!(
                "stopped in good order at {node} after {steps}{losses}; to go on, run again:\n  {again}\n"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use waycairn_train::Length;

    use super::*;

    fn report(status: Status) -> TrainReport {
        let node = Node::new("it's", "0123456789abcdef", 19).unwrap();
        TrainReport {
            node: node.clone(),
            selected: node.clone(),
            samples: true,
            length: Some(Length { setting: "steps", value: 20, steps: 20 }),
            status,
            steps: 20,
            resumed_from: None,
            checkpoint: Some(node),
            updates: 20,
            ticks: 19,
            skipped: 0,
            unrecorded: 0,
        }
    }

    #[test]
    fn cli_1_the_last_line_of_train() {
        let line = serde_json::to_string(&json(&report(Status::Stopped))).unwrap();
        let node = report(Status::Stopped).node.address();
        assert_eq!(
            line,
            format!(
                r#"{{"node":"{node}","status":"stopped","steps":20,"resumed_from":null,"checkpoint":"{node}","skipped":0,"unrecorded":0}}"#
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

    fn parsed(words: &[&str]) -> (TrainArgs, Vec<String>) {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            train: TrainArgs,
        }
        let line: Line = clap::Parser::parse_from(words);
        (line.train, words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn the_command_to_go_on_keeps_its_words_and_pins_its_node() {
        let report = report(Status::Stopped);
        let base = Node::new("-b", "00000000000000aa", 7).unwrap();
        let line = |base: Base, words: &[&str]| {
            let (args, words) = parsed(words);
            again(&args, &TrainRequest { base, ..TrainRequest::new("r") }, &report, &words)
        };
        let set = "learning_rate=1";
        assert_eq!(
            line(
                Base::Branch(base.clone()),
                &["w", "--branch=-b", "--name=-x", "--steps", "9", "--set", set]
            ),
            "w --branch=-b@00000000000000aa:7 --name=-x --steps 9 --set learning_rate=1"
        );
        assert_eq!(
            line(Base::Resume(base.clone()), &["w", "--resume", "latest", "--max-time", "2h"]),
            r"w --resume 'it'\''s@0123456789abcdef:19' --max-time 2h"
        );
        assert_eq!(line(Base::None, &["w", "--fresh", "--set", set]), "w --set learning_rate=1");
        assert_eq!(positional(&base), "-- -b");
        assert_eq!(positional(&report.node), r"'it'\''s@0123456789abcdef:19'");
    }

    #[test]
    fn a_branch_that_the_same_command_cannot_find_again_is_refused() {
        let node = Node::new("base", "0123456789abcdef", 19).unwrap();
        let check = |text: &str, name: &[&str]| {
            let (args, _) = parsed(&[&["w"], name].concat());
            check_branch(&args, text, &node)
        };
        let address = node.address().to_string();
        for text in ["base@0123456789abcdef:19", address.as_str()] {
            assert!(check(text, &[]).is_ok(), "{text}");
        }
        for text in ["base", "base:19", &address[..12]] {
            assert!(check(text, &["--name", "new"]).is_ok(), "{text}");
            for name in [&[][..], &["--name", "base"]] {
                let error = check(text, name).unwrap_err();
                assert_eq!(error.exit, Exit::Usage);
                let next = error.next.unwrap();
                assert!(next.contains("--name NEW") && next.contains("--branch base@0123456789abcdef:19"));
            }
        }
        assert!(check("latest", &["--name", "new"]).is_err());
    }

    #[test]
    fn the_text_says_what_to_do_next() {
        let seen = Seen { loss: Some((20, 2.5)), validation: None };
        let earlier = Seen { validation: Some((10, 3.5)), ..seen };
        assert!(text(&report(Status::Finished), &earlier, "", "").starts_with(
            "finished it's@0123456789abcdef:19 after 20 steps, loss 2.5, validation loss 3.5 at step 10\n"
        ));
        assert!(
            text(&report(Status::Finished), &seen, "", "")
                .starts_with("finished it's@0123456789abcdef:19 after 20 steps, loss 2.5\n")
        );
        assert!(
            text(&report(Status::Stopped), &seen, "waycairn train x", "")
                .ends_with("run again:\n  waycairn train x\n")
        );
        let further = "  waycairn train --root r --branch 'it'\\''s@0123456789abcdef:19' --name 'it'\\''s-2' --steps 40    ";
        let skipped = text(&report(Status::Skipped), &seen, "", " --root r");
        assert!(skipped.contains("--fresh") && skipped.contains(further), "{skipped}");
        assert!(skipped.contains("other settings, --steps too, begin a new run"), "{skipped}");
        let length = Length { setting: "training.epochs", value: 3, steps: 20 };
        let rows = TrainReport { length: Some(length), ..report(Status::Skipped) };
        let skipped = text(&rows, &seen, "", "");
        assert!(skipped.contains(" --name 'it'\\''s-2' --set training.epochs=6    "), "{skipped}");
        assert!(!skipped.contains("--steps"), "{skipped}");
        let without = TrainReport { checkpoint: None, ..report(Status::Skipped) };
        assert!(!text(&without, &seen, "", "").contains("--branch"));
        let some = TrainReport { skipped: 3, unrecorded: 1, ..report(Status::Finished) };
        assert!(text(&some, &seen, "", "").contains("3 steps skipped as not finite, 1 record not kept"));
    }
}
