//! What is seen during long work, a training for one: one line that moves on a terminal, plain lines elsewhere.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use waycairn_train::{Event, Progress, Stop};

use crate::error::Exit;
use crate::number::{self, plural};
use crate::table::printable;
use crate::terminal::Terminal;

/// Plain lines come at most so often; a log of a long run is read, not watched.
const PAUSE: Duration = Duration::from_secs(2);

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

/// Listens for signals that ask for a stop. What is said about one is for whoever started this process at a terminal: a
/// launcher with several workers says it once for all of them.
pub(crate) fn listen(launched: bool) -> io::Result<Stop> {
    let say = |line: &str| drop(LogWriter.write_all(line.as_bytes()));
    let early = move || {
        // The status says it too.
        say(if launched {
            "stopped before anything was trained\n"
        } else {
            "stopped before anything was trained; the same command begins again\n"
        });
        Exit::Stopped as i32
    };
    let stopping = move || {
        if !launched {
            say("stopping after this micro-batch; a second Ctrl-C stops at once, without a checkpoint\n");
        }
    };
    Stop::on_signals(early, stopping)
}

/// The last losses that a run reported, each with its step.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) loss: Option<(u64, f64)>,
    pub(crate) validation: Option<(u64, f64)>,
}

/// How far some work is that counts its steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work<'a> {
    /// What is done: `building position_losses`. Another one begins anew.
    pub(crate) label: &'a str,
    /// What is counted, and how it is written.
    pub(crate) unit: Unit<'a>,
    /// How much is done.
    pub(crate) done: u64,
    /// Of how much; 0 where that is not known.
    pub(crate) total: u64,
    /// What else is to be said.
    pub(crate) more: Option<&'a str>,
}

/// What work counts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unit<'a> {
    /// Steps, in the words of whoever does them.
    Named(&'a str),
    /// Bytes.
    Bytes,
}

impl Work<'_> {
    /// The count: `16/40 rows`.
    fn count(&self) -> String {
        let written = |count: u64| match self.unit {
            Unit::Named(_) => grouped(count),
            Unit::Bytes => number::bytes(count),
        };
        let of = if self.total > 0 { format!("/{}", written(self.total)) } else { String::new() };
        let name = match self.unit {
            Unit::Named(name) if !name.is_empty() => format!(" {}", printable(name)),
            _ => String::new(),
        };
        let more = self.more.map(|more| format!(", {more}")).unwrap_or_default();
        format!("{}{of}{name}{more}", written(self.done))
    }

    /// Rate and time left, since `first` was done `elapsed` ago; nothing before something was done.
    fn pace(&self, first: u64, elapsed: Duration) -> String {
        let (done, seconds) = (self.done.saturating_sub(first), elapsed.as_secs_f64());
        if done == 0 || seconds <= 0.0 {
            return String::new();
        }
        let rate = done as f64 / seconds;
        let rate_text = match self.unit {
            Unit::Bytes => format!("{}/s", number::bytes(rate as u64)),
            Unit::Named(_) if rate >= 100.0 => format!("{}/s", grouped(rate.round() as u64)),
            Unit::Named(_) => format!("{rate:.1}/s"),
        };
        let left = self.total.saturating_sub(self.done);
        if left == 0 {
            return format!("  {rate_text}");
        }
        let span = Duration::try_from_secs_f64(left as f64 / rate).unwrap_or(Duration::MAX);
        format!("  {rate_text}  {} left", number::span(span))
    }
}

/// Work that is shown now.
struct Shown {
    label: String,
    began: Instant,
    first: u64,
}

/// Shows the events of a run on standard error.
pub(crate) struct Watch {
    seen: Seen,
    /// Where a moving line can be shown, and whether in colour.
    live: Option<bool>,
    bar: Option<ProgressBar>,
    last_line: Option<Instant>,
    work: Option<Shown>,
}

impl Watch {
    /// Watches in the way that the terminal allows.
    pub(crate) fn new(terminal: &Terminal) -> Self {
        let live = terminal.live.then(|| terminal.colourful());
        Self { seen: Seen::default(), live, bar: None, last_line: None, work: None }
    }

    /// Takes the moving line away and returns what was seen last.
    pub(crate) fn end(mut self) -> Seen {
        self.clear();
        self.seen
    }

    fn clear(&mut self) {
        self.work = None;
        LIVE.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Says a line that stays. Nobody may be reading, which is no reason to stop training.
    fn say(&self, line: &str) {
        drop(LogWriter.write_all(format!("{line}\n").as_bytes()));
    }

    /// Says a line of what stands above single runs.
    pub(crate) fn heading(&mut self, line: &str) {
        self.clear();
        self.last_line = None;
        self.say(line);
    }

    fn begin(&mut self, done: u64, steps: u64) {
        self.show(done, steps, "step {pos}/{len}  {msg}");
    }

    /// Shows how far some work is: a bar that moves, or now and then a line, the first one at once.
    pub(crate) fn work(&mut self, work: &Work<'_>) {
        if self.work.as_ref().is_none_or(|shown| shown.label != work.label) {
            self.clear();
            self.last_line = None;
            self.show(work.done, work.total, "{msg}");
            let label = work.label.to_owned();
            self.work = Some(Shown { label, began: Instant::now(), first: work.done });
        }
        let Some(shown) = &self.work else { return };
        let pace = work.pace(shown.first, shown.began.elapsed());
        let line = format!("{}: {}{pace}", printable(work.label), work.count());
        if let Some(bar) = &self.bar {
            bar.set_length(work.total.max(1));
            bar.set_position(work.done);
            bar.set_message(line);
        } else if self.last_line.is_none_or(|last| last.elapsed() >= PAUSE) {
            self.last_line = Some(Instant::now());
            self.say(&line);
        }
    }

    fn show(&mut self, done: u64, steps: u64, text: &str) {
        let Some(colour) = self.live else { return };
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr_with_hz(8));
        let shades = if colour { "{bar:24.cyan/dim}" } else { "{bar:24}" };
        let style = ProgressStyle::with_template(&format!("{shades} {text}"));
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        bar.set_position(done);
        *LIVE.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
        self.bar = Some(bar);
    }
}

impl Progress for Watch {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { node, done, steps, parameters, device } => {
                let from = if *done == 0 { String::new() } else { format!(", going on after step {done}") };
                let parameters = grouped(*parameters as u64);
                let node = printable(&node.to_string());
                self.say(&format!(
                    "training {node}, {}, {parameters} parameters, on {device}{from}",
                    plural(*steps, "step")
                ));
                self.begin(*done, *steps);
            }
            Event::Step { step, steps, loss, rate, unit, left, skipped, .. } => {
                self.seen.loss = Some((*step, *loss));
                let rest =
                    if step < steps { format!("  {} left", number::span(*left)) } else { String::new() };
                let rate = grouped(rate.round().max(0.0) as u64);
                let left_out = if *skipped > 0 { format!("  {skipped} skipped") } else { String::new() };
                let said = format!("loss {}  {rate} {unit}/s{left_out}{rest}", number::float(*loss));
                if let Some(bar) = &self.bar {
                    bar.set_position(*step);
                    bar.set_message(said);
                } else if step == steps || self.last_line.is_none_or(|last| last.elapsed() >= PAUSE) {
                    self.last_line = Some(Instant::now());
                    self.say(&format!("step {step}/{steps}  {said}"));
                }
            }
            Event::Validation { step, loss, .. } => {
                self.seen.validation = Some((*step, *loss));
                self.say(&format!("step {step}  validation loss {}", number::float(*loss)));
            }
            Event::Saved { node, bytes } => {
                tracing::info!(node = %node, bytes = %number::bytes(*bytes), "checkpoint saved");
            }
            Event::Notice(text) => self.say(&format!("note: {}", printable(text))),
            _ => {}
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A count with its thousands apart: `12,345`.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use waycairn_dag::Node;

    use super::*;

    #[test]
    fn thousands_stand_apart() {
        for (count, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(count), text);
        }
    }

    #[test]
    fn work_is_told_with_rate_and_time_left() {
        let work = |unit, done, total| Work { label: "building scores", unit, done, total, more: None };
        let told = |work: &Work<'_>, first, seconds| {
            format!("{}: {}{}", work.label, work.count(), work.pace(first, Duration::from_secs(seconds)))
        };
        let rows = Unit::Named("rows");
        assert_eq!(told(&work(rows, 0, 40), 0, 0), "building scores: 0/40 rows");
        assert_eq!(told(&work(rows, 16, 40), 0, 8), "building scores: 16/40 rows  2.0/s  12s left");
        assert_eq!(told(&work(rows, 16, 40), 12, 8), "building scores: 16/40 rows  0.5/s  48s left");
        assert_eq!(told(&work(rows, 40, 40), 0, 8), "building scores: 40/40 rows  5.0/s");
        assert_eq!(told(&work(rows, 12_000, 0), 0, 8), "building scores: 12,000 rows  1,500/s");
        assert_eq!(told(&work(Unit::Named(""), 3, 4), 3, 8), "building scores: 3/4");
        let some = Work { more: Some("1 of 3 files"), ..work(Unit::Bytes, 1_000_000, 5_000_000) };
        assert_eq!(told(&some, 0, 2), "building scores: 1.00 MB/5.00 MB, 1 of 3 files  500 kB/s  8s left");
    }

    #[test]
    fn the_last_losses_are_kept() {
        let node = Node::new("a", "0123456789abcdef", 0).unwrap();
        let mut watch = Watch::new(&Terminal::plain());
        watch.event(&Event::Step {
            node: &node,
            step: 1,
            steps: 1,
            loss: 2.0,
            unit: "tokens",
            rate: 1.0,
            skipped: 0,
            left: Duration::ZERO,
        });
        watch.event(&Event::Validation { node: &node, step: 1, loss: 3.0 });
        assert_eq!(watch.end(), Seen { loss: Some((1, 2.0)), validation: Some((1, 3.0)) });
    }
}
