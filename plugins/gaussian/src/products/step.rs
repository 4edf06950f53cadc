//! What builders and their planning share: steps of a long work, and settings as they cross.

use std::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use waycairn_analysis_api::{AnalysisError, BuildContext, Study};
use waycairn_gaussian::settings::InferenceSettings;

use crate::study::{planned, section};

/// Values that a builder holds at once, at most: 8 GiB of f32.
const MAX_VALUES: u64 = 1 << 31;

/// Refuses a count that would take the memory: `each` values are held for each of what it counts.
pub(crate) fn too_many(setting: &str, count: u64, each: u64) -> Option<String> {
    (product_of(&[count, each]) > MAX_VALUES).then(|| {
        format!("`{setting}` is {count}, which makes more than {MAX_VALUES} values at {each} each; lower it")
    })
}

/// What a selector answers, if what is built of it is at most `inference.max_saved_bytes`; `paths` are the settings that
/// decide it. The limit is in no key: what is over it is told while the study is planned.
pub(crate) fn saved_within(
    study: &Study<'_>,
    paths: &[&str],
    selected: Value,
    estimate: fn(&Value) -> Result<Value, AnalysisError>,
) -> Result<Value, AnalysisError> {
    let bytes = estimate(&selected)?.get("bytes").and_then(Value::as_u64).unwrap_or_default();
    let limit = section::<InferenceSettings>(study)?.max_saved_bytes;
    if bytes <= limit {
        return Ok(selected);
    }
    let told = |path: &&str| {
        let value = path.split('.').fold(study.analysis, |at, step| at.get(step).unwrap_or(&Value::Null));
        format!("`{path}` is {value}")
    };
    let told: Vec<String> = paths.iter().map(told).collect();
    Err(AnalysisError::new(format!(
        "it would save {bytes} bytes, and `inference.max_saved_bytes` is {limit}; lower what decides it: {}",
        told.join(", ")
    )))
}

/// The product of counts, or the largest one that can be planned.
pub(crate) fn product_of(counts: &[u64]) -> u64 {
    planned(counts.iter().fold(1, |product, count| product.saturating_mul(*count)))
}

/// What a selector answers.
pub(crate) fn selected(settings: &impl Serialize) -> Result<Value, AnalysisError> {
    Ok(serde_json::to_value(settings)?)
}

/// What a selector answered.
pub(crate) fn read<T: DeserializeOwned>(selected: &Value) -> Result<T, AnalysisError> {
    T::deserialize(selected)
        .map_err(|error| AnalysisError::new(format!("the selected settings are of another version: {error}")))
}

/// Goes through `total` things, so many at once: says before each step how far it is, and ends where that is asked for.
pub(crate) fn steps(
    context: &BuildContext<'_>,
    total: usize,
    at_once: usize,
    what: &str,
    mut work: impl FnMut(Range<usize>) -> Result<(), AnalysisError>,
) -> Result<(), AnalysisError> {
    for from in (0..total).step_by(at_once.max(1)) {
        if context.cancelled() {
            return Err(AnalysisError::new("it was asked to end"));
        }
        context.progress(from as u64, total as u64, what);
        work(from..from.saturating_add(at_once.max(1)).min(total))?;
    }
    context.progress(total as u64, total as u64, what);
    Ok(())
}

/// The last axes of an array, as many as it has.
pub(crate) fn axes<const N: usize>(name: &str, shape: &[usize]) -> Result<[usize; N], AnalysisError> {
    shape
        .try_into()
        .map_err(|_| AnalysisError::new(format!("`{name}` has the shape {shape:?}, not one of {N} axes")))
}
