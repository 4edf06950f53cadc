//! `summary`: mean, standard deviation, norm, extremes and non-finite counts of every tensor of the weights.
//!
//! The smallest useful analysis, and the one to copy from. It attaches the artifact `summary` and the scalars
//! `summary/parameters`, `summary/norm` and `summary/non_finite`.

mod moments;

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::{Deserialize, Serialize};
use waycairn_analysis_api::{
    Analysis, AnalysisError, Context, Declaration, LogLevel, Needs, Scalar, TensorView, export_analyses,
};

use crate::moments::Moments;

export_analyses![Summary];

/// The analysis.
#[derive(Debug, Default)]
pub struct Summary;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Settings {
    /// Also record `summary/norm/<tensor>`, so that the norms of single tensors can be queried and drawn.
    norm_per_tensor: bool,
}

/// What the artifact holds.
#[derive(Debug, Serialize)]
struct Report {
    tensors: Vec<Row>,
    parameters: usize,
    norm: f64,
    non_finite: usize,
}

/// One tensor. The statistics are those of its finite elements; without any they are absent.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    dtype: String,
    shape: Vec<usize>,
    elements: usize,
    statistics: Option<Statistics>,
    nan: usize,
    infinite: usize,
}

#[derive(Debug, Serialize)]
struct Statistics {
    mean: f64,
    /// The population's standard deviation.
    std: f64,
    norm: f64,
    min: f64,
    max: f64,
}

impl Analysis for Summary {
    fn declare() -> Declaration {
        Declaration::new("summary", env!("CARGO_PKG_VERSION"), "per-tensor statistics of the weights")
            .settings(Settings::default())
            .needs(Needs::default().weights("*"))
    }

    fn analyze(&self, context: &Context<'_>) -> Result<(), AnalysisError> {
        let settings: Settings = context.settings_as()?;
        let weights = context.weights()?;
        let views: Vec<TensorView<'_>> = weights.iter().copied().collect();
        for view in views.iter().filter(|view| view.iter_f64().is_err()) {
            context.log(LogLevel::Warn, &format!("{view:?} is of a type that this plugin does not read"));
        }
        let tensors = in_parallel(&views, summarise);

        let squares = |row: &Row| row.statistics.as_ref().map_or(0.0, |s| s.norm * s.norm);
        let report = Report {
            parameters: tensors.iter().map(|row| row.elements).sum(),
            norm: tensors.iter().map(squares).sum::<f64>().sqrt(),
            non_finite: tensors.iter().map(|row| row.nan + row.infinite).sum(),
            tensors,
        };
        context.emit_scalar("parameters", report.parameters)?;
        context.emit_scalar("norm", report.norm)?;
        context.emit_scalar("non_finite", report.non_finite)?;
        if settings.norm_per_tensor {
            for row in &report.tensors {
                if let Some(statistics) = &row.statistics {
                    context.emit_scalar(&format!("norm/{}", row.name), statistics.norm)?;
                }
            }
        }
        let tensors = Scalar::from(report.tensors.len());
        context.emit_artifact("summary", &[("tensors", tensors)], &report)?;
        Ok(())
    }
}

fn summarise(view: &TensorView<'_>) -> Row {
    // An element type that this plugin cannot read leaves the row without statistics.
    let moments = Moments::of(view).unwrap_or_default();
    Row {
        name: view.name().to_owned(),
        dtype: view.dtype_name().to_owned(),
        shape: view.shape().to_vec(),
        elements: view.elements(),
        statistics: (moments.count > 0.0).then(|| Statistics {
            mean: moments.mean,
            std: (moments.deviation / moments.count).sqrt(),
            norm: moments.squares.sqrt(),
            min: moments.min,
            max: moments.max,
        }),
        nan: moments.nan,
        infinite: moments.infinite,
    }
}

/// Maps over all cores, in order. Views may be read from any thread that ends before the call does.
fn in_parallel<T: Sync, R: Send>(items: &[T], map: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(items.len());
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        while let index = next.fetch_add(1, Ordering::Relaxed)
            && let Some(item) = items.get(index)
        {
            done.push((index, map(item)));
        }
        done
    };
    let mut results = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(worker)).collect();
        let mut results = worker();
        for other in others {
            match other.join() {
                Ok(done) => results.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests;
