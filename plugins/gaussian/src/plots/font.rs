//! The font of all figures. It is part of the library, so that figures look the same on every machine.

use tiny_skia::{PathBuilder, Transform};
use ttf_parser::{Face, OutlineBuilder};
use waycairn_analysis_api::AnalysisError;

/// What an SVG calls it.
pub(crate) const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";

/// DejaVu Sans, whose licence lets it be embedded.
pub(crate) struct Font {
    face: Face<'static>,
}

impl Font {
    pub(crate) fn new() -> Result<Self, AnalysisError> {
        Ok(Self { face: Face::parse(dejavu::sans::regular(), 0)? })
    }

    /// Points of the text's size that a unit of the font has.
    fn unit(&self, size: f64) -> f64 {
        size / f64::from(self.face.units_per_em())
    }

    fn advance(&self, character: char) -> f64 {
        let glyph = self.face.glyph_index(character).unwrap_or_default();
        f64::from(self.face.glyph_hor_advance(glyph).unwrap_or_default())
    }

    /// How long a text is, in points.
    pub(crate) fn width(&self, text: &str, size: f64) -> f64 {
        text.chars().map(|character| self.advance(character)).sum::<f64>() * self.unit(size)
    }

    /// The size with which a text has no more than a length.
    pub(crate) fn fit(&self, text: &str, size: f64, length: f64) -> f64 {
        let width = self.width(text, size);
        if width > length && length > 0.0 { size * length / width } else { size }
    }

    /// The outline of a text that starts at the origin; nothing for blanks.
    pub(crate) fn outline(&self, text: &str, size: f64, place: Transform) -> Option<tiny_skia::Path> {
        let mut outline = Outline { path: PathBuilder::new(), scale: self.unit(size), x: 0.0 };
        for character in text.chars() {
            let glyph = self.face.glyph_index(character).unwrap_or_default();
            // A blank has no outline.
            let _ = self.face.outline_glyph(glyph, &mut outline);
            outline.x += self.advance(character) * outline.scale;
        }
        outline.path.finish()?.transform(place)
    }
}

struct Outline {
    path: PathBuilder,
    scale: f64,
    x: f64,
}

impl Outline {
    /// Fonts have their y axis upwards.
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        ((self.x + f64::from(x) * self.scale) as f32, (-f64::from(y) * self.scale) as f32)
    }
}

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_font_has_every_sign_that_labels_use() {
        let font = Font::new().unwrap();
        for character in
            "abcxyz0189 \u{3bc}\u{3c3}\u{3b8}\u{2212}\u{d7}\u{2080}\u{2089}\u{207b}\u{2070}\u{b9}\u{2079}%|"
                .chars()
        {
            assert!(font.face.glyph_index(character).is_some(), "{character}");
        }
        assert!((font.width("mm", 10.0) - 2.0 * font.width("m", 10.0)).abs() < 1e-9);
        assert!((font.width("mmmm", font.fit("mmmm", 10.0, 20.0)) - 20.0).abs() < 1e-9);
        assert_eq!(font.fit("m", 10.0, 20.0), 10.0);
        assert!(font.outline(" ", 10.0, Transform::identity()).is_none());
        let bounds = font.outline("x", 10.0, Transform::identity()).unwrap().bounds();
        assert!(bounds.top() < -4.0 && bounds.bottom() <= 0.1 && bounds.right() < 7.0, "{bounds:?}");
    }
}
