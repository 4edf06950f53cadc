//! The products of one run, found or built as they are needed.

use std::collections::BTreeMap;
use std::time::Instant;

use waycairn_analysis_host::AnalysisHost;
use waycairn_cache::{Artifact, CacheError, How, Lookup};

use crate::error::StudyError;
use crate::graph::{Graph, NeededProduct};
use crate::launch::{Launch, ProductReport, StudyEvent};
use crate::making::{self, Observer, Shelf, Shelved};
use crate::plan::reasons;

/// What the products of one run are found or built with, and those that were.
pub(crate) struct Supply<'a> {
    launch: &'a Launch<'a>,
    graph: &'a Graph<'a>,
    node: &'a dyn AnalysisHost,
    observer: Observer<'a>,
    made: BTreeMap<String, Made>,
}

impl<'a> Supply<'a> {
    /// Starts with none.
    pub(crate) fn new(
        launch: &'a Launch<'a>,
        graph: &'a Graph<'a>,
        node: &'a dyn AnalysisHost,
        observer: Observer<'a>,
    ) -> Self {
        Self { launch, graph, node, observer, made: BTreeMap::new() }
    }

    /// Finds or builds a product; what it depends on before it, and only where it is to be built.
    pub(crate) fn ensure(&mut self, name: &str) -> Result<(), StudyError> {
        let graph = self.graph;
        let named = |needed: &&NeededProduct<'_>| needed.recipe.product == name;
        // The model is no product of the graph.
        let Some(needed) = graph.products.iter().find(named).filter(|_| !self.made.contains_key(name)) else {
            return Ok(());
        };
        if self.launch.stop.is_requested() {
            return Err(StudyError::Stopped { done: 0, of: 1 });
        }
        if let Lookup::Miss(_) = self.launch.cache.get(&needed.recipe)? {
            // The graph has no circle.
            for dependency in &needed.product.declaration().products {
                self.ensure(dependency)?;
            }
        }
        let begin = Instant::now();
        let (product, stop) = (needed.product, self.launch.stop);
        let context = making::Context { product, node: self.node, stop, observer: self.observer };
        let built = self.launch.cache.get_or_build(&needed.recipe, context, making::build)?;
        let status = if built.how == How::Hit { "hit" } else { "built" };
        let seconds = begin.elapsed().as_secs_f64();
        if status == "built" {
            (self.observer)(&StudyEvent::Product { product: name, seconds });
        }
        let made = Made {
            report: needed.report(status, built.artifact.bytes(), seconds),
            artifact: Some(built.artifact),
        };
        self.made.insert(name.to_owned(), made);
        Ok(())
    }

    /// Those that were found or built, to be opened when they are asked for.
    pub(crate) fn shelf<'s>(&self) -> Shelf<'s> {
        let artifact = |made: &Made| Some((made.report.product.clone(), made.artifact.clone()?));
        let shelved =
            |(name, artifact): (String, Artifact)| (name, Shelved::new(move || Ok(artifact.clone())));
        self.made.values().filter_map(artifact).map(shelved).collect()
    }

    /// Builds those that are missing and that nothing was computed from.
    ///
    /// A launch is whole only if every product of its plan is there: the history names them all, and the next analysis is to
    /// find them. A damaged one that nothing needs is in nobody's way; whoever reads it is told.
    pub(crate) fn rest(&mut self) -> Result<(), StudyError> {
        for needed in &self.graph.products {
            let name = &needed.recipe.product;
            if self.made.contains_key(name) {
                continue;
            }
            if let Some(report) = self.launch.unneeded(needed) {
                self.made.insert(name.clone(), Made { report, artifact: None });
            } else {
                self.ensure(name)?;
            }
        }
        Ok(())
    }

    /// What is told of them, in the order of the graph.
    pub(crate) fn reports(&self) -> Vec<ProductReport> {
        let report = |needed: &NeededProduct<'_>| Some(self.made.get(&needed.recipe.product)?.report.clone());
        self.graph.products.iter().filter_map(report).collect()
    }
}

/// One product of a run.
struct Made {
    report: ProductReport,
    /// Nothing where it is not needed.
    artifact: Option<Artifact>,
}

impl Launch<'_> {
    /// What a launch tells of a product that nothing is computed from, if it need not be built.
    pub(crate) fn unneeded(&self, needed: &NeededProduct<'_>) -> Option<ProductReport> {
        match self.cache.get(&needed.recipe) {
            Ok(Lookup::Hit(artifact)) => Some(needed.report("hit", artifact.bytes(), 0.0)),
            Err(error @ CacheError::Damaged { .. }) => {
                tracing::warn!("{}; nothing needs it now", reasons(&error));
                Some(needed.report("damaged", 0, 0.0))
            }
            _ => None,
        }
    }
}
