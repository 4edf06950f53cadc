//! `waycairn init`: settings of a study to start from.

use clap::Args;

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

A file that is there already stays as it is.")]
pub(crate) struct InitArgs {
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

pub(crate) fn run(args: &InitArgs, _context: &Context) -> Result<(), CliError> {
    let place = StudyPlace { profile: None, settings_dir: args.settings_dir.clone() };
    let written = waycairn_study::init(&place.folder()).map_err(failure::study)?;
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
            out.text(&format!(
                "  waycairn plan{option}      what it would run\n  waycairn train{option}     run it\n"
            ))?;
        }
    }
    out.finish()
}
