//! Metrics and plots of the runs of a study: computed beside the old ones, and swapped in when all are there.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use waycairn_analysis_host::{AnalysisHost, ForeignAnalysis};
use waycairn_cache::{EntryName, Key};
use waycairn_dag::{Address, Node};
use waycairn_durable::{Digest, read_file, time};
use waycairn_store::{ObjectStore, StoreOptions};

use crate::analysis::AnalysisSettings;
use crate::error::StudyError;
use crate::graph::Graph;
use crate::launch::{Launch, ProductReport, StudyEvent};
use crate::making::{Shelved, StudyNode};
use crate::model::MODEL;
use crate::plan::{PlannedRun, chain, reasons};
use crate::record::{self, ANALYSIS, ARTIFACTS, ArtifactsFile, METRICS, RECORD_VERSION, Reference};
use crate::results::{self, Staged, metrics_text};
use crate::supply::Supply;

/// The state of a run's analysis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnalysisFile {
    /// The version of this file.
    pub version: u64,
    /// How far it is.
    pub state: AnalysisState,
    /// The analysis settings, sections of libraries included.
    pub settings: Value,
    /// The archive of the sources and settings.
    pub source: String,
    /// When it began: RFC 3339, UTC.
    pub started: String,
    /// When it ended.
    pub ended: Option<String>,
    /// The error and its causes, the first one first.
    pub error: Vec<String>,
    /// Where the error came from, if it was a panic.
    #[serde(default)]
    pub backtrace: Option<String>,
    /// What its products took, in the order in which they were built or found.
    #[serde(default)]
    pub products: Vec<ProductReport>,
    /// What is there, by metric and plot.
    pub results: BTreeMap<String, ResultOf>,
}

/// How far an analysis is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnalysisState {
    /// It runs, or its process died.
    Running,
    /// All metrics and plots are there.
    Complete,
    /// One of them failed; what was there before is there still.
    Failed,
}

/// One metric or plot that is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultOf {
    /// `metric` or `plot`.
    pub kind: String,
    /// The version of the analysis, its code, its settings and what it was computed from, digested.
    pub fingerprint: Digest,
    /// Its files, from the run's folder, each with the digest of its bytes.
    pub files: BTreeMap<String, Digest>,
    /// Seconds that it took.
    pub seconds: f64,
}

/// What the analysis of a run came to.
pub(crate) struct Analyzed {
    pub(crate) products: Vec<ProductReport>,
    /// The metrics and plots that were computed.
    pub(crate) computed: Vec<String>,
    /// Those that were there.
    pub(crate) kept: Vec<String>,
}

impl Launch<'_> {
    /// Computes the metrics and plots of a trained run. What is there and still holds is kept.
    pub(crate) fn analyze(
        &self,
        settings: &AnalysisSettings,
        run: &PlannedRun,
        graph: &Graph<'_>,
        observe: &mut dyn FnMut(&StudyEvent<'_>),
    ) -> Result<Analyzed, StudyError> {
        let root = self.training.output();
        let folder = root.join(&run.job.folder);
        let node = self.node(run)?;
        let there = record::read::<AnalysisFile>(&folder.join(ANALYSIS)).ok().flatten();
        let done = there.as_ref().is_some_and(|there| {
            there.is_complete(&folder, &graph.wanted) && root.join(&there.source).is_file()
        });

        // Complete with a product missing is not whole: the history is to name what is there.
        let there_all =
            || -> Option<Vec<_>> { graph.products.iter().map(|needed| self.unneeded(needed)).collect() };
        if done && let Some(products) = there_all() {
            self.refer(&folder, run, graph)?;
            let kept = graph.wanted.keys().cloned().collect();
            return Ok(Analyzed { products, computed: Vec::new(), kept });
        }

        let mut file = AnalysisFile {
            version: RECORD_VERSION,
            state: AnalysisState::Running,
            settings: settings.complete.clone(),
            source: self.analysis_source(settings, run)?,
            started: time::rfc3339_micros(time::now_nanos()),
            ended: None,
            error: Vec::new(),
            backtrace: None,
            products: Vec::new(),
            // What was there stays until the new results are whole.
            results: there.map(|there| there.results).unwrap_or_default(),
        };
        record::write(&folder.join(ANALYSIS), &file)?;
        let device = &run.job.request.device;
        let result = self.guard(|| {
            waycairn_train::at_node(self.experiments, root, &node, device, |host| {
                self.compute(settings, graph, run, host, &file, &node, observe)
            })?
        });
        let result = result.and_then(|computed| {
            file.results = computed.results;
            file.products = computed.products;
            computed.failed.map_or(Ok(computed.names), Err)
        });
        match result {
            Ok(computed) => {
                file.state = AnalysisState::Complete;
                file.ended = Some(time::rfc3339_micros(time::now_nanos()));
                self.refer(&folder, run, graph)?;
                record::write(&folder.join(ANALYSIS), &file)?;
                let kept = file.results.into_keys().filter(|name| !computed.contains(name)).collect();
                Ok(Analyzed { products: file.products, computed, kept })
            }
            Err(error @ StudyError::Stopped { .. }) => Err(error),
            Err(error) => {
                file.state = AnalysisState::Failed;
                file.error = chain(&error);
                file.backtrace = error.backtrace().map(str::to_owned);
                file.ended = Some(time::rfc3339_micros(time::now_nanos()));
                record::write(&folder.join(ANALYSIS), &file)?;
                Err(error)
            }
        }
    }

    /// The node that the run's model was taken at.
    fn node(&self, run: &PlannedRun) -> Result<Node, StudyError> {
        let folder = self.training.output().join(&run.job.folder);
        let recorded = record::read::<record::RunFile>(&folder.join(record::RUN))?.and_then(|file| file.node);
        let address = recorded.as_deref().map(str::parse::<Address>);
        match address {
            Some(Ok(address)) => Ok(address.decode()),
            _ => Err(StudyError::NotFound {
                what: format!("the run `{}` has not been trained", run.job.folder.display()),
                next: "train the study first: `waycairn train`, or `waycairn run` for both".to_owned(),
            }),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what one run is computed from, borrowed from one caller")]
    fn compute(
        &self,
        settings: &AnalysisSettings,
        graph: &Graph<'_>,
        run: &PlannedRun,
        host: &dyn AnalysisHost,
        there: &AnalysisFile,
        node: &Node,
        observe: &mut dyn FnMut(&StudyEvent<'_>),
    ) -> Result<Computed, StudyError> {
        let observe = RefCell::new(observe);
        let observer = |event: &StudyEvent<'_>| {
            // Whoever is told something tells nothing meanwhile.
            if let Ok(mut observe) = observe.try_borrow_mut() {
                observe(event);
            }
        };
        let folder = self.training.output().join(&run.job.folder);
        let staged = Staged::new(&folder)?;
        let mut results = BTreeMap::new();
        let mut wanted = Vec::new();
        for analysis in settings.analyses() {
            let declared = analysis.declaration();
            match there.results.get(analysis.id()) {
                Some(old)
                    if old.fingerprint == graph.wanted[analysis.id()]
                        // What is recorded elsewhere may have changed, and no key says so.
                        && declared.needs.scalars.is_empty()
                        && staged.keep(&folder, &old.files)? =>
                {
                    results.insert(analysis.id().to_owned(), old.clone());
                }
                _ => wanted.push(analysis),
            }
        }
        let names = wanted.iter().map(|analysis| analysis.id().to_owned()).collect();
        let mut supply = Supply::new(self, graph, host, &observer);
        for product in wanted.iter().flat_map(|analysis| &analysis.declaration().needs.products) {
            supply.ensure(product)?;
        }
        let mut shelf = supply.shelf();
        shelf.insert(MODEL.to_owned(), Shelved::new(|| self.cache.artifact_of_key(MODEL, &run.key)));
        let mut attached = Vec::new();
        for analysis in wanted {
            if self.stop.is_requested() {
                return Err(StudyError::Stopped { done: 0, of: 1 });
            }
            let declared = analysis.declaration();
            let name = &declared.name;
            let begin = Instant::now();
            let id = analysis.id();
            let own = settings.own.get(id).cloned().unwrap_or(Value::Null);
            let host = StudyNode {
                node: host,
                products: &shelf,
                study: &graph.study,
                stop: self.stop,
                observer: &observer,
                analysis: (declared.kind.as_str(), name),
            };
            let outputs = analysis.run(&host, &own).map_err(|error| StudyError::Failed {
                what: format!("the {} `{name}` failed", declared.kind),
                source: Box::new(error),
            })?;
            let files = staged.write(name, declared.kind, &outputs)?;
            let seconds = begin.elapsed().as_secs_f64();
            let (kind, fingerprint) = (declared.kind.as_str().to_owned(), graph.wanted[id]);
            results.insert(id.to_owned(), ResultOf { kind, fingerprint, files, seconds });
            let provenance = analysis.provenance(&own).map_err(|error| StudyError::Products {
                what: format!("the {} `{name}` cannot be recorded: {}", declared.kind, reasons(&error)),
            })?;
            let mut attachment = waycairn_train::attachment(id, &provenance, outputs);
            // The settings of the analysis alone do not tell two results apart: products and the study count too.
            attachment.fields.push((format!("{id}/fingerprint"), fingerprint.to_string().into()));
            attached.push(attachment);
        }
        staged.metrics(&results)?;
        // The node first: what is recorded there twice is recorded once, and the folder says when all is done.
        if !attached.is_empty() {
            let options =
                StoreOptions { job: Some(format!("study {}", run.label)), ..StoreOptions::default() };
            let store = ObjectStore::open(self.training.output(), options)?;
            for attachment in attached {
                store.attach(node, attachment)?;
            }
            store.close()?;
        }
        staged.swap(&folder)?;
        let failed = supply.rest().err();
        Ok(Computed { products: supply.reports(), results, names, failed })
    }

    /// Names the products in `artifacts.json`.
    fn refer(&self, folder: &Path, run: &PlannedRun, graph: &Graph<'_>) -> Result<(), StudyError> {
        let mut file = ArtifactsFile { version: RECORD_VERSION, ..ArtifactsFile::default() };
        let mut refer = |product: &str, key: &Key| -> Result<(), StudyError> {
            let entry = EntryName::new(product, key)?;
            file.artifacts.insert(product.to_owned(), Reference::new(&entry, key));
            Ok(())
        };
        refer(MODEL, &run.key)?;
        for needed in &graph.products {
            refer(&needed.recipe.product, &needed.key)?;
        }
        if record::read::<ArtifactsFile>(&folder.join(ARTIFACTS)).ok().flatten().as_ref() != Some(&file) {
            record::write(&folder.join(ARTIFACTS), &file)?;
        }
        Ok(())
    }
}

/// What the analyses of one run brought.
struct Computed {
    /// The metrics and plots that were not there.
    names: Vec<String>,
    products: Vec<ProductReport>,
    results: BTreeMap<String, ResultOf>,
    /// Why a product that none of them needed is not there.
    failed: Option<StudyError>,
}

impl AnalysisFile {
    /// Whether all that is wanted is there, by fingerprint and by digest, and nothing else.
    pub(crate) fn is_complete(&self, folder: &Path, wanted: &BTreeMap<String, Digest>) -> bool {
        let holds = |(name, fingerprint): (&String, &Digest)| {
            self.results.get(name).is_some_and(|result| result.fingerprint == *fingerprint)
        };
        self.state == AnalysisState::Complete
            && self.results.len() == wanted.len()
            && wanted.iter().all(holds)
            && self.faults(folder).is_empty()
    }

    /// What of the results is not as it was written: files of the run's folder, each with what is wrong.
    pub(crate) fn faults(&self, folder: &Path) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        for (file, digest) in self.results.values().flat_map(|result| &result.files) {
            if !results::is_result(file) {
                faults.push((ANALYSIS.to_owned(), format!("it names `{file}`, which is no result of a run")));
                continue;
            }
            match read_file(&folder.join(file)) {
                Ok(bytes) if Digest::of(&bytes) == *digest => {}
                Ok(_) => faults.push((file.clone(), "its bytes have another digest".to_owned())),
                Err(error) => faults.push((file.clone(), error.to_string())),
            }
        }
        if faults.is_empty() {
            let there = read_file(&folder.join(METRICS)).ok();
            let wanted = metrics_text(folder, &self.results).ok();
            if there != wanted.map(String::into_bytes) {
                let what = "it does not hold what the metrics of the run are; the next analysis writes it";
                faults.push((METRICS.to_owned(), what.to_owned()));
            }
        }
        faults
    }
}

/// What a result follows from: when this is the same, it is kept.
pub(crate) fn fingerprint(
    analysis: &ForeignAnalysis,
    settings: &AnalysisSettings,
    study: &Value,
    keys: &BTreeMap<String, Key>,
) -> Result<Digest, StudyError> {
    let declared = analysis.declaration();
    let told = |error: &dyn std::error::Error| StudyError::Products {
        what: format!("the {} `{}` cannot be planned: {}", declared.kind, declared.name, reasons(error)),
    };
    let code = if declared.sources.is_empty() {
        // Nothing tells which code computes it but the whole library.
        json!(analysis.digest())
    } else {
        json!(declared.sources)
    };
    let products: BTreeMap<&String, String> = declared
        .needs
        .products
        .iter()
        .filter_map(|name| Some((name, keys.get(name)?.digest().to_string())))
        .collect();
    let follows = json!({
        "name": declared.name,
        "version": declared.version,
        "code": code,
        "settings": settings.own.get(analysis.id()),
        "study": declared.needs.of_study(study).map_err(|error| told(&error))?,
        "products": products,
        "model": keys.get(MODEL).map(|key| key.digest().to_string()),
    });
    Ok(Digest::of(follows.to_string().as_bytes()))
}
