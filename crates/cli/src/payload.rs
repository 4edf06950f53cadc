//! The payload of an artifact, MessagePack, as JSON.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmpv::Value as Packed;
use waycairn_store::NdArray;

use crate::value::Value;

/// The extension type that holds an n-dimensional array.
const ARRAY: i8 = 1;

/// Turns a payload into JSON. What JSON has no word for is an object with one key that begins with `$`.
pub(crate) fn json(packed: Packed) -> Value {
    match packed {
        Packed::Nil => Value::Null,
        Packed::Boolean(value) => Value::Bool(value),
        Packed::Integer(value) => match value.as_i64() {
            Some(value) => Value::Int(value),
            None => value.as_u64().map_or(Value::Null, Value::Count),
        },
        Packed::F32(value) => Value::Float(widen(value)),
        Packed::F64(value) => Value::Float(value),
        Packed::String(text) => match text.into_str() {
            Some(text) => Value::Text(text),
            None => Value::Null,
        },
        Packed::Binary(bytes) => special("$bytes", Value::Text(STANDARD.encode(bytes))),
        Packed::Array(values) => Value::List(values.into_iter().map(json).collect()),
        Packed::Map(entries) if entries.iter().all(|(key, _)| key.as_str().is_some()) => {
            let field = |(key, value): (Packed, Packed)| {
                (Cow::Owned(key.as_str().unwrap_or_default().to_owned()), json(value))
            };
            Value::Object(entries.into_iter().map(field).collect())
        }
        Packed::Map(entries) => {
            let pairs = entries.into_iter().map(|(key, value)| Value::List(vec![json(key), json(value)]));
            special("$map", Value::List(pairs.collect()))
        }
        Packed::Ext(kind, bytes) => extension(kind, bytes),
    }
}

/// The shortest decimal of a single-precision number, not the long tail of its value in double precision.
fn widen(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| f64::from(value))
}

fn special(key: &'static str, value: Value) -> Value {
    Value::Object(vec![(Cow::Borrowed(key), value)])
}

/// An extension type: an array as `{"$array": {dtype, shape, values}}`, any other as its bytes.
fn extension(kind: i8, bytes: Vec<u8>) -> Value {
    if kind == ARRAY
        && let Some(array) = unpack(&bytes)
    {
        let mut elements = Elements { dtype: array.dtype(), bytes: array.bytes() };
        let shape = array.shape();
        let values = if shape.contains(&0) { Value::List(Vec::new()) } else { nested(shape, &mut elements) };
        let fields = vec![
            ("dtype".into(), Value::from(array.dtype())),
            ("shape".into(), Value::list(shape.iter().copied())),
            ("values".into(), values),
        ];
        return special("$array", Value::Object(fields));
    }
    let fields = vec![
        ("type".into(), Value::Int(i64::from(kind))),
        ("bytes".into(), Value::Text(STANDARD.encode(bytes))),
    ];
    special("$extension", Value::Object(fields))
}

/// Reads `(shape, dtype, bytes)`; what has another form is no array of ours.
fn unpack(mut bytes: &[u8]) -> Option<NdArray> {
    let Packed::Array(parts) = rmpv::decode::read_value(&mut bytes).ok()? else { return None };
    let [Packed::Array(shape), dtype, Packed::Binary(elements)] = <[Packed; 3]>::try_from(parts).ok()? else {
        return None;
    };
    let shape: Vec<u64> = shape.iter().map(Packed::as_u64).collect::<Option<_>>()?;
    NdArray::new(shape, dtype.as_str()?, elements).ok()
}

/// Lists within lists, as deep as the shape is long.
fn nested(shape: &[u64], elements: &mut Elements<'_>) -> Value {
    match shape {
        [] => elements.next(),
        [extent, inner @ ..] => Value::List((0..*extent).map(|_| nested(inner, elements)).collect()),
    }
}

/// The elements of an array, one after another.
struct Elements<'a> {
    dtype: &'a str,
    bytes: &'a [u8],
}

impl Elements<'_> {
    fn next(&mut self) -> Value {
        match self.dtype {
            "bool" => Value::Bool(self.take::<1>() != [0]),
            "int8" => Value::Int(i64::from(i8::from_le_bytes(self.take()))),
            "uint8" => Value::Int(i64::from(u8::from_le_bytes(self.take()))),
            "int16" => Value::Int(i64::from(i16::from_le_bytes(self.take()))),
            "uint16" => Value::Int(i64::from(u16::from_le_bytes(self.take()))),
            "int32" => Value::Int(i64::from(i32::from_le_bytes(self.take()))),
            "uint32" => Value::Int(i64::from(u32::from_le_bytes(self.take()))),
            "int64" => Value::Int(i64::from_le_bytes(self.take())),
            "uint64" => Value::Count(u64::from_le_bytes(self.take())),
            "float16" => Value::Float(half(u16::from_le_bytes(self.take()))),
            "bfloat16" => {
                let high = u32::from(u16::from_le_bytes(self.take())) << 16;
                Value::Float(f64::from(f32::from_bits(high)))
            }
            "float32" => Value::Float(widen(f32::from_le_bytes(self.take()))),
            "float64" => Value::Float(f64::from_le_bytes(self.take())),
            _ => Value::Null,
        }
    }

    /// The next bytes; the array has checked that they fill its shape, so there are always enough.
    fn take<const N: usize>(&mut self) -> [u8; N] {
        match self.bytes.split_first_chunk() {
            Some((element, rest)) => {
                self.bytes = rest;
                *element
            }
            None => [0; N],
        }
    }
}

/// A half-precision number: sign, five bits of exponent, ten of fraction.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let fraction = f64::from(bits & 0x3ff);
    let magnitude = match (bits >> 10) & 0x1f {
        0 => fraction * 2.0_f64.powi(-24),
        0x1f if fraction == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        exponent => (1.0 + fraction / 1024.0) * 2.0_f64.powi(i32::from(exponent) - 15),
    };
    sign * magnitude
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(packed: Packed) -> String {
        serde_json::to_string(&json(packed)).unwrap()
    }

    fn array(shape: &[u64], dtype: &str, elements: &[u8]) -> Packed {
        let shape = Packed::Array(shape.iter().map(|extent| Packed::from(*extent)).collect());
        let parts = Packed::Array(vec![shape, Packed::from(dtype), Packed::Binary(elements.to_vec())]);
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, &parts).unwrap();
        Packed::Ext(ARRAY, bytes)
    }

    #[test]
    fn cli_1_maps_keep_their_order_and_numbers_their_look() {
        let map = vec![
            (Packed::from("z"), Packed::F32(0.1)),
            (Packed::from("a"), Packed::F64(f64::NAN)),
            (Packed::from("n"), Packed::Nil),
        ];
        assert_eq!(text(Packed::Map(map)), r#"{"z":0.1,"a":{"$float":"NaN"},"n":null}"#);
        assert_eq!(text(Packed::Map(vec![(Packed::from(1), Packed::from(2))])), r#"{"$map":[[1,2]]}"#);
        assert_eq!(text(Packed::Binary(vec![1, 2, 3])), r#"{"$bytes":"AQID"}"#);
    }

    #[test]
    fn cli_1_arrays_are_lists_in_lists() {
        let elements: Vec<u8> =
            [1.0_f32, 2.5, 3.0, f32::INFINITY].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(
            text(array(&[2, 2], "float32", &elements)),
            r#"{"$array":{"dtype":"float32","shape":[2,2],"values":[[1,2.5],[3,{"$float":"Infinity"}]]}}"#
        );
        assert_eq!(
            text(array(&[], "int64", &7_i64.to_le_bytes())),
            r#"{"$array":{"dtype":"int64","shape":[],"values":7}}"#
        );
        assert_eq!(
            text(array(&[0, 3], "bool", &[])),
            r#"{"$array":{"dtype":"bool","shape":[0,3],"values":[]}}"#
        );
    }

    #[test]
    fn cli_1_what_is_no_array_is_shown_as_its_bytes() {
        assert_eq!(text(Packed::Ext(1, vec![0xc0])), r#"{"$extension":{"type":1,"bytes":"wA=="}}"#);
        assert_eq!(text(Packed::Ext(9, vec![1])), r#"{"$extension":{"type":9,"bytes":"AQ=="}}"#);
        assert!(text(array(&[2], "float32", &[0; 4])).starts_with(r#"{"$extension""#));
    }

    #[test]
    fn half_precision_is_exact() {
        for (bits, value) in [(0x3c00, 1.0), (0xc000, -2.0), (0x0001, 2.0_f64.powi(-24)), (0x7bff, 65_504.0)]
        {
            assert_eq!(half(bits), value);
        }
        assert!(half(0x7c00).is_infinite() && half(0x7e00).is_nan());
    }
}
