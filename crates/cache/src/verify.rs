//! The deep check: every digest, every recipe, every dependency.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use serde::Serialize;
use waycairn_durable::{Digest, FileMap};

use crate::cache::Cache;
use crate::layout::{EntryName, MANIFEST};
use crate::listing::Kind;
use crate::manifest::{Manifest, ReadFault};
use crate::{CacheError, Damage, Key, Member, hit, npy};

/// Is what a deep check found: all of it, not the first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// How many entries there are, damaged ones included.
    pub entries: u64,
    /// How many files were checked, with the manifests.
    pub files: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// What is wrong, sorted by entry and file.
    pub failures: Vec<Failure>,
    /// What lies there, never counts and is no damage: its path in the root.
    pub litter: Vec<PathBuf>,
}

/// Says how far a deep check is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checking {
    /// Files that were checked.
    pub files: u64,
    /// Files that there are.
    pub of_files: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Bytes that there are.
    pub of_bytes: u64,
}

/// Is one thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The entry.
    pub entry: EntryName,
    /// Its key, where the manifest can be read.
    pub key: Option<Key>,
    /// The file in the entry.
    pub file: String,
    /// What is wrong with it.
    pub damage: Damage,
}

impl VerifyReport {
    /// The entries whose own bytes are wrong: those to set aside. One that lacks a dependency is whole.
    #[must_use]
    pub fn damaged(&self) -> BTreeSet<&EntryName> {
        let own = |failure: &&Failure| !matches!(failure.damage, Damage::Dependency { .. });
        self.failures.iter().filter(own).map(|failure| &failure.entry).collect()
    }
}

impl Cache {
    /// Checks every byte of every entry: digests, headers of arrays, recipes against keys, dependencies. `progress` is
    /// called from several threads, often, and after the last file once more. Manifests are not in it: they are read
    /// before it is known how much there is.
    ///
    /// It changes nothing, and entries may be built and collected meanwhile: what is removed while it is checked is
    /// left out.
    ///
    /// # Errors
    ///
    /// [`CacheError::Io`] when the root cannot be listed. All else is in the report.
    ///
    /// # Memory
    ///
    /// The manifests of all entries, and 1 MiB a thread.
    pub fn verify(&self, progress: impl Fn(Checking) + Sync) -> Result<VerifyReport, CacheError> {
        let listing = self.listing()?;
        let root = self.root();
        let names: Vec<&EntryName> = listing.entries().collect();
        let checked: Vec<Checked> =
            names.into_par_iter().with_max_len(16).map(|entry| check(root, entry)).collect();
        let keys: HashSet<Key> = checked.iter().filter_map(|one| Some(one.manifest.as_ref()?.key)).collect();

        let mut report = VerifyReport { entries: checked.len() as u64, ..VerifyReport::default() };
        let mut files: Vec<(&Checked, &str, &Member)> = Vec::new();
        for one in &checked {
            report.files += 1;
            report.bytes += one.manifest_bytes;
            report.failures.extend(one.failures.iter().cloned());
            let Some(manifest) = &one.manifest else { continue };
            for (name, key) in manifest.recipe.dependencies.iter().filter(|(_, key)| !keys.contains(key)) {
                let damage = Damage::Dependency { name: name.clone(), key: *key };
                report.failures.push(one.failure(MANIFEST, damage));
            }
            files.extend(manifest.files.iter().map(|(name, member)| (one, name.as_str(), member)));
        }
        report.files += files.len() as u64;
        report.bytes += files.iter().map(|(.., member)| member.bytes).sum::<u64>();
        let (of_files, of_bytes) = (files.len() as u64, files.iter().map(|(.., member)| member.bytes).sum());
        let (checked_files, checked_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let told = |files: u64, bytes: u64| {
            let files = checked_files.fetch_add(files, Ordering::Relaxed) + files;
            let bytes = checked_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
            progress(Checking { files, of_files, bytes, of_bytes });
        };
        // The longest first, one at a time, so that the last thread does not begin with it.
        files.sort_by_key(|(.., member)| std::cmp::Reverse(member.bytes));
        let failures: Vec<Failure> = files
            .into_par_iter()
            .with_max_len(1)
            .filter_map(|(one, name, member)| {
                let damage = check_file(&one.entry.path(root).join(name), member, |bytes| told(0, bytes));
                told(1, 0);
                damage.map(|damage| one.failure(name, damage))
            })
            .collect();
        report.failures.extend(failures);
        // What was removed while it was checked is not damaged.
        report.failures.retain(|failure| failure.entry.path(root).join(MANIFEST).exists());
        report.failures.sort_by(|a, b| (&a.entry, &a.file).cmp(&(&b.entry, &b.file)));
        let litter = listing.listed.iter().filter(|listed| listed.entry().is_none());
        let litter = litter.filter(|listed| !matches!(listed.kind, Kind::Temporary));
        report.litter = litter.map(|listed| listed.path(Path::new(""))).collect();
        tracing::info!(
            entries = report.entries,
            files = report.files,
            bytes = report.bytes,
            failures = report.failures.len(),
            "cache verified"
        );
        Ok(report)
    }
}

/// An entry whose manifest was looked at.
struct Checked {
    entry: EntryName,
    manifest: Option<Manifest>,
    manifest_bytes: u64,
    failures: Vec<Failure>,
}

impl Checked {
    fn failure(&self, file: &str, damage: Damage) -> Failure {
        let key = self.manifest.as_ref().map(|manifest| manifest.key);
        Failure { entry: self.entry.clone(), key, file: file.to_owned(), damage }
    }
}

/// Checks the manifest of an entry, the key of its recipe, and that nothing lies beside its files.
fn check(root: &Path, entry: &EntryName) -> Checked {
    let folder = entry.path(root);
    let path = folder.join(MANIFEST);
    let manifest_bytes = fs::metadata(&path).map_or(0, |metadata| metadata.len());
    let mut checked = Checked { entry: entry.clone(), manifest: None, manifest_bytes, failures: Vec::new() };
    let fault = match Manifest::read(&path, entry) {
        Ok(manifest) => {
            checked.manifest = Some(manifest);
            None
        }
        Err(ReadFault::Absent) => Some(Damage::Missing),
        Err(ReadFault::Bad(reason)) => Some(Damage::Manifest { reason }),
        Err(ReadFault::Newer(schema)) => Some(Damage::Manifest {
            reason: format!("its schema {schema} is that of a newer program; upgrade"),
        }),
        Err(ReadFault::Io(error)) => Some(Damage::Unreadable { reason: error.to_string() }),
    };
    if let Some(damage) = fault {
        checked.failures.push(checked.failure(MANIFEST, damage));
    }
    let Some(manifest) = &checked.manifest else { return checked };
    let mut failures = Vec::new();
    let found = match manifest.recipe.key() {
        Ok(key) if key == manifest.key => None,
        Ok(key) => Some(key.to_string()),
        Err(error) => Some(format!("none: {error}")),
    };
    if let Some(found) = found {
        failures.push(checked.failure(MANIFEST, Damage::Key { expected: manifest.key.to_string(), found }));
    }
    if !manifest.seal().is_ok_and(|seal| seal == manifest.sha256) {
        let reason = "its own digest does not agree: something in it was changed".to_owned();
        failures.push(checked.failure(MANIFEST, Damage::Manifest { reason }));
    }
    match unlisted(&folder, &manifest.files) {
        Ok(names) => failures.extend(names.iter().map(|name| checked.failure(name, Damage::Unlisted))),
        Err(error) => failures.push(checked.failure("", Damage::Unreadable { reason: error.to_string() })),
    }
    checked.failures.extend(failures);
    checked
}

fn unlisted(folder: &Path, files: &BTreeMap<String, Member>) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != MANIFEST && !files.contains_key(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Checks one file: its size, its digest, its header.
fn check_file(path: &Path, member: &Member, read: impl FnMut(u64)) -> Option<Damage> {
    match hit::check_size(path, member) {
        Ok(None) => {}
        Ok(damage) => return damage,
        Err(error) => return Some(Damage::Unreadable { reason: error.to_string() }),
    }
    match Digest::of_file_told(path, read) {
        Ok(found) if found == member.sha256 => {}
        Ok(found) => return Some(Damage::Digest { expected: member.sha256, found }),
        Err(error) => return Some(Damage::Unreadable { reason: error.source.to_string() }),
    }
    let (Some(dtype), Some(shape)) = (member.dtype, &member.shape) else { return None };
    match FileMap::open(path) {
        Ok(map) => npy::check(&map, dtype, shape).err().map(|reason| Damage::Array { reason }),
        Err(error) => Some(Damage::Unreadable { reason: error.to_string() }),
    }
}
