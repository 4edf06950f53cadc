//! The product `position_losses`.

use serde::Deserialize;
use waycairn_analysis_api::serde_json::{Value, json};
use waycairn_analysis_api::{
    AnalysisError, BuildContext, Product, ProductDeclaration, ProductNeeds, Sources, Study, TensorView,
    sources,
};

use crate::entropy::Sums;

/// What decides the bytes of the array.
const SOURCES: Sources = sources!["src/losses.rs", "src/entropy.rs"];

/// Rows that the model runs at once, so that their logits need little memory.
const BLOCK: usize = 16;

/// The settings that the plugin adds to a study.
pub(crate) fn defaults() -> Value {
    json!({"position": {"rows": 0}})
}

/// The mean cross-entropy at each position of the context, over the batch of the model's node.
#[derive(Debug)]
pub struct PositionLosses;

#[derive(Deserialize)]
struct Selected {
    analysis: Sections,
}

#[derive(Deserialize)]
struct Sections {
    position: Position,
}

#[derive(Deserialize)]
struct Position {
    rows: usize,
}

impl Product for PositionLosses {
    fn declare() -> ProductDeclaration {
        ProductDeclaration::new("position_losses", 1, "mean cross-entropy at each position of the context")
            .needs(ProductNeeds::default().model().backend())
            .sources(SOURCES)
    }

    fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
        let selected = study.pick(&["analysis.position.rows"])?;
        // Rather here, while it is planned, than after the training.
        Selected::deserialize(&selected)
            .map_err(|error| AnalysisError::new(format!("position.rows is no number of rows: {error}")))?;
        Ok(selected)
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        let selected: Selected = context.settings_as()?;
        let batch = context.batch()?;
        let tokens = batch.tensor("tokens")?;
        let &[available, length] = tokens.shape() else {
            return Err(AnalysisError::new(format!(
                "`tokens` has the shape {:?}, not [rows, context]",
                tokens.shape()
            )));
        };
        let rows = match selected.analysis.position.rows {
            0 => available,
            wanted => wanted.min(available),
        };
        let targets = whole(&batch.tensor("targets")?, "targets", available * length)?;
        let weights = batch.get("weights").map(|weights| floats(&weights, "weights")).transpose()?;

        let mut sums = Sums::new(length);
        let row = tokens.bytes().len().checked_div(available).unwrap_or_default();
        for from in (0..rows).step_by(BLOCK) {
            if context.cancelled() {
                return Err(AnalysisError::new("it was asked to end"));
            }
            context.progress(from as u64, rows as u64, "rows");
            let to = (from + BLOCK).min(rows);
            let shape = [to - from, length];
            let block =
                TensorView::new("tokens", tokens.dtype(), &shape, &tokens.bytes()[from * row..to * row])?;
            let outputs = context.forward(&[block])?;
            let logits = outputs
                .iter()
                .find(|output| output.name() == "logits")
                .ok_or_else(|| AnalysisError::new("the model answers no `logits`"))?;
            let cells = from * length..to * length;
            let weights = weights.as_deref().and_then(|weights| weights.get(cells.clone()));
            sums.add(&floats(&logits.view(), "logits")?, &targets[cells], weights)?;
        }

        let mut loss = context.array::<f32>("loss", &[length])?;
        for (value, mean) in loss.values().iter_mut().zip(sums.means()) {
            *value = mean;
        }
        context.metadata("rows", &rows)?;
        context.metadata("vocabulary", &sums.vocabulary())?;
        context.metadata("unit", &"nats")?;
        Ok(())
    }
}

fn floats(view: &TensorView<'_>, name: &str) -> Result<Vec<f32>, AnalysisError> {
    match view.as_f32() {
        Some(values) => Ok(values.to_vec()),
        None if view.dtype().is_float() => Ok(view.iter_f64()?.map(|value| value as f32).collect()),
        None => Err(AnalysisError::new(format!("`{name}` are of type {}, no floats", view.dtype_name()))),
    }
}

fn whole(view: &TensorView<'_>, name: &str, count: usize) -> Result<Vec<i32>, AnalysisError> {
    let values: Vec<i32> = view.iter_f64()?.map(|value| value as i32).collect();
    if values.len() == count && !view.dtype().is_float() {
        return Ok(values);
    }
    Err(AnalysisError::new(format!("`{name}` is {view:?}, not {count} whole numbers")))
}
