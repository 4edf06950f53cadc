//! The settings of the study that mathematics reads: sections with their defaults, and the values that are allowed.
//!
//! A section is read out of JSON, field by field over its defaults, so that all mistakes are told and not the first one
//! alone: names that do not exist, values of another type, values out of range. A [`Fault`] is data, for whoever knows the
//! file and the line.
//!
//! # Prior definitions
//!
//! The settings of a training name priors under `priors`:
//!
//! ```toml
//! [priors.mixed]
//! family = "uniform"                      # of every coordinate ...
//! by_parameter = { "std:1" = "grid" }     # ... but these
//! ```
//!
//! `uniform`, `normal`, `exponential` and `grid` are there without being written; a definition of one of these names
//! replaces it. The shape of a family (where a normal prior is centred, how wide a lattice is) belongs to the parameter and
//! not to the prior: it stands in `parameters` and `problem.overrides`.

mod calibration;
mod data;
mod fault;
mod inference;
mod plotting;
mod prior;
mod problem;
mod resolve;
mod section;
mod showcase;
mod verification;

pub use calibration::CalibrationSettings;
pub use data::DataSettings;
pub use fault::{Fault, Faults};
pub use inference::{CandidateDesign, InferenceSettings, Retain, Target, TruthDesign};
pub use plotting::{PlottingSettings, check_targets};
pub use prior::{Family, PriorDefinition, PriorDefinitions};
pub use problem::{Options, ParametersSettings, ProblemSettings};
pub use section::Section;
pub use showcase::ShowcaseSettings;
pub use verification::{NormalizationDesign, PairDesign, VerificationSettings};
