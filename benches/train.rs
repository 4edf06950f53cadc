//! A training step of the preset `nanogpt-cpu`, beside an eager PyTorch loop of the same model on the same
//! threads, and with recording on and off.
//!
//! Questions: how long is a step, and how much of it is recording? Data set: the text named in
//! `WAYCAIRN_BENCH_TEXT` (default `../shared/data/tinyshakespeare.txt` beside the checkout; without one the
//! embedded text). `WAYCAIRN_BENCH_STEPS` steps (default 100) on two threads, no evaluation, one checkpoint at
//! the end. Rival: `rivals/gpt.py`. "On" records ten values at every step, "off" only at the last; the two are
//! run in turn so that a drift of the machine falls on both, and the share that `time/record` itself reports
//! is printed beside them. Last figures: see README.md, "Measures".
//!
//! Run: `cargo bench --package waycairn-benches --bench train`

use std::path::{Path, PathBuf};

use waycairn_benches::{compare, median, run};
use waycairn_store::{ObjectReader, Scalar};
use waycairn_train::{Event, Experiments, Gpt, Stop, TrainRequest, train};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const THREADS: usize = 2;

/// What one run says of itself: milliseconds a step between the first report and the last, and the share of it
/// that was recording.
struct Timed {
    step_ms: f64,
    record_share: f64,
}

fn timed(text: Option<&Path>, steps: u64, report_every: u64) -> Outcome<Timed> {
    let folder = tempfile::tempdir()?;
    let mut request = TrainRequest::new(folder.path().join("root"));
    request.preset = Some("nanogpt-cpu".to_owned());
    request.text = text.map(Path::to_path_buf);
    request.threads = Some(THREADS);
    request.device = "cpu".to_owned();
    for (path, value) in [
        ("steps", steps.to_string()),
        ("report_every", report_every.to_string()),
        ("eval_every", "off".to_owned()),
        ("checkpoint_every", "off".to_owned()),
    ] {
        request.sets.push((path.to_owned(), value));
    }
    let experiments = Experiments::new().with(Gpt);
    let mut begun = None;
    let mut ended = None;
    let report = train(&experiments, &request, &Stop::new(), &mut |event: &Event<'_>| match event {
        Event::Started { .. } => begun = Some(std::time::Instant::now()),
        Event::Step { step, .. } if *step == steps => ended = Some(std::time::Instant::now()),
        _ => {}
    })?;
    let seconds = ended.zip(begun).map_or(f64::NAN, |(end, begin)| (end - begin).as_secs_f64());
    let node = ObjectReader::open(&request.root)?.node(&report.node)?.ok_or("the last node was recorded")?;
    let field = |key: &str| match node.fields.get(key) {
        Some(Scalar::Float(value)) => *value,
        _ => f64::NAN,
    };
    let whole = field("time/data") + field("time/compute") + field("time/update") + field("time/record");
    Ok(Timed { step_ms: 1e3 * seconds / steps as f64, record_share: field("time/record") / whole })
}

fn main() -> Outcome<()> {
    let steps: u64 =
        std::env::var("WAYCAIRN_BENCH_STEPS").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let text = std::env::var("WAYCAIRN_BENCH_TEXT").map_or_else(
        |_| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/tinyshakespeare.txt"),
        PathBuf::from,
    );
    let text = text.is_file().then_some(text.as_path());
    if text.is_none() {
        println!("TEXT ABSENT: the embedded text is used, and PyTorch is not run");
    }
    timed(text, steps.min(20), 1)?;
    let (mut on, mut off, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..3 {
        let with = timed(text, steps, 1)?;
        on.push(with.step_ms);
        shares.push(with.record_share);
        off.push(timed(text, steps, steps)?.step_ms);
    }
    let middle = |values: &mut Vec<f64>| {
        let mut next = values.drain(..);
        median(3, || next.next().unwrap_or(f64::NAN))
    };
    let (on, off, share) = (middle(&mut on), middle(&mut off), middle(&mut shares));
    println!("recording on {on:.3} ms a step, off {off:.3} ms: {:+.2} %", 100.0 * (on / off - 1.0));
    println!("time/record is {:.4} % of a step", 100.0 * share);
    let figures = text.map_or_else(Vec::new, |text| {
        run("gpt.py", [text.display().to_string(), steps.to_string(), THREADS.to_string()])
    });
    compare("training step", "ms", on, &figures);
    Ok(())
}
