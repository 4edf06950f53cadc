//! A figure as an SVG, whose texts are texts.

use std::fmt::Write as _;

use waycairn_analysis_api::AnalysisError;

use super::canvas::{Anchor, Canvas, Ink, Point, Shape, Stroke, Text};
use super::font::{FAMILY, Font};

impl Canvas {
    /// The figure as an SVG. Each text says how long it is, so that another font in its place moves nothing.
    pub(crate) fn svg(&self) -> Result<String, AnalysisError> {
        let font = Font::new()?;
        let (width, height) = (number(self.width), number(self.height));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}pt\" height=\"{height}pt\" viewBox=\"0 0 {width} \
             {height}\" font-family=\"{FAMILY}\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
        );
        for shape in &self.shapes {
            write_shape(&mut svg, &font, shape)?;
        }
        svg.push_str("</svg>\n");
        Ok(svg)
    }
}

fn write_shape(svg: &mut String, font: &Font, shape: &Shape) -> Result<(), AnalysisError> {
    match shape {
        Shape::Area { rings, ink, crisp } => {
            svg.push_str("<path d=\"");
            for ring in rings {
                path(svg, ring)?;
                svg.push('z');
            }
            write!(svg, "\"{}", fill(*ink))?;
            svg.push_str(if *crisp { " shape-rendering=\"crispEdges\"/>\n" } else { "/>\n" });
        }
        Shape::Line { points, stroke } => {
            svg.push_str("<path d=\"");
            path(svg, points)?;
            writeln!(svg, "\" fill=\"none\"{}/>", outline(stroke))?;
        }
        Shape::Dots { centres, radius, ink } => {
            writeln!(svg, "<g{}>", fill(*ink))?;
            let radius = number(*radius);
            for (x, y) in centres {
                writeln!(svg, "<circle cx=\"{}\" cy=\"{}\" r=\"{radius}\"/>", number(*x), number(*y))?;
            }
            svg.push_str("</g>\n");
        }
        Shape::Text(text) => write_text(svg, font, text)?,
    }
    Ok(())
}

fn path(svg: &mut String, points: &[Point]) -> Result<(), AnalysisError> {
    for (index, (x, y)) in points.iter().enumerate() {
        let letter = if index == 0 { 'M' } else { 'L' };
        write!(svg, "{letter}{} {}", number(*x), number(*y))?;
    }
    Ok(())
}

fn write_text(svg: &mut String, font: &Font, text: &Text) -> Result<(), AnalysisError> {
    let (x, y) = (number(text.at.0), number(text.at.1));
    let anchor = match text.anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    let turned = if text.upwards { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
    let length = number(font.width(&text.text, text.size));
    writeln!(
        svg,
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\" text-anchor=\"{anchor}\" textLength=\"{length}\" \
         lengthAdjust=\"spacingAndGlyphs\"{}{turned}>{}</text>",
        number(text.size),
        fill(text.ink),
        escaped(&text.text)
    )?;
    Ok(())
}

fn fill(ink: Ink) -> String {
    format!(" fill=\"{}\"{}", color(ink), opacity("fill-opacity", ink))
}

fn outline(stroke: &Stroke) -> String {
    let ink = stroke.ink;
    let dash: Vec<String> = stroke.dash.iter().map(|length| number(*length)).collect();
    let dash =
        if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{}\"", dash.join(" ")) };
    format!(
        " stroke=\"{}\"{} stroke-width=\"{}\" stroke-linejoin=\"round\"{dash}",
        color(ink),
        opacity("stroke-opacity", ink),
        number(stroke.width)
    )
}

fn color(ink: Ink) -> String {
    let [red, green, blue] = ink.color;
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn opacity(name: &str, ink: Ink) -> String {
    if ink.opacity < 1.0 { format!(" {name}=\"{}\"", number(ink.opacity)) } else { String::new() }
}

/// Hundredths of a point are enough.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_texts_are_escaped() {
        assert_eq!([1.0, -0.001, 2.345, 0.5].map(number), ["1", "0", "2.35", "0.5"]);
        assert_eq!(escaped("a < b & c"), "a &lt; b &amp; c");
    }
}
