//! A figure as a PNG.

use std::io::Write;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use tiny_skia::{
    Color, FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, StrokeDash, Transform,
};
use waycairn_analysis_api::AnalysisError;

use super::canvas::{Anchor, Canvas, Ink, Point, Shape, Stroke, Text};
use super::font::Font;

/// The most pixels of a figure: 4 bytes each while it is drawn.
const MOST_PIXELS: f64 = 1e8;

impl Canvas {
    /// How many pixels it is wide and high.
    pub(crate) fn pixels(&self, dpi: u64) -> Result<(u32, u32), AnalysisError> {
        let of = |points: f64| (points / 72.0 * dpi as f64).round().max(1.0);
        let (width, height) = (of(self.width), of(self.height));
        if width * height > MOST_PIXELS {
            return Err(AnalysisError::new(format!(
                "a figure of {width} x {height} pixels is more than memory should hold; lower `plotting.dpi`, which is {dpi}"
            )));
        }
        Ok((width as u32, height as u32))
    }

    /// The figure as a PNG, which says its resolution.
    pub(crate) fn png(&self, dpi: u64) -> Result<Vec<u8>, AnalysisError> {
        let (width, height) = self.pixels(dpi)?;
        let mut pixmap = Pixmap::new(width, height).ok_or_else(|| {
            AnalysisError::new(format!("no bitmap of {width} x {height} pixels can be made"))
        })?;
        pixmap.fill(Color::WHITE);
        let mut brush = Brush { pixmap, scale: (dpi as f64 / 72.0) as f32, font: Font::new()? };
        self.shapes.iter().for_each(|shape| brush.shape(shape));
        encode(&brush.pixmap, dpi)
    }
}

struct Brush {
    pixmap: Pixmap,
    /// Pixels of a point.
    scale: f32,
    font: Font,
}

impl Brush {
    fn to_pixels(&self) -> Transform {
        Transform::from_scale(self.scale, self.scale)
    }

    fn shape(&mut self, shape: &Shape) {
        match shape {
            Shape::Area { rings, ink, crisp } => {
                let mut builder = PathBuilder::new();
                rings.iter().for_each(|ring| add(&mut builder, ring, true));
                self.fill(builder.finish(), *ink, !crisp);
            }
            Shape::Line { points, stroke } => {
                let mut builder = PathBuilder::new();
                add(&mut builder, points, false);
                self.stroke(builder.finish(), stroke);
            }
            Shape::Dots { centres, radius, ink } => {
                for (x, y) in centres {
                    self.fill(PathBuilder::from_circle(*x as f32, *y as f32, *radius as f32), *ink, true);
                }
            }
            Shape::Text(text) => self.text(text),
        }
    }

    // What has no extent at all makes no path, and shows nothing.
    fn fill(&mut self, path: Option<Path>, ink: Ink, smooth: bool) {
        let Some(path) = path else { return };
        let transform = self.to_pixels();
        self.pixmap.fill_path(&path, &paint(ink, smooth), FillRule::Winding, transform, None);
    }

    fn stroke(&mut self, path: Option<Path>, stroke: &Stroke) {
        let Some(path) = path else { return };
        let dash = stroke.dash.iter().map(|length| *length as f32).collect();
        let style = tiny_skia::Stroke {
            width: stroke.width as f32,
            line_cap: LineCap::Butt,
            line_join: LineJoin::Round,
            dash: StrokeDash::new(dash, 0.0),
            ..tiny_skia::Stroke::default()
        };
        let transform = self.to_pixels();
        self.pixmap.stroke_path(&path, &paint(stroke.ink, true), &style, transform, None);
    }

    fn text(&mut self, text: &Text) {
        let width = self.font.width(&text.text, text.size);
        let before = match text.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => width / 2.0,
            Anchor::End => width,
        };
        let (x, y) = (text.at.0 as f32, text.at.1 as f32);
        let place = if text.upwards {
            Transform::from_row(0.0, -1.0, 1.0, 0.0, x, y + before as f32)
        } else {
            Transform::from_translate(x - before as f32, y)
        };
        let outline = self.font.outline(&text.text, text.size, place);
        self.fill(outline, text.ink, true);
    }
}

fn add(builder: &mut PathBuilder, points: &[Point], close: bool) {
    for (index, (x, y)) in points.iter().enumerate() {
        if index == 0 {
            builder.move_to(*x as f32, *y as f32);
        } else {
            builder.line_to(*x as f32, *y as f32);
        }
    }
    if close && !points.is_empty() {
        builder.close();
    }
}

fn paint(ink: Ink, smooth: bool) -> Paint<'static> {
    let [red, green, blue] = ink.color;
    let mut paint = Paint { anti_alias: smooth, ..Paint::default() };
    paint.set_color_rgba8(red, green, blue, (ink.opacity.clamp(0.0, 1.0) * 255.0).round() as u8);
    paint
}

/// The PNG of an opaque bitmap. No crate writes it: `png` would give `flate2` features that Burn would be built again for.
fn encode(pixmap: &Pixmap, dpi: u64) -> Result<Vec<u8>, AnalysisError> {
    let (width, height) = (pixmap.width(), pixmap.height());
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    // Eight bits, colours without a palette, and no interlacing.
    let header = [&bytes(width)[..], &bytes(height), &[8, 2, 0, 0, 0]].concat();
    chunk(&mut png, b"IHDR", &header)?;
    let per_metre = bytes(u32::try_from(dpi.saturating_mul(10_000) / 254).unwrap_or(u32::MAX));
    chunk(&mut png, b"pHYs", &[&per_metre[..], &per_metre, &[1]].concat())?;
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(6));
    let mut line = Vec::with_capacity(width as usize * 3 + 1);
    for row in pixmap.data().chunks_exact(width as usize * 4) {
        line.clear();
        // No filter: areas of one colour are long runs already.
        line.push(0);
        line.extend(row.chunks_exact(4).flat_map(|pixel| pixel.iter().copied().take(3)));
        encoder.write_all(&line)?;
    }
    chunk(&mut png, b"IDAT", &encoder.finish()?)?;
    chunk(&mut png, b"IEND", &[])?;
    Ok(png)
}

/// Numbers of a PNG have the high byte first.
fn bytes(value: u32) -> [u8; 4] {
    let mut bytes = value.to_le_bytes();
    bytes.reverse();
    bytes
}

fn chunk(png: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) -> Result<(), AnalysisError> {
    let mut crc = Crc::new();
    crc.update(kind);
    crc.update(data);
    png.extend(bytes(u32::try_from(data.len())?));
    png.extend(kind);
    png.extend(data);
    png.extend(bytes(crc.sum()));
    Ok(())
}
