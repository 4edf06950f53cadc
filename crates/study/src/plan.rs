//! What a launch would do, and whether it may: nothing here writes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Serialize;
use waycairn_cache::{Backend, Cache, CacheError, EntryName, Key, Lookup, Recipe, Why};
use waycairn_durable::Digest;
use waycairn_train::{Description, Experiments};

use crate::analysis::AnalysisSettings;
use crate::error::StudyError;
use crate::graph::{Graph, NeededProduct};
use crate::model;
use crate::training::{Job, Training, identity};

/// A launch, worked out: every run with its recipe and what it will take.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What tells its settings from others: every run, and neither the output nor how a launch computes.
    pub digest: Digest,
    /// The runs, in the order in which they are done.
    pub runs: Vec<PlannedRun>,
}

/// One run of a plan.
#[derive(Clone, Debug)]
pub struct PlannedRun {
    /// The run.
    pub job: Job,
    /// `baseline`, or the changed setting and its value.
    pub label: String,
    /// What its model follows from.
    pub recipe: Recipe,
    /// The key of that.
    pub key: Key,
    /// Whether the model is there.
    pub state: ProductState,
    /// What the experiment says of it.
    pub description: Description,
}

/// One product of a run of a plan.
#[derive(Clone, Debug)]
pub struct PlannedProduct {
    /// What it follows from.
    pub recipe: Recipe,
    /// The key of that.
    pub key: Key,
    /// Whether it is there.
    pub state: ProductState,
    /// What building it takes, as its plugin says.
    pub estimate: serde_json::Value,
}

/// Whether a product is in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProductState {
    /// It is there.
    Hit,
    /// It is to be built.
    Miss,
    /// It is there, and damaged.
    Damaged,
}

impl Plan {
    /// Works out every run of a training, and refuses the whole if one of its configurations is over a limit.
    ///
    /// # Errors
    ///
    /// [`StudyError::OverLimit`] names each configuration that is refused, with the reason.
    pub fn new(experiments: &Experiments, training: &Training) -> Result<Self, StudyError> {
        let cache = Cache::open(&training.output)?;
        let jobs = training.jobs(experiments)?;
        let mut refusals: Vec<String> = Vec::new();
        let mut refused: BTreeSet<String> = BTreeSet::new();
        let mut runs = Vec::with_capacity(jobs.len());
        for (job, description) in jobs {
            let configuration = &training.configurations[job.configuration];
            let label = configuration.label();
            let run = PlannedRun::new(&cache, &training.experiment, job, label, description)?;
            // What is trained needs no memory any more.
            if let (ProductState::Miss, Some(over)) = (run.state, &run.description.over_memory) {
                let refusal = format!("`{}`: {over}", run.label);
                refused.insert(run.label.clone());
                // Members of one configuration are refused for one reason.
                if !refusals.contains(&refusal) {
                    refusals.push(refusal);
                }
            }
            runs.push(run);
        }
        if !refusals.is_empty() {
            return Err(StudyError::OverLimit {
                refused: refused.len(),
                refusals,
                of: training.configurations.len(),
            });
        }
        let digests: Vec<String> = runs.iter().map(|run| run.job.digest.to_string()).collect();
        let digest = identity(&digests.iter().map(String::as_str).collect::<Vec<_>>());
        Ok(Self { digest, runs })
    }

    /// Works out what every run needs for an analysis, in the order of the runs, and refuses the whole where a product may
    /// not be built.
    pub(crate) fn graphs<'a>(
        &self,
        settings: &'a AnalysisSettings,
        training: &Training,
    ) -> Result<Vec<Graph<'a>>, StudyError> {
        let mut refusals: Vec<String> = Vec::new();
        let mut refused: BTreeSet<&str> = BTreeSet::new();
        let mut graphs = Vec::with_capacity(self.runs.len());
        // Members of one configuration are warned of for one reason.
        let mut warned: Vec<(&str, String, String)> = Vec::new();
        for run in &self.runs {
            let graph = Graph::new(settings, training.experiment(), run)?;
            for needed in &graph.products {
                for warning in &needed.warnings {
                    let of = (run.label.as_str(), needed.recipe.product.clone(), warning.clone());
                    if warned.contains(&of) {
                        continue;
                    }
                    warned.push(of);
                    tracing::warn!(configuration = run.label, product = needed.recipe.product, "{warning}");
                }
                for error in &needed.errors {
                    let refusal = format!("`{}`: `{}`: {error}", run.label, needed.recipe.product);
                    refused.insert(&run.label);
                    if !refusals.contains(&refusal) {
                        refusals.push(refusal);
                    }
                }
            }
            graphs.push(graph);
        }
        if refusals.is_empty() {
            return Ok(graphs);
        }
        Err(StudyError::OverLimit { refused: refused.len(), refusals, of: training.configurations.len() })
    }

    /// The products of every run for an analysis, in the order of [`runs`](Self::runs), each after those that it depends
    /// on.
    ///
    /// # Errors
    ///
    /// [`StudyError::OverLimit`] with the reasons of each configuration; [`StudyError::Products`] for a product that there is
    /// not, and for a circle.
    pub fn products(
        &self,
        settings: &AnalysisSettings,
        training: &Training,
    ) -> Result<Vec<Vec<PlannedProduct>>, StudyError> {
        let cache = Cache::open(&training.output)?;
        let planned = |needed: NeededProduct<'_>| {
            let state = state(&cache, &needed.recipe)?;
            let NeededProduct { recipe, key, estimate, .. } = needed;
            Ok(PlannedProduct { recipe, key, state, estimate })
        };
        let graphs = self.graphs(settings, training)?.into_iter();
        graphs.map(|graph| graph.products.into_iter().map(planned).collect()).collect()
    }

    /// Says why the models of the runs are missing, where they are: which field of each recipe differs from the nearest
    /// entry.
    ///
    /// # Errors
    ///
    /// [`StudyError::Cache`] when the cache cannot be listed.
    pub fn why(&self, root: &Path) -> Result<Vec<(&PlannedRun, Why)>, StudyError> {
        let missing = self.runs.iter().filter(|run| run.state == ProductState::Miss);
        let recipes = missing.map(|run| (run, &run.recipe));
        why(root, recipes)
    }

    /// The same for one product of an analysis; `products` is what [`products`](Self::products) gave.
    ///
    /// # Errors
    ///
    /// [`StudyError::Cache`] when the cache cannot be listed.
    pub fn why_product(
        &self,
        root: &Path,
        product: &str,
        products: &[Vec<PlannedProduct>],
    ) -> Result<Vec<(&PlannedRun, Why)>, StudyError> {
        let all = self.runs.iter().zip(products);
        let of_run = all.flat_map(|(run, products)| products.iter().map(move |planned| (run, planned)));
        let missing = of_run
            .filter(|(_, planned)| planned.recipe.product == product && planned.state == ProductState::Miss);
        why(root, missing.map(|(run, planned)| (run, &planned.recipe)))
    }

    /// The entries that the launch uses.
    pub(crate) fn entries(&self) -> Result<std::collections::BTreeSet<EntryName>, StudyError> {
        self.runs.iter().map(|run| Ok(EntryName::new(model::MODEL, &run.key)?)).collect()
    }

    /// The folders of its runs, from the root.
    pub(crate) fn folders(&self) -> impl Iterator<Item = &Path> {
        self.runs.iter().map(|run| run.job.folder.as_path())
    }
}

impl PlannedRun {
    fn new(
        cache: &Cache,
        experiment: &str,
        job: Job,
        label: String,
        description: Description,
    ) -> Result<Self, StudyError> {
        let recipe = model::recipe(experiment, &job, &description, backend(&description))?;
        let key = recipe.key()?;
        let state = state(cache, &recipe)?;
        Ok(Self { job, label, recipe, key, state, description })
    }

    /// Its folder, from the root.
    #[must_use]
    pub fn folder(&self) -> &PathBuf {
        &self.job.folder
    }
}

fn state(cache: &Cache, recipe: &Recipe) -> Result<ProductState, StudyError> {
    match cache.get(recipe) {
        Ok(Lookup::Hit(_)) => Ok(ProductState::Hit),
        Ok(Lookup::Miss(_)) => Ok(ProductState::Miss),
        Err(CacheError::Damaged { .. }) => Ok(ProductState::Damaged),
        Err(error) => Err(error.into()),
    }
}

fn why<'run, 'recipe>(
    root: &Path,
    missing: impl Iterator<Item = (&'run PlannedRun, &'recipe Recipe)>,
) -> Result<Vec<(&'run PlannedRun, Why)>, StudyError> {
    let cache = Cache::open(root)?;
    missing.map(|(run, recipe)| Ok((run, cache.why(recipe)?))).collect()
}

/// On what a model is computed.
pub(crate) fn backend(description: &Description) -> Backend {
    Backend {
        device: description.device.clone(),
        name: description.backend.clone(),
        world_size: 1,
        precision: "f32".to_owned(),
        deterministic: true,
    }
}

/// An error with what it follows from, on one line.
pub(crate) fn reasons(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
}

/// The same, one text each.
pub(crate) fn chain(error: &dyn std::error::Error) -> Vec<String> {
    let mut texts = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(source) = cause {
        texts.push(source.to_string());
        cause = source.source();
    }
    texts
}
