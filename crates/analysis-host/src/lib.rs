//! Finds, checks, opens and runs analysis plugins.
//!
//! It does not know where the inputs of an analysis come from, nor where its outputs go: a caller implements
//! [`AnalysisHost`] for one node and gets [`Outputs`] back. It has no training, no store and no tables; the only
//! thing it knows of Arrow is how to hand a reader over.
//!
//! ```text
//! discover() -> Found { path, result }
//!                 |
//!       Library::open(path)
//!         image     the file is a whole library for this machine, and exports a plugin's header
//!         load      the system opens it; interface version and layouts are compared
//!         declared  each analysis says what it is
//!                 |
//!       ForeignAnalysis::run(&dyn AnalysisHost, settings) -> Outputs
//!         settings  defaults filled in, types checked
//!         session   answers what was declared, collects and checks what is emitted
//!                 |
//!       ForeignProduct::select, estimate, check        settings of a study -> what a builder gets, costs and may
//!       ForeignProduct::build(&dyn ProductHost)
//!         building  answers what was declared, lends each array once, checks what is written
//! ```
//!
//! # Invariants
//!
//! - **ABI-1**: nothing unwinds across the boundary, in either direction: a panic of an analysis is a
//!   [`RunError::Panicked`], a panic of the host is an error that the analysis gets.
//! - **ABI-2**: fields and methods are added only after the last prefix field: an older, an equal and a newer
//!   plugin of one major version load, one with a changed field is refused before it is called.
//! - **ABI-3**: views end with the call: what an analysis is given is borrowed, and what it emits is copied.
//! - **ABI-4**: an array of a product is lent to its builder once, to it alone and for the call; it stays mapped until the
//!   call ends, and is let go then, however it ended.
//!
//! # Example
//!
//! ```
//! use std::path::Path;
//! use waycairn_analysis_host::{Library, LoadError};
//!
//! let error = Library::open(Path::new("no-such-plugin.so")).unwrap_err();
//! assert!(matches!(error, LoadError::NotFound { .. }));
//! assert_eq!(error.to_string(), "no such file: `no-such-plugin.so`");
//! ```
//!
//! How a plugin is written, and the rules of the boundary: `docs/plugins.md`.

mod building;
mod declared;
mod discover;
mod error;
mod foreign;
mod host;
mod image;
mod load;
mod outputs;
mod pattern;
mod product;
mod products;
mod session;
mod settings;
mod stream;

pub use crate::building::ARRAY_TYPES;
pub use crate::declared::{Declared, Kind, Needs};
pub use crate::discover::{Discovery, Found, all, discover, named, select};
pub use crate::error::{DeclarationError, LoadError, RunError, SelectError, SettingsError};
pub use crate::foreign::{ForeignAnalysis, Provenance};
pub use crate::host::{
    AnalysisHost, Bytes, DType, ErrorKind, HostError, NodeInfo, OwnedTensor, ProductData, ProductHost,
    TensorView,
};
pub use crate::load::{Library, Refused};
pub use crate::outputs::{Description, Outputs, ScalarOut};
pub use crate::product::{DeclaredProduct, ForeignProduct};
// So that a host names the type of its scalars without a dependency on Arrow.
pub use arrow::record_batch::RecordBatchReader;
pub use waycairn_analysis_api::host::API_VERSION;
// So that a host draws what its plugins draw.
pub use waycairn_analysis_api::{Checked, LogLevel, Stream, rand_core, stream};

/// The name that was probably meant.
pub(crate) fn nearest<'n>(wanted: &str, names: impl Iterator<Item = &'n str>) -> Option<String> {
    names
        .map(|name| (strsim::damerau_levenshtein(wanted, name), name))
        .filter(|(distance, name)| *distance <= 2 && *distance < name.chars().count())
        .min()
        .map(|(_, name)| name.to_owned())
}
