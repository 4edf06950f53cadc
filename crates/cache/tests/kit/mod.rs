//! A product for tests: arrays of numbers.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use waycairn_cache::{Builder, Cache, CacheError, Implementation, Recipe};
use waycairn_durable::time::now_nanos;

pub(crate) const DAY: i64 = 24 * 3600 * 1_000_000_000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Numbers {
    pub seed: u64,
    pub rows: usize,
}

pub(crate) fn recipe(seed: u64) -> Recipe {
    Recipe::new("numbers", "test", &Numbers { seed, rows: 8 }, Implementation::new(1)).unwrap()
}

/// Fills arrays in place and row by row, and writes JSON and a file; waits for `pause` in between.
pub(crate) fn build(builder: &Builder<'_>, pause: Duration) -> Result<(), CacheError> {
    let numbers: Numbers = builder.settings()?;
    let mut array = builder.array::<f64>("values", &[numbers.rows, 4])?;
    for (index, value) in array.values().iter_mut().enumerate() {
        *value = (numbers.seed * 1000) as f64 + index as f64;
    }
    std::thread::sleep(pause);
    let mut rows = builder.rows::<u32>("streamed", &[2])?;
    for row in 0..numbers.rows as u32 {
        rows.push(&[row, row * row])?;
    }
    rows.finish()?;
    builder.json("about", &numbers)?;
    std::fs::write(builder.file("weights.safetensors")?, [7; 100]).unwrap();
    builder.metadata("seed", &numbers.seed)
}

pub(crate) fn get(cache: &Cache, seed: u64) -> Result<waycairn_cache::Built, CacheError> {
    cache.get_or_build(&recipe(seed), Duration::ZERO, build)
}

/// Every path below a folder, with its length and time, sorted; lock files apart.
pub(crate) fn tree(root: &Path) -> Vec<(PathBuf, u64, std::time::SystemTime)> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            let metadata = std::fs::symlink_metadata(&path).unwrap();
            if metadata.is_dir() {
                folders.push(path.clone());
            }
            if path.extension().is_none_or(|extension| extension != "lock") {
                found.push((path, metadata.len(), metadata.modified().unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// The names in the folder of the product.
pub(crate) fn names(root: &Path) -> Vec<String> {
    let folder = root.join("cache/numbers");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub(crate) fn now() -> i64 {
    now_nanos()
}
