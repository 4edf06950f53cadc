//! `waycairn init`: settings of a study to start from.

use std::path::PathBuf;

use clap::Args;
use waycairn_study::Starter;

use crate::command::study::StudyPlace;
use crate::context::Context;
use crate::error::CliError;
use crate::failure;
use crate::output::{Destination, Shape};
use crate::value::Value;

/// Write a commented settings file to start a study from
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn init
  waycairn init --settings-dir my-study
  waycairn init gaussian --settings-dir my-study

A file that is there already stays as it is.")]
pub(crate) struct InitArgs {
    /// The study: `sweep`, three learning rates of a small model, or `gaussian`, ratio estimation with metrics and figures
    #[arg(
        value_name = "STUDY",
        default_value = "sweep",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub(super) study: Study,
    /// Folder for settings_training.toml [default: this folder]
    #[arg(long, value_name = "FOLDER")]
    pub(super) settings_dir: Option<std::path::PathBuf>,
    /// json lists the files that were written
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

/// A study to start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Study {
    Sweep,
    Gaussian,
}

/// The library of a study's analyses: beside this program, where a build leaves both, else by its name alone.
fn library(starter: Starter) -> PathBuf {
    let Some(name) = starter.library() else { return PathBuf::new() };
    let beside = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.join(&name)));
    let Some(beside) = beside.filter(|path| path.is_file()) else { return PathBuf::from(name) };
    // From this folder where it lies below it, so that both can be moved together.
    let here = std::env::current_dir().and_then(|here| here.canonicalize()).ok();
    let below = here.and_then(|here| Some(beside.canonicalize().ok()?.strip_prefix(here).ok()?.to_owned()));
    below.unwrap_or(beside)
}

pub(crate) fn run(args: &InitArgs, _context: &Context) -> Result<(), CliError> {
    let place = StudyPlace { profile: None, settings_dir: args.settings_dir.clone() };
    let starter = match args.study {
        Study::Sweep => Starter::Sweep,
        Study::Gaussian => Starter::Gaussian,
    };
    let written =
        waycairn_study::init(&place.folder(), starter, &library(starter)).map_err(failure::study)?;
    let mut out = Destination::standard_output();
    match args.format {
        Shape::Json => {
            let paths = written.iter().map(|path| Value::Text(path.display().to_string()));
            out.json_line(&Value::List(paths.collect()))?;
        }
        Shape::Table => {
            for path in &written {
                out.text(&format!("wrote {}\n", path.display()))?;
            }
            let option = match &args.settings_dir {
                Some(folder) => format!(" --settings-dir {}", folder.display()),
                None => String::new(),
            };
            let run = match args.study {
                Study::Sweep => format!("  waycairn train{option}     run it\n"),
                Study::Gaussian => format!("  waycairn run --profile smoke{option}     all of it, small\n"),
            };
            out.text(&format!("  waycairn plan{option}      what it would run\n{run}"))?;
        }
    }
    out.finish()
}
