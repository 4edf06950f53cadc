//! Waiting for the other end of a stream, and for what may happen meanwhile.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use waycairn_train::Stop;

/// Between two looks at what was asked for.
const PAUSE: Duration = Duration::from_millis(100);

/// Standard input, which ends when a stop is asked for. What nobody has read by then stays there.
pub(crate) struct UntilStop {
    input: File,
    stop: Stop,
}

impl UntilStop {
    /// # Errors
    /// The system's, when there is no standard input.
    pub(crate) fn new(stop: Stop) -> io::Result<Self> {
        let input = io::stdin().as_fd().try_clone_to_owned()?.into();
        Ok(Self { input, stop })
    }
}

impl Read for UntilStop {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let pause = Timespec::try_from(PAUSE).ok();
        while !self.stop.is_requested() {
            match poll(&mut [PollFd::new(&self.input, PollFlags::IN)], pause.as_ref()) {
                Ok(0) | Err(Errno::INTR) => {}
                // What cannot be waited for is read: that says why.
                Ok(_) | Err(_) => return self.input.read(bytes),
            }
        }
        Ok(0)
    }
}

/// Waits for so long, or until nobody reads standard output any more; says whether that is so.
pub(crate) fn nobody_reads_within(pause: Duration) -> bool {
    let begun = Instant::now();
    let out = io::stdout();
    let mut places = [PollFd::new(&out, PollFlags::empty())];
    let polled = poll(&mut places, Timespec::try_from(pause).ok().as_ref());
    if polled.is_ok() && places[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
        return true;
    }
    // It was interrupted, or there is nothing to wait for at such a place.
    std::thread::sleep(pause.saturating_sub(begun.elapsed()));
    false
}
