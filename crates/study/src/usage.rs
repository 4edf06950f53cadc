//! What takes the space in a root, told by names and lengths alone: no file is opened.
//!
//! Records of several runs may stand in one part, so records are told as a whole; checkpoints, artifacts and figures lie
//! in the folders of their nodes, whose names say the run.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;

use serde::Serialize;
use waycairn_cache::{Kind, Listing};
use waycairn_dag::Address;
use waycairn_durable::Size;

use crate::analysis::ANALYSIS_FILE;
use crate::error::StudyError;
use crate::training::TRAINING_FILE;

/// What a piece of a root is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Area {
    /// `objects/values`: the records of all runs.
    Values,
    /// Parts that a compaction or a removal replaced; readers that began earlier may still read them.
    Replaced,
    /// `objects/blobs`: the checkpoints.
    Checkpoints,
    /// `objects/blobs`: artifacts, figures and other files of nodes.
    Artifacts,
    /// `cache`: the entries.
    Cache,
    /// `runs`: settings, states and results of studies.
    Runs,
    /// `source`: the archives of sources.
    Sources,
    /// `plugins`: libraries.
    Plugins,
    /// `locks`: files that nothing of any size stands in.
    Locks,
    /// `FORMAT`, `history.json`, `pins.json` and the copies of settings.
    Books,
    /// Hidden names: what is being made, what was set aside, and what a process that died left.
    Temporary,
    /// What no version of this program makes.
    Other,
}

impl Area {
    /// Its word, as in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Values => "values",
            Self::Replaced => "replaced",
            Self::Checkpoints => "checkpoints",
            Self::Artifacts => "artifacts",
            Self::Cache => "cache",
            Self::Runs => "runs",
            Self::Sources => "sources",
            Self::Plugins => "plugins",
            Self::Locks => "locks",
            Self::Books => "books",
            Self::Temporary => "temporary",
            Self::Other => "other",
        }
    }
}

/// What takes the space in a root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// All files.
    #[serde(flatten)]
    pub total: Size,
    /// The same by area, those without a file left out.
    pub areas: Vec<AreaUsage>,
    /// What lies at the nodes of each run, the largest first.
    pub runs: Vec<RunUsage>,
    /// The entries of the cache by product, the largest first.
    pub products: Vec<ProductUsage>,
    /// Every entry of the cache, the largest first.
    pub entries: Vec<EntryUsage>,
}

/// What one area takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AreaUsage {
    /// Which.
    pub area: Area,
    /// Its files.
    #[serde(flatten)]
    pub size: Size,
}

/// What lies at the nodes of one run. Its records are not told apart from those of others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RunUsage {
    /// The name of its nodes.
    pub name: String,
    /// Their nonce.
    pub nonce: String,
    /// How many of them have a folder.
    pub nodes: u64,
    /// Their checkpoints.
    pub checkpoints: Size,
    /// Their artifacts, figures and other files.
    pub artifacts: Size,
}

/// What the entries of one product take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProductUsage {
    /// The product.
    pub product: String,
    /// How many entries it has.
    pub entries: u64,
    /// Their files.
    #[serde(flatten)]
    pub size: Size,
}

/// What one entry of the cache takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EntryUsage {
    /// Its folder, from the root.
    pub path: String,
    /// Its files.
    #[serde(flatten)]
    pub size: Size,
}

impl Usage {
    /// Looks at a root; an absent one takes nothing. What vanishes meanwhile is left out.
    ///
    /// # Errors
    ///
    /// [`StudyError::Io`], [`StudyError::Commit`] and [`StudyError::Cache`] for a folder that cannot be listed.
    pub fn of(root: &Path) -> Result<Self, StudyError> {
        let mut look = Look::default();
        for entry in list(root)? {
            let path = entry.path();
            match entry.file_name().to_str() {
                Some(name) if name.starts_with('.') => look.add(Area::Temporary, Size::of(&path)?),
                Some("objects") => look.objects(&path)?,
                Some("cache") => look.cache(root, &path)?,
                Some("runs") => look.plain(Area::Runs, &path)?,
                Some("source") => look.plain(Area::Sources, &path)?,
                Some("plugins") => look.plain(Area::Plugins, &path)?,
                Some("locks") => look.plain(Area::Locks, &path)?,
                Some("FORMAT" | "history.json" | "pins.json" | TRAINING_FILE | ANALYSIS_FILE) => {
                    look.add(Area::Books, Size::of(&path)?)
                }
                _ => look.add(Area::Other, Size::of(&path)?),
            }
        }
        Ok(look.usage())
    }
}

/// A usage in the making.
#[derive(Default)]
struct Look {
    areas: BTreeMap<Area, Size>,
    runs: BTreeMap<(String, String), RunUsage>,
    products: BTreeMap<String, ProductUsage>,
    entries: Vec<EntryUsage>,
}

impl Look {
    fn add(&mut self, area: Area, size: Size) {
        *self.areas.entry(area).or_default() += size;
    }

    /// A folder of one area, with what is hidden in it, at any depth, told apart.
    fn plain(&mut self, area: Area, folder: &Path) -> Result<(), StudyError> {
        let (shown, hidden) = apart(folder)?;
        self.add(area, shown);
        self.add(Area::Temporary, hidden);
        Ok(())
    }

    fn objects(&mut self, folder: &Path) -> Result<(), StudyError> {
        for entry in list(folder)? {
            let path = entry.path();
            match entry.file_name().to_str() {
                Some("values") => self.values(&path)?,
                Some("blobs") => self.blobs(&path)?,
                _ => self.plain(Area::Other, &path)?,
            }
        }
        Ok(())
    }

    fn values(&mut self, folder: &Path) -> Result<(), StudyError> {
        for entry in list(folder)? {
            let name = entry.file_name();
            let area = match name.to_str().unwrap_or_default() {
                name if name.starts_with(".old-part-") => Area::Replaced,
                name if name.starts_with(".journal-") || name.starts_with(".damaged-journal-") => {
                    Area::Values
                }
                name if name.starts_with('.') => Area::Temporary,
                name if name.starts_with("part-") => Area::Values,
                _ => Area::Other,
            };
            self.add(area, Size::of(&entry.path())?);
        }
        Ok(())
    }

    fn blobs(&mut self, folder: &Path) -> Result<(), StudyError> {
        for entry in list(folder)? {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_str().unwrap_or_default();
            if name.starts_with('.') {
                self.add(Area::Temporary, Size::of(&path)?);
                continue;
            }
            let Ok(address) = name.parse::<Address>() else {
                self.add(Area::Other, Size::of(&path)?);
                continue;
            };
            let (mut checkpoint, mut artifacts) = (Size::default(), Size::default());
            for entry in list(&path)? {
                let (shown, hidden) = apart(&entry.path())?;
                self.add(Area::Temporary, hidden);
                if entry.file_name() == "checkpoint" { checkpoint += shown } else { artifacts += shown }
            }
            self.add(Area::Checkpoints, checkpoint);
            self.add(Area::Artifacts, artifacts);
            let node = address.decode();
            let key = (node.name().to_owned(), node.nonce().to_owned());
            let run = self.runs.entry(key.clone()).or_insert_with(|| RunUsage {
                name: key.0,
                nonce: key.1,
                ..RunUsage::default()
            });
            run.nodes += 1;
            run.checkpoints += checkpoint;
            run.artifacts += artifacts;
        }
        Ok(())
    }

    fn cache(&mut self, root: &Path, folder: &Path) -> Result<(), StudyError> {
        let listing = Listing::read(root)?;
        for listed in &listing.listed {
            let size = Size { files: listed.files, bytes: listed.bytes };
            match &listed.kind {
                Kind::Entry(entry) => {
                    self.add(Area::Cache, size);
                    self.entries.push(EntryUsage { path: crate::record::entry_path(entry), size });
                    let product = self.products.entry(entry.product().to_owned()).or_insert_with(|| {
                        ProductUsage { product: entry.product().to_owned(), ..ProductUsage::default() }
                    });
                    product.entries += 1;
                    product.size += size;
                }
                Kind::Bare(_) | Kind::Temporary | Kind::Aside => self.add(Area::Temporary, size),
                // The listing does not look into what is none of the cache's.
                Kind::Foreign => self.add(Area::Other, Size::of(&listed.path(root))?),
            }
        }
        for entry in list(folder)? {
            let name = entry.file_name();
            if !listing.products.iter().any(|product| name.to_str() == Some(product)) {
                self.plain(Area::Other, &entry.path())?;
            }
        }
        Ok(())
    }

    fn usage(self) -> Usage {
        let areas = self.areas.into_iter().filter(|(_, size)| size.files > 0);
        let areas: Vec<AreaUsage> = areas.map(|(area, size)| AreaUsage { area, size }).collect();
        let mut runs: Vec<RunUsage> = self.runs.into_values().collect();
        let mut products: Vec<ProductUsage> = self.products.into_values().collect();
        let mut entries = self.entries;
        // Stable, so that what is equal stands by name.
        runs.sort_by_key(|run| std::cmp::Reverse(run.checkpoints.bytes + run.artifacts.bytes));
        products.sort_by_key(|product| std::cmp::Reverse(product.size.bytes));
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.size.bytes));
        Usage { total: areas.iter().map(|area| area.size).sum(), areas, runs, products, entries }
    }
}

/// Measures a file or folder: what has a name that counts, and what is hidden at any depth.
fn apart(path: &Path) -> Result<(Size, Size), StudyError> {
    let hidden = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let (mut shown, mut aside) = (Size::default(), Size::default());
    let mut open = vec![path.to_owned()];
    while let Some(path) = open.pop() {
        if hidden(&path) {
            aside += Size::of(&path)?;
        } else if fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            open.extend(list(&path)?.into_iter().map(|entry| entry.path()));
        } else {
            shown += Size::of(&path)?;
        }
    }
    Ok((shown, aside))
}

/// What lies in a folder; nothing where it is gone, or is none.
fn list(folder: &Path) -> Result<Vec<DirEntry>, StudyError> {
    let io = |source| StudyError::Io { operation: "list", path: folder.to_owned(), source };
    match fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        entries => entries.map_err(io)?.collect::<io::Result<_>>().map_err(io),
    }
}

#[cfg(test)]
#[path = "usage/tests.rs"]
mod tests;
