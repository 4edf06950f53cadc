//! The product `test_predictions`: what a network says of its test split.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use waycairn_analysis_api::{
    AnalysisError, BuildContext, Product, ProductDeclaration, ProductNeeds, Sources, Study,
};
use waycairn_gaussian::settings::DataSettings;

use super::step::{axes, product_of, read, selected, steps};
use crate::model::Evaluation;
use crate::sources::sources_of;
use crate::study::{planned, training_section};

const SOURCES: Sources = sources_of!(
    [
        "src/products/test_predictions.rs",
        "src/products/step.rs",
        "src/model.rs",
        "src/sources.rs",
        "src/study.rs",
    ],
    [NETWORK]
);

/// Logits of the test split, with its labels.
#[derive(Debug)]
pub struct TestPredictions;

#[derive(Serialize, Deserialize)]
struct Selected {
    evaluation: Evaluation,
    /// Rows, which the training data say too.
    rows: u64,
}

impl Product for TestPredictions {
    fn declare() -> ProductDeclaration {
        let needs = ProductNeeds::default().product("training").model().backend();
        ProductDeclaration::new("test_predictions", 1, "logits of the test split, with its labels")
            .needs(needs)
            .sources(SOURCES)
    }

    fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
        let data: DataSettings = training_section(study)?;
        selected(&Selected { evaluation: Evaluation::read(study)?, rows: data.test_size })
    }

    fn estimate(selected: &Value) -> Result<Value, AnalysisError> {
        let rows = read::<Selected>(selected)?.rows;
        Ok(json!({"model_evaluations": planned(rows), "bytes": product_of(&[rows, 12])}))
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        let Selected { evaluation, .. } = context.settings_as()?;
        let training = context.product("training")?;
        let (x, theta) = (training.array::<f32>("test_x")?, training.array::<f32>("test_theta")?);
        let [rows, d] = axes("test_x", training.shape("test_x")?)?;
        let [_, p] = axes("test_theta", training.shape("test_theta")?)?;
        let network = evaluation.architecture.network(&context.weights()?, d, p)?;
        let logits = context.array::<f64>("logits", &[rows])?.into_values();
        let labels = training.array::<f32>("test_y")?;
        context.array::<f32>("labels", &[rows])?.values().copy_from_slice(labels);
        steps(context, rows, evaluation.at_once(1), "rows", |rows| {
            let (from, to) = (rows.start, rows.end);
            let found = network.logits(&x[from * d..to * d], &theta[from * p..to * p])?;
            logits[rows].copy_from_slice(&found);
            Ok(())
        })?;
        context.metadata("split", &"test")?;
        context.metadata("count", &rows)?;
        Ok(())
    }
}
