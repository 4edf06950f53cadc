//! What a figure is made of: few shapes, in points of 1/72 inch, from the upper left corner.

/// A place on the canvas, or in the units of the axes.
pub(crate) type Point = (f64, f64);

/// Colour and how much of it covers what lies below.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ink {
    pub(crate) color: [u8; 3],
    /// From 0 to 1.
    pub(crate) opacity: f64,
}

impl Ink {
    pub(crate) const fn new(color: [u8; 3]) -> Self {
        Self { color, opacity: 1.0 }
    }

    #[must_use]
    pub(crate) const fn faint(self, opacity: f64) -> Self {
        Self { color: self.color, opacity }
    }
}

/// The colours of Okabe and Ito, which those who are colour-blind tell apart too.
pub(crate) const BLUE: Ink = Ink::new([0, 114, 178]);
pub(crate) const VERMILION: Ink = Ink::new([213, 94, 0]);
pub(crate) const GREEN: Ink = Ink::new([0, 158, 115]);
pub(crate) const ORANGE: Ink = Ink::new([230, 159, 0]);
pub(crate) const SKY: Ink = Ink::new([86, 180, 233]);
pub(crate) const PURPLE: Ink = Ink::new([204, 121, 167]);
pub(crate) const BLACK: Ink = Ink::new([0, 0, 0]);
pub(crate) const GREY: Ink = Ink::new([110, 110, 110]);
pub(crate) const WHITE: Ink = Ink::new([255, 255, 255]);

/// For lines of equal rank, in this order.
pub(crate) const PALETTE: [Ink; 7] = [BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK];

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stroke {
    pub(crate) ink: Ink,
    pub(crate) width: f64,
    /// Lengths of strokes and gaps by turns; none is a solid line.
    pub(crate) dash: &'static [f64],
}

pub(crate) const DASHED: &[f64] = &[4.5, 2.5];
pub(crate) const DOTTED: &[f64] = &[1.2, 2.0];

impl Stroke {
    pub(crate) const fn new(ink: Ink, width: f64) -> Self {
        Self { ink, width, dash: &[] }
    }

    #[must_use]
    pub(crate) const fn dashed(self, dash: &'static [f64]) -> Self {
        Self { ink: self.ink, width: self.width, dash }
    }
}

/// Where a text's place is on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Text {
    /// On the base line.
    pub(crate) at: Point,
    pub(crate) text: String,
    /// Of the font.
    pub(crate) size: f64,
    pub(crate) anchor: Anchor,
    /// Reads upwards.
    pub(crate) upwards: bool,
    pub(crate) ink: Ink,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    /// Closed polygons as one area, which cover each other only once. Crisp ones have whole pixels, so that neighbours
    /// leave no seam.
    Area {
        rings: Vec<Vec<Point>>,
        ink: Ink,
        crisp: bool,
    },
    Line {
        points: Vec<Point>,
        stroke: Stroke,
    },
    /// Discs, each over the one before.
    Dots {
        centres: Vec<Point>,
        radius: f64,
        ink: Ink,
    },
    Text(Text),
}

/// A figure, drawn but not yet written in a format.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Canvas {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) shapes: Vec<Shape>,
}

impl Canvas {
    pub(crate) fn new(width: f64, height: f64) -> Self {
        Self { width, height, shapes: Vec::new() }
    }

    pub(crate) fn line(&mut self, points: Vec<Point>, stroke: Stroke) {
        self.shapes.push(Shape::Line { points, stroke });
    }

    pub(crate) fn area(&mut self, ring: Vec<Point>, ink: Ink) {
        self.shapes.push(Shape::Area { rings: vec![ring], ink, crisp: false });
    }

    pub(crate) fn text(&mut self, text: Text) {
        self.shapes.push(Shape::Text(text));
    }
}
