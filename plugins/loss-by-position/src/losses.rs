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

/// Rows of one call, so that it can be told to end, and tells how far it is.
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
        let what = "mean cross-entropy at each position of the context, over the first `position.rows` rows of the batch \
                    of the run's last node; 0 is every row";
        ProductDeclaration::new("position_losses", 1, what)
            .needs(ProductNeeds::default().function("loss").backend())
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
        let targets = batch.tensor("targets")?;
        let weights = batch.get("weights").map(|weights| floats(&weights)).transpose()?;

        let mut sums = Sums::new(length);
        for from in (0..rows).step_by(BLOCK) {
            if context.cancelled() {
                return Err(AnalysisError::new("it was asked to end"));
            }
            context.progress(from as u64, rows as u64, "rows");
            let (from, to) = (from, (from + BLOCK).min(rows));
            let shape = [to - from, length];
            let outputs =
                context.call("loss", &[block(&tokens, &shape, from)?, block(&targets, &shape, from)?])?;
            let losses = outputs
                .iter()
                .find(|output| output.name() == "loss")
                .ok_or_else(|| AnalysisError::new("the experiment answers no `loss`"))?;
            let weights = weights.as_deref().and_then(|weights| weights.get(from * length..to * length));
            sums.add(&floats(&losses.view())?, weights)?;
        }

        let mut loss = context.array::<f32>("loss", &[length])?;
        for (value, mean) in loss.values().iter_mut().zip(sums.means()) {
            *value = mean;
        }
        context.metadata("rows", &rows)?;
        context.metadata("unit", &"nats")?;
        Ok(())
    }
}

/// Some rows of a tensor of the batch.
fn block<'a>(
    tensor: &TensorView<'a>,
    shape: &'a [usize; 2],
    from: usize,
) -> Result<TensorView<'a>, AnalysisError> {
    let row =
        tensor.bytes().len().checked_div(tensor.shape().first().copied().unwrap_or(0)).unwrap_or_default();
    let rows = tensor.bytes().get(from * row..(from + shape[0]) * row).unwrap_or_default();
    Ok(TensorView::new(tensor.name(), tensor.dtype(), shape, rows)?)
}

fn floats(view: &TensorView<'_>) -> Result<Vec<f32>, AnalysisError> {
    if !view.dtype().is_float() {
        let text = format!("`{}` are of type {}, no floats", view.name(), view.dtype_name());
        return Err(AnalysisError::new(text));
    }
    Ok(view.iter_f64()?.map(|value| value as f32).collect())
}
