//! The plot `prior`: what samples of the prior look like.

use plotters::style::Color;
use waycairn_analysis_api::serde_json::Value;
use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration, Needs, Sources, Study, stream};
use waycairn_gaussian::{Prior, Problem};

use crate::study::Posed;

use super::axis::Axis;
use super::figure::{Figure, Figures, Format, Key, emit};
use super::histogram::Bins;
use super::input::{BINS, DPI, amount, dpi, plot_sources, setting};
use super::layers::{BLUE, Stroke, VERMILION, area, dots, line, steps};
use super::words::{counted, file_name, spoken};

const SOURCES: Sources = plot_sources!(["src/plots/prior.rs", "src/study.rs"], [PRIOR, PROBLEM]);

const POINTS: &str = "analysis.plotting.prior_points";

/// Draws the density of samples of the prior, for each parameter, beside the exact one.
#[derive(Debug, Default)]
pub struct PriorPlot;

impl Analysis for PriorPlot {
    fn declare() -> Declaration {
        let what = "samples of the prior of each parameter, beside its exact density";
        let training =
            ["problem", "parameters", "prior", "priors", "seed"].map(|name| format!("training.{name}"));
        let needs = training.into_iter().fold(Needs::default(), Needs::study);
        Declaration::new("prior", env!("CARGO_PKG_VERSION"), what)
            .plot()
            .needs(needs.study(DPI).study(BINS).study(POINTS))
            .sources(SOURCES)
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let training: &Value = context.study().get("training").unwrap_or(&Value::Null);
        let study = Study::new(training, &Value::Null, "");
        let posed = Posed::read(&study)?;
        let (problem, prior) = (&posed.problem, posed.prior(&study)?);
        // As training pairs are: priors have streams of their own, and replicas differ in their seeds.
        let (seed, name): (u64, String) =
            (setting(context, "training.seed")?, setting(context, "training.prior")?);
        let mut rng = stream(seed, "prior-plot", Some(&name));
        let samples = prior.sample(amount(context, POINTS)?, &mut rng)?;
        emit(context, &draw(problem, &prior, &samples, amount(context, BINS)?)?, dpi(context)?)
    }
}

/// Points of the curve of an exact density.
const CURVE: usize = 201;

pub(crate) fn draw(
    problem: &Problem,
    prior: &Prior,
    samples: &[f32],
    bins: usize,
) -> Result<Figures, AnalysisError> {
    let parameters = problem.parameters();
    let lattices = prior.lattices();
    let mut figures = Figures::new();
    for (column, (parameter, lattice)) in parameters.iter().zip(&lattices).enumerate() {
        let values: Vec<f64> =
            samples.iter().skip(column).step_by(parameters.len()).copied().map(f64::from).collect();
        if values.is_empty() {
            return Err(AnalysisError::new("there is no sample of the prior; raise `plotting.prior_points`"));
        }
        let exact = prior.marginal(column)?;
        let density = |at: f64| -> Result<f64, AnalysisError> { Ok(libm::exp(exact.log_density(&[at])?)) };
        let (low, high) = (parameter.low, parameter.high);
        let points: Vec<f64> = match lattice {
            Some(lattice) => lattice.points(),
            None => (0..CURVE).map(|index| low + (high - low) * index as f64 / (CURVE - 1) as f64).collect(),
        };
        let curve =
            points.iter().map(|at| Ok((*at, density(*at)?))).collect::<Result<Vec<_>, AnalysisError>>()?;
        let bins = match lattice {
            // A bin for each point, or for as many of them.
            Some(_) => Bins::of(&points, bins).unwrap_or_else(|| Bins::even(low, high, bins)),
            None => Bins::even(low, high, bins),
        };
        let weight = 1.0 / values.len() as f64;
        let sampled = values.iter().map(|value| (*value, weight));
        let (label, heights) = match bins.lattice() {
            None => ("probability density", bins.densities(sampled)),
            Some(false) => ("probability of a value", bins.heights(sampled)),
            Some(true) => ("mean probability of a value", bins.heights(sampled)),
        };
        let all = heights.iter().copied().chain(curve.iter().map(|(_, density)| *density));
        let name = parameter.name.to_string();
        let air = (bins.high() - bins.low()) * 0.02;
        let x = Axis::new(spoken(&name), bins.low() - air, bins.high() + air);
        let mut figure = Figure::new(Format::Wide, x, Axis::from_zero(label, all));
        let (sampled, exact) = (Stroke::new(BLUE, 1.1), Stroke::new(VERMILION, 1.4));
        figure.key(counted(values.len(), "sample"), Key::Line(sampled));
        figure.key("exact", if lattice.is_some() { Key::Dot(VERMILION) } else { Key::Line(exact) });
        let svg = figure.draw(|chart| {
            let outline = steps(&bins.edges, &heights);
            area(chart, outline.clone(), BLUE.mix(0.2))?;
            line(chart, outline, sampled)?;
            match lattice {
                Some(_) => dots(chart, curve, 1.8, VERMILION),
                None => line(chart, curve, exact),
            }
        })?;
        figures.push((file_name(&name), svg));
    }
    Ok(figures)
}
