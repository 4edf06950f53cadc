//! What every command is given.

use std::io::Write;
use std::path::PathBuf;

use waycairn_dag::Node;
use waycairn_store::{Diagnostic, ObjectReader};
use waycairn_train::{Experiments, Stop};

use crate::args::Global;
use crate::command::quoted;
use crate::environment::Environment;
use crate::error::CliError;
use crate::failure;
use crate::number::plural;
use crate::output::Destination;
use crate::progress;
use crate::root::{self, Root};
use crate::table::{Grid, printable, shortened};
use crate::terminal::Terminal;

/// The surroundings of one command.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) terminal: Terminal,
    pub(crate) environment: Environment,
    pub(crate) global: Global,
    /// The folder that the command was started in.
    pub(crate) here: PathBuf,
    /// What can be trained.
    pub(crate) experiments: Experiments,
    /// The command line as it was given, for the record of a run.
    pub(crate) command_line: Vec<String>,
    /// The request to stop, where it is listened for since the first moment.
    pub(crate) stop: Option<Stop>,
}

impl Context {
    /// The request to stop, listened for from now on at the latest: words before the command hide it until they are
    /// understood.
    pub(crate) fn listen(&self) -> Result<Stop, CliError> {
        match &self.stop {
            Some(stop) => Ok(stop.clone()),
            None => progress::listen(self.environment.launched).map_err(CliError::system),
        }
    }

    /// The root that a command reads, or attaches to.
    pub(crate) fn root_to_read(&self) -> Root {
        root::for_reader(self.named_root(), &self.here)
    }

    /// The root that a command writes new runs to.
    pub(crate) fn root_to_write(&self) -> Root {
        root::for_writer(self.named_root())
    }

    /// Says, before a new root is made in this folder, that readers found another one so far.
    pub(crate) fn note_other_root(&self) {
        if let Some(other) = root::passed_over(self.named_root(), &self.here) {
            let new = self.root_to_write().path;
            self.note(&format!(
                "`{}` in this folder is a new output root; there is one at `{path}`, which `--root {path}` would use",
                new.display(),
                path = printable(&other.to_string_lossy()),
            ));
        }
    }

    pub(crate) fn named_root(&self) -> Option<&std::path::Path> {
        self.global.root.as_deref().or(self.environment.root.as_deref())
    }

    /// Opens the root for reading. Where there is none the answers will be empty.
    pub(crate) fn reader(&self) -> Result<ObjectReader, CliError> {
        let root = self.root_that_is_read();
        // As all that is asked of a running run has to agree.
        let reader = ObjectReader::open_live(&root).map_err(failure::query)?;
        Ok(if self.global.skip_damaged { reader.skipping_damaged() } else { reader })
    }

    /// The root to look after. One that was named and is not there is a mistake in the name.
    pub(crate) fn root_to_mend(&self) -> Result<PathBuf, CliError> {
        if let Some(named) = self.named_root().filter(|named| !named.exists()) {
            return Err(CliError::new("not_found", format!("there is no folder `{}`", named.display()))
                .why("it was named as the output root, and what is not there needs no care")
                .next("check the name that `--root` or `WAYCAIRN_ROOT` gives"));
        }
        Ok(self.root_that_is_read())
    }

    /// The root that a command reads. Where there is none a note says where it was looked for.
    fn root_that_is_read(&self) -> PathBuf {
        let Root { path, found } = self.root_to_read();
        if !found {
            self.note(
                "no output root here or in the folders above; name one with `--root`, or train a first model",
            );
        } else if !path.exists() {
            self.note(&format!("nothing is recorded yet: there is no folder `{}`", path.display()));
        }
        path
    }

    /// The command line, as it can be given again.
    pub(crate) fn again(&self) -> String {
        self.command_line.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }

    /// Finds the node that the user means.
    pub(crate) fn resolve(&self, reader: &ObjectReader, text: &str) -> Result<Node, CliError> {
        reader.resolve(text).map_err(|error| failure::resolve(error, text, reader.root()))
    }

    /// Says of a checkpoint that was not found what records say of it: that its folder is gone, or that it was
    /// withdrawn.
    pub(crate) fn explain_missing(&self, error: CliError) -> CliError {
        let Some(node) = error.without_checkpoint().cloned() else { return error };
        let reader = ObjectReader::open_live(&self.root_to_read().path);
        let view = reader.and_then(|reader| reader.node(&node)).ok().flatten();
        match view {
            Some(view) if view.checkpoint.is_some() => error.why(
                "a record says that it had one, and the folder of it is gone: it was removed or not copied",
            ),
            Some(view) if view.checkpoint_withdrawn => error
                .why("it was withdrawn: by the settings of its run, by `waycairn gc` or by `waycairn rm`"),
            _ => error,
        }
    }

    /// Writes a table; one without rows is said in words, so that silence is never an answer on a terminal.
    pub(crate) fn table(&self, grid: &Grid, empty: &str, out: &mut Destination) -> Result<(), CliError> {
        if grid.is_empty() {
            self.note(empty);
            return Ok(());
        }
        let drawn = grid.draw(&self.looks(out));
        out.text(&drawn.text)?;
        if !drawn.left_out.is_empty() {
            out.settle()?;
            let count = drawn.left_out.len() as u64;
            let names = drawn.left_out.iter().take(4).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = if count > 4 { ", .." } else { "" };
            let columns = plural(count, "column");
            let choice = grid.choice().map_or_else(String::new, |choice| format!(", {choice},"));
            self.note(&format!(
                "{columns} did not fit ({names}{more}); widen the window{choice} or take another `--format`"
            ));
        }
        Ok(())
    }

    /// What the place of an answer can show.
    pub(crate) fn looks(&self, out: &Destination) -> Terminal {
        if out.is_standard() { self.terminal.clone() } else { Terminal::plain() }
    }

    /// Says something that is no part of the answer.
    pub(crate) fn note(&self, text: &str) {
        let mut err = std::io::stderr().lock();
        // Nobody may be reading; that is no reason to fail.
        drop(writeln!(err, "note: {text}"));
    }

    /// Says what a query noticed besides its answer. Parts that were left out have been named by a warning, in
    /// every command.
    pub(crate) fn diagnostics(&self, diagnostics: &[Diagnostic]) {
        for (index, diagnostic) in diagnostics.iter().enumerate() {
            let warned = matches!(diagnostic, Diagnostic::SkippedPart { .. });
            if !warned && !diagnostics[..index].contains(diagnostic) {
                self.note(&shortened(&diagnostic.to_string()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use waycairn_store::{Marker, ObjectStore, StoreOptions};
    use waycairn_train::TrainError;

    use super::*;

    #[test]
    fn a_checkpoint_whose_folder_is_gone_is_told_from_one_that_never_was() {
        let root = tempfile::tempdir().unwrap();
        let store = ObjectStore::open(root.path(), StoreOptions::default()).unwrap();
        let node = |seq| Node::new("tiny", "0123456789abcdef", seq).unwrap();
        store.stage_folder(&node(1), "checkpoint").unwrap().commit(Marker::Checkpoint, &[]).unwrap();
        store.value(&node(2), &[]).unwrap();
        store.stage_folder(&node(3), "checkpoint").unwrap().commit(Marker::Checkpoint, &[]).unwrap();
        store.withdraw_checkpoints(&[node(3)]).unwrap();
        store.close().unwrap();
        let checkpoint = store.reader().checkpoint(&node(1)).unwrap().unwrap();
        std::fs::remove_dir_all(checkpoint).unwrap();
        let global = Global { root: Some(root.path().to_owned()), skip_damaged: false, verbose: 0 };
        let context = Context {
            terminal: Terminal::plain(),
            environment: Environment::default(),
            global,
            here: root.path().to_owned(),
            experiments: waycairn_train::experiments![waycairn_train::Gpt],
            command_line: Vec::new(),
            stop: None,
        };
        for (seq, says) in [(1, Some("is gone")), (2, None), (3, Some("it was withdrawn"))] {
            let error = TrainError::NoCheckpoint { node: node(seq), nearest: Vec::new() };
            let error = context.explain_missing(failure::train(error));
            assert_eq!(error.why.is_some(), says.is_some(), "{seq}");
            assert!(error.why.is_none_or(|why| why.contains(says.unwrap())), "{seq}");
        }
    }
}
