//! The metrics `calibration` and `expected_coverage`: whether posteriors are as wide as they say, over draws of the prior.

use serde::Serialize;

use crate::calibration::EcdfDifference;
use crate::error::GaussianError;
use crate::tarp::expected_coverage;

/// Simulation-based calibration: for each parameter the shares of mass below the truth against the uniform distribution.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// How many cases there are.
    pub cases: usize,
    /// The probability with which uniform shares stay inside of the band, of each parameter by itself.
    pub band_probability: f64,
    /// For each parameter, whether its curve stays inside.
    pub inside: Vec<bool>,
    /// For each parameter, the largest size of the difference of distributions, over all of \[0, 1\].
    pub largest_difference: Vec<f64>,
    /// For each parameter the difference there, with its sign: above 0 where posteriors lie too high.
    pub signed_difference: Vec<f64>,
    /// What this says.
    pub interpretation: String,
}

const CALIBRATION: &str = "shares of the posterior's mass below truths that are drawn from the prior: uniform for every \
posterior that is right on average over the prior, also for the prior itself. A difference above 0 everywhere means \
posteriors above the truth, an S through 0 means ones that are too narrow (above 0, then below) or too wide.";

impl Calibration {
    /// Measures shares \[cases, parameters\] (see [`rank_share`](crate::rank_share)); the curves are returned beside it, for a
    /// plot.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] where lengths do not fit, and as [`EcdfDifference::new`].
    pub fn new(
        shares: &[f64],
        parameters: usize,
        probability: f64,
    ) -> Result<(Self, Vec<EcdfDifference>), GaussianError> {
        let cases = shares.len() / parameters.max(1);
        GaussianError::length("shares", shares.len(), cases * parameters)?;
        let of = |parameter: usize| {
            let column: Vec<f64> = shares.iter().skip(parameter).step_by(parameters).copied().collect();
            EcdfDifference::new(&column, probability)
        };
        let curves = (0..parameters).map(of).collect::<Result<Vec<_>, _>>()?;
        let signed_difference: Vec<f64> = curves.iter().map(|curve| curve.largest).collect();
        let metric = Self {
            cases,
            band_probability: curves.first().map_or(probability, |curve| curve.probability),
            inside: curves.iter().map(|curve| curve.inside).collect(),
            largest_difference: signed_difference.iter().map(|difference| difference.abs()).collect(),
            signed_difference,
            interpretation: CALIBRATION.to_owned(),
        };
        Ok((metric, curves))
    }
}

/// Expected coverage by distances to random points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExpectedCoverage {
    /// Credibility levels.
    pub levels: Vec<f64>,
    /// For each, the share of cases whose truth lies inside of the region of that mass around a reference point.
    pub coverage: Vec<f64>,
    /// How many cases there are.
    pub cases: usize,
    /// The probability with which an accurate posterior stays inside of the band.
    pub band_probability: f64,
    /// Whether the curve of all levels stays inside of it.
    pub inside: bool,
    /// What this says.
    pub interpretation: String,
}

const COVERAGE: &str = "for truths that are drawn from the prior and reference points that are drawn without looking at the \
observations: coverage above the level means regions that are too wide, below it ones that are too narrow; a bias bends the \
curve too. With reference points of one distribution it is necessary for an accurate posterior and not sufficient.";

impl ExpectedCoverage {
    /// Measures masses nearer to a reference point than the truth \[cases\] (see [`nearer_mass`](crate::nearer_mass)); the curve
    /// is returned beside it, for a plot.
    ///
    /// # Errors
    ///
    /// As [`EcdfDifference::new`].
    pub fn new(
        nearer: &[f64],
        levels: &[f64],
        probability: f64,
    ) -> Result<(Self, EcdfDifference), GaussianError> {
        let curve = EcdfDifference::new(nearer, probability)?;
        let metric = Self {
            levels: levels.to_vec(),
            coverage: expected_coverage(nearer, levels),
            cases: nearer.len(),
            band_probability: curve.probability,
            inside: curve.inside,
            interpretation: COVERAGE.to_owned(),
        };
        Ok((metric, curve))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_parameter_has_its_curve() {
        // The first is uniform, the second has posteriors that lie too high: little mass below the truth.
        let shares: Vec<f64> = (0..500)
            .flat_map(|i| {
                let u = (f64::from(i) + 0.5) / 500.0;
                [u, u * u]
            })
            .collect();
        let (metric, curves) = Calibration::new(&shares, 2, 0.95).unwrap();
        assert_eq!((metric.cases, &metric.inside[..], curves.len()), (500, &[true, false][..], 2));
        assert!(metric.largest_difference[0] < 0.01);
        // The largest distance of sqrt(u) from u is 1/4, at u = 1/4; half a step more at the jump there.
        assert!((metric.signed_difference[1] - 0.251).abs() < 1e-5, "{:?}", metric.signed_difference);
        assert!(Calibration::new(&shares[..999], 2, 0.95).is_err());
        assert!(Calibration::new(&[], 1, 0.95).is_err());
    }

    #[test]
    fn coverage_is_that_of_the_levels() {
        let narrow: Vec<f64> =
            (0..500).map(|i| if i % 2 == 0 { 0.99 } else { f64::from(i) / 500.0 }).collect();
        let (metric, curve) = ExpectedCoverage::new(&narrow, &[0.5, 1.0], 0.95).unwrap();
        assert_eq!((metric.coverage, metric.inside), (vec![0.25, 1.0], false));
        assert_eq!(curve.inside, metric.inside);
    }
}
