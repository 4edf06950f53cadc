//! Says what a command would do, and why it does what the user may not expect.

use waycairn_dag::{Address, Node};
use waycairn_store::ObjectReader;

use crate::any_experiment::Experiments;
use crate::course::{Length, STEPS};
use crate::error::{TrainError, branch_command};
use crate::identity::{Known, Refusal, RunKey, option};
use crate::known::recorded_config;
use crate::origin::{Origin, Resolved};
use crate::request::{SettingsLayer, TrainRequest};
use crate::settings::Settings;

/// Differences that a notice names.
const SHOWN: usize = 4;

/// Returns the settings that a launch of this request would train with. Nothing is trained or written.
///
/// # Errors
///
/// [`TrainError`] for a request whose settings, preset, experiment or base cannot be used.
pub fn settings(experiments: &Experiments, request: &TrainRequest) -> Result<Settings, TrainError> {
    Ok(Resolved::new(experiments, request)?.settings)
}

/// Says why a run may not go on, with the command that begins a branch instead.
pub(crate) fn refused(
    reader: &ObjectReader,
    request: &TrainRequest,
    origin: &Origin,
    refusal: Refusal,
    length: Option<&Length>,
) -> TrainError {
    let Some((node, checkpoint)) = origin.node().zip(origin.checkpoint()) else {
        // Only a resume is refused, and a resume has an origin.
        let what = "nothing was asked to be resumed".to_owned();
        return TrainError::Usage { what, why: None, next: "name a node with `--resume`".to_owned() };
    };
    let newest = checkpoint.manifest().node.parse::<Address>().map(|address| address.decode());
    let done = checkpoint.state().step;
    let newest = newest.as_ref().unwrap_or(node);
    // The command carries what was asked for; the last of several values is the one that counts.
    let setting = length.map_or(STEPS, |length| length.setting);
    let asked: Option<u64> =
        request.sets.iter().rfind(|(path, _)| path == setting).and_then(|(_, value)| value.parse().ok());
    let more = carried(request, setting);
    let branch = |node: &Node, least: Option<u64>| {
        let long = length.zip(asked.max(least));
        let long = long.map_or_else(String::new, |(length, value)| format!(" {}", length.argument(value)));
        Some(branch_command(&request.root, node, &format!("{long}{more}")))
    };
    let (why, command) = match refusal {
        Refusal::Finished => {
            let why = "its run is finished, and going on would mix two histories under one identity";
            // They are counted from the first step of the base.
            let least = length.and_then(|length| {
                let done = length.whole(done);
                let more = asked.is_none_or(|asked| asked <= done);
                more.then(|| length.value.max(done).saturating_add(done))
            });
            (why.to_owned(), branch(newest, least))
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

/// The settings of a request as arguments, one of them left out.
pub(crate) fn carried(request: &TrainRequest, left_out: &str) -> String {
    let mut words = Vec::new();
    if let Some(text) = &request.text {
        words.push(option("--text", &text.to_string_lossy()));
    }
    if let Some(SettingsLayer::File(file)) = &request.settings {
        words.push(option("--settings", &file.to_string_lossy()));
    }
    let sets = request.sets.iter().filter(|(path, _)| path != left_out);
    words.extend(sets.map(|(path, value)| option("--set", &format!("{path}={value}"))));
    words.iter().map(|word| format!(" {word}")).collect()
}

/// Says that a name is used with other settings or for a branch of another base, and which they are where that is
/// known.
pub(crate) fn other_settings(
    reader: &ObjectReader,
    key: &RunKey,
    settings: &Settings,
    known: &[Known],
) -> String {
    let newest = known.iter().find_map(|run| Some((run, *run.checkpoints.last()?)));
    let theirs = newest.map(|(run, _)| run).or(known.first()).and_then(|run| run.key.as_ref());
    let differences = newest.and_then(|(run, seq)| {
        let node = Node::new(&key.name, &run.nonce, seq).ok()?;
        let (_, config) = recorded_config(reader, &node)?;
        let theirs = Settings::defaults(settings.schema().clone()).with_toml(&config, "its settings").ok()?;
        Some(settings.differences(&theirs))
    });
    let differences = differences.unwrap_or_default();
    let mut shown: Vec<String> = differences
        .iter()
        .take(SHOWN)
        .map(|difference| format!("{} was {}, is {}", difference.path, difference.theirs, difference.ours))
        .collect();
    if differences.len() > SHOWN {
        shown.push(format!("and {} more", differences.len() - SHOWN));
    }
    let based = theirs.filter(|theirs| theirs.base != key.base);
    let settled = theirs.is_some_and(|theirs| theirs.settings_sha256 == key.settings_sha256);
    let what = match (based, settled) {
        (None, _) => "with other settings",
        (Some(_), true) => "with another base",
        (Some(_), false) => "with other settings and another base",
    };
    if let Some(theirs) = based {
        shown.insert(0, format!("the base was {}, is {}", base(&theirs.base), base(&key.base)));
    }
    let mut text = format!("runs called `{}` are recorded {what}: this begins a new one", key.name);
    if !shown.is_empty() {
        text.push_str(&format!(" ({})", shown.join("; ")));
    }
    text
}

/// A recorded base as a node is written.
fn base(recorded: &str) -> String {
    recorded.parse::<Address>().map_or_else(|_| recorded.to_owned(), |address| address.decode().to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use waycairn_durable::Digest;

    use super::*;
    use crate::experiment::Experiment as _;
    use crate::settings::Schema;

    #[test]
    fn what_differs_is_named_the_base_too() {
        let folder = tempfile::tempdir().unwrap();
        let reader = ObjectReader::open(folder.path()).unwrap();
        let base = |seq| Node::new("trunk", "0123456789abcdef", seq).unwrap().address().to_string();
        let settings = Settings::defaults(Schema::new(crate::Gpt.keys()));
        let key = |base: String, text: &str| RunKey {
            name: "run".to_owned(),
            base,
            settings_sha256: Digest::of(text.as_bytes()),
            model_key: None,
        };
        let told = |theirs: Option<RunKey>| {
            let known = Known {
                nonce: "00000000000000aa".to_owned(),
                key: theirs,
                last: 3,
                checkpoints: Vec::new(),
                finished: true,
            };
            other_settings(&reader, &key(base(19), "ours"), &settings, &[known])
        };
        let begins = "this begins a new one";
        let other = "the base was trunk@0123456789abcdef:9, is trunk@0123456789abcdef:19";
        for (theirs, text) in [
            (Some(key(base(9), "ours")), format!("with another base: {begins} ({other})")),
            (
                Some(key(base(9), "theirs")),
                format!("with other settings and another base: {begins} ({other})"),
            ),
            (
                Some(key("none".to_owned(), "ours")),
                format!("with another base: {begins} (the base was none, is trunk@0123456789abcdef:19)"),
            ),
            (Some(key(base(19), "theirs")), format!("with other settings: {begins}")),
            (None, format!("with other settings: {begins}")),
        ] {
            assert_eq!(told(theirs), format!("runs called `run` are recorded {text}"));
        }
    }
}
