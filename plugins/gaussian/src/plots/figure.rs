//! What is around the data of all figures: axes, and a legend above the frame, where it hides nothing.

use plotters::chart::{ChartBuilder, LabelAreaPosition};
use plotters::element::Text;
use plotters::prelude::{IntoDrawingArea, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{RGBAColor, RGBColor, TextStyle};
use waycairn_analysis_api::{AnalysisError, Context};

use super::axis::Axis;
use super::bitmap::png;
use super::input::finite;
use super::layers::{
    BLACK, Chart, Point, SHADES, Stroke, WHITE, area, between, cells, cross, dots, line, units,
};

const FAMILY: &str = "DejaVu Sans, sans-serif";
/// Of labels of axes, in points, as all lengths. Figures are 5 inches wide: at the 3.4 of a column it is nearly 8 points.
const LABEL: f64 = 11.5;
/// Of ticks and legends.
const SMALL: f64 = 10.0;
/// What is at least left of the frame, right of it and below it.
const LEFT: f64 = 58.0;
const RIGHT: f64 = 16.0;
const BELOW: f64 = 40.0;
const MARGIN: f64 = 6.0;
/// Between the lines of legends.
const LEADING: f64 = 14.5;
/// The sample of a line or an area in the legend, what is between it and its label, and between entries.
const KEY: f64 = 18.0;
const KEY_GAP: f64 = 4.0;
const ENTRY_GAP: f64 = 10.0;
const TICK: f64 = 3.5;
/// The bar of shades, and as much between it and the frame.
const BAR: f64 = 17.0;

/// The size of what is inside of the frame: 4 by 2.6 inches, and 3.5 by 3.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Wide,
    Square,
}

/// What the legend shows beside a label.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Key {
    Line(Stroke),
    Area(RGBAColor),
    Dot(RGBColor),
    /// A dot on a line.
    Beads(Stroke),
    Cross(RGBColor),
}

fn font(size: f64) -> TextStyle<'static> {
    // It gives an SVG a font that is smaller by this.
    TextStyle::from((FAMILY, size * 10.0 * 1.24))
}

/// About the length of a text in the font of figures: `plotters` knows none.
fn length(text: &str, size: f64) -> f64 {
    let each = text.chars().map(|character| match character {
        ' ' | 'i' | 'j' | 'l' | '.' | ',' | '|' | ':' => 0.31,
        'f' | 'r' | 't' | '(' | ')' | '-' => 0.4,
        'm' | 'w' | 'M' | 'W' | '%' | '=' => 0.9,
        _ => 0.62,
    });
    each.sum::<f64>() * size
}

/// What stands around the data of a figure.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    format: Format,
    x: Axis,
    y: Axis,
    /// A line of text above all.
    pub(crate) note: String,
    /// Beside the frame: what shades mean.
    pub(crate) shades: Option<Axis>,
    legend: Vec<(String, Key)>,
}

impl Figure {
    pub(crate) fn new(format: Format, x: Axis, y: Axis) -> Self {
        Self { format, x, y, note: String::new(), shades: None, legend: Vec::new() }
    }

    pub(crate) fn key(&mut self, label: impl Into<String>, key: Key) {
        self.legend.push((label.into(), key));
    }

    /// The SVG, with what `layers` draws in the frame.
    pub(crate) fn draw(
        &self,
        layers: impl FnOnce(&mut Chart<'_, '_>) -> Result<(), AnalysisError>,
    ) -> Result<String, AnalysisError> {
        for axis in [&self.x, &self.y].into_iter().chain(&self.shades) {
            finite(&format!("the axis `{}`", axis.label), [axis.high - axis.low].into_iter())?;
        }
        let (wide, tall) = match self.format {
            Format::Wide => (288.0, 187.2),
            Format::Square => (259.2, 259.2),
        };
        // As many ticks as stand beside each other.
        let longest = |axis: &Axis| axis.texts().iter().map(|text| length(text, SMALL)).fold(0.0, f64::max);
        let crowded = |axis: &Axis| (longest(axis) + 8.0) * axis.ticks.len() as f64 > wide;
        let x = (2..8).rev().map(|most| self.x.ticked(most)).find(|axis| !crowded(axis));
        let x = x.unwrap_or_else(|| self.x.ticked(2));
        let y = self.y.ticked(6);
        let left = LEFT.max(MARGIN + LABEL + longest(&y) + 4.0 * TICK);
        let shades = self.shades.as_ref().map(|axis| axis.ticked(6));
        let beside = shades.as_ref().map_or(RIGHT, |axis| BAR + longest(axis) + 4.0 * TICK + LABEL + MARGIN);
        let full = left + wide + beside;
        let entries = entries(&self.legend, left, full);
        let note = if self.note.is_empty() { 0.0 } else { LEADING };
        let rows = entries.last().map_or(0.0, |((_, row), ..)| row + LEADING);
        let above = MARGIN + note + rows + 2.0;
        let high = above + tall + BELOW;

        let mut svg = String::new();
        let (width, height) = (units(full), units(high));
        let root = SVGBackend::with_string(&mut svg, (width as u32, height as u32)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .margin_top(units(above))
            .margin_right(units(beside))
            .margin_left(units(MARGIN))
            .margin_bottom(units(MARGIN))
            .x_label_area_size(units(BELOW - MARGIN))
            .y_label_area_size(units(left - MARGIN))
            .build_cartesian_2d(x.clone(), y.clone())?;
        layers(&mut chart)?;
        axes(&mut chart, &x, &y)?;
        if let Some(axis) = shades {
            let unit = Axis::new("", 0.0, 1.0);
            let mut bar = ChartBuilder::on(&root)
                .margin_top(units(above))
                .margin_bottom(units(BELOW))
                .margin_left(units(left + wide + BAR / 2.0))
                .margin_right(units(MARGIN))
                .set_label_area_size(LabelAreaPosition::Right, units(beside - BAR - MARGIN))
                .build_cartesian_2d(unit.clone(), axis.clone())?;
            let edges: Vec<f64> =
                (0..=SHADES).map(|step| axis.high * f64::from(step) / f64::from(SHADES)).collect();
            cells(&mut bar, [&[0.0, 1.0], &edges], &edges[1..])?;
            axes(&mut bar, &unit, &axis)?;
        }
        // What is above the frame, in points from the lower left.
        let mut sheet =
            ChartBuilder::on(&root).build_cartesian_2d(Axis::new("", 0.0, full), Axis::new("", 0.0, high))?;
        let size = SMALL.min(SMALL * (full - 2.0 * MARGIN) / length(&self.note, SMALL).max(1.0));
        let beginning = Pos::new(HPos::Left, VPos::Center);
        let line = high - MARGIN - SMALL / 2.0;
        sheet.draw_series([Text::new(self.note.clone(), (MARGIN, line), font(size).pos(beginning))])?;
        for ((x, row), label, key) in entries {
            let at = (x, line - note - row);
            sample(&mut sheet, key, at)?;
            let place = (x + KEY + KEY_GAP, at.1);
            sheet.draw_series([Text::new(label.to_owned(), place, font(SMALL).pos(beginning))])?;
        }
        root.present()?;
        drop((chart, sheet, root));
        // The size of a unit.
        let pixels = format!("width=\"{width}\" height=\"{height}\"");
        Ok(svg.replacen(&pixels, &format!("width=\"{full:.1}pt\" height=\"{high:.1}pt\""), 1))
    }
}

/// Ticks, labels, and the frame: around the data, and above it.
fn axes(chart: &mut Chart<'_, '_>, x: &Axis, y: &Axis) -> Result<(), AnalysisError> {
    let thin = Stroke::new(BLACK, 0.7);
    chart
        .configure_mesh()
        .disable_mesh()
        .axis_style(thin.style())
        .set_all_tick_mark_size(units(TICK))
        .x_label_style(font(SMALL))
        .y_label_style(font(SMALL))
        .axis_desc_style(font(LABEL))
        .x_desc(x.described())
        .y_desc(y.described())
        .draw()?;
    let corners = [(x.low, y.low), (x.high, y.low), (x.high, y.high), (x.low, y.high), (x.low, y.low)];
    line(chart, corners.to_vec(), thin)
}

/// Entries of a legend in rows, as many beside each other as there is room for; each with its place from the left, and of its
/// row from the top. Rows start at the frame, or further left where one is too long for that.
fn entries(legend: &[(String, Key)], left: f64, full: f64) -> Vec<(Point, &str, Key)> {
    let (mut x, mut row, mut longest) = (0.0, 0.0, 0.0_f64);
    let mut entries = Vec::new();
    for (label, key) in legend {
        let long = KEY + KEY_GAP + length(label, SMALL);
        if x > 0.0 && x + long > full - 2.0 * MARGIN {
            (x, row) = (0.0, row + LEADING);
        }
        entries.push(((x, row), label.as_str(), *key));
        longest = longest.max(x + long);
        x += long + ENTRY_GAP;
    }
    let start = left.min(full - MARGIN - longest).max(MARGIN);
    entries.into_iter().map(|((x, row), label, key)| ((start + x, row), label, key)).collect()
}

fn sample(sheet: &mut Chart<'_, '_>, key: Key, (x, y): Point) -> Result<(), AnalysisError> {
    let (whole, middle) = (vec![(x, y), (x + KEY, y)], (x + KEY / 2.0, y));
    match key {
        Key::Line(stroke) => line(sheet, whole, stroke),
        Key::Area(color) => {
            area(sheet, between(&[x, x + KEY], &[y - 4.0, y - 4.0], &[y + 4.0, y + 4.0]), color)
        }
        Key::Dot(color) => dots(sheet, vec![middle], 3.0, color),
        Key::Beads(stroke) => {
            line(sheet, whole, stroke)?;
            dots(sheet, vec![middle], 2.4, stroke.color)
        }
        Key::Cross(color) => cross(sheet, middle, color),
    }
}

/// Figures of a plot, by name: an SVG each.
pub(crate) type Figures = Vec<(String, String)>;

/// Gives each figure to the host as a PNG and as an SVG.
pub(crate) fn emit(context: &Context<'_>, figures: &Figures, dpi: u64) -> Result<(), AnalysisError> {
    for (index, (name, svg)) in figures.iter().enumerate() {
        if context.cancelled() {
            return Err(AnalysisError::new("it was asked to end"));
        }
        context.progress(index as u64, figures.len() as u64, "figures");
        context.emit_figure(name, "image/png", &png(svg, dpi)?)?;
        context.emit_figure(name, "image/svg+xml", svg.as_bytes())?;
    }
    Ok(())
}
