//! `waycairn verify`: the deep check of a root.

use std::sync::Mutex;

use clap::Args;
use serde_json::json;
use waycairn_study::Checking;

use crate::command::study::StudyPlace;
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::failure;
use crate::number::{self, plural};
use crate::output::{Shape, ShapeOutput};
use crate::progress::{Unit, Watch, Work};
use crate::value::Value;

/// Check a study's root: every byte of the cache and of the checkpoints, the files in `runs`, the archives of sources
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn verify
  waycairn verify --root outputs/small --quarantine --format json

All that is wrong is listed, and the exit status is 3 then. With --quarantine damaged entries of the cache are renamed
aside, so that the next launch builds them again; they are deleted after a day. A damaged checkpoint stays where it is: what
goes on from it takes an older one, or says so. Records of nodes (`objects/values`) and artifacts of analyses have no
checksums and are not checked, and nothing is said about whether a result is right.")]
pub(crate) struct VerifyArgs {
    /// Set damaged entries of the cache aside
    #[arg(long)]
    pub(super) quarantine: bool,
    #[command(flatten)]
    pub(super) place: StudyPlace,
    #[command(flatten)]
    pub(super) output: ShapeOutput,
}

pub(crate) fn run(args: &VerifyArgs, context: &Context) -> Result<Exit, CliError> {
    let root = args.place.root(context)?;
    if !root.exists() {
        return Err(CliError::new("not_found", format!("there is no folder `{}`", root.display()))
            .next("name the root with `--root`, or the settings with `--settings-dir`"));
    }
    if !root.join("FORMAT").exists() {
        context.note(&format!(
            "`{}` does not look like an output root: it has no file `FORMAT`",
            root.display()
        ));
    }
    let watch = Mutex::new(Watch::new(&context.terminal));
    let progress = |checking: Checking| {
        // Another thread shows it; the next block is soon there.
        let Ok(mut watch) = watch.try_lock() else { return };
        let files = format!("{} of {}", checking.files, plural(checking.of_files, "file"));
        let (done, total) = (checking.bytes, checking.of_bytes);
        watch.work(&Work { label: "checking", unit: Unit::Bytes, done, total, more: Some(&files) });
    };
    let found = waycairn_study::verify(&root, args.quarantine, progress).map_err(failure::study);
    drop(watch);
    let found = found?;
    let mut out = args.output.place.open()?;
    match args.output.format() {
        Shape::Json => out.json(&Value::from(json!(found)))?,
        Shape::Table => {
            for damaged in &found.damaged {
                out.text(&format!("{}: {}\n", damaged.path, damaged.what))?;
            }
            for aside in &found.quarantined {
                out.text(&format!("set aside: {aside}\n"))?;
            }
            let wrong = match found.damaged.len() {
                0 => "nothing is damaged".to_owned(),
                count => plural(count as u64, "fault"),
            };
            out.text(&format!(
                "{} checked, {}: {wrong}\n",
                plural(found.checked, "file"),
                number::bytes(found.bytes)
            ))?;
        }
    }
    out.finish()?;
    Ok(if found.damaged.is_empty() { Exit::Done } else { Exit::Damaged })
}
