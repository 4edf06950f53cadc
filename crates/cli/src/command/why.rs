//! `waycairn why`: why a product is not found in the cache.

use clap::Args;
use serde_json::json;

use crate::command::plugins::PluginPlaces;
use crate::command::study::StudyPlace;
use crate::context::Context;
use crate::error::CliError;
use crate::failure;
use crate::output::{Shape, ShapeOutput};
use crate::table::printable;
use crate::value::Value;

/// Say why a product of a study is not found: what its recipe differs in from the nearest one that is there
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  waycairn why model
  waycairn why model --profile full --format json")]
pub(crate) struct WhyArgs {
    /// The product: model, or one of a plugin
    #[arg(value_name = "PRODUCT")]
    pub(super) product: String,
    #[command(flatten)]
    pub(super) place: StudyPlace,
    #[command(flatten)]
    pub(super) places: PluginPlaces,
    #[command(flatten)]
    pub(super) output: ShapeOutput,
}

pub(crate) fn run(args: &WhyArgs, context: &Context) -> Result<(), CliError> {
    let (training, plan, products) = args.place.planned(&args.places, context)?;
    let known = |name: &str| products.iter().flatten().any(|planned| planned.recipe.product == name);
    if args.product != "model" && !known(&args.product) {
        let mut names: Vec<&str> =
            products.iter().flatten().map(|planned| planned.recipe.product.as_str()).collect();
        names.push("model");
        names.sort_unstable();
        names.dedup();
        return Err(CliError::usage(format!("the study has no product `{}`", printable(&args.product)))
            .next(format!("its products are {}", names.join(", "))));
    }
    let missing = match args.product.as_str() {
        "model" => plan.why(training.output()),
        product => plan.why_product(training.output(), product, &products),
    };
    let missing = missing.map_err(failure::study)?;
    let mut out = args.output.place.open()?;
    match args.output.format() {
        Shape::Json => {
            let told: Vec<serde_json::Value> = missing
                .iter()
                .map(|(run, why)| {
                    json!({
                        "configuration": run.label,
                        "member": run.job.member,
                        "product": args.product,
                        "key": why.key.digest(),
                        "nearest": why.nearest,
                        "entries": why.entries,
                    })
                })
                .collect();
            out.json(&Value::from(serde_json::Value::Array(told)))?;
        }
        Shape::Table => {
            if missing.is_empty() {
                out.text(&format!("every {} is there\n", printable(&args.product)))?;
            }
            for (run, why) in &missing {
                out.text(&format!("{} {}: {} is not there\n", run.label, run.job.member, why.key.short()))?;
                let Some(nearest) = &why.nearest else {
                    out.text(&format!("  there is no entry of `{}` at all\n", args.product))?;
                    continue;
                };
                out.text(&format!("  the nearest is {}, of {}\n", nearest.entry, nearest.created))?;
                for change in &nearest.changes {
                    let shown = |value: &Option<serde_json::Value>| {
                        value.as_ref().map_or_else(|| "absent".to_owned(), ToString::to_string)
                    };
                    out.text(&format!(
                        "  {}: {} -> {}\n",
                        change.path,
                        shown(&change.old),
                        shown(&change.new)
                    ))?;
                }
            }
        }
    }
    out.finish()
}
