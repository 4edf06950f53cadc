//! `waycairn-gaussian-study`: what the Gaussian ratio-estimation study computes of its models.
//!
//! A study of the experiment `nre` trains networks to tell pairs of parameters and observations that belong together from
//! pairs that do not. Their logits are log ratios, and this library says what these are worth: on a problem whose truth is
//! known. It knows no training, no store and no file: the mathematics is in `waycairn-gaussian`, and what is here reads
//! settings, fills arrays and answers.
//!
//! | product | is | shared by |
//! | --- | --- | --- |
//! | `training` | the pairs of the three splits | nobody |
//! | `observations` | true parameters, an ensemble at each | all members |
//! | `candidates` | parameter points with their measures | members whose priors have one support |
//! | `ensemble_scores` | the sum of logits of every case and candidate; empty above `inference.max_score_bytes` | nobody |
//! | `inference` | modes and highest-density sets of every case and target | nobody |
//! | `test_predictions` | logits of the test split | nobody |
//! | `verification_observations` | pairs of parameter points, observations at both | all members |
//! | `verification_predictions` | learned and exact log ratios on these | nobody |
//! | `reweighting_distances` | how near reweighted samples come to their targets | nobody |
//! | `normalization_observations` | samples of the member's own evidence | nobody |
//! | `normalization_predictions` | log ratios on these | nobody |
//! | `showcase_observations` | many samples at one fixed pair | all members |
//! | `showcase_predictions` | log ratios on these | nobody |
//! | `calibration_observations` | draws of the prior, an ensemble at each | replicas |
//! | `calibration_scores` | where these lie in their posteriors | nobody |
//!
//! | metric | says |
//! | --- | --- |
//! | `classification` | cross-entropy, accuracy and AUC of the test split |
//! | `bias`, `coverage`, `width`, `resolution`, `median_absolute_bias` | what the ratio's modes and sets are worth |
//! | `posterior`, `exact_reference` | the same of the posterior and of the likelihood, where they are targets |
//! | `pairwise`, `reweighting`, `normalization` | what log ratios are worth, and what they do to samples |
//! | `simulation_based_calibration`, `tarp` | whether posteriors are as wide as they say, over draws of the prior |
//! | `parameter_count` | how many numbers a model of any experiment learned |
//!
//! | plot | shows |
//! | --- | --- |
//! | `training` | the loss of each epoch |
//! | `prior` | samples of the prior beside its exact density |
//! | `inference` | estimates against truths, with sets; the mass of candidates in some cases |
//! | `pairwise` | learned against exact log ratios |
//! | `reweighting`, `showcase` | samples of one point, weighted to be those of another |
//! | `observation_histogram` | what the first ensemble observed |
//! | `simulation_based_calibration`, `tarp` | ranks and expected coverage of draws of the prior, with bands |
//!
//! Every figure is a PNG at `plotting.dpi` and an SVG.
//!
//! # Sections
//!
//! `inference`, `verification`, `showcase`, `calibration` and `plotting`, as in [`waycairn_gaussian::settings`]. A selector
//! resolves problem and prior and takes single fields, so that a change builds what read it and nothing else: `levels` build
//! `inference` and no scores, a shape of a prior builds what draws from that prior. No limit is in a key: what is over one is
//! refused while the study is planned, with the setting and its value.
//!
//! # Invariants
//!
//! - `GAUSSIAN-STUDY-1`: the training data of the product are those that the experiment trained on: both call
//!   [`TrainingData::draw`](waycairn_gaussian::TrainingData::draw) with the streams of the training seed and the prior's name.
//! - `GAUSSIAN-STUDY-2`: scores that are kept and scores that are computed where they are needed make the same summaries to
//!   the last bit.
//! - `GAUSSIAN-STUDY-3`: no number of threads, and no number of rows at once, changes a bit of a product.

mod metrics;
mod model;
mod plan;
mod plots;
mod products;
mod ratio;
mod scores;
mod settings;
mod sources;
mod study;
mod targets;
mod threads;

pub use metrics::{
    BiasMetric, ClassificationMetric, CoverageMetric, ExactReferenceMetric, MedianAbsoluteBiasMetric,
    NormalizationMetric, PairwiseMetric, ParameterCountMetric, PosteriorMetric, ResolutionMetric,
    ReweightingMetric, SimulationBasedCalibration, Tarp, WidthMetric,
};
pub use plots::{
    InferencePlot, ObservationHistogramPlot, PairwisePlot, PriorPlot, ReweightingPlot, ShowcasePlot,
    SimulationBasedCalibrationPlot, TarpPlot, TrainingPlot,
};
pub use products::{
    CalibrationObservations, CalibrationScores, CandidatesProduct, EnsembleScores, Inference,
    NormalizationObservations, NormalizationPredictions, Observations, ReweightingDistances,
    ShowcaseObservations, ShowcasePredictions, TestPredictions, Training, VerificationObservations,
    VerificationPredictions,
};

use waycairn_analysis_api::export_analyses;

export_analyses! {
    analyses: [
        ClassificationMetric, BiasMetric, CoverageMetric, WidthMetric, ResolutionMetric, PosteriorMetric,
        ExactReferenceMetric, PairwiseMetric, ReweightingMetric, NormalizationMetric,
        MedianAbsoluteBiasMetric, ParameterCountMetric, SimulationBasedCalibration, Tarp,
        TrainingPlot, PriorPlot, InferencePlot, PairwisePlot, ReweightingPlot, ShowcasePlot, ObservationHistogramPlot,
        SimulationBasedCalibrationPlot, TarpPlot,
    ],
    products: [
        Training, Observations, CandidatesProduct, EnsembleScores, Inference, TestPredictions,
        VerificationObservations, VerificationPredictions, ReweightingDistances, NormalizationObservations,
        NormalizationPredictions, ShowcaseObservations, ShowcasePredictions, CalibrationObservations,
        CalibrationScores,
    ],
    settings: settings::defaults,
    threads: threads::use_threads,
}
