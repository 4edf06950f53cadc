//! Says why a command does what the user may not expect.

use waycairn_dag::{Address, Node};
use waycairn_store::ObjectReader;

use crate::checkpoint::CONFIG;
use crate::error::{TrainError, branch_command};
use crate::identity::{Known, Refusal, option};
use crate::origin::Origin;
use crate::request::TrainRequest;
use crate::settings::Settings;

/// Says why a run may not go on, with the command that begins a branch instead.
pub(crate) fn refused(
    reader: &ObjectReader,
    request: &TrainRequest,
    origin: &Origin,
    refusal: Refusal,
    steps: u64,
) -> TrainError {
    let Some((node, checkpoint)) = origin.node().zip(origin.checkpoint()) else {
        // Only a resume is refused, and a resume has an origin.
        let what = "nothing was asked to be resumed".to_owned();
        return TrainError::Usage { what, next: "name a node with `--resume`".to_owned() };
    };
    let newest = checkpoint.manifest().node.parse::<Address>().map(|address| address.decode());
    let done = checkpoint.state().step;
    let newest = newest.as_ref().unwrap_or(node);
    // The command carries what was asked for; the last of several values is the one that counts.
    let asked =
        request.sets.iter().rfind(|(path, _)| path == "steps").and_then(|(_, steps)| steps.parse().ok());
    let more = carried(request);
    let branch =
        |node: &Node, least: Option<u64>| Some(branch_command(&request.root, node, asked.max(least), &more));
    let (why, command) = match refusal {
        Refusal::Finished => {
            let why = "its run is finished, and going on would mix two histories under one identity";
            // Steps are counted from the first one of the base.
            let more = asked.is_none_or(|asked| asked <= done);
            (why.to_owned(), branch(newest, more.then(|| steps.max(done).saturating_add(done))))
        }
        Refusal::NotNewest { newest } => {
            let why = format!(
                "its run has a newer checkpoint at seq {newest}, and going on from here would mix two histories under one identity"
            );
            // A branch begins at a checkpoint, which the node itself may not have.
            let whole = |node: &Node| matches!(reader.checkpoint(node), Ok(Some(_)));
            let nearest = || reader.nearest_checkpoints(node).ok()?.into_iter().next();
            let at = if whole(node) { Some(node.clone()) } else { nearest() };
            (why, at.and_then(|at| branch(&at, None)))
        }
        Refusal::OtherSettings => {
            let why = "its run has other settings, and a run keeps the settings that it began with";
            (why.to_owned(), branch(newest, None))
        }
        Refusal::NoCheckpoint | Refusal::Unknown => ("its run has no complete checkpoint".to_owned(), None),
        Refusal::Foreign => ("its run was not made by `waycairn train`".to_owned(), branch(newest, None)),
    };
    TrainError::Refused { node: node.clone(), why, command }
}

/// The settings of a request as arguments, `steps` left out.
pub(crate) fn carried(request: &TrainRequest) -> String {
    let mut words = Vec::new();
    if let Some(text) = &request.text {
        words.push(option("--text", &text.to_string_lossy()));
    }
    if let Some(file) = &request.settings_file {
        words.push(option("--settings", &file.to_string_lossy()));
    }
    let sets = request.sets.iter().filter(|(path, _)| path != "steps");
    words.extend(sets.map(|(path, value)| option("--set", &format!("{path}={value}"))));
    words.iter().map(|word| format!(" {word}")).collect()
}

/// Says that a name is used with other settings, and which they are where that is known.
pub(crate) fn other_settings(
    reader: &ObjectReader,
    name: &str,
    settings: &Settings,
    known: &[Known],
) -> String {
    let mut text = format!("runs called `{name}` are recorded with other settings: this begins a new one");
    let newest = known.iter().find_map(|run| Some((run, *run.checkpoints.last()?)));
    let differences = newest.and_then(|(run, seq)| {
        let node = Node::new(name, &run.nonce, seq).ok()?;
        let folder = reader.checkpoint(&node).ok()??;
        let config = std::fs::read_to_string(folder.join(CONFIG)).ok()?;
        let theirs = Settings::defaults(settings.schema().clone()).with_toml(&config, "its settings").ok()?;
        Some(settings.differences(&theirs))
    });
    let shown: Vec<String> = differences
        .unwrap_or_default()
        .iter()
        .take(4)
        .map(|difference| format!("{} was {}, is {}", difference.path, difference.theirs, difference.ours))
        .collect();
    if !shown.is_empty() {
        text.push_str(&format!(" ({})", shown.join("; ")));
    }
    text
}
