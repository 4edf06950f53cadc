//! The plot `inference`: estimates against truths, and what candidates are worth in some cases.

use plotters::style::Color;
use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration, Needs, Sources};
use waycairn_gaussian::{normalized_mass, retained_cases};

use super::axis::{Axis, range};
use super::figure::{Figure, Figures, Format, Key, emit};
use super::histogram::Bins;
use super::input::{BINS, DPI, amount, dpi, finite, fits, lengths, plot_sources, said, whole};
use super::layers::{
    BLACK, BLUE, GREEN, GREY, Stroke, VERMILION, area, cells, cross, diagonal, dots, line, steps, vertical,
};
use super::words::{file_name, short, spoken};

const SOURCES: Sources = plot_sources!(["src/plots/inference.rs"], [DENSITY]);

const MOST_CASES: &str = "analysis.plotting.max_inference_cases";
/// Where all cases are retained, no more than these are drawn one by one.
const DIAGNOSTIC: &str = "analysis.inference.diagnostic_cases";

/// Draws estimates, marginals and projections.
#[derive(Debug, Default)]
pub struct InferencePlot;

impl Analysis for InferencePlot {
    fn declare() -> Declaration {
        let what = "estimates against truths; for cases that are kept, the mass of candidates on each axis and pair of axes";
        let needs = Needs::default().product("inference").product("observations").product("candidates");
        Declaration::new("inference", env!("CARGO_PKG_VERSION"), what)
            .plot()
            .needs(needs.study(DPI).study(BINS).study(MOST_CASES).study(DIAGNOSTIC))
            .sources(SOURCES)
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let inference = context.product("inference")?;
        let candidates = context.product("candidates")?;
        let parameters: Vec<String> = said(&inference, "inference", "parameters")?;
        let levels: Vec<f64> = said(&inference, "inference", "levels")?;
        let targets: Vec<String> = said(&inference, "inference", "targets")?;
        if !targets.iter().any(|target| target == "ratio") {
            return Err(AnalysisError::new(
                "estimates are those of the ratio, which is no target; add `ratio` to `inference.targets`",
            ));
        }
        let truth = context.product("observations")?.array::<f32>("truth")?;
        let estimates = Estimates {
            parameters: &parameters,
            levels: &levels,
            truth,
            mode: inference.array::<f64>("ratio_mode")?,
            lower: inference.array::<f64>("ratio_lower")?,
            upper: inference.array::<f64>("ratio_upper")?,
        };
        let mut figures = estimates.draw(amount(context, MOST_CASES)?)?;

        let cases = whole(&inference, "retained_cases")?;
        let theta = candidates.array::<f32>("theta")?;
        let [count, _] = lengths(&candidates, "theta")?;
        let bins = amount(context, BINS)?;
        for row in retained_cases(cases.len(), amount(context, DIAGNOSTIC)?) {
            let case = cases[row];
            let mut scores = Vec::new();
            for target in &targets {
                let all = inference.array::<f64>(&format!("{target}_log_score"))?;
                let of_case = all.get(row * count..(row + 1) * count).ok_or_else(|| {
                    AnalysisError::new(format!(
                        "`{target}_log_score` has no row {row}, which `retained_cases` names"
                    ))
                })?;
                scores.push((target.as_str(), of_case));
            }
            let retained = Retained {
                case,
                parameters: &parameters,
                theta,
                log_measure: candidates.array::<f64>("log_measure")?,
                scores: &scores,
                truth: truth.get(case * parameters.len()..(case + 1) * parameters.len()).ok_or_else(
                    || {
                        AnalysisError::new(format!(
                            "`retained_cases` names case {case}, of which there is no truth"
                        ))
                    },
                )?,
            };
            figures.extend(retained.draw(bins)?);
        }
        emit(context, &figures, dpi(context)?)
    }
}

/// Estimates of N cases and p parameters, with the bounds of sets at L levels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimates<'a> {
    pub(crate) parameters: &'a [String],
    pub(crate) levels: &'a [f64],
    /// \[N, p\].
    pub(crate) truth: &'a [f32],
    /// \[N, p\].
    pub(crate) mode: &'a [f64],
    /// \[N, L, p\].
    pub(crate) lower: &'a [f64],
    /// \[N, L, p\].
    pub(crate) upper: &'a [f64],
}

impl Estimates<'_> {
    /// For each parameter, at most `most` of the cases, evenly chosen.
    pub(crate) fn draw(&self, most: usize) -> Result<Figures, AnalysisError> {
        let (p, many) = (self.parameters.len(), self.levels.len());
        let cases = self.truth.len() / p.max(1);
        if cases == 0 {
            return Err(AnalysisError::new("there is no case, and so no estimate to draw"));
        }
        fits("`truth`", self.truth.len(), cases * p)?;
        fits("`ratio_mode`", self.mode.len(), cases * p)?;
        fits("`ratio_lower`", self.lower.len(), cases * p * many)?;
        fits("`ratio_upper`", self.upper.len(), cases * p * many)?;
        let mut chosen = retained_cases(cases, most);
        // By truth: the same figure whatever the order of cases.
        let mut figures = Figures::new();
        for (column, name) in self.parameters.iter().enumerate() {
            let truth = |case: usize| f64::from(self.truth[case * p + column]);
            chosen.sort_by(|a, b| truth(*a).total_cmp(&truth(*b)).then(a.cmp(b)));
            let places = apart(&chosen.iter().map(|case| truth(*case)).collect::<Vec<_>>());
            figures.push((
                format!("estimates-{}", file_name(name)),
                self.figure(column, &chosen, &places, cases)?,
            ));
        }
        Ok(figures)
    }

    fn figure(
        &self,
        column: usize,
        chosen: &[usize],
        places: &[f64],
        cases: usize,
    ) -> Result<String, AnalysisError> {
        let (p, many) = (self.parameters.len(), self.levels.len());
        let mode = |case: usize| self.mode[case * p + column];
        let bound = |of: &[f64], case: usize, level: usize| of[(case * many + level) * p + column];
        let bounds = chosen.iter().flat_map(|case| {
            (0..many).flat_map(|level| [bound(self.lower, *case, level), bound(self.upper, *case, level)])
        });
        let all =
            || places.iter().copied().chain(chosen.iter().map(|case| mode(*case))).chain(bounds.clone());
        let name = &self.parameters[column];
        finite(&format!("the estimates of `{name}`"), all())?;
        let spoken = spoken(name);
        // Both axes have one range, so that the diagonal is one.
        let x = Axis::holding(format!("true {spoken}"), all());
        let y = Axis::holding(format!("estimated {spoken} (mode)"), all());
        let mut figure = Figure::new(Format::Square, x, y);
        if chosen.len() < cases {
            figure.note = format!("{} of {cases} cases, evenly chosen", chosen.len());
        }
        // The widest sets lie behind the others, thinner and fainter.
        let mut order: Vec<usize> = (0..many).collect();
        order.sort_by(|a, b| self.levels[*b].total_cmp(&self.levels[*a]));
        // Many are thinner, and let each other through.
        let crowd = (60.0 / chosen.len() as f64).sqrt().clamp(0.45, 1.0);
        let through = (250.0 / chosen.len() as f64).sqrt().clamp(0.15, 1.0);
        let stroke = |rank: usize, opacity: f64| {
            let inner = if many == 1 { 1.0 } else { rank as f64 / (many - 1) as f64 };
            Stroke::new(BLUE.mix(opacity * (0.5 + 0.3 * inner)), (1.0 + 1.6 * inner) * crowd)
        };
        figure.key("mode", Key::Dot(VERMILION));
        for (rank, level) in order.iter().enumerate().rev() {
            figure.key(format!("{} % set", short(self.levels[*level] * 100.0)), Key::Line(stroke(rank, 1.0)));
        }
        figure.key("estimate = truth", Key::Line(Stroke::ideal(BLACK)));
        figure.draw(|chart| {
            for (rank, level) in order.iter().enumerate() {
                for (case, place) in chosen.iter().zip(places) {
                    let ends = [self.lower, self.upper].map(|of| (*place, bound(of, *case, *level)));
                    line(chart, ends.to_vec(), stroke(rank, through))?;
                }
            }
            diagonal(chart, Stroke::ideal(BLACK))?;
            let modes = chosen.iter().zip(places).map(|(case, place)| (*place, mode(*case))).collect();
            dots(chart, modes, 1.0 + 1.2 * crowd, VERMILION.mix(0.85 * through))
        })
    }
}

/// Places for values that rise: those of equal values beside each other, where there is room to the next value, so that none
/// hides another.
fn apart(values: &[f64]) -> Vec<f64> {
    let Some((low, high)) = range(values.iter().copied()) else { return values.to_vec() };
    let groups: Vec<&[f64]> = values.chunk_by(|a, b| a == b).collect();
    let gaps = groups.windows(2).map(|pair| pair[1][0] - pair[0][0]);
    let gap = gaps.fold(f64::INFINITY, f64::min).min(if low < high { (high - low) / 8.0 } else { 0.2 });
    let most = groups.iter().map(|group| group.len()).max().unwrap_or(1);
    if most < 2 {
        return values.to_vec();
    }
    let step = gap * 0.6 / (most - 1) as f64;
    groups
        .into_iter()
        .flat_map(|group| {
            let middle = (group.len() - 1) as f64 / 2.0;
            group.iter().enumerate().map(move |(index, value)| value + (index as f64 - middle) * step)
        })
        .collect()
}

/// One case whose scores are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retained<'a> {
    pub(crate) case: usize,
    pub(crate) parameters: &'a [String],
    /// \[K, p\].
    pub(crate) theta: &'a [f32],
    /// \[K\].
    pub(crate) log_measure: &'a [f64],
    /// Targets, each with its scores \[K\].
    pub(crate) scores: &'a [(&'a str, &'a [f64])],
    /// \[p\].
    pub(crate) truth: &'a [f32],
}

/// Mass at both ends of an axis that a figure leaves out: a thousandth each.
const TAIL: f64 = 1e-3;

impl Retained<'_> {
    pub(crate) fn draw(&self, bins: usize) -> Result<Figures, AnalysisError> {
        let p = self.parameters.len();
        fits("`theta`", self.theta.len(), self.log_measure.len() * p)?;
        fits("the truth of a case", self.truth.len(), p)?;
        finite("`theta`", self.theta.iter().copied().map(f64::from))?;
        finite("the truth of a case", self.truth.iter().copied().map(f64::from))?;
        let masses = self.scores.iter().map(|(target, scores)| {
            let mass = normalized_mass(scores, self.log_measure).map_err(|error| {
                AnalysisError::new(format!("case {}, target `{target}`: {error}", self.case))
            })?;
            Ok((*target, mass.mass))
        });
        let masses: Vec<(&str, Vec<f64>)> = masses.collect::<Result<_, AnalysisError>>()?;
        let columns: Vec<Vec<f64>> = (0..p)
            .map(|column| self.theta.iter().skip(column).step_by(p).copied().map(f64::from).collect())
            .collect();
        let mut figures = Figures::new();
        for (column, name) in self.parameters.iter().enumerate() {
            let figure = self.marginal(column, &columns[column], &masses, bins)?;
            figures.push((format!("marginal-{}-{}", self.case, file_name(name)), figure));
        }
        let ratio = masses.iter().find(|(target, _)| *target == "ratio");
        if let Some((_, ratio)) = ratio {
            for row in 1..p {
                for column in 0..row {
                    let figure =
                        self.projection([column, row], [&columns[column], &columns[row]], ratio, bins)?;
                    figures.push((format!("projection-{}-{column}-{row}", self.case), figure));
                }
            }
        }
        Ok(figures)
    }

    fn truth(&self, column: usize) -> f64 {
        f64::from(self.truth[column])
    }

    /// The part of an axis where there is mass, and the truth.
    fn part(&self, column: usize, values: &[f64], masses: &[&[f64]]) -> (f64, f64) {
        let truth = self.truth(column);
        let ends = masses.iter().map(|mass| central(values, mass));
        let (low, high) = ends.fold((truth, truth), |(low, high), (from, to)| (low.min(from), high.max(to)));
        let air = (high - low) * 0.05;
        (low - air, high + air)
    }

    fn marginal(
        &self,
        column: usize,
        values: &[f64],
        masses: &[(&str, Vec<f64>)],
        bins: usize,
    ) -> Result<String, AnalysisError> {
        let all: Vec<&[f64]> = masses.iter().map(|(_, mass)| mass.as_slice()).collect();
        let bins = bins_of(&near(values, self.part(column, values, &all)), bins)?;
        let heights: Vec<Vec<f64>> =
            all.iter().map(|mass| bins.heights(values.iter().copied().zip(mass.iter().copied()))).collect();
        let truth = self.truth(column);
        let air = (bins.high() - bins.low()) * 0.02;
        let x = Axis::new(
            spoken(&self.parameters[column]),
            bins.low().min(truth) - air,
            bins.high().max(truth) + air,
        );
        let label = match bins.lattice() {
            None => "probability mass of a bin",
            Some(false) => "probability of a value",
            Some(true) => "mean probability of a value",
        };
        let mut figure =
            Figure::new(Format::Wide, x, Axis::from_zero(label, heights.iter().flatten().copied()));
        figure.note = format!("case {}", self.case);
        // What is exact lies behind what was learned, and what is dashed before what is not.
        let order = ["exact", "ratio", "posterior"];
        let mut sorted: Vec<usize> = (0..masses.len()).collect();
        sorted.sort_by_key(|index| order.iter().position(|name| *name == masses[*index].0));
        let look = |target: &'_ str| match target {
            "ratio" => ("ratio".to_owned(), Stroke::new(BLUE, 1.6)),
            "posterior" => ("posterior".to_owned(), Stroke::new(VERMILION, 1.3).dashed()),
            "exact" => ("exact likelihood".to_owned(), Stroke::new(GREEN, 1.3)),
            other => (other.to_owned(), Stroke::new(GREY, 1.3).dotted()),
        };
        for index in &sorted {
            let (label, stroke) = look(masses[*index].0);
            figure.key(label, Key::Line(stroke));
        }
        let at_truth = Stroke::new(BLACK, 1.2).dashed();
        figure.key(format!("truth {}", short(truth)), Key::Line(at_truth));
        figure.draw(|chart| {
            vertical(chart, truth, at_truth)?;
            for index in sorted {
                let (target, outline) = (masses[index].0, steps(&bins.edges, &heights[index]));
                if target == "exact" {
                    area(chart, outline.clone(), GREEN.mix(0.2))?;
                }
                line(chart, outline, look(target).1)?;
            }
            Ok(())
        })
    }

    fn projection(
        &self,
        [column, row]: [usize; 2],
        [x, y]: [&[f64]; 2],
        mass: &[f64],
        bins: usize,
    ) -> Result<String, AnalysisError> {
        let parts = [self.part(column, x, &[mass]), self.part(row, y, &[mass])];
        let in_part = |(low, high): (f64, f64), value: f64| (low..=high).contains(&value);
        let both: Vec<(f64, f64)> = x.iter().copied().zip(y.iter().copied()).collect();
        let close: Vec<&(f64, f64)> =
            both.iter().filter(|(x, y)| in_part(parts[0], *x) && in_part(parts[1], *y)).collect();
        // A lattice has a cell for each of its values; else some candidates are to fall into each cell.
        let (near_x, near_y) = (near(x, parts[0]), near(y, parts[1]));
        let (on_x, on_y) = (lattice(&near_x, bins), lattice(&near_y, bins));
        let each = |values: &[f64], own: Option<usize>, other: Option<usize>| match (own, other) {
            (Some(_), _) => bins_of(values, bins),
            (None, Some(other)) => bins_of(values, bins.min(close.len() / (CANDIDATES * other)).max(1)),
            (None, None) => bins_of(values, bins.min((close.len() / CANDIDATES).isqrt()).max(1)),
        };
        let (x_bins, y_bins) = (each(&near_x, on_x, on_y)?, each(&near_y, on_y, on_x)?);
        let mut values = vec![0.0; x_bins.count() * y_bins.count()];
        for ((x, y), mass) in x.iter().zip(y).zip(mass) {
            if let (Some(i), Some(j)) = (x_bins.index(*x), y_bins.index(*y)) {
                values[i * y_bins.count() + j] += mass;
            }
        }
        let truth = (self.truth(column), self.truth(row));
        let axis = |bins: &Bins, column: usize, truth: f64| {
            Axis::new(spoken(&self.parameters[column]), bins.low().min(truth), bins.high().max(truth))
        };
        let mut figure =
            Figure::new(Format::Square, axis(&x_bins, column, truth.0), axis(&y_bins, row, truth.1));
        figure.note = format!("case {}, mass of the ratio", self.case);
        figure.key(format!("truth ({}, {})", short(truth.0), short(truth.1)), Key::Cross(VERMILION));
        let largest = values.iter().copied().fold(0.0, f64::max);
        figure.shades = Some(Axis::new("probability mass of a cell", 0.0, largest));
        figure.draw(|chart| {
            cells(chart, [&x_bins.edges, &y_bins.edges], &values)?;
            cross(chart, truth, VERMILION)
        })
    }
}

/// How many candidates a cell of a projection is to hold on average.
const CANDIDATES: usize = 8;

/// The values in a part of an axis; all, where none is.
fn near(values: &[f64], (low, high): (f64, f64)) -> Vec<f64> {
    let found: Vec<f64> = values.iter().copied().filter(|value| (low..=high).contains(value)).collect();
    if found.is_empty() { values.to_vec() } else { found }
}

/// How many bins values have that are those of a lattice.
fn lattice(values: &[f64], most: usize) -> Option<usize> {
    let bins = Bins::of(values, usize::MAX).filter(|bins| bins.lattice().is_some())?;
    Some(bins.count().min(most))
}

fn bins_of(values: &[f64], most: usize) -> Result<Bins, AnalysisError> {
    Bins::of(values, most)
        .ok_or_else(|| AnalysisError::new("there are no candidates, so no mass can be drawn"))
}

/// Where the mass begins and ends, but for a little.
fn central(values: &[f64], mass: &[f64]) -> (f64, f64) {
    let mut order: Vec<(f64, f64)> =
        values.iter().copied().zip(mass.iter().copied()).filter(|(_, mass)| *mass > 0.0).collect();
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    // Where the mass passed by is enough.
    let end = |passed: &mut f64, mass: f64| {
        *passed += mass;
        *passed >= TAIL
    };
    let (mut below, mut above) = (0.0, 0.0);
    let low = order.iter().find(|(_, mass)| end(&mut below, *mass));
    let high = order.iter().rev().find(|(_, mass)| end(&mut above, *mass));
    (low.map_or(f64::INFINITY, |(value, _)| *value), high.map_or(f64::NEG_INFINITY, |(value, _)| *value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_truths_stand_beside_each_other_and_others_where_they_are() {
        assert_eq!(apart(&[1.0, 2.0, 4.0]), [1.0, 2.0, 4.0]);
        assert!(apart(&[]).is_empty());
        let places = apart(&[1.0, 1.0, 1.0, 2.0, 9.0]);
        assert!(
            (places[0] - 0.7).abs() < 1e-9 && places[1] == 1.0 && (places[2] - 1.3).abs() < 1e-9,
            "{places:?}"
        );
        assert_eq!(&places[3..], [2.0, 9.0]);
        assert!(apart(&[5.0, 5.0]).iter().all(|place| (place - 5.0).abs() < 0.2));
    }

    #[test]
    fn a_figure_is_of_what_has_mass() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let mass: Vec<f64> = (0..100).map(|i| if (40..60).contains(&i) { 0.05 } else { 0.0 }).collect();
        assert_eq!(central(&values, &mass), (40.0, 59.0));
    }
}
