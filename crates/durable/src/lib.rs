//! Files, folders and locks that survive a crash.
//!
//! This crate answers three questions: when do bytes on disk count, who may change them, and how are they named by
//! their content. It does not know what the bytes mean. It is the one door to renames, kernel locks, memory maps
//! and the clock; lints keep the rest of the workspace out of them.
//!
//! ```text
//!  file     .tmp-<pid>-<random>  ->  write  ->  sync  ->  close  ->  rename  ->  sync of the folder
//!  folder   .tmp-<pid>-<random>/ ->  files  ->  sync of every file and folder inside  ->  rename  ->  sync above
//!           |                                                                        |            |
//!           a crash here leaves a temporary name, which readers ignore and           |            a power loss from
//!           [`reap`] removes by age                                                  |            here keeps it
//!                                                                                    a process killed from here on
//!                                                                                    has committed
//! ```
//!
//! # Invariants
//!
//! - `DURABLE-1`: a name that is not temporary holds all of its bytes or does not exist; a replaced file shows the
//!   old bytes or the new ones.
//! - `DURABLE-2`: a commit of [`Durability::State`] that returned survives a power loss: bytes are synced before the
//!   name, and the name before the return.
//! - `DURABLE-3`: a lost race is no error and harms nothing: the first committer's bytes stay
//!   ([`Committed::Raced`]).
//! - `DURABLE-4`: a lock ends with its process, however that ends; a lock file is never deleted; a look at a lock
//!   never makes another process fail to take it; shared locks keep the exclusive one away and not each other.
//! - `DURABLE-5`: a root of a newer format is refused, with the versions and the way out, before anything in it is
//!   read or written.
//! - `DURABLE-6`: a file that is owned is taken over by nobody while its owner lives, and by one alone when it is dead.
//!
//! # Example
//!
//! ```
//! use waycairn_durable::{Committed, Digest, Durability, StagedDir, write_file};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let root = tempfile::tempdir()?;
//! let note = root.path().join("note");
//! write_file(&note, b"kept, whatever happens next", Durability::State)?;
//!
//! // A folder appears under its name when it is complete, and only then.
//! let target = root.path().join("entry");
//! let staged = StagedDir::create(&target, Durability::State)?;
//! write_file(&staged.path().join("data"), b"1 2 3", Durability::Regenerable)?;
//! assert!(!target.exists());
//! assert_eq!(staged.commit()?, Committed::New);
//! assert_eq!(Digest::of_file(&target.join("data"))?, Digest::of(b"1 2 3"));
//! # Ok(())
//! # }
//! ```
//!
//! # The feature `fault`
//!
//! It is off by default, and nothing but tests turns it on. With it every step of a commit is a named point that can
//! be listed and that can end the process, so a test can crash a program at each of them in turn: see [`fault`].
//!
//! Names and bytes on disk: `docs/format.md`.

mod commit;
mod digest;
mod error;
pub mod fault;
mod folder;
mod lock;
mod map;
mod owned;
mod regular;
mod size;
mod system;
mod temporary;
pub mod time;
mod version;

pub use commit::{Committed, Durability, Revocable, StagedDir, StagedFile, write_file};
pub use digest::{Digest, DigestWriter, Hasher};
pub use error::{CommitError, DigestError, LockError, MapError, ReadError, VersionError};
pub use folder::{create_dir_all, delete_aside, remove_dir_all, remove_file, rename, set_aside, sync_folder};
pub use lock::{FileLock, Holder, SharedLock};
pub use map::{FileMap, FileMapMut};
pub use owned::{HEARTBEAT, OwnedFile};
pub use regular::{is_dangling, is_irregular, open_file, read_file};
pub use size::Size;
pub use temporary::{is_temporary, reap};
pub use version::{FormatVersion, ensure_format, read_format};
