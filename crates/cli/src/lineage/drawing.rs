//! The graph as text: a run is a column of nodes, a branch a column beside the node where it began. Long stretches
//! without a branch are one line.
//!
//! ```text
//! shakespeare@3f2a91bc00d1e2f4  2000 nodes, finished
//! o 0
//! : 998 nodes, checkpoints at 19, 39, 59 .. 979 (49)
//! o 999  checkpoint, artifacts: summary
//! |\
//! | warmer@a1b2c3d4e5f60718  500 nodes
//! | o 0
//! | : 498 nodes
//! | o 499  checkpoint
//! |
//! : 999 nodes, checkpoints at 1019, 1039, 1059 .. 1979 (49)
//! o 1999  checkpoint
//! ```

use std::collections::BTreeMap;

use waycairn_dag::Node;

use crate::lineage::graph::{Graph, Stone, run_of};
use crate::lineage::stretch::{Drawn, Stretch};
use crate::number::plural;
use crate::table::printable;
use crate::terminal::Terminal;

/// Draws the graph, every node of it if `full`. `finished` says of a run, given as its node at position 0, whether it
/// reached its end.
pub(crate) fn draw(
    graph: &Graph,
    full: bool,
    finished: impl Fn(&Node) -> bool,
    terminal: &Terminal,
) -> String {
    let plan = Plan::new(graph, full);
    let mut drawing = Drawing { text: String::new(), drawn: vec![false; plan.runs.len()] };
    // First the runs that begin on their own; what is left then hangs on a cycle and may begin anywhere.
    let on_their_own = (0..plan.runs.len()).filter(|run| !plan.is_branch[*run]);
    for start in on_their_own.chain(0..plan.runs.len()) {
        if drawing.drawn[start] {
            continue;
        }
        if !drawing.text.is_empty() {
            drawing.text.push('\n');
        }
        let mut open = vec![drawing.begin(&plan, start, String::new(), &finished, terminal)];
        while let Some(mut column) = open.pop() {
            let stones = &plan.runs[column.run];
            if let Some(branch) = column.waiting.pop() {
                let at_the_end = column.shown == stones.len() && column.waiting.is_empty();
                if drawing.drawn[branch] {
                    open.push(column);
                } else if at_the_end {
                    // Nothing follows in this column, so the branch takes its place.
                    drawing.line(&column.prefix, "|");
                    open.push(drawing.begin(&plan, branch, column.prefix, &finished, terminal));
                } else {
                    drawing.line(&column.prefix, "|\\");
                    let prefix = format!("{}| ", column.prefix);
                    column.forked = true;
                    open.push(column);
                    open.push(drawing.begin(&plan, branch, prefix, &finished, terminal));
                }
            } else if let Some(&stone) = stones.get(column.shown) {
                if column.forked {
                    drawing.line(&column.prefix, "|");
                    column.forked = false;
                }
                drawing.stone(&plan, &column.prefix, stones, stone, terminal);
                column.shown += 1;
                column.waiting = plan.branches.get(&stone.node).cloned().unwrap_or_default();
                column.waiting.reverse();
                open.push(column);
            }
        }
    }
    drawing.text
}

/// The graph by runs, each a list of the nodes that are drawn.
struct Plan<'g> {
    runs: Vec<Vec<&'g Stone>>,
    sizes: Vec<u64>,
    /// Whether the run hangs below a node of another one.
    is_branch: Vec<bool>,
    /// At a node, the runs that begin there.
    branches: BTreeMap<&'g Node, Vec<usize>>,
    /// Parents of a node that neither its column nor the place of its run shows.
    others: BTreeMap<&'g Node, Vec<&'g Node>>,
    /// What is left out before a node.
    before: BTreeMap<&'g Node, Stretch>,
}

impl<'g> Plan<'g> {
    fn new(graph: &'g Graph, full: bool) -> Self {
        let Drawn { runs, before } = Drawn::new(graph, full);
        let number: BTreeMap<&Node, usize> =
            runs.iter().enumerate().map(|(number, stones)| (&stones[0].node, number)).collect();
        let sizes = runs.iter().map(|stones| graph.sizes.get(&run_of(&stones[0].node)).copied().unwrap_or(0));
        let mut plan = Self {
            sizes: sizes.collect(),
            is_branch: vec![false; runs.len()],
            runs,
            branches: BTreeMap::new(),
            others: BTreeMap::new(),
            before,
        };
        for link in &graph.links {
            let first = number.get(&link.child).copied();
            match first {
                _ if link.is_chain() => {}
                Some(run) if !link.child.same_run(&link.parent) && !plan.is_branch[run] => {
                    plan.is_branch[run] = true;
                    plan.branches.entry(&link.parent).or_default().push(run);
                }
                _ => plan.others.entry(&link.child).or_default().push(&link.parent),
            }
        }
        plan
    }
}

/// A run that is being drawn.
struct Column {
    run: usize,
    /// How many of its nodes have their lines.
    shown: usize,
    /// What stands to the left of its lines.
    prefix: String,
    /// Runs that begin at the node last drawn and are not drawn yet, the next one last.
    waiting: Vec<usize>,
    /// Whether a branch was drawn beside it since its last line.
    forked: bool,
}

/// The lines so far.
struct Drawing {
    text: String,
    drawn: Vec<bool>,
}

impl Drawing {
    /// Writes the header of a run and opens its column.
    fn begin(
        &mut self,
        plan: &Plan<'_>,
        run: usize,
        prefix: String,
        finished: impl Fn(&Node) -> bool,
        terminal: &Terminal,
    ) -> Column {
        self.drawn[run] = true;
        let node = &plan.runs[run][0].node;
        let name = format!("{}@{}", printable(node.name()), printable(node.nonce()));
        let end = if finished(&run_of(node)) { ", finished" } else { "" };
        let size = plural(plan.sizes[run], "node");
        self.line(&prefix, &format!("{}  {size}{end}", terminal.strong(&name)));
        Column { run, shown: 0, prefix, waiting: Vec::new(), forked: false }
    }

    /// Writes the lines of a node: what is left out before it, then the node.
    fn stone(
        &mut self,
        plan: &Plan<'_>,
        prefix: &str,
        stones: &[&Stone],
        stone: &Stone,
        terminal: &Terminal,
    ) {
        if let Some(before) = plan.before.get(&stone.node).and_then(Stretch::text) {
            self.line(prefix, &terminal.faint(&format!(": {before}")));
        }
        let mut said = Vec::new();
        if stone.marks.checkpoint {
            said.push("checkpoint".to_owned());
        }
        if !stone.marks.artifacts.is_empty() {
            let names = stone.marks.artifacts.iter().map(|name| printable(name)).collect::<Vec<_>>();
            said.push(format!("artifacts: {}", names.join(", ")));
        }
        if let Some(others) = plan.others.get(&stone.node) {
            let names = others.iter().map(|node| printable(&node.to_string())).collect::<Vec<_>>();
            said.push(format!("also from {}", names.join(", ")));
        }
        let width = stones.last().map_or(0, |last| last.node.seq().to_string().len());
        let seq = format!("{:<width$}", stone.node.seq());
        let line = if stone.asked {
            format!("{} {}  {}", terminal.strong("*"), terminal.strong(&seq), said.join(", "))
        } else {
            format!("o {seq}  {}", said.join(", "))
        };
        self.line(prefix, &line);
    }

    fn line(&mut self, prefix: &str, line: &str) {
        self.text.push_str(prefix);
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use waycairn_dag::Edge;

    use super::*;
    use crate::lineage::graph::tests::{graph, node};
    use crate::lineage::{Graph, family};

    fn drawn(graph: &Graph) -> String {
        draw(graph, false, |run| run.name() == "a", &Terminal::plain())
    }

    #[test]
    fn branches_stand_beside_their_base() {
        let text = drawn(&graph(&node("b", 2), false));
        let expected = "\
a@0123456789abcdef  10 nodes, finished
o 0
: 3 nodes
o 4  checkpoint, artifacts: summary
|\\
| b@0123456789abcdef  3 nodes
| o 0
| : 1 node
| * 2  checkpoint
| |
| c@0123456789abcdef  2 nodes
| o 0
| o 1  checkpoint
|
: 4 nodes
o 9  checkpoint
";
        assert_eq!(text, expected);
    }

    #[test]
    fn several_parents_and_cycles_are_named() {
        let edges = vec![
            Edge::new(node("a", 1), node("a", 0)),
            Edge::new(node("b", 0), node("a", 0)),
            Edge::new(node("b", 0), node("a", 1)),
            Edge::new(node("a", 0), node("b", 0)),
        ];
        let asked = node("a", 0);
        let graph = Graph::new(family(&asked, edges), [], &BTreeMap::new(), &asked, false);
        let expected = "\
a@0123456789abcdef  2 nodes, finished
* 0
|\\
| b@0123456789abcdef  1 node
| o 0  also from a@0123456789abcdef:1
|
o 1
";
        assert_eq!(drawn(&graph), expected);
    }

    #[test]
    fn a_long_chain_of_branches_needs_no_stack() {
        let mut edges = Vec::new();
        for number in 1..3_000 {
            edges.push(Edge::new(node(&format!("r{number}"), 0), node(&format!("r{}", number - 1), 0)));
        }
        let asked = node("r0", 0);
        let graph = Graph::new(family(&asked, edges), [], &BTreeMap::new(), &asked, false);
        assert_eq!(drawn(&graph).lines().count(), 3 * 3_000 - 1);
    }
}
