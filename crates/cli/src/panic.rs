//! A panic is a defect of the program; the user meets it as an error like any other.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::{Mutex, PoisonError};

use waycairn_study::PanicReport;

use crate::error::{CliError, one_line};

/// What the last panic of any thread said and where.
static LAST: Mutex<Option<Said>> = Mutex::new(None);

#[derive(Debug, Clone)]
struct Said {
    message: String,
    place: String,
    backtrace: String,
    /// Whether the user's environment asked for backtraces.
    asked: bool,
}

/// The last panic, for the record of a run that met it.
pub(crate) fn last() -> Option<PanicReport> {
    let Said { message, place, backtrace, .. } =
        LAST.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    Some(PanicReport { text: format!("{}, at {place}", one_line(&message)), backtrace })
}

/// Runs `body`, with every panic in it turned into an error. A panic of another thread that is caught there says
/// nothing here: who caught it reports it.
pub(crate) fn guard<T>(body: impl FnOnce() -> Result<T, CliError>) -> Result<T, CliError> {
    panic::set_hook(Box::new(remember));
    let result = panic::catch_unwind(AssertUnwindSafe(body));
    result.unwrap_or_else(|_| {
        let said = LAST.lock().unwrap_or_else(PoisonError::into_inner).take();
        Err(defect(said))
    })
}

fn remember(info: &PanicHookInfo<'_>) {
    let message = info.payload_as_str().unwrap_or("it left no message").to_owned();
    let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let asked = Backtrace::capture().status() == BacktraceStatus::Captured;
    let backtrace = Backtrace::force_capture().to_string();
    tracing::debug!(place, message, "a panic");
    let said = Said { message, place, backtrace, asked };
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
}

fn defect(said: Option<Said>) -> CliError {
    let unknown = || Said {
        message: String::new(),
        place: "an unknown place".into(),
        backtrace: String::new(),
        asked: false,
    };
    let said = said.unwrap_or_else(unknown);
    let picture = said.backtrace.lines().filter(|_| said.asked).map(str::to_owned).collect();
    CliError::new("internal", format!("a defect of waycairn itself: {}", one_line(&said.message)))
        .why(format!("the code at {} met what it takes for impossible", said.place))
        .next("what was recorded before is safe; please report this line, with RUST_BACKTRACE=1 set if it happens again")
        .picture(picture)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "what is tested")]

    use super::*;

    #[test]
    fn cli_5_a_panic_is_an_error() {
        let error = guard::<()>(|| panic!("two\nlines")).unwrap_err();
        assert_eq!(error.code, "internal");
        assert_eq!(error.what, "a defect of waycairn itself: two; lines");
        assert!(error.why.unwrap().contains("panic.rs"));
        assert!(guard(|| Ok(())).is_ok());
        drop(panic::take_hook());
    }
}
