//! Opening a library: what it is, who built it, what it has, in this order.

#![expect(unsafe_code, reason = "a library is opened, and its header read by its address")]

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use waycairn_analysis_api::host::{API_VERSION, OpenError, Plugin, SYMBOL, open};
use waycairn_durable::Digest;

use crate::declared::{Declared, Kind};
use crate::error::{DeclarationError, LoadError, SettingsError};
use crate::foreign::{ForeignAnalysis, Origin, library_name};
use crate::image;
use crate::product::{DeclaredProduct, ForeignProduct};
use crate::settings;

/// A plugin's library. It stays open for the rest of the process, also when this value is gone: what it exports
/// is used as `'static`.
///
/// A library is native code with the rights of the user. Opening one runs its constructors; a fault in it is a
/// fault of the process. Open only what a user named or placed.
#[derive(Debug)]
pub struct Library {
    origin: Arc<Origin>,
    api_version: String,
    analyses: Vec<ForeignAnalysis>,
    refused: Vec<Refused>,
    products: Vec<ForeignProduct>,
    refused_products: Vec<Refused>,
    settings: Value,
}

/// An analysis or a product of a library that cannot be used; its neighbours can.
#[derive(Debug)]
#[non_exhaustive]
pub struct Refused {
    /// Its place in the library, from 0.
    pub index: usize,
    /// Why.
    pub error: DeclarationError,
}

impl Library {
    /// Opens a library and reads the declarations of its analyses and products.
    ///
    /// # Errors
    /// [`LoadError`], with the path as it was given. A truncated file, another architecture and a library without
    /// analyses are found by reading the file; a version or a layout that does not fit is found before anything
    /// of the plugin is called.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let _span = tracing::debug_span!("analysis-host.open", path = %path.display()).entered();
        let bytes = image::read(path)?;
        image::check(path, &bytes)?;
        let digest = Digest::of(&bytes);
        drop(bytes);

        let plugin = load(path)?;
        let origin = Arc::new(Origin::new(path.to_owned(), digest));
        let mut library = Self {
            origin: Arc::clone(&origin),
            api_version: plugin.version(),
            analyses: Vec::new(),
            refused: Vec::new(),
            products: Vec::new(),
            refused_products: Vec::new(),
            settings: read_settings(path, &plugin)?,
        };
        for index in 0..plugin.count() {
            match Declared::ask(&plugin, index) {
                Ok(declared) if library.has(&declared) => {
                    let error = DeclarationError::Repeated { name: declared.name };
                    library.refuse(index, error);
                }
                Ok(declared) => {
                    library.analyses.push(ForeignAnalysis::new(plugin, index, declared, Arc::clone(&origin)));
                }
                Err(error) => library.refuse(index, error),
            }
        }
        library.name_plots();
        for index in 0..plugin.products() {
            match DeclaredProduct::ask(&plugin, index) {
                Ok(declared) if library.has_product(&declared.name) => {
                    let error = DeclarationError::Repeated { name: declared.name };
                    library.refuse_product(index, error);
                }
                Ok(declared) => {
                    library.products.push(ForeignProduct::new(plugin, index, declared, Arc::clone(&origin)));
                }
                Err(error) => library.refuse_product(index, error),
            }
        }
        tracing::debug!(
            sha256 = %digest.short(),
            api = %library.api_version,
            analyses = library.analyses.len(),
            products = library.products.len(),
            refused = library.refused.len(),
            "plugin opened"
        );
        Ok(library)
    }

    /// Whether there is one that this one could be taken for: of its name, and not a metric beside a plot.
    fn has(&self, declared: &Declared) -> bool {
        self.analyses.iter().map(ForeignAnalysis::declaration).any(|known| {
            let beside = matches!(
                (known.kind, declared.kind),
                (Kind::Metric, Kind::Plot) | (Kind::Plot, Kind::Metric)
            );
            known.name == declared.name && !beside
        })
    }

    /// Gives each plot that is called as a metric an id of its own.
    fn name_plots(&mut self) {
        let of = |kind| move |known: &&ForeignAnalysis| known.declaration().kind == kind;
        let metrics: Vec<String> = self
            .analyses
            .iter()
            .filter(of(Kind::Metric))
            .map(|metric| metric.declaration().name.clone())
            .collect();
        let named = std::mem::take(&mut self.analyses).into_iter().map(|known| {
            let declared = known.declaration();
            if declared.kind == Kind::Plot && metrics.contains(&declared.name) {
                known.beside_its_metric()
            } else {
                known
            }
        });
        self.analyses = named.collect();
    }

    fn refuse(&mut self, index: usize, error: DeclarationError) {
        tracing::warn!(path = %self.origin.path.display(), index, error = %error, "analysis refused");
        self.refused.push(Refused { index, error });
    }

    fn has_product(&self, name: &str) -> bool {
        self.products.iter().any(|product| product.declaration().name == name)
    }

    fn refuse_product(&mut self, index: usize, error: DeclarationError) {
        tracing::warn!(path = %self.origin.path.display(), index, error = %error, "product refused");
        self.refused_products.push(Refused { index, error });
    }

    /// The analyses that can be run, in the library's order.
    #[must_use]
    pub fn analyses(&self) -> &[ForeignAnalysis] {
        &self.analyses
    }

    /// The analyses that cannot, and why.
    #[must_use]
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// The products that can be built, in the library's order.
    #[must_use]
    pub fn products(&self) -> &[ForeignProduct] {
        &self.products
    }

    /// The products that cannot, and why.
    #[must_use]
    pub fn refused_products(&self) -> &[Refused] {
        &self.refused_products
    }

    /// The settings that it adds to a study: an object of sections, each an object of names and defaults.
    #[must_use]
    pub fn settings(&self) -> &Value {
        &self.settings
    }

    /// The defaults of [`Library::settings`] with a user's values put over them, as for an analysis: nested objects, or
    /// paths with dots. `null` gives the defaults.
    ///
    /// # Errors
    /// [`SettingsError`] for a setting that there is not, with the nearest name, and for a value of another type.
    pub fn resolve_settings(&self, given: &Value) -> Result<Value, SettingsError> {
        let owner = format!("plugin `{}`", library_name(&self.origin.path));
        settings::resolve(&owner, &self.settings, given)
    }

    /// The SHA-256 of the file.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.origin.digest
    }

    /// The path as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.origin.path
    }

    /// The version of the interface that it was built with.
    #[must_use]
    pub fn api_version(&self) -> &str {
        &self.api_version
    }
}

fn read_settings(path: &Path, plugin: &Plugin) -> Result<Value, LoadError> {
    let refused = |what: String| LoadError::Settings { path: path.to_owned(), what };
    let text = plugin.settings().map_err(|failure| refused(failure.message))?;
    let settings: Value = serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
    let sections = settings.as_object().ok_or_else(|| refused("they are no JSON object".to_owned()))?;
    match sections.iter().find(|(_, section)| !section.is_object()) {
        Some((name, _)) => Err(refused(format!("the section `{name}` is no object of names and defaults"))),
        None => Ok(settings),
    }
}

/// Opens a checked file and shakes hands.
fn load(path: &Path) -> Result<Plugin, LoadError> {
    // A path without a slash would be searched for in the system's folders.
    let absolute: PathBuf =
        path.canonicalize().map_err(|source| LoadError::Io { op: "find", path: path.to_owned(), source })?;
    // SAFETY: the library's constructors run here; the user named or placed this file, and `image::check` has seen
    // that it is a whole plugin for this machine.
    let library = unsafe { open_library(&absolute) }
        .map_err(|error| LoadError::Refused { path: path.to_owned(), what: error.to_string() })?;
    // SAFETY: the symbol is only used as an address, which is what `*const c_void` reads it as.
    let header = unsafe { library.get::<*const c_void>(SYMBOL) }
        .map(|symbol| *symbol)
        .map_err(|_| LoadError::NoRootModule { path: path.to_owned() });
    // Never closed: thread-local destructors and whatever the plugin started may still run its code.
    std::mem::forget(library);
    // SAFETY: the address is that of the header's symbol, in a library that stays open.
    unsafe { open(header?) }.map_err(|error| refused(path, error))
}

/// Resolves every symbol now: one that is missing is an error here, not the end of the process at its first use.
#[cfg(unix)]
unsafe fn open_library(path: &Path) -> Result<libloading::Library, libloading::Error> {
    use libloading::os::unix;
    // SAFETY: by the caller's promise.
    unsafe { unix::Library::open(Some(path), unix::RTLD_NOW | unix::RTLD_LOCAL) }.map(Into::into)
}

#[cfg(not(unix))]
unsafe fn open_library(path: &Path) -> Result<libloading::Library, libloading::Error> {
    // SAFETY: by the caller's promise.
    unsafe { libloading::Library::new(path) }
}

fn refused(path: &Path, error: OpenError) -> LoadError {
    let path = path.to_owned();
    match error {
        OpenError::Api { plugin, host } => LoadError::Api { path, plugin, host },
        OpenError::Layout { expected, found, detail } => {
            tracing::debug!(path = %path.display(), "layouts compared:\n{detail}");
            LoadError::Layout { path, expected, found }
        }
        OpenError::Start { text } => LoadError::Start { path, what: text },
        OpenError::Foundation { text } => {
            LoadError::Foundation { path, what: text, host: API_VERSION.to_owned() }
        }
        other => LoadError::Foundation { path, what: other.to_string(), host: API_VERSION.to_owned() },
    }
}
