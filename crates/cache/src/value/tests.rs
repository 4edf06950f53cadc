use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;

use super::*;

#[derive(Serialize)]
enum Shape {
    Unit,
    New(f64),
    Pair(u8, f64),
    Fields { rate: f64 },
}

#[derive(Serialize)]
struct Settings {
    name: &'static str,
    seed: Option<u64>,
    rates: Vec<f32>,
    shape: Shape,
    table: BTreeMap<u8, (bool, char)>,
}

fn settings(shape: Shape) -> Settings {
    let table = BTreeMap::from([(1, (true, 'x'))]);
    Settings { name: "n", seed: None, rates: vec![0.5], shape, table }
}

#[test]
fn values_are_those_of_serde_json() {
    for shape in [Shape::Unit, Shape::New(1.5), Shape::Pair(1, -0.25), Shape::Fields { rate: 1e300 }] {
        let settings = settings(shape);
        assert_eq!(to_value(&settings).unwrap(), serde_json::to_value(&settings).unwrap());
    }
    let value = json!({"a": [1, -1, 2.5, null, {"b": "c"}], "d": 9_007_199_254_740_991_i64});
    assert_eq!(to_value(&value).unwrap(), value);
}

#[test]
fn what_has_no_canonical_text_is_refused_with_its_path() {
    let refused = |value: &dyn Fn() -> Result<Value, ValueError>| {
        let error = value().unwrap_err();
        (error.path.clone(), error.to_string())
    };
    let (path, text) = refused(&|| to_value(&settings(Shape::New(f64::NAN))));
    assert_eq!((path.as_str(), &text[..22]), ("shape.New", "`shape.New` is NaN, an"));
    let (path, _) = refused(&|| to_value(&settings(Shape::Pair(0, f64::INFINITY))));
    assert_eq!(path, "shape.Pair[1]");
    let (path, text) = refused(&|| to_value(&settings(Shape::Fields { rate: f64::NEG_INFINITY })));
    assert_eq!(path, "shape.Fields.rate");
    assert!(text.contains("minus infinity"));
    let (path, _) = refused(&|| to_value(&Settings { rates: vec![0.0, f32::NAN], ..settings(Shape::Unit) }));
    assert_eq!(path, "rates[1]");
    let (path, _) = refused(&|| to_value(&Settings { seed: Some(u64::MAX), ..settings(Shape::Unit) }));
    assert_eq!(path, "seed");
    let (path, text) = refused(&|| to_value(&json!({"a.b": [[9_007_199_254_740_992_i64]]})));
    assert_eq!(path, "\"a.b\"[0][0]");
    assert!(text.contains("is the integer 9007199254740992"), "{text}");
    let (path, _) = refused(&|| to_value(&-9_007_199_254_740_992_i64));
    assert_eq!(path, "");
    assert!(to_value(&u128::MAX).is_err() && to_value(&i128::MIN).is_err());
    let (_, text) = refused(&|| to_value(&BTreeMap::from([(vec![1], 1)])));
    assert_eq!(text, "the value has a key that is no text");
}

#[test]
fn a_deep_value_is_refused_and_no_danger_to_the_stack() {
    let mut value = Value::Null;
    for _ in 0..MAX_DEPTH {
        value = Value::Array(vec![value]);
    }
    to_value(&value).unwrap();
    for _ in 0..10_000 {
        value = Value::Array(vec![value]);
    }
    assert!(to_value(&value).unwrap_err().problem.contains("deeper than 100"));
    // Its own drop is recursive.
    std::mem::forget(value);
}
