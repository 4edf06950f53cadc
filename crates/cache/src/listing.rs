//! The listing: what lies in `cache/`, told by names, without reading manifests.

use std::ffi::OsString;
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use waycairn_durable::{is_temporary, time};

use crate::CacheError;
use crate::cache::Cache;
use crate::layout::{DAMAGED, EntryName, LITTER, MANIFEST, cache_folder, check_product};

/// Is what lies in the cache of a root at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Whether there is a folder `cache` at all.
    pub present: bool,
    /// The folders of products in it, sorted.
    pub products: Vec<Arc<str>>,
    /// What lies in those, sorted by product and name.
    pub listed: Vec<Listed>,
}

/// Is one thing that lies in the folder of a product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The folder that it lies in.
    pub product: Arc<str>,
    /// Its name there.
    pub name: OsString,
    /// What its name and content say that it is.
    pub kind: Kind,
    /// When it was changed last, in nanoseconds since 1970; for what was never committed, it or anything in it.
    pub modified: i64,
    /// How many bytes its files have.
    pub bytes: u64,
    /// How many files it has.
    pub files: u64,
}

/// Says what a name in the folder of a product is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A folder with the name of a key and a manifest.
    Entry(EntryName),
    /// A folder with the name of a key and no manifest. It never counts.
    Bare(EntryName),
    /// What a build or a removal left: `.tmp-*`.
    Temporary,
    /// What was set aside: damaged entries, and what had the name of one.
    Aside,
    /// Nothing that the cache makes.
    Foreign,
}

impl Listed {
    /// The path of it.
    #[must_use]
    pub fn path(&self, root: &Path) -> PathBuf {
        cache_folder(root).join(&*self.product).join(&self.name)
    }

    /// The entry that it is, if it counts as one.
    #[must_use]
    pub fn entry(&self) -> Option<&EntryName> {
        match &self.kind {
            Kind::Entry(entry) => Some(entry),
            _ => None,
        }
    }
}

impl Listing {
    /// Lists a root. An absent one is empty.
    ///
    /// # Errors
    ///
    /// [`CacheError::Io`] for a folder that cannot be listed. What vanishes meanwhile is left out.
    pub fn read(root: &Path) -> Result<Self, CacheError> {
        let folder = cache_folder(root);
        let mut listing = Self::default();
        let Some(entries) = list(&folder)? else { return Ok(listing) };
        listing.present = true;
        for entry in entries {
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| check_product(name).is_ok()) else { continue };
            if entry.path().is_dir() {
                listing.products.push(name.into());
            }
        }
        listing.products.sort_unstable();
        for product in &listing.products {
            let Some(entries) = list(&folder.join(&**product))? else { continue };
            let listed: Result<Vec<Option<Listed>>, CacheError> =
                entries.into_par_iter().with_min_len(64).map(|entry| look(product, &entry)).collect();
            listing.listed.extend(listed?.into_iter().flatten());
        }
        listing.listed.par_sort_unstable_by(|a, b| (&a.product, &a.name).cmp(&(&b.product, &b.name)));
        Ok(listing)
    }

    /// The entries that count.
    pub fn entries(&self) -> impl Iterator<Item = &EntryName> {
        self.listed.iter().filter_map(Listed::entry)
    }
}

impl Cache {
    /// Lists the root; see [`Listing::read`].
    ///
    /// # Errors
    ///
    /// As [`Listing::read`].
    pub fn listing(&self) -> Result<Listing, CacheError> {
        Listing::read(self.root())
    }
}

fn list(folder: &Path) -> Result<Option<Vec<DirEntry>>, CacheError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries.map_err(CacheError::io("list the folder", folder))?,
    };
    let entries: io::Result<Vec<DirEntry>> = entries.collect();
    Ok(Some(entries.map_err(CacheError::io("list the folder", folder))?))
}

fn look(product: &Arc<str>, entry: &DirEntry) -> Result<Option<Listed>, CacheError> {
    let path = entry.path();
    match measure(product, entry, &path) {
        Ok(listed) => Ok(Some(listed)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CacheError::io("look at", &path)(error)),
    }
}

fn measure(product: &Arc<str>, entry: &DirEntry, path: &Path) -> io::Result<Listed> {
    let name = entry.file_name();
    // Of the name itself: a symbolic link is nothing that the cache makes.
    let metadata = entry.metadata()?;
    let is_ours = |name: &str| name.starts_with(DAMAGED) || name.starts_with(LITTER);
    let mut kind = match name.to_str() {
        _ if is_temporary(&name) => Kind::Temporary,
        Some(text) if is_ours(text) => Kind::Aside,
        Some(text) if metadata.is_dir() => {
            EntryName::from_folder(product, text).map_or(Kind::Foreign, Kind::Bare)
        }
        _ => Kind::Foreign,
    };
    let mut sum = Sum { modified: nanos(&metadata)?, bytes: 0, files: 0, manifest: false };
    match &kind {
        Kind::Foreign if metadata.is_dir() => {}
        _ if metadata.is_dir() => sum.add_folder(path)?,
        _ => (sum.bytes, sum.files) = (metadata.len(), 1),
    }
    let mut modified = sum.modified;
    if let Kind::Bare(entry) = &kind
        && sum.manifest
    {
        kind = Kind::Entry(entry.clone());
        modified = nanos(&metadata)?;
    }
    Ok(Listed { product: Arc::clone(product), name, kind, modified, bytes: sum.bytes, files: sum.files })
}

struct Sum {
    modified: i64,
    bytes: u64,
    files: u64,
    /// Whether the manifest is among the files of the outermost folder.
    manifest: bool,
}

impl Sum {
    fn add_folder(&mut self, folder: &Path) -> io::Result<()> {
        let mut folders = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            self.manifest |= entry.file_name() == MANIFEST;
            self.add(&entry, &mut folders)?;
        }
        // The cache makes no folders in folders; somebody's litter may have some.
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                self.add(&entry?, &mut folders)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, entry: &DirEntry, folders: &mut Vec<PathBuf>) -> io::Result<()> {
        let metadata = match entry.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            metadata => metadata?,
        };
        self.modified = self.modified.max(nanos(&metadata)?);
        if metadata.is_dir() {
            folders.push(entry.path());
        } else {
            self.bytes += metadata.len();
            self.files += 1;
        }
        Ok(())
    }
}

fn nanos(metadata: &Metadata) -> io::Result<i64> {
    Ok(time::from_system(metadata.modified()?))
}
