//! The edge: one recorded parent of one node.

use crate::Node;

/// Says that a record of `child` named `parent` as its parent.
///
/// A node may have several recorded parents. Two edges are equal when they join the same two nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    /// The node that was recorded, without a parent of its own.
    pub child: Node,
    /// The node before it, without a parent of its own.
    pub parent: Node,
}

impl Edge {
    /// Makes an edge; parents that the two nodes carry are dropped.
    #[must_use]
    pub fn new(child: Node, parent: Node) -> Self {
        Self { child: child.with_parent(None), parent: parent.with_parent(None) }
    }

    /// Makes the edge to the parent that a node carries, if it carries one.
    #[must_use]
    pub fn of(node: &Node) -> Option<Self> {
        let parent = node.parent()?.decode();
        Some(Self { child: node.clone().with_parent(None), parent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_successor_joins_it_to_the_node_before() {
        let node = Node::new("run", "949e88", 3).unwrap();
        assert_eq!(Edge::of(&node), None);
        let next = node.next().unwrap();
        let edge = Edge::of(&next).unwrap();
        assert_eq!(edge, Edge::new(next.clone(), node.clone()));
        assert_eq!((edge.child.parent(), edge.parent.parent()), (None, None));
        assert_eq!(Edge::new(next, node).child.parent(), None);
    }
}
