//! What figures are made of: palette, and what `plotters` draws in the units of two axes.

use plotters::chart::ChartContext;
use plotters::coord::cartesian::Cartesian2d;
use plotters::element::{Circle, Cross, DashedPathElement, PathElement, Polygon, Rectangle};
use plotters::prelude::{ColorMap, DerivedColorMap, SVGBackend};
use plotters::style::{Color, RGBAColor, RGBColor, ShapeStyle};
use waycairn_analysis_api::AnalysisError;

use super::axis::Axis;
use super::input::finite;

/// The colours of Okabe and Ito, which those who are colour-blind tell apart too.
pub(crate) const BLUE: RGBColor = RGBColor(0, 114, 178);
pub(crate) const VERMILION: RGBColor = RGBColor(213, 94, 0);
pub(crate) const GREEN: RGBColor = RGBColor(0, 158, 115);
pub(crate) const BLACK: RGBColor = RGBColor(0, 0, 0);
pub(crate) const GREY: RGBColor = RGBColor(110, 110, 110);
const ORANGE: RGBColor = RGBColor(230, 159, 0);
const SKY: RGBColor = RGBColor(86, 180, 233);
const PURPLE: RGBColor = RGBColor(204, 121, 167);
pub(crate) const WHITE: RGBColor = RGBColor(255, 255, 255);

/// For lines of equal rank, in this order.
pub(crate) const PALETTE: [RGBColor; 7] = [BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK];

/// The place of a value in the units of the axes.
pub(crate) type Point = (f64, f64);
pub(crate) type Chart<'a, 's> = ChartContext<'a, SVGBackend<'s>, Cartesian2d<Axis, Axis>>;

/// How a line is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stroke {
    pub(crate) color: RGBAColor,
    width: f64,
    /// Of a stroke and of a gap; none is a solid line.
    dash: Option<(f64, f64)>,
}

impl Stroke {
    pub(crate) fn new(color: impl Color, width: f64) -> Self {
        Self { color: color.to_rgba(), width, dash: None }
    }

    pub(crate) fn dashed(self) -> Self {
        Self { dash: Some((4.5, 2.5)), ..self }
    }

    pub(crate) fn dotted(self) -> Self {
        Self { dash: Some((1.2, 2.0)), ..self }
    }

    /// A thin line for what would be ideal.
    pub(crate) fn ideal(color: RGBColor) -> Self {
        Self::new(color, 1.1).dashed()
    }

    pub(crate) fn style(self) -> ShapeStyle {
        self.color.stroke_width(units(self.width) as u32)
    }
}

/// `plotters` places all at whole units: tenths of a point, so that none of it is seen.
pub(crate) fn units(points: f64) -> i32 {
    (points * 10.0).round() as i32
}

/// Refuses to place what has no place.
fn placed(points: &[Point]) -> Result<(), AnalysisError> {
    finite("a layer of the figure", points.iter().flat_map(|(x, y)| [*x, *y]))
}

pub(crate) fn line(
    chart: &mut Chart<'_, '_>,
    points: Vec<Point>,
    stroke: Stroke,
) -> Result<(), AnalysisError> {
    placed(&points)?;
    match stroke.dash {
        Some((dash, gap)) => {
            chart.draw_series([DashedPathElement::new(points, units(dash), units(gap), stroke.style())])?
        }
        None => chart.draw_series([PathElement::new(points, stroke.style())])?,
    };
    Ok(())
}

/// From the lower end of an axis to the upper one.
pub(crate) fn vertical(chart: &mut Chart<'_, '_>, x: f64, stroke: Stroke) -> Result<(), AnalysisError> {
    let y = chart.y_range();
    line(chart, vec![(x, y.start), (x, y.end)], stroke)
}

pub(crate) fn horizontal(chart: &mut Chart<'_, '_>, y: f64, stroke: Stroke) -> Result<(), AnalysisError> {
    let x = chart.x_range();
    line(chart, vec![(x.start, y), (x.end, y)], stroke)
}

/// Where both axes, of one range, have the same value.
pub(crate) fn diagonal(chart: &mut Chart<'_, '_>, stroke: Stroke) -> Result<(), AnalysisError> {
    let x = chart.x_range();
    line(chart, vec![(x.start, x.start), (x.end, x.end)], stroke)
}

pub(crate) fn area(
    chart: &mut Chart<'_, '_>,
    ring: Vec<Point>,
    color: RGBAColor,
) -> Result<(), AnalysisError> {
    placed(&ring)?;
    chart.draw_series([Polygon::new(ring, color)])?;
    Ok(())
}

pub(crate) fn dots(
    chart: &mut Chart<'_, '_>,
    centres: Vec<Point>,
    radius: f64,
    color: impl Color,
) -> Result<(), AnalysisError> {
    placed(&centres)?;
    chart.draw_series(centres.into_iter().map(|at| Circle::new(at, units(radius), color.filled())))?;
    Ok(())
}

/// A cross that shows on light and dark.
pub(crate) fn cross(chart: &mut Chart<'_, '_>, at: Point, color: RGBColor) -> Result<(), AnalysisError> {
    let half = |stroke: Stroke, length: f64| Cross::new(at, units(length), stroke.style());
    chart.draw_series([half(Stroke::new(WHITE, 4.2), 4.4), half(Stroke::new(color, 2.0), 3.6)])?;
    Ok(())
}

/// How many colours cells have.
pub(crate) const SHADES: u32 = 128;

/// Values \[x, y\] over a grid, none below 0: from nearly white to dark blue, each darker than the one before, in grey too.
pub(crate) fn cells(
    chart: &mut Chart<'_, '_>,
    [x, y]: [&[f64]; 2],
    values: &[f64],
) -> Result<(), AnalysisError> {
    let shades = DerivedColorMap::new(&[
        RGBColor(250, 252, 255),
        RGBColor(189, 215, 237),
        RGBColor(107, 174, 214),
        RGBColor(33, 113, 181),
        RGBColor(8, 40, 96),
    ]);
    let largest = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    // A little into the next one, which covers that: so no seam shows.
    let end = |edges: &[f64], index: usize| {
        let next = edges.get(index + 2).unwrap_or(&edges[index + 1]);
        edges[index + 1] * 0.9 + next * 0.1
    };
    let cell = |(index, value): (usize, &f64)| {
        let (column, row) = (index / (y.len() - 1), index % (y.len() - 1));
        let corners = [(x[column], y[row]), (end(x, column), end(y, row))];
        Rectangle::new(corners, shades.get_color(value / largest).filled())
    };
    chart.draw_series(values.iter().enumerate().map(cell))?;
    Ok(())
}

/// The line along the tops of a histogram, down to 0 at its ends.
pub(crate) fn steps(edges: &[f64], heights: &[f64]) -> Vec<Point> {
    let tops =
        edges.windows(2).zip(heights).flat_map(|(pair, height)| [(pair[0], *height), (pair[1], *height)]);
    let ends = [edges.first(), edges.last()].map(|edge| edge.map(|edge| (*edge, 0.0)));
    ends[0].into_iter().chain(tops).chain(ends[1]).collect()
}

/// What lies between two curves over the same places.
pub(crate) fn between(at: &[f64], lower: &[f64], upper: &[f64]) -> Vec<Point> {
    let up = at.iter().copied().zip(upper.iter().copied());
    let down = at.iter().copied().zip(lower.iter().copied()).rev();
    up.chain(down).collect()
}
