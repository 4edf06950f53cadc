//! Who launches in a root: workers of one launch share it, other launches are refused.
//!
//! ```text
//! locks/lease.lock       held for moments: who looks at the workers, joins them, or collects
//! locks/worker-N.lock    held by worker N as long as it lives
//! locks/worker-N.json    who worker N is, which settings it runs, and a number that it raises while it lives
//! ```
//!
//! A worker lives while its lock is held. Where a lock of another machine cannot be seen, it lives while its number
//! rises; that is watched with this machine's own stopwatch, so no clock has to agree with another, or to go evenly.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use waycairn_durable::{
    Digest, Durability, FileLock, Holder, LockError, create_dir_all, is_irregular, read_file, remove_file,
    write_file,
};

use crate::error::StudyError;
use crate::litter;

/// How long a launch waits for another that looks at the workers, or collects.
const WAIT: Duration = Duration::from_secs(600);

/// How often a worker says that it lives.
const BEAT: Duration = Duration::from_secs(5);

/// A worker whose number did not rise for so many beats is dead.
const MISSED: u32 = 4;

/// What a worker says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Worker {
    holder: Holder,
    /// The digest of the settings that it runs.
    settings: Digest,
    beat: u64,
}

/// A place among the workers of a root, held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    locks: PathBuf,
    number: u32,
    /// `None` where the file system has no locks.
    lock: Option<FileLock>,
    heart: Option<(Sender<()>, JoinHandle<()>)>,
    beat: Duration,
}

/// The right to collect: no other worker lives, and none can join.
#[derive(Debug)]
pub(crate) struct Alone {
    /// Let go before the lock that keeps others away.
    _lease: Lease,
    pub(crate) lock: FileLock,
}

impl Lease {
    /// Joins the workers of a root, if there are any, or is the first.
    ///
    /// # Errors
    ///
    /// [`StudyError::Busy`] while workers with other settings live.
    pub(crate) fn join(
        root: &Path,
        settings: Digest,
        announce: impl FnOnce(&Holder),
    ) -> Result<Self, StudyError> {
        Self::join_with(root, settings, BEAT, announce)
    }

    fn join_with(
        root: &Path,
        settings: Digest,
        beat: Duration,
        announce: impl FnOnce(&Holder),
    ) -> Result<Self, StudyError> {
        let locks = root.join("locks");
        create_dir_all(&locks)?;
        let _looking = looking(&locks, announce)?;
        let living = living(&locks, beat)?;
        if let Some(other) = living.values().find(|worker| worker.settings != settings) {
            return Err(StudyError::Busy { root: root.to_owned(), holder: other.holder.clone() });
        }
        let (number, lock) = place(&locks, &living)?;
        let worker = Worker { holder: Holder::current(), settings, beat: 0 };
        write(&locks, number, &worker)?;
        let heart = heart(locks.clone(), number, worker, beat);
        Ok(Self { locks, number, lock, heart: Some(heart), beat })
    }

    /// Leaves the workers. The last one gets the right to collect; `None` while another one lives, and where the file
    /// system has no locks. Workers leave one at a time, so one of them is the last.
    ///
    /// # Errors
    ///
    /// [`StudyError::Lock`], [`StudyError::Io`].
    pub(crate) fn leave(self, announce: impl FnOnce(&Holder)) -> Result<Option<Alone>, StudyError> {
        let Some(lock) = looking(&self.locks, announce)? else { return Ok(None) };
        let others = living(&self.locks, self.beat)?.into_keys().any(|number| number != self.number);
        if others {
            // While the lock is still held.
            drop(self);
            return Ok(None);
        }
        Ok(Some(Alone { _lease: self, lock }))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.heart.take() {
            drop(stop);
            if thread.join().is_err() {
                tracing::warn!("the thread that says that this worker lives has panicked");
            }
        }
        // The name goes before the lock: a worker with a free lock and a file is a dead one, which is no harm either.
        if let Err(error) = remove_file(&worker_file(&self.locks, self.number)) {
            tracing::warn!(%error, "the worker's file stays, and counts as a dead worker's");
        }
        self.lock = None;
    }
}

/// Takes the lock under which workers are looked at; `None` where the file system has no locks.
fn looking(locks: &Path, announce: impl FnOnce(&Holder)) -> Result<Option<FileLock>, StudyError> {
    match FileLock::acquire(&locks.join("lease.lock"), WAIT, announce) {
        Ok(lock) => Ok(Some(lock)),
        Err(error @ LockError::Unsupported { .. }) => {
            tracing::warn!(%error, "nothing keeps another launch away, and nothing is collected");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// The first place that nobody has.
fn place(locks: &Path, living: &BTreeMap<u32, Worker>) -> Result<(u32, Option<FileLock>), StudyError> {
    for number in 0.. {
        if living.contains_key(&number) {
            continue;
        }
        match FileLock::try_acquire(&worker_lock(locks, number)) {
            Ok(lock) => return Ok((number, Some(lock))),
            Err(LockError::Busy { .. }) => {}
            Err(LockError::Unsupported { .. }) => return Ok((number, None)),
            Err(error) => return Err(error.into()),
        }
    }
    // There are fewer than 2^32 processes.
    Err(StudyError::NotFound {
        what: "no place among the workers of the root is free".to_owned(),
        next: "end some of them".to_owned(),
    })
}

/// The workers that live. A file that says nothing is of a worker that is being made or was killed then; its lock says
/// whether it lives.
fn living(locks: &Path, beat: Duration) -> Result<BTreeMap<u32, Worker>, StudyError> {
    let here = Holder::current().host;
    let mut living = BTreeMap::new();
    let mut unseen = BTreeMap::new();
    for number in numbers(locks)? {
        let held = match FileLock::is_held(&worker_lock(locks, number)) {
            Err(LockError::Unsupported { .. }) => None,
            held => held?,
        };
        match (read(locks, number)?, held) {
            (Said::Nothing, _) | (Said::Garbled, None) => {}
            // It is being written, or was when the disk was full; the lock says that it lives.
            (Said::Garbled, Some(holder)) => {
                living.insert(number, Worker { holder, settings: Digest::of(b"unknown"), beat: 0 });
            }
            (Said::Worker(worker), Some(_)) if worker.holder.host == here => {
                living.insert(number, worker);
            }
            (Said::Worker(worker), None) if worker.holder.host == here => {}
            // A lock of another machine may be invisible here, or stay when that machine dies.
            (Said::Worker(worker), _) => {
                unseen.insert(number, worker);
            }
        }
    }

    // Asked one after the other, and each leaves as soon as its number rises.
    for _ in 0..MISSED {
        if unseen.is_empty() {
            break;
        }
        std::thread::sleep(beat);
        for number in unseen.keys().copied().collect::<Vec<_>>() {
            match read(locks, number)? {
                Said::Worker(now) if unseen.get(&number) != Some(&now) => {
                    unseen.remove(&number);
                    living.insert(number, now);
                }
                Said::Nothing => {
                    unseen.remove(&number);
                }
                Said::Worker(_) | Said::Garbled => {}
            }
        }
    }
    for (number, worker) in unseen {
        tracing::info!(holder = %worker.holder, "a worker is dead: it did not say for a while that it lives");
        // So that the next one who looks need not watch it again.
        if let Ok(_lock) = FileLock::try_acquire(&worker_lock(locks, number)) {
            remove_file(&worker_file(locks, number))?;
        }
    }

    Ok(living)
}

fn numbers(locks: &Path) -> Result<Vec<u32>, StudyError> {
    let io = |source| StudyError::Io { operation: "list", path: locks.to_owned(), source };
    let mut numbers = Vec::new();
    for entry in fs::read_dir(locks).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("worker-")?.strip_suffix(".json"));
        numbers.extend(number.and_then(|number| number.parse::<u32>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn worker_file(locks: &Path, number: u32) -> PathBuf {
    locks.join(format!("worker-{number}.json"))
}

fn worker_lock(locks: &Path, number: u32) -> PathBuf {
    locks.join(format!("worker-{number}.lock"))
}

/// What a worker's file says.
enum Said {
    /// There is none.
    Nothing,
    Worker(Worker),
    /// It cannot be understood.
    Garbled,
}

fn read(locks: &Path, number: u32) -> Result<Said, StudyError> {
    let path = worker_file(locks, number);
    match read_file(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Said::Nothing),
        Err(error) if is_irregular(&error) => Ok(Said::Garbled),
        Err(source) => Err(StudyError::Io { operation: "read", path, source }),
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).map_or(Said::Garbled, Said::Worker)),
    }
}

fn write(locks: &Path, number: u32, worker: &Worker) -> Result<(), StudyError> {
    let text = serde_json::to_string(worker)
        .map_err(|error| StudyError::Damaged { path: worker_file(locks, number), what: error.to_string() })?;
    litter::clear_file(&worker_file(locks, number))?;
    Ok(write_file(&worker_file(locks, number), text.as_bytes(), Durability::Regenerable)?)
}

/// Starts the thread that says that a worker lives, until its other end is dropped.
fn heart(locks: PathBuf, number: u32, mut worker: Worker, beat: Duration) -> (Sender<()>, JoinHandle<()>) {
    let (stop, stopped) = mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        while stopped.recv_timeout(beat) == Err(RecvTimeoutError::Timeout) {
            worker.beat += 1;
            if let Err(error) = write(&locks, number, &worker) {
                tracing::warn!(%error, "this worker could not say that it lives");
            }
        }
    });
    (stop, thread)
}

#[cfg(test)]
#[path = "lease/tests.rs"]
mod tests;
