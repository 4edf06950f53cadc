//! `waycairn analyze`: analyses of nodes that were recorded before.

use std::borrow::Cow;

use clap::Args;
use waycairn_analysis_host::{ForeignAnalysis, Found, SelectError, all, discover, named, select};
use waycairn_dag::Node;
use waycairn_store::{Expr, ObjectReader, Order, RunSummary, Scalar, SortKey};
use waycairn_train::{AnalyzeOutcome, AnalyzeRequest, AnalyzeStatus, analyze};

use crate::args::NODE_HELP;
use crate::command::plugins::{PluginPlaces, nothing_found};
use crate::command::study::{self, Stage, StudyPlace, Workers};
use crate::command::train::assignment;
use crate::context::Context;
use crate::count;
use crate::error::{CliError, Exit, one_line};
use crate::failure;
use crate::number::plural;
use crate::output::{Format, RowOutput, Shape};
use crate::rows::{self, Columns};
use crate::table::{Grid, printable};
use crate::value::Value;

/// Run analyses on recorded nodes and attach what they find to exactly those nodes
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  waycairn analyze --plugin target/release/libwaycairn_summary.so --at shakespeare:999
  waycairn analyze --plugin target/release/libwaycairn_summary.so --where 'val/loss < 2.8' --run shakespeare
  waycairn analyze --plugin target/release/libwaycairn_summary.so --every 500 --run shakespeare --force
  waycairn analyze --profile small
  waycairn analyze gpt.baseline.r0 --profile small

Without --plugin, --plugin-dir, --at, --where, --every and --latest it is a study that is analyzed: the metrics and plots
of settings_analysis.toml, for every run of settings_training.toml, or for the RUNs that are named; they have to be
trained. A RUN is its folder below runs/, the name of its nodes, or its node.

Nothing is trained and no clock moves. What the same analysis has attached with the same settings before is
skipped. Analyses are looked for as `waycairn plugins` does. With --plugin or --plugin-dir, all analyses found
there are run, and --analysis picks one of any place. Two libraries that differ and have an analysis of one name
are an error.

{NODE_HELP}"))]
pub(crate) struct AnalyzeArgs {
    /// The runs of the study [default: all]
    #[arg(value_name = "RUN")]
    pub(super) runs: Vec<String>,
    #[command(flatten)]
    pub(super) places: PluginPlaces,
    /// Run this analysis of all that are found; NAME or FILE#NAME [default: all of the plugins that are named here,
    /// else all that are found]
    #[arg(long, value_name = "NAME")]
    pub(super) analysis: Option<String>,
    #[command(flatten)]
    pub(super) which: Which,
    /// The run that --every and --latest mean [default: the newest], and the only one that --where looks in
    /// [default: all]
    #[arg(long, value_name = "NAME", help_heading = "Which nodes")]
    pub(super) run: Option<String>,
    /// Set one setting of the analysis; may be repeated
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = assignment)]
    pub(super) sets: Vec<(String, String)>,
    /// Mark every record of this launch with a word of yours
    #[arg(long, value_name = "TAG")]
    pub(super) tag: Option<String>,
    /// Run again what was attached before
    #[arg(long)]
    pub(super) force: bool,
    /// Device to compute on: cpu or auto [default: auto]
    #[arg(long, value_name = "DEVICE")]
    pub(super) device: Option<String>,
    #[command(flatten)]
    pub(super) study: StudyPlace,
    #[command(flatten)]
    pub(super) workers: Workers,
    #[command(flatten)]
    pub(super) output: RowOutput,
}

impl AnalyzeArgs {
    /// Whether nodes are meant, and not a study.
    fn is_of_nodes(&self) -> bool {
        self.which.is_given() || !self.places.is_empty() || self.analysis.is_some()
    }
}

/// Which nodes are analyzed: one way of saying it, and only one.
#[derive(Debug, Args)]
#[group(required = false, multiple = false)]
pub(crate) struct Which {
    /// Analyze this node; may be repeated
    #[arg(long, value_name = "NODE", help_heading = "Which nodes")]
    at: Vec<String>,
    /// Analyze the checkpointed nodes that satisfy an expression of `waycairn query`
    #[arg(long = "where", value_name = "EXPR", allow_hyphen_values = true, help_heading = "Which nodes")]
    filter: Option<String>,
    /// Analyze the checkpoints after every K-th step of a run; a branch counts the steps of its base too, as
    /// `train/step` does
    #[arg(long, value_name = "K", value_parser = count::positive::<u64>, allow_negative_numbers = true, help_heading = "Which nodes")]
    every: Option<u64>,
    /// Analyze the last checkpoint of a run
    #[arg(long, help_heading = "Which nodes")]
    latest: bool,
}

impl Which {
    fn is_given(&self) -> bool {
        !self.at.is_empty() || self.filter.is_some() || self.every.is_some() || self.latest
    }
}

/// The field that counts the optimizer steps of a run, those of its base included.
const STEP: &str = "train/step";

/// The stable shape of a row.
const FIXED: &[&str] = &["node", "analysis", "status", "artifacts", "scalars", "files", "error"];

pub(crate) fn run(args: AnalyzeArgs, context: &Context) -> Result<Exit, CliError> {
    if !args.is_of_nodes() {
        let format = match args.output.format() {
            Format::Json | Format::Jsonl => Shape::Json,
            _ => Shape::Table,
        };
        let of_nodes = [
            ("--run", args.run.is_some()),
            ("--set", !args.sets.is_empty()),
            ("--tag", args.tag.is_some()),
            ("--force", args.force),
            ("--device", args.device.is_some()),
        ];
        if let Some((option, _)) = of_nodes.iter().find(|(_, given)| *given) {
            return Err(CliError::usage(format!("`{option}` is for nodes, and nothing says which"))
                .why("without --plugin, --at, --where, --every and --latest a study is analyzed")
                .next("add `--at NODE`, `--where EXPR`, `--every K` or `--latest`"));
        }
        return study::launch(
            &args.study,
            &args.workers,
            Stage::Analyze,
            &args.runs,
            &args.places,
            format,
            context,
        );
    }
    if let Some(run) = args.runs.first() {
        return Err(CliError::usage(format!("`{run}` is a run of a study, and nodes are asked for"))
            .next(format!("name a node with `--at {run}`, or leave the other options out")));
    }
    if !args.which.is_given() {
        return Err(CliError::usage("nothing says which nodes to analyze")
            .next("add `--at NODE`, `--where EXPR`, `--every K` or `--latest`"));
    }
    let reader = context.reader()?;
    let analyses = analyses(&args, context)?;
    let at = nodes(&args, context, &reader)?;
    let mut request = AnalyzeRequest {
        root: reader.root().to_owned(),
        analyses,
        at,
        sets: args.sets.clone(),
        force: args.force,
        device: args.device.clone().unwrap_or_else(|| "auto".to_owned()),
        tag: args.tag.clone(),
    };
    let mut out = args.output.open(&context.terminal)?;
    let outcomes = loop {
        match analyze(&context.experiments, &request) {
            // What was picked was withdrawn before it was held, and nothing was run: a newer checkpoint replaced it.
            Err(error) if args.which.at.is_empty() && error.is_no_checkpoint() => {
                let at = nodes(&args, context, &reader)?;
                if at == request.at {
                    return Err(failure::train(error));
                }
                request.at = at;
            }
            ended => break ended.map_err(failure::train)?,
        }
    };
    let failed = outcomes.iter().filter(|outcome| outcome.status == AnalyzeStatus::Failed).count();
    match args.output.format() {
        Format::Table => {
            let mut grid = Grid::new(["node", "analysis", "status", "attached"]);
            for outcome in &outcomes {
                let node = Value::Text(outcome.node.to_string());
                let analysis = Value::from(outcome.analysis.as_str());
                grid.push([
                    node,
                    analysis,
                    Value::from(outcome.status.as_str()),
                    Value::text(attached(outcome)),
                ]);
            }
            context.table(&grid, "no node was analyzed", &mut out)?;
        }
        format => rows::write(&mut out, format, &Columns::fixed(FIXED), outcomes.iter().map(row))?,
    }
    out.finish()?;
    if failed == 0 {
        return Ok(Exit::Done);
    }
    Err(failure_of(&outcomes, failed))
}

/// What one analysis attached to one node, in words.
fn attached(outcome: &AnalyzeOutcome) -> Option<String> {
    let mut parts = Vec::new();
    if !outcome.artifacts.is_empty() {
        let names = outcome.artifacts.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        parts.push(format!("artifact {names}"));
    }
    if !outcome.scalars.is_empty() {
        parts.push(plural(outcome.scalars.len() as u64, "scalar"));
    }
    if !outcome.files.is_empty() {
        parts.push(format!("file {}", outcome.files.join(", ")));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The stable shape of an outcome.
fn row(outcome: &AnalyzeOutcome) -> Vec<Value> {
    let scalars = outcome.scalars.iter().map(|(key, value)| (Cow::Owned(key.clone()), Value::from(value)));
    vec![
        Value::Text(outcome.node.address().to_string()),
        Value::from(outcome.analysis.as_str()),
        Value::from(outcome.status.as_str()),
        Value::list(outcome.artifacts.iter().map(String::as_str)),
        Value::Object(scalars.collect()),
        Value::list(outcome.files.iter().map(String::as_str)),
        Value::text(outcome.error.as_deref()),
    ]
}

/// The error that the command ends with where some analyses failed: the first of them in full.
fn failure_of(outcomes: &[AnalyzeOutcome], failed: usize) -> CliError {
    let first = outcomes.iter().find(|outcome| outcome.status == AnalyzeStatus::Failed);
    let why = first.and_then(|outcome| outcome.error.as_deref()).unwrap_or("it does not say why");
    let which =
        first.map_or_else(String::new, |outcome| format!(" `{}` at {}:", outcome.analysis, outcome.node));
    let what = match failed {
        1 => "an analysis failed".to_owned(),
        failed => format!("{failed} analyses failed"),
    };
    CliError::new("analysis", what)
        .why(format!("{} {}", which.trim_start(), one_line(why)))
        .next("nothing of it is attached; run the command again when the cause is gone, what is attached is skipped")
}

/// The analyses that are to be run.
fn analyses(args: &AnalyzeArgs, context: &Context) -> Result<Vec<ForeignAnalysis>, CliError> {
    let discovery = args.places.discovery(context);
    let found = discover(&discovery);
    for Found { path, result, .. } in &found {
        // What of a library cannot be used was said when it was loaded.
        let Err(refused) = result else { continue };
        if args.places.files.contains(path) || args.places.folders.contains(path) {
            return Err(failure::plugin(refused));
        }
        context.note(&format!("a plugin is left out: {}", one_line(&refused.to_string())));
    }
    // A plugin that the user names is meant whole; one that lies in a place is run when none is named.
    let names_places = !args.places.files.is_empty() || !args.places.folders.is_empty();
    let chosen = match &args.analysis {
        Some(name) => select(&found, name).map(|one| vec![one]),
        None if names_places => named(&found),
        None => all(&found),
    };
    match chosen {
        Ok(chosen)
            if args.analysis.is_none()
                && chosen.iter().any(|one| !one.declaration().needs.only_in_a_study())
                && chosen.iter().any(|one| one.declaration().needs.only_in_a_study()) =>
        {
            // They were not asked for, and have no answer here.
            let (left, chosen): (Vec<_>, Vec<_>) =
                chosen.into_iter().partition(|one| one.declaration().needs.only_in_a_study());
            for one in left {
                context.note(&format!("`{}` is left out: it belongs to a study", one.declaration().name));
            }
            Ok(chosen.into_iter().cloned().collect())
        }
        Ok(chosen) if chosen.is_empty() => {
            Err(nothing_found("there is no analysis to run", &discovery, context))
        }
        Ok(chosen) => Ok(chosen.into_iter().cloned().collect()),
        Err(SelectError::Unknown { selector, known, .. }) if known.is_empty() => {
            let what = format!("there is no analysis `{}`", printable(&selector));
            Err(nothing_found(&what, &discovery, context))
        }
        Err(error) => Err(failure::select(error)),
    }
}

/// The nodes that are to be analyzed.
fn nodes(args: &AnalyzeArgs, context: &Context, reader: &ObjectReader) -> Result<Vec<Node>, CliError> {
    let which = &args.which;
    let mut nodes = Vec::new();
    for text in &which.at {
        let node = context.resolve(reader, text)?;
        if !nodes.contains(&node) {
            nodes.push(node);
        }
    }
    if let Some(text) = &which.filter {
        let mut query = reader.query();
        query.expression(Expr::parse(text).map_err(failure::parse)?).checkpoint();
        if let Some(name) = &args.run {
            query.name(name);
        }
        let answer = query.all().map_err(failure::query)?;
        context.diagnostics(&answer.diagnostics);
        nodes = answer.value;
    }
    if which.every.is_some() || which.latest {
        let runs = reader.runs().map_err(failure::query)?;
        let run = runs.iter().find(|run| args.run.as_ref().is_none_or(|name| run.name == *name));
        let Some(run) = run else {
            let name = args.run.as_deref().unwrap_or("latest");
            return Err(failure::unknown(name, reader.root()));
        };
        let mut seqs = run.checkpoints.clone();
        if let Some(every) = which.every {
            let ahead = ahead(reader, run)?;
            // A step that is below zero stands in no run of ours.
            seqs.retain(|seq| {
                let step = i128::from(*seq) + ahead;
                step > 0 && step % i128::from(every) == 0
            });
        }
        let seqs = if which.latest { &seqs[seqs.len().saturating_sub(1)..] } else { &seqs[..] };
        nodes = seqs.iter().filter_map(|seq| run.last.at(*seq).ok()).collect();
    }
    if nodes.is_empty() {
        return Err(CliError::new("not_found", "no node to analyze")
            .why("no node with a checkpoint is what was asked for")
            .next("see the checkpoints with `waycairn nodes`"));
    }
    Ok(nodes)
}

/// By how much a run's steps are ahead of its seqs: 1 where it began with the first step. One difference holds for a
/// whole run, so any node that tells its step will do, and not every checkpoint does.
fn ahead(reader: &ObjectReader, run: &RunSummary) -> Result<i128, CliError> {
    let mut query = reader.query();
    query.name(&run.name).nonce(&run.nonce).has(STEP).sort(SortKey::Seq, Order::Ascending).limit(1);
    let answer = query.select(&[STEP]).map_err(failure::query)?;
    let told = answer.value.first().and_then(|row| match row.fields.get(STEP) {
        Some(Scalar::Int(step)) => Some(i128::from(*step) - i128::from(row.node.seq())),
        _ => None,
    });
    Ok(told.unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use waycairn_store::{Marker, ObjectStore, StoreOptions};

    use super::*;
    use crate::args::{Cli, Global};
    use crate::command::Command;
    use crate::environment::Environment;
    use crate::rows::tests::written;
    use crate::terminal::Terminal;

    fn outcome(status: AnalyzeStatus, error: Option<&str>) -> AnalyzeOutcome {
        AnalyzeOutcome {
            node: Node::new("tiny", "0123456789abcdef", 19).unwrap(),
            analysis: "summary".to_owned(),
            status,
            artifacts: vec!["summary".to_owned()],
            scalars: vec![("summary/norm".to_owned(), Scalar::Float(2.5))],
            files: Vec::new(),
            error: error.map(str::to_owned),
        }
    }

    #[test]
    fn cli_1_a_row_of_analyze() {
        let rows = vec![row(&outcome(AnalyzeStatus::Attached, None))];
        assert_eq!(
            written(&Columns::fixed(FIXED), rows, rows::json),
            "[\n{\"node\":\"dGlueTowMTIzNDU2Nzg5YWJjZGVmOjE5\",\"analysis\":\"summary\",\"status\":\"attached\",\
             \"artifacts\":[\"summary\"],\"scalars\":{\"summary/norm\":2.5},\"files\":[],\"error\":null}\n]\n"
        );
    }

    #[test]
    fn a_failed_analysis_is_named_with_its_node() {
        let outcomes =
            [outcome(AnalyzeStatus::Attached, None), outcome(AnalyzeStatus::Failed, Some("it panicked"))];
        let error = failure_of(&outcomes, 1);
        assert_eq!(error.what, "an analysis failed");
        assert_eq!(error.why.as_deref(), Some("`summary` at tiny@0123456789abcdef:19: it panicked"));
    }

    /// Two runs: `old` with checkpoints after steps 2, 4, 6 and 8, then `new` with those after 3, 6 and 7, and a
    /// validation loss at each node that is the smaller the later.
    fn recorded() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
        for (name, steps, saved) in [("old", 8_u64, &[2_u64, 4, 6, 8][..]), ("new", 8, &[3, 6, 7])] {
            for step in 1..=steps {
                let node = Node::new(name, "0123456789abcdef", step - 1).unwrap();
                store.value(&node, &[("val/loss", (10 - step as i64).into())]).unwrap();
                if saved.contains(&step) {
                    store.stage_folder(&node, "checkpoint").unwrap().commit(Marker::Checkpoint, &[]).unwrap();
                }
            }
            store.flush().unwrap();
        }
        store.close().unwrap();
        root
    }

    #[test]
    fn every_counts_the_steps_of_the_base_too() {
        let root = tempfile::tempdir().unwrap();
        let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
        for seq in 0..10_u64 {
            let node = Node::new("branch", "0123456789abcdef", seq).unwrap();
            // Seq 0 is step 18. Few nodes tell their step, and none of these has a checkpoint.
            let fields: &[(&str, Scalar)] = if seq == 4 { &[(STEP, 22.into())] } else { &[] };
            store.value(&node, fields).unwrap();
            if seq % 2 == 0 && seq != 4 {
                store.stage_folder(&node, "checkpoint").unwrap().commit(Marker::Checkpoint, &[]).unwrap();
            }
        }
        store.close().unwrap();
        assert_eq!(picked(root.path(), &["--every", "10"]).unwrap(), ["branch:2"]);
        assert_eq!(picked(root.path(), &["--every", "6"]).unwrap(), ["branch:0", "branch:6"]);
    }

    /// The nodes that these words pick, as `name:seq`.
    fn picked(root: &std::path::Path, words: &[&str]) -> Result<Vec<String>, CliError> {
        let line = ["waycairn", "analyze"].iter().chain(words);
        let Some(Command::Analyze(args)) = Cli::try_parse_from(line).unwrap().command else {
            panic!("{words:?}");
        };
        let global = Global { root: Some(root.to_owned()), skip_damaged: false, verbose: 0 };
        let context = Context {
            terminal: Terminal::plain(),
            environment: Environment::default(),
            global,
            here: root.to_owned(),
            experiments: waycairn_train::experiments![waycairn_train::Gpt],
            command_line: Vec::new(),
            stop: None,
        };
        let reader = context.reader().unwrap();
        let nodes = nodes(&args, &context, &reader)?;
        Ok(nodes.iter().map(|node| format!("{}:{}", node.name(), node.seq())).collect())
    }

    #[test]
    fn each_way_of_saying_it_picks_its_nodes() {
        let root = recorded();
        for (words, expected) in [
            // Step s stands at seq s - 1.
            (&["--every", "2", "--run", "old"][..], &["old:1", "old:3", "old:5", "old:7"][..]),
            (&["--every", "4", "--run", "old"], &["old:3", "old:7"]),
            (&["--every", "1", "--run", "new"], &["new:2", "new:5", "new:6"]),
            // The newest run, where none is named.
            (&["--every", "3"], &["new:2", "new:5"]),
            (&["--latest"], &["new:6"]),
            (&["--latest", "--run", "old"], &["old:7"]),
            // Nodes without a checkpoint satisfy it too, and are left out.
            (&["--where", "val/loss < 6"], &["new:5", "new:6", "old:5", "old:7"]),
            (&["--where", "val/loss < 6", "--run", "old"], &["old:5", "old:7"]),
            (&["--where", "seq >= 0", "--run", "new"], &["new:2", "new:5", "new:6"]),
            // A node that is named is taken as it is, once.
            (&["--at", "old:3", "--at", "new", "--at", "old:3"], &["old:3", "new:7"]),
        ] {
            assert_eq!(picked(root.path(), words).unwrap(), expected, "{words:?}");
        }
    }

    #[test]
    fn what_picks_no_node_says_so() {
        let root = recorded();
        for (words, what) in [
            (&["--every", "9", "--run", "old"][..], "no node to analyze"),
            (&["--where", "val/loss > 100"], "no node to analyze"),
            (&["--where", "seq = 0"], "no node to analyze"),
            (&["--every", "1", "--run", "nobody"], "no node `nobody`"),
            (&["--latest", "--run", "nobody"], "no node `nobody`"),
            (&["--at", "nobody"], "no node `nobody`"),
        ] {
            let error = picked(root.path(), words).unwrap_err();
            assert!(error.what.starts_with(what), "{words:?}: {}", error.what);
            assert_eq!((error.code, error.exit), ("not_found", Exit::Failed), "{words:?}");
        }
        for two in [["--every", "1", "--latest"], ["--latest", "--at", "old"]] {
            assert!(Cli::try_parse_from(["waycairn", "analyze"].iter().chain(&two)).is_err(), "{two:?}");
        }
    }
}
