//! The fold, beside the engines that users would pick instead.
//!
//! Question: how long does it take to fold a folder of parts into logical nodes? Data set: 20 runs of 10,000
//! nodes, each recorded by 4 processes, 10 of 50 metrics a record (half of them in every tenth record only):
//! 800,000 records in 240 parts. Rivals: `rivals/fold.py` on the same files. The bare decode of the same
//! columns, identity and stamp with them, by the parquet crate on as many threads is the floor (limit: 1.5 times). Last figures: see README.md, "Measures".
//!
//! Run: `cargo bench --package waycairn-benches --bench fold`

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use parquet::arrow::{
    ProjectionMask,
    arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder},
};
use waycairn_benches::{compare, median, run};
use waycairn_dag::Node;
use waycairn_store::{Expr, ObjectReader, ObjectStore, Scalar, StoreOptions};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const RUNS: u64 = 20;
const NODES: u64 = 10_000;
const PROCESSES: i64 = 4;
const FIELDS: u64 = 50;
const FIELDS_A_RECORD: u64 = 10;

/// Writes the data set; its parts stay as they were published.
fn generate(root: &Path) -> Outcome<()> {
    let mut state: u64 = 1;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    for number in 0..RUNS {
        let names: Vec<String> = (0..FIELDS_A_RECORD)
            .map(|i| format!("m/{:03}", (number * FIELDS_A_RECORD + i) % FIELDS))
            .collect();
        for process in 0..PROCESSES {
            let options = StoreOptions { process, batch_rows: 4_096, ..StoreOptions::default() };
            let store = ObjectStore::open(root, options)?;
            let mut node = Node::new(&format!("run-{number}"), &format!("{number:016x}"), 0)?;
            for seq in 0..NODES {
                let mut fields: Vec<(&str, Scalar)> = Vec::with_capacity(names.len());
                for (i, name) in names.iter().enumerate() {
                    let value = random() + random() + random() + random();
                    if i < 5 || random() < 0.1 {
                        fields.push((name, Scalar::Float(value)));
                    }
                }
                store.value(&node, &fields)?;
                node = node.next()?;
                if seq % 4_096 == 4_095 {
                    store.flush()?;
                }
            }
            store.close_uncompacted()?;
        }
    }
    Ok(())
}

/// The parts with their footers, which a warm reader has too.
fn footers(values: &Path) -> Outcome<Vec<(PathBuf, ArrowReaderMetadata)>> {
    let paths = std::fs::read_dir(values)?.map(|entry| entry.map(|entry| entry.path()));
    let paths = paths.collect::<std::io::Result<Vec<PathBuf>>>()?;
    let parts = paths.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "parquet"));
    parts
        .map(|path| {
            let footer = ArrowReaderMetadata::load(&File::open(&path)?, ArrowReaderOptions::default())?;
            Ok((path, footer))
        })
        .collect()
}

/// Decodes the columns of every part that `keep` names, and does nothing with them; milliseconds.
fn decode(
    parts: &[(PathBuf, ArrowReaderMetadata)],
    threads: usize,
    keep: impl Fn(&str) -> bool + Sync,
) -> Outcome<f64> {
    let begin = Instant::now();
    let next = AtomicUsize::new(0);
    let work = || -> std::result::Result<(), String> {
        while let Some((path, footer)) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let file = File::open(path).map_err(|error| error.to_string())?;
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, footer.clone());
            let schema = builder.parquet_schema();
            let leaves = (0..schema.num_columns()).filter(|i| keep(schema.column(*i).name()));
            let mask = ProjectionMask::leaves(schema, leaves.collect::<Vec<_>>());
            let batches = builder.with_projection(mask).with_batch_size(8_192).build();
            for batch in batches.map_err(|error| error.to_string())? {
                std::hint::black_box(batch.map_err(|error| error.to_string())?);
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| Err("a panic".to_owned())))
    })?;
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

fn main() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    generate(folder.path())?;
    let values = folder.path().join("objects/values");
    let parts = std::fs::read_dir(&values)?.count();
    println!("{} records in {parts} parts", RUNS * NODES * PROCESSES as u64);

    let all: Vec<String> = (0..FIELDS).map(|i| format!("m/{i:03}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let reader = ObjectReader::open(folder.path())?;
    let below = Expr::parse("m/000 <= 1.5")?;
    let fold = |keys: &[&str], filter: Option<&Expr>| -> Outcome<f64> {
        let begin = Instant::now();
        let mut query = reader.query();
        if let Some(filter) = filter {
            query.expression(filter.clone());
        }
        std::hint::black_box(query.batches(keys)?.num_rows());
        Ok(begin.elapsed().as_secs_f64() * 1e3)
    };

    let begin = Instant::now();
    reader.query().count()?;
    println!("first open of every footer {:.1} ms", begin.elapsed().as_secs_f64() * 1e3);
    let bare = footers(&values)?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // What no fold does without: identity and stamp.
    let stamp = ["_x_name", "_x_nonce", "_x_seq", "_x_prc_idx", "_x_write"];
    let floor = |keys: &[&str], threads| {
        median(5, || {
            let keep = |name: &str| stamp.contains(&name) || keys.contains(&name);
            decode(&bare, threads, keep).unwrap_or(f64::NAN)
        })
    };
    println!("bare decode of all columns, one thread {:.1} ms", floor(&all, 1));

    let figures = run("fold.py", [values.as_os_str()]);
    for (case, keys, filter) in [
        ("all columns", &all[..], None),
        ("two columns", &all[..2], None),
        ("folded predicate", &all[..2], Some(&below)),
    ] {
        let ours = median(5, || fold(keys, filter).unwrap_or(f64::NAN));
        compare(case, "ms", ours, &figures);
        let floor = floor(keys, cores);
        println!(
            "  bare decode of the same columns, {cores} threads {floor:.1} ms: the fold takes {:.2} times it",
            ours / floor
        );
    }
    let node = Node::new("run-7", &format!("{:016x}", 7), 5_000)?;
    let ours = median(21, || {
        let begin = Instant::now();
        std::hint::black_box(reader.node(&node).is_ok());
        begin.elapsed().as_secs_f64() * 1e3
    });
    println!("one node, reader warm {ours:.2} ms");
    Ok(())
}
