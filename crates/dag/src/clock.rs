//! The clock: one owner ticks, many read the live node.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{AddressError, Node};

/// Is the one mutable position of a job.
///
/// The owner ticks; everybody else holds a [`ClockView`]. There is no second clock for one position, hence a
/// clock cannot be cloned.
///
/// # Concurrency
///
/// Name and nonce are fixed, so the live node is one atomic integer beside them: a view takes no lock and cannot
/// see half of a tick. What the owner wrote before a tick is visible to a reader that sees the tick.
///
/// ```
/// # use waycairn_dag::{Clock, Node};
/// # fn main() -> Result<(), waycairn_dag::AddressError> {
/// let mut clock = Clock::new(Node::new("run", "949e88", 7)?);
/// let view = clock.view();
/// clock.tick()?;
/// assert_eq!(view.seq(), 8);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Clock(Arc<Shared>);

/// Reads the live node of a [`Clock`], from any thread.
///
/// The position costs about a nanosecond, the node about a hundred: two shared texts and the address of its parent.
/// A view outlives its clock: it then shows the last node.
#[derive(Debug, Clone)]
pub struct ClockView(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The node that the clock began at, with the parent that it was given.
    first: Node,
    /// Never below `first.seq()`, never above [`Node::MAX_SEQ`], never decreasing.
    seq: AtomicU64,
}

impl Clock {
    /// Begins at a node. Its parent is kept for as long as the clock stands there; later nodes have their
    /// predecessors as parents.
    #[must_use]
    pub fn new(node: Node) -> Self {
        let seq = AtomicU64::new(node.seq());
        Self(Arc::new(Shared { first: node, seq }))
    }

    /// Shows the live node.
    #[must_use]
    pub fn node(&self) -> Node {
        self.0.node()
    }

    /// Shows the position of the live node.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.0.seq()
    }

    /// Goes on to the successor and returns it.
    ///
    /// # Errors
    ///
    /// [`NoSuccessor`](AddressError::NoSuccessor) at [`Node::MAX_SEQ`]; the clock then stays where it is.
    pub fn tick(&mut self) -> Result<Node, AddressError> {
        let next = self.node().next()?;
        self.0.seq.store(next.seq(), Ordering::Release);
        Ok(next)
    }

    /// Makes a view that follows this clock.
    #[must_use]
    pub fn view(&self) -> ClockView {
        ClockView(Arc::clone(&self.0))
    }
}

impl ClockView {
    /// Shows the live node.
    #[must_use]
    pub fn node(&self) -> Node {
        self.0.node()
    }

    /// Shows the position of the live node.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.0.seq()
    }
}

impl Shared {
    fn seq(&self) -> u64 {
        self.seq.load(Ordering::Acquire)
    }

    fn node(&self) -> Node {
        // One load decides both the position and the parent, so the two cannot disagree.
        match self.seq() {
            seq if seq == self.first.seq() => self.first.clone(),
            seq => self.first.after_previous(seq),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(seq: u64) -> Node {
        Node::new("a:name", "949e88", seq).unwrap()
    }

    #[test]
    fn dag_1_a_tick_keeps_the_run_and_makes_the_old_node_the_parent() {
        let mut clock = Clock::new(node(4));
        let old = clock.node();
        let new = clock.tick().unwrap();
        assert!(new.same_run(&old));
        assert_eq!(new.seq(), 5);
        assert_eq!(new.parent(), Some(&old.address()));
        assert_eq!(clock.node(), new);
        assert_eq!(clock.node().parent(), Some(&old.address()));
        assert_eq!(clock.seq(), 5);
    }

    #[test]
    fn the_parent_of_the_first_node_is_kept() {
        let base = Node::new("base", "0c11f2", 99).unwrap();
        let mut clock = Clock::new(node(0).with_parent(Some(base.address())));
        let view = clock.view();
        assert_eq!(view.node().parent(), Some(&base.address()));
        clock.tick().unwrap();
        assert_eq!(view.node().parent(), Some(&node(0).address()));
        // A resumed job begins at a node that has no parent here: none is invented for it.
        assert_eq!(Clock::new(node(7)).node().parent(), None);
    }

    #[test]
    fn identity_case_02_a_view_follows_the_tick() {
        let mut clock = Clock::new(node(0));
        let (view, other) = (clock.view(), clock.view().clone());
        clock.tick().unwrap();
        assert_eq!(view.node(), node(1));
        clock.tick().unwrap();
        assert_eq!((view.seq(), other.seq()), (2, 2));
        drop(clock);
        assert_eq!(view.node(), node(2));
    }

    #[test]
    fn the_last_position_refuses_a_tick_and_stays() {
        let mut clock = Clock::new(node(Node::MAX_SEQ - 1));
        assert_eq!(clock.tick().unwrap().seq(), Node::MAX_SEQ);
        assert!(matches!(clock.tick(), Err(AddressError::NoSuccessor { .. })));
        assert_eq!(clock.seq(), Node::MAX_SEQ);
    }

    #[test]
    fn dag_5_views_never_see_a_torn_node_and_never_go_back() {
        const TICKS: u64 = 100_000;
        let first = node(10).with_parent(Some(Node::new("base", "0c11f2", 3).unwrap().address()));
        let mut clock = Clock::new(first.clone());
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..3)
                .map(|_| {
                    let (view, first) = (clock.view(), first.clone());
                    scope.spawn(move || {
                        let (mut last, mut seen) = (0, 0_u64);
                        while last < first.seq() + TICKS {
                            let node = view.node();
                            assert!(node.same_run(&first));
                            assert!(node.seq() >= last, "a view went back");
                            if node.seq() == first.seq() {
                                assert_eq!(node.parent(), first.parent());
                            } else if seen % 64 == 0 {
                                assert_eq!(node.parent().unwrap().decode().seq() + 1, node.seq());
                            }
                            last = node.seq();
                            assert!(view.seq() >= last);
                            seen += 1;
                        }
                    })
                })
                .collect();
            for _ in 0..TICKS {
                clock.tick().unwrap();
            }
            for reader in readers {
                reader.join().unwrap();
            }
        });
    }
}
