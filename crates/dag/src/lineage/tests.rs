use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::{Address, Nonce};

fn node(name: &str, seq: u64) -> Node {
    Node::new(name, "949e88", seq).unwrap()
}

fn edge(child: &Node, parent: &Node) -> Edge {
    Edge::new(child.clone(), parent.clone())
}

/// A run of three, a branch of its middle with two, and a node of nobody.
fn forest() -> Lineage {
    let (a0, a1, a2) = (node("a", 0), node("a", 1), node("a", 2));
    let (b0, b1) = (node("b", 0), node("b", 1));
    let mut lineage =
        Lineage::new([edge(&a1, &a0), edge(&a2, &a1), edge(&b0, &a1), edge(&b1, &b0), edge(&b1, &b0)]);
    lineage.insert(node("z", 5));
    lineage
}

#[test]
fn parents_and_children_are_distinct_and_sorted_by_address() {
    let (child, parents) = (node("m", 0), [node("a", 9), node("a", 10), node("b", 0)]);
    let mut edges: Vec<_> = parents.iter().map(|parent| edge(&child, parent)).collect();
    edges.extend(edges.clone());
    let lineage = Lineage::new(edges);
    let found = lineage.parents(&child);
    assert_eq!(found.len(), 3);
    assert!(found.is_sorted_by_key(Node::address));
    assert_eq!(found, [node("a", 10), node("a", 9), node("b", 0)]);
    assert_eq!(lineage.children(&node("a", 9)), [child]);
    assert_eq!(forest().children(&node("a", 1)), [node("a", 2), node("b", 0)]);
}

#[test]
fn walks_go_nearest_first() {
    let lineage = forest();
    assert_eq!(lineage.ancestors(&node("b", 1)), [node("b", 0), node("a", 1), node("a", 0)]);
    assert_eq!(lineage.descendants(&node("a", 0)), [node("a", 1), node("a", 2), node("b", 0), node("b", 1)]);
    assert_eq!(lineage.common_ancestors(&node("b", 1), &node("a", 2)), [node("a", 1), node("a", 0)]);
    assert_eq!(lineage.common_ancestors(&node("b", 1), &node("a", 1)), [node("a", 1), node("a", 0)]);
    assert_eq!(lineage.common_ancestors(&node("b", 1), &node("z", 5)), []);
}

#[test]
fn a_path_leads_either_way_and_not_across() {
    let lineage = forest();
    let down = [node("a", 0), node("a", 1), node("b", 0), node("b", 1)];
    assert_eq!(lineage.path(&down[0], &down[3]).unwrap(), down);
    let mut up = down.to_vec();
    up.reverse();
    assert_eq!(lineage.path(&down[3], &down[0]).unwrap(), up);
    assert_eq!(lineage.path(&node("b", 1), &node("a", 2)), None);
    assert_eq!(lineage.path(&node("z", 5), &node("z", 5)).unwrap(), [node("z", 5)]);
}

#[test]
fn unknown_nodes_have_empty_answers() {
    for (lineage, stranger) in
        [(forest(), node("a", 3)), (forest(), node("q", 0)), (Lineage::default(), node("a", 0))]
    {
        assert!(!lineage.contains(&stranger));
        assert!(lineage.parents(&stranger).is_empty() && lineage.children(&stranger).is_empty());
        assert!(lineage.ancestors(&stranger).is_empty() && lineage.descendants(&stranger).is_empty());
        assert!(lineage.common_ancestors(&stranger, &node("a", 1)).is_empty());
        assert_eq!(lineage.path(&stranger, &node("a", 1)), None);
        assert_eq!(lineage.path(&stranger, &stranger), None);
    }
    assert_eq!(Lineage::default().topological(), Topology::default());
    assert!(Lineage::default().is_empty());
}

#[test]
fn insert_takes_the_parent_that_a_node_carries() {
    let base = node("a", 4);
    let branch = base.branch("b", &Nonce::from_random([3; 8])).unwrap();
    let mut lineage = Lineage::default();
    lineage.insert(branch.next().unwrap());
    lineage.insert(branch.clone());
    assert_eq!(lineage.len(), 3);
    assert_eq!(lineage.ancestors(&branch.next().unwrap()), [branch.clone(), base]);
    assert_eq!(lineage.parents(&branch)[0].parent(), None);
}

#[test]
fn topological_order_has_parents_first_and_smaller_identities_before_larger_ones() {
    let topology = forest().topological();
    let expected = [node("a", 0), node("a", 1), node("a", 2), node("b", 0), node("b", 1), node("z", 5)];
    assert_eq!(topology.order, expected);
    assert!(topology.cycles.is_empty());
}

#[test]
fn dag_6_a_cycle_ends_every_walk_and_is_reported() {
    let [a, b, c, before, after] = [node("a", 0), node("b", 0), node("c", 0), node("z", 0), node("d", 0)];
    let own = node("own", 0);
    let edges =
        [edge(&a, &c), edge(&b, &a), edge(&c, &b), edge(&b, &before), edge(&after, &c), edge(&own, &own)];
    let lineage = Lineage::new(edges);
    assert_eq!(lineage.cycles(), [vec![a.clone(), b.clone(), c.clone()], vec![own.clone()]]);
    assert_eq!(lineage.ancestors(&a), [c.clone(), b.clone(), a.clone(), before.clone()]);
    assert!(!lineage.ancestors(&after).contains(&after));
    assert_eq!(lineage.descendants(&own), std::slice::from_ref(&own));
    assert_eq!(lineage.path(&a, &c).unwrap(), [a.clone(), b.clone(), c.clone()]);
    assert_eq!(lineage.common_ancestors(&a, &b).len(), 4);
    let topology = lineage.topological();
    assert_eq!(topology.order, [own, before, a, b, c, after]);
    assert_eq!(topology.cycles, lineage.cycles());
}

#[test]
fn dag_6_a_long_run_is_no_danger_to_the_stack() {
    const LENGTH: u64 = 300_000;
    let first = node("long", 0);
    let lineage: Lineage =
        (1..LENGTH).map(|seq| edge(&first.sibling(seq), &first.sibling(seq - 1))).collect();
    assert_eq!(lineage.len() as u64, LENGTH);
    let last = first.sibling(LENGTH - 1);
    assert_eq!(lineage.ancestors(&last).last(), Some(&first));
    assert_eq!(lineage.path(&first, &last).unwrap().len() as u64, LENGTH);
    let topology = lineage.topological();
    assert!(topology.cycles.is_empty() && topology.order.is_sorted());
}

/// The same questions, answered by iteration to a fixed point over plain sets.
struct Oracle {
    nodes: BTreeSet<Node>,
    edges: BTreeSet<Edge>,
    /// For every node, all that it reaches towards its parents over at least one edge.
    above: BTreeMap<Node, BTreeSet<Node>>,
}

impl Oracle {
    fn new(edges: &[Edge]) -> Self {
        let edges: BTreeSet<Edge> = edges.iter().cloned().collect();
        let nodes: BTreeSet<Node> =
            edges.iter().flat_map(|edge| [edge.child.clone(), edge.parent.clone()]).collect();
        let mut above: BTreeMap<Node, BTreeSet<Node>> =
            nodes.iter().map(|node| (node.clone(), BTreeSet::new())).collect();
        loop {
            let old = above.clone();
            for Edge { child, parent } in &edges {
                let more = old[parent].clone();
                let set = above.get_mut(child).unwrap();
                set.insert(parent.clone());
                set.extend(more);
            }
            if above == old {
                return Self { nodes, edges, above };
            }
        }
    }

    fn ancestors(&self, node: &Node) -> BTreeSet<Node> {
        self.above[node].clone()
    }

    fn descendants(&self, node: &Node) -> BTreeSet<Node> {
        self.nodes.iter().filter(|other| self.above[*other].contains(node)).cloned().collect()
    }

    /// The number of edges from `from` down to `to`, by trying all lengths.
    fn distance(&self, from: &Node, to: &Node) -> Option<usize> {
        let mut reached = BTreeSet::from([from.clone()]);
        for length in 0..=self.nodes.len() {
            if reached.contains(to) {
                return Some(length);
            }
            reached = self
                .edges
                .iter()
                .filter(|edge| reached.contains(&edge.parent))
                .map(|edge| edge.child.clone())
                .collect();
        }
        None
    }

    fn cycles(&self) -> Vec<Vec<Node>> {
        let mutual =
            |one: &Node, other: &Node| self.above[one].contains(other) && self.above[other].contains(one);
        let groups: BTreeSet<Vec<Node>> = self
            .nodes
            .iter()
            .filter(|node| mutual(node, node))
            .map(|node| self.nodes.iter().filter(|other| mutual(node, other)).cloned().collect())
            .collect();
        groups.into_iter().collect()
    }
}

/// Edges among a dozen nodes of three runs: sparse to dense, with duplicates, self-loops and cycles.
fn edge_lists() -> impl Strategy<Value = Vec<Edge>> {
    let ends = || (0..3_usize, 0..4_u64).prop_map(|(run, seq)| node(["a", "b:c", "\u{4e2d}"][run], seq * 7));
    prop::collection::vec((ends(), ends()).prop_map(|(child, parent)| Edge::new(child, parent)), 0..30)
}

fn set(nodes: &[Node]) -> BTreeSet<Node> {
    nodes.iter().cloned().collect()
}

proptest! {
    #[test]
    fn dag_6_walks_agree_with_the_oracle(edges in edge_lists()) {
        let (lineage, oracle) = (Lineage::new(edges.clone()), Oracle::new(&edges));
        prop_assert_eq!(lineage.len(), oracle.nodes.len());
        for node in &oracle.nodes {
            let parents: BTreeSet<Address> =
                oracle.edges.iter().filter(|edge| edge.child == *node).map(|edge| edge.parent.address()).collect();
            let found: Vec<Address> = lineage.parents(node).iter().map(Node::address).collect();
            prop_assert_eq!(found, parents.into_iter().collect::<Vec<_>>());
            let children: BTreeSet<Address> =
                oracle.edges.iter().filter(|edge| edge.parent == *node).map(|edge| edge.child.address()).collect();
            let found: Vec<Address> = lineage.children(node).iter().map(Node::address).collect();
            prop_assert_eq!(found, children.into_iter().collect::<Vec<_>>());

            let ancestors = lineage.ancestors(node);
            prop_assert_eq!(set(&ancestors).len(), ancestors.len(), "each once");
            prop_assert_eq!(set(&ancestors), oracle.ancestors(node));
            // Nearest first: the node itself, where it is among them, is a whole turn of its cycle away.
            let away = |other: &Node| if other == node { usize::MAX } else { oracle.distance(other, node).unwrap() };
            prop_assert!(ancestors.iter().filter(|other| *other != node).is_sorted_by_key(away));
            prop_assert_eq!(set(&lineage.descendants(node)), oracle.descendants(node));
        }
        prop_assert_eq!(lineage.cycles(), oracle.cycles());
    }

    #[test]
    fn dag_6_pairs_agree_with_the_oracle(edges in edge_lists()) {
        let (lineage, oracle) = (Lineage::new(edges.clone()), Oracle::new(&edges));
        for one in &oracle.nodes {
            for other in &oracle.nodes {
                let with_self = |node: &Node| {
                    let mut set = oracle.ancestors(node);
                    set.insert(node.clone());
                    set
                };
                let common: BTreeSet<Node> = with_self(one).intersection(&with_self(other)).cloned().collect();
                let found = lineage.common_ancestors(one, other);
                prop_assert_eq!(found.len(), common.len());
                prop_assert_eq!(set(&found), common);

                let length = oracle.distance(one, other).or_else(|| oracle.distance(other, one));
                let path = lineage.path(one, other);
                prop_assert_eq!(path.as_ref().map(|path| path.len() - 1), length);
                if let Some(path) = path {
                    prop_assert_eq!((path.first(), path.last()), (Some(one), Some(other)));
                    let down = oracle.distance(one, other).is_some();
                    for pair in path.windows(2) {
                        let (child, parent) = if down { (&pair[1], &pair[0]) } else { (&pair[0], &pair[1]) };
                        prop_assert!(oracle.edges.contains(&edge(child, parent)));
                    }
                }
            }
        }
    }

    #[test]
    fn dag_6_topological_order_is_right_and_free_of_the_order_of_edges(
        (edges, shuffled) in edge_lists().prop_flat_map(|edges| (Just(edges.clone()), Just(edges).prop_shuffle()))
    ) {
        let (lineage, oracle) = (Lineage::new(edges.clone()), Oracle::new(&edges));
        let topology = lineage.topological();
        prop_assert_eq!(set(&topology.order), oracle.nodes.clone());
        prop_assert_eq!(topology.order.len(), oracle.nodes.len());
        let place = |node: &Node| topology.order.iter().position(|other| other == node).unwrap();
        for Edge { child, parent } in &oracle.edges {
            let mutual = oracle.above[parent].contains(child);
            prop_assert!(mutual || place(parent) < place(child));
        }
        // The members of a cycle stand together.
        for cycle in &topology.cycles {
            let places: BTreeSet<usize> = cycle.iter().map(place).collect();
            prop_assert_eq!(places.last().unwrap() - places.first().unwrap() + 1, cycle.len());
        }
        prop_assert_eq!(Lineage::new(shuffled).topological(), topology);
    }
}
