//! The plot `simulation_based_calibration`: how far shares of mass below the truth are from uniform.
//!
//! A histogram of ranks hides what its bins are too wide for. The difference of distributions has no bins, and its band holds
//! the whole curve of a calibrated posterior with a probability that is known.

use plotters::style::Color;
use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration, Needs, Sources};
use waycairn_gaussian::EcdfDifference;
use waycairn_gaussian::metrics::Calibration;

use super::axis::Axis;
use super::figure::{Figure, Figures, Format, Key, emit};
use super::input::{BAND, DPI, dpi, fits, plot_sources, said, setting};
use super::layers::{BLUE, GREY, Stroke, VERMILION, area, between, horizontal, line};
use super::words::{counted, file_name, short, spoken};

const SOURCES: Sources = plot_sources!(["src/plots/calibration.rs"], [CALIBRATION, METRICS]);

/// Draws a curve for each parameter.
#[derive(Debug, Default)]
pub struct SimulationBasedCalibrationPlot;

impl Analysis for SimulationBasedCalibrationPlot {
    fn declare() -> Declaration {
        let what = "the distribution of the truth's rank in its posterior less the uniform one, with a band for all of it";
        Declaration::new("simulation_based_calibration", env!("CARGO_PKG_VERSION"), what)
            .plot()
            .needs(Needs::default().product("calibration_scores").study(BAND).study(DPI))
            .sources(SOURCES)
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let scores = context.product("calibration_scores")?;
        let parameters: Vec<String> = said(&scores, "calibration_scores", "parameters")?;
        let (learned, exact) = (scores.array::<f64>("rank_share")?, scores.array::<f64>("exact_rank_share")?);
        emit(context, &draw(&parameters, learned, exact, setting(context, BAND)?)?, dpi(context)?)
    }
}

/// Shares \[cases, p\] of mass below the truth, of the learned posterior and of the exact one.
pub(crate) fn draw(
    parameters: &[String],
    learned: &[f64],
    exact: &[f64],
    probability: f64,
) -> Result<Figures, AnalysisError> {
    fits("the exact shares of mass below truths", exact.len(), learned.len())?;
    let p = parameters.len();
    let (_, learned_curves) = Calibration::new(learned, p, probability)?;
    let (_, exact_curves) = Calibration::new(exact, p, probability)?;
    let cases = learned.len() / p.max(1);
    let each = parameters.iter().zip(learned_curves.iter().zip(&exact_curves));
    let figure = |(name, (learned, exact)): (&String, (&EcdfDifference, &EcdfDifference))| {
        Ok((format!("ecdf-{}", file_name(name)), one(name, learned, exact, cases)?))
    };
    each.map(figure).collect()
}

fn one(
    name: &str,
    learned: &EcdfDifference,
    exact: &EcdfDifference,
    cases: usize,
) -> Result<String, AnalysisError> {
    // All curves begin and end at 0.
    let closed = |values: &[f64]| [&[0.0], values, &[0.0]].concat();
    let at = [&[0.0], &learned.at[..], &[1.0]].concat();
    let (lower, upper) = (closed(&learned.lower), closed(&learned.upper));
    let (learned_curve, exact_curve) = (closed(&learned.difference), closed(&exact.difference));
    let all = [&learned_curve, &exact_curve, &lower, &upper].into_iter().flatten();
    let largest = all.fold(0.0_f64, |most, value| most.max(value.abs()));
    let x = Axis::new(format!("share of mass below the true {}", spoken(name)), 0.0, 1.0);
    let y = Axis::new("share of cases minus uniform", -largest * 1.08, largest * 1.08);
    let mut figure = Figure::new(Format::Wide, x, y);
    figure.note = verdict(cases, learned);
    let band = GREY.mix(0.25);
    let [learned_stroke, exact_stroke] = strokes();
    figure.key("learned posterior", Key::Line(learned_stroke));
    figure.key("exact posterior", Key::Line(exact_stroke));
    figure.key(band_label(learned), Key::Area(band));
    figure.draw(|chart| {
        area(chart, between(&at, &lower, &upper), band)?;
        horizontal(chart, 0.0, Stroke::ideal(GREY))?;
        line(chart, at.iter().copied().zip(exact_curve).collect(), exact_stroke)?;
        line(chart, at.iter().copied().zip(learned_curve).collect(), learned_stroke)
    })
}

/// Of the curves of the learned posterior and of the exact one.
pub(crate) fn strokes() -> [Stroke; 2] {
    [Stroke::new(BLUE, 1.6), Stroke::new(VERMILION, 1.2).dashed()]
}

/// What a curve says, in words.
pub(crate) fn verdict(cases: usize, learned: &EcdfDifference) -> String {
    let verdict = if learned.inside { "stays inside of" } else { "leaves" };
    format!("{}; the learned curve {verdict} the band", counted(cases, "case"))
}

pub(crate) fn band_label(curve: &EcdfDifference) -> String {
    format!("holds an ideal curve with probability {}", short(curve.probability))
}
