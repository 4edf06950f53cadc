//! `summary`: mean, standard deviation, norm, extremes and non-finite counts of every tensor of the weights.
//!
//! The smallest useful analysis, and the one to copy from. It attaches the artifact `summary` and the scalars
//! `summary/parameters`, `summary/norm` and `summary/non_finite`.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::{Deserialize, Serialize};
use waycairn_analysis_api::{
    Analysis, AnalysisError, Context, ContextError, Declaration, LogLevel, Needs, Scalar, TensorView,
    export_analyses,
};

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
    let mut row = Row {
        name: view.name().to_owned(),
        dtype: view.dtype_name().to_owned(),
        shape: view.shape().to_vec(),
        elements: view.elements(),
        statistics: None,
        nan: 0,
        infinite: 0,
    };
    // An unknown element type leaves the row without statistics.
    let _: Result<(), ContextError> = view.iter_f64().map(|values| {
        let (mut count, mut sum, mut squares) = (0_usize, 0.0, 0.0);
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        values.clone().for_each(|value| {
            if value.is_finite() {
                count += 1;
                sum += value;
                squares += value * value;
                min = min.min(value);
                max = max.max(value);
            } else if value.is_nan() {
                row.nan += 1;
            } else {
                row.infinite += 1;
            }
        });
        if count > 0 {
            // A second pass: the difference of two large sums would lose the variance of a shifted tensor.
            let mean = sum / count as f64;
            let mut deviation = 0.0;
            values.filter(|value| value.is_finite()).for_each(|value| deviation += (value - mean).powi(2));
            let std = (deviation / count as f64).sqrt();
            row.statistics = Some(Statistics { mean, std, norm: squares.sqrt(), min, max });
        }
    });
    row
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
mod tests {
    use super::*;
    use waycairn_analysis_api::{DType, OwnedTensor};

    #[test]
    fn statistics_leave_out_what_is_not_finite() {
        let values = [1.0, f32::NAN, 3.0, f32::INFINITY, -1.0, f32::NEG_INFINITY, 5.0];
        let row = summarise(&OwnedTensor::from_f32("w", vec![7], &values).unwrap().view());
        let statistics = row.statistics.unwrap();
        assert_eq!((row.elements, row.nan, row.infinite), (7, 1, 2));
        assert_eq!((statistics.mean, statistics.min, statistics.max), (2.0, -1.0, 5.0));
        assert_eq!(statistics.norm, 6.0);
        assert_eq!(statistics.std, 5.0_f64.sqrt());
    }

    #[test]
    fn a_tensor_without_finite_elements_has_no_statistics() {
        for values in [&[][..], &[f32::NAN]] {
            let row = summarise(&OwnedTensor::from_f32("w", vec![values.len()], values).unwrap().view());
            assert!(row.statistics.is_none());
        }
        let unknown = TensorView::with_dtype_name("w", "float8_e4m3", &[1], &[0]).unwrap();
        assert!(summarise(&unknown).statistics.is_none());
        assert_eq!(unknown.dtype(), DType::Other);
    }

    #[test]
    fn the_order_of_tensors_is_kept_over_threads() {
        let items: Vec<usize> = (0..1000).collect();
        assert_eq!(in_parallel(&items, |item| item * 2), items.iter().map(|i| i * 2).collect::<Vec<_>>());
        assert!(in_parallel(&[] as &[usize], |item| *item).is_empty());
    }
}
