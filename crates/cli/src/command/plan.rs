//! `waycairn plan`: what a launch of a study would do.

use clap::Args;
use serde_json::json;
use waycairn_study::{PlannedRun, ProductState};

use crate::command::study::StudyPlace;
use crate::context::Context;
use crate::error::CliError;
use crate::number;
use crate::output::{Shape, ShapeOutput};
use crate::table::Grid;
use crate::value::Value;

/// Say what a launch of a study would do: its runs, what is there already, what the rest takes
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn plan
  waycairn plan --profile full --format json

Everything is checked and nothing is written. A configuration that is over a limit refuses the whole launch.")]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(super) place: StudyPlace,
    #[command(flatten)]
    pub(super) output: ShapeOutput,
}

pub(crate) fn run(args: &PlanArgs, context: &Context) -> Result<(), CliError> {
    let (training, plan) = args.place.plan(context)?;
    let mut out = args.output.place.open()?;
    match args.output.format() {
        Shape::Json => {
            let runs: Vec<serde_json::Value> = plan.runs.iter().map(json).collect();
            out.json(&Value::from(json!({
                "output": training.output(),
                "profile": training.profile(),
                "experiment": training.experiment(),
                "configurations": training.configurations().len(),
                "runs": runs,
            })))?;
        }
        Shape::Table => {
            let mut grid =
                Grid::new(["configuration", "member", "model", "steps", "tokens", "parameters", "weights"]);
            for run in &plan.runs {
                let estimate = &run.description.estimate;
                grid.push([
                    Value::Text(run.label.clone()),
                    Value::Text(run.job.member.clone()),
                    Value::from(state(run.state)),
                    Value::Count(estimate.steps),
                    Value::Count(estimate.tokens),
                    Value::Count(estimate.parameters),
                    Value::Text(number::bytes(estimate.weight_bytes)),
                ]);
            }
            context.table(&grid, "no runs", &mut out)?;
            let there = plan.runs.iter().filter(|run| run.state == ProductState::Hit).count();
            out.text(&format!(
                "{} of {} models are there; the rest goes to `{}`\n",
                there,
                plan.runs.len(),
                training.output().display()
            ))?;
        }
    }
    out.finish()
}

/// The stable shape of a run of a plan.
fn json(run: &PlannedRun) -> serde_json::Value {
    json!({
        "path": run.folder(),
        "configuration": run.label,
        "member": run.job.member,
        "name": run.job.name,
        "products": [{ "product": "model", "key": run.key.digest(), "status": state(run.state) }],
        "estimate": run.description.estimate,
    })
}

fn state(state: ProductState) -> &'static str {
    match state {
        ProductState::Hit => "hit",
        ProductState::Miss => "miss",
        ProductState::Damaged => "damaged",
    }
}
