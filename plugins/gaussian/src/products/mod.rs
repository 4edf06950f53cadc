//! The products of the study, in the order of their dependencies.

mod arrays;
mod calibration_observations;
mod calibration_scores;
mod candidates;
mod ensemble_scores;
mod inference;
mod normalization_observations;
mod normalization_predictions;
mod observations;
mod reweighting;
mod showcase_observations;
mod showcase_predictions;
mod step;
mod test_predictions;
mod training;
mod verification_observations;
mod verification_predictions;

pub use calibration_observations::CalibrationObservations;
pub use calibration_scores::CalibrationScores;
pub use candidates::CandidatesProduct;
pub use ensemble_scores::EnsembleScores;
pub use inference::Inference;
pub use normalization_observations::NormalizationObservations;
pub use normalization_predictions::NormalizationPredictions;
pub use observations::Observations;
pub use reweighting::ReweightingDistances;
pub use showcase_observations::ShowcaseObservations;
pub use showcase_predictions::ShowcasePredictions;
pub use test_predictions::TestPredictions;
pub use training::Training;
pub use verification_observations::VerificationObservations;
pub use verification_predictions::VerificationPredictions;
