//! Stretches of a run in which nothing branches, folded for the drawing: a long run is a few lines.

use std::collections::{BTreeMap, BTreeSet};

use waycairn_dag::Node;

use crate::lineage::graph::{Graph, Link, Stone};
use crate::number::{ascending, plural};

/// How many nodes of a stretch are drawn one by one; a longer one is folded whole.
const SHOWN: usize = 3;

/// What is left out of a run before a node that is drawn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stretch {
    nodes: u64,
    checkpoints: Vec<u64>,
    artifacts: Vec<u64>,
}

impl Stretch {
    fn pass(&mut self, stone: &Stone) {
        self.nodes += 1;
        if stone.marks.checkpoint {
            self.checkpoints.push(stone.node.seq());
        }
        if !stone.marks.artifacts.is_empty() {
            self.artifacts.push(stone.node.seq());
        }
    }

    /// What there is, in words; nothing where nothing is left out.
    pub(crate) fn text(&self) -> Option<String> {
        let mut text = plural(self.nodes, "node");
        for (what, seqs) in [("checkpoints", &self.checkpoints), ("artifacts", &self.artifacts)] {
            if !seqs.is_empty() {
                text.push_str(&format!(", {what} at {}", ascending(seqs)));
            }
        }
        (self.nodes > 0).then_some(text)
    }
}

/// The nodes of each run that are drawn, and what is left out before each.
pub(crate) struct Drawn<'g> {
    pub(crate) runs: Vec<Vec<&'g Stone>>,
    pub(crate) before: BTreeMap<&'g Node, Stretch>,
}

impl<'g> Drawn<'g> {
    /// Takes all nodes of the graph if `full`; else the first and the last of each run, those where a chain is no
    /// chain, the one that was asked about, and short stretches between them.
    pub(crate) fn new(graph: &'g Graph, full: bool) -> Self {
        let chain: BTreeMap<&Node, &Link> =
            graph.links.iter().filter(|link| link.is_chain()).map(|link| (&link.child, link)).collect();
        let kept = if full { BTreeSet::new() } else { kept(graph) };
        let mut drawn = Self { runs: Vec::new(), before: BTreeMap::new() };
        for stones in graph.nodes.chunk_by(|one, next| one.node.same_run(&next.node)) {
            // A node goes on from the one before it, and nothing else is to be seen there.
            let dull = |at: usize| {
                let follows = |at: usize| {
                    let link = stones.get(at).and_then(|stone| chain.get(&stone.node));
                    link.is_some_and(|link| at > 0 && link.parent == stones[at - 1].node)
                };
                let stone = &stones[at];
                !full && !stone.asked && !kept.contains(&stone.node) && follows(at) && follows(at + 1)
            };
            let mut shown = Vec::new();
            let mut at = 0;
            while at < stones.len() {
                let end = (at..stones.len()).find(|at| !dull(*at)).unwrap_or(stones.len());
                let mut before = Stretch::default();
                if end - at > SHOWN {
                    for stone in &stones[at..end] {
                        before.nodes += chain.get(&stone.node).map_or(0, |link| link.between);
                        before.pass(stone);
                    }
                    at = end;
                }
                // The last node of a run is never dull.
                let Some(stone) = stones.get(at) else { break };
                before.nodes += chain.get(&stone.node).map_or(0, |link| link.between);
                drawn.before.insert(&stone.node, before);
                shown.push(stone);
                at += 1;
                // What is too short to be folded is drawn whole.
                while at < end {
                    let stone = &stones[at];
                    let nodes = chain.get(&stone.node).map_or(0, |link| link.between);
                    drawn.before.insert(&stone.node, Stretch { nodes, ..Stretch::default() });
                    shown.push(stone);
                    at += 1;
                }
            }
            drawn.runs.push(shown);
        }
        drawn
    }
}

/// The nodes where a chain is no chain: other runs, steps back, several parents or children.
fn kept(graph: &Graph) -> BTreeSet<&Node> {
    let mut kept = BTreeSet::new();
    let (mut children, mut parents) = (BTreeSet::new(), BTreeSet::new());
    for link in &graph.links {
        if !link.is_chain() {
            kept.extend([&link.child, &link.parent]);
            continue;
        }
        if !children.insert(&link.child) {
            kept.insert(&link.child);
        }
        if !parents.insert(&link.parent) {
            kept.insert(&link.parent);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use waycairn_dag::Edge;

    use super::*;
    use crate::lineage::graph::tests::node;
    use crate::lineage::{Marks, family};

    /// Run `a` of 1,000 nodes with a checkpoint at every twentieth, and a branch `b` of two from `from`.
    fn long(from: u64, asked: &Node) -> Graph {
        let mut edges: Vec<Edge> =
            (1..1_000).map(|seq| Edge::new(node("a", seq), node("a", seq - 1))).collect();
        edges.push(Edge::new(node("b", 0), node("a", from)));
        edges.push(Edge::new(node("b", 1), node("b", 0)));
        let mut marks: BTreeMap<Node, Marks> = BTreeMap::new();
        for seq in (19..1_000).step_by(20) {
            marks.entry(node("a", seq)).or_default().checkpoint = true;
        }
        marks.entry(node("a", 39)).or_default().artifacts = vec!["summary".to_owned()];
        Graph::new(family(asked, edges), [], &marks, asked, false)
    }

    fn seen(drawn: &Drawn<'_>, run: usize) -> Vec<(u64, Option<String>)> {
        drawn.runs[run].iter().map(|stone| (stone.node.seq(), drawn.before[&stone.node].text())).collect()
    }

    #[test]
    fn a_long_stretch_is_one_line_and_a_short_one_is_drawn() {
        let graph = long(939, &node("b", 1));
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            seen(&Drawn::new(&graph, false), 0),
            [
                (0, None),
                (939, text("938 nodes, checkpoints at 19, 39, 59 .. 919 (46), artifacts at 39")),
                (959, text("19 nodes")),
                (979, text("19 nodes")),
                (999, text("19 nodes")),
            ]
        );
        assert_eq!(seen(&Drawn::new(&graph, false), 1), [(0, None), (1, None)]);
    }

    #[test]
    fn what_was_asked_about_stays_and_full_folds_nothing() {
        let graph = long(999, &node("a", 500));
        let seqs: Vec<u64> = seen(&Drawn::new(&graph, false), 0).iter().map(|(seq, _)| *seq).collect();
        assert_eq!(seqs, [0, 500, 999]);
        assert_eq!(Drawn::new(&graph, true).runs[0].len(), graph.nodes.len() - 2);
    }
}
