//! A figure of runs beside each other, as SVG.

use std::ops::Range;

use plotters::prelude::{
    BLACK, ChartBuilder, Circle, Color, ErrorBar, IntoDrawingArea, LineSeries, RGBColor, SVGBackend,
    SeriesLabelPosition, WHITE,
};

use crate::number;

/// Width and height, in pixels.
const SIZE: (u32, u32) = (800, 480);

/// The colours of Okabe and Ito (2008), which are told apart with every kind of colour vision; the pale yellow is left out.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
];

/// Room above the points for each name of a legend, of the height of the points.
const LEGEND_LINE: f64 = 0.06;

/// A horizontal axis of numbers is logarithmic from here on: the largest by the smallest, all of them positive. Rates are
/// tried in factors, widths hardly.
const LOGARITHMIC: f64 = 4.0;

/// Between the points of two series at one name, of the distance of two names.
const SERIES_GAP: f64 = 0.06;

/// How wide the ends of a bar are, in pixels.
const BAR_END: u32 = 8;

/// The longest label of an axis of names, in characters.
const LABEL: usize = 24;

/// What is drawn.
#[derive(Debug)]
pub(crate) struct Chart<'a> {
    pub(crate) axis: Axis<'a>,
    pub(crate) series: Vec<Series>,
}

/// What the horizontal axis has.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Axis<'a> {
    /// Names beside each other, at 0, 1, ..
    Names(&'a [&'a str]),
    /// Numbers, of what this says.
    Numbers(&'a str),
}

/// Points of one colour. Those of one place are members of one thing, and a line goes through their means.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// The standard error of each point, where it is known.
    pub(crate) errors: Vec<Option<f64>>,
}

impl Series {
    /// Each point with the ends of its bar, of one standard error to each side.
    fn bars(&self) -> impl Iterator<Item = (f64, [f64; 3])> {
        let bar = |((place, value), error): (&(f64, f64), &Option<f64>)| {
            error.map(|error| (*place, [value - error, *value, value + error]))
        };
        self.points.iter().zip(&self.errors).filter_map(bar)
    }
}

impl Chart<'_> {
    /// Draws it; `None` where it has no points.
    pub(crate) fn draw(&self) -> Option<String> {
        let places = || self.series.iter().flat_map(|series| &series.points).map(|point| point.0);
        let logarithmic = matches!(self.axis, Axis::Numbers(_))
            && places().all(|place| place > 0.0)
            && span(places())?.1 >= LOGARITHMIC * span(places())?.0;
        let to_axis = |place: f64| if logarithmic { place.log10() } else { place };
        let across = match self.axis {
            Axis::Names(names) => -0.5..names.len() as f64 - 0.5,
            Axis::Numbers(_) => aired(span(places().map(to_axis))?),
        };
        let heights = self.series.iter().flat_map(|series| &series.points).map(|point| point.1);
        let ends = self.series.iter().flat_map(Series::bars).flat_map(|(_, [low, _, high])| [low, high]);
        let mut up = aired(span(heights.chain(ends))?);
        if self.series.len() > 1 {
            up.end += (up.end - up.start) * LEGEND_LINE * (self.series.len() + 1) as f64;
        }
        let mut svg = String::new();
        // Drawing into a string fails at nothing; what does is a figure that is not there.
        self.draw_into(&mut svg, across, up, logarithmic, &to_axis).ok()?;
        Some(svg)
    }

    fn draw_into(
        &self,
        svg: &mut String,
        across: Range<f64>,
        up: Range<f64>,
        logarithmic: bool,
        to_axis: &dyn Fn(f64) -> f64,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(72)
            .build_cartesian_2d(across, up)?;
        let name_at = |place: &f64| match self.axis {
            Axis::Names(names) if (place - place.round()).abs() < 1e-6 => {
                let name = names.get(place.round() as usize).copied().unwrap_or_default();
                shortened(name)
            }
            Axis::Names(_) => String::new(),
            Axis::Numbers(_) if logarithmic => number::float(10f64.powf(*place)),
            Axis::Numbers(_) => number::float(*place),
        };
        let labels = match self.axis {
            // One more than there are, so that each whole number has one.
            Axis::Names(names) => names.len() + 1,
            Axis::Numbers(_) => 8,
        };
        let (title, one) = match (self.axis, self.series.as_slice()) {
            (Axis::Numbers(path), [one]) => (path, one.name.as_str()),
            (Axis::Numbers(path), _) => (path, ""),
            (Axis::Names(_), [one]) => ("", one.name.as_str()),
            (Axis::Names(_), _) => ("", ""),
        };
        chart
            .configure_mesh()
            .x_desc(title)
            .y_desc(one)
            .x_labels(labels)
            .x_label_formatter(&name_at)
            .y_label_formatter(&|height| number::float(*height))
            .light_line_style(WHITE)
            .draw()?;
        for (index, series) in self.series.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let line = means(&series.points).into_iter().map(|(place, mean)| (to_axis(place), mean));
            // Names have no order that a line could follow.
            let line = line.filter(|_| matches!(self.axis, Axis::Numbers(_)));
            chart
                .draw_series(LineSeries::new(line, &colour))?
                .label(&series.name)
                .legend(move |(x, y)| plotters::element::PathElement::new([(x, y), (x + 16, y)], colour));
            // Series stand beside each other at a name, so that no bar hides another.
            let beside = match self.axis {
                Axis::Names(_) => (index as f64 - (self.series.len() - 1) as f64 / 2.0) * SERIES_GAP,
                Axis::Numbers(_) => 0.0,
            };
            let bars = series.bars().map(|(place, [low, value, high])| {
                ErrorBar::new_vertical(to_axis(place) + beside, low, value, high, colour, BAR_END)
            });
            chart.draw_series(bars)?;
            let points = series.points.iter().map(|(place, value)| (to_axis(*place) + beside, *value));
            chart.draw_series(points.map(|point| Circle::new(point, 3, colour.filled())))?;
        }
        if self.series.len() > 1 {
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperRight)
                .background_style(WHITE.mix(0.85))
                .border_style(BLACK.mix(0.3))
                .draw()?;
        }
        area.present()?;
        Ok(())
    }
}

/// A name that fits below an axis: of a long one the beginning and the end, where a variant has its value.
fn shortened(name: &str) -> String {
    let count = name.chars().count();
    if count <= LABEL {
        return name.to_owned();
    }
    let end = LABEL * 2 / 3;
    let begin: String = name.chars().take(LABEL - end - 2).collect();
    let rest: String = name.chars().skip(count - end).collect();
    format!("{begin}..{rest}")
}

/// The mean of the values of each place, by place.
fn means(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let of_place = sorted.chunk_by(|a, b| a.0 == b.0);
    of_place
        .filter_map(|same| {
            let sum: f64 = same.iter().map(|point| point.1).sum();
            Some((same.first()?.0, sum / same.len() as f64))
        })
        .collect()
}

/// The smallest and the largest.
fn span(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |span, value| match span {
        None => Some((value, value)),
        Some((low, high)) => Some((f64::min(low, value), f64::max(high, value))),
    })
}

/// A range with air on both sides, also around one value.
fn aired((low, high): (f64, f64)) -> Range<f64> {
    let air = ((high - low) * 0.05).max(high.abs() * 1e-3).max(1e-9);
    low - air..high + air
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_a_point_a_run_and_a_line_through_the_means() {
        let series = Series {
            name: "val/loss".to_owned(),
            points: vec![(0.1, 2.0), (0.001, 3.0), (0.1, 4.0)],
            errors: Vec::new(),
        };
        let svg =
            Chart { axis: Axis::Numbers("settings.learning_rate"), series: vec![series] }.draw().unwrap();
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.contains("settings.learning_rate") && svg.contains("val/loss"), "{svg}");
        // Two decades: the axis is logarithmic, so 0.01 stands on it.
        assert!(svg.contains("\n0.01\n"), "{svg}");
        assert_eq!(means(&[(0.1, 2.0), (0.001, 3.0), (0.1, 4.0)]), [(0.001, 3.0), (0.1, 3.0)]);
    }

    #[test]
    fn names_stand_below_their_points() {
        let series = |name: &str| Series {
            name: name.to_owned(),
            points: vec![(0.0, 1.0), (1.0, 1.0)],
            errors: vec![Some(0.25), None],
        };
        let names = ["baseline", "width-32"];
        let chart = Chart { axis: Axis::Names(&names), series: vec![series("a"), series("b")] };
        let svg = chart.draw().unwrap();
        assert_eq!(svg.matches("baseline").count(), 1, "{svg}");
        assert_eq!(svg.matches("width-32").count(), 1, "{svg}");
        // Four points, and the middles of two bars.
        assert_eq!(svg.matches("<circle").count(), 6);
        // A bar is a line with two ends, and there are two.
        let without = |series: Series| Series { errors: vec![None, None], ..series };
        let plain =
            Chart { axis: Axis::Names(&names), series: vec![without(series("a")), without(series("b"))] };
        let lines = |svg: &str| svg.matches("<polyline").count() + svg.matches("<line").count();
        assert!(lines(&svg) > lines(&plain.draw().unwrap()), "{svg}");
    }

    #[test]
    fn a_long_name_keeps_its_end() {
        assert_eq!(shortened("width-32"), "width-32");
        let (one, other) =
            (shortened("training_learning_rate-0.01"), shortened("training_learning_rate-0.1"));
        assert_eq!(one, "traini..arning_rate-0.01");
        assert_ne!(one, other);
        assert_eq!(one.chars().count(), LABEL);
    }

    #[test]
    fn without_points_there_is_nothing_to_draw() {
        assert!(Chart { axis: Axis::Names(&[]), series: Vec::new() }.draw().is_none());
    }
}
