//! Products that misbehave.
//!
//! | product | does |
//! | --- | --- |
//! | (without a name) | panics in `declare` |
//! | `model` | has the name of the trained model |
//! | `unsound`, declared twice | what the setting `hostile.mode` says |
//! | `sound` | behaves, and reports everything that the context gives |

use std::thread;

use waycairn_analysis_api::serde_json::{Value, json};
use waycairn_analysis_api::{
    AnalysisError, Bf16, BuildContext, Checked, LogLevel, OwnedTensor, Product, ProductDeclaration,
    ProductNeeds, Sources, Study, sources,
};

const SOURCES: Sources = sources!["src/products.rs"];

/// The settings of the library.
pub(crate) fn defaults() -> Value {
    json!({
        "hostile": {"mode": "nothing", "rows": 4, "limit": 1000},
        "chain": {"rows": 3, "levels": [0.5], "unrelated": 0},
    })
}

/// Panics when it is asked what it is.
#[derive(Debug)]
pub struct Declined;

impl Product for Declined {
    #[expect(clippy::panic, reason = "what it is for")]
    fn declare() -> ProductDeclaration {
        panic!("declaring a product panics")
    }

    fn select(_: &Study<'_>) -> Result<Value, AnalysisError> {
        Ok(Value::Null)
    }

    fn build(_: &BuildContext<'_>) -> Result<(), AnalysisError> {
        Ok(())
    }
}

/// Has a name that is the study's.
#[derive(Debug)]
pub struct Misnamed;

impl Product for Misnamed {
    fn declare() -> ProductDeclaration {
        ProductDeclaration::new("model", 1, "not the model")
    }

    fn select(_: &Study<'_>) -> Result<Value, AnalysisError> {
        Ok(Value::Null)
    }

    fn build(_: &BuildContext<'_>) -> Result<(), AnalysisError> {
        Ok(())
    }
}

fn mode(settings: &Value) -> &str {
    settings.pointer("/analysis/hostile/mode").and_then(Value::as_str).unwrap_or_default()
}

/// Misbehaves as `hostile.mode` says.
#[derive(Debug)]
pub struct Unsound;

#[expect(clippy::panic, reason = "what it is for")]
impl Product for Unsound {
    fn declare() -> ProductDeclaration {
        ProductDeclaration::new("unsound", 1, "misbehaves as a setting says")
    }

    fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
        match study.analysis.pointer("/hostile/mode").and_then(Value::as_str) {
            Some("select-panics") => panic!("select panics"),
            Some("select-fails") => Err(AnalysisError::new("hostile.mode is not to be had")),
            _ => Ok(study.pick(&["analysis.hostile"])?),
        }
    }

    fn estimate(selected: &Value) -> Result<Value, AnalysisError> {
        match mode(selected) {
            "estimate-panics" => panic!("estimate panics"),
            "estimate-text" => Ok(json!({"bytes": "many ".repeat(99)})),
            _ => Ok(json!({})),
        }
    }

    fn check(selected: &Value) -> Result<Checked, AnalysisError> {
        match mode(selected) {
            "check-panics" => panic!("check panics"),
            _ => Ok(Checked::default()),
        }
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        let settings = context.settings();
        match mode(settings) {
            "nothing" => {}
            "panic" => panic!("build panics"),
            "unfinished" => {
                // Half of an array, and then the end of it.
                let mut array = context.array::<f64>("half", &[8])?;
                array.values()[..4].fill(1.0);
                context.json("about", &1)?;
                panic!("build panics halfway");
            }
            "panic-in-thread" => {
                let mut array = context.array::<f64>("half", &[8])?;
                let (first, second) = array.values().split_at_mut(4);
                thread::scope(|scope| {
                    scope.spawn(|| first.fill(1.0));
                    scope.spawn(|| {
                        second.fill(2.0);
                        panic!("a thread panics");
                    });
                });
            }
            "fail-after-writing" => {
                context.array::<u8>("bytes", &[3])?.values().fill(7);
                return Err(AnalysisError::new("the builder gives up"));
            }
            "ignore-refusal" => {
                let _first = context.array::<u8>("bytes", &[3])?;
                drop(context.array::<u8>("Bytes", &[3]));
            }
            "twice" => {
                context.json("about", &1)?;
                context.json("about", &2)?;
            }
            "bad-name" => drop(context.array::<u8>("../up", &[1])?),
            "too-large" => drop(context.array::<f64>("huge", &[usize::MAX, 2, 0])?),
            "too-many" => {
                for index in 0.. {
                    context.array::<u8>(&format!("array-{index}"), &[1])?;
                }
            }
            "not-true" => context.array::<bool>("truths", &[2])?.values().fill(2),
            "nan" => context.metadata("mean", &f64::NAN)?,
            "undeclared-model" => drop(context.weights()?),
            "undeclared-function" => drop(context.call("other", &[])?),
            "undeclared-product" => drop(context.product("sound")?),
            "cancelled" => {
                while !context.cancelled() {}
                return Err(AnalysisError::new("cancelled"));
            }
            other => return Err(AnalysisError::new(format!("no mode `{other}`"))),
        }
        Ok(())
    }
}

/// Declares the name of another.
#[derive(Debug)]
pub struct Twin;

impl Product for Twin {
    fn declare() -> ProductDeclaration {
        Unsound::declare()
    }

    fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
        Unsound::select(study)
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        Unsound::build(context)
    }
}

fn rows(settings: &Value) -> usize {
    let rows = settings.pointer("/analysis/hostile/rows").and_then(Value::as_u64).unwrap_or_default();
    usize::try_from(rows).unwrap_or(usize::MAX)
}

/// Behaves, and reports everything that the context gives.
#[derive(Debug)]
pub struct Sound;

impl Product for Sound {
    fn declare() -> ProductDeclaration {
        ProductDeclaration::new("sound", 3, "reports everything that the context gives")
            .needs(ProductNeeds::default().product("observations").model().function("double").backend())
            .sources(SOURCES)
    }

    fn select(study: &Study<'_>) -> Result<Value, AnalysisError> {
        Ok(study.pick(&["training.problem", "analysis.hostile.rows", "analysis.hostile.limit", "member"])?)
    }

    fn estimate(selected: &Value) -> Result<Value, AnalysisError> {
        Ok(json!({"rows": rows(selected), "bytes": rows(selected) * 24}))
    }

    fn check(selected: &Value) -> Result<Checked, AnalysisError> {
        let limit = selected.pointer("/analysis/hostile/limit").and_then(Value::as_u64).unwrap_or_default();
        let rows = rows(selected);
        let mut checked = Checked::default();
        if rows as u64 > limit {
            checked.errors.push(format!("hostile.rows={rows} is over hostile.limit={limit}; reduce it"));
        }
        if rows == 0 {
            checked.warnings.push("hostile.rows=0 leaves nothing".to_owned());
        }
        Ok(checked)
    }

    fn build(context: &BuildContext<'_>) -> Result<(), AnalysisError> {
        let rows = rows(context.settings());
        let observations = context.product("observations")?;
        let model = context.product("model")?;
        let values = observations.array::<f64>("values")?;

        // Two arrays at once, one of them from several threads.
        let mut scores = context.array::<f64>("scores", &[rows, 3])?;
        let mut inside = context.array::<bool>("inside", &[rows])?;
        thread::scope(|scope| {
            for (index, row) in scores.values().chunks_mut(3).enumerate() {
                scope.spawn(move || row.fill(index as f64 + values[0]));
            }
            for (index, value) in inside.values().iter_mut().enumerate() {
                *value = u8::from(index % 2 == 0);
            }
        });
        let shape = scores.shape().to_vec();
        context.array::<i64>("count", &[])?.into_values().fill(-7);
        context.array::<f32>("empty", &[0, 4])?;
        context.array::<u32>("left", &[2])?;
        context.array::<Bf16>("halves", &[2])?.into_values().fill(0x3f80);

        let batch = context.batch()?;
        let tokens = OwnedTensor::from_f32("x", vec![2], &[1.0, 2.0])?;
        let forward = context.forward(&[tokens.view()])?;
        let call = context.call("double", &[tokens.view()])?;
        let values_of = |tensor: &OwnedTensor| tensor.view().iter_f64().map(Iterator::collect::<Vec<_>>);
        context.log(LogLevel::Info, "halfway");
        context.progress(1, 2, "steps");
        context.json(
            "report",
            &json!({
                "settings": context.settings(),
                "shape": shape,
                "address": values.as_ptr().addr(),
                "metadata": observations.metadata(),
                "history": model.json::<Value>("history")?,
                "weights": context.weights()?.names().collect::<Vec<_>>(),
                "batch": batch.names().collect::<Vec<_>>(),
                "forward": values_of(&forward[0])?,
                "call": values_of(&call[0])?,
                "cancelled": context.cancelled(),
            }),
        )?;
        context.metadata("rows", &0)?;
        context.metadata("rows", &rows)?;
        Ok(())
    }
}
