//! The plot `training`: how the loss fell.

use serde::Deserialize;
use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration, Needs, Sources};

use super::axis::Axis;
use super::canvas::{BLUE, DOTTED, GREY, Ink, Stroke, VERMILION};
use super::figure::{Figure, Figures, Format, Key, emit};
use super::input::{DPI, dpi, plot_sources};

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
    let y = Axis::holding("binary cross-entropy (nats per row)", losses);
    let mut figure = Figure::new(Format::Wide, Axis::counts("epoch", epochs), y);
    if (1..=epochs).contains(&history.selected_epoch) {
        let stroke = Stroke::new(GREY, 1.1).dashed(DOTTED);
        figure.vertical(history.selected_epoch as f64, stroke);
    }
    series(&mut figure, "training", &train, BLUE, epochs);
    series(&mut figure, "validation", &validation, VERMILION, epochs);
    if (1..=epochs).contains(&history.selected_epoch) {
        let stroke = Stroke::new(GREY, 1.1).dashed(DOTTED);
        figure.key(format!("epoch {}, whose weights are used", history.selected_epoch), Key::Line(stroke));
    }
    Ok(vec![("loss".to_owned(), figure)])
}

fn series(figure: &mut Figure, label: &str, curve: &[(usize, f64)], ink: Ink, epochs: usize) {
    if curve.is_empty() {
        return;
    }
    // Dots where they do not become a band.
    let dots = epochs <= 60;
    let stroke = Stroke::new(ink, 1.5);
    for part in curve.chunk_by(|(before, _), (after, _)| after - before == 1) {
        figure.line(part.iter().map(|(epoch, loss)| (*epoch as f64, *loss)).collect(), stroke);
    }
    if dots {
        figure.dots(curve.iter().map(|(epoch, loss)| (*epoch as f64, *loss)).collect(), 2.4, ink);
    }
    figure.key(label, if dots { Key::Beads(stroke) } else { Key::Line(stroke) });
}
