//! Facts about this launch, for `job.json`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::checkpoint::GitState;

/// The version of Burn that the numbers come from; a test keeps it equal to the manifest's.
const BURN_VERSION: &str = "0.22.1";

/// Facts that are the same for every checkpoint of a launch.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// Random id.
    pub(crate) execution: String,
    pub(crate) command_line: Vec<String>,
    pub(crate) git: Option<GitState>,
    pub(crate) host: String,
    pub(crate) threads: usize,
    pub(crate) cpu_features: Vec<String>,
    pub(crate) packages: BTreeMap<String, String>,
}

impl Launch {
    /// Looks around.
    pub(crate) fn new(execution: String, command_line: Vec<String>, threads: usize) -> Self {
        Self {
            execution,
            command_line,
            git: git(Path::new(".")),
            host: gethostname::gethostname().to_string_lossy().into_owned(),
            threads,
            cpu_features: cpu_features(),
            packages: packages(),
        }
    }
}

/// The crates that the numbers come from, with their versions.
fn packages() -> BTreeMap<String, String> {
    let packages = [("waycairn", env!("CARGO_PKG_VERSION")), ("burn", BURN_VERSION)];
    packages.map(|(name, version)| (name.to_owned(), version.to_owned())).into()
}

/// Asks git for the state of a folder; `None` where there is no repository, or no git.
fn git(folder: &Path) -> Option<GitState> {
    let run = |arguments: &[&str]| -> Option<String> {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(folder)
            // Looking must not write the index.
            .env("GIT_OPTIONAL_LOCKS", "0")
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    Some(GitState {
        commit: run(&["rev-parse", "--verify", "HEAD"])?,
        dirty: !run(&["status", "--porcelain", "--untracked-files=no"])?.is_empty(),
    })
}

/// Lists the processor features that matrix kernels choose by.
fn cpu_features() -> Vec<String> {
    #[cfg(target_arch = "x86_64")]
    let found = [
        ("avx", std::is_x86_feature_detected!("avx")),
        ("avx2", std::is_x86_feature_detected!("avx2")),
        ("fma", std::is_x86_feature_detected!("fma")),
        ("avx512f", std::is_x86_feature_detected!("avx512f")),
    ];
    #[cfg(target_arch = "aarch64")]
    let found = [("neon", std::arch::is_aarch64_feature_detected!("neon"))];
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let found: [(&str, bool); 0] = [];
    std::iter::once(std::env::consts::ARCH.to_owned())
        .chain(found.iter().filter(|(_, there)| *there).map(|(name, _)| (*name).to_owned()))
        .collect()
}

/// The most memory that this process has held, in bytes, where the system tells.
pub(crate) fn peak_bytes() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_burn_version_is_the_one_that_is_built() {
        let manifest = include_str!("../../../Cargo.toml");
        assert!(manifest.contains(&format!("burn = {{ version = \"={BURN_VERSION}\"")));
    }

    #[test]
    fn a_launch_knows_its_machine() {
        let launch = Launch::new("id".to_owned(), vec!["waycairn".to_owned()], 2);
        assert!(!launch.host.is_empty());
        assert_eq!(launch.cpu_features[0], std::env::consts::ARCH);
        assert!(git(&std::env::temp_dir()).is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_peak_is_at_least_a_megabyte() {
        assert!(peak_bytes().unwrap() > 1 << 20);
    }
}
