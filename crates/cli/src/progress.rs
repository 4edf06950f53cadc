//! The one line that moves while a model is trained, and the way past it for everything else.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use indicatif::ProgressBar;

/// The line that stands on the terminal now, if one does.
static LIVE: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Writes to standard error around the progress line.
pub(crate) struct LogWriter;

impl LogWriter {
    pub(crate) fn new() -> Self {
        Self
    }
}

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        let write = || io::stderr().lock().write_all(bytes);
        match live.as_ref() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
