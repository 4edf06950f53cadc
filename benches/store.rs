//! The store where a root is large, and where a loop is fast.
//!
//! Questions, each a part that can be asked for alone:
//!
//! - `one`: one node with all its fields out of 1,000 parts (8 runs of 25,000 nodes, 4 processes, 50 keys), reader warm; and what
//!   a process pays that opens the root for it. Rivals: `rivals/one.py` on the same files.
//! - `many`: the same out of 10,000 parts; limits two seconds for a first open with its answer, 50 ms warm.
//! - `points`: 10 million points (100 runs, 10 keys, 10,000 steps): a condition on folded values, all runs, and the last values
//!   of each; limit one second, warm.
//! - `wide`: four keys out of a root of 1,000 keys beside four keys out of one of four, with the same rows; limit twice.
//! - `sparse`: a key that 26 of 10 million records have, beside one that all have.
//! - `memory`: what a fold of all columns and a compaction hold at most, of a root and of one with four times the rows.
//! - `ingest`: records of ten metrics a second from one thread that records as fast as it can, to a durable close; limit 500,000.
//! - `latency`: the time of a `value()` of ten metrics while the writer publishes and the journal is written, in a loop that
//!   makes 20,000 a second; limits half a microsecond for the median and 20 us for the 99.9th percentile.
//!
//! Run: `cargo bench --package waycairn-benches --bench store`, and with ` -- one`, .. one part alone
//!
//! What was learned, on two cores:
//!
//! - `node()` looked for children in every part: 11 ms of 1,024 parts, 80 ms of 10,000. Footers tell now of which runs the
//!   recorded parents are.
//! - 10 million points: 100 ms for a condition, 177 ms for all of them as Arrow, 3 ms for one run of a hundred.
//! - Wide: a key costs what it costs among four, since footers are read once and columns that are not asked for never.
//! - Ten thousand records with a key each: a close held 2.3 GB, of which 1.8 GB were contexts of Zstandard, one a column, and 0.65 GB
//!   a batch of the merge; with Snappy in wide parts and batches that are bounded by their cells it holds 0.28 GB.
//! - Memory: a fold of 50 columns as a stream holds 38 MiB of 112 parts and 53 MiB of 400 (four times the rows), a compaction 77 and
//!   93 MiB.
//! - Ingest: 1.38 to 1.71 million records a second, at most 104 MiB; batches go out faster than the journal's interval, so it is hardly
//!   written.
//! - After that: 6.0 ms for the fields of a node out of 10,000 parts, 7.5 ms for all of its view, 248 ms for a first open.
//! - Latency: the journal encoded up to 1,024 records under the lock of the queue, which every thousandth call met (154 us). With
//!   sixteen it was 101 us: a call that has to be woken pays for that, however short the lock is held. With two at a time it was
//!   50 us; with records that are copied from under the lock, up to 32 at a time, and encoded outside of it 22 us. What was left
//!   were the calls that woke the journal, once an interval: it looks by itself now, and 99.9 % are below 11 to 13 us (median
//!   0.12). What is left is waking the writer, once a batch. A machine that does other things beside has other figures.
//! - Sparse: 31 ms for 25 rows of 10 million, in 25 of 153 parts.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use waycairn_benches::{compare, median, peak, quantile, run};
use waycairn_dag::Node;
use waycairn_store::{Expr, ObjectReader, ObjectStore, Scalar, StoreOptions, compact_root};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// What measures one question.
type Part = fn() -> Outcome<()>;

const NONCE: &str = "0123456789abcdef";

/// A root with these parts: `runs` runs of `nodes` nodes, each recorded by `processes` processes with `fields` of `keys` keys,
/// a part every `rows` records.
struct Shape {
    runs: u64,
    nodes: u64,
    processes: i64,
    keys: usize,
    fields: usize,
    rows: u64,
}

fn key(number: usize) -> String {
    format!("metric/{number:04}")
}

fn milliseconds(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e3
}

fn generate(root: &Path, shape: &Shape) -> Outcome<()> {
    let mut state: u64 = 1;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let names: Vec<String> = (0..shape.keys).map(key).collect();
    for run in 0..shape.runs {
        for process in 0..shape.processes {
            let options = StoreOptions { process, batch_rows: 65_536, ..StoreOptions::default() };
            let store = ObjectStore::open(root, options)?;
            let mut node = Node::new(&format!("run-{run}"), NONCE, 0)?;
            for seq in 0..shape.nodes {
                let first = run as usize * shape.fields;
                let fields: Vec<(&str, Scalar)> = (0..shape.fields)
                    .map(|field| (names[(first + field) % shape.keys].as_str(), Scalar::Float(random())))
                    .collect();
                store.value(&node, &fields)?;
                node = node.next()?;
                if (seq + 1) % shape.rows == 0 {
                    store.flush()?;
                }
            }
            store.close_uncompacted()?;
        }
    }
    Ok(())
}

fn values(root: &Path) -> std::path::PathBuf {
    root.join("objects/values")
}

/// One node out of a root: warm, and in a process that opens the root for it.
fn one_of(root: &Path, node: &Node, rival: bool) -> Outcome<()> {
    let parts = fs::read_dir(values(root))?.count();
    // Another process has nothing in its memory; what it opens lies in that of the system.
    let mut cold = Vec::new();
    for _ in 0..3 {
        let out = std::process::Command::new(std::env::current_exe()?)
            .args(["open".as_ref(), root.as_os_str(), node.address().as_str().as_ref()])
            .output()?;
        cold.push(String::from_utf8(out.stdout)?.trim().parse::<f64>()?);
    }
    println!(
        "{parts} parts: first open and one node {:.0} ms (limit 2,000 for 10,000 parts)",
        quantile(&cold, 0.5)
    );
    let reader = ObjectReader::open(root)?;
    let mut fields = 0;
    let ours = median(21, || {
        let begin = Instant::now();
        let row = reader.query().node(node).select_all().map(|answer| answer.value.into_iter().next());
        fields = row.ok().flatten().map_or(0, |row| row.fields.len());
        milliseconds(begin)
    });
    println!("{parts} parts: one node with {fields} fields, warm {ours:.2} ms (limit 50 for 10,000 parts)");
    let whole = median(21, || {
        let begin = Instant::now();
        std::hint::black_box(reader.node(node).is_ok());
        milliseconds(begin)
    });
    println!("{parts} parts: the same with parents, children, artifacts and files {whole:.2} ms");
    if rival {
        let words =
            [values(root).into_os_string(), node.name().into(), NONCE.into(), node.seq().to_string().into()];
        compare("one node", "ms", ours, &run("one.py", words));
    }
    Ok(())
}

fn open(root: &Path, address: &str) -> Outcome<()> {
    let node = Node::from(&address.parse::<waycairn_dag::Address>()?);
    let begin = Instant::now();
    let found = ObjectReader::open(root)?.query().node(&node).select_all()?.value;
    println!("{}", milliseconds(begin));
    if found.is_empty() { Err("the node is not there".into()) } else { Ok(()) }
}

fn one() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let shape = Shape { runs: 8, nodes: 25_000, processes: 4, keys: 50, fields: 10, rows: 800 };
    generate(folder.path(), &shape)?;
    one_of(folder.path(), &Node::new("run-5", NONCE, 12_345)?, true)
}

fn many() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let shape = Shape { runs: 100, nodes: 1_000, processes: 1, keys: 50, fields: 10, rows: 10 };
    generate(folder.path(), &shape)?;
    one_of(folder.path(), &Node::new("run-57", NONCE, 345)?, false)?;
    let reader = ObjectReader::open(folder.path())?;
    let count = median(5, || {
        let begin = Instant::now();
        std::hint::black_box(reader.query().count().is_ok());
        milliseconds(begin)
    });
    println!("all nodes of them counted, warm {count:.1} ms");
    Ok(())
}

fn points() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let shape = Shape { runs: 100, nodes: 10_000, processes: 1, keys: 10, fields: 10, rows: 5_000 };
    generate(folder.path(), &shape)?;
    let reader = ObjectReader::open(folder.path())?;
    let keys: Vec<String> = (0..10).map(key).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let below = Expr::parse("metric/0003 < 0.001")?;
    for _ in 0..2 {
        reader.query().count()?;
    }
    let told = |case: &str, work: &mut dyn FnMut() -> Outcome<usize>| {
        let mut rows = 0;
        let time = median(5, || {
            let begin = Instant::now();
            rows = work().unwrap_or(0);
            milliseconds(begin)
        });
        println!("10 million points: {case}: {rows} rows, {time:.0} ms (limit 1,000)");
    };
    told("a condition on folded values", &mut || {
        Ok(reader.query().expression(below.clone()).batches(&keys)?.num_rows())
    });
    told("all of them", &mut || Ok(reader.query().batches(&keys)?.num_rows()));
    told("one run", &mut || Ok(reader.query().name("run-42").batches(&keys)?.num_rows()));
    told("the list of runs", &mut || Ok(reader.runs()?.len()));
    Ok(())
}

fn wide() -> Outcome<()> {
    let mut times = Vec::new();
    for keys in [4, 1_000] {
        let folder = tempfile::tempdir()?;
        let shape = Shape { runs: 1, nodes: 20_000, processes: 1, keys, fields: keys, rows: 5_000 };
        generate(folder.path(), &shape)?;
        let reader = ObjectReader::open(folder.path())?;
        let names: Vec<String> = (0..4).map(|number| key(number * keys / 4)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        reader.query().count()?;
        times.push(median(21, || {
            let begin = Instant::now();
            std::hint::black_box(reader.query().batches(&names).is_ok());
            milliseconds(begin)
        }));
    }
    println!(
        "four keys: {:.2} ms of a root of 4, {:.2} ms of a root of 1,000: {:.2} times (limit 2)",
        times[0],
        times[1],
        times[1] / times[0]
    );
    Ok(())
}

fn sparse() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let store =
        ObjectStore::open(folder.path(), StoreOptions { batch_rows: 65_536, ..StoreOptions::default() })?;
    let mut node = Node::new("run", NONCE, 0)?;
    for seq in 0..10_000_000_u64 {
        store.value(&node, &[("common", Scalar::Float(seq as f64))])?;
        if seq % 400_000 == 7 {
            store.value(&node, &[("rare", Scalar::Float(seq as f64))])?;
        }
        node = node.at(seq + 1)?;
    }
    store.close_uncompacted()?;
    let reader = ObjectReader::open(folder.path())?;
    reader.query().count()?;
    for key in ["rare", "common"] {
        let mut rows = 0;
        let time = median(5, || {
            let begin = Instant::now();
            rows = reader.query().has(key).batches(&[key]).map_or(0, |table| table.num_rows());
            milliseconds(begin)
        });
        println!("{rows} of 10 million records have `{key}`: {time:.1} ms");
    }
    Ok(())
}

/// Ten metrics, whose values change.
fn metrics(names: &[String], step: u64) -> Vec<(&str, Scalar)> {
    let value = |number: usize| Scalar::Float((step as f64 * 0.37 + number as f64).sin());
    names.iter().enumerate().map(|(number, name)| (name.as_str(), value(number))).collect()
}

fn ingest() -> Outcome<()> {
    const RECORDS: u64 = 3_000_000;
    let names: Vec<String> = (0..10).map(key).collect();
    // The values are made before: they are not the store's.
    let made: Vec<Vec<(&str, Scalar)>> = (0..1_000).map(|step| metrics(&names, step)).collect();
    let mut rates = Vec::new();
    for _ in 0..3 {
        let folder = tempfile::tempdir()?;
        let begin = Instant::now();
        let store = ObjectStore::open(folder.path(), StoreOptions::default())?;
        let mut node = Node::new("run", NONCE, 0)?;
        for step in 0..RECORDS {
            store.value(&node, &made[(step % 1_000) as usize])?;
            node = node.at(step + 1)?;
        }
        let report = store.close_uncompacted()?;
        rates.push(report.records as f64 / begin.elapsed().as_secs_f64());
        println!("{} records in {} parts", report.records, report.parts);
    }
    println!("ingest: {:.0} records of ten metrics a second (limit 500,000)", quantile(&rates, 0.5));
    println!("most memory of the process: {:.0} MiB", peak().unwrap_or(f64::NAN));
    Ok(())
}

fn latency() -> Outcome<()> {
    const CALLS: u64 = 400_000;
    let names: Vec<String> = (0..10).map(key).collect();
    let folder = tempfile::tempdir()?;
    let store = ObjectStore::open(folder.path(), StoreOptions::default())?;
    let mut node = Node::new("run", NONCE, 0)?;
    let mut times = Vec::with_capacity(CALLS as usize);
    let begin = Instant::now();
    for step in 0..CALLS {
        let fields = metrics(&names, step);
        // Fifty microseconds a step, in which a training computes.
        let due = begin + Duration::from_micros(50 * step);
        while Instant::now() < due {
            std::hint::spin_loop();
        }
        let before = Instant::now();
        store.value(&node, &fields)?;
        times.push(before.elapsed().as_nanos() as f64 / 1e3);
        node = node.next()?;
    }
    let report = store.close_uncompacted()?;
    println!(
        "value() of ten metrics while {} parts are published: median {:.3} us (limit 0.5), 99.9 % {:.2} us (limit 20), most {:.0} us",
        report.parts,
        quantile(&times, 0.5),
        quantile(&times, 0.999),
        quantile(&times, 1.0)
    );
    Ok(())
}

/// What a fold of all columns, and a compaction, hold at most, each in a process of its own: of a root, and of one with four
/// times the rows in as many parts of the same size.
fn memory() -> Outcome<()> {
    for nodes in [25_000, 100_000] {
        let folder = tempfile::tempdir()?;
        generate(folder.path(), &Shape { runs: 4, nodes, processes: 4, keys: 50, fields: 25, rows: 4_000 })?;
        let parts = fs::read_dir(values(folder.path()))?.count();
        for what in ["fold", "compact"] {
            let out = std::process::Command::new(std::env::current_exe()?)
                .args([what.as_ref(), folder.path().as_os_str()])
                .output()?;
            print!("{parts} parts, {what}: {}", String::from_utf8(out.stdout)?);
        }
    }
    Ok(())
}

/// One of the two, of a root.
fn held(what: &str, root: &Path) -> Outcome<()> {
    let rows = match what {
        "fold" => {
            let mut query = ObjectReader::open(root)?.query();
            let keys: Vec<String> = (0..50).map(key).collect();
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            let batches = query.stream(&keys)?;
            batches.map(|batch| batch.map_or(0, |batch| batch.num_rows())).sum::<usize>() as u64
        }
        _ => compact_root(root)?.rows,
    };
    println!("{rows} rows, at most {:.0} MiB", peak().unwrap_or(f64::NAN));
    Ok(())
}

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    if let [of, root, address] = words.as_slice()
        && of == "open"
    {
        return open(Path::new(root), address);
    }
    if let [what, root] = words.as_slice()
        && (what == "fold" || what == "compact")
    {
        return held(what, Path::new(root));
    }
    let parts: [(&str, Part); 8] = [
        ("one", one),
        ("many", many),
        ("points", points),
        ("wide", wide),
        ("sparse", sparse),
        ("memory", memory),
        ("ingest", ingest),
        ("latency", latency),
    ];
    for (name, part) in parts {
        if words.is_empty() || words.iter().any(|word| word == name) {
            println!("\n{name}");
            part()?;
        }
    }
    Ok(())
}
