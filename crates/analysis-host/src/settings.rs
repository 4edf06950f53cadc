//! Settings of an analysis or a library: defaults from the plugin, values from a user.

use serde_json::{Map, Value};

use crate::error::SettingsError;

/// The defaults with the given values put over them.
///
/// A path may be written as nested objects or with dots. A default fixes the type of its value: an integer takes
/// integers, a float any number, a list elements of the type of its first one; `null` takes anything, and an empty
/// object any keys.
pub(crate) fn resolve(owner: &str, defaults: &Value, given: &Value) -> Result<Value, SettingsError> {
    let mut settings = defaults.clone();
    let Value::Object(entries) = given else {
        if given.is_null() {
            return Ok(settings);
        }
        return Err(type_error(owner, "", "an object", given));
    };
    if let (Value::Object(defaults), Value::Object(target)) = (defaults, &mut settings) {
        put_all(owner, "", defaults, target, entries)?;
    }
    Ok(settings)
}

/// Settings from a command line: each value is text where the default is text, otherwise JSON, otherwise text.
/// Whether there is such a setting is [`resolve`]'s question.
pub(crate) fn from_text(defaults: &Value, sets: &[(String, String)]) -> Value {
    let read = |path: &str, text: &str| {
        let default = path.split('.').try_fold(defaults, |at, step| at.get(step));
        match default.or_else(|| defaults.get(path)) {
            Some(Value::String(_)) => Value::from(text),
            _ => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
        }
    };
    Value::Object(sets.iter().map(|(path, text)| (path.clone(), read(path, text))).collect())
}

fn put_all(
    owner: &str,
    prefix: &str,
    defaults: &Map<String, Value>,
    target: &mut Map<String, Value>,
    given: &Map<String, Value>,
) -> Result<(), SettingsError> {
    for (key, value) in given {
        if let (Some(default), Some(slot)) = (defaults.get(key), target.get_mut(key)) {
            put(owner, &join(prefix, key), default, slot, value)?;
            continue;
        }
        // `a.b = 1` is `a = { b = 1 }`.
        if let Some((head, rest)) = key.split_once('.')
            && let (Some(default @ Value::Object(_)), Some(slot)) = (defaults.get(head), target.get_mut(head))
        {
            let nested = Value::Object(Map::from_iter([(rest.to_owned(), value.clone())]));
            put(owner, &join(prefix, head), default, slot, &nested)?;
            continue;
        }
        let known: Vec<String> = defaults.keys().map(|name| join(prefix, name)).collect();
        let setting = join(prefix, key);
        let nearest = crate::nearest(&setting, known.iter().map(String::as_str));
        return Err(SettingsError::Unknown { owner: owner.to_owned(), setting, nearest, known });
    }
    Ok(())
}

/// Puts one value into its slot; `default` says what it may be.
fn put(
    owner: &str,
    path: &str,
    default: &Value,
    slot: &mut Value,
    value: &Value,
) -> Result<(), SettingsError> {
    match (default, value) {
        (Value::Object(defaults), Value::Object(given)) => {
            if let Value::Object(target) = slot {
                if defaults.is_empty() {
                    target.extend(given.clone());
                } else {
                    put_all(owner, path, defaults, target, given)?;
                }
            }
        }
        (Value::Null, _) | (Value::Bool(_), Value::Bool(_)) | (Value::String(_), Value::String(_)) => {
            *slot = value.clone();
        }
        (Value::Number(number), Value::Number(given)) => {
            *slot = match (number.is_f64(), given.as_f64()) {
                // `threshold = 3` where the default is 1.5.
                (true, Some(float)) => {
                    serde_json::Number::from_f64(float).map_or(value.clone(), Value::Number)
                }
                // `count = 3.0` where the default is 2.
                (false, Some(float)) if given.is_f64() => whole(float)
                    .map(Value::from)
                    .ok_or_else(|| type_error(owner, path, kind(default), value))?,
                _ => value.clone(),
            };
        }
        (Value::Array(elements), Value::Array(given)) => {
            let mut list = given.clone();
            if let Some(first) = elements.first() {
                for (index, (element, given)) in list.iter_mut().zip(given).enumerate() {
                    *element = first.clone();
                    put(owner, &format!("{path}[{index}]"), first, element, given)?;
                }
            }
            *slot = Value::Array(list);
        }
        (default, value) => return Err(type_error(owner, path, kind(default), value)),
    }
    Ok(())
}

/// The integer that a float is, within the range where floats are exact.
fn whole(float: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (float.fract() == 0.0 && float.abs() <= EXACT).then_some(float as i64)
}

fn type_error(owner: &str, path: &str, expected: &str, value: &Value) -> SettingsError {
    let setting = if path.is_empty() { "settings" } else { path };
    SettingsError::Type {
        owner: owner.to_owned(),
        setting: setting.to_owned(),
        expected: expected.to_owned(),
        found: described(value),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.is_f64() => "a number",
        Value::Number(_) => "an integer",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn described(value: &Value) -> String {
    match value {
        // A settings file has no null, and a NaN or an infinity of one has become null in JSON.
        Value::Null => "NaN or infinite (null in JSON)".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) if text.len() <= 40 => format!("the text {value}"),
        other => kind(other).to_owned(),
    }
}

fn join(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ok(defaults: Value, given: Value) -> Value {
        resolve("analysis `a`", &defaults, &given).unwrap()
    }

    fn refused(defaults: Value, given: Value) -> String {
        resolve("analysis `a`", &defaults, &given).unwrap_err().to_string()
    }

    #[test]
    fn defaults_are_filled_in() {
        let defaults = json!({"threshold": 1.5, "names": ["x"], "deep": {"on": true, "n": 2}});
        assert_eq!(ok(defaults.clone(), json!({})), defaults);
        assert_eq!(ok(defaults.clone(), Value::Null), defaults);
        assert_eq!(
            ok(defaults, json!({"threshold": 3, "names": [], "deep": {"n": 4.0}})),
            json!({"threshold": 3.0, "names": [], "deep": {"on": true, "n": 4}})
        );
    }

    #[test]
    fn a_path_may_be_written_with_dots() {
        let defaults = json!({"deep": {"on": true, "deeper": {"n": 2}}, "free": {}});
        assert_eq!(
            ok(defaults, json!({"deep.deeper.n": 7, "deep.on": false, "free.x.y": 1, "free": {"z": 2}})),
            json!({"deep": {"on": false, "deeper": {"n": 7}}, "free": {"x.y": 1, "z": 2}})
        );
    }

    #[test]
    fn text_of_a_command_line_takes_the_type_of_its_default() {
        let defaults = json!({"mode": "nothing", "deep": {"n": 1, "f": 1.0}, "list": ["a"], "on": false});
        let sets = [("mode", "3"), ("deep.n", "7"), ("deep.f", "2"), ("list", "[\"b\"]"), ("on", "true")];
        let sets = sets.map(|(path, text)| (path.to_owned(), text.to_owned()));
        assert_eq!(
            ok(defaults.clone(), from_text(&defaults, &sets)),
            json!({"mode": "3", "deep": {"n": 7, "f": 2.0}, "list": ["b"], "on": true})
        );
        let wrong = from_text(&defaults, &[("deep.n".to_owned(), "many".to_owned())]);
        assert!(refused(defaults, wrong).ends_with("must be an integer, not the text \"many\""));
    }

    #[test]
    fn null_takes_anything() {
        assert_eq!(ok(json!({"limit": null}), json!({"limit": "none"})), json!({"limit": "none"}));
    }

    #[test]
    fn an_unknown_setting_names_the_nearest() {
        assert_eq!(
            refused(json!({"threshold": 1.0}), json!({"treshold": 2.0})),
            "analysis `a` has no setting `treshold`; did you mean `threshold`?"
        );
        assert_eq!(
            refused(json!({}), json!({"x": 1})),
            "analysis `a` has no setting `x`; leave it out: there are no settings to set"
        );
        assert_eq!(
            refused(json!({"one": 1, "two": 2}), json!({"zzzzzzz": 1})),
            "analysis `a` has no setting `zzzzzzz`; it has one, two"
        );
        assert_eq!(
            refused(json!({"deep": {"width": 1}}), json!({"deep.widht": 1})),
            "analysis `a` has no setting `deep.widht`; did you mean `deep.width`?"
        );
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        assert_eq!(
            refused(json!({"on": true}), json!({"on": 1})),
            "setting `on` of analysis `a` must be true or false, not 1"
        );
        assert_eq!(
            refused(json!({"n": 1}), json!({"n": 1.5})),
            "setting `n` of analysis `a` must be an integer, not 1.5"
        );
        assert_eq!(
            refused(json!({"f": 1.0}), json!({"f": f64::NAN})),
            "setting `f` of analysis `a` must be a number, not NaN or infinite (null in JSON)"
        );
        assert_eq!(
            refused(json!({"f": 1.0}), json!({"f": "high"})),
            "setting `f` of analysis `a` must be a number, not the text \"high\""
        );
        assert_eq!(
            refused(json!({"l": ["a"]}), json!({"l": ["b", 2]})),
            "setting `l[1]` of analysis `a` must be text, not 2"
        );
        assert_eq!(
            refused(json!({"o": {"x": 1}}), json!({"o": 1})),
            "setting `o` of analysis `a` must be an object, not 1"
        );
        assert_eq!(
            refused(json!({}), json!([1])),
            "setting `settings` of analysis `a` must be an object, not a list"
        );
    }
}
