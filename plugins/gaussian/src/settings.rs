//! The sections that the library adds to the settings of a study: those of the mathematics, with its defaults.

use serde::Serialize;
use serde_json::{Map, Value};
use waycairn_gaussian::settings::{
    CalibrationSettings, InferenceSettings, PlottingSettings, Section, ShowcaseSettings, VerificationSettings,
};

/// The names of the sections.
const SECTIONS: [&str; 5] = [
    InferenceSettings::PATH,
    VerificationSettings::PATH,
    ShowcaseSettings::PATH,
    CalibrationSettings::PATH,
    PlottingSettings::PATH,
];

/// All sections with their defaults.
pub(crate) fn defaults() -> Value {
    let values = [
        json(InferenceSettings::default()),
        json(VerificationSettings::default()),
        json(ShowcaseSettings::default()),
        json(CalibrationSettings::default()),
        json(PlottingSettings::default()),
    ];
    let sections: Map<String, Value> = SECTIONS.map(str::to_owned).into_iter().zip(values).collect();
    Value::Object(sections)
}

/// A section as JSON. One that were none would be refused by the host, with the section named.
fn json(section: impl Serialize) -> Value {
    serde_json::to_value(section).unwrap_or_default()
}
