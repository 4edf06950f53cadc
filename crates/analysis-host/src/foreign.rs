//! One analysis of a loaded library, as a safe value.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use serde_json::Value;
use waycairn_analysis_api::host::{Facts, Plugin};
use waycairn_analysis_api::{ErrorKind, Failure};
use waycairn_durable::Digest;

use crate::declared::Declared;
use crate::error::{RunError, SettingsError};
use crate::host::AnalysisHost;
use crate::outputs::Outputs;
use crate::session::Session;
use crate::settings;

/// The file that an analysis came from.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) path: PathBuf,
    pub(crate) digest: Digest,
    /// Done when the library was told how many threads it may have.
    told: Once,
}

impl Origin {
    pub(crate) fn new(path: PathBuf, digest: Digest) -> Self {
        Self { path, digest, told: Once::new() }
    }

    /// Tells the library how many threads it may have, at the first call only: a pool is made once. Whoever else is about to
    /// call waits until it was told.
    pub(crate) fn tell_threads(&self, plugin: &Plugin, number: usize) {
        self.told.call_once(|| {
            // No result depends on the number, so none is refused for it.
            if let Err(failure) = plugin.use_threads(number) {
                let (path, error) = (self.path.display(), failure.message);
                tracing::warn!(%path, number, %error, "the plugin failed to take its number of threads");
            }
        });
    }
}

/// One analysis.
///
/// # Concurrency
/// It may be run for several nodes at once: each run has its own value of the analysis and its own outputs.
#[derive(Clone, Debug)]
pub struct ForeignAnalysis {
    plugin: Plugin,
    index: usize,
    declared: Declared,
    id: String,
    origin: Arc<Origin>,
}

impl ForeignAnalysis {
    pub(crate) fn new(plugin: Plugin, index: usize, declared: Declared, origin: Arc<Origin>) -> Self {
        Self { plugin, index, id: declared.name.clone(), declared, origin }
    }

    /// Gives a plot whose name is a metric's as well an id of its own.
    pub(crate) fn beside_its_metric(self) -> Self {
        // No name has a dot.
        Self { id: format!("plot.{}", self.declared.name), ..self }
    }

    /// What its results are recorded under: its name; `plot.NAME` where its library has a metric of that name too.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What it declared.
    #[must_use]
    pub fn declaration(&self) -> &Declared {
        &self.declared
    }

    /// The library it came from, as it was named.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.origin.path
    }

    /// The SHA-256 of that library.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.origin.digest
    }

    /// The defaults with a user's values put over them: nested objects, or paths with dots. `null` gives the
    /// defaults.
    ///
    /// # Errors
    /// [`SettingsError`] for a setting that there is not, with the nearest name, and for a value of another type.
    pub fn resolve_settings(&self, given: &Value) -> Result<Value, SettingsError> {
        settings::resolve(&self.owner(), &self.declared.settings, given)
    }

    fn owner(&self) -> String {
        format!("analysis `{}`", self.declared.name)
    }

    /// Values of a command line, `path=value` each, as settings to resolve: text where the default is text,
    /// otherwise JSON (`true`, `3`, `[1, 2]`), otherwise text. A later value of one path wins.
    #[must_use]
    pub fn settings_from_text(&self, sets: &[(String, String)]) -> Value {
        settings::from_text(&self.declared.settings, sets)
    }

    /// What to record beside the results of a run with these settings.
    ///
    /// # Errors
    /// As [`ForeignAnalysis::resolve_settings`].
    pub fn provenance(&self, given: &Value) -> Result<Provenance, SettingsError> {
        let settings = self.resolve_settings(given)?;
        let text = serde_jcs::to_vec(&settings)
            .map_err(|error| SettingsError::Digest { owner: self.owner(), text: error.to_string() })?;
        Ok(Provenance {
            plugin: library_name(&self.origin.path),
            plugin_version: self.declared.version.clone(),
            plugin_sha256: self.origin.digest,
            settings_sha256: Digest::of(&text),
        })
    }

    /// Runs the analysis for one node.
    ///
    /// The settings are resolved first. What the analysis emits is collected and answered only if all of it went
    /// well: the call itself, the analysis's destructor, and every output.
    ///
    /// # Errors
    /// [`RunError::Settings`] before the call; the analysis's own error, its panic, or an output that was refused.
    pub fn run(&self, host: &dyn AnalysisHost, given: &Value) -> Result<Outputs, RunError> {
        let settings = self.resolve_settings(given)?;
        if let Some(known) = host.functions() {
            self.declared.needs.check_functions(&known).map_err(|text| self.refused(text))?;
        }
        let node = host.node();
        let facts = Facts {
            name: node.name,
            nonce: node.nonce,
            seq: node.seq,
            address: node.address,
            parents: host.parents(),
            settings: settings.to_string(),
            experiment_settings: host.experiment_settings().to_string(),
            study: self.study(host)?.to_string(),
        };
        let span = tracing::debug_span!(
            "analysis-host.run",
            analysis = %self.declared.name,
            node = %facts.address
        );
        let _entered = span.enter();
        self.origin.tell_threads(&self.plugin, host.threads());
        let session = Session::new(&self.declared, host, &facts.address);
        let outcome = self.plugin.analyze(self.index, &facts, &session);
        let collector = session.into_collector();
        let analysis = || self.declared.name.clone();
        match outcome {
            Err(failure) => Err(failed(analysis(), failure)),
            Ok(()) => {
                let missing = || collector.missing(self.declared.kind).map(str::to_owned);
                match collector.refused.clone().or_else(missing) {
                    Some(text) => Err(RunError::Output { analysis: analysis(), text }),
                    None => Ok(collector.outputs),
                }
            }
        }
    }

    fn study(&self, host: &dyn AnalysisHost) -> Result<Value, RunError> {
        let needs = &self.declared.needs;
        if needs.study.is_empty() {
            return Ok(Value::Null);
        }
        needs.of_study(&host.study()).map_err(|error| self.refused(error.to_string()))
    }

    fn refused(&self, text: String) -> RunError {
        RunError::Failed { analysis: self.declared.name.clone(), text }
    }
}

fn failed(analysis: String, failure: Failure) -> RunError {
    match failure.kind {
        ErrorKind::Panicked => {
            RunError::Panicked { analysis, text: failure.message, backtrace: failure.backtrace }
        }
        _ => RunError::Failed { analysis, text: failure.message },
    }
}

/// Where a result came from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Provenance {
    /// The library's name, without what a system puts around it: `waycairn_summary`.
    pub plugin: String,
    /// The version that the analysis declared.
    pub plugin_version: String,
    /// The SHA-256 of the library's file.
    pub plugin_sha256: Digest,
    /// The SHA-256 of the canonical JSON text (RFC 8785) of the settings, defaults included.
    pub settings_sha256: Digest,
}

impl Provenance {
    /// The keys and values to record: `<analysis>/plugin` and so on.
    #[must_use]
    pub fn fields(&self, analysis: &str) -> [(String, String); 4] {
        let key = |name: &str| format!("{analysis}/{name}");
        [
            (key("plugin"), self.plugin.clone()),
            (key("plugin_version"), self.plugin_version.clone()),
            (key("plugin_sha256"), self.plugin_sha256.to_string()),
            (key("settings_sha256"), self.settings_sha256.to_string()),
        ]
    }
}

pub(crate) fn library_name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem.strip_prefix(std::env::consts::DLL_PREFIX).unwrap_or(&stem).to_owned()
}
