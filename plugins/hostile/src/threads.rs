//! What the library was told of threads, and a metric that says it.

use std::sync::{Mutex, PoisonError};

use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration, Needs};

/// What the library panics at when it is told.
const TOO_MANY: usize = 1_000_000;

static TOLD: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Takes the number of threads down.
#[expect(clippy::panic, reason = "what it is for")]
pub(crate) fn told(number: usize) {
    if number == TOO_MANY {
        panic!("{number} threads are too many");
    }
    TOLD.lock().unwrap_or_else(PoisonError::into_inner).push(number);
}

/// Answers the numbers of threads that the library was told, each time that it was.
#[derive(Debug, Default)]
pub struct Threads;

impl Analysis for Threads {
    fn declare() -> Declaration {
        Declaration::new("threads", "1.0.0", "the numbers of threads that the library was told")
            .metric()
            .needs(Needs::default())
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        context.emit_metric(&*TOLD.lock().unwrap_or_else(PoisonError::into_inner))?;
        Ok(())
    }
}
