//! Node artifacts: named payloads and result files beside a node, written by a thread of their own.
//!
//! The payload and the node are captured at the call. The thread writes every file of a job under a hidden
//! name, syncs them all, renames them, and only then queues the one record that announces them. What a rename
//! replaces is kept under a hidden name until the record is queued, so a failure anywhere before that puts every
//! name back to what it meant. The states that a crash can leave:
//!
//! | it ended | then |
//! | --- | --- |
//! | before the first rename | hidden names, reaped by age; what was announced before is intact |
//! | among the renames, or before the record was durable | each file is whole; a payload or result file that was announced before may have its new bytes already, a name that no record announces is shown to nobody |
//!
//! So that a reader can tell which result files are announced, their record names them: see [`FILES`].

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io::Write as _;
use std::mem;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use waycairn_dag::Node;
use waycairn_durable::{Durability, Revocable, StagedFile, fault};

use crate::blob::{Blobs, PAYLOAD_SUFFIX, check_file_name, check_name};
use crate::error::StoreError;
use crate::field::{MAX_FIELD_NAME_BYTES, Scalar};
use crate::queue::{FULL_PATIENCE, Origin, Queue};
use crate::retry::{Failed, RetryPolicy, is_full, retry};
use crate::row::{Marks, check_fields};
use crate::schema::ARTIFACT_SEPARATOR;

/// Payloads that wait for the thread take at most this much memory, unless one alone is larger.
const MAX_WAITING_BYTES: usize = 256 * 1024 * 1024;

/// How long a call waits for room.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// What the field ends in that names the result files of a record, joined by [`ARTIFACT_SEPARATOR`]. It begins with
/// what the names of the files have before their first dot, by custom the name of the analysis.
pub(crate) const FILES: &str = "/result_files";

/// What the field ends in that tells which plugin attached something. A record with it says which result files it
/// announces even if there are none.
pub(crate) const PLUGIN: &str = "/plugin";

/// What an analysis leaves at a node: all of it is committed, or nothing changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attachment {
    /// Suffixes, each with its payload as MessagePack.
    pub artifacts: Vec<(String, Vec<u8>)>,
    /// Result files by their names in the blob folder, by custom `<analysis>.<name>.<extension>`. The record names
    /// them in the field `<analysis>/result_files`, which therefore cannot be among `fields`.
    pub files: Vec<(String, Vec<u8>)>,
    /// Fields of the record that announces them.
    pub fields: Vec<(String, Scalar)>,
}

/// One record's worth of files.
#[derive(Debug)]
pub(crate) struct Job {
    node: Node,
    files: Vec<(String, Vec<u8>)>,
    suffixes: Vec<String>,
    fields: Vec<(String, Scalar)>,
    reply: Option<SyncSender<Result<(), StoreError>>>,
}

impl Job {
    /// Checks an attachment and makes a job of it.
    ///
    /// # Errors
    /// [`StoreError::EntryName`], [`StoreError::Record`].
    pub(crate) fn new(node: &Node, attachment: Attachment) -> Result<Job, StoreError> {
        let Attachment { artifacts, files, fields } = attachment;
        let mut names = HashSet::new();
        let mut once = |what, name: &str| {
            let reason = "is attached twice; give each its own name".to_owned();
            if names.insert((what, name.to_owned())) {
                Ok(())
            } else {
                Err(StoreError::EntryName { what, name: name.to_owned(), reason })
            }
        };
        for (suffix, _) in &artifacts {
            check_name("suffix", suffix)?;
            once("suffix", suffix)?;
        }
        for (name, _) in &files {
            check_file_name(name)?;
            once("file", name)?;
        }
        let mut fields = fields;
        fields.extend(file_fields(&files, &fields));
        check_fields(&borrowed(&fields))?;
        let suffixes = artifacts.iter().map(|(suffix, _)| suffix.clone()).collect();
        let payloads = artifacts.into_iter().map(|(suffix, bytes)| (suffix + PAYLOAD_SUFFIX, bytes));
        Ok(Job { node: node.clone(), files: payloads.chain(files).collect(), suffixes, fields, reply: None })
    }

    fn bytes(&self) -> usize {
        self.files.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    fn title(&self) -> String {
        self.suffixes.first().or(self.files.first().map(|(name, _)| name)).cloned().unwrap_or_default()
    }
}

/// The artifact thread, started by the first job.
#[derive(Debug)]
pub(crate) struct Artifacts {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    blobs: Arc<Blobs>,
    queue: Arc<Queue>,
    retry: RetryPolicy,
    state: Mutex<State>,
    /// There is a job, or there will be none.
    work: Condvar,
    /// A job was taken or done.
    progress: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    waiting_bytes: usize,
    submitted: u64,
    done: u64,
    ended: bool,
    /// The thread is gone, and jobs will not be done.
    dead: bool,
    /// The disk is full, and what it said.
    stalled: Option<Arc<StoreError>>,
    /// Failures that no flush has reported.
    unreported: Failures,
    /// All failures.
    failures: Failures,
}

/// Jobs that failed when nobody waited for them.
#[derive(Clone, Debug, Default)]
struct Failures {
    count: u64,
    first: Option<(String, String, Arc<StoreError>)>,
}

impl Artifacts {
    pub(crate) fn new(blobs: Arc<Blobs>, queue: Arc<Queue>, retry: RetryPolicy) -> Artifacts {
        let shared = Shared {
            blobs,
            queue,
            retry,
            state: Mutex::default(),
            work: Condvar::new(),
            progress: Condvar::new(),
        };
        Artifacts { shared: Arc::new(shared), thread: Mutex::new(None) }
    }

    /// Leaves a job to the thread; a failure surfaces at the next flush and at close.
    pub(crate) fn submit(&self, job: Job) -> Result<(), StoreError> {
        self.start()?;
        let mut state = self.shared.lock();
        let start = Instant::now();
        let bytes = job.bytes();
        loop {
            if state.dead {
                return Err(StoreError::Thread { thread: "artifact" });
            }
            if state.ended {
                return Err(StoreError::Closed);
            }
            if state.jobs.is_empty() || state.waiting_bytes + bytes <= MAX_WAITING_BYTES {
                break;
            }
            let left = LONGEST_WAIT.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(StoreError::Behind { bytes: state.waiting_bytes, waited: LONGEST_WAIT });
            }
            (state, _) =
                self.shared.progress.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting_bytes += bytes;
        state.submitted += 1;
        state.jobs.push_back(job);
        self.shared.work.notify_one();
        Ok(())
    }

    /// Leaves a job to the thread, behind those before it, and waits until its files are durable and its
    /// record is queued.
    pub(crate) fn submit_and_wait(&self, mut job: Job) -> Result<(), StoreError> {
        let (reply, answer) = sync_channel(1);
        job.reply = Some(reply);
        self.submit(job)?;
        answer.recv().unwrap_or(Err(StoreError::Thread { thread: "artifact" }))
    }

    /// Waits until every job so far is done.
    ///
    /// # Errors
    /// [`StoreError::Artifacts`] for failures that were not reported before; [`StoreError::Full`] when the disk is full and
    /// stays so, and the jobs wait.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        let mut state = self.shared.lock();
        let target = state.submitted;
        let begin = Instant::now();
        while state.done < target && !state.dead {
            let Some(source) = &state.stalled else {
                state = self.shared.progress.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = FULL_PATIENCE.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Err(StoreError::Full { records: target - state.done, source: Arc::clone(source) });
            }
            (state, _) =
                self.shared.progress.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
        let dead = state.done < target;
        mem::take(&mut state.unreported).into_result()?;
        if dead { Err(StoreError::Thread { thread: "artifact" }) } else { Ok(()) }
    }

    /// Does the remaining jobs and ends the thread.
    pub(crate) fn end(&self) {
        self.shared.lock().ended = true;
        self.shared.work.notify_all();
        self.shared.progress.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the artifact thread ended unexpectedly");
        }
    }

    /// The failures of the store's whole life.
    ///
    /// # Errors
    /// [`StoreError::Artifacts`].
    pub(crate) fn outcome(&self) -> Result<(), StoreError> {
        let state = self.shared.lock();
        state.failures.clone().into_result()?;
        if state.done < state.submitted { Err(StoreError::Thread { thread: "artifact" }) } else { Ok(()) }
    }

    fn start(&self) -> Result<(), StoreError> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() && !self.shared.lock().ended {
            let shared = Arc::clone(&self.shared);
            let spawned =
                thread::Builder::new().name("waycairn-artifact".to_owned()).spawn(move || shared.run());
            *thread = Some(spawned.map_err(|source| StoreError::Spawn { thread: "artifact", source })?);
        }
        Ok(())
    }
}

impl Shared {
    fn run(&self) {
        let _guard = Guard(self);
        while let Some(mut job) = self.next_job() {
            let reply = job.reply.take();
            let result = self.write(&job, reply.is_some());
            if let Err(error) = &result {
                tracing::error!(node = %job.node, artifact = job.title(), error = %error, "artifact not written");
            }
            let mut state = self.lock();
            match (reply, result) {
                // The caller waits for the answer; if it has gone, the log has it.
                (Some(reply), result) => drop(reply.try_send(result)),
                (None, Ok(())) => {}
                (None, Err(error)) => {
                    let error = Arc::new(error);
                    state.unreported.add(&job, &error);
                    state.failures.add(&job, &error);
                }
            }
            state.done += 1;
            self.progress.notify_all();
        }
    }

    fn next_job(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state.waiting_bytes -= job.bytes();
                self.progress.notify_all();
                return Some(job);
            }
            if state.ended {
                return None;
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn write(&self, job: &Job, waited_for: bool) -> Result<(), StoreError> {
        let mut marks = Marks::default();
        let mut committed = Vec::new();
        if !job.files.is_empty() {
            committed =
                self.with_room(waited_for, || retry(&self.retry, thread::sleep, || self.commit_files(job)))?;
            marks.blob = true;
            marks.record = true;
        }
        if !job.suffixes.is_empty() {
            marks.artifact = Some(job.suffixes.join(ARTIFACT_SEPARATOR).into());
        }
        fault::point("store.artifact.record");
        let record =
            self.queue.push(&job.node, &borrowed(&job.fields), Some(Box::new(marks)), Origin::Artifact);
        if let Err(error) = record {
            // Nothing will announce these files.
            take_back(committed);
            return Err(error.into());
        }
        drop(committed);
        tracing::debug!(node = %job.node, artifact = job.title(), bytes = job.bytes(), "artifact committed");
        Ok(())
    }

    /// Tries again for as long as the disk is full and the store is not closing, or somebody waits: those have the patience of a
    /// flush.
    fn with_room<T>(
        &self,
        waited_for: bool,
        attempt: impl Fn() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let since = Instant::now();
        loop {
            let full = match attempt() {
                Err(error) if is_full(&error) => error,
                result => {
                    self.lock().stalled = None;
                    return result;
                }
            };
            let mut state = self.lock();
            if (state.ended || waited_for) && since.elapsed() >= FULL_PATIENCE {
                state.stalled = None;
                return Err(full);
            }
            if state.stalled.is_none() {
                tracing::warn!(error = %full, "the disk is full: artifacts wait until there is room");
            }
            state.stalled = Some(Arc::new(full));
            self.progress.notify_all();
            // Whoever waits, or ends the store, has less patience than a writer whose records are in memory.
            let pause = if state.ended || waited_for {
                self.retry.full.min(FULL_PATIENCE / 5)
            } else {
                self.retry.full
            };
            let ended = state.ended;
            drop(self.work.wait_timeout_while(state, pause, |state| state.ended == ended));
        }
    }

    /// Every file is durable under its hidden name before the first becomes visible. After an error every name means
    /// what it meant before.
    fn commit_files(&self, job: &Job) -> Result<Vec<Revocable>, Failed> {
        let stage = |folder: &std::path::Path| {
            let files = job.files.iter();
            files.map(|(name, _)| StagedFile::create(&folder.join(name), Durability::State)).collect()
        };
        let mut staged: Vec<StagedFile> = self.blobs.stage(&job.node, stage).map_err(Failed::claim)?;
        for (file, (_, bytes)) in staged.iter_mut().zip(&job.files) {
            let written = file.write_all(bytes).and_then(|()| file.file().sync_all());
            written.map_err(|source| {
                Failed::write(StoreError::Io { operation: "write", path: file.path().to_owned(), source })
            })?;
        }
        self.blobs.describe(&job.node).map_err(Failed::write)?;
        let mut committed = Vec::with_capacity(staged.len());
        for file in staged {
            fault::point("store.artifact.commit");
            match file.commit_revocable() {
                Ok(file) => committed.push(file),
                Err(error) => {
                    take_back(committed);
                    return Err(Failed::write(error));
                }
            }
        }
        Ok(committed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets waiting callers go when the thread ends, however it ends.
struct Guard<'a>(&'a Shared);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.dead = true;
        // Their reply channels close with them.
        state.jobs.clear();
        self.0.progress.notify_all();
    }
}

impl Failures {
    fn add(&mut self, job: &Job, error: &Arc<StoreError>) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some((job.title(), job.node.to_string(), Arc::clone(error)));
        }
    }

    fn into_result(self) -> Result<(), StoreError> {
        match self.first {
            None => Ok(()),
            Some((suffix, node, source)) => {
                Err(StoreError::Artifacts { failed: self.count, suffix, node, source })
            }
        }
    }
}

/// Puts names back to what they meant, the last one first. What cannot be put back is told: the error that made it
/// necessary is the one to return.
fn take_back(committed: Vec<Revocable>) {
    for file in committed.into_iter().rev() {
        if let Err(error) = file.revoke() {
            tracing::error!(error = %error, cause = ?error, "a file of an attachment that failed could not be put back");
        }
    }
}

/// The fields by which a record names its result files. What a plugin attached has one in any case, so that no file
/// is taken for one of its.
fn file_fields(files: &[(String, Vec<u8>)], fields: &[(String, Scalar)]) -> Vec<(String, Scalar)> {
    let mut lists: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, _) in fields {
        if let Some(analysis) = key.strip_suffix(PLUGIN)
            && analysis.len() + FILES.len() <= MAX_FIELD_NAME_BYTES
        {
            lists.entry(analysis).or_default();
        }
    }
    for (name, _) in files {
        let analysis = name.split_once('.').map_or(name.as_str(), |(analysis, _)| analysis);
        lists.entry(analysis).or_default().push(name);
    }
    let separator = ARTIFACT_SEPARATOR.to_string();
    let field = |(analysis, mut names): (&str, Vec<&str>)| {
        names.sort_unstable();
        (format!("{analysis}{FILES}"), Scalar::Text(names.join(&separator)))
    };
    lists.into_iter().map(field).collect()
}

fn borrowed(fields: &[(String, Scalar)]) -> Vec<(&str, Scalar)> {
    fields.iter().map(|(key, value)| (key.as_str(), value.clone())).collect()
}

#[cfg(test)]
mod tests;
