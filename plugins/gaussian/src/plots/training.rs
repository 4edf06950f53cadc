//! The plot `training`: how the loss fell.

use serde::Deserialize;
use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration, Needs, Sources};

use super::axis::Axis;
use super::figure::{Figure, Figures, Format, Key, emit};
use super::input::{DPI, dpi, plot_sources};
use super::layers::{BLUE, GREY, Stroke, VERMILION, dots, line, vertical};

const SOURCES: Sources = plot_sources!(["src/plots/training.rs"], []);

/// Draws the binary cross-entropy of each epoch.
#[derive(Debug, Default)]
pub struct TrainingPlot;

impl Analysis for TrainingPlot {
    fn declare() -> Declaration {
        Declaration::new("training", env!("CARGO_PKG_VERSION"), "the loss of each epoch")
            .plot()
            .needs(Needs::default().product("model").study(DPI))
            .sources(SOURCES)
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let history: History = context.product("model")?.json("history")?;
        let figure = draw(&history)?;
        emit(context, &figure, dpi(context)?)
    }
}

/// What a model says of its training.
#[derive(Debug, Deserialize)]
pub(crate) struct History {
    pub(crate) train_loss: Vec<Option<f64>>,
    pub(crate) validation: Vec<Validation>,
    /// From 1.
    pub(crate) selected_epoch: usize,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Validation {
    pub(crate) bce: Option<f64>,
}

/// A loss that is not finite is left out, which leaves a gap: a training that came to no end shows up to there.
pub(crate) fn draw(history: &History) -> Result<Figures, AnalysisError> {
    let curve = |losses: &mut dyn Iterator<Item = Option<f64>>| -> Vec<(usize, f64)> {
        let finite = losses.enumerate().filter_map(|(epoch, loss)| Some((epoch + 1, loss?)));
        finite.filter(|(_, loss)| loss.is_finite()).collect()
    };
    let train = curve(&mut history.train_loss.iter().copied());
    let validation = curve(&mut history.validation.iter().map(|epoch| epoch.bce));
    if train.is_empty() && validation.is_empty() {
        return Err(AnalysisError::new(
            "the history of the model has no loss that is finite, so there is nothing to draw",
        ));
    }
    let epochs = history.train_loss.len().max(history.validation.len());
    let losses = train.iter().chain(&validation).map(|(_, loss)| *loss);
    let y = Axis::holding("cross-entropy (nats per row)", losses);
    let mut figure = Figure::new(Format::Wide, Axis::counts("epoch", epochs), y);
    // Dots where they do not become a band.
    let with_dots = epochs <= 60;
    let curves = [("training", train, BLUE), ("validation", validation, VERMILION)];
    for (label, _, color) in curves.iter().filter(|(_, curve, _)| !curve.is_empty()) {
        let stroke = Stroke::new(*color, 1.5);
        figure.key(*label, if with_dots { Key::Beads(stroke) } else { Key::Line(stroke) });
    }
    let selected = history.selected_epoch;
    let dotted = Stroke::new(GREY, 1.1).dotted();
    if (1..=epochs).contains(&selected) {
        figure.key(format!("epoch {selected}, whose weights are used"), Key::Line(dotted));
    }
    let svg = figure.draw(|chart| {
        if (1..=epochs).contains(&selected) {
            vertical(chart, selected as f64, dotted)?;
        }
        for (_, curve, color) in &curves {
            let place = |(epoch, loss): &(usize, f64)| (*epoch as f64, *loss);
            for part in curve.chunk_by(|(before, _), (after, _)| after - before == 1) {
                line(chart, part.iter().map(place).collect(), Stroke::new(*color, 1.5))?;
            }
            if with_dots {
                dots(chart, curve.iter().map(place).collect(), 2.4, color)?;
            }
        }
        Ok(())
    })?;
    Ok(vec![("loss".to_owned(), svg)])
}
