//! All that one network learns from and is measured on: three splits, each from a stream of its own.

use rand_core::Rng;

use crate::error::GaussianError;
use crate::pairs::Pairs;
use crate::prior::Prior;
use crate::problem::Problem;

/// How many pairs each split has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitSizes {
    /// Learned from.
    pub train: usize,
    /// Measured after each epoch.
    pub validation: usize,
    /// Measured at the end.
    pub test: usize,
}

/// The three splits of one network.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingData {
    /// Learned from.
    pub train: Pairs,
    /// Measured after each epoch.
    pub validation: Pairs,
    /// Measured at the end.
    pub test: Pairs,
}

impl TrainingData {
    /// The names of the streams of the three splits, in the order of the fields.
    pub const STREAMS: [&'static str; 3] = ["training-train", "training-validation", "training-test"];

    /// Draws the splits. `streams` gives the generator of a name: the stream of the training seed, that name and the name of
    /// the prior, so that priors draw apart; replicas differ in their seeds.
    ///
    /// Whoever trains and whoever keeps the data of a training both call this, so that they mean the same numbers.
    ///
    /// # Errors
    ///
    /// As [`Pairs::draw`].
    pub fn draw<R: Rng>(
        problem: &Problem,
        prior: &Prior,
        sizes: SplitSizes,
        mut streams: impl FnMut(&'static str) -> R,
    ) -> Result<Self, GaussianError> {
        let [train, validation, test] = Self::STREAMS;
        let mut draw = |size, name| Pairs::draw(problem, prior, size, &mut streams(name));
        Ok(Self {
            train: draw(sizes.train, train)?,
            validation: draw(sizes.validation, validation)?,
            test: draw(sizes.test, test)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use waycairn_analysis_api::stream;

    use super::*;
    use crate::settings::{
        DataSettings, Family, ParametersSettings, PriorDefinition, ProblemSettings, Section as _,
    };

    fn draw(settings: &serde_json::Value, prior_name: &str) -> TrainingData {
        let (problem, parameters) = (ProblemSettings::default(), ParametersSettings::default());
        let resolved = Problem::resolve(&problem, &parameters).unwrap();
        let definition = PriorDefinition::new(Family::Uniform);
        let prior = Prior::resolve("uniform", &definition, &problem, &parameters, &resolved).unwrap();
        let sizes = SplitSizes::from(&DataSettings::read(settings).unwrap());
        TrainingData::draw(&resolved, &prior, sizes, |name| stream(3, name, Some(prior_name))).unwrap()
    }

    #[test]
    fn a_split_has_its_stream_and_the_size_of_another_shifts_nothing() {
        let small = serde_json::json!({"train_size": 64, "validation_size": 32, "test_size": 16});
        let larger = serde_json::json!({"train_size": 128, "validation_size": 32, "test_size": 16});
        let (small, larger) = (draw(&small, "uniform"), draw(&larger, "uniform"));
        assert_eq!((small.train.rows(), small.validation.rows(), small.test.rows()), (64, 32, 16));
        assert_eq!((&small.validation, &small.test), (&larger.validation, &larger.test));
        assert_eq!(larger.train.rows(), 128);
        assert_ne!(small.train.theta[..16], small.test.theta[..16]);
        assert_ne!(small.validation.theta[..16], small.test.theta[..16]);
    }

    #[test]
    fn priors_draw_apart() {
        let sizes = serde_json::json!({"train_size": 16, "validation_size": 16, "test_size": 16});
        assert_eq!(draw(&sizes, "uniform"), draw(&sizes, "uniform"));
        assert_ne!(draw(&sizes, "uniform"), draw(&sizes, "normal"));
    }
}
