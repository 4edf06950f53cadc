//! The plot `showcase`: as `reweighting`, for one fixed pair with many samples.

use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration, Needs, Sources};

use super::figure::emit;
use super::input::{DPI, amount, dpi, lengths, plot_sources};
use super::reweighting::Pair;
use super::words::short;

const SOURCES: Sources = plot_sources!(["src/plots/showcase.rs", "src/plots/reweighting.rs"], [REWEIGHTING]);

const SHOWCASE_BINS: &str = "analysis.showcase.bins";

/// Draws source, target and reweighted densities.
#[derive(Debug, Default)]
pub struct ShowcasePlot;

impl Analysis for ShowcasePlot {
    fn declare() -> Declaration {
        let what = "source, target and reweighted densities of one fixed pair";
        let needs = Needs::default().product("showcase_observations").product("showcase_predictions");
        Declaration::new("showcase", env!("CARGO_PKG_VERSION"), what)
            .plot()
            .needs(needs.study(DPI).study(SHOWCASE_BINS))
            .sources(SOURCES)
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let observations = context.product("showcase_observations")?;
        let predictions = context.product("showcase_predictions")?;
        let [_, dimension] = lengths(&observations, "source")?;
        let [_, parameters] = lengths(&observations, "theta")?;
        let theta = observations.array::<f64>("theta")?;
        let pair = Pair {
            dimension,
            source: observations.array::<f32>("source")?,
            target: observations.array::<f32>("target")?,
            learned: predictions.array::<f64>("log_ratio")?,
            exact: None,
        };
        emit(context, &pair.draw(&note(theta, parameters), amount(context, SHOWCASE_BINS)?)?, dpi(context)?)
    }
}

/// Which points are compared.
pub(crate) fn note(theta: &[f64], parameters: usize) -> String {
    let point = |point: &[f64]| {
        let values: Vec<String> = point.iter().map(|value| short(*value)).collect();
        if values.len() == 1 { values.concat() } else { format!("({})", values.join(", ")) }
    };
    let points: Vec<String> = theta.chunks_exact(parameters.max(1)).map(point).collect();
    match points.as_slice() {
        [from, to] => format!("\u{3b8}\u{2080} = {from}, \u{3b8}\u{2081} = {to}"),
        _ => String::new(),
    }
}
