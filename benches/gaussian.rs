//! The Gaussian ratio-estimation study: scores of ensembles, training, and the whole default study.
//!
//! Questions: how many evaluations of the default network a second do ensemble scores make, beside PyTorch and beside what
//! the machine's matrix products reach? How many rows a second are trained on? What does the default study take, stage by
//! stage, beside what its plan says, and how much memory? Each of them on one thread and on all.
//!
//! Data: `scores` has the default shape (perceptron 4 x 64, relu; dimension 1, 15 observations a case, 16,384 candidates,
//! `WAYCAIRN_BENCH_CASES` cases, default 24), `train` the experiment `nre` with its default settings in dimension 1 with the
//! uniform prior (70,000 pairs in batches of 128, 5 epochs), with all that belongs to a run: a record of each step, a
//! validation and a checkpoint each epoch. `study` is what `waycairn init gaussian` writes, profile `one`: four
//! priors, dimension 1, 1,024 truths, all metrics and plots (another profile: `WAYCAIRN_BENCH_PROFILE`, as `smoke`).
//!
//! Rival: `rivals/nre.py`, the same arithmetic in PyTorch on as many threads. It stays up and is asked in turn with ours,
//! `WAYCAIRN_BENCH_ROUNDS` times (default 9); scores must agree to 1e-4. It has the better of two block sizes for scores, and
//! the better of two optimizers for training (plain and fused); it writes no record and no checkpoint.
//!
//! Times are by the clock, and in a second line in seconds of the processor: these say the same on a machine with other work,
//! on one thread. The machine's matrix rate is the best that `matrixmultiply`, the fastest kernel that is at hand, came to in every
//! thread; that of PyTorch's own kernel (MKL, where that is built in) stands beside it.
//!
//! The study needs the plugin's library: `WAYCAIRN_BENCH_GAUSSIAN_PLUGIN`, default `libwaycairn_gaussian_study.so` in the
//! folder of release builds. Build it first: `cargo build --release --package waycairn-gaussian-study`.
//!
//! Run: `cargo bench --package waycairn-benches --bench gaussian`, and with ` -- scores`, `train` or `study` one part alone
//!
//! What was learned, on two cores of an AMD EPYC with AVX-512:
//!
//! - Scores in one loop for product, bias and function: 9.74 million evaluations a second on one thread, 243 GFLOP/s: 104 % of
//!   the best that `matrixmultiply` makes, 4.9 and 2.6 times PyTorch's rate (65,536 rows; 2,048). Two threads: 18.9 million, 471
//!   GFLOP/s, 101 %, 5.2 and 2.9 times. The loop has to be compiled as one unit: cut apart it makes 30 GFLOP/s.
//!
//! What was learned before that loop, on two cores of a Xeon with AVX-512 (scores and training on a quiet machine, the study
//! beside other work):
//!
//! - Scores, one thread: 4.26 million evaluations a second, 106 GFLOP/s: 71 % of the best that the kernel makes of one layer's
//!   product alone (149), 63 % of MKL's squares (169). Two threads: 7.7 million, 192 GFLOP/s, 69 % of the kernel's 279.
//! - PyTorch's rate depends on its blocks: at the 65,536 rows of the study's settings activations leave the cache, and ours is
//!   2.5 times that (two threads: 2.4); at 2,048 rows it is 1.64 times (two threads: 1.9). The rest of the way is in the passes over
//!   activations: they are bound by the cache, and compiled for wider vectors they were no faster (those of tanh 1.8 times). Beside
//!   other work PyTorch loses more than ours does: then the first was 3.6 to 4.0 times.
//! - Training: 233,000 rows a second, 1.8 times PyTorch with its fused Adam and 3.1 times with the plain one (two threads: 240,000;
//!   1.9 and 3.1). A step of 128 rows is 278 us of forward and backward pass, 101 us of update, 23 us of recording and 11 us of
//!   gathering. Two fifths of a step went into moments below the normal floats before these were made zero: updates took 97 us in
//!   the first epoch and 340 us in the last. That is why the medians of both epochs are printed.
//! - The study, since calibration has candidates of its own and the plugin keeps to its threads, on a quiet machine: one thread
//!   200 s by the clock and as much of the processor (scores 159 s, 4.74 million evaluations a second; calibration 21, inference
//!   7.4, four trainings 4.7), all threads 129 s (95, 12.8, 5.1, 6.6); 208 MiB. Before that, beside other work:
//! - The study, on what was told to be one thread: 397 s, of which ensemble scores 157 s (4.8 million evaluations a second), the scores of the
//!   calibration 209 s (as many evaluations: with the 2,048 candidates of the default it is an eighth), the four trainings 9.5 s,
//!   summaries 6.5 s, metrics, plots and records 7.8 s. At most 209 MiB are held, the mapped scores of a member (128 MiB) among
//!   them. What is planned is what was evaluated, and the bytes to the headers of files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ShapeBuilder as _};
use waycairn_analysis_host::{Discovery, stream};
use waycairn_benches::{Figure, Rival, compare, medians, peak, quantile};
use waycairn_gaussian::settings::{ParametersSettings, PriorDefinitions, ProblemSettings};
use waycairn_gaussian::{
    Activation, Linear, Network, Pairs, Prior, Problem, SplitSizes, TrainingData, uniform,
};
use waycairn_store::{ObjectReader, Scalar};
use waycairn_study::{
    AnalysisSettings, LaunchOptions, ProductReport, Stages, Starter, StudyEvent, TRAINING_FILE, Training,
    init, launch,
};
use waycairn_train::{Event, Experiments, Gpt, Nre, Stop, TrainRequest, experiments, train, use_threads};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The default network: what goes in, between and out.
const WIDTHS: [usize; 6] = [2, 64, 64, 64, 64, 1];
const OBSERVATIONS: usize = 15;
const CANDIDATES: usize = 16_384;

/// Rows that the default training goes over: five epochs.
const ROWS: f64 = 5.0 * 70_000.0;

/// Products that say what the machine can do, as rows, inner length and columns: large squares, and that of one layer for one
/// block of rows.
const PRODUCTS: [[usize; 3]; 2] = [[1024, 1024, 1024], [waycairn_gaussian::ROWS, 65, 64]];

/// Floating-point operations of one measure of these, and of the rival's.
const OPERATIONS: f64 = 16.0 * 2.0 * (1 << 30) as f64;

/// What of a step is recorded as its time.
const TIMES: [&str; 4] = ["time/data", "time/compute", "time/update", "time/record"];

/// Steps of the default training.
const STEPS: u64 = 2_735;

const PARTS: [&str; 3] = ["scores", "train", "study"];

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    if let [of, part, threads] = words.as_slice()
        && of == "of"
    {
        let threads = threads.parse()?;
        use_threads(Some(threads))?;
        return match part.as_str() {
            "scores" => scores(threads),
            "train" => training(threads),
            _ => study(threads),
        };
    }
    let all = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    for part in PARTS.iter().filter(|part| words.is_empty() || words.iter().any(|word| word == *part)) {
        for threads in if all == 1 { vec![1] } else { vec![1, all] } {
            println!("\n{part}, {threads} of {all} threads");
            // A process has one number of threads, and a peak of memory of its own.
            let arguments = ["of", part, &threads.to_string()];
            let status = Command::new(std::env::current_exe()?).args(arguments).status()?;
            if !status.success() {
                return Err(format!("{part} on {threads} threads ended with {status}").into());
            }
        }
    }
    Ok(())
}

/// Seconds that some work took: by the clock, and of the processor in all threads of this process.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    clock: f64,
    processor: f64,
}

impl Spent {
    fn on<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<(Self, T)> {
        let (begin, processor) = (Instant::now(), processor()?);
        let done = work()?;
        Ok((Self { clock: begin.elapsed().as_secs_f64(), processor: self::processor()? - processor }, done))
    }
}

/// Seconds that this process has computed so far.
fn processor() -> Outcome<f64> {
    let text = fs::read_to_string("/proc/self/stat")?;
    // After the name in parentheses, which may hold blanks: user and system time, in ticks of a hundredth of a second.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    Ok((ticks(11).unwrap_or(f64::NAN) + ticks(12).unwrap_or(f64::NAN)) / 100.0)
}

fn count(name: &str, default: usize) -> usize {
    let given = std::env::var(name).ok().and_then(|text| text.parse().ok());
    given.filter(|count| *count > 0).unwrap_or(default)
}

/// Prints ours beside the rival's, by the clock and by the processor: `unit` is what a second is multiplied with.
fn beside(case: &str, (unit, factor): (&str, f64), ours: &[Spent], rounds: &[Vec<Figure>]) {
    let scaled = |figure: Figure| Figure { value: figure.value * factor, ..figure };
    let figures: Vec<Figure> = medians(rounds).into_iter().map(scaled).collect();
    for (case, of) in [(case.to_owned(), clock as fn(&Spent) -> f64), (format!("{case}, processor"), cpu)] {
        compare(&case, unit, factor * middle(ours, of), &figures);
        for figure in figures.iter().filter(|figure| figure.case == case) {
            let same = |other: &&Figure| (&other.rival, &other.case) == (&figure.rival, &figure.case);
            let of_round =
                |round: &Vec<Figure>| round.iter().find(same).map_or(f64::NAN, |figure| figure.value);
            let ratios: Vec<f64> =
                rounds.iter().zip(ours).map(|(round, ours)| of_round(round) / of(ours)).collect();
            println!(
                "{case:<28} {:.2} times the rate of {} (median of {} rounds; quartiles {:.2} and {:.2})",
                quantile(&ratios, 0.5),
                figure.rival,
                ratios.len(),
                quantile(&ratios, 0.25),
                quantile(&ratios, 0.75)
            );
        }
    }
}

fn clock(spent: &Spent) -> f64 {
    spent.clock
}

fn cpu(spent: &Spent) -> f64 {
    spent.processor
}

fn middle(all: &[Spent], of: fn(&Spent) -> f64) -> f64 {
    quantile(&all.iter().map(of).collect::<Vec<_>>(), 0.5)
}

/// Writes numbers for the rival.
fn put(folder: &Path, name: &str, values: &[f32]) -> Outcome<()> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Ok(fs::write(folder.join(name), bytes)?)
}

fn rival(part: &str, folder: &Path, threads: usize) -> Option<Rival> {
    Rival::start("nre.py", [part.to_owned(), folder.display().to_string(), threads.to_string()])
}

/// Numbers between two bounds.
fn numbers(name: &str, count: usize, low: f64, high: f64) -> Vec<f32> {
    let mut stream = stream(0, name, None);
    (0..count).map(|_| (low + (high - low) * uniform(&mut stream)) as f32).collect()
}

fn scores(threads: usize) -> Outcome<()> {
    let (cases, rounds) = (count("WAYCAIRN_BENCH_CASES", 24), count("WAYCAIRN_BENCH_ROUNDS", 9));
    let layers: Vec<(Vec<f32>, Vec<f32>)> = WIDTHS
        .windows(2)
        .enumerate()
        .map(|(index, widths)| {
            let (bound, outputs) = (1.0 / (widths[0] as f64).sqrt(), widths[1]);
            let own = |what: &str, count| numbers(&format!("{what}-{index}"), count, -bound, bound);
            (own("weight", widths[0] * outputs), own("bias", outputs))
        })
        .collect();
    let linear: Vec<Linear<'_>> = layers.iter().map(|(weight, bias)| Linear { weight, bias }).collect();
    let network = Network::mlp(1, 1, Activation::Relu, &linear)?;
    let x = numbers("observations", cases * OBSERVATIONS, 0.0, 10.0);
    let theta = numbers("candidates", CANDIDATES, 0.0, 10.0);

    let folder = tempfile::tempdir()?;
    let weights: Vec<f32> =
        layers.iter().flat_map(|(weight, bias)| [weight, bias]).flatten().copied().collect();
    put(folder.path(), "weights.f32", &weights)?;
    put(folder.path(), "observations.f32", &x)?;
    put(folder.path(), "theta.f32", &theta)?;
    let mut rival = rival("scores", folder.path(), threads);

    let mut out = vec![0.0; cases * CANDIDATES];
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut kernel = PRODUCTS.map(|_| Vec::new());
    // The first round warms up, and says whether both compute the same.
    for round in 0..=rounds {
        let (spent, ()) = Spent::on(|| {
            let points = network.points(&theta)?;
            Ok(network.ensemble_scores(&x, OBSERVATIONS, &points, &mut out)?)
        })?;
        for (all, shape) in kernel.iter_mut().zip(PRODUCTS) {
            let (Spent { clock, processor }, operations) = Spent::on(|| Ok(products(shape)))?;
            all.push(Spent { clock: clock / operations, processor: processor / operations });
        }
        let figures = rival.as_mut().map(Rival::ask).unwrap_or_default();
        if round == 0 {
            if !figures.is_empty() {
                agree(&out, &folder.path().join("scores.f64"))?;
            }
            continue;
        }
        ours.push(spent);
        theirs.push(figures);
    }
    theirs.retain(|figures| !figures.is_empty());
    let evaluations = (cases * CANDIDATES * OBSERVATIONS) as f64;
    println!(
        "{cases} cases of {OBSERVATIONS} observations, {CANDIDATES} candidates: {evaluations} evaluations"
    );
    beside("scores", ("ns", 1e9 / evaluations), &ours, &theirs);
    let operations = 2.0 * evaluations * network.multiply_adds() as f64;
    // Seconds of the processor are of all threads together.
    for (name, of, share) in [("clock", clock as fn(&Spent) -> f64, 1.0), ("processor", cpu, threads as f64)]
    {
        let rate = share * operations / middle(&ours, of) / 1e9;
        println!(
            "by the {name}: {:.2} million evaluations a second, {rate:.1} GFLOP/s",
            1e3 * rate / 2.0 / network.multiply_adds() as f64
        );
        // The best of the rounds, since it is what the machine can do.
        let best =
            |seconds: &mut dyn Iterator<Item = f64>| share / seconds.fold(f64::INFINITY, f64::min) / 1e9;
        for (all, [rows, inner, columns]) in kernel.iter().zip(PRODUCTS) {
            let most = best(&mut all.iter().map(of));
            println!(
                "by the {name}: products [{rows}, {inner}] x [{inner}, {columns}] of its kernel at best {most:.1} GFLOP/s: \
                 scores are at {:.0} % (limit 60 %)",
                100.0 * rate / most
            );
        }
        let case = if name == "clock" { "products" } else { "products, processor" };
        let own = theirs.iter().flatten().filter(|figure| figure.case == case);
        let most = best(&mut own.map(|figure| figure.value / OPERATIONS));
        if !theirs.is_empty() {
            println!(
                "by the {name}: square products of PyTorch at best {most:.1} GFLOP/s: scores are at {:.0} %",
                100.0 * rate / most
            );
        }
    }
    Ok(())
}

/// Multiplies matrices in every thread at once, for about as many operations in each; says how many that were.
fn products([rows, inner, columns]: [usize; 3]) -> f64 {
    let done = rayon::broadcast(|_| {
        let left = Array2::from_elem((rows, inner).f(), 0.5_f32);
        let right = Array2::from_elem((inner, columns), 0.25_f32);
        let mut out = Array2::zeros((rows, columns).f());
        let one = 2.0 * (rows * inner * columns) as f64;
        let count = (OPERATIONS / one) as usize;
        for _ in 0..count {
            general_mat_mul(1.0, &left, &right, 0.0, &mut out);
        }
        assert!(out[[0, 0]] > 0.0);
        one * count as f64
    });
    done.iter().sum()
}

/// Whether the rival's scores are ours, to 1e-4 of their size.
fn agree(ours: &[f64], file: &Path) -> Outcome<()> {
    let bytes = fs::read(file)?;
    let theirs = bytes.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes));
    if bytes.len() != 8 * ours.len() {
        return Err("the rival has other scores than were asked for".into());
    }
    // A sum of logits of both signs may be near 0; its size is then that of the others.
    let size = ours.iter().map(|score| score.abs()).sum::<f64>() / ours.len() as f64;
    let gap = |(ours, theirs): (&f64, f64)| (ours - theirs).abs() / ours.abs().max(size);
    let largest = ours.iter().zip(theirs).map(gap).fold(0.0, f64::max);
    println!("scores differ by at most {largest:.1e}");
    if largest < 1e-4 { Ok(()) } else { Err("the rival's scores are not ours".into()) }
}

/// The pairs that the experiment trains on and validates with.
fn pairs() -> Outcome<TrainingData> {
    let (problem, parameters) = (ProblemSettings::default(), ParametersSettings::default());
    let resolved = Problem::resolve(&problem, &parameters)?;
    let definitions = PriorDefinitions::default();
    let prior = Prior::resolve("uniform", definitions.get("uniform")?, &problem, &parameters, &resolved)?;
    let sizes = SplitSizes { train: 70_000, validation: 15_000, test: 0 };
    Ok(TrainingData::draw(&resolved, &prior, sizes, |of| stream(0, of, Some("uniform")))?)
}

fn known() -> Experiments {
    experiments![Gpt].with_rows(Nre)
}

/// One training of ours.
struct Trained {
    /// What it took from its start to the end of its launch.
    spent: Spent,
    /// What each step recorded of itself.
    steps: Vec<(u64, [f64; 4])>,
    /// Loss, accuracy and AUC of the last validation.
    validated: Vec<String>,
}

fn trained(threads: usize) -> Outcome<Trained> {
    let folder = tempfile::tempdir()?;
    let mut request = TrainRequest::new(folder.path().join("root"));
    request.experiment = Some("nre".to_owned());
    request.threads = Some(threads);
    let own = [("problem.dimension", "1"), ("prior", "uniform"), ("seed", "0")];
    request.sets = own.map(|(path, value)| (path.to_owned(), value.to_owned())).into();
    // Before it, the data are drawn, as the rival's are.
    let mut begin = None;
    let mut progress = |event: &Event<'_>| {
        if matches!(event, Event::Started { .. }) {
            begin = Some((Instant::now(), processor().unwrap_or(f64::NAN)));
        }
    };
    let report = train(&known(), &request, &Stop::new(), &mut progress)?;
    let (clock, before) = begin.ok_or("the training did not start")?;
    let spent = Spent { clock: clock.elapsed().as_secs_f64(), processor: processor()? - before };
    let reader = ObjectReader::open(&request.root)?;
    let number = |field: Option<&Scalar>| match field {
        Some(Scalar::Float(value)) => *value,
        _ => f64::NAN,
    };
    let rows = reader.query().select(&TIMES)?.value;
    let steps =
        rows.iter().map(|row| (row.node.seq(), TIMES.map(|key| number(row.fields.get(key))))).collect();
    let last = reader.node(&report.node)?.map(|view| view.fields).unwrap_or_default();
    let figures = ["val/loss", "val/accuracy", "val/auc"];
    let validated = figures.map(|key| format!("{key} {:.4}", number(last.get(key)))).into();
    Ok(Trained { spent, steps, validated })
}

fn training(threads: usize) -> Outcome<()> {
    let (data, folder) = (pairs()?, tempfile::tempdir()?);
    for (split, Pairs { x, theta, label, .. }) in [("train", &data.train), ("validation", &data.validation)] {
        for (name, values) in [("x", x), ("theta", theta), ("y", label)] {
            put(folder.path(), &format!("{split}-{name}.f32"), values)?;
        }
    }
    let mut rival = rival("train", folder.path(), threads);
    let (mut ours, mut theirs, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..count("WAYCAIRN_BENCH_ROUNDS", 9).div_ceil(2) {
        let trained = trained(threads)?;
        if ours.is_empty() {
            println!("  waycairn: {}", trained.validated.join(", "));
        }
        ours.push(trained.spent);
        steps.extend(trained.steps);
        theirs.extend(rival.as_mut().map(Rival::ask).filter(|figures| !figures.is_empty()));
    }
    beside("training", ("us a row", 1e6 / ROWS), &ours, &theirs);
    println!(
        "by the clock: {:.0} rows a second; by the processor {:.0}",
        ROWS / middle(&ours, clock),
        ROWS / middle(&ours, cpu)
    );
    for (at, name) in TIMES.iter().enumerate() {
        let of = |from: u64, to: u64| -> Vec<f64> {
            let some = steps.iter().filter(|(step, _)| (from..to).contains(step));
            some.map(|(_, times)| 1e6 * times[at]).filter(|time| time.is_finite()).collect()
        };
        let (all, fifth) = (of(0, STEPS), STEPS / 5);
        println!(
            "{name:<14} {:>8.1} us a step (median; mean {:.1}; medians of the first and last epoch {:.1} and {:.1})",
            quantile(&all, 0.5),
            all.iter().sum::<f64>() / all.len() as f64,
            quantile(&of(0, fifth), 0.5),
            quantile(&of(STEPS - fifth, STEPS), 0.5)
        );
    }
    Ok(())
}

/// Where the study's plugin is.
fn plugin() -> Outcome<PathBuf> {
    let name =
        format!("{}waycairn_gaussian_study{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let program = std::env::current_exe()?;
    // Benchmarks stand in `deps`, in the folder of libraries.
    let beside = program.ancestors().nth(2).map(|folder| folder.join(name)).unwrap_or_default();
    Ok(std::env::var("WAYCAIRN_BENCH_GAUSSIAN_PLUGIN").map_or(beside, PathBuf::from))
}

fn study(threads: usize) -> Outcome<()> {
    let plugin = plugin()?;
    if !plugin.is_file() {
        println!("STUDY SKIPPED: no plugin `{}`; see WAYCAIRN_BENCH_GAUSSIAN_PLUGIN", plugin.display());
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    init(folder.path(), Starter::Gaussian, &plugin)?;
    // As many threads as are asked for, and nothing else changed.
    let (path, one) = (folder.path().join(TRAINING_FILE), "cpu_threads = 1\n");
    let text = fs::read_to_string(&path)?;
    if !text.contains(one) {
        return Err("the study's settings have no `cpu_threads = 1`".into());
    }
    fs::write(&path, text.replace(one, &format!("cpu_threads = {threads}\n")))?;
    let profile = std::env::var("WAYCAIRN_BENCH_PROFILE").unwrap_or_else(|_| "one".to_owned());
    let experiments = known();
    let training = Training::read(&experiments, folder.path(), Some(&profile))?;
    let training = training.with_output(folder.path().join("out"));
    let analysis = AnalysisSettings::read(folder.path(), Some(&profile), &Discovery::default())?;
    let (mut runs, begin) = (Vec::new(), Instant::now());
    let mut observe = |event: &StudyEvent<'_>| {
        if let StudyEvent::Run { label, .. } = event {
            runs.push((begin.elapsed().as_secs_f64(), (*label).to_owned()));
        }
    };
    let options = LaunchOptions::default();
    let launched =
        || Ok(launch(&experiments, &training, Stages::Run(&analysis), &options, &Stop::new(), &mut observe)?);
    let (spent, report) = Spent::on(launched)?;
    let of_products: f64 = report.products.iter().map(|product| product.seconds).sum();
    println!(
        "profile `{profile}`: {} runs in {:.1} s ({:.1} s of the processor)",
        report.runs.len(),
        spent.clock,
        spent.processor
    );
    let ends = runs.iter().skip(1).map(|(begin, _)| *begin).chain([spent.clock]);
    for ((begin, label), end) in runs.iter().zip(ends) {
        println!("  {label:<34} {:>9.2} s", end - begin);
    }
    let mut kinds: BTreeMap<&str, Vec<&ProductReport>> = BTreeMap::new();
    for product in report.products.iter().filter(|product| product.status == "built") {
        kinds.entry(&product.product).or_default().push(product);
    }
    for (kind, built) in &kinds {
        let seconds: f64 = built.iter().map(|product| product.seconds).sum();
        let bytes: u64 = built.iter().map(|product| product.bytes).sum();
        println!(
            "  {:<34} {seconds:>9.2} s, {bytes} bytes; planned: {}",
            format!("{} x {kind}", built.len()),
            planned(built)
        );
    }
    println!("  {:<34} {:>9.2} s", "metrics, plots, records, the rest", spent.clock - of_products);
    println!("  {:<34} {:>9.0} MiB", "most memory of the process", peak().unwrap_or(f64::NAN));
    Ok(())
}

/// The sums of what was planned of some products of a kind, where it counts work or bytes.
fn planned(built: &[&ProductReport]) -> String {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    let counted = ["evaluations", "bytes", "rows", "steps", "cases", "candidates", "seconds"];
    let planned = built.iter().filter_map(|product| product.estimate.as_object()).flatten();
    for (key, value) in planned.filter(|(key, _)| counted.iter().any(|what| key.ends_with(what))) {
        *sums.entry(key).or_default() += value.as_f64().unwrap_or(f64::NAN);
    }
    let told: Vec<String> =
        sums.iter().filter(|(_, sum)| sum.is_finite()).map(|(key, sum)| format!("{sum} {key}")).collect();
    if told.is_empty() { "nothing".to_owned() } else { told.join(", ") }
}
