//! The plot `reweighting`: samples at one point, weighted to look like those at another.

use plotters::style::Color;
use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration, Needs, Sources};
use waycairn_gaussian::{effective_samples, weights};

use super::axis::{Axis, range};
use super::figure::{Figure, Figures, Format, Key, emit};
use super::histogram::Bins;
use super::input::{BINS, DPI, amount, dpi, finite, fits, lengths, plot_sources};
use super::layers::{BLUE, GREEN, GREY, Stroke, VERMILION, area, line, steps};
use super::words::{coordinate, numbered, short};

const SOURCES: Sources = plot_sources!(["src/plots/reweighting.rs"], [REWEIGHTING]);

/// Draws the pair whose weighted samples are furthest from what they should be.
#[derive(Debug, Default)]
pub struct ReweightingPlot;

impl Analysis for ReweightingPlot {
    fn declare() -> Declaration {
        let what = "source, target and reweighted densities of the pair that is furthest off";
        let needs = Needs::default()
            .product("verification_observations")
            .product("verification_predictions")
            .product("reweighting_distances");
        Declaration::new("reweighting", env!("CARGO_PKG_VERSION"), what)
            .plot()
            .needs(needs.study(DPI).study(BINS))
            .sources(SOURCES)
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let observations = context.product("verification_observations")?;
        let predictions = context.product("verification_predictions")?;
        let distances = context.product("reweighting_distances")?;
        let distance = distances.array::<f64>("learned_w1")?;
        let [pairs, _, dimension] = lengths(&observations, "source_x")?;
        fits("`learned_w1`", distance.len(), pairs)?;
        let worst = worst(distance)?;
        let source = part(observations.array::<f32>("source_x")?, pairs, worst)?;
        let target = part(observations.array::<f32>("target_x")?, pairs, worst)?;
        let learned = part(predictions.array::<f64>("source_log_ratio")?, pairs, worst)?;
        let exact = part(predictions.array::<f64>("source_exact_log_ratio")?, pairs, worst)?;
        let pair = Pair { dimension, source, target, learned, exact: Some(exact) };
        let note = format!("{}: sliced W1 {}, the worst", numbered(worst, pairs), short(distance[worst]));
        emit(context, &pair.draw(&note, amount(context, BINS)?)?, dpi(context)?)
    }
}

/// The first of those with the largest distance.
pub(crate) fn worst(distance: &[f64]) -> Result<usize, AnalysisError> {
    finite("`learned_w1`", distance.iter().copied())?;
    let later = |best: Option<usize>, (index, value): (usize, &f64)| match best {
        Some(best) if distance[best] >= *value => Some(best),
        _ => Some(index),
    };
    distance
        .iter()
        .enumerate()
        .fold(None, later)
        .ok_or_else(|| AnalysisError::new("there is no pair, so there is nothing to draw"))
}

/// What of an array \[pairs, ...\] belongs to one pair.
pub(crate) fn part<T>(values: &[T], pairs: usize, pair: usize) -> Result<&[T], AnalysisError> {
    let each = values.len() / pairs.max(1);
    fits("an array of pairs", values.len(), each * pairs)?;
    values
        .get(pair * each..(pair + 1) * each)
        .ok_or_else(|| AnalysisError::new(format!("there are {pairs} pairs, and so none of number {pair}")))
}

/// Samples at both ends of a pair, and the log ratios of those at the source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<'a> {
    pub(crate) dimension: usize,
    /// \[S, d\].
    pub(crate) source: &'a [f32],
    /// \[T, d\].
    pub(crate) target: &'a [f32],
    /// \[S\].
    pub(crate) learned: &'a [f64],
    /// \[S\].
    pub(crate) exact: Option<&'a [f64]>,
}

impl Pair<'_> {
    /// One figure for each coordinate of the observations.
    pub(crate) fn draw(&self, note: &str, bins: usize) -> Result<Figures, AnalysisError> {
        let (d, samples) = (self.dimension, self.learned.len());
        if samples == 0 || self.target.is_empty() || d == 0 {
            return Err(AnalysisError::new("a pair has no sample, so no density can be drawn"));
        }
        fits("the source", self.source.len(), samples * d)?;
        fits("the target", self.target.len(), self.target.len() / d * d)?;
        finite("the source", self.source.iter().copied().map(f64::from))?;
        finite("the target", self.target.iter().copied().map(f64::from))?;
        let learned = weights(self.learned)?;
        let exact = self.exact.map(weights).transpose()?;
        let label = |what: &str, weights: &[f64]| {
            format!("{what} weights (ESS {})", short(effective_samples(weights)))
        };
        let learned_label = label("learned", &learned);
        let exact_label = exact.as_deref().map(|exact| label("exact", exact)).unwrap_or_default();
        let figure = |axis: usize| {
            let column = |values: &[f32]| -> Vec<f64> {
                values.iter().skip(axis).step_by(d).copied().map(f64::from).collect()
            };
            let (source, target) = (column(self.source), column(self.target));
            let (low, high) = range(source.iter().chain(&target).copied()).unwrap_or((0.0, 1.0));
            let bins = Bins::even(low, high, bins);
            let equal = |values: &[f64]| {
                let weight = 1.0 / values.len() as f64;
                bins.densities(values.iter().map(|value| (*value, weight)))
            };
            let weighted =
                |weights: &[f64]| bins.densities(source.iter().copied().zip(weights.iter().copied()));
            let (from, to, learned) = (equal(&source), equal(&target), weighted(&learned));
            let exact = exact.as_deref().map(weighted);
            // A few samples with all of the weight make a needle. What it is above this is not shown.
            let top = from.iter().chain(&to).copied().fold(0.0, f64::max) * 2.5;
            let cut = |heights: &[f64]| heights.iter().any(|height| *height > top);
            let is_cut = cut(&learned) || exact.as_deref().is_some_and(cut);
            let shown =
                |heights: &[f64]| -> Vec<f64> { heights.iter().map(|height| height.min(top)).collect() };
            let (learned, exact) = (shown(&learned), exact.map(|exact| shown(&exact)));
            let all = [&from, &to, &learned].into_iter().chain(&exact).flatten().copied();
            let y = if is_cut {
                Axis::new("probability density", 0.0, top)
            } else {
                Axis::from_zero("probability density", all)
            };
            let air = (bins.high() - bins.low()) * 0.02;
            let x = Axis::new(coordinate(axis), bins.low() - air, bins.high() + air);
            let mut figure = Figure::new(Format::Wide, x, y);
            figure.note = if is_cut { format!("{note}; cut off at the top") } else { note.to_owned() };
            let (exact_stroke, learned_stroke) =
                (Stroke::new(VERMILION, 1.1).dashed(), Stroke::new(BLUE, 1.3));
            figure.key("source \u{3b8}\u{2080}", Key::Area(GREY.mix(0.3)));
            figure.key("target \u{3b8}\u{2081}", Key::Area(GREEN.mix(0.3)));
            if exact.is_some() {
                figure.key(exact_label.as_str(), Key::Line(exact_stroke));
            }
            figure.key(learned_label.as_str(), Key::Line(learned_stroke));
            let svg = figure.draw(|chart| {
                for (heights, color) in [(&from, GREY), (&to, GREEN)] {
                    let outline = steps(&bins.edges, heights);
                    area(chart, outline.clone(), color.mix(0.3))?;
                    line(chart, outline, Stroke::new(color, 1.0))?;
                }
                if let Some(exact) = &exact {
                    line(chart, steps(&bins.edges, exact), exact_stroke)?;
                }
                line(chart, steps(&bins.edges, &learned), learned_stroke)
            })?;
            Ok((format!("axis-{axis}"), svg))
        };
        (0..d).map(figure).collect()
    }
}
