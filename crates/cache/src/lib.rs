//! Artifacts addressed by the recipe that determines them: built once, found again, checked, collected.
//!
//! The crate owns `cache/` of an output root: what a recipe is, which key it has, how one of many builds its artifact,
//! what a hit checks, and what may be thrown away. It knows nothing of nodes, models, tables or settings files: an
//! artifact is files that somebody's builder wrote, and what to keep is told to it.
//!
//! ```text
//!  recipe -> RFC 8785 text -> SHA-256 = key          cache/<product>/<key>/
//!                                |
//!          fast check: manifest, names, sizes --- all there --> hit, without a lock
//!                                |                    contradicted --> damaged, an error
//!                              absent
//!                                |
//!   locks/<product>-<key>.lock, look again, and then one of many goes on
//!                                |
//!   .tmp-<pid>-<random>/   files -> digests -> artifact.json -> sync -> rename -> sync above
//!          |                                                       |
//!          a crash here leaves a hidden folder, swept by age       from here on the entry is whole and stays so
//!
//!   entry -> damaged (a byte changed) -> set aside: .damaged-*    -> deleted by a collection after a day
//!   entry -> used by no root of the history, not pinned, not held -> renamed aside, then deleted
//! ```
//!
//! # Invariants
//!
//! - `CACHE-1`: a key is a pure function of its recipe and the same on every machine; recipes that say the same have
//!   one key, every field changes it, and the fields stay readable beside it.
//! - `CACHE-2`: an entry folder with a manifest is whole, from the moment it has its name; a lost race is a hit; a
//!   builder that fails or is killed leaves no entry.
//! - `CACHE-3`: a hit reads one manifest and looks at names and sizes; it takes no lock, waits for no builder and
//!   writes nothing; the handle that it gives holds the entry.
//! - `CACHE-4`: the deep check finds every changed byte; damage is an error that names key and file, never a silent
//!   rebuild.
//! - `CACHE-5`: a collection keeps what the roots of the history used, what is pinned, held, young, or nobody's of
//!   ours; where it cannot know it removes nothing and says why; names go before bytes.
//!
//! # Example
//!
//! ```
//! use waycairn_cache::{Builder, Cache, CacheError, How, Implementation, Recipe};
//!
//! fn squares(builder: &Builder<'_>, (): ()) -> Result<(), CacheError> {
//!     let count: usize = builder.settings()?; // what the selector returned: nothing else exists here
//!     let mut array = builder.array::<f64>("squares", &[count])?;
//!     array.values().iter_mut().enumerate().for_each(|(i, value)| *value = (i * i) as f64);
//!     builder.json("about", "the squares of whole numbers")
//! }
//!
//! # fn main() -> Result<(), CacheError> {
//! # let root = tempfile::tempdir().expect("a folder");
//! let cache = Cache::open(root.path())?;
//! let recipe = Recipe::new("squares", "example", &100, Implementation::new(1))?;
//! let built = cache.get_or_build(&recipe, (), squares)?;
//! assert_eq!(built.artifact.array::<f64>("squares")?.values()[9], 81.0);
//! assert_eq!(cache.get_or_build(&recipe, (), squares)?.how, How::Hit);
//! assert!(cache.verify(|_| ())?.failures.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! `check` is for tests of crates that build products: the function `undeclared` finds source files that a builder imports and
//! does not declare. `fault` is for tests that crash a program. Neither is on by default.
//!
//! Every byte on disk, and every state that a crash can leave: `docs/format.md`.

mod array;
mod build;
mod builder;
mod cache;
mod error;
mod fingerprint;
mod gc;
mod history;
mod hit;
mod hold;
#[cfg(feature = "check")]
mod imports;
mod key;
mod layout;
mod listing;
mod manifest;
mod npy;
mod pins;
mod recipe;
mod set_aside;
mod value;
mod verify;
mod why;

pub use array::{ArrayMut, ArrayRows, ArrayView, Bf16, Dtype, Element};
pub use build::{Built, How};
pub use builder::Builder;
pub use cache::{Announce, Cache, CacheOptions, Lookup, Waiting};
pub use error::{CacheError, Damage};
pub use fingerprint::{Implementation, Sources};
pub use gc::{Decision, GcFailure, GcInput, GcPlan, GcPolicy, GcReport, Keep, Remove, Tally, Verdict};
pub use history::{BookState, HISTORY_ROOTS, History, Root, Used};
pub use hit::{Artifact, MissReason};
pub use hold::Hold;
#[cfg(feature = "check")]
pub use imports::{ImportError, Undeclared, undeclared};
pub use key::Key;
pub use layout::EntryName;
pub use listing::{Kind, Listed, Listing};
pub use manifest::Member;
pub use pins::{Pin, Pins};
pub use recipe::{Backend, Recipe};
pub use value::{ValueError, to_value};
pub use verify::{Checking, Failure, VerifyReport};
pub use why::{Change, Nearest, Why};
