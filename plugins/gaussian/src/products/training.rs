//! The product `training`: the data of one network.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use waycairn_analysis_api::{
    AnalysisError, BuildContext, Checked, Product, ProductDeclaration, Sources, Study, stream,
};
use waycairn_gaussian::settings::DataSettings;
use waycairn_gaussian::{Prior, Problem, SplitSizes, TrainingData};

use super::step::{product_of, read, selected, too_many};
use crate::sources::sources_of;
use crate::study::{Posed, count, text, training_section};

const SOURCES: Sources = sources_of!(
    ["src/products/training.rs", "src/products/step.rs", "src/sources.rs", "src/study.rs"],
    [PAIRS]
);

/// The pairs that a network learns from and is measured on.
#[derive(Debug)]
pub struct Training;

#[derive(Serialize, Deserialize)]
struct Selected {
    problem: Problem,
    prior: Prior,
    data: DataSettings,
    seed: u64,
    /// The name of the prior: streams of different ones are apart, and replicas differ in their seeds.
    name: String,
}

impl Selected {
    fn width(&self) -> u64 {
        (self.problem.dimension() + self.problem.parameters().len()) as u64
    }
}

impl Product for Training {
    fn declare() -> ProductDeclaration {
        ProductDeclaration::new("training", 1, "pairs of observations and parameters, joint and apart")
            .sources(SOURCES)
    }

    fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
        let posed = Posed::read(study)?;
        selected(&Selected {
            prior: posed.prior(study)?,
            problem: posed.problem,
            data: training_section(study)?,
            seed: count(study, "seed", 0)?,
            name: text(study, "prior")?.to_owned(),
        })
    }

    fn estimate(selected: &Value) -> Result<Value, AnalysisError> {
        let settings: Selected = read(selected)?;
        let data = &settings.data;
        let rows = data.train_size.saturating_add(data.validation_size).saturating_add(data.test_size);
        Ok(json!({
            "observation_dimension": settings.problem.dimension(),
            "inferred_parameters": settings.problem.parameters().len(),
            "network_inputs": settings.width(),
            "training_rows": data.train_size,
            "bytes": product_of(&[rows, settings.width() + 1, 4]),
        }))
    }

    fn check(selected: &Value) -> Result<Checked, AnalysisError> {
        let settings: Selected = read(selected)?;
        let data = &settings.data;
        let sizes = [
            ("data.train_size", data.train_size),
            ("data.validation_size", data.validation_size),
            ("data.test_size", data.test_size),
        ];
        let large = sizes.into_iter().filter_map(|(name, size)| too_many(name, size, settings.width()));
        Ok(Checked { errors: large.collect(), warnings: Vec::new() })
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        let settings: Selected = context.settings_as()?;
        let (problem, name) = (&settings.problem, settings.name.as_str());
        let (d, p) = (problem.dimension(), problem.parameters().len());
        let data = TrainingData::draw(problem, &settings.prior, SplitSizes::from(&settings.data), |split| {
            stream(settings.seed, split, Some(name))
        })?;
        let splits = [("train", &data.train), ("validation", &data.validation), ("test", &data.test)];
        for (split, pairs) in splits {
            let rows = pairs.rows();
            context.array::<f32>(&format!("{split}_x"), &[rows, d])?.values().copy_from_slice(&pairs.x);
            context
                .array::<f32>(&format!("{split}_theta"), &[rows, p])?
                .values()
                .copy_from_slice(&pairs.theta);
            context.array::<f32>(&format!("{split}_y"), &[rows])?.values().copy_from_slice(&pairs.label);
        }
        context.metadata("parameters", &problem.names())?;
        context.metadata("class_one", &"joint")?;
        context.metadata("class_zero", &"product")?;
        let policy = "each split from a stream of its own, half of each class, in random order";
        context.metadata("split_policy", &policy)?;
        context.metadata("prior_measure", &settings.prior.measure())?;
        Ok(())
    }
}
