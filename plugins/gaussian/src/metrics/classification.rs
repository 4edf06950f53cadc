//! The metric `classification`: how well the network tells pairs apart.

use waycairn_analysis_api::{Analysis, AnalysisError, Context, Declaration, Needs, Sources};
use waycairn_gaussian::Classification;

use crate::sources::sources_of;

const SOURCES: Sources = sources_of!(["src/metrics/classification.rs", "src/sources.rs"], [CLASSIFICATION]);

/// Cross-entropy, accuracy and area under the curve on the test split.
#[derive(Debug, Default)]
pub struct ClassificationMetric;

impl Analysis for ClassificationMetric {
    fn declare() -> Declaration {
        Declaration::new(
            "classification",
            env!("CARGO_PKG_VERSION"),
            "cross-entropy, accuracy and AUC of the test split",
        )
        .metric()
        .needs(Needs::default().product("test_predictions"))
        .sources(SOURCES)
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let test = context.product("test_predictions")?;
        let found = Classification::new(test.array::<f64>("logits")?, test.array::<f32>("labels")?)?;
        Ok(context.emit_metric(&found)?)
    }
}
