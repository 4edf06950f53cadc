//! What products read of the settings of a study.

use serde_json::Value;
use waycairn_analysis_api::{AnalysisError, Study};
use waycairn_gaussian::settings::{
    CalibrationSettings, InferenceSettings, ParametersSettings, PlottingSettings, PriorDefinitions,
    ProblemSettings, Section, ShowcaseSettings, VerificationSettings,
};
use waycairn_gaussian::{Prior, Problem};

/// The largest whole number that a recipe can hold.
const LARGEST: u64 = (1 << 53) - 1;

/// A count for a recipe. What is larger is refused with its setting, and not for the number.
pub(crate) fn planned(count: u64) -> u64 {
    count.min(LARGEST)
}

/// One value of the training settings, by dotted path.
pub(crate) fn training<'a>(study: &Study<'a>, path: &str) -> Result<&'a Value, AnalysisError> {
    path.split('.').try_fold(study.training, |at, step| at.get(step)).ok_or_else(|| {
        AnalysisError::new(format!(
            "the training has no setting `{path}`: this is of studies of the experiment `nre`; take it out, or set \
             `experiment` = \"nre\""
        ))
    })
}

/// A whole number of the training settings, of at least `least`.
pub(crate) fn count(study: &Study<'_>, path: &str, least: u64) -> Result<u64, AnalysisError> {
    let value = training(study, path)?;
    value.as_u64().filter(|count| *count >= least).ok_or_else(|| {
        AnalysisError::new(format!("`{path}` is {value}; allowed is a whole number of at least {least}"))
    })
}

/// A text of the training settings.
pub(crate) fn text<'a>(study: &Study<'a>, path: &str) -> Result<&'a str, AnalysisError> {
    let value = training(study, path)?;
    value.as_str().ok_or_else(|| AnalysisError::new(format!("`{path}` is {value}; allowed is a text")))
}

/// A section of the training settings.
pub(crate) fn training_section<S: Section>(study: &Study<'_>) -> Result<S, AnalysisError> {
    Ok(S::read(training(study, S::PATH)?)?)
}

/// A section of this library.
pub(crate) fn section<S: Section>(study: &Study<'_>) -> Result<S, AnalysisError> {
    Ok(S::read(study.analysis.get(S::PATH).unwrap_or(&Value::Null))?)
}

/// The problem of a study, and the settings that it and its priors are resolved from.
#[derive(Debug)]
pub(crate) struct Posed {
    settings: ProblemSettings,
    parameters: ParametersSettings,
    pub(crate) problem: Problem,
}

impl Posed {
    pub(crate) fn read(study: &Study<'_>) -> Result<Self, AnalysisError> {
        let (settings, parameters) =
            (training_section::<ProblemSettings>(study)?, training_section::<ParametersSettings>(study)?);
        let problem = Problem::resolve(&settings, &parameters)?;
        // All of the library's sections: a value that only a plot reads is told before hours of work.
        section::<InferenceSettings>(study)?;
        section::<VerificationSettings>(study)?;
        section::<ShowcaseSettings>(study)?;
        section::<CalibrationSettings>(study)?;
        section::<PlottingSettings>(study)?;
        Ok(Self { settings, parameters, problem })
    }

    /// The prior of the member, resolved: nothing of other priors is in it.
    pub(crate) fn prior(&self, study: &Study<'_>) -> Result<Prior, AnalysisError> {
        let name = text(study, "prior")?;
        let definitions = PriorDefinitions::read(training(study, "priors")?)?;
        let definition = definitions.get(name)?;
        Ok(Prior::resolve(name, definition, &self.settings, &self.parameters, &self.problem)?)
    }
}
