//! A figure: layers over two axes, with a legend above them, where it hides nothing.

use waycairn_analysis_api::{AnalysisError, Context};

use super::axis::{Axis, Ticks, power_text};
use super::canvas::{Anchor, BLACK, Canvas, GREY, Ink, Point, Shape, Stroke, Text, WHITE};
use super::font::Font;

/// Of labels of axes. Figures are 5 inches wide: at the 3.4 of a column it is nearly 8 points.
const LABEL: f64 = 11.5;
/// Of ticks and legends.
const SMALL: f64 = 10.0;
/// Between the lines of legends.
const LEADING: f64 = 14.0;
const MARGIN: f64 = 6.0;
const TICK: f64 = 3.5;
/// The sample of a line or an area in the legend.
const KEY: f64 = 18.0;

/// The outer size of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// 5 by 3.6 inches.
    Wide,
    /// 4.6 by 4.8 inches, with both axes of one length.
    Square,
    /// The same with room for what colours mean: 5.3 by 4.7 inches.
    Map,
}

impl Format {
    /// Width and height in points.
    pub(crate) fn size(self) -> (f64, f64) {
        match self {
            Self::Wide => (360.0, 259.2),
            Self::Square => (331.2, 345.6),
            Self::Map => (381.6, 338.4),
        }
    }
}

/// What the legend shows beside a label.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Key {
    Line(Stroke),
    Area(Ink),
    Dot(Ink),
    /// A dot on a line.
    Beads(Stroke),
    Cross(Ink),
}

/// Values over a grid.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cells {
    pub(crate) x_edges: Vec<f64>,
    pub(crate) y_edges: Vec<f64>,
    /// \[x, y\], none below 0.
    pub(crate) values: Vec<f64>,
    pub(crate) label: String,
}

#[derive(Clone, Debug)]
enum Layer {
    Line(Vec<Point>, Stroke),
    Area(Vec<Point>, Ink),
    Dots(Vec<Point>, f64, Ink),
    Crosses(Vec<Point>, Ink),
}

/// Layers in the units of the axes. What comes later lies above.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    format: Format,
    x: Axis,
    y: Axis,
    note: Option<String>,
    cells: Option<Cells>,
    layers: Vec<Layer>,
    legend: Vec<(String, Key)>,
}

impl Figure {
    pub(crate) fn new(format: Format, x: Axis, y: Axis) -> Self {
        Self { format, x, y, note: None, cells: None, layers: Vec::new(), legend: Vec::new() }
    }

    /// A line of text above all.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.note = Some(note.into());
    }

    pub(crate) fn line(&mut self, points: Vec<Point>, stroke: Stroke) {
        self.layers.push(Layer::Line(points, stroke));
    }

    pub(crate) fn area(&mut self, ring: Vec<Point>, ink: Ink) {
        self.layers.push(Layer::Area(ring, ink));
    }

    pub(crate) fn dots(&mut self, centres: Vec<Point>, radius: f64, ink: Ink) {
        self.layers.push(Layer::Dots(centres, radius, ink));
    }

    pub(crate) fn cross(&mut self, at: Point, ink: Ink) {
        self.layers.push(Layer::Crosses(vec![at], ink));
    }

    /// From the lower end of an axis to the upper one.
    pub(crate) fn vertical(&mut self, x: f64, stroke: Stroke) {
        let (low, high) = (self.y.low, self.y.high);
        self.line(vec![(x, low), (x, high)], stroke);
    }

    pub(crate) fn horizontal(&mut self, y: f64, stroke: Stroke) {
        let (low, high) = (self.x.low, self.x.high);
        self.line(vec![(low, y), (high, y)], stroke);
    }

    /// Where both axes have the same value.
    pub(crate) fn diagonal(&mut self, stroke: Stroke) {
        let (low, high) = (self.x.low.max(self.y.low), self.x.high.min(self.y.high));
        if low < high {
            self.line(vec![(low, low), (high, high)], stroke);
        }
    }

    /// Below all layers, with a bar of what colours mean at the right.
    pub(crate) fn cells(&mut self, cells: Cells) {
        self.cells = Some(cells);
    }

    pub(crate) fn key(&mut self, label: impl Into<String>, key: Key) {
        self.legend.push((label.into(), key));
    }

    /// Lays it out.
    ///
    /// # Errors
    /// A coordinate that is not finite.
    pub(crate) fn draw(&self) -> Result<Canvas, AnalysisError> {
        self.check()?;
        let font = Font::new()?;
        let (width, height) = self.format.size();
        let mut canvas = Canvas::new(width, height);
        let legend = Legend::new(&font, &self.legend, width - 2.0 * MARGIN);
        let frame = self.frame(&font, &legend)?;
        let mut top = MARGIN;
        if let Some(note) = &self.note {
            let size = font.fit(note, SMALL, width - 2.0 * MARGIN);
            canvas.text(text(note, size, (MARGIN, top + SMALL), Anchor::Start));
            top += LEADING;
        }
        legend.draw(&mut canvas, top, frame.left);
        if let Some(cells) = &self.cells {
            frame.cells(&mut canvas, cells);
        }
        self.layers.iter().for_each(|layer| frame.layer(&mut canvas, layer));
        frame.draw(&mut canvas, &font);
        Ok(canvas)
    }

    fn check(&self) -> Result<(), AnalysisError> {
        let finite = |points: &[Point]| points.iter().all(|(x, y)| x.is_finite() && y.is_finite());
        let layers = self.layers.iter().all(|layer| match layer {
            Layer::Line(points, _) | Layer::Area(points, _) => finite(points),
            Layer::Dots(points, ..) | Layer::Crosses(points, _) => finite(points),
        });
        let cells = self.cells.iter().all(|cells| {
            let all = cells.values.iter().chain(&cells.x_edges).chain(&cells.y_edges);
            all.copied().all(f64::is_finite)
        });
        let axes = [&self.x, &self.y].into_iter().all(|axis| (axis.high - axis.low).is_finite());
        if layers && cells && axes {
            return Ok(());
        }
        Err(AnalysisError::new(format!(
            "`{}` against `{}` has a value that is not finite, which cannot be drawn",
            self.y.label, self.x.label
        )))
    }

    /// Finds the frame: what ticks, labels and legend leave.
    fn frame<'a>(&'a self, font: &Font, legend: &Legend<'_>) -> Result<Frame<'a>, AnalysisError> {
        let (width, height) = self.format.size();
        let top = MARGIN + legend.height() + if self.note.is_some() { LEADING } else { 0.0 } + 3.0;
        let bar = self.cells.as_ref().map(|cells| {
            let largest = cells.values.iter().copied().fold(0.0, f64::max);
            Axis::new(cells.label.clone(), 0.0, if largest > 0.0 { largest } else { 1.0 })
        });
        let wide =
            |ticks: &Ticks| ticks.at.iter().map(|(_, text)| font.width(text, SMALL)).fold(0.0, f64::max);
        let bar_width = bar.as_ref().map_or(0.0, |bar| 8.0 + 9.0 + 4.0 + wide(&bar.ticks(6)) + 4.0 + LABEL);
        let left_of = |ticks: &Ticks| MARGIN + LABEL + 4.0 + wide(ticks) + 2.0 + TICK;
        let right = MARGIN + 6.0 + bar_width;
        // Ticks of the horizontal axis: as many as stand beside each other; names that do not are turned.
        let about = width - left_of(&self.y.ticks(6)) - right;
        let mut x_ticks = self.x.ticks(8);
        let crowded = |ticks: &Ticks, count: usize| (wide(ticks) + 8.0) * count as f64 > about;
        let mut turned = false;
        if self.x.is_names() {
            turned = crowded(&x_ticks, x_ticks.at.len());
        } else {
            let fewer = (2..=8).rev().map(|count| self.x.ticks(count));
            x_ticks = fewer
                .into_iter()
                .find(|ticks| !crowded(ticks, ticks.at.len()))
                .unwrap_or_else(|| self.x.ticks(2));
        }
        let longest = (height / 3.0).min(wide(&x_ticks));
        let under = if turned { longest } else { SMALL };
        let bottom = MARGIN + LABEL + 4.0 + under + 2.0 + TICK;
        let mut tall = height - top - bottom;
        let y_ticks = self.y.ticks(((tall / 32.0) as usize).clamp(2, 8));
        let mut left = left_of(&y_ticks);
        let mut long = width - left - right;
        if self.format != Format::Wide {
            let side = tall.min(long);
            left += (long - side) / 2.0;
            (tall, long) = (side, side);
        }
        if !(tall > 20.0 && long > 20.0) {
            return Err(AnalysisError::new("the legend of a figure leaves no room for what it is about"));
        }
        Ok(Frame { figure: self, left, top, width: long, height: tall, x_ticks, y_ticks, turned, under, bar })
    }
}

/// Where the axes are, and how values become places.
struct Frame<'a> {
    figure: &'a Figure,
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    x_ticks: Ticks,
    y_ticks: Ticks,
    turned: bool,
    /// The height of what stands at the ticks of the horizontal axis.
    under: f64,
    bar: Option<Axis>,
}

impl Frame<'_> {
    fn bottom(&self) -> f64 {
        self.top + self.height
    }

    fn right(&self) -> f64 {
        self.left + self.width
    }

    fn x(&self, value: f64) -> f64 {
        self.left + self.figure.x.share(value) * self.width
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom() - self.figure.y.share(value) * self.height
    }

    fn at(&self, (x, y): Point) -> Point {
        (self.x(x), self.y(y))
    }

    fn layer(&self, canvas: &mut Canvas, layer: &Layer) {
        let places = |points: &[Point]| points.iter().map(|point| self.at(*point)).collect();
        match layer {
            Layer::Line(points, stroke) => canvas.line(places(points), *stroke),
            Layer::Area(ring, ink) => canvas.area(places(ring), *ink),
            Layer::Dots(centres, radius, ink) => {
                canvas.shapes.push(Shape::Dots { centres: places(centres), radius: *radius, ink: *ink });
            }
            Layer::Crosses(centres, ink) => {
                let places: Vec<Point> = places(centres);
                places.into_iter().for_each(|place| cross(canvas, place, *ink));
            }
        }
    }

    fn cells(&self, canvas: &mut Canvas, cells: &Cells) {
        let (columns, rows) = (cells.x_edges.len().saturating_sub(1), cells.y_edges.len().saturating_sub(1));
        let largest = cells.values.iter().copied().fold(0.0, f64::max);
        if largest <= 0.0 || rows == 0 {
            return;
        }
        // All cells of one shade are one area: fewer bytes, and no seams.
        let mut shades: Vec<Vec<Vec<Point>>> = vec![Vec::new(); SHADES];
        for (column, values) in cells.values.chunks_exact(rows).take(columns).enumerate() {
            let (left, right) = (self.x(cells.x_edges[column]), self.x(cells.x_edges[column + 1]));
            for (row, value) in values.iter().enumerate().filter(|(_, value)| **value > 0.0) {
                let shade = ((value / largest * SHADES as f64) as usize).min(SHADES - 1);
                let (low, high) = (self.y(cells.y_edges[row]), self.y(cells.y_edges[row + 1]));
                shades[shade].push(vec![(left, low), (right, low), (right, high), (left, high)]);
            }
        }
        for (shade, rings) in shades.into_iter().enumerate().filter(|(_, rings)| !rings.is_empty()) {
            canvas.shapes.push(Shape::Area { rings, ink: shade_of(shade), crisp: true });
        }
    }

    /// Frame, ticks and labels, above the layers.
    fn draw(&self, canvas: &mut Canvas, font: &Font) {
        let (left, right, top, bottom) = (self.left, self.right(), self.top, self.bottom());
        let thin = Stroke::new(BLACK, 0.7);
        for (value, label) in &self.x_ticks.at {
            let x = self.x(*value);
            canvas.line(vec![(x, bottom), (x, bottom + TICK)], thin);
            let below = bottom + TICK + 2.0;
            if self.turned {
                let size = font.fit(label, SMALL, self.under);
                let place = (x + size * 0.36, below);
                canvas.text(Text { upwards: true, ..text(label, size, place, Anchor::End) });
            } else {
                canvas.text(text(label, SMALL, (x, below + SMALL * 0.8), Anchor::Middle));
            }
        }
        for (value, label) in &self.y_ticks.at {
            let y = self.y(*value);
            canvas.line(vec![(left - TICK, y), (left, y)], thin);
            canvas.text(text(label, SMALL, (left - TICK - 2.0, y + SMALL * 0.36), Anchor::End));
        }
        canvas.line(
            vec![(left, top), (right, top), (right, bottom), (left, bottom), (left, top), (right, top)],
            thin,
        );
        let (width, height) = self.figure.format.size();
        let label = with_power(&self.figure.x.label, self.x_ticks.power);
        // In the middle of the axis, or as near to it as a long label can be.
        let size = font.fit(&label, LABEL, width - 2.0 * MARGIN);
        let half = font.width(&label, size) / 2.0;
        let middle = ((left + right) / 2.0).clamp(MARGIN + half, (width - MARGIN - half).max(MARGIN + half));
        let below = bottom + TICK + 2.0 + self.under + 4.0 + LABEL * 0.8;
        canvas.text(text(&label, size, (middle, below), Anchor::Middle));
        let label = with_power(&self.figure.y.label, self.y_ticks.power);
        let size = font.fit(&label, LABEL, height - 2.0 * MARGIN);
        let half = font.width(&label, size) / 2.0;
        let middle = ((top + bottom) / 2.0).clamp(MARGIN + half, (height - MARGIN - half).max(MARGIN + half));
        let beside = left - TICK - 2.0 - widest(font, &self.y_ticks) - 4.0 - LABEL * 0.2;
        canvas.text(Text { upwards: true, ..text(&label, size, (beside, middle), Anchor::Middle) });
        if let Some(bar) = &self.bar {
            self.bar(canvas, font, bar);
        }
    }

    /// What the shades of the cells mean.
    fn bar(&self, canvas: &mut Canvas, font: &Font, bar: &Axis) {
        let (left, right) = (self.right() + 8.0, self.right() + 17.0);
        let step = self.height / SHADES as f64;
        for shade in 0..SHADES {
            let low = self.bottom() - step * shade as f64;
            let ring = vec![(left, low), (right, low), (right, low - step), (left, low - step)];
            canvas.shapes.push(Shape::Area { rings: vec![ring], ink: shade_of(shade), crisp: true });
        }
        let thin = Stroke::new(BLACK, 0.7);
        let (top, bottom) = (self.top, self.bottom());
        canvas.line(
            vec![(left, top), (right, top), (right, bottom), (left, bottom), (left, top), (right, top)],
            thin,
        );
        let ticks = bar.ticks(6);
        for (value, label) in &ticks.at {
            let y = bottom - bar.share(*value) * self.height;
            canvas.line(vec![(right, y), (right + TICK, y)], thin);
            canvas.text(text(label, SMALL, (right + TICK + 2.0, y + SMALL * 0.36), Anchor::Start));
        }
        let label = with_power(&bar.label, ticks.power);
        let size = font.fit(&label, LABEL, self.height);
        let place = (right + TICK + 2.0 + widest(font, &ticks) + 3.0 + LABEL * 0.8, (top + bottom) / 2.0);
        canvas.text(Text { upwards: true, ..text(&label, size, place, Anchor::Middle) });
    }
}

fn widest(font: &Font, ticks: &Ticks) -> f64 {
    ticks.at.iter().map(|(_, text)| font.width(text, SMALL)).fold(0.0, f64::max)
}

fn with_power(label: &str, power: i32) -> String {
    if power == 0 { label.to_owned() } else { format!("{label}  (\u{d7} {})", power_text(power)) }
}

fn text(text: &str, size: f64, at: Point, anchor: Anchor) -> Text {
    Text { at, text: text.to_owned(), size, anchor, upwards: false, ink: BLACK }
}

/// A cross that shows on light and dark.
fn cross(canvas: &mut Canvas, (x, y): Point, ink: Ink) {
    let arm = 5.0;
    for stroke in [Stroke::new(WHITE, 4.2), Stroke::new(ink, 2.0)] {
        // The white is a little longer at its ends.
        let arm = arm + (stroke.width - 2.0) / 2.0;
        canvas.line(vec![(x - arm, y), (x + arm, y)], stroke);
        canvas.line(vec![(x, y - arm), (x, y + arm)], stroke);
    }
}

const SHADES: usize = 64;

/// From nearly white to dark blue; each darker than the one before, in grey too.
fn shade_of(shade: usize) -> Ink {
    const STOPS: [[f64; 3]; 5] = [
        [250.0, 252.0, 255.0],
        [189.0, 215.0, 237.0],
        [107.0, 174.0, 214.0],
        [33.0, 113.0, 181.0],
        [8.0, 40.0, 96.0],
    ];
    let place = shade as f64 / (SHADES - 1) as f64 * (STOPS.len() - 1) as f64;
    let stop = (place as usize).min(STOPS.len() - 2);
    let share = place - stop as f64;
    let mix = |channel: usize| {
        (STOPS[stop][channel] * (1.0 - share) + STOPS[stop + 1][channel] * share).round() as u8
    };
    Ink::new([mix(0), mix(1), mix(2)])
}

/// Entries in lines, as many beside each other as there is room for.
struct Legend<'a> {
    lines: Vec<Vec<(&'a str, Key, f64)>>,
    size: f64,
}

/// Between a sample and its label, and between entries.
const KEY_GAP: f64 = 4.0;
const ENTRY_GAP: f64 = 12.0;

impl<'a> Legend<'a> {
    fn new(font: &Font, entries: &'a [(String, Key)], width: f64) -> Self {
        let size = entries
            .iter()
            .map(|(label, _)| font.fit(label, SMALL, width - KEY - KEY_GAP))
            .fold(SMALL, f64::min);
        let mut lines: Vec<Vec<(&str, Key, f64)>> = Vec::new();
        let mut used = f64::INFINITY;
        for (label, key) in entries {
            let length = KEY + KEY_GAP + font.width(label, size);
            if used + ENTRY_GAP + length > width {
                lines.push(Vec::new());
                used = -ENTRY_GAP;
            }
            used += ENTRY_GAP + length;
            if let Some(line) = lines.last_mut() {
                line.push((label, *key, length));
            }
        }
        Self { lines, size }
    }

    fn height(&self) -> f64 {
        self.lines.len() as f64 * LEADING
    }

    /// Starts at the frame, or further left where a line is too long for that.
    fn draw(&self, canvas: &mut Canvas, top: f64, left: f64) {
        let length = |line: &Vec<(&str, Key, f64)>| {
            line.iter().map(|(_, _, length)| length + ENTRY_GAP).sum::<f64>() - ENTRY_GAP
        };
        let longest = self.lines.iter().map(length).fold(0.0, f64::max);
        let start = left.min(canvas.width - MARGIN - longest).max(MARGIN);
        for (index, line) in self.lines.iter().enumerate() {
            let base = top + index as f64 * LEADING + SMALL;
            let mut x = start;
            for (label, key, length) in line {
                sample(canvas, *key, (x, base - SMALL * 0.36));
                canvas.text(text(label, self.size, (x + KEY + KEY_GAP, base), Anchor::Start));
                x += length + ENTRY_GAP;
            }
        }
    }
}

fn sample(canvas: &mut Canvas, key: Key, (x, y): Point) {
    let line = vec![(x, y), (x + KEY, y)];
    let middle = (x + KEY / 2.0, y);
    match key {
        Key::Line(stroke) => canvas.line(line, stroke),
        Key::Area(ink) => {
            canvas.area(vec![(x, y - 4.0), (x + KEY, y - 4.0), (x + KEY, y + 4.0), (x, y + 4.0)], ink);
        }
        Key::Dot(ink) => canvas.shapes.push(Shape::Dots { centres: vec![middle], radius: 3.0, ink }),
        Key::Beads(stroke) => {
            canvas.line(line, stroke);
            canvas.shapes.push(Shape::Dots { centres: vec![middle], radius: 2.4, ink: stroke.ink });
        }
        Key::Cross(ink) => cross(canvas, middle, ink),
    }
}

/// The line along the tops of a histogram, down to 0 at its ends.
pub(crate) fn steps(edges: &[f64], heights: &[f64]) -> Vec<Point> {
    let mut points = Vec::with_capacity(2 * heights.len() + 2);
    for (pair, height) in edges.windows(2).zip(heights) {
        if points.is_empty() {
            points.push((pair[0], 0.0));
        }
        points.push((pair[0], *height));
        points.push((pair[1], *height));
    }
    if let Some((x, _)) = points.last().copied() {
        points.push((x, 0.0));
    }
    points
}

/// What lies between two curves over the same places.
pub(crate) fn between(at: &[f64], lower: &[f64], upper: &[f64]) -> Vec<Point> {
    let up = at.iter().copied().zip(upper.iter().copied());
    let down = at.iter().copied().zip(lower.iter().copied()).rev();
    up.chain(down).collect()
}

/// A thin grey line for what would be ideal.
pub(crate) const IDEAL: Stroke = Stroke::new(GREY, 1.1).dashed(super::canvas::DASHED);

/// Figures of a plot, by name.
pub(crate) type Figures = Vec<(String, Figure)>;

/// Gives each figure to the host as a PNG and as an SVG.
pub(crate) fn emit(context: &Context<'_>, figures: &Figures, dpi: u64) -> Result<(), AnalysisError> {
    for (index, (name, figure)) in figures.iter().enumerate() {
        if context.cancelled() {
            return Err(AnalysisError::new("it was asked to end"));
        }
        context.progress(index as u64, figures.len() as u64, "figures");
        let canvas =
            figure.draw().map_err(|error| AnalysisError::new(format!("figure `{name}`: {error}")))?;
        context.emit_figure(name, "image/png", &canvas.png(dpi)?)?;
        context.emit_figure(name, "image/svg+xml", canvas.svg()?.as_bytes())?;
    }
    Ok(())
}
