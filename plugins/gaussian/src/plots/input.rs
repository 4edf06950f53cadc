//! What of products and settings plots read.

use serde::de::DeserializeOwned;
use waycairn_analysis_api::serde_json::Value;
use waycairn_analysis_api::{AnalysisError, Context, ProductView};

/// The sources of a plot: its own files, those that draw, and lists of [`waycairn_gaussian::sources`].
macro_rules! plot_sources {
    ([$($file:literal),+ $(,)?], [$($list:ident),* $(,)?]) => {
        crate::sources::sources_of!(
            [
                "src/plots/axis.rs",
                "src/plots/bitmap.rs",
                "src/plots/figure.rs",
                "src/plots/histogram.rs",
                "src/plots/input.rs",
                "src/plots/layers.rs",
                "src/plots/words.rs",
                "src/sources.rs",
                $($file),+
            ],
            [$($list),*]
        )
    };
}
pub(crate) use plot_sources;

pub(crate) const DPI: &str = "analysis.plotting.dpi";
pub(crate) const BINS: &str = "analysis.plotting.bins";
/// The probability with which an accurate posterior stays inside of a band.
pub(crate) const BAND: &str = "analysis.calibration.band_probability";

/// A setting of the study that the plot declares.
pub(crate) fn setting<T: DeserializeOwned>(context: &Context<'_>, path: &str) -> Result<T, AnalysisError> {
    let found = path.split('.').try_fold(context.study(), |value, name| value.get(name));
    let value = found.ok_or_else(|| {
        AnalysisError::new(format!(
            "`{path}` is not among the settings of the study; the plot is for a study that has it"
        ))
    })?;
    T::deserialize(value).map_err(|error| AnalysisError::new(format!("`{path}` is {value}: {error}")))
}

pub(crate) fn dpi(context: &Context<'_>) -> Result<u64, AnalysisError> {
    setting(context, DPI)
}

/// A number of bins, or of something else that is counted.
pub(crate) fn amount(context: &Context<'_>, path: &str) -> Result<usize, AnalysisError> {
    Ok(usize::try_from(setting::<u64>(context, path)?)?)
}

/// What the builder of a product said about it.
pub(crate) fn said<T: DeserializeOwned>(
    product: &ProductView<'_>,
    what: &str,
    name: &str,
) -> Result<T, AnalysisError> {
    let value = product.metadata().get(name).unwrap_or(&Value::Null);
    T::deserialize(value).map_err(|error| {
        AnalysisError::new(format!("the metadata of product `{what}` says `{name}` is {value}: {error}"))
    })
}

/// The lengths of the axes of an array with that many.
pub(crate) fn lengths<const N: usize>(
    product: &ProductView<'_>,
    name: &str,
) -> Result<[usize; N], AnalysisError> {
    let shape = product.shape(name)?;
    shape.try_into().map_err(|_| {
        AnalysisError::new(format!("array `{name}` has the shape {shape:?}, not one of {N} axes"))
    })
}

/// Whole numbers, whichever type they are stored in.
pub(crate) fn whole(product: &ProductView<'_>, name: &str) -> Result<Vec<usize>, AnalysisError> {
    let values = product.tensors().tensor(name)?.iter_f64()?;
    // As a float it is what it was: no case has a number beyond 2^53.
    Ok(values.map(|value| value as usize).collect())
}

/// Refuses an array of another length than what it is said to be.
pub(crate) fn fits(what: &str, length: usize, expected: usize) -> Result<(), AnalysisError> {
    if length == expected {
        return Ok(());
    }
    Err(AnalysisError::new(format!("{what} has {length} values where {expected} are expected")))
}

/// Refuses values of which one is not finite.
pub(crate) fn finite(what: &str, mut values: impl Iterator<Item = f64>) -> Result<(), AnalysisError> {
    match values.position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(index) => Err(AnalysisError::new(format!(
            "{what} has at {index} a value that is not finite, which cannot be drawn"
        ))),
    }
}
