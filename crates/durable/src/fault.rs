//! Named fault points, and the trace of what was done to the disk.
//!
//! A point stands *before* each step that changes the disk; its name is the step's: `file.create`, `file.write`,
//! `file.append`, `file.sync`, `file.close`, `folder.create`, `folder.sync`, `rename`, `link`, `remove`. Other crates add points of
//! their own with [`point`], under names that begin with theirs.
//!
//! Without the feature `fault` a point compiles to nothing. With it the environment is read once, at the first point:
//!
//! - `WAYCAIRN_FAULT_TRACE=FILE`: append one line a point to the file, `<n> <name> <path>`. A first run with it
//!   counts the points.
//! - `WAYCAIRN_FAULT_ABORT=N`: abort the process at the N-th point, as `kill -9` would. A run for each N then
//!   crashes the program at each of its steps.
//!
//! Within a process a test can make the disk refuse steps below a folder, with the error number of its choice: `refuse`.
//! Two names that are no steps make a folder one of another file system: below one where `lock` is refused files have no
//! locks, and a root where `case` is refused does not tell upper case from lower case.
//!
//! A killed process keeps what is in the page cache, so no such run can see a missing sync. That is why the order of
//! the steps is asserted as well, over the trace that `record` gives within one thread.

/// Marks a place where a test may end the process. Without the feature `fault` it is nothing.
#[cfg(not(any(test, feature = "fault")))]
#[inline(always)]
pub fn point(_name: &'static str) {}

#[cfg(not(any(test, feature = "fault")))]
#[inline(always)]
#[expect(clippy::unnecessary_wraps, reason = "with the feature a test can make it fail")]
pub(crate) fn step(_name: &'static str, _path: &std::path::Path) -> std::io::Result<()> {
    Ok(())
}

/// Whether a test refuses what is no step; see the module.
#[cfg(not(any(test, feature = "fault")))]
#[inline(always)]
#[expect(clippy::unnecessary_wraps, reason = "with the feature a test can make it fail")]
pub(crate) fn refused(_name: &str, _path: &std::path::Path) -> std::io::Result<()> {
    Ok(())
}

#[cfg(any(test, feature = "fault"))]
pub use enabled::{Refusal, Step, point, record, refuse};

#[cfg(any(test, feature = "fault"))]
pub(crate) use enabled::{refused, step};

#[cfg(any(test, feature = "fault"))]
mod enabled {
    use std::cell::RefCell;
    use std::fs::{File, OpenOptions};
    use std::io::{self, Write as _};
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Mutex, OnceLock, PoisonError};

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
    static REFUSED: Mutex<Vec<(u64, Refused)>> = Mutex::new(Vec::new());
    static REFUSALS: AtomicU64 = AtomicU64::new(0);

    struct Refused {
        step: &'static str,
        below: PathBuf,
        error: i32,
        left: u64,
    }

    /// Lifts its refusal when it is dropped.
    #[derive(Debug)]
    #[must_use = "the refusal ends when this is dropped"]
    pub struct Refusal(u64);

    impl Drop for Refusal {
        fn drop(&mut self) {
            let mut refused = REFUSED.lock().unwrap_or_else(PoisonError::into_inner);
            refused.retain(|(id, _)| *id != self.0);
        }
    }

    /// Makes the next `times` steps of a name below a folder fail with an error of the operating system, in all threads
    /// of this process, as a disk would that is full or broken.
    pub fn refuse(step: &'static str, below: &Path, error: i32, times: u64) -> Refusal {
        let id = REFUSALS.fetch_add(1, Ordering::Relaxed);
        let refused = Refused { step, below: below.to_owned(), error, left: times };
        REFUSED.lock().unwrap_or_else(PoisonError::into_inner).push((id, refused));
        Refusal(id)
    }

    /// Whether a test refuses this, a step or not; no point is passed.
    pub(crate) fn refused(name: &str, path: &Path) -> io::Result<()> {
        let mut all = REFUSED.lock().unwrap_or_else(PoisonError::into_inner);
        let fits =
            |refused: &Refused| refused.left > 0 && refused.step == name && path.starts_with(&refused.below);
        match all.iter_mut().map(|(_, refused)| refused).find(|refused| fits(refused)) {
            Some(refused) => {
                refused.left -= 1;
                Err(io::Error::from_raw_os_error(refused.error))
            }
            None => Ok(()),
        }
    }

    thread_local! {
        static RECORD: RefCell<Option<Vec<Step>>> = const { RefCell::new(None) };
    }

    /// Marks a place where a test may end the process.
    pub fn point(name: &'static str) {
        pass(name, None);
    }

    pub(crate) fn step(name: &'static str, path: &Path) -> io::Result<()> {
        pass(name, Some(path));
        refused(name, path)
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
