//! The products that the analyses of one run need: which, in what order, with which recipes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use waycairn_analysis_host::{ForeignProduct, RunError};
use waycairn_cache::{EntryName, Implementation, Key, Recipe};
use waycairn_durable::Digest;

use crate::analysis::AnalysisSettings;
use crate::analyze::fingerprint;
use crate::error::StudyError;
use crate::launch::ProductReport;
use crate::model::MODEL;
use crate::plan::{PlannedRun, backend, reasons};

/// The products of one run, each after those that it depends on.
#[derive(Debug)]
pub(crate) struct Graph<'a> {
    pub(crate) products: Vec<NeededProduct<'a>>,
    /// What its analyses see of the settings of the study.
    pub(crate) study: Value,
    /// The fingerprints of its metrics and plots, by name.
    pub(crate) wanted: BTreeMap<String, Digest>,
}

/// One product of a run.
#[derive(Debug)]
pub(crate) struct NeededProduct<'a> {
    pub(crate) product: &'a ForeignProduct,
    pub(crate) recipe: Recipe,
    pub(crate) key: Key,
    pub(crate) estimate: Value,
    /// Why it may not be built.
    pub(crate) errors: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

impl<'a> Graph<'a> {
    /// Works out the products of a run.
    ///
    /// # Errors
    ///
    /// [`StudyError::Products`] for a product that no library has, for a circle, and for a function that the experiment does
    /// not have; [`StudyError::Settings`] for a setting that a product cannot be built with.
    pub(crate) fn new(
        settings: &'a AnalysisSettings,
        experiment: &str,
        run: &PlannedRun,
    ) -> Result<Self, StudyError> {
        let training = json!(run.job.settings);
        let study = json!({ "training": training, "analysis": settings.complete, "member": run.job.member });
        let mut graph = Self { products: Vec::new(), study, wanted: BTreeMap::new() };
        let making = Making { settings, experiment, run, training };
        for analysis in settings.analyses() {
            let declared = analysis.declaration();
            for product in &declared.needs.products {
                let reason = format!("the {} `{}` needs it", declared.kind, declared.name);
                making.add(&mut graph, product, &mut Vec::new(), &reason)?;
            }
            // Rather now than when everything is trained.
            declared.needs.check_functions(&run.description.functions).map_err(|what| {
                StudyError::Products {
                    what: format!("the {} `{}` cannot be planned: {what}", declared.kind, declared.name),
                }
            })?;
        }
        let keys = graph.keys(run);
        for analysis in settings.analyses() {
            let name = analysis.id().to_owned();
            graph.wanted.insert(name, fingerprint(analysis, settings, &graph.study, &keys)?);
        }
        Ok(graph)
    }

    /// The cache entries of the products.
    pub(crate) fn entries(&self) -> Result<BTreeSet<EntryName>, StudyError> {
        let entries = self.products.iter().map(|needed| EntryName::new(&needed.recipe.product, &needed.key));
        Ok(entries.collect::<Result<_, _>>()?)
    }

    /// The key of a product, or of the model.
    fn keys(&self, run: &PlannedRun) -> BTreeMap<String, Key> {
        let products =
            self.products.iter().map(|needed| (needed.product.declaration().name.clone(), needed.key));
        products.chain([(MODEL.to_owned(), run.key)]).collect()
    }
}

impl NeededProduct<'_> {
    /// What a launch tells of it.
    pub(crate) fn report(&self, status: &str, bytes: u64, seconds: f64) -> ProductReport {
        ProductReport {
            product: self.recipe.product.clone(),
            key: self.key.digest().to_string(),
            status: status.to_owned(),
            bytes,
            seconds,
            estimate: self.estimate.clone(),
        }
    }
}

struct Making<'a, 'p> {
    settings: &'a AnalysisSettings,
    experiment: &'p str,
    run: &'p PlannedRun,
    training: Value,
}

impl<'a> Making<'a, '_> {
    /// Adds a product after what it depends on; `path` holds what is being added, the outermost first.
    fn add(
        &self,
        graph: &mut Graph<'a>,
        name: &str,
        path: &mut Vec<String>,
        reason: &str,
    ) -> Result<(), StudyError> {
        if name == MODEL || graph.products.iter().any(|known| known.product.declaration().name == name) {
            return Ok(());
        }
        if path.iter().any(|known| known == name) {
            let circle = path.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join("` -> `");
            return Err(StudyError::Products {
                what: format!("products depend on each other in a circle: `{circle}`"),
            });
        }
        let named = self.settings.products(name);
        if let [one, other, ..] = named.as_slice() {
            return Err(StudyError::Products {
                what: format!(
                    "two plugins have the product `{name}`: `{}` and `{}`; leave one of them out",
                    one.path().display(),
                    other.path().display()
                ),
            });
        }
        let product = named.first().copied().ok_or_else(|| {
            let known = self.settings.product_names();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            StudyError::Products {
                what: format!(
                    "no plugin that was found has the product `{name}` ({reason}); there are {known}"
                ),
            }
        })?;
        let declared = product.declaration();
        path.push(name.to_owned());
        for dependency in &declared.products {
            self.add(graph, dependency, path, &format!("the product `{name}` depends on it"))?;
        }
        path.pop();
        let cannot = |what: String| StudyError::Products {
            what: format!("the product `{name}` cannot be planned: {what}"),
        };
        let told = |error: RunError| {
            let of_setting = match &error {
                RunError::ProductFailed { text, .. } => self.settings.refused(text),
                _ => None,
            };
            of_setting.map_or_else(|| cannot(reasons(&error)), StudyError::from)
        };
        declared.check_functions(&self.run.description.functions).map_err(cannot)?;
        let selected =
            product.select(&self.training, &self.settings.complete, &self.run.job.member).map_err(told)?;
        let checked = product.check(&selected).map_err(told)?;
        let estimate = product.estimate(&selected).map_err(told)?;
        let mut implementation = Implementation::new(declared.version);
        implementation.sources = declared.sources.clone();
        if implementation.sources.is_empty() {
            // Nothing tells which code builds it but the whole library.
            implementation.sources.insert("library".to_owned(), product.digest());
        }
        let mut recipe = Recipe::new(name, self.experiment, &selected, implementation)?;
        let keys = graph.keys(self.run);
        let model = declared.model.then_some(MODEL);
        for dependency in declared.products.iter().map(String::as_str).chain(model) {
            if let Some(key) = keys.get(dependency) {
                recipe = recipe.with_dependency(dependency, *key);
            }
        }
        if declared.backend {
            recipe = recipe.with_backend(backend(&self.run.description));
        }
        let key = recipe.key()?;
        graph.products.push(NeededProduct {
            product,
            recipe,
            key,
            estimate,
            errors: checked.errors,
            warnings: checked.warnings,
        });
        Ok(())
    }
}
