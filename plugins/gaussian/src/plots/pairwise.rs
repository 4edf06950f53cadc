//! The plot `pairwise`: learned against exact log ratios.

use plotters::style::Color;
use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration, Needs, Sources};

use super::axis::Axis;
use super::figure::{Figure, Figures, Format, Key, emit};
use super::input::{DPI, dpi, finite, fits, lengths, plot_sources};
use super::layers::{BLUE, GREY, Stroke, VERMILION, diagonal, dots};
use super::words::{numbered, short};

const SOURCES: Sources = plot_sources!(["src/plots/pairwise.rs"], []);

/// Draws the pairs with the median and with the largest error.
#[derive(Debug, Default)]
pub struct PairwisePlot;

impl Analysis for PairwisePlot {
    fn declare() -> Declaration {
        let what = "learned against exact log ratios of two pairs: that of the median error, and the worst";
        Declaration::new("pairwise", env!("CARGO_PKG_VERSION"), what)
            .plot()
            .needs(Needs::default().product("verification_predictions").study(DPI))
            .sources(SOURCES)
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let predictions = context.product("verification_predictions")?;
        let [pairs, _] = lengths(&predictions, "probe_log_ratio")?;
        let learned = predictions.array::<f64>("probe_log_ratio")?;
        let exact = predictions.array::<f64>("probe_exact_log_ratio")?;
        emit(context, &draw(exact, learned, pairs)?, dpi(context)?)
    }
}

/// Log ratios \[pairs, 2n\], of which the first n of each pair are of observations at theta 0.
pub(crate) fn draw(exact: &[f64], learned: &[f64], pairs: usize) -> Result<Figures, AnalysisError> {
    fits("`probe_log_ratio`", learned.len(), exact.len())?;
    let each = exact.len() / pairs.max(1);
    if each == 0 {
        return Err(AnalysisError::new("there is no pair with a probe, so no log ratio can be drawn"));
    }
    fits("`probe_exact_log_ratio`", exact.len(), each * pairs)?;
    finite("`probe_log_ratio`", learned.iter().copied())?;
    finite("`probe_exact_log_ratio`", exact.iter().copied())?;
    let errors = exact.chunks_exact(each).zip(learned.chunks_exact(each)).map(|(exact, learned)| {
        let squares: f64 = exact.iter().zip(learned).map(|(exact, learned)| (learned - exact).powi(2)).sum();
        libm::sqrt(squares / each as f64)
    });
    let errors: Vec<f64> = errors.collect();
    let mut order: Vec<usize> = (0..pairs).collect();
    order.sort_by(|a, b| errors[*a].total_cmp(&errors[*b]).then(a.cmp(b)));
    let middle = [order[(pairs - 1) / 2], order[pairs / 2]];
    // An even number of pairs has none in the middle, and the metric's median is of two: the figure shows the better one.
    let of_middle = if middle[0] == middle[1] {
        "the median error".to_owned()
    } else {
        format!("next below the median error of {}", short((errors[middle[0]] + errors[middle[1]]) / 2.0))
    };
    let chosen = [("median", middle[0], of_middle), ("worst", order[pairs - 1], "the worst".to_owned())];
    let figure = |(name, pair, which): (&str, usize, String)| {
        let of = |values: &[f64]| values[pair * each..(pair + 1) * each].to_vec();
        let (exact, learned) = (of(exact), of(learned));
        let all = || exact.iter().chain(&learned).copied();
        let x = Axis::holding("exact log ratio (nats)", all());
        let y = Axis::holding("learned log ratio (nats)", all());
        let mut figure = Figure::new(Format::Square, x, y);
        figure.note = format!("{}: RMSE {}, {which}", numbered(pair, pairs), short(errors[pair]));
        let points: Vec<(f64, f64)> = exact.iter().copied().zip(learned.iter().copied()).collect();
        let (at_source, at_target) = points.split_at(each / 2);
        let opacity = (60.0 / each as f64).sqrt().clamp(0.25, 0.8);
        figure.key("observed at \u{3b8}\u{2080}", Key::Dot(BLUE));
        figure.key("observed at \u{3b8}\u{2081}", Key::Dot(VERMILION));
        figure.key("learned = exact", Key::Line(Stroke::ideal(GREY)));
        let svg = figure.draw(|chart| {
            diagonal(chart, Stroke::ideal(GREY))?;
            dots(chart, at_source.to_vec(), 2.0, BLUE.mix(opacity))?;
            dots(chart, at_target.to_vec(), 2.0, VERMILION.mix(opacity))
        })?;
        Ok((name.to_owned(), svg))
    };
    chosen.into_iter().map(figure).collect()
}
