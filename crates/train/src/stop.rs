//! Cooperative stop: a request, and the signals that make one.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use waycairn_store::ObjectStore;

/// The exit status of a process that an interrupt ended at once.
const INTERRUPTED: i32 = 130;

/// No signal was heard, and nothing is trained yet.
const IDLE: u8 = 0;
/// Training begins: a signal makes a request.
const TRAINING: u8 = 1;
/// A signal was heard before that: the process ends.
const ENDING: u8 = 2;

/// Asks a run to stop in good order: it saves a checkpoint of its last finished step, and returns.
///
/// It is looked for after each step, between the micro-batches of one, and between the batches of a validation. A step
/// or a validation that is not finished by then is given up, since it may take minutes: nothing of it is recorded, and
/// the run does it again, with equal bits, when it goes on. Clones share the request.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    requested: AtomicBool,
    /// One of [`IDLE`], [`TRAINING`] and [`ENDING`].
    phase: AtomicU8,
    /// The store to flush before the process ends at once.
    store: Mutex<Weak<ObjectStore>>,
}

impl Stop {
    /// Makes a request that nobody has made yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes one that SIGTERM, SIGHUP, SIGINT and SIGUSR1 make; a SIGHUP that the process was started to ignore,
    /// as `nohup` does, stays ignored.
    ///
    /// As long as no run has begun to train there is nothing to stop: settings are read, perhaps from a pipe that nobody
    /// writes to. The first signal then ends the process, with the status that `early` returns.
    ///
    /// `early`, and `announce` at the first SIGINT of a run, are called on threads of their own, so that they may write
    /// somewhere.
    ///
    /// A second SIGINT, or SIGUSR2, flushes what was recorded and ends the process at once with status 130; a third SIGINT
    /// ends it without waiting for the flush. SIGTERM and SIGUSR2 mean the same however often they come, so who starts
    /// several processes can pass a stop on without counting what the terminal has told them already.
    ///
    /// # Errors
    ///
    /// The system's error when it refuses the handlers.
    pub fn on_signals(
        early: impl FnOnce() -> i32 + Send + 'static,
        announce: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Self::new();
        let mut signals = Signals::new(Self::signals())?;
        signals.add_signal(SIGUSR2)?;
        let shared = Arc::clone(&stop.shared);
        std::thread::Builder::new().name("waycairn-signals".to_owned()).spawn(move || {
            let mut interrupts = 0_u32;
            let mut ending = false;
            let mut announce = Some(announce);
            let mut early = Some(early);
            for signal in signals.forever() {
                shared.requested.store(true, Ordering::SeqCst);
                interrupts += u32::from(signal == SIGINT);
                if shared.move_on(ENDING) {
                    if let Some(early) = early.take() {
                        std::thread::spawn(|| std::process::exit(early()));
                    }
                    continue;
                }
                if signal == SIGINT
                    && early.is_some()
                    && let Some(announce) = announce.take()
                {
                    // A place that takes nothing must not keep a second one from being heard.
                    std::thread::spawn(announce);
                }
                if interrupts > 2 {
                    std::process::exit(INTERRUPTED);
                }
                if ending || (signal != SIGUSR2 && interrupts < 2) {
                    continue;
                }
                ending = true;
                let shared = Arc::clone(&shared);
                // On its own thread, so that a third interrupt is heard while the disk is slow.
                std::thread::spawn(move || {
                    let store = shared.store.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
                    if let Some(store) = store
                        && let Err(error) = store.flush()
                    {
                        tracing::error!(%error, "records were lost");
                    }
                    std::process::exit(INTERRUPTED);
                });
            }
        })?;
        Ok(stop)
    }

    /// The signals that ask for a stop: SIGTERM, SIGINT, SIGUSR1, and SIGHUP where the process does not ignore it.
    #[must_use]
    pub fn signals() -> Vec<i32> {
        let mut signals = vec![SIGTERM, SIGINT, SIGUSR1];
        signals.extend((!ignores_hangup()).then_some(SIGHUP));
        signals
    }

    /// Makes the request.
    pub fn request(&self) {
        self.shared.requested.store(true, Ordering::SeqCst);
    }

    /// Whether somebody made the request.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.shared.requested.load(Ordering::SeqCst)
    }

    /// Says that training begins, as [`train`](crate::train) does before it writes anything, so that from now on a stop is one in good order. Where a signal was heard before, the
    /// process is about to end, and this waits for that.
    pub fn begin(&self) {
        if self.shared.move_on(TRAINING) || self.shared.phase.load(Ordering::SeqCst) == TRAINING {
            return;
        }
        loop {
            std::thread::park();
        }
    }

    /// Says which store holds records that must not be lost.
    pub(crate) fn guard(&self, store: &Arc<ObjectStore>) {
        *self.shared.store.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(store);
    }
}

impl Shared {
    /// Moves on from the phase before all others; `false` when that is over.
    fn move_on(&self, phase: u8) -> bool {
        self.phase.compare_exchange(IDLE, phase, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// Whether the process was started with SIGHUP ignored, where the system tells.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (SIGHUP - 1)) != 0)
}
