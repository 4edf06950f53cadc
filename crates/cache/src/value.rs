//! What may stand in a recipe, in metadata and in a JSON member: JSON whose numbers are doubles.

use std::fmt::{self, Write as _};

use serde::ser::{
    self, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::{Map, Number, Value};
use thiserror::Error;

/// The largest integer up to which every integer is a double.
const MAX_INTEGER: u64 = (1 << 53) - 1;

/// How deep lists and maps may lie in each other; JSON readers stop at 128.
pub(crate) const MAX_DEPTH: usize = 100;

/// Turns something into JSON, and refuses what RFC 8785 has no text for: NaN, infinities, and integers beyond plus or
/// minus 2^53 - 1. (`serde_json` alone turns NaN into null without a word.)
///
/// ```
/// # use waycairn_cache::to_value;
/// let rates = std::collections::BTreeMap::from([("rates", vec![0.1, f64::NAN])]);
/// let error = to_value(&rates).unwrap_err();
/// assert_eq!(error.to_string(), "`rates[1]` is NaN, and only finite numbers can be written");
/// ```
///
/// # Errors
///
/// [`ValueError`] says where and what.
pub fn to_value<T: Serialize + ?Sized>(value: &T) -> Result<Value, ValueError> {
    value.serialize(Strict { depth: 0 })
}

/// Says what in a value has no canonical text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{} {problem}", named(path))]
pub struct ValueError {
    /// Where it is, as a dotted path: `settings.rates[1]`. Empty when it is the value itself.
    pub path: String,
    /// What is wrong, and what is allowed.
    pub problem: String,
}

fn named(path: &str) -> String {
    if path.is_empty() { "the value".to_owned() } else { format!("`{}`", path.escape_debug()) }
}

impl ValueError {
    fn new(problem: impl Into<String>) -> Self {
        Self { path: String::new(), problem: problem.into() }
    }

    /// The same, one key further out.
    pub(crate) fn below_key(mut self, key: &str) -> Self {
        let mut path = key_text(key);
        if !self.path.is_empty() && !self.path.starts_with('[') {
            path.push('.');
        }
        path.push_str(&self.path);
        self.path = path;
        self
    }

    /// The same, one place of a list further out.
    pub(crate) fn below_index(mut self, index: usize) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("[{index}]{dot}{}", self.path);
        self
    }
}

impl ser::Error for ValueError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(format!("cannot be written: {message}"))
    }
}

/// A key in a dotted path: quoted when it holds what would be taken for the path itself.
fn key_text(key: &str) -> String {
    let plain = !key.is_empty() && !key.contains(['.', '[', ']', '"', ' ']);
    if plain { key.to_owned() } else { format!("{key:?}") }
}

/// Adds a key to a dotted path.
pub(crate) fn push_key(path: &str, key: &str) -> String {
    let dot = if path.is_empty() { "" } else { "." };
    format!("{path}{dot}{}", key_text(key))
}

/// Adds a place in a list to a dotted path.
pub(crate) fn push_index(path: &str, index: usize) -> String {
    let mut path = path.to_owned();
    // Writing to a string cannot fail.
    let _ = write!(path, "[{index}]");
    path
}

/// Builds a [`Value`], and refuses.
#[derive(Clone, Copy)]
struct Strict {
    depth: usize,
}

impl Strict {
    fn deeper(self) -> Result<Self, ValueError> {
        if self.depth >= MAX_DEPTH {
            return Err(too_deep());
        }
        Ok(Self { depth: self.depth + 1 })
    }
}

/// Refuses an integer that is not exact as a double.
pub(crate) fn integer(magnitude: u128, text: impl fmt::Display) -> Result<(), ValueError> {
    if magnitude <= u128::from(MAX_INTEGER) {
        return Ok(());
    }
    Err(ValueError::new(format!(
        "is the integer {text}, and only those up to {MAX_INTEGER} (2^53 - 1) are exact in every reader; write it as a text"
    )))
}

pub(crate) fn too_deep() -> ValueError {
    let problem = format!("lies deeper than {MAX_DEPTH} lists and maps, and no reader would follow");
    ValueError::new(problem)
}

fn float(value: f64) -> Result<Value, ValueError> {
    let kind = match value {
        value if value.is_nan() => "NaN",
        f64::INFINITY => "infinite",
        f64::NEG_INFINITY => "minus infinity",
        value => return Ok(Number::from_f64(value).map_or(Value::Null, Value::Number)),
    };
    Err(ValueError::new(format!("is {kind}, and only finite numbers can be written")))
}

impl Serializer for Strict {
    type Ok = Value;
    type Error = ValueError;
    type SerializeSeq = List;
    type SerializeTuple = List;
    type SerializeTupleStruct = List;
    type SerializeTupleVariant = List;
    type SerializeMap = Object;
    type SerializeStruct = Object;
    type SerializeStructVariant = Object;

    fn serialize_bool(self, value: bool) -> Result<Value, ValueError> {
        Ok(Value::Bool(value))
    }

    fn serialize_i8(self, value: i8) -> Result<Value, ValueError> {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<Value, ValueError> {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<Value, ValueError> {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<Value, ValueError> {
        integer(value.unsigned_abs().into(), value)?;
        Ok(Value::from(value))
    }

    fn serialize_i128(self, value: i128) -> Result<Value, ValueError> {
        integer(value.unsigned_abs(), value)?;
        i64::try_from(value).map(Value::from).map_err(ser::Error::custom)
    }

    fn serialize_u8(self, value: u8) -> Result<Value, ValueError> {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<Value, ValueError> {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<Value, ValueError> {
        self.serialize_u64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<Value, ValueError> {
        integer(value.into(), value)?;
        Ok(Value::from(value))
    }

    fn serialize_u128(self, value: u128) -> Result<Value, ValueError> {
        integer(value, value)?;
        u64::try_from(value).map(Value::from).map_err(ser::Error::custom)
    }

    fn serialize_f32(self, value: f32) -> Result<Value, ValueError> {
        float(value.into())
    }

    fn serialize_f64(self, value: f64) -> Result<Value, ValueError> {
        float(value)
    }

    fn serialize_char(self, value: char) -> Result<Value, ValueError> {
        Ok(Value::String(value.into()))
    }

    fn serialize_str(self, value: &str) -> Result<Value, ValueError> {
        Ok(Value::String(value.to_owned()))
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<Value, ValueError> {
        Ok(Value::Array(value.iter().map(|&byte| Value::from(byte)).collect()))
    }

    fn serialize_none(self) -> Result<Value, ValueError> {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value, ValueError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Value, ValueError> {
        Ok(Value::Null)
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<Value, ValueError> {
        Ok(Value::Null)
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<Value, ValueError> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<Value, ValueError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Value, ValueError> {
        let inner = value.serialize(self.deeper()?).map_err(|error| error.below_key(variant))?;
        Ok(Value::Object(Map::from_iter([(variant.to_owned(), inner)])))
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<List, ValueError> {
        Ok(List { values: Vec::new(), variant: None, strict: self.deeper()? })
    }

    fn serialize_tuple(self, length: usize) -> Result<List, ValueError> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_struct(self, _name: &'static str, length: usize) -> Result<List, ValueError> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<List, ValueError> {
        Ok(List { values: Vec::new(), variant: Some(variant), strict: self.deeper()?.deeper()? })
    }

    fn serialize_map(self, _length: Option<usize>) -> Result<Object, ValueError> {
        Ok(Object { values: Map::new(), key: None, variant: None, strict: self.deeper()? })
    }

    fn serialize_struct(self, _name: &'static str, length: usize) -> Result<Object, ValueError> {
        self.serialize_map(Some(length))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<Object, ValueError> {
        let strict = self.deeper()?.deeper()?;
        Ok(Object { values: Map::new(), key: None, variant: Some(variant), strict })
    }
}

/// A list, or the content of a variant that is one.
struct List {
    values: Vec<Value>,
    variant: Option<&'static str>,
    strict: Strict,
}

impl List {
    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), ValueError> {
        let index = self.values.len();
        let value = value.serialize(self.strict).map_err(|error| {
            let error = error.below_index(index);
            self.variant.map_or(error.clone(), |variant| error.below_key(variant))
        })?;
        self.values.push(value);
        Ok(())
    }

    fn finish(self) -> Value {
        tagged(self.variant, Value::Array(self.values))
    }
}

fn tagged(variant: Option<&str>, value: Value) -> Value {
    match variant {
        None => value,
        Some(variant) => Value::Object(Map::from_iter([(variant.to_owned(), value)])),
    }
}

/// The traits of serde that differ in the names of their methods alone.
macro_rules! lists {
    ($($kind:ident::$add:ident),*) => { $(
        impl $kind for List {
            type Ok = Value;
            type Error = ValueError;

            fn $add<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), ValueError> {
                self.push(value)
            }

            fn end(self) -> Result<Value, ValueError> {
                Ok(self.finish())
            }
        }
    )* };
}

lists!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);

/// A map, or the content of a variant that has fields.
struct Object {
    values: Map<String, Value>,
    key: Option<String>,
    variant: Option<&'static str>,
    strict: Strict,
}

impl Object {
    fn insert<T: Serialize + ?Sized>(&mut self, key: String, value: &T) -> Result<(), ValueError> {
        let below = |error: ValueError| {
            let error = error.below_key(&key);
            self.variant.map_or(error.clone(), |variant| error.below_key(variant))
        };
        let value = value.serialize(self.strict).map_err(below)?;
        if self.values.insert(key.clone(), value).is_some() {
            return Err(ValueError::new("is there twice").below_key(&key));
        }
        Ok(())
    }

    fn finish(self) -> Value {
        tagged(self.variant, Value::Object(self.values))
    }
}

impl SerializeMap for Object {
    type Ok = Value;
    type Error = ValueError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), ValueError> {
        self.key = Some(match key.serialize(self.strict)? {
            Value::String(key) => key,
            Value::Number(number) if !number.is_f64() => number.to_string(),
            Value::Bool(key) => key.to_string(),
            _ => return Err(ValueError::new("has a key that is no text")),
        });
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), ValueError> {
        let key = self.key.take().ok_or_else(|| ValueError::new("has a value without a key"))?;
        self.insert(key, value)
    }

    fn end(self) -> Result<Value, ValueError> {
        Ok(self.finish())
    }
}

/// As with lists: their methods are even called alike.
macro_rules! structs {
    ($($kind:ident),*) => { $(
        impl $kind for Object {
            type Ok = Value;
            type Error = ValueError;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), ValueError> {
                self.insert(key.to_owned(), value)
            }

            fn end(self) -> Result<Value, ValueError> {
                Ok(self.finish())
            }
        }
    )* };
}

structs!(SerializeStruct, SerializeStructVariant);

#[cfg(test)]
mod tests;
