//! A training step of the preset `nanogpt-cpu`, beside an eager PyTorch loop of the same model on the same
//! threads, and with recording on and off.
//!
//! Questions: how long is a step, and how much slower does recording make it? Data set: the text named in
//! `WAYCAIRN_BENCH_TEXT` (default `../shared/data/tinyshakespeare.txt` beside the checkout; without one the
//! embedded text), two threads, no evaluation, one checkpoint at the end. Rival: `rivals/gpt.py`, over
//! `WAYCAIRN_BENCH_STEPS` steps (default 100).
//!
//! Recording on ("on": all values at every step) and off ("off": at the last step only) are compared in short
//! blocks that follow each other at once in this one process: `WAYCAIRN_BENCH_BLOCK` steps (default 5) of a launch
//! of its own, with equal settings and seed, so that both compute the same. The order within a pair of blocks is
//! the other one in each following pair, so that a drift of the machine falls on both, and a neighbour's burst
//! spoils one pair only. What a block takes is the time from the loss of its first step to the loss of the step
//! after its last: whole steps with everything between them, and nothing of the launch. The step before a block
//! warms up. The answer is the median over `WAYCAIRN_BENCH_PAIRS` pairs (default 60) of how much longer the block
//! with recording took, in percent, with its quartiles and the median absolute deviation. The share that
//! `time/record` reports of itself is printed beside it.
//!
//! What no block holds is the publishing of a part, which the writer's thread does every 30 seconds, beside the
//! steps. Last figures: see README.md, "Measures".
//!
//! Run: `cargo bench --package waycairn-benches --bench train`

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use burn::tensor::{Int, Tensor};
use waycairn_benches::{compare, quantile, run};
use waycairn_store::{ObjectReader, Scalar};
use waycairn_train::{
    Demand, Experiment, Experiments, Gpt, GptModel, Initial, Key, Preset, Settings, SettingsError, Stop,
    Tokens, TrainRequest, train,
};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const THREADS: usize = 2;

/// What a step spends its time on, as the trainer records it.
const TIMES: [&str; 4] = ["time/record", "time/data", "time/compute", "time/update"];

/// `gpt`, noting when each step comes to its loss.
struct Noted(Arc<Mutex<Vec<Instant>>>);

impl Experiment for Noted {
    type Model = GptModel;

    fn name(&self) -> &'static str {
        Gpt.name()
    }

    fn version(&self) -> &'static str {
        Gpt.version()
    }

    fn keys(&self) -> Vec<Key> {
        Gpt.keys()
    }

    fn presets(&self) -> Vec<Preset> {
        Gpt.presets()
    }

    fn build(
        &self,
        settings: &Settings,
        vocabulary: usize,
        initial: &Initial<'_>,
    ) -> Result<GptModel, SettingsError> {
        Gpt.build(settings, vocabulary, initial)
    }

    fn demand(&self, settings: &Settings, vocabulary: usize) -> Result<Demand, SettingsError> {
        Gpt.demand(settings, vocabulary)
    }

    fn forward(&self, model: &GptModel, tokens: Tensor<2, Int>) -> Tensor<3> {
        Gpt.forward(model, tokens)
    }

    fn loss(&self, model: &GptModel, batch: Tokens) -> Tensor<1> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        Gpt.loss(model, batch)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Recording {
    On,
    Off,
}

/// One block: milliseconds a step, and for each of its recorded steps the share that was recording.
fn block(recording: Recording, steps: u64, text: Option<&Path>) -> Outcome<(f64, Vec<f64>)> {
    let folder = tempfile::tempdir()?;
    let mut request = TrainRequest::new(folder.path().join("root"));
    request.preset = Some("nanogpt-cpu".to_owned());
    request.text = text.map(Path::to_path_buf);
    request.threads = Some(THREADS);
    request.device = "cpu".to_owned();
    // One step before the block warms up; the loss of the one after it ends the block, and its report comes later.
    let all = steps + 2;
    let report_every = if recording == Recording::On { 1 } else { all };
    for (path, value) in [
        ("steps", all.to_string()),
        ("report_every", report_every.to_string()),
        ("eval_every", "off".to_owned()),
        ("checkpoint_every", "off".to_owned()),
    ] {
        request.sets.push((path.to_owned(), value));
    }
    let noted = Arc::new(Mutex::default());
    let experiments = Experiments::new().with(Noted(Arc::clone(&noted)));
    train(&experiments, &request, &Stop::new(), &mut ())?;
    let rows = ObjectReader::open(&request.root)?.query().select(&TIMES)?.value;
    let shares = rows.iter().filter(|row| (1..=steps).contains(&row.node.seq())).filter_map(|row| {
        let [record, data, compute, update] = TIMES.map(|key| match row.fields.get(key) {
            Some(Scalar::Float(seconds)) => *seconds,
            _ => f64::NAN,
        });
        let share = record / (record + data + compute + update);
        share.is_finite().then_some(share)
    });
    let shares = shares.collect();
    let noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
    match noted.as_slice() {
        [_, first, .., last] if noted.len() as u64 == all => {
            Ok((1e3 * (*last - *first).as_secs_f64() / steps as f64, shares))
        }
        _ => Err(format!("{} steps came to their loss, {all} were expected", noted.len()).into()),
    }
}

fn count(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok().and_then(|text| text.parse().ok());
    given.filter(|count| *count > 0).unwrap_or(default)
}

fn main() -> Outcome<()> {
    let text = std::env::var("WAYCAIRN_BENCH_TEXT").map_or_else(
        |_| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/tinyshakespeare.txt"),
        PathBuf::from,
    );
    let text = text.is_file().then_some(text.as_path());
    if text.is_none() {
        println!("TEXT ABSENT: the embedded text is used, and PyTorch is not run");
    }
    let (steps, pairs) = (count("WAYCAIRN_BENCH_BLOCK", 5), count("WAYCAIRN_BENCH_PAIRS", 60));
    block(Recording::On, steps, text)?;
    let (mut on_ms, mut off_ms, mut slower, mut shares) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for pair in 0..pairs {
        let order = [Recording::On, Recording::Off];
        let order = if pair.is_multiple_of(2) { order } else { [order[1], order[0]] };
        let (mut on, mut off) = (f64::NAN, f64::NAN);
        for recording in order {
            let (ms, recorded) = block(recording, steps, text)?;
            match recording {
                Recording::On => {
                    on = ms;
                    shares.extend(recorded);
                }
                Recording::Off => off = ms,
            }
        }
        on_ms.push(on);
        off_ms.push(off);
        slower.push(100.0 * (on / off - 1.0));
    }
    let middle = |values: &[f64]| quantile(values, 0.5);
    let median = middle(&slower);
    let deviations: Vec<f64> = slower.iter().map(|percent| (percent - median).abs()).collect();
    let on = middle(&on_ms);
    println!("{pairs} pairs of blocks of {steps} steps");
    println!("recording on {on:.3} ms a step, off {:.3} ms (medians)", middle(&off_ms));
    println!(
        "with recording a block takes {median:+.2} % longer (median of the pairs; quartiles {:+.2} and {:+.2} %, \
         median absolute deviation {:.2} %)",
        quantile(&slower, 0.25),
        quantile(&slower, 0.75),
        middle(&deviations)
    );
    println!("time/record is {:.4} % of a step (median)", 100.0 * middle(&shares));
    let steps = count("WAYCAIRN_BENCH_STEPS", 100);
    let figures = text.map_or_else(Vec::new, |text| {
        run("gpt.py", [text.display().to_string(), steps.to_string(), THREADS.to_string()])
    });
    compare("training step", "ms", on, &figures);
    Ok(())
}
