//! The listing of runs, from identities, stamps and markers alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use waycairn_dag::Node;

use crate::listing::PartSet;
use crate::published::RunKey;
use crate::query::{
    Fault, Flag, FoldPlan, FoldSpec, IdentityScope, RecordScope, Threads, fold_ranges, threads,
};
use crate::schema::{CHECKPOINT, FINISHED, JOB, TAG};

/// What is known of a run without reading any field of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    /// Its name.
    pub name: String,
    /// Its nonce.
    pub nonce: String,
    /// Its node with the largest position.
    pub last: Node,
    /// How many nodes it has.
    pub nodes: u64,
    /// The positions of its nodes with a checkpoint, rising.
    pub checkpoints: Vec<u64>,
    /// Its first write, in nanoseconds since 1970.
    pub started: Option<i64>,
    /// Its last write, in nanoseconds since 1970.
    pub written: Option<i64>,
    /// Whether a record says that it ended as planned.
    pub finished: bool,
    /// The job of the last record that names one, `<experiment>@<version>`.
    pub job: Option<String>,
    /// The tag of the last record that has one.
    pub tag: Option<String>,
}

/// What the blocks of a run add up to.
#[derive(Clone, Debug)]
struct Sums {
    nodes: u64,
    last: i64,
    checkpoints: Vec<u64>,
    started: i64,
    written: i64,
    finished: bool,
    labels: [Option<(i64, String)>; 2],
}

impl Default for Sums {
    fn default() -> Self {
        Sums {
            nodes: 0,
            last: 0,
            checkpoints: Vec::new(),
            started: i64::MAX,
            written: i64::MIN,
            finished: false,
            labels: [None, None],
        }
    }
}

impl Sums {
    fn add(&mut self, other: Sums) {
        self.nodes += other.nodes;
        self.last = self.last.max(other.last);
        self.checkpoints.extend(other.checkpoints);
        self.started = self.started.min(other.started);
        self.written = self.written.max(other.written);
        self.finished |= other.finished;
        for (label, other) in self.labels.iter_mut().zip(other.labels) {
            *label = label.take().max(other);
        }
    }
}

/// Sums up the runs in scope, the newest first.
pub(crate) fn runs(set: &PartSet, scope: &IdentityScope) -> Result<Vec<RunSummary>, Fault> {
    let mut spec = FoldSpec::default();
    spec.written = true;
    let checkpoint = spec.flag(&Flag::True(CHECKPOINT));
    let finished = spec.flag(&Flag::True(FINISHED));
    let labels = [spec.label(JOB), spec.label(TAG)];
    let plan = FoldPlan::new(set, spec, scope.clone(), RecordScope::default(), threads())?;
    let ranges = fold_ranges(
        &Arc::new(plan),
        Threads(threads()),
        None,
        |block, runs: &mut BTreeMap<Arc<RunKey>, Sums>| {
            let (started, written) = block.writes();
            let (checkpoint, finished) = (block.flag(checkpoint), block.flag(finished));
            for (index, (run, slots)) in block.runs().enumerate() {
                let mut sums = Sums { nodes: slots.len() as u64, ..Sums::default() };
                sums.last = block.seqs()[slots.clone()].last().copied().unwrap_or(0);
                sums.started = started[slots.clone()].iter().copied().min().unwrap_or(i64::MAX);
                sums.written = written[slots.clone()].iter().copied().max().unwrap_or(i64::MIN);
                for slot in slots.clone().filter(|slot| checkpoint.get(*slot)) {
                    sums.checkpoints.push(block.seqs()[slot].cast_unsigned());
                }
                sums.finished = slots.clone().any(|slot| finished.get(slot));
                sums.labels = labels
                    .map(|label| block.label(label, index).map(|(write, text)| (write, text.to_owned())));
                match runs.get_mut(run) {
                    Some(known) => known.add(sums),
                    None => {
                        runs.insert(Arc::clone(run), sums);
                    }
                }
            }
            Ok(0)
        },
    )?;
    let mut runs: BTreeMap<Arc<RunKey>, Sums> = BTreeMap::new();
    for (run, sums) in ranges.into_iter().flatten() {
        runs.entry(run).or_default().add(sums);
    }
    let mut summaries = Vec::with_capacity(runs.len());
    for (run, sums) in runs {
        summaries.push(summary(&run, sums)?);
    }
    // Stable, so that runs without stamps, and ties, stand in the order of their identities.
    summaries.sort_by_key(|summary| std::cmp::Reverse(summary.started));
    Ok(summaries)
}

fn summary(run: &RunKey, sums: Sums) -> Result<RunSummary, Fault> {
    let first = run.node()?;
    let [job, tag] = sums.labels.map(|label| label.map(|(_, text)| text));
    Ok(RunSummary {
        name: run.name.to_string(),
        nonce: run.nonce.to_string(),
        last: first.at(sums.last.cast_unsigned()).unwrap_or(first),
        nodes: sums.nodes,
        checkpoints: sums.checkpoints,
        started: Some(sums.started).filter(|started| *started != i64::MAX),
        written: Some(sums.written).filter(|written| *written != i64::MIN),
        finished: sums.finished,
        job,
        tag,
    })
}
