//! The source files that decide what each part gives, for the keys of what is made with them.
//!
//! A product or model that uses a part names its files beside its own. Files of both crates make one list:
//!
//! ```
//! use waycairn_gaussian::sources::{self, File};
//!
//! const OWN: &[File] = &[("my-plugin/src/truths.rs", b"..")];
//! const PARTS: &[&[File]] = &[OWN, sources::TRUTHS];
//! const FILES: &[File] = &sources::join::<{ sources::count(PARTS) }>(PARTS);
//! assert_eq!(FILES.len(), sources::TRUTHS.len() + 1);
//! ```
//!
//! Settings are resolved before anything is made, and what is resolved is in the recipe: so [`PROBLEM`] and [`PRIOR`] hold
//! nothing of how settings are read. A test finds what a list forgets.

/// The name of a file, which is its package and the path in it, and its bytes.
pub type File = (&'static str, &'static [u8]);

macro_rules! files {
    ($($path:literal),+ $(,)?) => {
        &[$((
            concat!(env!("CARGO_PKG_NAME"), "/src/", $path),
            include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/", $path)).as_slice(),
        )),+]
    };
}

/// Simulation and likelihood.
pub const PROBLEM: &[File] = files!["error.rs", "normal.rs", "problem.rs", "random.rs"];

/// Priors.
pub const PRIOR: &[File] =
    files!["error.rs", "lattice.rs", "normal.rs", "prior.rs", "problem.rs", "random.rs"];

/// Training pairs, and the splits of a training.
pub const PAIRS: &[File] = files![
    "error.rs",
    "lattice.rs",
    "normal.rs",
    "pairs.rs",
    "prior.rs",
    "problem.rs",
    "random.rs",
    "training.rs",
];

/// Classification metrics.
pub const CLASSIFICATION: &[File] = files!["classification.rs", "error.rs", "normal.rs", "rank.rs"];

/// True parameters and their ensembles.
pub const TRUTHS: &[File] = files![
    "error.rs",
    "lattice.rs",
    "normal.rs",
    "problem.rs",
    "random.rs",
    "settings/fault.rs",
    "settings/inference.rs",
    "settings/section.rs",
    "sobol.rs",
    "truth.rs",
];

/// Candidates and measures.
pub const CANDIDATES: &[File] = files![
    "candidates.rs",
    "error.rs",
    "lattice.rs",
    "normal.rs",
    "prior.rs",
    "problem.rs",
    "random.rs",
    "settings/fault.rs",
    "settings/inference.rs",
    "settings/section.rs",
    "sobol.rs",
];

/// Networks: logits, and scores of ensembles.
pub const NETWORK: &[File] = files!["activation.rs", "error.rs", "network.rs", "product.rs"];

/// Scores of any logit, and exact ones.
pub const ENSEMBLE: &[File] = files!["ensemble.rs", "error.rs", "normal.rs", "problem.rs", "random.rs"];

/// Highest-density summaries.
pub const DENSITY: &[File] = files!["density.rs", "error.rs"];

/// Pairs of parameter points, with observations at both, and the showcase.
pub const VERIFICATION: &[File] = files![
    "error.rs",
    "lattice.rs",
    "normal.rs",
    "problem.rs",
    "random.rs",
    "settings/fault.rs",
    "settings/section.rs",
    "settings/showcase.rs",
    "settings/verification.rs",
    "sobol.rs",
    "verification.rs",
];

/// Reweighted samples and their distances.
pub const REWEIGHTING: &[File] = files!["error.rs", "normal.rs", "reweighting.rs"];

/// Points and samples of the normalisation check.
pub const NORMALIZATION: &[File] = files![
    "error.rs",
    "ideal.rs",
    "lattice.rs",
    "normal.rs",
    "normalization.rs",
    "prior.rs",
    "problem.rs",
    "random.rs",
    "settings/fault.rs",
    "settings/section.rs",
    "settings/verification.rs",
];

/// Simulation-based calibration and expected coverage.
pub const CALIBRATION: &[File] = files!["calibration.rs", "error.rs", "tarp.rs"];

/// The metrics, with what they are computed by.
pub const METRICS: &[File] = files![
    "activation.rs",
    "calibration.rs",
    "density.rs",
    "error.rs",
    "metrics/calibration.rs",
    "metrics/coverage.rs",
    "metrics/error.rs",
    "metrics/extension.rs",
    "metrics/mod.rs",
    "metrics/reference.rs",
    "metrics/resolution.rs",
    "metrics/verification.rs",
    "network.rs",
    "normal.rs",
    "product.rs",
    "rank.rs",
    "reweighting.rs",
    "tarp.rs",
];

/// How many files lists have together, for [`join`].
#[must_use]
pub const fn count(parts: &[&[File]]) -> usize {
    let (mut index, mut sum) = (0, 0);
    while index < parts.len() {
        sum += parts[index].len();
        index += 1;
    }
    sum
}

/// The files of several lists as one. A file of two lists comes twice, which a key does not mind.
#[must_use]
pub const fn join<const N: usize>(parts: &[&[File]]) -> [File; N] {
    let mut all: [File; N] = [("", b""); N];
    let (mut part, mut place) = (0, 0);
    while part < parts.len() {
        let mut index = 0;
        while index < parts[part].len() {
            all[place] = parts[part][index];
            (place, index) = (place + 1, index + 1);
        }
        part += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "check")]
    #[test]
    fn every_list_holds_what_its_files_import() {
        let all = [
            PROBLEM,
            PRIOR,
            PAIRS,
            CLASSIFICATION,
            TRUTHS,
            CANDIDATES,
            NETWORK,
            ENSEMBLE,
            DENSITY,
            VERIFICATION,
            REWEIGHTING,
            NORMALIZATION,
            CALIBRATION,
            METRICS,
        ];
        for files in all {
            let path = |(name, _): &File| name.strip_prefix("waycairn-gaussian/").unwrap();
            let paths: Vec<&str> = files.iter().map(path).collect();
            let missing =
                waycairn_cache::undeclared(std::path::Path::new(env!("CARGO_MANIFEST_DIR")), &paths).unwrap();
            assert!(missing.is_empty(), "{paths:?} lack {missing:#?}");
        }
    }

    #[test]
    fn lists_are_joined() {
        const PARTS: &[&[File]] = &[NETWORK, DENSITY];
        const FILES: &[File] = &join::<{ count(PARTS) }>(PARTS);
        assert_eq!(FILES.len(), 6);
        assert_eq!((FILES[0], FILES[5]), (NETWORK[0], DENSITY[1]));
    }
}
