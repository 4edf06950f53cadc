//! Named fault points, and the trace of what was done to the disk.
//!
//! A point stands *before* each step that changes the disk; its name is the step's: `file.create`, `file.write`,
//! `file.sync`, `file.close`, `folder.create`, `folder.sync`, `rename`, `link`, `remove`. Other crates add points of
//! their own with [`point`], under names that begin with theirs.
//!
//! Without the feature `fault` a point compiles to nothing. With it the environment is read once, at the first point:
//!
//! - `WAYCAIRN_FAULT_TRACE=FILE`: append one line a point to the file, `<n> <name> <path>`. A first run with it
//!   counts the points.
//! - `WAYCAIRN_FAULT_ABORT=N`: abort the process at the N-th point, as `kill -9` would. A run for each N then
//!   crashes the program at each of its steps.
//!
//! A killed process keeps what is in the page cache, so no such run can see a missing sync. That is why the order of
//! the steps is asserted as well, over the trace that `record` gives within one thread.

/// Marks a place where a test may end the process. Without the feature `fault` it is nothing.
#[cfg(not(any(test, feature = "fault")))]
#[inline(always)]
pub fn point(_name: &'static str) {}

#[cfg(not(any(test, feature = "fault")))]
#[inline(always)]
pub(crate) fn step(_name: &'static str, _path: &std::path::Path) {}

#[cfg(any(test, feature = "fault"))]
pub use enabled::{Step, point, record};

#[cfg(any(test, feature = "fault"))]
pub(crate) use enabled::step;

#[cfg(any(test, feature = "fault"))]
mod enabled {
    use std::cell::RefCell;
    use std::fs::{File, OpenOptions};
    use std::io::Write as _;
    use std::path::{Path, PathBuf};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Is one point that was passed.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Step {
        /// The name of the point.
        pub name: &'static str,
        /// The file or folder that was about to be changed, if the point says one.
        pub path: Option<PathBuf>,
    }

    struct Settings {
        abort: Option<u64>,
        trace: Option<File>,
    }

    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);

    thread_local! {
        static RECORD: RefCell<Option<Vec<Step>>> = const { RefCell::new(None) };
    }

    /// Marks a place where a test may end the process.
    pub fn point(name: &'static str) {
        pass(name, None);
    }

    pub(crate) fn step(name: &'static str, path: &Path) {
        pass(name, Some(path));
    }

    /// Runs `body` and returns the points that it passed in this thread, in order.
    pub fn record<T>(body: impl FnOnce() -> T) -> (T, Vec<Step>) {
        let before = RECORD.replace(Some(Vec::new()));
        let value = body();
        (value, RECORD.replace(before).unwrap_or_default())
    }

    fn pass(name: &'static str, path: Option<&Path>) {
        RECORD.with_borrow_mut(|record| {
            if let Some(record) = record {
                record.push(Step { name, path: path.map(Path::to_owned) });
            }
        });
        let settings = SETTINGS.get_or_init(settings);
        let number = PASSED.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some(mut trace) = settings.trace.as_ref() {
            let path = path.unwrap_or(Path::new("-")).display();
            // One write a line, so that the lines of threads do not mix.
            let _ = trace.write_all(format!("{number} {name} {path}\n").as_bytes());
        }
        if settings.abort == Some(number) {
            std::process::abort();
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a test sets these for a child process; no shipped binary has them"
    )]
    fn settings() -> Settings {
        let trace = std::env::var_os("WAYCAIRN_FAULT_TRACE")
            .and_then(|path| OpenOptions::new().append(true).create(true).open(path).ok());
        let abort = std::env::var("WAYCAIRN_FAULT_ABORT").ok().and_then(|number| number.parse().ok());
        Settings { abort, trace }
    }
}
