//! Which failures of a write are worth another try, and when.

use std::io;
use std::time::Duration;

use crate::error::StoreError;

/// `EIO` has no kind of its own in the standard library; its number is the same on every Unix.
const EIO: i32 = 5;

/// How long to wait before each further try.
#[derive(Clone, Debug)]
pub(crate) struct RetryPolicy {
    /// When the temporary file could not be claimed for want of permission: some network file systems
    /// refuse for a moment after a change of credentials.
    pub(crate) claim: Vec<Duration>,
    /// After an error that a disk or a network may get over.
    pub(crate) transient: Vec<Duration>,
    /// Between two tries while a disk is full, or a quota used up.
    pub(crate) full: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            claim: [1, 2, 4, 8].map(Duration::from_secs).to_vec(),
            transient: [250, 500, 1000].map(Duration::from_millis).to_vec(),
            full: Duration::from_secs(5),
        }
    }
}

/// Where a write failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// While the temporary file was created.
    Claim,
    /// Afterwards.
    Write,
}

/// A failed try.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) stage: Stage,
    pub(crate) error: StoreError,
}

impl Failed {
    pub(crate) fn claim(error: impl Into<StoreError>) -> Failed {
        Failed { stage: Stage::Claim, error: error.into() }
    }

    pub(crate) fn write(error: impl Into<StoreError>) -> Failed {
        Failed { stage: Stage::Write, error: error.into() }
    }
}

/// Tries until it succeeds or `policy` gives up; every wait goes through `sleep`.
///
/// # Errors
/// The error of the last try.
pub(crate) fn retry<T>(
    policy: &RetryPolicy,
    mut sleep: impl FnMut(Duration),
    mut attempt: impl FnMut() -> Result<T, Failed>,
) -> Result<T, StoreError> {
    let mut claim = policy.claim.iter();
    let mut transient = policy.transient.iter();
    loop {
        let failed = match attempt() {
            Ok(done) => return Ok(done),
            Err(failed) => failed,
        };
        let delay = match failed.error.io_cause() {
            Some(cause)
                if failed.stage == Stage::Claim && cause.kind() == io::ErrorKind::PermissionDenied =>
            {
                claim.next()
            }
            Some(cause) if is_transient(cause) => transient.next(),
            _ => None,
        };
        let Some(&delay) = delay else { return Err(failed.error) };
        tracing::warn!(error = %failed.error, delay_ms = delay.as_millis(), "a write failed and is tried again");
        sleep(delay);
    }
}

/// Whether there is no room on the disk: that may change, and what is queued is worth waiting for.
pub(crate) fn is_full(error: &StoreError) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    error.io_cause().is_some_and(|cause| matches!(cause.kind(), StorageFull | QuotaExceeded))
}

fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionReset, StaleNetworkFileHandle, TimedOut};
    matches!(error.kind(), ConnectionReset | StaleNetworkFileHandle | TimedOut)
        || error.raw_os_error() == Some(EIO)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn failed(stage: Stage, source: io::Error) -> Failed {
        Failed { stage, error: StoreError::Io { operation: "write", path: "x".into(), source } }
    }

    /// The waits in milliseconds before it succeeded, or gave up.
    fn waits(stage: Stage, error: impl Fn() -> io::Error, failures: usize) -> (Vec<u128>, bool) {
        let (mut waits, mut tries) = (Vec::new(), 0);
        let result = retry(
            &RetryPolicy::default(),
            |delay| waits.push(delay.as_millis()),
            || {
                tries += 1;
                if tries > failures { Ok(()) } else { Err(failed(stage, error())) }
            },
        );
        (waits, result.is_ok())
    }

    #[test]
    fn store_2_each_kind_of_failure_has_its_own_patience() {
        let permission = || io::Error::from(io::ErrorKind::PermissionDenied);
        assert_eq!(waits(Stage::Claim, permission, 2), (vec![1000, 2000], true));
        assert_eq!(waits(Stage::Claim, permission, 9), (vec![1000, 2000, 4000, 8000], false));
        assert_eq!(waits(Stage::Write, permission, 1), (vec![], false));
        for code in [5, 104, 110, 116] {
            let error = || io::Error::from_raw_os_error(code);
            assert_eq!(waits(Stage::Write, error, 9), (vec![250, 500, 1000], false), "{code}");
            assert_eq!(waits(Stage::Claim, error, 1), (vec![250], true), "{code}");
        }
        assert_eq!(waits(Stage::Claim, || io::ErrorKind::NotFound.into(), 1), (vec![], false));
    }
}
