//! The plot `observation_histogram`: what the first ensemble observed.

use plotters::style::Color;
use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration, Needs, Sources};

use super::axis::{Axis, range};
use super::figure::{Figure, Figures, Format, Key, emit};
use super::histogram::Bins;
use super::input::{BINS, DPI, amount, dpi, finite, lengths, plot_sources};
use super::layers::{PALETTE, Stroke, area, line, steps};
use super::words::{coordinate, counted};

const SOURCES: Sources = plot_sources!(["src/plots/observations.rs"], []);

/// Draws the observations of the first case.
#[derive(Debug, Default)]
pub struct ObservationHistogramPlot;

impl Analysis for ObservationHistogramPlot {
    fn declare() -> Declaration {
        Declaration::new(
            "observation_histogram",
            env!("CARGO_PKG_VERSION"),
            "the observations of the first case",
        )
        .plot()
        .needs(Needs::default().product("observations").study(DPI).study(BINS))
        .sources(SOURCES)
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let product = context.product("observations")?;
        let [_, observations, dimension] = lengths(&product, "observations")?;
        let all = product.array::<f32>("observations")?;
        let first = all.get(..observations * dimension).unwrap_or_default();
        emit(context, &draw(first, dimension, amount(context, BINS)?)?, dpi(context)?)
    }
}

/// Observations \[m, d\] of one case: a curve for each coordinate, and a tick for each value.
pub(crate) fn draw(first: &[f32], dimension: usize, bins: usize) -> Result<Figures, AnalysisError> {
    if first.is_empty() || dimension == 0 {
        return Err(AnalysisError::new("the first case has no observation, so there is nothing to draw"));
    }
    finite("the first case", first.iter().copied().map(f64::from))?;
    let count = first.len() / dimension;
    let (low, high) = range(first.iter().copied().map(f64::from)).unwrap_or((0.0, 1.0));
    // As many bins as a sample of this size can fill: its square root, and one more.
    let bins = Bins::even(low, high, bins.min(count.isqrt() + 1));
    let columns: Vec<Vec<f64>> = (0..dimension)
        .map(|axis| first.iter().skip(axis).step_by(dimension).copied().map(f64::from).collect())
        .collect();
    let heights: Vec<Vec<f64>> =
        columns.iter().map(|column| bins.masses(column.iter().map(|value| (*value, 1.0)))).collect();
    let x = Axis::holding(
        if dimension == 1 { coordinate(0) } else { "observation".to_owned() },
        [bins.low(), bins.high()].into_iter(),
    );
    let y = Axis::from_zero("observations in a bin", heights.iter().flatten().copied());
    let top = y.high;
    let mut figure = Figure::new(Format::Wide, x, y);
    figure.note = format!("the first case: {}", counted(count, "observation"));
    let color = |axis: usize| PALETTE[axis % PALETTE.len()];
    for axis in 0..dimension {
        figure.key(coordinate(axis), Key::Line(Stroke::new(color(axis), 1.3)));
    }
    let svg = figure.draw(|chart| {
        for (axis, (column, heights)) in columns.iter().zip(&heights).enumerate() {
            let outline = steps(&bins.edges, heights);
            if dimension == 1 {
                area(chart, outline.clone(), color(axis).mix(0.2))?;
            }
            line(chart, outline, Stroke::new(color(axis), 1.3))?;
            // One line of ticks for each coordinate.
            let base = top * 0.03 * axis as f64 / dimension as f64;
            for value in column {
                let tick = vec![(*value, base), (*value, base + top * 0.03)];
                line(chart, tick, Stroke::new(color(axis), 0.9))?;
            }
        }
        Ok(())
    })?;
    Ok(vec![("first-ensemble".to_owned(), svg)])
}
