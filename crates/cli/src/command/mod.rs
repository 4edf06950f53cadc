//! The commands, one file each.

mod analyze;
mod artifact;
mod compact;
mod compare;
mod completions;
mod du;
mod export;
mod fsck;
mod gc;
mod history;
mod init;
mod launch;
mod lineage;
mod nodes;
mod pin;
mod plan;
mod plugins;
mod query;
mod record;
mod recover;
mod restore;
mod rm;
mod run;
mod sample;
mod settings;
mod show;
mod sql;
mod study;
mod tail;
mod train;
mod verify;
pub(crate) mod version;
mod why;

use clap::Subcommand;

pub(crate) use train::quoted;

use crate::context::Context;
use crate::error::{CliError, Exit};

/// What waycairn can be told to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Train(train::TrainArgs),
    Plan(plan::PlanArgs),
    Nodes(nodes::NodesArgs),
    Tail(tail::TailArgs),
    Show(show::ShowArgs),
    Query(query::QueryArgs),
    Sql(sql::SqlArgs),
    Lineage(lineage::LineageArgs),
    Analyze(analyze::AnalyzeArgs),
    Artifact(artifact::ArtifactArgs),
    Sample(sample::SampleArgs),
    Export(export::ExportArgs),
    Run(run::RunArgs),
    Init(init::InitArgs),
    Compare(compare::CompareArgs),
    Restore(restore::RestoreArgs),
    Launch(launch::LaunchArgs),
    Why(why::WhyArgs),
    Verify(verify::VerifyArgs),
    History(history::HistoryArgs),
    Pin(pin::PinArgs),
    Gc(gc::GcArgs),
    Record(record::RecordArgs),
    Recover(recover::RecoverArgs),
    Compact(compact::CompactArgs),
    Fsck(fsck::FsckArgs),
    Du(du::DuArgs),
    Rm(rm::RmArgs),
    Plugins(plugins::PluginsArgs),
    Completions(completions::CompletionsArgs),
}

impl Command {
    /// Does it.
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CliError> {
        let reads = self.reads_records();
        if context.global.skip_damaged && !reads {
            return Err(CliError::usage("`--skip-damaged` is for commands that only read records")
                .why("what another command writes would rest on records that are not all there")
                .next("use it with nodes, tail, show, query, sql, lineage or artifact"));
        }
        let done = self.run_with(context).map_err(|error| context.explain_missing(error));
        if reads { done.map_err(CliError::offer_skipping) } else { done }
    }

    /// Whether an answer without the damaged parts is of use.
    fn reads_records(&self) -> bool {
        matches!(
            self,
            Self::Nodes(_)
                | Self::Tail(_)
                | Self::Show(_)
                | Self::Query(_)
                | Self::Sql(_)
                | Self::Lineage(_)
                | Self::Artifact(_)
        )
    }

    fn run_with(self, context: &Context) -> Result<Exit, CliError> {
        match self {
            Self::Train(args) => train::run(args, context),
            Self::Tail(args) => tail::run(&args, context).map(|()| Exit::Done),
            Self::Record(args) => record::run(&args, context),
            Self::Fsck(args) => fsck::run(&args, context),
            Self::Compact(args) => compact::run(&args, context).map(|()| Exit::Done),
            Self::Recover(args) => recover::run(&args, context).map(|()| Exit::Done),
            Self::Nodes(args) => nodes::run(&args, context).map(|()| Exit::Done),
            Self::Show(args) => show::run(&args, context).map(|()| Exit::Done),
            Self::Query(args) => query::run(&args, context).map(|()| Exit::Done),
            Self::Sql(args) => sql::run(&args, context).map(|()| Exit::Done),
            Self::Lineage(args) => lineage::run(&args, context).map(|()| Exit::Done),
            Self::Analyze(args) => analyze::run(args, context),
            Self::Artifact(args) => artifact::run(&args, context).map(|()| Exit::Done),
            Self::Sample(args) => sample::run(args, context).map(|()| Exit::Done),
            Self::Export(args) => export::run(&args, context).map(|()| Exit::Done),
            Self::Plan(args) => plan::run(&args, context).map(|()| Exit::Done),
            Self::Run(args) => run::run(&args, context),
            Self::Init(args) => init::run(&args, context).map(|()| Exit::Done),
            Self::Compare(args) => compare::run(&args, context).map(|()| Exit::Done),
            Self::Restore(args) => restore::run(&args, context).map(|()| Exit::Done),
            Self::Launch(args) => launch::run(&args, context),
            Self::Why(args) => why::run(&args, context).map(|()| Exit::Done),
            Self::Verify(args) => verify::run(&args, context),
            Self::History(args) => history::run(&args, context).map(|()| Exit::Done),
            Self::Pin(args) => pin::run(&args, context).map(|()| Exit::Done),
            Self::Gc(args) => gc::run(&args, context).map(|()| Exit::Done),
            Self::Du(args) => du::run(&args, context).map(|()| Exit::Done),
            Self::Rm(args) => rm::run(&args, context).map(|()| Exit::Done),
            Self::Plugins(args) => plugins::run(&args, context).map(|()| Exit::Done),
            Self::Completions(args) => completions::run(&args).map(|()| Exit::Done),
        }
    }
}
