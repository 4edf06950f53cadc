//! The ranges of a plan on several threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::query::QueryError;
use crate::query::block::Block;
use crate::query::fault::Fault;
use crate::query::merge::Merge;
use crate::query::plan::FoldPlan;

/// How many threads a question may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Threads(pub(crate) usize);

/// The number of threads that the machine runs at once.
pub(crate) fn threads() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Folds all ranges of a plan. `each` sees the blocks of one range in their order, together with what it makes
/// of the range, and returns how many rows that has so far; the results come in the order of the identities.
///
/// With a `limit`, a range ends when it has that many rows, and ranges behind it are left out.
///
/// # Errors
/// The first [`Fault`] of any range.
pub(crate) fn fold_ranges<R: Default + Send>(
    plan: &Arc<FoldPlan>,
    threads: Threads,
    limit: Option<usize>,
    each: impl Fn(&Block, &mut R) -> Result<usize, Fault> + Sync,
) -> Result<Vec<R>, Fault> {
    let ranges = plan.ranges();
    let enough = AtomicUsize::new(usize::MAX);
    let failed = AtomicBool::new(false);
    let fold = |range: usize| -> Result<R, Fault> {
        let mut result = R::default();
        let mut merge = Merge::new(plan, range);
        while !failed.load(Ordering::Relaxed) && range <= enough.load(Ordering::Relaxed) {
            let Some(block) = merge.next_block()? else { break };
            let rows = each(&block, &mut result)?;
            if limit.is_some_and(|limit| rows >= limit) {
                enough.fetch_min(range, Ordering::Relaxed);
                break;
            }
        }
        Ok(result)
    };
    let workers = threads.0.min(ranges);
    if workers <= 1 {
        return (0..ranges).map(fold).collect();
    }
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Result<R, Fault>>>> = Mutex::new((0..ranges).map(|_| None).collect());
    let work = || {
        loop {
            let range = next.fetch_add(1, Ordering::Relaxed);
            if range >= ranges {
                return;
            }
            let result = fold(range);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(place) = results.get_mut(range) {
                *place = Some(result);
            }
        }
    };
    let panicked = thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(work)).collect();
        work();
        others.into_iter().find_map(|worker| worker.join().err())
    });
    if let Some(panic) = panicked {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        return Err(lost(text.unwrap_or_default()));
    }
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    // The first fault, not a range that ended because of one elsewhere.
    let mut answers = Vec::with_capacity(ranges);
    let mut fault = None;
    for result in results {
        match result {
            Some(Ok(answer)) => answers.push(answer),
            Some(Err(error)) => fault = fault.or(Some(error)),
            None => fault = fault.or_else(|| Some(lost("a range has no result".to_owned()))),
        }
    }
    fault.map_or(Ok(answers), Err)
}

pub(crate) fn lost(what: String) -> Fault {
    Fault::Error(QueryError::Thread { what })
}
