//! The bounded queue between the callers and the writer thread.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use waycairn_dag::Node;
use waycairn_durable::time::now_nanos;

use crate::error::{RecordError, StoreError};
use crate::field::Scalar;
use crate::frame::FrameWriter;
use crate::recorded::Recorded;
use crate::row::{Marks, Rows};
use crate::stamp::WriteClock;

/// Most records in one batch, and therefore in the queue.
pub const MAX_BATCH_ROWS: usize = 65_536;

/// Most memory of one batch, and therefore of the queue: very wide records fill it before their number does.
pub(crate) const MAX_BATCH_BYTES: usize = 256 * 1024 * 1024;

/// A batch of this size goes out although it has few records.
const EARLY_BATCH_BYTES: usize = 64 * 1024 * 1024;

/// Records of the batch that is being published are added to a frame so many at a time.
const ENCODED_ROWS: usize = 256;

/// How often the journal looks for records before it sleeps until one wakes it.
const LOOKS: u32 = 10;

/// A larger buffer is given back to the allocator after its batch.
const KEPT_BYTES: usize = 32 * 1024 * 1024;

/// What a record does that finds the queue full.
///
/// The queue is full when the writer cannot keep up with [`MAX_BATCH_ROWS`] records beyond those that it is
/// writing. Records that carry a marker (a checkpoint, an artifact, the end of a run) are never dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits this long for room, ten seconds at most, and is refused with [`RecordError::Full`] afterwards.
    Block(Duration),
    /// It is dropped and counted; the reports of flush and close name the number.
    Drop,
}

impl Default for WhenFull {
    fn default() -> WhenFull {
        WhenFull::Block(LONGEST_WAIT)
    }
}

const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// When a batch goes out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// At this many records.
    pub(crate) batch_rows: usize,
    /// This long after the first of them.
    pub(crate) batch_deadline: Duration,
    /// Most records that wait.
    pub(crate) queue_rows: usize,
    pub(crate) when_full: WhenFull,
}

/// Who records; it decides what the queue does with the record when it is full or closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A caller's values.
    Value,
    /// A caller's marker for bytes that are durable: never dropped.
    Marker,
    /// A marker of the store's own artifact thread: never dropped, and accepted while the store closes.
    Artifact,
}

/// Totals since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) published: u64,
    pub(crate) dropped: u64,
}

/// How long a flush or a close waits for a disk that is full.
pub(crate) const FULL_PATIENCE: Duration = Duration::from_secs(5);

/// What the writer publishes at once.
#[derive(Debug)]
pub(crate) struct QueuedBatch {
    /// The journal's segment that holds what is journaled of it.
    pub(crate) segment: u64,
    pub(crate) rows: Arc<Rows>,
}

/// Where frames belong that were written for the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Journaled {
    pub(crate) segment: u64,
    /// The count of accepted records that they reach up to.
    pub(crate) until: u64,
}

/// The queue. Its one lock is held to copy a record in, to take the whole buffer out, or to copy a few
/// records for the journal, and never during I/O. It is taken after no other lock of the store.
#[derive(Debug)]
pub(crate) struct Queue {
    limits: Limits,
    state: Mutex<State>,
    /// The writer took the buffer, or nothing will be taken any more.
    room: Condvar,
    /// There is a reason to write.
    work: Condvar,
    /// A batch became durable, or none will.
    done: Condvar,
    /// The journal has something to write, or will have nothing any more.
    journal: Condvar,
    /// The journal is woken by every record.
    eager: bool,
}

#[derive(Debug)]
struct State {
    rows: Rows,
    spare: Rows,
    /// What the writer is publishing, and the count of accepted records before it.
    in_flight: Option<(u64, Arc<Rows>)>,
    /// The segment of the records that wait: the number of batches that went out.
    segment: u64,
    /// How many of the accepted records are in the journal, or in parts.
    journaled: u64,
    /// The journal waits until there is something.
    journal_sleeps: bool,
    journal_ends: bool,
    /// When the oldest queued record came.
    first_at: Option<Instant>,
    clock: WriteClock,
    recorded: Recorded,
    accepted: u64,
    totals: Totals,
    /// A flush wants everything up to this count of accepted records.
    flush_to: u64,
    phase: Phase,
    /// Since when the disk is full, and what it said.
    stalled: Option<(Instant, Arc<StoreError>)>,
    failure: Option<Failure>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Open,
    /// Callers are refused; the artifact thread still records.
    Draining,
    /// Everyone is refused; the writer empties the queue and stops.
    Ending,
}

#[derive(Clone, Debug)]
struct Failure {
    unwritten: u64,
    /// Those among them that the journal holds.
    journaled: u64,
    source: Arc<StoreError>,
}

impl Queue {
    /// With `eager`, every record wakes the journal.
    pub(crate) fn new(limits: Limits, eager: bool) -> Queue {
        let queue_rows = limits.queue_rows.clamp(1, MAX_BATCH_ROWS);
        let batch_rows = limits.batch_rows.clamp(1, queue_rows);
        let state = State {
            rows: Rows::default(),
            spare: Rows::default(),
            in_flight: None,
            segment: 0,
            journaled: 0,
            journal_sleeps: false,
            journal_ends: false,
            first_at: None,
            clock: WriteClock::default(),
            recorded: Recorded::default(),
            accepted: 0,
            totals: Totals::default(),
            flush_to: 0,
            phase: Phase::Open,
            stalled: None,
            failure: None,
        };
        Queue {
            limits: Limits { queue_rows, batch_rows, ..limits },
            state: Mutex::new(state),
            room: Condvar::new(),
            work: Condvar::new(),
            done: Condvar::new(),
            journal: Condvar::new(),
            eager,
        }
    }

    /// Accepts a record: its identity, fields and place in the order of writes are fixed here.
    ///
    /// # Errors
    /// As [`RecordError`] says; nothing was queued then.
    #[inline]
    pub(crate) fn push(
        &self,
        node: &Node,
        fields: &[(&str, Scalar)],
        marks: Option<Box<Marks>>,
        origin: Origin,
    ) -> Result<(), RecordError> {
        let mut state = self.lock();
        if !state.admits(origin, &self.limits) {
            match self.wait_for_room(state, origin)? {
                Some(admitted) => state = admitted,
                None => return Ok(()),
            }
        }
        let write = state.clock.next(now_nanos());
        state.rows.push(node, write, fields, marks)?;
        state.recorded.insert(node);
        state.accepted += 1;
        let queued = state.rows.len();
        if queued == 1 {
            // The writer looks at the queue at least once per deadline, so it need not be woken for this.
            state.first_at = Some(Instant::now());
        }
        if queued == self.limits.batch_rows || state.is_heavy() {
            self.work.notify_one();
        }
        if self.eager || state.journal_sleeps {
            state.journal_sleeps = false;
            self.journal.notify_one();
        }
        Ok(())
    }

    /// Whether this queue ever accepted a record of the node.
    pub(crate) fn has_recorded(&self, node: &Node) -> bool {
        self.lock().recorded.contains(node)
    }

    /// Whether a marker would be accepted now; asked before bytes are committed that need one.
    ///
    /// # Errors
    /// [`StoreError::Closed`], [`StoreError::Failed`].
    pub(crate) fn check_open(&self) -> Result<(), StoreError> {
        let state = self.lock();
        match &state.failure {
            Some(failure) => Err(failure.to_store_error()),
            None if state.phase > Phase::Open => Err(StoreError::Closed),
            None => Ok(()),
        }
    }

    /// Waits until everything accepted before is durable and visible.
    ///
    /// # Errors
    /// [`StoreError::Failed`]; [`StoreError::Full`] when the disk is full and stays so, and the store goes on.
    pub(crate) fn flush(&self) -> Result<Totals, StoreError> {
        let begin = Instant::now();
        let mut state = self.lock();
        let target = state.accepted;
        state.flush_to = state.flush_to.max(target);
        self.work.notify_one();
        loop {
            if let Some(failure) = &state.failure {
                return Err(failure.to_store_error());
            }
            if state.totals.published >= target {
                return Ok(state.totals);
            }
            let Some((_, source)) = &state.stalled else {
                state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = FULL_PATIENCE.saturating_sub(begin.elapsed());
            if left.is_zero() {
                let records = state.accepted - state.totals.published;
                return Err(StoreError::Full { records, source: Arc::clone(source) });
            }
            (state, _) = self.done.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The disk is full: waits until the next try is due. For the writer alone.
    ///
    /// # Errors
    /// What the disk said, when the store closes and has waited for long.
    pub(crate) fn stall(&self, source: StoreError, pause: Duration) -> Result<(), StoreError> {
        let mut state = self.lock();
        let since = match &state.stalled {
            Some((since, _)) => *since,
            None => {
                tracing::warn!(
                    error = %source,
                    cause = source.io_cause().map(tracing::field::display),
                    records = state.accepted - state.totals.published,
                    "the disk is full: records wait until there is room"
                );
                Instant::now()
            }
        };
        let closes = state.phase == Phase::Ending;
        if closes && since.elapsed() >= FULL_PATIENCE {
            return Err(source);
        }
        state.stalled = Some((since, Arc::new(source)));
        // A flush that waits learns of it, and looks at its own patience.
        self.done.notify_all();
        if closes {
            drop(state);
            std::thread::sleep(pause.min(FULL_PATIENCE / 5));
        } else {
            // A close does not wait for the end of the pause.
            drop(self.work.wait_timeout_while(state, pause, |state| state.phase != Phase::Ending));
        }
        Ok(())
    }

    /// Refuses callers from now on; the artifact thread may still record.
    pub(crate) fn drain(&self) {
        self.enter(Phase::Draining);
    }

    /// Refuses everyone from now on; the writer empties the queue and gets no more.
    pub(crate) fn end(&self) {
        self.enter(Phase::Ending);
    }

    /// Counts of the store's life, or the failure that ended it.
    ///
    /// # Errors
    /// [`StoreError::Failed`].
    pub(crate) fn totals(&self) -> Result<Totals, StoreError> {
        let state = self.lock();
        match &state.failure {
            Some(failure) => Err(failure.to_store_error()),
            None => Ok(state.totals),
        }
    }

    /// How many records were dropped since the store was opened.
    pub(crate) fn dropped(&self) -> u64 {
        self.lock().totals.dropped
    }

    /// Waits for the next batch; `None` when the queue ended and is empty. For the writer alone.
    pub(crate) fn next_batch(&self) -> Option<QueuedBatch> {
        let mut state = self.lock();
        loop {
            let queued = state.rows.len();
            let due = state.first_at.map(|first| self.limits.batch_deadline.saturating_sub(first.elapsed()));
            let ending = state.phase == Phase::Ending;
            let wanted = state.flush_to > state.accepted - queued as u64;
            let full = queued >= self.limits.batch_rows || state.is_heavy();
            if queued > 0 && (full || wanted || ending || due == Some(Duration::ZERO)) {
                state.first_at = None;
                let empty = std::mem::take(&mut state.spare);
                let rows = Arc::new(std::mem::replace(&mut state.rows, empty));
                let segment = state.segment;
                state.segment += 1;
                state.in_flight = Some((state.accepted - queued as u64, Arc::clone(&rows)));
                self.room.notify_all();
                return Some(QueuedBatch { segment, rows });
            }
            if ending {
                return None;
            }
            let wait = due.unwrap_or(self.limits.batch_deadline);
            (state, _) = self.work.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes note that a batch is durable and visible, and takes its buffer back.
    pub(crate) fn written(&self, batch: QueuedBatch) {
        let records = batch.rows.len() as u64;
        let mut state = self.lock();
        state.totals.published += records;
        if state.stalled.take().is_some() {
            tracing::info!("there is room on the disk again");
        }
        if let Some((before, _)) = state.in_flight.take() {
            state.journaled = state.journaled.max(before + records);
        }
        self.done.notify_all();
        drop(state);
        // The journal may be reading it still; then its memory goes with that.
        if let Ok(mut rows) = Arc::try_unwrap(batch.rows)
            && rows.bytes() <= KEPT_BYTES
        {
            rows.clear();
            self.lock().spare = rows;
        }
    }

    /// Waits until records have waited for the journal for up to `interval`; false when there will be none any more.
    /// At the latest after `idle` it returns too. For the journal alone.
    ///
    /// As long as records keep coming it looks for them by itself: to wake it takes a caller a hundred times as long as to
    /// record. Only after a pause it sleeps until one does.
    pub(crate) fn wait_for_records(&self, interval: Duration, idle: Duration) -> bool {
        let mut state = self.lock();
        if !interval.is_zero() && interval * LOOKS <= idle {
            for _ in 0..LOOKS {
                (state, _) = self
                    .journal
                    .wait_timeout_while(state, interval, |state| !state.journal_ends)
                    .unwrap_or_else(PoisonError::into_inner);
                if state.journal_ends || state.has_unjournaled() {
                    return !state.journal_ends;
                }
            }
        }
        if !state.journal_ends && !state.has_unjournaled() {
            state.journal_sleeps = true;
            (state, _) = self
                .journal
                .wait_timeout_while(state, idle, |state| !state.journal_ends && !state.has_unjournaled())
                .unwrap_or_else(PoisonError::into_inner);
            state.journal_sleeps = false;
        }
        if !state.journal_ends && !interval.is_zero() && state.has_unjournaled() {
            (state, _) = self
                .journal
                .wait_timeout_while(state, interval, |state| !state.journal_ends)
                .unwrap_or_else(PoisonError::into_inner);
        }
        !state.journal_ends
    }

    /// Encodes records that are in no segment yet as a frame, oldest first, until it has `enough` bytes; `None` when there are
    /// none. The lock is held
    /// while a few records are copied, for about a microsecond, for which a caller spins, and not while they are encoded:
    /// a caller that had to be woken would wait a hundred times as long.
    ///
    /// # Errors
    /// [`StoreError::Journal`].
    pub(crate) fn not_journaled(
        &self,
        frames: &mut Vec<u8>,
        enough: usize,
    ) -> Result<Option<Journaled>, StoreError> {
        frames.clear();
        let (mut frame, mut copy) = (FrameWriter::default(), Rows::default());
        let mut done: Option<Journaled> = None;
        while frame.bytes() < enough {
            let Some(next) = self.encode_some(&mut frame, &mut copy, done)? else { break };
            done = Some(next);
        }
        frame.finish(frames).map_err(|source| StoreError::Journal { source })?;
        Ok(done)
    }

    /// Adds the records that follow those in a frame, as far as they belong to its segment.
    fn encode_some(
        &self,
        frame: &mut FrameWriter,
        copy: &mut Rows,
        so_far: Option<Journaled>,
    ) -> Result<Option<Journaled>, StoreError> {
        let failed = |source| StoreError::Journal { source };
        let state = self.lock();
        let journaled = so_far.map_or(state.journaled, |so_far| so_far.until);
        let place = |before: u64| usize::try_from(journaled.saturating_sub(before)).unwrap_or(usize::MAX);
        let fits = |segment| so_far.is_none_or(|so_far| so_far.segment == segment);
        if let Some((before, rows)) = &state.in_flight
            && journaled < before + rows.len() as u64
        {
            let (before, rows, segment) = (*before, Arc::clone(rows), state.segment.saturating_sub(1));
            drop(state);
            if !fits(segment) {
                return Ok(None);
            }
            let end = rows.len().min(place(before).saturating_add(ENCODED_ROWS));
            frame.add(&rows, place(before)..end).map_err(failed)?;
            return Ok(Some(Journaled { segment, until: before + end as u64 }));
        }
        let before = state.accepted - state.rows.len() as u64;
        let from = place(before);
        if from >= state.rows.len() || !fits(state.segment) {
            return Ok(None);
        }
        let copied = copy.copy_some(&state.rows, from);
        let next = Journaled { segment: state.segment, until: before + (from + copied) as u64 };
        drop(state);
        frame.add(copy, 0..copied).map_err(failed)?;
        Ok(Some(next))
    }

    /// Takes note of how many of the accepted records are in the journal.
    pub(crate) fn journaled(&self, until: u64) {
        let mut state = self.lock();
        state.journaled = state.journaled.max(until);
    }

    /// How many records are neither in the journal nor in parts.
    #[cfg(test)]
    pub(crate) fn unjournaled(&self) -> u64 {
        let state = self.lock();
        state.accepted - state.journaled
    }

    /// Nothing more will be written to the journal.
    pub(crate) fn end_journal(&self) {
        self.lock().journal_ends = true;
        self.journal.notify_all();
    }

    /// Ends the store with a failure: `unwritten` records of the current batch are in no part, and neither
    /// are those that wait. Some of them may be in the journal.
    pub(crate) fn fail(&self, source: StoreError, unwritten: u64) {
        let mut state = self.lock();
        if state.failure.is_none() {
            let unwritten = unwritten + state.rows.len() as u64;
            let published = state.accepted.saturating_sub(unwritten);
            let journaled = state.journaled.saturating_sub(published);
            state.failure = Some(Failure { unwritten, journaled, source: Arc::new(source) });
        }
        state.in_flight = None;
        state.rows = Rows::default();
        state.first_at = None;
        self.room.notify_all();
        self.done.notify_all();
        self.work.notify_all();
    }

    fn enter(&self, phase: Phase) {
        let mut state = self.lock();
        state.phase = state.phase.max(phase);
        self.work.notify_all();
        self.room.notify_all();
    }

    /// `Some` with the lock when there is room, `None` when the record is dropped.
    #[cold]
    fn wait_for_room<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        origin: Origin,
    ) -> Result<Option<MutexGuard<'a, State>>, RecordError> {
        let limit = match self.limits.when_full {
            WhenFull::Block(limit) => limit.min(LONGEST_WAIT),
            WhenFull::Drop => LONGEST_WAIT,
        };
        let drops = origin == Origin::Value && self.limits.when_full == WhenFull::Drop;
        let start = Instant::now();
        loop {
            if let Some(failure) = &state.failure {
                return Err(failure.to_record_error());
            }
            if !state.accepts(origin) {
                return Err(RecordError::Closed);
            }
            if state.has_room(&self.limits) {
                return Ok(Some(state));
            }
            if drops {
                state.totals.dropped += 1;
                return Ok(None);
            }
            let left = limit.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(RecordError::Full { waited: limit, records: state.rows.len() as u64 });
            }
            self.work.notify_one();
            (state, _) = self.room.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A panic under this lock leaves nothing half-done that matters, so a poisoned lock is taken as it is.
    #[inline]
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_unjournaled(&self) -> bool {
        self.failure.is_none()
            && self.journaled < self.accepted
            && (self.in_flight.is_some() || self.rows.len() > 0)
    }

    #[inline]
    fn admits(&self, origin: Origin, limits: &Limits) -> bool {
        self.failure.is_none() && self.accepts(origin) && self.has_room(limits)
    }

    #[inline]
    fn accepts(&self, origin: Origin) -> bool {
        match self.phase {
            Phase::Open => true,
            Phase::Draining => origin == Origin::Artifact,
            Phase::Ending => false,
        }
    }

    #[inline]
    fn has_room(&self, limits: &Limits) -> bool {
        self.rows.len() < limits.queue_rows && self.rows.bytes() < MAX_BATCH_BYTES
    }

    #[inline]
    fn is_heavy(&self) -> bool {
        self.rows.bytes() >= EARLY_BATCH_BYTES
    }
}

impl Failure {
    fn to_record_error(&self) -> RecordError {
        let Failure { unwritten, journaled, ref source } = *self;
        RecordError::Failed { unwritten, journaled, source: Arc::clone(source) }
    }

    fn to_store_error(&self) -> StoreError {
        let Failure { unwritten, journaled, ref source } = *self;
        StoreError::Failed { unwritten, journaled, source: Arc::clone(source) }
    }
}

#[cfg(test)]
mod tests;
