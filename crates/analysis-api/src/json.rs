//! JSON text of an author's value, without the numbers that JSON does not have.

use std::fmt;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::error::ContextError;

/// The value as JSON. `serde_json` makes null of NaN and of infinities, and a reader could not tell it from a value that
/// is not there; so the value goes through MessagePack, which has them.
///
/// # Errors
/// `Invalid` for such a number, with its path, and for a value that does not serialise.
pub(crate) fn to_value(what: &str, value: &(impl Serialize + ?Sized)) -> Result<Value, ContextError> {
    let invalid = |text: String| ContextError::invalid(format!("{what} is no JSON: {text}"));
    let mut bytes = Vec::new();
    let mut serializer = rmp_serde::Serializer::new(&mut bytes).with_struct_map().with_human_readable();
    value.serialize(&mut serializer).map_err(|error| invalid(error.to_string()))?;
    let mut reader = rmp_serde::Deserializer::new(bytes.as_slice()).with_human_readable();
    let tree = Tree::deserialize(&mut reader).map_err(|error| invalid(error.to_string()))?;
    tree.into_value("").map_err(invalid)
}

/// As [`to_value`], as text.
pub(crate) fn to_text(what: &str, value: &(impl Serialize + ?Sized)) -> Result<String, ContextError> {
    to_value(what, value).map(|value| value.to_string())
}

/// A value as it was serialised, floats of every kind included.
enum Tree {
    Plain(Value),
    Float(f64),
    List(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

impl Tree {
    fn into_value(self, path: &str) -> Result<Value, String> {
        match self {
            Tree::Plain(value) => Ok(value),
            Tree::Float(float) => Number::from_f64(float).map(Value::Number).ok_or_else(|| {
                let place = if path.is_empty() { "it" } else { path };
                format!("{place} is {float}; leave it out, or write null for what is undefined")
            }),
            Tree::List(items) => {
                let items = items.into_iter().enumerate();
                items.map(|(index, item)| item.into_value(&format!("{path}[{index}]"))).collect()
            }
            Tree::Object(entries) => {
                let mut object = Map::new();
                for (key, item) in entries {
                    let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    object.insert(key, item.into_value(&inner)?);
                }
                Ok(Value::Object(object))
            }
        }
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("what JSON has")
    }

    fn visit_unit<E: Error>(self) -> Result<Tree, E> {
        Ok(Tree::Plain(Value::Null))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Plain(value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Plain(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Plain(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Plain(value.into()))
    }

    fn visit_bytes<E: Error>(self, value: &[u8]) -> Result<Tree, E> {
        Ok(Tree::Plain(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, item)) = access.next_entry::<Tree, Tree>()? {
            let key = match key {
                Tree::Plain(Value::String(text)) => text,
                Tree::Plain(plain @ (Value::Bool(_) | Value::Number(_))) => plain.to_string(),
                _ => return Err(Error::custom("a key is neither text nor a whole number")),
            };
            entries.push((key, item));
        }
        Ok(Tree::Object(entries))
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[derive(Serialize)]
    enum Shape {
        Unit,
        New(u8),
        Pair(u8, f32),
        Named { x: Option<f64> },
    }

    #[derive(Serialize)]
    struct Everything {
        shapes: Vec<Shape>,
        numbers: (i64, u64, f64, i8),
        map: BTreeMap<i32, char>,
        value: Value,
        unit: (),
    }

    #[test]
    fn a_finite_value_is_what_serde_json_makes_of_it() {
        let everything = Everything {
            shapes: vec![Shape::Unit, Shape::New(3), Shape::Pair(1, 0.5), Shape::Named { x: None }],
            numbers: (i64::MIN, u64::MAX, 1.0, -3),
            map: BTreeMap::from([(-7, 'x'), (8, '\u{e9}')]),
            value: json!({"deep": [1, 2.5, {"n": null}], "t": true}),
            unit: (),
        };
        assert_eq!(to_value("it", &everything).unwrap(), serde_json::to_value(&everything).unwrap());
        assert_eq!(to_text("it", "text").unwrap(), "\"text\"");
        assert_eq!(to_value("it", &vec![0.1_f32]).unwrap(), serde_json::to_value(vec![0.1_f32]).unwrap());
    }

    #[test]
    fn a_number_that_json_does_not_have_is_refused_with_its_path() {
        let refused = |value: f64| {
            let nested = BTreeMap::from([("auc", vec![BTreeMap::from([("mean", value)])])]);
            to_text("the metric", &nested).unwrap_err().to_string()
        };
        assert_eq!(
            refused(f64::NAN),
            "the metric is no JSON: auc[0].mean is NaN; leave it out, or write null for what is undefined"
        );
        assert!(refused(f64::NEG_INFINITY).contains("auc[0].mean is -inf"));
        assert!(to_text("it", &f32::INFINITY).unwrap_err().to_string().contains("it is inf"));
    }
}
