//! The lineage: walks over recorded edges that end on cycles.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap, HashSet};

use petgraph::Direction::{self, Incoming, Outgoing};
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use crate::{Edge, Node};

/// Is the graph of recorded parent edges, and answers questions about ancestry.
///
/// It holds what it was given and nothing else: no edge is inferred from two positions that follow each other, and
/// a parent that was never recorded itself is a node all the same. Nodes come back without the parents they carry.
/// A question about a node that is not in the graph has an empty answer.
///
/// Edges come from files that anybody may have written, so they may form cycles. Every walk ends on them (`DAG-6`):
/// a node on a cycle is found among its own ancestors and descendants, and [`cycles`](Self::cycles) names all of
/// them.
///
/// # Memory
///
/// About 60 bytes a node and 24 an edge, besides one copy of each run's name and nonce. No walk recurses, so long
/// runs are no danger to the stack.
///
/// ```
/// # use waycairn_dag::{Edge, Lineage, Node, Nonce};
/// # fn main() -> Result<(), waycairn_dag::AddressError> {
/// let base = Node::new("base", "949e88", 0)?;
/// let branch = base.branch("warmer", &Nonce::from_random([7; 8]))?;
/// let lineage = Lineage::new([
///     Edge::new(base.next()?, base.clone()),
///     Edge::new(branch.clone(), base.clone()),
///     Edge::new(branch.next()?, branch.clone()),
/// ]);
/// assert_eq!(lineage.ancestors(&branch.next()?), [branch.clone(), base.clone()]);
/// assert_eq!(lineage.common_ancestors(&branch.next()?, &base.next()?), [base]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Lineage {
    /// The first position of every run: a place for its name and nonce.
    runs: Vec<Node>,
    run_index: HashMap<Node, u32>,
    /// Edges point from child to parent: a child has few parents, a parent may have many children, and the check
    /// for a duplicate looks at the edges that leave.
    graph: DiGraph<Slot, ()>,
    slots: HashMap<Slot, NodeIndex>,
}

/// A node of the graph: a run by its index, and a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Slot {
    run: u32,
    seq: u64,
}

/// Is an order of all nodes in which parents stand before their children.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    /// Every node once, parents first. Where that leaves a choice, the smaller identity is first, so the order
    /// does not depend on the order of the edges. The members of one cycle have no such order: they stand together,
    /// after everything that leads to the cycle and before everything that follows from it.
    pub order: Vec<Node>,
    /// What [`Lineage::cycles`] returns; empty for a graph that is as it should be.
    pub cycles: Vec<Vec<Node>>,
}

impl Lineage {
    /// Builds the graph of the given edges. Duplicates count once.
    pub fn new(edges: impl IntoIterator<Item = Edge>) -> Self {
        let mut lineage = Self::default();
        lineage.extend(edges);
        lineage
    }

    /// Adds a node, and the edge to the parent that it carries, if it carries one.
    pub fn insert(&mut self, node: Node) {
        let child = self.intern(&node);
        if let Some(parent) = node.parent() {
            let parent = self.intern(&parent.decode());
            self.graph.update_edge(child, parent, ());
        }
    }

    /// Counts the nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.graph.node_count()
    }

    /// Says whether there is no node at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says whether a node was inserted, or is an end of an edge.
    #[must_use]
    pub fn contains(&self, node: &Node) -> bool {
        self.find(node).is_some()
    }

    /// Finds the recorded parents of a node, sorted by address.
    #[must_use]
    pub fn parents(&self, node: &Node) -> Vec<Node> {
        self.neighbours(node, Outgoing)
    }

    /// Finds the nodes that recorded this one as a parent, sorted by address.
    #[must_use]
    pub fn children(&self, node: &Node) -> Vec<Node> {
        self.neighbours(node, Incoming)
    }

    /// Finds everything that a node comes from, nearest first, equally near ones by identity.
    ///
    /// The node itself is among them exactly when it is on a cycle.
    #[must_use]
    pub fn ancestors(&self, node: &Node) -> Vec<Node> {
        self.find(node).map_or_else(Vec::new, |start| self.named(self.reach(start, Outgoing)))
    }

    /// Finds everything that comes from a node, nearest first, equally near ones by identity.
    ///
    /// The node itself is among them exactly when it is on a cycle.
    #[must_use]
    pub fn descendants(&self, node: &Node) -> Vec<Node> {
        self.find(node).map_or_else(Vec::new, |start| self.named(self.reach(start, Incoming)))
    }

    /// Finds what two nodes both come from, the nearest to the first one first.
    ///
    /// As in version control a node counts among its own ancestors here: of a node and its child the first common
    /// ancestor is the node.
    #[must_use]
    pub fn common_ancestors(&self, one: &Node, other: &Node) -> Vec<Node> {
        let (Some(one), Some(other)) = (self.find(one), self.find(other)) else { return Vec::new() };
        let others: HashSet<NodeIndex> = self.reach(other, Outgoing).into_iter().chain([other]).collect();
        let mut ones = self.reach(one, Outgoing);
        ones.retain(|&index| index != one);
        ones.insert(0, one);
        ones.retain(|index| others.contains(index));
        self.named(ones)
    }

    /// Finds a shortest chain of edges that joins two nodes, both ends included.
    ///
    /// The chain leads from parent to child when `to` comes from `from`, else from child to parent when `from`
    /// comes from `to`, else there is none: two branches of one base have no path, but a common ancestor.
    #[must_use]
    pub fn path(&self, from: &Node, to: &Node) -> Option<Vec<Node>> {
        let (from, to) = (self.find(from)?, self.find(to)?);
        self.chain(from, to, Incoming)
            .or_else(|| self.chain(from, to, Outgoing))
            .map(|chain| self.named(chain))
    }

    /// Orders all nodes, parents first, and names the cycles that forbid such an order.
    #[must_use]
    pub fn topological(&self) -> Topology {
        let components = self.components();
        let ranks = self.ranks();
        let key = |index: NodeIndex| (ranks[self.graph[index].run as usize], self.graph[index].seq);
        let mut component_of = vec![0; self.graph.node_count()];
        for (number, members) in components.iter().enumerate() {
            for member in members {
                component_of[member.index()] = number;
            }
        }
        // How many edges still lead from a component to one that is not placed.
        let mut waits = vec![0_usize; components.len()];
        for edge in self.graph.raw_edges() {
            let (child, parent) = (component_of[edge.source().index()], component_of[edge.target().index()]);
            waits[child] += usize::from(child != parent);
        }
        let mut ready: BinaryHeap<_> = (0..components.len())
            .filter(|&number| waits[number] == 0)
            .map(|number| Reverse((key(components[number][0]), number)))
            .collect();
        let mut order = Vec::with_capacity(self.graph.node_count());
        while let Some(Reverse((_, placed))) = ready.pop() {
            for &member in &components[placed] {
                order.push(member);
                for child in self.graph.neighbors_directed(member, Incoming) {
                    let number = component_of[child.index()];
                    if number != placed {
                        waits[number] -= 1;
                        if waits[number] == 0 {
                            ready.push(Reverse((key(components[number][0]), number)));
                        }
                    }
                }
            }
        }
        Topology { order: self.named(order), cycles: self.cyclic(components) }
    }

    /// Finds the nodes that are ancestors of themselves, in groups: two nodes are in one group when each comes from
    /// the other. Groups and their members are sorted by identity.
    #[must_use]
    pub fn cycles(&self) -> Vec<Vec<Node>> {
        self.cyclic(self.components())
    }

    /// The strongly connected components, the members of each sorted by identity.
    fn components(&self) -> Vec<Vec<NodeIndex>> {
        let mut components = kosaraju_scc(&self.graph);
        for members in &mut components {
            members.sort_unstable_by(|&one, &other| self.compare(one, other));
        }
        components
    }

    fn cyclic(&self, components: Vec<Vec<NodeIndex>>) -> Vec<Vec<Node>> {
        let mut cycles: Vec<_> = components
            .into_iter()
            .filter(|members| members.len() > 1 || self.graph.contains_edge(members[0], members[0]))
            .map(|members| self.named(members))
            .collect();
        cycles.sort_unstable();
        cycles
    }

    /// The place of each run in the order of names and nonces.
    fn ranks(&self) -> Vec<usize> {
        let mut sorted: Vec<usize> = (0..self.runs.len()).collect();
        sorted.sort_unstable_by_key(|&run| &self.runs[run]);
        let mut ranks = vec![0; self.runs.len()];
        for (rank, run) in sorted.into_iter().enumerate() {
            ranks[run] = rank;
        }
        ranks
    }

    /// Everything in one direction, level by level; `start` itself only if an edge leads back to it.
    fn reach(&self, start: NodeIndex, direction: Direction) -> Vec<NodeIndex> {
        let mut seen = vec![false; self.graph.node_count()];
        let (mut reached, mut level) = (Vec::new(), vec![start]);
        while !level.is_empty() {
            let mut next = Vec::new();
            for index in level {
                for neighbour in self.graph.neighbors_directed(index, direction) {
                    if !std::mem::replace(&mut seen[neighbour.index()], true) {
                        next.push(neighbour);
                    }
                }
            }
            next.sort_unstable_by(|&one, &other| self.compare(one, other));
            reached.extend_from_slice(&next);
            level = next;
        }
        reached
    }

    /// A shortest chain in one direction; among equally short ones that through the smaller identities.
    fn chain(&self, from: NodeIndex, to: NodeIndex, direction: Direction) -> Option<Vec<NodeIndex>> {
        let mut before = vec![None; self.graph.node_count()];
        before[from.index()] = Some(from);
        let mut level = vec![from];
        while before[to.index()].is_none() && !level.is_empty() {
            let mut next = Vec::new();
            for index in level {
                for neighbour in self.graph.neighbors_directed(index, direction) {
                    if before[neighbour.index()].is_none() {
                        before[neighbour.index()] = Some(index);
                        next.push(neighbour);
                    }
                }
            }
            next.sort_unstable_by(|&one, &other| self.compare(one, other));
            level = next;
        }
        let mut chain = vec![to];
        let mut end = to;
        while end != from {
            end = before[end.index()]?;
            chain.push(end);
        }
        chain.reverse();
        Some(chain)
    }

    fn neighbours(&self, node: &Node, direction: Direction) -> Vec<Node> {
        let Some(index) = self.find(node) else { return Vec::new() };
        let mut found = self.named(self.graph.neighbors_directed(index, direction).collect());
        found.sort_by_cached_key(Node::address);
        found
    }

    fn compare(&self, one: NodeIndex, other: NodeIndex) -> Ordering {
        let (one, other) = (self.graph[one], self.graph[other]);
        if one.run == other.run {
            one.seq.cmp(&other.seq)
        } else {
            self.runs[one.run as usize].cmp(&self.runs[other.run as usize])
        }
    }

    fn named(&self, indices: Vec<NodeIndex>) -> Vec<Node> {
        let name = |index| {
            let Slot { run, seq } = self.graph[index];
            self.runs[run as usize].sibling(seq)
        };
        indices.into_iter().map(name).collect()
    }

    fn find(&self, node: &Node) -> Option<NodeIndex> {
        let run = *self.run_index.get(&node.sibling(0))?;
        self.slots.get(&Slot { run, seq: node.seq() }).copied()
    }

    fn intern(&mut self, node: &Node) -> NodeIndex {
        let first = node.sibling(0);
        let run = match self.run_index.get(&first) {
            Some(&run) => run,
            None => {
                // The graph refuses to grow past 32 bits of nodes, and a run has at least one.
                let run = u32::try_from(self.runs.len()).unwrap_or(u32::MAX);
                self.runs.push(first.clone());
                self.run_index.insert(first, run);
                run
            }
        };
        let slot = Slot { run, seq: node.seq() };
        *self.slots.entry(slot).or_insert_with(|| self.graph.add_node(slot))
    }
}

impl Extend<Edge> for Lineage {
    fn extend<Edges: IntoIterator<Item = Edge>>(&mut self, edges: Edges) {
        for Edge { child, parent } in edges {
            let (child, parent) = (self.intern(&child), self.intern(&parent));
            self.graph.update_edge(child, parent, ());
        }
    }
}

impl FromIterator<Edge> for Lineage {
    fn from_iter<Edges: IntoIterator<Item = Edge>>(edges: Edges) -> Self {
        Self::new(edges)
    }
}

#[cfg(test)]
mod tests;
