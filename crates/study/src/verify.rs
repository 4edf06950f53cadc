//! The deep check of a root: every byte of the cache and of the checkpoints, every record of a run, every archive.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use waycairn_cache::{BookState, Cache, Checking, EntryName};
use waycairn_durable::{open_file, time};
use waycairn_train::Checkpoints;

use crate::analyze::{AnalysisFile, AnalysisState};
use crate::error::StudyError;
use crate::plan::reasons;
use crate::record::{self, RecordedRun, run_folders};

/// What a deep check found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// How many files were checked.
    pub checked: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// What is wrong, all of it.
    pub damaged: Vec<Damaged>,
    /// Damaged entries that were set aside, by their new path.
    pub quarantined: Vec<String>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damaged {
    /// The file, from the root.
    pub path: String,
    /// The key of its entry, where it is one of the cache and can be read.
    pub key: Option<String>,
    /// What is wrong with it.
    pub what: String,
}

/// Checks a root: digests, recipes against keys and dependencies of the cache, checkpoints against their manifests,
/// records of runs and what they refer to, archives of sources. `progress` is told how far the check of the cache and of the
/// checkpoints is, from several threads. Records in parts have no checksums and are not read. With `quarantine`, damaged entries of the cache are renamed aside, so that they are built again.
///
/// # Errors
///
/// [`StudyError::Cache`], [`StudyError::Query`] and [`StudyError::Io`] when the root cannot be listed. All else is in the answer.
pub fn verify(
    root: &Path,
    quarantine: bool,
    progress: impl Fn(Checking) + Sync,
) -> Result<Verification, StudyError> {
    let cache = Cache::open(root)?;
    let checkpoints = Checkpoints::find(root)?;
    let (more_files, more_bytes) = (checkpoints.files(), checkpoints.bytes());
    // What the cache has is known when it begins to tell how far it is.
    let (cache_files, cache_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let report = cache.verify(|checking| {
        cache_files.store(checking.of_files, Ordering::Relaxed);
        cache_bytes.store(checking.of_bytes, Ordering::Relaxed);
        let (of_files, of_bytes) = (checking.of_files + more_files, checking.of_bytes + more_bytes);
        progress(Checking { of_files, of_bytes, ..checking });
    })?;
    let mut found = Verification { checked: report.files, bytes: report.bytes, ..Verification::default() };
    for failure in &report.failures {
        found.damaged.push(Damaged {
            path: format!("{}/{}", crate::record::entry_path(&failure.entry), failure.file),
            key: failure.key.map(|key| key.digest().to_string()),
            what: failure.damage.to_string(),
        });
    }
    found.checked += more_files;
    found.bytes += more_bytes;
    let (of_cache, of_cache_bytes) = (cache_files.into_inner(), cache_bytes.into_inner());
    let (done_files, done_bytes) = (AtomicU64::new(of_cache), AtomicU64::new(of_cache_bytes));
    let faults = checkpoints.check(root, |files, bytes| {
        let files = done_files.fetch_add(files, Ordering::Relaxed) + files;
        let bytes = done_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let (of_files, of_bytes) = (of_cache + more_files, of_cache_bytes + more_bytes);
        progress(Checking { files, of_files, bytes, of_bytes });
    });
    found.damaged.extend(faults.into_iter().map(|fault| Damaged {
        path: fault.path.display().to_string(),
        key: None,
        what: fault.what,
    }));
    books(&cache, &mut found);
    records(&cache, &mut found)?;
    archives(root, &mut found)?;
    if quarantine {
        for entry in report.damaged() {
            let aside = cache.quarantine(entry)?;
            let aside = aside.strip_prefix(root).unwrap_or(&aside).display().to_string();
            found.quarantined.push(aside);
        }
    }
    Ok(found)
}

fn records(cache: &Cache, found: &mut Verification) -> Result<(), StudyError> {
    let root = cache.root();
    let there: BTreeSet<EntryName> = cache.listing()?.entries().cloned().collect();
    for folder in run_folders(root)? {
        let shown = folder.display().to_string();
        found.checked += 1;
        let damaged = |path: String, what: String| Damaged { path, key: None, what };
        match RecordedRun::open(root, &folder) {
            Err(StudyError::Damaged { path, what }) => {
                let path = path.strip_prefix(root).unwrap_or(&path).display().to_string();
                found.damaged.push(damaged(path, what));
            }
            Err(error) => found.damaged.push(damaged(shown, reasons(&error))),
            // A launch died before it wrote one; the next one of these settings goes on here.
            Ok(None) => {}
            Ok(Some(run)) => {
                for what in run.run.faults(root, &folder) {
                    found.damaged.push(damaged(format!("{shown}/run.json"), what));
                }
                // What a run that is trained has beside it.
                let trained = run.run.node.is_some();
                let beside = [
                    (record::STATUS, run.status.is_some()),
                    (record::ARTIFACTS, !run.artifacts.artifacts.is_empty()),
                ];
                for (file, _) in beside.into_iter().filter(|(_, there)| trained && !there) {
                    let what = "it is missing; the next launch of these settings writes it".to_owned();
                    found.damaged.push(damaged(format!("{shown}/{file}"), what));
                }
                let analysis = root.join(&folder).join(record::ANALYSIS);
                match record::read::<AnalysisFile>(&analysis) {
                    Ok(None) => {}
                    Ok(Some(file)) => {
                        if !root.join(&file.source).is_file() {
                            let what = format!("it names the archive `{}`, which is not there", file.source);
                            found.damaged.push(damaged(format!("{shown}/{}", record::ANALYSIS), what));
                        }
                        found.checked +=
                            file.results.values().map(|result| result.files.len() as u64).sum::<u64>();
                        let faults = if file.state == AnalysisState::Complete {
                            file.faults(&root.join(&folder))
                        } else {
                            Vec::new()
                        };
                        for (file, what) in faults {
                            found.damaged.push(damaged(format!("{shown}/{file}"), what));
                        }
                    }
                    Err(error) => {
                        found.damaged.push(damaged(format!("{shown}/{}", record::ANALYSIS), reasons(&error)));
                    }
                }
                for (product, reference) in &run.artifacts.artifacts {
                    let what = match reference.entry(product) {
                        Err(what) => what,
                        Ok((entry, _)) if there.contains(&entry) => continue,
                        Ok(_) => format!("its `{product}` is `{}`, which is not there", reference.path),
                    };
                    found.damaged.push(damaged(format!("{shown}/artifacts.json"), what));
                }
            }
        }
    }
    Ok(())
}

/// Looks at the history and the pins.
fn books(cache: &Cache, found: &mut Verification) {
    let damaged = |file: &str, what: String| Damaged { path: file.to_owned(), key: None, what };
    match cache.history(time::now_nanos()) {
        Ok(history) => {
            if let BookState::Garbled { reason } = history.state() {
                found.damaged.push(damaged("history.json", reason.clone()));
            }
        }
        Err(error) => found.damaged.push(damaged("history.json", reasons(&error))),
    }
    match cache.pins() {
        Ok(pins) => found.damaged.extend(pins.doubt().map(|what| damaged("pins.json", what))),
        Err(error) => found.damaged.push(damaged("pins.json", reasons(&error))),
    }
}

/// Reads every archive to its end: each entry of it has a checksum.
fn archives(root: &Path, found: &mut Verification) -> Result<(), StudyError> {
    let folder = root.join("source");
    let entries = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => {
            entries.map_err(|source| StudyError::Io { operation: "list", path: folder.clone(), source })?
        }
    };
    let mut names: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
    names.sort_unstable();
    for name in names {
        let name = name.to_string_lossy().into_owned();
        if !name.ends_with(".zip") || name.starts_with('.') {
            continue;
        }
        let path = folder.join(&name);
        found.checked += 1;
        if let Err(what) = read_archive(&path) {
            found.damaged.push(Damaged { path: format!("source/{name}"), key: None, what });
        }
    }
    Ok(())
}

fn read_archive(path: &Path) -> Result<(), String> {
    let file = open_file(path).map_err(|error| error.to_string())?;
    let mut archive = zip::ZipArchive::new(file).map_err(|error| error.to_string())?;
    let mut buffer = vec![0; 1 << 16];
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(|error| error.to_string())?;
        let name = entry.name().map_or_else(|_| format!("file {index}"), |name| name.into_owned());
        while entry.read(&mut buffer).map_err(|error| format!("`{name}`: {error}"))? > 0 {}
    }
    Ok(())
}
