//! `waycairn lineage`: the runs that hang together with a node's run.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use serde_json::json;
use waycairn_dag::{Lineage, Node};
use waycairn_store::{ObjectReader, RunSummary};

use crate::args::NODE_HELP;
use crate::context::Context;
use crate::error::CliError;
use crate::failure;
use crate::lineage::{Graph, Marks, draw, family, run_of};
use crate::output::{Shape, ShapeOutput};
use crate::table::{Grid, printable};
use crate::value::Value;

/// Draw where a node came from and what came of it: all runs connected with its run
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  waycairn lineage warmer
  waycairn lineage shakespeare:999 --full --format json
  waycairn lineage warmer --ancestors --format json
  waycairn lineage warmer --common shakespeare

The drawing folds a long stretch without a branch into one line, with its checkpoints and artifacts; JSON has
the first and last nodes, branch points and checkpoints one by one. --full leaves out no node of either.

One of --parents, --children, --ancestors, --descendants and --common lists nodes instead, the nearest first, as {{node, name,
nonce, seq}} each: those that recorded edges lead to. Every walk ends; `waycairn fsck` tells cycles.

{NODE_HELP}"))]
pub(crate) struct LineageArgs {
    /// The node
    #[arg(value_name = "NODE")]
    pub(super) node: String,
    /// Show every node, and fold nothing
    #[arg(long)]
    pub(super) full: bool,
    #[command(flatten)]
    pub(super) relation: Relation,
    #[command(flatten)]
    pub(super) output: ShapeOutput,
}

/// The nodes that are listed instead of a drawing.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct Relation {
    /// List its recorded parents
    #[arg(long, conflicts_with = "full", help_heading = "Lists")]
    parents: bool,
    /// List the nodes that recorded it as a parent
    #[arg(long, conflicts_with = "full", help_heading = "Lists")]
    children: bool,
    /// List all nodes that it comes from
    #[arg(long, conflicts_with = "full", help_heading = "Lists")]
    ancestors: bool,
    /// List all nodes that come from it
    #[arg(long, conflicts_with = "full", help_heading = "Lists")]
    descendants: bool,
    /// List the nodes that both it and another one come from
    #[arg(long, value_name = "NODE", conflicts_with = "full", help_heading = "Lists")]
    common: Option<String>,
}

impl Relation {
    /// The related nodes, if any relation was asked for.
    fn nodes(
        &self,
        of: &Node,
        reader: &ObjectReader,
        context: &Context,
    ) -> Result<Option<Vec<Node>>, CliError> {
        let lineage = || Ok(Lineage::new(reader.edges().map_err(failure::query)?));
        let nodes = match self {
            Self { parents: true, .. } => lineage()?.parents(of),
            Self { children: true, .. } => lineage()?.children(of),
            Self { ancestors: true, .. } => lineage()?.ancestors(of),
            Self { descendants: true, .. } => lineage()?.descendants(of),
            Self { common: Some(other), .. } => {
                let other = context.resolve(reader, other)?;
                lineage()?.common_ancestors(of, &other)
            }
            _ => return Ok(None),
        };
        Ok(Some(nodes))
    }
}

/// Lists related nodes.
fn list(nodes: &[Node], args: &LineageArgs, context: &Context) -> Result<(), CliError> {
    let mut out = args.output.place.open()?;
    match args.output.format() {
        Shape::Json => {
            let object = |node: &Node| {
                Value::from(json!({
                    "node": node.address(), "name": node.name(), "nonce": node.nonce(), "seq": node.seq(),
                }))
            };
            out.json(&Value::list(nodes.iter().map(object)))?;
        }
        Shape::Table => {
            let mut grid = Grid::new(["node", "address"]);
            for node in nodes {
                grid.push([
                    Value::Text(printable(&node.to_string())),
                    Value::Text(node.address().to_string()),
                ]);
            }
            context.table(&grid, "no such node", &mut out)?;
        }
    }
    out.finish()
}

pub(crate) fn run(args: &LineageArgs, context: &Context) -> Result<(), CliError> {
    let reader = context.reader()?;
    let asked = context.resolve(&reader, &args.node)?;
    if let Some(nodes) = args.relation.nodes(&asked, &reader, context)? {
        return list(&nodes, args, context);
    }
    let runs = reader.runs().map_err(failure::query)?;
    let family = family(&asked, reader.edges().map_err(failure::query)?);
    let cycles = family.cycles();
    let members: BTreeSet<&Node> = family.runs.iter().collect();
    let is_member = |run: &RunSummary| members.contains(&run_of(&run.last));
    let mut nodes = Vec::new();
    let mut marks: BTreeMap<Node, Marks> = BTreeMap::new();
    let mut finished = BTreeSet::new();
    for run in runs.iter().filter(|run| is_member(run)) {
        let mut query = reader.query();
        nodes.extend(query.name(&run.name).nonce(&run.nonce).all().map_err(failure::query)?.value);
        for seq in &run.checkpoints {
            if let Ok(node) = run.last.at(*seq) {
                marks.entry(node).or_default().checkpoint = true;
            }
        }
        query.name(&run.name).nonce(&run.nonce).artifact();
        for node in query.all().map_err(failure::query)?.value {
            let artifacts = reader.artifacts(&node).map_err(failure::query)?;
            marks.entry(node).or_default().artifacts =
                artifacts.into_iter().map(|artifact| artifact.suffix).collect();
        }
        if run.finished {
            finished.insert(run_of(&run.last));
        }
    }
    let graph = Graph::new(family, nodes, &marks, &asked, args.full);
    let mut out = args.output.place.open()?;
    match args.output.format() {
        Shape::Json => out.json(&json(&graph, &cycles))?,
        Shape::Table => {
            let mut text = draw(&graph, args.full, |run| finished.contains(run), &context.looks(&out));
            for cycle in &cycles {
                let names = cycle.iter().map(|node| printable(&node.to_string())).collect::<Vec<_>>();
                text.push_str(&format!("\ncycle: {}\n", names.join(" -> ")));
            }
            out.text(&text)?;
        }
    }
    out.finish()
}

/// The stable shape of a lineage.
fn json(graph: &Graph, cycles: &[Vec<Node>]) -> Value {
    let address = |node: &Node| Value::Text(node.address().to_string());
    let nodes = graph.nodes.iter().map(|stone| {
        Value::Object(vec![
            ("node".into(), address(&stone.node)),
            ("name".into(), Value::from(stone.node.name())),
            ("nonce".into(), Value::from(stone.node.nonce())),
            ("seq".into(), Value::Count(stone.node.seq())),
            ("checkpoint".into(), Value::Bool(stone.marks.checkpoint)),
            ("artifacts".into(), Value::list(stone.marks.artifacts.iter().map(String::as_str))),
        ])
    });
    let edges = graph.links.iter().map(|link| {
        Value::Object(vec![
            ("child".into(), address(&link.child)),
            ("parent".into(), address(&link.parent)),
            ("between".into(), Value::Count(link.between)),
        ])
    });
    let cycles = cycles.iter().map(|cycle| Value::list(cycle.iter().map(address)));
    Value::Object(vec![
        ("nodes".into(), Value::list(nodes)),
        ("edges".into(), Value::list(edges)),
        ("cycles".into(), Value::list(cycles)),
    ])
}

#[cfg(test)]
mod tests {
    use waycairn_dag::Edge;

    use super::*;

    #[test]
    fn cli_1_a_lineage() {
        let node = |seq| Node::new("tiny", "0123456789abcdef", seq).unwrap();
        let edges = vec![Edge::new(node(1), node(0)), Edge::new(node(2), node(1))];
        let marks = Marks { checkpoint: true, artifacts: vec!["summary".to_owned()] };
        let asked = node(2);
        let graph = Graph::new(family(&asked, edges), [], &[(node(2), marks)].into(), &asked, false);
        assert_eq!(
            serde_json::to_string(&json(&graph, &[vec![node(0), node(1)]])).unwrap(),
            r#"{"nodes":[{"node":"dGlueTowMTIzNDU2Nzg5YWJjZGVmOjA","name":"tiny","nonce":"0123456789abcdef","#
                .to_owned()
                + r#""seq":0,"checkpoint":false,"artifacts":[]},{"node":"dGlueTowMTIzNDU2Nzg5YWJjZGVmOjI","#
                + r#""name":"tiny","nonce":"0123456789abcdef","seq":2,"checkpoint":true,"artifacts":["summary"]}],"#
                + r#""edges":[{"child":"dGlueTowMTIzNDU2Nzg5YWJjZGVmOjI","parent":"dGlueTowMTIzNDU2Nzg5YWJjZGVmOjA","#
                + r#""between":1}],"#
                + r#""cycles":[["dGlueTowMTIzNDU2Nzg5YWJjZGVmOjA","dGlueTowMTIzNDU2Nzg5YWJjZGVmOjE"]]}"#
        );
    }
}
