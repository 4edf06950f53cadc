//! The mathematics of the Gaussian ratio-estimation study: a simulator whose truth is known, and all that is asked of a
//! network that learned to tell its joint distribution from the product of the halves.
//!
//! It knows no Burn, no store, no plugin and no file: functions over slices, and settings as JSON. The experiment `nre` takes
//! problem, priors and training pairs from here; the study's plugin takes everything else.
//!
//! ```text
//!  settings --resolve--> Problem, Prior        (serialized, they stand in recipes)
//!                           |
//!             Pairs <-------+-------> Truths --observe--> ensembles      Candidates, log measure
//!               |                                             |                |
//!            network (elsewhere) --weights--> Network --ensemble scores--------+
//!                                                                  |
//!                           Summary: sets, modes, coverage <-------+-- ExactScores, Prior::log_densities
//!                                      |
//!             metrics    <-------------+------ ThetaPairs, Reweighted, EcdfDifference, nearer_mass
//! ```
//!
//! # Random numbers
//!
//! Whatever draws takes any generator of [`rand_core`] 0.10. Give each array the stream of its name
//! (`waycairn_analysis_api::stream`): then its numbers depend on its own sizes alone. This crate does not name that one, so
//! that a program that only wants a prior needs no plugin interface; uniform and normal numbers are made here, without the
//! platform's mathematics library, so a stream gives the same numbers everywhere.
//!
//! # Invariants
//!
//! - `GAUSSIAN-1`: settings that are not allowed are all told, each with its path, its value and what is allowed.
//! - `GAUSSIAN-2`: a resolved problem or prior says, serialized, what decides its numbers, and nothing else.
//! - `GAUSSIAN-3`: the score of a parameter point is the same to the last bit, whatever points are scored with it.
//! - `GAUSSIAN-4`: no number of threads and no size of a block changes a bit of a result.
//! - `GAUSSIAN-5`: a highest-density set is all whose score is at least its edge's, holds at least its level, and would not
//!   without the edge.
//!
//! # Example
//!
//! ```
//! use serde_json::json;
//! use waycairn_gaussian::settings::{InferenceSettings, ParametersSettings, PriorDefinitions, ProblemSettings, Section};
//! use waycairn_gaussian::{Candidates, ExactScores, Prior, Problem, Summary, Truths};
//! # use waycairn_analysis_api::stream;
//!
//! let settings = ProblemSettings::read(&json!({"dimension": 2}))?;
//! let parameters = ParametersSettings::default();
//! let problem = Problem::resolve(&settings, &parameters)?;
//! let definitions = PriorDefinitions::default();
//! let prior = Prior::resolve("uniform", definitions.get("uniform")?, &settings, &parameters, &problem)?;
//!
//! let inference = InferenceSettings::read(&json!({"sobol_truths": 8, "candidate_count": 4096}))?;
//! let seed = inference.seed;
//! let truths = Truths::new(&problem, &inference, &mut stream(seed, "truth-design", None))?;
//! let x = truths.observe(&problem, 15, &mut stream(seed, "inference-observations", None))?;
//! let support = Candidates::support(&prior, &inference);
//! let candidates =
//!     Candidates::new(&problem, &support, &inference, &mut stream(seed, "candidate-design", None))?;
//!
//! let summary = Summary::new(&candidates.theta, &candidates.log_measure, &inference.levels)?;
//! let exact = ExactScores::new(&problem, &candidates.theta)?;
//! let membership = candidates.indices(&truths.theta);
//! let cases = summary.cases(&membership, |case, scores| {
//!     let x = &x[case * 30..(case + 1) * 30];
//!     exact.of_case(x, scores)?;
//!     let mut at_truth = [0.0];
//!     ExactScores::new(&problem, &truths.theta[2 * case..2 * case + 2])?.of_case(x, &mut at_truth)?;
//!     Ok::<_, waycairn_gaussian::GaussianError>(at_truth[0])
//! })?;
//! assert_eq!(cases.mode.len(), 16 * 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod activation;
mod calibration;
mod candidates;
mod classification;
mod density;
mod ensemble;
mod error;
mod ideal;
mod lattice;
pub mod metrics;
mod network;
mod normal;
mod normalization;
mod pairs;
mod prior;
mod problem;
mod product;
mod random;
mod rank;
mod reweighting;
pub mod settings;
mod sobol;
pub mod sources;
mod tarp;
mod training;
mod truth;
mod verification;
mod workload;

pub use crate::activation::Activation;
pub use crate::calibration::{EcdfDifference, rank_share};
pub use crate::candidates::{CandidateKind, CandidatePlan, Candidates, candidate_indices};
pub use crate::classification::Classification;
pub use crate::density::{Density, Masses, Summaries, Summary, normalized_mass, retained_cases};
pub use crate::ensemble::{Ensembles, ExactScores};
pub use crate::error::GaussianError;
pub use crate::ideal::{Evidence, evidence_samples};
pub use crate::lattice::Lattice;
pub use crate::network::{Linear, Network, Points, ROWS};
pub use crate::normal::{log_density, log_sum_exp, softplus};
pub use crate::normalization::normalization_points;
pub use crate::pairs::Pairs;
pub use crate::prior::{Measure, Prior};
pub use crate::problem::{Kind, Likelihood, Parameter, ParameterName, Problem};
pub use crate::random::{permutation, standard_normal, uniform};
pub use crate::rank::{average_ranks, median, spearman};
pub use crate::reweighting::{Distances, Reweighted, Samples, effective_samples, sliced_w1, weights};
pub use crate::sobol::{MAX_SOBOL_AXES, MAX_SOBOL_POINTS};
pub use crate::tarp::{expected_coverage, nearer_mass};
pub use crate::training::{SplitSizes, TrainingData};
pub use crate::truth::{OBSERVED_TOGETHER, TruthPlan, Truths, observe};
pub use crate::verification::{Endpoint, ThetaPairs, directions, showcase_pair};
pub use crate::workload::{Workload, WorkloadInput};
