//! Figures over a cohort: a metric of several priors beside each other.

use waycairn_analysis_api::AnalysisError;

use super::axis::Axis;
use super::bitmap::png;
use super::figure::{Figure, Format, Key};
use super::input::fits;
use super::layers::{GREY, PALETTE, Stroke, bars, dots, horizontal};

/// One value for each member of a cohort.
#[derive(Clone, Debug)]
pub struct CohortSeries<'a> {
    /// What it is, for the legend: `95 % level`, for one.
    pub label: &'a str,
    /// For each member; nothing where the metric is undefined.
    pub values: &'a [Option<f64>],
    /// The length of the error bar to each side, where there is one.
    pub errors: &'a [Option<f64>],
    /// What the value would be ideally.
    pub ideal: Option<f64>,
}

/// A figure of one or several fields of a metric, of each member of a cohort: its PNG and its SVG.
///
/// # Errors
/// No member, series of another length, or no value that is finite.
pub fn cohort_figure(
    members: &[String],
    label: &str,
    series: &[CohortSeries<'_>],
    dpi: u64,
) -> Result<(Vec<u8>, String), AnalysisError> {
    let svg = draw(members, label, series)?;
    Ok((png(&svg, dpi)?, svg))
}

pub(crate) fn draw(
    members: &[String],
    label: &str,
    series: &[CohortSeries<'_>],
) -> Result<String, AnalysisError> {
    for one in series {
        fits(&format!("series `{}`", one.label), one.values.len(), members.len())?;
        fits(&format!("the errors of series `{}`", one.label), one.errors.len(), members.len())?;
    }
    let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
    let ends = |one: &CohortSeries<'_>| -> Vec<(usize, f64, f64)> {
        let each = one.values.iter().zip(one.errors).enumerate();
        each.filter_map(|(member, (value, error))| {
            Some((member, finite(*value)?, finite(*error).unwrap_or(0.0)))
        })
        .collect()
    };
    let all: Vec<f64> = series
        .iter()
        .flat_map(|one| ends(one).into_iter().flat_map(|(_, value, error)| [value - error, value + error]))
        .collect();
    if all.is_empty() {
        return Err(AnalysisError::new(format!(
            "no member of the cohort has a finite value of {label}, so there is nothing to draw"
        )));
    }
    let ideals = series.iter().filter_map(|one| finite(one.ideal));
    let y = Axis::holding(label, all.into_iter().chain(ideals));
    let mut figure = Figure::new(Format::Wide, Axis::names("prior", members.to_vec()), y);
    // Series side by side, over 0.4 of the place of a member.
    let offset = |index: usize| match series.len() {
        0 | 1 => 0.0,
        many => 0.4 * (index as f64 / (many - 1) as f64 - 0.5),
    };
    let color = |index: usize| PALETTE[index % PALETTE.len()];
    for (index, one) in series.iter().enumerate() {
        let any_error = ends(one).iter().any(|(_, _, error)| *error > 0.0);
        let key = if any_error { Key::Beads(Stroke::new(color(index), 1.4)) } else { Key::Dot(color(index)) };
        figure.key(one.label, key);
    }
    if series.iter().any(|one| finite(one.ideal).is_some()) {
        figure.key("ideal", Key::Line(Stroke::ideal(GREY)));
    }
    figure.draw(|chart| {
        for (index, one) in series.iter().enumerate() {
            if let Some(ideal) = finite(one.ideal) {
                horizontal(chart, ideal, Stroke::ideal(if series.len() == 1 { GREY } else { color(index) }))?;
            }
            let places = ends(one);
            let place = |(member, value, _): &(usize, f64, f64)| (*member as f64 + offset(index), *value);
            let with_error = places.iter().filter(|(_, _, error)| *error > 0.0);
            let spans = with_error.map(|at| (place(at).0, [at.1 - at.2, at.1, at.1 + at.2])).collect();
            bars(chart, spans, 5.0, Stroke::new(color(index), 1.4))?;
            dots(chart, places.iter().map(place).collect(), 2.8, color(index))?;
        }
        Ok(())
    })
}
