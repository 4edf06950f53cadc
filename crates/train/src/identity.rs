//! Which run a command means: a pure decision over what is recorded.

use serde::Serialize;
use waycairn_durable::Digest;

/// What `job/base` says of a run that has no base.
pub(crate) const NO_BASE: &str = "none";

/// The field that holds the digest of the settings of a run, at its first node.
pub(crate) const SETTINGS_FIELD: &str = "job/settings_sha256";

/// The field that holds the key of the model of a run, at its first node; absent for a run of no study.
pub(crate) const MODEL_FIELD: &str = "job/model_key";

/// The field that holds the address of a run's base, at its first node.
pub(crate) const BASE_FIELD: &str = "job/base";

/// What makes two commands the same: they have one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RunKey {
    /// Name of the run.
    pub(crate) name: String,
    /// Address of the base of a branch, or [`NO_BASE`].
    pub(crate) base: String,
    /// Digest of the resolved settings.
    pub(crate) settings_sha256: Digest,
    /// Key of the model in a cache, for a run of a study: with other code or on another device it is another run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model_key: Option<String>,
}

impl RunKey {
    /// Returns the digest that names the run's lock file.
    pub(crate) fn digest(&self) -> Digest {
        let model = self.model_key.as_ref().map_or_else(String::new, |key| format!("\n{key}"));
        Digest::of(format!("{}\n{}\n{}{model}", self.name, self.base, self.settings_sha256).as_bytes())
    }
}

/// A recorded run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) nonce: String,
    /// What its first node says; `None` for a run that the trainer did not make.
    pub(crate) key: Option<RunKey>,
    /// Its last recorded position.
    pub(crate) last: u64,
    /// Positions of complete checkpoints, rising.
    pub(crate) checkpoints: Vec<u64>,
    pub(crate) finished: bool,
}

/// What the user asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Train: go on if this command ran before.
    Same,
    /// Train a new run in any case.
    Fresh,
    /// Go on with the run of this nonce, from this position.
    Resume { nonce: String, seq: u64 },
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Begin a run under a new nonce.
    New(Reason),
    /// Go on at the newest complete checkpoint of a run.
    Continue { nonce: String, seq: u64 },
    /// Begin a run again at seq 0 under its own nonce: it has no complete checkpoint.
    Again { nonce: String },
    /// Nothing: the run is finished.
    Skip { nonce: String, seq: u64 },
}

/// Why a run is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// No run of this name is recorded.
    First,
    /// The user asked for it.
    Asked,
    /// Runs of this name have other settings or another base.
    OtherSettings,
}

/// Why a run may not go on from a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The run is finished.
    Finished,
    /// The run has a newer checkpoint.
    NotNewest { newest: u64 },
    /// The run has no complete checkpoint at or before the position.
    NoCheckpoint,
    /// Nothing is recorded for the node.
    Unknown,
    /// The run was not made by the trainer.
    Foreign,
    /// The settings asked for are not those of the run.
    OtherSettings,
}

/// Decides; `known` holds the runs of the name, newest first.
pub(crate) fn decide(wish: &Wish, key: &RunKey, known: &[Known]) -> Result<Plan, Refusal> {
    match wish {
        Wish::Fresh => Ok(Plan::New(if known.is_empty() { Reason::First } else { Reason::Asked })),
        Wish::Same => {
            let Some(same) = known.iter().find(|run| run.key.as_ref() == Some(key)) else {
                let reason = if known.is_empty() { Reason::First } else { Reason::OtherSettings };
                return Ok(Plan::New(reason));
            };
            let nonce = same.nonce.clone();
            Ok(match (same.finished, same.checkpoints.last()) {
                (true, _) => Plan::Skip { nonce, seq: same.last },
                (false, Some(newest)) => Plan::Continue { nonce, seq: *newest },
                (false, None) => Plan::Again { nonce },
            })
        }
        Wish::Resume { nonce, seq } => {
            let run = known.iter().find(|run| run.nonce == *nonce).ok_or(Refusal::Unknown)?;
            let own = run.key.as_ref().ok_or(Refusal::Foreign)?;
            if run.finished {
                return Err(Refusal::Finished);
            }
            let newest = *run.checkpoints.last().ok_or(Refusal::NoCheckpoint)?;
            if *seq < newest {
                return Err(Refusal::NotNewest { newest });
            }
            if own.settings_sha256 != key.settings_sha256 {
                return Err(Refusal::OtherSettings);
            }
            // A position after the newest checkpoint lost its steps; they are done again.
            Ok(Plan::Continue { nonce: nonce.clone(), seq: newest })
        }
    }
}

/// Writes an option with its value so that a shell and `waycairn` both read it back.
pub(crate) fn option(name: &str, value: &str) -> String {
    // A value that begins with a hyphen would be taken for an option of its own.
    let between = if value.starts_with('-') { '=' } else { ' ' };
    format!("{name}{between}{}", quote(value))
}

/// Quotes a text for a shell where it needs it.
pub(crate) fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-:@/=+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
#[path = "identity/tests.rs"]
mod tests;
