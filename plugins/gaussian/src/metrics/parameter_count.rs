//! The metric `parameter_count`: how many numbers a model learned, of whatever experiment it is.

use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration, Needs, Sources};
use waycairn_gaussian::metrics::ParameterCount;

use crate::sources::sources_of;

const SOURCES: Sources = sources_of!(["src/metrics/parameter_count.rs", "src/sources.rs"], [METRICS]);

/// The number of elements of all tensors of the model.
#[derive(Debug, Default)]
pub struct ParameterCountMetric;

impl Analysis for ParameterCountMetric {
    fn declare() -> Declaration {
        Declaration::new("parameter_count", env!("CARGO_PKG_VERSION"), "how many numbers the model learned")
            .metric()
            .needs(Needs::default().weights("*"))
            .sources(SOURCES)
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let trainable_parameters = context.weights()?.iter().map(|tensor| tensor.elements()).sum();
        Ok(context.emit_metric(&ParameterCount { trainable_parameters })?)
    }
}
