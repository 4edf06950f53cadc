//! The settings of a study.

use serde_json::{Map, Value};

use crate::error::ContextError;

/// The values at some dotted paths, and nothing else, nested as they are in the whole.
///
/// # Errors
/// `Invalid` for a path that is not there, with what there is in its place.
pub fn pick<'p>(whole: &Value, paths: impl IntoIterator<Item = &'p str>) -> Result<Value, ContextError> {
    let mut picked = Value::Object(Map::new());
    for path in paths {
        let mut from = whole;
        let mut to = &mut picked;
        for step in path.split('.') {
            from = from.get(step).ok_or_else(|| missing(path, from))?;
            // A path below one that was picked whole is there already.
            let Value::Object(object) = to else { break };
            to = object.entry(step).or_insert_with(|| Value::Object(Map::new()));
        }
        *to = from.clone();
    }
    Ok(picked)
}

fn missing(path: &str, at: &Value) -> ContextError {
    let names: Vec<&str> = at.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let there = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    ContextError::invalid(format!("the study has no setting `{path}`; there it has {there}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_nested_as_in_the_whole_in_any_order() {
        let whole = json!({"a": {"b": {"c": 1, "d": 2}, "e": 3}, "f": 4});
        let of = |paths: &[&str]| pick(&whole, paths.iter().copied()).unwrap();
        assert_eq!(of(&["a.b.c", "f"]), json!({"a": {"b": {"c": 1}}, "f": 4}));
        let all = json!({"a": {"b": {"c": 1, "d": 2}}});
        assert_eq!((of(&["a.b.c", "a.b"]), of(&["a.b", "a.b.c"])), (all.clone(), all));
        assert_eq!(of(&[]), json!({}));
        let refused = |path| pick(&whole, [path]).unwrap_err().to_string();
        assert_eq!(refused("a.x.y"), "the study has no setting `a.x.y`; there it has b, e");
        assert_eq!(refused("f.x"), "the study has no setting `f.x`; there it has nothing");
    }
}
