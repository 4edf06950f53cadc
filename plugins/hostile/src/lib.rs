//! Analyses that misbehave, so that tests can see what a host makes of it. No one else wants this library.
//!
//! | analysis | does |
//! | --- | --- |
//! | (without a name) | panics in `declare` |
//! | `hostile` | what its setting `mode` says |
//! | `healthy` | behaves, and reports everything that the context gives |
//! | `caller` | calls a function that no experiment of the project has |
//! | `chain` | behaves: the end of a chain of products |
//! | `metric`, `plot` | answer a study, or do not, as their setting `mode` says |
//! | `threads` | behaves: says which numbers of threads the library was told |
//!
//! Its products are listed in `products.rs` and `chain.rs`.

use std::fmt;
use std::panic::panic_any;
use std::sync::atomic::{AtomicU8, Ordering};

use waycairn_analysis_api::serde_json::{Value, json};
use waycairn_analysis_api::{
    Analysis, AnalysisError, ColumnValues, Context, Declaration, LogLevel, NdArray, Needs, Scalar,
    export_analyses,
};

mod chain;
mod products;
mod studied;
mod threads;

pub use chain::{Chain, ChainData, ChainScores, ChainSummary};
pub use products::{Declined, Misnamed, Sound, Twin, Unsound};
pub use studied::{Caller, Metric, Plot};
pub use threads::Threads;

export_analyses! {
    analyses: [Unspeakable, Hostile, Healthy, Metric, Plot, Caller, Chain, Threads],
    products: [Declined, Misnamed, Unsound, Twin, Sound, ChainData, ChainScores, ChainSummary],
    settings: products::defaults,
    threads: threads::told,
}

/// Panics when it is asked what it is.
#[derive(Debug, Default)]
pub struct Unspeakable;

impl Analysis for Unspeakable {
    #[expect(clippy::panic, reason = "what it is for")]
    fn declare() -> Declaration {
        panic!("declare panics")
    }

    fn analyze(&self, _: &Context<'_>) -> Result<(), AnalysisError> {
        Ok(())
    }
}

/// Misbehaves as its setting `mode` says.
#[derive(Debug, Default)]
pub struct Hostile {
    /// What the destructor is to do: 0 nothing, 1 panic.
    drop: AtomicU8,
}

#[expect(clippy::panic, reason = "what it is for")]
impl Drop for Hostile {
    fn drop(&mut self) {
        if self.drop.load(Ordering::Relaxed) == 1 {
            panic!("drop panics");
        }
    }
}

/// Never true, which the compiler does not know.
fn mode_is_over() -> bool {
    std::hint::black_box(false)
}

/// A panic's payload whose destructor panics.
struct Bomb;

#[expect(clippy::panic, reason = "what it is for")]
impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the payload panics");
    }
}

#[derive(Debug)]
struct Wrapped;

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the outer error")
    }
}

impl std::error::Error for Wrapped {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&fmt::Error)
    }
}

impl Analysis for Hostile {
    fn declare() -> Declaration {
        Declaration::new("hostile", "1.0.0", "misbehaves as its setting says")
            .settings(json!({"mode": "nothing", "deep": {"number": 1.0}}))
            .needs(Needs::default().weights("known.*"))
    }

    #[expect(clippy::panic, reason = "what it is for")]
    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let mode = context.settings().get("mode").and_then(Value::as_str).unwrap_or_default();
        match mode {
            "nothing" => {}
            "panic" => panic!("analyze panics at {}", context.node().seq),
            "panic-without-text" => panic_any(7_u8),
            "panic-with-a-bomb" => panic_any(Bomb),
            "panic-in-thread" => {
                let joined = std::thread::spawn(|| {
                    if !mode_is_over() {
                        panic!("a thread panics");
                    }
                });
                if let Err(payload) = joined.join() {
                    std::panic::resume_unwind(payload);
                }
            }
            "panic-in-drop" => {
                context.emit_scalar("before", 1)?;
                self.drop.store(1, Ordering::Relaxed);
            }
            "panic-twice" => {
                self.drop.store(1, Ordering::Relaxed);
                panic!("analyze panics first");
            }
            "panic-while-dropping" => {
                // Left to the end of the scope, so that it is dropped on the way out of an error.
                let _guard = Hostile { drop: AtomicU8::new(1) };
                return Err(AnalysisError::new("an error on the way"));
            }
            "error" => return Err(AnalysisError::new("the analysis gives up")),
            "error-with-source" => Err(Wrapped)?,
            "emit-then-fail" => {
                context.emit_artifact("hostile", &[], &1)?;
                context.emit_scalar("value", 1)?;
                context.emit_json("file", &1)?;
                return Err(AnalysisError::new("after emitting"));
            }
            "ignore-refusal" => {
                context.emit_scalar("value", 1)?;
                drop(context.emit_scalar("value", 2));
            }
            "bad-name" => context.emit_artifact("../up", &[], &1)?,
            "undeclared-batch" => drop(context.batch()?),
            "undeclared-forward" => drop(context.forward(&[])?),
            "undeclared-scalars" => drop(context.scalars("", &["train/loss"])?),
            "unknown-tensor" => drop(context.weights()?.tensor("known.nothing")?.shape()),
            other => return Err(AnalysisError::new(format!("no mode `{other}`"))),
        }
        Ok(())
    }
}

/// Behaves, and reports everything that the context gives.
#[derive(Debug, Default)]
pub struct Healthy;

impl Analysis for Healthy {
    fn declare() -> Declaration {
        Declaration::new("healthy", "2.1.0", "reports everything that the context gives")
            .settings(json!({"scale": 1.0, "query": ""}))
            .needs(Needs::default().weights("*.weight").batch().forward().scalars("train/*").scalars("val/*"))
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let node = context.node();
        context.log(LogLevel::Info, &format!("at {}", node.address));
        let text = |error: &dyn fmt::Display| json!({ "error": error.to_string() });

        let weights = context.weights()?;
        let sum: f64 = weights.iter().map(|view| view.iter_f64().map_or(0.0, Iterator::sum)).sum();
        let in_place = weights.iter().all(|view| view.as_f32().is_some());

        let batch = match context.batch() {
            Ok(batch) => {
                let views: Vec<_> = batch.iter().copied().collect();
                let outputs = match context.forward(&views) {
                    Ok(outputs) => {
                        let output = |o: &waycairn_analysis_api::OwnedTensor| {
                            json!([o.name(), o.shape(), o.view().iter_f64().map_or(0.0, Iterator::sum)])
                        };
                        outputs.iter().map(output).collect()
                    }
                    Err(error) => text(&error),
                };
                json!({"names": batch.names().collect::<Vec<_>>(), "outputs": outputs})
            }
            Err(error) => json!({"error": error.to_string(), "kind": format!("{:?}", error.kind())}),
        };

        let query = context.settings().get("query").and_then(Value::as_str).unwrap_or_default();
        let scalars = match context.scalars(query, &["train/loss", "val/loss"]).and_then(|s| s.columns()) {
            Ok(columns) => columns
                .iter()
                .map(|column| match &column.values {
                    ColumnValues::Text(values) => json!([column.name, values]),
                    _ => json!([column.name, column.to_f64()]),
                })
                .collect(),
            Err(error) => text(&error),
        };

        let report = json!({
            "node": [node.name, node.nonce, node.seq, node.address],
            "parents": context.parents(),
            "settings": context.settings(),
            "experiment": context.experiment_settings(),
            "weights": weights.names().collect::<Vec<_>>(),
            "sum": sum,
            "in_place": in_place,
            "addresses": weights.iter().map(|view| view.bytes().as_ptr() as u64).collect::<Vec<_>>(),
            "batch": batch,
            "scalars": scalars,
        });
        context.emit_json("report", &report)?;
        context.emit_figure("figure", "image/svg+xml", b"<svg/>")?;
        let flat: Vec<f64> = weights.iter().filter_map(|v| v.iter_f64().ok()).flatten().collect();
        context.emit_artifact(
            "healthy",
            &[("sum", Scalar::Float(sum)), ("name", Scalar::from(node.name))],
            &NdArray::from_f64(&[flat.len()], &flat)?,
        )?;
        context.emit_scalar("on", true)?;
        context.emit_scalar("count", weights.len())?;
        context.emit_scalar("nan", f64::NAN)?;
        Ok(())
    }
}
