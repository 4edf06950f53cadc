//! The graph of connected runs, with the dull stretches of a run collapsed into one edge.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use waycairn_dag::{Edge, Lineage, Node};

/// What is known of a node besides its place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Whether a complete checkpoint stands there.
    pub(crate) checkpoint: bool,
    /// The names of the artifacts attached to it.
    pub(crate) artifacts: Vec<String>,
}

/// The runs that hang together with one run, each by a node of it, and the edges within and between them.
#[derive(Debug)]
pub(crate) struct Family {
    /// One node of every run, at position 0.
    pub(crate) runs: Vec<Node>,
    edges: Vec<Edge>,
}

/// A node of a drawn or printed graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stone {
    pub(crate) node: Node,
    pub(crate) marks: Marks,
    /// Whether it is the node that the user asked about.
    pub(crate) asked: bool,
}

/// An edge between two kept nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Link {
    pub(crate) child: Node,
    pub(crate) parent: Node,
    /// Nodes between the two that are not shown.
    pub(crate) between: u64,
}

impl Link {
    /// Whether it leads on within a run.
    pub(crate) fn is_chain(&self) -> bool {
        self.child.same_run(&self.parent) && self.child.seq() > self.parent.seq()
    }
}

/// The nodes and edges that are shown.
#[derive(Debug)]
pub(crate) struct Graph {
    /// In the order of identity, so that a run is one stretch.
    pub(crate) nodes: Vec<Stone>,
    /// In the order of child, then parent.
    pub(crate) links: Vec<Link>,
    /// Nodes of every run, shown or not, under the run's node at position 0.
    pub(crate) sizes: BTreeMap<Node, u64>,
}

/// The run of a node, as its node at position 0.
pub(crate) fn run_of(node: &Node) -> Node {
    node.at(0).unwrap_or_else(|_| node.clone())
}

/// Finds the runs that are connected with the run of `start`, over any number of other runs.
pub(crate) fn family(start: &Node, edges: Vec<Edge>) -> Family {
    let mut neighbours: BTreeMap<Node, BTreeSet<Node>> = BTreeMap::new();
    for edge in edges.iter().filter(|edge| !edge.child.same_run(&edge.parent)) {
        let (child, parent) = (run_of(&edge.child), run_of(&edge.parent));
        neighbours.entry(child.clone()).or_default().insert(parent.clone());
        neighbours.entry(parent).or_default().insert(child);
    }
    let first = run_of(start);
    let mut runs = BTreeSet::from([first.clone()]);
    let mut waiting = VecDeque::from([first]);
    while let Some(run) = waiting.pop_front() {
        for next in neighbours.get(&run).into_iter().flatten() {
            if runs.insert(next.clone()) {
                waiting.push_back(next.clone());
            }
        }
    }
    // Both ends of an edge are in the family or neither is.
    let mut runs_in_order = runs.iter();
    let mut current = runs_in_order.next();
    let mut within = |node: &Node| match current {
        Some(run) if run.same_run(node) => true,
        _ if runs.contains(&run_of(node)) => {
            current = runs.get(&run_of(node));
            true
        }
        _ => false,
    };
    let edges = edges.into_iter().filter(|edge| within(&edge.child)).collect();
    Family { runs: runs.into_iter().collect(), edges }
}

impl Family {
    /// The cycles among the recorded edges, which no trainer makes and a foreign writer might.
    pub(crate) fn cycles(&self) -> Vec<Vec<Node>> {
        Lineage::new(self.edges.iter().cloned()).cycles()
    }
}

impl Graph {
    /// Chooses what is shown: all nodes if `full`, else the first and the last of every run, the nodes from or to
    /// which an edge leaves its run's chain, the checkpoints, and the node that was asked about.
    pub(crate) fn new(
        family: Family,
        nodes: impl IntoIterator<Item = Node>,
        marks: &BTreeMap<Node, Marks>,
        asked: &Node,
        full: bool,
    ) -> Self {
        let mut all: BTreeSet<Node> = nodes.into_iter().map(|node| node.with_parent(None)).collect();
        all.insert(asked.clone().with_parent(None));
        let mut parents: BTreeMap<Node, BTreeSet<Node>> = BTreeMap::new();
        let mut kept: BTreeSet<Node> = BTreeSet::new();
        for Edge { child, parent } in family.edges {
            if !child.same_run(&parent) || child.seq() <= parent.seq() {
                kept.insert(child.clone());
                kept.insert(parent.clone());
            }
            all.insert(child.clone());
            all.insert(parent.clone());
            parents.entry(child).or_default().insert(parent);
        }
        keep_chain_ends(&parents, &mut kept);
        let mut sizes: BTreeMap<Node, u64> = BTreeMap::new();
        let mut previous: Option<&Node> = None;
        for node in &all {
            *sizes.entry(run_of(node)).or_default() += 1;
            let begins = previous.is_none_or(|previous| !previous.same_run(node));
            if begins {
                kept.extend(previous.cloned());
            }
            if begins || full || node == asked || marks.get(node).is_some_and(|marks| marks.checkpoint) {
                kept.insert(node.clone());
            }
            previous = Some(node);
        }
        kept.extend(previous.cloned());

        let mut links = Vec::new();
        for child in &kept {
            for parent in parents.get(child).into_iter().flatten() {
                if let Some((parent, between)) = walk_back(parent, &parents, &kept) {
                    links.push(Link { child: child.clone(), parent, between });
                }
            }
        }
        links.sort();
        let nodes = kept
            .into_iter()
            .map(|node| Stone {
                marks: marks.get(&node).cloned().unwrap_or_default(),
                asked: node == *asked,
                node,
            })
            .collect();
        Self { nodes, links, sizes }
    }
}

/// Keeps the nodes within a run at which its chain is no chain: several parents, or several children.
fn keep_chain_ends(parents: &BTreeMap<Node, BTreeSet<Node>>, kept: &mut BTreeSet<Node>) {
    let mut has_child: BTreeSet<&Node> = BTreeSet::new();
    for (child, of) in parents {
        if of.len() > 1 {
            kept.insert(child.clone());
        }
        for parent in of.iter().filter(|parent| parent.same_run(child)) {
            if !has_child.insert(parent) {
                kept.insert(parent.clone());
            }
        }
    }
}

/// Follows a chain backward to the next node that is kept, counting what is passed. A node that is not kept has at
/// most one parent, in its own run and at a smaller position, so the walk ends.
fn walk_back(
    from: &Node,
    parents: &BTreeMap<Node, BTreeSet<Node>>,
    kept: &BTreeSet<Node>,
) -> Option<(Node, u64)> {
    let (mut node, mut between) = (from, 0);
    while !kept.contains(node) {
        node = parents.get(node)?.first()?;
        between += 1;
    }
    Some((node.clone(), between))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn node(name: &str, seq: u64) -> Node {
        Node::new(name, "0123456789abcdef", seq).unwrap()
    }

    /// Run `a` of ten nodes with checkpoints at 4 and 9, a branch `b` of three from 4, one `c` of two from the end
    /// of `b`, and an unrelated run.
    pub(crate) fn forest() -> (Vec<Edge>, BTreeMap<Node, Marks>) {
        let mut edges: Vec<Edge> = Vec::new();
        for (name, count) in [("a", 10), ("b", 3), ("c", 2), ("other", 4)] {
            edges.extend((1..count).map(|seq| Edge::new(node(name, seq), node(name, seq - 1))));
        }
        edges.push(Edge::new(node("b", 0), node("a", 4)));
        edges.push(Edge::new(node("c", 0), node("b", 2)));
        let checkpoint = Marks { checkpoint: true, artifacts: Vec::new() };
        let with_summary = Marks { checkpoint: true, artifacts: vec!["summary".to_owned()] };
        let marks = BTreeMap::from([
            (node("a", 4), with_summary),
            (node("a", 9), checkpoint.clone()),
            (node("b", 2), checkpoint.clone()),
            (node("c", 1), checkpoint),
        ]);
        (edges, marks)
    }

    pub(crate) fn graph(asked: &Node, full: bool) -> Graph {
        let (edges, marks) = forest();
        Graph::new(family(asked, edges), [], &marks, asked, full)
    }

    fn shown(graph: &Graph) -> Vec<String> {
        graph.nodes.iter().map(|stone| format!("{}{}", stone.node.name(), stone.node.seq())).collect()
    }

    #[test]
    fn chains_collapse_to_ends_branch_points_and_checkpoints() {
        let graph = graph(&node("b", 2), false);
        assert_eq!(shown(&graph), ["a0", "a4", "a9", "b0", "b2", "c0", "c1"]);
        let links: Vec<String> = graph
            .links
            .iter()
            .map(|link| {
                format!(
                    "{}{}<{}{} {}",
                    link.child.name(),
                    link.child.seq(),
                    link.parent.name(),
                    link.parent.seq(),
                    link.between
                )
            })
            .collect();
        assert_eq!(links, ["a4<a0 3", "a9<a4 4", "b0<a4 0", "b2<b0 1", "c0<b2 0", "c1<c0 0"]);
        assert_eq!(graph.sizes[&node("a", 0)], 10);
        assert!(!graph.sizes.contains_key(&node("other", 0)));
    }

    #[test]
    fn full_keeps_every_node_and_the_asked_one_is_always_there() {
        assert_eq!(graph(&node("a", 0), true).nodes.len(), 15);
        let one = graph(&node("a", 6), false);
        assert!(one.nodes.iter().any(|stone| stone.asked && stone.node == node("a", 6)));
    }

    #[test]
    fn a_node_without_edges_is_its_own_family() {
        let alone = node("alone", 3);
        let graph = graph(&alone, false);
        assert_eq!(shown(&graph), ["alone3"]);
        assert!(graph.links.is_empty());
    }

    #[test]
    fn a_cycle_ends() {
        let edges = vec![
            Edge::new(node("a", 1), node("a", 0)),
            Edge::new(node("a", 0), node("a", 1)),
            Edge::new(node("a", 0), node("b", 0)),
            Edge::new(node("b", 0), node("a", 1)),
        ];
        let asked = node("b", 0);
        let graph = Graph::new(family(&asked, edges), [], &BTreeMap::new(), &asked, false);
        assert_eq!(shown(&graph), ["a0", "a1", "b0"]);
        assert_eq!(graph.links.len(), 4);
    }
}
