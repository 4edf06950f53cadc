//! Products as studies have them, one of each kind, and a metric of the last: they behave, and show what is built again.
//!
//! | product | follows from |
//! | --- | --- |
//! | `chain_data` | the context, the member and `chain.rows`: no model |
//! | `chain_scores` | the data and the model, on a device |
//! | `chain_summary` | the scores, and `chain.levels` |

use waycairn_analysis_api::serde_json::Value;
use waycairn_analysis_api::{
    Analysis, AnalysisError, BuildContext, Context, Declaration, Needs, Product, ProductDeclaration,
    ProductNeeds, Sources, Study, sources,
};

const SOURCES: Sources = sources!["src/chain.rs"];

/// What is drawn once for all models.
#[derive(Debug)]
pub struct ChainData;

impl Product for ChainData {
    fn declare() -> ProductDeclaration {
        ProductDeclaration::new("chain_data", 1, "data that needs no model").sources(SOURCES)
    }

    fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
        Ok(study.pick(&["training.data.context", "analysis.chain.rows", "member"])?)
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        let number =
            |path: &str| context.settings().pointer(path).and_then(Value::as_u64).unwrap_or_default();
        let rows = usize::try_from(number("/analysis/chain/rows"))?;
        let length = number("/training/data/context") as f64;
        let mut data = context.array::<f64>("data", &[rows])?;
        data.values().iter_mut().enumerate().for_each(|(row, value)| *value = row as f64 / length);
        Ok(())
    }
}

/// What a model makes of it.
#[derive(Debug)]
pub struct ChainScores;

impl Product for ChainScores {
    fn declare() -> ProductDeclaration {
        ProductDeclaration::new("chain_scores", 1, "what a model makes of the data")
            .needs(ProductNeeds::default().product("chain_data").model().backend())
            .sources(SOURCES)
    }

    fn select(_: &Study<'_>) -> Result<Value, AnalysisError> {
        Ok(Value::Null)
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        let data = context.product("chain_data")?;
        let data = data.array::<f64>("data")?;
        let weights = context.weights()?;
        let tensor = weights.iter().next().ok_or_else(|| AnalysisError::new("a model without weights"))?;
        let first = tensor.iter_f64()?.next().unwrap_or_default();
        let mut scores = context.array::<f64>("scores", &[data.len()])?;
        scores.values().iter_mut().zip(data).for_each(|(score, value)| *score = first + value);
        Ok(())
    }
}

/// What is read off it.
#[derive(Debug)]
pub struct ChainSummary;

impl Product for ChainSummary {
    fn declare() -> ProductDeclaration {
        ProductDeclaration::new("chain_summary", 1, "the scores at some levels")
            .needs(ProductNeeds::default().product("chain_scores"))
            .sources(SOURCES)
    }

    fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
        Ok(study.pick(&["analysis.chain.levels"])?)
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        let scores = context.product("chain_scores")?;
        let scores = scores.array::<f64>("scores")?;
        let levels = context.settings().pointer("/analysis/chain/levels").and_then(Value::as_array);
        let levels: Vec<f64> = levels.into_iter().flatten().filter_map(Value::as_f64).collect();
        let mut summary = context.array::<f64>("summary", &[levels.len()])?;
        for (value, level) in summary.values().iter_mut().zip(levels) {
            *value = level * scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        }
        Ok(())
    }
}

/// The numbers of the summary.
#[derive(Debug, Default)]
pub struct Chain;

impl Analysis for Chain {
    fn declare() -> Declaration {
        Declaration::new("chain", "1.0.0", "the end of a chain of products")
            .metric()
            .needs(Needs::default().product("chain_summary"))
            .sources(SOURCES)
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let summary = context.product("chain_summary")?;
        context.emit_metric(&summary.array::<f64>("summary")?)?;
        Ok(())
    }
}
