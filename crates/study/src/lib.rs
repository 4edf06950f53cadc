//! Studies: one experiment under several settings, and what is reused from launch to launch.
//!
//! It knows settings files, the runs that follow from them, and when a launch has succeeded. It does not know how a
//! model is trained, what an analysis computes, or how an artifact is stored.
//!
//! ```text
//! settings_training.toml --profile--> configurations x members = runs
//!                                          |
//!                                     plan: recipes, estimates, refusals      (nothing is written)
//!                                          |
//!  lease: workers of one launch       run: claim -> model, a hit or trained at its nodes -> runs/<variant>/<member>/
//!                                          |
//!                                     all succeeded: history, runs/ of this launch alone, settings copied, collection
//! ```
//!
//! # Invariants
//!
//! - `STUDY-1`: a launch that is refused wrote nothing; one that failed or was killed deleted nothing, and the next one
//!   ends as if it had not been disturbed.
//! - `STUDY-2`: a run is what its settings, member, code, data and backend say, and nothing else; the same again is
//!   found and not done.
//! - `STUDY-3`: launches of one settings digest alone work in a root at a time, with any number of workers, and each run
//!   is one worker's.

mod analysis;
mod analyze;
mod branches;
mod collect;
mod error;
mod graph;
mod init;
mod launch;
mod lease;
mod litter;
mod making;
mod model;
mod plan;
mod record;
mod removal;
mod restore;
mod results;
mod settle;
mod source;
mod supply;
mod train;
mod training;
mod tree;
mod usage;
mod verify;

pub use analysis::{ANALYSIS_FILE, AnalysisSettings};
pub use analyze::{AnalysisFile, AnalysisState, ResultOf};
pub use branches::{Branch, BranchReport, Reason, collect_branches, plan_branches};
pub use collect::{collect, entries_named, plan_collection};
pub use error::{SettingsError, StudyError};
pub use init::{Starter, init};
pub use launch::{
    Cleaned, LaunchOptions, LaunchReport, PanicReport, ProductReport, RunReport, Stages, StudyEvent, launch,
};
pub use plan::{Plan, PlannedProduct, PlannedRun, ProductState};
pub use record::{ArtifactsFile, Outside, RecordedRun, Reference, RunFile, RunState, StatusFile};
pub use removal::{RemovalItem, RemovalPlan, plan_removal, remove};
pub use restore::{Restored, RestoredArtifact, restore};
pub use training::{Change, Configuration, Job, Runtime, TRAINING_FILE, Training};
pub use usage::{Area, AreaUsage, EntryUsage, ProductUsage, RunUsage, Usage};
pub use verify::{Damaged, Verification, verify};
pub use waycairn_cache::Checking;
