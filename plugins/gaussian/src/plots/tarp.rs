//! The plot `tarp`: expected coverage against credibility.

use plotters::style::Color;
use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration, Needs, Sources};
use waycairn_gaussian::EcdfDifference;

use super::axis::Axis;
use super::calibration::{band_label, strokes, verdict};
use super::figure::{Figure, Figures, Format, Key, emit};
use super::input::{BAND, DPI, dpi, fits, plot_sources, setting};
use super::layers::{GREY, Stroke, area, between, diagonal, line};

const SOURCES: Sources =
    plot_sources!(["src/plots/tarp.rs", "src/plots/calibration.rs"], [CALIBRATION, METRICS]);

/// Draws the share of truths inside of regions around random points, for each mass of the region.
#[derive(Debug, Default)]
pub struct TarpPlot;

impl Analysis for TarpPlot {
    fn declare() -> Declaration {
        let what =
            "expected coverage by distances to random points against the level, with a band for all of it";
        Declaration::new("tarp", env!("CARGO_PKG_VERSION"), what)
            .plot()
            .needs(Needs::default().product("calibration_scores").study(BAND).study(DPI))
            .sources(SOURCES)
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let scores = context.product("calibration_scores")?;
        let (learned, exact) =
            (scores.array::<f64>("nearer_mass")?, scores.array::<f64>("exact_nearer_mass")?);
        emit(context, &draw(learned, exact, setting(context, BAND)?)?, dpi(context)?)
    }
}

/// Masses \[cases\] that are nearer to a reference point than the truth, by the learned posterior and by the exact one.
pub(crate) fn draw(learned: &[f64], exact: &[f64], probability: f64) -> Result<Figures, AnalysisError> {
    fits("the exact masses nearer than truths", exact.len(), learned.len())?;
    let cases = learned.len();
    let (learned, exact) =
        (EcdfDifference::new(learned, probability)?, EcdfDifference::new(exact, probability)?);
    // The coverage at a level is the distribution of those masses there.
    let closed = |values: &[f64]| -> Vec<f64> {
        let inner = values.iter().zip(&learned.at).map(|(difference, at)| difference + at);
        [0.0].into_iter().chain(inner).chain([1.0]).collect()
    };
    let at = [&[0.0], &learned.at[..], &[1.0]].concat();
    let (x, y) = (Axis::new("credibility level", 0.0, 1.0), Axis::new("expected coverage", 0.0, 1.0));
    let mut figure = Figure::new(Format::Square, x, y);
    figure.note = verdict(cases, &learned);
    let (band, ideal) = (GREY.mix(0.25), Stroke::ideal(GREY));
    let [learned_stroke, exact_stroke] = strokes();
    figure.key("learned posterior", Key::Line(learned_stroke));
    figure.key("exact posterior", Key::Line(exact_stroke));
    figure.key("ideal", Key::Line(ideal));
    figure.key(band_label(&learned), Key::Area(band));
    let curve = |values: &[f64]| at.iter().copied().zip(closed(values)).collect();
    let svg = figure.draw(|chart| {
        area(chart, between(&at, &closed(&learned.lower), &closed(&learned.upper)), band)?;
        diagonal(chart, ideal)?;
        line(chart, curve(&exact.difference), exact_stroke)?;
        line(chart, curve(&learned.difference), learned_stroke)
    })?;
    Ok(vec![("coverage".to_owned(), svg)])
}
