//! The test kit: roots that clean up after themselves, the program under test as a child process, and the
//! plugins that were built with it.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

/// An output root in a folder of its own, and the program that works on it.
pub struct Root {
    folder: TempDir,
    program: PathBuf,
}

impl Root {
    /// A root that does not exist yet, in a fresh temporary folder.
    ///
    /// # Panics
    /// When the temporary folder cannot be made.
    #[must_use]
    pub fn new(program: &str) -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder"), program: program.into() }
    }

    /// The output root.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// The folder around the root, for input files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The program with `--root` set, in the folder around the root; see [`clean`].
    #[must_use]
    pub fn command<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.bare(words);
        command.arg("--root").arg(self.path());
        command
    }

    /// The program without `--root`, in the folder around the root; see [`clean`].
    #[must_use]
    pub fn bare<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(&self.program);
        clean(&mut command, &self.folder.path().join("home"));
        command.args(words).current_dir(self.folder.path());
        command
    }

    /// Runs to the end and returns what it said.
    ///
    /// # Panics
    /// When the program does not start.
    #[must_use]
    pub fn run(&self, words: &[&str]) -> Run {
        Run::of(&mut self.command(words))
    }

    /// Runs with `--format json`, expects success, and parses the last line of standard output.
    ///
    /// # Panics
    /// When the program fails or prints no JSON.
    pub fn json(&self, words: &[&str]) -> Value {
        let mut all = words.to_vec();
        all.extend(["--format", "json"]);
        let run = self.run(&all);
        assert_eq!(run.status, Some(0), "{words:?} failed\n{run}");
        run.json()
    }

    /// Writes an input file beside the root and returns its path as text.
    ///
    /// # Panics
    /// When the file cannot be written.
    #[must_use]
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, bytes).expect("an input file");
        path.display().to_string()
    }
}

/// Takes away from a command everything by which the environment could steer the program: its own variables, the one
/// that Burn reads, those about colours, and standard input. The user's home becomes `home`, which need not exist.
pub fn clean(command: &mut Command, home: &Path) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"WAYCAIRN_"))
    {
        command.env_remove(name);
    }
    for name in ["XDG_DATA_HOME", "NO_COLOR", "BURN_DEVICE"] {
        command.env_remove(name);
    }
    command.env("HOME", home).stdin(Stdio::null());
}

/// What a finished program left: exit status (`None` after a signal) and its two outputs.
pub struct Run {
    /// Exit status; `None` when a signal ended it.
    pub status: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Run {
    /// Runs a command to its end.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn of(command: &mut Command) -> Self {
        command.output().expect("the program starts").into()
    }

    /// The whole of standard output as JSON, or its last line where progress came before.
    ///
    /// # Panics
    /// When neither is JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .or_else(|_| serde_json::from_str(self.out.lines().last().unwrap_or_default()))
            .unwrap_or_else(|error| panic!("no JSON: {error}\n{self}"))
    }

    /// Asserts a clean failure: this exit status, no signal, no panic text, and each fragment in the message.
    ///
    /// # Panics
    /// When one of these does not hold.
    pub fn fails_with(&self, status: i32, fragments: &[&str]) {
        assert_eq!(self.status, Some(status), "exit status\n{self}");
        for forbidden in ["panicked at", "RUST_BACKTRACE", "unwrap()"] {
            assert!(!self.err.contains(forbidden), "a panic reached the user\n{self}");
        }
        for fragment in fragments {
            assert!(self.err.contains(fragment), "the message lacks `{fragment}`\n{self}");
        }
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "status {:?}\n--- out\n{}\n--- err\n{}", self.status, self.out, self.err)
    }
}

/// A text of `bytes` length at least, of `words` that repeat in an irregular order: enough for a tiny model.
#[must_use]
pub fn text(bytes: usize) -> String {
    const WORDS: &[&str] = &["stone ", "upon ", "stone ", "marks ", "the ", "way ", "home, ", "said she.\n"];
    let mut text = String::with_capacity(bytes + 16);
    let mut state: u64 = 12_345;
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(WORDS[(state >> 33) as usize % WORDS.len()]);
    }
    text
}

/// The library of the workspace's plugin `name`: cargo builds it for this package, beside the running test.
///
/// # Panics
/// When it is not there.
#[must_use]
pub fn plugin(name: &str) -> PathBuf {
    let folder = std::env::current_exe().expect("this test").parent().expect("a folder").to_path_buf();
    let file = format!("{}waycairn_{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let path = folder.join(file);
    assert!(path.is_file(), "`{}` was not built", path.display());
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_a_root_sees_no_variable_that_steers_the_program() {
        let root = Root::new("program");
        let command = root.command(["nodes"]);
        let set: Vec<_> = command.get_envs().filter_map(|(name, value)| Some((name, value?))).collect();
        assert_eq!(set, [(OsStr::new("HOME"), root.folder().join("home").as_os_str())]);
        let mut removed = command.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name);
        assert!(removed.any(|name| name == "XDG_DATA_HOME"));
        assert!(!root.folder().join("home").exists() && !root.path().exists());
    }
}
