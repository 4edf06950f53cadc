//! `waycairn plan`: what a launch of a study would do.

use clap::Args;
use serde_json::json;
use waycairn_study::{PlannedProduct, PlannedRun, ProductState};

use crate::command::plugins::PluginPlaces;
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
    pub(super) places: PluginPlaces,
    #[command(flatten)]
    pub(super) output: ShapeOutput,
}

pub(crate) fn run(args: &PlanArgs, context: &Context) -> Result<(), CliError> {
    let (training, plan, products) = args.place.planned(&args.places, context)?;
    let mut out = args.output.place.open()?;
    match args.output.format() {
        Shape::Json => {
            let runs = plan.runs.iter().zip(&products).map(|(run, products)| json(run, products));
            let runs: Vec<serde_json::Value> = runs.collect();
            out.json(&Value::from(json!({
                "output": training.output(),
                "profile": training.profile(),
                "experiment": training.experiment(),
                "configurations": training.configurations().len(),
                "runs": runs,
            })))?;
        }
        Shape::Table => {
            let rows = plan.runs.iter().any(|run| run.description.estimate.rows.is_some());
            let counted = if rows { "rows" } else { "tokens" };
            let mut grid = Grid::new([
                "configuration",
                "member",
                "model",
                "steps",
                counted,
                "parameters",
                "weights",
                "products",
            ]);
            for (run, products) in plan.runs.iter().zip(&products) {
                let estimate = &run.description.estimate;
                grid.push([
                    Value::Text(run.label.clone()),
                    Value::Text(run.job.member.clone()),
                    Value::from(state(run.state)),
                    Value::Count(estimate.steps),
                    Value::Count(estimate.tokens.or(estimate.rows).unwrap_or_default()),
                    Value::Count(estimate.parameters),
                    Value::Text(number::bytes(estimate.weight_bytes)),
                    Value::text((!products.is_empty()).then(|| there(products))),
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
fn json(run: &PlannedRun, products: &[PlannedProduct]) -> serde_json::Value {
    let model = json!({
        "product": "model",
        "key": run.key.digest(),
        "status": state(run.state),
        "estimate": run.description.estimate,
    });
    let products = products.iter().map(|planned| {
        json!({
            "product": planned.recipe.product,
            "key": planned.key.digest(),
            "status": state(planned.state),
            "estimate": planned.estimate,
        })
    });
    json!({
        "path": run.folder(),
        "configuration": run.label,
        "member": run.job.member,
        "name": run.job.name,
        "products": std::iter::once(model).chain(products).collect::<Vec<_>>(),
    })
}

/// How many products are there, in words.
fn there(products: &[PlannedProduct]) -> String {
    let hits = products.iter().filter(|planned| planned.state == ProductState::Hit).count();
    format!("{hits} of {} there", products.len())
}

fn state(state: ProductState) -> &'static str {
    match state {
        ProductState::Hit => "hit",
        ProductState::Miss => "miss",
        ProductState::Damaged => "damaged",
    }
}
