//! The PNG of an SVG: `usvg` reads it and sets its texts, `tiny-skia` draws what that leaves, which is paths.

use std::io::Write;
use std::sync::{Arc, LazyLock};

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use tiny_skia::{Color, FillRule, Paint, Pixmap, Transform};
use usvg::fontdb::Database;
use usvg::{Group, Node, Opacity, Options, Path, Tree};
use waycairn_analysis_api::AnalysisError;

/// The most pixels of a figure: 4 bytes each while it is drawn.
const MOST_PIXELS: f64 = 1e8;

/// DejaVu Sans, whose licence lets it be embedded, and no font of the machine: so figures look the same on all of them.
static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    Arc::new(fonts)
});

/// An SVG as paths, in points.
pub(crate) fn tree(svg: &str) -> Result<Tree, AnalysisError> {
    Ok(Tree::from_str(svg, &Options { fontdb: Arc::clone(&FONTS), dpi: 72.0, ..Options::default() })?)
}

/// The bitmap of a figure, which says its resolution.
pub(crate) fn png(svg: &str, dpi: u64) -> Result<Vec<u8>, AnalysisError> {
    let tree = tree(svg)?;
    let pixels = |points: f32| (f64::from(points) / 72.0 * dpi as f64).round().max(1.0);
    let (width, height) = (pixels(tree.size().width()), pixels(tree.size().height()));
    if width * height > MOST_PIXELS {
        return Err(AnalysisError::new(format!(
            "a figure of {width} x {height} pixels is more than memory should hold; lower `plotting.dpi`, which is {dpi}"
        )));
    }
    let mut pixmap = Pixmap::new(width as u32, height as u32)
        .ok_or_else(|| AnalysisError::new(format!("no bitmap of {width} x {height} pixels can be made")))?;
    pixmap.fill(Color::WHITE);
    let scale = (dpi as f64 / 72.0) as f32;
    group(&mut pixmap, tree.root(), Transform::from_scale(scale, scale), 1.0);
    encode(&pixmap, dpi)
}

/// Draws what a group holds. No group of `plotters` has more than one path that is not opaque, so its opacity is that of its
/// paths.
fn group(pixmap: &mut Pixmap, of: &Group, outer: Transform, opacity: f32) {
    let place = outer.pre_concat(of.transform());
    let opacity = opacity * of.opacity().get();
    for node in of.children() {
        match node {
            Node::Group(inner) => group(pixmap, inner, place, opacity),
            Node::Text(text) => group(pixmap, text.flattened(), place, opacity),
            Node::Path(shape) => path(pixmap, shape, place, opacity),
            // No figure has one.
            Node::Image(_) => {}
        }
    }
}

fn path(pixmap: &mut Pixmap, path: &Path, place: Transform, opacity: f32) {
    if let Some(fill) = path.fill() {
        pixmap.fill_path(
            path.data(),
            &paint(fill.paint(), opacity * fill.opacity().get()),
            FillRule::Winding,
            place,
            None,
        );
    }
    if let Some(stroke) = path.stroke() {
        let paint = paint(stroke.paint(), opacity * stroke.opacity().get());
        pixmap.stroke_path(path.data(), &paint, &stroke.to_tiny_skia(), place, None);
    }
}

fn paint(of: &usvg::Paint, opacity: f32) -> Paint<'static> {
    let mut paint = Paint::default();
    // Figures have colours, and no gradient or pattern.
    if let usvg::Paint::Color(color) = of {
        paint.set_color_rgba8(color.red, color.green, color.blue, Opacity::new_clamped(opacity).to_u8());
    }
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
