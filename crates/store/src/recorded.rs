//! Which nodes a store object has recorded: what a tick asks.

use std::collections::HashMap;
use std::sync::Arc;

use waycairn_dag::Node;

/// A set of nodes, kept as spans of positions for each run: a training loop, which records one position
/// after the other, costs it one comparison and no memory.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    runs: Vec<Run>,
    index: HashMap<(Arc<str>, Arc<str>), usize>,
    last: usize,
}

#[derive(Debug)]
struct Run {
    /// Any node of the run.
    sample: Node,
    /// First and last position of each span: sorted, and neither overlapping nor touching.
    spans: Vec<(u64, u64)>,
}

impl Recorded {
    /// Adds a node.
    #[inline]
    pub(crate) fn insert(&mut self, node: &Node) {
        if let Some(run) = self.runs.get_mut(self.last)
            && run.sample.same_run(node)
            && let Some((first, last)) = run.spans.last_mut()
            && node.seq() >= *first
            && node.seq() <= last.saturating_add(1)
        {
            *last = (*last).max(node.seq());
            return;
        }
        self.insert_slowly(node);
    }

    /// Whether the node was added.
    pub(crate) fn contains(&self, node: &Node) -> bool {
        let found = self.runs.get(self.last).filter(|run| run.sample.same_run(node));
        let run = found.or_else(|| self.runs.get(*self.index.get(&key(node))?));
        run.is_some_and(|run| run.contains(node.seq()))
    }

    #[cold]
    fn insert_slowly(&mut self, node: &Node) {
        self.last = *self.index.entry(key(node)).or_insert_with(|| {
            self.runs.push(Run { sample: node.clone(), spans: Vec::new() });
            self.runs.len() - 1
        });
        if let Some(run) = self.runs.get_mut(self.last) {
            run.insert(node.seq());
        }
    }
}

impl Run {
    fn contains(&self, seq: u64) -> bool {
        let after = self.spans.partition_point(|&(first, _)| first <= seq);
        after > 0 && self.spans.get(after - 1).is_some_and(|&(_, last)| seq <= last)
    }

    fn insert(&mut self, seq: u64) {
        if self.contains(seq) {
            return;
        }
        let after = self.spans.partition_point(|&(first, _)| first <= seq);
        let touches_next = self.spans.get(after).is_some_and(|&(first, _)| first == seq + 1);
        let before = after.checked_sub(1).and_then(|before| self.spans.get_mut(before));
        match before {
            Some((_, last)) if *last + 1 == seq => {
                *last = seq;
                if touches_next {
                    let (_, end) = self.spans.remove(after);
                    if let Some((_, last)) = self.spans.get_mut(after - 1) {
                        *last = end;
                    }
                }
            }
            _ if touches_next => {
                if let Some((first, _)) = self.spans.get_mut(after) {
                    *first = seq;
                }
            }
            _ => self.spans.insert(after, (seq, seq)),
        }
    }
}

fn key(node: &Node) -> (Arc<str>, Arc<str>) {
    (Arc::clone(node.name_arc()), Arc::clone(node.nonce_arc()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set_of_nodes(added in prop::collection::vec((0_u8..3, 0_u64..30), 0..80)) {
            let node = |run: u8, seq| Node::new(&format!("n{run}"), "x", seq).unwrap();
            let mut recorded = Recorded::default();
            let mut model = BTreeSet::new();
            for (run, seq) in added {
                recorded.insert(&node(run, seq));
                model.insert((run, seq));
                for run in 0..3 {
                    for seq in 0..31 {
                        prop_assert_eq!(recorded.contains(&node(run, seq)), model.contains(&(run, seq)));
                    }
                }
            }
            for run in &recorded.runs {
                prop_assert!(run.spans.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
            }
        }
    }

    #[test]
    fn positions_in_a_row_are_one_span() {
        let mut recorded = Recorded::default();
        for seq in 0..1000 {
            recorded.insert(&Node::new("a", "b", seq).unwrap());
        }
        assert_eq!(recorded.runs[0].spans, [(0, 999)]);
    }
}
