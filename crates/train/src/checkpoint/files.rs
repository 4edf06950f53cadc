//! Names of the files of a checkpoint.

/// Weights, under dotted module paths.
pub(crate) const MODEL: &str = "model.safetensors";
/// The optimizer's tensors, under `<path>.<field>`.
pub(crate) const OPTIMIZER: &str = "optimizer.safetensors";
/// Counters, data offset, the optimizer's scalars.
pub(crate) const STATE: &str = "state.json";
/// What the random streams are keyed by.
pub(crate) const RNG: &str = "rng.npy";
/// Resolved settings.
pub(crate) const CONFIG: &str = "config.toml";
/// The vocabulary; a run on rows of numbers has none.
pub(crate) const TOKENIZER: &str = "tokenizer.json";
/// Who trained it, where, with what.
pub(crate) const JOB: &str = "job.json";
/// Size and digest of every other file; written last.
pub(crate) const MANIFEST: &str = "manifest.json";

/// Every file that a manifest lists, besides the vocabulary where there is one.
pub(crate) const LISTED: [&str; 6] = [CONFIG, JOB, MODEL, OPTIMIZER, RNG, STATE];
