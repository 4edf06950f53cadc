//! The plot `loss_by_position_curve`.

use plotters::prelude::{BLUE, ChartBuilder, IntoDrawingArea, LineSeries, SVGBackend, WHITE};
use serde::{Deserialize, Serialize};
use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration, Needs, Sources, sources};

const SOURCES: Sources = sources!["src/plot.rs"];

/// Draws the losses over the positions.
#[derive(Debug, Default)]
pub struct LossByPositionCurve;

#[derive(Debug, Serialize, Deserialize)]
struct Settings {
    /// In pixels.
    width: u32,
    /// In pixels.
    height: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { width: 640, height: 360 }
    }
}

impl Analysis for LossByPositionCurve {
    fn declare() -> Declaration {
        Declaration::new("loss_by_position_curve", env!("CARGO_PKG_VERSION"), "the loss at each position")
            .plot()
            .settings(Settings::default())
            .needs(Needs::default().product("position_losses"))
            .sources(SOURCES)
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let losses = context.product("position_losses")?;
        let svg = draw(losses.array::<f32>("loss")?, &context.settings_as()?)?;
        context.emit_figure("curve", "image/svg+xml", svg.as_bytes())?;
        Ok(())
    }
}

/// The curve. Positions whose loss is not finite are left out.
fn draw(loss: &[f32], settings: &Settings) -> Result<String, AnalysisError> {
    let finite: Vec<(usize, f32)> =
        loss.iter().copied().enumerate().filter(|(_, loss)| loss.is_finite()).collect();
    let heights = finite.iter().map(|(_, loss)| *loss);
    let (Some(low), Some(high)) = (heights.clone().reduce(f32::min), heights.reduce(f32::max)) else {
        return Err(AnalysisError::new("no loss is finite, so there is nothing to draw"));
    };
    // Air above and below, also around a flat curve.
    let air = ((high - low) * 0.05).max(high.abs() * 1e-3).max(1e-6);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (settings.width, settings.height)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(56)
            .build_cartesian_2d(0..loss.len().saturating_sub(1).max(1), low - air..high + air)?;
        chart.configure_mesh().x_desc("position").y_desc("cross-entropy, nats").draw()?;
        chart.draw_series(LineSeries::new(finite, &BLUE))?;
        area.present()?;
    }
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_an_svg_of_the_size_that_was_asked_for() {
        let settings = Settings { width: 320, height: 200 };
        for loss in [&[4.0, 3.0, 2.5][..], &[1.0], &[2.0, 2.0], &[0.0, 0.0], &[f32::NAN, 3.0]] {
            let svg = draw(loss, &settings).unwrap();
            assert!(svg.starts_with("<svg width=\"320\" height=\"200\""), "{svg}");
            assert!(svg.trim_end().ends_with("</svg>") && svg.contains("cross-entropy"), "{svg}");
        }
        // One point for each position, and the same bytes each time.
        let svg = draw(&[4.0, 3.0, 2.5], &settings).unwrap();
        let line = svg.lines().rfind(|line| line.contains("polyline") && line.contains("#0000FF")).unwrap();
        let points = line.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(points.split_whitespace().count(), 3);
        assert_eq!(draw(&[4.0, 3.0, 2.5], &settings).unwrap(), svg);
    }

    #[test]
    fn nothing_finite_is_an_error() {
        assert!(draw(&[f32::NAN], &Settings::default()).unwrap_err().to_string().contains("nothing to draw"));
        assert!(draw(&[], &Settings::default()).is_err());
    }
}
