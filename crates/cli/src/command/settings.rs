//! The settings of a run: every one before it is trained, for `waycairn train --show-settings`, and those that one was
//! trained with, for `waycairn show`.

use waycairn_store::{NodeView, ObjectReader};
use waycairn_train::{Key, Settings, Value as Setting, recorded_config};

use crate::context::Context;
use crate::error::CliError;
use crate::output::{Destination, Shape};
use crate::terminal::Terminal;
use crate::value::Value;

/// The settings that a node's run was trained with, as its checkpoint has them, or the newest one of the run: they are
/// the same at every node of a run. `None` where there is no checkpoint to read, or one of another program's
/// experiment.
pub(super) fn recorded(view: &NodeView, reader: &ObjectReader, context: &Context) -> Option<Settings> {
    let (config, text) = recorded_config(reader, &view.node)?;
    let known = context.experiments.describe();
    let read = known
        .into_iter()
        .find_map(|experiment| Settings::defaults(experiment.schema).with_toml(&text, "the settings").ok());
    if read.is_none() {
        tracing::debug!(file = %config.display(), "no experiment of this program has these settings");
    }
    read
}

/// Prints the settings, and trains nothing.
pub(super) fn show(settings: &Settings, format: Shape, context: &Context) -> Result<(), CliError> {
    let mut out = Destination::standard_output();
    match format {
        Shape::Json => out.json(&json(settings))?,
        Shape::Table => {
            let looks = context.looks(&out);
            out.text(&text(settings, &looks))?;
        }
    }
    out.finish()
}

/// The settings in the order of their paths, those without a dot first: a file of settings has no key of its own
/// behind a table's.
pub(super) fn in_order(settings: &Settings) -> impl Iterator<Item = (&Key, &Setting)> {
    let keys = |nested: bool| settings.schema().keys().filter(move |key| key.path().contains('.') == nested);
    keys(false).chain(keys(true)).filter_map(|key| Some((key, settings.get(key.path())?)))
}

/// The stable shape of the settings.
fn json(settings: &Settings) -> Value {
    Value::list(in_order(settings).map(|(key, value)| {
        Value::Object(vec![
            ("path".into(), Value::from(key.path())),
            ("value".into(), plain(value)),
            ("default".into(), plain(key.default_value())),
            ("accepts".into(), Value::Text(key.accepted())),
            ("help".into(), Value::from(key.description())),
        ])
    }))
}

/// Whether a setting is as it is without a word about it. The embedded text has the digest of what it was behind its
/// name, which no default has.
pub(super) fn is_default(key: &Key, value: &Setting) -> bool {
    match (key.default_value(), value) {
        (Setting::Text(default), Setting::Text(value)) if key.path() == "data.source" => {
            value.split(':').next() == Some(default.as_str())
        }
        (default, value) => default == value,
    }
}

pub(super) fn plain(setting: &Setting) -> Value {
    match setting {
        Setting::Integer(value) => Value::Count(*value),
        Setting::Number(value) => Value::Float(*value),
        Setting::Switch(value) => Value::Bool(*value),
        Setting::Text(value) => Value::from(value.as_str()),
        Setting::Pair(pair) => Value::List(pair.iter().map(|number| Value::Float(*number)).collect()),
        Setting::Json(value) => Value::from(value.clone()),
        Setting::Off => Value::from(waycairn_train::OFF),
    }
}

/// The settings as a file that `--settings` reads back, with what each does as a comment above it.
fn text(settings: &Settings, terminal: &Terminal) -> String {
    let mut text = String::new();
    for (key, value) in in_order(settings) {
        let (help, accepted) = (key.description(), key.accepted());
        let comment = format!("# {help} ({accepted}; default {})", written(key.default_value()));
        text.push_str(&format!("{}\n{} = {}\n", terminal.faint(&comment), key.path(), written(value)));
    }
    text
}

/// A value as TOML has it.
pub(super) fn written(setting: &Setting) -> String {
    match setting {
        // TOML knows every escape of a JSON string.
        Setting::Text(value) => serde_json::Value::from(value.as_str()).to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use waycairn_train::{Experiments, Gpt, TrainRequest};

    use super::*;

    fn settings(sets: &[(&str, &str)]) -> Settings {
        let mut request = TrainRequest::new("no-such-root");
        request.sets = sets.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
        waycairn_train::settings(&Experiments::new().with(Gpt), &request).unwrap()
    }

    #[test]
    fn cli_1_a_row_of_the_settings() {
        let text = serde_json::to_string(&json(&settings(&[("learning_rate", "0.5"), ("clip", "off")])));
        let text = text.unwrap();
        for row in [
            r#"{"path":"learning_rate","value":0.5,"default":0.002,"accepts":"a number of at least 0","help":"peak"#,
            r#"{"path":"clip","value":"off","default":1,"accepts":"a number above 0, or \"off\"","#,
            r#"{"path":"betas","value":[0.9,0.99],"default":[0.9,0.99],"#,
            r#"{"path":"model.tied","value":true,"default":true,"accepts":"true or false","#,
        ] {
            assert!(text.contains(row), "{row}\n{text}");
        }
    }

    #[test]
    fn the_text_is_a_file_of_settings() {
        let ours = settings(&[("learning_rate", "1e-5"), ("data.source", r#"a "b"	c"#)]);
        let text = text(&ours, &Terminal::plain());
        assert!(text.contains(
            "# peak learning rate (a number of at least 0; default 0.002)\nlearning_rate = 1e-5\n"
        ));
        let read = Settings::defaults(ours.schema().clone()).with_toml(&text, "the text").unwrap();
        assert_eq!(read.differences(&ours), []);
        assert!(!std::path::Path::new("no-such-root").exists());
    }
}
