//! Training data: pairs of the joint distribution against pairs whose halves do not belong together.

use rand_core::Rng;

use crate::error::GaussianError;
use crate::prior::Prior;
use crate::problem::Problem;
use crate::random::permutation;

/// One split.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairs {
    /// Observations \[rows, d\].
    pub x: Vec<f32>,
    /// Parameter points \[rows, p\].
    pub theta: Vec<f32>,
    /// 1 where x was drawn at theta, 0 where it was drawn at another point \[rows\].
    pub label: Vec<f32>,
}

impl Pairs {
    /// Draws a split of `size` pairs, half of each class, in random order.
    ///
    /// Three points of the prior are drawn for each two rows: a, b, c. Class 0 is a with an observation at b, class 1 is c
    /// with one at c. The points are f32 before anything is drawn at them.
    ///
    /// # Errors
    ///
    /// [`GaussianError`] for an odd size, and for values that are not finite.
    pub fn draw(
        problem: &Problem,
        prior: &Prior,
        size: usize,
        rng: &mut impl Rng,
    ) -> Result<Self, GaussianError> {
        if !size.is_multiple_of(2) {
            return Err(GaussianError::value(
                "size",
                format!("is {size}; half of the pairs are of each class, so it is even"),
            ));
        }
        let (d, p, half) = (problem.dimension(), problem.parameters().len(), size / 2);
        GaussianError::length("prior", prior.parameters(), p)?;
        let points = prior.sample(3 * half, rng)?;
        let (apart, rest) = points.split_at(half * p);
        let mut x = Vec::with_capacity(size * d);
        // All of b, then all of c.
        for point in rest.chunks_exact(p) {
            problem.simulate(point, 1, rng, &mut x)?;
        }
        let theta = [apart, &rest[half * p..]].concat();
        let order = permutation(rng, size);
        let rows = |values: &[f32], width: usize| -> Vec<f32> {
            order.iter().flat_map(|row| &values[row * width..][..width]).copied().collect()
        };
        Ok(Self {
            x: rows(&x, d),
            theta: rows(&theta, p),
            label: order.iter().map(|row| if *row < half { 0.0 } else { 1.0 }).collect(),
        })
    }

    /// How many pairs.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.label.len()
    }
}

#[cfg(test)]
mod tests {
    use waycairn_analysis_api::stream;

    use super::*;
    use crate::settings::{Family, ParametersSettings, PriorDefinition, ProblemSettings};

    fn parts() -> (Problem, Prior) {
        let (problem, parameters) = (ProblemSettings::default(), ParametersSettings::default());
        let resolved = Problem::resolve(&problem, &parameters).unwrap();
        let definition = PriorDefinition::new(Family::Uniform);
        let prior = Prior::resolve("uniform", &definition, &problem, &parameters, &resolved).unwrap();
        (resolved, prior)
    }

    fn correlation(pairs: &Pairs, class: f32) -> f64 {
        let rows: Vec<(f64, f64)> = (0..pairs.rows())
            .filter(|row| pairs.label[*row] == class)
            .map(|row| (f64::from(pairs.x[row]), f64::from(pairs.theta[row])))
            .collect();
        let count = rows.len() as f64;
        let (mx, my) = rows.iter().fold((0.0, 0.0), |(mx, my), (x, y)| (mx + x / count, my + y / count));
        let of = |product: &dyn Fn(f64, f64) -> f64| {
            rows.iter().map(|(x, y)| product(x - mx, y - my)).sum::<f64>()
        };
        of(&|x, y| x * y) / (of(&|x, _| x * x) * of(&|_, y| y * y)).sqrt()
    }

    #[test]
    fn gaussian_case_07_pairs_of_one_class_belong_together() {
        let (problem, prior) = parts();
        let pairs = Pairs::draw(&problem, &prior, 40_000, &mut stream(0, "training-train", None)).unwrap();
        assert_eq!(pairs.label.iter().filter(|label| **label == 1.0).count(), 20_000);
        assert_eq!((pairs.x.len(), pairs.theta.len(), pairs.rows()), (40_000, 40_000, 40_000));
        assert!(correlation(&pairs, 0.0).abs() < 0.04);
        assert!(correlation(&pairs, 1.0) > 0.8);
        // Not one class after the other.
        let early = pairs.label[..20_000].iter().filter(|label| **label == 1.0).count();
        assert!((9_700..10_300).contains(&early));
        let odd = Pairs::draw(&problem, &prior, 7, &mut stream(0, "training-train", None)).unwrap_err();
        assert!(odd.to_string().contains("it is even"), "{odd}");
        let again = Pairs::draw(&problem, &prior, 40_000, &mut stream(0, "training-train", None)).unwrap();
        assert_eq!(again, pairs);
    }
}
