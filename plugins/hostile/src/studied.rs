//! A metric and a plot of a study.

use waycairn_analysis_api::serde_json::{Value, json};
use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration, Needs, Sources, sources};

const SOURCES: Sources = sources!["src/studied.rs"];

fn mode<'c>(context: &'c Context<'_>) -> &'c str {
    context.settings().get("mode").and_then(Value::as_str).unwrap_or_default()
}

/// Answers as its setting `mode` says.
#[derive(Debug, Default)]
pub struct Metric;

impl Analysis for Metric {
    fn declare() -> Declaration {
        Declaration::new("metric", "1.0.0", "answers as its setting says")
            .metric()
            .settings(json!({"mode": "report"}))
            .needs(
                Needs::default()
                    .product("sound")
                    .function("double")
                    .study("training.problem")
                    .study("member"),
            )
            .sources(SOURCES)
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        match mode(context) {
            "report" => {
                context.progress(1, 2, "halves");
                let product = context.product("sound")?;
                let again = context.product("sound")?;
                let scores = product.array::<f64>("scores")?;
                let doubled =
                    context.call("double", &product.tensors().iter().copied().collect::<Vec<_>>())?;
                context.emit_metric(&json!({
                    "study": context.study(),
                    "key": product.key(),
                    "metadata": product.metadata(),
                    "sum": scores.iter().sum::<f64>(),
                    "shape": product.shape("scores")?,
                    "address": scores.as_ptr().addr(),
                    "same": std::ptr::eq(scores, again.array::<f64>("scores")?),
                    "about": product.json::<Value>("about")?,
                    "doubled": doubled.iter().map(|tensor| tensor.name()).collect::<Vec<_>>(),
                    "cancelled": context.cancelled(),
                }))?;
            }
            "nothing" => {}
            "twice" => {
                context.emit_metric(&1)?;
                context.emit_metric(&2)?;
            }
            "nan" => context.emit_metric(&vec![1.0, f64::NAN])?,
            "undeclared-product" => drop(context.product("other")?),
            "undeclared-function" => drop(context.call("other", &[])?),
            other => return Err(AnalysisError::new(format!("no mode `{other}`"))),
        }
        Ok(())
    }
}

/// Calls a function that no experiment of the project has.
#[derive(Debug, Default)]
pub struct Caller;

impl Analysis for Caller {
    fn declare() -> Declaration {
        Declaration::new("caller", "1.0.0", "calls a function")
            .metric()
            .needs(Needs::default().batch().function("double"))
            .sources(SOURCES)
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let doubled = context.call("double", &[context.batch()?.tensor("tokens")?])?;
        context.emit_metric(&doubled[0].name())?;
        Ok(())
    }
}

/// Draws, or does not, as its setting `mode` says.
#[derive(Debug, Default)]
pub struct Plot;

impl Analysis for Plot {
    fn declare() -> Declaration {
        Declaration::new("plot", "1.0.0", "draws as its setting says")
            .plot()
            .settings(json!({"mode": "figure"}))
    }

    #[expect(clippy::panic, reason = "what it is for")]
    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        match mode(context) {
            "figure" => context.emit_figure("curve", "image/svg+xml", b"<svg/>")?,
            "numbers" => context.emit_json("curve", &[1, 2])?,
            "metric" => context.emit_metric(&1)?,
            "panic" => panic!("the plot panics"),
            other => return Err(AnalysisError::new(format!("no mode `{other}`"))),
        }
        Ok(())
    }
}
