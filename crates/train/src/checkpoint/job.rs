//! `job.json`: who trained this, where, with what. No environment, no secrets.

use serde::{Deserialize, Serialize};
use waycairn_durable::Digest;

use crate::data::Fingerprint;

/// The version that this program writes and the newest that it reads.
pub(crate) const VERSION: u32 = 1;

/// What `job.json` says. Keys that a later version adds are ignored: nothing is restored from here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobFile {
    /// Version of this file.
    pub version: u32,
    /// Name of the experiment.
    pub experiment: String,
    /// Version of the experiment.
    pub experiment_version: String,
    /// Name of the run.
    pub name: String,
    /// Address of the base of a branch.
    pub base: Option<String>,
    /// Digest of the resolved settings.
    pub settings_sha256: Digest,
    /// Random id of the launch that wrote the checkpoint.
    pub execution: String,
    /// The command line of that launch.
    pub command_line: Vec<String>,
    /// The working folder's repository, if it is one.
    pub git: Option<GitState>,
    /// Name of the machine.
    pub host: String,
    /// The device.
    pub device: String,
    /// Threads that computed.
    pub threads: usize,
    /// Processor features that kernels choose by.
    pub cpu_features: Vec<String>,
    /// Versions of the packages that decide the numbers.
    pub packages: std::collections::BTreeMap<String, String>,
    /// What the data stream is a function of.
    pub data: Fingerprint,
}

/// The state of a git repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitState {
    /// The commit.
    pub commit: String,
    /// Whether there are changes that are not committed.
    pub dirty: bool,
}
