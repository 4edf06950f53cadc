//! What one `log` call of ten metrics costs the caller, beside the trackers that users would pick instead.
//!
//! Question: how long does the training loop stand still for `ObjectStore::value` with ten floats? Data set:
//! 200,000 calls at successive nodes of one run, in blocks that the queue holds; the writer publishes beside
//! them. Rivals: `rivals/log.py`. Last figures: see README.md, "Measures".
//!
//! Run: `cargo bench --package waycairn-benches --bench log`

use std::time::Instant;

use waycairn_dag::{Clock, Node};
use waycairn_store::{ObjectStore, Scalar, StoreOptions};

const KEYS: [&str; 10] = [
    "metric/0", "metric/1", "metric/2", "metric/3", "metric/4", "metric/5", "metric/6", "metric/7",
    "metric/8", "metric/9",
];
const CALLS: u64 = 200_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let store = ObjectStore::open(folder.path(), StoreOptions::default())?;
    let mut clock = Clock::new(Node::new("bench.log.call", "0123456789abcdef", 0)?);
    let mut times: Vec<u32> = Vec::with_capacity(CALLS as usize);
    let begin = Instant::now();
    for step in 0..CALLS {
        let node = clock.tick()?;
        let fields = KEYS.map(|key| (key, Scalar::Float(step as f64)));
        let before = Instant::now();
        store.value(&node, &fields)?;
        times.push(u32::try_from(before.elapsed().as_nanos()).unwrap_or(u32::MAX));
        // A training step lies between two calls: a burst that never lets the writer run measures the queue's
        // limit, not the call.
        if step % 4_096 == 4_095 {
            store.flush()?;
        }
    }
    let report = store.close()?;
    let all = begin.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |share: f64| f64::from(times[((times.len() - 1) as f64 * share) as usize]) / 1e3;
    println!("{CALLS} calls, {:.0} records a second to a durable close; {report:?}", CALLS as f64 / all);
    println!("median {:.3} us, 99 % {:.3} us, 99.9 % {:.3} us", at(0.5), at(0.99), at(0.999));
    let figures = waycairn_benches::run("log.py", ["3000"]);
    waycairn_benches::compare("log call", "us", at(0.5), &figures);
    Ok(())
}
